//! Names: finding and removing them, and what they lead to.

use super::directory::{self, Found};
use super::{unlink, write};
use crate::contents;
use crate::format::entry::{check_name, slots_of};
use crate::format::inode::{Record, TARGET_MAX};
use crate::format::layout::SLOT_BYTES;
use crate::inodes::{Node, State, live};
use crate::parts::Parts;
use crate::store::{Transaction, lock};
use crate::{Attr, Entry, Error, FileType, Ino, NAME_MAX, Result, SetAttr};
use pocketstone_media::Durable;
use std::sync::Arc;

/// Looks up a name in a directory, including `.` and `..`.
pub(crate) fn lookup(parts: &Parts, parent: Ino, name: &[u8]) -> Result<Attr> {
    let node = parts.node(parent)?;
    match name {
        b"." => return parts.inodes.attributes(&parts.store, parent),
        b".." => {
            // Not with this one's lock held: others take the parent's first.
            let above = directory(&node.read())?.parent;
            return parts.inodes.attributes(&parts.store, above);
        }
        _ => {}
    }
    loop {
        let found = find_name(parts, &node, name)?;
        let attr = match parts.inodes.attributes(&parts.store, found.ino) {
            Ok(attr) => Some(attr),
            Err(Error::NotFound) => None,
            Err(error) => return Err(error),
        };
        if let Some(attr) = attr.filter(|attr| attr.kind == found.kind && attr.ino != parent) {
            return Ok(attr);
        }
        // Damage, or the name changed between the two calls: only while the directory is locked it cannot.
        let mut state = node.write();
        let found = find_in(parts, &node, &mut state, name)?;
        child(parts, &node, &state, &found)?;
    }
}

/// The parent of a directory; the root's is the root.
pub(crate) fn parent(parts: &Parts, directory_ino: Ino) -> Result<Ino> {
    Ok(directory(&parts.node(directory_ino)?.read())?.parent)
}

/// Changes attributes: the size first, then all the others atomically.
pub(crate) fn set_attributes(parts: &Parts, ino: Ino, change: &SetAttr) -> Result<Attr> {
    let node = parts.node(ino)?;
    let mut state = node.exclusive(&parts.store)?;
    live(&state.record)?;
    state.record.must_allow_attributes(change)?;
    if let Some(size) = change.size {
        match state.record.kind() {
            FileType::Regular => write::resize_file(parts, ino, &mut state, size)?,
            FileType::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid),
        }
    }
    let record = &mut state.record;
    if let Some(permissions) = change.permissions {
        record.mode = record.mode & !0o7777 | permissions & 0o7777;
    }
    record.uid = change.uid.unwrap_or(record.uid);
    record.gid = change.gid.unwrap_or(record.gid);
    record.atime_ns = change.atime_ns.unwrap_or(record.atime_ns);
    record.mtime_ns = change.mtime_ns.unwrap_or(record.mtime_ns);
    record.ctime_ns = change.ctime_ns.unwrap_or_else(|| parts.store.now());
    parts.store_version(ino, &mut state, Durable::nothing_new()).done();
    Ok(state.record.attr(ino, &parts.store.layout))
}

/// The target of a symbolic link.
pub(crate) fn read_link(parts: &Parts, ino: Ino) -> Result<Vec<u8>> {
    let node = parts.node(ino)?;
    let state = node.read();
    live(&state.record)?;
    if state.record.kind() != FileType::Symlink || state.record.size > TARGET_MAX as u64 {
        return Err(Error::Invalid);
    }
    target(parts, ino, &state)
}

