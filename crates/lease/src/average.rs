//! What files of a process had lately, on average.

use std::sync::atomic::{AtomicU64, Ordering};

/// An average over so many files or fewer.
const AVERAGED: u64 = 64;

/// What each of the last files had: bytes, calls. Counts that are lost to threads that count at once do no harm. Zeros:
/// there were no files yet. On a line of its own: it may change with each call.
#[derive(Default)]
#[repr(align(64))]
pub struct Average {
    files: AtomicU64,
    sum: AtomicU64,
}

impl Average {
    /// Another file begins.
    pub fn begin(&self) {
        let (files, sum) = (self.files.load(Ordering::Relaxed), self.sum.load(Ordering::Relaxed));
        let (files, sum) = if files < AVERAGED { (files, sum) } else { (files / 2, sum / 2) };
        self.files.store(files + 1, Ordering::Relaxed);
        self.sum.store(sum, Ordering::Relaxed);
    }

    /// One of them has so much more.
    #[inline]
    pub fn add(&self, more: u64) {
        self.sum.store(self.sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// How many files it is over.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// What a file has; 0 without any.
    pub fn mean(&self) -> u64 {
        self.sum.load(Ordering::Relaxed) / self.files().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_last_files() {
        let average = Average::default();
        assert_eq!((average.files(), average.mean()), (0, 0));
        let add = |files, more| {
            for _ in 0..files {
                average.begin();
                average.add(more);
            }
        };
        add(10, 1000);
        assert_eq!((average.files(), average.mean()), (10, 1000));
        add(1000, 5000);
        // After 31 halvings at most a thousandth of a percent of the first ones is left.
        assert!((4990..=5000).contains(&average.mean()), "{}", average.mean());
    }
}
