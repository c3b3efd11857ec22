//! Executes operations in a directory of this machine: of Linux's own file system, so that the model can be compared
//! with it, or of one of ours that is mounted there.

use crate::content::{Content, pattern};
use crate::errno::{EINVAL, EISDIR, ENOTDIR, Errno};
use crate::op::{BatchPart, Node, Op, Outcome, Target};
use crate::tree::{Leaf, Tree};
use pocketstone_vfs::{Allocate, FileType, Rename};
use rustix::fs::{self, AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A directory, and files that are open in it.
pub struct Host {
    base: PathBuf,
    files: BTreeMap<u8, (File, bool)>,
}

type Done = io::Result<Option<Outcome>>;

impl Host {
    /// An empty directory.
    pub fn new(base: &Path) -> Host {
        Host { base: base.into(), files: BTreeMap::new() }
    }

    /// Executes an operation; `None` for what this machine, or its file system, cannot do.
    ///
    /// # Panics
    /// When something fails that is no call of the system.
    pub fn apply(&mut self, op: &Op) -> Option<Outcome> {
        match self.run(op) {
            Ok(outcome) => outcome,
            Err(error) => match error.raw_os_error() {
                // EOPNOTSUPP
                Some(95) => None,
                Some(number) => Some(Outcome::Failed(Errno(number))),
                None => panic!("{op:?}: {error}"),
            },
        }
    }

    /// The place of a path. Linux would follow a symbolic link on the way; a volume never does.
    fn place(&self, path: &str) -> io::Result<PathBuf> {
        let mut place = self.base.clone();
        let (directories, name) = path.rsplit_once('/').expect("paths are absolute");
        for part in directories.split('/').filter(|part| !part.is_empty()) {
            place.push(part);
            if !place.symlink_metadata()?.is_dir() {
                return Err(io::Error::from_raw_os_error(ENOTDIR.0));
            }
        }
        if name.is_empty() { Ok(place) } else { Ok(place.join(name)) }
    }

    fn node(&self, path: &str) -> Done {
        Ok(Some(Outcome::Node(node(&self.place(path)?.symlink_metadata()?))))
    }

    /// `Err(outcome)` for what is not opened.
    fn open(&self, target: &Target) -> io::Result<Result<File, Outcome>> {
        match target {
            Target::Slot(slot) => match self.files.get(slot) {
                Some((file, _)) => match kind(&file.metadata()?) {
                    FileType::Regular => Ok(Ok(file.try_clone()?)),
                    FileType::Directory => Ok(Err(Outcome::Failed(EISDIR))),
                    _ => Ok(Err(Outcome::Skipped)),
                },
                None => Ok(Err(Outcome::Skipped)),
            },
            Target::Path(path) => {
                let place = self.place(path)?;
                match kind(&place.symlink_metadata()?) {
                    FileType::Regular => Ok(Ok(hold(&place)?)),
                    FileType::Directory => Ok(Err(Outcome::Failed(EISDIR))),
                    _ => Ok(Err(Outcome::Skipped)),
                }
            }
        }
    }

    fn run(&mut self, op: &Op) -> Done {
        if let Some(target) = op.file() {
            return match self.open(target)? {
                Ok(file) => on_content(&file, op),
                Err(outcome) => Ok(Some(outcome)),
            };
        }
        match op {
            Op::SetSize(path, size) => match self.open(&Target::Path(path.clone()))? {
                Ok(file) => {
                    file.set_len(*size)?;
                    self.node(path)
                }
                Err(outcome) => Ok(Some(outcome)),
            },
            Op::Stat(path) => self.node(path),
            Op::ReadLink(path) => {
                let target = std::fs::read_link(self.place(path)?)?;
                Ok(Some(Outcome::Bytes(target.as_os_str().as_bytes().to_vec())))
            }
            Op::WriteBatch(parts) => self.write_batch(parts),
            Op::Sync | Op::Background | Op::Resize(_) => Ok(Some(Outcome::Done)),
            // Linux has permissions of links and drops set-user-id bits; attributes depend on the file system.
            Op::Chmod(..) | Op::Chown(..) | Op::Times(..) | Op::SetAcl(..) => Ok(None),
            Op::SetXattr(..) | Op::GetXattr(..) | Op::ListXattrs(_) | Op::RemoveXattr(..) => Ok(None),
            _ => self.on_names(op),
        }
    }

    /// Linux has no such call: what it is to leave, one call after another.
    fn write_batch(&self, parts: &[BatchPart]) -> Done {
        let mut files = Vec::new();
        for part in parts {
            match self.open(&Target::Path(part.path.clone()))? {
                Ok(file) => files.push(file),
                Err(outcome) => return Ok(Some(outcome)),
            }
        }
        let numbers = files.iter().map(|file| file.metadata().map(|meta| meta.ino()));
        let numbers = numbers.collect::<io::Result<BTreeSet<u64>>>()?;
        if numbers.len() < files.len() || parts.iter().any(BatchPart::is_too_small) {
            return Ok(Some(Outcome::Failed(EINVAL)));
        }
        for (part, file) in parts.iter().zip(&files) {
            for (offset, bytes, fill) in &part.writes {
                file.write_all_at(&pattern(*fill, *offset, *bytes), *offset)?;
            }
            part.size.map_or(Ok(()), |size| file.set_len(size))?;
        }
        Ok(Some(Outcome::Done))
    }

    fn on_names(&mut self, op: &Op) -> Done {
        match op {
            Op::Create(path, what, permissions, slot) => {
                let (place, mode) = (self.place(path)?, Mode::from_raw_mode(u32::from(*permissions)));
                let kind = match what {
                    FileType::Fifo => fs::FileType::Fifo,
                    FileType::Socket => fs::FileType::Socket,
                    FileType::CharDevice => fs::FileType::CharacterDevice,
                    _ => fs::FileType::RegularFile,
                };
                fs::mknodat(CWD, &place, kind, mode, 0)?;
                // Past the umask.
                fs::chmodat(CWD, &place, mode, AtFlags::empty())?;
                if let Some(slot) = slot {
                    self.files.insert(*slot, (hold(&place)?, false));
                }
                self.node(path)
            }
            Op::Mkdir(path, permissions) => {
                let (place, mode) = (self.place(path)?, Mode::from_raw_mode(u32::from(*permissions)));
                fs::mkdirat(CWD, &place, mode)?;
                fs::chmodat(CWD, &place, mode, AtFlags::empty())?;
                self.node(path)
            }
            Op::Symlink(path, target) => {
                fs::symlinkat(target.as_str(), CWD, self.place(path)?)?;
                self.node(path)
            }
            Op::Link(from, to) => {
                let from = self.place(from)?;
                // As the kernel does: what is linked is looked up first.
                from.symlink_metadata()?;
                fs::linkat(CWD, from, CWD, self.place(to)?, AtFlags::empty())?;
                self.node(to)
            }
            Op::LinkSlot(slot, path) => {
                let Some((file, true)) = self.files.get(slot) else { return Ok(Some(Outcome::Skipped)) };
                let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
                fs::linkat(CWD, from, CWD, self.place(path)?, AtFlags::SYMLINK_FOLLOW)?;
                self.files.get_mut(slot).expect("just found").1 = false;
                self.node(path)
            }
            Op::Unlink(path) => {
                fs::unlinkat(CWD, self.place(path)?, AtFlags::empty())?;
                Ok(Some(Outcome::Done))
            }
            Op::Rmdir(path) => {
                fs::unlinkat(CWD, self.place(path)?, AtFlags::REMOVEDIR)?;
                Ok(Some(Outcome::Done))
            }
            Op::Rename(from, to, how) => {
                let flags = match how {
                    Rename::Replace => RenameFlags::empty(),
                    Rename::NoReplace => RenameFlags::NOREPLACE,
                    Rename::Exchange => RenameFlags::EXCHANGE,
                    Rename::Whiteout { replace: true, .. } => RenameFlags::WHITEOUT,
                    Rename::Whiteout { replace: false, .. } => RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
                };
                fs::renameat_with(CWD, self.place(from)?, CWD, self.place(to)?, flags)?;
                Ok(Some(Outcome::Done))
            }
            Op::Open(slot, path) => {
                let file = hold(&self.place(path)?)?;
                let outcome = node(&file.metadata()?);
                self.files.insert(*slot, (file, false));
                Ok(Some(Outcome::Node(outcome)))
            }
            Op::Close(slot) => {
                Ok(Some(if self.files.remove(slot).is_some() { Outcome::Done } else { Outcome::Skipped }))
            }
            Op::Temporary(slot) => {
                let file = fs::open(&self.base, OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(0o600))?;
                let file = File::from(file);
                let outcome = node(&file.metadata()?);
                self.files.insert(*slot, (file, true));
                Ok(Some(Outcome::Node(outcome)))
            }
            Op::List(path) => {
                let place = self.place(path)?;
                if !place.symlink_metadata()?.is_dir() {
                    return Err(io::Error::from_raw_os_error(ENOTDIR.0));
                }
                let entries: io::Result<Vec<_>> = std::fs::read_dir(place)?.collect();
                let mut names: Vec<_> = entries?.iter().map(|entry| entry.file_name().as_bytes().to_vec()).collect();
                names.sort();
                Ok(Some(Outcome::Names(names)))
            }
            other => unreachable!("{other:?} is executed elsewhere"),
        }
    }

    /// Everything in the directory.
    ///
    /// # Errors
    /// The `std::io::Error` of what cannot be read.
    pub fn tree(&self) -> io::Result<Tree> {
        let (mut tree, mut inos) = (Tree::new(), BTreeMap::new());
        let mut todo = vec![self.base.clone()];
        while let Some(place) = todo.pop() {
            let meta = place.symlink_metadata()?;
            let path = format!("/{}", place.strip_prefix(&self.base).map_err(io::Error::other)?.display());
            let mut leaf = Leaf {
                first: String::new(),
                kind: kind(&meta),
                permissions: (meta.mode() & 0o7777) as u16,
                uid: 0,
                gid: 0,
                links: meta.nlink() as u32,
                times: None,
                content: Content::default(),
                symlink: Vec::new(),
                xattrs: BTreeMap::new(),
            };
            match leaf.kind {
                FileType::Regular => {
                    // Its owner may read it, whatever the permissions say, only as root.
                    leaf.content.write(0, &std::fs::read(&place)?);
                    leaf.content.resize(meta.len());
                }
                FileType::Symlink => leaf.symlink = std::fs::read_link(&place)?.as_os_str().as_bytes().to_vec(),
                FileType::Directory => {
                    for entry in std::fs::read_dir(&place)? {
                        todo.push(entry?.path());
                    }
                }
                _ => {}
            }
            inos.insert(path.clone(), meta.ino());
            tree.insert(path, leaf);
        }
        let mut first = BTreeMap::new();
        for (path, leaf) in &mut tree {
            leaf.first = first.entry(inos[path]).or_insert_with(|| path.clone()).clone();
        }
        Ok(tree)
    }
}

fn kind(meta: &Metadata) -> FileType {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => FileType::Directory,
        () if kind.is_symlink() => FileType::Symlink,
        () if kind.is_fifo() => FileType::Fifo,
        () if kind.is_socket() => FileType::Socket,
        () if kind.is_char_device() => FileType::CharDevice,
        () => FileType::Regular,
    }
}

