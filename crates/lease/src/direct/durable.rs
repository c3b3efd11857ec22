//! What fdatasync(2) has to do, without the kernel: nothing, or a record of how long the file is.

use super::{ATTEMPTS, Direct, Step, step};
use crate::memory::Memory;
use crate::slots::{Lease, Slots};
use pocketstone_media::persist;
use pocketstone_media::size_record::{self, Line, SIZE_RECORD_BYTES, USED_BYTES};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A record in the region.
struct Place<'a> {
    words: [&'a AtomicU64; 3],
    flushed: bool,
}

impl<'a> Place<'a> {
    /// `None`: it does not lie in the region.
    fn of(region: &'a Memory, at: u64, flushed: bool) -> Option<Place<'a>> {
        region.place(at, SIZE_RECORD_BYTES).filter(|_| at % SIZE_RECORD_BYTES == 0)?;
        let word = |word: usize| region.word(at as usize + word * 8);
        Some(Place { words: [word(0), word(1), word(2)], flushed })
    }
}

impl Line for Place<'_> {
    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        // What outlives the process is seen in this order.
        self.words[word].store(value, Ordering::Release);
    }

    fn persist(&self) {
        if self.flushed {
            // SAFETY: the words are mapped, as references to them are here.
            unsafe { persist::write_back(self.words[0].as_ptr().cast_const().cast(), USED_BYTES) };
            persist::fence();
        }
    }
}

impl Direct<'_> {
    /// Has nothing left for fdatasync(2) to do, if it can: the kernel holds nothing, and what was written is durable.
    /// `records`: where records of sizes lie, if there are any.
    pub fn make_durable(&self, records: Option<u64>) -> bool {
        // What this thread has stored to memory of the kernel's made it come before.
        fence(Ordering::SeqCst);
        (0..ATTEMPTS).any(|_| self.try_durable(records))
    }

    fn try_durable(&self, records: Option<u64>) -> bool {
        let Ok(sequence) = self.begin() else { return false };
        // The pages first: what could not be stored of them is said before they go.
        if self.entry.has_kernel_pages() || !self.entry.is_settled() {
            return false;
        }
        if self.entry.leased() == 0 {
            fence(Ordering::Acquire);
            return self.entry.sequence() == sequence && self.entry.is_served();
        }
        let Some(own) = self.own else { return false };
        let Ok(lease) = Self::leased(own.0, own.1) else { return false };
        if lease.size() == self.entry.size() {
            // Nothing was appended since.
            fence(Ordering::Acquire);
            return self.entry.sequence() == sequence && self.entry.is_served();
        }
        records.is_some_and(|records| self.record_size(own, lease, records, sequence))
    }

    /// Makes the size durable that this process has given the file by its lease. The lease is busy meanwhile, so that
    /// threads come one after the other; and there is a slot, so that the record is nobody else's before.
    fn record_size(&self, (slots, index): (&Slots, u32), lease: Lease, records: u64, sequence: u64) -> bool {
        let Some(_slot) = slots.take(index) else { return false };
        if self.entry.is_paused() {
            return false;
        }
        let found = self.entry.record();
        let size = lease.size();
        step(Step::Looked);
        // Only what is seen with the slot counts.
        fence(Ordering::Acquire);
        if self.entry.sequence() != sequence || self.entry.key() != self.key {
            return false;
        }
        let place = found.and_then(|(record, version)| {
            let at = records + u64::from(record) * SIZE_RECORD_BYTES;
            Some((at, version, Place::of(self.region, at, self.flushed)?))
        });
        let Some((at, version, place)) = place else { return false };
        let busy = lease.busy();
        if !slots.turn(index, lease, busy) {
            return false;
        }
        slots.mark(at, SIZE_RECORD_BYTES);
        size_record::note(&place, version, size);
        step(Step::Copied);
        // A version that is stored meanwhile, and voids the record, has the size in it: whoever stores one makes the
        // sequence odd, and looks at the lease then.
        slots.turn(index, busy, lease) && self.entry.is_served()
    }
}
