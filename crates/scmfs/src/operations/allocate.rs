//! fallocate: space ahead of need, holes, zeros.

use super::shift;
use super::tail;
use super::write::{self, Change};
use crate::contents::{self, sums};
use crate::inodes::{Body, State};
use crate::parts::Parts;
use crate::reclaim;
use crate::{Allocate, Error, Ino, Result, TimeNs};
use pocketstone_media::Durable;
use std::ops::Range;

/// Reserves, punches or zeroes a range.
pub(crate) fn allocate(
    parts: &Parts,
    ino: Ino,
    state: &mut State,
    how: Allocate,
    offset: u64,
    bytes: u64,
) -> Result<()> {
    if bytes == 0 {
        return Err(Error::Invalid);
    }
    if matches!(how, Allocate::Collapse | Allocate::Insert) {
        state.must_not_be_mapped()?;
        tail::clear(parts, ino, state)?;
        return shift::shift(parts, ino, state, how, offset, bytes);
    }
    let end = parts.store.layout.end_of(offset, bytes)?;
    let (now, old_size) = (parts.store.now(), state.record.size);
    if how == Allocate::PunchHole {
        return punch(parts, ino, state, offset, end);
    }
    let size = match how {
        Allocate::Extend | Allocate::Zero => old_size.max(end),
        _ => old_size,
    };
    let zeroes = matches!(how, Allocate::Zero | Allocate::ZeroKeepSize);
    if let Some(sums) = sums(&parts.store, &state.record) {
        let changed = if zeroes { offset.min(old_size)..end.min(size) } else { old_size..size };
        sums.demand_edges(ino, state, &changed)?;
    }
    // Space that comes from here on is zeros already.
    let old = if zeroes { filled(&state.body, offset, end.min(old_size)) } else { Vec::new() };
    // Kept with the first version that is stored from here on.
    let reserved = std::mem::replace(&mut state.record.reserved, true);
    let done = find_space(parts, ino, state, offset..end, Some(now));
    if done.is_err() {
        state.record.reserved = reserved;
        return done;
    }
    // Not before all the space is there: what is refused for want of it changes nothing.
    if !old.is_empty() {
        contents::zero_content(parts, state, &old);
    }
    if size > old_size {
        write::change(parts, ino, state, &Change { range: size..size, data: &[], size, now: Some(now) })?;
    }
    Ok(())
}

/// Finds space for a range, in steps that a transaction can map. `now`: that can be seen.
pub(crate) fn find_space(
    parts: &Parts,
    ino: Ino,
    state: &mut State,
    range: Range<u64>,
    now: Option<TimeNs>,
) -> Result<()> {
    let (size, end) = (state.record.size, range.end);
    let step = parts.store.layout.step_bytes();
    let mut from = range.start;
    while from < end {
        let to = end.min(from.saturating_add(step));
        write::change(parts, ino, state, &Change { range: from..to, data: &[], size, now })?;
        from = to;
    }
    Ok(())
}

/// Zeroes what has space in a range, up to the end of the file.
pub(crate) fn zero_in_place(parts: &Parts, state: &mut State, offset: u64, end: u64) {
    let end = end.min(state.record.size);
    if offset < end {
        contents::zero_content(parts, state, std::slice::from_ref(&(offset..end)));
        state.touch(parts.store.now());
    }
}

/// Gives the whole pages of a range back, and zeroes what is left of it.
fn punch(parts: &Parts, ino: Ino, state: &mut State, offset: u64, end: u64) -> Result<()> {
    if let Some(sums) = sums(&parts.store, &state.record).filter(|_| offset < state.record.size) {
        sums.demand_edges(ino, state, &(offset..end.min(state.record.size)))?;
    }
    let page = parts.store.layout.page;
    let last = if end >= state.record.size { end.div_ceil(page) } else { end / page };
    let whole = offset.div_ceil(page)..last;
    // What is mapped stays the file's.
    if whole.start >= whole.end || state.is_mapped() {
        zero_in_place(parts, state, offset, end);
    } else {
        zero_in_place(parts, state, offset, end.min(whole.start * page));
        zero_in_place(parts, state, offset.max(whole.end * page), end);
        state.touch(parts.store.now());
        contents::drop_small(parts, ino, state, &whole, |old, new| reclaim::take_list(parts, old, new));
        let pages = u64::from(parts.store.layout.pages_per_segment());
        let indices = whole.start.div_ceil(pages) as u32..(whole.end / pages) as u32;
        if state.body.extents().iter().any(|(index, _)| indices.contains(index)) {
            contents::drop_segments(parts, ino, state, state.record, indices);
        }
        // What could not be given back, for want of space for a list, keeps its place with zeros in it.
        zero_in_place(parts, state, whole.start * page, whole.end * page);
    }
    state.touch(parts.store.now());
    parts.store_version(ino, state, Durable::nothing_new()).done();
    Ok(())
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