fn node(meta: &Metadata) -> Node {
    let kind = kind(meta);
    let size = if matches!(kind, FileType::Regular | FileType::Symlink) { meta.len() } else { 0 };
    let (permissions, links) = ((meta.mode() & 0o7777) as u16, meta.nlink() as u32);
    // Owners are whoever runs the test.
    Node { kind, permissions, uid: 0, gid: 0, links, size }
}

fn on_content(file: &File, op: &Op) -> Done {
    Ok(Some(match op {
        Op::Write(_, offset, bytes, fill) => {
            file.write_all_at(&pattern(*fill, *offset, *bytes), *offset)?;
            Outcome::Number(*bytes)
        }
        Op::WriteAtomic(_, offset, bytes, fill) => {
            file.write_all_at(&pattern(*fill, *offset, *bytes), *offset)?;
            Outcome::Done
        }
        Op::Append(_, bytes, fill) => {
            let end = file.metadata()?.len();
            file.write_all_at(&pattern(*fill, end, *bytes), end)?;
            Outcome::Number(end + bytes)
        }
        Op::Truncate(_, size) => {
            file.set_len(*size)?;
            Outcome::Done
        }
        Op::Allocate(_, how, offset, bytes) => {
            let flags = match how {
                Allocate::Extend => FallocateFlags::empty(),
                Allocate::KeepSize => FallocateFlags::KEEP_SIZE,
                Allocate::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                Allocate::Zero => FallocateFlags::ZERO_RANGE,
                Allocate::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                Allocate::Collapse => FallocateFlags::COLLAPSE_RANGE,
                Allocate::Insert => FallocateFlags::INSERT_RANGE,
            };
            fs::fallocate(file, flags, *offset, *bytes)?;
            Outcome::Done
        }
        Op::Read(_, offset, bytes) => {
            let mut buffer = vec![0xee; *bytes as usize];
            let got = file.read_at(&mut buffer, *offset)?;
            buffer.truncate(got);
            Outcome::Bytes(buffer)
        }
        Op::View(_) => {
            let mut buffer = vec![0; file.metadata()?.len() as usize];
            file.read_exact_at(&mut buffer, 0)?;
            Outcome::Bytes(buffer)
        }
        _ => {
            file.sync_all()?;
            Outcome::Done
        }
    }))
}

/// Opens a file, or takes whatever else there is into use: opening a pipe would wait for its other end.
fn hold(place: &Path) -> io::Result<File> {
    match place.symlink_metadata()?.is_file() {
        true => File::options().read(true).write(true).open(place),
        false => Ok(fs::open(place, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?.into()),
    }
}

/// Whether a directory on this machine can be used: a file system that counts links as Linux's own do.
///
/// # Errors
/// The `std::io::Error` of mkdir(2), stat(2) or rmdir(2).
pub fn is_usable(base: &Path) -> io::Result<bool> {
    let probe = base.join("probe");
    std::fs::create_dir(&probe)?;
    let links = base.metadata()?.nlink();
    std::fs::remove_dir(probe)?;
    Ok(links == 3)
}
