//! A flash translation layer: what lets a device be written to in any order whose chip is programmed a page at a time,
//! and erased a block of pages at a time.
//!
//! Each page of the device has a place on the chip, a page of the same size. What is written goes to the next page of
//! the block that is being filled, and the page that had its content before is stale. When that block is full and no
//! other one but a last one is erased, the collector takes the block with the fewest pages that are not stale (greedy),
//! moves those, and erases it. It has spare blocks for that, of which the device's size says nothing. A discard makes
//! pages stale whose content nobody has to move any more.
//!
//! Left out on purpose: collection while the device is idle, a cache, levelling of wear beyond taking erased blocks in
//! turn, and the layer's own tables, which are in memory here and cost nothing.

use crate::block_op::BlockOp;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

/// A translation layer and its chip, as a profile describes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Translation {
    /// What the chip programs at once, in KiB: a page, or those of several chips that work as one.
    pub page_kib: u64,
    /// Pages of an erase block.
    pub block_pages: u64,
    /// Blocks that the chip has beyond those of the device's size, in percent of these, rounded up.
    pub spare_percent: u64,
    /// Time to read a page, in microseconds.
    pub read_us: u64,
    /// Time to program a page.
    pub program_us: u64,
    /// Time to erase a block.
    pub erase_us: u64,
}

/// Spare blocks without which the collector may find nothing to collect: one to fill, and one to move pages to.
const LEAST_SPARE_BLOCKS: u64 = 2;

impl Translation {
    /// Bytes of a page.
    pub fn page_bytes(&self) -> u64 {
        self.page_kib << 10
    }

    /// Bytes of an erase block.
    pub fn block_bytes(&self) -> u64 {
        self.page_bytes() * self.block_pages
    }

    /// Blocks of the chip below a device of so many bytes.
    pub fn blocks(&self, device_bytes: u64) -> u64 {
        let visible = device_bytes / self.block_bytes();
        visible + (visible * self.spare_percent).div_ceil(100)
    }

    /// What the chip's part of a command takes on a device without stale pages, if all it reads was written, and it
    /// writes nothing but whole pages.
    pub fn least_ns(&self, op: BlockOp, bytes: u64) -> u64 {
        let pages = bytes.div_ceil(self.page_bytes());
        match op {
            BlockOp::Read => pages * self.read_us * 1000,
            BlockOp::Write => pages * self.program_us * 1000,
            BlockOp::Flush | BlockOp::Discard => 0,
        }
    }

    /// How long the chip's operations take, one after the other.
    pub fn ns(&self, operations: &ChipOperations) -> u64 {
        let ChipOperations { reads, programs, erases } = operations;
        (reads * self.read_us + programs * self.program_us + erases * self.erase_us) * 1000
    }

    /// Checks that there can be such a layer below a device of so many bytes.
    ///
    /// # Errors
    /// `ErrorKind::User` if a number is out of range or does not fit the others; the hint says what would.
    pub fn check(&self, device_bytes: u64) -> Result<()> {
        let refused = |what: &str, value: u64, cure: String| {
            Err(Error::user(format!("[block.translation] {what} = {value} is not supported")).hint(cure))
        };
        let between = |what: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => refused(what, value, format!("set it between {least} and {most}")),
        };
        if !self.page_kib.is_power_of_two() || self.page_kib > 128 {
            return refused("page_kib", self.page_kib, "set it to 1, 2, 4, 8, 16, 32, 64 or 128".into());
        }
        between("block_pages", self.block_pages, 2, 4096)?;
        between("spare_percent", self.spare_percent, 1, 400)?;
        between("read_us", self.read_us, 1, 1_000_000)?;
        between("program_us", self.program_us, 1, 1_000_000)?;
        between("erase_us", self.erase_us, 1, 10_000_000)?;
        if device_bytes % self.block_bytes() != 0 {
            let cure = "set it so that the device's size is a whole number of erase blocks";
            return refused("block_pages", self.block_pages, cure.into());
        }
        let visible = device_bytes / self.block_bytes();
        if self.blocks(device_bytes) < visible + LEAST_SPARE_BLOCKS {
            let cure = format!(
                "{LEAST_SPARE_BLOCKS} spare blocks are the least: set it to more than {}, or make erase blocks smaller",
                100 / visible
            );
            return refused("spare_percent", self.spare_percent, cure);
        }
        Ok(())
    }
}

