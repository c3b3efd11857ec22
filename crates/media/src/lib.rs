//! Storage media. Storage class memory is one byte-addressable region.
//!
//! [`Region`] is what a medium has to offer; [`Medium`] is how everything else uses one. A `Medium`
//! makes the order of persistence a matter of types: a store gives a [`Dirty`], flushing it gives a
//! [`Flushed`], a fence gives a [`Durable`], and what must not be seen before something else is
//! durable asks for that `Durable`. Stores are unsafe: nobody else may look at the bytes meanwhile, which only
//! their owner can know. Raw NAND flash is in [`nand`].
//!
#![doc = include_str!("../README.md")]

mod copy;
pub mod crash;
mod gate;
mod heap;
mod locked;
mod mapped;
pub mod mapping;
pub mod marked;
mod medium;
pub mod nand;
mod open;
mod pcm;
pub mod persist;
mod present;
pub mod size_record;
mod space;
mod stores;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod timing;
mod token;
mod tracked;
mod tracker;
mod unmapped;
mod watched;
mod window;

pub use heap::Heap;
pub use mapped::Mapped;
pub use medium::Medium;
pub use open::{MapOptions, map_bytes_at};
pub use pcm::{Hot, Pcm, PcmOptions, PcmRegion, WearMap, WearSummary};
pub use token::{Dirty, Durable, Flushed};
pub use tracked::Tracked;
pub use tracker::{NoSnapshot, Operation, Snapshot, TRACKED_BYTES, Tracker};
pub use unmapped::Unmapped;
pub use watched::{Observer, Touch, Watched};

pub use pocketstone_vfs::MediumError as Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Size of a cache line, the unit in which stores become durable.
pub const LINE_BYTES: u64 = 64;

/// What flushed and fenced bytes survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Power loss: DAX with synchronous mapping, battery-backed memory, or declared so.
    PowerSafe,
    /// Process death, but not power loss: files on ordinary file systems, tmpfs.
    ProcessSafe,
    /// Nothing: private memory of this process.
    Volatile,
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Persistence::PowerSafe => "power-safe",
            Persistence::ProcessSafe => "process-safe",
            Persistence::Volatile => "volatile",
        })
    }
}

/// A part of a [`Window`], in the order of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where in the region the part lies; `None` is a part that reads as zeros.
    pub at: Option<u64>,
    /// Its length in bytes, a multiple of the region's `map_bytes`.
    pub bytes: u64,
}

/// A region as other processes can map it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Shared<'a> {
    file: BorrowedFd<'a>,
    /// Length of the region in bytes.
    pub bytes: u64,
    /// Stores are flushed and fenced.
    pub flushed: bool,
    /// It was opened for writing.
    pub writable: bool,
    /// What was stored and fenced has nothing to wait for any more: [`Region::sync`] does nothing.
    pub settled: bool,
}

impl<'a> Shared<'a> {
    /// The file, from its first byte on. Its open file description holds the lock that keeps a second owner away.
    ///
    /// # Safety
    /// Its bytes are the region's. Whoever stores to them by this descriptor, or by what is made of it (a copy, a
    /// mapping, what is sent to another process), keeps to what [`Region::write`] asks for; the file is not truncated
    /// by it, and the lock is not released.
    pub unsafe fn file(&self) -> BorrowedFd<'a> {
        self.file
    }
}

/// Scattered parts of a region at consecutive addresses. Unmapped when dropped.
///
/// # Safety
///
/// Whoever implements it promises that [`Window::base`] returns the same address for as long as the window lives, and
/// that as many bytes as the pieces have together can be loaded from there meanwhile. As long as the region lives, too,
/// they change only when the region's own bytes are stored to.
pub unsafe trait Window: Send + Sync {
    /// The first byte.
    fn base(&self) -> *const u8;
}

/// A region of storage class memory.
///
/// All offsets are bytes from the region's start. Callers keep inside [`Region::bytes`]; implementations check that,
/// and panic.
///
/// # Safety
///
/// Whoever implements it promises that
///
/// * [`Region::base`] returns the same address for as long as the region lives, and that [`Region::bytes`] bytes, which
///   never become fewer, can be loaded from there meanwhile;
/// * they change by nothing but the unsafe methods of this very value: no second value stores to the same bytes while
///   this one lives, and no safe method does;
/// * the windows that it gives are of these bytes.
///
/// What a process outside does to a file that is mapped is the user's responsibility; [`Mapped`] takes a lock that
/// others of its kind respect.
pub unsafe trait Region: Send + Sync {
    /// Length of the region in bytes.
    fn bytes(&self) -> u64;

