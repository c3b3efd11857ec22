//! Renaming: whatever it does, one transaction does it.

use super::directory::{self, Found};
use super::unlink::{self, Fate};
use super::{acl, create, names};
use crate::format::entry::{check_name, slots_of};
use crate::format::inode::LINKS_MAX;
use crate::inodes::{Exclusive, Node, State};
use crate::parts::Parts;
use crate::store::{Transaction, lock};
use crate::{Error, FileType, Ino, Meta, ROOT, Rename, Result, defects};
use pocketstone_media::Durable;
use std::sync::Arc;

/// One or two directories, locked.
struct Directories<'a> {
    from: &'a Node,
    to: &'a Node,
    from_state: Exclusive<'a>,
    /// `None` if both are the same.
    to_state: Option<Exclusive<'a>>,
}

impl Directories<'_> {
    fn target_state(&mut self) -> &mut State {
        match &mut self.to_state {
            Some(state) => state,
            None => &mut self.from_state,
        }
    }

    /// Refuses what something protects: the old name goes, the new one comes, and what has it may go.
    fn must_let_go(&mut self, source: &Named<'_>, target: Option<&Named<'_>>) -> Result<()> {
        self.from_state.record.must_be_free_to_change()?;
        source.node.read().record.must_be_free_to_change()?;
        let Some(target) = target else { return self.target_state().record.must_take_more() };
        self.target_state().record.must_be_free_to_change()?;
        target.node.read().record.must_be_free_to_change()
    }
}

/// A name, its entry, and what that leads to.
struct Named<'a> {
    name: &'a [u8],
    found: Found,
    node: Arc<Node>,
}

/// Gives an inode another name, in the same or another directory. What was left behind for it comes pinned once.
pub(crate) fn rename(
    parts: &Parts,
    from: Ino,
    name: &[u8],
    to: Ino,
    new_name: &[u8],
    how: Rename,
) -> Result<Option<Arc<Node>>> {
    for name in [name, new_name] {
        match check_name(name) {
            Err(Error::Exists) => return Err(Error::Invalid),
            other => other?,
        }
    }
    // Nobody else holds two directories then, and the tree stays as it is.
    let _tree = lock(&parts.tree);
    let (from_node, to_node) = (parts.node(from)?, parts.node(to)?);
    let from_state = from_node.exclusive(&parts.store)?;
    let to_state = (from != to).then(|| to_node.write());
    let mut dirs = Directories { from: &from_node, to: &to_node, from_state, to_state };
    let to = dirs.to;
    names::directory(&dirs.from_state)?;
    names::directory(dirs.target_state())?;
    let source = names::find_in(parts, dirs.from, &mut dirs.from_state, name)?;
    let target = match names::find_in(parts, to, dirs.target_state(), new_name) {
        Ok(found) => Some(found),
        Err(Error::NotFound) if dirs.target_state().record.links > 0 => None,
        Err(error) => return Err(error),
    };
    match (how, target) {
        (Rename::NoReplace | Rename::Whiteout { replace: false, .. }, Some(_)) => return Err(Error::Exists),
        (Rename::Exchange, None) => return Err(Error::NotFound),
        _ => {}
    }
    let to_state = dirs.to_state.as_deref().unwrap_or(&dirs.from_state);
    let target_node = target.map(|target| names::child(parts, to, to_state, &target)).transpose()?;
    let source_node = names::child(parts, dirs.from, &dirs.from_state, &source)?;
    if source.kind == FileType::Directory && is_above(parts, source.ino, &dirs, dirs.to.ino)? {
        return Err(Error::Invalid);
    }
    if let Some(target) = target.filter(|target| target.kind == FileType::Directory) {
        if is_above(parts, target.ino, &dirs, dirs.from.ino)? {
            return Err(if how == Rename::Exchange { Error::Invalid } else { Error::NotEmpty });
        }
    }
    names::must_be_in(parts, &source_node, from)?;
    let source = Named { name, found: source, node: source_node };
    let target = target.zip(target_node).map(|(found, node)| Named { name: new_name, found, node });
    if let Some(target) = &target {
        names::must_be_in(parts, &target.node, to.ino)?;
        if target.found.ino == source.found.ino {
            return Ok(None);
        }
    }
    dirs.must_let_go(&source, target.as_ref())?;
    match (how, target) {
        (Rename::Exchange, Some(target)) => exchange(parts, dirs, &source, &target).map(|()| None),
        (Rename::Whiteout { uid, gid, .. }, target) => {
            let meta = Meta::file(0).kind(FileType::CharDevice).uid(uid).gid(gid);
            move_name(parts, dirs, &source, new_name, target.as_ref(), Some(&meta))
        }
        (_, target) => move_name(parts, dirs, &source, new_name, target.as_ref(), None),
    }
}

