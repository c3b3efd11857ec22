//! Extended attributes by their names, of the namespaces of xattr(7).

use super::acl::{self, is_acl};
use super::attributes;
use crate::parts::Parts;
use crate::{Error, FileType, Ino, Result, SetXattr};

/// Longest name, as Linux has it.
const XATTR_NAME_MAX: usize = 255;
/// The attribute that makes a program privileged: capabilities(7).
const CAPABILITY: &[u8] = b"security.capability";

/// An extended attribute's value.
pub(crate) fn get_xattr(parts: &Parts, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
    let node = parts.node(ino)?;
    let state = node.read();
    match attributes::xattrs(parts, ino, &state)?.remove(name) {
        Some(value) => acl::acl_value(parts, ino, &state, name, value)?.ok_or(Error::NoAttribute),
        None => match check_namespace(state.record.kind(), name) {
            Ok(()) | Err(Error::NotPermitted) => Err(Error::NoAttribute),
            refused => refused.and(Err(Error::NoAttribute)),
        },
    }
}

/// The names of an inode's extended attributes.
pub(crate) fn list_xattrs(parts: &Parts, ino: Ino) -> Result<Vec<Vec<u8>>> {
    let node = parts.node(ino)?;
    let state = node.read();
    let mut names = Vec::new();
    for (name, value) in attributes::xattrs(parts, ino, &state)? {
        if acl::acl_value(parts, ino, &state, &name, value)?.is_some() {
            names.push(name);
        }
    }
    Ok(names)
}

/// Sets an extended attribute. An ACL also changes the mode: see [`Volume::set_acl`].
pub(crate) fn set_xattr(parts: &Parts, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
    check_name(name)?;
    if is_acl(name) {
        return acl::set_acl(parts, ino, name, value, false);
    }
    attributes::change_xattrs(parts, ino, |record, attributes| {
        check_namespace(record.kind(), name)?;
        match (how, attributes.contains_key(name)) {
            (SetXattr::Create, true) => Err(Error::Exists),
            (SetXattr::Replace, false) => Err(Error::NoAttribute),
            _ => {
                attributes.insert(name.to_vec(), value.to_vec());
                Ok(())
            }
        }
    })
}

/// Removes an extended attribute. Removing an ACL succeeds even if there is none.
pub(crate) fn remove_xattr(parts: &Parts, ino: Ino, name: &[u8]) -> Result<()> {
    attributes::change_xattrs(parts, ino, |record, attributes| match attributes.remove(name) {
        Some(_) => Ok(()),
        None => check_namespace(record.kind(), name).and(if is_acl(name) { Ok(()) } else { Err(Error::NoAttribute) }),
    })
}

/// Removes a program's file capabilities, as any change of its contents must. Returns whether it had any.
pub(crate) fn drop_capability(parts: &Parts, ino: Ino) -> Result<bool> {
    let node = parts.node(ino)?;
    if node.read().incapable {
        return Ok(false);
    }
    let mut state = node.exclusive(&parts.store)?;
    if state.record.immutable {
        // What would make it necessary is about to be refused.
        return Ok(false);
    }
    let mut attributes = attributes::xattrs(parts, ino, &state)?;
    let had = attributes.remove(CAPABILITY).is_some();
    if had {
        let record = state.record;
        attributes::store_xattrs(parts, ino, &mut state, record, &attributes)?;
    }
    state.incapable = true;
    Ok(had)
}

/// Refuses what cannot be an attribute's name.
fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return Err(Error::Range);
    }
    if name.contains(&0) { Err(Error::Invalid) } else { Ok(()) }
}

/// Refuses names that no attribute of such an object can have: xattr(7).
fn check_namespace(kind: FileType, name: &[u8]) -> Result<()> {
    if is_acl(name) {
        return if kind == FileType::Symlink { Err(Error::NotSupported) } else { Ok(()) };
    }
    let namespace = [&b"user."[..], b"trusted.", b"security."].into_iter().find(|prefix| name.starts_with(prefix));
    match namespace {
        None => Err(Error::NotSupported),
        Some(prefix) if prefix == name => Err(Error::Invalid),
        Some(b"user.") if !matches!(kind, FileType::Regular | FileType::Directory) => Err(Error::NotPermitted),
        Some(_) => Ok(()),
    }
}
