//! Frequencies that do not change: performance, powersave, and what userspace fixes.
//!
//! They are pinned at the highest, the lowest or the nearest operating point. Fixed-50 of the PocketData paper is
//! 1.26 GHz on a part of 2.65 GHz: 50% is 1324800 kHz, and 1267200 is nearer to it than 1497600.

use super::{Decision, Domain, Governor, Moment, TimerRequest, nearest};

/// Stays at one operating point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fixed {
    /// The highest: the governor performance.
    Highest,
    /// The lowest: the governor powersave.
    Lowest,
    /// The nearest to a share of the highest frequency, in thousandths of a per cent.
    Share(u32),
    /// The nearest to a frequency in kHz.
    Khz(u32),
}

impl Governor for Fixed {
    fn decide(&mut self, _: Moment, domain: &Domain<'_>) -> Decision {
        let all = domain.frequencies_khz;
        let (lowest, highest) = (all[0], all[all.len() - 1]);
        let khz = match *self {
            Fixed::Highest => highest,
            Fixed::Lowest => lowest,
            Fixed::Share(thousandths) => nearest(all, u64::from(highest) * u64::from(thousandths) / 100_000),
            Fixed::Khz(khz) => nearest(all, u64::from(khz)),
        };
        Decision { khz: (khz != domain.khz).then_some(khz), timer: TimerRequest::Keep }
    }
}
