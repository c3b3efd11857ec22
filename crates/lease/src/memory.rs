//! Memory that processes share, seen as words.

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Result;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// A mapping, which goes with this value.
pub(crate) struct Memory {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping stays where it is until the value is dropped; it is read and stored to as atomic words, or by who
// promises to do it right.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `bytes` bytes of a file that is as long. It is not inherited by a child, which has no part in what the
    /// process does, and in no core dump.
    pub fn map(file: BorrowedFd<'_>, bytes: usize, writable: bool) -> Result<Memory> {
        let prot = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe { rustix::mm::mmap(null_mut(), bytes, prot, MapFlags::SHARED, file, 0)? };
        let memory = Memory { base: base.cast(), bytes };
        for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump] {
            // SAFETY: the range was just mapped, by nobody else; the advice changes no contents.
            unsafe { rustix::mm::madvise(base, bytes, advice)? };
        }
        Ok(memory)
    }

    /// Zeros, of this process alone; a child does not have them.
    fn zeros(bytes: usize) -> Result<Memory> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, prot, MapFlags::PRIVATE)? };
        let memory = Memory { base: base.cast(), bytes };
        // SAFETY: the range was just mapped, by nobody else; the advice changes no contents.
        unsafe { rustix::mm::madvise(base, bytes, Advice::LinuxDontFork)? };
        Ok(memory)
    }

    /// Takes the memory away, which the kernel counts: it is there until this value is dropped otherwise.
    ///
    /// # Safety
    /// Nobody uses the mapping any more, nor drops this value.
    pub unsafe fn give_back(&self) {
        // SAFETY: the mapping is this value's own, and the caller's promise.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
    }

    /// Lets the kernel take from memory what it was told to keep there.
    pub fn unlock(&self) {
        // SAFETY: the range is this value's own mapping; nothing of its contents changes.
        let _ = unsafe { rustix::mm::munlock(self.base.cast(), self.bytes) };
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a byte. The range lies in the mapping, or `None`.
    #[inline]
    pub fn place(&self, at: u64, bytes: u64) -> Option<*mut u8> {
        let end = at.checked_add(bytes)?;
        // SAFETY: just checked to be inside the mapping.
        (end <= self.bytes as u64).then(|| unsafe { self.base.add(at as usize) })
    }

    /// Where an address of the mapping lies in it.
    #[inline]
    pub fn offset(&self, place: *const u8) -> u64 {
        (place.addr() - self.base.addr()) as u64
    }

    /// Has the kernel map bytes of the mapping to be stored to, at once: a fault for each page takes longer.
    pub fn expect_stores(&self, place: *const u8, bytes: usize) {
        const PAGE: u64 = 4096;
        let at = self.offset(place);
        self.populate(at / PAGE * PAGE, (at + bytes as u64).next_multiple_of(PAGE));
    }

    /// The same of whole pages, as far as they are there.
    fn populate(&self, from: u64, to: u64) {
        let to = to.min(self.bytes as u64);
        let Some(place) = to.checked_sub(from).and_then(|bytes| self.place(from, bytes)) else { return };
        // SAFETY: the range lies in the mapping; what it holds stays. Kernels that cannot do that say so.
        let _ = unsafe { rustix::mm::madvise(place.cast(), (to - from) as usize, Advice::LinuxPopulateWrite) };
    }

    /// A word. Its offset is a multiple of 8 below the length.
    #[inline]
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at % 8 == 0 && at < self.bytes, "no word of the mapping");
        // SAFETY: aligned and inside the mapping, which lives as long as `self`; others see the word as atomic, too.
        // Who mapped it to read does not store.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }
}

/// Which parts of a mapping have been made ready for stores, and stay so, as memory does. Asking for a page that is
/// there costs a fifth of asking for one that is not, and files mostly get space that others had before.
pub(crate) struct Ready {
    /// A bit for each [`Ready::CHUNK`].
    bits: Memory,
}

impl Ready {
    const CHUNK: u64 = 64 << 10;

