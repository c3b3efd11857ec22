//! Writes of which a crash leaves all or nothing.

use super::batch::{self, Part};
use super::write::without;
use crate::contents::{self, Place, Written, sums};
use crate::format::extents::laid_out;
use crate::format::inode::Record;
use crate::inodes::State;
use crate::parts::Parts;
use crate::reclaim;
use crate::store::Transaction;
use crate::{Error, Ino, Result, defects};
use pocketstone_media::Durable;
use std::ops::Range;

/// Writes all of `from`, or nothing: after a crash too.
pub(crate) fn write_atomic(parts: &Parts, ino: Ino, state: &mut State, from: &[u8], offset: u64) -> Result<()> {
    let end = parts.store.layout.end_of(offset, from.len() as u64)?;
    if from.is_empty() {
        return Ok(());
    }
    if from.len() as u64 > parts.store.layout.max_atomic() {
        return Err(Error::TooLarge);
    }
    let (now, old_size) = (parts.store.now(), state.record.size);
    let mut batch = [Part { ino, state, writes: &[(offset, from)], size: None }];
    let prepared = batch::prepare(parts, &mut batch[0])?;
    let state = &mut *batch[0].state;
    if defects::on(defects::ATOMIC_IN_PLACE) {
        let flushed = contents::stream(parts, &state.body, from, offset);
        parts.store.medium.fence(flushed).done();
    }
    if batch::fits(parts, std::slice::from_ref(&prepared)) {
        return batch::commit(parts, &mut batch, vec![prepared], now);
    }
    let zeroed = parts.store.medium.fence(prepared.into_zeroed());
    state.must_not_be_mapped()?;
    let (mut record, size) = (state.record, old_size.max(end));
    (record.size, record.mtime_ns, record.ctime_ns) = (size, now, now);
    let done = write_elsewhere(parts, ino, state, record, (from, offset), zeroed);
    if let Some(sums) = sums(&parts.store, &state.record) {
        let data = if done.is_ok() { Written { data: from, offset } } else { Written::nothing() };
        let touched = offset.min(old_size)..end;
        let given = sums.give(&state.body, touched, data, |_| true, Durable::nothing_new());
        parts.store.medium.fence(given).done();
    }
    done
}

/// An atomic write into so many pieces that a transaction does not take them: what lies in small pages goes
/// to others, which become the file's together with what the transaction stores in huge pages.
fn write_elsewhere(
    parts: &Parts,
    ino: Ino,
    state: &mut State,
    record: Record,
    (from, offset): (&[u8], u64),
    zeroed: Durable,
) -> Result<()> {
    let (page, end) = (parts.store.layout.page, offset + from.len() as u64);
    let range = offset / page..end.div_ceil(page);
    let old = state.body.small();
    let holes: Vec<Range<u32>> = old
        .iter()
        .filter_map(|extent| extent.within(&range))
        .map(|extent| extent.index..extent.index + extent.pages)
        .collect();
    let taken = reclaim::take_small(parts, holes.iter().map(|hole| hole.end - hole.start).sum(), None)?;
    let mut small = state.body.small_outside(&range);
    small.extend(laid_out(&holes, &taken));
    let mut place = Place::new(state.body.assembled(state.body.extents().to_vec(), small));
    let list = reclaim::take_list(parts, &state.body, &place.body);
    place.list = list.inspect_err(|_| contents::give_up(parts, &state.body, &place))?;
    let mut flushed = contents::store_list(parts, ino, &place);
    for hole in holes {
        let bytes = u64::from(hole.start) * page..u64::from(hole.end) * page;
        let written = bytes.start.max(offset)..bytes.end.min(end);
        for part in without(&bytes, &written) {
            flushed = flushed.and(contents::copy(parts, &state.body, &place.body, part));
        }
        let data = &from[(written.start - offset) as usize..(written.end - offset) as usize];
        flushed = flushed.and(contents::stream(parts, &place.body, data, written.start));
    }
    if let Some(sums) = sums(&parts.store, &state.record) {
        let new = |offset| state.body.locate(offset).0 != place.body.locate(offset).0;
        let data = Written { data: from, offset };
        flushed.join(sums.give(&place.body, offset..end, data, new, Durable::unreferenced()));
    }
    // In huge pages the bytes lie where they were.
    let mut stores = Vec::new();
    batch::add_stores(parts, &place.body, from, offset, &mut stores);
    let in_small = |at: u64| {
        let page_number = ((at - parts.store.layout.data_at) / page) as u32;
        place.body.small().iter().any(|e| (e.start..e.start + e.pages).contains(&page_number))
    };
    let in_huge = stores.into_iter().filter(|(at, _)| !in_small(*at));
    place.stores = in_huge.map(|(at, words)| (at, words.into_owned())).collect();
    let filled = parts.store.medium.fence(flushed).and(zeroed);
    contents::settle(parts, ino, state, record, place, filled);
    parts.store.commit(Transaction::new(), Durable::nothing_new()).done();
    Ok(())
}
