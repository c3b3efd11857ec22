//! Changing what files hold.

use super::reserve::{self, Reservation};
use super::tail;
use crate::contents::{self, Sums, Written, sums, with_the_next_fence};
use crate::inodes::{Body, Node, State};
use crate::parts::Parts;
use crate::store;
use crate::{Ino, Result, TimeNs, defects};
use pocketstone_media::{Durable, Flushed};
use std::ops::Range;

/// A change of a file's content.
pub(crate) struct Change<'a> {
    /// The range that needs space.
    pub range: Range<u64>,
    /// What to write there; empty if only space is wanted.
    pub data: &'a [u8],
    /// The file's size after it.
    pub size: u64,
    /// When it happens; `None` if nothing changes that can be seen.
    pub now: Option<TimeNs>,
}

impl Change<'_> {
    /// What gets other bytes, but for new space: the range if it is written, and the gap between the old end and it.
    fn touched(&self, old_size: u64) -> Range<u64> {
        let start = self.range.start.min(old_size);
        let end = if self.data.is_empty() { self.range.start.min(self.size) } else { self.range.end };
        start..end.max(start)
    }
}

/// Writes all of `from`; the file grows where it has to.
pub(crate) fn write(parts: &Parts, node: &Node, state: &mut State, from: &[u8], offset: u64) -> Result<()> {
    if from.is_empty() {
        return Ok(());
    }
    let end = parts.store.layout.end_of(offset, from.len() as u64)?;
    if end <= state.record.size && state.body.has_space(offset, end) {
        let now = match sums(&parts.store, &state.record) {
            Some(sums) => {
                overwrite_verified(parts, sums, node.ino, state, from, offset)?;
                parts.store.now()
            }
            None => {
                let flushed = contents::stream(parts, &state.body, from, offset);
                // The clock is read while the data is on its way.
                let now = parts.store.now();
                parts.store.medium.fence(flushed).done();
                now
            }
        };
        state.touch(now);
        if state.is_overdue() {
            parts.store_version(node.ino, state, Durable::nothing_new()).done();
        }
        return Ok(());
    }
    let (now, step) = (parts.store.now(), parts.store.layout.step_bytes());
    let mut done = 0;
    for part in from.chunks(step.min(usize::MAX as u64) as usize) {
        let range = offset + done..offset + done + part.len() as u64;
        let size = state.record.size.max(range.end);
        done += part.len() as u64;
        change(parts, node.ino, state, &Change { range, data: part, size, now: Some(now) })?;
    }
    Ok(())
}

/// Overwrites content whose pages have checksums.
fn overwrite_verified(parts: &Parts, sums: Sums<'_>, ino: Ino, state: &State, from: &[u8], offset: u64) -> Result<()> {
    let range = offset..offset + from.len() as u64;
    sums.demand_edges(ino, state, &range)?;
    sums.forget(&state.body, range.clone(), |_| true);
    let flushed = contents::stream(parts, &state.body, from, offset);
    let written = store::fence(&parts.store.medium, flushed, defects::SUM_EARLY);
    let given = sums.give(&state.body, range, Written { data: from, offset }, |_| true, written);
    parts.store.medium.fence(given).done();
    Ok(())
}

