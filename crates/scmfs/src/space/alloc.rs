//! Who has which page and huge page: in memory only. It follows from the inodes and the mapping
//! table, so no crash can make it wrong; a volume that is closed leaves a copy in its free map.

use super::inode_map::InodeMap;
use crate::format::bytes::get_u64;
use crate::format::layout::Layout;
use crate::format::mapping::SMALL_ZONE;

/// The allocator's state. Bits are set for what is in use, or cannot be given out.
#[derive(Clone)]
pub(crate) struct Alloc {
    pages_per_segment: u32,
    /// Owner of each huge page, as in the mapping table.
    segments: Vec<u32>,
    free_segments: u32,
    /// A bit for each small page of the data area; set where the huge page does not serve the zone.
    pages: Vec<u64>,
    /// Free small pages in each huge page of the zone.
    free_in_segment: Vec<u32>,
    small_segments: u32,
    free_pages: u64,
    /// No run of free small pages is longer: whoever looks for more need not look. `u32::MAX`: nobody knows.
    longest_run: u32,
    pub inodes: InodeMap,
    // Next fit: the search goes on where the last one ended, which also spreads wear.
    next_page: u32,
    next_segment: u32,
}

impl Alloc {
    /// Everything free, no huge page in the small-page zone.
    pub fn new(layout: &Layout, segments: u32) -> Alloc {
        let pages = segments as usize * layout.pages_per_segment() as usize;
        Alloc {
            pages_per_segment: layout.pages_per_segment(),
            segments: vec![0; segments as usize],
            free_segments: segments,
            pages: vec![u64::MAX; pages.div_ceil(64)],
            free_in_segment: vec![0; segments as usize],
            small_segments: 0,
            free_pages: 0,
            longest_run: u32::MAX,
            inodes: InodeMap::new(layout),
            next_page: 0,
            next_segment: 0,
        }
    }

    pub fn segment_count(&self) -> u32 {
        self.segments.len() as u32
    }

    pub fn free_segments(&self) -> u32 {
        self.free_segments
    }

    pub fn small_segments(&self) -> u32 {
        self.small_segments
    }

    pub fn free_pages(&self) -> u64 {
        self.free_pages
    }

    /// Adds huge pages at the end: the volume has grown.
    pub fn grow(&mut self, segments: u32) {
        let pages = segments as usize * self.pages_per_segment as usize;
        self.free_segments += segments - self.segment_count();
        self.segments.resize(segments as usize, 0);
        self.free_in_segment.resize(segments as usize, 0);
        self.pages.resize(pages.div_ceil(64), u64::MAX);
    }

    // --- small pages ----------------------------------------------------------------------------

    fn page_used(&self, page: u32) -> bool {
        self.pages[page as usize / 64] >> (page % 64) & 1 != 0
    }

    fn set_pages(&mut self, start: u32, count: u32, used: bool) {
        for (word, bits) in words_of(start, count) {
            let word = &mut self.pages[word];
            if used { *word |= bits } else { *word &= !bits }
        }
    }

    /// The small pages of a huge page: the first, and how many.
    fn pages_of(&self, segment: u32) -> (u32, u32) {
        (segment * self.pages_per_segment, self.pages_per_segment)
    }

    /// The first free page from `from` on, before `end`.
    fn next_free_page(&self, from: u32, end: u32) -> Option<u32> {
        let mut page = from;
        while page < end {
            let segment = (page / self.pages_per_segment) as usize;
            if page % self.pages_per_segment == 0 && self.free_in_segment[segment] == 0 {
                page += self.pages_per_segment;
                continue;
            }
            let word = !self.pages[page as usize / 64] >> (page % 64);
            if word != 0 {
                let found = page + word.trailing_zeros();
                return (found < end).then_some(found);
            }
            page = (page / 64 + 1) * 64;
        }
        None
    }

    /// The first run of `count` free small pages from `from` on, before `end`; else how long the longest one there is.
    fn find_run(&self, count: u32, from: u32, end: u32) -> Result<u32, u32> {
        let (mut next, mut longest) = (from, 0);
        while let Some(start) = self.next_free_page(next, end) {
            next = self.next_used_page(start, end.min(start.saturating_add(count)));
            if next - start == count {
                return Ok(start);
            }
            longest = longest.max(next - start);
        }
        Err(longest)
    }

