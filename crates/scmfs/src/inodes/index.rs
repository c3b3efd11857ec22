//! Which names a directory has: a hash index in memory, made when the directory is first used.

use crate::Ino;
use crate::format::entry::MAX_SLOTS;
use std::hash::{BuildHasher, RandomState};

/// What the index knows of a name: its hash; the entry's slot + 1, 0 if there is nothing here; and its
/// inode, so that both can be fetched at once. An array: a table of zeros comes untouched from the kernel.
type Known = [u32; 3];
const HASH: usize = 0;
const PLACE: usize = 1;
const INO: usize = 2;

/// Which names a directory has, and which slots are free.
pub(crate) struct Index {
    /// Open addressing; the size is a power of two.
    table: Vec<Known>,
    count: usize,
    /// Free runs by their length in slots, less one.
    free: [Vec<u32>; MAX_SLOTS],
    /// From here on no slot was ever used.
    frontier: u32,
    /// Keys the hash: nobody can choose names that all have the same one.
    hasher: RandomState,
}

impl Index {
    pub fn new() -> Index {
        Index { table: vec![[0; 3]; 16], count: 0, free: Default::default(), frontier: 0, hasher: RandomState::new() }
    }

    /// Notes an entry that was found when the directory was read, in order: what lies between it and the one before is
    /// free. `unit` is how many slots a huge page has.
    pub fn found(&mut self, name: &[u8], slot: u32, slots: u32, ino: Ino, unit: u32) {
        self.add_free_run(self.frontier, slot, unit);
        self.insert(self.hash(name), slot, ino);
        self.frontier = slot + slots;
    }

    /// Notes a new entry.
    pub fn add(&mut self, name: &[u8], slot: u32, ino: Ino) {
        self.insert(self.hash(name), slot, ino);
    }

    /// Notes that an entry leads to another inode.
    pub fn change(&mut self, name: &[u8], slot: u32, ino: Ino) {
        self.set_inode(self.hash(name), slot, ino);
    }

    /// Notes that an entry is gone; its slots are free.
    pub fn forget(&mut self, hash: u32, slot: u32, slots: u32) {
        self.remove(hash, slot);
        self.add_free(slot, slots);
    }

    /// Entries whose name has this hash: their slots and inodes.
    pub fn candidates(&self, hash: u32) -> impl Iterator<Item = (u32, Ino)> + '_ {
        self.probe(hash).map(|place| (self.table[place][PLACE] - 1, self.table[place][INO]))
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// What the index knows a name by.
    pub fn hash(&self, name: &[u8]) -> u32 {
        (self.hasher.hash_one(name) >> 32) as u32
    }

    fn start(&self, hash: u32) -> usize {
        // The multiplication brings all bits of the hash down.
        (u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (self.table.len() - 1)
    }

    /// The places of names with this hash.
    fn probe(&self, hash: u32) -> impl Iterator<Item = usize> + '_ {
        let mask = self.table.len() - 1;
        let start = self.start(hash);
        (0..self.table.len())
            .map(move |i| (start + i) & mask)
            .take_while(|place| self.table[*place][PLACE] != 0)
            .filter(move |place| self.table[*place][HASH] == hash)
    }

    fn insert(&mut self, hash: u32, slot: u32, ino: Ino) {
        if (self.count + 1) * 4 > self.table.len() * 3 {
            let size = self.table.len() * 2;
            let old = std::mem::replace(&mut self.table, new_table(size));
            for known in old.into_iter().filter(|known| known[PLACE] != 0) {
                self.place(known);
            }
        }
        self.place([hash, slot + 1, ino]);
        self.count += 1;
    }

    fn place(&mut self, known: Known) {
        let mask = self.table.len() - 1;
        let mut place = self.start(known[HASH]);
        while self.table[place][PLACE] != 0 {
            place = (place + 1) & mask;
        }
        self.table[place] = known;
    }

    fn find(&self, hash: u32, slot: u32) -> Option<usize> {
        self.probe(hash).find(|place| self.table[*place][PLACE] == slot + 1)
    }

    fn set_inode(&mut self, hash: u32, slot: u32, ino: Ino) {
        if let Some(place) = self.find(hash, slot) {
            self.table[place][INO] = ino;
        }
    }

