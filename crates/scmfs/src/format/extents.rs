//! The list of a file's extents: small pages that lie neither in its run nor in a huge page. It lies in a run of
//! small pages of its own, and is written anew with each change.
//!
//! ```text
//!  0  u32 crc32c of the inode number and the bytes from 4 on     4  u32 extents
//!  8  for each, in order: u32 small page of the file, u32 first small page of the volume, u32 pages
//! ```

use super::bytes::{get_u32, put_u32};
use crate::Ino;
use std::ops::Range;

/// Bytes before the first extent.
const HEADER_BYTES: usize = 8;
/// Bytes of an extent.
const EXTENT_BYTES: usize = 12;
/// Most bytes that a list takes.
const LIST_BYTES_MAX: usize = 64 << 10;
/// Most extents in a list.
pub(crate) const EXTENTS_MAX: usize = (LIST_BYTES_MAX - HEADER_BYTES) / EXTENT_BYTES;

/// Consecutive small pages of a file that are consecutive in the volume, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    /// The first one's place in the file, in small pages.
    pub index: u32,
    /// The first one's number in the data area.
    pub start: u32,
    /// How many.
    pub pages: u32,
}

impl Extent {
    /// The place in the file after the last one; `None` if there is no such number.
    pub fn end(&self) -> Option<u32> {
        self.index.checked_add(self.pages)
    }

    /// The same, which never overflows.
    pub fn end_index(&self) -> u64 {
        u64::from(self.index) + u64::from(self.pages)
    }

    /// The part inside a range of the file, in small pages.
    pub fn within(&self, range: &Range<u64>) -> Option<Extent> {
        let from = range.start.max(u64::from(self.index));
        let to = range.end.min(self.end_index());
        (from < to).then(|| {
            let skipped = (from - u64::from(self.index)) as u32;
            Extent { index: from as u32, start: self.start + skipped, pages: (to - from) as u32 }
        })
    }

    /// The parts outside a range of the file, in small pages.
    pub fn outside(&self, range: &Range<u64>) -> impl Iterator<Item = Extent> + use<> {
        let parts = if range.start < range.end { [0..range.start, range.end..u64::MAX] } else { [0..u64::MAX, 0..0] };
        let extent = *self;
        parts.into_iter().filter_map(move |part| extent.within(&part))
    }
}

/// The pages of one set of extents that are in none of another: first page and number.
pub(crate) fn pages_gone(old: &[Extent], new: &[Extent]) -> Vec<(u32, u32)> {
    let mut kept: Vec<(u32, u32)> = new.iter().map(|extent| (extent.start, extent.pages)).collect();
    kept.sort_unstable();
    let mut gone = Vec::new();
    for extent in old {
        let (mut from, end) = (extent.start, extent.start + extent.pages);
        let first = kept.partition_point(|(start, pages)| start + pages <= from);
        for (start, pages) in kept[first..].iter().take_while(|(start, _)| *start < end) {
            if from < *start {
                gone.push((from, start - from));
            }
            from = from.max(start + pages);
        }
        if from < end {
            gone.push((from, end - from));
        }
    }
    gone
}

/// Bytes of a list of so many extents.
pub(crate) fn list_bytes(extents: usize) -> usize {
    HEADER_BYTES + extents * EXTENT_BYTES
}

/// A list as it lies in the volume.
pub(crate) fn encode(ino: Ino, extents: &[Extent]) -> Vec<u8> {
    let mut b = vec![0; HEADER_BYTES];
    put_u32(&mut b, 4, extents.len() as u32);
    for word in extents.iter().flat_map(|extent| [extent.index, extent.start, extent.pages]) {
        b.extend_from_slice(&word.to_le_bytes());
    }
    let crc = crc32c::crc32c_append(ino, &b[4..]);
    put_u32(&mut b, 0, crc);
    b
}

/// Reads a list back; `None` if its checksum is wrong, or its extents are empty, overlap or are out of order.
pub(crate) fn decode(ino: Ino, b: &[u8]) -> Option<Vec<Extent>> {
    if b.len() < HEADER_BYTES || get_u32(b, 0) != crc32c::crc32c_append(ino, &b[4..]) {
        return None;
    }
    let rest = &b[HEADER_BYTES..];
    if rest.len() != (get_u32(b, 4) as usize).checked_mul(EXTENT_BYTES)? {
        return None;
    }
    let word = |entry: &[u8], i: usize| get_u32(entry, 4 * i);
    let read = |entry| Extent { index: word(entry, 0), start: word(entry, 1), pages: word(entry, 2) };
    let extents: Vec<Extent> = rest.chunks_exact(EXTENT_BYTES).map(read).collect();
    let mut free_from = 0;
    for extent in &extents {
        if extent.pages == 0 || extent.index < free_from {
            return None;
        }
        free_from = extent.end()?;
    }
    Some(extents)
}

/// Pages that were taken, in the order of the holes that they fill.
pub(crate) fn laid_out(holes: &[Range<u32>], taken: &[(u32, u32)]) -> Vec<Extent> {
    let mut extents = Vec::new();
    let mut taken = taken.iter().copied();
    let (mut start, mut left) = (0, 0);
    for hole in holes {
        let mut index = hole.start;
        while index < hole.end {
            if left == 0 {
                let Some(next) = taken.next() else { return extents };
                (start, left) = next;
            }
            let pages = left.min(hole.end - index);
            extents.push(Extent { index, start, pages });
            (index, start, left) = (index + pages, start + pages, left - pages);
        }
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_gone_are_those_that_nobody_kept() {
        let extent = |start, pages| Extent { index: 0, start, pages };
        let old = [extent(10, 10), extent(40, 2), extent(30, 1)];
        assert_eq!(pages_gone(&old, &[]), [(10, 10), (40, 2), (30, 1)]);
        assert_eq!(pages_gone(&old, &[extent(5, 7), extent(14, 2), extent(19, 12)]), [(12, 2), (16, 3), (40, 2)]);
        assert_eq!(pages_gone(&old, &old), []);
    }

    #[test]
    fn a_list_comes_back_and_damage_or_disorder_does_not() {
        let list = [Extent { index: 3, start: 70, pages: 2 }, Extent { index: 5, start: 9, pages: 1 }];
        let b = encode(7, &list);
        assert_eq!(b.len(), list_bytes(2));
        // The second extent's first word, by hand.
        assert_eq!(b[20..24], [5, 0, 0, 0]);
        assert_eq!(decode(7, &b).as_deref(), Some(&list[..]));
        assert_eq!(decode(8, &b), None);
        for at in 0..b.len() {
            let mut damaged = b.clone();
            damaged[at] ^= 4;
            assert_eq!(decode(7, &damaged), None, "byte {at}");
        }
        for wrong in [
            vec![Extent { pages: 0, ..list[0] }],
            vec![list[1], list[0]],
            vec![Extent { pages: 3, ..list[0] }, list[1]],
            vec![Extent { index: u32::MAX, start: 0, pages: 1 }],
        ] {
            assert_eq!(decode(7, &encode(7, &wrong)), None, "{wrong:?}");
        }
    }
}
