//! Where a file's content lies from now on: the list of its extents is stored first, then the version of its
//! inode that refers to it makes everything true at once, and what the file does not need any more is free.

use crate::Ino;
use crate::defects;
use crate::format::extents::{EXTENTS_MAX, Extent, encode, list_bytes, pages_gone};
use crate::format::inode::Record;
use crate::format::mapping::Mapping;
use crate::inodes::{Body, State};
use crate::parts::Parts;
use crate::store::Transaction;
use pocketstone_media::{Durable, Flushed};

/// A place for a file's content, and what becomes of the huge pages on the way.
pub(crate) struct Place {
    pub body: Body,
    /// Small pages for the list; none if there is no list, or the old one stays.
    pub list: (u32, u32),
    /// Huge pages to enter in the mapping table: `(index, huge page)`.
    pub new: Vec<(u32, u32)>,
    /// Huge pages that are free then.
    pub dropped: Vec<u32>,
    /// Huge pages that serve the zone of small pages then; the file keeps some of those.
    pub split: Vec<u32>,
    /// What a transaction stores besides: offset and bytes.
    pub stores: Vec<(u64, Vec<u8>)>,
}

impl Place {
    pub fn new(body: Body) -> Place {
        Place { body, list: (0, 0), new: Vec::new(), dropped: Vec::new(), split: Vec::new(), stores: Vec::new() }
    }
}

/// Small pages that the list of a body takes; 0 if it has none, or has the same as before.
pub(crate) fn list_pages(parts: &Parts, old: &Body, new: &Body) -> u32 {
    if new.list().is_empty() || new.list() == old.list() {
        return 0;
    }
    parts.store.layout.pages(list_bytes(new.list().len()) as u64) as u32
}

/// Stores the list of a place that was taken for a file.
pub(crate) fn store_list(parts: &Parts, ino: Ino, place: &Place) -> Flushed {
    if place.list.1 == 0 {
        return Flushed::nothing();
    }
    let bytes = encode(ino, place.body.list());
    // SAFETY: the pages were taken for the place, or lie in the file beyond its size; it is locked exclusively.
    unsafe { parts.store.medium.stream(parts.store.layout.page_at(place.list.0), &bytes, Durable::unreferenced()) }
}

/// Gives back what was taken for a place.
pub(crate) fn give_up(parts: &Parts, old: &Body, place: &Place) {
    let mut alloc = parts.space.alloc();
    for (_, segment) in &place.new {
        alloc.free_segment(*segment);
    }
    for (start, pages) in pages_gone(&place.body.small(), &old.small()).into_iter().chain([place.list]) {
        alloc.free_page_run(start, pages);
    }
}

/// Gives a file the place that was taken and filled for it; its list is stored.
pub(crate) fn settle(parts: &Parts, ino: Ino, state: &mut State, mut record: Record, place: Place, filled: Durable) {
    let old_list = (record.list_start, record.list_pages);
    let listed = state.body.list() != place.body.list();
    debug_assert!(place.body.list().len() <= EXTENTS_MAX, "a list of extents that cannot be read back");
    record.huge = place.body.is_huge();
    record.segments = place.body.extents().len() as u32;
    (record.run_start, record.run_pages) = place.body.run();
    if listed {
        (record.list_start, record.list_pages) = place.list;
        record.list_extents = place.body.list().len() as u32;
        record.list_total = place.body.list_total();
    }
    let whole = |segment: &u32| {
        let pages = parts.store.layout.pages_per_segment();
        Extent { index: 0, start: segment * pages, pages }
    };
    let before: Vec<Extent> = state.body.small().into_iter().chain(place.split.iter().map(whole)).collect();
    // The new list may lie in pages that the file had.
    let list = (place.list.1 > 0).then_some(Extent { index: 0, start: place.list.0, pages: place.list.1 });
    let after: Vec<Extent> = place.body.small().into_iter().chain(list).collect();
    let gone = pages_gone(&before, &after);
    if defects::on(defects::FREE_EARLY) {
        for (start, pages) in &gone {
            let bytes = u64::from(*pages) * parts.store.layout.page;
            // SAFETY: the pages are of a file that is locked exclusively.
            let _ = unsafe { parts.store.medium.zero(parts.store.layout.page_at(*start), bytes, Durable::in_place()) };
        }
    }
    if place.list.1 > 0 {
        let bytes = list_bytes(place.body.list().len()) as u64;
        filled.must_cover(parts.store.layout.page_at(place.list.0), bytes);
    }
    state.record = record;
    // A directory that moves goes through the journal: no record may be left that writes to its
    // old place, which may hold something else soon.
    let maps = [place.new.len(), place.dropped.len(), place.split.len(), place.stores.len()];
    if maps == [0; 4] && !record.is_directory() {
        parts.store_version(ino, state, filled).done();
    } else {
        commit_place(parts, ino, state, &place, filled);
    }
    state.body = place.body;
    parts.space.effort.changed();
    if !place.split.is_empty() {
        let mut alloc = parts.space.alloc();
        place.split.iter().for_each(|segment| alloc.split_segment(*segment));
    }
    parts.space.free_segments(&place.dropped);
    parts.space.free_runs(gone.into_iter().chain(listed.then_some(old_list)));
}

fn commit_place(parts: &Parts, ino: Ino, state: &mut State, place: &Place, filled: Durable) {
    let generation = state.record.generation;
    let enter = |tx: &mut Transaction| {
        for (index, segment) in &place.new {
            tx.map(&parts.store.layout, *segment, Mapping::File { owner: ino, index: *index, generation });
        }
    };
    let mut tx = Transaction::new();
    let late = defects::on(defects::MAPPING_LATE);
    if !late {
        enter(&mut tx);
    }
    tx.unmap(&parts.store.layout, &place.dropped);
    for segment in &place.split {
        tx.map(&parts.store.layout, *segment, Mapping::SmallZone);
    }
    place.stores.iter().for_each(|(at, bytes)| tx.bytes(*at, bytes));
    let (at, version) = parts.next_version(ino, state);
    tx.bytes(at, &version);
    parts.store.commit(tx, filled).done();
    if late {
        let mut tx = Transaction::new();
        enter(&mut tx);
        parts.store.commit(tx, Durable::nothing_new()).done();
    }
}
