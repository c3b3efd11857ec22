//! Parts of files that go out of the middle, or room that comes in: what lies behind keeps its pages and gets other
//! places in the file, with one version.

use crate::contents::{self, Place};
use crate::format::extents::Extent;
use crate::inodes::State;
use crate::parts::Parts;
use crate::reclaim;
use crate::store;
use crate::{Allocate, Error, Ino, Result, defects};

/// Where the pages of a file go.
struct Shift {
    /// The first page that does not stay where it is.
    from: u64,
    /// Pages that are taken out there; 0 if pages come in.
    out: u64,
    /// Pages that come in there.
    by: u64,
}

impl Shift {
    /// Where an extent's parts go. `None` if one goes where no list can say it is.
    fn apply(&self, extent: Extent) -> Option<Vec<Extent>> {
        let before = extent.within(&(0..self.from));
        let behind = match extent.within(&(self.from + self.out..u64::MAX)) {
            Some(part) => {
                let index = u64::from(part.index) - self.out + self.by;
                Some(Extent { index: u32::try_from(index).ok()?, ..part })
            }
            None => None,
        };
        let parts: Vec<Extent> = before.into_iter().chain(behind).collect();
        parts.iter().all(|part| part.end().is_some()).then_some(parts)
    }
}

/// Takes a range out of a file, or makes room for one.
pub(crate) fn shift(parts: &Parts, ino: Ino, state: &mut State, how: Allocate, offset: u64, bytes: u64) -> Result<()> {
    let (page, size) = (parts.store.layout.page, state.record.size);
    let whole = bytes > 0 && offset % page == 0 && bytes % page == 0;
    let new_size = match how {
        Allocate::Collapse if whole && offset.checked_add(bytes).is_some_and(|end| end < size) => size - bytes,
        Allocate::Insert if whole && bytes > parts.store.layout.max_file().saturating_sub(size) => {
            return Err(Error::TooLarge);
        }
        Allocate::Insert if whole && offset < size => size + bytes,
        _ => return Err(Error::Invalid),
    };
    let (from, pages) = (offset / page, bytes / page);
    let shift = match how {
        Allocate::Collapse => Shift { from, out: pages, by: 0 },
        _ => Shift { from, out: 0, by: pages },
    };
    let mut place = shifted(parts, state, &shift).ok_or(Error::NoSpace)?;
    if place.new.len() + place.dropped.len() + place.split.len() > parts.store.layout.segments_per_transaction() {
        return Err(Error::NoSpace);
    }
    place.list = reclaim::take_list(parts, &state.body, &place.body)?;
    let now = parts.store.now();
    let mut record = state.record;
    (record.size, record.mtime_ns, record.ctime_ns) = (new_size, now, now);
    let durable = store::fence(&parts.store.medium, contents::store_list(parts, ino, &place), defects::LIST_FENCE);
    contents::settle(parts, ino, state, record, place, durable);
    Ok(())
}

/// The place after a shift: huge pages stay huge where they move by whole ones.
fn shifted(parts: &Parts, state: &State, shift: &Shift) -> Option<Place> {
    let pages = u64::from(parts.store.layout.pages_per_segment());
    let moved_by_whole = (shift.by + shift.out) % pages == 0;
    let mut small = Vec::new();
    for extent in state.body.small() {
        small.extend(shift.apply(extent)?);
    }
    let (mut kept, mut new, mut dropped, mut split) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, segment) in state.body.extents().iter().copied() {
        let range = u64::from(index) * pages..(u64::from(index) + 1) * pages;
        if range.end <= shift.from {
            kept.push((index, segment));
        } else if range.start >= shift.from + shift.out && moved_by_whole {
            let index = (range.start - shift.out + shift.by) / pages;
            new.push((u32::try_from(index).ok()?, segment));
        } else if range.start >= shift.from && range.end <= shift.from + shift.out {
            dropped.push(segment);
        } else {
            let index = u32::try_from(range.start).ok()?;
            let extent = Extent { index, start: segment * pages as u32, pages: pages as u32 };
            small.extend(shift.apply(extent)?);
            split.push(segment);
        }
    }
    kept.extend(&new);
    kept.sort_unstable();
    Some(Place { new, dropped, split, ..Place::new(state.body.assembled(kept, small)) })
}