/// Removes a name that is not a directory's, and the inode if it was the last name and the inode is not open.
pub(crate) fn unlink(parts: &Parts, parent: Ino, name: &[u8]) -> Result<()> {
    check_dots(name, Error::IsDirectory)?;
    let node = parts.node(parent)?;
    let mut state = node.exclusive(&parts.store)?;
    let found = find_in(parts, &node, &mut state, name)?;
    if found.kind == FileType::Directory {
        return Err(Error::IsDirectory);
    }
    let child = child(parts, &node, &state, &found)?;
    let mut target = child.write();
    state.record.must_be_free_to_change()?;
    target.record.must_be_free_to_change()?;
    let mut tx = Transaction::new();
    directory::stage_removal(&mut tx, &state, &found)?;
    let dying = unlink::stage_unlink(parts, &mut tx, &child, &mut target);
    touch_parent(parts, &mut tx, &node, &mut state, false);
    parts.store.commit(tx, Durable::nothing_new()).done();
    directory::entry_removed(&mut state, &found);
    unlink::finish_unlink(parts, &child, &mut target, dying);
    Ok(())
}

/// Removes an empty directory.
pub(crate) fn remove_directory(parts: &Parts, parent: Ino, name: &[u8]) -> Result<()> {
    if name == b".." {
        return Err(Error::NotEmpty);
    }
    check_dots(name, Error::Invalid)?;
    let _tree = lock(&parts.tree);
    let node = parts.node(parent)?;
    let mut state = node.exclusive(&parts.store)?;
    let found = find_in(parts, &node, &mut state, name)?;
    if found.kind != FileType::Directory {
        return Err(Error::NotDirectory);
    }
    let child = child(parts, &node, &state, &found)?;
    must_be_in(parts, &child, parent)?;
    let mut target = child.write();
    state.record.must_be_free_to_change()?;
    target.record.must_be_free_to_change()?;
    must_be_empty(parts, &child, &mut target)?;
    let mut tx = Transaction::new();
    directory::stage_removal(&mut tx, &state, &found)?;
    let dying = unlink::stage_unlink(parts, &mut tx, &child, &mut target);
    state.record.links = state.record.links.saturating_sub(1);
    touch_parent(parts, &mut tx, &node, &mut state, true);
    parts.store.commit(tx, Durable::nothing_new()).done();
    directory::entry_removed(&mut state, &found);
    unlink::finish_unlink(parts, &child, &mut target, dying);
    Ok(())
}

/// Calls `take` with each entry after a cookie (0: all), without `.` and `..`, until it returns false; that entry is
/// not consumed.
pub(crate) fn read_directory(parts: &Parts, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
    let node = parts.node(ino)?;
    let state = node.read();
    directory(&state)?;
    let Ok(from) = u32::try_from(cookie) else { return Ok(()) };
    // A cookie is the slot after an entry's first: the entry's further slots hold name bytes.
    let from = after_cookie(parts, ino, &state, from)?;
    node.note_read(&state, &parts.store);
    directory::entries(parts, ino, &state, from, take)
}

/// The target of a symbolic link.
pub(crate) fn target(parts: &Parts, ino: Ino, state: &State) -> Result<Vec<u8>> {
    let mut target = vec![0; state.record.size as usize];
    contents::read(parts, ino, state, &mut target, 0)?;
    if crc32c::crc32c(&target) != state.record.target_crc {
        let at = state.body.piece_at();
        return Err(Error::damaged(at, format!("the target of symbolic link {ino} with a wrong checksum")));
    }
    Ok(target)
}

/// The slot to go on at after a cookie. If its entry is gone, what lies there now may be the middle of
/// another one: then the entries before it say where the next one starts.
fn after_cookie(parts: &Parts, ino: Ino, state: &State, cookie: u32) -> Result<u32> {
    if cookie == 0 || u64::from(cookie) * SLOT_BYTES > state.record.size {
        return Ok(cookie);
    }
    if let Some(slots) = directory::entry_at(parts, ino, state, cookie - 1)? {
        return Ok(cookie - 1 + slots);
    }
    let unit = (parts.store.layout.huge / SLOT_BYTES) as u32;
    let mut next = cookie;
    directory::entries(parts, ino, state, (cookie - 1) / unit * unit, &mut |entry| {
        let slot = (entry.cookie - 1) as u32;
        if slot < cookie {
            next = next.max(slot + slots_of(&entry.name));
        }
        slot < cookie
    })?;
    Ok(next)
}

