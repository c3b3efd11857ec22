//! Writing: always to the next page of the block that is being filled.

use super::blocks::{Flag, State};
use super::chip::{Block, Chunk};
use super::summary::SUMMARY_OBJECT;
use super::tags::{Content, Found, Packed, Tags};
use super::{BAD_SEQUENCE, FIRST_SEQUENCE, LAST_SEQUENCE, Log};
use pocketstone_media::nand::{Fault, Verdict};
use pocketstone_vfs::{Error, MediumError, Result};

/// Pages that are tried before a write fails.
const ATTEMPTS: u32 = 320;

impl Log {
    /// Writes a chunk to the next page and says where that is. It counts as in use from here on.
    pub(crate) fn append(&mut self, data: &[u8], object: u32, content: Content) -> Result<Chunk> {
        self.writable()?;
        self.erase_checkpoint()?;
        for _ in 0..ATTEMPTS {
            let chunk = self.next_page()?;
            let block = self.head.block;
            let trusted = self.blocks.get(block).has(Flag::Trusted);
            // A page whose programming was cut short may look unused.
            if !trusted && !self.chip.is_erased(chunk)? {
                self.close_block()?;
                continue;
            }
            let tags = Tags { sequence: self.blocks.get(block).sequence, object, content };
            self.head.page += 1;
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
            if let Some(summary) = &mut self.head.summary {
                summary.push(Packed::of(object, &content));
            }
            if self.head.page >= self.chip.pages_per_block() {
                self.close_block()?;
            } else if self.head.page == self.shape.entries {
                self.write_summary()?;
            }
            return Ok(chunk);
        }
        let error = MediumError::failed(format!("{ATTEMPTS} pages in a row could not be written"))
            .hint("the chip is worn out, or its driver is faulty");
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
        if self.head.block == 0 {
            let block = self.empty_block()?;
            if self.head.sequence >= LAST_SEQUENCE {
                let error = MediumError::refused("the volume's sequence numbers are exhausted")
                    .hint("copy its files to a new volume");
                return Err(error.into());
            }
            self.head.sequence = self.head.sequence.max(FIRST_SEQUENCE) + 1;
            let info = self.blocks.get_mut(block);
            (info.state, info.sequence) = (State::Allocating, self.head.sequence);
            self.blocks.erased -= 1;
            (self.head.block, self.head.page, self.head.finder) = (block, 0, block);
            self.head.summary = self.shape.is_on().then(Vec::new);
        } else if self.head.summary.is_none() && self.shape.is_on() {
            self.head.summary = self.tags_so_far()?;
        }
        Ok(self.chip.chunk(self.head.block, self.head.page))
    }

    /// The next erased block, surely erased.
    fn empty_block(&mut self) -> Result<Block> {
        loop {
            let all = self.chip.blocks();
            let mut next = (0..all).map(|step| (self.head.finder + step) % all + 1);
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
        for page in 0..self.head.page {
            match self.chip.read_tags(self.chip.chunk(self.head.block, page))? {
                Found::Tags { tags, .. } => entries.push(Packed::of(tags.object, &tags.content)),
                // Its place in a summary belongs to nobody: readers ask the page itself.
                _ => entries.push(Packed::default()),
            }
        }
        Ok(Some(entries))
    }

    fn write_summary(&mut self) -> Result<()> {
        let block = self.head.block;
        let sequence = self.blocks.get(block).sequence;
        let entries = self.head.summary.take().unwrap_or_default();
        if entries.len() != self.shape.entries as usize {
            return self.close_block();
        }
        let mut data = vec![0xFF; self.chip.data_bytes()];
        for page in 0..self.shape.pages {
            self.shape.encode(page, block + self.shift.unwrap_or(0), sequence, &entries, &mut data);
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
        self.prioritised = true;
        self.close_block()
    }

    /// Nothing more is written to the block being filled.
    pub(crate) fn close_block(&mut self) -> Result<()> {
        let block = std::mem::take(&mut self.head.block);
        self.head.summary = None;
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
}
