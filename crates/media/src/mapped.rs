//! A region mapped from a file, a memory device, or anonymous memory.

use crate::copy::copy;
use crate::locked::LockedFile;
use crate::open::{self, Backing, MapOptions, Source};
use crate::present::Present;
use crate::space::{Space, can_map, largest_free};
use crate::{Error, Result};
use crate::{Persistence, Piece, Region, Shared, Window, mapping, persist, window};
use pocketstone_vfs::Context;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A mapped medium, locked against other processes while it lives.
///
/// Stores to power-safe media write back cache lines and wait for fences; stores to others are plain (unless
/// [`MapOptions::flushed`] is set), and [`Region::sync`] asks the kernel to write back.
pub struct Mapped {
    // Declared before the file: unmapped first, so that the lock covers every mapping.
    space: Space,
    file: LockedFile,
    backing: Backing,
    bytes: AtomicU64,
    growing: Mutex<()>,
    map_bytes: u64,
    prot: ProtFlags,
    flags: MapFlags,
    writable: bool,
    /// The user said so, not the kernel.
    declared: bool,
    persistence: Persistence,
    /// Stores are flushed and fenced: the memory is power-safe, or might be.
    flushed: bool,
    zeroed: bool,
    /// What was made present so far, where that costs nothing but time: pages of an ordinary file would have to be
    /// written to the disk.
    present: Option<Present>,
}

const HUGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;
/// Most address space that is reserved without being asked for.
const RESERVE_MOST: u64 = 1 << 42;

impl Mapped {
    /// Whether [`Region::sync`] has the kernel write it back. What lies in memory alone is written back nowhere.
    fn is_written_back(&self) -> bool {
        let in_memory =
            matches!(&self.backing, Backing::File { system, .. } if matches!(&**system, "tmpfs" | "hugetlbfs"));
        self.persistence == Persistence::ProcessSafe && !in_memory
    }

    /// Maps an existing file or memory device.
    ///
    /// # Errors
    /// `InUse`; `Refused` if it does not exist, is neither a file nor a memory device, or does not fit the address
    /// space.
    pub fn open(path: &Path, options: &MapOptions) -> Result<Mapped> {
        Mapped::map(open::open(path, options)?, options)
    }

    /// Creates a fully allocated file of `bytes` bytes (rounded up to whole pages) and maps it. An existing file must
    /// be empty, unless `options` allow overwriting. On a memory device, 0 bytes mean the whole device.
    ///
    /// # Errors
    /// As [`Mapped::open`]; `Refused` also if the file has contents, or its file system is full.
    pub fn create(path: &Path, bytes: u64, options: &MapOptions) -> Result<Mapped> {
        Mapped::map(open::create(path, bytes, options)?, options)
    }

    /// Zeroed private memory of this process, rounded up to whole pages. Unlike [`crate::Heap`] it can grow, and
    /// supports windows.
    ///
    /// # Errors
    /// `Failed` if the machine has less memory available, of which none is taken then; `Refused` if it does not fit the
    /// address space.
    pub fn anonymous(bytes: u64) -> Result<Mapped> {
        let map_bytes = rustix::param::page_size() as u64;
        let fd = rustix::fs::memfd_create("pocketstone", rustix::fs::MemfdFlags::CLOEXEC)
            .failed(|| "cannot get memory from the kernel".into())?;
        let file = File::from(fd);
        let rounded = bytes.max(1).checked_next_multiple_of(map_bytes).filter(|&b| i64::try_from(b).is_ok());
        let bytes = rounded.ok_or_else(|| Error::refused(format!("{bytes} bytes are more than any memory")))?;
        open::lengthen(&file, &Backing::Anonymous, map_bytes, 0, bytes)?;
        let source =
            Source { file: LockedFile::new(file), backing: Backing::Anonymous, bytes, map_bytes, zeroed: true };
        Mapped::map(source, &MapOptions::default())
    }

    /// Whether it was created zeroed by this call.
    pub fn zeroed(&self) -> bool {
        self.zeroed
    }

    /// Whether it is writable.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// The maximum size it can grow to in place.
    pub fn reserved_bytes(&self) -> u64 {
        self.space.bytes() as u64
    }

