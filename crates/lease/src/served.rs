//! Whether the server still serves, as another process sees it without asking: a lock that the kernel marks when its
//! holder dies.

use crate::memory::Memory;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// FUTEX_OWNER_DIED of linux/futex.h.
const OWNER_DIED: u32 = 0x4000_0000;
/// FUTEX_TID_MASK of linux/futex.h.
const OWNER: u32 = 0x3FFF_FFFF;

/// Held by the thread that made it, which lives as long as the server. Dropping it says that nobody serves any more.
pub struct Serving<'a> {
    mutex: *mut libc::pthread_mutex_t,
    _memory: &'a Memory,
}

/// Says that this thread serves from now on. `None`: it cannot be said here.
pub(crate) fn begin(memory: &Memory) -> Option<Serving<'_>> {
    let mutex = memory.place(0, size_of::<libc::pthread_mutex_t>() as u64)?.cast::<libc::pthread_mutex_t>();
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the mapping starts at a page, so the lock is aligned, and it is long enough; nobody else uses the bytes
    // but to look at the first word. The attributes are initialised first, and given back.
    let locked = unsafe {
        libc::pthread_mutexattr_init(attributes) == 0
            && libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED) == 0
            && libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST) == 0
            && libc::pthread_mutex_init(mutex, attributes) == 0
            && libc::pthread_mutexattr_destroy(attributes) == 0
            && libc::pthread_mutex_lock(mutex) == 0
    };
    locked.then_some(Serving { mutex, _memory: memory })
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread locked it: the value cannot be sent to another one.
        unsafe { libc::pthread_mutex_unlock(self.mutex) };
    }
}

/// Whether the server served when what was loaded before was loaded.
#[inline]
pub(crate) fn is_served(memory: &Memory) -> bool {
    fence(Ordering::Acquire);
    let Some(word) = memory.place(0, 4) else { return false };
    // SAFETY: aligned and inside the mapping. glibc's lock starts with the word that the kernel looks at when a thread
    // ends: the number of its holder.
    let word = unsafe { AtomicU32::from_ptr(word.cast()) }.load(Ordering::Relaxed);
    word & OWNER != 0 && word & OWNER_DIED == 0
}
