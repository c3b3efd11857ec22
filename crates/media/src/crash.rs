//! A region that records its events, and the states a power loss could leave.
//!
//! The fault model, of power-safe memory behind a processor's cache:
//!
//! - A store becomes durable when its 64-byte line is flushed after it and a fence follows the flush.
//!   Runs are recorded by one thread, so every fence is that of the thread that flushed.
//! - A streamed store becomes durable at the next fence, and so does what its line held before it.
//! - A flush covers the stores before it. What is stored to the line afterwards needs another flush.
//!   A fence without a flush makes no plain store durable.
//! - Any store may also become durable earlier, by itself: caches evict lines when they like.
//! - A crash therefore finds in every line a prefix of the 8-byte stores made to it since it was last
//!   durable, each line independent of the others.
//! - Bulk data, a store or stream of more than [`BULK_LINES`] lines, is found not at all, whole, or up
//!   to its middle: nobody should depend on the parts of a page, and there are too many.
//!
//! [`Trace::crash_states`] enumerates what crashes leave under this model; [`Trace::page_states`] does
//! so for a file on an ordinary file system, where pages are written back in any order.

mod pages;
mod states;

pub use states::{CrashState, Explored, Limits};

use crate::Result;
use crate::{Heap, Persistence, Region};
use std::sync::{Arc, Mutex, MutexGuard};

/// A store that spans more lines than this counts as bulk data.
pub const BULK_LINES: usize = 4;

/// One thing that was done to a [`Recorder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Bytes were stored.
    Store {
        /// Where.
        at: u64,
        /// What.
        bytes: Box<[u8]>,
        /// Whether past the cache, so that a fence alone makes them durable.
        streamed: bool,
    },
    /// Lines were flushed.
    Flush {
        /// The first byte.
        at: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// A fence.
    Fence,
    /// The region was synchronised with the medium beyond fences.
    Sync,
    /// A test's own mark: what comes after belongs to this operation.
    Mark(u64),
}

/// A region in memory whose events are logged.
pub struct Recorder {
    heap: Heap,
    log: Log,
}

/// The log of a [`Recorder`], which outlives it.
#[derive(Clone)]
pub struct Log {
    image: Arc<[u8]>,
    events: Arc<Mutex<Vec<Event>>>,
}

/// What was recorded: the image at the start, and all events since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The region's contents before the first event, all durable.
    pub image: Vec<u8>,
    /// What happened, in order.
    pub events: Vec<Event>,
}

impl Recorder {
    /// A region that starts as a copy of `image`, and its log.
    pub fn new(image: &[u8]) -> (Recorder, Log) {
        let log = Log { image: image.into(), events: Arc::default() };
        (Recorder { heap: Heap::from_image(image), log: log.clone() }, log)
    }

    /// # Safety
    /// As [`Region::write`].
    unsafe fn store(&self, at: u64, bytes: Box<[u8]>, streamed: bool) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.heap.write(at, &bytes) };
        if !bytes.is_empty() {
            self.log.push(Event::Store { at, bytes, streamed });
        }
    }
}

impl Log {
    /// Marks the place: events after it belong to operation `label`, until the next mark.
    pub fn mark(&self, label: u64) {
        self.push(Event::Mark(label));
    }

    /// Everything recorded so far.
    pub fn trace(&self) -> Trace {
        Trace { image: self.image.to_vec(), events: self.events().clone() }
    }

    /// How many events have been recorded.
    pub fn len(&self) -> usize {
        self.events().len()
    }

    /// Whether nothing has been recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&self, event: Event) {
        self.events().push(event);
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        // A test that panicked while it held the lock has left whole events.
        self.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

// SAFETY: the bytes are the heap's, which is this value's own.
unsafe impl Region for Recorder {
    fn bytes(&self) -> u64 {
        // Not the heap's, which has a byte even when the image has none.
        self.log.image.len() as u64
    }

    fn base(&self) -> *const u8 {
        self.heap.base()
    }

    fn map_bytes(&self) -> u64 {
        self.heap.map_bytes()
    }

    fn persistence(&self) -> Persistence {
        Persistence::PowerSafe
    }

    fn describe(&self) -> String {
        "recorded memory, treated as power-safe".into()
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.heap.read(at, into);
    }

    unsafe fn write(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.store(at, from.into(), false) };
    }

    unsafe fn store_u64(&self, at: u64, value: u64) {
        assert!(at % 8 == 0, "{at} is not aligned to a word");
        // SAFETY: the caller's promise, handed on.
        unsafe { self.store(at, value.to_le_bytes().into(), false) };
    }

    unsafe fn stream(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.store(at, from.into(), true) };
    }

    unsafe fn zero(&self, at: u64, bytes: u64) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.store(at, vec![0; bytes as usize].into(), true) };
    }

    fn flush(&self, at: u64, bytes: u64) {
        let inside = at.checked_add(bytes).is_some_and(|end| end <= self.bytes());
        assert!(inside, "{at}+{bytes} is outside the region");
        self.log.push(Event::Flush { at, bytes });
    }

    fn fence(&self) {
        self.log.push(Event::Fence);
    }

    fn sync(&self) -> Result<()> {
        self.log.push(Event::Sync);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
