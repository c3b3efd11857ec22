//! 64-bit ARM: DC CVAP (to the point of persistence), else DC CVAC (to the point of coherency); DSB.
//!
//! The pairs of non-temporal stores that ARM has are a hint, and promise nothing about durability:
//! streaming is a copy through the cache with write-back.

use super::Instructions;
use std::arch::asm;
use std::sync::OnceLock;

pub(super) const AVAILABLE: bool = true;
pub(super) const STREAMS: bool = false;

/// Linux's HWCAP_DCPOP: user programs may use DC CVAP.
const HWCAP_DCPOP: usize = 1 << 16;

/// Whether to use CVAP, and the smallest cache line in bytes.
#[inline]
fn choice() -> (bool, usize) {
    static CHOICE: OnceLock<(bool, usize)> = OnceLock::new();
    *CHOICE.get_or_init(|| {
        let cache_type: usize;
        // SAFETY: Linux lets user programs read CTR_EL0, or reads it for them.
        unsafe { asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags)) };
        // DminLine, bits 16 to 19: the logarithm of the number of 4-byte words.
        let line = 4 << (cache_type >> 16 & 15);
        (rustix::param::linux_hwcap().0 & HWCAP_DCPOP != 0, line)
    })
}

pub(super) fn instructions() -> Instructions {
    Instructions { write_back: if choice().0 { "dc cvap" } else { "dc cvac" }, stream: "copy and write back" }
}

/// # Safety
/// The bytes are mapped, and at least one.
#[inline]
pub(super) unsafe fn write_back(at: *const u8, bytes: usize) {
    let (persistence, step) = choice();
    let end = at as usize + bytes;
    let mut line = at as usize & !(step - 1);
    while line < end {
        // SAFETY: the line holds a mapped byte, so all of it is mapped; no byte is changed. The
        // first is DC CVAP spelled as what every assembler knows.
        unsafe {
            if persistence {
                asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags));
            } else {
                asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags));
            }
        }
        line += step;
    }
}

#[inline]
pub(super) fn fence() {
    // SAFETY: a barrier touches no memory.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) }
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
