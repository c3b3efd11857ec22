//! Appending without the kernel, by a lease on the file's end (`tests/append.rs`).

use super::{Direct, LOOKS, Step, Why, step};
use crate::slots::{Lease, SIZE_MOST, Slots};
use crate::table::PIECES_MAX;
use pocketstone_media::mapping;

impl Direct<'_> {
    /// The lease, once no other append is under way.
    fn leased(slots: &Slots, index: u32) -> Result<Lease, Why> {
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
        if !slots.turn(index, lease, lease.busy()) {
            return Err(Why::Growth);
        }
        let busy = lease.busy();
        let place = || -> Result<([(*mut u8, usize, usize); PIECES_MAX], usize), Why> {
            let sequence = self.begin()?;
            if !self.entry.is_writable() {
                return Err(Why::Refused);
            }
            let (mut parts, mut count) = ([(std::ptr::null_mut(), 0, 0); PIECES_MAX], 0);
            let whole = self.parts(offset, bytes, |place, done, part| {
                if let Some(next) = parts.get_mut(count) {
                    *next = (place, done, part);
                }
                count += 1;
            });
            if self.entry.sequence() != sequence {
                return Err(Why::Changing);
            }
            whole.and(if count <= PIECES_MAX { Ok((parts, count)) } else { Err(Why::Hole) })
        };
        let (parts, count) = place().inspect_err(|_| {
            slots.turn(index, busy, lease);
        })?;
        // What was looked up may be what the server gave to the file after it had taken the lease.
        if slots.lease(index) != Some(busy) {
            return Err(Why::Growth);
        }
        step(Step::Looked);
        slots.note(index);
        for (place, done, part) in &parts[..count] {
            // SAFETY: `place` lies in the region for `part` bytes, and by the slot nobody is given these bytes for
            // another file meanwhile, nor by the lease for this one; `from` is the caller's promise.
            unsafe { mapping::store(*place, from.add(*done), *part, self.flushed, false) };
        }
        mapping::fence(self.flushed);
        step(Step::Copied);
        if !slots.turn(index, busy, lease.grown(bytes as u64)) {
            return Err(Why::Growth);
        }
        if !self.entry.is_served() {
            return Err(Why::Ended);
        }
        slots.note(index);
        Ok(offset)
    }
}
