//! An image that is being made: nothing has its name before it is whole.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, TempPath};

/// An image beside its place, in a folder that goes with this unless the process is killed. What that leaves behind is
/// in nobody's way.
pub struct Unfinished {
    file: PathBuf,
    folder: TempDir,
}

impl Unfinished {
    /// One of what is to be `file`.
    pub fn beside(file: &Path) -> Result<Unfinished> {
        let failed = || format!("cannot create {}", file.display());
        let name = file.file_name().ok_or_else(|| Error::user(failed()).hint("end the path with a file's name"))?;
        let mut prefix = name.to_owned();
        prefix.push(".");
        let parent = parent(file);
        let folder = tempfile::Builder::new().prefix(&prefix).suffix(".new").tempdir_in(parent).user(failed)?;
        Ok(Unfinished { file: file.to_owned(), folder })
    }

    /// The folder that it is made in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where it is made.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Gives it its name; in the place of another file only if `replace` says so.
    pub fn finish(self, replace: bool) -> Result<()> {
        let made = TempPath::try_from_path(self.path()).user(|| format!("cannot create {}", self.file.display()))?;
        let named = if replace { made.persist(&self.file) } else { made.persist_noclobber(&self.file) };
        match named.map_err(|e| e.error) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                Err(Error::user(format!("{} exists", self.file.display())).hint("--force overwrites it"))
            }
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
    use std::fs;

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
