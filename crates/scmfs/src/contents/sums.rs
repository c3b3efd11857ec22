//! Checksums of what regular files hold, on volumes that were made with them: one for each small page of the data
//! area, by its number.
//!
//! ```text
//! 0  u32  0: not known; else crc32c, seeded with the page's number, of the whole page, where 1 stands for 0, too
//! ```
//!
//! A page that is content (there is a byte of the file in it) has the checksum of all its bytes, those beyond the end
//! of the file too, or none. No crash leaves a wrong one: of pages that are content, checksums are taken away, durably,
//! before their bytes change, and given anew after those are durable; pages that are about to become content have
//! theirs before the version that makes them content is stored. What other pages have for a checksum is of no account.
//!
//! Where a page is damaged, reads of it fail. It is never given a right checksum before all that the file has in it was
//! written anew: a change of a part of it is refused, and where the page is copied, the copy gets a wrong one.

use crate::format::inode::Record;
use crate::format::layout::{CHECK_BYTES, Layout};
use crate::inodes::{Body, State};
use crate::store::Store;
use crate::{Error, Ino, Result, defects};
use pocketstone_media::{Durable, Flushed, Medium};
use std::ops::Range;

/// The checksum of a page that has none.
const UNKNOWN: u32 = 0;
/// Bytes that are read at once for a checksum.
const CHUNK_BYTES: u64 = 4096;
/// Checksums that are stored at once.
const BATCH: usize = 64;

/// The checksums of a volume's pages.
#[derive(Clone, Copy)]
pub(crate) struct Sums<'a> {
    medium: &'a Medium,
    layout: &'a Layout,
    at: u64,
}

/// What is written to a file, and where: its bytes need not be read back.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    pub data: &'a [u8],
    pub offset: u64,
}

impl<'a> Written<'a> {
    pub fn nothing() -> Written<'a> {
        Written { data: &[], offset: 0 }
    }

    /// The bytes of a page of the file, if all of them were written.
    fn page(&self, offset: u64, page: u64) -> Option<&'a [u8]> {
        let from = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.data.get(from..from.checked_add(page as usize)?)
    }
}

/// What is true of the pages of a part of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Pages with the right checksum.
    pub right: u64,
    /// Pages without one.
    pub unknown: u64,
}

/// The checksums of an inode's content: only regular files have them, on some volumes.
#[inline]
pub(crate) fn sums<'a>(store: &'a Store, record: &Record) -> Option<Sums<'a>> {
    all_sums(store).filter(|_| record.mode & 0o170_000 == 0o100_000)
}

/// The checksums of all pages, for where it does not matter whose a page is.
#[inline]
pub(crate) fn all_sums(store: &Store) -> Option<Sums<'_>> {
    of_pages(&store.medium, &store.layout)
}

/// As [`all_sums`], of a volume that is not open.
pub(crate) fn of_pages<'a>(medium: &'a Medium, layout: &'a Layout) -> Option<Sums<'a>> {
    Some(Sums { medium, layout, at: layout.checks_at? })
}

/// A page's bytes do not have its checksum.
fn damage(ino: Ino, at: u64, offset: u64, end: u64) -> Error {
    Error::damaged(at, format!("contents of inode {ino}, bytes {offset}..{end}"))
}

/// What is stored for a checksum.
fn stored(crc: u32) -> u32 {
    if crc == UNKNOWN { 1 } else { crc }
}

