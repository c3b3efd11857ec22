//! Files that the kernel serves, on whatever file system.

use crate::{Mapping, Tree, calls, now_ns};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_workload::{Prefetch, Purpose};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::path::Path;

/// A folder behind a file descriptor: names are looked up in it alone.
pub struct KernelTree {
    folder: OwnedFd,
    /// Whether space is reserved where the file system can do that.
    reserves: bool,
}

impl KernelTree {
    /// Opens a folder.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the folder cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::open(path, flags, Mode::empty()).board(|| format!("cannot open {}", path.display()))?;
        Ok(KernelTree { folder, reserves: true })
    }

    /// The same folder as one on a file system without fallocate(2).
    pub fn without_reserved_space(self) -> Self {
        KernelTree { reserves: false, ..self }
    }

    pub(crate) fn open_with(&self, path: &CStr, flags: OFlags) -> Result<OwnedFd> {
        let mode = Mode::from_raw_mode(0o644);
        rustix::fs::openat(&self.folder, path, flags | OFlags::CLOEXEC, mode).board(|| "open() failed".into())
    }
}

/// How files are created.
pub(crate) const CREATE: OFlags = OFlags::RDWR.union(OFlags::APPEND).union(OFlags::CREATE).union(OFlags::EXCL);
/// How files are opened to be written anew.
pub(crate) const ANEW: OFlags = OFlags::WRONLY.union(OFlags::TRUNC);

/// How files are opened for a purpose.
pub(crate) fn flags(purpose: Purpose) -> OFlags {
    match purpose {
        Purpose::Read => OFlags::RDONLY,
        Purpose::Write => OFlags::RDWR,
        Purpose::Append => OFlags::RDWR | OFlags::APPEND,
        Purpose::New => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        Purpose::Direct => OFlags::RDWR | OFlags::DIRECT,
    }
}

/// Says why a file may not have been opened with O_DIRECT.
pub(crate) fn no_direct(error: Error) -> Error {
    error.hint("not every file system has O_DIRECT: omit direct, or set it to 0 in a job file")
}

impl Tree for KernelTree {
    type File<'t> = OwnedFd;
    type Map<'t> = Mapping;

    fn free_bytes(&self) -> Result<u64> {
        let found = rustix::fs::fstatvfs(&self.folder).board(|| "fstatvfs() failed".into())?;
        Ok(found.f_bfree * found.f_frsize)
    }

    fn create(&self, path: &CStr) -> Result<OwnedFd> {
        self.open_with(path, CREATE)
    }

    fn open(&self, path: &CStr, purpose: Purpose) -> Result<OwnedFd> {
        let opened = self.open_with(path, flags(purpose));
        if purpose == Purpose::Direct { opened.map_err(no_direct) } else { opened }
    }

    fn open_anew(&self, path: &CStr) -> Result<OwnedFd> {
        self.open_with(path, ANEW)
    }

    #[inline]
    fn read(&self, file: &OwnedFd, into: &mut [u8], offset: u64) -> Result<usize> {
        calls::pread(file, into, offset).board(|| "pread() failed".into())
    }

    #[inline]
    fn write(&self, file: &OwnedFd, from: &[u8], offset: u64) -> Result<usize> {
        calls::pwrite(file, from, offset).board(|| "pwrite() failed".into())
    }

    #[inline]
    fn append(&self, file: &OwnedFd, from: &[u8]) -> Result<usize> {
        calls::write(file, from).board(|| "write() failed".into())
    }

    fn append_what_fits(&self, file: &OwnedFd, from: &[u8]) -> Result<usize> {
        match calls::write(file, from) {
            Err(Errno::NOSPC) => Ok(0),
            other => other.board(|| "write() failed".into()),
        }
    }

    fn truncate(&self, file: &OwnedFd, bytes: u64) -> Result<()> {
        rustix::fs::ftruncate(file, bytes).board(|| "ftruncate() failed".into())
    }

