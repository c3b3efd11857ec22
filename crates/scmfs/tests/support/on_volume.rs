//! Executes operations on a volume, by path, as a mounted file system would.

use super::content::pattern;
use super::errno::{EISDIR, Errno};
use super::model::{Model, Node};
use super::op::{Op, Outcome, Target};
use super::tree::list;
use pocketstone_scmfs::{Attr, Error, File, FileType, Ino, Meta, ROOT, Result, SetAttr, Volume};
use std::collections::BTreeMap;

/// Open files by slot, and whether each is still without a name.
#[derive(Default)]
pub struct OpenFiles(BTreeMap<u8, (File, bool)>);

/// Executes an operation; `Err` only for damage and failures of the medium, which no operation may cause on
/// a sound volume.
pub fn apply(volume: &Volume, files: &mut OpenFiles, op: &Op) -> Result<Outcome> {
    match run(volume, files, op) {
        Ok(outcome) => Ok(outcome),
        Err(error @ (Error::Damaged(_) | Error::Medium(_))) => Err(error),
        Err(error) => Ok(Outcome::Failed(Errno(error.errno()))),
    }
}

/// Executes an operation on both, and compares. `Err` says how they differ.
///
/// `tight`: the volume may be full; then it must leave everything as it was, and so does the model.
pub fn apply_both(
    volume: &Volume,
    files: &mut OpenFiles,
    model: &mut Model,
    op: &Op,
    tight: bool,
) -> Result<(), String> {
    let got = apply(volume, files, op).map_err(|error| format!("{op:?}: {error}"))?;
    let mut after = model.clone();
    let want = after.apply(op);
    if got == want {
        *model = after;
        return Ok(());
    }
    let is_refused = match got {
        Outcome::Failed(super::errno::ENOSPC) => tight,
        // How much room attributes have is up to the volume, but a little must be there.
        Outcome::Failed(super::errno::ERANGE) => match op {
            Op::SetXattr(path, ..) => after.xattr_bytes(path) > 100,
            _ => false,
        },
        _ => false,
    };
    if is_refused && !matches!(want, Outcome::Failed(_) | Outcome::Skipped) {
        return Ok(());
    }
    Err(format!("{op:?}: {got:?}, should be {want:?}"))
}

fn walk(volume: &Volume, path: &str) -> Result<Ino> {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.into_iter().try_fold(ROOT, |at, name| Ok(volume.lookup(at, name.as_bytes())?.ino))
}

fn parent_of<'p>(volume: &Volume, path: &'p str) -> Result<(Ino, &'p [u8])> {
    let (directory, name) = path.rsplit_once('/').expect("paths are absolute");
    let ino = walk(volume, directory)?;
    // As the kernel: one path is walked to its parent before the next.
    match volume.attributes(ino)?.kind {
        FileType::Directory => Ok((ino, name.as_bytes())),
        _ => Err(Error::NotDirectory),
    }
}

fn node(attr: &Attr) -> Outcome {
    Outcome::Node(Node {
        kind: attr.kind,
        permissions: attr.permissions,
        uid: attr.uid,
        gid: attr.gid,
        links: attr.links,
        size: if attr.kind == FileType::Directory { 0 } else { attr.size },
    })
}

/// What opening a path for its content gives; a pipe or a link is not opened (the kernel does not either).
enum Opened {
    File(File),
    Directory,
    Other,
}

fn open(volume: &Volume, files: &OpenFiles, target: &Target) -> Result<Opened> {
    match target {
        Target::Slot(slot) => Ok(match files.0.get(slot) {
            Some((file, _)) if file.attributes().kind == FileType::Regular => Opened::File(file.clone()),
            _ => Opened::Other,
        }),
        Target::Path(path) => {
            let ino = walk(volume, path)?;
            match volume.attributes(ino)?.kind {
                FileType::Regular => Ok(Opened::File(volume.open_file(ino)?)),
                FileType::Directory => Ok(Opened::Directory),
                _ => Ok(Opened::Other),
            }
        }
    }
}

