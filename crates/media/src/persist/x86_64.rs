//! x86-64: CLWB, else CLFLUSHOPT, else CLFLUSH; non-temporal stores of 64, 32 or 16 bytes; SFENCE.
//!
//! Everything is inline assembly: CLWB and CLFLUSHOPT have no intrinsic, and those of AVX-512 are
//! younger than the compiler that this workspace promises to build with.

use super::Instructions;
use std::arch::asm;
use std::sync::OnceLock;

pub(super) const AVAILABLE: bool = true;
pub(super) const STREAMS: bool = true;

#[derive(Debug, Clone, Copy, PartialEq)]
enum WriteBack {
    Clwb,
    ClflushOpt,
    Clflush,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Width {
    Bits512,
    Bits256,
    Bits128,
}

#[inline]
fn choice() -> (WriteBack, Width) {
    static CHOICE: OnceLock<(WriteBack, Width)> = OnceLock::new();
    *CHOICE.get_or_init(choose)
}

// CPUID became a safe function after the oldest compiler that has to build this.
#[allow(unused_unsafe)]
fn choose() -> (WriteBack, Width) {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // SAFETY: every x86-64 processor has CPUID.
    let leaves = unsafe { __cpuid(0) }.eax;
    // SAFETY: as above; leaf 7 exists.
    let features = if leaves >= 7 { unsafe { __cpuid_count(7, 0) }.ebx } else { 0 };
    let write_back = match features {
        f if f >> 24 & 1 == 1 => WriteBack::Clwb,
        f if f >> 23 & 1 == 1 => WriteBack::ClflushOpt,
        _ => WriteBack::Clflush,
    };
    let width = if is_x86_feature_detected!("avx512f") {
        Width::Bits512
    } else if is_x86_feature_detected!("avx") {
        Width::Bits256
    } else {
        Width::Bits128
    };
    (write_back, width)
}

pub(super) fn instructions() -> Instructions {
    let (write_back, width) = choice();
    Instructions {
        write_back: match write_back {
            WriteBack::Clwb => "clwb",
            WriteBack::ClflushOpt => "clflushopt",
            WriteBack::Clflush => "clflush",
        },
        stream: match width {
            Width::Bits512 => "non-temporal stores of 512 bits",
            Width::Bits256 => "non-temporal stores of 256 bits",
            Width::Bits128 => "non-temporal stores of 128 bits",
        },
    }
}

/// # Safety
/// The bytes are mapped, and at least one.
#[inline]
pub(super) unsafe fn write_back(at: *const u8, bytes: usize) {
    let end = at as usize + bytes;
    let mut line = at as usize & !63;
    macro_rules! every_line {
        ($instruction:literal) => {
            while line < end {
                // SAFETY: the line holds a mapped byte, so all of it is mapped. The instruction
                // changes no byte; without `nomem`, stores before it stay before it.
                unsafe { asm!($instruction, in(reg) line, options(nostack, preserves_flags)) };
                line += 64;
            }
        };
    }
    match choice().0 {
        WriteBack::Clwb => every_line!("clwb [{}]"),
        WriteBack::ClflushOpt => every_line!("clflushopt [{}]"),
        WriteBack::Clflush => every_line!("clflush [{}]"),
    }
}

#[inline]
pub(super) fn fence() {
    // SAFETY: a fence touches no memory.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) }
}

/// Copies whole lines to an aligned place.
///
/// # Safety
/// Both ranges are valid and do not overlap; `to` is aligned to 64 bytes.
#[inline]
pub(super) unsafe fn stream_lines(to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: the caller's promise; the width is one that this processor has.
    unsafe { stream_by(choice().1, to, from, lines) }
}

/// Zeroes whole lines.
///
/// # Safety
/// The range is writable; `to` is aligned to 64 bytes.
pub(super) unsafe fn zero_lines(to: *mut u8, lines: usize) {
    // SAFETY: the caller's promise. 16 bytes at a time keep the memory busy as well as 64 do.
    unsafe { zero_128(to, lines) }
}

/// # Safety
/// As [`stream_lines`], and the processor has stores of this width.
#[inline]
unsafe fn stream_by(width: Width, to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match width {
            Width::Bits512 => stream_512(to, from, lines),
            Width::Bits256 => stream_256(to, from, lines),
            Width::Bits128 => stream_128(to, from, lines),
        }
    }
}

