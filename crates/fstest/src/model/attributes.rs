//! The reference's attributes, those with names among them.

use super::{Answer, Id, Model, Object};
use crate::acl;
use crate::content::pattern;
use crate::errno::*;
use crate::op::{Op, Outcome};
use pocketstone_vfs::{FileType, SetXattr};

impl Model {
    pub(super) fn on_attributes(&mut self, id: Id, op: &Op) -> Outcome {
        let now = self.now();
        let object = self.object_mut(id);
        match op {
            Op::Chmod(_, permissions) => object.set_permissions(*permissions),
            Op::Chown(_, uid, gid) => (object.uid, object.gid) = (*uid, *gid),
            Op::Times(_, read, changed) => (object.times[0], object.times[1]) = (*read, *changed),
            other => unreachable!("{other:?} is executed elsewhere"),
        }
        object.times[2] = now;
        self.node(id)
    }

    pub(super) fn on_xattrs(&mut self, id: Id, op: &Op) -> Answer {
        let (now, room) = (self.now(), self.has.xattr_bytes);
        let is_file_or_directory = matches!(self.object(id).kind, FileType::Regular | FileType::Directory);
        let is_refused = |name: &str| self.has.guards_user_xattrs && name.starts_with("user.") && !is_file_or_directory;
        match op {
            Op::SetXattr(_, name, ..) | Op::RemoveXattr(_, name) if is_refused(name) => return Err(EPERM),
            _ => {}
        }
        let object = self.object_mut(id);
        let xattrs = &mut object.xattrs;
        match op {
            Op::SetXattr(_, name, bytes, fill, how) => {
                match (how, xattrs.contains_key(name)) {
                    (SetXattr::Create, true) => return Err(EEXIST),
                    (SetXattr::Replace, false) => return Err(ENODATA),
                    _ => {}
                }
                let others = xattrs.iter().filter(|(other, _)| *other != name);
                let taken: usize = others.map(|(name, value)| 5 + name.len() + value.len()).sum();
                if room.is_some_and(|room| (taken + 5 + name.len()) as u64 + bytes > room) {
                    return Err(ENOSPC);
                }
                xattrs.insert(name.clone(), pattern(*fill, 0, *bytes));
            }
            Op::RemoveXattr(_, name) => drop(xattrs.remove(name).ok_or(ENODATA)?),
            Op::SetAcl(_, is_default, mode, named) => {
                let name = if *is_default { acl::DEFAULT } else { acl::ACCESS };
                xattrs.insert(name.into(), acl::value(*mode, *named));
                if !is_default {
                    object.set_permissions(object.permissions & 0o7000 | *mode);
                }
            }
            Op::GetXattr(_, name) => return Ok(Outcome::Bytes(xattrs.get(name).ok_or(ENODATA)?.clone())),
            _ => return Ok(Outcome::Names(xattrs.keys().map(|name| name.clone().into_bytes()).collect())),
        }
        object.times[2] = now;
        Ok(Outcome::Done)
    }

    /// Bytes that an object's extended attributes take, names included.
    pub fn xattr_bytes(&self, path: &str) -> usize {
        let xattrs = self.walk(path).map(|id| &self.object(id).xattrs);
        xattrs.map_or(0, |xattrs| xattrs.iter().map(|(name, value)| name.len() + value.len()).sum())
    }
}

impl Object {
    /// Changes the permissions, and in a list of access rights what stands for them.
    fn set_permissions(&mut self, permissions: u16) {
        self.permissions = permissions;
        if let Some(value) = self.xattrs.get_mut(acl::ACCESS) {
            acl::set_permissions(value, permissions);
        }
    }
}
