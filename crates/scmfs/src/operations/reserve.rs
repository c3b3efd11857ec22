//! Space for a change of a file: a run of small pages, huge pages beyond the threshold; and where there are none
//! of these, small pages wherever they are free, which go on the list of the file's extents.

use crate::contents::{self, Place};
use crate::format::extents::{Extent, laid_out};
use crate::inodes::{Body, State};
use crate::parts::Parts;
use crate::reclaim::{self, CHEAP};
use crate::{Error, Ino, Result, Threshold};
use std::ops::Range;

/// Most huge pages that a growing file gets ahead of its need.
const AHEAD_SEGMENTS: u32 = 8;
/// A run doubles up to so many pages; a longer one grows by a quarter.
const DOUBLING_PAGES: u64 = 4096;

/// Space that a file is about to get.
pub(crate) struct Reservation {
    /// Where the content lies then.
    pub place: Place,
    /// The parts of the file whose space is new, in bytes of the file.
    pub fresh: Vec<Range<u64>>,
    /// Some of them had space before: that content has to be copied.
    pub moved: bool,
}

/// Finds space for a range of a file that will have `size` bytes. `None` if it has the space.
pub(crate) fn reserve(
    parts: &Parts,
    ino: Ino,
    state: &State,
    range: &Range<u64>,
    size: u64,
) -> Result<Option<Reservation>> {
    let body = &state.body;
    if range.is_empty() || body.has_space(range.start, range.end) {
        return Ok(None);
    }
    let limit = match parts.store.threshold {
        Threshold::Bytes(bytes) => bytes,
        Threshold::Never => u64::MAX,
    };
    let wants_huge = body.is_huge() || size.max(range.end) > limit;
    // What is mapped stays where it is: what is new goes beside it.
    let stays = !body.is_huge() && !body.small().is_empty() && state.is_mapped();
    let usual = if stays {
        Err(Error::NoSpace)
    } else if wants_huge {
        reserve_huge(parts, ino, state, range)
    } else if body.list().is_empty() {
        reserve_run(parts, state, range.end, limit)
    } else {
        Err(Error::NoSpace)
    };
    if let Ok(reservation) = usual {
        return Ok(Some(reservation));
    }
    let pages = parts.store.layout.pages_per_segment();
    if wants_huge && !stays && has_room(parts, body, range) && reclaim::empty_segment(parts, pages / CHEAP) {
        if let Ok(reservation) = reserve_huge(parts, ino, state, range) {
            return Ok(Some(reservation));
        }
    }
    // Where free space is in too many pieces, others move until there are fewer.
    let mut pieces = reserve_pieces(parts, ino, state, range, wants_huge);
    for _ in 0..=range.end.saturating_sub(range.start) / parts.store.layout.huge + 1 {
        if pieces.is_ok() || !has_room(parts, body, range) || !reclaim::empty_segment(parts, pages) {
            break;
        }
        pieces = reserve_pieces(parts, ino, state, range, wants_huge);
    }
    pieces.map(Some)
}

/// Whether there is as much free space as a range lacks, wherever it is.
fn has_room(parts: &Parts, body: &Body, range: &Range<u64>) -> bool {
    let page = parts.store.layout.page;
    let mut missing = 0;
    body.spans(range.start / page * page, range.end.next_multiple_of(page), |at, part| {
        missing += if at.is_none() { part.len() as u64 } else { 0 };
    });
    missing <= parts.space.free_bytes(&parts.space.alloc())
}

