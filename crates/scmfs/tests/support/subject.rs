//! SCMFS as what the shared tests know, and what it has beyond that: files without names, ranges, whole writes, views,
//! lists of access rights, volumes that grow.

use pocketstone_fstest::volume::{node, parent_of, walk_to};
use pocketstone_fstest::{BatchPart, Broken, Content, Model, Op, Outcome, Subject, Tree, acl, errno, pattern};
use pocketstone_scmfs::{Attr, Error, File, FileBatch, FileType, Ino, Meta, Operations, Result, SetXattr, Volume};

pub struct Scmfs;

pub type OpenFiles = pocketstone_fstest::OpenFiles<Scmfs>;

/// Files up to this size are also read in one piece, and through a view.
const READ_WHOLE_BYTES: u64 = 1 << 20;

/// Reads a whole volume.
pub fn walk(volume: &Volume) -> Result<Tree, Broken> {
    pocketstone_fstest::walk::<Scmfs>(volume).map(|walked| walked.tree)
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
    let got = pocketstone_fstest::apply(volume, files, op).map_err(|error| format!("{op:?}: {error}"))?;
    let mut after = model.clone();
    let want = after.apply(op);
    if got == want {
        *model = after;
        return Ok(());
    }
    let is_refused = match got {
        Outcome::Failed(errno::ENOSPC) => tight,
        // How much room attributes have is up to the volume, but a little must be there.
        Outcome::Failed(errno::ERANGE) => match op {
            Op::SetXattr(path, ..) => after.xattr_bytes(path) > 100,
            _ => false,
        },
        // One record of the journal takes it.
        Outcome::Failed(errno::EFBIG) => match op {
            Op::WriteBatch(parts) => {
                let writes = parts.iter().flat_map(|part| &part.writes);
                writes.map(|(_, bytes, _)| bytes + 64).sum::<u64>() > volume.batch_max() / 2
            }
            _ => false,
        },
        _ => false,
    };
    if is_refused && !matches!(want, Outcome::Failed(_) | Outcome::Skipped) {
        return Ok(());
    }
    Err(format!("{op:?}: {got:?}, should be {want:?}"))
}

fn write_batch(volume: &Volume, parts: &[BatchPart]) -> Result<Outcome> {
    let mut files = Vec::new();
    for part in parts {
        let attr = volume.attributes(walk_to(volume, &part.path)?)?;
        match attr.kind {
            FileType::Regular => files.push(volume.open(attr.ino)?),
            FileType::Directory => return Err(Error::IsDirectory),
            _ => return Ok(Outcome::Skipped),
        }
    }
    let filled = |part: &BatchPart| -> Vec<(u64, Vec<u8>)> {
        part.writes.iter().map(|(offset, bytes, fill)| (*offset, pattern(*fill, *offset, *bytes))).collect()
    };
    let data: Vec<Vec<(u64, Vec<u8>)>> = parts.iter().map(filled).collect();
    let writes: Vec<Vec<(u64, &[u8])>> =
        data.iter().map(|part| part.iter().map(|(offset, bytes)| (*offset, bytes.as_slice())).collect()).collect();
    let all = files.iter().zip(&writes).zip(parts);
    let batch: Vec<FileBatch<'_>> =
        all.map(|((file, writes), part)| FileBatch { file, writes, size: part.size }).collect();
    volume.write_batch(&batch).map(|()| Outcome::Done)
}

impl Subject for Scmfs {
    type Volume = Volume;
    // They may lag behind.
    const TIMES: bool = false;

    fn set_xattr(volume: &Volume, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        volume.set_xattr(ino, name, value, how)
    }

    fn get_xattr(volume: &Volume, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        volume.get_xattr(ino, name)
    }

    fn list_xattrs(volume: &Volume, ino: Ino) -> Result<Vec<Vec<u8>>> {
        volume.list_xattrs(ino)
    }

    fn remove_xattr(volume: &Volume, ino: Ino, name: &[u8]) -> Result<()> {
        volume.remove_xattr(ino, name)
    }

    fn background(volume: &Volume) -> Result<()> {
        volume.collect();
        Ok(())
    }

    fn on_file(_: &Volume, file: &File, op: &Op) -> Result<Outcome> {
        match op {
            Op::WriteAtomic(_, offset, bytes, fill) => {
                file.write_atomic(&pattern(*fill, *offset, *bytes), *offset).map(|()| Outcome::Done)
            }
            Op::Allocate(_, how, offset, bytes) => file.allocate(*how, *offset, *bytes).map(|()| Outcome::Done),
            Op::View(_) => Ok(Outcome::Bytes(file.view()?.to_vec())),
            other => unreachable!("{other:?} is executed elsewhere"),
        }
    }