    fn map(source: Source, options: &MapOptions) -> Result<Mapped> {
        let device = matches!(source.backing, Backing::Device { .. });
        let anonymous = source.backing == Backing::Anonymous;
        if (options.persistent || device) && !persist::available() {
            let message = format!(
                "{} cannot be power-safe: user programs on this processor cannot write back cache lines",
                source.backing.name()
            );
            return Err(Error::failed(message).hint("do not declare it persistent, or use a 64-bit system"));
        }
        let space = reserve(&source, options)?;
        let mut prot = ProtFlags::READ;
        if options.writable {
            prot |= ProtFlags::WRITE;
        }
        let whole = source.bytes.next_multiple_of(source.map_bytes) as usize;
        // A synchronous mapping exists only on DAX, where what is written back needs nothing else.
        // Only a processor that can write back is helped by it.
        let synchronous = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        let dax = !anonymous
            && persist::available()
            && can_map(source.map_bytes as usize, prot, synchronous, source.file.as_fd());
        let flags = if dax { synchronous } else { MapFlags::SHARED };
        let wrong = || format!("cannot map {}", source.backing.name());
        space.map(0, whole, prot, flags, source.file.as_fd(), 0).failed(wrong)?;
        let power_safe = dax || device || options.persistent;
        let persistence = match (power_safe, anonymous) {
            (true, _) => Persistence::PowerSafe,
            (_, true) => Persistence::Volatile,
            _ => Persistence::ProcessSafe,
        };
        let Source { file, backing, bytes, map_bytes, zeroed } = source;
        let in_memory = match &backing {
            Backing::File { system, .. } => dax || system == "tmpfs",
            Backing::Device { .. } | Backing::Anonymous => true,
        };
        let present = (in_memory && options.writable).then(|| Present::none(space.bytes() as u64));
        let mapped = Mapped {
            space,
            file,
            backing,
            bytes: AtomicU64::new(bytes),
            growing: Mutex::new(()),
            map_bytes,
            prot,
            flags,
            writable: options.writable,
            declared: options.persistent && !dax && !device,
            persistence,
            flushed: power_safe || options.flushed && persist::available(),
            zeroed,
            present,
        };
        mapped.prefer_huge_pages(0, whole);
        Ok(mapped)
    }

    /// A wish only: fewer faults and a better use of the TLB where the file system has huge pages.
    fn prefer_huge_pages(&self, at: usize, bytes: usize) {
        // SAFETY: the range was just mapped; the advice changes no contents.
        let _ = unsafe { madvise(self.space.base().add(at).cast(), bytes, Advice::LinuxHugepage) };
    }

    #[inline]
    fn place(&self, at: u64, bytes: u64) -> *mut u8 {
        let inside = at.checked_add(bytes).is_some_and(|end| end <= self.bytes.load(Ordering::Acquire));
        assert!(inside, "{at}+{bytes} is outside the region");
        // SAFETY: just checked to be inside the mapping.
        unsafe { self.space.base().add(at as usize) }
    }

    /// # Safety
    /// As [`Region::write`].
    #[inline]
    unsafe fn stream_by(&self, at: u64, from: &[u8], cold: bool) {
        let to = self.place_to_store(at, from.len() as u64);
        if let Some(present) = self.present.as_ref().filter(|_| cold) {
            for part in present.absent(at, from.len() as u64) {
                self.touch(part.start, self.bytes().min(part.end) - part.start);
            }
        }
        // SAFETY: as in `write`.
        unsafe { mapping::store(to, from.as_ptr(), from.len(), self.flushed, cold) }
    }

    #[inline]
    fn place_to_store(&self, at: u64, bytes: u64) -> *mut u8 {
        assert!(self.writable, "store to a region opened read-only");
        self.place(at, bytes)
    }
}

fn no_space(bytes: u64, name: &str) -> Error {
    let free = largest_free();
    Error::failed(format!(
        "{bytes} bytes do not fit this process's address space (largest free range about {free} bytes)"
    ))
    .hint(format!("make {name} smaller, use a 64-bit system, or raise the limit that `ulimit -v` shows"))
}

/// Address space for the medium and its growth.
fn reserve(source: &Source, options: &MapOptions) -> Result<Space> {
    let bytes = source.bytes;
    let fail = || no_space(bytes.max(options.reserve_bytes.unwrap_or(0)), &source.backing.name());
    let default = if cfg!(target_pointer_width = "64") { bytes.saturating_mul(16).min(RESERVE_MOST) } else { bytes };
    let mut wanted = options.reserve_bytes.unwrap_or(default).max(bytes);
    let huge = if bytes >= GIANT { GIANT } else { HUGE }.max(source.map_bytes);
    loop {
        // Huge pages are worth having, but not worth failing for.
        for align in [huge, source.map_bytes] {
            let whole = wanted.checked_next_multiple_of(source.map_bytes).ok_or_else(fail)?;
            let (Ok(whole), Ok(align)) = (usize::try_from(whole), usize::try_from(align)) else { continue };
            if let Ok(space) = Space::reserve(whole, align) {
                return Ok(space);
            }
        }
        // Room that was asked for must be there; room that would only be nice may be less.
        if options.reserve_bytes.is_some() || wanted == bytes {
            return Err(fail());
        }
        wanted = (wanted / 2).max(bytes);
    }
}

