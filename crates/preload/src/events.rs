//! What happens to descriptors, in words that are compared with each call.

use crate::turns::{Turn, Under};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Something that is done now and then: how often it was begun, shifted by this, and how often it is under way.
#[derive(Default)]
pub struct Events(AtomicU64);

const ONE: u64 = 1 << 16;

impl Events {
    /// What the word is then.
    pub fn begin(&self) -> u64 {
        self.0.fetch_add(ONE | 1, Ordering::SeqCst).wrapping_add(ONE | 1)
    }

    /// What has been begun until now, if nothing else was under way since the word was this.
    pub fn end(&self, begun: u64) -> Option<u64> {
        let before = self.0.fetch_sub(1, Ordering::SeqCst);
        (before == begun && before % ONE == 1).then(|| before - 1)
    }

    /// What has been begun until now; `None`: something is under way.
    #[inline]
    pub fn quiet(&self) -> Option<u64> {
        let word = self.0.load(Ordering::SeqCst);
        (word % ONE == 0).then_some(word)
    }

    /// Whether nothing was begun since then.
    #[inline]
    pub fn are_still(&self, quiet: u64) -> bool {
        self.0.load(Ordering::SeqCst) == quiet
    }
}

/// What happens to all descriptors of a process. Zeros: nothing yet.
pub struct Watch {
    /// Ranges of numbers were closed.
    pub ranges: Events,
    /// Flags of open files were set.
    pub flags: Events,
    /// Other processes may have got open files of this one: by fork(2) and the like, and by messages.
    pub shared: Events,
    /// Children that have this process's memory, and descriptors of their own.
    pub borrowers: AtomicU32,
    /// Closes of single numbers that are over.
    pub closes: AtomicU64,
    /// Copies of numbers that were begun.
    pub copies: AtomicU64,
    /// Direct calls at offsets, with several threads.
    pub moving: Under,
    /// Calls for which the kernel was asked what their number means.
    pub asked: AtomicU64,
}

impl Watch {
    /// Whether a child has this process's memory for a moment.
    #[inline]
    pub fn is_borrowed(&self) -> bool {
        self.borrowers.load(Ordering::SeqCst) > 0
    }
}

/// How a number came to be open.
#[derive(Default)]
pub struct Opened {
    /// What had been closed when it was opened, and 1; 0: it was not seen how.
    closes: AtomicU64,
    ranges: AtomicU64,
    shared: AtomicU64,
    copies: AtomicU64,
}

/// What happens to one number. Zeros: nothing was seen.
#[derive(Default)]
pub struct Number {
    pub closes: Events,
    /// The last of [`Watch::closes`] that was this one's.
    last: AtomicU64,
    /// The last of [`Watch::copies`] that was made of this one, or made this one.
    copied: AtomicU64,
    opened: Opened,
    /// Whose turn it is with the offset.
    pub turn: Turn,
    /// Where the last direct call has left the offset, and 1; 0: somebody else has moved it since, or may have.
    left: AtomicU64,
}

/// What had happened before a number came to be open.
#[derive(Clone, Copy)]
pub struct Before {
    /// [`Watch::closes`].
    pub closes: u64,
    pub ranges: u64,
    pub shared: u64,
    /// [`Watch::copies`].
    pub copies: u64,
}

impl Number {
    /// A close is over, the n-th of all.
    pub fn closed(&self, n: u64) {
        self.last.fetch_max(n, Ordering::SeqCst);
    }

    /// The number was returned by a call that opens a file.
    pub fn opened(&self, before: Before) {
        // Whoever closes a number at the same time may have closed this one.
        let Some(quiet) = self.closes.quiet() else { return };
        if self.last.load(Ordering::SeqCst) <= before.closes {
            self.taken(quiet, before);
        }
    }

    /// The number was given to a file in place of another one. `quiet`: what had been closed then.
    pub fn taken(&self, quiet: u64, before: Before) {
        self.opened.ranges.store(before.ranges, Ordering::SeqCst);
        self.opened.shared.store(before.shared, Ordering::SeqCst);
        self.opened.copies.store(before.copies, Ordering::SeqCst);
        self.opened.closes.store(quiet + 1, Ordering::SeqCst);
        self.moved();
    }

    /// The number was open when the program began, and its open file may be others', too.
    pub fn inherited(&self) {
        self.taken(0, Before { closes: 0, ranges: 0, shared: NOBODY, copies: 0 });
    }