    fn on_others(volume: &Volume, files: &mut OpenFiles, op: &Op) -> Result<Outcome> {
        match op {
            Op::Temporary(slot) => {
                let file = volume.temporary_file(&Meta::file(0o600))?;
                let outcome = node(&file.attributes());
                files.0.insert(*slot, (file, true));
                Ok(outcome)
            }
            Op::LinkSlot(slot, path) => {
                let Some((file, unnamed @ true)) = files.0.get_mut(slot) else { return Ok(Outcome::Skipped) };
                let (directory, name) = parent_of(volume, path)?;
                let attr = volume.link_file(file, directory, name)?;
                *unnamed = false;
                Ok(node(&attr))
            }
            Op::SetAcl(path, is_default, mode, named) => {
                let name = if *is_default { acl::DEFAULT } else { acl::ACCESS };
                let value = acl::value(*mode, *named);
                volume.set_xattr(walk_to(volume, path)?, name.as_bytes(), &value, SetXattr::Any)?;
                Ok(Outcome::Done)
            }
            Op::WriteBatch(parts) => write_batch(volume, parts),
            Op::Resize(bytes) => volume.resize(*bytes).map(|()| Outcome::Done),
            other => unreachable!("{other:?} is executed elsewhere"),
        }
    }

    fn content(volume: &Volume, path: &str, attr: &Attr) -> Result<Content, Broken> {
        let failed = |error| Broken::Error(path.into(), error);
        let file = volume.open(attr.ino).map_err(failed)?;
        let mut content = Content::default();
        let mut at = 0;
        // From data to data, so that holes cost nothing however large they are.
        while at < attr.size {
            let data = match file.next_data(at) {
                Ok(data) => data,
                Err(Error::NoMore) => break,
                Err(error) => return Err(failed(error)),
            };
            let hole = file.next_hole(data).map_err(failed)?;
            let holds = at <= data && data < hole && hole <= attr.size;
            Broken::unless(holds, path, || format!("data {data}..{hole} after {at} of {}", attr.size))?;
            for from in (data..hole).step_by(READ_WHOLE_BYTES as usize) {
                let mut buffer = vec![0; (hole - from).min(READ_WHOLE_BYTES) as usize];
                let got = file.read_at(&mut buffer, from).map_err(failed)?;
                Broken::unless(got == buffer.len(), path, || format!("read {got} of {} bytes", buffer.len()))?;
                content.write(from, &buffer);
            }
            at = hole;
        }
        content.resize(attr.size);
        // One byte more than there is: a read ends at the end of the file.
        if attr.size <= READ_WHOLE_BYTES {
            let mut whole = vec![0xee; attr.size as usize + 1];
            let got = file.read_at(&mut whole, 0).map_err(failed)?;
            let expected = content.read(0, attr.size);
            let same = whole[..got] == expected;
            Broken::unless(same, path, || format!("a hole with data in it, or {got} bytes read"))?;
            let view = file.view().map_err(failed)?;
            let same = *view == expected[..];
            Broken::unless(same, path, || format!("a view ({} bytes) differs from a read", view.len()))?;
        }
        Ok(content)
    }

    fn look(volume: &Volume, path: &str, attr: &Attr, parent: Ino) -> Result<(), Broken> {
        let failed = |error| Broken::Error(path.into(), error);
        // From the root by the whole path, as well as from directory to directory. Escaped names are only damage's.
        if !path.contains('\\') {
            let found = volume.resolve(path).map_err(failed)?;
            let same = found == attr.ino;
            Broken::unless(same, path, || format!("leads to inode {found}, and to {} step by step", attr.ino))?;
        }
        let has_size = matches!(attr.kind, FileType::Regular | FileType::Symlink | FileType::Directory);
        Broken::unless(has_size || attr.size == 0, path, || format!("{} bytes of what has none", attr.size))?;
        if attr.kind == FileType::Directory {
            let here = volume.lookup(attr.ino, b".").map_err(failed)?.ino;
            let above = volume.lookup(attr.ino, b"..").map_err(failed)?.ino;
            let right = here == attr.ino && above == parent;
            Broken::unless(right, path, || format!("{} in {parent}: . is {here}, .. is {above}", attr.ino))?;
        }
        Ok(())
    }
}
