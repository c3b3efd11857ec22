//! Where a file's bytes lie: one run of small pages, or huge pages; and extents of small pages beside them.

use crate::format::extents::Extent;
use crate::format::inode::Record;
use crate::format::layout::Layout;
use std::ops::Range;

/// The place of a file's content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body {
    page: u32,
    huge_bytes: u32,
    data_at: u64,
    /// Offset in the volume of a content that lies in one piece from its start, and its length.
    piece_at: u64,
    piece_bytes: u64,
    /// First small page and number of those at the file's start; none beside huge pages.
    run: (u32, u32),
    /// What most files have nothing of: a million may be in memory at once.
    spread: Option<Box<Spread>>,
}

/// Content beside one run of small pages.
#[derive(Debug, Clone, Default)]
struct Spread {
    /// Huge pages by their index in the file: `(index, huge page)`, in order.
    extents: Vec<(u32, u32)>,
    /// Small pages that are neither in the run nor in a huge page, in the order of the file.
    list: Vec<Extent>,
}

impl Body {
    pub fn new(layout: &Layout, record: &Record, extents: Vec<(u32, u32)>) -> Body {
        // The geometry has them in 32 bits.
        let (page, huge_bytes) = (layout.page as u32, layout.huge as u32);
        let mut body = Body { page, huge_bytes, data_at: layout.data_at, ..Body::default() };
        let run = if record.huge { (0, 0) } else { (record.run_start, record.run_pages) };
        body.set(run, extents, Vec::new());
        body
    }

    #[inline]
    pub fn is_huge(&self) -> bool {
        !self.extents().is_empty()
    }

    fn page(&self) -> u64 {
        u64::from(self.page)
    }

    fn huge_bytes(&self) -> u64 {
        u64::from(self.huge_bytes)
    }

    pub fn run(&self) -> (u32, u32) {
        self.run
    }

    pub fn extents(&self) -> &[(u32, u32)] {
        self.spread.as_ref().map_or(&[], |spread| &spread.extents)
    }

    pub fn list(&self) -> &[Extent] {
        self.spread.as_ref().map_or(&[], |spread| &spread.list)
    }

    /// Small pages of the list.
    pub fn list_total(&self) -> u32 {
        self.list().iter().map(|extent| extent.pages).sum()
    }

    pub fn take_extents(&mut self) -> Vec<(u32, u32)> {
        self.spread.as_mut().map(|spread| std::mem::take(&mut spread.extents)).unwrap_or_default()
    }

    pub fn set_run(&mut self, start: u32, pages: u32) {
        self.set((start, pages), Vec::new(), Vec::new());
    }

    /// Huge pages, and the list that there was.
    pub fn set_extents(&mut self, extents: Vec<(u32, u32)>) {
        let list = self.spread.take().map(|spread| spread.list).unwrap_or_default();
        self.set((0, 0), extents, list);
    }

    pub fn set(&mut self, run: (u32, u32), extents: Vec<(u32, u32)>, list: Vec<Extent>) {
        let first = extents.first().filter(|(index, _)| *index == 0).map(|(_, segment)| *segment);
        let in_order = |i: usize| extents[i] == (i as u32, first.unwrap_or(0) + i as u32);
        let linear = first.map_or(0, |_| (0..extents.len()).take_while(|i| in_order(*i)).count() as u64);
        if extents.is_empty() {
            let small =
                if run.1 == 0 { list.first().filter(|e| e.index == 0).map(|e| (e.start, e.pages)) } else { None };
            let (start, pages) = small.unwrap_or(run);
            self.piece_at = self.data_at + u64::from(start) * self.page();
            self.piece_bytes = u64::from(pages) * self.page();
        } else {
            self.piece_at = self.data_at + u64::from(first.unwrap_or(0)) * self.huge_bytes();
            self.piece_bytes = linear * self.huge_bytes();
        }
        self.run = run;
        let any = !(extents.is_empty() && list.is_empty());
        self.spread = any.then(|| Box::new(Spread { extents, list }));
    }

    /// The same kind of body with huge pages and small ones: what lies at the start of a file without huge pages
    /// becomes its run.
    pub fn assembled(&self, extents: Vec<(u32, u32)>, small: Vec<Extent>) -> Body {
        let mut list = small;
        list.sort_unstable();
        list.dedup_by(|next, last| {
            let follows = last.end() == Some(next.index) && last.start + last.pages == next.start;
            last.pages += if follows { next.pages } else { 0 };
            follows
        });
        let has_run = extents.is_empty() && list.first().is_some_and(|extent| extent.index == 0);
        let run = if has_run { list.remove(0) } else { Extent { index: 0, start: 0, pages: 0 } };
        let (page, huge_bytes, data_at) = (self.page, self.huge_bytes, self.data_at);
        let mut body = Body { page, huge_bytes, data_at, ..Body::default() };
        body.set((run.start, run.pages), extents, list);
        body
    }

