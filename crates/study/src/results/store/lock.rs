//! The right to write to a run's folder: two commands that add to the same results would do everything twice.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Its file in the folder, which says who has the right. It is there as long as somebody has.
pub(super) const FILE: &str = "in-use";

/// The right to write to a folder, until it is dropped or the process ends, however it does.
#[derive(Debug)]
pub(super) struct RunLock {
    path: PathBuf,
    _file: File,
}

impl RunLock {
    /// Takes it.
    ///
    /// # Errors
    /// `ErrorKind::User` if another process holds it; the message names that process.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let failed = || format!("cannot write to {} (is the disk full?)", folder.display());
        loop {
            let options = || File::options().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = options().user(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(held(folder, &mut file)),
                Err(e) => return Err(Error::user(format!("cannot lock {}", path.display())).because(e)),
            }
            // Who had it before may have removed this very file.
            let same = |there: fs::Metadata| file.metadata().is_ok_and(|m| m.ino() == there.ino());
            if !fs::metadata(&path).is_ok_and(same) {
                continue;
            }
            let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            file.set_len(0).user(failed)?;
            writeln!(file, "process {}: {}", std::process::id(), words.join(" ")).user(failed)?;
            return Ok(RunLock { path, _file: file });
        }
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // Still locked: nobody else has this file, and whoever waits for it looks again.
        let _ = fs::remove_file(&self.path);
    }
}

fn held(folder: &Path, file: &mut File) -> Error {
    let mut who = String::new();
    let _ = file.read_to_string(&mut who);
    let who = if who.trim().is_empty() { "another process" } else { who.trim() };
    Error::user(format!("{} is in use by {who}", folder.display()))
        .hint("wait until it has finished, or stop it: measured cells are kept")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_the_other_is_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunLock::take(folder.path()).unwrap();
        let error = RunLock::take(folder.path()).unwrap_err();
        assert!(error.message().contains(&format!("process {}", std::process::id())), "{}", error.message());
        drop(first);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // What a killed process leaves is no obstacle.
        fs::write(folder.path().join(FILE), "process 1: long gone, with a long name of its command\n").unwrap();
        let _second = RunLock::take(folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_eq!(text.lines().count(), 1);
    }
}
