//! What is asked of a file system that the kernel has mounted.

use super::reply::{Attributes, Listing, More, Opened, Statfs};
use super::request::{Copy, Fallocate, Ioctl, Operation, Part, Request, SetAttributes, SetXattr, Write};
use rustix::io::Errno;

/// What the kernel is answered: what it asked for, or an error.
pub(crate) type Answer<T> = Result<T, Errno>;

/// What was read.
pub(crate) enum Content<'a> {
    /// So much of the buffer was filled.
    Filled(usize),
    /// It lies somewhere else.
    There(&'a [u8]),
}

/// The operations, each with whoever asks and the inode that it is about. What is not there the kernel does
/// without: it does not ask again.
#[allow(unused_variables)]
pub(crate) trait Filesystem: Send + Sync + 'static {
    /// Flags of [`super::abi::init`] that it wants if the kernel has them.
    fn wants(&self) -> u64 {
        0
    }

    /// Flags of [`super::abi::init`] that the kernel and the file system have both, before anything is asked.
    fn agreed(&self, flags: u64) {}

    /// Whether threads of this process have requests of their own for it, which others of them answer.
    fn waits_for_itself(&self) -> bool {
        false
    }

    /// How many times as long as for others a thread looks for the next request before it sleeps.
    fn patience(&self) -> u32 {
        1
    }

    /// Whether the answer to this may wait for the kernel, which waits for other answers.
    fn waits(&self, request: &Request, operation: &Operation<'_>) -> bool {
        false
    }

    /// `None`: there is no such name, and the kernel may remember that.
    fn lookup(&self, request: &Request, name: &[u8]) -> Answer<Option<Attributes>> {
        Err(Errno::NOSYS)
    }

    fn forget(&self, node: u64, lookups: u64) {}

    fn getattr(&self, request: &Request) -> Answer<Attributes> {
        Err(Errno::NOSYS)
    }

    fn statx(&self, request: &Request) -> Answer<(Attributes, More)> {
        Err(Errno::NOSYS)
    }

    fn setattr(&self, request: &Request, change: &SetAttributes) -> Answer<Attributes> {
        Err(Errno::NOSYS)
    }

    fn readlink(&self, request: &Request) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    fn mknod(&self, request: &Request, name: &[u8], mode: u32, rdev: u32, umask: u32) -> Answer<Attributes> {
        Err(Errno::NOSYS)
    }

    fn mkdir(&self, request: &Request, name: &[u8], mode: u32, umask: u32) -> Answer<Attributes> {
        Err(Errno::NOSYS)
    }

    fn symlink(&self, request: &Request, name: &[u8], target: &[u8]) -> Answer<Attributes> {
        Err(Errno::NOSYS)
    }

    fn unlink(&self, request: &Request, name: &[u8]) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn rmdir(&self, request: &Request, name: &[u8]) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn rename(&self, request: &Request, name: &[u8], to: u64, new_name: &[u8], flags: u32) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// Gives `node` a name in the directory that the request is about.
    fn link(&self, request: &Request, node: u64, name: &[u8]) -> Answer<Attributes> {
        Err(Errno::NOSYS)
    }

    fn open(&self, request: &Request, flags: u32) -> Answer<Opened> {
        Ok(Opened::default())
    }

    fn create(&self, request: &Request, name: &[u8], mode: u32, umask: u32) -> Answer<(Attributes, Opened)> {
        Err(Errno::NOSYS)
    }

    /// Makes a file without a name; the request is about the directory whose file system it is on.
    fn tmpfile(&self, request: &Request, mode: u32, umask: u32, flags: u32) -> Answer<(Attributes, Opened)> {
        Err(Errno::NOSYS)
    }

    /// Reads as much as `into` holds, which is the part's size; less only at the file's end.
    fn read(&self, request: &Request, part: &Part, into: &mut [u8]) -> Answer<Content<'_>> {
        Err(Errno::NOSYS)
    }

    /// Writes as much of it as there is space for; how many bytes that was.
    fn write(&self, request: &Request, write: &Write<'_>) -> Answer<usize> {
        Err(Errno::NOSYS)
    }

    fn flush(&self, request: &Request, handle: u64) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn release(&self, handle: u64) {}

    fn fsync(&self, request: &Request, handle: u64) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn opendir(&self, request: &Request) -> Answer<Opened> {
        Ok(Opened::default())
    }

    fn readdir(&self, request: &Request, offset: u64, listing: &mut Listing<'_>) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn readdirplus(&self, request: &Request, offset: u64, listing: &mut Listing<'_>) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn releasedir(&self, handle: u64) {}

    fn fsyncdir(&self, request: &Request) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn statfs(&self, request: &Request) -> Answer<Statfs> {
        Ok(Statfs { block_bytes: 512, longest_name: 255, ..Statfs::default() })
    }

    fn setxattr(&self, request: &Request, xattr: &SetXattr<'_>) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn getxattr(&self, request: &Request, name: &[u8]) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    /// The names, each with a zero byte behind it.
    fn listxattr(&self, request: &Request) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    fn removexattr(&self, request: &Request, name: &[u8]) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn fallocate(&self, request: &Request, how: &Fallocate) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    fn lseek(&self, request: &Request, handle: u64, offset: i64, whence: u32) -> Answer<u64> {
        Err(Errno::NOSYS)
    }

    /// Copies at most so much; how much it was.
    fn copy_file_range(&self, request: &Request, copy: &Copy) -> Answer<u64> {
        Err(Errno::NOSYS)
    }

    /// What the caller of ioctl(2) gets back.
    fn ioctl(&self, request: &Request, ioctl: &Ioctl<'_>) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }
}
