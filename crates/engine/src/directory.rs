//! A folder of files that the kernel serves, on whatever file system.

use crate::posix::forget;
use crate::{Directory, Mapped, Mapping, Purpose};
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::ffi::CStr;
use std::path::Path;

/// A folder behind a file descriptor: names are looked up in it alone.
pub struct PosixDirectory(OwnedFd);

impl PosixDirectory {
    /// Opens a folder.
    ///
    /// # Errors
    /// When it is not there.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::open(path, flags, Mode::empty()).board(|| format!("cannot open {}", path.display()))?;
        Ok(PosixDirectory(folder))
    }
}

impl Mapped for PosixDirectory {
    fn map(&self, name: &CStr) -> Result<Mapping> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Mapping::of(&rustix::fs::openat(&self.0, name, flags, Mode::empty()).board(|| "open() failed".into())?)
    }
}

impl Directory for PosixDirectory {
    type File = OwnedFd;

    fn create(&self, name: &CStr) -> Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o644)).board(|| "open(O_CREAT) failed".into())
    }

    fn open(&self, name: &CStr, purpose: Purpose) -> Result<OwnedFd> {
        let flags = OFlags::CLOEXEC
            | match purpose {
                Purpose::Read => OFlags::RDONLY,
                Purpose::Write => OFlags::RDWR,
                Purpose::Append => OFlags::RDWR | OFlags::APPEND,
            };
        rustix::fs::openat(&self.0, name, flags, Mode::empty()).board(|| "open() failed".into())
    }

    fn read(&self, file: &OwnedFd, into: &mut [u8], offset: u64) -> Result<usize> {
        rustix::io::pread(file, into, offset).board(|| "pread() failed".into())
    }

    fn write(&self, file: &OwnedFd, from: &[u8], offset: u64) -> Result<usize> {
        rustix::io::pwrite(file, from, offset).board(|| "pwrite() failed".into())
    }

    fn append(&self, file: &OwnedFd, from: &[u8]) -> Result<usize> {
        rustix::io::write(file, from).board(|| "write() failed".into())
    }

    fn delete(&self, name: &CStr) -> Result<()> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::empty()).board(|| "unlink() failed".into())
    }

    fn look_up(&self, name: &CStr) -> Result<u64> {
        let found = rustix::fs::statat(&self.0, name, AtFlags::empty()).board(|| "stat() failed".into())?;
        Ok(found.st_size as u64)
    }

    fn sync(&self, file: &OwnedFd) -> Result<()> {
        rustix::fs::fsync(file).board(|| "fsync() failed".into())
    }

    fn make_folder(&self, name: &CStr) -> Result<()> {
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o755)) {
            Err(rustix::io::Errno::EXIST) => Ok(()),
            made => made.board(|| "mkdir() failed".into()),
        }
    }

    fn evict(&self, name: &CStr) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, name, flags, Mode::empty()).board(|| "open() failed".into())?;
        forget(&file)
    }
}
