//! Addresses that calls of read() and write() touch when they copy between a program's buffer and a file that lies in
//! memory, as SCMFS's do.

use pocketstone_core::random::Twister;
use pocketstone_tlb::{Access, Counts, HUGE_PAGE_BITS, Processor, SMALL_PAGE_BITS, Tlb};

/// Bytes of a small page, which is also the step of a copy.
pub(super) const SMALL_PAGE_BYTES: u64 = 1 << SMALL_PAGE_BITS;
/// First pages of what calls touch, far from each other. Multiples of 128 pages, so that they begin in set 0 of arrays
/// with up to 128 sets.
const OTHER_PAGES: u64 = 1 << 28;
pub(super) const BUFFER: u64 = 1 << 32;
pub(super) const FILE: u64 = 1 << 40;
/// Beyond every file with small pages, however many there are.
pub(super) const HUGE_FILE: u64 = 1 << 56;
/// A call touches this many small pages beside buffer and file, so many pages apart: stack, metadata, the kernel's.
const OTHER_PAGES_PER_CALL: u64 = 16;
const OTHER_PAGES_APART: u64 = 37;

/// One pass over a file with one call per record, by the pattern of IOZONE's passes.
#[derive(Debug, Clone, Copy)]
pub struct Copies {
    /// Size of the file.
    pub file_bytes: u64,
    /// Size of a record, a multiple of 4 KiB. A last record that does not fit is left out, as IOZONE does.
    pub record_bytes: u64,
    /// Size up to which the file has small pages; beyond it, pages of 2 MiB. `None`: always small pages.
    pub threshold_bytes: Option<u64>,
    /// What the calls do.
    pub calls: Calls,
}

/// What the calls of a pass do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Write a new file from its beginning to its end: it has small pages while it is small.
    WriteNew,
    /// Write a file that is there.
    Overwrite,
    /// Read a file that is there.
    Read,
}

impl Copies {
    /// Misses of `processor`'s TLB, empty at first. A call touches 16 other pages of 4 KiB, then by turns a page of
    /// the buffer, which is the same for all calls, and of the file, once each for every 4 KiB. The call that makes the
    /// file larger than the threshold first moves it: by turns a small page and its place in the huge one. Other work
    /// of allocation, page tables among it, is left out.
    ///
    /// `records` are the records' numbers in the order of the calls: [`Copies::in_order`] or [`Copies::permuted`].
    pub fn count(&self, processor: &Processor, records: impl IntoIterator<Item = u64>) -> Counts {
        let mut tlb = Tlb::new(processor);
        let mut small_bytes = 0;
        for record in records {
            self.call(&mut tlb, record * self.record_bytes, &mut small_bytes);
        }
        tlb.counts()
    }

    /// Numbers of the file's records from the first to the last.
    pub fn in_order(&self) -> std::ops::Range<u64> {
        0..self.file_bytes / self.record_bytes
    }

    /// Numbers of the file's records, each once, in the order of the workload `iozone`.
    pub fn permuted(&self) -> Vec<u64> {
        let mut records: Vec<u64> = self.in_order().collect();
        Twister::of_key(&[0]).shuffle(&mut records);
        records
    }

    /// Entries of a TLB that the file takes in all: `threshold / 4 KiB + file / 2 MiB` while it is written, as in
    /// section 2.3 of the SCMFS thesis; `file / 4 KiB` with small pages alone.
    pub fn accumulated_entries(&self) -> u64 {
        match self.threshold_bytes {
            Some(threshold) => threshold / SMALL_PAGE_BYTES + self.file_bytes.div_ceil(1 << HUGE_PAGE_BITS),
            None => self.file_bytes.div_ceil(SMALL_PAGE_BYTES),
        }
    }

    fn call(&self, tlb: &mut Tlb, offset: u64, small_bytes: &mut u64) {
        let end = offset + self.record_bytes;
        let size = if self.calls == Calls::WriteNew { end } else { self.file_bytes };
        let huge = self.threshold_bytes.is_some_and(|threshold| size > threshold);
        let (file, page_bits) = if huge { (HUGE_FILE, HUGE_PAGE_BITS) } else { (FILE, SMALL_PAGE_BITS) };
        match huge {
            true => {
                for done in (0..std::mem::take(small_bytes)).step_by(SMALL_PAGE_BYTES as usize) {
                    tlb.access(small(FILE + done, false));
                    tlb.access(touch(HUGE_FILE + done, HUGE_PAGE_BITS, true));
                }
            }
            false => *small_bytes = end,
        }
        other_pages(tlb);
        for done in (0..self.record_bytes).step_by(SMALL_PAGE_BYTES as usize) {
            let stores = self.calls != Calls::Read;
            tlb.access(small(BUFFER + done, !stores));
            tlb.access(touch(file + offset + done, page_bits, stores));
        }
    }
}

/// What a call touches beside buffer and file.
pub(super) fn other_pages(tlb: &mut Tlb) {
    for n in 0..OTHER_PAGES_PER_CALL {
        let address = OTHER_PAGES + n * OTHER_PAGES_APART * SMALL_PAGE_BYTES;
        tlb.access(small(address, false));
    }
}

pub(super) fn touch(address: u64, page_bits: u32, store: bool) -> Access {
    Access { address, space: 0, page_bits, store }
}

fn small(address: u64, store: bool) -> Access {
    touch(address, SMALL_PAGE_BITS, store)
}
