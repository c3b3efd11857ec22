//! What a direct process says of itself: what it is storing to, and when it stored last.
//!
//! ```text
//!      0  slots, 64 lines of 64 bytes; of each the first word:
//!           bits 0 to 15   the entry that is stored to, and 1; 0: nothing is stored
//!           bits 16 to 63  how often the slot was taken
//!   4096  times, a word for each entry: ns since 1970 of the last store that the server has not seen; 0: none
//! 135168  leases of files' ends, a word for each entry, which the server changes, too:
//!           bit 0           the lease is valid
//!           bit 1           an append is under way: nothing else is
//!           bits 2 to 15    which lease it is
//!           bits 16 to 63   the file's size
//! 266240  marks, a bit for each 4 KiB of the region: stored to since the server took the marks last
//! ```

use crate::memory::{self, Memory};
use crate::table::ENTRIES;
use pocketstone_media::TRACKED_BYTES;
use rustix::io::Result;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SLOTS: usize = 64;
const SLOT_BYTES: usize = 64;
const TIMES: usize = SLOTS * SLOT_BYTES;
const LEASES: usize = TIMES + ENTRIES * 8;
const MARKS: usize = LEASES + ENTRIES * 8;
const ENTRY: u64 = 0xFFFF;

/// Bytes of all that for a region of so many bytes.
fn bytes_for(region_bytes: u64) -> usize {
    MARKS + region_bytes.div_ceil(TRACKED_BYTES).div_ceil(64) as usize * 8
}

/// The slots, times and marks of one process.
pub struct Slots {
    memory: Memory,
    gone: AtomicBool,
}

impl Slots {
    /// Those of a new process that maps so many bytes of the region, and what it maps of them.
    ///
    /// # Errors
    /// `Errno::NOMEM`, `Errno::MFILE` or what else the kernel says if it gives no memory.
    pub fn new(region_bytes: u64) -> Result<(Slots, OwnedFd)> {
        let file = memory::create("scmfs-slots", bytes_for(region_bytes))?;
        Ok((Slots::map(file.as_fd(), region_bytes)?, file))
    }