fn reserve_run(parts: &Parts, state: &State, end: u64, threshold: u64) -> Result<Reservation> {
    let (start, pages) = state.body.run();
    let old_bytes = u64::from(pages) * parts.store.layout.page;
    let needed = parts.store.layout.pages(end);
    let roomy = if needed <= DOUBLING_PAGES { needed.next_power_of_two() } else { needed + needed / 4 };
    let roomy = roomy.min(parts.store.layout.pages(threshold)).max(needed);
    let too_large = |_| Error::NoSpace;
    let (needed, roomy) = (u32::try_from(needed).map_err(too_large)?, u32::try_from(roomy).map_err(too_large)?);
    let mut body = state.body.clone();
    let mut reservation = |start: u32, count: u32, from: u64| {
        body.set_run(start, count);
        let fresh = std::iter::once(from..u64::from(count) * parts.store.layout.page).collect();
        Reservation { place: Place::new(body.clone()), fresh, moved: from == 0 && pages > 0 }
    };
    if pages > 0 {
        for count in [roomy, needed] {
            if parts.space.alloc().take_pages_at(start + pages, count - pages) {
                return Ok(reservation(start, count, old_bytes));
            }
        }
    }
    let (start, count) = reclaim::take_free_run(parts, roomy, needed)?;
    Ok(reservation(start, count, 0))
}

/// Huge pages of the file that a range needs and that it has not.
fn missing_segments(parts: &Parts, body: &Body, range: &Range<u64>) -> Vec<u32> {
    let (huge, extents) = (parts.store.layout.huge, body.extents());
    let has = |index: u32| extents.binary_search_by_key(&index, |(i, _)| *i).is_ok();
    ((range.start / huge) as u32..=((range.end - 1) / huge) as u32).filter(|index| !has(*index)).collect()
}

/// The huge page before an index, if the file has it.
fn segment_before(body: &Body, index: u32) -> Option<u32> {
    let (before, extents) = (index.checked_sub(1)?, body.extents());
    extents.binary_search_by_key(&before, |(i, _)| *i).ok().map(|i| extents[i].1)
}

/// Whether small pages lie where a huge page of the file would.
fn has_small(parts: &Parts, small: &[Extent], index: u32) -> bool {
    let pages = u64::from(parts.store.layout.pages_per_segment());
    let range = u64::from(index) * pages..(u64::from(index) + 1) * pages;
    let first = small.partition_point(|extent| extent.end_index() <= range.start);
    small.get(first).is_some_and(|extent| u64::from(extent.index) < range.end)
}

fn reserve_huge(parts: &Parts, ino: Ino, state: &State, range: &Range<u64>) -> Result<Reservation> {
    let (huge, body, small) = (parts.store.layout.huge, &state.body, state.body.small());
    let last = ((range.end - 1) / huge) as u32;
    let mut missing = missing_segments(parts, body, range);
    let moved = !body.is_huge() && !small.is_empty();
    if moved {
        // What lies in small pages now comes along.
        let pages = u64::from(parts.store.layout.pages_per_segment());
        let pages_of_size = parts.store.layout.pages(state.record.size);
        // And what was reserved beyond its end.
        let content = if state.record.reserved { u64::MAX } else { pages_of_size };
        let filled = small.iter().filter_map(|extent| extent.within(&(0..content)));
        let more = filled.flat_map(|e| u64::from(e.index) / pages..e.end_index().div_ceil(pages));
        missing.extend(more.map(|index| index as u32));
        missing.sort_unstable();
        missing.dedup();
    } else if missing.iter().any(|index| has_small(parts, &small, *index)) {
        return Err(Error::NoSpace);
    }
    if missing.len() > parts.store.layout.segments_per_transaction() {
        return Err(Error::NoSpace);
    }
    let extents = body.extents();
    let previous = segment_before(body, missing[0]);
    // A file that grows at its end gets some more, so that its huge pages follow each other.
    let grows = extents.last().is_none_or(|(index, _)| *index < last) && range.end > state.record.size;
    let room = u32::MAX - 1 - last;
    let is_free = |index: u32| moved || !has_small(parts, &small, index);
    let ahead = if grows { (extents.len() as u32).min(AHEAD_SEGMENTS).min(room) } else { 0 };
    let ahead = (1..=ahead).take_while(|more| is_free(last + more)).count() as u32;
    let taken = reclaim::take_segments(parts, missing.len() as u32, ahead, previous, ino)?;
    let extra = (taken.len() - missing.len()) as u32;
    missing.extend(last + 1..=last + extra);
    let new: Vec<(u32, u32)> = missing.iter().copied().zip(taken).collect();
    let mut all = extents.to_vec();
    all.extend(&new);
    all.sort_unstable();
    let mut changed = body.clone();
    changed.set((0, 0), all, if moved { Vec::new() } else { body.list().to_vec() });
    let fresh = new.iter().map(|(i, _)| u64::from(*i) * huge..(u64::from(*i) + 1) * huge).collect();
    Ok(Reservation { place: Place { new, ..Place::new(changed) }, fresh, moved })
}

