//! Operations on one ordinary file, through read().

use crate::{Engine, Mapping, now_ns};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Prefetched;
use pocketstone_core::plan::{Access, Prefetch, ReadAhead, ReadAheadBy, ReadSpec};
use pocketstone_core::{Error, Result};
use pocketstone_workload::{Content, Operation};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags, SeekFrom};
use std::io::Write;
use std::path::Path;

/// A file opened with O_RDONLY, read with one read() per operation, or by touching its pages in a mapping.
pub struct PosixFile {
    file: OwnedFd,
    position: u64,
    buffer: Vec<u8>,
    /// Where requests go by a mapping.
    mapping: Option<Mapping>,
    prefetch: Prefetch,
    prefetched: Option<Prefetched>,
}

impl PosixFile {
    /// Opens the target of a read workload and applies read-ahead advice, where the plan has one.
    ///
    /// Returns the engine and the advice given: `normal`, `random` or `none`.
    ///
    /// # Errors
    /// When the file cannot be opened or advised, or is smaller than the plan says.
    pub fn open(path: &Path, spec: &ReadSpec, read_ahead: Option<ReadAhead>) -> Result<(Self, &'static str)> {
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .board(|| format!("cannot open {}", path.display()))?;
        let bytes = rustix::fs::fstat(&file).board(|| format!("cannot stat {}", path.display()))?.st_size as u64;
        if bytes != spec.file_bytes {
            return Err(Error::board(format!("{} has {bytes} bytes, not {}", path.display(), spec.file_bytes)));
        }
        let advice = match read_ahead {
            Some(ReadAhead { by: ReadAheadBy::File, bytes: 0 }) => Some((Advice::Random, "random")),
            Some(ReadAhead { by: ReadAheadBy::File, .. }) => Some((Advice::Normal, "normal")),
            _ => None,
        };
        let mapping = match spec.access {
            Access::Read => None,
            Access::Mmap => Some(Mapping::of(&file)?),
        };
        match (advice, &mapping) {
            // Faults on a mapping heed the mapping's advice, not the open file's.
            (Some((advice, _)), Some(mapping)) => mapping.advise_random(advice == Advice::Random)?,
            (Some((advice, _)), None) => {
                rustix::fs::fadvise(&file, 0, None, advice).board(|| "posix_fadvise failed".into())?;
            }
            (None, _) => {}
        }
        // Touched now, so that the first read() does not pay for the buffer's page faults.
        let buffer = vec![0xa5; spec.request_bytes as usize];
        let (position, prefetch, prefetched) = (0, spec.prefetch, None);
        Ok((PosixFile { file, position, buffer, mapping, prefetch, prefetched }, advice.map_or("none", |a| a.1)))
    }

    /// What the call before the first request did, where there was one.
    pub fn prefetched(&self) -> Option<Prefetched> {
        self.prefetched
    }

    fn prefetch(&mut self, offset: u64, bytes: u64) -> Result<u64> {
        let failed = || format!("{:?} of {bytes} bytes at {offset} failed", self.prefetch);
        // A mapping of its own for madvise(): it costs a system call of its own in programs, too.
        let mapping = match self.prefetch {
            Prefetch::Madvise => Some(Mapping::of(&self.file)?),
            _ => None,
        };
        let start = now_ns();
        match (self.prefetch, &mapping) {
            (Prefetch::None, _) | (Prefetch::Madvise, None) => return Err(Error::bug("there is no call to make")),
            (Prefetch::Readahead, _) => read_ahead(&self.file, offset, bytes).board(failed)?,
            (Prefetch::Willneed, _) => {
                let length = std::num::NonZeroU64::new(bytes);
                rustix::fs::fadvise(&self.file, offset, length, Advice::WillNeed).board(failed)?;
            }
            (Prefetch::Madvise, Some(mapping)) => mapping.advise_will_need(offset, bytes).board(failed)?,
        }
        let latency_ns = now_ns() - start;
        let resident_pages = mapping.map_or_else(|| Mapping::of(&self.file), Ok)?.resident_pages();
        self.prefetched = Some(Prefetched { latency_ns, resident_pages });
        Ok(bytes)
    }
}

/// readahead(2), which on machines of 32 bits takes the offset in two registers: libc knows which.
fn read_ahead(file: &OwnedFd, offset: u64, bytes: u64) -> rustix::io::Result<()> {
    // SAFETY: the call takes a descriptor and two numbers, and touches no memory of ours.
    match unsafe { libc::readahead(file.as_raw_fd(), offset as libc::off64_t, bytes as usize) } {
        -1 => Err(rustix::io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO)),
        _ => Ok(()),
    }
}

impl Engine for PosixFile {
    fn execute(&mut self, operation: &Operation) -> Result<u64> {
        let (offset, bytes) = match *operation {
            Operation::Read { offset, bytes, .. } => (offset, bytes),
            Operation::Prefetch { offset, bytes } => return self.prefetch(offset, bytes),
            _ => return Err(Error::bug(format!("{operation:?} is nothing to execute"))),
        };
        if let Some(mapping) = &self.mapping {
            return mapping.touch(offset, bytes).map(|()| bytes);
        }
        if offset != self.position {
            rustix::fs::seek(&self.file, SeekFrom::Start(offset)).board(|| format!("cannot seek to {offset}"))?;
        }
        let buffer = &mut self.buffer[..bytes as usize];
        let got = rustix::io::read(&self.file, buffer).board(|| format!("read() of {bytes} bytes at {offset}"))?;
        self.position = offset + got as u64;
        if got as u64 != bytes {
            return Err(Error::board(format!("read() of {bytes} bytes at {offset} gave {got}")));
        }
        Ok(bytes)
    }
}

