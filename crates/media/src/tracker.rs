//! Which pages of a region were stored to, and how they were at one moment.
//!
//! A bit for each page of 4 KiB says that it was stored to since the last snapshot; it is set before the store. A
//! snapshot closes a gate for a moment, takes the bits over, and is then read page by page while stores go on: whoever
//! is the first to store to a page again finds its bit clear, and saves the page before that, if the snapshot has it
//! and has not read it yet.

use crate::gate::{Gate, Inside};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a bit stands for, in bytes.
pub const TRACKED_BYTES: u64 = 4096;
/// Pages that share a lock are so many apart.
const STRIPES: usize = 64;
const BITS: u64 = usize::BITS as u64;

/// Bits for pages, all clear. Memory for those that nobody sets is never used.
fn clear_bits(words: usize) -> Box<[AtomicUsize]> {
    let zeros = Box::into_raw(vec![0_usize; words].into_boxed_slice());
    // SAFETY: the memory of the box that was just taken apart; an AtomicUsize is represented as a usize, and aligned
    // the same.
    unsafe { Box::from_raw(zeros as *mut [AtomicUsize]) }
}

fn place(page: u64) -> (usize, usize) {
    ((page / BITS) as usize, 1 << (page % BITS))
}

fn pages_of(at: u64, bytes: u64) -> std::ops::Range<u64> {
    if bytes == 0 { 0..0 } else { at / TRACKED_BYTES..(at + bytes).div_ceil(TRACKED_BYTES) }
}

type Saved = HashMap<u64, Box<[u8]>>;

fn unlocked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Knows what was stored to in a region, and gives snapshots of it.
pub struct Tracker {
    gate: Gate,
    /// Stored to since the last snapshot.
    stored: Box<[AtomicUsize]>,
    /// Nobody knows what was stored before: the first snapshot has every page.
    unknown: AtomicBool,
    /// A snapshot is being read.
    reading: AtomicBool,
    /// Pages of the snapshot that were neither read nor saved.
    left: Box<[AtomicUsize]>,
    /// Pages as they were, by page number.
    saved: [Mutex<Saved>; STRIPES],
    /// Offsets and lengths in bytes that were [noted](Tracker::note) while a snapshot was read.
    late: Mutex<Vec<(u64, u64)>>,
    /// There is one snapshot at a time.
    taken: AtomicBool,
    /// Stores that were part of no operation.
    strays: AtomicU64,
}

/// An operation on what is tracked, until it is dropped: snapshots have all of it, or nothing.
pub struct Operation<'a>(#[allow(dead_code, reason = "held, not looked at")] Option<Inside<'a>>);

/// Why there is no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSnapshot {
    /// An operation did not end in time; others were held up so long for nothing.
    Busy,
    /// Somebody has one.
    Taken,
}

impl Tracker {
    /// For a region of so many bytes at most.
    pub fn new(most_bytes: u64) -> Tracker {
        let words = most_bytes.div_ceil(TRACKED_BYTES).div_ceil(BITS) as usize;
        Tracker {
            gate: Gate::new(),
            stored: clear_bits(words),
            unknown: AtomicBool::new(true),
            reading: AtomicBool::new(false),
            left: clear_bits(words),
            saved: std::array::from_fn(|_| Mutex::default()),
            late: Mutex::default(),
            taken: AtomicBool::new(false),
            strays: AtomicU64::new(0),
        }
    }

