//! Which inodes are in use. In memory only, as all of the allocator's state.

use crate::Ino;
use crate::format::layout::Layout;

/// A bit for each inode, set for what is in use, or cannot be given out.
#[derive(Clone)]
pub(crate) struct InodeMap {
    bits: Vec<u64>,
    count: u32,
    free: u32,
    /// Inodes of the table before the data area: only their bits are in the free map.
    base: u32,
    per_chunk: u32,
    /// Inodes in use in each chunk of the inode table.
    used_in_chunk: Vec<u32>,
    // Next fit: the search goes on where the last one ended, which also spreads wear.
    next: u32,
}

impl InodeMap {
    /// All free.
    pub fn new(layout: &Layout) -> InodeMap {
        let count = layout.last_inode();
        let mut map = InodeMap {
            bits: vec![0; words(count)],
            count,
            free: count,
            base: layout.inodes,
            per_chunk: layout.inodes_per_chunk(),
            used_in_chunk: vec![0; layout.chunks.count() as usize],
            next: 1,
        };
        block_after(&mut map.bits, count);
        map
    }

    pub fn free_count(&self) -> u32 {
        self.free
    }

    fn set(&mut self, ino: Ino, used: bool) {
        let bit = 1 << (ino % 64);
        let word = &mut self.bits[ino as usize / 64];
        if used {
            *word |= bit
        } else {
            *word &= !bit
        }
        if ino > self.base {
            let count = &mut self.used_in_chunk[((ino - 1 - self.base) / self.per_chunk) as usize];
            if used { *count += 1 } else { *count -= 1 }
        }
    }

    /// Adds a chunk of inodes, all free.
    pub fn add_chunk(&mut self) {
        self.count += self.per_chunk;
        self.free += self.per_chunk;
        self.used_in_chunk.push(0);
        let first = self.count - self.per_chunk + 1;
        self.bits.resize(words(self.count), u64::MAX);
        for ino in first..=self.count {
            self.bits[ino as usize / 64] &= !(1 << (ino % 64));
        }
    }

    /// Takes the last chunk away, in which no inode is in use.
    pub fn remove_chunk(&mut self) {
        if self.used_in_chunk.pop().is_some() {
            self.count -= self.per_chunk;
            self.free -= self.per_chunk;
            self.bits.truncate(words(self.count));
            block_after(&mut self.bits, self.count);
            self.next = self.next.min(self.count);
        }
    }

    /// Inodes in use in each chunk of the inode table.
    pub fn used_in_chunks(&self) -> &[u32] {
        &self.used_in_chunk
    }

    pub fn is_used(&self, ino: Ino) -> bool {
        ino > self.count || self.bits[ino as usize / 64] >> (ino % 64) & 1 != 0
    }

    pub fn claim(&mut self, ino: Ino) {
        self.set(ino, true);
        self.free -= 1;
    }

    pub fn take(&mut self) -> Option<Ino> {
        let words = self.bits.len();
        let first = self.next as usize / 64 % words;
        let word = (0..words).map(|i| (first + i) % words).find(|w| self.bits[*w] != u64::MAX)?;
        let ino = (word * 64) as u32 + (!self.bits[word]).trailing_zeros();
        self.claim(ino);
        self.next = ino;
        Some(ino)
    }

    pub fn free(&mut self, ino: Ino) {
        if self.is_used(ino) {
            self.set(ino, false);
            self.free += 1;
        }
    }

    /// The inodes in use, in order.
    pub fn used(&self) -> impl Iterator<Item = Ino> + '_ {
        (1..=self.count).filter(|ino| self.is_used(*ino))
    }

    /// The bits that the free map has.
    pub fn base_words(&self) -> Vec<u64> {
        let mut base = self.bits[..self.base_len()].to_vec();
        block_after(&mut base, self.base);
        base
    }

    /// How many words these are.
    pub fn base_len(&self) -> usize {
        words(self.base)
    }

    /// Takes over the bits of a free map. The inodes of chunks are free after it, and are claimed by whoever looks at
    /// them.
    pub fn load(&mut self, map: impl Iterator<Item = u64>) {
        let words_of_base = self.base_len();
        let mut base: Vec<u64> = map.take(words_of_base).collect();
        base.resize(words_of_base, u64::MAX);
        block_after(&mut base, self.base);
        self.bits[..words_of_base].copy_from_slice(&base);
        for ino in self.base + 1..=self.count {
            self.bits[ino as usize / 64] &= !(1 << (ino % 64));
        }
        self.used_in_chunk.fill(0);
        block_after(&mut self.bits, self.count);
        self.free = self.bits.iter().map(|word| word.count_zeros()).sum();
    }
}

/// Words of the bits of inodes 0 to `last`.
fn words(last: Ino) -> usize {
    (last as usize + 1).div_ceil(64)
}

/// Marks the inode numbers that do not exist as used: 0, and those after the last.
fn block_after(inodes: &mut [u64], last: Ino) {
    inodes[0] |= 1;
    let tail = (last as usize + 1) % 64;
    if let Some(word) = inodes.last_mut().filter(|_| tail != 0) {
        *word |= u64::MAX << tail;
    }
}
