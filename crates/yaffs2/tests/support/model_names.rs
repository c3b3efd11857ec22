//! The reference's operations on names: what Linux's VFS checks, in its order.

use super::model::*;
use super::op::{Answer, Op, Outcome};
use super::shape::NOW_S;
use pocketstone_core::inode::{FileType, Rename};

/// Longest target of a symbolic link: the format's.
const TARGET_MAX: usize = 159;

impl Model {
    pub fn walk(&self, path: &str) -> Result<Id, i32> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(ROOT, |at, name| self.child(at, name)?.ok_or(ENOENT))
    }

    fn child(&self, directory: Id, name: &str) -> Result<Option<Id>, i32> {
        let node = self.node(directory);
        if node.kind != FileType::Directory {
            return Err(ENOTDIR);
        }
        if name.len() > 255 {
            return Err(ENAMETOOLONG);
        }
        Ok(node.entries.get(name).copied())
    }

    /// The directory that a path's last name is in, and that name.
    fn parent_of<'p>(&self, path: &'p str) -> Result<(Id, &'p str), i32> {
        let (directory, name) = path.rsplit_once('/').expect("paths are absolute");
        let directory = self.walk(directory)?;
        match self.node(directory).kind {
            FileType::Directory if name.len() > 255 => Err(ENAMETOOLONG),
            FileType::Directory => Ok((directory, name)),
            _ => Err(ENOTDIR),
        }
    }

    pub fn on_names(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Create(path, kind, permissions) => self.make(path, *kind, *permissions).map(|_| Answer::Done),
            Op::Symlink(path, target) => {
                let (directory, name) = self.parent_of(path)?;
                if target.len() > TARGET_MAX && self.child(directory, name)?.is_none() {
                    return Err(ENAMETOOLONG);
                }
                let id = self.make(path, FileType::Symlink, 0o777)?;
                self.node_mut(id).symlink = target.clone();
                Ok(Answer::Done)
            }
            Op::Link(from, to) => {
                let id = self.walk(from)?;
                let (directory, name) = self.parent_of(to)?;
                if self.child(directory, name)?.is_some() {
                    return Err(EEXIST);
                }
                if self.node(id).kind == FileType::Directory {
                    return Err(EPERM);
                }
                self.node_mut(id).links += 1;
                self.node_mut(id).touched();
                self.put(directory, name, id);
                Ok(Answer::Done)
            }
            Op::Unlink(path) => {
                let (directory, name) = self.parent_of(path)?;
                let id = self.child(directory, name)?.ok_or(ENOENT)?;
                if self.node(id).kind == FileType::Directory {
                    return Err(EISDIR);
                }
                self.take(directory, name);
                Ok(Answer::Done)
            }
            Op::Rmdir(path) => {
                let (directory, name) = self.parent_of(path)?;
                let id = self.child(directory, name)?.ok_or(ENOENT)?;
                if self.node(id).kind != FileType::Directory {
                    return Err(ENOTDIR);
                }
                if !self.node(id).entries.is_empty() {
                    return Err(ENOTEMPTY);
                }
                self.take(directory, name);
                Ok(Answer::Done)
            }
            Op::Rename(from, to, how) => self.rename(from, to, *how),
            Op::Open(slot, path) => {
                let id = self.walk(path)?;
                self.close(*slot);
                self.slots.insert(*slot, id);
                Ok(Answer::Done)
            }
            Op::Close(slot) => {
                self.close(*slot);
                Ok(Answer::Done)
            }
            _ => unreachable!("{op:?} is no operation on names"),
        }
    }

    fn close(&mut self, slot: u8) {
        if let Some(id) = self.slots.remove(&slot) {
            self.drop_unused(id);
        }
    }

    fn drop_unused(&mut self, id: Id) {
        if self.node(id).links == 0 && !self.slots.values().any(|other| *other == id) {
            self.nodes.remove(&id);
        }
    }

    fn make(&mut self, path: &str, kind: FileType, permissions: u16) -> Result<Id, i32> {
        let (directory, name) = self.parent_of(path)?;
        if self.child(directory, name)?.is_some() {
            return Err(EEXIST);
        }
        let id = self.add(kind, permissions);
        self.put(directory, name, id);
        Ok(id)
    }

    fn put(&mut self, directory: Id, name: &str, id: Id) {
        self.node_mut(directory).entries.insert(name.into(), id);
        self.node_mut(directory).changed();
        self.node_mut(id).parent = directory;
    }

    fn take(&mut self, directory: Id, name: &str) {
        let id = self.node_mut(directory).entries.remove(name).expect("it was found");
        self.node_mut(directory).changed();
        let node = self.node_mut(id);
        node.links -= 1;
        node.touched();
        self.drop_unused(id);
    }

    fn rename(&mut self, from: &str, to: &str, how: Rename) -> Outcome {
        let (old, name) = self.parent_of(from)?;
        let (new, new_name) = self.parent_of(to)?;
        let id = self.child(old, name)?.ok_or(ENOENT)?;
        let victim = self.child(new, new_name)?;
        if victim.is_some() && how == Rename::NoReplace {
            return Err(EEXIST);
        }
        let is_directory = self.node(id).kind == FileType::Directory;
        if is_directory && self.is_within(new, id) {
            return Err(EINVAL);
        }
        if let Some(victim) = victim {
            let victim_is_directory = self.node(victim).kind == FileType::Directory;
            if victim_is_directory && self.is_within(old, victim) {
                // What is moved lies in what it would replace.
                return Err(ENOTEMPTY);
            }
            if victim == id {
                return Ok(Answer::Done);
            }
            match (is_directory, victim_is_directory) {
                (true, false) => return Err(ENOTDIR),
                (false, true) => return Err(EISDIR),
                (true, true) if !self.node(victim).entries.is_empty() => return Err(ENOTEMPTY),
                _ => {}
            }
            self.take(new, new_name);
        }
        self.node_mut(old).entries.remove(name);
        self.node_mut(old).changed();
        self.put(new, new_name, id);
        let node = self.node_mut(id);
        node.times[2] = NOW_S;
        node.times_since.push(node.times);
        Ok(Answer::Done)
    }

    fn is_within(&self, mut directory: Id, other: Id) -> bool {
        while directory != other {
            if directory == ROOT {
                return false;
            }
            directory = self.node(directory).parent;
        }
        true
    }
}
