//! Operations on one ordinary file, through read().

use crate::Engine;
use pocketstone_core::error::Context;
use pocketstone_core::plan::ReadAheadBy;
use pocketstone_core::plan::{ReadAhead, ReadSpec};
use pocketstone_core::{Error, Result};
use pocketstone_workload::Operation;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags, SeekFrom};
use std::path::Path;

/// A file opened with O_RDONLY, read with one read() per operation.
pub struct PosixFile {
    file: OwnedFd,
    position: u64,
    buffer: Vec<u8>,
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
        if let Some((advice, _)) = advice {
            rustix::fs::fadvise(&file, 0, None, advice).board(|| "posix_fadvise failed".into())?;
        }
        // Touched now, so that the first read() does not pay for the buffer's page faults.
        let buffer = vec![0xa5; spec.request_bytes as usize];
        Ok((PosixFile { file, position: 0, buffer }, advice.map_or("none", |a| a.1)))
    }
}

impl Engine for PosixFile {
    fn execute(&mut self, operation: &Operation) -> Result<u64> {
        let Operation::Read { offset, bytes, .. } = *operation else {
            return Err(Error::bug(format!("{operation:?} is nothing to execute")));
        };
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
    rustix::fs::fsync(&file).board(|| format!("cannot sync {}", path.display()))?;
    rustix::fs::fadvise(file.as_fd(), 0, None, Advice::DontNeed)
        .board(|| format!("cannot evict {} from the page cache", path.display()))
}

/// Number of the file's pages in the page cache, or `None` where the kernel cannot be asked.
pub fn resident_pages(path: &Path) -> Option<u64> {
    let file = std::fs::File::open(path).ok()?;
    let length = usize::try_from(file.metadata().ok()?.len()).ok().filter(|l| *l > 0)?;
    let pages = length.div_ceil(rustix::param::page_size());
    let mut resident = vec![0u8; pages];
    // SAFETY: the mapping is read-only, private, of a length that the file has, and is unmapped
    // below without ever being dereferenced; mincore writes one byte per page of it into
    // `resident`, which has that many.
    unsafe {
        let address = rustix::mm::mmap(
            std::ptr::null_mut(),
            length,
            rustix::mm::ProtFlags::READ,
            rustix::mm::MapFlags::PRIVATE,
            &file,
            0,
        )
        .ok()?;
        let asked = libc::mincore(address, length, resident.as_mut_ptr());
        let _ = rustix::mm::munmap(address, length);
        (asked == 0).then(|| resident.iter().filter(|r| **r & 1 == 1).count() as u64)
    }
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
        }
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