    /// All small pages of the content, the run among them.
    pub fn small(&self) -> Vec<Extent> {
        let (start, pages) = self.run;
        let run = (pages > 0).then_some(Extent { index: 0, start, pages });
        run.into_iter().chain(self.list().iter().copied()).collect()
    }

    /// The small pages of the content outside a range of the file, in small pages.
    pub fn small_outside(&self, range: &Range<u64>) -> Vec<Extent> {
        self.small().into_iter().flat_map(|extent| extent.outside(range)).collect()
    }

    /// Calls `each` for everything that has space, in the order of the file: where in the file, where in the
    /// volume, how many bytes.
    pub fn each_piece(&self, mut each: impl FnMut(u64, u64, u64)) {
        let huge = self.extents().iter().map(|(i, segment)| {
            (u64::from(*i) * self.huge_bytes(), u64::from(*segment) * self.huge_bytes(), self.huge_bytes())
        });
        let pages = |count: u32| u64::from(count) * self.page();
        let small = self.small().into_iter().map(|e| (pages(e.index), pages(e.start), pages(e.pages)));
        let mut all: Vec<(u64, u64, u64)> = huge.chain(small).collect();
        all.sort_unstable();
        all.into_iter().for_each(|(offset, at, bytes)| each(offset, self.data_at + at, bytes));
    }

    /// As [`Body::each_piece`], with pieces put together that follow each other.
    pub fn each_run(&self, mut each: impl FnMut(u64, u64, u64)) {
        let in_one = self.piece_bytes == self.extents().len() as u64 * self.huge_bytes();
        if self.list().is_empty() && (self.extents().is_empty() || in_one) {
            if self.piece_bytes > 0 {
                each(0, self.piece_at, self.piece_bytes);
            }
            return;
        }
        let mut last: Option<(u64, u64, u64)> = None;
        self.each_piece(|offset, at, bytes| {
            last = match last {
                Some((start, place, length)) if start + length == offset && place + length == at => {
                    Some((start, place, length + bytes))
                }
                before => {
                    if let Some((start, place, length)) = before {
                        each(start, place, length);
                    }
                    Some((offset, at, bytes))
                }
            };
        });
        if let Some((start, place, length)) = last {
            each(start, place, length);
        }
    }

    /// Bytes of a run of small pages; of huge pages, those that follow each other from the start.
    #[inline]
    pub fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// Offset in the volume of the piece at the start.
    #[inline]
    pub fn piece_at(&self) -> u64 {
        self.piece_at
    }

    /// Where `offset` lies in the volume (`None`: in a hole), and how many bytes follow it there.
    #[inline]
    pub fn locate(&self, offset: u64) -> (Option<u64>, u64) {
        if offset < self.piece_bytes {
            return (Some(self.piece_at + offset), self.piece_bytes - offset);
        }
        if self.spread.is_none() {
            return (None, u64::MAX - offset);
        }
        self.locate_piece(offset)
    }

    fn locate_piece(&self, offset: u64) -> (Option<u64>, u64) {
        let index = (offset / self.huge_bytes()) as u32;
        let next_huge = match self.extents().binary_search_by_key(&index, |(i, _)| *i) {
            Ok(i) => {
                let (at, within) = (u64::from(self.extents()[i].1) * self.huge_bytes(), offset % self.huge_bytes());
                return (Some(self.data_at + at + within), self.huge_bytes() - within);
            }
            Err(i) => self.extents().get(i).map_or(u64::MAX, |(i, _)| u64::from(*i) * self.huge_bytes()),
        };
        let page = offset / self.page();
        let i = self.list().partition_point(|extent| extent.end_index() <= page);
        match self.list().get(i) {
            Some(extent) if u64::from(extent.index) <= page => {
                let within = offset - u64::from(extent.index) * self.page();
                let at = self.data_at + u64::from(extent.start) * self.page() + within;
                (Some(at), u64::from(extent.pages) * self.page() - within)
            }
            Some(extent) => (None, next_huge.min(u64::from(extent.index) * self.page()) - offset),
            None => (None, next_huge - offset),
        }
    }

    /// Calls `each` for the parts of a range: where in the volume, and which part of the range.
    #[inline]
    pub fn spans(&self, offset: u64, end: u64, mut each: impl FnMut(Option<u64>, std::ops::Range<usize>)) {
        let mut from = offset;
        while from < end {
            let (at, bytes) = self.locate(from);
            let to = end.min(from.saturating_add(bytes));
            each(at, (from - offset) as usize..(to - offset) as usize);
            from = to;
        }
    }

