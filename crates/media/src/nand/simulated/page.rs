//! One page of a simulated chip, and what interruptions leave of it.

use super::{STUCK_ONE_IN, Tear, Verdict};
use pocketstone_random::Random;

/// What a page went through since the last erase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Reads as erased, apart from flipped bits, and may be programmed.
    Erased,
    Programmed,
    /// Interrupted, with a bit that is 0.
    Torn,
}

/// A page that is not simply erased.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// The data as it was programmed and, behind it, the spare area as it reads.
    cells: Box<[u8]>,
    data_bytes: usize,
    state: State,
    /// Bits of the data that read wrongly.
    flips: Vec<u32>,
    /// Bits of an erased page, spare area included, that will be 0 when it is programmed.
    stuck: Vec<u32>,
}

fn bit_of(cells: &[u8], bit: u32) -> bool {
    cells[bit as usize / 8] & (1 << (bit % 8)) != 0
}

fn toggle(cells: &mut [u8], bit: u32) {
    cells[bit as usize / 8] ^= 1 << (bit % 8);
}

impl Page {
    pub(super) fn erased(data_bytes: usize, spare_bytes: usize) -> Page {
        let cells = vec![0xff; data_bytes + spare_bytes].into();
        Page { cells, data_bytes, state: State::Erased, flips: Vec::new(), stuck: Vec::new() }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Whether nothing tells it from a page that was never touched.
    pub(super) fn is_plain(&self) -> bool {
        self.state == State::Erased
            && self.flips.is_empty()
            && self.stuck.is_empty()
            && self.cells.iter().all(|&byte| byte == 0xff)
    }

    /// Programs it; bits that flipped or stick at 0 do so still where they should be 1.
    pub(super) fn program(mut self, data: &[u8], spare: &[u8]) -> Page {
        // A bit of the erased spare area that flipped is 0 and stays so.
        self.cells[..self.data_bytes].copy_from_slice(data);
        for (cell, &byte) in self.cells[self.data_bytes..].iter_mut().zip(spare) {
            *cell &= byte;
        }
        for bit in std::mem::take(&mut self.stuck) {
            if (bit as usize) < self.data_bytes * 8 {
                if !self.flips.contains(&bit) {
                    self.flips.push(bit);
                }
            } else if bit_of(&self.cells, bit) {
                toggle(&mut self.cells, bit);
            }
        }
        let cells = &self.cells;
        self.flips.retain(|&bit| bit_of(cells, bit));
        self.state = State::Programmed;
        self
    }

    /// Hands out what is asked for.
    pub(super) fn read(&self, data: &mut [u8], spare: &mut [u8], ecc_bits: u32) -> Verdict {
        spare.copy_from_slice(&self.cells[self.data_bytes..self.data_bytes + spare.len()]);
        if data.is_empty() {
            return Verdict::Clean;
        }
        data.copy_from_slice(&self.cells[..self.data_bytes]);
        if self.flips.len() > ecc_bits as usize {
            self.flips.iter().for_each(|&bit| toggle(data, bit));
            return Verdict::Uncorrectable;
        }
        match (self.state, self.flips.is_empty()) {
            (State::Torn, _) => Verdict::Uncorrectable,
            (_, true) => Verdict::Clean,
            (_, false) => Verdict::Corrected,
        }
    }

    pub(super) fn flip_data(&mut self, bits: u32, random: &mut Random) {
        let all = self.data_bytes as u64 * 8;
        assert!(
            u64::from(bits) + self.flips.len() as u64 <= all,
            "a page of {all} bits cannot have {bits} more flipped"
        );
        for _ in 0..bits {
            let bit = loop {
                let bit = random.below(all) as u32;
                if !self.flips.contains(&bit) {
                    break bit;
                }
            };
            self.flips.push(bit);
        }
    }

    pub(super) fn flip_spare(&mut self, bit: u32) {
        toggle(&mut self.cells[self.data_bytes..], bit);
    }

    /// What the loss of power leaves as this page is on its way into the cells; `None`: they are as before.
    pub(super) fn torn(&self, tear: Tear, ecc_bits: u32) -> Option<Page> {
        let (seed, tear) = match tear {
            Tear::Seeded(seed) => {
                let mut random = Random::labelled(seed, "torn program");
                let part = Tear::Part(random.next_u64());
                (seed, [Tear::Nothing, part, Tear::DataAlone, Tear::SpareAlone, Tear::Whole][random.below(5) as usize])
            }
            Tear::Part(seed) => (seed, tear),
            _ => (0, tear),
        };
        let mut random = Random::labelled(seed, "torn page");
        let mut left = self.clone();
        match tear {
            Tear::Nothing => return None,
            Tear::Whole => return Some(left),
            Tear::DataAlone => left.cells[self.data_bytes..].fill(0xff),
            Tear::SpareAlone => left.cells[..self.data_bytes].fill(0xff),
            Tear::Part(_) | Tear::Seeded(_) => {
                let bits = random.below(self.cells.len() as u64 * 8);
                let whole = (bits / 8) as usize;
                left.cells[whole] |= 0xff << (bits % 8);
                left.cells[whole + 1..].fill(0xff);
            }
        }
        Some(left.interrupted(ecc_bits, &mut random))
    }

    /// What an interrupted erase leaves of it, `sixteenths` of its zero bits being turned into ones; 16: nearly all.
    pub(super) fn half_erased(&self, sixteenths: u64, ecc_bits: u32, random: &mut Random) -> Page {
        let mut left = self.clone();
        if self.state == State::Erased {
            return left;
        }
        if sixteenths < 16 {
            for chunk in left.cells.chunks_mut(8) {
                let mask = mask(sixteenths, random).to_le_bytes();
                chunk.iter_mut().zip(mask).for_each(|(cell, ones)| *cell |= ones);
            }
        } else {
            left.cells.fill(0xff);
            for _ in 0..random.below(4) {
                let bit = random.below(self.cells.len() as u64 * 8) as u32;
                if !bit_of(&self.cells, bit) && bit_of(&left.cells, bit) {
                    toggle(&mut left.cells, bit);
                }
            }
        }
        left.interrupted(ecc_bits, random)
    }

    /// Makes it a page between two states.
    fn interrupted(mut self, ecc_bits: u32, random: &mut Random) -> Page {
        self.flips.clear();
        self.stuck.clear();
        self.state = State::Torn;
        if self.cells.iter().all(|&byte| byte == 0xff) {
            self.state = State::Erased;
            if random.below(STUCK_ONE_IN) == 0 {
                // Some can be put right, some are too many.
                let bits = self.cells.len() as u64 * 8;
                let count = 1 + random.below(2 * u64::from(ecc_bits) + 2);
                self.stuck = (0..count).map(|_| random.below(bits) as u32).collect();
            }
        }
        self
    }
}

/// 64 bits of which each is 1 with the probability `sixteenths` / 16: from the lowest binary digit of that number up,
/// OR with a fair bit is (1 + p) / 2 and AND is p / 2.
fn mask(sixteenths: u64, random: &mut Random) -> u64 {
    (0..4).fold(0, |mask, digit| {
        let fair = random.next_u64();
        if sixteenths >> digit & 1 == 1 { mask | fair } else { mask & fair }
    })
}
