//! Names: looking up, listing, creating, linking.

use super::file::resize;
use crate::files::Files;
use crate::log::tags::Kind;
use crate::tree::details::Detail;
use crate::tree::header::TARGET_BYTES;
use crate::tree::names::check_name;
use crate::tree::objects::{Object, ROOT_ID, UNLINKED_ID};
use pocketstone_vfs::{Attr, Entry, Error, FileType, Ino, Meta, Result, SetAttr, TimeNs};

const NS: i64 = 1_000_000_000;

/// Looks up a name in a directory.
pub fn lookup(files: &mut Files, parent: Ino, name: &[u8]) -> Result<Attr> {
    let id = files.tree.find(parent, name)?.ok_or(Error::NotFound)?;
    let ino = files.tree.resolve(id)?;
    files.tree.attributes(ino)
}

/// The parent of a directory; the root's is the root.
pub fn parent(files: &mut Files, directory: Ino) -> Result<Ino> {
    files.tree.must_be_directory(directory)?;
    match files.tree.objects.get(directory).map_or(0, |object| object.parent) {
        0 => Ok(ROOT_ID),
        parent => Ok(parent),
    }
}

/// Changes attributes; times have whole seconds.
pub fn set_attributes(files: &mut Files, ino: Ino, change: &SetAttr) -> Result<Attr> {
    files.tree.log.writable()?;
    if let Some(size) = change.size {
        if files.tree.objects.get(ino).is_some_and(|object| object.kind == Kind::Directory) {
            return Err(Error::IsDirectory);
        }
        resize(files, ino, size)?;
    }
    let now = files.tree.now_s();
    let seconds = |ns: TimeNs| ns.div_euclid(NS);
    let detail = files.tree.load(ino)?;
    let before = detail.clone();
    if let Some(permissions) = change.permissions {
        detail.mode = detail.mode & !0o7777 | u32::from(permissions & 0o7777);
    }
    detail.uid = change.uid.unwrap_or(detail.uid);
    detail.gid = change.gid.unwrap_or(detail.gid);
    detail.atime_s = change.atime_ns.map_or(detail.atime_s, seconds);
    detail.mtime_s = change.mtime_ns.map_or(detail.mtime_s, seconds);
    let asks = change.size(None) != SetAttr::default();
    if asks {
        detail.ctime_s = change.ctime_ns.map_or(now, seconds);
        if let Err(error) = files.write_header(ino) {
            files.tree.details.insert(ino, before);
            return Err(error);
        }
    }
    files.tree.attributes(ino)
}

/// Creates a regular file, a pipe, a socket or a device.
pub fn create_file(files: &mut Files, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
    match meta.kind {
        FileType::Directory | FileType::Symlink => Err(Error::Invalid),
        FileType::Regular => create(files, parent, name, Kind::File, meta),
        _ => create(files, parent, name, Kind::Special, meta),
    }
}

/// Creates a directory.
pub fn create_directory(files: &mut Files, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
    let meta = meta.kind(FileType::Directory);
    create(files, parent, name, Kind::Directory, &meta)
}

fn create(files: &mut Files, parent: Ino, name: &[u8], kind: Kind, meta: &Meta) -> Result<Attr> {
    let mode = u32::from(meta.kind.mode_bits()) | u32::from(meta.permissions & 0o7777);
    let mut detail = Detail::new(name, mode, meta.uid, meta.gid, files.tree.now_s());
    if matches!(meta.kind, FileType::CharDevice | FileType::BlockDevice) {
        detail.rdev = meta.rdev;
    }
    let id = make(files, parent, Object::new(kind), detail)?;
    files.tree.attributes(id)
}

/// Creates a symbolic link.
pub fn create_symlink(files: &mut Files, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
    if target.is_empty() || target.contains(&0) {
        return Err(Error::Invalid);
    }
    if target.len() > TARGET_BYTES && files.tree.find(parent, name)?.is_none() {
        return Err(Error::NameTooLong);
    }
    let mut detail = Detail::new(name, 0o120_777, uid, gid, files.tree.now_s());
    detail.target = target.to_vec();
    let id = make(files, parent, Object::new(Kind::Symlink), detail)?;
    files.tree.attributes(id)
}

