//! Executes operations on a volume, by path, as a mounted file system would.

use crate::content::pattern;
use crate::errno::{EISDIR, Errno};
use crate::op::{Node, Op, Outcome, Target};
use crate::subject::{Handle, OpenFiles, Subject};
use crate::walk::list;
use pocketstone_vfs::{Attr, Error, FileType, Ino, Meta, Operations, ROOT, Result, SetAttr};

const NS: i64 = 1_000_000_000;

/// Executes an operation; `Err` only for damage and failures of the medium, which no operation may cause on
/// a sound volume.
///
/// # Errors
/// `Damaged` and `Medium`, and none else.
pub fn apply<S: Subject>(volume: &S::Volume, files: &mut OpenFiles<S>, op: &Op) -> Result<Outcome> {
    match run::<S>(volume, files, op) {
        Ok(outcome) => Ok(outcome),
        Err(error @ (Error::Damaged(_) | Error::Medium(_))) => Err(error),
        Err(error) => Ok(Outcome::Failed(Errno(error.errno()))),
    }
}

/// What a path leads to.
///
/// # Errors
/// As [`Operations::lookup`], of each name.
pub fn walk_to(volume: &impl Operations, path: &str) -> Result<Ino> {
    let mut names = path.split('/').filter(|name| !name.is_empty());
    names.try_fold(ROOT, |at, name| Ok(volume.lookup(at, name.as_bytes())?.ino))
}

/// The directory that a path's last name is in, and that name.
///
/// # Errors
/// As [`walk_to`]; `NotDirectory` if what holds the name is no directory.
pub fn parent_of<'p>(volume: &impl Operations, path: &'p str) -> Result<(Ino, &'p [u8])> {
    let (directory, name) = path.rsplit_once('/').expect("paths are absolute");
    let ino = walk_to(volume, directory)?;
    // As the kernel: one path is walked to its parent before the next.
    match volume.attributes(ino)?.kind {
        FileType::Directory => Ok((ino, name.as_bytes())),
        _ => Err(Error::NotDirectory),
    }
}

/// Attributes as an operation returns them.
pub fn node(attr: &Attr) -> Outcome {
    Outcome::Node(Node {
        kind: attr.kind,
        permissions: attr.permissions,
        uid: attr.uid,
        gid: attr.gid,
        links: attr.links,
        size: if matches!(attr.kind, FileType::Regular | FileType::Symlink) { attr.size } else { 0 },
    })
}

/// The inode that an operation on content is for; `None` where there is none in the slot.
///
/// # Errors
/// As [`walk_to`], of a path: `NotFound`, `NotDirectory`, `NameTooLong`.
pub fn inode_of<S: Subject>(volume: &S::Volume, files: &OpenFiles<S>, target: &Target) -> Result<Option<Ino>> {
    match target {
        Target::Slot(slot) => Ok(files.0.get(slot).map(|(handle, _)| volume.ino(handle))),
        Target::Path(path) => walk_to(volume, path).map(Some),
    }
}

/// Does something with a file; a pipe or a link is not opened (the kernel does not either).
fn with_file<S: Subject>(
    volume: &S::Volume,
    files: &OpenFiles<S>,
    target: &Target,
    act: impl FnOnce(&Handle<S>) -> Result<Outcome>,
) -> Result<Outcome> {
    let Some(ino) = inode_of(volume, files, target)? else { return Ok(Outcome::Skipped) };
    match (volume.attributes(ino)?.kind, target) {
        (FileType::Directory, _) => Ok(Outcome::Failed(EISDIR)),
        (FileType::Regular, Target::Slot(slot)) => act(&files.0[slot].0),
        (FileType::Regular, Target::Path(_)) => {
            let handle = volume.open(ino)?;
            let outcome = act(&handle);
            S::close(volume, handle)?;
            outcome
        }
        _ => Ok(Outcome::Skipped),
    }
}

fn run<S: Subject>(volume: &S::Volume, files: &mut OpenFiles<S>, op: &Op) -> Result<Outcome> {
    if let Some(target) = op.file() {
        return with_file(volume, files, target, |file| on_content::<S>(volume, file, op));
    }
    let change = |path: &str, change: SetAttr| -> Result<Outcome> {
        let ino = walk_to(volume, path)?;
        let attr = volume.set_attributes(ino, &change)?;
        assert_eq!(attr.ino, ino, "attributes of another inode");
        Ok(node(&attr))
    };
    let none = SetAttr::default();
    match op {
        Op::SetSize(path, size) => match volume.attributes(walk_to(volume, path)?)?.kind {
            FileType::Regular | FileType::Directory => change(path, none.size(Some(*size))),
            _ => Ok(Outcome::Skipped),
        },
        Op::Chmod(path, permissions) => change(path, none.permissions(Some(*permissions))),
        Op::Chown(path, uid, gid) => change(path, none.uid(Some(*uid)).gid(Some(*gid))),
        Op::Times(path, read, changed) => {
            // Parts of a second are lost, towards the past.
            let (atime_ns, mtime_ns) = (Some(read * NS + NS - 1), Some(changed * NS + 1));
            change(path, none.atime_ns(atime_ns).mtime_ns(mtime_ns))
        }
        Op::Stat(path) => Ok(node(&volume.attributes(walk_to(volume, path)?)?)),
        Op::ReadLink(path) => Ok(Outcome::Bytes(volume.read_link(walk_to(volume, path)?)?)),
        Op::SetXattr(path, name, bytes, fill, how) => {
            let ino = walk_to(volume, path)?;
            S::set_xattr(volume, ino, name.as_bytes(), &pattern(*fill, 0, *bytes), *how).map(|()| Outcome::Done)
        }
        Op::GetXattr(path, name) => Ok(Outcome::Bytes(S::get_xattr(volume, walk_to(volume, path)?, name.as_bytes())?)),
        Op::ListXattrs(path) => {
            let mut names = S::list_xattrs(volume, walk_to(volume, path)?)?;
            names.sort();
            Ok(Outcome::Names(names))
        }
        Op::RemoveXattr(path, name) => {
            S::remove_xattr(volume, walk_to(volume, path)?, name.as_bytes()).map(|()| Outcome::Done)
        }
        Op::Sync => volume.sync_all().map(|()| Outcome::Done),
        Op::Background => S::background(volume).map(|()| Outcome::Done),
        Op::Temporary(_) | Op::LinkSlot(..) | Op::SetAcl(..) | Op::Resize(_) | Op::WriteBatch(_) => {
            S::on_others(volume, files, op)
        }
        _ => on_names(volume, files, op),
    }
}

