//! What files hold, and where it lies: reading it, filling pages that were taken, and giving a file another place.
//! Nothing here looks for space.

mod cut;
mod place;
mod release;
mod sums;

pub(crate) use cut::{cut, drop_segments, drop_small, shorten_run};
pub(crate) use place::{Place, give_up, list_pages, settle, store_list};
pub(crate) use release::{free_inode, release, stage_free};
pub(crate) use sums::{Sums, Written, all_sums, of_pages, sums, with_the_next_fence};

use crate::inodes::{Body, State};
use crate::parts::Parts;
use crate::{Ino, Result};
use pocketstone_media::{Durable, Flushed};
use std::ops::Range;

/// Reads what there is, up to the end of the file. Fails only where a checksum says that a page is damaged.
#[inline]
pub(crate) fn read(parts: &Parts, ino: Ino, state: &State, into: &mut [u8], offset: u64) -> Result<usize> {
    if offset >= state.record.size {
        return Ok(0);
    }
    let end = state.record.size.min(offset.saturating_add(into.len() as u64));
    if let Some(sums) = sums(&parts.store, &state.record) {
        return read_verified(sums, ino, state, &mut into[..(end - offset) as usize], offset);
    }
    if end <= state.body.piece_bytes() {
        let bytes = (end - offset) as usize;
        parts.store.medium.read(state.body.piece_at() + offset, &mut into[..bytes]);
        return Ok(bytes);
    }
    state.body.spans(offset, end, |at, part| match at {
        Some(at) => parts.store.medium.read(at, &mut into[part]),
        None => into[part].fill(0),
    });
    Ok((end - offset) as usize)
}

// Apart, so that reading without checksums has the registers for itself.
#[inline(never)]
fn read_verified(sums: Sums<'_>, ino: Ino, state: &State, into: &mut [u8], offset: u64) -> Result<usize> {
    sums.read(ino, state, into, offset).map(|()| into.len())
}

/// Stores something in each piece of a part of a file's content that has space.
#[inline]
fn in_each_piece(body: &Body, range: Range<u64>, store: impl Fn(u64, Range<usize>) -> Flushed) -> Flushed {
    let mut flushed = Flushed::nothing();
    body.spans(range.start, range.end, |at, part| {
        if let Some(at) = at {
            flushed.join(store(at, part));
        }
    });
    flushed
}

/// Stores a part of a file's content, as far as it has space.
pub(crate) fn stream(parts: &Parts, body: &Body, from: &[u8], offset: u64) -> Flushed {
    in_each_piece(body, offset..offset + from.len() as u64, |at, part| {
        // SAFETY: who calls has locked the file exclusively, or has just taken these pages for it.
        unsafe { parts.store.medium.stream(at, &from[part], Durable::in_place()) }
    })
}

/// As [`stream`], where nobody looks yet: beyond the end of the file, or in new space.
pub(crate) fn stream_fresh(parts: &Parts, body: &Body, from: &[u8], offset: u64) -> Flushed {
    in_each_piece(body, offset..offset + from.len() as u64, |at, part| {
        // SAFETY: as in `stream`.
        unsafe { parts.store.medium.stream_fresh(at, &from[part], Durable::in_place()) }
    })
}

/// Zeroes a part of a file's content, as far as it has space.
pub(crate) fn zero(parts: &Parts, body: &Body, range: Range<u64>) -> Flushed {
    in_each_piece(body, range, |at, part| {
        // SAFETY: as in `stream`.
        unsafe { parts.store.medium.zero(at, part.len() as u64, Durable::in_place()) }
    })
}

/// Zeroes what a file's last page has behind its end, of a volume without checksums.
pub(crate) fn zero_behind_end(parts: &Parts, state: &State) {
    let size = state.record.size;
    let end = size.next_multiple_of(parts.store.layout.page);
    parts.store.medium.fence(zero(parts, &state.body, size..end)).done();
}

/// Zeroes space that is no content yet.
pub(crate) fn zero_fresh(parts: &Parts, body: &Body, range: Range<u64>) -> Flushed {
    let mut flushed = zero(parts, body, range.clone());
    if let Some(sums) = all_sums(&parts.store) {
        flushed.join(sums.give(body, range, Written::nothing(), |_| true, Durable::unreferenced()));
    }
    flushed
}

/// Copies content to space that is none yet; what is damaged stays damaged.
pub(crate) fn copy(parts: &Parts, from: &Body, to: &Body, range: Range<u64>) -> Flushed {
    let mut flushed = Flushed::nothing();
    to.spans(range.start, range.end, |at, part| {
        let Some(at) = at else { return };
        let start = range.start + part.start as u64;
        from.spans(start, range.start + part.end as u64, |old, piece| {
            if let Some(old) = old {
                let (to, bytes) = (at + piece.start as u64, piece.len() as u64);
                // SAFETY: who calls has locked the file exclusively, or has just taken these pages for it.
                flushed.join(unsafe { parts.store.medium.copy(old, to, bytes, Durable::unreferenced()) });
            }
        });
    });
    if let Some(sums) = all_sums(&parts.store) {
        flushed.join(sums.copied(from, to, range));
    }
    flushed
}

/// Zeroes what has space in ranges of a file's content.
pub(crate) fn zero_content(parts: &Parts, state: &State, ranges: &[Range<u64>]) {
    let (medium, sums) = (&parts.store.medium, sums(&parts.store, &state.record));
    if let Some(sums) = sums {
        ranges.iter().for_each(|range| sums.forget(&state.body, range.clone(), |_| true));
    }
    let zeros = ranges.iter().map(|range| zero(parts, &state.body, range.clone()));
    let zeroed = medium.fence(zeros.fold(Flushed::nothing(), Flushed::and));
    let Some(sums) = sums else { return zeroed.done() };
    let (mut zeroed, mut given) = (zeroed, Flushed::nothing());
    for range in ranges {
        let (this, next) = zeroed.twice();
        zeroed = next;
        given.join(sums.give(&state.body, range.clone(), Written::nothing(), |_| true, this));
    }
    zeroed.done();
    medium.fence(given).done();
}
