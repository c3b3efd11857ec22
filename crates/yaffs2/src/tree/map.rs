//! Where the chunks of a file are.
//!
//! A file that was written in one go lies in consecutive pages: two words say where. Any other takes a few bits
//! for each of its chunks, no more than a page number needs: this is what most of a mounted volume's memory is.

use crate::log::chip::Chunk;

/// Chunk numbers by their place in the file, from 0. A number of 0 is a hole.
#[derive(Debug, Default)]
pub struct Map(Form);

#[derive(Debug)]
enum Form {
    /// The first `chunks` chunks, in pages that are written one after the other.
    Run { first: Chunk, chunks: u32 },
    /// An even number of words: numbers of `width` bits each, packed from the lowest bit on.
    ///
    /// An odd number: the same in segments, of which only those are there that hold something, for files with long
    /// holes. `words[0]` segments, with room for `words[1]`; their numbers, ascending; where each of them is; the
    /// segments, in the order in which they came; a word to make the number odd. (A form of its own would make every
    /// map larger.)
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

/// What chunk numbers are like: the bits that the largest needs, and which of them are written one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    bits: u32,
    pages: u32,
    entries: u32,
}

impl Width {
    /// For numbers up to `largest`: at least 16 bits and an even number, as in the leaves of a checkpoint. Of every
    /// `pages` of a block the first `entries` hold chunks.
    pub fn of(largest: Chunk, pages: u32, entries: u32) -> Width {
        Width { bits: (u32::BITS - largest.leading_zeros()).max(16).next_multiple_of(2), pages, entries }
    }

    pub fn bits(self) -> u32 {
        self.bits
    }

    /// The chunk that comes `distance` after another when blocks are filled in their order.
    fn after(self, first: Chunk, distance: u32) -> Chunk {
        let place = first % self.pages + distance;
        (first / self.pages + place / self.entries) * self.pages + place % self.entries
    }

    fn slots(self, words: usize) -> u32 {
        (words as u64 * 32 / u64::from(self.bits)) as u32
    }

    fn words(self, slots: u32) -> usize {
        (u64::from(slots) * u64::from(self.bits)).div_ceil(32) as usize
    }

    pub fn get(self, words: &[u32], slot: u32) -> Chunk {
        let at = u64::from(slot) * u64::from(self.bits);
        let (word, shift) = ((at / 32) as usize, at % 32);
        let low = u64::from(words[word]);
        let high = words.get(word + 1).map_or(0, |&word| u64::from(word));
        ((high << 32 | low) >> shift) as u32 & (u32::MAX >> (32 - self.bits))
    }

    pub fn set(self, words: &mut [u32], slot: u32, chunk: Chunk) {
        let at = u64::from(slot) * u64::from(self.bits);
        let (word, shift) = ((at / 32) as usize, at % 32);
        let mask = u64::from(u32::MAX >> (32 - self.bits)) << shift;
        let value = u64::from(chunk) << shift;
        words[word] = words[word] & !(mask as u32) | value as u32;
        if mask >> 32 != 0 {
            words[word + 1] = words[word + 1] & !((mask >> 32) as u32) | (value >> 32) as u32;
        }
    }
}

/// The parts of words in segments.
struct Segments<'a> {
    /// The numbers of the segments, ascending, and which one of all each is.
    numbers: &'a [u32],
    places: &'a [u32],
    all: &'a [u32],
}

fn segments(words: &[u32]) -> Segments<'_> {
    let (count, room) = (words[0] as usize, words[1] as usize);
    let (numbers, rest) = words[2..].split_at(room);
    let (places, all) = rest.split_at(room);
    Segments { numbers: &numbers[..count], places: &places[..count], all }
}

/// Words with so many segments, none of which has a number, and room for as many as `room`.
fn divided(room: usize, each: usize) -> Vec<u32> {
    let mut words = vec![0; (2 + room * (2 + each)) | 1];
    words[1] = room as u32;
    words
}

