//! Reading and changing what files hold.

use crate::body::Body;
use crate::inode::Record;
use crate::journal::Transaction;
use crate::mapping::Mapping;
use crate::node::{Node, State, lock};
use crate::space::Reservation;
use crate::volume::Inner;
use crate::{Allocate, Error, Ino, Result, TimeNs, defects, persist};
use pocketstone_media::{Durable, Flushed};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A change of a file's content.
struct Change<'a> {
    /// The range that needs space.
    range: Range<u64>,
    /// What to write there; empty if only space is wanted.
    data: &'a [u8],
    /// The file's size after it.
    size: u64,
    /// When it happens; `None` if nothing changes that can be seen.
    now: Option<TimeNs>,
}

impl Inner {
    /// Reads what there is, up to the end of the file.
    #[inline]
    pub fn read(&self, state: &State, into: &mut [u8], offset: u64) -> usize {
        if offset >= state.record.size {
            return 0;
        }
        let end = state.record.size.min(offset.saturating_add(into.len() as u64));
        if end <= state.body.piece_bytes() {
            let bytes = (end - offset) as usize;
            self.medium.read(state.body.piece_at() + offset, &mut into[..bytes]);
            return bytes;
        }
        state.body.spans(offset, end, |at, part| match at {
            Some(at) => self.medium.read(at, &mut into[part]),
            None => into[part].fill(0),
        });
        (end - offset) as usize
    }

    /// Writes all of `from`; the file grows where it has to.
    pub fn write(&self, node: &Node, state: &mut State, from: &[u8], offset: u64) -> Result<()> {
        let end = self.end_of(offset, from.len() as u64)?;
        if from.is_empty() {
            return Ok(());
        }
        let now = self.now();
        if end <= state.record.size && state.body.has_space(offset, end) {
            let flushed = self.stream(&state.body, from, offset);
            self.medium.fence(flushed).done();
            state.touch(now);
            if state.is_overdue() {
                self.store_version(node.ino, state, Durable::nothing()).done();
            }
            return Ok(());
        }
        let step = self.step_bytes();
        let mut done = 0;
        for part in from.chunks(step.min(usize::MAX as u64) as usize) {
            let range = offset + done..offset + done + part.len() as u64;
            let size = state.record.size.max(range.end);
            done += part.len() as u64;
            self.change(node.ino, state, &Change { range, data: part, size, now: Some(now) })?;
        }
        Ok(())
    }

    /// What one change may cover: what one transaction can map, less the huge pages that a file gets ahead and
    /// those that its ends only touch.
    fn step_bytes(&self) -> u64 {
        (self.segments_per_transaction() as u64 - 12) * self.layout.huge
    }

    /// The end of a range, if a file can be so long.
    fn end_of(&self, offset: u64, bytes: u64) -> Result<u64> {
        offset.checked_add(bytes).filter(|end| *end <= self.layout.max_file()).ok_or(Error::TooLarge)
    }

    fn stream(&self, body: &Body, from: &[u8], offset: u64) -> Flushed {
        let mut flushed = Flushed::nothing();
        body.spans(offset, offset + from.len() as u64, |at, part| {
            if let Some(at) = at {
                let one = self.medium.stream(at, &from[part], Durable::nothing());
                flushed.join(one);
            }
        });
        flushed
    }

    fn zero(&self, body: &Body, range: Range<u64>) -> Flushed {
        let mut flushed = Flushed::nothing();
        body.spans(range.start, range.end, |at, part| {
            if let Some(at) = at {
                let one = self.medium.zero(at, part.len() as u64, Durable::nothing());
                flushed.join(one);
            }
        });
        flushed
    }

    fn copy(&self, from: &Body, to: &Body, range: Range<u64>) -> Flushed {
        let mut flushed = Flushed::nothing();
        to.spans(range.start, range.end, |at, part| {
            if let (Some(at), (Some(old), _)) = (at, from.locate(range.start + part.start as u64)) {
                let one = self.medium.copy(old, at, part.len() as u64, Durable::nothing());
                flushed.join(one);
            }
        });
        flushed
    }

