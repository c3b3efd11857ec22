//! Pages of an image that nobody writes, in memory: whoever reads page after page makes one system call for a block
//! of them, instead of two for each.

use super::ImageLayout;
use std::fs::File;
use std::io::Result;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// After so many reads in a row, each behind the one before it, whole blocks are read.
const IN_A_ROW: u32 = 3;
/// More bytes are never read at a time, however large a block is.
const MOST_BYTES: u64 = 1 << 20;

/// Bytes of the image, and what tells whether it is being read in order.
#[derive(Default)]
pub(super) struct Pages {
    held: Vec<u8>,
    /// Where in the image they begin.
    at: u64,
    /// Where the last read ended.
    end: u64,
    in_a_row: u32,
}

impl Pages {
    /// The bytes of a range, which lies inside one page and the first `bytes` of the image.
    pub(super) fn get(&mut self, file: &File, layout: &ImageLayout, bytes: u64, range: Range<u64>) -> Result<&[u8]> {
        let stride = layout.stride();
        let follows = range.start.checked_sub(self.end).is_some_and(|gap| gap <= stride);
        self.in_a_row = if follows { self.in_a_row.saturating_add(1) } else { 0 };
        self.end = range.end;
        if range.start < self.at || range.end > self.at + self.held.len() as u64 {
            let wanted = if self.in_a_row < IN_A_ROW {
                range.clone()
            } else {
                let many = (MOST_BYTES / stride).clamp(1, u64::from(layout.pages_per_block)) * stride;
                let start = range.start / many * many;
                start..(start + many).min(bytes)
            };
            self.held.resize((wanted.end - wanted.start) as usize, 0);
            // Should it fail, nothing is held.
            let mut held = std::mem::take(&mut self.held);
            file.read_exact_at(&mut held, wanted.start)?;
            (self.held, self.at) = (held, wanted.start);
        }
        let from = (range.start - self.at) as usize;
        Ok(&self.held[from..from + (range.end - range.start) as usize])
    }
}
