//! What a process remembers of the files that it used lately, to ask the server less.

use crate::memory::Pairs;
use crate::table::File;
use rustix::io::Result;
use std::sync::atomic::Ordering;

/// Files that were asked for, by inode number: of each its key, and the number of its entry.
pub(crate) struct Recent(Pairs<FILES>);

/// So many: more than most programs use at a time, in 64 KiB that are there once they are needed.
const FILES: usize = 4096;

impl Recent {
    pub fn new() -> Result<Recent> {
        Pairs::new().map(Recent)
    }

    pub fn remember(&self, ino: u64, file: File) {
        let (key, index) = self.0.of(ino);
        index.store(file.index.into(), Ordering::Relaxed);
        key.store(file.key, Ordering::Relaxed);
    }

    /// What was remembered of an inode number. It is the file still if the entry has that key; half of what was
    /// remembered of another file is none that has it.
    pub fn of(&self, ino: u64) -> Option<File> {
        let (key, index) = self.0.of(ino);
        let (key, index) = (key.load(Ordering::Relaxed), index.load(Ordering::Relaxed));
        // The lower half of a key is the inode number, which is never 0.
        (key & u64::from(u32::MAX) == ino).then_some(File { key, index: u32::try_from(index).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ino: u64, generation: u64, index: u32) -> File {
        File { key: generation << 32 | ino, index }
    }

    #[test]
    fn files_are_remembered_until_another_one_has_their_place() {
        let recent = Recent::new().unwrap();
        assert_eq!(recent.of(7), None);
        recent.remember(7, file(7, 3, 1));
        recent.remember(8, file(8, 1, 2));
        assert_eq!([7, 8, 9].map(|ino| recent.of(ino)), [Some(file(7, 3, 1)), Some(file(8, 1, 2)), None]);
        let same_place = 7 + FILES as u64;
        recent.remember(same_place, file(same_place, 1, 5));
        assert_eq!([7, same_place].map(|ino| recent.of(ino)), [None, Some(file(same_place, 1, 5))]);
    }
}
