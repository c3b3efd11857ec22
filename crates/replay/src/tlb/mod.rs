//! Misses of data TLBs, counted by a model of the TLB from the addresses that an operation touches: for machines
//! without counters, and for processors that are not here.
//!
//! ```text
//! file copies (IOZONE's pattern) --> Access --> first level --miss--> second level --miss--> page walk
//!                                                  |  hit                |  hit                |
//!                                                  +---------------------+--- fills <----------+
//! ```
//! Modelled, never measured. A processor's TLB is in [`PROCESSORS`], each with its source; nothing is prefetched.

mod copies;
mod entries;
mod passes;
mod processors;
#[cfg(test)]
mod tests;

pub use copies::{Calls, Copies};
pub use passes::{Pass, Row, THRESHOLDS_BYTES, passes};
pub use processors::PROCESSORS;

use entries::Entries;
use pocketstone_core::{Error, Result};
use serde::Serialize;

/// Bits of an address within a page of 4 KiB.
pub const SMALL_PAGE_BITS: u32 = 12;
/// Bits of an address within a page of 2 MiB.
pub const HUGE_PAGE_BITS: u32 = 21;
/// Bits of an address that one level of a page table decodes, with 8-byte entries in tables of 4 KiB.
const TABLE_BITS: u32 = 9;

/// A processor's data TLB.
#[derive(Debug)]
pub struct Processor {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// Where the numbers are from.
    pub source: &'static str,
    /// From the level that is asked first.
    pub levels: &'static [Level],
    /// Caches of upper levels of page tables; empty where nothing is published.
    pub walk_caches: &'static [WalkCache],
    /// Bits of a virtual address that its page tables decode.
    pub address_bits: u32,
}

impl Processor {
    /// The processor of that name.
    ///
    /// # Errors
    /// `ErrorKind::User` if no such processor is known.
    pub fn named(name: &str) -> Result<&'static Processor> {
        let names = || PROCESSORS.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        let unknown =
            || Error::user(format!("no data TLB is known of a processor {name}")).hint(format!("known: {}", names()));
        PROCESSORS.iter().find(|p| p.name == name).ok_or_else(unknown)
    }
}

/// One level: its arrays, of which each access asks the one that holds its page size.
#[derive(Debug)]
pub struct Level(pub &'static [Array]);

/// A set-associative array of translations. A page's set is its number modulo the number of sets.
#[derive(Debug)]
pub struct Array {
    /// Number of translations.
    pub entries: usize,
    /// Number of them in a set; `entries` if it is fully associative.
    pub ways: usize,
    /// Sizes of pages that it holds, as bits of an address within a page.
    pub page_bits: &'static [u32],
    /// Accesses that ask it.
    pub accesses: Accesses,
    /// Which translation gives way.
    pub replacement: Replacement,
}

/// Accesses that ask an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accesses {
    /// Loads and stores.
    All,
    /// Loads.
    Loads,
    /// Stores.
    Stores,
}

/// Which translation of a set gives way to a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// The one that was not used for longest.
    LeastRecentlyUsed,
    /// Pseudo-LRU by a binary tree of bits, each pointing away from the half used last.
    Tree,
}

/// A cache of what one level of the page table says: a hit ends a walk's upper part.
#[derive(Debug)]
pub struct WalkCache {
    /// Bits of an address below which an entry's table decodes: 21 for entries that point to tables of 4 KiB pages.
    pub covers_bits: u32,
    /// Number of entries.
    pub entries: usize,
    /// Number of them in a set; the least recently used one gives way.
    pub ways: usize,
}

/// One touch of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Virtual address.
    pub address: u64,
    /// Size of the page it lies in, as bits of an address within a page.
    pub page_bits: u32,
    /// Whether it stores.
    pub store: bool,
}

/// What a stream of accesses came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Accesses.
    pub accesses: u64,
    /// Accesses that the first level did not answer.
    pub first_level_misses: u64,
    /// Accesses that no level answered.
    pub walks: u64,
    /// Entries of page tables that those walks read.
    pub walk_loads: u64,
}

/// A data TLB at work, empty at first.
#[derive(Debug, Clone)]
pub struct Tlb {
    processor: &'static Processor,
    levels: Vec<Vec<Entries>>,
    walk_caches: Vec<Entries>,
    counts: Counts,
}

impl Tlb {
    /// An empty TLB of `processor`.
    pub fn new(processor: &'static Processor) -> Self {
        let arrays = |level: &Level| level.0.iter().map(|a| Entries::new(a.entries, a.ways, a.replacement)).collect();
        let walk_cache = |c: &WalkCache| Entries::new(c.entries, c.ways, Replacement::LeastRecentlyUsed);
        Self {
            processor,
            levels: processor.levels.iter().map(arrays).collect(),
            walk_caches: processor.walk_caches.iter().map(walk_cache).collect(),
            counts: Counts::default(),
        }
    }

    /// One access.
    pub fn access(&mut self, access: Access) {
        self.counts.accesses += 1;
        let number = access.address >> access.page_bits;
        // Arrays shared by several page sizes must not take one size's page for another's.
        let tag = number << 6 | u64::from(access.page_bits);
        let found = (0..self.levels.len()).find(|l| self.array(*l, access).is_some_and(|a| a.holds(number, tag)));
        if found != Some(0) {
            self.counts.first_level_misses += 1;
        }
        if found.is_none() {
            self.walk(access);
        }
        for level in 0..found.unwrap_or(self.levels.len()) {
            if let Some(array) = self.array(level, access) {
                array.fill(number, tag);
            }
        }
    }

    /// What the accesses so far came to.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The array of a level that answers such accesses, if there is one.
    fn array(&mut self, level: usize, access: Access) -> Option<&mut Entries> {
        let place = self.processor.levels[level].0.iter().position(|array| {
            let kind = match array.accesses {
                Accesses::All => true,
                Accesses::Loads => !access.store,
                Accesses::Stores => access.store,
            };
            kind && array.page_bits.contains(&access.page_bits)
        })?;
        Some(&mut self.levels[level][place])
    }

    fn walk(&mut self, access: Access) {
        self.counts.walks += 1;
        let mut from_bits = self.processor.address_bits;
        for (cache, entries) in self.processor.walk_caches.iter().zip(&mut self.walk_caches) {
            let number = access.address >> cache.covers_bits;
            if cache.covers_bits <= access.page_bits {
                continue;
            }
            match entries.holds(number, number) {
                true => from_bits = from_bits.min(cache.covers_bits),
                false => entries.fill(number, number),
            }
        }
        self.counts.walk_loads += u64::from((from_bits - access.page_bits).div_ceil(TABLE_BITS));
    }
}
