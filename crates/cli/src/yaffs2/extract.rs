//! `extract`: the files of a chip or image into a folder, and nothing outside it.
//!
//! Every object is made by the descriptor of its directory, which this command has made itself and opened without
//! following links: no name and no symbolic link of an image can lead elsewhere.

use crate::arguments::ChipArguments;
use crate::chip;
use crate::paths::list;
use pocketstone_cli::note;
use pocketstone_core::error::Context;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_vfs::{Attr, FileType, Ino, Operations, ROOT, shown};
use pocketstone_yaffs2::Volume;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Directories inside each other; each keeps a file descriptor open.
const DEEPEST: usize = 500;
/// What is left out is told one by one up to here.
const TOLD: u64 = 50;
/// Bytes of a file that are copied at a time.
const PIECE: usize = 1 << 20;

pub fn extract(given: &ChipArguments, folder: &Path) -> Result<u8> {
    let volume = chip::volume(given)?;
    let top = prepare(folder)?;
    let root = rustix::process::geteuid().is_root();
    let mut extractor = Extractor {
        volume: &volume,
        top: top.try_clone().board(|| "cannot continue in the folder".to_owned())?,
        root,
        own: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        first: HashMap::new(),
        done: 0,
        left_out: 0,
        told: 0,
        found: 0,
        incomplete: 0,
        foreign: false,
        piece: vec![0; PIECE],
    };
    extractor.tree(top)?;
    let Extractor { done, left_out, found, incomplete, foreign, .. } = extractor;
    let whole = left_out + found + incomplete == 0;
    if foreign && !root {
        note("note", "you own all files, without set-user-id bits: only root can set other owners");
    }
    let incomplete = if incomplete > 0 { format!(", {incomplete} incomplete") } else { String::new() };
    let found = if found > 0 { format!(", {found} in lost+found") } else { String::new() };
    let (done, from) = (counted(done, "object"), given.path.display());
    say!("{}: {done} from {from}; {left_out} left out{incomplete}{found}", folder.display());
    Ok(if whole { 0 } else { ErrorKind::Threshold.exit_code() })
}

/// The folder: new, or empty.
fn prepare(folder: &Path) -> Result<OwnedFd> {
    let cannot = || format!("cannot create {}", folder.display());
    match std::fs::create_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            let mut entries = std::fs::read_dir(folder).user(|| format!("cannot list {}", folder.display()))?;
            if entries.next().is_some() {
                return Err(Error::user(format!("{} is not empty", folder.display()))
                    .hint("choose a new or empty folder: existing files are never overwritten"));
            }
        }
        other => other.user(cannot)?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::empty()).user(|| format!("cannot open {}", folder.display()))
}

struct Extractor<'a> {
    volume: &'a Volume,
    top: OwnedFd,
    root: bool,
    /// User and group of this command.
    own: (u32, u32),
    /// Where objects with several names have their first one.
    first: HashMap<Ino, PathBuf>,
    done: u64,
    left_out: u64,
    /// Of how many objects was said that something is not right.
    told: u64,
    /// Objects below lost+found.
    found: u64,
    /// Files of which pages are missing.
    incomplete: u64,
    /// Whether something belongs to somebody else.
    foreign: bool,
    piece: Vec<u8>,
}

/// A directory whose objects are being made.
struct Level {
    handle: OwnedFd,
    attr: Attr,
    path: PathBuf,
    /// Whether it is lost+found, or in it.
    lost: bool,
    /// From the last to the first.
    left: Vec<(Vec<u8>, Ino)>,
}

/// Why an object is left out.
enum Miss {
    /// The image, or this machine, does not allow it: it is told, and the others follow.
    Object(String),
    /// Nothing can go on.
    All(Error),
}

impl From<pocketstone_vfs::Error> for Miss {
    fn from(error: pocketstone_vfs::Error) -> Miss {
        Miss::Object(error.to_string())
    }
}

impl From<Errno> for Miss {
    fn from(error: Errno) -> Miss {
        match error {
            Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS => {
                Miss::All(Error::board("cannot write to the folder").because(error))
            }
            error => Miss::Object(error.to_string()),
        }
    }
}

