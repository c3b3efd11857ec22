//! Lists of access rights (acl(5)): extended attributes that belong to the mode.
//!
//! The mode is the only place where the permissions of owner, mask and others are kept. A stored list has them as
//! they were when it was set; who reads it gets those of the mode. So a change of the mode is a change of the list,
//! and no crash comes between the two. A list that says no more than a mode can is not stored at all.

use super::attributes;
use crate::format::attributes::Attributes;
use crate::inodes::{State, live};
use crate::parts::Parts;
use crate::{ACL_ACCESS, ACL_DEFAULT, Error, FileType, Ino, Meta, Result};
use pocketstone_vfs::Acl;

const PERMISSIONS: u16 = 0o777;
const S_ISGID: u16 = 0o2000;

/// Whether an attribute of that name is a list of access rights.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    name == ACL_ACCESS || name == ACL_DEFAULT
}

/// The list that an inode with such a mode has, if it has one that says more than the mode.
fn shown(value: &[u8], mode: u16) -> Result<Option<Acl>> {
    let acl = Acl::decode(value)?.filter(|acl| !acl.is_minimal());
    Ok(acl.map(|mut acl| {
        acl.set_permissions(mode);
        acl
    }))
}

/// Sets the list of access rights of one of the names [`ACL_ACCESS`] and [`ACL_DEFAULT`], in the form of
/// Linux's extended attributes, or with an empty one takes it away. The mode changes with it.
/// `drop_group_id`: the set-group-id bit goes, as for a caller who is not in the file's group.
pub(crate) fn set_acl(parts: &Parts, ino: Ino, name: &[u8], value: &[u8], drop_group_id: bool) -> Result<()> {
    if !is_acl(name) {
        return Err(Error::NotSupported);
    }
    // setxattr(2) hands no value on where it is empty.
    let acl = if value.is_empty() { None } else { Acl::decode(value)? };
    attributes::change_xattrs(parts, ino, |record, attributes| {
        let kind = record.kind();
        match &acl {
            _ if kind == FileType::Symlink => return Err(Error::NotSupported),
            Some(_) if name == ACL_DEFAULT && kind != FileType::Directory => return Err(Error::Denied),
            Some(acl) if name == ACL_ACCESS => {
                record.mode = record.mode & !PERMISSIONS | acl.permissions();
                if drop_group_id {
                    record.mode &= !S_ISGID;
                }
            }
            _ => {}
        }
        match acl.filter(|acl| name == ACL_DEFAULT || !acl.is_minimal()) {
            Some(acl) => attributes.insert(name.to_vec(), acl.encode()),
            None => attributes.remove(name),
        };
        Ok(())
    })
}

/// What a stored list of access rights says, in the form of an attribute; `None` if it says nothing.
pub(crate) fn acl_value(
    parts: &Parts,
    ino: Ino,
    state: &State,
    name: &[u8],
    value: Vec<u8>,
) -> Result<Option<Vec<u8>>> {
    if name != ACL_ACCESS {
        return Ok(Some(value));
    }
    match shown(&value, state.record.mode) {
        Ok(acl) => Ok(acl.map(|acl| acl.encode())),
        Err(_) => Err(no_acl(parts, ino, state)),
    }
}

fn no_acl(parts: &Parts, ino: Ino, state: &State) -> Error {
    let at = parts.store.layout.page_at(state.record.xattr_start);
    Error::damaged(at, format!("an invalid ACL of inode {ino}"))
}

/// What an object that is made in a directory gets: its permissions, and its lists of access rights.
pub(crate) fn inherit(parts: &Parts, parent: Ino, state: &State, meta: &Meta) -> Result<(Meta, Attributes)> {
    live(&state.record)?;
    let (mut meta, mut inherited) = (*meta, Attributes::new());
    if meta.kind == FileType::Symlink {
        return Ok((meta, inherited));
    }
    let value = if state.record.xattr_bytes == 0 {
        None
    } else {
        attributes::xattrs(parts, parent, state)?.remove(ACL_DEFAULT)
    };
    let acl = value.as_deref().map(Acl::decode).transpose().map_err(|_| no_acl(parts, parent, state))?.flatten();
    let Some(mut acl) = acl else {
        meta.permissions &= !(meta.umask & PERMISSIONS);
        return Ok((meta, inherited));
    };
    if meta.kind == FileType::Directory {
        inherited.insert(ACL_DEFAULT.to_vec(), acl.encode());
    }
    // What the maker asks for bounds what the list gives, and the list what the maker gets.
    meta.permissions &= !PERMISSIONS | acl.permissions();
    if !acl.is_minimal() {
        acl.set_permissions(meta.permissions);
        inherited.insert(ACL_ACCESS.to_vec(), acl.encode());
    }
    Ok((meta, inherited))
}
