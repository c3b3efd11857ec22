//! YAFFS1's tags: what stood beside the pages of 512 bytes before YAFFS2.
//!
//! ```text
//! 64 bits, from the lowest; a big-endian machine fills each half from the highest:
//!   chunk 20 (0: a header, k: a file's k-th chunk) | serial 2 | bytes 10 || object 18 | ECC 12 | kept 1 | 1
//! ECC:    exclusive or of the numbers, from 1, of all bits that are set, in the order of the bytes; its own are 0
//! spread: spare bytes 0 to 3, 6, 7, 11, 12; byte 4 is 0 when the page is given up, byte 5 marks a bad block, and
//!         8 to 10 and 13 to 15 hold error correction of the data
//! packed: in the order of the 8 bytes that Linux' Hamming code leaves free, from 8 on; `kept` is 0 when the page is
//!         given up
//! ```

use super::tags::LARGEST_OBJECT;

/// Bytes of data in a page; it is the only size that YAFFS1 has.
pub const PAGE_BYTES: u32 = 512;
/// Bytes of the spare area of such a page.
pub const SPARE_BYTES: u32 = 16;
/// Pages in a block of such chips.
pub const PAGES_PER_BLOCK: u32 = 32;
/// Bytes of tags.
pub const TAG_BYTES: usize = 8;
/// Where the tags begin in the spare area if Linux' driver has placed them.
pub const PACKED_AT: u32 = 8;

const SPREAD: [usize; TAG_BYTES] = [0, 1, 2, 3, 6, 7, 11, 12];
const PAGE_STATUS: usize = 4;
/// The byte of the spare area that marks a bad block where it is not 0xFF.
pub const BLOCK_STATUS: usize = 5;
/// A byte with fewer ones was programmed to 0, whatever bits of it have flipped since.
const LEAST_ONES: u32 = 7;
const KEPT: u64 = 1 << 62;

/// A page's tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Yaffs1Tags {
    /// The object's number.
    pub object: u32,
    /// 0: its header; k: its k-th chunk.
    pub chunk: u32,
    /// Valid bytes of a chunk.
    pub bytes: u32,
    /// Of two pages for one chunk, that one is newer whose number follows the other's; after 3 comes 0.
    pub serial: u8,
    /// A bit had to be put right.
    pub corrected: bool,
}

/// What reading tags of YAFFS1 gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yaffs1Found {
    /// The page was never written.
    Unused,
    /// What was in it is in no use any more.
    Deleted,
    /// Tags.
    Tags(Yaffs1Tags),
    /// The block is marked bad.
    Bad,
    /// Something was written that cannot be made out.
    Broken,
}

impl Yaffs1Found {
    /// The tags in a page's free spare bytes: all [`SPARE_BYTES`], over which they are spread, or the 8 or more that
    /// Linux' driver leaves, packed into the first.
    pub fn decode(spare: &[u8], big: bool) -> Yaffs1Found {
        let spread = spare.len() >= SPARE_BYTES as usize;
        if spare.len() < TAG_BYTES {
            return Yaffs1Found::Broken;
        }
        if spare.iter().all(|&byte| byte == 0xFF) {
            return Yaffs1Found::Unused;
        }
        if spread && spare[BLOCK_STATUS].count_ones() < LEAST_ONES {
            return Yaffs1Found::Bad;
        }
        let mut raw = [0; TAG_BYTES];
        for (at, byte) in raw.iter_mut().enumerate() {
            *byte = spare[if spread { SPREAD[at] } else { at }];
        }
        let mut tags = Bits::of(raw, big);
        let deleted = match spread {
            true => spare[PAGE_STATUS].count_ones() < LEAST_ONES,
            false => tags.all & KEPT == 0,
        };
        if deleted {
            return Yaffs1Found::Deleted;
        }
        match tags.syndrome() {
            0 => tags.meaning(false),
            bit @ 1..=64 => {
                let bit = bit as usize - 1;
                raw[bit / 8] ^= 1 << (bit % 8);
                tags = Bits::of(raw, big);
                if tags.syndrome() == 0 { tags.meaning(true) } else { Yaffs1Found::Broken }
            }
            _ => Yaffs1Found::Broken,
        }
    }
}

/// Tags as they are stored, and their fields in the order of a little-endian machine.
struct Bits {
    raw: [u8; TAG_BYTES],
    big: bool,
    all: u64,
}

impl Bits {
    fn of(raw: [u8; TAG_BYTES], big: bool) -> Bits {
        let half = |at: usize| {
            let bytes = [raw[at], raw[at + 1], raw[at + 2], raw[at + 3]];
            if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let [first, second] = [half(0), half(4)];
        let (first, second) = match big {
            true => (
                first >> 12 | (first >> 10 & 3) << 20 | (first & 0x3FF) << 22,
                second >> 14 | (second >> 2 & 0xFFF) << 18 | (second >> 1 & 1) << 30 | (second & 1) << 31,
            ),
            false => (first, second),
        };
        Bits { raw, big, all: u64::from(second) << 32 | u64::from(first) }
    }

    fn ecc(&self) -> u32 {
        (self.all >> 50 & 0xFFF) as u32
    }

    /// What the error correction says: 0 nothing is wrong, or the number from 1 of the bit that is.
    fn syndrome(&self) -> u32 {
        // The bits of the code itself, as they are stored.
        let own = if self.big { (0xFFFu32 << 2).to_be_bytes() } else { (0xFFFu32 << 18).to_le_bytes() };
        let mask = [0, 0, 0, 0, own[0], own[1], own[2], own[3]];
        let bytes = (0u32..).zip(self.raw.iter().zip(mask).map(|(byte, mask)| byte & !mask));
        bytes.fold(self.ecc(), |all, (at, byte)| {
            (0..8).filter(|bit| byte >> bit & 1 == 1).fold(all, |all, bit| all ^ (8 * at + bit + 1))
        })
    }

    fn meaning(&self, corrected: bool) -> Yaffs1Found {
        let field = |at: u32, bits: u32| (self.all >> at) as u32 & ((1 << bits) - 1);
        let tags = Yaffs1Tags {
            chunk: field(0, 20),
            serial: field(20, 2) as u8,
            bytes: field(22, 10),
            object: field(32, 18),
            corrected,
        };
        let known = (1..LARGEST_OBJECT).contains(&tags.object) && (tags.chunk == 0 || tags.bytes <= PAGE_BYTES);
        if known { Yaffs1Found::Tags(tags) } else { Yaffs1Found::Broken }
    }
}
