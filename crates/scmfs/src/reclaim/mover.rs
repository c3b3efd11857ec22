//! Small pages move out of the way, where nothing consecutive is free: for a run, or for a whole huge page. Each
//! file moves by itself, with a new version; files that are being used at that moment are left alone.

use crate::contents::{self, Place};
use crate::format::extents::{EXTENTS_MAX, Extent, encode, laid_out};
use crate::format::inode;
use crate::inodes::State;
use crate::parts::Parts;
use crate::store::{self, Transaction};
use crate::{FileType, Ino, defects};
use pocketstone_media::Durable;
use std::ops::Range;

/// How many windows are tried before there is no space for a run.
const WINDOWS: usize = 3;
/// A run of up to so many pages moves as a whole.
const WHOLE_PAGES: u32 = 64;

/// Makes room for `count` consecutive small pages, and takes them: the first.
pub(crate) fn make_run(parts: &Parts, count: u32) -> Option<u32> {
    let mut from = 0;
    parts.space.effort.unless_fruitless(&parts.space.effort.run, || {
        (0..WINDOWS).find_map(|_| {
            let (start, used) = {
                let alloc = parts.space.alloc();
                let (start, used) = alloc.cheapest_window(count, from)?;
                // What is in use there has to go somewhere else.
                (alloc.free_pages() - u64::from(count - used) >= u64::from(used)).then_some((start, used))?
            };
            from = start + count;
            let taken = used == 0 && parts.space.alloc().take_pages_at(start, count);
            (taken || empty(parts, start..start + count)).then_some(start)
        })
    })
}

/// Makes a huge page of the zone free for files, if not more than `most` of its small pages are in use.
pub(crate) fn empty_segment(parts: &Parts, most: u32) -> bool {
    let pages = parts.store.layout.pages_per_segment();
    let candidates: Vec<u32> = {
        let alloc = parts.space.alloc();
        let fits = |(_, used): &(u32, u32)| {
            // What is in use there has to go somewhere else.
            *used <= most && alloc.free_pages() - u64::from(pages - used) >= u64::from(*used)
        };
        alloc.emptiest_small_segments().into_iter().filter(fits).take(WINDOWS).map(|(segment, _)| segment).collect()
    };
    if candidates.is_empty() {
        return false;
    }
    let empty = |segment: &u32| empty(parts, segment * pages..(segment + 1) * pages);
    let Some(segment) =
        parts.space.effort.unless_fruitless(&parts.space.effort.segment, || candidates.into_iter().find(empty))
    else {
        return false;
    };
    // Nobody has a page of it, or can get one before it is free.
    let mut tx = Transaction::new();
    tx.unmap(&parts.store.layout, &[segment]);
    let mut alloc = parts.space.alloc();
    parts.store.commit(tx, Durable::nothing_new()).done();
    alloc.free_page_run(segment * pages, pages);
    alloc.free_segment(segment);
    true
}

/// Moves everything out of a range of small pages and takes them all; false if something stays there.
fn empty(parts: &Parts, range: Range<u32>) -> bool {
    let mut held = hold(parts, &range);
    for ino in owners(parts, &range) {
        move_out(parts, ino, &range);
        held.extend(hold(parts, &range));
    }
    let all = held.iter().map(|(_, pages)| pages).sum::<u32>() == range.end - range.start;
    if !all {
        let mut alloc = parts.space.alloc();
        held.iter().for_each(|(start, pages)| alloc.free_page_run(*start, *pages));
    }
    all
}

/// Takes what is free in a range.
fn hold(parts: &Parts, range: &Range<u32>) -> Vec<(u32, u32)> {
    let mut alloc = parts.space.alloc();
    let free = alloc.free_runs(range.clone());
    free.into_iter().filter(|(start, pages)| alloc.take_pages_at(*start, *pages)).collect()
}

/// The inodes that have pages in a range, as far as the medium says.
fn owners(parts: &Parts, range: &Range<u32>) -> Vec<Ino> {
    let used: Vec<Ino> = parts.space.alloc().inodes.used().collect();
    let (store, segments) = (&parts.store, parts.store.segments());
    let hits = |start: u32, pages: u32| pages > 0 && start < range.end && start + pages > range.start;
    let owns = |ino: Ino| {
        let Ok((_, record)) = inode::load(&store.medium, &store.layout, ino, segments) else { return false };
        let read = |at: u64, into: &mut [u8]| store.medium.read(at, into);
        let list = inode::load_list(&store.layout, ino, &record, segments, read).unwrap_or_default();
        let hit = inode::small_runs(&record, &list).any(|(start, pages)| hits(start, pages));
        hit && !record.is_free()
    };
    // What somebody is changing is left alone.
    used.into_iter().filter(|ino| parts.inodes.undisturbed(*ino, || owns(*ino)).unwrap_or(false)).collect()
}

