//! The reference's operations on names: what Linux's VFS checks, in its order.

use super::{Answer, Handle, Id, Model, ROOT};
use crate::acl;
use crate::errno::*;
use crate::op::{Op, Outcome};
use pocketstone_vfs::{FileType, Rename};

impl Model {
    pub(super) fn on_names(&mut self, op: &Op) -> Answer {
        match op {
            Op::Create(path, kind, permissions, slot) => {
                let id = self.make(path, *kind, *permissions)?;
                if let Some(slot) = slot {
                    self.keep(*slot, Handle { id, unnamed: false });
                }
                Ok(self.node(id))
            }
            Op::Mkdir(path, permissions) => {
                let id = self.make(path, FileType::Directory, *permissions)?;
                Ok(self.node(id))
            }
            Op::Symlink(path, target) => self.symlink(path, target),
            Op::Link(from, to) => self.link(from, to),
            Op::LinkSlot(slot, path) => self.link_slot(*slot, path),
            Op::Unlink(path) => self.unlink(path),
            Op::Rmdir(path) => self.rmdir(path),
            Op::Rename(from, to, how) => self.rename(from, to, *how),
            Op::Open(slot, path) => {
                let id = self.walk(path)?;
                self.keep(*slot, Handle { id, unnamed: false });
                Ok(self.node(id))
            }
            Op::Close(slot) => match self.handles.remove(slot) {
                Some(handle) => {
                    self.drop_unused(handle.id);
                    Ok(Outcome::Done)
                }
                None => Ok(Outcome::Skipped),
            },
            Op::Temporary(slot) => {
                let id = self.add(FileType::Regular, 0o600);
                self.keep(*slot, Handle { id, unnamed: true });
                Ok(self.node(id))
            }
            Op::List(path) => {
                let object = self.object(self.walk(path)?);
                if object.kind != FileType::Directory {
                    return Err(ENOTDIR);
                }
                Ok(Outcome::Names(object.entries.keys().map(|name| name.clone().into_bytes()).collect()))
            }
            other => unreachable!("{other:?} is executed elsewhere"),
        }
    }

    fn symlink(&mut self, path: &str, target: &str) -> Answer {
        let (directory, name) = self.parent_of(path)?;
        if target.len() > self.has.target_max && self.child(directory, name)?.is_none() {
            return Err(ENAMETOOLONG);
        }
        // symlink(7): the permissions of a symbolic link are always 0777.
        let id = self.make(path, FileType::Symlink, 0o777)?;
        self.object_mut(id).symlink = target.to_owned();
        Ok(self.node(id))
    }

    fn link(&mut self, from: &str, to: &str) -> Answer {
        let id = self.walk(from)?;
        let (directory, name) = self.parent_of(to)?;
        if self.child(directory, name)?.is_some() {
            return Err(EEXIST);
        }
        if self.object(id).kind == FileType::Directory {
            return Err(EPERM);
        }
        self.place(directory, name, id);
        self.object_mut(id).links += 1;
        self.touched(id);
        Ok(self.node(id))
    }

    /// Gives an open file without a name one.
    fn link_slot(&mut self, slot: u8, path: &str) -> Answer {
        let Some(Handle { id, unnamed: true }) = self.handles.get(&slot).copied() else {
            return Ok(Outcome::Skipped);
        };
        let (directory, name) = self.parent_of(path)?;
        if self.child(directory, name)?.is_some() {
            return Err(EEXIST);
        }
        self.place(directory, name, id);
        self.object_mut(id).links = 1;
        self.touched(id);
        self.handles.insert(slot, Handle { id, unnamed: false });
        Ok(self.node(id))
    }

    fn unlink(&mut self, path: &str) -> Answer {
        let (directory, name) = self.parent_of(path)?;
        let id = self.child(directory, name)?.ok_or(ENOENT)?;
        if self.object(id).kind == FileType::Directory {
            return Err(EISDIR);
        }
        self.forget(directory, name);
        Ok(Outcome::Done)
    }

    fn rmdir(&mut self, path: &str) -> Answer {
        let (directory, name) = self.parent_of(path)?;
        let id = self.child(directory, name)?.ok_or(ENOENT)?;
        if self.object(id).kind != FileType::Directory {
            return Err(ENOTDIR);
        }
        if !self.object(id).entries.is_empty() {
            return Err(ENOTEMPTY);
        }
        self.forget(directory, name);
        Ok(Outcome::Done)
    }

    /// Opening into a slot closes what was in it.
    fn keep(&mut self, slot: u8, handle: Handle) {
        if let Some(old) = self.handles.insert(slot, handle) {
            self.drop_unused(old.id);
        }
    }

