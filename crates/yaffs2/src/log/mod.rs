//! The chip as a log: pages are written one after the other, a block is filled before the next one is begun, and
//! what every page is about stands in its tags.

pub mod blocks;
pub mod chip;
pub mod summary;
pub mod tags;
pub mod turned;
mod write;

use blocks::Blocks;
use chip::{Block, Chip, Chunk};
use pocketstone_media::nand::Verdict;
pub use pocketstone_media::nand::tags::{CHECKPOINT_SEQUENCE, FIRST_SEQUENCE, LAST_SEQUENCE};
use pocketstone_vfs::{Error, Result};
use summary::{SUMMARY_OBJECT, Shape};
use tags::{Content, Found, Packed, Tags};
use turned::turn_summary;

/// A block that could not be marked bad.
pub const BAD_SEQUENCE: u32 = 0xFFFF_0000;

/// Where the next page is written.
#[derive(Default)]
pub struct Head {
    /// The block being filled; 0: none.
    pub block: Block,
    /// The next page of it.
    pub page: u32,
    /// The block that was taken last.
    pub finder: Block,
    /// Sequence number of the newest block.
    pub sequence: u32,
    /// Tags of the block's pages so far; `None` when they are not all known.
    pub summary: Option<Vec<Packed>>,
}

/// A chip, what is known of its blocks, and where it is written next.
pub struct Log {
    pub chip: Chip,
    /// How blocks are divided into pages of data and of a summary.
    pub shape: Shape,
    pub blocks: Blocks,
    pub head: Head,
    /// Blocks of a checkpoint on the chip. It is not true any more as soon as anything is written.
    pub checkpoint: Vec<Block>,
    /// By how much the numbers of blocks in summaries and checkpoints are larger than here: a writer whose partition
    /// does not begin with the chip counts from its start. `None`: it counts so, and nothing says from where.
    pub shift: Option<Block>,
    /// There may be blocks that should be collected before others.
    pub prioritised: bool,
    /// Change nothing on the chip.
    pub read_only: bool,
}

/// What the first page of a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// A bad block, or one that could not be marked bad.
    Dead,
    Unused,
    /// A checkpoint's page, and the number of the block in which, or after which, it says to look for the next.
    Checkpoint {
        page: u32,
        next: u32,
    },
    /// Part of the log.
    Sequence(u32),
    /// It cannot be made out.
    Broken,
}

impl Log {
    /// A log of whose state nothing is known yet; `summary`: write block summaries.
    pub fn new(chip: Chip, summary: bool, read_only: bool) -> Log {
        let shape = Shape::of(chip.pages_per_block(), chip.data_bytes(), summary && !chip.yaffs1);
        Log {
            blocks: Blocks::new(chip.blocks(), chip.pages_per_block(), shape),
            head: Head::default(),
            checkpoint: Vec::new(),
            shift: Some(0),
            prioritised: false,
            read_only,
            shape,
            chip,
        }
    }

    /// Refuses to change anything on a chip that is only read.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Reads a chunk of a file or an object's header. Bytes behind the valid ones are zero.
    pub(crate) fn read_chunk(&mut self, chunk: Chunk, data: &mut [u8]) -> Result<()> {
        let whole = self.chip.read(chunk, data)?;
        if whole.verdict != Verdict::Clean && !self.read_only {
            self.blocks.get_mut(self.chip.block_of(chunk)).strike();
            self.prioritised = true;
        }
        if whole.verdict == Verdict::Uncorrectable {
            return Err(Error::damaged(self.chip.at(chunk), "a page with uncorrectable bit errors"));
        }
        if let Found::Tags { tags: Tags { content: Content::Data { bytes, .. }, .. }, .. } = whole.tags {
            let valid = (bytes as usize).min(data.len());
            data[valid..].fill(0);
        }
        Ok(())
    }

    /// What the first page of a block is.
    pub(crate) fn first(&mut self, block: Block) -> Result<First> {
        if self.chip.is_bad(block)? {
            return Ok(First::Dead);
        }
        Ok(match self.chip.read_tags(self.chip.chunk(block, 0))? {
            Found::Unused => First::Unused,
            Found::Tags { tags, .. } => match (tags.sequence, tags.content) {
                (CHECKPOINT_SEQUENCE, Content::Data { chunk, .. }) => {
                    First::Checkpoint { page: chunk, next: tags.object }
                }
                (CHECKPOINT_SEQUENCE, _) => First::Checkpoint { page: 0, next: tags.object },
                (BAD_SEQUENCE, _) => First::Dead,
                (FIRST_SEQUENCE..=LAST_SEQUENCE, _) => First::Sequence(tags.sequence),
                _ => First::Broken,
            },
            Found::Broken | Found::Deleted => First::Broken,
        })
    }

    /// Whether a page can be read without wrong bits.
    pub(crate) fn is_whole(&mut self, chunk: Chunk) -> Result<bool> {
        let mut data = vec![0; self.chip.data_bytes()];
        Ok(self.chip.read(chunk, &mut data)?.verdict != Verdict::Uncorrectable)
    }

    /// A block's summary, if it has a valid one. What a block is called in it tells of [`Log::shift`].
    pub(crate) fn read_summary(&mut self, block: Block) -> Result<Option<Vec<Packed>>> {
        let sequence = self.blocks.get(block).sequence;
        let mut pages = Vec::with_capacity(self.shape.pages as usize);
        for page in 0..self.shape.pages {
            let mut data = vec![0; self.chip.data_bytes()];
            let whole = self.chip.read(self.chip.chunk(block, self.shape.entries + page), &mut data)?;
            let content = Content::Data { chunk: page + 1, bytes: self.shape.bytes(page) };
            let right = Tags { sequence, object: SUMMARY_OBJECT, content };
            match whole.tags {
                Found::Tags { tags, .. } if tags == right && whole.verdict != Verdict::Uncorrectable => {
                    turn_summary(self.chip.order, &mut data);
                    pages.push(data);
                }
                _ => return Ok(None),
            }
        }
        let entries = self.shape.decode(sequence, &pages);
        if entries.is_some() && self.shift.is_some_and(|shift| Shape::block(&pages) != Some(block + shift)) {
            self.shift = None;
        }
        Ok(entries)
    }

    /// Erases the checkpoint, before anything is written that it does not know of.
    pub(crate) fn erase_checkpoint(&mut self) -> Result<()> {
        if self.checkpoint.is_empty() {
            return Ok(());
        }
        while let Some(&block) = self.checkpoint.first() {
            self.erase(block)?;
            self.checkpoint.remove(0);
        }
        // An image's host could keep what comes next and not this.
        self.chip.sync()
    }
}