fn on_content<S: Subject>(volume: &S::Volume, file: &Handle<S>, op: &Op) -> Result<Outcome> {
    match op {
        Op::Write(_, offset, bytes, fill) => {
            Ok(Outcome::Number(volume.write_at(file, &pattern(*fill, *offset, *bytes), *offset)? as u64))
        }
        Op::Append(_, bytes, fill) => {
            let end = volume.attributes(volume.ino(file))?.size;
            let (written, now) = volume.append(file, &pattern(*fill, end, *bytes))?;
            assert_eq!(now, end + written as u64, "the size after an append");
            Ok(Outcome::Number(now))
        }
        Op::Truncate(_, size) => volume.truncate(file, *size).map(|()| Outcome::Done),
        Op::Read(_, offset, bytes) => {
            let mut buffer = vec![0xee; *bytes as usize];
            let got = volume.read_at(file, &mut buffer, *offset)?;
            buffer.truncate(got);
            Ok(Outcome::Bytes(buffer))
        }
        Op::SyncFile(_) => volume.sync(file).map(|()| Outcome::Done),
        _ => S::on_file(volume, file, op),
    }
}

fn on_names<S: Subject>(volume: &S::Volume, files: &mut OpenFiles<S>, op: &Op) -> Result<Outcome> {
    match op {
        Op::Create(path, kind, permissions, slot) => {
            let (directory, name) = parent_of(volume, path)?;
            let file = volume.create_file(directory, name, &Meta::file(*permissions).kind(*kind))?;
            let outcome = node(&volume.attributes(volume.ino(&file))?);
            match slot {
                Some(slot) => keep(volume, files, *slot, file)?,
                None => S::close(volume, file)?,
            }
            Ok(outcome)
        }
        Op::Mkdir(path, permissions) => {
            let (directory, name) = parent_of(volume, path)?;
            Ok(node(&volume.create_directory(directory, name, &Meta::directory(*permissions))?))
        }
        Op::Symlink(path, target) => {
            let (directory, name) = parent_of(volume, path)?;
            Ok(node(&volume.create_symlink(directory, name, target.as_bytes(), 0, 0)?))
        }
        Op::Link(from, to) => {
            let ino = walk_to(volume, from)?;
            let (directory, name) = parent_of(volume, to)?;
            Ok(node(&volume.link(ino, directory, name)?))
        }
        Op::Unlink(path) => {
            let (directory, name) = parent_of(volume, path)?;
            volume.unlink(directory, name).map(|()| Outcome::Done)
        }
        Op::Rmdir(path) => {
            let (directory, name) = parent_of(volume, path)?;
            volume.remove_directory(directory, name).map(|()| Outcome::Done)
        }
        Op::Rename(from, to, how) => {
            let (old_directory, old_name) = parent_of(volume, from)?;
            let (new_directory, new_name) = parent_of(volume, to)?;
            volume.rename(old_directory, old_name, new_directory, new_name, *how).map(|()| Outcome::Done)
        }
        Op::Open(slot, path) => {
            let file = volume.open(walk_to(volume, path)?)?;
            let outcome = node(&volume.attributes(volume.ino(&file))?);
            keep(volume, files, *slot, file)?;
            Ok(outcome)
        }
        Op::Close(slot) => match files.0.remove(slot) {
            Some((file, _)) => S::close(volume, file).map(|()| Outcome::Done),
            None => Ok(Outcome::Skipped),
        },
        Op::List(path) => {
            let ino = walk_to(volume, path)?;
            let mut names: Vec<Vec<u8>> = list(volume, ino)?.into_iter().map(|entry| entry.name).collect();
            names.sort();
            Ok(Outcome::Names(names))
        }
        other => unreachable!("{other:?} is executed elsewhere"),
    }
}

/// Opening into a slot closes what was in it.
fn keep<S: Subject>(volume: &S::Volume, files: &mut OpenFiles<S>, slot: u8, file: Handle<S>) -> Result<()> {
    files.0.insert(slot, (file, false)).map_or(Ok(()), |(old, _)| S::close(volume, old))
}