/// Numbers of a chip's operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChipOperations {
    /// Pages read.
    pub reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// What a translation layer has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranslationCounts {
    /// The chip's operations, for whatever reason.
    pub chip: ChipOperations,
    /// Bytes that the device was told to write.
    pub written_bytes: u64,
    /// Pages that the collector moved: each is a read and a program.
    pub moved_pages: u64,
    /// Pages that a discard made stale.
    pub discarded_pages: u64,
}

impl TranslationCounts {
    /// As many bytes as [`TranslationCounts::encode`] makes.
    const BYTES: usize = 48;

    /// What was done since `before`.
    #[must_use]
    pub fn since(&self, before: &TranslationCounts) -> TranslationCounts {
        TranslationCounts {
            chip: ChipOperations {
                reads: self.chip.reads - before.chip.reads,
                programs: self.chip.programs - before.chip.programs,
                erases: self.chip.erases - before.chip.erases,
            },
            written_bytes: self.written_bytes - before.written_bytes,
            moved_pages: self.moved_pages - before.moved_pages,
            discarded_pages: self.discarded_pages - before.discarded_pages,
        }
    }

    /// Bytes that were programmed for each one that was to be written; `None` where nothing was.
    pub fn write_amplification(&self, page_bytes: u64) -> Option<f64> {
        (self.written_bytes > 0).then(|| (self.chip.programs * page_bytes) as f64 / self.written_bytes as f64)
    }

    fn numbers(&self) -> [u64; 6] {
        let ChipOperations { reads, programs, erases } = self.chip;
        [reads, programs, erases, self.written_bytes, self.moved_pages, self.discarded_pages]
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.numbers().iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Reads such bytes.
    ///
    /// # Errors
    /// `ErrorKind::Board` if there are more or fewer.
    pub fn decode(bytes: &[u8]) -> Result<TranslationCounts> {
        if bytes.len() != Self::BYTES {
            return Err(Error::board("the counts of a translation layer are damaged or truncated"));
        }
        let [reads, programs, erases, written_bytes, moved_pages, discarded_pages] =
            [0, 8, 16, 24, 32, 40].map(|at| crate::bytes::u64_at(bytes, at));
        let chip = ChipOperations { reads, programs, erases };
        Ok(TranslationCounts { chip, written_bytes, moved_pages, discarded_pages })
    }
}

/// Who carries a translation layer's operations out. Pages and blocks are the chip's, by number.
pub trait Chip {
    /// Reads a page.
    fn read(&mut self, page: u32);
    /// Programs an erased page with a page of the device: what is being written, or what another page holds.
    fn program(&mut self, page: u32, of_device: u32, moved_from: Option<u32>);
    /// Erases a block.
    fn erase(&mut self, block: u32);
}

/// One that does no more than count.
impl Chip for ChipOperations {
    fn read(&mut self, _page: u32) {
        self.reads += 1;
    }

    fn program(&mut self, _page: u32, _of_device: u32, _moved_from: Option<u32>) {
        self.programs += 1;
    }

    fn erase(&mut self, _block: u32) {
        self.erases += 1;
    }
}

/// No page.
const NOWHERE: u32 = u32::MAX;

/// A translation layer at work.
#[derive(Debug, Clone)]
pub struct Translator<C> {
    chip: C,
    page_bytes: u64,
    block_pages: u32,
    /// Where on the chip each page of the device is.
    places: Vec<u32>,
    /// Which page of the device each of the chip's pages holds, if it is not erased or stale.
    holds: Vec<u32>,
    /// How many of each block's pages hold one.
    valid: Vec<u32>,
    /// Erased blocks, in the order in which they were.
    erased: VecDeque<u32>,
    /// The block that is being filled, and how many of its pages are programmed.
    filling: (u32, u32),
    written_bytes: u64,
    moved_pages: u64,
    discarded_pages: u64,
}

impl<C: Chip> Translator<C> {
    /// One below a device of so many bytes, with nothing written, on an erased chip. [`Translation::check`] must have
    /// accepted it.
    pub fn new(translation: &Translation, device_bytes: u64, chip: C) -> Translator<C> {
        let blocks = translation.blocks(device_bytes) as u32;
        let block_pages = translation.block_pages as u32;
        Translator {
            chip,
            page_bytes: translation.page_bytes(),
            block_pages,
            places: vec![NOWHERE; (device_bytes / translation.page_bytes()) as usize],
            holds: vec![NOWHERE; blocks as usize * block_pages as usize],
            valid: vec![0; blocks as usize],
            erased: (1..blocks).collect(),
            filling: (0, 0),
            written_bytes: 0,
            moved_pages: 0,
            discarded_pages: 0,
        }
    }

