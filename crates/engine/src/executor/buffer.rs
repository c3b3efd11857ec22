//! The bytes that requests move.

use std::ops::{Deref, DerefMut};

/// What direct requests need of a buffer's address. Others get it as well: a copy to an address that is no multiple of
/// 32 takes a third longer on some processors, and chance would decide which cell has one.
const ALIGNMENT: usize = 4096;

/// A buffer that starts with a page.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// A buffer of `bytes` bytes, every page of it touched.
    pub(super) fn new(bytes: usize) -> Buffer {
        let mut aligned = vec![0xa5; bytes + ALIGNMENT];
        let start = aligned.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        aligned.truncate(start + bytes);
        Buffer { bytes: aligned, start }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_starts_with_a_page_and_has_the_size_asked_for() {
        for bytes in [1, 512, 4096, 1 << 20] {
            let buffer = Buffer::new(bytes);
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % ALIGNMENT), (bytes, 0));
        }
    }
}
