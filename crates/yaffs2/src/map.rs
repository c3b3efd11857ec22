//! Where the chunks of a file are.
//!
//! A file that was written in one go lies in consecutive pages: two words say where. Any other takes a few bits
//! for each of its chunks, no more than a page number needs: this is what most of a mounted volume's memory is.

use crate::chip::Chunk;

/// Chunk numbers by their place in the file, from 0. A number of 0 is a hole.
#[derive(Debug, Default)]
pub struct Map(Form);

#[derive(Debug)]
enum Form {
    /// The first `chunks` chunks, in pages one after the other.
    Run { first: Chunk, chunks: u32 },
    /// An even number of words: numbers of `width` bits each, packed from the lowest bit on.
    ///
    /// An odd number: the same in segments, of which only those are there that hold something, for files with long
    /// holes. `words[0]` segments; their numbers, ascending; the segments; a word to make the number odd. (A form of
    /// its own would make every map larger.)
    Words(Box<[u32]>),
}

/// Chunks in a segment.
const SEGMENT: u32 = 256;
/// A hole longer than so many chunks is long.
const LONG: u32 = 4096;

impl Default for Form {
    fn default() -> Form {
        Form::Run { first: 0, chunks: 0 }
    }
}

/// Bits that the largest chunk number needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width(u32);

impl Width {
    /// For numbers up to `largest`: at least 16 and even, as in the leaves of a checkpoint.
    pub fn of(largest: Chunk) -> Width {
        Width((u32::BITS - largest.leading_zeros()).max(16).next_multiple_of(2))
    }

    pub fn bits(self) -> u32 {
        self.0
    }

    fn slots(self, words: usize) -> u32 {
        (words as u64 * 32 / u64::from(self.0)) as u32
    }

    fn words(self, slots: u32) -> usize {
        (u64::from(slots) * u64::from(self.0)).div_ceil(32) as usize
    }

    pub fn get(self, words: &[u32], slot: u32) -> Chunk {
        let at = u64::from(slot) * u64::from(self.0);
        let (word, shift) = ((at / 32) as usize, at % 32);
        let low = u64::from(words[word]);
        let high = words.get(word + 1).map_or(0, |&word| u64::from(word));
        ((high << 32 | low) >> shift) as u32 & (u32::MAX >> (32 - self.0))
    }

    pub fn set(self, words: &mut [u32], slot: u32, chunk: Chunk) {
        let at = u64::from(slot) * u64::from(self.0);
        let (word, shift) = ((at / 32) as usize, at % 32);
        let mask = u64::from(u32::MAX >> (32 - self.0)) << shift;
        let value = u64::from(chunk) << shift;
        words[word] = words[word] & !(mask as u32) | value as u32;
        if mask >> 32 != 0 {
            words[word + 1] = words[word + 1] & !((mask >> 32) as u32) | (value >> 32) as u32;
        }
    }
}

/// The numbers of the segments, and the words of all of them.
fn segments(words: &[u32]) -> (&[u32], &[u32]) {
    words[1..].split_at(words[0] as usize)
}

fn is_divided(words: &[u32]) -> bool {
    words.len() % 2 == 1
}

impl Map {
    /// The page that holds a chunk; 0: a hole.
    pub fn get(&self, width: Width, slot: u32) -> Chunk {
        match &self.0 {
            Form::Run { first, chunks } if slot < *chunks => first + slot,
            Form::Run { .. } => 0,
            Form::Words(words) if is_divided(words) => {
                let (numbers, all) = segments(words);
                let each = width.words(SEGMENT);
                let place = numbers.binary_search(&(slot / SEGMENT));
                place.map_or(0, |at| width.get(&all[at * each..][..each], slot % SEGMENT))
            }
            Form::Words(words) if slot < width.slots(words.len()) => width.get(words, slot),
            Form::Words(_) => 0,
        }
    }

    /// Slots from which on there are holes only.
    fn slots(&self, width: Width) -> u32 {
        match &self.0 {
            Form::Run { chunks, .. } => *chunks,
            Form::Words(words) if is_divided(words) => segments(words).0.last().map_or(0, |last| (last + 1) * SEGMENT),
            Form::Words(words) => width.slots(words.len()),
        }
    }

    /// Puts a chunk into a page; 0 makes a hole.
    pub fn set(&mut self, width: Width, slot: u32, chunk: Chunk) {
        match &mut self.0 {
            Form::Run { first, chunks } if chunk != 0 && slot == *chunks && (slot == 0 || chunk == *first + slot) => {
                if slot == 0 {
                    *first = chunk;
                }
                *chunks += 1;
                return;
            }
            Form::Run { first, chunks } if slot < *chunks && chunk == *first + slot => return,
            Form::Run { chunks, .. } if chunk == 0 && slot >= *chunks => return,
            Form::Run { chunks, .. } if chunk == 0 && slot + 1 == *chunks => {
                *chunks -= 1;
                return;
            }
            _ => {}
        }
        let slots = self.slots(width);
        if chunk == 0 && slot >= slots {
            return;
        }
        let divided = matches!(&self.0, Form::Words(words) if is_divided(words));
        if divided || slot >= slots.saturating_mul(2).saturating_add(LONG) {
            return self.set_in_segment(width, slot, chunk);
        }
        if slot >= slots || matches!(self.0, Form::Run { .. }) {
            // Some more than asked for: a growing file would be copied for each of its chunks.
            let packed = matches!(self.0, Form::Words(_));
            let room = if packed { slot + 1 + slot / 8 } else { slots.max(slot + 1) };
            let mut words = vec![0; width.words(room).next_multiple_of(2)];
            self.chunks(width).for_each(|(slot, chunk)| width.set(&mut words, slot, chunk));
            self.0 = Form::Words(words.into_boxed_slice());
        }
        if let Form::Words(words) = &mut self.0 {
            width.set(words, slot, chunk);
        }
    }

