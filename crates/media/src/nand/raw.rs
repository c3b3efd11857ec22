//! The raw contents of a chip: every page with its whole spare area, error correction's bytes among them.
//!
//! It knows nothing of error correction and of the order of programs. Programming turns ones into zeros, erasing turns
//! a block's bits into ones. That is what a chip of a simulator holds, and what `nanddump --noecc --oob` reads.

use super::Tear;
use crate::{Error, Result};
use pocketstone_random::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sizes of a raw chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawGeometry {
    /// Bytes of data in a page.
    pub page_bytes: u32,
    /// Bytes of its whole spare area.
    pub oob_bytes: u32,
    /// Pages in an erase block.
    pub pages_per_block: u32,
    /// Erase blocks.
    pub blocks: u32,
}

impl RawGeometry {
    /// Bytes of a page with its spare area.
    pub fn whole_page(&self) -> usize {
        self.page_bytes as usize + self.oob_bytes as usize
    }

    /// Pages of the whole chip.
    pub fn pages(&self) -> u32 {
        self.blocks * self.pages_per_block
    }
}

/// A chip's raw contents. Clones share the pages that neither changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawChip {
    geometry: RawGeometry,
    /// Pages that are not erased: at least one of their bits is 0.
    pages: BTreeMap<u32, Arc<[u8]>>,
}

/// What a file with raw contents begins with.
const MAGIC: &[u8; 8] = b"rawchip1";
const HEAD: usize = 24;

impl RawChip {
    /// An erased chip.
    pub fn new(geometry: RawGeometry) -> RawChip {
        RawChip { geometry, pages: BTreeMap::new() }
    }

    /// Its sizes.
    pub fn geometry(&self) -> RawGeometry {
        self.geometry
    }

    /// A page that is not erased.
    pub fn page(&self, page: u32) -> Option<&[u8]> {
        self.pages.get(&page).map(|page| &**page)
    }

    /// The pages that are not erased, in order.
    pub fn pages(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.pages.iter().map(|(number, page)| (*number, &**page))
    }

    /// Programs bytes of a page, from `column` on: what is 0 in them becomes 0.
    ///
    /// # Errors
    /// `Refused` if the chip has no such page, or a page no such bytes.
    pub fn program(&mut self, page: u32, column: u32, bytes: &[u8]) -> Result<()> {
        let whole = self.geometry.whole_page();
        let column = column as usize;
        if page >= self.geometry.pages() || column + bytes.len() > whole {
            let what = format!("bytes {column} to {} of page {page}", column + bytes.len());
            return Err(Error::refused(format!("the chip has no {what}: {:?}", self.geometry)));
        }
        if bytes.iter().all(|&byte| byte == 0xff) {
            return Ok(());
        }
        let cells = self.pages.entry(page).or_insert_with(|| vec![0xff; whole].into());
        let mut cells_new = cells.to_vec();
        cells_new[column..].iter_mut().zip(bytes).for_each(|(cell, byte)| *cell &= byte);
        *cells = cells_new.into();
        Ok(())
    }

    /// Erases a block.
    ///
    /// # Errors
    /// `Refused` if the chip has no such block.
    pub fn erase(&mut self, block: u32) -> Result<()> {
        let pages = self.pages_of(block)?;
        self.pages.retain(|page, _| !pages.contains(page));
        Ok(())
    }

    fn pages_of(&self, block: u32) -> Result<std::ops::Range<u32>> {
        let RawGeometry { pages_per_block, blocks, .. } = self.geometry;
        if block >= blocks {
            return Err(Error::refused(format!("the chip has no block {block}: {:?}", self.geometry)));
        }
        Ok(block * pages_per_block..(block + 1) * pages_per_block)
    }

    /// As [`RawChip::program`], with the power lost meanwhile: nothing, a prefix of the bytes' bits, their data alone,
    /// their spare area alone, or all of it is programmed. Returns which.
    ///
    /// # Errors
    /// As [`RawChip::program`].
    pub fn interrupt_program(&mut self, page: u32, column: u32, bytes: &[u8], seed: u64) -> Result<Tear> {
        let mut random = Random::labelled(seed, "interrupted program");
        let part = random.next_u64();
        let tears = [Tear::Nothing, Tear::Part(part), Tear::DataAlone, Tear::SpareAlone, Tear::Whole];
        let tear = tears[random.below(5) as usize];
        let data = (self.geometry.page_bytes as usize).saturating_sub(column as usize).min(bytes.len());
        let mut left = bytes.to_vec();
        match tear {
            Tear::Nothing | Tear::Seeded(_) => left.fill(0xff),
            Tear::Whole => {}
            Tear::DataAlone => left[data..].fill(0xff),
            Tear::SpareAlone => left[..data].fill(0xff),
            Tear::Part(seed) => {
                let bits = Random::labelled(seed, "programmed bits").below((bytes.len() as u64 * 8).max(1));
                let whole = (bits / 8) as usize;
                if let Some(byte) = left.get_mut(whole) {
                    *byte |= 0xff << (bits % 8);
                    left[whole + 1..].fill(0xff);
                }
            }
        }
        self.program(page, column, &left).map(|()| tear)
    }