/// Fills the holes of a range with small pages; with huge ones first, as far as there are any, if the file is
/// to have them and has nothing small in their places.
fn reserve_pieces(parts: &Parts, ino: Ino, state: &State, range: &Range<u64>, huge_too: bool) -> Result<Reservation> {
    let (huge, body, small) = (parts.store.layout.huge, &state.body, state.body.small());
    let mut new: Vec<(u32, u32)> = Vec::new();
    if huge_too {
        let mut wanted = missing_segments(parts, body, range);
        wanted.retain(|index| !has_small(parts, &small, *index));
        wanted.truncate(parts.store.layout.segments_per_transaction());
        let mut alloc = parts.space.alloc();
        let count = alloc.free_segments().min(wanted.len() as u32);
        if count > 0 {
            let previous = segment_before(body, wanted[0]);
            new = wanted.into_iter().zip(alloc.take_segments(count, previous, ino).unwrap_or_default()).collect();
        }
    }
    let mut extents = body.extents().to_vec();
    extents.extend(&new);
    extents.sort_unstable();
    let mut with_huge = body.clone();
    let (run, list) = if extents.is_empty() { (body.run(), body.list().to_vec()) } else { ((0, 0), small.clone()) };
    with_huge.set(run, extents.clone(), list);
    let mut place = Place { new, ..Place::new(with_huge) };
    let holes = add_small(parts, body, &mut place, range).inspect_err(|_| contents::give_up(parts, body, &place))?;
    let page = parts.store.layout.page;
    let huge_fresh = place.new.iter().map(|(i, _)| u64::from(*i) * huge..(u64::from(*i) + 1) * huge);
    let small_fresh = holes.iter().map(|hole| u64::from(hole.start) * page..u64::from(hole.end) * page);
    let fresh = huge_fresh.chain(small_fresh).collect();
    Ok(Reservation { place, fresh, moved: false })
}

/// Adds small pages to a place where it has none in a range, and pages for its list. The holes that there were.
fn add_small(parts: &Parts, old: &Body, place: &mut Place, range: &Range<u64>) -> Result<Vec<Range<u32>>> {
    let page = parts.store.layout.page;
    let (first, end) = (range.start / page, range.end.div_ceil(page));
    if end > u64::from(u32::MAX) {
        return Err(Error::NoSpace);
    }
    let mut holes: Vec<Range<u32>> = Vec::new();
    place.body.spans(first * page, end * page, |at, part| {
        if at.is_none() {
            let hole = (first + part.start as u64 / page) as u32..(first + part.end as u64 / page) as u32;
            holes.push(hole);
        }
    });
    let mut small = place.body.small();
    if let Some(hole) = holes.first() {
        let count: u64 = holes.iter().map(|hole| u64::from(hole.end - hole.start)).sum();
        let count = u32::try_from(count).map_err(|_| Error::NoSpace)?;
        let before = small.iter().find(|extent| extent.end() == Some(hole.start));
        let taken = reclaim::take_small(parts, count, before.map(|extent| extent.start + extent.pages))?;
        small.extend(laid_out(&holes, &taken));
    }
    place.body = place.body.assembled(place.body.extents().to_vec(), small);
    place.list = reclaim::take_list(parts, old, &place.body)?;
    Ok(holes)
}