    /// Takes `count` consecutive small pages; the number of the first.
    pub fn take_pages(&mut self, count: u32) -> Option<u32> {
        if count == 0 || u64::from(count) > self.free_pages || count > self.longest_run {
            return None;
        }
        let end = self.segment_count() * self.pages_per_segment;
        let from = if self.next_page < end { self.next_page } else { 0 };
        let found = self.find_run(count, from, end).or_else(|_| self.find_run(count, 0, end));
        let start = found.inspect_err(|longest| self.longest_run = *longest).ok()?;
        self.use_pages(start, count);
        self.next_page = start + count;
        Some(start)
    }

    /// Takes `count` small pages wherever they are free, in as few pieces as can be: `(first, number)`. Takes none
    /// if there are not enough.
    pub fn take_scattered(&mut self, count: u32) -> Option<Vec<(u32, u32)>> {
        if u64::from(count) > self.free_pages {
            return None;
        }
        let (mut taken, mut left) = (Vec::new(), count);
        while left > 0 {
            // Where none is that long, the search says how long the longest one is.
            let part = left.min(self.longest_run);
            match self.take_pages(part) {
                Some(start) => {
                    taken.push((start, part));
                    left -= part;
                }
                None if self.longest_run == 0 => break,
                None => {}
            }
        }
        Some(taken)
    }

    /// The first page in use from `from` on, before `end`; `end` if there is none.
    fn next_used_page(&self, from: u32, end: u32) -> u32 {
        let mut page = from;
        while page < end {
            let word = self.pages[page as usize / 64] >> (page % 64);
            if word != 0 {
                return end.min(page + word.trailing_zeros());
            }
            page = (page / 64 + 1) * 64;
        }
        end
    }

    /// The free small pages in a range, as runs: `(first, number)`.
    pub fn free_runs(&self, range: std::ops::Range<u32>) -> Vec<(u32, u32)> {
        let mut runs = Vec::new();
        let mut from = range.start;
        while let Some(start) = self.next_free_page(from, range.end) {
            let end = self.next_used_page(start, range.end);
            runs.push((start, end - start));
            from = end;
        }
        runs
    }

    /// How many runs of free small pages there are. Every statfs asks.
    pub fn free_run_count(&self) -> u64 {
        let (mut runs, mut before) = (0, 0);
        for word in &self.pages {
            // A run begins at each free page after one in use.
            let free = !word;
            runs += u64::from((free & !(free << 1 | before)).count_ones());
            before = free >> 63;
        }
        runs
    }

    /// The window of `count` small pages of the zone that has the fewest in use, after those before `from`.
    pub fn cheapest_window(&self, count: u32, from: u32) -> Option<(u32, u32)> {
        let (total, pps) = (self.segment_count() * self.pages_per_segment, self.pages_per_segment);
        let (mut used, mut length, mut best) = (0, 0, None);
        for page in from..total {
            if self.segments[(page / pps) as usize] != SMALL_ZONE {
                (used, length) = (0, 0);
                continue;
            }
            used += u32::from(self.page_used(page));
            length += 1;
            if length > count {
                used -= u32::from(self.page_used(page - count));
                length -= 1;
            }
            if length == count && best.is_none_or(|(_, least)| used < least) {
                best = Some((page + 1 - count, used));
            }
        }
        best
    }

    /// The huge pages of the zone, those with the fewest pages in use first: `(huge page, pages in use)`.
    pub fn emptiest_small_segments(&self) -> Vec<(u32, u32)> {
        let zone = (0..self.segment_count()).filter(|s| self.segments[*s as usize] == SMALL_ZONE);
        let mut all: Vec<(u32, u32)> =
            zone.map(|s| (s, self.pages_per_segment - self.free_in_segment[s as usize])).collect();
        all.sort_unstable_by_key(|(segment, used)| (*used, *segment));
        all
    }

    /// Lets a huge page of a file serve the zone; all its small pages are in use.
    pub fn split_segment(&mut self, segment: u32) {
        self.segments[segment as usize] = SMALL_ZONE;
        self.free_in_segment[segment as usize] = 0;
        self.small_segments += 1;
    }

    /// Takes the `count` pages after a run, if they are free.
    pub fn take_pages_at(&mut self, start: u32, count: u32) -> bool {
        let end = self.segment_count() * self.pages_per_segment;
        if start.checked_add(count).is_none_or(|after| after > end) {
            return false;
        }
        if self.next_used_page(start, start + count) < start + count {
            return false;
        }
        self.use_pages(start, count);
        true
    }

