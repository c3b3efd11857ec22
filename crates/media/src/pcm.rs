//! Phase change memory, simulated: the time it takes, and the wear that it suffers.
//!
//! Time is charged per 64-byte line where the medium itself would be reached: for lines that are
//! read, and for dirty lines that are flushed or streamed. Stores into the cache are free. A thread
//! owes its time until that is a microsecond or a fence comes, then waits by spinning; what it waited
//! too long is set off against the next debt. Waits of single lines would mostly be waits for the clock.

use crate::{Error, Heap, LINE_BYTES, Persistence, Region, Result};
use pocketstone_vfs::setters;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How slow and how durable the memory is.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcmOptions {
    /// Nanoseconds to read a line. Published figures for PCM lie around 50 to 100.
    pub read_ns: u64,
    /// Nanoseconds to write a line. Published figures for PCM lie around 150 to 500.
    pub write_ns: u64,
    /// Writes that a cell endures: 10^8 for PCM (SCMFS thesis, section 1.2).
    pub endurance: u64,
}

impl Default for PcmOptions {
    /// The middle of what is published: 75 ns, 300 ns; and the thesis's endurance.
    fn default() -> Self {
        PcmOptions { read_ns: 75, write_ns: 300, endurance: 100_000_000 }
    }
}

impl PcmOptions {
    setters! { read_ns: u64, write_ns: u64, endurance: u64 }
}

/// Simulated phase change memory in this process's memory. It is used by one [`PcmRegion`] at a time: what one volume
/// left, the next one finds.
pub struct Pcm(Arc<Memory>);

/// A [`Pcm`] as a region, and the only one until it is dropped.
pub struct PcmRegion(Arc<Memory>);

struct Memory {
    heap: Heap,
    options: PcmOptions,
    wear: Arc<Wear>,
    /// A bit per line: stored to since it was last written to the medium.
    dirty: Box<[AtomicU64]>,
    /// There is a region.
    lent: AtomicBool,
}

struct Wear {
    writes: Box<[AtomicU32]>,
    reads: AtomicU64,
    endurance: u64,
}

/// How often each line of a [`Pcm`] was written; it outlives the region.
#[derive(Clone)]
pub struct WearMap(Arc<Wear>);

/// A line and its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hot {
    /// Offset of the line.
    pub at: u64,
    /// How often it was written.
    pub writes: u64,
}

/// The wear of a whole region.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WearSummary {
    /// Lines of the region.
    pub lines: u64,
    /// Lines read, over all.
    pub reads_total: u64,
    /// Lines written, over all.
    pub writes_total: u64,
    /// Offset of the line written most often.
    pub hottest_at: u64,
    /// How often that was.
    pub hottest_writes: u64,
    /// Writes per line on average.
    pub mean_writes: f64,
    /// The hottest line's writes over the average; 1 is perfect levelling, 0 means nothing was written.
    pub ratio: f64,
    /// The part of the hottest line's life that is used up: its writes over the endurance.
    pub life_used: f64,
}

/// Debts smaller than this wait for a fence.
const PAY_NS: i64 = 1000;

thread_local! {
    /// Nanoseconds that this thread owes; negative after waiting too long.
    static DEBT: Cell<i64> = const { Cell::new(0) };
}

fn charge(ns: u64) {
    let debt = DEBT.get().saturating_add_unsigned(ns);
    DEBT.set(debt);
    if debt >= PAY_NS {
        pay();
    }
}

fn pay() {
    let debt = DEBT.get();
    if debt <= 0 {
        return;
    }
    let (start, wait) = (Instant::now(), Duration::from_nanos(debt as u64));
    let mut waited = start.elapsed();
    while waited < wait {
        std::hint::spin_loop();
        waited = start.elapsed();
    }
    // A thread that was put to sleep meanwhile must not get the rest for nothing.
    DEBT.set((debt - waited.as_nanos() as i64).max(-PAY_NS));
}

