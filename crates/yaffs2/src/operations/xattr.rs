//! Extended attributes.

use crate::files::Files;
use crate::tree::xattrs::{area_of, records};
use pocketstone_vfs::{Error, Ino, Result, SetXattr};

/// An attribute's value.
pub fn get_xattr(files: &mut Files, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
    let area = files.tree.xattr_area(ino)?;
    let found = records(&area).into_iter().find(|(other, _)| *other == name);
    found.map(|(_, value)| value.to_vec()).ok_or(Error::NoAttribute)
}

/// Names of an object's attributes.
pub fn list_xattrs(files: &mut Files, ino: Ino) -> Result<Vec<Vec<u8>>> {
    let area = files.tree.xattr_area(ino)?;
    Ok(records(&area).into_iter().map(|(name, _)| name.to_vec()).collect())
}

/// Sets an attribute. All of an object's attributes share the page of its header.
pub fn set_xattr(files: &mut Files, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
    files.tree.log.writable()?;
    if name.is_empty() || name.len() > 255 || name.contains(&0) {
        return Err(Error::Range);
    }
    let area = files.tree.xattr_area(ino)?;
    let old = records(&area);
    let exists = old.iter().any(|(other, _)| *other == name);
    match how {
        SetXattr::Create if exists => return Err(Error::Exists),
        SetXattr::Replace if !exists => return Err(Error::NoAttribute),
        _ => {}
    }
    let others = old.into_iter().filter(|(other, _)| *other != name);
    let area = area_of(others.chain(std::iter::once((name, value))), area.len())?;
    store_xattrs(files, ino, area)
}

/// Removes an attribute.
pub fn remove_xattr(files: &mut Files, ino: Ino, name: &[u8]) -> Result<()> {
    files.tree.log.writable()?;
    let area = files.tree.xattr_area(ino)?;
    let old = records(&area);
    if !old.iter().any(|(other, _)| *other == name) {
        return Err(Error::NoAttribute);
    }
    let area = area_of(old.into_iter().filter(|(other, _)| *other != name), area.len())?;
    store_xattrs(files, ino, area)
}

fn store_xattrs(files: &mut Files, ino: Ino, area: Vec<u8>) -> Result<()> {
    let now = files.tree.now_s();
    let any = !records(&area).is_empty();
    let detail = files.tree.load(ino)?;
    detail.ctime_s = now;
    files.write_header_with(ino, Some(area), 0)?;
    files.tree.load(ino)?.has_xattrs = any;
    Ok(())
}
