//! Files in pieces are put together again, where there is room for that: in one run, or in huge pages.

use crate::contents::{self, Place};
use crate::format::extents::EXTENTS_MAX;
use crate::inodes::State;
use crate::parts::Parts;
use crate::store;
use crate::{FileType, Ino, Threshold, defects};
use std::ops::Range;

/// Puts together what lies in pieces, as far as space allows. Files that are being used stay as they are.
pub(crate) fn merge_lists(parts: &Parts) {
    let used: Vec<Ino> = parts.space.alloc().inodes.used().collect();
    for ino in used {
        let stored = parts.inodes.stored(&parts.store, ino);
        if !stored.is_some_and(|record| record.list_extents > 0 && !record.is_free()) {
            continue;
        }
        let Ok(node) = parts.node(ino) else { continue };
        let Some(mut state) = node.try_write() else { continue };
        if !state.record.is_free() && state.record.kind() != FileType::Symlink && !state.is_mapped() {
            merge(parts, ino, &mut state);
        }
    }
}

fn merge(parts: &Parts, ino: Ino, state: &mut State) {
    let beyond = match parts.store.threshold {
        Threshold::Bytes(bytes) => state.record.size > bytes,
        Threshold::Never => false,
    };
    let merged =
        if beyond || state.body.is_huge() { in_huge_pages(parts, ino, state) } else { in_one_run(parts, state) };
    let Some((mut place, moved)) = merged else { return };
    // A huge page out of the middle of a long extent leaves two of it.
    if place.body.list().len() > EXTENTS_MAX {
        return contents::give_up(parts, &state.body, &place);
    }
    let needed = contents::list_pages(parts, &state.body, &place.body);
    if needed > 0 {
        match parts.space.alloc().take_pages(needed) {
            Some(start) => place.list = (start, needed),
            None => return contents::give_up(parts, &state.body, &place),
        }
    }
    let mut flushed = contents::store_list(parts, ino, &place);
    for part in moved {
        flushed = flushed.and(contents::copy(parts, &state.body, &place.body, part));
    }
    let durable = store::fence(&parts.store.medium, flushed, defects::COPY_FENCE);
    contents::settle(parts, ino, state, state.record, place, durable);
}

/// A run for a file without holes.
fn in_one_run(parts: &Parts, state: &State) -> Option<(Place, Vec<Range<u64>>)> {
    let small = state.body.small();
    let total: u32 = small.iter().map(|extent| extent.pages).sum();
    if small.last()?.end_index() != u64::from(total) {
        return None;
    }
    let start = parts.space.alloc().take_pages(total)?;
    let mut body = state.body.clone();
    body.set_run(start, total);
    Some((Place::new(body), std::iter::once(0..u64::from(total) * parts.store.layout.page).collect()))
}

/// Huge pages in the place of small ones that fill them, or fill them up to the end of the file.
fn in_huge_pages(parts: &Parts, ino: Ino, state: &State) -> Option<(Place, Vec<Range<u64>>)> {
    let (pages, content) =
        (u64::from(parts.store.layout.pages_per_segment()), parts.store.layout.pages(state.record.size));
    let small = state.body.small();
    let mut whole: Vec<u32> = Vec::new();
    let mut indices: Vec<u64> =
        small.iter().flat_map(|e| u64::from(e.index) / pages..e.end_index().div_ceil(pages)).collect();
    indices.dedup();
    for index in indices {
        let range = index * pages..((index + 1) * pages).min(content);
        let there: u64 = small.iter().filter_map(|e| e.within(&range)).map(|e| u64::from(e.pages)).sum();
        if range.start < range.end && there == range.end - range.start {
            whole.push(index as u32);
        }
    }
    whole.truncate(parts.store.layout.segments_per_transaction());
    let taken = {
        let mut alloc = parts.space.alloc();
        whole.truncate(alloc.free_segments() as usize);
        // The last free space is for those who need it.
        if whole.is_empty() || parts.space.is_low(&alloc) {
            return None;
        }
        alloc.take_segments(whole.len() as u32, None, ino)?
    };
    let new: Vec<(u32, u32)> = whole.iter().copied().zip(taken).collect();
    let (mut extents, mut left) = (state.body.extents().to_vec(), small);
    extents.extend(&new);
    extents.sort_unstable();
    let mut moved = Vec::new();
    for index in whole {
        let range = u64::from(index) * pages..(u64::from(index) + 1) * pages;
        left = left.iter().flat_map(|extent| extent.outside(&range)).collect();
        let bytes = range.start * parts.store.layout.page..range.end * parts.store.layout.page;
        moved.push(bytes.start..bytes.end.min(content * parts.store.layout.page));
    }
    Some((Place { new, ..Place::new(state.body.assembled(extents, left)) }, moved))
}