/// Carries a change out: space, copies and zeros first, all durable; then the new version, which
/// makes them the file's content at once.
pub(crate) fn change(parts: &Parts, ino: Ino, state: &mut State, change: &Change<'_>) -> Result<()> {
    if change.size > state.record.size {
        tail::clear(parts, ino, state)?;
    }
    let (old_size, range) = (state.record.size, change.range.clone());
    let sums = sums(&parts.store, &state.record);
    let touched = change.touched(old_size);
    if let Some(sums) = sums {
        sums.demand_edges(ino, state, &touched)?;
    }
    let reservation = reserve::reserve(parts, ino, state, &range, change.size)?;
    let written = if change.data.is_empty() { range.start..range.start } else { range.clone() };
    let mut flushed = Flushed::nothing();
    let body = reservation.as_ref().map_or(&state.body, |r| &r.place.body);
    // Pages that are content already, and stay where they are.
    let stays = |offset| {
        let (old, new) = (state.body.locate(offset).0, body.locate(offset).0);
        offset < old_size && old.is_some() && old == new
    };
    if let Some(sums) = sums {
        sums.forget(body, touched.clone(), stays);
    }
    if let Some(r) = &reservation {
        flushed = flushed.and(contents::store_list(parts, ino, &r.place));
        for fresh in &r.fresh {
            let needed = fresh.start..fresh.end.min(change.size);
            for part in without(&needed, &written) {
                flushed = flushed.and(bring(parts, &state.body, body, part, old_size));
            }
        }
    }
    if !defects::on(defects::GAP_ZERO) && range.start > old_size {
        // What lies beyond the old end is whatever was there before.
        flushed = flushed.and(contents::zero(parts, body, old_size..range.start.min(change.size)));
    }
    flushed = flushed.and(contents::stream_fresh(parts, body, change.data, range.start));
    let data = Written { data: change.data, offset: range.start };
    if let Some(sums) = sums {
        let fresh = |offset| !stays(offset);
        flushed.join(sums.give(body, touched.clone(), data, fresh, Durable::unreferenced()));
    }
    let mut record = state.record;
    record.size = change.size;
    if let Some(now) = change.now {
        (record.mtime_ns, record.ctime_ns) = (now, now);
    }
    if reservation.is_none() && sums.is_none() {
        state.record = record;
        // The version is put together while the data is on its way.
        let (at, version) = parts.next_version(ino, state);
        let durable = store::fence(&parts.store.medium, flushed, defects::DATA_FENCE);
        parts.space.effort.changed();
        parts.store_bytes_of_version(at, &version, durable).done();
        return Ok(());
    }
    let moved = reservation.as_ref().is_some_and(|r| r.moved);
    let site = if moved { defects::COPY_FENCE } else { defects::DATA_FENCE };
    let mut durable = store::fence(&parts.store.medium, flushed, site);
    if let Some(sums) = sums {
        let (content, rest) = durable.twice();
        durable = rest;
        with_the_next_fence(sums.give(body, touched, data, stays, content));
    }
    parts.space.effort.changed();
    match reservation {
        Some(Reservation { place, .. }) => contents::settle(parts, ino, state, record, place, durable),
        None => {
            state.record = record;
            parts.store_version(ino, state, durable).done();
        }
    }
    Ok(())
}

/// Fills a part of a new place: with what the file holds there, else with zeros.
fn bring(parts: &Parts, from: &Body, to: &Body, part: Range<u64>, size: u64) -> Flushed {
    let mut flushed = Flushed::nothing();
    let content = part.start..part.end.min(size.max(part.start));
    from.spans(content.start, content.end, |at, piece| {
        let piece = content.start + piece.start as u64..content.start + piece.end as u64;
        flushed.join(if at.is_some() {
            contents::copy(parts, from, to, piece)
        } else {
            contents::zero_fresh(parts, to, piece)
        });
    });
    flushed.and(contents::zero_fresh(parts, to, content.end..part.end))
}

/// Gives a directory space where it has none: free slots.
pub(crate) fn fill_directory(parts: &Parts, ino: Ino, state: &mut State) -> Result<()> {
    let size = state.record.size;
    change(parts, ino, state, &Change { range: 0..size, data: &[], size, now: None })
}

/// Lengthens a directory by free slots.
pub(crate) fn grow_directory(parts: &Parts, ino: Ino, state: &mut State, size: u64) -> Result<()> {
    let old = state.record.size;
    let zeros = vec![0; (size - old) as usize];
    change(parts, ino, state, &Change { range: old..size, data: &zeros, size, now: None })
}

/// Changes a file's size.
pub(crate) fn resize_file(parts: &Parts, ino: Ino, state: &mut State, size: u64) -> Result<()> {
    parts.store.layout.end_of(size, 0)?;
    let now = parts.store.now();
    if size > state.record.size {
        return change(parts, ino, state, &Change { range: size..size, data: &[], size, now: Some(now) });
    }
    if size < state.record.size {
        state.must_not_be_mapped()?;
    }
    let mut record = state.record;
    record.size = size;
    record.reserved = false;
    (record.mtime_ns, record.ctime_ns) = (now, now);
    if !state.body.list().is_empty() {
        contents::cut(parts, ino, state, record);
    } else if state.body.is_huge() {
        let first = size.div_ceil(parts.store.layout.huge) as u32;
        contents::drop_segments(parts, ino, state, record, first..u32::MAX);
    } else {
        let keep = parts.store.layout.pages(size).min(u64::from(record.run_pages)) as u32;
        let (start, pages) = contents::shorten_run(parts, ino, state, record, keep);
        parts.space.take_back(start, pages);
    }
    Ok(())
}

/// The parts of `range` outside `hole`.
pub(crate) fn without(range: &Range<u64>, hole: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let before = range.start..range.end.min(hole.start.max(range.start));
    let after = range.start.max(hole.end)..range.end;
    let parts = if hole.is_empty() { [range.clone(), 0..0] } else { [before, after] };
    parts.into_iter().filter(|part| part.start < part.end)
}
