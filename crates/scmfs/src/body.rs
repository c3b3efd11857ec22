//! Where a file's bytes lie: one run of small pages, or huge pages.

use crate::inode::Record;
use crate::layout::Layout;

/// The place of a file's content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body {
    page: u64,
    huge_bytes: u64,
    data_at: u64,
    /// Offset in the volume of a content that lies in one piece from its start, and its length.
    piece_at: u64,
    piece_bytes: u64,
    /// Huge pages by their index in the file: `(index, huge page)`, in order.
    extents: Vec<(u32, u32)>,
    huge: bool,
}

impl Body {
    pub fn new(layout: &Layout, record: &Record, extents: Vec<(u32, u32)>) -> Body {
        let mut body = Body { page: layout.page, huge_bytes: layout.huge, data_at: layout.data_at, ..Body::default() };
        if record.huge {
            body.set_extents(extents);
        } else {
            body.set_run(record.run_start, record.run_pages);
        }
        body
    }

    pub fn is_huge(&self) -> bool {
        self.huge
    }

    pub fn extents(&self) -> &[(u32, u32)] {
        &self.extents
    }

    pub fn take_extents(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.extents)
    }

    pub fn set_run(&mut self, start: u32, pages: u32) {
        self.huge = false;
        self.extents = Vec::new();
        self.piece_at = self.data_at + u64::from(start) * self.page;
        self.piece_bytes = u64::from(pages) * self.page;
    }

    pub fn set_extents(&mut self, extents: Vec<(u32, u32)>) {
        self.huge = true;
        let first = extents.first().filter(|(index, _)| *index == 0).map(|(_, segment)| *segment);
        let in_order = |i: usize| extents[i] == (i as u32, first.unwrap_or(0) + i as u32);
        let linear = first.map_or(0, |_| (0..extents.len()).take_while(|i| in_order(*i)).count() as u64);
        self.piece_at = self.data_at + u64::from(first.unwrap_or(0)) * self.huge_bytes;
        self.piece_bytes = linear * self.huge_bytes;
        self.extents = extents;
    }

    /// Bytes of a run of small pages; of huge pages, those that follow each other from the start.
    pub fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// Offset in the volume of the piece at the start.
    pub fn piece_at(&self) -> u64 {
        self.piece_at
    }

    /// Where `offset` lies in the volume (`None`: in a hole), and how many bytes follow it there.
    #[inline]
    pub fn locate(&self, offset: u64) -> (Option<u64>, u64) {
        if offset < self.piece_bytes {
            return (Some(self.piece_at + offset), self.piece_bytes - offset);
        }
        if !self.huge {
            return (None, u64::MAX - offset);
        }
        let index = (offset / self.huge_bytes) as u32;
        let within = offset % self.huge_bytes;
        match self.extents.binary_search_by_key(&index, |(i, _)| *i) {
            Ok(i) => {
                let at = self.data_at + u64::from(self.extents[i].1) * self.huge_bytes;
                (Some(at + within), self.huge_bytes - within)
            }
            Err(i) => {
                let next = self.extents.get(i).map_or(u64::MAX, |(i, _)| u64::from(*i) * self.huge_bytes);
                (None, next - offset)
            }
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
        let layout = Layout::new(1 << 20, 1 << 20, 16, Geometry { page_bytes: 256, huge_bytes: 2048 });
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
        assert!(b.has_space(0, 4096) && !b.has_space(0, 4097) && b.has_space(6144, 8192));
        let mut parts = Vec::new();
        b.spans(4000, 6400, |at, part| parts.push((at.is_some(), part)));
        assert_eq!(parts, [(true, 0..96), (false, 96..2144), (true, 2144..2400)]);
        b.set_extents(vec![(1, 4)]);
        assert_eq!((b.piece_bytes(), b.locate(0)), (0, (None, 2048)));
    }

    #[test]
    fn a_run_is_one_piece_with_a_hole_after_it() {
        let mut b = body();
        b.set_run(3, 2);
        assert_eq!(b.locate(511), (Some(b.data_at + 768 + 511), 1));
        assert_eq!(b.locate(512).0, None);
    }
}