    /// Carries a change out: space, copies and zeros first, all durable; then the new version, which
    /// makes them the file's content at once.
    fn change(&self, ino: Ino, state: &mut State, change: &Change<'_>) -> Result<()> {
        let (old_size, range) = (state.record.size, change.range.clone());
        let reservation = self.reserve(ino, state, &range, change.size)?;
        let written = if change.data.is_empty() { range.start..range.start } else { range.clone() };
        let mut flushed = Flushed::nothing();
        let body = reservation.as_ref().map_or(&state.body, |r| &r.body);
        if let Some(r) = &reservation {
            let copied = if r.moved { 0..old_size.min(state.body.piece_bytes()) } else { 0..0 };
            for part in without(&copied, &written) {
                flushed = flushed.and(self.copy(&state.body, body, part));
            }
            for fresh in &r.fresh {
                let needed = fresh.start.max(copied.end)..fresh.end.min(change.size);
                for part in without(&needed, &written) {
                    flushed = flushed.and(self.zero(body, part));
                }
            }
        }
        if !defects::on(defects::GAP_ZERO) && range.start > old_size {
            // What lies beyond the old end is whatever was there before.
            flushed = flushed.and(self.zero(body, old_size..range.start.min(change.size)));
        }
        flushed = flushed.and(self.stream(body, change.data, range.start));
        let moved = reservation.as_ref().is_some_and(|r| r.moved);
        let site = if moved { defects::COPY_FENCE } else { defects::DATA_FENCE };
        let durable = persist::fence(&self.medium, flushed, site);
        let mut record = state.record;
        record.size = change.size;
        if let Some(now) = change.now {
            (record.mtime_ns, record.ctime_ns) = (now, now);
        }
        self.space_changes.fetch_add(1, Ordering::Relaxed);
        match reservation {
            Some(r) => self.settle(ino, state, record, r, durable),
            None => {
                state.record = record;
                self.store_version(ino, state, durable).done();
            }
        }
        Ok(())
    }

    /// Gives a file the place that was reserved and filled for it.
    fn settle(&self, ino: Ino, state: &mut State, mut record: Record, r: Reservation, filled: Durable) {
        record.huge = r.body.is_huge();
        record.segments = r.body.extents().len() as u32;
        (record.run_start, record.run_pages) = r.run;
        if let Some((start, pages)) = r.old_run.filter(|_| defects::on(defects::FREE_EARLY)) {
            let bytes = u64::from(pages) * self.layout.page;
            let _ = self.medium.zero(self.layout.page_at(start), bytes, Durable::nothing());
        }
        state.record = record;
        // A directory that moves goes through the journal: no record may be left that writes to its
        // old place, which may hold something else soon.
        if r.new.is_empty() && !record.is_directory() {
            self.store_version(ino, state, filled).done();
        } else {
            let mut tx = Transaction::new();
            let late = defects::on(defects::MAPPING_LATE);
            if !late {
                self.map_segments(&mut tx, ino, record.generation, &r.new);
            }
            let (at, version) = self.next_version(ino, state);
            tx.bytes(at, &version);
            self.commit(tx, filled).done();
            if late {
                let mut tx = Transaction::new();
                self.map_segments(&mut tx, ino, record.generation, &r.new);
                self.commit(tx, Durable::nothing()).done();
            }
        }
        state.body = r.body;
        if let Some((start, pages)) = r.old_run {
            lock(&self.alloc).free_page_run(start, pages);
        }
    }

    fn map_segments(&self, tx: &mut Transaction, owner: Ino, generation: u32, entries: &[(u32, u32)]) {
        for (index, segment) in entries {
            let entry = Mapping::File { owner, index: *index, generation }.encode(*segment);
            tx.bytes(self.layout.mapping_entry_at(*segment), &entry);
        }
    }

    /// Gives a directory space where it has none: free slots.
    pub fn fill_directory(&self, ino: Ino, state: &mut State) -> Result<()> {
        let size = state.record.size;
        self.change(ino, state, &Change { range: 0..size, data: &[], size, now: None })
    }

    /// Lengthens a directory by free slots.
    pub fn grow_directory(&self, ino: Ino, state: &mut State, size: u64) -> Result<()> {
        let old = state.record.size;
        let zeros = vec![0; (size - old) as usize];
        self.change(ino, state, &Change { range: old..size, data: &zeros, size, now: None })
    }