/// Finds a name; makes the index first, if there is none.
pub(crate) fn find_name(parts: &Parts, node: &Node, name: &[u8]) -> Result<Found> {
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong);
    }
    {
        let state = node.read();
        directory(&state)?;
        if state.index.is_some() {
            return directory::find(parts, node.ino, &state, name)?.ok_or(Error::NotFound);
        }
    }
    find_in(parts, node, &mut node.write(), name)
}

/// Finds a name in a directory that is locked.
pub(crate) fn find_in(parts: &Parts, node: &Node, state: &mut State, name: &[u8]) -> Result<Found> {
    directory(state)?;
    directory::index(parts, node.ino, state)?;
    directory::find(parts, node.ino, state, name)?.ok_or(Error::NotFound)
}

/// The inode that an entry of a locked directory leads to. Damage may have made it the directory itself or
/// an inode of another kind, whose lock may be held already: so this is known before anybody waits for it.
pub(crate) fn child(parts: &Parts, directory: &Node, state: &State, found: &Found) -> Result<Arc<Node>> {
    let what = match parts.node(found.ino) {
        Ok(_) if found.ino == directory.ino => "itself".into(),
        Ok(node) if node.kind == found.kind => return Ok(node),
        Ok(_) => format!("inode {}, which is of another kind", found.ino),
        Err(Error::NotFound) => format!("inode {}, which is not in use", found.ino),
        Err(error) => return Err(error),
    };
    let at = directory::slot_at(state, found.slot)?;
    Err(Error::damaged(at, format!("an entry of directory {} that refers to {what}", directory.ino)))
}

/// Refuses a directory that an entry leads to and that is in another directory. The tree is locked, so it
/// stays there; the directory is not.
pub(crate) fn must_be_in(parts: &Parts, node: &Node, parent: Ino) -> Result<()> {
    if node.kind != FileType::Directory || node.read().record.parent == parent {
        return Ok(());
    }
    let at = parts.store.layout.version_at(node.ino, 0);
    Err(Error::damaged(at, format!("directory {} with a name in {parent}, which is not its parent", node.ino)))
}

pub(crate) fn must_be_empty(parts: &Parts, node: &Node, state: &mut State) -> Result<()> {
    directory(state)?;
    if directory::index(parts, node.ino, state)?.count() == 0 { Ok(()) } else { Err(Error::NotEmpty) }
}

/// Refuses a name that exists, and directories that have no name any more.
pub(crate) fn must_be_new(parts: &Parts, node: &Node, state: &mut State, name: &[u8]) -> Result<()> {
    match find_in(parts, node, state, name) {
        Ok(_) => Err(Error::Exists),
        Err(Error::NotFound) if state.record.links > 0 && !state.record.is_free() => check_name(name),
        Err(error) => Err(error),
    }
}

/// Stamps a directory whose names changed; stores it in the transaction if its links changed too, or
/// if its times on the medium are too old.
pub(crate) fn touch_parent(parts: &Parts, tx: &mut Transaction, node: &Node, state: &mut State, store: bool) {
    state.touch(parts.store.now());
    if store || state.is_overdue() {
        let (at, version) = parts.next_version(node.ino, state);
        tx.bytes(at, &version);
    }
}

/// A directory's record, if it is one and still has a name.
pub(crate) fn directory(state: &State) -> Result<&Record> {
    if state.record.is_free() {
        return Err(Error::NotFound);
    }
    if state.record.is_directory() { Ok(&state.record) } else { Err(Error::NotDirectory) }
}

fn check_dots(name: &[u8], otherwise: Error) -> Result<()> {
    match check_name(name) {
        Err(Error::Exists) => Err(otherwise),
        other => other,
    }
}