    fn use_pages(&mut self, start: u32, count: u32) {
        self.set_pages(start, count, true);
        let (mut page, end) = (start, start + count);
        while page < end {
            let segment = page / self.pages_per_segment;
            let next = end.min((segment + 1) * self.pages_per_segment);
            self.free_in_segment[segment as usize] -= next - page;
            page = next;
        }
        self.free_pages -= u64::from(count);
    }

    /// Frees small pages. What is free already stays as it is: only a damaged volume brings that about.
    pub fn free_page_run(&mut self, start: u32, count: u32) {
        for page in start..start + count {
            let in_zone = self.segments[(page / self.pages_per_segment) as usize] == SMALL_ZONE;
            if !in_zone || !self.page_used(page) {
                continue;
            }
            self.set_pages(page, 1, false);
            self.free_in_segment[(page / self.pages_per_segment) as usize] += 1;
            self.free_pages += 1;
        }
        self.note_free_run(start, count);
    }

    /// Notes how long the run may be that pages belong to, some of which have become free.
    fn note_free_run(&mut self, start: u32, count: u32) {
        /// So far before and after them it is looked.
        const NEAR: u32 = 64;
        if self.longest_run == u32::MAX {
            return;
        }
        let end = self.segment_count() * self.pages_per_segment;
        let (begin, limit) = (start.saturating_sub(NEAR), end.min((start + count).saturating_add(NEAR)));
        let before = (begin..start).rev().take_while(|page| !self.page_used(*page)).count() as u32;
        let after = self.next_used_page(start + count, limit) - (start + count);
        let length = if before == NEAR || after == NEAR { u32::MAX } else { before + count + after };
        self.longest_run = self.longest_run.max(length);
    }

    // --- huge pages -----------------------------------------------------------------------------

    /// Says who has a huge page, while a volume is opened. False if somebody has it already.
    pub fn claim_segment(&mut self, segment: u32, owner: u32) -> bool {
        if self.segments[segment as usize] != 0 {
            return false;
        }
        self.segments[segment as usize] = owner;
        self.free_segments -= 1;
        if owner == SMALL_ZONE {
            let (first, count) = self.pages_of(segment);
            self.set_pages(first, count, false);
            self.free_in_segment[segment as usize] = self.pages_per_segment;
            self.free_pages += u64::from(self.pages_per_segment);
            self.longest_run = u32::MAX;
            self.small_segments += 1;
        }
        true
    }

    /// Takes `count` consecutive huge pages for the small-page zone; the first ones, next to the zone.
    pub fn lend_segments(&mut self, count: u32) -> Option<std::ops::Range<u32>> {
        let start = self.free_run_of_segments(count, 0, self.segment_count())?;
        for segment in start..start + count {
            self.claim_segment(segment, SMALL_ZONE);
        }
        Some(start..start + count)
    }

    /// Huge pages that serve the zone and hold nothing, from the `keep`th on.
    pub fn idle_small_segments(&self, keep: u32) -> Vec<u32> {
        let zone = (0..self.segment_count()).filter(|s| self.segments[*s as usize] == SMALL_ZONE);
        zone.skip(keep as usize).filter(|s| self.free_in_segment[*s as usize] == self.pages_per_segment).collect()
    }

    /// Takes `count` huge pages, consecutive ones if there are any, best right after `previous`.
    pub fn take_segments(&mut self, count: u32, previous: Option<u32>, owner: u32) -> Option<Vec<u32>> {
        if count > self.free_segments {
            return None;
        }
        let free = |start: u32| {
            let run = self.segments.get(start as usize..(start + count) as usize);
            run.is_some_and(|run| run.iter().all(|owner| *owner == 0))
        };
        let after = previous.map(|segment| segment + 1).filter(|start| free(*start));
        let start = after.or_else(|| self.find_segments(count));
        let taken: Vec<u32> = match start {
            Some(start) => (start..start + count).collect(),
            None => {
                (0..self.segment_count()).filter(|s| self.segments[*s as usize] == 0).take(count as usize).collect()
            }
        };
        for segment in &taken {
            self.segments[*segment as usize] = owner;
        }
        self.free_segments -= count;
        self.next_segment = taken.last().map_or(0, |last| last + 1);
        Some(taken)
    }

    fn find_segments(&self, count: u32) -> Option<u32> {
        let total = self.segment_count();
        let next = self.free_run_of_segments(count, self.next_segment.min(total), total);
        next.or_else(|| self.free_run_of_segments(count, 0, total))
    }