    /// Changes a file's size.
    pub fn resize_file(&self, ino: Ino, state: &mut State, size: u64) -> Result<()> {
        self.end_of(size, 0)?;
        let now = self.now();
        if size > state.record.size {
            return self.change(ino, state, &Change { range: size..size, data: &[], size, now: Some(now) });
        }
        let mut record = state.record;
        record.size = size;
        record.reserved = false;
        (record.mtime_ns, record.ctime_ns) = (now, now);
        if state.body.is_huge() {
            let first = size.div_ceil(self.layout.huge) as u32;
            self.drop_segments(ino, state, record, first..u32::MAX);
        } else {
            let keep = self.layout.pages(size).min(u64::from(record.run_pages)) as u32;
            let (start, pages) = self.shorten_run(ino, state, record, keep);
            self.take_back(start, pages);
        }
        Ok(())
    }

    /// Stores a record with a shorter run. The pages that were cut off, for the caller to free.
    pub fn shorten_run(&self, ino: Ino, state: &mut State, mut record: Record, keep: u32) -> (u32, u32) {
        self.space_changes.fetch_add(1, Ordering::Relaxed);
        let (start, pages) = (record.run_start, record.run_pages);
        record.run_pages = keep;
        if keep == 0 {
            record.run_start = 0;
        }
        state.record = record;
        self.store_version(ino, state, Durable::nothing()).done();
        state.body.set_run(record.run_start, keep);
        (start + keep, pages - keep)
    }

    /// Stores a record, and gives back the huge pages with these indices. The first transaction does
    /// the first; when there are many huge pages, more of them follow.
    pub fn drop_segments(&self, ino: Ino, state: &mut State, record: Record, indices: Range<u32>) {
        state.record = record;
        self.space_changes.fetch_add(1, Ordering::Relaxed);
        loop {
            let mut kept = state.body.extents().to_vec();
            let first = kept.partition_point(|(index, _)| *index < indices.start);
            let end = kept.partition_point(|(index, _)| *index < indices.end);
            let last = end.min(first + self.segments_per_transaction());
            let batch: Vec<u32> = kept.drain(first..last).map(|(_, segment)| segment).collect();
            let mut tx = Transaction::new();
            self.unmap_segments(&mut tx, &batch);
            state.record.segments = kept.len() as u32;
            state.record.huge = !kept.is_empty();
            let (at, version) = self.next_version(ino, state);
            tx.bytes(at, &version);
            self.commit(tx, Durable::nothing()).done();
            if kept.is_empty() {
                state.body.set_run(0, 0)
            } else {
                state.body.set_extents(kept)
            }
            self.free_segments(&batch);
            if last == end {
                return;
            }
        }
    }

    /// Adds the freeing of huge pages to a transaction.
    pub fn unmap_segments(&self, tx: &mut Transaction, segments: &[u32]) {
        for segment in segments {
            tx.zero(self.layout.mapping_entry_at(*segment), crate::layout::MAPPING_BYTES as u32);
        }
    }

