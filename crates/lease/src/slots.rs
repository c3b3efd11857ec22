//! What a direct process says of itself: what it is storing to, and when it stored last.
//!
//! ```text
//!      0  slots, 64 lines of 64 bytes; of each the first word:
//!           bits 0 to 15   the entry that is stored to, and 1; 0: nothing is stored
//!           bits 16 to 63  how often the slot was taken
//!   4096  times, a word for each entry: ns since 1970 of the last store that the server has not seen; 0: none
//! ```

use crate::memory::{self, Memory};
use crate::table::ENTRIES;
use rustix::io::Result;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SLOTS: usize = 64;
const SLOT_BYTES: usize = 64;
const TIMES: usize = SLOTS * SLOT_BYTES;
pub(crate) const SLOTS_BYTES: usize = TIMES + ENTRIES * 8;
const ENTRY: u64 = 0xFFFF;

/// The slots and times of one process.
pub struct Slots {
    memory: Memory,
    gone: AtomicBool,
}

impl Slots {
    /// Those of a new process, and what it maps.
    ///
    /// # Errors
    /// The kernel's, if it gives no memory.
    pub fn new() -> Result<(Slots, OwnedFd)> {
        let file = memory::create("scmfs-slots", SLOTS_BYTES)?;
        Ok((Slots::map(file.as_fd())?, file))
    }

    pub(crate) fn map(file: BorrowedFd<'_>) -> Result<Slots> {
        Ok(Slots { memory: Memory::map(file, SLOTS_BYTES, true)?, gone: AtomicBool::new(false) })
    }

    fn word(&self, slot: usize) -> &std::sync::atomic::AtomicU64 {
        self.memory.word(slot * SLOT_BYTES)
    }

    /// Takes a slot to store to an entry; `None`: all are taken. What is looked at afterwards is looked at after the
    /// slot can be seen.
    #[inline]
    pub(crate) fn take(&self, index: u32) -> Option<Taken<'_>> {
        let here = 0_u8;
        // Threads have stacks of their own, far apart: they seldom meet in a slot.
        let first = (&raw const here as usize >> 12).wrapping_mul(0x9E37_79B9) >> 16;
        (0..SLOTS).find_map(|next| {
            let slot = (first + next) % SLOTS;
            let word = self.word(slot);
            let before = word.load(Ordering::Relaxed);
            let after = ((before >> 16) + 1) << 16 | u64::from(index + 1);
            let free = before & ENTRY == 0;
            let taken = free && word.compare_exchange(before, after, Ordering::SeqCst, Ordering::Relaxed).is_ok();
            // Made only if it was taken: dropping one clears the slot.
            taken.then(|| Taken { slots: self, slot })
        })
    }

    /// This process stores to an entry now, by the clock that volumes go by.
    pub(crate) fn note(&self, index: u32) {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let ns = (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64);
        self.memory.word(TIMES + index as usize * 8).store(ns, Ordering::Relaxed);
    }

    /// Takes note of a time; `None`: nothing was stored since.
    pub fn noted(&self, index: u32) -> Option<u64> {
        let word = self.memory.word(TIMES + index as usize * 8);
        if word.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(word.swap(0, Ordering::Relaxed)).filter(|ns| *ns != 0)
    }

    /// Takes no note of a time that was of another file.
    pub fn forget_time(&self, index: u32) {
        self.memory.word(TIMES + index as usize * 8).store(0, Ordering::Relaxed);
    }

    /// The entries that are being stored to.
    pub fn stores_to(&self) -> impl Iterator<Item = u32> {
        let entry = |slot| (self.word(slot).load(Ordering::SeqCst) & ENTRY).checked_sub(1);
        (0..SLOTS).filter_map(entry).map(|index| index as u32)
    }

    /// The process has ended: it stores nothing any more.
    pub fn end(&self) {
        self.gone.store(true, Ordering::Release);
    }
}

/// A slot, until it is dropped.
pub(crate) struct Taken<'a> {
    slots: &'a Slots,
    slot: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // After all that was stored.
        self.slots.word(self.slot).fetch_and(!ENTRY, Ordering::Release);
    }
}

/// Says whether any of certain stores still runs.
pub type Running = Box<dyn Fn() -> bool + Send + Sync>;

/// The stores of all direct processes, as the server sees them.
#[derive(Default)]
pub struct Stores(Mutex<Vec<Arc<Slots>>>);

impl Stores {
    /// All processes.
    pub fn all(&self) -> MutexGuard<'_, Vec<Arc<Slots>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a store to an entry may run, or has been cut short in a process that has not ended.
    pub fn reach(&self, index: u32) -> bool {
        self.all().iter().any(|slots| slots.stores_to().any(|other| other == index))
    }

    /// All entries that [`Stores::reach`] is true of.
    pub fn reached(&self) -> HashSet<u32> {
        self.all().iter().flat_map(|slots| slots.stores_to()).collect()
    }

    /// The stores that run now; `None`: none do. Pages that they may go to are given to nobody else before the answer
    /// is false: nobody waits for that.
    pub fn running(&self) -> Option<Running> {
        let mut seen = Vec::new();
        for slots in &*self.all() {
            for slot in 0..SLOTS {
                let word = slots.word(slot).load(Ordering::SeqCst);
                if word & ENTRY != 0 {
                    seen.push((slots.clone(), slot, word));
                }
            }
        }
        let runs = |(slots, slot, word): &(Arc<Slots>, usize, u64)| {
            !slots.gone.load(Ordering::Acquire) && slots.word(*slot).load(Ordering::SeqCst) == *word
        };
        if seen.is_empty() { None } else { Some(Box::new(move || seen.iter().any(runs))) }
    }
}
