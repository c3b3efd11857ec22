//! Records of how long files are that grow without the volume ([`size_record`]): where they lie, and what they mean for
//! a volume that was not closed.

use super::inode::{self, Record};
use super::layout::{Layout, VERSION_BYTES};
use crate::{FileType, Ino};
use pocketstone_media::size_record::{self, SIZE_RECORD_BYTES, USED_BYTES};
use pocketstone_media::{Durable, Medium};
use std::collections::BTreeMap;

/// Bytes of page 1 before the first record, which stay zeros: a free inode is read there.
const FREE_BYTES: u64 = 256;
/// As many as small pages of 64 KiB have room for: more files are hardly ever synchronised at a time.
const RECORDS_MOST: u64 = 1020;

impl Layout {
    /// Offset of the first record.
    pub fn size_records_at(&self) -> u64 {
        self.page + FREE_BYTES
    }

    /// How many there is room for.
    pub fn size_records(&self) -> u32 {
        ((self.page - FREE_BYTES) / SIZE_RECORD_BYTES).min(RECORDS_MOST) as u32
    }

    /// Bytes of all of them.
    pub fn size_records_bytes(&self) -> u64 {
        u64::from(self.size_records()) * SIZE_RECORD_BYTES
    }
}

/// Clears all records, once `after` is durable.
///
/// # Safety
/// Nobody stores to one meanwhile, or reads it.
pub(crate) unsafe fn wipe(medium: &Medium, layout: &Layout, after: Durable) -> Durable {
    // SAFETY: the caller's promise; nothing else lies there.
    medium.fence(unsafe { medium.zero(layout.size_records_at(), layout.size_records_bytes(), after) })
}

/// The versions of inodes that records lead to, and where they go; `read` reads the volume as the journal leaves it.
pub(crate) fn versions(layout: &Layout, read: impl Fn(u64, &mut [u8])) -> Vec<(u64, [u8; VERSION_BYTES])> {
    let mut longer: BTreeMap<Ino, (u32, Record)> = BTreeMap::new();
    for number in 0..u64::from(layout.size_records()) {
        let mut line = [0; USED_BYTES];
        read(layout.size_records_at() + number * SIZE_RECORD_BYTES, &mut line);
        let Some((version, size)) = size_record::read(&line) else { continue };
        let ino = version.key as Ino;
        if !(1..=layout.last_inode()).contains(&ino) || size > layout.max_file() {
            continue;
        }
        let mut b = [0; 2 * VERSION_BYTES];
        read(layout.version_at(ino, 0), &mut b);
        let (first, second) = b.split_at(VERSION_BYTES);
        let halves = [inode::decode_half(ino, 0, first), inode::decode_half(ino, 1, second)];
        let Some((sequence, record)) = inode::current(halves) else { continue };
        let is_this = sequence == version.sequence && u64::from(record.generation) == version.key >> 32;
        // Several records of one inode may count: the largest size is the last one.
        let known = longer.get(&ino).map_or(record.size, |(_, known)| known.size);
        if is_this && !record.is_free() && record.kind() == FileType::Regular && size > known {
            longer.insert(ino, (sequence.wrapping_add(1), Record { size, ..record }));
        }
    }
    let stored = |(ino, (next, record)): (Ino, (u32, Record))| (layout.version_at(ino, next), record.encode(ino, next));
    longer.into_iter().map(stored).collect()
}
