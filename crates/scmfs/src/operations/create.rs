//! New inodes, and new names for old ones, each in one transaction.

use super::attributes;
use super::{acl, directory, names};
use crate::format::attributes::Attributes;
use crate::format::entry::slots_of;
use crate::format::inode::{self, LINKS_MAX, Record};
use crate::inodes::{Body, Node};
use crate::parts::Parts;
use crate::reclaim;
use crate::store::{self, Transaction, lock};
use crate::{Attr, Error, FileType, Ino, Meta, Result, defects};
use pocketstone_media::Durable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Creates an inode with a name. It comes pinned once.
pub(crate) fn create(parts: &Parts, parent: Ino, name: &[u8], meta: &Meta, content: &[u8]) -> Result<Arc<Node>> {
    let node = parts.node(parent)?;
    let mut state = node.exclusive(&parts.store)?;
    names::must_be_new(parts, &node, &mut state, name)?;
    state.record.must_take_more()?;
    let is_directory = meta.kind == FileType::Directory;
    if is_directory && state.record.links >= LINKS_MAX {
        return Err(Error::TooManyLinks);
    }
    let (meta, attributes) = acl::inherit(parts, parent, &state, meta)?;
    let slot = directory::take_slots(parts, parent, &mut state, name)?;
    let made = new_inode(parts, &meta, parent, content, &attributes);
    let (child, after) = made.inspect_err(|_| directory::return_slots(&mut state, slot, slots_of(name)))?;
    let mut tx = Transaction::new();
    if defects::on(defects::CREATE_ORDER) {
        let mut early = Transaction::new();
        directory::stage_entry(&mut early, (parent, &state), slot, name, (child.ino, meta.kind))?;
        parts.store.commit(early, Durable::nothing_new()).done();
    }
    // Known, and locked, before the medium has it: nobody may load it a second time.
    let mut new = child.write();
    parts.inodes.add(&parts.store, child.clone());
    let (at, version) = parts.next_version(child.ino, &mut new);
    tx.bytes(at, &version);
    directory::stage_entry(&mut tx, (parent, &state), slot, name, (child.ino, meta.kind))?;
    state.record.links += u32::from(is_directory);
    names::touch_parent(parts, &mut tx, &node, &mut state, is_directory);
    parts.store.commit(tx, after).done();
    directory::entry_added(&mut state, name, slot, child.ino);
    drop(new);
    Ok(child)
}

/// An inode with content and attributes, not on the medium yet; and the proof that these are durable. It comes
/// pinned once.
pub(crate) fn new_inode(
    parts: &Parts,
    meta: &Meta,
    parent: Ino,
    content: &[u8],
    attributes: &Attributes,
) -> Result<(Arc<Node>, Durable)> {
    let (ino, mut page) = reclaim::take_inode(parts)?;
    let old = inode::load(&parts.store.medium, &parts.store.layout, ino, parts.store.segments());
    let (sequence, old) = old.inspect_err(|_| parts.space.return_inode(ino, page))?;
    let now = parts.store.now();
    let generation = match old.generation {
        // A part of the inode table that comes back knows nothing of the files that it held.
        0 if ino > parts.store.layout.inodes => (now / 1_000_000) as u32,
        last => last.wrapping_add(1),
    };
    let mut record = Record::new(meta, generation.max(1), now);
    let placed = attributes::place_xattrs(parts, ino, &mut record, attributes);
    let mut durable = placed.inspect_err(|_| parts.space.return_inode(ino, page))?;
    let wants_space = matches!(meta.kind, FileType::Regular | FileType::Symlink);
    if let Some(unused) = page.take_if(|_| !wants_space) {
        parts.space.alloc().free_page_run(unused, 1);
    }
    if let Some(page) = page {
        (record.run_start, record.run_pages) = (page, 1);
    }
    if meta.kind == FileType::Directory {
        record.parent = parent;
    }
    if !content.is_empty() {
        let pages = parts.store.layout.pages(content.len() as u64) as u32;
        if record.run_pages < pages {
            let run = reclaim::take_run(parts, pages, pages);
            let (start, count) = run.inspect_err(|_| {
                parts.space.free_pages(record.xattr_start, record.xattr_pages);
                parts.space.return_inode(ino, page);
            })?;
            if let Some(page) = page {
                parts.space.alloc().free_page_run(page, 1);
            }
            (record.run_start, record.run_pages) = (start, count);
        }
        record.size = content.len() as u64;
        record.target_crc = crc32c::crc32c(content);
        let at = parts.store.layout.page_at(record.run_start);
        // SAFETY: the pages were just taken, or were a null file's: nobody else has them.
        let flushed = unsafe { parts.store.medium.stream(at, content, Durable::unreferenced()) };
        durable.done();
        durable = store::fence(&parts.store.medium, flushed, defects::SYMLINK_FENCE);
    }
    let node = Node::new(ino, sequence, record, Body::new(&parts.store.layout, &record, Vec::new()));
    node.pins.store(1, Ordering::Relaxed);
    Ok((Arc::new(node), durable))
}

