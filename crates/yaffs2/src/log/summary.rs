//! Block summaries: the tags of a block's pages, once more in its last pages, so that a mount reads one page
//! instead of all tags.
//!
//! ```text
//! off  size
//!   0     4  version, 1
//!   4     4  the block's number, from 1
//!   8     4  its sequence number
//!  12     4  sum of all bytes of the entries
//!  16        entries of 12 bytes: object, chunk, bytes as in packed tags; goes on in the next page
//! ```

use super::tags::Packed;
use crate::bytes::u32_at;

/// The object that summaries belong to.
pub const SUMMARY_OBJECT: u32 = 0x10;
/// Bytes before the entries, in each page.
pub const SUMMARY_HEADER: usize = 16;
const VERSION: u32 = 1;
const ENTRY: usize = 12;

/// How a block is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Pages with entries in the summary.
    pub entries: u32,
    /// Pages of the summary.
    pub pages: u32,
    data_bytes: usize,
}

impl Shape {
    /// For blocks of so many pages. A summary that would take half of them is none.
    pub fn of(pages_per_block: u32, data_bytes: usize, on: bool) -> Shape {
        let payload = data_bytes - SUMMARY_HEADER;
        // What other writers have; it is never too little.
        let pages = ((ENTRY * pages_per_block as usize + data_bytes - 1) / payload) as u32;
        match on && pages * 2 < pages_per_block {
            true => Shape { entries: pages_per_block - pages, pages, data_bytes },
            false => Shape { entries: pages_per_block, pages: 0, data_bytes },
        }
    }

    pub fn is_on(&self) -> bool {
        self.pages > 0
    }

    /// Bytes of entries in a page of the summary.
    fn part(&self, page: u32) -> (usize, usize) {
        let all = self.entries as usize * ENTRY;
        let payload = self.data_bytes - SUMMARY_HEADER;
        let start = (page as usize * payload).min(all);
        (start, (all - start).min(payload))
    }

    /// Valid bytes of a page of the summary, as in its tags.
    pub fn bytes(&self, page: u32) -> u32 {
        (self.part(page).1 + SUMMARY_HEADER) as u32
    }

    /// A page of a block's summary.
    pub fn encode(&self, page: u32, block: u32, sequence: u32, entries: &[Packed], into: &mut [u8]) {
        let all: Vec<u8> = entries
            .iter()
            .flat_map(|entry| [entry.object, entry.chunk, entry.bytes])
            .flat_map(u32::to_le_bytes)
            .collect();
        let (start, bytes) = self.part(page);
        into.fill(0xFF);
        for (at, word) in [VERSION, block, sequence, sum(&all)].into_iter().enumerate() {
            into[4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        into[SUMMARY_HEADER..][..bytes].copy_from_slice(&all[start..start + bytes]);
    }

    /// What the block is called, as its summary says.
    pub fn block(pages: &[Vec<u8>]) -> Option<u32> {
        pages.first().map(|page| u32_at(page, 4))
    }

    /// The entries from all pages of a summary; `None` if it is not valid.
    pub fn decode(&self, sequence: u32, pages: &[Vec<u8>]) -> Option<Vec<Packed>> {
        let mut all = Vec::with_capacity(self.entries as usize * ENTRY);
        for (number, page) in (0u32..).zip(pages) {
            if u32_at(page, 0) != VERSION || u32_at(page, 8) != sequence {
                return None;
            }
            all.extend_from_slice(&page[SUMMARY_HEADER..][..self.part(number).1]);
        }
        let expected = u32_at(pages.first()?, 12);
        if all.len() != self.entries as usize * ENTRY || sum(&all) != expected {
            return None;
        }
        let entry =
            |bytes: &[u8]| Packed { object: u32_at(bytes, 0), chunk: u32_at(bytes, 4), bytes: u32_at(bytes, 8) };
        Some(all.chunks_exact(ENTRY).map(entry).collect())
    }
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum: u32, &byte| sum.wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_in_64_is_a_summary() {
        let shape = Shape::of(64, 2048, true);
        assert_eq!((shape.entries, shape.pages, shape.bytes(0)), (63, 1, 63 * 12 + 16));
        assert!(!Shape::of(64, 2048, false).is_on());
        // (12 x 128 + 511) / 496 = 4.
        assert_eq!(Shape::of(128, 512, true).pages, 4);
    }

    #[test]
    fn a_summary_survives_its_pages_and_damage_is_seen() {
        let shape = Shape::of(256, 512, true);
        let entries: Vec<Packed> =
            (0..shape.entries).map(|n| Packed { object: 257 + n, chunk: n, bytes: 512 }).collect();
        let mut pages: Vec<Vec<u8>> = (0..shape.pages)
            .map(|page| {
                let mut bytes = vec![0; 512];
                shape.encode(page, 7, 0x1001, &entries, &mut bytes);
                bytes
            })
            .collect();
        assert_eq!(shape.decode(0x1001, &pages), Some(entries));
        assert_eq!(shape.decode(0x1002, &pages), None);
        pages[1][100] ^= 1;
        assert_eq!(shape.decode(0x1001, &pages), None);
    }
}
