//! A region whose stores are tracked.

use crate::{Error, Operation, Persistence, Piece, Region, Result, Shared, TRACKED_BYTES, Tracker, Window};
use std::ops::Range;
use std::sync::Arc;

/// A region, and what knows of every store to it.
pub struct Tracked<R> {
    region: R,
    most_bytes: u64,
    tracker: Arc<Tracker>,
}

impl<R: Region> Tracked<R> {
    /// The region, tracked from now on. It never grows beyond `most_bytes`.
    pub fn new(region: R, most_bytes: u64) -> Tracked<R> {
        let most_bytes = most_bytes.max(region.bytes());
        Tracked { region, most_bytes, tracker: Arc::new(Tracker::new(most_bytes)) }
    }

    #[inline]
    fn store(&self, at: u64, bytes: u64) -> Operation<'_> {
        self.tracker.store(at, bytes, |page| {
            let at = page * TRACKED_BYTES;
            let mut content = vec![0; TRACKED_BYTES.min(self.region.bytes() - at) as usize];
            self.region.read(at, &mut content);
            content
        })
    }
}

// SAFETY: everything is the inner region's.
unsafe impl<R: Region> Region for Tracked<R> {
    fn bytes(&self) -> u64 {
        self.region.bytes()
    }

    fn base(&self) -> *const u8 {
        self.region.base()
    }

    fn plain_reads(&self) -> bool {
        self.region.plain_reads()
    }

    fn map_bytes(&self) -> u64 {
        self.region.map_bytes()
    }

    fn persistence(&self) -> Persistence {
        self.region.persistence()
    }

    fn shared(&self) -> Option<Shared<'_>> {
        self.region.shared()
    }

    fn tracker(&self) -> Option<&Arc<Tracker>> {
        Some(&self.tracker)
    }

    fn name(&self) -> String {
        self.region.name()
    }

    fn describe(&self) -> String {
        self.region.describe()
    }

    fn stored(&self, at: u64) -> Option<Range<u64>> {
        self.region.stored(at)
    }

    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) {
        self.region.read(at, into);
    }

    #[inline]
    unsafe fn write(&self, at: u64, from: &[u8]) {
        let _store = self.store(at, from.len() as u64);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.write(at, from) }
    }

    #[inline]
    unsafe fn store_u64(&self, at: u64, value: u64) {
        let _store = self.store(at, 8);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.store_u64(at, value) }
    }

    #[inline]
    unsafe fn store_u32s(&self, at: u64, values: &[u32]) {
        let _store = self.store(at, 4 * values.len() as u64);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.store_u32s(at, values) }
    }

    #[inline]
    unsafe fn stream(&self, at: u64, from: &[u8]) {
        let _store = self.store(at, from.len() as u64);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.stream(at, from) }
    }

    #[inline]
    unsafe fn stream_fresh(&self, at: u64, from: &[u8]) {
        let _store = self.store(at, from.len() as u64);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.stream_fresh(at, from) }
    }

    unsafe fn zero(&self, at: u64, bytes: u64) {
        let _store = self.store(at, bytes);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.zero(at, bytes) }
    }

    #[inline]
    fn flush(&self, at: u64, bytes: u64) {
        self.region.flush(at, bytes);
    }

    #[inline]
    fn fence(&self) {
        self.region.fence();
    }

    fn sync(&self) -> Result<()> {
        self.region.sync()
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        if bytes > self.most_bytes {
            return Err(Error::refused(format!("a tracked region has at most {} bytes", self.most_bytes)));
        }
        self.region.grow(bytes)
    }

    fn touch(&self, at: u64, bytes: u64) {
        self.region.touch(at, bytes);
    }

    fn window(&self, pieces: &[Piece]) -> Option<Box<dyn Window>> {
        self.region.window(pieces)
    }
}
