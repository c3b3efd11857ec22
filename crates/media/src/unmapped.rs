//! A region in a file that is written before anybody maps it.

use crate::Result;
use crate::open::{self, Source};
use pocketstone_vfs::Context;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A new region in a file, all zeros, that is written through the kernel before it is mapped. The kernel then finds
/// room and contents for a page at once; through a mapping it would clear each page, and take a fault for it, first.
///
/// Others are kept away as from a [`Mapped`](crate::Mapped) region.
pub struct Unmapped(Source);

impl Unmapped {
    /// A file of `bytes` bytes, in place of what it held.
    ///
    /// # Errors
    /// `InUse`; `Refused` if it is on hugetlbfs, or a device, where write(2) does not store; `Failed` if its file
    /// system has less room than that.
    pub fn create(path: &Path, bytes: u64) -> Result<Unmapped> {
        Ok(Unmapped(open::create_empty(path, bytes)?))
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// The `std::io::Error` of pwrite(2), such as `StorageFull` if there is no room.
    pub fn write_all_at(&self, from: &[u8], at: u64) -> std::io::Result<()> {
        self.0.file.write_all_at(from, at)
    }

    /// Gives room to bytes that are zeros, as [`finish`](Unmapped::finish) does to all that have none then. A file
    /// system that cannot is left alone.
    ///
    /// # Errors
    /// The `std::io::Error` of `Errno::NOSPC`, `Errno::DQUOT`, `Errno::NOMEM` or `Errno::IO`, as fallocate(2) has them.
    pub fn allocate(&self, at: u64, bytes: u64) -> std::io::Result<()> {
        Ok(open::allocate_if_possible(&self.0.file, at, at + bytes)?)
    }

    /// Gives room to every byte that was not written, so that no store to a mapping finds none, and makes everything as
    /// durable as the medium can.
    ///
    /// # Errors
    /// `Failed` if the file system is full, or the kernel cannot write back.
    pub fn finish(&self) -> Result<()> {
        open::fill_holes(&self.0)?;
        self.0.file.sync_all().failed(|| format!("cannot write back {}", self.0.backing.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MapOptions, Mapped, Region};

    #[test]
    fn what_was_written_is_mapped_and_the_rest_is_zeros_with_room() {
        use std::os::unix::fs::MetadataExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("region");
        std::fs::write(&path, [9; 10_000]).unwrap();
        let region = Unmapped::create(&path, 1 << 20).unwrap();
        region.write_all_at(&[7; 8192], 4096).unwrap();
        let taken = Mapped::open(&path, &MapOptions::default()).map(drop).unwrap_err();
        assert_eq!(taken.kind(), pocketstone_vfs::MediumErrorKind::InUse, "{}", taken.message());
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 < 1 << 20);
        let held = || std::fs::metadata(&path).unwrap().blocks() * 512;
        let before = held();
        region.allocate(512 << 10, 64 << 10).unwrap();
        assert_eq!(held() - before, 64 << 10);
        region.finish().unwrap();
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20);
        drop(region);
        let (mapped, mut bytes) = (Mapped::open(&path, &MapOptions::default()).unwrap(), vec![1; 1 << 20]);
        mapped.read(0, &mut bytes);
        assert!(bytes[..4096].iter().chain(&bytes[12_288..]).all(|byte| *byte == 0));
        assert!(bytes[4096..12_288].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn more_than_there_is_room_for_is_refused_before_anything_is_written() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("region");
        let error = Unmapped::create(&path, 1 << 60).map(drop).unwrap_err();
        assert!(error.message().contains("cannot allocate") || error.message().contains("cannot give"), "{error}");
        assert!(!path.exists(), "a file that it made is gone");
    }
}
