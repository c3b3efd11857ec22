//! What programs write to files and have not committed yet.

use pocketstone_lease::batch::NAME;
use pocketstone_vfs::{Error, Ino, Result, Staging};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// From no more files anything is kept back at a time: each may take as much memory as a record of the volume's
/// journal.
const FILES_MAX: usize = 64;

/// Whether an extended attribute is the way of changes in one message.
pub(crate) fn is_batch(name: &[u8]) -> bool {
    name == NAME.as_bytes()
}

/// What a process writes to a file before it commits.
pub(crate) struct Kept {
    /// The process's number.
    owner: u32,
    pub staging: Staging,
    /// It was more than can be made at once: it can be given up only.
    pub is_too_much: bool,
}

/// What is kept back from files.
#[derive(Default)]
pub(crate) struct Atomic {
    files: Mutex<HashMap<Ino, Kept>>,
    /// How many those are.
    number: AtomicUsize,
}

impl Atomic {
    fn files(&self) -> MutexGuard<'_, HashMap<Ino, Kept>> {
        // Every change leaves it whole.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.number.load(Ordering::Acquire) == 0
    }

    fn counted(&self, files: &HashMap<Ino, Kept>) {
        self.number.store(files.len(), Ordering::Release);
    }

    /// From here on what is written to a file is kept back for a process.
    pub fn begin(&self, ino: Ino, owner: u32) -> Result<()> {
        let mut files = self.files();
        if files.get(&ino).map_or(files.len() >= FILES_MAX, |kept| kept.owner != owner) {
            return Err(Error::Busy);
        }
        files.entry(ino).or_insert(Kept { owner, staging: Staging::default(), is_too_much: false });
        self.counted(&files);
        Ok(())
    }

    /// Ends what a process began, if `how` it ends succeeds; `Invalid` if it began nothing.
    pub fn end(&self, ino: Ino, owner: u32, how: impl FnOnce(&mut Kept) -> Result<()>) -> Result<()> {
        if self.is_empty() {
            return Err(Error::Invalid);
        }
        let mut files = self.files();
        how(files.get_mut(&ino).filter(|kept| kept.owner == owner).ok_or(Error::Invalid)?)?;
        files.remove(&ino);
        self.counted(&files);
        Ok(())
    }

    /// Does something to what is kept back from a file; `None`: nothing is.
    pub fn with<T>(&self, ino: Ino, f: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        if self.is_empty() { None } else { self.files().get_mut(&ino).map(f) }
    }

    /// Forgets what is kept back from a file; whether anything was.
    pub fn forgotten(&self, ino: Ino) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut files = self.files();
        let was = files.remove(&ino).is_some();
        self.counted(&files);
        was
    }

    pub fn keeps(&self, ino: Ino) -> bool {
        self.with(ino, |_| ()).is_some()
    }
}