impl Pcm {
    /// Zeroed memory of `bytes`, and the map of its wear.
    pub fn new(bytes: u64, options: &PcmOptions) -> (Pcm, WearMap) {
        let lines = bytes.div_ceil(LINE_BYTES) as usize;
        let wear = Arc::new(Wear {
            writes: (0..lines).map(|_| AtomicU32::new(0)).collect(),
            reads: AtomicU64::new(0),
            endurance: options.endurance,
        });
        let dirty = (0..lines.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let (heap, lent) = (Heap::new(bytes as usize), AtomicBool::new(false));
        (Pcm(Arc::new(Memory { heap, options: *options, wear: wear.clone(), dirty, lent })), WearMap(wear))
    }

    /// The memory as a region.
    ///
    /// # Errors
    /// `InUse` if the region handed out before still exists.
    pub fn region(&self) -> Result<PcmRegion> {
        if self.0.lent.swap(true, Ordering::Acquire) {
            return Err(Error::in_use("this phase change memory is in use").hint("close the volume on it first"));
        }
        Ok(PcmRegion(self.0.clone()))
    }
}

impl Drop for PcmRegion {
    fn drop(&mut self) {
        self.0.lent.store(false, Ordering::Release);
    }
}

impl Memory {
    fn mark_dirty(&self, at: u64, bytes: u64) {
        for line in lines(at, bytes) {
            self.dirty[line / 64].fetch_or(1 << (line % 64), Ordering::Relaxed);
        }
    }

    /// Writes lines to the medium: all of them, or those that are dirty.
    fn clean(&self, at: u64, bytes: u64, all: bool) {
        let mut written = 0;
        for line in lines(at, bytes) {
            let bit = 1 << (line % 64);
            if self.dirty[line / 64].fetch_and(!bit, Ordering::Relaxed) & bit != 0 || all {
                self.wear.writes[line].fetch_add(1, Ordering::Relaxed);
                written += 1;
            }
        }
        charge(written * self.options.write_ns);
    }
}

fn lines(at: u64, bytes: u64) -> std::ops::Range<usize> {
    let first = at / LINE_BYTES;
    let end = if bytes == 0 { first } else { (at + bytes).div_ceil(LINE_BYTES) };
    first as usize..end as usize
}

// SAFETY: the heap stays until its last owner is dropped, and there is one region of it at a time.
unsafe impl Region for PcmRegion {
    fn bytes(&self) -> u64 {
        self.0.heap.bytes()
    }

    fn base(&self) -> *const u8 {
        self.0.heap.base()
    }

    fn plain_reads(&self) -> bool {
        false
    }

    fn map_bytes(&self) -> u64 {
        self.0.heap.map_bytes()
    }

    fn persistence(&self) -> Persistence {
        Persistence::PowerSafe
    }

    fn describe(&self) -> String {
        let PcmOptions { read_ns, write_ns, .. } = self.0.options;
        format!("simulated phase change memory ({read_ns} ns to read a line, {write_ns} ns to write one)")
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.0.heap.read(at, into);
        let count = lines(at, into.len() as u64).len() as u64;
        self.0.wear.reads.fetch_add(count, Ordering::Relaxed);
        charge(count * self.0.options.read_ns);
    }

    unsafe fn write(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.heap.write(at, from) };
        self.0.mark_dirty(at, from.len() as u64);
    }

    unsafe fn store_u64(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.heap.store_u64(at, value) };
        self.0.mark_dirty(at, 8);
    }

    unsafe fn stream(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.heap.stream(at, from) };
        self.0.clean(at, from.len() as u64, true);
    }

    unsafe fn zero(&self, at: u64, bytes: u64) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.heap.zero(at, bytes) };
        self.0.clean(at, bytes, true);
    }

    fn flush(&self, at: u64, bytes: u64) {
        self.0.clean(at, bytes, false);
    }

    fn fence(&self) {
        self.0.heap.fence();
        pay();
    }
}

impl WearMap {
    /// The wear of the whole region.
    pub fn summary(&self) -> WearSummary {
        let wear = &self.0;
        let lines = wear.writes.len() as u64;
        let writes_total: u64 = wear.writes.iter().map(|n| u64::from(n.load(Ordering::Relaxed))).sum();
        let hottest = self.hottest(1).first().copied().unwrap_or(Hot { at: 0, writes: 0 });
        let mean_writes = if lines == 0 { 0.0 } else { writes_total as f64 / lines as f64 };
        WearSummary {
            lines,
            reads_total: wear.reads.load(Ordering::Relaxed),
            writes_total,
            hottest_at: hottest.at,
            hottest_writes: hottest.writes,
            mean_writes,
            ratio: if writes_total == 0 { 0.0 } else { hottest.writes as f64 / mean_writes },
            life_used: hottest.writes as f64 / wear.endurance.max(1) as f64,
        }
    }

