//! Extended attributes as they are stored: all of an inode's in one run of small pages, written anew with each change.

use crate::format::attributes::{Attributes, decode, encode};
use crate::format::inode::Record;
use crate::inodes::{State, live};
use crate::parts::Parts;
use crate::reclaim;
use crate::store;
use crate::{Error, Ino, Result, defects};
use pocketstone_media::Durable;

/// Most bytes that an inode's attributes take together.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// An inode's extended attributes.
pub(crate) fn xattrs(parts: &Parts, ino: Ino, state: &State) -> Result<Attributes> {
    live(&state.record)?;
    let bytes = state.record.xattr_bytes as usize;
    if bytes == 0 {
        return Ok(Attributes::new());
    }
    let at = parts.store.layout.page_at(state.record.xattr_start);
    let mut b = vec![0; bytes];
    parts.store.medium.read(at, &mut b);
    decode(ino, &b).ok_or_else(|| Error::damaged(at, format!("damaged extended attributes of inode {ino}")))
}

/// Changes an inode's extended attributes, and its record with them, in one version.
pub(crate) fn change_xattrs(
    parts: &Parts,
    ino: Ino,
    change: impl FnOnce(&mut Record, &mut Attributes) -> Result<()>,
) -> Result<()> {
    let node = parts.node(ino)?;
    let mut state = node.exclusive(&parts.store)?;
    let (mut record, mut attributes) = (state.record, xattrs(parts, ino, &state)?);
    record.must_be_free_to_change()?;
    change(&mut record, &mut attributes)?;
    store_xattrs(parts, ino, &mut state, record, &attributes)
}

pub(crate) fn store_xattrs(
    parts: &Parts,
    ino: Ino,
    state: &mut State,
    mut record: Record,
    attributes: &Attributes,
) -> Result<()> {
    let (old_start, old_pages) = (record.xattr_start, record.xattr_pages);
    let durable = place_xattrs(parts, ino, &mut record, attributes)?;
    if record.xattr_pages > 0 {
        durable.must_cover(parts.store.layout.page_at(record.xattr_start), record.xattr_bytes.into());
    }
    record.ctime_ns = parts.store.now();
    state.record = record;
    state.incapable = false;
    parts.store_version(ino, state, durable).done();
    parts.space.free_pages(old_start, old_pages);
    Ok(())
}

/// Writes extended attributes where nothing refers to them yet, and lets a record do that.
pub(crate) fn place_xattrs(parts: &Parts, ino: Ino, record: &mut Record, attributes: &Attributes) -> Result<Durable> {
    if attributes.is_empty() {
        (record.xattr_start, record.xattr_pages, record.xattr_bytes) = (0, 0, 0);
        return Ok(Durable::nothing_new());
    }
    let b = encode(ino, attributes);
    if b.len() > XATTR_BYTES_MAX {
        return Err(Error::NoSpace);
    }
    let pages = parts.store.layout.pages(b.len() as u64) as u32;
    let (start, pages) = reclaim::take_run(parts, pages, pages)?;
    // SAFETY: the pages were just taken: nobody else has them.
    let flushed = unsafe { parts.store.medium.stream(parts.store.layout.page_at(start), &b, Durable::unreferenced()) };
    (record.xattr_start, record.xattr_pages, record.xattr_bytes) = (start, pages, b.len() as u32);
    Ok(store::fence(&parts.store.medium, flushed, defects::XATTR_FENCE))
}