impl Sums<'_> {
    fn number(&self, at: u64) -> u32 {
        ((at - self.layout.data_at) / self.layout.page) as u32
    }

    fn place(&self, number: u32) -> u64 {
        self.at + u64::from(number) * CHECK_BYTES
    }

    #[inline]
    fn load(&self, number: u32) -> u32 {
        let mut b = [0; CHECK_BYTES as usize];
        self.medium.read(self.place(number), &mut b);
        u32::from_le_bytes(b)
    }

    fn of_bytes(number: u32, bytes: &[u8]) -> u32 {
        stored(crc32c::crc32c_append(number, bytes))
    }

    /// The checksum of a page as it is; `each` sees its bytes, piece by piece, and where in the page they lie.
    fn of_page(&self, number: u32, mut each: impl FnMut(usize, &[u8])) -> u32 {
        let (at, page) = (self.layout.page_at(number), self.layout.page);
        let mut buffer = [0; CHUNK_BYTES as usize];
        let (mut crc, mut done) = (number, 0);
        while done < page {
            let part = &mut buffer[..(page - done).min(CHUNK_BYTES) as usize];
            self.medium.read(at + done, part);
            each(done as usize, part);
            crc = crc32c::crc32c_append(crc, part);
            done += part.len() as u64;
        }
        stored(crc)
    }

    fn is_right(&self, number: u32) -> bool {
        let known = self.load(number);
        known == UNKNOWN || known == self.of_page(number, |_, _| {})
    }

    /// Calls `each` for the pages that hold a range of a file: where a page's bytes lie in the file, and its number.
    fn pages(&self, body: &Body, range: Range<u64>, mut each: impl FnMut(u64, u32)) {
        let page = self.layout.page;
        let mut from = if range.is_empty() { range.end } else { range.start - range.start % page };
        while from < range.end {
            let (at, bytes) = body.locate(from);
            let to = range.end.min(from.saturating_add(bytes));
            if let Some(at) = at {
                let first = self.number(at);
                for i in 0..self.layout.pages(to - from) as u32 {
                    each(from + u64::from(i) * page, first + i);
                }
            }
            from = to;
        }
    }

    // --- reading --------------------------------------------------------------------------------

    /// Reads a part of a file, and verifies every page of it. Of what was read when this fails, nothing may be used.
    pub fn read(&self, ino: Ino, state: &State, into: &mut [u8], offset: u64) -> Result<()> {
        let (end, mut from) = (offset + into.len() as u64, offset);
        while from < end {
            let (at, bytes) = state.body.locate(from);
            let to = end.min(from.saturating_add(bytes));
            let part = &mut into[(from - offset) as usize..(to - offset) as usize];
            match at {
                None => part.fill(0),
                Some(at) => self.read_piece(at, part).map_err(|page_at| {
                    let page = (from + page_at.saturating_sub(at)) / self.layout.page * self.layout.page;
                    damage(ino, page_at, page, state.record.size.min(page + self.layout.page))
                })?,
            }
            from = to;
        }
        Ok(())
    }

    /// Reads bytes that lie together; fails with the offset of the first page that is damaged.
    fn read_piece(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), u64> {
        let page = self.layout.page as usize;
        let mut done = 0;
        while done < into.len() {
            let number = self.number(at + done as u64);
            let page_at = self.layout.page_at(number);
            let skip = (at + done as u64 - page_at) as usize;
            let rest = &mut into[done..];
            let count = rest.len().min(page - skip);
            let part = &mut rest[..count];
            let known = self.load(number);
            if count == page || known == UNKNOWN {
                self.medium.read(page_at + skip as u64, part);
                if known != UNKNOWN && known != Self::of_bytes(number, part) {
                    return Err(page_at);
                }
            } else {
                // One reading for both: what is handed out is what was verified.
                let found = self.of_page(number, |from, bytes| {
                    let (first, last) = (from.max(skip), (from + bytes.len()).min(skip + count));
                    if first < last {
                        part[first - skip..last - skip].copy_from_slice(&bytes[first - from..last - from]);
                    }
                });
                if known != found {
                    return Err(page_at);
                }
            }
            done += count;
        }
        Ok(())
    }

    /// Verifies the pages that hold a range of a file; `each` is told of those that are damaged: where in the file
    /// their bytes lie, and where in the volume.
    pub fn verify(&self, body: &Body, range: Range<u64>, mut each: impl FnMut(u64, u64)) -> Found {
        let mut found = Found::default();
        self.pages(body, range, |offset, number| match self.load(number) {
            UNKNOWN => found.unknown += 1,
            known if known == self.of_page(number, |_, _| {}) => found.right += 1,
            _ => each(offset, self.layout.page_at(number)),
        });
        found
    }

    /// Refuses if a page that holds a range of a file's content is damaged.
    pub fn demand(&self, ino: Ino, state: &State, range: Range<u64>) -> Result<()> {
        let (mut first, size) = (None, state.record.size);
        self.verify(&state.body, range, |offset, at| _ = first.get_or_insert((offset, at)));
        match first {
            Some((offset, at)) => Err(damage(ino, at, offset, size.min(offset + self.layout.page))),
            None => Ok(()),
        }
    }

    // --- changing -------------------------------------------------------------------------------

    /// Refuses a change of a range if that would change only a part of what the file has in a page, and the page is
    /// damaged: nobody could tell any more that it was.
    pub fn demand_edges(&self, ino: Ino, state: &State, range: &Range<u64>) -> Result<()> {
        let (page, size) = (self.layout.page, state.record.size);
        if range.is_empty() {
            return Ok(());
        }
        let first = range.start - range.start % page;
        let last = (range.end - 1) - (range.end - 1) % page;
        for edge in [Some(first), Some(last).filter(|last| *last != first)].into_iter().flatten() {
            let content = edge..size.min(edge + page);
            let whole = range.start <= content.start && content.end <= range.end;
            if !content.is_empty() && !whole {
                self.demand(ino, state, content)?;
            }
        }
        Ok(())
    }

    /// Takes the checksums away of those pages that hold a range of a file and that are meant, by their offsets in the
    /// file. Durable when this returns.
    pub fn forget(&self, body: &Body, range: Range<u64>, meant: impl Fn(u64) -> bool) {
        let mut run = Run::new(self, Durable::nothing_new());
        self.pages(body, range, |offset, number| {
            if meant(offset) && self.load(number) != UNKNOWN {
                run.push(number, UNKNOWN);
            }
        });
        // What was not there before was made so durably.
        if let Some(flushed) = run.finish().filter(|_| !defects::on(defects::SUM_KEPT)) {
            self.medium.fence(flushed).done();
        }
    }

    /// Gives checksums to those pages that hold a range of a file and that are meant, by their offsets in the file.
    /// They are durable after the next fence; `after` is what they refer to.
    pub fn give(
        &self,
        body: &Body,
        range: Range<u64>,
        written: Written<'_>,
        meant: impl Fn(u64) -> bool,
        after: Durable,
    ) -> Flushed {
        let mut run = Run::new(self, after);
        self.pages(body, range, |offset, number| {
            if meant(offset) {
                let sum = match written.page(offset, self.layout.page) {
                    Some(bytes) => Self::of_bytes(number, bytes),
                    None => self.of_page(number, |_, _| {}),
                };
                run.push(number, sum);
            }
        });
        run.finish().unwrap_or_else(Flushed::nothing)
    }

    /// Gives checksums to the pages without one.
    pub fn give_unknown(&self, body: &Body, range: Range<u64>) -> Flushed {
        let unknown = |offset| match body.locate(offset) {
            (Some(at), _) => self.load(self.number(at)) == UNKNOWN,
            (None, _) => false,
        };
        self.give(body, range, Written::nothing(), unknown, Durable::nothing_new())
    }

    /// Gives checksums to pages that a part of a file was just copied to. Where the page it came from is damaged, the
    /// copy has a wrong one.
    pub fn copied(&self, from: &Body, to: &Body, range: Range<u64>) -> Flushed {
        let mut run = Run::new(self, Durable::unreferenced());
        self.pages(to, range, |offset, number| {
            let sound = from.locate(offset).0.is_none_or(|at| self.is_right(self.number(at)));
            run.push(number, self.of_copy(number, sound));
        });
        run.finish().unwrap_or_else(Flushed::nothing)
    }

    /// The checksum of a page that is a copy: a wrong one if what it was copied from is not sound.
    fn of_copy(&self, number: u32, sound: bool) -> u32 {
        let sum = self.of_page(number, |_, _| {});
        match (sound, sum) {
            (true, sum) => sum,
            (false, 1) => 2,
            (false, _) => 1,
        }
    }

    /// As [`Sums::copied`], for the pages of a repair, of which those in `foreign` are another file's: what they hold
    /// is sound, but it is not this one's; they are in order. A page without a checksum has none where it is copied to,
    /// either.
    pub fn copied_pages(&self, from: u32, to: u32, pages: u32, foreign: &[u32]) -> Flushed {
        let mut run = Run::new(self, Durable::repeatable());
        for (from, to) in (from..from + pages).zip(to..) {
            let sum = match self.load(from) {
                _ if foreign.binary_search(&from).is_ok() => self.of_copy(to, false),
                UNKNOWN => UNKNOWN,
                _ => self.of_copy(to, self.is_right(from)),
            };
            run.push(to, sum);
        }
        run.finish().unwrap_or_else(Flushed::nothing)
    }
}