    fn remove(&mut self, hash: u32, slot: u32) {
        let Some(mut hole) = self.find(hash, slot) else { return };
        self.count -= 1;
        // What follows moves up, where its own chain allows it: so no tombstones are needed.
        let mask = self.table.len() - 1;
        let mut next = hole;
        loop {
            self.table[hole] = [0; 3];
            loop {
                next = (next + 1) & mask;
                let known = self.table[next];
                if known[PLACE] == 0 {
                    return;
                }
                let home = self.start(known[HASH]);
                if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                    self.table[hole] = known;
                    hole = next;
                    break;
                }
            }
        }
    }

    /// Notes free slots.
    pub fn add_free(&mut self, mut slot: u32, mut slots: u32) {
        while slots > 0 {
            let part = slots.min(MAX_SLOTS as u32);
            self.free[part as usize - 1].push(slot);
            slot += part;
            slots -= part;
        }
    }

    /// Notes a gap between entries as free; it is cut where a huge page ends.
    fn add_free_run(&mut self, from: u32, to: u32, unit: u32) {
        let mut from = from;
        while from < to {
            let end = to.min((from / unit + 1) * unit);
            self.add_free(from, end - from);
            from = end;
        }
    }

    /// Takes free slots: `limit` is how many the directory has, `unit` how many a huge page.
    pub fn take(&mut self, slots: u32, limit: u32, unit: u32) -> Option<u32> {
        if let Some(slot) = self.free[slots as usize - 1].pop() {
            return Some(slot);
        }
        let left = unit - self.frontier % unit;
        if left < slots && self.frontier + left <= limit {
            let from = self.frontier;
            self.frontier += left;
            self.add_free(from, left);
        }
        if unit - self.frontier % unit >= slots && self.frontier + slots <= limit {
            self.frontier += slots;
            return Some(self.frontier - slots);
        }
        let larger = (slots as usize..MAX_SLOTS).find(|i| !self.free[*i].is_empty())?;
        let slot = self.free[larger].pop()?;
        self.add_free(slot + slots, larger as u32 + 1 - slots);
        Some(slot)
    }
}

/// An empty table. The kernel is asked for huge pages for a large one: a look-up in it misses the caches,
/// and should not miss the TLB as well.
fn new_table(size: usize) -> Vec<Known> {
    let mut table: Vec<Known> = vec![[0; 3]; size];
    let bytes = size * size_of::<Known>();
    if bytes >= 4 << 20 {
        let first = (table.as_mut_ptr() as usize).next_multiple_of(4096);
        let last = (table.as_mut_ptr() as usize + bytes) & !4095;
        // SAFETY: the pages lie inside the table; the advice changes no content.
        let _ = unsafe { rustix::mm::madvise(first as *mut _, last - first, rustix::mm::Advice::LinuxHugepage) };
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_finds_what_it_holds_after_any_removal() {
        let mut index = Index::new();
        let hash = |i: u32| (i % 97).wrapping_mul(0x1357_9BDF);
        for i in 0..5000 {
            index.insert(hash(i), i, 1);
        }
        for i in (0..5000).filter(|i| i % 3 != 0) {
            index.remove(hash(i), i);
        }
        for i in 0..5000 {
            assert_eq!(index.find(hash(i), i).is_some(), i % 3 == 0, "{i}");
        }
        assert_eq!(index.count(), 1667);
    }

    #[test]
    fn slots_never_cross_the_end_of_a_huge_page_and_none_is_lost() {
        let mut index = Index::new();
        let mut taken = [false; 64];
        let mut sizes = [3, 5, 1, 4, 2].into_iter().cycle();
        while let Some(slot) = {
            let n = sizes.next().unwrap();
            index.take(n, 64, 32).map(|s| (s, n))
        } {
            let (slot, n) = slot;
            assert_eq!(slot / 32, (slot + n - 1) / 32, "{slot}+{n}");
            for s in slot..slot + n {
                assert!(!std::mem::replace(&mut taken[s as usize], true), "slot {s} given twice");
            }
        }
        while let Some(slot) = index.take(1, 64, 32) {
            assert!(!std::mem::replace(&mut taken[slot as usize], true));
        }
        assert!(taken.iter().all(|t| *t));
    }
}