// SAFETY: the mapping is this value's own, stays at its place until it is dropped, and only grows. Only the unsafe
// methods store to it; the file is locked against others of this kind.
unsafe impl Region for Mapped {
    #[inline]
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    fn base(&self) -> *const u8 {
        self.space.base()
    }

    fn map_bytes(&self) -> u64 {
        self.map_bytes
    }

    fn persistence(&self) -> Persistence {
        self.persistence
    }

    fn shared(&self) -> Option<Shared<'_>> {
        let (file, bytes) = (self.file.as_fd(), self.bytes());
        Some(Shared { file, bytes, flushed: self.flushed, writable: self.writable, settled: !self.is_written_back() })
    }

    fn name(&self) -> String {
        self.backing.name()
    }

    fn describe(&self) -> String {
        let what = match &self.backing {
            Backing::File { path, system } => format!("file {} on {system}", path.display()),
            Backing::Device { path, .. } => format!("memory device {}", path.display()),
            Backing::Anonymous => return "memory of this process".into(),
        };
        match (self.persistence == Persistence::PowerSafe, self.declared) {
            (true, true) => format!("{what}, declared power-safe"),
            (true, false) => format!("{what}, power-safe"),
            _ => format!("{what}, process-safe, not power-safe"),
        }
    }

    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) {
        let from = self.place(at, into.len() as u64);
        // SAFETY: `place` checked the range; `into` is memory of its own.
        unsafe { copy(from, into.as_mut_ptr(), into.len()) }
    }

    #[inline]
    unsafe fn write(&self, at: u64, from: &[u8]) {
        let to = self.place_to_store(at, from.len() as u64);
        // SAFETY: `place` checked the range, and the caller promises that there is no reference to it: so `from` is not
        // in it.
        unsafe { copy(from.as_ptr(), to, from.len()) }
    }

    #[inline]
    unsafe fn store_u64(&self, at: u64, value: u64) {
        assert!(at % 8 == 0, "{at} is not aligned to a word");
        let to = self.place_to_store(at, 8).cast::<u64>();
        // SAFETY: `place` checked the range; the base is aligned to a page and `at` to 8. Atomic,
        // because a 32-bit processor would store two halves.
        unsafe { AtomicU64::from_ptr(to) }.store(value.to_le(), Ordering::Release);
    }

    #[inline]
    unsafe fn store_u32s(&self, at: u64, values: &[u32]) {
        assert!(at % 4 == 0, "{at} is not aligned to a word of four bytes");
        let to = self.place_to_store(at, 4 * values.len() as u64).cast::<u32>();
        for (i, value) in values.iter().enumerate() {
            // SAFETY: `place` checked the range; the base is aligned to a page and `at` to 4.
            unsafe { AtomicU32::from_ptr(to.add(i)) }.store(value.to_le(), Ordering::Release);
        }
    }

    #[inline]
    unsafe fn stream(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.stream_by(at, from, false) }
    }

    #[inline]
    unsafe fn stream_fresh(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.stream_by(at, from, true) }
    }

    unsafe fn zero(&self, at: u64, bytes: u64) {
        let to = self.place_to_store(at, bytes);
        // SAFETY: `place` checked the range.
        unsafe {
            if self.flushed {
                persist::stream_zero(to, bytes as usize);
            } else {
                std::ptr::write_bytes(to, 0, bytes as usize);
            }
        }
    }

    #[inline]
    fn flush(&self, at: u64, bytes: u64) {
        if self.flushed {
            let from = self.place(at, bytes);
            // SAFETY: `place` checked the range.
            unsafe { persist::write_back(from, bytes as usize) }
        }
    }

    #[inline]
    fn fence(&self) {
        mapping::fence(self.flushed);
    }

    fn sync(&self) -> Result<()> {
        if !self.is_written_back() || !self.writable {
            return Ok(());
        }
        self.file.sync_data().failed(|| format!("cannot write back {}", self.backing.name()))
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let name = self.backing.name();
        if matches!(self.backing, Backing::Device { .. }) || !self.writable {
            let why = if self.writable { "a device has a fixed length" } else { "it was opened read-only" };
            return Err(Error::refused(format!("{name} cannot grow: {why}")));
        }
        let _alone = self.growing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let old = self.bytes();
        let fits = bytes.checked_next_multiple_of(self.map_bytes).filter(|&new| new <= self.reserved_bytes());
        let Some(new) = fits else {
            let reserved = self.reserved_bytes();
            let room = largest_free();
            let message = format!(
                "{bytes} bytes do not fit this process's address space: {reserved} bytes are reserved for {name} \
                 (largest free range about {room} bytes)"
            );
            let hint = if room > bytes { "reopen it with more address space reserved" } else { "use a 64-bit system" };
            return Err(Error::failed(message).hint(hint));
        };
        if new <= old {
            return Ok(());
        }
        open::lengthen(&self.file, &self.backing, self.map_bytes, old, new)?;
        let start = old.next_multiple_of(self.map_bytes);
        let (at, more) = (start as usize, (new - start) as usize);
        if more > 0 {
            if let Err(error) = self.space.map(at, more, self.prot, self.flags, self.file.as_fd(), start) {
                // As long as it was: nothing has seen the new bytes.
                let _ = self.file.set_len(old);
                return Err(Error::failed(format!("cannot map {more} more bytes of {name}")).because(error));
            }
            self.prefer_huge_pages(at, more);
        }
        self.bytes.store(new, Ordering::Release);
        Ok(())
    }

    fn stored(&self, at: u64) -> Option<Range<u64>> {
        let bytes = self.bytes();
        if at >= bytes {
            return None;
        }
        match self.backing {
            Backing::File { .. } => stored_in(at, bytes, |to| seek(&*self.file, to)),
            Backing::Device { .. } | Backing::Anonymous => Some(at..bytes),
        }
    }

    fn window(&self, pieces: &[Piece]) -> Option<Box<dyn Window>> {
        let mapped = self.bytes().next_multiple_of(self.map_bytes);
        for piece in pieces {
            let at = piece.at.unwrap_or(0);
            let inside = piece.at.is_none() || at.checked_add(piece.bytes).is_some_and(|end| end <= mapped);
            assert!(inside, "{at}+{} is outside the region", piece.bytes);
            let whole = at % self.map_bytes == 0 && piece.bytes % self.map_bytes == 0;
            assert!(whole, "{at}+{} is not a number of whole pages", piece.bytes);
        }
        let how =
            window::How { file: self.file.as_fd(), prot: self.prot, flags: self.flags, map_bytes: self.map_bytes };
        window::open(pieces, how)
    }

    fn touch(&self, at: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let page = rustix::param::page_size();
        let start = self.place(at, bytes);
        let first = start as usize & !(page - 1);
        let length = (start as usize + bytes as usize).next_multiple_of(page) - first;
        let first = start.wrapping_sub(start as usize - first);
        let advice = if self.writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        // SAFETY: the pages hold bytes of the region; populating changes no contents.
        if unsafe { madvise(first.cast(), length, advice) }.is_ok() {
            return;
        }
        for offset in (0..length).step_by(page) {
            // SAFETY: as above. Kernels before 5.14 need a fault for every page. Exchanging a byte
            // for itself makes the page writable and loses nothing that another thread stores.
            unsafe {
                let byte = AtomicU8::from_ptr(first.add(offset));
                let value = byte.load(Ordering::Relaxed);
                if self.writable {
                    let _ = byte.compare_exchange(value, value, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
        }
    }
}

/// What was stored of a file of so many bytes, first from an offset on, as lseek(2) tells. Some file systems do not say
/// where their holes are, and what is no file answers 0 to everything: an answer that cannot be one counts as none, and
/// without one everything was stored.
fn stored_in(at: u64, bytes: u64, seek: impl Fn(SeekFrom) -> rustix::io::Result<u64>) -> Option<Range<u64>> {
    let start = match seek(SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return None,
        start => start.ok().filter(|start| *start >= at),
    };
    let end = start.and_then(|start| seek(SeekFrom::Hole(start)).ok().filter(|end| *end > start));
    let stored = start.zip(end).map_or(at..bytes, |(start, end)| start..end.min(bytes));
    (!stored.is_empty()).then_some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_that_can_be_true_say_where_a_file_has_holes() {
        type Answer = rustix::io::Result<u64>;
        let stored = |at, data: Answer, hole: Answer| {
            stored_in(at, 100, |to| if matches!(to, SeekFrom::Data(_)) { data } else { hole })
        };
        assert_eq!(stored(0, Ok(16), Ok(32)), Some(16..32));
        assert_eq!(stored(16, Ok(16), Ok(400)), Some(16..100));
        assert_eq!((stored(0, Err(Errno::NXIO), Ok(100)), stored(0, Ok(200), Ok(300))), (None, None));
        // As /dev/dax answers.
        assert_eq!((stored(0, Ok(0), Ok(0)), stored(64, Ok(0), Ok(0))), (Some(0..100), Some(64..100)));
        assert_eq!(stored(16, Ok(32), Ok(32)), Some(16..100));
        for (data, hole) in [(Err(Errno::INVAL), Ok(9)), (Ok(9), Err(Errno::INVAL))] {
            assert_eq!(stored(8, data, hole), Some(8..100));
        }
    }
}