    fn set_in_segment(&mut self, width: Width, slot: u32, chunk: Chunk) {
        let each = width.words(SEGMENT);
        if let Form::Words(words) = &mut self.0 {
            if is_divided(words) {
                let first = 1 + words[0] as usize;
                if let Ok(at) = words[1..first].binary_search(&(slot / SEGMENT)) {
                    return width.set(&mut words[first + at * each..][..each], slot % SEGMENT, chunk);
                }
            }
        }
        let mut numbers: Vec<u32> = self.chunks(width).map(|(slot, _)| slot / SEGMENT).collect();
        numbers.push(slot / SEGMENT);
        numbers.sort_unstable();
        numbers.dedup();
        let mut all = vec![0; each * numbers.len()];
        for (slot, chunk) in self.chunks(width).chain(std::iter::once((slot, chunk))) {
            if let Ok(at) = numbers.binary_search(&(slot / SEGMENT)) {
                width.set(&mut all[at * each..][..each], slot % SEGMENT, chunk);
            }
        }
        let mut words = vec![numbers.len() as u32];
        words.extend(numbers);
        words.extend(all);
        if words.len() % 2 == 0 {
            words.push(0);
        }
        self.0 = Form::Words(words.into_boxed_slice());
    }

    /// Forgets the chunks from a place on, and gives their room back.
    pub fn shrink(&mut self, width: Width, slots: u32) {
        if let Form::Run { chunks, .. } = &mut self.0 {
            *chunks = (*chunks).min(slots);
            return;
        }
        let kept: Vec<(u32, Chunk)> = self.chunks(width).take_while(|&(slot, _)| slot < slots).collect();
        *self = Map::default();
        // From the last one on, so that there is room for all at once.
        kept.into_iter().rev().for_each(|(slot, chunk)| self.set(width, slot, chunk));
    }

    /// Chunks that are no holes, with their places, in order.
    pub fn chunks(&self, width: Width) -> impl Iterator<Item = (u32, Chunk)> + '_ {
        let (plain, numbers) = match &self.0 {
            Form::Words(words) if is_divided(words) => (0, segments(words).0),
            _ => (self.slots(width), &[][..]),
        };
        let divided = numbers.iter().flat_map(|number| (0..SEGMENT).map(move |slot| number * SEGMENT + slot));
        (0..plain).chain(divided).map(move |slot| (slot, self.get(width, slot))).filter(|&(_, chunk)| chunk != 0)
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Form::Run { .. } => 0,
            Form::Words(words) => size_of_val(&words[..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_map_is_two_words_large() {
        assert!(size_of::<Map>() <= 2 * size_of::<usize>());
    }

    #[test]
    fn widths_are_even_and_at_least_16() {
        // 2048 blocks of 64 pages, shifted by one block: 131136 needs 18 bits.
        assert_eq!(Width::of(131_135).bits(), 18);
        assert_eq!(Width::of(100).bits(), 16);
        assert_eq!(Width::of(1 << 18).bits(), 20);
        assert_eq!(Width::of((1 << 28) - 1).bits(), 28);
    }

    #[test]
    fn a_file_written_in_one_go_takes_nothing() {
        let mut map = Map::default();
        (0..1000).for_each(|slot| map.set(Width::of(5000), slot, 100 + slot));
        assert_eq!(map.bytes(), 0);
        map.set(Width::of(5000), 3, 4000);
        // 1,000 numbers of 16 bits.
        assert_eq!(map.bytes(), 2000);
    }

    #[test]
    fn a_long_hole_takes_nothing() {
        let (width, mut map) = (Width::of(5000), Map::default());
        map.set(width, 0, 70);
        map.set(width, (1 << 28) - 2, 71);
        assert!(map.bytes() < 2048);
        assert!(map.chunks(width).eq([(0, 70), ((1 << 28) - 2, 71)]));
    }

    proptest! {
        #[test]
        fn a_map_is_a_map(
            largest in prop_oneof![Just(70_000u32), Just(131_135), Just((1 << 28) - 1)],
            changes in proptest::collection::vec(
                (prop_oneof![9 => 0u32..80, 1 => 4990u32..5100], 0u32..3, any::<u32>(), any::<bool>()), 1..200),
        ) {
            let width = Width::of(largest);
            let (mut map, mut model) = (Map::default(), BTreeMap::new());
            for (slot, what, chunk, run) in changes {
                match what {
                    0 => {
                        map.shrink(width, slot);
                        model.retain(|&place, _| place < slot);
                    }
                    1 => {
                        map.set(width, slot, 0);
                        model.remove(&slot);
                    }
                    _ => {
                        let chunk = if run { 500 + slot } else { 1 + chunk % largest };
                        map.set(width, slot, chunk);
                        model.insert(slot, chunk);
                    }
                }
                for slot in (0..100).chain(4980..5110) {
                    prop_assert_eq!(map.get(width, slot), model.get(&slot).copied().unwrap_or(0));
                }
            }
            prop_assert!(map.chunks(width).eq(model.into_iter()));
        }
    }
}
