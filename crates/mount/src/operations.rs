//! The operations of FUSE, each a call to the volume.

use crate::mountable::Mountable;
use crate::served::{Served, ino};
use crate::{FOREVER, convert};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use pocketstone_core::inode::{Entry, Error, FileType, NAME_MAX, Rename, SetAttr};
use pocketstone_scmfs::Allocate;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most that the kernel reads or writes by one request.
pub(crate) const LARGEST_REQUEST: u32 = 1 << 20;

const O_APPEND: i32 = 0o2000;
const O_DSYNC: i32 = 0o10000;
/// `O_SYNC` includes `O_DSYNC`.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How `fallocate` is meant, by its mode: KEEP_SIZE is 1, PUNCH_HOLE 2, ZERO_RANGE 16.
fn allocation(mode: i32) -> Option<Allocate> {
    match mode {
        0 => Some(Allocate::Extend),
        1 => Some(Allocate::KeepSize),
        3 => Some(Allocate::PunchHole),
        16 => Some(Allocate::Zero),
        17 => Some(Allocate::ZeroKeepSize),
        _ => None,
    }
}

impl<V: Mountable> Served<V> {
    /// Answers a request that has no other answer than success.
    fn done(&self, outcome: Result<(), Error>, reply: ReplyEmpty) {
        match outcome {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    /// The rest of a change of a file's content: O_SYNC, and set-id bits.
    fn after_write(&self, file: &V::Open, sync: bool, drop_privileges: bool) -> Result<(), Error> {
        if drop_privileges && self.drop_privileges(file)? {
            self.mode_changed(V::ino(file));
        }
        if sync { self.volume.sync(file) } else { Ok(()) }
    }

    /// Adds an entry with its attributes to a listing; false if it is full.
    fn add(&self, entry: &Entry, reply: &mut ReplyDirectoryPlus) -> bool {
        // One that has just vanished is not there.
        let Ok(attr) = self.volume.attributes(entry.ino) else { return true };
        // Counted first, for the kernel may forget as soon as it knows. It does not count dots.
        let counted = entry.name != b"." && entry.name != b"..";
        if counted {
            self.known.learn(entry.ino);
        }
        let generation = Generation(attr.generation.into());
        let (name, attr) = (OsStr::from_bytes(&entry.name), convert::attributes(&attr));
        let full = reply.add(convert::number(entry.ino), entry.cookie, name, &FOREVER, &attr, generation);
        if full && counted {
            self.known.forget(entry.ino, 1);
        }
        !full
    }

    fn with_xattr(reply: ReplyXattr, size: u32, value: &[u8]) {
        match u32::try_from(value.len()) {
            Ok(bytes) if size == 0 => reply.size(bytes),
            Ok(bytes) if bytes <= size => reply.data(value),
            _ => reply.error(Errno::ERANGE),
        }
    }
}

impl<V: Mountable> Filesystem for Served<V> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            // Without it the kernel asks for security.capability before every write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        if V::LISTS_ATTRIBUTES {
            wanted.extend([InitFlags::FUSE_DO_READDIRPLUS, InitFlags::FUSE_READDIRPLUS_AUTO]);
        }
        if self.options.writeback {
            wanted.push(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        for flag in wanted {
            // An older kernel does without.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(LARGEST_REQUEST);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.volume.lookup(ino(parent), name.as_bytes()) {
            // Inode 0 tells the kernel that there is no such name, and that it may remember that.
            Err(Error::NotFound) => reply.entry(&FOREVER, &NOTHING, Generation(0)),
            found => self.entry(found, reply),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.known.forget(ino(number), lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.volume.attributes(ino(number)) {
            Ok(attr) => reply.attr(&FOREVER, &convert::attributes(&attr)),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = SetAttr {
            permissions: mode.map(|mode| (mode & 0o7777) as u16),
            uid,
            gid,
            size,
            atime_ns: atime.map(convert::given_ns),
            mtime_ns: mtime.map(convert::given_ns),
            ctime_ns: ctime.map(convert::specific_ns),
        };
        match self.set_attributes(request.uid(), ino(number), change) {
            Ok(attr) => reply.attr(&FOREVER, &convert::attributes(&attr)),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.volume.read_link(ino(number)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let Some(kind) = convert::kind_of_mode(mode) else { return reply.error(Errno::EINVAL) };
        let made = self
            .meta(request, ino(parent), kind, mode, rdev)
            .and_then(|meta| self.volume.create(ino(parent), name.as_bytes(), &meta));
        self.entry(made, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let made = self
            .meta(request, ino(parent), FileType::Directory, mode, 0)
            .and_then(|meta| self.volume.create(ino(parent), name.as_bytes(), &meta));
        self.entry(made, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let held = self.hold(ino(parent), name.as_bytes());
        let outcome = self.volume.unlink(ino(parent), name.as_bytes());
        if let (Ok(()), Some((ino, file))) = (&outcome, held) {
            self.known.pin(ino, file);
        }
        self.done(outcome, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let held = self.hold(ino(parent), name.as_bytes());
        let outcome = self.volume.remove_directory(ino(parent), name.as_bytes());
        if let (Ok(()), Some((ino, file))) = (&outcome, held) {
            self.known.pin(ino, file);
        }
        self.done(outcome, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        let made = self
            .meta(request, ino(parent), FileType::Symlink, 0o777, 0)
            .and_then(|meta| self.volume.symlink(ino(parent), name.as_bytes(), target, meta.uid, meta.gid));
        self.entry(made, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = if flags.is_empty() {
            Rename::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            Rename::NoReplace
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            Rename::Exchange
        } else {
            return reply.error(Errno::EINVAL);
        };
        self.done(Served::rename(self, ino(parent), name.as_bytes(), ino(to), new_name.as_bytes(), how), reply);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.volume.link(ino(number), ino(parent), name.as_bytes()), reply);
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.volume.open(ino(number)) {
            Ok(file) => reply.opened(self.handles.insert(file), self.open_flags()),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        let made = self
            .meta(request, ino(parent), FileType::Regular, mode, 0)
            .and_then(|meta| self.volume.create_open(ino(parent), name.as_bytes(), &meta));
        match made {
            Ok((attr, file)) => {
                self.known.learn(attr.ino);
                let handle = self.handles.insert(file);
                let generation = Generation(attr.generation.into());
                reply.created(&FOREVER, &convert::attributes(&attr), generation, handle, self.open_flags());
            }
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = match self.file(handle) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.volume.read(&file, &mut buffer[..size], offset) {
                Ok(got) => reply.data(&buffer[..got]),
                Err(error) => reply.error(self.errno(&error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = match self.file(handle) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        // The kernel's flags are those of the moment, so fcntl(2) has its say. What comes from the
        // kernel's cache goes where it was, whoever had it open how.
        let cached = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let written = if flags.0 & O_APPEND != 0 && !cached {
            self.volume.append(&file, data)
        } else {
            self.volume.write(&file, data, offset)
        };
        let sync = flags.0 & O_DSYNC != 0 && !cached;
        let drop_privileges = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match written.and_then(|()| self.after_write(&file, sync, drop_privileges)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        match self.file(handle) {
            Ok(file) => self.done(self.volume.closing(&file), reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.handles.remove(handle);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.file(handle) {
            Ok(file) => self.done(self.volume.sync(&file), reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.volume.open(ino(number)) {
            Ok(file) => {
                let flags = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
                reply.opened(self.handles.insert(file), flags);
            }
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let outcome = self.list(ino(number), offset, &mut |name: &[u8], ino, kind, cookie| {
            !reply.add(convert::number(ino), cookie, convert::kind(kind), OsStr::from_bytes(name))
        });
        match outcome {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn readdirplus(&self, _: &Request, number: INodeNo, _: FileHandle, mut offset: u64, mut reply: ReplyDirectoryPlus) {
        let mut some = false;
        loop {
            match self.list_some(ino(number), offset) {
                Ok(entries) if entries.is_empty() => break,
                Ok(entries) => {
                    if !entries.iter().all(|entry| self.add(entry, &mut reply)) {
                        break;
                    }
                    offset = entries.last().map_or(offset, |entry| entry.cookie);
                    some = true;
                }
                // What was added has to be told.
                Err(_) if some => break,
                Err(error) => return reply.error(self.errno(&error)),
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.handles.remove(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.done(self.volume.sync_directory(ino(number)), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let s = match self.volume.statfs() {
            Ok(s) => s,
            Err(error) => return reply.error(self.errno(&error)),
        };
        let (block, name) = (s.block_bytes, NAME_MAX as u32);
        reply.statfs(s.blocks, s.free_blocks, s.free_blocks, s.inodes, s.free_inodes, block, name, block);
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        self.done(self.set_xattr(request.uid(), ino(number), name.as_bytes(), value, flags), reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.get_xattr(ino(number), name.as_bytes()) {
            Ok(value) => Self::with_xattr(reply, size, &value),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        match self.volume.list_xattrs(ino(number)) {
            Ok(names) => {
                let list: Vec<u8> = names.into_iter().flat_map(|name| [name, vec![0]].concat()).collect();
                Self::with_xattr(reply, size, &list);
            }
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(self.volume.remove_xattr(ino(number), name.as_bytes()), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(how) = allocation(mode) else { return reply.error(Errno::EOPNOTSUPP) };
        match self.file(handle) {
            Ok(file) => {
                let outcome = self.volume.allocate(&file, how, offset, bytes);
                self.done(outcome.and_then(|()| self.after_write(&file, false, request.uid() != 0)), reply);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn lseek(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let file = match self.file(handle) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        let found = match (u64::try_from(offset), whence) {
            (Ok(offset), SEEK_DATA) => self.volume.next_data(&file, offset),
            (Ok(offset), SEEK_HOLE) => self.volume.next_hole(&file, offset),
            (Err(_), SEEK_DATA | SEEK_HOLE) => Err(Error::NoMore),
            _ => Err(Error::Invalid),
        };
        match found {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        bytes: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = match (self.file(from), self.file(to)) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(errno), _) | (_, Err(errno)) => return reply.error(errno),
        };
        let copied = self.copy(&from, from_offset, &to, to_offset, bytes);
        match copied.and_then(|n| self.after_write(&to, false, request.uid() != 0).map(|()| n)) {
            Ok(n) => reply.written(n as u32),
            Err(error) => reply.error(self.errno(&error)),
        }
    }
}

/// Attributes of what does not exist; the kernel looks at the number alone.
const NOTHING: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: UNIX_EPOCH,
    mtime: UNIX_EPOCH,
    ctime: UNIX_EPOCH,
    crtime: UNIX_EPOCH,
    kind: fuser::FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 0,
    flags: 0,
};
