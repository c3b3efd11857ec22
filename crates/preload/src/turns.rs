//! Whose turn it is with the offset of an open file, among the threads of this process.
//!
//! A direct call at the offset is several steps, and for whoever else uses the offset it has to be one. So while there
//! is such a call, others wait for it; and while the kernel is at the offset for anybody, there is none: the kernel
//! may take as long as it likes (a pipe that nobody writes to), and nobody waits for it. Whoever changes what a number
//! means, or who has its open file, first leaves a mark and then waits for the call under way; a direct call first
//! takes its turn and then looks for marks. So one of the two sees the other.
//!
//! With one thread there is nobody to wait for, and nothing is counted. What a signal handler does that has
//! interrupted a direct call of its own thread does not wait for it (`transfer` says what it finds). A handler that
//! jumps out of a direct call is waited for once.

use crate::raw;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// No more threads are in the kernel with one number at once. No thread has an address as low.
const CALLS_MOST: usize = 1 << 15;
/// So many looks before others are let run.
const LOOKS: u32 = 200;
/// How long they are let run between two looks, and how often: as long as a direct call usually takes by far.
const SHORT: (i64, u32) = (20_000, 1000);
/// The same for one that takes longer: cold pages, questions to the server, which has 4 s for each. What takes more
/// than 10 s does not come back: a handler has jumped out of it, or its thread was cancelled.
const LONG: (i64, u32) = (1_000_000, 10_000);

/// The turn of one number's offset. Zeros: nobody's.
#[derive(Default)]
pub struct Turn {
    /// 0; or how many calls of the kernel are under way, up to [`CALLS_MOST`]; or the thread of a direct call.
    holder: AtomicUsize,
    /// How many wait for the direct call that is under way. There is none after it until they have been: who makes one
    /// after the other would keep them waiting for ever.
    waiting: AtomicU32,
}

/// Waits for something. Whether it has come.
fn wait(mut has_come: impl FnMut() -> bool) -> bool {
    for _ in 0..LOOKS {
        if has_come() {
            return true;
        }
        core::hint::spin_loop();
    }
    for (pause_ns, pauses) in [SHORT, LONG] {
        for _ in 0..pauses {
            raw::pause(pause_ns);
            if has_come() {
                return true;
            }
        }
    }
    false
}

impl Turn {
    /// The thread that is at a direct call, unless it is this one.
    fn other(&self) -> Option<usize> {
        let holder = self.holder.load(Ordering::SeqCst);
        (holder > CALLS_MOST && holder != raw::thread()).then_some(holder)
    }

    /// Waits for the direct call of another thread, one of `all`.
    #[inline]
    pub fn settle(&self, all: &Under) {
        if self.other().is_some() {
            self.wait(all);
        }
    }

    #[cold]
    fn wait(&self, all: &Under) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if !wait(|| self.other().is_none()) {
            self.give_up(all);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// The direct call that is under way does not come back.
    fn give_up(&self, all: &Under) {
        if let Some(holder) = self.other() {
            if self.holder.compare_exchange(holder, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                all.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Before the kernel uses the offset for this thread. Whether it is counted, and [`Turn::left`] is owed. `all`: as
    /// in [`Turn::run`].
    pub fn enter(&self, all: &Under) -> bool {
        loop {
            let before = self.holder.load(Ordering::SeqCst);
            if before > CALLS_MOST {
                // A handler amid the thread's own direct call.
                if before == raw::thread() {
                    return false;
                }
                self.wait(all);
            } else if before == CALLS_MOST {
                return false;
            } else if self.holder.compare_exchange(before, before + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// The kernel has used it.
    pub fn left(&self) {
        let less = |now: usize| (1..=CALLS_MOST).contains(&now).then(|| now - 1);
        let _ = self.holder.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// Runs a direct call, if nobody else is at the offset. `all`: the direct calls that are under way with any number.
    #[inline]
    pub fn run<T>(&self, all: &Under, call: impl FnOnce() -> T) -> Option<T> {
        if self.waiting.load(Ordering::SeqCst) != 0 {
            return None;
        }
        let this = raw::thread();
        // Counted first: whose turn it is, is never more than what is counted (`Under::settle`).
        all.0.fetch_add(1, Ordering::SeqCst);
        if self.holder.compare_exchange(0, this, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            all.0.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        let result = call();
        // Unless it took so long that somebody has given up waiting, or this is a child by now, where all is zeros.
        if self.holder.compare_exchange(this, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            all.0.fetch_sub(1, Ordering::SeqCst);
        }
        Some(result)
    }
}

/// Direct calls at offsets that are under way, or about to be. Zeros: none. Apart from what each call looks at.
#[derive(Default)]
#[repr(align(64))]
pub struct Under(AtomicU32);

impl Under {
    /// Waits for all of them but this thread's own, amid which it may be by a handler. A mark keeps new ones from being
    /// begun. `turns`: all there are.
    pub fn settle<'a, I: Iterator<Item = &'a Turn>>(&self, turns: impl Fn() -> I) {
        if self.0.load(Ordering::SeqCst) != 0 {
            self.wait(turns);
        }
    }

    #[cold]
    fn wait<'a, I: Iterator<Item = &'a Turn>>(&self, turns: impl Fn() -> I) {
        let this = raw::thread();
        let own = turns().filter(|turn| turn.holder.load(Ordering::SeqCst) == this).count();
        if !wait(|| self.0.load(Ordering::SeqCst) as usize <= own) {
            turns().for_each(|turn| turn.give_up(self));
        }
    }
}