    /// What had been closed when the number was opened, and what had been shared, if it was seen.
    fn seen(&self, watch: &Watch) -> Option<(u64, u64)> {
        let (closes, ranges) = (self.closes.quiet()?, watch.ranges.quiet()?);
        let opened = &self.opened;
        let is_seen =
            opened.closes.load(Ordering::SeqCst) == closes + 1 && opened.ranges.load(Ordering::SeqCst) == ranges;
        is_seen.then(|| (closes, opened.shared.load(Ordering::SeqCst)))
    }

    /// Whether its open file is this process's alone, if all is seen that happens.
    #[inline]
    pub fn is_own(&self, watch: &Watch) -> bool {
        self.seen(watch).is_some_and(|(_, shared)| watch.shared.quiet() == Some(shared))
    }

    /// A copy is made, the n-th of all: of this number, or as this one.
    pub fn copied(&self, n: u64) {
        self.copied.fetch_max(n, Ordering::SeqCst);
    }

    /// Whether another number may be the same open file, if all is seen that happens.
    #[inline]
    pub fn is_copied(&self) -> bool {
        self.copied.load(Ordering::SeqCst) > self.opened.copies.load(Ordering::SeqCst)
    }

    /// A direct call has left the offset here.
    #[inline]
    pub fn left_at(&self, offset: i64) {
        self.left.store(offset as u64 + 1, Ordering::Relaxed);
    }

    /// The offset is moved by another call, or the number is another file's.
    #[inline]
    pub fn moved(&self) {
        self.left.store(0, Ordering::Relaxed);
    }

    /// Where the offset probably is: a signal handler that is at it now may move it.
    #[inline]
    pub fn offset(&self) -> Option<u64> {
        self.left.load(Ordering::Relaxed).checked_sub(1).filter(|_| !self.is_copied())
    }

    /// What counts for a number that is made a copy of this one; `None`: it was not seen how this one was opened.
    pub fn before_copying(&self, watch: &Watch) -> Option<(u64, Before)> {
        let (closes, shared) = self.seen(watch)?;
        let now = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let (ranges, copies) = (watch.ranges.quiet()?, now(&watch.copies));
        Some((closes, Before { closes: now(&watch.closes), ranges, shared, copies }))
    }
}

/// What has to be as it is for a number to mean what it means.
#[derive(Clone, Copy)]
pub struct Proof {
    closes: u64,
    ranges: u64,
    flags: u64,
    /// [`NOBODY`]: others may change the flags.
    shared: u64,
    /// As F_GETFL has them.
    set: c_int,
}

/// No count of events, ever: one is always under way.
const NOBODY: u64 = u64::MAX;

impl Proof {
    /// Nothing is proven.
    pub const NONE: Proof = Proof { closes: NOBODY, ranges: NOBODY, flags: NOBODY, shared: NOBODY, set: 0 };

    /// So many words are one.
    pub const WORDS: usize = 5;

    /// As words.
    #[inline]
    pub fn words(&self) -> [u64; Proof::WORDS] {
        [self.closes, self.ranges, self.flags, self.shared, self.set as u64]
    }

    /// Of its words.
    #[inline]
    pub fn of_words([closes, ranges, flags, shared, set]: [u64; Proof::WORDS]) -> Proof {
        Proof { closes, ranges, flags, shared, set: set as c_int }
    }

    /// Begins a proof, before it is asked what the number means; `None`: it cannot be proven.
    pub fn begin(watch: &Watch, number: &Number) -> Option<Proof> {
        // Who did not see it opened may not see it closed either: libc's own.
        let (closes, shared) = number.seen(watch)?;
        let own = watch.shared.quiet().filter(|now| *now == shared);
        let (ranges, flags) = (watch.ranges.quiet()?, watch.flags.quiet()?);
        Some(Proof { closes, ranges, flags, shared: own.unwrap_or(NOBODY), set: 0 })
    }

    /// Ends it, by the flags that were found.
    pub fn with(self, set: c_int) -> Proof {
        Proof { set, ..self }
    }

    /// Whether the number means the same as then.
    #[inline]
    pub fn holds(&self, watch: &Watch, number: &Number) -> bool {
        number.closes.are_still(self.closes) && watch.ranges.are_still(self.ranges)
    }

    /// The flags, those that stay as long as a file is open: how it may be used.
    #[inline]
    pub fn lasting(&self) -> c_int {
        self.set
    }

    /// The flags, all of them, if they are the same as then.
    #[inline]
    pub fn flags(&self, watch: &Watch) -> Option<c_int> {
        (watch.flags.are_still(self.flags) && watch.shared.are_still(self.shared)).then_some(self.set)
    }

    /// Whether it is worth proving it again when flags were set.
    #[inline]
    pub fn is_own(&self, watch: &Watch) -> bool {
        watch.shared.are_still(self.shared)
    }
}
