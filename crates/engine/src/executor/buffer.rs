//! The bytes that requests move.

use std::ops::{Deref, DerefMut};

/// What direct requests need of a buffer's address.
const ALIGNMENT: usize = 4096;

/// A buffer, at an address that direct requests can use where there are any.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// A buffer of `bytes` bytes, every page of it touched.
    pub(super) fn new(bytes: usize, direct: bool) -> Buffer {
        if !direct {
            return Buffer { bytes: vec![0xa5; bytes], start: 0 };
        }
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
    fn direct_requests_get_an_aligned_buffer_of_the_same_size() {
        for bytes in [512, 4096, 1 << 20] {
            let buffer = Buffer::new(bytes, true);
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % ALIGNMENT), (bytes, 0));
            assert_eq!(Buffer::new(bytes, false).len(), bytes);
        }
    }
}
