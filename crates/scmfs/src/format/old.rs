//! The superblock of format 1, which `scmfs fsck --upgrade` converts.

use super::bytes::{get_u32, get_u64};
use super::layout::{MAGIC, MOST_SEQUENCE, SUPERBLOCK_BYTES};
use pocketstone_media::Medium;

/// The version of that format.
pub(crate) const OLD_VERSION: u32 = 1;

/// A superblock of format 1.
pub(crate) struct Old {
    pub bytes: [u8; SUPERBLOCK_BYTES],
}

impl Old {
    /// The copy at an offset, if it is whole.
    pub fn at(medium: &Medium, at: u64) -> Option<Old> {
        if at + SUPERBLOCK_BYTES as u64 > medium.bytes() {
            return None;
        }
        let mut bytes = [0; SUPERBLOCK_BYTES];
        medium.read(at, &mut bytes);
        let is_whole = bytes[..8] == MAGIC
            && crc32c::crc32c(&bytes[..252]) == get_u32(&bytes, 252)
            && (get_u32(&bytes, 8), get_u32(&bytes, 140)) == (OLD_VERSION, 0)
            && get_u64(&bytes, 112) < MOST_SEQUENCE
            && (1..=2).contains(&get_u32(&bytes, 104));
        is_whole.then_some(Old { bytes })
    }

    pub fn sequence(&self) -> u64 {
        get_u64(&self.bytes, 112)
    }

    pub fn is_clean(&self) -> bool {
        get_u32(&self.bytes, 104) == 1
    }

    pub fn page(&self) -> u64 {
        u64::from(get_u32(&self.bytes, 12))
    }
}

/// The second copy of format 1, which lies at its own page size.
pub(crate) fn second(medium: &Medium) -> Option<Old> {
    (8..=20).map(|bits| 1 << bits).find_map(|at| Old::at(medium, at).filter(|found| found.page() == at))
}

/// Whether a region holds a volume of format 1, though its first superblock may be damaged.
pub(crate) fn is_there(medium: &Medium) -> bool {
    Old::at(medium, 0).is_some() || second(medium).is_some()
}
