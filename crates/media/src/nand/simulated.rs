//! A simulated NAND chip in memory, with timing on a virtual clock and faults. Its times are modelled, not measured.
//!
//! The fault model:
//!
//! - **Order.** A page is programmed once between two erases of its block, and the pages of a block in ascending
//!   order; pages may be left out. Anything else is a defect of the caller and refused with an error that says so.
//!   So is programming or erasing a block that is marked bad.
//! - **Bad blocks** are marked from the start ([`SimulatedOptions::factory_bad`]) or later ([`Nand::mark_bad`]). They
//!   can be read.
//! - **Bit flips.** Error correction puts right up to [`SimulatedOptions::ecc_bits`] wrong bits of a page's data: the
//!   verdict is `Corrected`. With more it is `Uncorrectable`, and the wrong data is handed out. It does not cover the
//!   spare area: wrong bits there are handed out as they are. Bits flip where [`SimulatedNand::flip_data`] and
//!   [`SimulatedNand::flip_spare`] say so, or at random as pages are programmed.
//! - **Failures.** A program or erase that fails says `Failed` and leaves what an interrupted one may leave. Pages
//!   and blocks that always fail are named, others fail at random.
//! - **Loss of power** ([`SimulatedNand::cut_at`]) interrupts a program, an erase, or the marking of a bad block. From
//!   then on everything fails until [`SimulatedNand::power_on`].
//!   - A program leaves nothing; a prefix of the page's bits, spare area last; the data without the spare area; the
//!     spare area without the data; or the whole page.
//!   - An erase leaves everything; some of the block's zero bits turned into ones, from a sixteenth of them to nearly
//!     all; or an erased block.
//!   - A mark is there or not.
//!   - A page between two states reads as `Uncorrectable` where any of its bits is 0. Where all are 1 it looks erased:
//!     one in [`STUCK_ONE_IN`] of those has bits that will read as 0 once the page is programmed.
//! - Reading disturbs nothing, and data does not fade by itself.
//!
//! Everything random comes from seeds.

mod chip;
mod dump;
mod page;
#[cfg(test)]
mod tests;

use super::{Fault, Geometry, ImageLayout, Nand, Verdict, blocks_of_pages};
use crate::Result;
use chip::Chip;
use pocketstone_vfs::setters;
use std::sync::{Arc, Mutex, MutexGuard};

/// One in so many pages that look erased after an interruption has bits stuck at 0.
pub const STUCK_ONE_IN: u64 = 8;

/// How long a chip takes. A read takes `sense_ns` and `byte_ns` for every byte of data and spare area handed out, so
/// that reading the spare area alone saves the transfer of the data but no sense. A program takes `byte_ns` for every
/// byte handed in and `program_ns`; marking a bad block is a program of two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From the cells into the chip's page register, in nanoseconds.
    pub sense_ns: u64,
    /// A byte over the bus, in either direction.
    pub byte_ns: u64,
    /// From the page register into the cells.
    pub program_ns: u64,
    /// A block's erase.
    pub erase_ns: u64,
}

impl Default for Timing {
    /// The chip of the EWiLi'14 read-ahead paper, as `devices/virt-nand.toml` has it: 25 us, 51 ns, 200 us, 2 ms.
    fn default() -> Timing {
        Timing { sense_ns: 25_000, byte_ns: 51, program_ns: 200_000, erase_ns: 2_000_000 }
    }
}

/// Operation counts of a chip since its creation.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads of data, with or without the spare area.
    pub page_senses: u64,
    /// Reads of the spare area alone.
    pub spare_senses: u64,
    /// Programs, those that failed or were cut among them.
    pub programs: u64,
    /// Erases, those that failed or were cut among them.
    pub erases: u64,
}

/// The state that a power loss leaves of the interrupted operation. For erases, `DataAlone` and `SpareAlone` mean
/// `Part`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tear {
    /// One of the others, from a seed.
    Seeded(u64),
    /// As if it had not begun.
    Nothing,
    /// A prefix of a page's bits, some of a block's bits; which ones comes from the seed.
    Part(u64),
    /// A page's data, and an erased spare area.
    DataAlone,
    /// A page's spare area, and erased data.
    SpareAlone,
    /// As if the power had stayed.
    Whole,
}

/// Properties of a chip besides its geometry.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct SimulatedOptions {
    /// How long everything takes.
    pub timing: Timing,
    /// Wrong bits in a page's data that are put right.
    pub ecc_bits: u32,
    /// Blocks that are bad from the start.
    pub factory_bad: Vec<u32>,
    /// Where the random faults below come from.
    pub seed: u64,
    /// One program in so many fails; 0: none.
    pub program_failure_one_in: u64,
    /// One erase in so many fails; 0: none.
    pub erase_failure_one_in: u64,
    /// One programmed page in so many has flipped bits of data, 1 to `ecc_bits`; 0: none.
    pub weak_page_one_in: u64,
}

impl Default for SimulatedOptions {
    /// The paper's timing, four bits put right, no faults.
    fn default() -> SimulatedOptions {
        SimulatedOptions {
            timing: Timing::default(),
            ecc_bits: 4,
            factory_bad: Vec::new(),
            seed: 0,
            program_failure_one_in: 0,
            erase_failure_one_in: 0,
            weak_page_one_in: 0,
        }
    }
}

