//! What stands beside every page: whose it is, and its place in time.
//!
//! ```text
//! off size  packed tags, little-endian
//!   0    4  sequence number of the block; 0xFFFFFFFF: the page was never written
//!   4    4  object id; with extra information the object's type in the top 4 bits
//!   8    4  0: object header; k: the k-th chunk of a file, from 1; top bit set: header with extra information
//!  12    4  valid bytes of a data chunk
//!  16    1  column parity   \
//!  17    3  0, ignored       | error correction over the first 16 bytes,
//!  20    4  line parity      | left out with in-band tags
//!  24    4  its inverse     /
//! ```
//!
//! Extra information of a header, so that a mount need not read its page:
//! `chunk = 0x8000_0000 | 0x4000_0000 if it shrinks | 0x2000_0000 if it shadows | parent`,
//! `bytes` = a file's length (below 2^31), a hard link's target, else 0.

use crate::bytes::u32_at;

pub use pocketstone_media::nand::tags::{ECC_BYTES, PLAIN_BYTES};
use pocketstone_media::nand::tags::{EXTRA, FIRST_SEQUENCE, TagsParity};
use pocketstone_media::nand::yaffs1::Yaffs1Found;

/// Bytes of tags inside a page.
pub const INBAND_BYTES: usize = 16;
/// The sequence number that an erased page seems to have.
pub const UNUSED_SEQUENCE: u32 = u32::MAX;

const SHRINKS: u32 = 0x4000_0000;
const SHADOWS: u32 = 0x2000_0000;
const FLAGS: u32 = 0xF000_0000;
const TYPE_SHIFT: u32 = 28;

/// The type of an object, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Not known yet.
    Unknown = 0,
    /// A regular file.
    File = 1,
    /// A symbolic link.
    Symlink = 2,
    /// A directory.
    Directory = 3,
    /// A further name of another object.
    HardLink = 4,
    /// A pipe, socket or device.
    Special = 5,
}

impl Kind {
    /// The kind of a stored number.
    pub fn of(number: u32) -> Option<Kind> {
        Some(match number {
            0 => Kind::Unknown,
            1 => Kind::File,
            2 => Kind::Symlink,
            3 => Kind::Directory,
            4 => Kind::HardLink,
            5 => Kind::Special,
            _ => return None,
        })
    }

    /// What it is called, for people.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Unknown => "nothing",
            Kind::File => "file",
            Kind::Symlink => "symbolic link",
            Kind::Directory => "directory",
            Kind::HardLink => "hard link",
            Kind::Special => "special file",
        }
    }
}

/// The three words of a page's tags that a block summary repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packed {
    pub object: u32,
    pub chunk: u32,
    pub bytes: u32,
}

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The `chunk`-th chunk of a file, from 1, with so many valid bytes.
    Data { chunk: u32, bytes: u32 },
    /// An object's header; its page says the rest.
    Header,
    /// An object's header, with what a mount needs of it.
    Extra(Extra),
}

/// Extra information about a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extra {
    pub kind: Kind,
    pub parent: u32,
    pub shrinks: bool,
    pub shadows: bool,
    /// A file's length, a hard link's target, else 0.
    pub value: u32,
}

/// A page's tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags {
    pub sequence: u32,
    pub object: u32,
    pub content: Content,
}

/// What reading tags gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The page was never written.
    Unused,
    /// Tags; `corrected` if a bit had to be put right.
    Tags { tags: Tags, corrected: bool },
    /// YAFFS1 has marked the page: what is in it is of no use any more.
    Deleted,
    /// Something was written that cannot be made out.
    Broken,
}

impl From<Yaffs1Found> for Found {
    /// What YAFFS2 would say. YAFFS1 has no sequence numbers: all blocks seem to have that of built images.
    fn from(found: Yaffs1Found) -> Found {
        match found {
            Yaffs1Found::Unused => Found::Unused,
            Yaffs1Found::Deleted => Found::Deleted,
            Yaffs1Found::Broken | Yaffs1Found::Bad => Found::Broken,
            Yaffs1Found::Tags(tags) => {
                let content = match tags.chunk {
                    0 => Content::Header,
                    chunk => Content::Data { chunk, bytes: tags.bytes },
                };
                let (sequence, object) = (FIRST_SEQUENCE, tags.object);
                Found::Tags { tags: Tags { sequence, object, content }, corrected: tags.corrected }
            }
        }
    }
}

impl Packed {
    pub fn of(object: u32, content: &Content) -> Packed {
        match *content {
            Content::Data { chunk, bytes } => Packed { object, chunk, bytes },
            // mkyaffs2image puts 0xFFFF there.
            Content::Header => Packed { object, chunk: 0, bytes: 0xFFFF },
            Content::Extra(extra) => {
                let mut chunk = EXTRA | extra.parent & !FLAGS;
                if extra.shrinks {
                    chunk |= SHRINKS;
                }
                if extra.shadows {
                    chunk |= SHADOWS;
                }
                let object = (extra.kind as u32) << TYPE_SHIFT | object & !FLAGS;
                Packed { object, chunk, bytes: extra.value }
            }
        }
    }

    /// What the words mean; `None` if no writer makes such words.
    pub fn meaning(&self) -> Option<(u32, Content)> {
        if self.chunk & EXTRA == 0 {
            let content = match self.chunk {
                0 => Content::Header,
                chunk => Content::Data { chunk, bytes: self.bytes },
            };
            return Some((self.object, content));
        }
        let kind = Kind::of(self.object >> TYPE_SHIFT)?;
        let extra = Extra {
            kind,
            parent: self.chunk & !FLAGS,
            shrinks: self.chunk & SHRINKS != 0,
            shadows: self.chunk & SHADOWS != 0,
            value: self.bytes,
        };
        Some((self.object & !FLAGS, Content::Extra(extra)))
    }
}