fn run(volume: &Volume, files: &mut OpenFiles, op: &Op) -> Result<Outcome> {
    match op {
        Op::Write(target, ..)
        | Op::WriteAtomic(target, ..)
        | Op::Append(target, ..)
        | Op::Truncate(target, _)
        | Op::Allocate(target, ..)
        | Op::Read(target, ..)
        | Op::View(target)
        | Op::SyncFile(target) => match open(volume, files, target)? {
            Opened::File(file) => on_content(&file, op),
            Opened::Directory => Ok(Outcome::Failed(EISDIR)),
            Opened::Other => Ok(Outcome::Skipped),
        },
        Op::SetSize(path, size) => match open(volume, files, &Target::Path(path.clone()))? {
            Opened::Other => Ok(Outcome::Skipped),
            _ => change(volume, path, &SetAttr { size: Some(*size), ..SetAttr::default() }),
        },
        Op::Chmod(path, permissions) => {
            change(volume, path, &SetAttr { permissions: Some(*permissions), ..SetAttr::default() })
        }
        Op::Chown(path, uid, gid) => {
            change(volume, path, &SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() })
        }
        Op::Stat(path) => Ok(node(&volume.attributes(walk(volume, path)?)?)),
        Op::ReadLink(path) => Ok(Outcome::Bytes(volume.read_link(walk(volume, path)?)?)),
        Op::SetXattr(path, name, bytes, fill, how) => {
            volume.set_xattr(walk(volume, path)?, name.as_bytes(), &pattern(*fill, 0, *bytes), *how)?;
            Ok(Outcome::Done)
        }
        Op::GetXattr(path, name) => Ok(Outcome::Bytes(volume.get_xattr(walk(volume, path)?, name.as_bytes())?)),
        Op::ListXattrs(path) => {
            let mut names = volume.list_xattrs(walk(volume, path)?)?;
            names.sort();
            Ok(Outcome::Names(names))
        }
        Op::RemoveXattr(path, name) => {
            volume.remove_xattr(walk(volume, path)?, name.as_bytes())?;
            Ok(Outcome::Done)
        }
        Op::Sync => volume.sync().map(|()| Outcome::Done),
        Op::Collect => {
            volume.collect();
            Ok(Outcome::Done)
        }
        Op::Resize(bytes) => volume.resize(*bytes).map(|()| Outcome::Done),
        _ => on_names(volume, files, op),
    }
}

fn change(volume: &Volume, path: &str, change: &SetAttr) -> Result<Outcome> {
    let ino = walk(volume, path)?;
    let attr = volume.set_attributes(ino, change)?;
    assert_eq!(attr.ino, ino, "attributes of another inode");
    Ok(node(&attr))
}

fn on_content(file: &File, op: &Op) -> Result<Outcome> {
    match op {
        Op::Write(_, offset, bytes, fill) => {
            Ok(Outcome::Number(file.write_at(&pattern(*fill, *offset, *bytes), *offset)? as u64))
        }
        Op::WriteAtomic(_, offset, bytes, fill) => {
            file.write_atomic(&pattern(*fill, *offset, *bytes), *offset).map(|()| Outcome::Done)
        }
        Op::Append(_, bytes, fill) => {
            let end = file.attributes().size;
            Ok(Outcome::Number(file.append(&pattern(*fill, end, *bytes))?))
        }
        Op::Truncate(_, size) => file.truncate(*size).map(|()| Outcome::Done),
        Op::Allocate(_, how, offset, bytes) => file.allocate(*how, *offset, *bytes).map(|()| Outcome::Done),
        Op::Read(_, offset, bytes) => {
            let mut buffer = vec![0xee; *bytes as usize];
            let got = file.read_at(&mut buffer, *offset)?;
            buffer.truncate(got);
            Ok(Outcome::Bytes(buffer))
        }
        Op::View(_) => Ok(Outcome::Bytes(file.view()?.to_vec())),
        _ => file.sync().map(|()| Outcome::Done),
    }
}

fn on_names(volume: &Volume, files: &mut OpenFiles, op: &Op) -> Result<Outcome> {
    match op {
        Op::Create(path, kind, permissions, slot) => {
            let (directory, name) = parent_of(volume, path)?;
            let file = volume.create_file(directory, name, &Meta { kind: *kind, ..Meta::file(*permissions) })?;
            let outcome = node(&file.attributes());
            if let Some(slot) = slot {
                files.0.insert(*slot, (file, false));
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
            let ino = walk(volume, from)?;
            let (directory, name) = parent_of(volume, to)?;
            Ok(node(&volume.link(ino, directory, name)?))
        }
        Op::LinkSlot(slot, path) => {
            let Some((file, unnamed @ true)) = files.0.get_mut(slot) else { return Ok(Outcome::Skipped) };
            let (directory, name) = parent_of(volume, path)?;
            let attr = volume.link_file(file, directory, name)?;
            *unnamed = false;
            Ok(node(&attr))
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
        Op::Open(slot, path) => match open(volume, files, &Target::Path(path.clone()))? {
            Opened::File(file) => {
                let outcome = node(&file.attributes());
                files.0.insert(*slot, (file, false));
                Ok(outcome)
            }
            _ => Ok(Outcome::Skipped),
        },
        Op::Close(slot) => Ok(if files.0.remove(slot).is_some() { Outcome::Done } else { Outcome::Skipped }),
        Op::Temporary(slot) => {
            let file = volume.temporary_file(&Meta::file(0o600))?;
            let outcome = node(&file.attributes());
            files.0.insert(*slot, (file, true));
            Ok(outcome)
        }
        Op::List(path) => {
            let ino = walk(volume, path)?;
            let mut names: Vec<Vec<u8>> = list(volume, ino)?.into_iter().map(|entry| entry.name).collect();
            names.sort();
            Ok(Outcome::Names(names))
        }
        other => unreachable!("{other:?} is executed elsewhere"),
    }
}
