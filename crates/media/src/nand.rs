//! Raw NAND flash: pages that are programmed once, blocks that are erased.
//!
//! [`Nand`] is what a chip has to offer a file system, whoever is behind it: the kernel's MTD, an image
//! file, a simulated chip. The spare area (out of band) is seen as MTD's "auto" placement has it: the bytes
//! that error correction leaves free, in their order.

mod image;
mod mtd;
mod simulated;

pub use image::{ImageLayout, ImageNand, tags};
pub use mtd::MtdNand;
pub use simulated::{Counters, SimulatedNand, SimulatedOptions, Tear, Timing};

use pocketstone_core::{Error, Result};
use std::fmt;

/// A chip's sizes. A page's number counts from the chip's start: block x `pages_per_block` + page in block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of data in a page.
    pub page_bytes: u32,
    /// Bytes of a page's spare area that are free for its user; 0: none can be used.
    pub spare_bytes: u32,
    /// Pages in an erase block.
    pub pages_per_block: u32,
    /// Erase blocks.
    pub blocks: u32,
}

impl Geometry {
    /// Pages of the whole chip.
    pub fn pages(&self) -> u32 {
        self.blocks * self.pages_per_block
    }

    /// Bytes of data in an erase block.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.page_bytes) * u64::from(self.pages_per_block)
    }

    /// Bytes of data on the whole chip.
    pub fn bytes(&self) -> u64 {
        self.block_bytes() * u64::from(self.blocks)
    }
}

/// What error correction said of a page's data. Data that is not read has no verdict: it is [`Verdict::Clean`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it was programmed, or never programmed.
    Clean,
    /// Some bits were wrong and have been put right: the block should be renewed (EUCLEAN).
    Corrected,
    /// More bits are wrong than can be put right; what was handed out is not what was programmed (EBADMSG).
    Uncorrectable,
}

/// Why a program or an erase did not happen.
#[derive(Debug)]
pub enum Fault {
    /// The chip reports failure: the block is worn out and should be marked bad.
    Failed,
    /// The medium is not there, or refuses: nothing can be done.
    Medium(Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Failed => f.write_str("the chip reports failure"),
            Fault::Medium(error) => f.write_str(&error.chain()),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Medium(error)
    }
}

/// A raw NAND chip, or a partition of one.
pub trait Nand: Send {
    /// Its sizes; they never change.
    fn geometry(&self) -> Geometry;

    /// Reads a page: `data` is empty or `page_bytes` long, `spare` at most `spare_bytes`. Both together cost one
    /// page sense. Erased bytes read as 0xFF.
    ///
    /// # Errors
    /// When the medium is not there; errors of bits are no error but a [`Verdict`].
    fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict>;

    /// Programs an erased page, once: `data` is `page_bytes` long, `spare` at most `spare_bytes`.
    ///
    /// # Errors
    /// [`Fault::Failed`] when the chip reports failure.
    fn program(&mut self, page: u32, data: &[u8], spare: &[u8]) -> Result<(), Fault>;

    /// Erases a block.
    ///
    /// # Errors
    /// [`Fault::Failed`] when the chip reports failure.
    fn erase(&mut self, block: u32) -> Result<(), Fault>;

    /// Whether a block is marked bad, in the factory or later.
    ///
    /// # Errors
    /// When the medium is not there.
    fn is_bad(&mut self, block: u32) -> Result<bool>;

    /// Marks a block bad, for ever.
    ///
    /// # Errors
    /// When it cannot be marked.
    fn mark_bad(&mut self, block: u32) -> Result<()>;

    /// Makes what was programmed durable where the medium has not done so by itself: an image file.
    ///
    /// # Errors
    /// When the kernel could not write.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    /// What it is, for people: `/dev/mtd0 (NAND 256MiB)`.
    fn describe(&self) -> String;
}
