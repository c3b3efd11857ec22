//! Copies that are long enough to be worth a choice.

/// From here on the processor's own string copy is faster than a library's loop, where it has one that is
/// meant to be fast: measured on an AMD EPYC of family 26, by 15 to 25 % for 1 MiB.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STRING_BYTES: usize = 64 << 10;

/// Copies bytes as `std::ptr::copy_nonoverlapping` does.
///
/// # Safety
///
/// As there: both ranges are valid for `bytes`, and do not overlap.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes >= STRING_BYTES && std::arch::is_x86_feature_detected!("ermsb") {
        // SAFETY: the caller's promise; the direction flag is clear, as the ABI has it.
        unsafe {
            std::arch::asm!(
                "rep movsb",
                inout("rcx") bytes => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
        return;
    }
    // SAFETY: the caller's promise, handed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_and_short_copies_are_whole_and_touch_nothing_else() {
        let sizes = [0, 1, 4096, (64 << 10) - 1, 64 << 10, (1 << 20) + 3];
        // Miri takes minutes for a megabyte.
        for bytes in sizes.into_iter().filter(|bytes| *bytes <= 4096 || !cfg!(miri)) {
            let from: Vec<u8> = (0..bytes).map(|i| (i * 7 + 1) as u8).collect();
            let mut to = vec![0xEE; bytes + 16];
            // SAFETY: both ranges are valid for `bytes` and lie in different vectors.
            unsafe { super::copy(from.as_ptr(), to.as_mut_ptr().add(8), bytes) };
            assert_eq!((&to[..8], &to[8 + bytes..]), (&[0xEE; 8][..], &[0xEE; 8][..]));
            assert!(to[8..8 + bytes] == from, "{bytes}");
        }
    }
}
