//! The chip behind the handles of a simulated NAND.

use super::page::{Page, State};
use super::{Counters, Fault, Geometry, SimulatedOptions, Tear, Verdict};
use crate::{Error, Result};
use pocketstone_random::Random;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Default)]
pub(super) struct Block {
    /// Empty, or one for each page of the block; `None` is erased.
    pages: Vec<Option<Arc<Page>>>,
    /// The first page that may be programmed.
    next: u32,
    pub(super) bad: bool,
    erases: u32,
}

#[derive(Clone)]
pub(super) struct Chip {
    pub(super) geometry: Geometry,
    options: Arc<SimulatedOptions>,
    pub(super) blocks: Vec<Arc<Block>>,
    pub(super) clock_ns: u64,
    pub(super) counters: Counters,
    pub(super) failing_pages: BTreeSet<u32>,
    pub(super) failing_blocks: BTreeSet<u32>,
    pub(super) cut: Option<(u64, Tear)>,
    on: bool,
    random: Random,
}

impl Chip {
    pub(super) fn new(geometry: Geometry, options: SimulatedOptions) -> Chip {
        let Geometry { page_bytes, pages_per_block, blocks, .. } = geometry;
        assert!(page_bytes > 0 && pages_per_block > 0 && blocks > 0, "a chip has pages: {geometry:?}");
        assert!(pages_per_block.checked_mul(blocks).is_some(), "too many pages: {geometry:?}");
        // All share one until they are written to.
        let erased = Arc::new(Block::default());
        let mut all = vec![erased; blocks as usize];
        for &block in &options.factory_bad {
            Arc::make_mut(&mut all[block as usize]).bad = true;
        }
        Chip {
            geometry,
            random: Random::labelled(options.seed, "simulated NAND"),
            options: Arc::new(options),
            blocks: all,
            clock_ns: 0,
            counters: Counters::default(),
            failing_pages: BTreeSet::new(),
            failing_blocks: BTreeSet::new(),
            cut: None,
            on: true,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn power_on(&mut self) {
        self.on = true;
        self.cut = None;
    }

    pub(super) fn block_erases(&self) -> Vec<u32> {
        self.blocks.iter().map(|block| block.erases).collect()
    }

    /// What is in a page that is not simply erased.
    pub(super) fn page(&self, page: u32) -> Option<&Page> {
        let per_block = self.geometry.pages_per_block;
        self.blocks[(page / per_block) as usize].pages.get((page % per_block) as usize)?.as_deref()
    }

    /// Hands out a page without cost.
    pub(super) fn peek(&self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Verdict {
        match self.page(page) {
            Some(page) => page.read(data, spare, self.options.ecc_bits),
            None => {
                data.fill(0xff);
                spare.fill(0xff);
                Verdict::Clean
            }
        }
    }

    fn erased_page(&self) -> Page {
        Page::erased(self.geometry.page_bytes as usize, self.geometry.spare_bytes as usize)
    }

    fn put(&mut self, page: u32, contents: Page) {
        let per_block = self.geometry.pages_per_block;
        let block = Arc::make_mut(&mut self.blocks[(page / per_block) as usize]);
        let within = page % per_block;
        if contents.state() != State::Erased {
            block.next = block.next.max(within + 1);
        }
        if block.pages.is_empty() {
            block.pages.resize(per_block as usize, None);
        }
        block.pages[within as usize] = (!contents.is_plain()).then(|| Arc::new(contents));
    }

    /// Makes all contents erased and no block bad.
    pub(super) fn clear(&mut self) {
        self.blocks.iter_mut().for_each(|block| *block = Arc::new(Block { erases: block.erases, ..Block::default() }));
    }

    /// Stores a page as it is, without cost and faults.
    pub(super) fn store(&mut self, page: u32, data: &[u8], spare: &[u8]) {
        let contents = self.erased_page().program(data, spare);
        self.put(page, contents);
    }

    fn check_power(&self) -> Result<()> {
        if self.on { Ok(()) } else { Err(off()) }
    }

    fn check_page(&self, page: u32, data: usize, spare: usize) -> Result<()> {
        let Geometry { page_bytes, spare_bytes, .. } = self.geometry;
        if page >= self.geometry.pages() {
            return Err(Error::bug(format!("page {page} of a chip of {} pages", self.geometry.pages())));
        }
        if (data != 0 && data != page_bytes as usize) || spare > spare_bytes as usize {
            return Err(Error::bug(format!("{data}+{spare} bytes for a page of {page_bytes}+{spare_bytes}")));
        }
        Ok(())
    }

    fn check_block(&self, block: u32) -> Result<()> {
        if block >= self.geometry.blocks {
            return Err(Error::bug(format!("block {block} of a chip of {} blocks", self.geometry.blocks)));
        }
        Ok(())
    }

    pub(super) fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict> {
        self.check_power()?;
        self.check_page(page, data.len(), spare.len())?;
        if data.is_empty() && spare.is_empty() {
            return Ok(Verdict::Clean);
        }
        let timing = &self.options.timing;
        self.clock_ns += timing.sense_ns + timing.byte_ns * (data.len() + spare.len()) as u64;
        if data.is_empty() {
            self.counters.spare_senses += 1;
        } else {
            self.counters.page_senses += 1;
        }
        Ok(self.peek(page, data, spare))
    }

    /// Counts an operation down; how the power fails in this one, if it does.
    fn power_fails(&mut self) -> Option<Tear> {
        let (left, tear) = self.cut?;
        if left > 1 {
            self.cut = Some((left - 1, tear));
            return None;
        }
        self.cut = None;
        self.on = false;
        Some(tear)
    }

    fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.random.below(n) == 0
    }

    pub(super) fn program(&mut self, page: u32, data: &[u8], spare: &[u8]) -> Result<(), Fault> {
        self.check_power()?;
        self.check_page(page, data.len(), spare.len())?;
        if data.is_empty() {
            return Err(Error::bug(format!("page {page} programmed without data")).into());
        }
        let per_block = self.geometry.pages_per_block;
        let block = &self.blocks[(page / per_block) as usize];
        if block.bad {
            return Err(Error::bug(format!("page {page} is in block {}, which is bad", page / per_block)).into());
        }
        let old = self.page(page);
        if old.is_some_and(|page| page.state() != State::Erased) {
            return Err(Error::bug(format!("page {page} is programmed again without an erase")).into());
        }
        if page % per_block < block.next {
            let last = page - page % per_block + block.next - 1;
            return Err(Error::bug(format!("page {page} is programmed after page {last} of its block")).into());
        }
        let mut contents = old.cloned().unwrap_or_else(|| self.erased_page()).program(data, spare);
        let timing = self.options.timing;
        self.clock_ns += timing.byte_ns * (data.len() + spare.len()) as u64 + timing.program_ns;
        self.counters.programs += 1;
        let ecc_bits = self.options.ecc_bits;
        if ecc_bits > 0 && self.one_in(self.options.weak_page_one_in) {
            let bits = 1 + self.random.below(u64::from(ecc_bits)) as u32;
            contents.flip_data(bits, &mut self.random);
        }
        if let Some(tear) = self.power_fails() {
            if let Some(left) = contents.torn(tear, ecc_bits) {
                self.put(page, left);
            }
            return Err(off().into());
        }
        if self.failing_pages.contains(&page) || self.one_in(self.options.program_failure_one_in) {
            let part = Tear::Part(self.random.next_u64());
            if let Some(left) = contents.torn(part, ecc_bits) {
                self.put(page, left);
            }
            return Err(Fault::Failed);
        }
        self.put(page, contents);
        Ok(())
    }

    pub(super) fn erase(&mut self, block: u32) -> Result<(), Fault> {
        self.check_power()?;
        self.check_block(block)?;
        if self.blocks[block as usize].bad {
            return Err(Error::bug(format!("erase of bad block {block}")).into());
        }
        self.clock_ns += self.options.timing.erase_ns;
        self.counters.erases += 1;
        Arc::make_mut(&mut self.blocks[block as usize]).erases += 1;
        if let Some(tear) = self.power_fails() {
            self.tear_block(block, tear);
            return Err(off().into());
        }
        if self.failing_blocks.contains(&block) || self.one_in(self.options.erase_failure_one_in) {
            let part = Tear::Part(self.random.next_u64());
            self.tear_block(block, part);
            return Err(Fault::Failed);
        }
        self.tear_block(block, Tear::Whole);
        Ok(())
    }

    fn tear_block(&mut self, block: u32, tear: Tear) {
        let ecc_bits = self.options.ecc_bits;
        let block = Arc::make_mut(&mut self.blocks[block as usize]);
        let (seed, tear) = match tear {
            Tear::Seeded(seed) => {
                // An interrupted erase is rarely none and rarely done.
                let part = Tear::Part(seed);
                let tears = [Tear::Nothing, part, part, Tear::Whole];
                (seed, tears[Random::labelled(seed, "torn erase").below(4) as usize])
            }
            Tear::Part(seed) => (seed, tear),
            _ => (0, tear),
        };
        match tear {
            Tear::Nothing => return,
            Tear::Whole => block.pages = Vec::new(),
            _ => {
                let mut random = Random::labelled(seed, "torn block");
                let sixteenths = 1 + random.below(16);
                for page in &mut block.pages {
                    let left = page.as_deref().map(|page| page.half_erased(sixteenths, ecc_bits, &mut random));
                    *page = left.filter(|page| !page.is_plain()).map(Arc::new);
                }
            }
        }
        // The pages that look erased may be programmed: the chip cannot tell them from those that are.
        block.next = 0;
    }

    pub(super) fn is_bad(&self, block: u32) -> Result<bool> {
        self.check_power()?;
        self.check_block(block)?;
        Ok(self.blocks[block as usize].bad)
    }

    pub(super) fn mark_bad(&mut self, block: u32) -> Result<()> {
        self.check_power()?;
        self.check_block(block)?;
        let timing = self.options.timing;
        self.clock_ns += 2 * timing.byte_ns + timing.program_ns;
        let tear = self.power_fails();
        let marked = match tear {
            None | Some(Tear::Whole) => true,
            Some(Tear::Seeded(seed) | Tear::Part(seed)) => Random::labelled(seed, "torn mark").below(2) == 0,
            Some(Tear::Nothing | Tear::DataAlone | Tear::SpareAlone) => false,
        };
        if marked {
            Arc::make_mut(&mut self.blocks[block as usize]).bad = true;
        }
        if tear.is_some() { Err(off()) } else { Ok(()) }
    }

    pub(super) fn flip_data(&mut self, page: u32, bits: u32, seed: u64) {
        let mut contents = self.page(page).cloned().unwrap_or_else(|| self.erased_page());
        contents.flip_data(bits, &mut Random::labelled(seed, "flipped data"));
        self.put(page, contents);
    }

    pub(super) fn flip_spare(&mut self, page: u32, bit: u32) {
        let mut contents = self.page(page).cloned().unwrap_or_else(|| self.erased_page());
        contents.flip_spare(bit);
        self.put(page, contents);
    }
}

fn off() -> Error {
    Error::failed("the power is off")
}
