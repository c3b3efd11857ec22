//! The end of a file, leased to one process at a time, which appends there without the kernel.

use pocketstone_lease::Slots;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// No lease is for less, unless there is no space.
const BYTES_LEAST: u64 = 64 << 10;
/// None is for more, unless more is appended at once. The kernel takes a file to be longer by so much.
const BYTES_MOST: u64 = 8 << 20;

/// Whose the end of one file is. Changed under the inode's exclusive lock.
#[derive(Default)]
pub(super) struct Lease {
    leased: AtomicBool,
    holder: Mutex<Option<(Arc<Slots>, u64)>>,
    limit: AtomicU64,
}

/// So much more space a file of this size gets that grows by so many bytes at once.
pub(super) fn room(size: u64, bytes: u64) -> u64 {
    size.clamp(BYTES_LEAST, BYTES_MOST).max(bytes)
}

impl Lease {
    pub fn is_given(&self) -> bool {
        self.leased.load(Ordering::Acquire)
    }

    /// Up to where it goes; 0: it is nobody's.
    pub fn limit(&self) -> u64 {
        if self.is_given() { self.limit.load(Ordering::Relaxed) } else { 0 }
    }

    /// Gives the end of a file of this size to a process.
    pub fn give(&self, slots: &Arc<Slots>, index: u32, size: u64, limit: u64) {
        static GIVEN: AtomicU64 = AtomicU64::new(0);
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        *holder = Some((slots.clone(), limit));
        self.limit.store(limit, Ordering::Relaxed);
        self.leased.store(true, Ordering::Release);
        slots.give_lease(index, size, GIVEN.fetch_add(1, Ordering::Relaxed));
    }

    /// The size with what was appended, and whether more may be on its way; `take`: it is nobody's any more.
    pub fn appended(&self, index: u32, take: bool) -> Option<(u64, bool)> {
        if !self.is_given() {
            return None;
        }
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        let (slots, limit) = holder.as_ref()?;
        let found = if take { slots.take_lease(index) } else { slots.leased_size(index).map(|size| (size, false)) };
        // A process can store what it likes in the word: it reaches no further than the space that it was given. One
        // without a lease in it may still be storing.
        let (size, busy) = found.unwrap_or((0, take));
        let size = size.min(*limit);
        if take {
            *holder = None;
            self.leased.store(false, Ordering::Release);
        }
        Some((size, busy))
    }
}