    /// The `count` lines that were written most often, hottest first; equal ones by their place.
    pub fn hottest(&self, count: usize) -> Vec<Hot> {
        let hot = |(line, n): (usize, &AtomicU32)| Hot {
            at: line as u64 * LINE_BYTES,
            writes: u64::from(n.load(Ordering::Relaxed)),
        };
        let mut all: Vec<Hot> = self.0.writes.iter().enumerate().map(hot).filter(|hot| hot.writes > 0).collect();
        all.sort_unstable_by_key(|hot| (std::cmp::Reverse(hot.writes), hot.at));
        all.truncate(count);
        all
    }

    /// How many lines were written how often: element 0 counts the lines never written, element n
    /// those written 2^(n-1) to 2^n - 1 times.
    pub fn histogram(&self) -> Vec<u64> {
        let mut counts = Vec::new();
        for writes in &self.0.writes {
            let class = (u32::BITS - writes.load(Ordering::Relaxed).leading_zeros()) as usize;
            if counts.len() <= class {
                counts.resize(class + 1, 0);
            }
            counts[class] += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_to_a_dirty_line_are_one_write() {
        let options = PcmOptions { read_ns: 0, write_ns: 0, ..PcmOptions::default() };
        let (memory, wear) = Pcm::new(4096, &options);
        let pcm = memory.region().unwrap();
        for _ in 0..2 {
            // SAFETY: nobody else has the region.
            unsafe {
                pcm.store_u64(64, 1);
                pcm.store_u64(72, 2);
            }
            pcm.flush(0, 4096);
            pcm.flush(0, 4096);
        }
        // Lines 2 and 3, by a stream that begins and ends inside them.
        // SAFETY: nobody else has the region.
        unsafe { pcm.stream(140, &[7; 100]) };
        pcm.fence();
        assert_eq!(
            wear.hottest(9),
            [Hot { at: 64, writes: 2 }, Hot { at: 128, writes: 1 }, Hot { at: 192, writes: 1 }]
        );
        assert_eq!(wear.histogram(), [61, 2, 1]);
        let mut word = [0; 100];
        pcm.read(140, &mut word);
        assert_eq!(word, [7; 100]);
        let summary = wear.summary();
        assert_eq!((summary.lines, summary.writes_total, summary.reads_total), (64, 4, 2));
        assert_eq!((summary.hottest_at, summary.hottest_writes), (64, 2));
        assert_eq!((summary.mean_writes, summary.ratio), (4.0 / 64.0, 32.0));
        assert_eq!(summary.life_used, 2e-8);
    }

    #[test]
    fn there_is_one_region_at_a_time_and_the_next_one_finds_what_it_left() {
        let (memory, _) = Pcm::new(128, &PcmOptions::default());
        let first = memory.region().unwrap();
        assert!(memory.region().err().unwrap().message().contains("in use"));
        // SAFETY: nobody else has the region.
        unsafe { first.write(64, &[7]) };
        drop(first);
        let mut found = [0];
        memory.region().unwrap().read(64, &mut found);
        assert_eq!(found, [7]);
    }

    #[test]
    fn a_stream_makes_a_dirty_line_clean() {
        let (memory, wear) = Pcm::new(128, &PcmOptions::default());
        let pcm = memory.region().unwrap();
        // SAFETY: nobody else has the region.
        unsafe {
            pcm.write(0, &[1; 8]);
            pcm.zero(0, 64);
        }
        pcm.flush(0, 64);
        assert_eq!(wear.summary().writes_total, 1);
    }

    #[test]
    fn time_is_charged_per_line_and_adds_up() {
        let (memory, _) = Pcm::new(64 << 10, &PcmOptions { read_ns: 100, write_ns: 1000, endurance: 1 });
        let pcm = memory.region().unwrap();
        let start = Instant::now();
        for _ in 0..10 {
            // SAFETY: nobody else has the region.
            unsafe { pcm.zero(0, 64 << 10) };
        }
        pcm.fence();
        // 10 x 1024 lines of a microsecond each; being too slow is the machine's right.
        assert!(start.elapsed() >= Duration::from_micros(10_239), "{:?}", start.elapsed());
        let start = Instant::now();
        let mut line = [0; 64];
        for _ in 0..10_000 {
            pcm.read(64, &mut line);
        }
        pcm.fence();
        assert!(start.elapsed() >= Duration::from_micros(998), "{:?}", start.elapsed());
    }
}