/// # Safety
/// As [`stream_by`].
unsafe fn stream_512(to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: 4 lines at a time, then single ones: exactly `lines` in all, which the caller promises
    // to be valid. Registers 16 and above need no VZEROUPPER.
    unsafe {
        asm!(
            "test {fours}, {fours}",
            "jz 3f",
            "2:",
            "vmovdqu64 zmm16, [{from}]",
            "vmovdqu64 zmm17, [{from} + 64]",
            "vmovdqu64 zmm18, [{from} + 128]",
            "vmovdqu64 zmm19, [{from} + 192]",
            "vmovntdq [{to}], zmm16",
            "vmovntdq [{to} + 64], zmm17",
            "vmovntdq [{to} + 128], zmm18",
            "vmovntdq [{to} + 192], zmm19",
            "add {from}, 256",
            "add {to}, 256",
            "dec {fours}",
            "jnz 2b",
            "3:",
            "test {ones}, {ones}",
            "jz 5f",
            "4:",
            "vmovdqu64 zmm16, [{from}]",
            "vmovntdq [{to}], zmm16",
            "add {from}, 64",
            "add {to}, 64",
            "dec {ones}",
            "jnz 4b",
            "5:",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            fours = inout(reg) lines / 4 => _,
            ones = inout(reg) lines % 4 => _,
            out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _,
            options(nostack),
        )
    }
}

/// # Safety
/// As [`stream_by`].
unsafe fn stream_256(to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: 2 lines at a time, then at most one: exactly `lines` in all.
    unsafe {
        asm!(
            "test {twos}, {twos}",
            "jz 3f",
            "2:",
            "vmovdqu ymm0, [{from}]",
            "vmovdqu ymm1, [{from} + 32]",
            "vmovdqu ymm2, [{from} + 64]",
            "vmovdqu ymm3, [{from} + 96]",
            "vmovntdq [{to}], ymm0",
            "vmovntdq [{to} + 32], ymm1",
            "vmovntdq [{to} + 64], ymm2",
            "vmovntdq [{to} + 96], ymm3",
            "add {from}, 128",
            "add {to}, 128",
            "dec {twos}",
            "jnz 2b",
            "3:",
            "test {ones}, {ones}",
            "jz 5f",
            "vmovdqu ymm0, [{from}]",
            "vmovdqu ymm1, [{from} + 32]",
            "vmovntdq [{to}], ymm0",
            "vmovntdq [{to} + 32], ymm1",
            "5:",
            "vzeroupper",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            twos = inout(reg) lines / 2 => _,
            ones = in(reg) lines % 2,
            // VZEROUPPER clears the upper halves of all sixteen.
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack),
        )
    }
}

/// # Safety
/// As [`stream_by`].
unsafe fn stream_128(to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: one line at a time, exactly `lines` in all.
    unsafe {
        asm!(
            "test {lines}, {lines}",
            "jz 3f",
            "2:",
            "movdqu xmm0, [{from}]",
            "movdqu xmm1, [{from} + 16]",
            "movdqu xmm2, [{from} + 32]",
            "movdqu xmm3, [{from} + 48]",
            "movntdq [{to}], xmm0",
            "movntdq [{to} + 16], xmm1",
            "movntdq [{to} + 32], xmm2",
            "movntdq [{to} + 48], xmm3",
            "add {from}, 64",
            "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            "3:",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            lines = inout(reg) lines => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            options(nostack),
        )
    }
}

/// # Safety
/// As [`zero_lines`].
unsafe fn zero_128(to: *mut u8, lines: usize) {
    // SAFETY: one line at a time, exactly `lines` in all.
    unsafe {
        asm!(
            "test {lines}, {lines}",
            "jz 3f",
            "pxor xmm0, xmm0",
            "2:",
            "movntdq [{to}], xmm0",
            "movntdq [{to} + 16], xmm0",
            "movntdq [{to} + 32], xmm0",
            "movntdq [{to} + 48], xmm0",
            "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            "3:",
            to = inout(reg) to => _,
            lines = inout(reg) lines => _,
            out("xmm0") _,
            options(nostack),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_that_this_processor_has_copies_the_same() {
        let source: Vec<u8> = (0..64 * 24).map(|i| (i * 7 % 251) as u8).collect();
        #[repr(align(64))]
        struct Lines([u8; 64 * 24]);
        for width in [Width::Bits512, Width::Bits256, Width::Bits128] {
            let has = match width {
                Width::Bits512 => is_x86_feature_detected!("avx512f"),
                Width::Bits256 => is_x86_feature_detected!("avx"),
                Width::Bits128 => true,
            };
            for lines in 0..if has { 20 } else { 0 } {
                let mut target = Lines([0xee; 64 * 24]);
                // SAFETY: both have room for 24 lines and one byte less; the target is aligned.
                unsafe { stream_by(width, target.0.as_mut_ptr(), source.as_ptr().add(1), lines) };
                fence();
                assert_eq!(target.0[..lines * 64], source[1..1 + lines * 64], "{width:?}, {lines} lines");
                assert!(target.0[lines * 64..].iter().all(|&b| b == 0xee), "{width:?}, {lines} lines");
            }
        }
    }
}
