//! How this processor makes stores durable: writing cache lines back, fences, and streaming stores
//! that go past the cache. The best instructions are chosen once, at run time.

#[cfg_attr(target_arch = "x86_64", path = "persist/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "persist/aarch64.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "persist/other.rs")]
mod arch;

use crate::LINE_BYTES;

/// Copies shorter than this go through the cache and are written back: setting streaming up would
/// take longer.
const STREAM_BYTES: usize = 256;

const LINE: usize = LINE_BYTES as usize;

/// The instructions chosen for this processor, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instructions {
    /// What writes a cache line back: `clwb`, `clflushopt`, `clflush`, `dc cvap`, `dc cvac`, `none`.
    pub write_back: &'static str,
    /// How bytes are streamed: by non-temporal stores of some width, or through the cache.
    pub stream: &'static str,
}

/// What was chosen for this processor.
pub fn instructions() -> Instructions {
    arch::instructions()
}

/// Whether a user program can write cache lines back here at all.
pub fn available() -> bool {
    arch::AVAILABLE
}

/// Starts the write-back of every cache line that holds one of these bytes; [`fence`] waits for it.
///
/// # Safety
/// The bytes are mapped and readable.
#[inline]
pub unsafe fn write_back(at: *const u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's promise, handed on.
        unsafe { arch::write_back(at, bytes) }
    }
}

/// Waits until this thread's write-backs and streamed stores have reached the medium.
#[inline]
pub fn fence() {
    arch::fence();
}

/// Copies bytes past the cache where the processor can, else through it with write-back. A [`fence`]
/// makes them durable. The ranges may overlap, at a loss of speed.
///
/// # Safety
/// `from` is readable and `to` is writable for `bytes` bytes.
#[inline]
pub unsafe fn stream(to: *mut u8, from: *const u8, bytes: usize) {
    let apart = (to as usize).wrapping_sub(from as usize);
    let overlap = apart < bytes || apart.wrapping_neg() < bytes;
    if bytes < STREAM_BYTES || overlap || !arch::STREAMS {
        // SAFETY: the caller's promise, handed on; `copy` allows overlap.
        return unsafe { store(to, from, bytes) };
    }
    let (head, body) = split(to, bytes);
    let tail = bytes - head - body;
    // SAFETY: head, body and tail are consecutive parts of both ranges, the ranges do not overlap,
    // and the body starts at a cache line and is whole lines long.
    unsafe {
        if head > 0 {
            store(to, from, head);
        }
        arch::stream_lines(to.add(head), from.add(head), body / LINE);
        if tail > 0 {
            store(to.add(head + body), from.add(head + body), tail);
        }
    }
}

/// Stores zeros like [`stream`].
///
/// # Safety
/// `to` is writable for `bytes` bytes.
pub unsafe fn stream_zero(to: *mut u8, bytes: usize) {
    if bytes < STREAM_BYTES || !arch::STREAMS {
        // SAFETY: the caller's promise, handed on.
        return unsafe { store_zero(to, bytes) };
    }
    let (head, body) = split(to, bytes);
    // SAFETY: head, body and tail are consecutive parts of the range; the body starts at a cache
    // line and is whole lines long.
    unsafe {
        store_zero(to, head);
        arch::zero_lines(to.add(head), body / LINE);
        store_zero(to.add(head + body), bytes - head - body);
    }
}

/// Bytes before the first whole line, and bytes in whole lines. `bytes` is more than two lines.
#[inline]
fn split(to: *mut u8, bytes: usize) -> (usize, usize) {
    let head = (to as usize).wrapping_neg() % LINE;
    (head, (bytes - head) / LINE * LINE)
}

/// # Safety
/// As [`stream`].
#[inline]
unsafe fn store(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise; bytes just written are readable.
    unsafe {
        std::ptr::copy(from, to, bytes);
        write_back(to, bytes);
    }
}

/// # Safety
/// As [`stream_zero`].
unsafe fn store_zero(to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; bytes just written are readable.
    unsafe {
        std::ptr::write_bytes(to, 0, bytes);
        write_back(to, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[repr(align(64))]
    struct Lines([u8; 8192]);

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn streaming_copies_exactly_its_bytes(
            to in 0usize..300, from in 0usize..300, bytes in 0usize..7000, seed in any::<u8>()
        ) {
            let source: Vec<u8> = (0..8192u32).map(|i| (i.wrapping_mul(31) >> 3) as u8 ^ seed).collect();
            let mut lines = Box::new(Lines([0xa5; 8192]));
            // SAFETY: both ranges end below 8192.
            unsafe { stream(lines.0.as_mut_ptr().add(to), source.as_ptr().add(from), bytes) };
            fence();
            prop_assert!(lines.0[..to].iter().all(|&b| b == 0xa5));
            prop_assert_eq!(&lines.0[to..to + bytes], &source[from..from + bytes]);
            prop_assert!(lines.0[to + bytes..].iter().all(|&b| b == 0xa5));
            // SAFETY: as above.
            unsafe { stream_zero(lines.0.as_mut_ptr().add(to), bytes) };
            fence();
            prop_assert!(lines.0[..to].iter().all(|&b| b == 0xa5));
            prop_assert!(lines.0[to..to + bytes].iter().all(|&b| b == 0));
            prop_assert!(lines.0[to + bytes..].iter().all(|&b| b == 0xa5));
        }

        #[test]
        fn streaming_within_one_buffer_is_a_move(to in 0usize..1500, from in 0usize..1500, bytes in 0usize..6000) {
            let mut lines = Box::new(Lines(std::array::from_fn(|i| ((i * 7) >> 4) as u8)));
            let mut expected = lines.0;
            expected.copy_within(from..from + bytes, to);
            let base = lines.0.as_mut_ptr();
            // SAFETY: both ranges end below 8192.
            unsafe { stream(base.add(to), base.add(from), bytes) };
            prop_assert_eq!(&lines.0[..], &expected[..]);
        }
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn this_processor_has_named_instructions() {
        assert!(available());
        assert_ne!(instructions().write_back, "none");
    }
}
