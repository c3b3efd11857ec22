//! Processors whose user programs cannot write cache lines back, such as 32-bit ARM: nothing here
//! makes stores durable, and a medium that needs it is refused when it is opened.

use super::Instructions;

pub(super) const AVAILABLE: bool = false;
pub(super) const STREAMS: bool = false;

pub(super) fn instructions() -> Instructions {
    Instructions { write_back: "none", stream: "copy" }
}

/// # Safety
/// None needed.
pub(super) unsafe fn write_back(_at: *const u8, _bytes: usize) {}

pub(super) fn fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// # Safety
/// Never called: `STREAMS` is false.
pub(super) unsafe fn stream_lines(_to: *mut u8, _from: *const u8, _lines: usize) {
    unreachable!("this processor does not stream");
}

/// # Safety
/// Never called: `STREAMS` is false.
pub(super) unsafe fn zero_lines(_to: *mut u8, _lines: usize) {
    unreachable!("this processor does not stream");
}
