//! The chip as the file system sees it: chunks with tags.
//!
//! Blocks are counted from 1 and chunks from `pages_per_block` on, so that chunk 0 means "none"; this is the
//! numbering that checkpoints and summaries have on flash.

use super::tags::{Content, ECC_BYTES, Found, INBAND_BYTES, PLAIN_BYTES, Tags};
use super::turned::turn_header;
use crate::options::{ByteOrder, OpenOptions};
use pocketstone_media::nand::yaffs1::{self, Yaffs1Found, Yaffs1Tags};
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
    /// Its pages are YAFFS1's: without sequence numbers, and each marked when it is of no use any more.
    pub yaffs1: bool,
    /// A page, for in-band tags.
    page: Vec<u8>,
}

/// Whether a chip's volume is YAFFS1's: it alone is on pages of 512 bytes.
pub fn is_yaffs1(geometry: &Geometry, inband: bool) -> bool {
    geometry.page_bytes == yaffs1::PAGE_BYTES && !inband
}

/// What a whole chunk held.
pub struct Whole {
    pub tags: Found,
    pub verdict: Verdict,
}

impl Chip {
    /// The chip, with tags stored as `options` say.
    pub fn new(nand: Box<dyn Nand>, options: &OpenOptions) -> Result<Chip> {
        let OpenOptions { inband_tags: inband, tags_ecc: ecc, byte_order: order, .. } = *options;
        let geometry = nand.geometry();
        let Geometry { page_bytes, spare_bytes, pages_per_block, blocks } = geometry;
        let refuse = |why: String| {
            Err(Error::from(MediumError::refused(format!("{}: {why}", nand.describe())).hint(
                "YAFFS2 requires pages of at least 1024 bytes with 28 free spare bytes, or in-band tags, and at least \
                    8 blocks",
            )))
        };
        let yaffs1 = is_yaffs1(&geometry, inband);
        if !yaffs1 && page_bytes < 512 + INBAND_BYTES as u32 || !(2..=1 << 16).contains(&pages_per_block) {
            return refuse(format!("pages of {page_bytes} bytes, {pages_per_block} in a block"));
        }
        if u64::from(blocks + 1) * u64::from(pages_per_block) > 1 << 28 {
            return refuse(format!("{blocks} blocks of {pages_per_block} pages are too many"));
        }
        let needed = match (yaffs1, ecc) {
            (true, _) => yaffs1::TAG_BYTES,
            (false, true) => ECC_BYTES,
            (false, false) => PLAIN_BYTES,
        };
        if !inband && (spare_bytes as usize) < needed {
            return refuse(format!("{spare_bytes} free spare bytes are too few for tags of {needed} bytes"));
        }
        let page = vec![0xFF; page_bytes as usize];
        Ok(Chip { nand, geometry, inband, ecc: ecc && !inband, order, yaffs1, page })
    }

    pub fn into_nand(self) -> Box<dyn Nand> {
        self.nand
    }

    pub fn describe(&self) -> String {
        let order = match self.order {
            ByteOrder::Little => "",
            ByteOrder::Big => "; of a big-endian machine",
            ByteOrder::BigHeaders => "; big-endian headers, as of an image that was converted",
        };
        format!("{}{order}", self.nand.describe())
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
        match (self.yaffs1, self.ecc) {
            (true, _) => self.geometry.spare_bytes.min(yaffs1::SPARE_BYTES) as usize,
            (false, true) => ECC_BYTES,
            (false, false) => PLAIN_BYTES,
        }
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

    /// Reads a chunk's tags as YAFFS1 has them, with the number that tells which of two chunks is newer.
    pub fn read_yaffs1(&mut self, chunk: Chunk) -> Result<Option<Yaffs1Tags>> {
        let page = self.page_of(chunk);
        let mut spare = [0; yaffs1::SPARE_BYTES as usize];
        let bytes = self.tag_bytes();
        self.nand.read(page, &mut [], &mut spare[..bytes])?;
        match Yaffs1Found::decode(&spare[..bytes], self.order == ByteOrder::Big) {
            Yaffs1Found::Tags(tags) => Ok(Some(tags)),
            _ => Ok(None),
        }
    }

    /// No file is larger: its chunks have numbers of 28 bits. What says that one is, is damaged.
    pub fn largest_file(&self) -> u64 {
        const LAST_CHUNK: u64 = (1 << 28) - 1;
        LAST_CHUNK * self.data_bytes() as u64
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
        let big = self.order == ByteOrder::Big;
        if self.yaffs1 { Yaffs1Found::decode(stored, big).into() } else { Tags::decode(stored, big) }
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
