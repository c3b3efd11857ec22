//! What a process knows.

use crate::descriptors::{Descriptors, Pace};
use crate::events::Watch;
use crate::mounts::{self, Mounts};
use crate::raw;
use crate::ways::Counts;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use pocketstone_lease::Session;

/// What a process knows: memory that is zeros at first, and zeros again in a child. Zeros: nothing.
pub struct State {
    pub watch: Watch,
    pub descriptors: Descriptors,
    pub pace: Pace,
    pub mounts: Mounts,
    pub counts: Counts,
}

impl State {
    /// Waits for the direct calls at offsets that are under way; there must be a mark that keeps others from being
    /// begun.
    pub fn settle(&self) {
        self.watch.moving.settle(|| self.descriptors.iter().map(|descriptor| &descriptor.number.turn));
    }
}

/// The process's, from [`begin`] on.
static STATE: AtomicPtr<State> = AtomicPtr::new(null_mut());

/// From now on this is what it knows: zeros of the size of a [`State`], which stay.
pub fn begin(memory: *mut State) {
    STATE.store(memory, Ordering::Release);
}

/// What this process knows; `None`: it is not to be direct.
#[inline]
pub fn state() -> Option<&'static State> {
    // SAFETY: null, or memory of the size of a `State` that stays; zeros are a valid one, and it is changed by atomics.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

/// From now on all goes by the kernel; with a single thread, nothing of a volume is mapped any more either: another one
/// could be using it.
pub fn leave() {
    raw::stop();
    if let Some(state) = state().filter(|_| raw::is_single() && mounts::is_owner()) {
        // SAFETY: no call of this thread runs, others there are none, and every one from now on finds that it is
        // stopped. Sessions are never dropped.
        state.mounts.sessions().for_each(|session| unsafe { session.give_back() });
        state.mounts.forget();
    }
}

/// Lets the kernel take volumes from memory that it was told to keep there.
pub fn unlock() {
    if let Some(state) = state().filter(|_| mounts::is_owner()) {
        state.mounts.sessions().for_each(Session::unlock);
    }
}
