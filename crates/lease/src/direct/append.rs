//! Appending without the kernel, by a lease on the file's end (`tests/append.rs`).

use super::{ATTEMPTS, Direct, LOOKS, Parts, Why};
use crate::memory::Ready;
use crate::slots::{Lease, Slots};
use pocketstone_media::size_record::SIZE_MOST;
use std::sync::atomic::{Ordering, fence};

impl Direct<'_> {
    /// The lease, once no other append is under way.
    pub(super) fn leased(slots: &Slots, index: u32) -> Result<Lease, Why> {
        for _ in 0..LOOKS {
            match slots.lease(index) {
                // Also one that a signal has interrupted, and that goes on only afterwards.
                Some(lease) if lease.is_busy() => std::hint::spin_loop(),
                Some(lease) => return Ok(lease),
                None => return Err(Why::Growth),
            }
        }
        Err(Why::Leased)
    }

    /// Finds where the bytes behind the end lie, if they may be stored there.
    fn behind(&self, offset: u64, bytes: usize, parts: &mut Parts) -> Result<(), Why> {
        // A server that takes the size over, and leaves the lease, changes the sequence, too.
        for _ in 0..ATTEMPTS {
            let sequence = self.begin()?;
            let (writable, found) = (self.entry.is_writable(), self.parts_of(offset, bytes, parts));
            fence(Ordering::Acquire);
            if self.entry.sequence() == sequence {
                return if writable { found } else { Err(Why::Refused) };
            }
        }
        Err(Why::Changing)
    }

    /// Prepares for what may be appended by a new lease.
    pub fn expect_appends(&self, (slots, index): (&Slots, u32), ready: Option<&Ready>) {
        let Some(lease) = slots.lease(index) else { return };
        let bytes = usize::try_from(self.entry.leased().saturating_sub(lease.size())).unwrap_or(0);
        // What does not lie anywhere is found out by who stores there.
        let _ = self.parts(lease.size(), bytes, |place, _, part| match ready {
            Some(ready) => ready.expect_stores(self.region, place, part),
            None => self.region.expect_stores(place, part),
        });
    }

    /// Appends all of it or nothing; where. `at`: only there. [`Why::Growth`]: by another lease it may go.
    ///
    /// # Safety
    /// `from` is readable for `bytes` bytes.
    pub unsafe fn append(
        &self,
        (slots, index): (&Slots, u32),
        from: *const u8,
        bytes: usize,
        at: Option<u64>,
    ) -> Result<u64, Why> {
        self.begin()?;
        let lease = Self::leased(slots, index)?;
        let offset = lease.size();
        let end = offset.checked_add(bytes as u64).filter(|end| *end <= SIZE_MOST).ok_or(Why::Growth)?;
        if at.is_some_and(|at| at != offset) || end > self.entry.leased() {
            return Err(Why::Growth);
        }
        // The slot before the lease is looked at: what the file loses once that is gone is given to nobody.
        let _slot = slots.take(index).ok_or(Why::Busy)?;
        if self.entry.is_paused() {
            return Err(Why::Checkpoint);
        }
        let busy = lease.busy();
        if !slots.turn(index, lease, busy) {
            return Err(Why::Growth);
        }
        let mut parts = Parts::new();
        self.behind(offset, bytes, &mut parts).inspect_err(|_| {
            slots.turn(index, busy, lease);
        })?;
        // What was looked up may be what the server gave to the file after it had taken the lease.
        if slots.lease(index) != Some(busy) {
            return Err(Why::Growth);
        }
        // SAFETY: the slot is held, and the lease, by which nobody is given these bytes for this file; `from` is the
        // caller's promise.
        unsafe { self.store((slots, index), &parts, from) };
        if !slots.turn(index, busy, lease.grown(bytes as u64)) {
            return Err(Why::Growth);
        }
        if !self.entry.is_served() {
            return Err(Why::Ended);
        }
        Ok(offset)
    }
}
