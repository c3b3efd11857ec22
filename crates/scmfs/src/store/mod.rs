//! The medium of an open volume, and all that changes it in an order that a crash cannot break: the journal's
//! transactions, flushes and fences.

mod clock;
mod journal;
mod persist;

pub(crate) use clock::Clock;
pub(crate) use journal::{Item, Journal, RECORD_OVERHEAD_BYTES, Transaction, find, item_bytes, items, replay};
pub(crate) use persist::{fence, flush};

use crate::format::layout::Layout;
use crate::format::superblock::Superblock;
use crate::{Error, OpenOptions, Result, Threshold, TimeNs};
use pocketstone_media::{Durable, Medium, Operation};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex; a panic elsewhere does not lock everybody out.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open volume's medium, and what orders the stores to it.
pub(crate) struct Store {
    pub medium: Medium,
    pub layout: Layout,
    pub clock: Clock,
    /// When files move to huge pages.
    pub threshold: Threshold,
    superblock: Mutex<Superblock>,
    journal: Mutex<Journal>,
    /// Huge pages of the data area; more when the volume grows.
    segments: AtomicU32,
    /// It was opened so.
    read_only: bool,
    closed: AtomicBool,
}

impl Store {
    pub fn new(medium: Medium, superblock: Superblock, journal: Journal, options: &OpenOptions) -> Store {
        let layout = superblock.layout.clone();
        Store {
            segments: AtomicU32::new(layout.segments(superblock.bytes)),
            layout,
            clock: Clock::new(options.fixed_clock_ns),
            threshold: superblock.threshold,
            superblock: Mutex::new(superblock),
            journal: Mutex::new(journal),
            read_only: options.read_only,
            closed: AtomicBool::new(false),
            medium,
        }
    }

    #[inline]
    pub fn segments(&self) -> u32 {
        self.segments.load(Ordering::Acquire)
    }

    /// Says that the volume has grown.
    pub fn set_segments(&self, segments: u32) {
        self.segments.store(segments, Ordering::Release);
    }

    #[inline]
    pub fn read_only(&self) -> bool {
        self.read_only || self.closed.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn writable(&self) -> Result<()> {
        if self.read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// From now on nobody starts to change anything. Whether there is something to be stored before that.
    pub fn close(&self) -> bool {
        !self.read_only && !self.closed.swap(true, Ordering::SeqCst)
    }

    /// Begins an operation that changes something: a checkpoint has all of it or nothing. To be held to its end, and
    /// begun before any lock is taken: while a checkpoint begins, those wait here.
    #[inline]
    pub fn operation(&self) -> Option<Operation<'_>> {
        self.medium.operation()
    }

    #[inline]
    pub fn now(&self) -> TimeNs {
        self.clock.now()
    }

    /// Carries a transaction out; it refers to what `after` made durable.
    pub fn commit(&self, transaction: Transaction, after: Durable) -> Durable {
        self.journal().commit(&self.medium, &self.layout, transaction, after)
    }

    /// The journal. Nobody can change a mapping table while somebody has it.
    pub fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// The superblock. Nobody can store it while somebody has it.
    pub fn superblock(&self) -> MutexGuard<'_, Superblock> {
        lock(&self.superblock)
    }

    pub fn store_superblock(&self, superblock: &mut Superblock, after: Durable) -> Durable {
        let dirty = superblock.write(&self.medium, after);
        self.medium.fence(self.medium.flush(dirty))
    }
}