/// Adds a segment, which is empty, as the `at`-th one; where its words are. There is room for some more at times: all
/// would be copied for each of them.
fn add_segment(words: &mut Box<[u32]>, at: usize, number: u32, each: usize) -> usize {
    let (count, room) = (words[0] as usize, words[1] as usize);
    if count == room {
        let Segments { numbers, places, all } = segments(words);
        let more = room + 1 + room / 32;
        let mut new = divided(more, each);
        new[0] = words[0];
        new[2..2 + count].copy_from_slice(numbers);
        new[2 + more..2 + more + count].copy_from_slice(places);
        new[2 + 2 * more..][..count * each].copy_from_slice(&all[..count * each]);
        *words = new.into_boxed_slice();
    }
    let room = words[1] as usize;
    for (begin, value) in [(2, number), (2 + room, count as u32)] {
        words.copy_within(begin + at..begin + count, begin + at + 1);
        words[begin + at] = value;
    }
    words[0] += 1;
    2 + 2 * room + count * each
}

fn is_divided(words: &[u32]) -> bool {
    words.len() % 2 == 1
}

impl Map {
    /// The page that holds a chunk; 0: a hole.
    pub fn get(&self, width: Width, slot: u32) -> Chunk {
        match &self.0 {
            Form::Run { first, chunks } if slot < *chunks => width.after(*first, slot),
            Form::Run { .. } => 0,
            Form::Words(words) if is_divided(words) => {
                let Segments { numbers, places, all } = segments(words);
                let each = width.words(SEGMENT);
                let found = numbers.binary_search(&(slot / SEGMENT));
                found.map_or(0, |at| width.get(&all[places[at] as usize * each..][..each], slot % SEGMENT))
            }
            Form::Words(words) if slot < width.slots(words.len()) => width.get(words, slot),
            Form::Words(_) => 0,
        }
    }

    /// Slots from which on there are holes only.
    fn slots(&self, width: Width) -> u32 {
        match &self.0 {
            Form::Run { chunks, .. } => *chunks,
            Form::Words(words) if is_divided(words) => {
                segments(words).numbers.last().map_or(0, |last| (last + 1) * SEGMENT)
            }
            Form::Words(words) => width.slots(words.len()),
        }
    }

