//! The chip as the file system sees it: chunks with tags.
//!
//! Blocks are counted from 1 and chunks from `pages_per_block` on, so that chunk 0 means "none"; this is the
//! numbering that checkpoints and summaries have on flash.

use super::tags::{Content, ECC_BYTES, Found, INBAND_BYTES, PLAIN_BYTES, Tags};
use super::turned::turn_header;
use crate::options::{ByteOrder, Options};
use pocketstone_media::nand::{Fault, Geometry, Nand, Verdict};
use pocketstone_vfs::{Error, MediumError, Result};

/// A page's number, shifted by one block. 0: none.
pub type Chunk = u32;
/// A block's number, from 1.
pub type Block = u32;

pub struct Chip {
    nand: Box<dyn Nand>,
    pub geometry: Geometry,
    pub inband: bool,
    pub ecc: bool,
    pub order: ByteOrder,
    /// A page, for in-band tags.
    page: Vec<u8>,
}

/// What a whole chunk held.
pub struct Whole {
    pub tags: Found,
    pub verdict: Verdict,
}

impl Chip {
    /// The chip, with tags stored as `options` say.
    pub fn new(nand: Box<dyn Nand>, options: &Options) -> Result<Chip> {
        let Options { inband_tags: inband, tags_ecc: ecc, byte_order: order, .. } = *options;
        let geometry = nand.geometry();
        let Geometry { page_bytes, spare_bytes, pages_per_block, blocks } = geometry;
        let refuse = |why: String| {
            Err(Error::from(MediumError::refused(format!("{}: {why}", nand.describe())).hint(
                "YAFFS2 requires pages of at least 1024 bytes with 28 free spare bytes, or in-band tags, and at least \
                    8 blocks",
            )))
        };
        if page_bytes < 512 + INBAND_BYTES as u32 || !(2..=1 << 16).contains(&pages_per_block) {
            return refuse(format!("pages of {page_bytes} bytes, {pages_per_block} in a block"));
        }
        if u64::from(blocks + 1) * u64::from(pages_per_block) > 1 << 28 {
            return refuse(format!("{blocks} blocks of {pages_per_block} pages are too many"));
        }
        let needed = if ecc { ECC_BYTES } else { PLAIN_BYTES };
        if !inband && (spare_bytes as usize) < needed {
            return refuse(format!("{spare_bytes} free spare bytes are too few for tags of {needed} bytes"));
        }
        let page = vec![0xFF; page_bytes as usize];
        Ok(Chip { nand, geometry, inband, ecc: ecc && !inband, order, page })
    }

    pub fn into_nand(self) -> Box<dyn Nand> {
        self.nand
    }

    pub fn describe(&self) -> String {
        self.nand.describe()
    }

    /// Bytes of data in a chunk.
    pub fn data_bytes(&self) -> usize {
        self.geometry.page_bytes as usize - if self.inband { INBAND_BYTES } else { 0 }
    }

    pub fn pages_per_block(&self) -> u32 {
        self.geometry.pages_per_block
    }

    pub fn blocks(&self) -> u32 {
        self.geometry.blocks
    }

    pub fn chunk(&self, block: Block, page: u32) -> Chunk {
        block * self.pages_per_block() + page
    }

    pub fn block_of(&self, chunk: Chunk) -> Block {
        chunk / self.pages_per_block()
    }

    fn page_of(&self, chunk: Chunk) -> u32 {
        chunk - self.pages_per_block()
    }

    /// Where a chunk is in bytes of data from the chip's start, for messages.
    pub fn at(&self, chunk: Chunk) -> u64 {
        u64::from(self.page_of(chunk)) * u64::from(self.geometry.page_bytes)
    }

    /// Whether wrong bits in tags are noticed.
    pub fn guards_tags(&self) -> bool {
        self.ecc || self.inband
    }

    fn tag_bytes(&self) -> usize {
        if self.ecc { ECC_BYTES } else { PLAIN_BYTES }
    }