    pub(crate) fn map(file: BorrowedFd<'_>, region_bytes: u64) -> Result<Slots> {
        Ok(Slots { memory: Memory::map(file, bytes_for(region_bytes), true)?, gone: AtomicBool::new(false) })
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

    /// What was noted at the beginning of a store is of its end, too, unless the server has taken it meanwhile.
    #[inline]
    pub(crate) fn note_again(&self, index: u32) {
        if self.memory.word(TIMES + index as usize * 8).load(Ordering::Relaxed) == 0 {
            self.note(index);
        }
    }

    /// Marks bytes of the region, before they are stored to. By a slot that was taken before, the server knows that
    /// there may be more to come.
    #[inline]
    pub(crate) fn mark(&self, at: u64, bytes: u64) {
        for page in at / TRACKED_BYTES..(at + bytes).div_ceil(TRACKED_BYTES) {
            let (word, bit) = (self.memory.word(MARKS + (page / 64) as usize * 8), 1 << (page % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Calls `note` for what is marked: offset in the region, bytes. `take`: it is not any more.
    pub fn marks(&self, take: bool, note: &mut dyn FnMut(u64, u64)) {
        for word_at in (MARKS..self.memory.bytes()).step_by(8) {
            let word = self.memory.word(word_at);
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let marks = if take { word.swap(0, Ordering::Acquire) } else { word.load(Ordering::Acquire) };
            let first = (word_at - MARKS) as u64 * 8;
            let marked = (0..64).filter(|bit| marks >> bit & 1 == 1);
            marked.for_each(|bit| note((first + bit) * TRACKED_BYTES, TRACKED_BYTES));
        }
    }

    /// Whether a store may run.
    fn runs(&self) -> bool {
        !self.gone.load(Ordering::Acquire) && self.stores_to().next().is_some()
    }

    /// Whether something was stored that [`Slots::noted`] has not said.
    pub fn is_noted(&self, index: u32) -> bool {
        self.memory.word(TIMES + index as usize * 8).load(Ordering::Relaxed) != 0
    }

    /// Takes note of a time; `None`: nothing was stored since.
    pub fn noted(&self, index: u32) -> Option<u64> {
        let word = self.memory.word(TIMES + index as usize * 8);
        self.is_noted(index).then(|| word.swap(0, Ordering::Relaxed)).filter(|ns| *ns != 0)
    }

    /// Takes no note of a time that was of another file.
    pub fn forget_time(&self, index: u32) {
        self.memory.word(TIMES + index as usize * 8).store(0, Ordering::Relaxed);
    }

    #[inline]
    fn lease_word(&self, index: u32) -> &std::sync::atomic::AtomicU64 {
        self.memory.word(LEASES + index as usize * 8)
    }

    /// The lease that this process has of a file's end.
    #[inline]
    pub(crate) fn lease(&self, index: u32) -> Option<Lease> {
        Some(Lease(self.lease_word(index).load(Ordering::SeqCst))).filter(|lease| lease.is_valid())
    }

    /// Puts one word of a lease in the place of another, unless the server has taken it.
    #[inline]
    pub(crate) fn turn(&self, index: u32, from: Lease, to: Lease) -> bool {
        self.lease_word(index).compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Leases the end of a file of this size to the process. `number`: another one than last time.
    pub fn give_lease(&self, index: u32, size: u64, number: u64) {
        let word = size << SIZE_SHIFT | (number & NUMBER_MASK) << NUMBER_SHIFT | VALID;
        self.lease_word(index).store(word, Ordering::SeqCst);
    }

    /// Ends the lease. The size with all that was appended, and whether more is being stored behind it; `None`: there
    /// was none.
    pub fn take_lease(&self, index: u32) -> Option<(u64, bool)> {
        let lease = Lease(self.lease_word(index).swap(0, Ordering::SeqCst));
        lease.is_valid().then(|| (lease.size(), lease.is_busy()))
    }

    /// The size with all that was appended; the lease stays.
    pub fn leased_size(&self, index: u32) -> Option<u64> {
        self.lease(index).map(Lease::size)
    }

    /// The entries that are being stored to.
    pub fn stores_to(&self) -> impl Iterator<Item = u32> {
        let entry = |slot| (self.word(slot).load(Ordering::SeqCst) & ENTRY).checked_sub(1);
        (0..SLOTS).filter_map(entry).map(|index| index as u32)
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// The process has ended: it stores nothing any more.
    pub fn end(&self) {
        self.gone.store(true, Ordering::Release);
    }
}

const VALID: u64 = 1;
const BUSY: u64 = 2;
const NUMBER_SHIFT: u32 = 2;
const NUMBER_MASK: u64 = (1 << 14) - 1;
const SIZE_SHIFT: u32 = 16;

/// The word of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease(u64);

impl Lease {
    fn is_valid(self) -> bool {
        self.0 & VALID != 0
    }

    #[inline]
    pub fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    #[inline]
    pub fn size(self) -> u64 {
        self.0 >> SIZE_SHIFT
    }

    /// With an append under way.
    #[inline]
    pub fn busy(self) -> Lease {
        Lease(self.0 | BUSY)
    }

    /// With so many bytes more, and none under way.
    #[inline]
    pub fn grown(self, bytes: u64) -> Lease {
        Lease((self.0 & !BUSY) + (bytes << SIZE_SHIFT))
    }
}

/// A slot, until it is dropped.
pub(crate) struct Taken<'a> {
    slots: &'a Slots,
    slot: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // After all that was stored. While it is taken nobody else changes the word.
        let word = self.slots.word(self.slot);
        word.store(word.load(Ordering::Relaxed) & !ENTRY, Ordering::Release);
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

    /// Takes all marks: calls `note` with offset in the region and bytes. Of a process that may be storing now, they
    /// stay for the next time.
    pub fn take_marks(&self, note: &mut dyn FnMut(u64, u64)) {
        self.all().iter().for_each(|slots| slots.marks(!slots.runs(), note));
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
