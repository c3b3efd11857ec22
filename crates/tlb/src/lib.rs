//! Misses of data TLBs, counted by a model of the TLB from the addresses that are touched: for machines without
//! counters, and for processors that are not here.
//!
//! ```text
//! Access --> first level --miss--> second level --miss--> page walk
//!               |  hit                |  hit                |
//!               +---------------------+--- fills <----------+
//! ```
//! Modelled, never measured. Nothing is prefetched. A [`Processor`]'s data TLB is a file in `devices/` of the kind
//! `tlb`; whoever has a stream of addresses feeds it to a [`Tlb`]: calls that copy a file, a volume in process, or
//! every access of a virtual machine.

mod entries;
pub mod join;
pub mod marks;
pub mod pages;
mod processor;
#[cfg(test)]
mod tests;

pub use processor::{Accesses, Array, KIND, Level, Processor, Replacement, WalkCache, list};

use entries::{Entries, Tag};
use serde::{Deserialize, Serialize};

/// Bits of an address within a page of 4 KiB.
pub const SMALL_PAGE_BITS: u32 = 12;
const SMALL_PAGE_BYTES: u64 = 1 << SMALL_PAGE_BITS;
/// Bits of an address within a page of 2 MiB.
pub const HUGE_PAGE_BITS: u32 = 21;

/// File of a processor's profile in the folder of a machine that the QEMU plugin watches.
pub const PROCESSOR_FILE: &str = "tlb.toml";
/// File of the kernel's page table there ([`pages`]); without it all pages are 4 KiB.
pub const TABLE_FILE: &str = "tlb-table.bin";
/// File of what was counted there ([`marks`]).
pub const MARKS_FILE: &str = "tlb.bin";
/// File there of why the plugin could not begin.
pub const ERROR_FILE: &str = "tlb-error.txt";

/// One touch of a page. It does not cross a page's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Virtual address.
    pub address: u64,
    /// What tells address spaces apart, such as the physical address that the page begins at: the same virtual address
    /// with another one is another page. 0 where there is one address space.
    pub space: u64,
    /// Size of the page it lies in, as bits of an address within a page.
    pub page_bits: u32,
    /// Whether it stores.
    pub store: bool,
}

/// What a stream of accesses came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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

impl Counts {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Counts) {
        self.accesses += other.accesses;
        self.first_level_misses += other.first_level_misses;
        self.walks += other.walks;
        self.walk_loads += other.walk_loads;
    }

    /// What was counted since `earlier`, which is an earlier value of the same counts.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            accesses: self.accesses.saturating_sub(earlier.accesses),
            first_level_misses: self.first_level_misses.saturating_sub(earlier.first_level_misses),
            walks: self.walks.saturating_sub(earlier.walks),
            walk_loads: self.walk_loads.saturating_sub(earlier.walk_loads),
        }
    }
}

/// A data TLB at work, empty at first.
#[derive(Debug, Clone)]
pub struct Tlb {
    levels: Vec<Vec<(Array, Entries)>>,
    walk_caches: Vec<(WalkCache, Entries)>,
    table_bits: Vec<u32>,
    /// Sizes of pages that any array holds, ascending.
    page_bits: Vec<u32>,
    counts: Counts,
}

impl Tlb {
    /// An empty TLB of `processor`.
    pub fn new(processor: &Processor) -> Self {
        let array = |a: &Array| (a.clone(), Entries::new(a.entries, a.ways, a.replacement));
        let level = |level: &Level| level.arrays.iter().map(array).collect();
        let walk_cache = |c: &WalkCache| (c.clone(), Entries::new(c.entries, c.ways, Replacement::LeastRecentlyUsed));
        Self {
            levels: processor.levels.iter().map(level).collect(),
            walk_caches: processor.walk_caches.iter().map(walk_cache).collect(),
            table_bits: processor.table_bits.clone(),
            page_bits: processor.page_bits(),
            counts: Counts::default(),
        }
    }

    /// One access. A page of a size that no array holds counts as pages of the largest smaller size that one does.
    pub fn access(&mut self, access: Access) {
        let access = Access { page_bits: largest_within(&self.page_bits, access.page_bits), ..access };
        self.counts.accesses += 1;
        let found = (0..self.levels.len())
            .find(|level| self.array(*level, access).is_some_and(|(array, tag)| array.holds(tag)));
        if found != Some(0) {
            self.counts.first_level_misses += 1;
        }
        if found.is_none() {
            self.walk(access);
        }
        for level in 0..found.unwrap_or(self.levels.len()) {
            if let Some((array, tag)) = self.array(level, access) {
                array.fill(tag);
            }
        }
    }

    /// Accesses to a range of addresses, one for each 4 KiB of them. `page_bits` says how large the page of an address
    /// is.
    pub fn touch(&mut self, address: u64, bytes: u64, store: bool, page_bits: impl Fn(u64) -> u32) {
        let mut done = 0;
        while done < bytes {
            let at = address + done;
            self.access(Access { address: at, space: 0, page_bits: page_bits(at), store });
            done += SMALL_PAGE_BYTES - at % SMALL_PAGE_BYTES;
        }
    }

    /// A copy, from its beginning to its end: by turns a load and a store, for each piece that ends where one side's
    /// 4 KiB do.
    pub fn copy(&mut self, from: u64, to: u64, bytes: u64, page_bits: impl Fn(u64) -> u32) {
        let mut done = 0;
        while done < bytes {
            let (load, store) = (from + done, to + done);
            self.access(Access { address: load, space: 0, page_bits: page_bits(load), store: false });
            self.access(Access { address: store, space: 0, page_bits: page_bits(store), store: true });
            done += SMALL_PAGE_BYTES - (load % SMALL_PAGE_BYTES).max(store % SMALL_PAGE_BYTES);
        }
    }

    /// What the accesses so far came to.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The array of a level that answers such accesses, if there is one, and the entry it would have.
    fn array(&mut self, level: usize, access: Access) -> Option<(&mut Entries, Tag)> {
        let answers = |array: &Array| match array.accesses {
            Accesses::All => true,
            Accesses::Loads => !access.store,
            Accesses::Stores => access.store,
        };
        let held = |array: &Array| array.held(access.page_bits).filter(|_| answers(array));
        let (entries, bits) = self.levels[level].iter_mut().find_map(|(a, e)| held(a).map(|bits| (e, bits)))?;
        Some((entries, Tag { number: access.address >> bits, bits, space: access.space }))
    }

    fn walk(&mut self, access: Access) {
        self.counts.walks += 1;
        let mut below = u32::MAX;
        for (cache, entries) in &mut self.walk_caches {
            // A page that large has its translation above what the cache points to.
            if cache.covers_bits <= access.page_bits {
                continue;
            }
            // Tables belong to an address space, which a page's own frame does not name.
            let tag = Tag { number: access.address >> cache.covers_bits, bits: cache.covers_bits, space: 0 };
            match entries.holds(tag) {
                true => below = below.min(cache.covers_bits),
                false => entries.fill(tag),
            }
        }
        let mut loads = 0;
        for bits in &self.table_bits {
            loads += u64::from(*bits < below);
            if *bits <= access.page_bits {
                break;
            }
        }
        self.counts.walk_loads += loads;
    }
}

/// The largest of `sizes`, ascending, that is at most `bits`; the smallest if none is.
fn largest_within(sizes: &[u32], bits: u32) -> u32 {
    sizes.iter().rev().find(|s| **s <= bits).or(sizes.first()).copied().unwrap_or(bits)
}