    /// Reads a chunk's tags alone.
    pub fn read_tags(&mut self, chunk: Chunk) -> Result<Found> {
        let page = self.page_of(chunk);
        if self.inband {
            let verdict = self.nand.read(page, &mut self.page, &mut [])?;
            return Ok(self.inband_tags(verdict));
        }
        let mut spare = [0; ECC_BYTES];
        let bytes = self.tag_bytes();
        self.nand.read(page, &mut [], &mut spare[..bytes])?;
        Ok(self.decode(&spare[..bytes]))
    }

    fn inband_tags(&self, verdict: Verdict) -> Found {
        let found = self.decode(&self.page[self.data_bytes()..]);
        match found {
            Found::Tags { .. } if verdict == Verdict::Uncorrectable => Found::Broken,
            Found::Unused if self.page.iter().any(|&byte| byte != 0xFF) => Found::Broken,
            found => found,
        }
    }

    /// Reads a chunk's data and tags, by one page sense. `data` is [`Chip::data_bytes`] long.
    pub fn read(&mut self, chunk: Chunk, data: &mut [u8]) -> Result<Whole> {
        let page = self.page_of(chunk);
        if self.inband {
            let verdict = self.nand.read(page, &mut self.page, &mut [])?;
            data.copy_from_slice(&self.page[..data.len()]);
            return Ok(self.whole(self.inband_tags(verdict), verdict, data));
        }
        let mut spare = [0; ECC_BYTES];
        let bytes = self.tag_bytes();
        let verdict = self.nand.read(page, data, &mut spare[..bytes])?;
        Ok(self.whole(self.decode(&spare[..bytes]), verdict, data))
    }

    fn decode(&self, stored: &[u8]) -> Found {
        Tags::decode(stored, self.order == ByteOrder::Big)
    }

    /// A chunk that was read; the words of a header are then little-endian.
    fn whole(&self, tags: Found, verdict: Verdict, data: &mut [u8]) -> Whole {
        if matches!(tags, Found::Tags { tags: Tags { content: Content::Header | Content::Extra(_), .. }, .. }) {
            turn_header(self.order, data);
        }
        Whole { tags, verdict }
    }

    /// Whether a page reads as erased, every bit of it.
    pub fn is_erased(&mut self, chunk: Chunk) -> Result<bool> {
        let page = self.page_of(chunk);
        let mut spare = [0; ECC_BYTES];
        let bytes = if self.inband { 0 } else { self.tag_bytes() };
        let verdict = self.nand.read(page, &mut self.page, &mut spare[..bytes])?;
        let blank = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0xFF);
        Ok(verdict == Verdict::Clean && blank(&self.page) && blank(&spare[..bytes]))
    }

    /// Whether a page holds something, beyond a few bits that flipped in an erased one.
    pub fn is_written(&mut self, chunk: Chunk) -> Result<bool> {
        let page = self.page_of(chunk);
        self.nand.read(page, &mut self.page, &mut [])?;
        let written = self.page.iter().filter(|&&byte| byte != 0xFF).count();
        Ok(written > self.page.len() / 64)
    }

    pub fn write(&mut self, chunk: Chunk, data: &[u8], tags: &Tags) -> Result<(), Fault> {
        let page = self.page_of(chunk);
        let (spare, bytes) = tags.encode(self.ecc);
        if self.inband {
            self.page[..data.len()].copy_from_slice(data);
            self.page[data.len()..].copy_from_slice(&spare[..INBAND_BYTES]);
            return self.nand.program(page, &self.page, &[]);
        }
        self.nand.program(page, data, &spare[..bytes])
    }

    pub fn erase(&mut self, block: Block) -> Result<(), Fault> {
        self.nand.erase(block - 1)
    }

    pub fn is_bad(&mut self, block: Block) -> Result<bool> {
        Ok(self.nand.is_bad(block - 1)?)
    }

    pub fn mark_bad(&mut self, block: Block) -> Result<()> {
        Ok(self.nand.mark_bad(block - 1)?)
    }

    pub fn sync(&mut self) -> Result<()> {
        Ok(self.nand.sync()?)
    }
}
