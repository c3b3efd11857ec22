//! Taking space: what is free, then what a collection gives back, and as a last resort what others move out of.

use super::{collect, empty_segment, mover};
use crate::contents::list_pages;
use crate::format::extents::EXTENTS_MAX;
use crate::format::mapping::{INODE_TABLE, Mapping};
use crate::inodes::Body;
use crate::parts::Parts;
use crate::store::{self, Transaction};
use crate::{Error, Ino, Result, defects};
use pocketstone_media::Durable;

/// Takes consecutive small pages: `roomy` of them if it can be, else `needed`; as a last resort others move
/// out of the way.
pub(crate) fn take_run(parts: &Parts, roomy: u32, needed: u32) -> Result<(u32, u32)> {
    let bytes = u64::from(needed) * parts.store.layout.page;
    let usual = after_collection(parts, bytes, || parts.space.take_run(&parts.store, roomy, needed));
    usual.or_else(|error| mover::make_run(parts, needed).map(|start| (start, needed)).ok_or(error))
}

/// The same for those who can do with scattered pages, too: nobody moves, and where there is space enough, but in
/// pieces, none is collected. That would look at every inode for each new file of a volume that was full once.
pub(crate) fn take_free_run(parts: &Parts, roomy: u32, needed: u32) -> Result<(u32, u32)> {
    let bytes = u64::from(needed) * parts.store.layout.page;
    let take = || parts.space.take_run(&parts.store, roomy, needed);
    if let Some(taken) = take() {
        return Ok(taken);
    }
    let is_short = parts.space.free_bytes(&parts.space.alloc()) < bytes;
    // More pieces than a list has room for are no way out.
    if is_short || needed as usize > EXTENTS_MAX { after_collection(parts, bytes, take) } else { Err(Error::NoSpace) }
}

/// Takes small pages wherever they are, best the ones from `after` on; huge pages are lent for them.
pub(crate) fn take_small(parts: &Parts, count: u32, after: Option<u32>) -> Result<Vec<(u32, u32)>> {
    let bytes = u64::from(count) * parts.store.layout.page;
    after_collection(parts, bytes, || parts.space.take_scattered(&parts.store, count, after))
}

/// Takes huge pages for a file, best right after `previous`; `ahead` more of them, if there is space enough.
pub(crate) fn take_segments(
    parts: &Parts,
    needed: u32,
    ahead: u32,
    previous: Option<u32>,
    ino: Ino,
) -> Result<Vec<u32>> {
    let bytes = u64::from(needed) * parts.store.layout.huge;
    after_collection(parts, bytes, || parts.space.take_segments(needed, ahead, previous, ino))
}

/// Takes something; where that fails, once more after `bytes` were collected.
fn after_collection<T>(parts: &Parts, bytes: u64, take: impl Fn() -> Option<T>) -> Result<T> {
    if let Some(taken) = take() {
        return Ok(taken);
    }
    collect(parts, bytes);
    take().ok_or(Error::NoSpace)
}

/// Takes pages for the list of a body, if it has to be stored.
pub(crate) fn take_list(parts: &Parts, old: &Body, new: &Body) -> Result<(u32, u32)> {
    if new.list().len() > EXTENTS_MAX {
        return Err(Error::NoSpace);
    }
    match list_pages(parts, old, new) {
        0 => Ok((0, 0)),
        pages => take_run(parts, pages, pages),
    }
}

/// An inode for a new file and, if a null file was ready, its page.
pub(crate) fn take_inode(parts: &Parts) -> Result<(Ino, Option<u32>)> {
    loop {
        if let Some(taken) = parts.space.take_inode() {
            return Ok(taken);
        }
        grow_inodes(parts)?;
    }
}

/// Lets the inode table go on in one more huge page.
pub fn grow_inodes(parts: &Parts) -> Result<()> {
    let segment = take_huge_page(parts)?;
    // Durable before anything says that there are inodes.
    let at = parts.store.layout.segment_at(segment);
    // SAFETY: the huge page was just taken: nobody else has it.
    let zeros = unsafe { parts.store.medium.zero(at, parts.store.layout.huge, Durable::unreferenced()) };
    let zeroed = store::fence(&parts.store.medium, zeros, defects::CHUNK_FENCE);
    zeroed.must_cover(at, parts.store.layout.huge);
    let mut alloc = parts.space.alloc();
    let index = parts.store.layout.chunks.count();
    let after = u64::from(parts.store.layout.last_inode()) + u64::from(parts.store.layout.inodes_per_chunk());
    if after > u64::from(u32::MAX - 2) {
        alloc.free_segment(segment);
        let mut tx = Transaction::new();
        tx.unmap(&parts.store.layout, &[segment]);
        parts.store.commit(tx, zeroed).done();
        return Err(Error::NoSpace);
    }
    let mut tx = Transaction::new();
    tx.map(&parts.store.layout, segment, Mapping::Inodes { index });
    parts.store.commit(tx, zeroed).done();
    parts.store.layout.chunks.push(segment);
    alloc.inodes.add_chunk();
    Ok(())
}

/// A huge page for the inode table: a free one, an idle one of the zone of small pages, or one that others
/// move out of.
fn take_huge_page(parts: &Parts) -> Result<u32> {
    for attempt in 0..3 {
        {
            let mut alloc = parts.space.alloc();
            if let Some(taken) = alloc.take_segments(1, None, INODE_TABLE) {
                return Ok(taken[0]);
            }
            if let Some((segment, 0)) = alloc.emptiest_small_segments().first().copied() {
                alloc.free_segment(segment);
                alloc.claim_segment(segment, INODE_TABLE);
                return Ok(segment);
            }
        }
        match attempt {
            0 => drop(collect(parts, parts.store.layout.huge)),
            1 => drop(empty_segment(parts, parts.store.layout.pages_per_segment())),
            _ => {}
        }
    }
    Err(Error::NoSpace)
}
