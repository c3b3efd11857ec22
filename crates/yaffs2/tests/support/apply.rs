//! Operations on a volume.

use super::op::{Answer, Op, Outcome, Target, pattern};
use pocketstone_core::inode::{Attr, Error, FileType, Ino, Meta, ROOT, Result, SetAttr};
use pocketstone_yaffs2::Volume;
use std::collections::BTreeMap;

/// Open files.
#[derive(Debug, Default)]
pub struct Slots(BTreeMap<u8, Ino>);

const NS: i64 = 1_000_000_000;

pub fn apply(volume: &mut Volume, slots: &mut Slots, op: &Op) -> Outcome {
    try_apply(volume, slots, op).map_err(|error| error.errno())
}

pub fn walk_to(volume: &mut Volume, path: &str) -> Result<Ino> {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.into_iter().try_fold(ROOT, |at, name| volume.lookup(at, name.as_bytes()).map(|attr| attr.ino))
}

fn parent_of<'p>(volume: &mut Volume, path: &'p str) -> Result<(Ino, &'p [u8])> {
    let (directory, name) = path.rsplit_once('/').ok_or(Error::Invalid)?;
    let ino = walk_to(volume, directory)?;
    match volume.attributes(ino)?.kind {
        FileType::Directory => Ok((ino, name.as_bytes())),
        _ => Err(Error::NotDirectory),
    }
}

/// The file that an operation is for; `None` where the model skips it.
pub fn file(volume: &mut Volume, slots: &Slots, target: &Target) -> Result<Option<Attr>> {
    let ino = match target {
        Target::Slot(slot) => match slots.0.get(slot) {
            Some(ino) => *ino,
            None => return Ok(None),
        },
        Target::Path(path) => walk_to(volume, path)?,
    };
    let attr = volume.attributes(ino)?;
    match attr.kind {
        FileType::Regular => Ok(Some(attr)),
        FileType::Directory => Err(Error::IsDirectory),
        _ => Ok(None),
    }
}

fn try_apply(volume: &mut Volume, slots: &mut Slots, op: &Op) -> Result<Answer> {
    match op {
        Op::Write(target, ..) | Op::Truncate(target, _) | Op::Read(target, ..) | Op::SyncFile(target) => {
            match file(volume, slots, target)? {
                Some(attr) => return on_content(volume, attr.ino, op),
                None => return Ok(Answer::Skipped),
            }
        }
        Op::Create(path, kind, permissions) => {
            let (parent, name) = parent_of(volume, path)?;
            volume.create(parent, name, &Meta { kind: *kind, ..Meta::file(*permissions) }).map(drop)
        }
        Op::Symlink(path, target) => {
            let (parent, name) = parent_of(volume, path)?;
            volume.symlink(parent, name, target.as_bytes(), 0, 0).map(drop)
        }
        Op::Link(from, to) => {
            let ino = walk_to(volume, from)?;
            let (parent, name) = parent_of(volume, to)?;
            volume.link(ino, parent, name).map(drop)
        }
        Op::Unlink(path) => {
            let (parent, name) = parent_of(volume, path)?;
            volume.unlink(parent, name)
        }
        Op::Rmdir(path) => {
            let (parent, name) = parent_of(volume, path)?;
            volume.remove_directory(parent, name)
        }
        Op::Rename(from, to, how) => {
            let (old, name) = parent_of(volume, from)?;
            let (new, new_name) = parent_of(volume, to)?;
            volume.rename(old, name, new, new_name, *how)
        }
        Op::Open(slot, path) => {
            let ino = walk_to(volume, path)?;
            volume.hold(ino)?;
            slots.0.insert(*slot, ino).map_or(Ok(()), |old| volume.release(old))
        }
        Op::Close(slot) => slots.0.remove(slot).map_or(Ok(()), |old| volume.release(old)),
        Op::Chmod(path, permissions) => {
            set(volume, path, &SetAttr { permissions: Some(*permissions), ..SetAttr::default() })
        }
        Op::Chown(path, uid, gid) => {
            set(volume, path, &SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() })
        }
        Op::Times(path, read, changed) => set(
            volume,
            path,
            // Parts of a second are lost, towards the past.
            &SetAttr {
                atime_ns: Some(read * NS + 999_999_999),
                mtime_ns: Some(changed * NS + 1),
                ..SetAttr::default()
            },
        ),
        Op::SetXattr(path, name, bytes, fill, how) => {
            let ino = walk_to(volume, path)?;
            volume.set_xattr(ino, name.as_bytes(), &pattern(*fill, 0, *bytes), *how)
        }
        Op::RemoveXattr(path, name) => {
            let ino = walk_to(volume, path)?;
            volume.remove_xattr(ino, name.as_bytes())
        }
        Op::Sync => volume.sync(),
        Op::Background => volume.background(),
    }
    .map(|()| Answer::Done)
}

fn set(volume: &mut Volume, path: &str, change: &SetAttr) -> Result<()> {
    let ino = walk_to(volume, path)?;
    volume.set_attributes(ino, change).map(drop)
}

fn on_content(volume: &mut Volume, ino: Ino, op: &Op) -> Result<Answer> {
    match op {
        Op::Write(_, offset, bytes, fill) => {
            let written = volume.write(ino, *offset, &pattern(*fill, *offset, *bytes))?;
            Ok(Answer::Number(written as u64))
        }
        Op::Truncate(_, size) => {
            volume.set_attributes(ino, &SetAttr { size: Some(*size), ..SetAttr::default() })?;
            Ok(Answer::Done)
        }
        Op::Read(_, offset, bytes) => {
            let mut into = vec![0xEE; *bytes as usize];
            let got = volume.read(ino, *offset, &mut into)?;
            into.truncate(got);
            Ok(Answer::Bytes(into))
        }
        _ => volume.sync_inode(ino).map(|()| Answer::Done),
    }
}
