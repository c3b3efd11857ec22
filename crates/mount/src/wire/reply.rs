//! What the kernel is answered.

use super::abi::{ATTR_BYTES, DIRENT_BYTES, ENTRY_OUT_BYTES, OUT_HEADER_BYTES, statx};
use super::request::Time;
use std::ops::ControlFlow;

/// Contents begin at a page: the kernel takes them page by page.
const PAGE: usize = 4096;
/// How long the kernel may keep what it is told, in seconds. More than a century: all changes go through it.
const FOREVER: u64 = u32::MAX as u64;

/// An inode's attributes: `struct fuse_attr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub node: u64,
    pub generation: u64,
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// With the kind of object.
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub block_bytes: u32,
    /// The kernel may keep them until it is told that they have changed.
    pub kept: bool,
}

impl Attributes {
    fn seconds_kept(&self) -> u64 {
        if self.kept { FOREVER } else { 0 }
    }
}

/// What `struct statx` has beyond [`Attributes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct More {
    pub btime: Time,
    /// STATX_ATTR_*, and which of them are known.
    pub flags: u64,
    pub known_flags: u64,
}

/// A file or directory that was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    pub handle: u64,
    /// [`super::abi::fopen`].
    pub flags: u32,
}

/// What `df` shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Statfs {
    pub blocks: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub free_files: u64,
    pub block_bytes: u32,
    pub longest_name: u32,
}

/// The kernel's rules for a mount, as they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub minor: u32,
    pub max_readahead: u32,
    pub flags: u64,
    pub max_background: u16,
    pub max_write: u32,
    pub max_pages: u16,
}

/// An answer that is being put together. Its memory is used again for the next.
pub(crate) struct Reply {
    memory: Vec<u8>,
    /// Where the content begins; the header is right before it.
    content: usize,
    length: usize,
}

impl Reply {
    pub fn new() -> Reply {
        let mut reply = Reply { memory: Vec::new(), content: 0, length: 0 };
        reply.provide(PAGE);
        reply
    }

    /// Has room for a content of so many bytes; keeps what there is of it.
    fn provide(&mut self, bytes: usize) {
        if self.content != 0 && self.memory.len() - self.content >= bytes {
            return;
        }
        let memory = vec![0; PAGE + OUT_HEADER_BYTES + bytes];
        let behind = memory.as_ptr().wrapping_add(OUT_HEADER_BYTES).align_offset(PAGE);
        let content = OUT_HEADER_BYTES + if behind < PAGE { behind } else { 0 };
        let old = std::mem::replace(&mut self.memory, memory);
        self.memory[content..content + self.length].copy_from_slice(&old[self.content..self.content + self.length]);
        self.content = content;
    }

    /// Begins an answer.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Bytes of the content so far.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Room for so much content, to be filled by whoever reads; [`Reply::filled`] says how far.
    pub fn room(&mut self, bytes: usize) -> &mut [u8] {
        self.provide(bytes);
        &mut self.memory[self.content..self.content + bytes]
    }

