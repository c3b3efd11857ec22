//! The measurements.

use crate::copy::copy;
use crate::{LINE_BYTES, persist, timing};
use std::sync::OnceLock;
use std::time::Duration;

/// From here on stores are large: so much new content pushes what is of use out of the inner caches anyway.
const LARGE_BYTES: usize = 256 << 10;
/// Shorter stores share lines with what was stored just before: those are in the cache.
const SMALL_BYTES: usize = 2 << 10;
const LINE: usize = LINE_BYTES as usize;

#[inline]
pub(super) fn past_cache(bytes: usize, cold: bool) -> bool {
    static LARGE: OnceLock<bool> = OnceLock::new();
    static COLD: OnceLock<bool> = OnceLock::new();
    if bytes >= LARGE_BYTES {
        return *LARGE.get_or_init(|| {
            let [through, past] = times(1 << 20, 2 << 20, 2);
            // A tie is not the cache's: what is stored through it has yet to leave it, and that was not measured.
            !timing::is_clearly_less(through, past)
        });
    }
    cold && bytes >= SMALL_BYTES
        && *COLD.get_or_init(|| {
            let [through, past] = times(4 << 10, 256 << 10, 4);
            // A tie is the cache's: what is in it is sooner read.
            timing::is_clearly_less(past, through)
        })
}

/// A line where one begins, as most of what is stored to.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; LINE],
}

/// The times of filling a buffer by stores of `bytes`, through the cache and past it.
#[cold]
fn times(bytes: usize, buffer_bytes: usize, rounds: usize) -> [Duration; 2] {
    let lines = |bytes: usize| vec![Line { _bytes: [1; LINE] }; bytes / LINE];
    let (from, mut to) = (lines(bytes), lines(buffer_bytes));
    let (from, to) = (from.as_ptr().cast::<u8>(), to.as_mut_ptr().cast::<u8>());
    let fill = |past: bool| {
        for at in (0..buffer_bytes).step_by(bytes) {
            // SAFETY: the source is `bytes` long, and the buffer a multiple of that; they are different vectors.
            unsafe {
                if past {
                    persist::stream(to.add(at), from, bytes);
                    persist::fence();
                } else {
                    copy(from, to.add(at), bytes);
                }
            }
        }
    };
    // A fill that goes past the cache leaves no line of the buffer in it, for the one that is timed next.
    let [_, through, _, past] =
        timing::best(rounds, [&mut || fill(true), &mut || fill(false), &mut || fill(true), &mut || fill(true)]);
    [through, past]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_stores_and_small_ones_to_warm_lines_stay_in_the_cache() {
        assert!(!past_cache(SMALL_BYTES - 1, true));
        assert!(!past_cache(LARGE_BYTES - 1, false));
    }

    #[test]
    fn a_choice_stays_what_it_was() {
        for (bytes, cold) in [(LARGE_BYTES, false), (SMALL_BYTES, true)] {
            let first = past_cache(bytes, cold);
            assert!((0..3).all(|_| past_cache(bytes, cold) == first));
        }
    }
}