/// Whether a directory is another one, or above it. The tree is locked, and so are `dirs`.
fn is_above(parts: &Parts, upper: Ino, dirs: &Directories<'_>, lower: Ino) -> Result<bool> {
    let mut at = lower;
    // No path is longer than there are inodes, unless the volume is damaged.
    for _ in 0..parts.store.layout.last_inode() {
        if at == upper {
            return Ok(true);
        }
        if at == ROOT {
            return Ok(false);
        }
        at = if at == dirs.from.ino {
            dirs.from_state.record.parent
        } else if at == dirs.to.ino {
            dirs.to_state.as_ref().map_or(ROOT, |state| state.record.parent)
        } else {
            parts.node(at)?.read().record.parent
        };
    }
    Err(Error::damaged(
        parts.store.layout.version_at(lower, 0),
        format!("directory {lower}, which is not below the root"),
    ))
}

/// Moves a name. Under the old one `leaving` is made, if it is given, and returned pinned.
fn move_name(
    parts: &Parts,
    mut dirs: Directories<'_>,
    source: &Named<'_>,
    new_name: &[u8],
    target: Option<&Named<'_>>,
    leaving: Option<&Meta>,
) -> Result<Option<Arc<Node>>> {
    let (name, moved, source) = (source.name, &source.node, source.found);
    let (replaced, target) = (target.map(|target| &target.node), target.map(|target| target.found));
    let is_directory = source.kind == FileType::Directory;
    match target.map(|target| target.kind == FileType::Directory) {
        Some(false) if is_directory => return Err(Error::NotDirectory),
        Some(true) if !is_directory => return Err(Error::IsDirectory),
        _ => {}
    }
    let crossing = is_directory && dirs.to_state.is_some();
    if crossing && target.is_none() && dirs.target_state().record.links >= LINKS_MAX {
        return Err(Error::TooManyLinks);
    }
    let to = dirs.to.ino;
    let slot = match target {
        Some(target) => target.slot,
        None => directory::take_slots(parts, to, dirs.target_state(), new_name)?,
    };
    // Files by inode number; directories are only locked by who has the tree.
    let replaced_first = replaced.is_some_and(|node| node.ino < moved.ino);
    let mut replaced_state = None;
    if replaced_first {
        replaced_state = replaced.map(|node| node.write());
    }
    let mut moved_state = moved.write();
    if !replaced_first {
        replaced_state = replaced.map(|node| node.write());
    }
    if let (Some(node), Some(state), true) = (replaced, replaced_state.as_deref_mut(), is_directory) {
        names::must_be_empty(parts, node, state)?;
    }
    let made = made_in(parts, &dirs, leaving);
    let (left, made) = made.inspect_err(|_| {
        if target.is_none() {
            directory::return_slots(dirs.target_state(), slot, slots_of(new_name));
        }
    })?;
    let mut tx = Transaction::new();
    let mut stage_replaced = |tx: &mut Transaction| {
        replaced.zip(replaced_state.as_deref_mut()).map(|(node, state)| unlink::stage_unlink(parts, tx, node, state))
    };
    let mut dying = None;
    if defects::on(defects::REPLACE_TWO) {
        dying = stage_replaced(&mut tx);
        parts.store.commit(std::mem::replace(&mut tx, Transaction::new()), Durable::nothing_new()).done();
    }
    // Known, and locked, before the medium has it: nobody may load it a second time.
    let mut left_state = left.as_ref().map(|node| node.write());
    if let (Some(node), Some(state)) = (&left, left_state.as_deref_mut()) {
        parts.inodes.add(&parts.store, node.clone());
        let (at, version) = parts.next_version(node.ino, state);
        tx.bytes(at, &version);
        directory::stage_entry(&mut tx, (dirs.from.ino, &dirs.from_state), source.slot, name, (node.ino, node.kind))?;
    } else {
        directory::stage_removal(&mut tx, &dirs.from_state, &source)?;
    }
    if defects::on(defects::RENAME_TWO) {
        parts.store.commit(std::mem::replace(&mut tx, Transaction::new()), Durable::nothing_new()).done();
    }
    directory::stage_entry(&mut tx, (to, dirs.target_state()), slot, new_name, (source.ino, source.kind))?;
    // After what may fail: an inode in memory is never ahead of what is stored.
    let dying = dying.or_else(|| stage_replaced(&mut tx));
    moved_state.record.ctime_ns = parts.store.now();
    if crossing {
        moved_state.record.parent = to;
        dirs.from_state.record.links = dirs.from_state.record.links.saturating_sub(1);
        dirs.target_state().record.links = dirs.target_state().record.links.saturating_add(1);
    }
    if is_directory && replaced.is_some() {
        dirs.target_state().record.links = dirs.target_state().record.links.saturating_sub(1);
    }
    let (at, version) = parts.next_version(moved.ino, &mut moved_state);
    tx.bytes(at, &version);
    touch_parents(parts, &mut tx, &mut dirs, is_directory);
    parts.store.commit(tx, made).done();
    match &left {
        None => directory::entry_removed(&mut dirs.from_state, &source),
        Some(node) => directory::entry_changed(&mut dirs.from_state, name, source.slot, node.ino),
    }
    match target {
        None => directory::entry_added(dirs.target_state(), new_name, slot, source.ino),
        Some(_) => directory::entry_changed(dirs.target_state(), new_name, slot, source.ino),
    }
    if let (Some(node), Some(state)) = (replaced, replaced_state.as_deref_mut()) {
        unlink::finish_unlink(parts, node, state, dying.unwrap_or(Fate::Stays));
    }
    drop(left_state);
    Ok(left)
}

