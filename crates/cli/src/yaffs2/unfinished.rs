//! An image that is being made: nothing has its name before it is whole.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{ErrorKind, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// An image beside its place, in a folder that goes with this unless the process is killed. What that leaves behind is
/// in nobody's way.
pub struct Unfinished {
    file: PathBuf,
    folder: Folder,
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An image that is written to a file without a name, which goes with the process; or beside its place where the file
/// system has no such files.
pub enum Nameless {
    /// Without a name: what is written, and what it is to be called.
    Nowhere(File, PathBuf),
    /// In a folder.
    Beside(Unfinished),
}

impl Nameless {
    /// One of what is to be `file`, and where to write it.
    pub fn create(file: &Path) -> Result<(Nameless, File)> {
        let failed = || format!("cannot create {}", file.display());
        let (flags, mode) = (OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        if let Ok(nameless) = rustix::fs::open(parent(file), flags, mode) {
            let nameless = File::from(nameless);
            // Its name comes by way of /proc.
            if by_number(&nameless).exists() {
                let out = nameless.try_clone().user(failed)?;
                return Ok((Nameless::Nowhere(nameless, file.to_owned()), out));
            }
        }
        let beside = Unfinished::beside(file)?;
        let out = File::create_new(beside.path()).user(failed)?;
        Ok((Nameless::Beside(beside), out))
    }

    /// The folder that it is made in, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Nameless::Nowhere(..) => None,
            Nameless::Beside(beside) => Some(&beside.folder.0),
        }
    }

    /// Gives it its name; in the place of another file only if `replace` says so.
    pub fn finish(self, replace: bool) -> Result<()> {
        self.finish_by(replace, |made, to| rustix::fs::linkat(CWD, by_number(made), CWD, to, AtFlags::SYMLINK_FOLLOW))
    }

    fn finish_by(self, replace: bool, link: impl Fn(&File, &Path) -> rustix::io::Result<()>) -> Result<()> {
        let (mut made, file) = match self {
            Nameless::Beside(beside) => return beside.finish(replace),
            Nameless::Nowhere(made, file) => (made, file),
        };
        match link(&made, &file) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) if !replace => Err(exists(&file)),
            // No call puts one without a name in the place of another; and not everywhere can it get one.
            Err(_) => {
                let beside = Unfinished::beside(&file)?;
                if link(&made, &beside.path()).is_err() {
                    let failed = || format!("cannot create {}", file.display());
                    made.rewind().user(failed)?;
                    let mut copy = File::create_new(beside.path()).user(failed)?;
                    std::io::copy(&mut made, &mut copy).user(failed)?;
                }
                beside.finish(replace)
            }
        }
    }
}

fn by_number(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn exists(file: &Path) -> Error {
    Error::user(format!("{} exists", file.display())).hint("--force overwrites it")
}

impl Unfinished {
    /// One of what is to be `file`.
    pub fn beside(file: &Path) -> Result<Unfinished> {
        let failed = || format!("cannot create {}", file.display());
        let name = file.file_name().ok_or_else(|| Error::user(failed()).hint("end the path with a file's name"))?;
        let mut prefix = name.to_owned();
        prefix.push(".");
        // Errors of a TempDir name the folder that could not be made, which nobody has asked for, and hide the cause.
        let make = |path: &Path| fs::create_dir(path);
        let made = tempfile::Builder::new().prefix(&prefix).suffix(".new").make_in(parent(file), make).user(failed)?;
        let folder = made.into_temp_path().keep().user(failed)?;
        Ok(Unfinished { file: file.to_owned(), folder: Folder(folder) })
    }

    /// Where it is made.
    pub fn path(&self) -> PathBuf {
        self.folder.0.join("image")
    }

    /// Gives it its name; in the place of another file only if `replace` says so.
    pub fn finish(self, replace: bool) -> Result<()> {
        let made = TempPath::try_from_path(self.path()).user(|| format!("cannot create {}", self.file.display()))?;
        let named = if replace { made.persist(&self.file) } else { made.persist_noclobber(&self.file) };
        match named.map_err(|e| e.error) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(exists(&self.file)),
            outcome => outcome.user(|| format!("cannot create {}", self.file.display())),
        }
    }
}

/// The folder that a file is in.
pub fn parent(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn nothing_is_left_of_an_image_whose_writer_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.img");
        let begin = || {
            let (made, mut out) = Nameless::create(&file).unwrap();
            out.write_all(b"whole").unwrap();
            made
        };
        let left = || fs::read_dir(folder.path()).unwrap().count();
        let killed = begin();
        if killed.folder().is_none() {
            assert_eq!(left(), 0);
        }
        drop(killed);
        begin().finish(false).unwrap();
        assert_eq!((fs::read(&file).unwrap(), left()), (b"whole".to_vec(), 1));
        fs::write(&file, "another").unwrap();
        assert!(begin().finish(false).unwrap_err().cure().unwrap().contains("--force"));
        assert_eq!((fs::read(&file).unwrap(), left()), (b"another".to_vec(), 1));
        begin().finish(true).unwrap();
        assert_eq!((fs::read(&file).unwrap(), left()), (b"whole".to_vec(), 1));
        let error = Nameless::create(&folder.path().join("no/b.img")).err().unwrap();
        assert!(!error.chain().contains(".new") && error.chain().contains("os error"), "{}", error.chain());
    }

    #[test]
    fn an_image_that_cannot_be_linked_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.img");
        let unlinked = |replace| {
            let (made, mut out) = Nameless::create(&file).unwrap();
            out.write_all(b"whole").unwrap();
            made.finish_by(replace, |_, _| Err(Errno::PERM))
        };
        unlinked(false).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"whole");
        fs::write(&file, "another").unwrap();
        assert!(unlinked(false).unwrap_err().cure().unwrap().contains("--force"));
        assert_eq!(fs::read(&file).unwrap(), b"another");
        unlinked(true).unwrap();
        assert_eq!((fs::read(&file).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (b"whole".to_vec(), 1));
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_takes_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.img");
        let begin = || {
            let unfinished = Unfinished::beside(&file).unwrap();
            fs::write(unfinished.path(), "whole").unwrap();
            unfinished
        };
        let left = || fs::read_dir(folder.path()).unwrap().count();
        drop(begin());
        assert_eq!(left(), 0);
        // As one that was killed leaves it.
        std::mem::forget(begin());
        begin().finish(false).unwrap();
        assert_eq!((fs::read(&file).unwrap(), left()), (b"whole".to_vec(), 2));
        fs::write(&file, "another").unwrap();
        assert!(begin().finish(false).unwrap_err().cure().unwrap().contains("--force"));
        assert_eq!((fs::read(&file).unwrap(), left()), (b"another".to_vec(), 2));
        begin().finish(true).unwrap();
        assert_eq!((fs::read(&file).unwrap(), left()), (b"whole".to_vec(), 2));
    }
}
