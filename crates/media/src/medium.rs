//! A region whose order of persistence is checked by the compiler.

use crate::copy::copy;
use crate::{Persistence, Piece, Region, Window};
use pocketstone_core::Result;

/// Bytes that were stored through the cache: they may reach the medium at any time, or never.
#[must_use = "stored bytes are not durable before they are flushed and fenced"]
#[derive(Debug)]
pub struct Dirty {
    at: u64,
    bytes: u64,
}

/// Bytes on their way to the medium: a fence waits for them.
#[must_use = "flushed bytes are not durable before a fence"]
#[derive(Debug)]
pub struct Flushed(());

/// The proof that what came before is durable; needed to store what refers to it.
#[must_use = "pass it to what had to wait for it"]
#[derive(Debug)]
pub struct Durable(());

impl Flushed {
    /// Nothing is on its way.
    pub fn nothing() -> Flushed {
        Flushed(())
    }

    /// Adds what is on its way, too.
    pub fn join(&mut self, other: Flushed) {
        let Flushed(()) = other;
    }

    /// Both: one fence can wait for them together.
    pub fn and(self, other: Flushed) -> Flushed {
        let Flushed(()) = other;
        self
    }
}

impl Durable {
    /// Nothing came before that a store could depend on.
    pub fn nothing() -> Durable {
        Durable(())
    }

    /// Two things waited for the same.
    pub fn twice(self) -> (Durable, Durable) {
        (Durable(()), Durable(()))
    }

    /// Both.
    pub fn and(self, other: Durable) -> Durable {
        let Durable(()) = other;
        self
    }

    /// Ends an operation: it is durable, and nothing more depends on it.
    pub fn done(self) {}
}

/// A [`Region`] and the typed way to store to it.
pub struct Medium {
    region: Box<dyn Region>,
    base: *mut u8,
    plain_reads: bool,
}

// SAFETY: `base` is the region's, which is Send and Sync itself.
unsafe impl Send for Medium {}
// SAFETY: as above.
unsafe impl Sync for Medium {}

impl Medium {
    /// Takes a region over.
    pub fn new(region: Box<dyn Region>) -> Medium {
        let (base, plain_reads) = (region.base(), region.plain_reads());
        Medium { region, base, plain_reads }
    }

    /// The region.
    pub fn region(&self) -> &dyn Region {
        &*self.region
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.region.bytes()
    }

    /// Address of the first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// What durable bytes survive.
    pub fn persistence(&self) -> Persistence {
        self.region.persistence()
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
        // SAFETY: just checked to be inside the region; `into` is memory of its own.
        unsafe { copy(self.base.add(at as usize), into.as_mut_ptr(), into.len()) }
    }

    /// Starts to fetch the cache line that holds a byte, where that can help.
    #[inline]
    pub fn prefetch(&self, at: u64) {
        #[cfg(target_arch = "x86_64")]
        if self.plain_reads && at < self.region.bytes() {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint, for an address inside the region.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.base.add(at as usize).cast()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
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
    #[inline]
    pub fn write(&self, at: u64, from: &[u8], after: Durable) -> Dirty {
        after.done();
        self.region.write(at, from);
        Dirty { at, bytes: from.len() as u64 }
    }

    /// Stores one aligned word at once, once `after` is durable.
    #[inline]
    pub fn store_u64(&self, at: u64, value: u64, after: Durable) -> Dirty {
        after.done();
        self.region.store_u64(at, value);
        Dirty { at, bytes: 8 }
    }

    /// Stores bytes past the cache, once `after` is durable.
    #[inline]
    pub fn stream(&self, at: u64, from: &[u8], after: Durable) -> Flushed {
        after.done();
        self.region.stream(at, from);
        Flushed(())
    }

    /// Stores zeros past the cache, once `after` is durable.
    pub fn zero(&self, at: u64, bytes: u64, after: Durable) -> Flushed {
        after.done();
        self.region.zero(at, bytes);
        Flushed(())
    }

    /// Copies bytes within the region, past the cache, once `after` is durable. The ranges do not overlap.
    pub fn copy(&self, from: u64, to: u64, bytes: u64, after: Durable) -> Flushed {
        after.done();
        let mut buffer = [0; 8192];
        let mut done = 0;
        while done < bytes {
            let part = &mut buffer[..(bytes - done).min(8192) as usize];
            self.read(from + done, part);
            self.region.stream(to + done, part);
            done += part.len() as u64;
        }
        Flushed(())
    }

    /// Starts the write-back of what was stored.
    #[inline]
    pub fn flush(&self, dirty: Dirty) -> Flushed {
        self.region.flush(dirty.at, dirty.bytes);
        Flushed(())
    }

    /// Waits until what was flushed is durable.
    #[inline]
    pub fn fence(&self, flushed: Flushed) -> Durable {
        let Flushed(()) = flushed;
        self.region.fence();
        Durable(())
    }

    /// Writes everything back as far as the medium goes; see [`Region::sync`].
    ///
    /// # Errors
    /// When the kernel could not write.
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
    /// When it cannot grow that far.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        self.region.grow(bytes)
    }

    /// Maps pieces at consecutive addresses, where the medium can.
    pub fn window(&self, pieces: &[Piece]) -> Option<Box<dyn Window>> {
        self.region.window(pieces)
    }
}