impl SimulatedOptions {
    setters! {
        timing: Timing,
        ecc_bits: u32,
        factory_bad: impl Into<Vec<u32>>,
        seed: u64,
        program_failure_one_in: u64,
        erase_failure_one_in: u64,
        weak_page_one_in: u64,
    }
}

/// A handle of a chip in memory; `docs/nand.md` has its fault model. Its clones are handles of the same chip, so that a
/// test keeps one while a file system owns another; [`SimulatedNand::snapshot`] makes another chip. Pages take memory
/// once they are programmed.
#[derive(Clone)]
pub struct SimulatedNand {
    chip: Arc<Mutex<Chip>>,
}

impl SimulatedNand {
    /// An erased chip.
    ///
    /// # Panics
    /// If a size is 0, or the chip has more pages than a `u32` can count, or a factory bad block does not exist.
    pub fn new(geometry: Geometry, options: SimulatedOptions) -> SimulatedNand {
        Self::of(Chip::new(geometry, options))
    }

    fn of(chip: Chip) -> SimulatedNand {
        SimulatedNand { chip: Arc::new(Mutex::new(chip)) }
    }

    fn chip(&self) -> MutexGuard<'_, Chip> {
        // A panic of another thread while it held the lock leaves a chip like any other.
        self.chip.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A copy of the chip in its present state, clock, planned faults and all. Both share the pages that neither
    /// changes.
    pub fn snapshot(&self) -> SimulatedNand {
        Self::of(self.chip().clone())
    }

    /// The virtual clock: nanoseconds that everything done so far would have taken. Modelled.
    pub fn clock_ns(&self) -> u64 {
        self.chip().clock_ns
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.chip().counters
    }

    /// How often each block was erased, by block number.
    pub fn block_erases(&self) -> Vec<u32> {
        self.chip().block_erases()
    }

    /// Cuts the power in the `n`-th program, erase or marking from now; 1 is the next one.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn cut_at(&self, n: u64, tear: Tear) {
        assert!(n > 0, "the power cannot fail in a past operation");
        self.chip().cut = Some((n, tear));
    }

    /// Restores the power and cancels a pending power loss.
    pub fn power_on(&self) {
        self.chip().power_on();
    }

    /// Whether the power is there.
    pub fn is_on(&self) -> bool {
        self.chip().is_on()
    }

    /// Every program of this page fails from now on.
    pub fn fail_program(&self, page: u32) {
        self.chip().failing_pages.insert(page);
    }

    /// Every erase of this block fails from now on.
    pub fn fail_erase(&self, block: u32) {
        self.chip().failing_blocks.insert(block);
    }

    /// Flips so many bits of a page's data that have not flipped yet; which ones comes from the seed. In an erased
    /// page they stay at 0 when it is programmed. An erase heals them.
    ///
    /// # Panics
    /// If the page does not exist or has not as many bits left.
    pub fn flip_data(&self, page: u32, bits: u32, seed: u64) {
        self.chip().flip_data(page, bits, seed);
    }

    /// Flips one bit of a page's spare area: bit `bit % 8` of byte `bit / 8`.
    ///
    /// # Panics
    /// If the page or the bit does not exist.
    pub fn flip_spare(&self, page: u32, bit: u32) {
        self.chip().flip_spare(page, bit);
    }

    /// How [`SimulatedNand::image`] lays out a page: the spare area is a 32nd of the page or as much more as it needs;
    /// free bytes from its third one on, as Linux has them; the mark of a bad block in the first two.
    pub fn layout(&self) -> ImageLayout {
        dump::layout(&self.chip().geometry)
    }

    /// Every page as `nanddump --oob --bb=dumpbad` would write it, in [`SimulatedNand::layout`]: data as error
    /// correction hands it out, then the spare area. Costs no virtual time.
    pub fn image(&self) -> Vec<u8> {
        dump::image(&self.chip())
    }

    /// Replaces the contents, bad blocks' marks among them, by an image in [`SimulatedNand::layout`]. Pages that the
    /// image lacks are erased; a page is erased if all of it is 0xFF. Costs no virtual time.
    ///
    /// # Errors
    /// `Refused` if the image has more pages than the chip or ends within one.
    pub fn load(&self, image: &[u8]) -> Result<()> {
        dump::load(&mut self.chip(), image)
    }
}

impl Nand for SimulatedNand {
    fn geometry(&self) -> Geometry {
        self.chip().geometry
    }

    fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict> {
        self.chip().read(page, data, spare)
    }

    fn program(&mut self, page: u32, data: &[u8], spare: &[u8]) -> Result<(), Fault> {
        self.chip().program(page, data, spare)
    }

    fn erase(&mut self, block: u32) -> Result<(), Fault> {
        self.chip().erase(block)
    }

    fn is_bad(&mut self, block: u32) -> Result<bool> {
        self.chip().is_bad(block)
    }

    fn mark_bad(&mut self, block: u32) -> Result<()> {
        self.chip().mark_bad(block)
    }

    fn describe(&self) -> String {
        let Geometry { page_bytes, spare_bytes, pages_per_block, blocks } = self.geometry();
        let blocks = blocks_of_pages(blocks, pages_per_block);
        format!("simulated NAND, {blocks} of {page_bytes}+{spare_bytes} bytes")
    }
}
