//! How the memory of a [`Mapped`](crate::Mapped) region is read and stored to: also for another process that has it
//! mapped.

use crate::copy::copy;
use crate::persist;
use crate::stores::past_cache;
use std::sync::atomic::{Ordering, compiler_fence};

/// Copies bytes out of mapped memory.
///
/// # Safety
/// `from` is readable and `into` is writable for `bytes` bytes, and they do not overlap. Whoever stores to `from`
/// meanwhile leaves a mix of old and new bytes.
#[inline]
pub unsafe fn load(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise, handed on.
    unsafe { copy(from, into, bytes) }
}

/// Stores bytes to mapped memory, past the cache where durability or speed asks for it. `flushed`: they are to be made
/// durable by a [`fence`]; `cold`: nothing was read or stored there lately.
///
/// # Safety
/// `from` is readable and `to` is writable for `bytes` bytes, and they do not overlap.
#[inline]
pub unsafe fn store(to: *mut u8, from: *const u8, bytes: usize, flushed: bool, cold: bool) {
    // SAFETY: the caller's promise, handed on.
    unsafe {
        if flushed {
            persist::stream(to, from, bytes);
        } else if past_cache(bytes, cold) {
            persist::stream(to, from, bytes);
            // Stores past the cache are ordered by nothing else: neither a lock that is released nor a fence of a
            // medium that is not flushed, which has none.
            persist::fence();
        } else {
            copy(from, to, bytes);
        }
    }
}

/// Waits until stores that are flushed are durable.
#[inline]
pub fn fence(flushed: bool) {
    if flushed {
        persist::fence();
    } else {
        // What this thread has stored outlives the process; only the order must be kept.
        compiler_fence(Ordering::SeqCst);
    }
}