/// Asks the kernel to drop a file's pages from the page cache, after writing back dirty ones.
///
/// # Errors
/// When the file cannot be opened or synced.
pub fn evict(path: &Path) -> Result<()> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .board(|| format!("cannot open {}", path.display()))?;
    forget(&file).board(|| format!("cannot evict {} from the page cache", path.display()))
}

/// Drops an open file's pages from the page cache, after writing back dirty ones.
pub(crate) fn forget(file: &OwnedFd) -> Result<()> {
    rustix::fs::fsync(file).board(|| "fsync() failed".into())?;
    rustix::fs::fadvise(file.as_fd(), 0, None, Advice::DontNeed).board(|| "posix_fadvise failed".into())
}

/// Makes a file durable whose bytes are the first of a content.
///
/// # Errors
/// When the file system refuses.
pub fn write_file(path: &Path, content: &mut Content, bytes: u64) -> Result<()> {
    let failed = || format!("cannot write {bytes} bytes to {}", path.display());
    let mut file = std::fs::File::create(path).board(failed)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut left = bytes;
    while left > 0 {
        let part = &mut buffer[..left.min(64 * 1024) as usize];
        content.fill(part);
        file.write_all(part).board(failed)?;
        left -= part.len() as u64;
    }
    file.sync_all().board(failed)
}

/// Number of the file's pages in the page cache, or `None` where the kernel cannot be asked.
pub fn resident_pages(path: &Path) -> Option<u64> {
    let file = std::fs::File::open(path).ok()?;
    Mapping::of(&file.into()).ok()?.resident_pages()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::plan::{Data, Pattern};

    fn spec(file_bytes: u64) -> ReadSpec {
        ReadSpec {
            pattern: Pattern::Sequential,
            requests: 2,
            request_bytes: 4096,
            file_bytes,
            inter_arrival_ns: 0,
            data: Data::Random,
            access: Access::Read,
            prefetch: Prefetch::None,
        }
    }

    #[test]
    fn a_mapping_brings_pages_in_by_touching_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, vec![1; 8192]).unwrap();
        let mapped = ReadSpec { access: Access::Mmap, ..spec(8192) };
        let advised = Some(ReadAhead { by: ReadAheadBy::File, bytes: 0 });
        let (mut file, advice) = PosixFile::open(&path, &mapped, advised).unwrap();
        assert_eq!(advice, "random");
        assert_eq!(file.execute(&Operation::Read { file: 0, offset: 4096, bytes: 4096 }).unwrap(), 4096);
        assert_eq!(file.mapping.as_ref().unwrap().resident_pages(), Some(8192 / rustix::param::page_size() as u64));
        let beyond = file.execute(&Operation::Read { file: 0, offset: 4096, bytes: 4097 }).unwrap_err();
        assert!(beyond.chain().contains("8192"), "{}", beyond.chain());
    }

    #[test]
    fn every_call_that_prefetches_says_what_it_took_and_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, vec![1; 8192]).unwrap();
        let call = Operation::Prefetch { offset: 0, bytes: 8192 };
        for prefetch in [Prefetch::Readahead, Prefetch::Willneed, Prefetch::Madvise] {
            let (mut file, _) = PosixFile::open(&path, &ReadSpec { prefetch, ..spec(8192) }, None).unwrap();
            assert_eq!(file.prefetched(), None);
            file.execute(&call).unwrap();
            let found = file.prefetched().unwrap();
            // It was just written: all of it is there.
            assert_eq!(found.resident_pages, Some(8192 / rustix::param::page_size() as u64), "{prefetch:?}");
        }
        let (mut file, _) = PosixFile::open(&path, &spec(8192), None).unwrap();
        assert!(file.execute(&call).unwrap_err().chain().contains("no call"));
    }

    #[test]
    fn reads_what_lies_there_and_refuses_a_wrong_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let content: Vec<u8> = (0..8192u32).map(|n| (n / 4096) as u8 + 1).collect();
        std::fs::write(&path, &content).unwrap();
        let (mut file, advice) = PosixFile::open(&path, &spec(8192), None).unwrap();
        assert_eq!(advice, "none");
        for (offset, expected) in [(4096, 2), (0, 1), (4096, 2)] {
            assert_eq!(file.execute(&Operation::Read { file: 0, offset, bytes: 4096 }).unwrap(), 4096);
            assert!(file.buffer.iter().all(|b| *b == expected));
        }
        let short = file.execute(&Operation::Read { file: 0, offset: 6000, bytes: 4096 }).unwrap_err();
        assert!(short.chain().contains("gave 2192"), "{}", short.chain());
        assert!(PosixFile::open(&path, &spec(5000), None).is_err());
    }

    #[test]
    fn a_file_just_written_is_resident() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, vec![1; 40_960]).unwrap();
        assert_eq!(resident_pages(&path), Some(40_960 / rustix::param::page_size() as u64));
        evict(&path).unwrap();
        let left = resident_pages(&path).unwrap();
        assert!(left <= 40_960 / rustix::param::page_size() as u64);
    }
}
