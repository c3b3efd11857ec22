//! Writing: always to the next page of the block that is being filled.

use crate::blocks::{Flag, State};
use crate::chip::{Block, Chunk};
use crate::summary::SUMMARY_OBJECT;
use crate::tags::{Content, Found, Packed, Tags};
use crate::volume::Volume;
use pocketstone_core::inode::{Error, Result};
pub use pocketstone_media::nand::tags::{FIRST_SEQUENCE, LAST_SEQUENCE};
use pocketstone_media::nand::{Fault, Verdict};

/// A block that could not be marked bad.
pub const BAD_SEQUENCE: u32 = 0xFFFF_0000;
/// Pages that are tried before a write fails.
const ATTEMPTS: u32 = 320;

/// Where the next page is written.
#[derive(Default)]
pub struct Log {
    /// The block being filled; 0: none.
    pub block: Block,
    /// The next page of it.
    pub page: u32,
    /// The block that was taken last.
    pub finder: Block,
    /// Sequence number of the newest block.
    pub sequence: u32,
    /// Tags of the block's pages so far; `None` when they are not all known.
    pub(crate) summary: Option<Vec<Packed>>,
}

/// Whether a write may use the space kept for tidying up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// An ordinary write.
    Ordinary,
    /// Headers of existing objects, what is in the cache already, garbage collection.
    Reserve,
}

impl Volume {
    /// Chunks that ordinary writes leave alone.
    pub(crate) fn reserve(&self) -> i64 {
        let blocks = i64::from(self.options.reserved_blocks) + i64::from(self.checkpoint_blocks());
        blocks * i64::from(self.chip.pages_per_block()) + 1
    }