    fn free_run_of_segments(&self, count: u32, from: u32, to: u32) -> Option<u32> {
        let mut run = 0;
        for segment in from..to {
            run = if self.segments[segment as usize] == 0 { run + 1 } else { 0 };
            if run == count {
                return Some(segment + 1 - count);
            }
        }
        None
    }

    /// Frees a huge page of a file or, when it is idle, of the small-page zone.
    pub fn free_segment(&mut self, segment: u32) {
        if self.segments[segment as usize] == 0 {
            return;
        }
        if self.segments[segment as usize] == SMALL_ZONE {
            let (first, count) = self.pages_of(segment);
            self.set_pages(first, count, true);
            self.free_pages -= u64::from(self.free_in_segment[segment as usize]);
            self.free_in_segment[segment as usize] = 0;
            self.small_segments -= 1;
        }
        self.segments[segment as usize] = 0;
        self.free_segments += 1;
    }

    /// The first free huge page from `from` on.
    pub fn free_segment_from(&self, from: u32) -> Option<u32> {
        (from..self.segment_count()).find(|s| self.segments[*s as usize] == 0)
    }

    /// Where the next huge page will probably come from.
    pub fn next_segment(&self) -> u32 {
        self.next_segment
    }

    // --- the free map ---------------------------------------------------------------------------

