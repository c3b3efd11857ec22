//! A file whose lock goes with it.

use crate::marked;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Deref;
use std::os::fd::AsFd;

/// A file that is unlocked when it is dropped. Closing it is not enough: a child process that another thread is just
/// starting has a copy of the descriptor until it runs its program, and would hold the lock that long.
pub(crate) struct LockedFile(File);

impl LockedFile {
    /// A file that nobody has locked yet.
    pub(crate) fn new(file: File) -> LockedFile {
        LockedFile(file)
    }

    /// Locks it against writers, or against everyone who locks it.
    ///
    /// # Errors
    /// `Errno::WOULDBLOCK` if another open file is in the way, or [marked](crate::marked) parts of it are mapped; what
    /// flock(2) says.
    pub(crate) fn lock(&self, exclusive: bool) -> Result<(), Errno> {
        let how =
            if exclusive { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
        flock(&self.0, how)?;
        // Where such locks cannot be had, nobody has a mark.
        match marked::is_marked(self.0.as_fd(), None) {
            Ok(true) => {
                flock(&self.0, FlockOperation::Unlock)?;
                Err(Errno::WOULDBLOCK)
            }
            _ => Ok(()),
        }
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // What was not locked stays so.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let first = LockedFile::new(File::create_new(&path).unwrap());
        first.lock(true).unwrap();
        let second = LockedFile::new(File::open(&path).unwrap());
        assert_eq!(second.lock(true), Err(Errno::WOULDBLOCK));
        // As a child has it between fork and exec.
        let copy = first.try_clone().unwrap();
        drop(first);
        second.lock(true).unwrap();
        drop(copy);
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn what_others_have_mapped_cannot_be_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let first = LockedFile::new(File::create_new(&path).unwrap());
        first.lock(true).unwrap();
        let other = File::open(&path).unwrap();
        marked::mark(other.as_fd(), 3).unwrap();
        drop(first);
        let second = LockedFile::new(File::open(&path).unwrap());
        assert_eq!(second.lock(true), Err(Errno::WOULDBLOCK));
        assert_eq!(second.lock(false), Err(Errno::WOULDBLOCK));
        drop(other);
        second.lock(true).unwrap();
    }
}