    /// Whether there is space for ordinary writes.
    pub(crate) fn check_space(&self, chunks: u32) -> Result<()> {
        if self.blocks.free() > self.reserve() + i64::from(chunks) { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Writes a chunk to the next page and says where that is. It counts as in use from here on.
    pub(crate) fn append(&mut self, data: &[u8], object: u32, content: Content, space: Space) -> Result<Chunk> {
        self.writable()?;
        if space == Space::Ordinary {
            self.check_space(0)?;
        }
        self.erase_checkpoint()?;
        for _ in 0..ATTEMPTS {
            let chunk = self.next_page()?;
            let block = self.log.block;
            let trusted = self.blocks.get(block).has(Flag::Trusted);
            // A page whose programming was cut short may look unused.
            if !trusted && !self.chip.is_erased(chunk)? {
                self.close_block()?;
                continue;
            }
            let tags = Tags { sequence: self.blocks.get(block).sequence, object, content };
            self.log.page += 1;
            let written = match self.chip.write(chunk, data, &tags) {
                Ok(()) => trusted || self.reads_back(chunk, data, &tags)?,
                Err(Fault::Failed) => false,
                Err(Fault::Medium(error)) => return Err(error.into()),
            };
            if !written {
                self.give_up(block)?;
                continue;
            }
            self.blocks.get_mut(block).set(Flag::Trusted, true);
            self.blocks.mark(chunk);
            if let Some(summary) = &mut self.log.summary {
                summary.push(Packed::of(object, &content));
            }
            if self.log.page >= self.chip.pages_per_block() {
                self.close_block()?;
            } else if self.log.page == self.shape.entries {
                self.write_summary()?;
            }
            return Ok(chunk);
        }
        let error = pocketstone_core::Error::board(format!("{ATTEMPTS} pages in a row could not be written"))
            .hint("the chip is worn out, or its driver is at fault");
        Err(error.into())
    }

    /// Whether a page holds what was just written to it.
    fn reads_back(&mut self, chunk: Chunk, data: &[u8], tags: &Tags) -> Result<bool> {
        let mut back = vec![0; data.len()];
        let whole = self.chip.read(chunk, &mut back)?;
        let same = matches!(whole.tags, Found::Tags { tags: found, .. } if found == *tags);
        Ok(same && whole.verdict != Verdict::Uncorrectable && back == data)
    }

    /// The page that is written next.
    fn next_page(&mut self) -> Result<Chunk> {
        if self.log.block == 0 {
            let block = self.empty_block()?;
            if self.log.sequence >= LAST_SEQUENCE {
                let error = pocketstone_core::Error::user("the volume's sequence numbers are used up")
                    .hint("copy its files to a new volume");
                return Err(error.into());
            }
            self.log.sequence = self.log.sequence.max(FIRST_SEQUENCE) + 1;
            let info = self.blocks.get_mut(block);
            (info.state, info.sequence) = (State::Allocating, self.log.sequence);
            self.blocks.erased -= 1;
            (self.log.block, self.log.page, self.log.finder) = (block, 0, block);
            self.log.summary = self.shape.is_on().then(Vec::new);
        } else if self.log.summary.is_none() && self.shape.is_on() {
            self.log.summary = self.tags_so_far()?;
        }
        Ok(self.chip.chunk(self.log.block, self.log.page))
    }

    /// The next erased block, surely erased.
    fn empty_block(&mut self) -> Result<Block> {
        loop {
            let all = self.chip.blocks();
            let mut next = (0..all).map(|step| (self.log.finder + step) % all + 1);
            let block = next.find(|&block| self.blocks.get(block).state == State::Empty).ok_or(Error::NoSpace)?;
            if self.blocks.get(block).has(Flag::Trusted) || !self.blocks.doubtful {
                return Ok(block);
            }
            // Looking at every page of it would take longer than this.
            self.blocks.erased -= 1;
            self.erase(block)?;
        }
    }

    /// Tags of the pages of a block that a checkpoint left half filled.
    fn tags_so_far(&mut self) -> Result<Option<Vec<Packed>>> {
        let mut entries = Vec::with_capacity(self.shape.entries as usize);
        for page in 0..self.log.page {
            match self.chip.read_tags(self.chip.chunk(self.log.block, page))? {
                Found::Tags { tags, .. } => entries.push(Packed::of(tags.object, &tags.content)),
                // Its place in a summary belongs to nobody: readers ask the page itself.
                _ => entries.push(Packed::default()),
            }
        }
        Ok(Some(entries))
    }

    fn write_summary(&mut self) -> Result<()> {
        let block = self.log.block;
        let sequence = self.blocks.get(block).sequence;
        let entries = self.log.summary.take().unwrap_or_default();
        if entries.len() != self.shape.entries as usize {
            return self.close_block();
        }
        let mut data = vec![0xFF; self.chip.data_bytes()];
        for page in 0..self.shape.pages {
            self.shape.encode(page, block, sequence, &entries, &mut data);
            let content = Content::Data { chunk: page + 1, bytes: self.shape.bytes(page) };
            let tags = Tags { sequence, object: SUMMARY_OBJECT, content };
            let chunk = self.chip.chunk(block, self.shape.entries + page);
            match self.chip.write(chunk, &data, &tags) {
                Ok(()) => {}
                Err(Fault::Failed) => return self.give_up(block),
                Err(Fault::Medium(error)) => return Err(error.into()),
            }
        }
        self.blocks.get_mut(block).set(Flag::Summary, true);
        self.close_block()
    }

    /// Writing to a block failed: nothing more is written to it, and what it holds is moved away soon.
    fn give_up(&mut self, block: Block) -> Result<()> {
        let info = self.blocks.get_mut(block);
        info.set(Flag::Prioritised, true);
        info.set(Flag::Retiring, true);
        self.collector.prioritised = true;
        self.close_block()
    }

    /// Nothing more is written to the block being filled.
    pub(crate) fn close_block(&mut self) -> Result<()> {
        let block = std::mem::take(&mut self.log.block);
        self.log.summary = None;
        if block == 0 {
            return Ok(());
        }
        self.blocks.get_mut(block).state = State::Full;
        self.erase_if_useless(block)
    }

    /// A chunk is of no use any more. A block of which nothing is left is erased at once.
    pub(crate) fn discard(&mut self, chunk: Chunk) -> Result<()> {
        if chunk == 0 {
            return Ok(());
        }
        self.blocks.clear(chunk);
        self.erase_if_useless(self.chip.block_of(chunk))
    }

    fn erase_if_useless(&mut self, block: Block) -> Result<()> {
        let info = self.blocks.get(block);
        let useless = info.used == 0
            && match info.state {
                // What says that files shrank may go once nothing older is left; who collects has seen to that.
                State::Full => !info.has(Flag::Shrinks),
                State::Collecting => true,
                _ => false,
            };
        if useless { self.erase(block) } else { Ok(()) }
    }

    /// Erases a block, or marks it bad if it is to be given up.
    pub(crate) fn erase(&mut self, block: Block) -> Result<()> {
        self.collector.forget(block);
        if !self.blocks.get(block).has(Flag::Retiring) {
            match self.chip.erase(block) {
                Ok(()) => {
                    self.blocks.set_empty(block, true);
                    return Ok(());
                }
                Err(Fault::Failed) => {}
                Err(Fault::Medium(error)) => return Err(error.into()),
            }
        }
        if self.chip.mark_bad(block).is_err() {
            // The next mount must not take it for one of its own.
            let tags = Tags { sequence: BAD_SEQUENCE, object: 0, content: Content::Header };
            let _ = self.chip.erase(block);
            let _ = self.chip.write(self.chip.chunk(block, 0), &vec![0; self.chip.data_bytes()], &tags);
        }
        self.blocks.set_dead(block);
        Ok(())
    }

    /// Reads a chunk of a file or an object's header. Bytes behind the valid ones are zero.
    pub(crate) fn read_chunk(&mut self, chunk: Chunk, data: &mut [u8]) -> Result<()> {
        let whole = self.chip.read(chunk, data)?;
        if whole.verdict != Verdict::Clean && !self.options.read_only {
            self.blocks.get_mut(self.chip.block_of(chunk)).strike();
            self.collector.prioritised = true;
        }
        if whole.verdict == Verdict::Uncorrectable {
            return Err(Error::damaged(self.chip.at(chunk), "a page with more wrong bits than can be corrected"));
        }
        if let Found::Tags { tags: Tags { content: Content::Data { bytes, .. }, .. }, .. } = whole.tags {
            let valid = (bytes as usize).min(data.len());
            data[valid..].fill(0);
        }
        Ok(())
    }
}
