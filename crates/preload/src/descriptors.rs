//! What is known of each descriptor number. Numbers come to mean other files without this library's knowledge, so this
//! is a guess that each call checks, unless it is proven to hold.

use crate::events::{Number, Proof};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use pocketstone_lease::{Average, File};

/// As many numbers are looked at; the others are the kernel's.
pub const NUMBERS: usize = 4096;
/// A file is looked at once it had so many calls, or so many bytes: short programs pay for nothing.
const CALLS: u32 = 8;
const BYTES: u64 = 64 << 10;
/// The longest that a number which was looked at in vain is left alone, in calls.
const CALLS_MOST: u32 = 1 << 16;

/// A file of a mount that a number meant a moment ago.
#[derive(Clone, Copy)]
pub struct Known {
    /// Its mount, by its place among those of this process.
    pub mount: u32,
    /// Its inode number.
    pub ino: u64,
    /// As the server knows it.
    pub file: File,
    /// What has to be as it is for the number to mean it still.
    pub proof: Proof,
}

/// So many files are looked at before the first call of one can be direct, and each had so many direct calls then, on
/// average: fewer would not be worth the question to the server.
const LOOKS: u64 = 8;
const CALLS_PER_LOOK: u64 = 32;
/// No more calls of a file count.
const CALLS_COUNTED: u32 = 128;

/// How many direct calls files of this process had. Zeros: there were none yet.
#[derive(Default)]
pub struct Pace(Average);

impl Pace {
    /// A file was looked at, and one that was before has had so many direct calls.
    pub fn looked(&self, calls: u32) {
        self.0.begin();
        self.0.add(calls.into());
    }

    /// Whether a file is probably worth a look at its first call.
    pub fn is_busy(&self) -> bool {
        self.0.files() > LOOKS && self.0.mean() >= CALLS_PER_LOOK
    }
}

/// All numbers.
pub type Descriptors = [Descriptor; NUMBERS];

/// One number. Zeros: nothing is known of it.
#[repr(align(64))]
pub struct Descriptor {
    /// Odd while what follows, of the file, is changed. All of it is words: a copy of it in memory takes longer to load
    /// than they do, as much as half a store of a page.
    sequence: AtomicU32,
    /// Place of the mount and 1, or 0.
    mount: AtomicU32,
    ino: AtomicU64,
    key: AtomicU64,
    index: AtomicU32,
    proof: [AtomicU64; Proof::WORDS],
    /// Direct ones since the last look, up to [`CALLS_COUNTED`].
    direct: AtomicU32,
    /// By the kernel since the last look.
    calls: AtomicU32,
    /// The calls before the next look; 0 for [`CALLS`].
    patience: AtomicU32,
    bytes: AtomicU64,
    /// So many calls are left to the kernel, as the last one had to be.
    rest: AtomicU32,
    /// How many in sequence had to be.
    vain: AtomicU32,
    /// What happens to the number itself.
    pub number: Number,
}

impl Descriptor {
    /// The file that the number meant a moment ago.
    #[inline]
    pub fn known(&self) -> Option<Known> {
        let before = self.sequence.load(Ordering::Acquire);
        let mount = self.mount.load(Ordering::Relaxed).checked_sub(1)?;
        let ino = self.ino.load(Ordering::Relaxed);
        let (key, index) = (self.key.load(Ordering::Relaxed), self.index.load(Ordering::Relaxed));
        let proof = self.proof.each_ref().map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if before % 2 == 1 || self.sequence.load(Ordering::Relaxed) != before {
            return None;
        }
        Some(Known { mount, ino, file: File { key, index }, proof: Proof::of_words(proof) })
    }

    /// Changes what is known, unless another thread, or what a signal has interrupted, is at it.
    fn change(&self, known: Option<Known>) {
        let before = self.sequence.load(Ordering::Relaxed);
        let odd = before.wrapping_add(1);
        if before % 2 == 1 || self.sequence.compare_exchange(before, odd, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return;
        }
        fence(Ordering::Release);
        if let Some(known) = known {
            self.ino.store(known.ino, Ordering::Relaxed);
            self.key.store(known.file.key, Ordering::Relaxed);
            self.index.store(known.file.index, Ordering::Relaxed);
            let words = self.proof.iter().zip(known.proof.words());
            words.for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        }
        self.mount.store(known.map_or(0, |known| known.mount + 1), Ordering::Relaxed);
        self.sequence.store(odd.wrapping_add(1), Ordering::Release);
    }

    /// The number means this file.
    pub fn remember(&self, known: Known) {
        self.patience.store(0, Ordering::Relaxed);
        self.went();
        self.change(Some(known));
    }

    /// It is proven, or no more, that the number means this file, which it was known to mean.
    pub fn prove(&self, known: Known) {
        self.change(Some(known));
    }

    /// The number means another file, or nothing.
    pub fn forget(&self) {
        self.change(None);
        self.calls.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Whether no look was in vain lately.
    pub fn is_open_to_looks(&self) -> bool {
        self.patience.load(Ordering::Relaxed) == 0
    }

    /// Counts a call of something unknown. Whether it is time to look.
    #[inline]
    pub fn is_due(&self, bytes: usize) -> bool {
        // Lost counts of threads that call at once do no harm.
        let calls = self.calls.load(Ordering::Relaxed).saturating_add(1);
        self.calls.store(calls, Ordering::Relaxed);
        let patience = self.patience.load(Ordering::Relaxed);
        if patience > 0 {
            return calls >= patience;
        }
        let sum = self.bytes.load(Ordering::Relaxed).saturating_add(bytes as u64);
        self.bytes.store(sum, Ordering::Relaxed);
        calls > CALLS || sum > BYTES
    }

    /// The direct calls since this was asked last, up to [`CALLS_COUNTED`].
    pub fn take_direct(&self) -> u32 {
        self.direct.swap(0, Ordering::Relaxed)
    }

    /// A look was in vain: the next one is later, as the number may come to mean another file. `early`: it was at the
    /// first call, by what other files are used for, and says little.
    pub fn put_off(&self, early: bool) {
        let patience = self.patience.load(Ordering::Relaxed);
        let next = if early { CALLS + 1 } else { (patience * 2).clamp(CALLS * 8, CALLS_MOST) };
        self.patience.store(next, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Whether this call is left to the kernel without a try.
    #[inline]
    pub fn rests(&self) -> bool {
        let rest = self.rest.load(Ordering::Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
        }
        rest > 0
    }

    /// A direct call did not go: the next ones are not even tried, `most` of them at most.
    pub fn went_not(&self, most: u32) {
        let vain = self.vain.load(Ordering::Relaxed);
        self.vain.store((vain + 1).min(31), Ordering::Relaxed);
        self.rest.store(((1 << vain) - 1).min(most), Ordering::Relaxed);
    }

    /// A direct call went.
    #[inline]
    pub fn went(&self) {
        // Not for ever: threads that use the same file would change the same line.
        let direct = self.direct.load(Ordering::Relaxed);
        if direct < CALLS_COUNTED {
            self.direct.store(direct + 1, Ordering::Relaxed);
        }
        if self.vain.load(Ordering::Relaxed) > 0 {
            self.vain.store(0, Ordering::Relaxed);
            self.rest.store(0, Ordering::Relaxed);
        }
    }
}
