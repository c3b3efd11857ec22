//! The interactive governor's choice of a frequency that fits a load.

use super::tunables::Steps;
use super::{at_least, at_most};

/// The lowest operating point at which a load is at most that point's target load, as the governor searches it.
///
/// `work` is the work per time, in kHz times per cent: frequency-weighted busy time over the window, times 100.
/// From the frequency in force, the next one is the lowest operating point that is at least `work / target(f)`,
/// until it stays the same. As target loads differ by frequency, the search may jump over the answer: it keeps
/// the highest frequency known to be too slow and the lowest known to be fast enough, and stays between them.
pub(super) fn choose(frequencies_khz: &[u32], current_khz: u32, work: u64, target_loads: &Steps) -> u32 {
    let mut too_slow: Option<u32> = None;
    let mut enough: Option<u32> = None;
    let mut khz = current_khz;
    loop {
        let before = khz;
        khz = at_least(frequencies_khz, work / target_loads.at(u64::from(khz)).max(1));
        if khz > before {
            too_slow = Some(before);
            if let Some(fast) = enough.filter(|fast| khz >= *fast) {
                // Too fast again: one below what is enough, unless that is too slow.
                khz = at_most(frequencies_khz, u64::from(fast) - 1);
                if too_slow == Some(khz) {
                    return fast;
                }
            }
        } else if khz < before {
            enough = Some(before);
            if let Some(slow) = too_slow.filter(|slow| khz <= *slow) {
                // Too slow again: one above it, unless that is what is known to be enough.
                khz = at_least(frequencies_khz, u64::from(slow) + 1);
                if enough == Some(khz) {
                    return khz;
                }
            }
        } else {
            return khz;
        }
    }
}
