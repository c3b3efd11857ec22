//! Address space: reserved first, then filled with mappings.

use rustix::io::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::os::fd::BorrowedFd;

/// A range of addresses of this process's own. Unmapped, with all that was mapped in it, when dropped.
pub(crate) struct Space {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: a range of addresses belongs to the process, not to a thread.
unsafe impl Send for Space {}
// SAFETY: as above; the methods only call the kernel.
unsafe impl Sync for Space {}

impl Space {
    /// Reserves `bytes` addresses from a multiple of `align`, a power of two. Costs no memory.
    pub(crate) fn reserve(bytes: usize, align: usize) -> Result<Space> {
        let page = rustix::param::page_size();
        let bytes = bytes.checked_next_multiple_of(page).ok_or(rustix::io::Errno::NOMEM)?;
        let spare = align.saturating_sub(page);
        let whole = bytes.checked_add(spare).ok_or(rustix::io::Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is given, so nothing that is mapped already is touched.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), whole, ProtFlags::empty(), flags)? }.cast::<u8>();
        let head = (start as usize).wrapping_neg() & (align.max(page) - 1);
        // SAFETY: head and tail lie in the range just reserved, which nobody else knows. Unmapping a
        // part can only fail for want of kernel memory, and then costs addresses, nothing else.
        unsafe {
            if head > 0 {
                let _ = munmap(start.cast(), head);
            }
            if spare > head {
                let _ = munmap(start.add(head + bytes).cast(), spare - head);
            }
            Ok(Space { base: start.add(head), bytes })
        }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Maps a file's bytes at an offset of the range, in place of what is there. The flags must be
    /// known to suit the file: the kernel may unmap the place before it finds that they do not, and
    /// another thread's mapping may then land in the hole.
    pub(crate) fn map(
        &self,
        at: usize,
        bytes: usize,
        prot: ProtFlags,
        flags: MapFlags,
        file: BorrowedFd<'_>,
        offset: u64,
    ) -> Result<()> {
        self.check(at, bytes);
        // SAFETY: `check` made sure that only addresses of this range are replaced; callers hand
        // out pointers into the range for what they have mapped, and never map over that.
        let done = unsafe { mmap(self.base.add(at).cast(), bytes, prot, flags | MapFlags::FIXED, file, offset) };
        done.map(|_| ()).inspect_err(|_| self.plug(at, bytes))
    }

    /// Makes a part of the range read as zeros.
    pub(crate) fn map_zeros(&self, at: usize, bytes: usize) -> Result<()> {
        self.check(at, bytes);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: as in `map`.
        let done = unsafe { mmap_anonymous(self.base.add(at).cast(), bytes, ProtFlags::READ, flags) };
        done.map(|_| ()).inspect_err(|_| self.plug(at, bytes))
    }

    /// Reserves a part again that a failed mapping may have left as a hole, before anybody else
    /// takes it. Without a hole, this does nothing.
    fn plug(&self, at: usize, bytes: usize) {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: nothing that is mapped is replaced. When it fails, the place is mapped still.
        let _ = unsafe { mmap_anonymous(self.base.add(at).cast(), bytes, ProtFlags::empty(), flags) };
    }

    fn check(&self, at: usize, bytes: usize) {
        assert!(at.checked_add(bytes).is_some_and(|end| end <= self.bytes), "mapping outside the reserved range");
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // SAFETY: the range is this value's own; whoever holds pointers into it borrows the owner.
        // Failure would leave addresses in use, which nothing can be done about.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}

/// Whether the file can be mapped with these flags: tried at a place of its own, see [`Space::map`].
pub(crate) fn can_map(bytes: usize, prot: ProtFlags, flags: MapFlags, file: BorrowedFd<'_>) -> bool {
    // SAFETY: no address is given, so nothing is replaced.
    let Ok(start) = (unsafe { mmap(std::ptr::null_mut(), bytes, prot, flags, file, 0) }) else { return false };
    // SAFETY: nobody else knows of the new mapping. A failure would cost addresses, nothing else.
    let _ = unsafe { munmap(start, bytes) };
    true
}

/// About the largest number of consecutive free addresses. Read, not tried out: for a moment that
/// would leave nothing for other threads.
pub(crate) fn largest_free() -> u64 {
    std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| largest_gap(&maps))
}

/// The largest gap below a mapping, in the kernel's list of them.
fn largest_gap(maps: &str) -> u64 {
    // The lowest addresses are kept from user programs; 64 KiB is the usual limit.
    let (mut end, mut largest) = (64 << 10, 0u64);
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let Some((Ok(from), Ok(to))) = range.map(|(a, b)| (u64::from_str_radix(a, 16), u64::from_str_radix(b, 16)))
        else {
            continue;
        };
        // On 64-bit processors, what lies in the upper half is the kernel's.
        if from < 1 << 63 {
            largest = largest.max(from.saturating_sub(end));
            end = to;
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_aligned_and_bounded() {
        for align in [4096, 2 << 20, 1 << 30] {
            let space = Space::reserve(5000, align).unwrap();
            assert_eq!(space.base() as usize % align, 0);
            assert_eq!(space.bytes(), 8192);
        }
        // More than any processor leaves to a program, of 32 bits too.
        assert!(Space::reserve(usize::MAX / 16 * 15, 1).is_err());
    }

    #[test]
    fn the_largest_gap_is_found_among_the_mappings() {
        let maps = "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/dbus-daemon\n\
                    7f0000000000-7f0000021000 rw-p 00000000 00:00 0\n\
                    7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]\n\
                    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
        assert_eq!(largest_gap(maps), 0x7f00_0000_0000 - 0x45_2000);
        assert_eq!(largest_gap(""), 0);
        let free = largest_free();
        assert!(free > 64 << 20 && free < 1 << 57, "{free}");
    }
}
