//! A file mapped into memory by the kernel, to be read by touching it.

use crate::Touch;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;

/// A whole file, mapped for reading.
pub struct Mapping {
    address: *mut c_void,
    bytes: usize,
}

// SAFETY: the mapping is of this process and read-only; nothing depends on the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps a file.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the file is empty or the kernel refuses.
    pub fn of(file: &OwnedFd) -> Result<Self> {
        let size = rustix::fs::fstat(file).board(|| "fstat() failed".into())?.st_size;
        let bytes = usize::try_from(size).board(|| format!("a file of {size} bytes is too large to map"))?;
        if bytes == 0 {
            return Err(Error::board("an empty file cannot be mapped"));
        }
        // SAFETY: a new mapping at an address that the kernel chooses replaces nothing.
        let address = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0)
                .board(|| format!("cannot map a file of {bytes} bytes"))?
        };
        Ok(Mapping { address, bytes })
    }

    /// Tells the kernel that the mapping's pages are wanted at random, or in no special order.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel refuses.
    pub fn advise_random(&self, random: bool) -> Result<()> {
        let advice = if random { Advice::Random } else { Advice::Normal };
        // SAFETY: the range is this mapping, and neither advice changes what it holds.
        unsafe { rustix::mm::madvise(self.address, self.bytes, advice) }.board(|| "madvise() failed".into())
    }

    /// Tells the kernel that a range will be read soon, by MADV_WILLNEED.
    pub(crate) fn advise_will_need(&self, offset: u64, bytes: u64) -> rustix::io::Result<()> {
        let length = bytes.min((self.bytes as u64).saturating_sub(offset)) as usize;
        if length == 0 {
            return Err(rustix::io::Errno::INVAL);
        }
        // SAFETY: the range is within this mapping, and the advice does not change what it holds.
        unsafe { rustix::mm::madvise(self.address.byte_add(offset as usize), length, Advice::WillNeed) }
    }

    /// Number of the file's pages in the page cache, or `None` where the kernel cannot be asked. It brings none in.
    pub fn resident_pages(&self) -> Option<u64> {
        let mut resident = vec![0u8; self.bytes.div_ceil(rustix::param::page_size())];
        // SAFETY: the range is this mapping; mincore writes one byte for each page of it into `resident`, which has
        // that many.
        let asked = unsafe { libc::mincore(self.address, self.bytes, resident.as_mut_ptr()) };
        (asked == 0).then(|| resident.iter().filter(|r| **r & 1 == 1).count() as u64)
    }
}

#[cfg(test)]
impl Mapping {
    /// Keeps the file's pages in memory while it lives: the kernel takes others back whenever it likes.
    pub(crate) fn held(self) -> Mapping {
        // SAFETY: the range is this mapping, and locking it changes nothing that it holds.
        unsafe { rustix::mm::mlock(self.address, self.bytes) }.expect("a few pages may be locked");
        self
    }
}

impl Touch for Mapping {
    /// Where a page is not mapped, that is a page fault.
    #[inline]
    fn touch(&self, offset: u64, bytes: u64) -> Result<()> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes as u64);
        let Some(end) = end else {
            return Err(Error::board(format!("{bytes} bytes at {offset} are not in a mapping of {}", self.bytes)));
        };
        // SAFETY: the range ends within the mapping, which lives as long as `self`. Nobody shortens the file while it
        // is measured, nor writes to it; a failed read of the medium ends this process by a signal.
        let range = unsafe {
            std::slice::from_raw_parts(self.address.cast::<u8>().add(offset as usize), (end - offset) as usize)
        };
        touch(range, offset);
        Ok(())
    }
}

/// Reads a byte of each page that bytes at an offset of a file are in.
#[inline]
pub(crate) fn touch(bytes: &[u8], offset: u64) {
    let page = rustix::param::page_size();
    let mut at = 0;
    while at < bytes.len() {
        // SAFETY: `at` is an index of the slice.
        unsafe { std::ptr::read_volatile(&raw const bytes[at]) };
        at = (offset as usize % page + at) / page * page + page - offset as usize % page;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, which nothing uses any more.
        let _ = unsafe { rustix::mm::munmap(self.address, self.bytes) };
    }
}
