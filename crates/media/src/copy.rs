//! Copies that are long enough to be worth a choice.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

/// Copies bytes as `std::ptr::copy_nonoverlapping` does.
///
/// # Safety
///
/// As there: both ranges are valid for `bytes`, and do not overlap.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes >= x86_64::LOOP_BYTES && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the caller's promise, handed on; the processor has AVX.
        return unsafe { x86_64::copy_long(from, to, bytes) };
    }
    // SAFETY: the caller's promise, handed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

#[cfg(test)]
mod tests {
    /// Copies within vectors at these offsets, and looks at every byte, those beside the target included.
    fn check(bytes: usize, from_offset: usize, to_offset: usize) {
        let from: Vec<u8> = (0..bytes + from_offset).map(|i| (i * 7 + i / 256 + 1) as u8).collect();
        let mut to = vec![0xEE; to_offset + bytes + 200];
        // SAFETY: both ranges are valid for `bytes` and lie in different vectors.
        unsafe { super::copy(from.as_ptr().add(from_offset), to.as_mut_ptr().add(to_offset), bytes) };
        assert!(to[..to_offset].iter().chain(&to[to_offset + bytes..]).all(|byte| *byte == 0xEE), "{bytes}");
        assert!(to[to_offset..][..bytes] == from[from_offset..], "{bytes} from {from_offset} to {to_offset}");
    }

    #[test]
    fn long_and_short_copies_are_whole_and_touch_nothing_else() {
        let sizes = [0, 1, 4096, (64 << 10) - 1, 64 << 10, (1 << 20) + 3];
        // Miri takes minutes for a megabyte.
        for bytes in sizes.into_iter().filter(|bytes| *bytes <= 4096 || !cfg!(miri)) {
            check(bytes, 0, 8);
        }
    }

    #[test]
    fn copies_are_whole_wherever_they_start_and_end() {
        // Miri has no copies but the library's.
        let sizes = (1000..1400).step_by(if cfg!(miri) { 397 } else { 3 }).chain([4095, 4096, 4097]);
        for bytes in sizes {
            for to_offset in [0, 1, 16, 63, 64] {
                check(bytes, (bytes * 5) % 67, to_offset);
            }
        }
    }
}
