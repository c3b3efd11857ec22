//! Whose turn it is with the offset of an open file, among the threads of this process.
//!
//! A direct call at the offset is several steps, and for whoever else uses the offset it has to be one. So while there
//! is such a call, others wait for it; and while the kernel is at the offset for anybody, there is none: the kernel
//! may take as long as it likes (a pipe that nobody writes to), and nobody waits for it. Whoever changes what a number
//! means, or who has its open file, first leaves a mark and then waits for the call under way; a direct call first
//! takes its turn and then looks for marks. So one of the two sees the other.
//!
//! With one thread there is nobody to wait for, and nothing is counted. What a signal handler does that has
//! interrupted a direct call of its own thread does not wait for it (`transfer` says what it finds).

use crate::raw;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// No more threads are in the kernel with one number at once. No thread has an address as low.
const CALLS_MOST: usize = 1 << 15;
/// So many looks before others are let run.
const LOOKS: u32 = 200;
/// As long as a direct call may take by far, if its thread is run: page faults, a question to the server.
const PAUSE_NS: i64 = 20_000;
/// One that takes longer than a second does not come back: a handler has jumped out of it, or its thread was cancelled.
const PAUSES_MOST: u32 = 50_000;
/// A thread that forks in a handler, amid its own direct call, waits for itself.
const PAUSES_OF_ALL_MOST: u32 = 2000;

/// The turn of one number's offset. Zeros: nobody's.
#[derive(Default)]
pub struct Turn {
    /// 0; or how many calls of the kernel are under way, up to [`CALLS_MOST`]; or the thread of a direct call.
    holder: AtomicUsize,
}

/// Waits for something. Whether it has come.
fn wait(pauses_most: u32, mut has_come: impl FnMut() -> bool) -> bool {
    for _ in 0..LOOKS {
        if has_come() {
            return true;
        }
        core::hint::spin_loop();
    }
    for _ in 0..pauses_most {
        raw::pause(PAUSE_NS);
        if has_come() {
            return true;
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

    /// Waits for the direct call of another thread.
    #[inline]
    pub fn settle(&self) {
        if let Some(holder) = self.other() {
            self.wait_for(holder);
        }
    }

    #[cold]
    fn wait_for(&self, holder: usize) {
        if !wait(PAUSES_MOST, || self.other() != Some(holder)) {
            let _ = self.holder.compare_exchange(holder, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// Before the kernel uses the offset for this thread. Whether it is counted, and [`Turn::left`] is owed.
    pub fn enter(&self) -> bool {
        loop {
            let before = self.holder.load(Ordering::SeqCst);
            if before > CALLS_MOST {
                // A handler amid the thread's own direct call.
                if before == raw::thread() {
                    return false;
                }
                self.wait_for(before);
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
        let this = raw::thread();
        self.holder.compare_exchange(0, this, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        all.0.fetch_add(1, Ordering::SeqCst);
        let result = call();
        all.0.fetch_sub(1, Ordering::SeqCst);
        // Unless it took so long that somebody has given up waiting.
        let _ = self.holder.compare_exchange(this, 0, Ordering::SeqCst, Ordering::Relaxed);
        Some(result)
    }
}

/// Direct calls at offsets that are under way. Zeros: none.
#[derive(Default)]
pub struct Under(AtomicU32);

impl Under {
    /// Waits for all of them. A mark keeps new ones from being begun.
    pub fn settle(&self) {
        if self.0.load(Ordering::SeqCst) != 0 {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        wait(PAUSES_OF_ALL_MOST, || self.0.load(Ordering::SeqCst) == 0);
    }
}