    /// As [`RawChip::erase`], with the power lost meanwhile: nothing is erased; of each bit that is 0 it is decided by
    /// chance whether it becomes 1, in 1 to 15 of 16 cases; or the block is erased. Returns which.
    ///
    /// # Errors
    /// As [`RawChip::erase`].
    pub fn interrupt_erase(&mut self, block: u32, seed: u64) -> Result<Tear> {
        let pages = self.pages_of(block)?;
        let mut random = Random::labelled(seed, "interrupted erase");
        let part = Tear::Part(random.next_u64());
        let tear = [Tear::Nothing, part, part, Tear::Whole][random.below(4) as usize];
        match tear {
            Tear::Whole => self.erase(block)?,
            Tear::Part(seed) => {
                let mut random = Random::labelled(seed, "erased bits");
                let sixteenths = 1 + random.below(15);
                for page in pages {
                    let Some(cells) = self.pages.get(&page) else { continue };
                    let erased =
                        |cell: &u8| cell | (0..8).fold(0, |mask, bit| mask | one(sixteenths, &mut random) << bit);
                    let left: Vec<u8> = cells.iter().map(erased).collect();
                    match left.iter().all(|&byte| byte == 0xff) {
                        true => self.pages.remove(&page),
                        false => self.pages.insert(page, left.into()),
                    };
                }
            }
            _ => {}
        }
        Ok(tear)
    }

    /// Every page of the chip's first blocks with its spare area, as `nanddump --noecc --oob` writes it.
    pub fn image(&self, blocks: u32) -> Vec<u8> {
        let pages = blocks.min(self.geometry.blocks) * self.geometry.pages_per_block;
        let mut image = vec![0xff; pages as usize * self.geometry.whole_page()];
        for (into, number) in image.chunks_mut(self.geometry.whole_page()).zip(0..) {
            if let Some(page) = self.page(number) {
                into.copy_from_slice(page);
            }
        }
        image
    }

    /// Takes pages as they were read, `whole_page` bytes for each, from the one with this number on.
    ///
    /// # Errors
    /// As [`RawChip::program`].
    pub fn put(&mut self, first: u32, pages: &[u8]) -> Result<()> {
        let whole = self.geometry.whole_page();
        pages.chunks_exact(whole).zip(first..).try_for_each(|(page, number)| {
            self.pages.remove(&number);
            self.program(number, 0, page)
        })
    }