    /// Puts a chunk into a page; 0 makes a hole.
    pub fn set(&mut self, width: Width, slot: u32, chunk: Chunk) {
        match &mut self.0 {
            Form::Run { first, chunks }
                if slot == 0 && *chunks == 0 && width.after(chunk, 0) == chunk && chunk != 0 =>
            {
                (*first, *chunks) = (chunk, 1);
                return;
            }
            Form::Run { first, chunks } if slot == *chunks && slot > 0 && chunk == width.after(*first, slot) => {
                *chunks += 1;
                return;
            }
            Form::Run { first, chunks } if slot < *chunks && chunk == width.after(*first, slot) => return,
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
        if divided || slot >= slots.saturating_add(LONG) {
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
        if !matches!(&self.0, Form::Words(words) if is_divided(words)) {
            let before = std::mem::take(self);
            let mut numbers: Vec<u32> = before.chunks(width).map(|(slot, _)| slot / SEGMENT).collect();
            numbers.dedup();
            let mut words = divided(numbers.len() + 1, each).into_boxed_slice();
            for (at, number) in numbers.into_iter().enumerate() {
                add_segment(&mut words, at, number, each);
            }
            self.0 = Form::Words(words);
            before.chunks(width).for_each(|(slot, chunk)| self.set_in_segment(width, slot, chunk));
        }
        let Form::Words(words) = &mut self.0 else { return };
        let Segments { numbers, places, .. } = segments(words);
        let begin = match numbers.binary_search(&(slot / SEGMENT)) {
            Ok(at) => 2 + 2 * words[1] as usize + places[at] as usize * each,
            Err(at) => add_segment(words, at, slot / SEGMENT, each),
        };
        width.set(&mut words[begin..][..each], slot % SEGMENT, chunk);
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
            Form::Words(words) if is_divided(words) => (0, segments(words).numbers),
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
    fn a_map_is_small() {
        assert!(size_of::<Map>() <= 16);
    }

    #[test]
    fn widths_are_even_and_at_least_16() {
        // 2048 blocks of 64 pages, shifted by one block: 131136 needs 18 bits.
        for (largest, bits) in [(131_135, 18), (100, 16), (1 << 18, 20), ((1 << 28) - 1, 28)] {
            assert_eq!(Width::of(largest, 64, 63).bits(), bits);
        }
    }

    #[test]
    fn a_file_written_in_one_go_takes_nothing() {
        let (width, mut map) = (Width::of(5000, 64, 63), Map::default());
        // Page 63 of each block holds its summary.
        (100..).filter(|page| page % 64 != 63).zip(0..1000).for_each(|(page, slot)| map.set(width, slot, page));
        assert_eq!((map.bytes(), map.get(width, 26), map.get(width, 27)), (0, 126, 128));
        map.set(width, 3, 4000);
        // 1,000 numbers of 16 bits.
        assert_eq!(map.bytes(), 2000);
    }

    #[test]
    fn a_long_hole_takes_nothing() {
        let (width, mut map) = (Width::of(5000, 64, 63), Map::default());
        map.set(width, 0, 70);
        map.set(width, (1 << 28) - 2, 71);
        assert!(map.bytes() < 2048);
        assert!(map.chunks(width).eq([(0, 70), ((1 << 28) - 2, 71)]));
    }

    #[test]
    fn holes_that_grow_with_the_file_take_nothing() {
        let (width, mut map) = (Width::of(5000, 64, 63), Map::default());
        let slots: Vec<u32> = (0..17).map(|n| (4000 << n).min(1 << 28) - 1).collect();
        slots.iter().for_each(|slot| map.set(width, *slot, 70));
        assert!(map.bytes() < 40_000, "{}", map.bytes());
        assert!(map.chunks(width).map(|(slot, _)| slot).eq(slots));
    }

    #[test]
    fn a_large_file_is_found_from_its_end_on() {
        let (width, mut map) = (Width::of(131_135, 64, 63), Map::default());
        // Every third chunk is a hole, and segments 5 and 9 come last.
        let late = |slot: &u32| [5, 9].contains(&(slot / SEGMENT));
        let slots = (0..20 * SEGMENT).filter(|slot| slot % 3 != 1);
        let (last, first): (Vec<u32>, Vec<u32>) = slots.clone().rev().partition(late);
        first.into_iter().chain(last).for_each(|slot| map.set(width, slot, 70 + slot));
        assert!(map.chunks(width).eq(slots.map(|slot| (slot, 70 + slot))));
        // 18 bits for each of them.
        assert!(map.bytes() < 20 * (256 * 18 / 8 + 8) + 16, "{}", map.bytes());
    }

    /// What each of them took when all were copied for it: eight times as many chunks took 64 times as long.
    #[test]
    fn scattered_chunks_are_put_one_beside_the_other() {
        let (width, mut map) = (Width::of(131_135, 64, 63), Map::default());
        let slots = (0..20_000).map(|n| n * SEGMENT + n % SEGMENT);
        slots.clone().rev().for_each(|slot| map.set(width, slot, 70 + slot % 1000));
        assert!(map.chunks(width).eq(slots.map(|slot| (slot, 70 + slot % 1000))));
    }

    proptest! {
        #[test]
        fn a_map_is_a_map(
            entries in 62u32..65,
            largest in prop_oneof![Just(70_000u32), Just(131_135), Just((1 << 28) - 1)],
            changes in proptest::collection::vec(
                (prop_oneof![9 => 0u32..80, 1 => 4990u32..5100], 0u32..3, any::<u32>(), any::<bool>()), 1..200),
        ) {
            let width = Width::of(largest, 64, entries);
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
