//! The mapping table: one entry for each huge page says to which file it belongs, and where in it.
//!
//! ```text
//!  0  u32 owner: 0 free, all ones: serves the small-page zone, else an inode number
//!  4  u32 index: which huge page of the file
//!  8  u32 generation of the owner's inode
//! 12  u32 crc32c of the entry's number and the 12 bytes before; a free entry is all zeros
//! ```

use crate::bytes::{get_u32, put_u32};
use crate::layout::{Layout, MAPPING_BYTES};
use crate::{Error, Ino, Result};
use pocketstone_media::Medium;

/// Owner of huge pages that serve the small-page zone.
pub(crate) const SMALL_ZONE: u32 = u32::MAX;

/// What the table says of one huge page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    Free,
    SmallZone,
    File { owner: Ino, index: u32, generation: u32 },
}

impl Mapping {
    pub fn encode(self, segment: u32) -> [u8; MAPPING_BYTES as usize] {
        let mut b = [0; MAPPING_BYTES as usize];
        let (owner, index, generation) = match self {
            Mapping::Free => return b,
            Mapping::SmallZone => (SMALL_ZONE, 0, 0),
            Mapping::File { owner, index, generation } => (owner, index, generation),
        };
        put_u32(&mut b, 0, owner);
        put_u32(&mut b, 4, index);
        put_u32(&mut b, 8, generation);
        let crc = crc32c::crc32c_append(segment.wrapping_add(1), &b[..12]);
        put_u32(&mut b, 12, crc);
        b
    }

    pub fn decode(segment: u32, b: &[u8], at: u64) -> Result<Mapping> {
        if b.iter().all(|byte| *byte == 0) {
            return Ok(Mapping::Free);
        }
        if crc32c::crc32c_append(segment.wrapping_add(1), &b[..12]) != get_u32(b, 12) {
            return Err(Error::damaged(at, format!("mapping entry {segment} with a wrong checksum")));
        }
        match get_u32(b, 0) {
            0 => Err(Error::damaged(at, format!("mapping entry {segment} without an owner"))),
            SMALL_ZONE => Ok(Mapping::SmallZone),
            owner => Ok(Mapping::File { owner, index: get_u32(b, 4), generation: get_u32(b, 8) }),
        }
    }

    pub fn load(medium: &Medium, layout: &Layout, segment: u32) -> Result<Mapping> {
        let at = layout.mapping_entry_at(segment);
        let mut b = [0; MAPPING_BYTES as usize];
        medium.read(at, &mut b);
        Mapping::decode(segment, &b, at)
    }
}