    /// Reserves, punches or zeroes a range.
    pub fn allocate(&self, ino: Ino, state: &mut State, how: Allocate, offset: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Err(Error::Invalid);
        }
        let end = self.end_of(offset, bytes)?;
        let (now, old_size) = (self.now(), state.record.size);
        if how == Allocate::PunchHole {
            return self.punch(ino, state, offset, end);
        }
        let size = match how {
            Allocate::Extend | Allocate::Zero => old_size.max(end),
            _ => old_size,
        };
        let zeroes = matches!(how, Allocate::Zero | Allocate::ZeroKeepSize);
        // Space that comes from here on is zeros already.
        let old = if zeroes { filled(&state.body, offset, end.min(old_size)) } else { Vec::new() };
        // Kept with the first version that is stored from here on.
        let reserved = std::mem::replace(&mut state.record.reserved, true);
        let done = self.allocate_steps(ino, state, offset..end, now);
        if done.is_err() {
            state.record.reserved = reserved;
            return done;
        }
        // Not before all the space is there: what is refused for want of it changes nothing.
        if !old.is_empty() {
            let parts = old.into_iter().map(|part| self.zero(&state.body, part));
            let flushed = parts.fold(Flushed::nothing(), Flushed::and);
            self.medium.fence(flushed).done();
        }
        if size > old_size {
            self.change(ino, state, &Change { range: size..size, data: &[], size, now: Some(now) })?;
        }
        Ok(())
    }

    /// Finds space for a range, in steps that a transaction can map.
    fn allocate_steps(&self, ino: Ino, state: &mut State, range: Range<u64>, now: TimeNs) -> Result<()> {
        let (size, end) = (state.record.size, range.end);
        let step = self.step_bytes();
        let mut from = range.start;
        while from < end {
            let to = end.min(from.saturating_add(step));
            self.change(ino, state, &Change { range: from..to, data: &[], size, now: Some(now) })?;
            from = to;
        }
        Ok(())
    }

    /// Zeroes what has space in a range, up to the end of the file.
    fn zero_in_place(&self, state: &mut State, offset: u64, end: u64) {
        let end = end.min(state.record.size);
        if offset < end {
            let flushed = self.zero(&state.body, offset..end);
            self.medium.fence(flushed).done();
            state.touch(self.now());
        }
    }

    fn punch(&self, ino: Ino, state: &mut State, offset: u64, end: u64) -> Result<()> {
        let whole = if state.body.is_huge() {
            let huge = self.layout.huge;
            let last = if end >= state.record.size { end.div_ceil(huge) } else { end / huge };
            offset.div_ceil(huge) as u32..last as u32
        } else {
            0..0
        };
        if whole.is_empty() {
            self.zero_in_place(state, offset, end);
        } else {
            self.zero_in_place(state, offset, end.min(u64::from(whole.start) * self.layout.huge));
            self.zero_in_place(state, offset.max(u64::from(whole.end) * self.layout.huge), end);
            if state.body.extents().iter().any(|(index, _)| whole.contains(index)) {
                state.touch(self.now());
                self.drop_segments(ino, state, state.record, whole);
                return Ok(());
            }
        }
        state.touch(self.now());
        self.store_version(ino, state, Durable::nothing()).done();
        Ok(())
    }

    /// Writes all of `from`, or nothing: after a crash too.
    pub fn write_atomic(&self, ino: Ino, state: &mut State, from: &[u8], offset: u64) -> Result<()> {
        let end = self.end_of(offset, from.len() as u64)?;
        if from.is_empty() {
            return Ok(());
        }
        if from.len() as u64 > self.max_atomic() {
            return Err(Error::TooLarge);
        }
        let (now, old_size) = (self.now(), state.record.size);
        // First the space, which changes nothing that can be seen.
        if !state.body.has_space(offset, end) {
            self.change(ino, state, &Change { range: offset..end, data: &[], size: old_size, now: None })?;
        }
        if defects::on(defects::ATOMIC_IN_PLACE) {
            let flushed = self.stream(&state.body, from, offset);
            self.medium.fence(flushed).done();
        }
        let mut flushed = Flushed::nothing();
        if offset > old_size {
            flushed = self.zero(&state.body, old_size..offset);
        }
        let zeroed = self.medium.fence(flushed);
        let mut tx = Transaction::new();
        state.body.spans(offset, end, |at, part| {
            if let Some(at) = at {
                // The journal stores whole words: what surrounds the range comes along as it is.
                let (first, last) = (at & !7, (at + part.len() as u64).next_multiple_of(8));
                let mut words = vec![0; (last - first) as usize];
                self.medium.read(first, &mut words);
                words[(at - first) as usize..][..part.len()].copy_from_slice(&from[part]);
                tx.bytes(first, &words);
            }
        });
        state.record.size = old_size.max(end);
        (state.record.mtime_ns, state.record.ctime_ns) = (now, now);
        let (at, version) = self.next_version(ino, state);
        tx.bytes(at, &version);
        let applied = self.commit(tx, zeroed);
        // The range may be overwritten in place after this: its record must not be the newest then.
        self.commit(Transaction::new(), applied).done();
        Ok(())
    }

    /// Most bytes that an atomic write takes.
    pub fn max_atomic(&self) -> u64 {
        // Beside the record's header and the version, an item and two filled words for each huge page.
        let (huge, room) = (self.layout.huge, self.layout.max_record().saturating_sub(64 + 144 + 2 * 32));
        (1 << 20).min(room * huge / (huge + 32))
    }
}

/// The parts of a range that have space.
fn filled(body: &Body, offset: u64, end: u64) -> Vec<Range<u64>> {
    let mut parts = Vec::new();
    body.spans(offset, end, |at, part| {
        if at.is_some() {
            parts.push(offset + part.start as u64..offset + part.end as u64);
        }
    });
    parts
}

/// The parts of `range` outside `hole`.
fn without(range: &Range<u64>, hole: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let before = range.start..range.end.min(hole.start.max(range.start));
    let after = range.start.max(hole.end)..range.end;
    let parts = if hole.is_empty() { [range.clone(), 0..0] } else { [before, after] };
    parts.into_iter().filter(|part| part.start < part.end)
}
