//! A region with a compiler-checked order of persistence.

use crate::Result;
use crate::copy::copy;
use crate::token::MediumId;
use crate::{Dirty, Durable, Flushed, Operation, Persistence, Piece, Region, Tracker, Window};
use std::ops::Range;
use std::sync::Arc;

/// A [`Region`] and the typed way to store to it.
pub struct Medium {
    region: Box<dyn Region>,
    base: *const u8,
    plain_reads: bool,
    tracker: Option<Arc<Tracker>>,
    id: MediumId,
}

// SAFETY: `base` is the region's, which is Send and Sync itself.
unsafe impl Send for Medium {}
// SAFETY: as above.
unsafe impl Sync for Medium {}

impl Medium {
    /// Takes ownership of a region.
    pub fn new(region: Box<dyn Region>) -> Medium {
        let (base, plain_reads) = (region.base(), region.plain_reads());
        let tracker = region.tracker().cloned();
        Medium { region, base, plain_reads, tracker, id: MediumId::new() }
    }

    /// The region.
    pub fn region(&self) -> &dyn Region {
        &*self.region
    }

    /// What knows of every store to the region; `None`: nothing does.
    pub fn tracker(&self) -> Option<&Arc<Tracker>> {
        self.tracker.as_ref()
    }

    /// Begins an operation, of which a snapshot has all or nothing; see [`Tracker::operation`].
    #[inline]
    pub fn operation(&self) -> Option<Operation<'_>> {
        self.tracker.as_deref().map(Tracker::operation)
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.region.bytes()
    }

    /// Address of the first byte.
    pub fn base(&self) -> *const u8 {
        self.base
    }

    /// What durable bytes survive.
    pub fn persistence(&self) -> Persistence {
        self.region.persistence()
    }

    /// The first bytes from `at` on that may be other than zeros; see [`Region::stored`].
    pub fn stored(&self, at: u64) -> Option<Range<u64>> {
        self.region.stored(at)
    }

    /// Copies bytes out of the region.
    ///
    /// # Panics
    /// When the range is not inside the region.
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) {
        if !self.plain_reads {
            return self.region.read(at, into);
        }
        self.check(at, into.len() as u64);
        // SAFETY: just checked to be inside the region, which nobody stores to while somebody reads: whoever stores
        // has promised that. `into` is memory of its own.
        unsafe { copy(self.base.add(at as usize), into.as_mut_ptr(), into.len()) }
    }

    /// Whether the region has these bytes there.
    ///
    /// # Panics
    /// When the range is not inside the region.
    #[inline]
    pub fn holds(&self, at: u64, bytes: &[u8]) -> bool {
        if !self.plain_reads {
            let mut there = vec![0; bytes.len()];
            self.region.read(at, &mut there);
            return there == bytes;
        }
        self.check(at, bytes.len() as u64);
        // SAFETY: just checked to be inside the region, which nobody stores to while somebody reads: whoever stores
        // has promised that.
        bytes == unsafe { std::slice::from_raw_parts(self.base.add(at as usize), bytes.len()) }
    }

    /// Prefetches the cache line of a byte.
    #[inline]
    pub fn prefetch(&self, at: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.plain_reads && at < self.region.bytes() {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint, for an address inside the region.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.base.add(at as usize).cast()) }
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = at;
    }

    /// Loads one little-endian word.
    #[inline]
    pub fn load_u64(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.read(at, &mut word);
        u64::from_le_bytes(word)
    }

    #[inline]
    fn check(&self, at: u64, bytes: u64) {
        let inside = at.checked_add(bytes).is_some_and(|end| end <= self.region.bytes());
        assert!(inside, "{at}+{bytes} is outside the region");
    }

    /// Stores bytes through the cache, once `after` is durable.
    ///
    /// # Safety
    /// As [`Region::write`]: nobody else loads or stores these bytes meanwhile, or has a reference to them.
    ///
    /// # Panics
    /// When the range is not inside the region; in debug builds, when `after` is of another medium.
    #[inline]
    pub unsafe fn write(&self, at: u64, from: &[u8], after: Durable) -> Dirty {
        after.demand(self.id);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.write(at, from) };
        Dirty::new(self.id, at, from.len() as u64)
    }

    /// Stores one aligned word at once, once `after` is durable.
    ///
    /// # Safety
    /// As [`Region::write`]: nobody else loads or stores these bytes meanwhile, or has a reference to them.
    ///
    /// # Panics
    /// When the range is not inside the region; in debug builds, when `after` is of another medium.
    #[inline]
    pub unsafe fn store_u64(&self, at: u64, value: u64, after: Durable) -> Dirty {
        after.demand(self.id);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.store_u64(at, value) };
        Dirty::new(self.id, at, 8)
    }

    /// Stores aligned words of four bytes, each at once, once `after` is durable. Other threads may store the words
    /// beside them meanwhile.
    ///
    /// # Safety
    /// As [`Region::write`]: nobody else loads or stores these bytes meanwhile, or has a reference to them.
    ///
    /// # Panics
    /// When the range is not inside the region; in debug builds, when `after` is of another medium.
    #[inline]
    pub unsafe fn store_u32s(&self, at: u64, values: &[u32], after: Durable) -> Dirty {
        after.demand(self.id);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.store_u32s(at, values) };
        Dirty::new(self.id, at, 4 * values.len() as u64)
    }

    /// Stores bytes past the cache, once `after` is durable.
    ///
    /// # Safety
    /// As [`Region::write`]: nobody else loads or stores these bytes meanwhile, or has a reference to them.
    ///
    /// # Panics
    /// When the range is not inside the region; in debug builds, when `after` is of another medium.
    #[inline]
    pub unsafe fn stream(&self, at: u64, from: &[u8], after: Durable) -> Flushed {
        after.demand(self.id);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.stream(at, from) };
        Flushed::new(self.id, at, from.len() as u64)
    }

    /// As [`Medium::stream`], where nothing was read or stored lately.
    ///
    /// # Safety
    /// As [`Region::write`]: nobody else loads or stores these bytes meanwhile, or has a reference to them.
    ///
    /// # Panics
    /// When the range is not inside the region; in debug builds, when `after` is of another medium.
    #[inline]
    pub unsafe fn stream_fresh(&self, at: u64, from: &[u8], after: Durable) -> Flushed {
        after.demand(self.id);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.stream_fresh(at, from) };
        Flushed::new(self.id, at, from.len() as u64)
    }

    /// Stores zeros past the cache, once `after` is durable.
    ///
    /// # Safety
    /// As [`Region::write`]: nobody else loads or stores these bytes meanwhile, or has a reference to them.
    ///
    /// # Panics
    /// When the range is not inside the region; in debug builds, when `after` is of another medium.
    pub unsafe fn zero(&self, at: u64, bytes: u64, after: Durable) -> Flushed {
        after.demand(self.id);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.zero(at, bytes) };
        Flushed::new(self.id, at, bytes)
    }

    /// Copies bytes within the region, past the cache, once `after` is durable. The ranges do not overlap.
    ///
    /// # Safety
    /// As [`Region::write`]: nobody else loads or stores these bytes meanwhile, or has a reference to them.
    ///
    /// # Panics
    /// When the range is not inside the region; in debug builds, when `after` is of another medium.
    pub unsafe fn copy(&self, from: u64, to: u64, bytes: u64, after: Durable) -> Flushed {
        after.demand(self.id);
        let mut buffer = [0; 8192];
        let mut done = 0;
        while done < bytes {
            let part = &mut buffer[..(bytes - done).min(8192) as usize];
            self.read(from + done, part);
            // SAFETY: the caller's promise, for a part of its bytes.
            unsafe { self.region.stream(to + done, part) };
            done += part.len() as u64;
        }
        Flushed::new(self.id, to, bytes)
    }

    /// Starts writing back stored bytes.
    ///
    /// # Panics
    /// In debug builds, when it was stored to another medium.
    #[inline]
    pub fn flush(&self, dirty: Dirty) -> Flushed {
        let (at, bytes) = dirty.range(self.id);
        self.region.flush(at, bytes);
        Flushed::new(self.id, at, bytes)
    }

    /// Waits until flushed bytes are durable.
    ///
    /// # Panics
    /// In debug builds, when it was flushed to another medium.
    #[inline]
    pub fn fence(&self, flushed: Flushed) -> Durable {
        self.region.fence();
        flushed.fenced(self.id)
    }

    /// Writes everything back as far as the medium supports it; see [`Region::sync`].
    ///
    /// # Errors
    /// `Failed` if the kernel cannot write back.
    pub fn sync(&self) -> Result<()> {
        self.region.sync()
    }

    /// Makes pages present before they are needed; see [`Region::touch`].
    pub fn touch(&self, at: u64, bytes: u64) {
        self.region.touch(at, bytes);
    }

    /// Lengthens the region.
    ///
    /// # Errors
    /// `Refused` if it cannot grow that far.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        self.region.grow(bytes)
    }

    /// Maps pieces at consecutive addresses, if the medium supports it.
    pub fn window(&self, pieces: &[Piece]) -> Option<Box<dyn Window>> {
        self.region.window(pieces)
    }
}
