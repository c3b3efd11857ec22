//! Records of how long files are that grow without the volume ([`size_record`]): where they lie, and what they mean for
//! a volume that was not closed.

use super::inode::{self, Half, newer};
use super::layout::{Layout, VERSION_BYTES};
use crate::{FileType, Ino};
use pocketstone_media::size_record::{self, SIZE_RECORD_BYTES, Version};
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

/// The versions of inodes that records lead to, and where they go; `read` reads the volume as the journal leaves it.
pub(crate) fn versions(layout: &Layout, read: impl Fn(u64, &mut [u8])) -> Vec<(u64, [u8; VERSION_BYTES])> {
    let mut sizes: BTreeMap<Ino, (Version, u64)> = BTreeMap::new();
    for record in 0..u64::from(layout.size_records()) {
        let mut line = [0; 24];
        read(layout.size_records_at() + record * SIZE_RECORD_BYTES, &mut line);
        let Some((version, size)) = size_record::read(&line) else { continue };
        let ino = version.key as Ino;
        let is_current = (1..=layout.last_inode()).contains(&ino) && size <= layout.max_file();
        if is_current && sizes.get(&ino).is_none_or(|(_, known)| *known < size) && is_of(layout, ino, version, &read) {
            sizes.insert(ino, (version, size));
        }
    }
    let longer = |(ino, (version, size)): (Ino, (Version, u64))| {
        let (_, record) = current(layout, ino, &read)?;
        let next = version.sequence.wrapping_add(1);
        let longer = inode::Record { size, ..record };
        (size > record.size).then(|| (layout.version_at(ino, next), longer.encode(ino, next)))
    };
    sizes.into_iter().filter_map(longer).collect()
}

/// Whether a record is of the version of an inode that counts.
fn is_of(layout: &Layout, ino: Ino, version: Version, read: &impl Fn(u64, &mut [u8])) -> bool {
    current(layout, ino, read).is_some_and(|(sequence, record)| {
        let is_this = sequence == version.sequence && u64::from(record.generation) == version.key >> 32;
        is_this && !record.is_free() && record.kind() == FileType::Regular
    })
}

/// The version of an inode that counts after a crash, which may have torn the other half.
fn current(layout: &Layout, ino: Ino, read: &impl Fn(u64, &mut [u8])) -> Option<(u32, inode::Record)> {
    let mut b = [0; 2 * VERSION_BYTES];
    read(layout.version_at(ino, 0), &mut b);
    let (first, second) = b.split_at(VERSION_BYTES);
    match [inode::decode_half(ino, 0, first), inode::decode_half(ino, 1, second)] {
        [Half::Valid(a, x), Half::Valid(b, y)] => Some(if newer(a, b) { (a, x) } else { (b, y) }),
        [Half::Valid(sequence, record), _] | [_, Half::Valid(sequence, record)] => Some((sequence, record)),
        _ => None,
    }
}
