//! Cutting files, which never needs space.

use super::{Place, list_pages, settle, store_list};
use crate::format::extents::{Extent, pages_gone};
use crate::format::inode::Record;
use crate::inodes::{Body, State};
use crate::parts::Parts;
use crate::store::{self, Transaction};
use crate::{Ino, Result, defects};
use pocketstone_media::Durable;
use std::ops::Range;

/// Stores a record with a shorter run. The pages that were cut off, for the caller to free.
pub(crate) fn shorten_run(parts: &Parts, ino: Ino, state: &mut State, mut record: Record, keep: u32) -> (u32, u32) {
    parts.space.effort.changed();
    let (start, pages) = (record.run_start, record.run_pages);
    record.run_pages = keep;
    if keep == 0 {
        record.run_start = 0;
    }
    state.record = record;
    parts.store_version(ino, state, Durable::nothing_new()).done();
    state.body.set_run(record.run_start, keep);
    (start + keep, pages - keep)
}

/// Stores a record, and gives back the huge pages with these indices. The first transaction does
/// the first; when there are many huge pages, more of them follow.
pub(crate) fn drop_segments(parts: &Parts, ino: Ino, state: &mut State, record: Record, indices: Range<u32>) {
    state.record = record;
    parts.space.effort.changed();
    loop {
        let mut kept = state.body.extents().to_vec();
        let first = kept.partition_point(|(index, _)| *index < indices.start);
        let end = kept.partition_point(|(index, _)| *index < indices.end);
        let last = end.min(first + parts.store.layout.segments_per_transaction());
        let batch: Vec<u32> = kept.drain(first..last).map(|(_, segment)| segment).collect();
        let mut tx = Transaction::new();
        tx.unmap(&parts.store.layout, &batch);
        state.record.segments = kept.len() as u32;
        state.record.huge = !kept.is_empty();
        let (at, version) = parts.next_version(ino, state);
        tx.bytes(at, &version);
        parts.store.commit(tx, Durable::nothing_new()).done();
        state.body.set_extents(kept);
        parts.space.free_segments(&batch);
        if last == end {
            return;
        }
    }
}

/// Gives the small pages of a range of the file back, also those in huge pages that lose only a part of what
/// they hold. `list` takes pages for a list, from the place that is and the one that is to be; if it cannot,
/// everything stays.
pub(crate) fn drop_small(
    parts: &Parts,
    ino: Ino,
    state: &mut State,
    range: &Range<u64>,
    list: impl FnOnce(&Body, &Body) -> Result<(u32, u32)>,
) {
    let pages = parts.store.layout.pages_per_segment();
    let as_extent = |(index, segment): (u32, u32)| {
        let index = index.checked_mul(pages)?;
        Some(Extent { index, start: segment * pages, pages })
    };
    let mut small = state.body.small_outside(range);
    let (mut kept, mut split) = (Vec::new(), Vec::new());
    for (index, segment) in state.body.extents().iter().copied() {
        let extent = as_extent((index, segment));
        let within = extent.and_then(|extent| extent.within(range));
        match extent.zip(within).filter(|(_, within)| within.pages < pages) {
            Some((extent, _)) => {
                small.extend(extent.outside(range));
                split.push(segment);
            }
            None => kept.push((index, segment)),
        }
    }
    if split.is_empty() && small == state.body.small() {
        return;
    }
    let place = Place { split, ..Place::new(state.body.assembled(kept, small)) };
    let Ok(list) = list(&state.body, &place.body) else { return };
    let place = Place { list, ..place };
    let durable = store::fence(&parts.store.medium, store_list(parts, ino, &place), defects::LIST_FENCE);
    settle(parts, ino, state, state.record, place, durable);
}

/// Stores a record, and gives back what lies beyond its size. The bytes that are free then.
pub(crate) fn cut(parts: &Parts, ino: Ino, state: &mut State, record: Record) -> u64 {
    let keep = parts.store.layout.pages(record.size);
    let first = record.size.div_ceil(parts.store.layout.huge) as u32;
    let small = state.body.small_outside(&(keep..u64::MAX));
    let gone = pages_gone(&state.body.small(), &small);
    let mut freed = 0;
    if !gone.is_empty() {
        // Huge pages beyond the end go in steps of their own, below.
        let body = state.body.assembled(state.body.extents().to_vec(), small);
        let needed = list_pages(parts, &state.body, &body);
        let mut place = Place::new(body);
        if needed > 0 {
            let taken = parts.space.alloc().take_pages(needed);
            if taken.is_none() {
                // What is beyond the new end is worth nothing once the size is stored: the list goes there.
                state.record = record;
                parts.store_version(ino, state, Durable::nothing_new()).done();
            }
            // Not where a store that began before may still go: then the space stays, and is collected later.
            let safe = parts.space.held.running().is_none();
            let there = || gone.iter().find(|(_, pages)| safe && *pages >= needed).map(|(start, _)| *start);
            place.list = taken.or_else(there).map_or((0, 0), |start| (start, needed));
        }
        if needed == 0 || place.list.1 > 0 {
            let durable = store::fence(&parts.store.medium, store_list(parts, ino, &place), defects::LIST_FENCE);
            let pages: u64 = gone.iter().map(|(_, pages)| u64::from(*pages)).sum();
            freed = pages.saturating_sub(u64::from(place.list.1)) * parts.store.layout.page;
            settle(parts, ino, state, record, place, durable);
        }
    } else {
        state.record = record;
        if state.body.extents().iter().all(|(index, _)| *index < first) {
            parts.store_version(ino, state, Durable::nothing_new()).done();
        }
    }
    let huge = state.body.extents().iter().filter(|(index, _)| *index >= first).count() as u64;
    if huge > 0 {
        drop_segments(parts, ino, state, state.record, first..u32::MAX);
    }
    freed + huge * parts.store.layout.huge
}
