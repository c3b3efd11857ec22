//! What is known of every block and page.

use super::FIRST_SEQUENCE;
use super::chip::{Block, Chunk};
use super::summary::Shape;

/// What a block is used for, by its number in checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    Unknown = 0,
    Scanning = 1,
    NeedsScan = 2,
    /// Erased.
    Empty = 3,
    /// Being filled.
    Allocating = 4,
    /// No page of it will be written until it is erased.
    Full = 5,
    /// Nothing in it is of use.
    Dirty = 6,
    /// Part of a checkpoint.
    Checkpoint = 7,
    /// Its data is being moved.
    Collecting = 8,
    /// Bad.
    Dead = 9,
}

impl State {
    pub fn of(number: u32) -> Option<State> {
        use State::{Allocating, Checkpoint, Collecting, Dead, Dirty, Empty, Full, NeedsScan, Scanning, Unknown};
        let all = [Unknown, Scanning, NeedsScan, Empty, Allocating, Full, Dirty, Checkpoint, Collecting, Dead];
        all.get(number as usize).copied()
    }
}

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    pub sequence: u32,
    /// Pages that hold something of use.
    pub used: u16,
    pub state: State,
    flags: u8,
}

/// A truth about a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Flag {
    /// A header in it says that a file shrank, or that an object is gone.
    Shrinks = 1,
    /// Collect it before others.
    Prioritised = 2,
    /// Mark it bad once its data is moved.
    Retiring = 4,
    /// Its last pages hold a summary.
    Summary = 8,
    /// It was erased, or tried out, since the mount.
    Trusted = 16,
    /// Correction had to help once; twice. It stays true when the block is erased.
    Struck = 32,
    StruckTwice = 64,
    /// Something in it cannot be read: it is never collected, only erased once nothing of it is of use.
    Stuck = 128,
}

impl Info {
    pub fn has(&self, flag: Flag) -> bool {
        self.flags & flag as u8 != 0
    }

    pub fn set(&mut self, flag: Flag, on: bool) {
        if on {
            self.flags |= flag as u8;
        } else {
            self.flags &= !(flag as u8);
        }
    }

    /// Reading it needed help. That counts once until it is erased, however often it is read; the third time it is
    /// to be given up.
    pub fn strike(&mut self) {
        if self.has(Flag::Prioritised) {
            return;
        }
        self.set(Flag::Prioritised, true);
        if !self.has(Flag::Struck) {
            self.set(Flag::Struck, true);
        } else if !self.has(Flag::StruckTwice) {
            self.set(Flag::StruckTwice, true);
        } else {
            self.set(Flag::Retiring, true);
        }
    }

    /// As many strikes as a checkpoint says.
    pub fn set_strikes(&mut self, strikes: u32) {
        self.set(Flag::Struck, strikes > 0);
        self.set(Flag::StruckTwice, strikes > 1);
    }

    pub fn strikes(&self) -> u32 {
        u32::from(self.has(Flag::Struck)) + u32::from(self.has(Flag::StruckTwice)) + u32::from(self.has(Flag::Retiring))
    }
}

/// All blocks, and one bit for every page in use.
pub struct Blocks {
    infos: Vec<Info>,
    bits: Vec<u8>,
    pages: u32,
    bytes_each: usize,
    shape: Shape,
    used: u64,
    /// Whether an erase may have been cut short: then a block that looks erased is erased again before it is used.
    pub doubtful: bool,
    /// Blocks that are erased.
    pub erased: u32,
    /// Blocks that are bad.
    pub dead: u32,
}

impl Blocks {
    /// Whether all that is written has the number that image builders give to every block: nothing was written since.
    pub fn are_as_built(&self) -> bool {
        let written = |info: &&Info| matches!(info.state, State::Full | State::Allocating | State::Collecting);
        let mut written = self.infos.iter().filter(written).peekable();
        written.peek().is_some() && written.all(|info| info.sequence == FIRST_SEQUENCE)
    }