impl Extractor<'_> {
    fn tree(&mut self, top: OwnedFd) -> Result<()> {
        let attr = self.volume.attributes(ROOT).map_err(Error::from)?;
        let mut levels = vec![self.level(top, attr, PathBuf::new(), false)];
        while let Some(level) = levels.last_mut() {
            let Some((name, ino)) = level.left.pop() else {
                if let Some(level) = levels.pop() {
                    self.finish(&level)?;
                }
                continue;
            };
            let path = level.path.join(OsStr::from_bytes(&name));
            let handle = level.handle.as_fd();
            let lost = level.lost;
            match self.object(handle, &name, ino, &path) {
                Ok(None) => self.made(lost),
                Ok(Some((_, _))) if levels.len() >= DEEPEST => {
                    self.miss(&path, &format!("its contents are nested deeper than {DEEPEST} directories"));
                }
                Ok(Some((handle, attr))) => {
                    self.made(lost);
                    let level = self.level(handle, attr, path, lost);
                    levels.push(level);
                }
                Err(Miss::Object(why)) => self.miss(&path, &why),
                Err(Miss::All(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn made(&mut self, lost: bool) {
        self.done += 1;
        self.found += u64::from(lost);
    }

    fn level(&mut self, handle: OwnedFd, attr: Attr, path: PathBuf, lost: bool) -> Level {
        let mut left = match list(self.volume, attr.ino) {
            Ok(left) => left,
            Err(error) => {
                self.miss(&path, &format!("it cannot be listed: {error}"));
                Vec::new()
            }
        };
        // What a mount puts there is nobody's file; if there is something in it, it is.
        let is_bare = |volume: &Volume, ino| list(volume, ino).is_ok_and(|entries| entries.is_empty());
        if attr.ino == ROOT {
            left.retain(|(name, ino)| name != b"lost+found" || *ino != LOST_AND_FOUND || !is_bare(self.volume, *ino));
        }
        left.reverse();
        let lost = lost || attr.ino == LOST_AND_FOUND;
        Level { handle, attr, path, lost, left }
    }

    fn miss(&mut self, path: &Path, why: &str) {
        self.left_out += 1;
        self.tell("left out", path, why);
    }

    /// Names an object of which not all is right.
    fn tell(&mut self, kind: &str, path: &Path, why: &str) {
        self.told += 1;
        match self.told {
            ..=TOLD => note(kind, &format!("{}: {why}", shown(path.as_os_str().as_bytes()))),
            n if n == TOLD + 1 => note("left out", "more, not listed individually"),
            _ => {}
        }
    }

    /// Makes an object. A directory is opened, and filled by the caller.
    fn object(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        ino: Ino,
        path: &Path,
    ) -> Result<Option<(OwnedFd, Attr)>, Miss> {
        let refuse = |why: &str| Err(Miss::Object(why.to_owned()));
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
            return refuse("its name in the image is not a valid file name");
        }
        let attr = self.volume.attributes(ino)?;
        let own = Mode::RUSR | Mode::WUSR | Mode::XUSR;
        if let Some(first) = self.first.get(&ino) {
            rustix::fs::linkat(&self.top, first, parent, name, AtFlags::empty())?;
            return Ok(None);
        }
        match attr.kind {
            FileType::Directory => {
                rustix::fs::mkdirat(parent, name, own)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                return Ok(Some((rustix::fs::openat(parent, name, flags, Mode::empty())?, attr)));
            }
            FileType::Regular => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                // Nobody else gets at it before its content is there, but by the folder that the user has named.
                let mode = Mode::from_raw_mode(u32::from(attr.permissions) & 0o755 | 0o200);
                let file = File::from(rustix::fs::openat(parent, name, flags, mode)?);
                if let Err(miss) = self.content(&file, &attr) {
                    // Half a file would pass for a whole one.
                    let _ = rustix::fs::unlinkat(parent, name, AtFlags::empty());
                    return Err(miss);
                }
                let missing = self.volume.missing_bytes(ino);
                if missing > 0 {
                    self.incomplete += 1;
                    self.tell("incomplete", path, &format!("it lacks pages: up to {missing} bytes are zeros"));
                }
                self.attributes(parent, name, &attr, Some(file.as_fd()))?;
            }
            FileType::Symlink => {
                let target = self.volume.read_link(ino)?;
                if target.is_empty() {
                    return refuse("the image has no target for the link");
                }
                rustix::fs::symlinkat(&target[..], parent, name)?;
                self.attributes(parent, name, &attr, None)?;
            }
            FileType::CharDevice | FileType::BlockDevice if !self.root => {
                return refuse("only root can create device nodes");
            }
            kind => {
                let kind = match kind {
                    FileType::Fifo => rustix::fs::FileType::Fifo,
                    FileType::Socket => rustix::fs::FileType::Socket,
                    FileType::BlockDevice => rustix::fs::FileType::BlockDevice,
                    _ => rustix::fs::FileType::CharacterDevice,
                };
                let major = attr.rdev >> 8 & 0xFFF;
                let minor = attr.rdev & 0xFF | attr.rdev >> 12 & 0xF_FF00;
                let device = rustix::fs::makedev(major, minor);
                rustix::fs::mknodat(parent, name, kind, Mode::RUSR | Mode::WUSR, device)?;
                self.attributes(parent, name, &attr, None)?;
            }
        }
        if attr.links > 1 {
            self.first.insert(ino, path.to_owned());
        }
        Ok(None)
    }

    /// Copies a file's bytes; holes stay holes, so that an image cannot fill the disk with nothing.
    fn content(&mut self, file: &File, attr: &Attr) -> Result<(), Miss> {
        let mut end = 0;
        let held = self.volume.open(attr.ino)?;
        for (from, to) in self.volume.data_ranges(attr.ino)? {
            let mut at = from;
            while at < to {
                // With room for the last chunk as a whole, it need not be read elsewhere first.
                let got = held.read_at(&mut self.piece, at)?;
                let got = (to - at).min(got as u64) as usize;
                if got == 0 {
                    return Err(Miss::Object(format!("its contents end at byte {at}")));
                }
                let written = file.write_all_at(&self.piece[..got], at);
                written.map_err(|e| match Errno::from_io_error(&e) {
                    Some(errno) => Miss::from(errno),
                    None => Miss::Object(e.to_string()),
                })?;
                at += got as u64;
            }
            end = to;
        }
        // A hole at the end.
        if end != attr.size {
            rustix::fs::ftruncate(file, attr.size)?;
        }
        Ok(())
    }

    /// Owner, permissions, extended attributes, times: in this order, as each may change what comes before it.
    fn attributes(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        attr: &Attr,
        open: Option<BorrowedFd<'_>>,
    ) -> Result<(), Miss> {
        let foreign = (attr.uid, attr.gid) != self.own;
        self.foreign |= foreign;
        // Most are as they should be when they are made, and asking costs less than setting.
        let is = match open {
            Some(open) => Some(rustix::fs::fstat(open)?),
            None => None,
        };
        if self.root && is.is_none_or(|is| (is.st_uid, is.st_gid) != (attr.uid, attr.gid)) {
            let (user, group) = (rustix::fs::Uid::from_raw(attr.uid), rustix::fs::Gid::from_raw(attr.gid));
            match open {
                Some(open) => rustix::fs::fchown(open, Some(user), Some(group))?,
                None => rustix::fs::chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?,
            }
        }
        if attr.kind != FileType::Symlink {
            // Set-user-id bits mean another user's rights; they are not given away.
            let bits = if self.root || !foreign { 0o7777 } else { 0o777 };
            let mode = u32::from(attr.permissions) & bits;
            match (open, is) {
                // A change of the owner takes no other bits away than those.
                (Some(_), Some(is)) if is.st_mode & 0o7777 == mode && mode & 0o6000 == 0 => {}
                (Some(open), _) => rustix::fs::fchmod(open, Mode::from_raw_mode(mode))?,
                // It was made by this command a moment ago, and is no link.
                (None, _) => rustix::fs::chmodat(parent, name, Mode::from_raw_mode(mode), AtFlags::empty())?,
            }
        }
        if let Some(open) = open {
            self.xattrs(open, attr.ino, name);
        }
        let time =
            |ns: i64| Timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) as _ };
        let times = Timestamps { last_access: time(attr.atime_ns), last_modification: time(attr.mtime_ns) };
        Ok(rustix::fs::utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn xattrs(&mut self, open: BorrowedFd<'_>, ino: Ino, file: &[u8]) {
        for name in self.volume.list_xattrs(ino).unwrap_or_default() {
            let set = self.volume.get_xattr(ino, &name).map_err(|error| error.to_string()).and_then(|value| {
                rustix::fs::fsetxattr(open, &name[..], &value, XattrFlags::empty()).map_err(|e| e.to_string())
            });
            if let Err(why) = set {
                self.miss(Path::new(OsStr::from_bytes(file)), &format!("its attribute {}: {why}", shown(&name)));
            }
        }
    }

    /// A directory's own attributes, once nothing more is made in it.
    fn finish(&mut self, level: &Level) -> Result<()> {
        let here = level.handle.as_fd();
        match self.attributes_of_directory(here, &level.attr) {
            Ok(()) => Ok(()),
            Err(Miss::Object(why)) => {
                self.miss(&level.path, &format!("its attributes: {why}"));
                Ok(())
            }
            Err(Miss::All(error)) => Err(error),
        }
    }

    fn attributes_of_directory(&mut self, here: BorrowedFd<'_>, attr: &Attr) -> Result<(), Miss> {
        self.attributes(here, b".", attr, Some(here))
    }
}

/// The inode of lost+found.
const LOST_AND_FOUND: Ino = 2;
