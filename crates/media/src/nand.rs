//! Raw NAND flash.
//!
//! [`Nand`] is the interface of a chip to a file system, implemented by the kernel's MTD, image files and a simulated
//! chip. The spare area (out of band) is presented as in MTD's "auto" placement: the bytes left free by ECC, in order.

mod image;
mod mtd;
mod raw;
mod simulated;

pub use image::{ImageLayout, ImageNand, tags, yaffs1};
pub use mtd::MtdNand;
pub use raw::{RawChip, RawGeometry};
pub use simulated::{Counters, SimulatedNand, SimulatedOptions, Tear, Timing};

use crate::{Error, Result};
use std::fmt;

/// What a chip is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading alone, beside others who read.
    Read,
    /// Reading and writing, alone.
    Write,
}

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

/// How many blocks of how many pages a chip has, in words.
fn blocks_of_pages(blocks: u32, pages: u32) -> String {
    let counted = |count: u32, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    format!("{} of {}", counted(blocks, "block"), counted(pages, "page"))
}

/// The ECC status of a page's data; [`Verdict::Clean`] if no data was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No bit errors, or never programmed.
    Clean,
    /// Bit errors were corrected: the block should be refreshed (EUCLEAN).
    Corrected,
    /// Uncorrectable bit errors: the returned data is wrong (EBADMSG).
    Uncorrectable,
}

/// The error of a program or an erase.
#[derive(Debug)]
pub enum Fault {
    /// The chip reported a failure: the block is worn out and should be marked bad.
    Failed,
    /// The medium is unavailable or refused the operation.
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
    /// `Failed` if the medium is unavailable; bit errors are reported as a [`Verdict`] instead.
    fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict>;

    /// Programs an erased page, once: `data` is `page_bytes` long, `spare` at most `spare_bytes`.
    ///
    /// # Errors
    /// [`Fault::Failed`] if the chip reports failure.
    fn program(&mut self, page: u32, data: &[u8], spare: &[u8]) -> Result<(), Fault>;

    /// Erases a block.
    ///
    /// # Errors
    /// [`Fault::Failed`] if the chip reports failure.
    fn erase(&mut self, block: u32) -> Result<(), Fault>;

    /// Whether a block is marked bad, by the factory or later.
    ///
    /// # Errors
    /// `Failed` if the medium is unavailable.
    fn is_bad(&mut self, block: u32) -> Result<bool>;

    /// Marks a block bad permanently.
    ///
    /// # Errors
    /// `Failed` if it cannot be marked; `Refused` if the layout has no space for marks.
    fn mark_bad(&mut self, block: u32) -> Result<()>;

    /// Makes programmed data durable, if the medium does not do so itself, as for an image file.
    ///
    /// # Errors
    /// `Failed` if the kernel cannot write back.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    /// A human-readable description: `/dev/mtd0 (NAND 256MiB)`.
    fn describe(&self) -> String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_is_no_blocks() {
        for (blocks, pages_per_block, words) in [(1, 64, "1 block of 64 pages of"), (2, 1, "2 blocks of 1 page of")] {
            let geometry = Geometry { page_bytes: 512, spare_bytes: 16, pages_per_block, blocks };
            let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
            assert_eq!(chip.describe(), format!("simulated NAND, {words} 512+16 bytes"));
        }
    }
}
