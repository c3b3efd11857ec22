//! Chips that are written by hand, page by page, from the description of the format.

use pocketstone_media::nand::{Geometry, Nand, SimulatedNand, SimulatedOptions, tags::TagsParity};
use pocketstone_yaffs2::{OpenOptions, Report, check};

pub const PAGE: usize = 2048;
pub const FILE: u32 = 1;
pub const SYMLINK: u32 = 2;
pub const DIRECTORY: u32 = 3;
pub const HARD_LINK: u32 = 4;

pub fn geometry(blocks: u32) -> Geometry {
    Geometry { page_bytes: PAGE as u32, spare_bytes: 38, pages_per_block: 64, blocks }
}

/// A chip, and the next page of it.
pub struct Writer {
    pub nand: SimulatedNand,
    pub page: u32,
    pub sequence: u32,
}

impl Writer {
    pub fn new() -> Writer {
        let options = SimulatedOptions::default().factory_bad(vec![7]);
        Writer { nand: SimulatedNand::new(geometry(8), options), page: 0, sequence: 0x1001 }
    }

    pub fn put(&mut self, data: &[u8], object: u32, chunk: u32, bytes: u32) -> &mut Writer {
        let mut page = vec![0xFF; PAGE];
        page[..data.len()].copy_from_slice(data);
        let mut tags: Vec<u8> =
            [self.sequence, object, chunk, bytes].iter().flat_map(|word| word.to_le_bytes()).collect();
        let parity = TagsParity::of(&tags);
        tags.extend([parity.column, 0, 0, 0]);
        tags.extend([parity.line, parity.inverted].iter().flat_map(|word| word.to_le_bytes()));
        self.nand.program(self.page, &page, &tags).expect("programmed");
        self.page += 1;
        self
    }

    /// A header, with what it says once more in its tags.
    pub fn header(&mut self, id: u32, kind: u32, parent: u32, name: &[u8], value: u32) -> &mut Writer {
        self.put(&header(kind, parent, name, value), kind << 28 | id, 0x8000_0000 | parent, value)
    }

    pub fn data(&mut self, id: u32, chunk: u32, bytes: u32) -> &mut Writer {
        let mut data = [0; PAGE];
        data[..bytes as usize].fill(5);
        self.put(&data, id, chunk, bytes)
    }

    pub fn next_block(&mut self) -> &mut Writer {
        self.page = self.page.next_multiple_of(64);
        self.sequence += 1;
        self
    }

    pub fn check(&mut self) -> Report {
        let nand = std::mem::replace(&mut self.nand, SimulatedNand::new(geometry(8), SimulatedOptions::default()));
        check(Box::new(nand), &OpenOptions::default()).expect("checked")
    }
}

/// A header's 512 bytes.
pub fn header(kind: u32, parent: u32, name: &[u8], value: u32) -> Vec<u8> {
    let mut page = vec![0xFF; 512];
    let mut put = |at: usize, word: u32| page[at..at + 4].copy_from_slice(&word.to_le_bytes());
    put(0, kind);
    put(4, parent);
    put(268, if kind == DIRECTORY { 0o40_755 } else { 0o100_644 });
    [272, 276, 280, 284, 288, 460, 504, 508].into_iter().for_each(|at| put(at, 0));
    if kind == FILE {
        put(292, value);
    }
    if kind == HARD_LINK {
        put(296, value);
    }
    page[10..266].fill(0);
    page[10..10 + name.len()].copy_from_slice(name);
    if kind == SYMLINK {
        page[300..460].fill(0);
    }
    page
}