/// Creates a file without a name, in a directory that says what it gets, or nowhere. It comes pinned once.
pub(crate) fn create_unnamed(parts: &Parts, directory: Option<Ino>, meta: &Meta) -> Result<Arc<Node>> {
    // It has no directory whose lock would keep the volume from being closed meanwhile.
    let _tree = lock(&parts.tree);
    parts.store.writable()?;
    let (meta, attributes) = match directory {
        Some(ino) => {
            let above = parts.node(ino)?;
            let state = above.read();
            names::directory(&state)?;
            acl::inherit(parts, ino, &state, meta)?
        }
        None => (*meta, Attributes::new()),
    };
    let (node, after) = new_inode(parts, &meta, 0, &[], &attributes)?;
    {
        let mut state = node.write();
        parts.inodes.add(&parts.store, node.clone());
        state.record.links = 0;
        parts.store_version(node.ino, &mut state, after).done();
    }
    Ok(node)
}

/// Adds a name for an inode; `unnamed` ones may have none yet.
pub(crate) fn link(parts: &Parts, ino: Ino, parent: Ino, name: &[u8], unnamed: bool) -> Result<Attr> {
    let child = parts.node(ino)?;
    let is_directory = child.read().record.is_directory();
    let node = parts.node(parent)?;
    let mut state = node.exclusive(&parts.store)?;
    names::must_be_new(parts, &node, &mut state, name)?;
    if is_directory {
        return Err(Error::NotPermitted);
    }
    state.record.must_take_more()?;
    let slot = directory::take_slots(parts, parent, &mut state, name)?;
    let mut target = child.write();
    let refused = match target.record.links {
        _ if target.record.is_protected() => Some(Error::NotPermitted),
        _ if target.record.is_free() => Some(Error::NotFound),
        0 if !unnamed => Some(Error::NotFound),
        LINKS_MAX.. => Some(Error::TooManyLinks),
        _ => None,
    };
    if let Some(error) = refused {
        directory::return_slots(&mut state, slot, slots_of(name));
        return Err(error);
    }
    let mut tx = Transaction::new();
    directory::stage_entry(&mut tx, (parent, &state), slot, name, (ino, target.record.kind()))?;
    if defects::on(defects::LINK_COUNT) {
        parts.store.commit(std::mem::replace(&mut tx, Transaction::new()), Durable::nothing_new()).done();
    }
    target.record.links += 1;
    target.record.ctime_ns = parts.store.now();
    let (at, version) = parts.next_version(ino, &mut target);
    tx.bytes(at, &version);
    names::touch_parent(parts, &mut tx, &node, &mut state, false);
    parts.store.commit(tx, Durable::nothing_new()).done();
    directory::entry_added(&mut state, name, slot, ino);
    Ok(target.record.attr(ino, &parts.store.layout))
}

/// Gives an inode that has none a name, as it is: for repairs.
pub(crate) fn adopt(parts: &Parts, parent: Ino, name: &[u8], ino: Ino, kind: FileType) -> Result<()> {
    let node = parts.node(parent)?;
    let mut state = node.write();
    names::must_be_new(parts, &node, &mut state, name)?;
    let slot = directory::take_slots(parts, parent, &mut state, name)?;
    let mut tx = Transaction::new();
    directory::stage_entry(&mut tx, (parent, &state), slot, name, (ino, kind))?;
    let child = parts.node(ino)?;
    let mut target = child.write();
    if kind == FileType::Directory {
        target.record.parent = parent;
        state.record.links += 1;
    }
    let (at, version) = parts.next_version(ino, &mut target);
    tx.bytes(at, &version);
    names::touch_parent(parts, &mut tx, &node, &mut state, true);
    parts.store.commit(tx, Durable::nothing_new()).done();
    directory::entry_added(&mut state, name, slot, ino);
    Ok(())
}
