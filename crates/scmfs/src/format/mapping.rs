//! The mapping table: one entry for each huge page says to which file it belongs, and where in it. There are two
//! copies, far from each other, which one transaction changes together.
//!
//! ```text
//!  0  u32 owner: 0 free; 0xffffffff serves the small-page zone; 0xfffffffe goes on with the inode table;
//!     else an inode number
//!  4  u32 index: which huge page of the file, or of the inode table's continuation
//!  8  u32 generation of the owner's inode
//! 12  u32 crc32c of the entry's number + 1 and the 12 bytes before
//! ```

use super::bytes::{get_u32, put_u32};
use super::layout::{Layout, MAPPING_BYTES};
use crate::{Error, Ino, Result};
use pocketstone_media::{Durable, Medium};

/// Owner of huge pages that serve the small-page zone.
pub(crate) const SMALL_ZONE: u32 = u32::MAX;
/// Owner of huge pages that go on with the inode table.
pub(crate) const INODE_TABLE: u32 = u32::MAX - 1;

/// What the table says of one huge page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    Free,
    SmallZone,
    Inodes { index: u32 },
    File { owner: Ino, index: u32, generation: u32 },
}

impl Mapping {
    pub fn encode(self, segment: u32) -> [u8; MAPPING_BYTES as usize] {
        let mut b = [0; MAPPING_BYTES as usize];
        let (owner, index, generation) = match self {
            Mapping::Free => (0, 0, 0),
            Mapping::SmallZone => (SMALL_ZONE, 0, 0),
            Mapping::Inodes { index } => (INODE_TABLE, index, 0),
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
        if crc32c::crc32c_append(segment.wrapping_add(1), &b[..12]) != get_u32(b, 12) {
            return Err(Error::damaged(at, format!("mapping entry {segment} with a wrong checksum")));
        }
        match get_u32(b, 0) {
            0 => Ok(Mapping::Free),
            SMALL_ZONE => Ok(Mapping::SmallZone),
            INODE_TABLE => Ok(Mapping::Inodes { index: get_u32(b, 4) }),
            owner => Ok(Mapping::File { owner, index: get_u32(b, 4), generation: get_u32(b, 8) }),
        }
    }

    /// What the table says of a huge page: the first copy, or the second where the first is damaged. Two that say
    /// different things are damage: no crash leaves such once the journal is replayed.
    pub fn load(medium: &Medium, layout: &Layout, segment: u32) -> Result<Mapping> {
        match Mapping::copies(layout, segment, |at, into| medium.read(at, into)) {
            [Ok(first), Ok(second)] if first != second => {
                let found = format!("mapping entry {segment} with two copies that differ");
                Err(Error::damaged(layout.mapping_entry_at(segment), found))
            }
            [Ok(entry), _] | [Err(_), Ok(entry)] => Ok(entry),
            [Err(error), Err(_)] => Err(error),
        }
    }

    /// What both tables say of a huge page; `read` reads the volume.
    pub fn copies(layout: &Layout, segment: u32, read: impl Fn(u64, &mut [u8])) -> [Result<Mapping>; 2] {
        let at = layout.mapping_entry_at(segment);
        let places = [at, layout.mirrored(at)];
        let [first, second] = places.map(|at| {
            let mut b = [0; MAPPING_BYTES as usize];
            read(at, &mut b);
            b
        });
        match Mapping::decode(segment, &first, places[0]) {
            Ok(entry) if first == second => [Ok(entry), Ok(entry)],
            entry => [entry, Mapping::decode(segment, &second, places[1])],
        }
    }

    /// Writes damaged copies of entries anew, from the other ones.
    pub fn heal(medium: &Medium, layout: &Layout) {
        for segment in 0..layout.max_segments {
            let at = layout.mapping_entry_at(segment);
            let (entry, damaged) = match Mapping::copies(layout, segment, |at, into| medium.read(at, into)) {
                [Ok(entry), Err(_)] => (entry, layout.mirrored(at)),
                [Err(_), Ok(entry)] => (entry, at),
                _ => continue,
            };
            // SAFETY: nobody else has the volume yet.
            let dirty = unsafe { medium.write(damaged, &entry.encode(segment), Durable::repeatable()) };
            medium.fence(medium.flush(dirty)).done();
        }
    }
}
