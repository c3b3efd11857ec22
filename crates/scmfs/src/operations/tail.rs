//! The end of a file that somebody may still store behind, without the volume: the file goes on growing in another
//! page.

use crate::contents::{self, Place};
use crate::format::extents::Extent;
use crate::inodes::State;
use crate::parts::Parts;
use crate::reclaim;
use crate::{Error, Ino, Result};

/// Before a file grows: gives up what lies behind its end, if stores may still go there. What is freed is given to
/// nobody before they have ended.
#[inline]
pub(crate) fn clear(parts: &Parts, ino: Ino, state: &mut State) -> Result<()> {
    if state.tail.is_none() { Ok(()) } else { clear_running(parts, ino, state) }
}

#[cold]
fn clear_running(parts: &Parts, ino: Ino, state: &mut State) -> Result<()> {
    let Some(running) = state.tail.take().filter(|running| running()) else { return Ok(()) };
    if let Err(error) = state.must_not_be_mapped() {
        state.tail = Some(running);
        return Err(error);
    }
    give_up(parts, ino, state).inspect_err(|_| state.tail = Some(running))
}

/// The file's last page gets another place, unless it is full; those behind it, also in huge pages, are freed.
fn give_up(parts: &Parts, ino: Ino, state: &mut State) -> Result<()> {
    let (page, size) = (parts.store.layout.page, state.record.size);
    let (first, pages) = (size / page, parts.store.layout.pages_per_segment());
    let beyond = size.div_ceil(parts.store.layout.huge) as u32;
    if state.body.extents().last().is_some_and(|(index, _)| *index >= beyond) {
        // There may be more of them than one transaction has room for.
        contents::drop_segments(parts, ino, state, state.record, beyond..u32::MAX);
    }
    let mut small = state.body.small_outside(&(first..u64::MAX));
    let (mut kept, mut split) = (Vec::new(), Vec::new());
    for (index, segment) in state.body.extents().iter().copied() {
        if (u64::from(index) + 1) * u64::from(pages) <= first {
            kept.push((index, segment));
        } else {
            // Beyond so many small pages a file has huge ones alone.
            let index = index.checked_mul(pages).ok_or(Error::NoSpace)?;
            let whole = Extent { index, start: segment * pages, pages };
            small.extend(whole.outside(&(first..u64::MAX)));
            split.push(segment);
        }
    }
    // A hole stays one.
    if size % page != 0 && state.body.locate(first * page).0.is_some() {
        let index = u32::try_from(first).map_err(|_| Error::NoSpace)?;
        let taken = reclaim::take_small(parts, 1, None)?;
        let last = |(start, pages)| Extent { index, start, pages };
        small.extend(taken.into_iter().map(last));
    }
    let mut place = Place { split, ..Place::new(state.body.assembled(kept, small)) };
    let list = reclaim::take_list(parts, &state.body, &place.body);
    place.list = list.inspect_err(|_| contents::give_up(parts, &state.body, &place))?;
    let copied = contents::copy(parts, &state.body, &place.body, first * page..size);
    let flushed = contents::store_list(parts, ino, &place).and(copied);
    contents::settle(parts, ino, state, state.record, place, parts.store.medium.fence(flushed));
    Ok(())
}