    /// Address of the first byte; it stays the same while the region grows. Stores go through the methods below.
    fn base(&self) -> *const u8;

    /// Whether loading through [`Region::base`] is all there is to reading. If not (a simulated
    /// medium that charges for reads), callers use [`Region::read`].
    fn plain_reads(&self) -> bool {
        true
    }

    /// Smallest unit that can be mapped elsewhere, in bytes: the page size, 2 MiB on hugetlbfs.
    fn map_bytes(&self) -> u64;

    /// What flushed and fenced stores survive.
    fn persistence(&self) -> Persistence;

    /// What another process can map to have the same bytes; `None` if there is no such thing.
    fn shared(&self) -> Option<Shared<'_>> {
        None
    }

    /// What knows of every store to it; `None`: nothing does.
    fn tracker(&self) -> Option<&Arc<Tracker>> {
        None
    }

    /// What it is called, for people: `/dev/shm/volume`.
    fn name(&self) -> String {
        self.describe()
    }

    /// What it is, for people: `file /dev/shm/volume on tmpfs, process-safe, not power-safe`.
    fn describe(&self) -> String;

    /// The first bytes from `at` on that may be other than zeros; `None`: all are zeros up to the end.
    fn stored(&self, at: u64) -> Option<Range<u64>> {
        (at < self.bytes()).then(|| at..self.bytes())
    }

    /// Copies bytes out of the region.
    fn read(&self, at: u64, into: &mut [u8]);

    /// Stores bytes through the cache. They become durable by `flush` and `fence`.
    ///
    /// # Safety
    /// While it runs nobody else loads or stores these bytes, and there is no reference to them: none made from
    /// [`Region::base`], and none from a window.
    unsafe fn write(&self, at: u64, from: &[u8]);

    /// Stores one aligned word at once: no crash leaves a part of it. Needs `flush` and `fence`.
    ///
    /// # Safety
    /// As [`Region::write`].
    unsafe fn store_u64(&self, at: u64, value: u64);

    /// Stores aligned words of four bytes through the cache: no crash leaves a part of one, and what lies beside them
    /// is not touched. Need `flush` and `fence`.
    ///
    /// # Safety
    /// As [`Region::write`].
    unsafe fn store_u32s(&self, at: u64, values: &[u32]) {
        for (i, value) in values.iter().enumerate() {
            // SAFETY: the caller's promise, for a part of its bytes.
            unsafe { self.write(at + 4 * i as u64, &value.to_le_bytes()) };
        }
    }

    /// Stores bytes, past the cache where the processor can and where durability or speed asks for it. They become
    /// durable by `fence`.
    ///
    /// # Safety
    /// As [`Region::write`].
    unsafe fn stream(&self, at: u64, from: &[u8]);

    /// Stores bytes, like `stream`, where nothing was read or stored lately: so they are probably in no cache.
    ///
    /// # Safety
    /// As [`Region::write`].
    unsafe fn stream_fresh(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.stream(at, from) }
    }

    /// Stores zeros, like `stream`.
    ///
    /// # Safety
    /// As [`Region::write`].
    unsafe fn zero(&self, at: u64, bytes: u64);

    /// Starts the write-back of the cache lines that hold these bytes; `fence` waits for it.
    fn flush(&self, at: u64, bytes: u64);

    /// Waits until everything streamed or flushed by this thread is durable, as far as
    /// [`Region::persistence`] goes.
    fn fence(&self);

    /// Makes everything stored so far as durable as the medium can, beyond fences: writes a file's
    /// dirty pages back. Nothing to do on media that are power-safe.
    ///
    /// # Errors
    /// `Failed` if the kernel cannot write back.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Lengthens the region in place; new bytes are zero.
    ///
    /// # Errors
    /// `Refused` if the medium cannot grow, or not that far.
    fn grow(&self, bytes: u64) -> Result<()> {
        Err(Error::refused(format!("{} cannot grow to {bytes} bytes", self.describe())))
    }

    /// Makes the pages that hold these bytes present and writable now, so that no store has to wait
    /// for them later. Changes no contents; does nothing where that is meaningless.
    fn touch(&self, at: u64, bytes: u64) {
        let _ = (at, bytes);
    }

    /// Maps pieces of the region at consecutive addresses. `None` when this medium has no second
    /// mapping, or the kernel gives no more.
    fn window(&self, pieces: &[Piece]) -> Option<Box<dyn Window>> {
        let _ = pieces;
        None
    }
}
