//! A file system with one file that reads as zeros: what FUSE itself costs.

use crate::operations::LARGEST_REQUEST;
use crate::session::{Mounted, serve};
use crate::{FOREVER, MountOptions};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};
use pocketstone_core::Result;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

/// The file's number.
const FILE: INodeNo = INodeNo(2);

/// Mounts it at a directory, with a file of a name and a size in bytes. Whether reads of it go through the page
/// cache, and how, is as `options` have it for any other file system.
///
/// # Errors
/// When it cannot be mounted.
pub fn mount_null(mountpoint: &Path, file: &str, bytes: u64, options: &MountOptions) -> Result<Mounted> {
    let null =
        Null { file: file.to_owned(), bytes, direct_io: options.direct_io, zeros: vec![0; LARGEST_REQUEST as usize] };
    serve(null, mountpoint, "null", options, &OnceLock::new())
}

struct Null {
    file: String,
    bytes: u64,
    direct_io: bool,
    zeros: Vec<u8>,
}

impl Null {
    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            FILE => (FileType::RegularFile, 0o444, self.bytes),
            _ => return None,
        };
        Some(FileAttr {
            ino,
            size,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Null {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.set_max_write(LARGEST_REQUEST);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(attr) if parent == INodeNo::ROOT && name == self.file.as_str() => {
                reply.entry(&FOREVER, &attr, Generation(0))
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attr) => reply.attr(&FOREVER, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let cache = if self.direct_io { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
        reply.opened(FileHandle(0), cache | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.bytes.saturating_sub(offset).min(u64::from(LARGEST_REQUEST)) as usize;
        reply.data(&self.zeros[..left.min(size as usize)]);
    }
}