impl Tags {
    /// The tags as they are stored, with error correction or without.
    pub fn encode(&self, ecc: bool) -> ([u8; ECC_BYTES], usize) {
        let packed = Packed::of(self.object, &self.content);
        let mut bytes = [0; ECC_BYTES];
        for (at, word) in [self.sequence, packed.object, packed.chunk, packed.bytes].into_iter().enumerate() {
            bytes[4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        if !ecc {
            return (bytes, PLAIN_BYTES);
        }
        let parity = TagsParity::of(&bytes[..PLAIN_BYTES]);
        bytes[16] = parity.column;
        bytes[20..24].copy_from_slice(&parity.line.to_le_bytes());
        bytes[24..28].copy_from_slice(&parity.inverted.to_le_bytes());
        (bytes, ECC_BYTES)
    }

    /// Tags from what is stored, little-endian or big: [`ECC_BYTES`] long with error correction, else [`PLAIN_BYTES`].
    /// The error correction is over the bytes as they are stored.
    pub fn decode(stored: &[u8], big: bool) -> Found {
        let word = |bytes: &[u8], at| if big { u32_at(bytes, at).swap_bytes() } else { u32_at(bytes, at) };
        let mut bytes = [0; PLAIN_BYTES];
        bytes.copy_from_slice(&stored[..PLAIN_BYTES]);
        if u32_at(&bytes, 0) == UNUSED_SEQUENCE {
            // A page whose first word alone reads like that was written and has lost bits.
            return if stored.iter().all(|&byte| byte == 0xFF) { Found::Unused } else { Found::Broken };
        }
        let mut corrected = false;
        if stored.len() >= ECC_BYTES {
            let parity = TagsParity { column: stored[16], line: word(stored, 20), inverted: word(stored, 24) };
            match correct(&mut bytes, &parity) {
                Some(flipped) => corrected = flipped,
                None => return Found::Broken,
            }
        }
        let packed = Packed { object: word(&bytes, 4), chunk: word(&bytes, 8), bytes: word(&bytes, 12) };
        match packed.meaning() {
            Some((object, content)) => {
                Found::Tags { tags: Tags { sequence: word(&bytes, 0), object, content }, corrected }
            }
            None => Found::Broken,
        }
    }
}

/// Puts one flipped bit right, in the bytes or in their parities. Whether there was one; `None` when there is more
/// wrong than that.
fn correct(bytes: &mut [u8; PLAIN_BYTES], stored: &TagsParity) -> Option<bool> {
    let now = TagsParity::of(bytes);
    let column = (stored.column ^ now.column) & 0x3F;
    let (line, inverted) = (stored.line ^ now.line, stored.inverted ^ now.inverted);
    if column == 0 && line == 0 && inverted == 0 {
        return Some(false);
    }
    if line == !inverted && (column ^ column >> 1) & 0x15 == 0x15 {
        let bit = (column >> 5 & 1) << 2 | (column >> 3 & 1) << 1 | column >> 1 & 1;
        *bytes.get_mut(line as usize)? ^= 1 << bit;
        return Some(true);
    }
    (column.count_ones() + line.count_ones() + inverted.count_ones() == 1).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Tags {
        Tags { sequence: 0x1001, object: 257, content: Content::Data { chunk: 3, bytes: 2048 } }
    }

    #[test]
    fn every_single_flipped_bit_is_put_right_and_no_two_are() {
        let (stored, bytes) = data().encode(true);
        let flip = |bits: &[usize]| {
            let mut flipped = stored;
            bits.iter().for_each(|bit| flipped[bit / 8] ^= 1 << (bit % 8));
            Tags::decode(&flipped[..bytes], false)
        };
        assert_eq!(flip(&[]), Found::Tags { tags: data(), corrected: false });
        // The padding, and the two bits of the column parity that carry nothing, do not count.
        let counts = |bit: &usize| !(17 * 8..20 * 8).contains(bit) && !(16 * 8 + 6..17 * 8).contains(bit);
        for bit in (0..bytes * 8).filter(counts) {
            assert_eq!(flip(&[bit]), Found::Tags { tags: data(), corrected: true }, "bit {bit}");
            for other in (0..bit).filter(counts) {
                assert!(
                    !matches!(flip(&[bit, other]), Found::Tags { tags, .. } if tags != data()),
                    "bits {bit} and {other} gave other tags"
                );
            }
        }
    }

    #[test]
    fn extra_information_survives() {
        let extra = Extra { kind: Kind::File, parent: 0x3FFFF, shrinks: true, shadows: true, value: 0x7FFF_FFFF };
        let tags = Tags { sequence: 0xEFFF_FEFF, object: 0x3FFFF, content: Content::Extra(extra) };
        for ecc in [false, true] {
            let (stored, bytes) = tags.encode(ecc);
            assert_eq!(Tags::decode(&stored[..bytes], false), Found::Tags { tags, corrected: false });
        }
        let (stored, _) = tags.encode(true);
        // By the description: 1 << 28 | id, 0x8000_0000 | 0x4000_0000 | 0x2000_0000 | parent.
        assert_eq!((u32_at(&stored, 4), u32_at(&stored, 8)), (0x1003_FFFF, 0xE003_FFFF));
    }

    #[test]
    fn erased_bytes_are_unused_and_half_erased_ones_broken() {
        assert_eq!(Tags::decode(&[0xFF; ECC_BYTES], false), Found::Unused);
        let mut some = [0xFF; ECC_BYTES];
        some[9] = 0x7F;
        assert_eq!(Tags::decode(&some, false), Found::Broken);
    }
}