    fn allocate(&self, file: &OwnedFd, bytes: u64) -> Result<()> {
        if !self.reserves {
            return Ok(());
        }
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            other => other.board(|| "fallocate() failed".into()),
        }
    }

    fn sync(&self, file: &OwnedFd) -> Result<()> {
        rustix::fs::fsync(file).board(|| "fsync() failed".into())
    }

    fn sync_data(&self, file: &OwnedFd) -> Result<()> {
        rustix::fs::fdatasync(file).board(|| "fdatasync() failed".into())
    }

    fn set_owner(&self, file: &OwnedFd) -> Result<()> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        rustix::fs::fchown(file, Some(uid), Some(gid)).board(|| "fchown() failed".into())
    }

    fn sync_folder(&self) -> Result<()> {
        let folder = self.open_with(c".", OFlags::RDONLY | OFlags::DIRECTORY)?;
        rustix::fs::fsync(&folder).board(|| "fsync() of the folder failed".into())
    }

    fn unlink(&self, path: &CStr) -> Result<()> {
        rustix::fs::unlinkat(&self.folder, path, AtFlags::empty()).board(|| "unlink() failed".into())
    }

    fn rename(&self, from: &CStr, to: &CStr) -> Result<()> {
        rustix::fs::renameat(&self.folder, from, &self.folder, to).board(|| "rename() failed".into())
    }

    fn stat(&self, path: &CStr) -> Result<u64> {
        let found = rustix::fs::statat(&self.folder, path, AtFlags::empty()).board(|| "stat() failed".into())?;
        Ok(found.st_size as u64)
    }

    fn attributes(&self, file: &OwnedFd) -> Result<u64> {
        Ok(rustix::fs::fstat(file).board(|| "fstat() failed".into())?.st_size as u64)
    }

    fn seek_end(&self, file: &OwnedFd) -> Result<u64> {
        rustix::fs::seek(file, SeekFrom::End(0)).board(|| "lseek() failed".into())
    }

    fn mkdir(&self, path: &CStr) -> Result<()> {
        rustix::fs::mkdirat(&self.folder, path, Mode::from_raw_mode(0o755)).board(|| "mkdir() failed".into())
    }

    fn list(&self) -> Result<u64> {
        let failed = || "cannot list the folder".to_owned();
        // A descriptor of its own: its position is where it was left.
        let folder = self.open_with(c".", OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut buffer = [MaybeUninit::uninit(); 32 << 10];
        let mut entries = rustix::fs::RawDir::new(folder, &mut buffer);
        let mut names = 0;
        while let Some(entry) = entries.next() {
            names += u64::from(![c".", c".."].contains(&entry.board(failed)?.file_name()));
        }
        Ok(names)
    }

    fn map(&self, path: &CStr) -> Result<Mapping> {
        Mapping::of(&self.open_with(path, OFlags::RDONLY)?)
    }

    fn prefetch(&self, file: &OwnedFd, by: Prefetch, offset: u64, bytes: u64) -> Result<(Option<u64>, u64)> {
        let failed = || format!("{by:?} of {bytes} bytes at {offset} failed");
        // A mapping of its own for madvise(): it costs a system call of its own in programs, too.
        let mapping = match by {
            Prefetch::Madvise => Some(Mapping::of(file)?),
            _ => None,
        };
        let start = now_ns();
        match (by, &mapping) {
            (Prefetch::None, _) | (Prefetch::Madvise, None) => return Err(Error::bug("there is no call to make")),
            (Prefetch::Readahead, _) => read_ahead(file, offset, bytes).board(failed)?,
            (Prefetch::Willneed, _) => {
                let length = std::num::NonZeroU64::new(bytes);
                rustix::fs::fadvise(file, offset, length, Advice::WillNeed).board(failed)?;
            }
            (Prefetch::Madvise, Some(mapping)) => mapping.advise_will_need(offset, bytes).board(failed)?,
        }
        let latency_ns = now_ns() - start;
        let resident_pages = mapping.map_or_else(|| Mapping::of(file), Ok)?.resident_pages();
        Ok((resident_pages, latency_ns))
    }

    fn advise(&self, file: &OwnedFd, map: Option<&Mapping>, random: bool) -> Result<()> {
        // Faults on a mapping heed the mapping's advice, not the open file's.
        if let Some(mapping) = map {
            return mapping.advise_random(random);
        }
        let advice = if random { Advice::Random } else { Advice::Normal };
        rustix::fs::fadvise(file, 0, None, advice).board(|| "posix_fadvise() failed".into())
    }

    fn evict(&self, path: &CStr) -> Result<()> {
        let file = self.open_with(path, OFlags::RDONLY)?;
        rustix::fs::fsync(&file).board(|| "fsync() failed".into())?;
        self.invalidate(&file)
    }

    fn invalidate(&self, file: &OwnedFd) -> Result<()> {
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed).board(|| "posix_fadvise() failed".into())
    }
}