    pub fn filled(&mut self, bytes: usize) {
        self.length = bytes.min(self.memory.len() - self.content);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.provide(self.length + bytes.len());
        let at = self.content + self.length;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_ne_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_ne_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_ne_bytes());
    }

    fn zeros(&mut self, count: usize) {
        self.provide(self.length + count);
        let at = self.content + self.length;
        self.memory[at..at + count].fill(0);
        self.length += count;
    }

    /// The header of an answer with so much content. `error`: 0, or an error's number, negated.
    pub fn header(unique: u64, error: i32, content: usize) -> [u8; OUT_HEADER_BYTES] {
        let mut header = [0; OUT_HEADER_BYTES];
        let length = u32::try_from(OUT_HEADER_BYTES + content).unwrap_or(u32::MAX);
        header[..4].copy_from_slice(&length.to_ne_bytes());
        header[4..8].copy_from_slice(&error.to_ne_bytes());
        header[8..].copy_from_slice(&unique.to_ne_bytes());
        header
    }

    /// The whole message: the answer to a question.
    pub fn message(&mut self, unique: u64) -> &[u8] {
        let begin = self.content - OUT_HEADER_BYTES;
        self.memory[begin..self.content].copy_from_slice(&Reply::header(unique, 0, self.length));
        &self.memory[begin..self.content + self.length]
    }

    fn attributes(&mut self, attr: &Attributes) {
        let start = self.length;
        for word in [attr.node, attr.size, attr.blocks] {
            self.u64(word);
        }
        let times = [attr.atime, attr.mtime, attr.ctime];
        times.iter().for_each(|time| self.u64(time.seconds as u64));
        times.iter().for_each(|time| self.u32(time.nanoseconds));
        for word in [attr.mode, attr.links, attr.uid, attr.gid, attr.rdev, attr.block_bytes, 0] {
            self.u32(word);
        }
        debug_assert_eq!(self.length - start, ATTR_BYTES);
    }

    /// `struct fuse_attr_out`.
    pub fn attr(&mut self, attr: &Attributes) {
        self.u64(attr.seconds_kept());
        self.u64(0);
        self.attributes(attr);
    }

    /// `struct fuse_entry_out`.
    pub fn entry(&mut self, attr: &Attributes) {
        for word in [attr.node, attr.generation, FOREVER, attr.seconds_kept(), 0] {
            self.u64(word);
        }
        self.attributes(attr);
    }

    /// `struct fuse_entry_out` that tells the kernel that there is no such name, and that it may remember that.
    pub fn no_entry(&mut self) {
        for word in [0, 0, FOREVER, 0] {
            self.u64(word);
        }
        self.zeros(ENTRY_OUT_BYTES - 32);
    }

    /// `struct fuse_statx_out`.
    pub fn statx(&mut self, attr: &Attributes, more: &More) {
        self.u64(attr.seconds_kept());
        self.zeros(24);
        self.u32(statx::BASIC_STATS | statx::BTIME);
        self.u32(attr.block_bytes);
        self.u64(more.flags);
        for word in [attr.links, attr.uid, attr.gid] {
            self.u32(word);
        }
        self.u16(attr.mode as u16);
        self.u16(0);
        for word in [attr.node, attr.size, attr.blocks, more.known_flags] {
            self.u64(word);
        }
        for time in [attr.atime, more.btime, attr.ctime, attr.mtime] {
            self.u64(time.seconds as u64);
            self.u32(time.nanoseconds);
            self.u32(0);
        }
        // The kernel's own encoding of device numbers, as in `struct fuse_attr`.
        let (major, minor) = ((attr.rdev & 0xf_ff00) >> 8, (attr.rdev & 0xff) | ((attr.rdev >> 12) & 0xf_ff00));
        for word in [major, minor, 0, 0] {
            self.u32(word);
        }
        self.zeros(14 * 8);
    }

    /// `struct fuse_open_out`.
    pub fn opened(&mut self, opened: Opened) {
        self.u64(opened.handle);
        self.u32(opened.flags);
        self.u32(0);
    }

    /// A number of 32 bits and its padding: `struct fuse_write_out`, `struct fuse_getxattr_out`.
    pub fn count(&mut self, count: u32) {
        self.u32(count);
        self.u32(0);
    }

    /// `struct fuse_ioctl_out`, and what is given back.
    pub fn ioctl(&mut self, data: &[u8]) {
        self.zeros(16);
        self.bytes(data);
    }

    /// `struct fuse_statfs_out`.
    pub fn statfs(&mut self, s: &Statfs) {
        for word in [s.blocks, s.free, s.available, s.files, s.free_files] {
            self.u64(word);
        }
        for word in [s.block_bytes, s.longest_name, s.block_bytes, 0] {
            self.u32(word);
        }
        self.zeros(24);
    }

    /// `struct fuse_init_out`.
    pub fn init(&mut self, taken: &Taken) {
        for word in [super::abi::MAJOR, taken.minor, taken.max_readahead, taken.flags as u32] {
            self.u32(word);
        }
        self.u16(taken.max_background);
        // From here on the kernel holds back what nobody waits for.
        self.u16((u32::from(taken.max_background) * 3 / 4) as u16);
        self.u32(taken.max_write);
        // Times are as fine as they can be: a nanosecond.
        self.u32(1);
        self.u16(taken.max_pages);
        self.u16(0);
        self.u32((taken.flags >> 32) as u32);
        self.zeros(28);
    }
}

/// The kernel's buffer for a part of a directory.
pub(crate) struct Listing<'a> {
    reply: &'a mut Reply,
    room: usize,
}

/// Whether more fits into a listing.
pub(crate) type Full = ControlFlow<()>;

impl<'a> Listing<'a> {
    pub fn new(reply: &'a mut Reply, room: u32) -> Listing<'a> {
        Listing { reply, room: room as usize }
    }

    pub fn is_empty(&self) -> bool {
        self.reply.length() == 0
    }

    fn has_room(&self, before: usize, name: &[u8]) -> bool {
        self.reply.length() + (before + DIRENT_BYTES + name.len()).next_multiple_of(8) <= self.room
    }

    /// `struct fuse_dirent`. The kind is that of `d_type`.
    fn dirent(&mut self, node: u64, next: u64, kind: u32, name: &[u8]) {
        self.reply.u64(node);
        self.reply.u64(next);
        self.reply.u32(name.len() as u32);
        self.reply.u32(kind);
        self.reply.bytes(name);
        self.reply.zeros(self.reply.length().next_multiple_of(8) - self.reply.length());
    }

    /// Adds a name, unless it does not fit. `next`: where the listing goes on after it.
    pub fn name(&mut self, node: u64, next: u64, kind: u32, name: &[u8]) -> Full {
        if !self.has_room(0, name) {
            return Full::Break(());
        }
        self.dirent(node, next, kind, name);
        Full::Continue(())
    }

    /// Adds a name with attributes; without them the kernel gets to know the name alone.
    pub fn entry(&mut self, attr: Option<&Attributes>, node: u64, next: u64, kind: u32, name: &[u8]) -> Full {
        if !self.has_room(ENTRY_OUT_BYTES, name) {
            return Full::Break(());
        }
        match attr {
            Some(attr) => self.reply.entry(attr),
            None => self.reply.zeros(ENTRY_OUT_BYTES),
        }
        self.dirent(node, next, kind, name);
        Full::Continue(())
    }
}
