//! Media. Storage class memory: one region of bytes that a processor loads from and stores to.
//!
//! [`Region`] is what a medium has to offer; [`Medium`] is how everything else uses one. A `Medium`
//! makes the order of persistence a matter of types: a store gives a [`Dirty`], flushing it gives a
//! [`Flushed`], a fence gives a [`Durable`], and what must not be seen before something else is
//! durable asks for that `Durable`. Raw NAND flash is in [`nand`].

mod copy;
pub mod crash;
mod heap;
mod mapped;
mod medium;
pub mod nand;
mod open;
mod pcm;
pub mod persist;
mod space;
mod window;

pub use heap::Heap;
pub use mapped::Mapped;
pub use medium::{Dirty, Durable, Flushed, Medium};
pub use open::MapOptions;
pub use pcm::{Hot, Pcm, PcmOptions, WearMap, WearSummary};

use pocketstone_core::{Error, Result};

/// Bytes that a processor's cache moves at a time, and the unit in which stores become durable.
pub const LINE_BYTES: u64 = 64;

/// What stored bytes survive, once they are flushed and fenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Loss of power: DAX with synchronous mapping, battery-backed memory, or so declared.
    PowerSafe,
    /// The death of the process, but not loss of power: files on ordinary file systems, tmpfs.
    ProcessSafe,
    /// Nothing: memory of this process alone.
    Volatile,
}

/// A part of a [`Window`], in the order of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where in the region the part lies; `None` is a part that reads as zeros.
    pub at: Option<u64>,
    /// Its length in bytes, a multiple of the region's `map_bytes`.
    pub bytes: u64,
}

/// Scattered parts of a region at consecutive addresses. Unmapped when dropped.
pub trait Window: Send + Sync {
    /// The first byte. Valid for the sum of the pieces' lengths.
    fn base(&self) -> *mut u8;
}

/// A region of storage class memory.
///
/// All offsets are bytes from the region's start. Callers keep inside [`Region::bytes`] and see to it
/// that nobody reads what another thread writes; implementations check the first and panic.
pub trait Region: Send + Sync {
    /// Length of the region in bytes.
    fn bytes(&self) -> u64;

    /// Address of the first byte; it stays the same while the region grows. Valid for loads of
    /// [`Region::bytes`] bytes. Stores go through the methods below.
    fn base(&self) -> *mut u8;

    /// Whether loading through [`Region::base`] is all there is to reading. If not (a simulated
    /// medium that charges for reads), callers use [`Region::read`].
    fn plain_reads(&self) -> bool {
        true
    }

    /// Smallest unit that can be mapped elsewhere, in bytes: the page size, 2 MiB on hugetlbfs.
    fn map_bytes(&self) -> u64;

    /// What flushed and fenced stores survive.
    fn persistence(&self) -> Persistence;

    /// What it is, for people: `file /dev/shm/volume (tmpfs)`.
    fn describe(&self) -> String;

    /// Copies bytes out of the region.
    fn read(&self, at: u64, into: &mut [u8]);

    /// Stores bytes through the cache. They become durable by `flush` and `fence`.
    fn write(&self, at: u64, from: &[u8]);

    /// Stores one aligned word at once: no crash leaves a part of it. Needs `flush` and `fence`.
    fn store_u64(&self, at: u64, value: u64);

    /// Stores bytes past the cache where the processor can. They become durable by `fence`.
    fn stream(&self, at: u64, from: &[u8]);

    /// Stores zeros, like `stream`.
    fn zero(&self, at: u64, bytes: u64);

    /// Starts the write-back of the cache lines that hold these bytes; `fence` waits for it.
    fn flush(&self, at: u64, bytes: u64);

    /// Waits until everything streamed or flushed by this thread is durable, as far as
    /// [`Region::persistence`] goes.
    fn fence(&self);

    /// Makes everything stored so far as durable as the medium can, beyond fences: writes a file's
    /// dirty pages back. Nothing to do on media that are power-safe.
    ///
    /// # Errors
    /// When the kernel could not write.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Lengthens the region in place; new bytes are zero.
    ///
    /// # Errors
    /// When the medium cannot grow, or not that far.
    fn grow(&self, bytes: u64) -> Result<()> {
        Err(Error::user(format!("{} cannot grow to {bytes} bytes", self.describe())))
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
