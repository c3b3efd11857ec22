//! The end of a file, leased to one process at a time, which appends there without the kernel.

use super::records::Record;
use pocketstone_lease::{LEASE_BYTES_MOST, Slots};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// No lease is for less.
const BYTES_LEAST: u64 = 128 << 10;

/// Who reads is through with it after so long.
const READ: Duration = Duration::from_millis(5);

/// What a process appends, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Appends {
    /// At once.
    pub bytes: u64,
    /// All in all, as far as it knows.
    pub expected: u64,
}

impl Appends {
    /// So much more space a file gets: the first of these that there is. The kernel takes a file to be longer by so
    /// much.
    pub fn room(&self) -> [u64; 3] {
        let least = BYTES_LEAST.max(self.bytes);
        [self.expected.min(LEASE_BYTES_MOST).max(least), least, self.bytes]
    }
}

/// Whose the end of a file is.
struct Holder {
    slots: Arc<Slots>,
    limit: u64,
    /// The size that the server knows.
    known: u64,
}

/// Of one file. Changed under the inode's exclusive lock.
#[derive(Default)]
pub(super) struct Lease {
    given: AtomicBool,
    holder: Mutex<Option<Holder>>,
    record: Mutex<Record>,
    /// When the kernel read last.
    read: Mutex<Option<Instant>>,
}

/// What was appended.
pub(super) struct Found {
    /// The size with it.
    pub size: u64,
    /// The server did not know of that.
    pub is_news: bool,
    /// More may be on its way, by who has no lease any more.
    pub is_busy: bool,
}

impl Lease {
    fn holder(&self) -> MutexGuard<'_, Option<Holder>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> MutexGuard<'_, Option<Instant>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel reads.
    pub fn note_read(&self) {
        *self.read() = Some(Instant::now());
    }

    /// Whether it did just now: whoever waits for that may not yet have looked how long the file is, and would find
    /// zeros if the kernel took it to be longer.
    pub fn was_read(&self) -> bool {
        self.read().is_some_and(|at| at.elapsed() < READ)
    }

    /// The record of the file's size.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the file has a record, and has not grown since this was asked last.
    pub fn has_idle_record(&self, index: u32) -> bool {
        let size = self.holder().as_ref().and_then(|holder| holder.slots.leased_size(index));
        self.record().is_idle(size)
    }

    pub fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    pub fn is_given_to(&self, slots: &Arc<Slots>) -> bool {
        self.is_given() && self.holder().as_ref().is_some_and(|holder| Arc::ptr_eq(&holder.slots, slots))
    }

    /// Up to where it goes; 0: it is nobody's.
    pub fn limit(&self) -> u64 {
        if self.is_given() { self.holder().as_ref().map_or(0, |holder| holder.limit) } else { 0 }
    }

    /// Gives the end of a file of this size to a process.
    pub fn give(&self, slots: &Arc<Slots>, index: u32, size: u64, limit: u64) {
        static GIVEN: AtomicU64 = AtomicU64::new(0);
        *self.holder() = Some(Holder { slots: slots.clone(), limit, known: size });
        self.given.store(true, Ordering::Release);
        slots.give_lease(index, size, GIVEN.fetch_add(1, Ordering::Relaxed));
    }

    /// What was appended since; `take`: the end is nobody's any more.
    pub fn appended(&self, index: u32, take: bool) -> Option<Found> {
        if !self.is_given() {
            return None;
        }
        let mut given = self.holder();
        let holder = given.as_mut()?;
        let found = match take {
            true => holder.slots.take_lease(index),
            false => holder.slots.leased_size(index).map(|size| (size, false)),
        };
        // A process can store what it likes in the word: it reaches no further than the space that it was given, and
        // no less far than before. One without a lease in it may still be storing.
        let (size, is_busy) = found.unwrap_or((0, take));
        let size = size.clamp(holder.known, holder.limit);
        let is_news = size > holder.known;
        if is_busy {
            // Whoever was may yet store to it: the next one who has the end would lose what it says.
            self.record().retire();
        }
        holder.known = size;
        if take {
            *given = None;
            self.given.store(false, Ordering::Release);
        }
        Some(Found { size, is_news, is_busy })
    }
}