/// What is to be left behind in the directory that something leaves, not on the medium yet.
fn made_in(parts: &Parts, dirs: &Directories<'_>, leaving: Option<&Meta>) -> Result<(Option<Arc<Node>>, Durable)> {
    let Some(meta) = leaving else { return Ok((None, Durable::nothing_new())) };
    let (meta, attributes) = acl::inherit(parts, dirs.from.ino, &dirs.from_state, meta)?;
    let (node, made) = create::new_inode(parts, &meta, 0, &[], &attributes)?;
    Ok((Some(node), made))
}

fn touch_parents(parts: &Parts, tx: &mut Transaction, dirs: &mut Directories<'_>, store: bool) {
    names::touch_parent(parts, tx, dirs.from, &mut dirs.from_state, store);
    let to = dirs.to;
    if let Some(state) = &mut dirs.to_state {
        names::touch_parent(parts, tx, to, state, store);
    }
}

fn exchange(parts: &Parts, mut dirs: Directories<'_>, source: &Named<'_>, target: &Named<'_>) -> Result<()> {
    let mut nodes = [&source.node, &target.node];
    let (name, new_name, source, target) = (source.name, target.name, source.found, target.found);
    let crossing = dirs.to_state.is_some();
    let is_directory = [source, target].map(|found| found.kind == FileType::Directory);
    let links_change = crossing && is_directory[0] != is_directory[1];
    let gaining = if is_directory[0] { dirs.target_state().record.links } else { dirs.from_state.record.links };
    if links_change && gaining >= LINKS_MAX {
        return Err(Error::TooManyLinks);
    }
    let (from, to) = (dirs.from.ino, dirs.to.ino);
    let mut parents = [to, from];
    // In the order of locks: directories before files.
    if (!is_directory[0], nodes[0].ino) > (!is_directory[1], nodes[1].ino) {
        nodes.reverse();
        parents.reverse();
    }
    let mut states = [nodes[0].write(), nodes[1].write()];
    let mut tx = Transaction::new();
    directory::stage_entry(&mut tx, (from, &dirs.from_state), source.slot, name, (target.ino, target.kind))?;
    if defects::on(defects::RENAME_TWO) {
        parts.store.commit(std::mem::replace(&mut tx, Transaction::new()), Durable::nothing_new()).done();
    }
    directory::stage_entry(&mut tx, (to, dirs.target_state()), target.slot, new_name, (source.ino, source.kind))?;
    for (i, state) in states.iter_mut().enumerate() {
        state.record.ctime_ns = parts.store.now();
        if state.record.is_directory() {
            state.record.parent = parents[i];
        }
        let (at, version) = parts.next_version(nodes[i].ino, state);
        tx.bytes(at, &version);
    }
    if links_change {
        let gain: i64 = if is_directory[0] { -1 } else { 1 };
        let links = i64::from(dirs.from_state.record.links) + gain;
        dirs.from_state.record.links = links as u32;
        let links = i64::from(dirs.target_state().record.links) - gain;
        dirs.target_state().record.links = links as u32;
    }
    touch_parents(parts, &mut tx, &mut dirs, links_change);
    parts.store.commit(tx, Durable::nothing_new()).done();
    directory::entry_changed(&mut dirs.from_state, name, source.slot, target.ino);
    directory::entry_changed(dirs.target_state(), new_name, target.slot, source.ino);
    Ok(())
}
