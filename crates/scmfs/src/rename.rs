//! Renaming: whatever it does, one transaction does it.

use crate::directory::{Found, check_name};
use crate::journal::Transaction;
use crate::namespace::{LINKS_MAX, directory};
use crate::node::{Node, State, lock};
use crate::unlink::Fate;
use crate::volume::{Inner, Volume};
use crate::{Error, FileType, Ino, ROOT, Rename, Result, defects};
use pocketstone_media::Durable;
use std::sync::{Arc, RwLockWriteGuard};

/// One or two directories, locked.
struct Directories<'a> {
    from: &'a Node,
    to: &'a Node,
    from_state: RwLockWriteGuard<'a, State>,
    /// `None` if both are the same.
    to_state: Option<RwLockWriteGuard<'a, State>>,
}

impl Directories<'_> {
    fn target_state(&mut self) -> &mut State {
        match &mut self.to_state {
            Some(state) => state,
            None => &mut self.from_state,
        }
    }
}

/// A name, its entry, and what that leads to.
struct Named<'a> {
    name: &'a [u8],
    found: Found,
    node: Arc<Node>,
}

impl Volume {
    /// Gives an inode another name, in the same or another directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `IsDirectory`, `NotEmpty`, `Exists`, `TooManyLinks`, `NoSpace`;
    /// `Invalid` for a directory that would get into itself.
    pub fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        let inner = &self.inner;
        for name in [name, new_name] {
            match check_name(name) {
                Err(Error::Exists) => return Err(Error::Invalid),
                other => other?,
            }
        }
        // Nobody else holds two directories then, and the tree stays as it is.
        let _tree = lock(&inner.tree);
        let (from_node, to_node) = (inner.node(from)?, inner.node(to)?);
        let from_state = inner.exclusive(&from_node)?;
        let to_state = (from != to).then(|| to_node.write());
        let mut dirs = Directories { from: &from_node, to: &to_node, from_state, to_state };
        let to = dirs.to;
        directory(&dirs.from_state)?;
        directory(dirs.target_state())?;
        let source = inner.find_in(dirs.from, &mut dirs.from_state, name)?;
        let target = match inner.find_in(to, dirs.target_state(), new_name) {
            Ok(found) => Some(found),
            Err(Error::NotFound) if dirs.target_state().record.links > 0 => None,
            Err(error) => return Err(error),
        };
        match (how, target) {
            (Rename::NoReplace, Some(_)) => return Err(Error::Exists),
            (Rename::Exchange, None) => return Err(Error::NotFound),
            _ => {}
        }
        let to_state = dirs.to_state.as_deref().unwrap_or(&dirs.from_state);
        let target_node = target.map(|target| inner.child(to, to_state, &target)).transpose()?;
        let source_node = inner.child(dirs.from, &dirs.from_state, &source)?;
        if source.kind == FileType::Directory && inner.is_above(source.ino, &dirs, dirs.to.ino)? {
            return Err(Error::Invalid);
        }
        if let Some(target) = target.filter(|target| target.kind == FileType::Directory) {
            if inner.is_above(target.ino, &dirs, dirs.from.ino)? {
                return Err(if how == Rename::Exchange { Error::Invalid } else { Error::NotEmpty });
            }
        }
        inner.must_be_in(&source_node, from)?;
        let source = Named { name, found: source, node: source_node };
        let target = target.zip(target_node).map(|(found, node)| Named { name: new_name, found, node });
        if let Some(target) = &target {
            inner.must_be_in(&target.node, to.ino)?;
            if target.found.ino == source.found.ino {
                return Ok(());
            }
        }
        match (how, target) {
            (Rename::Exchange, Some(target)) => inner.exchange(dirs, &source, &target),
            (_, target) => inner.move_name(dirs, &source, new_name, target.as_ref()),
        }
    }
}

