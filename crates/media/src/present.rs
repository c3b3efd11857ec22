//! Which parts of a mapping were made present before they were needed.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is made present at once: enough for the kernel to take a fraction of the time that a fault for every page
/// takes, and little enough for nobody to notice.
const PART_BYTES: u64 = 512 << 10;

/// A bit for each part, set once.
pub(crate) struct Present(Vec<AtomicU64>);

impl Present {
    /// For so many bytes, none of them present.
    pub(crate) fn none(bytes: u64) -> Present {
        let words = bytes.div_ceil(PART_BYTES).div_ceil(64);
        Present((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// The parts that hold some of these bytes and that nobody asked for before, one by one: the caller makes them
    /// present. Two threads that ask at once may get the same part, which does no harm.
    #[inline]
    pub(crate) fn absent(&self, at: u64, bytes: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        (at / PART_BYTES..(at + bytes).div_ceil(PART_BYTES)).filter_map(|part| {
            let (word, bit) = (self.0.get((part / 64) as usize)?, 1 << (part % 64));
            if word.load(Ordering::Relaxed) & bit != 0 {
                return None;
            }
            word.fetch_or(bit, Ordering::Relaxed);
            Some(part * PART_BYTES..(part + 1) * PART_BYTES)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_absent_once_and_none_beyond_the_end() {
        let present = Present::none(70 * PART_BYTES);
        let asked = |at, bytes| present.absent(at, bytes).map(|part| part.start / PART_BYTES).collect::<Vec<_>>();
        assert_eq!(asked(PART_BYTES - 1, 1), [0]);
        assert_eq!(asked(PART_BYTES - 1, 2), [1]);
        assert_eq!(asked(62 * PART_BYTES, 3 * PART_BYTES), [62, 63, 64]);
        assert_eq!(asked(62 * PART_BYTES, 3 * PART_BYTES), []);
        assert_eq!(asked(0, 0), []);
        assert_eq!(asked(1000 * PART_BYTES, 1), []);
    }
}
