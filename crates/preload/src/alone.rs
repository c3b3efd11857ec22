//! One thread at a time changes what is mapped of the region, from before it asks the kernel until the table says so:
//! else another one that maps something where it has become free would be known for what was there before.
//!
//! Signals are kept off meanwhile: a handler that unmaps, too, would wait for the very thread that it has interrupted.
//! A child of fork(2) has the table and no other threads: so the one that forks is alone, too.

use crate::raw::is_stopped;
use crate::{mounts, raw};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Long enough for the kernel to unmap something small.
const PAUSE_NS: i64 = 20_000;

/// The thread that is alone, by the address of its `errno`; 0: nobody.
static HOLDER: AtomicUsize = AtomicUsize::new(0);
/// Signals that the thread which forks had blocked before.
static BEFORE_FORK: AtomicU64 = AtomicU64::new(0);

/// Being alone.
pub struct Alone {
    /// Signals that were blocked before. `None`: the thread was alone already, or need not be.
    before: Option<u64>,
}

/// Waits until this thread is alone.
pub fn begin() -> Alone {
    let this = raw::thread();
    loop {
        // A child of vfork(2) may be killed at any time, and its parent would wait for ever; a process that may make
        // few system calls makes none for this.
        if HOLDER.load(Ordering::Relaxed) == this || is_stopped() || !mounts::is_owner() {
            return Alone { before: None };
        }
        let before = raw::block_signals();
        if HOLDER.compare_exchange(0, this, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Alone { before: Some(before) };
        }
        // Handlers run while others are waited for.
        raw::set_signals(before);
        raw::pause(PAUSE_NS);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            HOLDER.store(0, Ordering::Release);
            raw::set_signals(before);
        }
    }
}

/// Waits until what others have changed by now is in the table.
pub fn settle() {
    if HOLDER.load(Ordering::Acquire) != 0 {
        drop(begin());
    }
}

/// Before fork(2): nobody changes anything until it is over.
pub fn before_fork() {
    let alone = begin();
    if let Some(before) = alone.before {
        BEFORE_FORK.store(before, Ordering::Relaxed);
        core::mem::forget(alone);
    }
}

/// After it, in the parent and in the child.
pub fn after_fork() {
    if HOLDER.load(Ordering::Relaxed) == raw::thread() {
        let before = BEFORE_FORK.load(Ordering::Relaxed);
        drop(Alone { before: Some(before) });
    }
}

/// In a child, however it was made: other threads are not there any more, whatever they were at.
pub fn child() {
    if HOLDER.load(Ordering::Relaxed) != raw::thread() {
        HOLDER.store(0, Ordering::Relaxed);
    }
}