    /// Begins an operation, which may be a part of another one of this thread. Nothing that a running operation of
    /// another thread waits for may be held.
    #[inline]
    pub fn operation(&self) -> Operation<'_> {
        Operation(Some(self.gate.enter()))
    }

    /// How many stores were no part of an operation, before which a snapshot may come and after which another one.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Begins a store: its pages count as stored to. `before` reads a page as it is.
    #[inline]
    pub(crate) fn store(&self, at: u64, bytes: u64, before: impl Fn(u64) -> Vec<u8>) -> Operation<'_> {
        // The operation that this is a part of does not end before it.
        let inside = (!self.gate.is_inside()).then(|| self.stray());
        for page in pages_of(at, bytes) {
            let (word, bit) = place(page);
            if self.stored[word].load(Ordering::Acquire) & bit == 0 {
                self.first_store(page, &before);
            }
        }
        Operation(inside)
    }

    #[cold]
    fn stray(&self) -> Inside<'_> {
        self.strays.fetch_add(1, Ordering::Relaxed);
        self.gate.enter()
    }

    /// The first store to a page since the last snapshot, unless another thread is in here, too.
    #[cold]
    fn first_store(&self, page: u64, before: &impl Fn(u64) -> Vec<u8>) {
        let (word, bit) = place(page);
        // It changes only while no store is under way.
        if !self.reading.load(Ordering::Acquire) {
            self.stored[word].fetch_or(bit, Ordering::Release);
            return;
        }
        let mut saved = self.stripe(page);
        if self.left[word].load(Ordering::Relaxed) & bit != 0 {
            saved.insert(page, before(page).into());
            self.left[word].fetch_and(!bit, Ordering::Relaxed);
        }
        // Only now, for whoever sees it stores without looking further.
        self.stored[word].fetch_or(bit, Ordering::Release);
    }

    /// Notes pages that somebody else stored to, who does not any more.
    pub fn note(&self, at: u64, bytes: u64) {
        let mut late = unlocked(&self.late);
        // With its bit set now, nobody would save a page that is yet to be read.
        match self.reading.load(Ordering::Acquire) {
            true => late.push((at, bytes)),
            false => self.mark(at, bytes),
        }
    }

    fn mark(&self, at: u64, bytes: u64) {
        for page in pages_of(at, bytes) {
            let (word, bit) = place(page);
            if let Some(word) = self.stored.get(word) {
                word.fetch_or(bit, Ordering::Release);
            }
        }
    }

    /// From now on the next snapshot has every page.
    pub fn forget(&self) {
        self.unknown.store(true, Ordering::SeqCst);
    }

    fn stripe(&self, page: u64) -> MutexGuard<'_, Saved> {
        unlocked(&self.saved[page as usize % STRIPES])
    }

    /// A snapshot of the pages that were stored to since the last one that was [kept](Snapshot::keep), as they are at a
    /// moment at which no operation is under way. Operations are held up by it for `patience` and a few microseconds.
    /// `length` gives the region's length in bytes.
    ///
    /// # Errors
    /// [`NoSnapshot::Busy`] if an operation does not end in `patience`; [`NoSnapshot::Taken`] if there is one already.
    pub fn snapshot(&self, length: impl Fn() -> u64, patience: Duration) -> Result<Snapshot<'_>, NoSnapshot> {
        if self.taken.swap(true, Ordering::SeqCst) {
            return Err(NoSnapshot::Taken);
        }
        let mut pages = vec![0; self.stored.len()];
        let start = Instant::now();
        let taken = self.gate.closed(patience, || {
            let bytes = length();
            let count = bytes.div_ceil(TRACKED_BYTES);
            let unknown = self.unknown.swap(false, Ordering::SeqCst);
            let words = count.div_ceil(BITS).min(self.stored.len() as u64) as usize;
            // What is noted is in this snapshot, or late for it.
            let _late = unlocked(&self.late);
            for (word, taken) in pages[..words].iter_mut().enumerate() {
                let stored = &self.stored[word];
                if stored.load(Ordering::Relaxed) != 0 {
                    *taken = stored.swap(0, Ordering::Relaxed);
                }
                if unknown {
                    *taken = usize::MAX;
                }
                if word as u64 == count / BITS {
                    // The region ends in this word.
                    *taken &= (1 << (count % BITS)) - 1;
                }
                self.left[word].store(*taken, Ordering::Relaxed);
            }
            // Who came too late to save a page for the last one has left it here.
            self.saved.iter().for_each(|stripe| unlocked(stripe).clear());
            self.reading.store(true, Ordering::Release);
            (bytes, unknown, words)
        });
        let held_up = start.elapsed();
        let Some((bytes, unknown, words)) = taken else {
            self.taken.store(false, Ordering::SeqCst);
            return Err(NoSnapshot::Busy);
        };
        pages.truncate(words);
        Ok(Snapshot { tracker: self, pages, bytes, complete: unknown, held_up, kept: false })
    }
}

/// The pages of a region that were stored to, as they were at one moment. Unless it is [kept](Snapshot::keep), its
/// pages are those of the next one, too.
pub struct Snapshot<'a> {
    tracker: &'a Tracker,
    pages: Vec<usize>,
    bytes: u64,
    complete: bool,
    held_up: Duration,
    kept: bool,
}

impl Snapshot<'_> {
    /// The region's length then.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it has all pages of the region.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// How long operations may have been held up for it.
    pub fn held_up(&self) -> Duration {
        self.held_up
    }

    /// How many pages it has.
    pub fn count(&self) -> u64 {
        self.pages.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The numbers of its pages, in order.
    pub fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(|(at, word)| {
            let bits = (0..BITS).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| at as u64 * BITS + bit)
        })
    }

    /// Reads a page, once; returns its length, which is less than 4 KiB at the end of a region. `now` reads bytes of
    /// the region at an offset as they are.
    pub fn read(&self, page: u64, into: &mut [u8; TRACKED_BYTES as usize], now: impl FnOnce(u64, &mut [u8])) -> usize {
        let at = page * TRACKED_BYTES;
        let bytes = TRACKED_BYTES.min(self.bytes - at) as usize;
        let (word, bit) = place(page);
        let mut saved = self.tracker.stripe(page);
        match saved.remove(&page) {
            Some(content) => into[..bytes].copy_from_slice(&content[..bytes]),
            None => {
                // Whoever stores to it next waits for this lock first.
                now(at, &mut into[..bytes]);
                self.tracker.left[word].fetch_and(!bit, Ordering::Relaxed);
            }
        }
        bytes
    }

    /// The pages are in safety: the next snapshot has only what was stored to since this one.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let mut late = unlocked(&self.tracker.late);
        self.tracker.reading.store(false, Ordering::SeqCst);
        late.drain(..).for_each(|(at, bytes)| self.tracker.mark(at, bytes));
        drop(late);
        if !self.kept {
            for (word, taken) in self.pages.iter().enumerate().filter(|(_, taken)| **taken != 0) {
                self.tracker.stored[word].fetch_or(*taken, Ordering::SeqCst);
            }
            self.tracker.unknown.fetch_or(self.complete, Ordering::SeqCst);
        }
        // With nothing left, whoever is still about to save a page does not.
        for word in &self.tracker.left[..self.pages.len()] {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.tracker.saved.iter().for_each(|stripe| *unlocked(stripe) = Saved::new());
        self.tracker.taken.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