    /// Whether all of a range has space.
    #[inline]
    pub fn has_space(&self, offset: u64, end: u64) -> bool {
        if end <= self.piece_bytes {
            return true;
        }
        let mut whole = true;
        self.spans(offset, end, |at, _| whole &= at.is_some());
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    fn body() -> Body {
        let layout = Layout::new(1 << 20, 1 << 20, 16, Geometry::new(256, 2048), false);
        Body::new(&layout, &Record::default(), Vec::new())
    }

    #[test]
    fn huge_pages_in_order_are_one_piece_and_what_is_missing_is_a_hole() {
        let mut b = body();
        b.set_extents(vec![(0, 4), (1, 5), (3, 9)]);
        let data = b.data_at;
        assert_eq!(b.piece_bytes(), 4096);
        assert_eq!(b.locate(100), (Some(data + 4 * 2048 + 100), 3996));
        assert_eq!(b.locate(4096), (None, 2048));
        assert_eq!(b.locate(6200), (Some(data + 9 * 2048 + 56), 1992));
        assert_eq!(b.locate(8192), (None, u64::MAX - 8192));
        let mut runs = Vec::new();
        b.each_run(|offset, at, bytes| runs.push((offset, at - data, bytes)));
        assert_eq!(runs, [(0, 4 * 2048, 4096), (6144, 9 * 2048, 2048)]);
        assert!(b.has_space(0, 4096) && !b.has_space(0, 4097) && b.has_space(6144, 8192));
        let mut parts = Vec::new();
        b.spans(4000, 6400, |at, part| parts.push((at.is_some(), part)));
        assert_eq!(parts, [(true, 0..96), (false, 96..2144), (true, 2144..2400)]);
        b.set_extents(vec![(1, 4)]);
        assert_eq!((b.piece_bytes(), b.locate(0)), (0, (None, 2048)));
    }

    #[test]
    fn small_pages_lie_between_huge_ones_and_in_holes() {
        let b = body();
        let list = vec![Extent { index: 10, start: 40, pages: 2 }, Extent { index: 12, start: 9, pages: 1 }];
        let b = b.assembled(vec![(0, 4), (2, 9)], list);
        let data = b.data_at;
        // Pages 8 to 15 are those of the second huge page, which is not there.
        assert_eq!(b.locate(2048), (None, 512));
        assert_eq!(b.locate(2560 + 300), (Some(data + 40 * 256 + 300), 212));
        assert_eq!(b.locate(3072), (Some(data + 9 * 256), 256));
        assert_eq!(b.locate(3328), (None, 768));
        assert_eq!(b.locate(4096), (Some(data + 9 * 2048), 2048));
        assert_eq!((b.piece_bytes(), b.list_total()), (2048, 3));
        let mut pieces = Vec::new();
        b.each_piece(|offset, at, bytes| pieces.push((offset, at - data, bytes)));
        assert_eq!(pieces, [(0, 8192, 2048), (2560, 10240, 512), (3072, 2304, 256), (4096, 18432, 2048)]);
        // The two in the middle follow each other in the file alone.
        let mut runs = Vec::new();
        b.each_run(|offset, at, bytes| runs.push((offset, at - data, bytes)));
        assert_eq!(runs, pieces);
    }

    #[test]
    fn what_follows_each_other_is_put_together_and_starts_the_run() {
        let extent = |index, start, pages| Extent { index, start, pages };
        let small = vec![extent(5, 30, 1), extent(0, 20, 2), extent(2, 22, 1), extent(3, 40, 2)];
        let b = body().assembled(Vec::new(), small.clone());
        assert_eq!((b.run(), b.list()), ((20, 3), &[extent(3, 40, 2), extent(5, 30, 1)][..]));
        assert_eq!(b.small_outside(&(1..4)), [extent(0, 20, 1), extent(4, 41, 1), extent(5, 30, 1)]);
        let b = body().assembled(vec![(1, 3)], small);
        assert_eq!((b.run(), b.list().len(), b.piece_bytes()), ((0, 0), 3, 0));
        assert_eq!(b.locate(300), (Some(b.data_at + 20 * 256 + 300), 468));
    }

    #[test]
    fn a_run_is_one_piece_with_a_hole_after_it() {
        let mut b = body();
        b.set_run(3, 2);
        let mut runs = Vec::new();
        b.each_run(|offset, at, bytes| runs.push((offset, at - b.data_at, bytes)));
        assert_eq!(runs, [(0, 768, 512)]);
        assert_eq!(b.locate(511), (Some(b.data_at + 768 + 511), 1));
        assert_eq!(b.locate(512).0, None);
    }
}