    pub fn new(blocks: u32, pages: u32, shape: Shape) -> Blocks {
        let bytes_each = pages.div_ceil(8) as usize;
        let unknown = Info { sequence: 0, used: 0, state: State::Unknown, flags: 0 };
        Blocks {
            infos: vec![unknown; blocks as usize],
            bits: vec![0; bytes_each * blocks as usize],
            pages,
            bytes_each,
            shape,
            used: 0,
            doubtful: false,
            erased: 0,
            dead: 0,
        }
    }

    /// Pages that hold something of use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Pages that could hold something of use and do not: erased ones and garbage.
    pub fn free(&self) -> i64 {
        let good = self.infos.len() as i64 - i64::from(self.dead);
        good * i64::from(self.shape.entries) - self.used as i64
    }

    pub fn all(&self) -> std::ops::RangeInclusive<Block> {
        1..=self.infos.len() as u32
    }

    pub fn get(&self, block: Block) -> &Info {
        &self.infos[block as usize - 1]
    }

    pub fn get_mut(&mut self, block: Block) -> &mut Info {
        &mut self.infos[block as usize - 1]
    }

    /// A block is erased now, or was found erased.
    pub fn set_empty(&mut self, block: Block, trusted: bool) {
        self.used -= u64::from(self.get(block).used);
        let info = self.get_mut(block);
        let strikes = info.flags & (Flag::Struck as u8 | Flag::StruckTwice as u8);
        *info = Info { sequence: 0, used: 0, state: State::Empty, flags: strikes };
        info.set(Flag::Trusted, trusted);
        self.bitmap_mut(block).fill(0);
        self.erased += 1;
    }

    /// A block is bad.
    pub fn set_dead(&mut self, block: Block) {
        self.used -= u64::from(self.get(block).used);
        *self.get_mut(block) = Info { sequence: 0, used: 0, state: State::Dead, flags: 0 };
        self.bitmap_mut(block).fill(0);
        self.dead += 1;
    }

    pub fn bitmap(&self, block: Block) -> &[u8] {
        &self.bits[(block as usize - 1) * self.bytes_each..][..self.bytes_each]
    }

    pub fn bitmap_mut(&mut self, block: Block) -> &mut [u8] {
        &mut self.bits[(block as usize - 1) * self.bytes_each..][..self.bytes_each]
    }

    pub fn is_used(&self, chunk: Chunk) -> bool {
        let page = chunk % self.pages;
        self.bitmap(chunk / self.pages)[page as usize / 8] >> (page % 8) & 1 == 1
    }

    /// A page holds something of use now.
    pub fn mark(&mut self, chunk: Chunk) {
        let (block, page) = (chunk / self.pages, chunk % self.pages);
        let byte = &mut self.bitmap_mut(block)[page as usize / 8];
        if *byte >> (page % 8) & 1 == 0 {
            *byte |= 1 << (page % 8);
            self.get_mut(block).used += 1;
            self.used += 1;
        }
    }

    /// A page holds nothing of use any more.
    pub fn clear(&mut self, chunk: Chunk) {
        let (block, page) = (chunk / self.pages, chunk % self.pages);
        let byte = &mut self.bitmap_mut(block)[page as usize / 8];
        if *byte >> (page % 8) & 1 == 1 {
            *byte &= !(1 << (page % 8));
            self.get_mut(block).used -= 1;
            self.used -= 1;
        }
    }

    /// Pages of a block that could hold something of use.
    pub fn capacity(&self, info: &Info) -> u32 {
        if info.has(Flag::Summary) { self.shape.entries } else { self.pages }
    }

    /// The smallest sequence number of a full block that holds garbage.
    pub fn oldest_with_garbage(&self) -> Option<u32> {
        let full = self.infos.iter().filter(|info| matches!(info.state, State::Full | State::Collecting));
        full.filter(|info| u32::from(info.used) < self.capacity(info)).map(|info| info.sequence).min()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.infos.capacity() * size_of::<Info>() + self.bits.capacity()
    }
}