    /// A file of it: sizes, then number and bytes of each page that is not erased.
    pub fn encode(&self) -> Vec<u8> {
        let RawGeometry { page_bytes, oob_bytes, pages_per_block, blocks } = self.geometry;
        let mut file = MAGIC.to_vec();
        [page_bytes, oob_bytes, pages_per_block, blocks].iter().for_each(|size| file.extend(size.to_le_bytes()));
        for (number, page) in self.pages() {
            file.extend(number.to_le_bytes());
            file.extend(page);
        }
        file
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// `Refused` if it is none, or damaged.
    pub fn decode(file: &[u8]) -> Result<RawChip> {
        let damaged = || Error::refused("a file of a chip's raw contents is damaged");
        let head = file.get(..HEAD).filter(|head| head.starts_with(MAGIC)).ok_or_else(damaged)?;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        let size = |n: usize| number(&head[8 + 4 * n..12 + 4 * n]);
        let geometry =
            RawGeometry { page_bytes: size(0), oob_bytes: size(1), pages_per_block: size(2), blocks: size(3) };
        if geometry.pages_per_block.checked_mul(geometry.blocks).is_none() {
            return Err(damaged());
        }
        let mut chip = RawChip::new(geometry);
        let records = file[HEAD..].chunks_exact(4 + geometry.whole_page());
        if !records.remainder().is_empty() {
            return Err(damaged());
        }
        for record in records {
            chip.put(number(&record[..4]), &record[4..])?;
        }
        Ok(chip)
    }
}

/// 1 with the probability `sixteenths` / 16.
fn one(sixteenths: u64, random: &mut Random) -> u8 {
    u8::from(random.below(16) < sixteenths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: RawGeometry = RawGeometry { page_bytes: 8, oob_bytes: 2, pages_per_block: 4, blocks: 3 };

    #[test]
    fn programs_clear_bits_and_erases_set_those_of_their_block() {
        let mut chip = RawChip::new(SMALL);
        chip.program(5, 8, &[0xf0, 0x0f]).unwrap();
        chip.program(5, 0, &[0x12; 10]).unwrap();
        assert_eq!(chip.page(5).unwrap(), [0x12, 0x12, 0x12, 0x12, 0x12, 0x12, 0x12, 0x12, 0x10, 0x02]);
        chip.program(3, 0, &[0xff; 10]).unwrap();
        assert_eq!(chip.page(3), None, "all ones are an erased page");
        chip.program(8, 0, &[0]).unwrap();
        chip.erase(1).unwrap();
        assert_eq!(chip.pages().map(|(number, _)| number).collect::<Vec<_>>(), [8]);
        assert!(chip.program(12, 0, &[0]).is_err() && chip.program(0, 9, &[0, 0]).is_err() && chip.erase(3).is_err());
    }

    #[test]
    fn a_file_holds_all_of_it_and_an_image_every_page() {
        let mut chip = RawChip::new(SMALL);
        chip.program(1, 2, &[7, 8]).unwrap();
        chip.program(11, 9, &[0]).unwrap();
        let file = chip.encode();
        assert_eq!(file.len(), 24 + 2 * 14);
        assert_eq!(RawChip::decode(&file).unwrap(), chip);
        assert!(RawChip::decode(&file[..30]).is_err() && RawChip::decode(b"something else, long enough").is_err());
        let image = chip.image(1);
        assert_eq!(image.len(), 40);
        assert_eq!(image[10..20], [0xff, 0xff, 7, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert!(image[..10].iter().chain(&image[20..]).all(|&byte| byte == 0xff));
    }

    #[test]
    fn an_interrupted_program_leaves_what_its_word_says() {
        let bytes = [0u8; 10];
        let mut kinds = [0; 5];
        for seed in 0..200 {
            let mut chip = RawChip::new(SMALL);
            let tear = chip.interrupt_program(2, 0, &bytes, seed).unwrap();
            let found = chip.page(2).map_or(vec![0xff; 10], <[u8]>::to_vec);
            let ones: u32 = found.iter().map(|byte| byte.count_ones()).sum();
            match tear {
                Tear::Nothing => assert_eq!(ones, 80),
                Tear::Whole => assert_eq!(ones, 0),
                Tear::DataAlone => assert_eq!(found, [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]),
                Tear::SpareAlone => assert_eq!(found, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
                Tear::Part(_) => {
                    // Zeros up to a bit, ones from there on.
                    let bits: Vec<bool> = (0..80).map(|bit| found[bit / 8] >> (bit % 8) & 1 == 1).collect();
                    assert!(bits.is_sorted(), "{found:?}");
                }
                Tear::Seeded(_) => panic!("a seed is no state"),
            }
            kinds[match tear {
                Tear::Nothing => 0,
                Tear::Part(_) | Tear::Seeded(_) => 1,
                Tear::DataAlone => 2,
                Tear::SpareAlone => 3,
                Tear::Whole => 4,
            }] += 1;
        }
        // 40 of each, standard deviation 5.7; five of them.
        assert!(kinds.iter().all(|kind| (12..=68).contains(kind)), "{kinds:?}");
    }

    #[test]
    fn an_interrupted_erase_only_sets_bits_and_only_of_its_block() {
        let mut states = [0; 3];
        for seed in 0..100 {
            let mut chip = RawChip::new(SMALL);
            for page in 0..12 {
                chip.program(page, 0, &[0x5a; 10]).unwrap();
            }
            chip.interrupt_erase(1, seed).unwrap();
            for (number, page) in chip.pages().filter(|(number, _)| !(4..8).contains(number)) {
                assert_eq!(page, [0x5a; 10], "page {number}");
            }
            let left: Vec<u8> = (4..8).flat_map(|n| chip.page(n).map_or(vec![0xff; 10], <[u8]>::to_vec)).collect();
            assert!(left.iter().all(|byte| byte & 0x5a == 0x5a));
            let ones: u32 = left.iter().map(|byte| byte.count_ones()).sum();
            states[match ones {
                160 => 0,
                320 => 2,
                _ => 1,
            }] += 1;
        }
        // A quarter each of nothing and all, half in between: 25, 50 and 25, standard deviations 4.3 and 5.
        assert!(states[0] > 8 && states[1] > 30 && states[2] > 8, "{states:?}");
    }
}