    /// The chip.
    pub fn chip(&self) -> &C {
        &self.chip
    }

    /// Does what a command asks for. It must not go past the device's end.
    pub fn take(&mut self, op: BlockOp, from: u64, bytes: u64) {
        match op {
            BlockOp::Read => self.read(from..from + bytes),
            BlockOp::Write => self.write(from..from + bytes),
            BlockOp::Discard => self.discard(from..from + bytes),
            // What is written is on the chip when the command is done.
            BlockOp::Flush => {}
        }
    }

    /// Pages that have a part of a range.
    fn touched(&self, range: &Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        range.start / self.page_bytes..range.end.div_ceil(self.page_bytes)
    }

    /// Reads pages that were written; of others it is known that they are zeros.
    fn read(&mut self, range: Range<u64>) {
        for page in self.touched(&range) {
            self.load(page as usize);
        }
    }

    fn load(&mut self, page: usize) {
        if self.places[page] != NOWHERE {
            self.chip.read(self.places[page]);
        }
    }

    /// Programs pages anew. What a page has beside the range is read first.
    fn write(&mut self, range: Range<u64>) {
        self.written_bytes += range.end - range.start;
        for page in self.touched(&range) {
            let start = page * self.page_bytes;
            if start < range.start || range.end < start + self.page_bytes {
                self.load(page as usize);
            }
            self.make_room();
            self.program(page as usize, None);
        }
    }

    /// Forgets whole pages; what a page has in part it keeps.
    fn discard(&mut self, range: Range<u64>) {
        let pages = range.start.div_ceil(self.page_bytes)..range.end / self.page_bytes;
        for page in pages {
            let place = std::mem::replace(&mut self.places[page as usize], NOWHERE);
            if place != NOWHERE {
                self.make_stale(place);
                self.discarded_pages += 1;
            }
        }
    }

    fn make_stale(&mut self, place: u32) {
        self.holds[place as usize] = NOWHERE;
        self.valid[(place / self.block_pages) as usize] -= 1;
    }

    /// Programs the next page of the block that is being filled, which has one.
    fn program(&mut self, page: usize, moved_from: Option<u32>) {
        let (block, programmed) = self.filling;
        let place = block * self.block_pages + programmed;
        self.filling.1 += 1;
        self.chip.program(place, page as u32, moved_from);
        let old = std::mem::replace(&mut self.places[page], place);
        if old != NOWHERE {
            self.make_stale(old);
        }
        self.holds[place as usize] = page as u32;
        self.valid[block as usize] += 1;
    }

    /// Begins the next block if the one that is being filled is full. One erased block is always left, or made.
    fn make_room(&mut self) {
        if self.filling.1 < self.block_pages {
            return;
        }
        if let Some(block) = self.erased.pop_front() {
            self.filling = (block, 0);
        }
        if self.erased.is_empty() {
            self.collect();
        }
    }

    /// Moves what the block with the fewest valid pages has into the one that is being filled, which is empty, and
    /// erases it. All the others are full, and have, as there are two spare blocks, a stale page among them: so room is
    /// left.
    fn collect(&mut self) {
        let others = (0..self.valid.len() as u32).filter(|block| *block != self.filling.0);
        let Some(victim) = others.min_by_key(|block| self.valid[*block as usize]) else { return };
        for place in victim * self.block_pages..(victim + 1) * self.block_pages {
            let page = self.holds[place as usize];
            if page != NOWHERE {
                self.chip.read(place);
                self.program(page as usize, Some(place));
                self.moved_pages += 1;
            }
        }
        self.chip.erase(victim);
        self.erased.push_back(victim);
    }
}

impl Translator<ChipOperations> {
    /// What was done so far.
    pub fn counts(&self) -> TranslationCounts {
        let Translator { chip, written_bytes, moved_pages, discarded_pages, .. } = *self;
        TranslationCounts { chip, written_bytes, moved_pages, discarded_pages }
    }
}

#[cfg(test)]
mod tests;