    /// Everything that [`Alloc::load`] needs beside the mapping table: page bits, then inode bits.
    pub fn free_map(&self) -> Vec<u8> {
        self.pages.iter().chain(&self.inodes.base_words()).flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Takes over a free map. The huge pages must have been claimed before; the inodes of chunks are free after
    /// it, and are claimed by whoever looks at them.
    pub fn load(&mut self, map: &[u8]) {
        let mut words = map.chunks_exact(8).map(|b| get_u64(b, 0));
        for word in self.pages.iter_mut() {
            *word = words.next().unwrap_or(u64::MAX);
        }
        self.inodes.load(words);
        (self.free_pages, self.longest_run) = (0, u32::MAX);
        for segment in 0..self.segment_count() {
            let (first, count) = self.pages_of(segment);
            if self.segments[segment as usize] == SMALL_ZONE {
                let free = words_of(first, count).map(|(word, bits)| (!self.pages[word] & bits).count_ones()).sum();
                self.free_in_segment[segment as usize] = free;
                self.free_pages += u64::from(free);
            } else {
                self.set_pages(first, count, true);
            }
        }
    }

    /// Bytes of the free map of a volume with so many huge pages.
    pub fn free_map_bytes(&self) -> u64 {
        (self.pages.len() + self.inodes.base_len()) as u64 * 8
    }
}

/// The words that have the bits of some pages, and which bits of each these are.
fn words_of(start: u32, count: u32) -> impl Iterator<Item = (usize, u64)> {
    let (mut page, end) = (start, start + count);
    std::iter::from_fn(move || {
        let (word, first) = (page as usize / 64, page % 64);
        let bits = (end - page).min(64 - first);
        page += bits;
        (bits > 0).then(|| (word, u64::MAX >> (64 - bits) << first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    fn alloc() -> Alloc {
        let layout = Layout::new(1 << 20, 1 << 20, 100, Geometry::new(256, 4096), false);
        let mut alloc = Alloc::new(&layout, 10);
        assert!(alloc.claim_segment(0, SMALL_ZONE) && alloc.claim_segment(1, SMALL_ZONE));
        alloc
    }

    #[test]
    fn runs_cross_from_one_huge_page_of_the_zone_to_the_next_but_not_out_of_it() {
        let mut a = alloc();
        assert_eq!(a.free_pages(), 32);
        assert_eq!(a.take_pages(20), Some(0));
        assert_eq!(a.take_pages(13), None);
        assert_eq!(a.take_pages(12), Some(20));
        assert_eq!(a.take_pages(1), None);
        a.free_page_run(10, 5);
        assert_eq!(a.take_pages(6), None);
        assert_eq!(a.take_pages(5), Some(10));
        assert_eq!(a.lend_segments(1), Some(2..3));
        assert_eq!(a.take_pages(16), Some(32));
    }

    #[test]
    fn free_runs_are_found_and_counted_page_by_page_or_word_by_word() {
        let layout = Layout::new(4 << 20, 4 << 20, 100, Geometry::new(256, 16384), false);
        let mut random = pocketstone_random::Random::new(3);
        for used_of_8 in 0..=8 {
            // 5 huge pages of 64 pages, of which the fourth is a file's.
            let mut a = Alloc::new(&layout, 5);
            assert!([0, 1, 2, 4].into_iter().all(|segment| a.claim_segment(segment, SMALL_ZONE)));
            for page in (0..320).filter(|page| !(192..256).contains(page)) {
                if random.below(8) < used_of_8 {
                    assert!(a.take_pages_at(page, 1));
                }
            }
            let mut runs: Vec<(u32, u32)> = Vec::new();
            for page in (0..320).filter(|page| !a.page_used(*page)) {
                match runs.last_mut() {
                    Some((start, pages)) if *start + *pages == page => *pages += 1,
                    _ => runs.push((page, 1)),
                }
            }
            assert_eq!(a.free_run_count(), runs.len() as u64);
            assert_eq!(a.free_runs(0..320), runs);
        }
    }

    #[test]
    fn scattered_pages_come_in_as_few_pieces_as_can_be_whatever_was_taken_and_freed_before() {
        let layout = Layout::new(4 << 20, 4 << 20, 100, Geometry::new(256, 16384), false);
        let mut random = pocketstone_random::Random::new(7);
        let mut a = Alloc::new(&layout, 8);
        assert!([0, 1, 2, 4, 7].into_iter().all(|segment| a.claim_segment(segment, SMALL_ZONE)));
        let mut taken: Vec<(u32, u32)> = Vec::new();
        for _ in 0..3000 {
            if random.below(2) == 0 && !taken.is_empty() {
                let (start, pages) = taken.swap_remove(random.below(taken.len() as u64) as usize);
                a.free_page_run(start, pages);
                continue;
            }
            let count = 1 + random.below(20) as u32;
            let mut lengths: Vec<u32> = a.free_runs(0..512).into_iter().map(|(_, pages)| pages).collect();
            lengths.sort_unstable_by_key(|pages| std::cmp::Reverse(*pages));
            if random.below(2) == 0 {
                let start = a.take_pages(count);
                assert_eq!(start.is_some(), lengths.first().is_some_and(|longest| *longest >= count));
                taken.extend(start.map(|start| (start, count)));
                continue;
            }
            let Some(pieces) = a.take_scattered(count) else {
                assert!(lengths.iter().sum::<u32>() < count);
                continue;
            };
            assert_eq!(pieces.iter().map(|(_, pages)| *pages).sum::<u32>(), count);
            let reach = |n: usize| lengths.iter().take(n).sum::<u32>() >= count;
            assert!(reach(pieces.len()) && !reach(pieces.len() - 1), "{pieces:?} of {lengths:?}");
            taken.extend(pieces);
        }
        let free = a.free_runs(0..512).iter().map(|(_, pages)| u64::from(*pages)).sum::<u64>();
        assert_eq!(a.free_pages(), free);
    }

    #[test]
    fn huge_pages_are_taken_after_the_previous_one_where_that_is_free() {
        let mut a = alloc();
        assert_eq!(a.take_segments(2, None, 7), Some(vec![2, 3]));
        assert_eq!(a.take_segments(1, None, 8), Some(vec![4]));
        assert_eq!(a.take_segments(2, Some(3), 7), Some(vec![5, 6]));
        a.free_segment(4);
        assert_eq!(a.take_segments(4, Some(6), 7), Some(vec![4, 7, 8, 9]), "scattered when there is no run");
        assert_eq!(a.take_segments(1, None, 7), None);
    }

    #[test]
    fn a_free_map_brings_everything_back() {
        let mut a = alloc();
        a.take_pages(3);
        assert_eq!((a.inodes.take(), a.inodes.take()), (Some(1), Some(2)));
        a.inodes.free(1);
        let mut b = alloc();
        b.load(&a.free_map());
        assert_eq!((b.free_pages(), b.inodes.free_count()), (29, 99));
        assert_eq!(a.free_map().len() as u64, a.free_map_bytes());
        assert!(!b.inodes.is_used(1) && b.inodes.is_used(2) && b.inodes.is_used(101) && b.inodes.is_used(0));
        assert_eq!((b.inodes.take(), b.inodes.take()), (Some(1), Some(3)));
        assert_eq!((1..=98).filter(|_| b.inodes.take().is_some()).count(), 97);
    }
}