/// Checksums of consecutive pages, to be stored together.
struct Run<'a> {
    sums: &'a Sums<'a>,
    first: u32,
    values: [u32; BATCH],
    count: usize,
    /// What all of them refer to.
    after: Durable,
    flushed: Option<Flushed>,
}

impl<'a> Run<'a> {
    fn new(sums: &'a Sums<'a>, after: Durable) -> Run<'a> {
        Run { sums, first: 0, values: [0; BATCH], count: 0, after, flushed: None }
    }

    fn push(&mut self, number: u32, value: u32) {
        if self.count == BATCH || self.count > 0 && number != self.first + self.count as u32 {
            self.store();
        }
        if self.count == 0 {
            self.first = number;
        }
        self.values[self.count] = value;
        self.count += 1;
    }

    fn store(&mut self) {
        let (medium, at) = (self.sums.medium, self.sums.place(self.first));
        let (after, next) = std::mem::replace(&mut self.after, Durable::nothing_new()).twice();
        self.after = next;
        // The words beside these are other files'.
        // SAFETY: who changes a page's checksum has locked the file that the page is of, or has just taken the page;
        // nobody else loads or stores its word.
        let dirty = unsafe { medium.store_u32s(at, &self.values[..self.count], after) };
        let flushed = medium.flush(dirty);
        self.flushed = Some(self.flushed.take().unwrap_or_else(Flushed::nothing).and(flushed));
        self.count = 0;
    }

    /// `None` if nothing was stored.
    fn finish(mut self) -> Option<Flushed> {
        if self.count > 0 {
            self.store();
        }
        self.flushed
    }
}

