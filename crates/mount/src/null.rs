//! A file system with one file that reads as zeros: what FUSE itself costs.

use crate::device::Attach;
use crate::session::{Mounted, serve};
use crate::{FOREVER, options::flags_of_a_new_mount};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};
use pocketstone_core::Result;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

/// The name of the file.
pub const NULL_FILE: &str = "zeros";
/// Its size in bytes.
pub const NULL_BYTES: u64 = 1 << 30;

const FILE: INodeNo = INodeNo(2);
const LARGEST_READ: usize = 1 << 20;

/// Mounts it at a directory; `threads`: how many serve it, 0: as many as there are processors.
///
/// # Errors
/// When it cannot be mounted.
pub fn mount_null(mountpoint: &Path, threads: usize) -> Result<Mounted> {
    let allow_other = rustix::process::geteuid().is_root();
    let how = Attach { source: "null".into(), subtype: "null", flags: flags_of_a_new_mount(), allow_other };
    serve(Null { zeros: vec![0; LARGEST_READ] }, mountpoint, &how, threads, &OnceLock::new())
}

struct Null {
    zeros: Vec<u8>,
}

fn attributes(ino: INodeNo) -> Option<FileAttr> {
    let (kind, perm, size) = match ino {
        INodeNo::ROOT => (FileType::Directory, 0o755, 0),
        FILE => (FileType::RegularFile, 0o444, NULL_BYTES),
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

impl Filesystem for Null {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match attributes(FILE) {
            Some(attr) if parent == INodeNo::ROOT && name == NULL_FILE => reply.entry(&FOREVER, &attr, Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(ino) {
            Some(attr) => reply.attr(&FOREVER, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
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
        let left = NULL_BYTES.saturating_sub(offset).min(LARGEST_READ as u64) as usize;
        reply.data(&self.zeros[..left.min(size as usize)]);
    }
}
