//! Entries of one TLB array or page-walk cache, with their replacement.

use crate::Replacement;

/// What an entry translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Number of the page, which also chooses the set: the number modulo the number of sets.
    pub number: u64,
    /// Its size: arrays shared by several sizes must not take one size's page for another's.
    pub bits: u32,
    /// Its address space.
    pub space: u64,
}

/// A set-associative array of translations, empty at first.
#[derive(Debug, Clone)]
pub(crate) struct Entries {
    sets: Vec<Set>,
    ways: usize,
    replacement: Replacement,
}

#[derive(Debug, Clone, Default)]
struct Set {
    /// Least recently used: from the most recently used one. Tree: by way, in the order of filling.
    tags: Vec<Tag>,
    /// Tree: bit `n` of node `n` (root 1) says which half is next to go: set for the right one.
    tree: u128,
}

impl Entries {
    /// `entries` translations, `ways` to a set; `ways` divides `entries`, and is a power of two of at most 64 for a
    /// tree.
    pub fn new(entries: usize, ways: usize, replacement: Replacement) -> Self {
        Self { sets: vec![Set::default(); entries / ways], ways, replacement }
    }

    /// Whether the array holds `tag`; it has then been used.
    pub fn holds(&mut self, tag: Tag) -> bool {
        let (ways, replacement) = (self.ways, self.replacement);
        let set = self.set(tag.number);
        match set.tags.iter().position(|t| *t == tag) {
            Some(way) => {
                set.used(way, ways, replacement);
                true
            }
            None => false,
        }
    }

    /// Takes `tag` in, in the place of the one that the replacement gives up.
    pub fn fill(&mut self, tag: Tag) {
        let (ways, replacement) = (self.ways, self.replacement);
        let set = self.set(tag.number);
        let way = match set.tags.len() < ways {
            true => {
                set.tags.push(tag);
                set.tags.len() - 1
            }
            false => {
                let way = set.victim(ways, replacement);
                set.tags[way] = tag;
                way
            }
        };
        set.used(way, ways, replacement);
    }

    fn set(&mut self, number: u64) -> &mut Set {
        let sets = self.sets.len() as u64;
        &mut self.sets[(number % sets) as usize]
    }
}

impl Set {
    fn used(&mut self, way: usize, ways: usize, replacement: Replacement) {
        match replacement {
            Replacement::LeastRecentlyUsed => self.tags[..=way].rotate_right(1),
            Replacement::Tree => {
                let mut node = ways + way;
                while node > 1 {
                    let (parent, right) = (node / 2, node % 2 == 1);
                    match right {
                        true => self.tree &= !(1 << parent),
                        false => self.tree |= 1 << parent,
                    }
                    node = parent;
                }
            }
        }
    }

    fn victim(&self, ways: usize, replacement: Replacement) -> usize {
        match replacement {
            Replacement::LeastRecentlyUsed => ways - 1,
            Replacement::Tree => {
                let mut node = 1;
                while node < ways {
                    node = 2 * node + (self.tree >> node & 1) as usize;
                }
                node - ways
            }
        }
    }
}