impl Inner {
    /// Whether a directory is another one, or above it. The tree is locked, and so are `dirs`.
    fn is_above(&self, upper: Ino, dirs: &Directories<'_>, lower: Ino) -> Result<bool> {
        let mut at = lower;
        // No path is longer than there are inodes, unless the volume is damaged.
        for _ in 0..self.layout.inodes {
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
                self.node(at)?.read().record.parent
            };
        }
        Err(Error::damaged(self.layout.version_at(lower, 0), format!("directory {lower}, which is not below the root")))
    }

    fn move_name(
        &self,
        mut dirs: Directories<'_>,
        source: &Named<'_>,
        new_name: &[u8],
        target: Option<&Named<'_>>,
    ) -> Result<()> {
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
            None => self.take_slots(to, dirs.target_state(), new_name)?,
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
        let mut tx = Transaction::new();
        let mut dying = None;
        if let (Some(node), Some(state)) = (replaced, replaced_state.as_deref_mut()) {
            if is_directory {
                self.must_be_empty(node, state)?;
            }
            dying = Some(self.stage_unlink(&mut tx, node, state));
            if defects::on(defects::REPLACE_TWO) {
                self.commit(std::mem::replace(&mut tx, Transaction::new()), Durable::nothing()).done();
            }
        }
        self.stage_removal(&mut tx, &dirs.from_state, &source)?;
        if defects::on(defects::RENAME_TWO) {
            self.commit(std::mem::replace(&mut tx, Transaction::new()), Durable::nothing()).done();
        }
        self.stage_entry(&mut tx, (to, dirs.target_state()), slot, new_name, (source.ino, source.kind))?;
        moved_state.record.ctime_ns = self.now();
        if crossing {
            moved_state.record.parent = to;
            dirs.from_state.record.links = dirs.from_state.record.links.saturating_sub(1);
            dirs.target_state().record.links = dirs.target_state().record.links.saturating_add(1);
        }
        if is_directory && replaced.is_some() {
            dirs.target_state().record.links = dirs.target_state().record.links.saturating_sub(1);
        }
        let (at, version) = self.next_version(moved.ino, &mut moved_state);
        tx.bytes(at, &version);
        self.touch_parents(&mut tx, &mut dirs, is_directory);
        self.commit(tx, Durable::nothing()).done();
        self.entry_removed(&mut dirs.from_state, name, &source);
        match target {
            None => self.entry_added(dirs.target_state(), new_name, slot, source.ino),
            Some(_) => self.entry_changed(dirs.target_state(), new_name, slot, source.ino),
        }
        if let (Some(node), Some(state)) = (replaced, replaced_state.as_deref_mut()) {
            self.finish_unlink(node, state, dying.unwrap_or(Fate::Stays));
        }
        Ok(())
    }

    fn touch_parents(&self, tx: &mut Transaction, dirs: &mut Directories<'_>, store: bool) {
        self.touch_parent(tx, dirs.from, &mut dirs.from_state, store);
        let to = dirs.to;
        if let Some(state) = &mut dirs.to_state {
            self.touch_parent(tx, to, state, store);
        }
    }

    fn exchange(&self, mut dirs: Directories<'_>, source: &Named<'_>, target: &Named<'_>) -> Result<()> {
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
        if nodes[0].ino > nodes[1].ino {
            nodes.reverse();
            parents.reverse();
        }
        let mut states = [nodes[0].write(), nodes[1].write()];
        let mut tx = Transaction::new();
        self.stage_entry(&mut tx, (from, &dirs.from_state), source.slot, name, (target.ino, target.kind))?;
        if defects::on(defects::RENAME_TWO) {
            self.commit(std::mem::replace(&mut tx, Transaction::new()), Durable::nothing()).done();
        }
        self.stage_entry(&mut tx, (to, dirs.target_state()), target.slot, new_name, (source.ino, source.kind))?;
        for (i, state) in states.iter_mut().enumerate() {
            state.record.ctime_ns = self.now();
            if state.record.is_directory() {
                state.record.parent = parents[i];
            }
            let (at, version) = self.next_version(nodes[i].ino, state);
            tx.bytes(at, &version);
        }
        if links_change {
            let gain: i64 = if is_directory[0] { -1 } else { 1 };
            let links = i64::from(dirs.from_state.record.links) + gain;
            dirs.from_state.record.links = links as u32;
            let links = i64::from(dirs.target_state().record.links) - gain;
            dirs.target_state().record.links = links as u32;
        }
        self.touch_parents(&mut tx, &mut dirs, links_change);
        self.commit(tx, Durable::nothing()).done();
        self.entry_changed(&mut dirs.from_state, name, source.slot, target.ino);
        self.entry_changed(dirs.target_state(), new_name, target.slot, source.ino);
        Ok(())
    }
}
