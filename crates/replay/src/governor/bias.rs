//! powersave_bias of both ondemand governors: a target is lowered by so many thousandths, and a lowered target
//! between two operating points is kept on average, by a part of the period at each of the two.

use super::{at_least, at_most};

/// Where to go, and where to go after a part of the period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Course {
    /// At once.
    pub khz: u32,
    /// Later: after so many nanoseconds to such a frequency for the rest of the period, also in nanoseconds.
    pub then: Option<(u64, u32, u64)>,
}

/// The course for a target, an operating point, with a bias of `thousandths`.
pub(super) fn course(frequencies_khz: &[u32], target_khz: u32, thousandths: u64, period_ns: u64) -> Course {
    let wanted = u64::from(target_khz) - u64::from(target_khz) * thousandths / 1000;
    let (low, high) = (at_most(frequencies_khz, wanted), at_least(frequencies_khz, wanted));
    if thousandths == 0 || low >= high {
        return Course { khz: if thousandths == 0 { target_khz } else { low }, then: None };
    }
    let part = u128::from(wanted - u64::from(low)) * u128::from(period_ns) / u128::from(high - low);
    let high_ns = part as u64;
    if high_ns == 0 {
        return Course { khz: low, then: None };
    }
    Course { khz: high, then: Some((high_ns, low, period_ns - high_ns)) }
}