fn move_out(parts: &Parts, ino: Ino, range: &Range<u32>) {
    let Ok(node) = parts.node(ino) else { return };
    let Some(mut state) = node.try_write() else { return };
    if state.record.is_free() || state.is_mapped() {
        return;
    }
    let hits = |(start, pages): (u32, u32)| pages > 0 && start < range.end && start + pages > range.start;
    if hits((state.record.xattr_start, state.record.xattr_pages)) {
        move_xattrs(parts, ino, &mut state);
    }
    let content = state.body.small().iter().any(|extent| hits((extent.start, extent.pages)));
    if content || hits((state.record.list_start, state.record.list_pages)) {
        move_content(parts, ino, &mut state, range);
    }
}

fn move_xattrs(parts: &Parts, ino: Ino, state: &mut State) {
    let (old, pages) = (state.record.xattr_start, state.record.xattr_pages);
    let Some(start) = parts.space.alloc().take_pages(pages) else { return };
    let (from, to) = (parts.store.layout.page_at(old), parts.store.layout.page_at(start));
    let bytes = u64::from(pages) * parts.store.layout.page;
    // SAFETY: the pages were just taken: nobody else has them.
    let copied = unsafe { parts.store.medium.copy(from, to, bytes, Durable::unreferenced()) };
    let durable = store::fence(&parts.store.medium, copied, defects::XATTR_FENCE);
    state.record.xattr_start = start;
    parts.store_version(ino, state, durable).done();
    parts.space.free_pages(old, pages);
}

/// Moves the content of a file, its list included, as far as it lies in a range.
fn move_content(parts: &Parts, ino: Ino, state: &mut State, range: &Range<u32>) {
    let small = state.body.small();
    // A link's target lies in one run, and moves as a whole.
    let is_link = state.record.kind() == FileType::Symlink;
    // Any other run that is not too long does, too, if it can: so it needs no list.
    let (_, run) = state.body.run();
    let in_run = (1..=WHOLE_PAGES).contains(&run) && state.body.list().is_empty();
    let one = if in_run { parts.space.alloc().take_pages(run) } else { None };
    let whole = is_link || one.is_some();
    let moves = |extent: &Extent| {
        let from = if whole { extent.start } else { range.start.max(extent.start) };
        let to = if whole { extent.start + extent.pages } else { range.end.min(extent.start + extent.pages) };
        (from < to).then(|| extent.index + (from - extent.start)..extent.index + (to - extent.start))
    };
    let holes: Vec<Range<u32>> = small.iter().filter_map(moves).collect();
    let count = holes.iter().map(|hole| hole.end - hole.start).sum();
    let taken = {
        let mut alloc = parts.space.alloc();
        match count {
            0 => Some(Vec::new()),
            _ if whole => one.map(|start| vec![(start, count)]),
            _ => alloc.take_scattered(count),
        }
    };
    let Some(taken) = taken else { return };
    let mut kept = small;
    for hole in &holes {
        let hole = u64::from(hole.start)..u64::from(hole.end);
        kept = kept.iter().flat_map(|extent| extent.outside(&hole)).collect();
    }
    kept.extend(laid_out(&holes, &taken));
    let mut place = Place::new(state.body.assembled(state.body.extents().to_vec(), kept));
    let list_stays = place.body.list() == state.body.list();
    if list_stays && count == 0 {
        return move_list(parts, ino, state);
    }
    let needed = contents::list_pages(parts, &state.body, &place.body);
    if place.body.list().len() <= EXTENTS_MAX {
        let list = parts.space.alloc().take_pages(needed);
        place.list = list.map_or((0, 0), |start| (start, needed));
    }
    if needed > 0 && place.list.1 == 0 {
        return contents::give_up(parts, &state.body, &place);
    }
    let page = parts.store.layout.page;
    let mut flushed = contents::store_list(parts, ino, &place);
    for hole in holes {
        let bytes = u64::from(hole.start) * page..u64::from(hole.end) * page;
        flushed = flushed.and(contents::copy(parts, &state.body, &place.body, bytes));
    }
    let durable = store::fence(&parts.store.medium, flushed, defects::COPY_FENCE);
    contents::settle(parts, ino, state, state.record, place, durable);
}

/// Stores a list once more, as it is, in other pages.
fn move_list(parts: &Parts, ino: Ino, state: &mut State) {
    let (old, pages) = (state.record.list_start, state.record.list_pages);
    let Some(start) = parts.space.alloc().take_pages(pages) else { return };
    let bytes = encode(ino, state.body.list());
    // SAFETY: the pages were just taken: nobody else has them.
    let stored =
        unsafe { parts.store.medium.stream(parts.store.layout.page_at(start), &bytes, Durable::unreferenced()) };
    let durable = store::fence(&parts.store.medium, stored, defects::LIST_FENCE);
    state.record.list_start = start;
    parts.store_version(ino, state, durable).done();
    parts.space.alloc().free_page_run(old, pages);
}
