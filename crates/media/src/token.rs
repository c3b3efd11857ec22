//! Tokens that order persistence: stored, on its way, durable. Debug builds know which bytes of which medium each
//! speaks of, and refuse one that is used for others.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};

/// Which bytes of which medium a token speaks of. Empty in release builds.
#[derive(Debug, Clone, Default)]
struct Scope {
    #[cfg(debug_assertions)]
    medium: Option<MediumId>,
    #[cfg(debug_assertions)]
    ranges: Vec<(u64, u64)>,
}

impl Scope {
    #[inline]
    fn join(&mut self, other: Scope) {
        #[cfg(debug_assertions)]
        {
            if let Some(medium) = other.medium {
                self.demand(medium);
                self.medium = Some(medium);
            }
            self.ranges.extend(other.ranges);
        }
        #[cfg(not(debug_assertions))]
        let Scope {} = other;
    }

    #[inline]
    fn demand(&self, medium: MediumId) {
        #[cfg(debug_assertions)]
        assert!(self.medium.is_none_or(|own| own == medium), "a token of a different medium");
        #[cfg(not(debug_assertions))]
        let _ = medium;
    }
}

/// Tells media apart in debug builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MediumId {
    #[cfg(debug_assertions)]
    number: u64,
}

impl MediumId {
    pub(crate) fn new() -> MediumId {
        #[cfg(debug_assertions)]
        static NEXT: AtomicU64 = AtomicU64::new(0);
        MediumId {
            #[cfg(debug_assertions)]
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// Bytes that were stored through the cache: they may reach the medium at any time, or never.
///
/// That a token speaks of this medium, and of these bytes, is checked in debug builds alone, as for [`Flushed`] and
/// [`Durable`]: in release builds a token is empty, or its range. The order is a matter of types in all builds.
#[must_use = "stored bytes are not durable before they are flushed and fenced"]
#[derive(Debug)]
pub struct Dirty(Stored);

#[derive(Debug)]
struct Stored {
    at: u64,
    bytes: u64,
    medium: MediumId,
}

/// Bytes on their way to the medium: a fence waits for them.
#[must_use = "flushed bytes are not durable before a fence"]
#[derive(Debug)]
pub struct Flushed(Scope);

/// The proof that what came before is durable; needed to store what refers to it.
#[must_use = "pass it to what had to wait for it"]
#[derive(Debug)]
pub struct Durable(Scope);

impl Dirty {
    #[inline]
    pub(crate) fn new(medium: MediumId, at: u64, bytes: u64) -> Dirty {
        Dirty(Stored { at, bytes, medium })
    }

    /// The range to flush.
    #[inline]
    pub(crate) fn range(&self, medium: MediumId) -> (u64, u64) {
        // Never false in release builds.
        assert!(self.0.medium == medium, "a token of a different medium");
        (self.0.at, self.0.bytes)
    }

    /// Says that this was flushed although it was not: for defects that a test seeds to see that they are found.
    pub fn pretend_flushed(self) -> Flushed {
        Flushed::new(self.0.medium, self.0.at, self.0.bytes)
    }
}

impl Flushed {
    #[inline]
    pub(crate) fn new(medium: MediumId, at: u64, bytes: u64) -> Flushed {
        #[cfg(debug_assertions)]
        return Flushed(Scope { medium: Some(medium), ranges: vec![(at, bytes)] });
        #[cfg(not(debug_assertions))]
        {
            let _ = (medium, at, bytes);
            Flushed(Scope {})
        }
    }

    /// Nothing is on its way.
    #[inline]
    pub fn nothing() -> Flushed {
        Flushed(Scope::default())
    }

    /// Adds what is on its way, too.
    ///
    /// # Panics
    /// In debug builds, when the two are of different media.
    #[inline]
    pub fn join(&mut self, other: Flushed) {
        self.0.join(other.0);
    }

    /// Both: one fence can wait for them together.
    ///
    /// # Panics
    /// As [`Flushed::join`].
    #[inline]
    pub fn and(mut self, other: Flushed) -> Flushed {
        self.join(other);
        self
    }

    /// Says that this is durable although no fence waited for it: for defects that a test seeds to see that they are
    /// found.
    pub fn pretend_durable(self) -> Durable {
        Durable(self.0)
    }

    #[inline]
    pub(crate) fn fenced(self, medium: MediumId) -> Durable {
        self.0.demand(medium);
        Durable(self.0)
    }
}

/// Proofs that need no fence, by their reason.
impl Durable {
    /// Nothing refers to what is stored: it goes to space that was just taken, or whose contents do not count. Whoever
    /// refers to it later has to wait for it.
    #[inline]
    pub fn unreferenced() -> Durable {
        Durable(Scope::default())
    }

    /// What is stored refers to nothing that is new: all that it speaks of was durable before.
    #[inline]
    pub fn nothing_new() -> Durable {
        Durable(Scope::default())
    }

    /// What is stored overwrites bytes that nothing is said about: as the bytes of a file, of which a crash may leave
    /// any mixture of old and new.
    #[inline]
    pub fn in_place() -> Durable {
        Durable(Scope::default())
    }

    /// What is stored is part of work that is begun anew after a crash, whatever of it was stored: recovery, repair,
    /// conversion.
    #[inline]
    pub fn repeatable() -> Durable {
        Durable(Scope::default())
    }
}

impl Durable {
    #[inline]
    pub(crate) fn demand(self, medium: MediumId) {
        self.0.demand(medium);
    }

    /// Checks, in debug builds, that these bytes are among those that this proves durable: for who refers to them.
    ///
    /// # Panics
    /// In debug builds, when they are not.
    #[inline]
    pub fn must_cover(&self, at: u64, bytes: u64) {
        #[cfg(debug_assertions)]
        {
            let mut ranges: Vec<(u64, u64)> = self.0.ranges.iter().map(|(at, bytes)| (*at, at + bytes)).collect();
            ranges.sort_unstable();
            let reached =
                ranges.iter().fold(at, |reached, (from, to)| if *from <= reached { reached.max(*to) } else { reached });
            assert!(reached >= at + bytes, "{at}+{bytes} is not the range made durable");
        }
        #[cfg(not(debug_assertions))]
        let _ = (at, bytes);
    }

    /// Two things waited for the same.
    #[inline]
    pub fn twice(self) -> (Durable, Durable) {
        (Durable(self.0.clone()), self)
    }

    /// Both.
    ///
    /// # Panics
    /// In debug builds, when the two are of different media.
    #[inline]
    pub fn and(mut self, other: Durable) -> Durable {
        self.0.join(other.0);
        self
    }

    /// Ends an operation: it is durable, and nothing more depends on it.
    #[inline]
    pub fn done(self) {}
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn a_proof_covers_what_it_was_made_for_and_nothing_else() {
        let medium = MediumId::new();
        let both = Flushed::new(medium, 64, 64).and(Flushed::new(medium, 100, 100)).fenced(medium);
        for (at, bytes) in [(64, 136), (70, 1), (199, 1), (500, 0)] {
            both.must_cover(at, bytes);
        }
        for (at, bytes) in [(63, 1), (64, 137), (200, 1)] {
            let covered = std::panic::catch_unwind(|| both.must_cover(at, bytes));
            assert!(covered.is_err(), "{at}+{bytes}");
        }
        both.done();
    }

    #[test]
    #[should_panic(expected = "a token of a different medium")]
    fn a_token_is_not_flushed_to_another_medium() {
        let dirty = Dirty::new(MediumId::new(), 0, 8);
        dirty.range(MediumId::new());
    }

    #[test]
    #[should_panic(expected = "a token of a different medium")]
    fn tokens_of_two_media_have_no_fence_in_common() {
        let _ = Flushed::new(MediumId::new(), 0, 8).and(Flushed::new(MediumId::new(), 8, 8));
    }
}