/// Creates a hard link.
pub fn link(files: &mut Files, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
    files.tree.objects.get(ino).ok_or(Error::NotFound)?;
    // That the name is taken is said first, as Linux does.
    if files.tree.find(parent, name)?.is_some() {
        return Err(Error::Exists);
    }
    let object = files.tree.objects.get(ino).ok_or(Error::NotFound)?;
    if object.kind == Kind::Directory {
        return Err(Error::NotPermitted);
    }
    if object.parent == UNLINKED_ID {
        return Err(Error::NotFound);
    }
    may_be_made(files, parent, name)?;
    add_link(files, ino, parent, name)?;
    files.tree.load(ino)?.ctime_s = files.tree.now_s();
    files.write_header(ino)?;
    files.tree.attributes(ino)
}

/// Puts a hard link into a directory, whatever names there are.
pub fn add_link(files: &mut Files, ino: Ino, parent: Ino, name: &[u8]) -> Result<u32> {
    let mut link = Object::new(Kind::HardLink);
    link.value = ino.into();
    let id = put(files, parent, link, Detail::new(name, 0, 0, 0, files.tree.now_s()))?;
    files.tree.links.entry(ino).or_default().push(id);
    Ok(id)
}

fn make(files: &mut Files, parent: Ino, object: Object, detail: Detail) -> Result<u32> {
    may_be_made(files, parent, &detail.name)?;
    put(files, parent, object, detail)
}

/// Whether a directory may get a new name, and there is space for it.
fn may_be_made(files: &mut Files, parent: Ino, name: &[u8]) -> Result<()> {
    files.tree.log.writable()?;
    if files.tree.find(parent, name)?.is_some() {
        return Err(Error::Exists);
    }
    check_name(name)?;
    if files.tree.objects.get(parent).is_some_and(|object| object.parent == UNLINKED_ID) {
        return Err(Error::NotFound);
    }
    files.collect(false)?;
    files.check_space(0)
}

fn put(files: &mut Files, parent: Ino, object: Object, detail: Detail) -> Result<u32> {
    let name = detail.name.clone();
    let id = files.tree.objects.free_id().ok_or(Error::NoSpace)?;
    files.tree.objects.insert(id, object);
    files.tree.objects.name(id, &name);
    files.tree.objects.attach(id, parent);
    files.tree.details.insert(id, detail);
    if let Err(error) = files.tree.put_header(id, None, 0, false) {
        files.tree.objects.remove(id);
        files.tree.details.remove(id);
        return Err(error);
    }
    files.tree.touch(parent);
    Ok(id)
}

/// The target of a symbolic link.
pub fn read_link(files: &mut Files, ino: Ino) -> Result<Vec<u8>> {
    match files.tree.objects.get(ino) {
        Some(object) if object.kind == Kind::Symlink => Ok(files.tree.load(ino)?.target.clone()),
        Some(_) => Err(Error::Invalid),
        None => Err(Error::NotFound),
    }
}

/// Calls `take` with each directory entry after a cookie, without "." and "..", until it returns false; that entry is
/// not consumed.
pub fn read_directory(files: &mut Files, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
    files.tree.must_be_directory(ino)?;
    if files.tree.listing.as_ref().is_none_or(|(directory, _)| *directory != ino) {
        let mut ids: Vec<u32> = files.tree.objects.children(ino).collect();
        ids.sort_unstable_by_key(|&id| files.tree.objects.place(id));
        files.tree.listing = Some((ino, ids));
    }
    let Some((_, ids)) = files.tree.listing.take() else { return Ok(()) };
    let from = ids.partition_point(|&id| u64::from(files.tree.objects.place(id)) <= cookie);
    let mut outcome = Ok(());
    for &id in &ids[from..] {
        let entry = match files.tree.entry(ino, id) {
            Ok(Some(entry)) => entry,
            Ok(None) => continue,
            Err(error) => {
                outcome = Err(error);
                break;
            }
        };
        if !take(&entry) {
            break;
        }
    }
    files.tree.listing = Some((ino, ids));
    outcome
}