/// What the next fence of this thread waits for, which is that of the version or record that comes next.
pub(crate) fn with_the_next_fence(flushed: Flushed) {
    Flushed::nothing().join(flushed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_that_of_the_format() {
        // The format's words, with the plain loop over bits that defines crc32c (reflected polynomial 0x82F63B78).
        let by_hand = |seed: u32, bytes: &[u8]| {
            let step = |crc: u32, byte: &u8| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
            };
            !bytes.iter().fold(!seed, step)
        };
        assert_eq!(by_hand(0, b"123456789"), 0xE306_9283);
        let page: Vec<u8> = (0..256u32).map(|i| (i * 7) as u8).collect();
        for number in [0, 1, 77, u32::MAX] {
            assert_eq!(Sums::of_bytes(number, &page), by_hand(number, &page));
        }
        assert_eq!((stored(0), stored(1), stored(9)), (1, 1, 9));
    }

    #[test]
    fn only_whole_pages_are_taken_from_what_was_written() {
        let written = Written { data: &[5; 600], offset: 200 };
        assert_eq!(written.page(0, 256), None);
        assert_eq!(written.page(256, 256).map(<[u8]>::len), Some(256));
        assert_eq!(written.page(512, 256).map(<[u8]>::len), Some(256));
        assert_eq!(written.page(768, 256), None);
        assert_eq!(Written::nothing().page(0, 256), None);
    }
}