/// readahead(2), which on machines of 32 bits takes the offset in two registers: libc knows which.
fn read_ahead(file: &OwnedFd, offset: u64, bytes: u64) -> rustix::io::Result<()> {
    // SAFETY: the call takes a descriptor and two numbers, and touches no memory of ours.
    match unsafe { libc::readahead(file.as_raw_fd(), offset as libc::off64_t, bytes as usize) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

/// Number of the file's pages in the page cache, or `None` if unknown.
pub fn resident_pages(path: &Path) -> Option<u64> {
    let file = std::fs::File::open(path).ok()?;
    Mapping::of(&file.into()).ok()?.resident_pages()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, KernelTree) {
        let folder = tempfile::tempdir().unwrap();
        let tree = KernelTree::open(folder.path()).unwrap();
        (folder, tree)
    }

    #[test]
    fn a_mapping_brings_pages_in_by_touching_them() {
        let (folder, tree) = tree();
        std::fs::write(folder.path().join("f"), vec![1; 8192]).unwrap();
        let _held = tree.map(c"f").unwrap().held();
        let map = tree.map(c"f").unwrap();
        crate::Touch::touch(&map, 4096, 4096).unwrap();
        assert_eq!(map.resident_pages(), Some(8192 / rustix::param::page_size() as u64));
        let file = tree.open(c"f", Purpose::Read).unwrap();
        tree.advise(&file, Some(&map), true).unwrap();
        let beyond = crate::Touch::touch(&map, 4096, 4097).unwrap_err();
        assert!(beyond.chain().contains("8192"), "{}", beyond.chain());
    }

    #[test]
    fn every_call_that_prefetches_says_what_it_took_and_left() {
        let (folder, tree) = tree();
        std::fs::write(folder.path().join("f"), vec![1; 8192]).unwrap();
        let _held = tree.map(c"f").unwrap().held();
        let file = tree.open(c"f", Purpose::Read).unwrap();
        for by in [Prefetch::Readahead, Prefetch::Willneed, Prefetch::Madvise] {
            // It is held: all of it is there.
            let (resident_pages, _) = tree.prefetch(&file, by, 0, 8192).unwrap();
            assert_eq!(resident_pages, Some(8192 / rustix::param::page_size() as u64), "{by:?}");
        }
        assert!(tree.prefetch(&file, Prefetch::None, 0, 8192).unwrap_err().chain().contains("no call"));
    }

    #[test]
    fn what_an_open_file_has_on_the_medium_leaves_the_page_cache() {
        let (folder, tree) = tree();
        let path = |name: &str| folder.path().join(name);
        for name in ["evicted", "open"] {
            std::fs::write(path(name), vec![1; 40_960]).unwrap();
        }
        tree.evict(c"evicted").unwrap();
        let file = tree.open(c"open", Purpose::Write).unwrap();
        tree.sync(&file).unwrap();
        tree.invalidate(&file).unwrap();
        // A file system in memory keeps both.
        assert_eq!(resident_pages(&path("open")), resident_pages(&path("evicted")));
        let mut part = [0; 5];
        assert_eq!((tree.read(&file, &mut part, 40_955).unwrap(), part), (5, [1; 5]));
    }

    #[test]
    fn a_file_just_written_is_resident_and_can_be_evicted() {
        let (folder, tree) = tree();
        let path = folder.path().join("f");
        std::fs::write(&path, vec![1; 40_960]).unwrap();
        let held = tree.map(c"f").unwrap().held();
        assert_eq!(resident_pages(&path), Some(40_960 / rustix::param::page_size() as u64));
        drop(held);
        tree.evict(c"f").unwrap();
        let left = resident_pages(&path).unwrap();
        assert!(left <= 40_960 / rustix::param::page_size() as u64);
    }
}
