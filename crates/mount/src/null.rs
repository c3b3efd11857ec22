//! A file system with one file that reads as zeros: what FUSE itself costs.

use crate::MountOptions;
use crate::session::{Mounted, serve};
use crate::wire::abi::{ROOT, fopen};
use crate::wire::{Answer, Attributes, Content, Filesystem, LARGEST_REQUEST, Opened, Part, Request, Time};
use pocketstone_core::Result;
use rustix::io::Errno;
use std::path::Path;
use std::sync::OnceLock;

/// The file's number.
const FILE: u64 = 2;

/// Mounts it at a directory, with a file of a name and a size in bytes. Whether reads of it go through the page
/// cache, and how, is as `options` have it for any other file system.
///
/// # Errors
/// `ErrorKind::User` if `mountpoint` is not a directory; `ErrorKind::Board` if FUSE is unavailable, or the kernel
/// refuses.
pub fn mount_null(mountpoint: &Path, file: &str, bytes: u64, options: &MountOptions) -> Result<Mounted> {
    let null =
        Null { file: file.to_owned(), bytes, direct_io: options.direct_io, zeros: vec![0; LARGEST_REQUEST as usize] };
    serve(null, mountpoint, "null", options, 1, &OnceLock::new())
}

struct Null {
    file: String,
    bytes: u64,
    direct_io: bool,
    zeros: Vec<u8>,
}

impl Null {
    fn attributes(&self, node: u64) -> Option<Attributes> {
        let (mode, size) = match node {
            ROOT => (0o040_755, 0),
            FILE => (0o100_444, self.bytes),
            _ => return None,
        };
        let (generation, blocks, uid, gid, rdev) = (0, 0, 0, 0, 0);
        let [atime, mtime, ctime] = [Time { seconds: 0, nanoseconds: 0 }; 3];
        let (links, block_bytes) = (1, 4096);
        Some(Attributes {
            node,
            generation,
            size,
            blocks,
            atime,
            mtime,
            ctime,
            mode,
            links,
            uid,
            gid,
            rdev,
            block_bytes,
            kept: true,
        })
    }
}

impl Filesystem for Null {
    fn lookup(&self, request: &Request, name: &[u8]) -> Answer<Option<Attributes>> {
        let found = request.node == ROOT && name == self.file.as_bytes();
        if found { Ok(self.attributes(FILE)) } else { Err(Errno::NOENT) }
    }

    fn getattr(&self, request: &Request) -> Answer<Attributes> {
        self.attributes(request.node).ok_or(Errno::NOENT)
    }

    fn open(&self, _: &Request, _: u32) -> Answer<Opened> {
        let cache = if self.direct_io { fopen::DIRECT_IO } else { fopen::KEEP_CACHE };
        Ok(Opened { handle: 0, flags: cache | fopen::NOFLUSH })
    }

    fn read(&self, _: &Request, part: &Part, into: &mut [u8]) -> Answer<Content<'_>> {
        let left = self.bytes.saturating_sub(part.offset).min(u64::from(LARGEST_REQUEST)) as usize;
        Ok(Content::There(&self.zeros[..left.min(into.len())]))
    }
}