    /// Nothing of so many bytes.
    pub fn new(bytes: usize) -> Result<Ready> {
        let words = (bytes as u64).div_ceil(Self::CHUNK * 64).max(1) as usize;
        Memory::zeros(words * 8).map(|bits| Ready { bits })
    }

    /// Makes bytes of a mapping ready, and the chunks around them.
    pub fn expect_stores(&self, memory: &Memory, place: *const u8, bytes: usize) {
        let at = memory.offset(place);
        let end = (at + bytes as u64).div_ceil(Self::CHUNK);
        let mut from = at / Self::CHUNK;
        while from < end {
            let run = (from..end).take_while(|chunk| self.take(*chunk)).count() as u64;
            if run > 0 {
                memory.populate(from * Self::CHUNK, (from + run) * Self::CHUNK);
            }
            from += run.max(1);
        }
    }

    /// Whether a chunk was not ready; it is from now on.
    fn take(&self, chunk: u64) -> bool {
        let at = (chunk / 64 * 8) as usize;
        let bit = 1 << (chunk % 64);
        at < self.bits.bytes() && self.bits.word(at).fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

/// Pairs of words in memory of their own, for numbers, which are spread over them: zeros at first. A session is moved
/// around before it has a place, on stacks that may be small.
pub(crate) struct Pairs<const N: usize>(Memory);

impl<const N: usize> Pairs<N> {
    pub fn new() -> Result<Pairs<N>> {
        Memory::zeros(N * 16).map(Pairs)
    }

    /// The pair of a number.
    pub fn of(&self, number: u64) -> (&AtomicU64, &AtomicU64) {
        let at = number as usize % N * 16;
        (self.0.word(at), self.0.word(at + 8))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nobody can reach it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
    }
}

/// Memory to share: zeroed, of a length that stays.
pub(crate) fn create(name: &str, bytes: usize) -> Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, bytes as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// From now on nobody can make a mapping by which it could be changed; the ones that there are stay.
pub(crate) fn freeze(file: &OwnedFd) -> Result<()> {
    rustix::fs::fcntl_add_seals(file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
}

/// An open file of its own, to read.
pub fn reopen(file: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::FallocateFlags;

    /// Where the file has memory: that was asked for, or stored to.
    fn present(file: &OwnedFd, bytes: u64) -> Vec<(u64, u64)> {
        use rustix::fs::SeekFrom::{Data, Hole};
        let (mut parts, mut at) = (Vec::new(), 0);
        while let Ok(from) = rustix::fs::seek(file, Data(at)) {
            at = rustix::fs::seek(file, Hole(from)).unwrap();
            parts.push((from, at));
            assert!(at <= bytes);
        }
        parts
    }

    #[test]
    fn what_is_expected_to_be_stored_to_is_made_ready_once_in_chunks() {
        const BYTES: usize = 1_000_000 / 4096 * 4096;
        let file = create("ready", BYTES).unwrap();
        let memory = Memory::map(file.as_fd(), BYTES, true).unwrap();
        // SAFETY: the range is the mapping, which holds nothing yet.
        unsafe { rustix::mm::madvise(memory.base.cast(), BYTES, Advice::LinuxNoHugepage).unwrap() };
        let ready = Ready::new(BYTES).unwrap();
        let expect = |at: u64, bytes: usize| {
            ready.expect_stores(&memory, memory.place(at, bytes as u64).unwrap(), bytes);
            present(&file, BYTES as u64)
        };
        assert_eq!(expect(70_000, 10), [(65_536, 131_072)]);
        assert_eq!(expect(131_071, 2), [(65_536, 196_608)]);
        // Up to the end, which is no chunk's.
        assert_eq!(expect(BYTES as u64 - 1, 1), [(65_536, 196_608), (983_040, BYTES as u64)]);
        // What somebody has taken away since is not asked for again.
        rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 65_536, 65_536).unwrap();
        assert_eq!(expect(0, 200_000), [(0, 65_536), (131_072, 262_144), (983_040, BYTES as u64)]);
    }
}