    fn make(&mut self, path: &str, kind: FileType, permissions: u16) -> Result<Id, Errno> {
        let (directory, name) = self.parent_of(path)?;
        if self.child(directory, name)?.is_some() {
            return Err(EEXIST);
        }
        let given = self.object(directory).xattrs.get(acl::DEFAULT).cloned();
        let id = self.add(kind, permissions);
        // acl(5), object creation and default ACLs; a symbolic link has none.
        if let Some(mut given) = given.filter(|_| kind != FileType::Symlink) {
            let object = self.object_mut(id);
            if kind == FileType::Directory {
                object.xattrs.insert(acl::DEFAULT.into(), given.clone());
            }
            object.permissions &= 0o7000 | acl::mode(&given);
            acl::set_permissions(&mut given, object.permissions);
            object.xattrs.insert(acl::ACCESS.into(), given);
        }
        self.object_mut(id).links = 1;
        self.place(directory, name, id);
        if kind == FileType::Directory {
            self.object_mut(id).links = 2;
            self.object_mut(directory).links += 1;
        }
        Ok(id)
    }

    /// Takes a name away, and the object if that was its last.
    fn forget(&mut self, directory: Id, name: &str) {
        let id = self.object_mut(directory).entries.remove(name).expect("the caller looked it up");
        if self.object(id).kind == FileType::Directory {
            self.object_mut(directory).links -= 1;
            self.object_mut(id).links = 0;
        } else {
            self.object_mut(id).links -= 1;
        }
        self.changed(directory);
        self.touched(id);
        self.drop_unused(id);
    }

    fn is_inside(&self, mut at: Id, directory: Id) -> bool {
        while at != directory {
            if at == ROOT {
                return false;
            }
            at = self.object(at).parent;
        }
        true
    }

    fn rename(&mut self, from: &str, to: &str, how: Rename) -> Answer {
        let (old_directory, old_name) = self.parent_of(from)?;
        let (new_directory, new_name) = self.parent_of(to)?;
        let id = self.child(old_directory, old_name)?.ok_or(ENOENT)?;
        let there = self.child(new_directory, new_name)?;
        let leaves = matches!(how, Rename::Whiteout { .. });
        if matches!(how, Rename::NoReplace | Rename::Whiteout { replace: false, .. }) && there.is_some() {
            return Err(EEXIST);
        }
        if how == Rename::Exchange && there.is_none() {
            return Err(ENOENT);
        }
        let is_directory = self.object(id).kind == FileType::Directory;
        if is_directory && self.is_inside(new_directory, id) {
            return Err(EINVAL);
        }
        if there.is_some_and(|there| self.is_directory(there) && self.is_inside(old_directory, there)) {
            return Err(if how == Rename::Exchange { EINVAL } else { ENOTEMPTY });
        }
        if there == Some(id) {
            // rename(2): two names of the same file: nothing happens.
            return Ok(Outcome::Done);
        }
        match there {
            Some(there) if how == Rename::Exchange => {
                self.place(old_directory, old_name, there);
                self.place(new_directory, new_name, id);
                self.touched(id);
                self.touched(there);
                // A directory's link count counts the directories in it.
                for (moved, left, entered) in
                    [(id, old_directory, new_directory), (there, new_directory, old_directory)]
                {
                    if self.is_directory(moved) {
                        self.object_mut(left).links -= 1;
                        self.object_mut(entered).links += 1;
                    }
                }
                return Ok(Outcome::Done);
            }
            Some(there) => {
                match (is_directory, self.is_directory(there)) {
                    (true, false) => return Err(ENOTDIR),
                    (false, true) => return Err(EISDIR),
                    _ => {}
                }
                if !self.object(there).entries.is_empty() {
                    return Err(ENOTEMPTY);
                }
                self.forget(new_directory, new_name);
            }
            None => {}
        }
        self.object_mut(old_directory).entries.remove(old_name);
        self.changed(old_directory);
        self.place(new_directory, new_name, id);
        self.touched(id);
        if is_directory {
            self.object_mut(old_directory).links -= 1;
            self.object_mut(new_directory).links += 1;
        }
        if leaves {
            self.make(from, FileType::CharDevice, 0)?;
        }
        Ok(Outcome::Done)
    }

    fn is_directory(&self, id: Id) -> bool {
        self.object(id).kind == FileType::Directory
    }

    fn place(&mut self, directory: Id, name: &str, id: Id) {
        self.object_mut(directory).entries.insert(name.into(), id);
        self.changed(directory);
        if self.is_directory(id) {
            self.object_mut(id).parent = directory;
        }
    }

    /// A directory's names have changed.
    fn changed(&mut self, id: Id) {
        self.object_mut(id).times[1] = self.now();
        self.touched(id);
    }

    /// Attributes have changed.
    fn touched(&mut self, id: Id) {
        self.object_mut(id).times[2] = self.now();
    }
}
