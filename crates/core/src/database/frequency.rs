//! Bounds of the processors' frequency, as a condition of a trial.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bounds that the processors' frequency is kept within.
///
/// As text: `LOW-HIGH` in kHz (`300000-1267200`), `fixed:1267200kHz`, or `fixed:50`: 50 per cent of each
/// processor's highest frequency, at its nearest operating point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frequency {
    /// From one to the other, both in kHz.
    Between {
        /// Lower bound in kHz.
        low_khz: u32,
        /// Upper bound in kHz, not below it.
        high_khz: u32,
    },
    /// One frequency in kHz.
    Fixed {
        /// kHz.
        khz: u32,
    },
    /// A share of the highest frequency, 1 to 100.
    FixedShare {
        /// Per cent.
        per_cent: u32,
    },
}

impl Frequency {
    /// The bounds in kHz of processors that have frequencies within `limits` (in kHz, both included) and the
    /// operating points `points` (in kHz, in any order; empty where they are not known: then any will do). `None`
    /// where they have no frequency of those.
    pub fn within(self, limits: (u32, u32), points: &[u32]) -> Option<(u32, u32)> {
        let (low, high) = match self {
            Frequency::Between { low_khz, high_khz } => (low_khz.max(limits.0), high_khz.min(limits.1)),
            Frequency::Fixed { khz } => (khz, khz),
            Frequency::FixedShare { per_cent } => {
                let exact = (u64::from(limits.1) * u64::from(per_cent)).div_ceil(100) as u32;
                let usable = points.iter().copied().filter(|p| (limits.0..=limits.1).contains(p));
                // Of two that are as near, the lower one.
                let near = usable.min_by_key(|p| (p.abs_diff(exact), *p));
                let khz = near.unwrap_or_else(|| exact.clamp(limits.0, limits.1));
                (khz, khz)
            }
        };
        (low <= high && low >= limits.0 && high <= limits.1).then_some((low, high))
    }
}

impl FromStr for Frequency {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let number = |t: &str| t.parse::<u32>().ok().filter(|n| *n > 0);
            if let Some(fixed) = text.strip_prefix("fixed:") {
                return match fixed.strip_suffix("kHz") {
                    Some(khz) => Some(Frequency::Fixed { khz: number(khz)? }),
                    None => Some(Frequency::FixedShare { per_cent: number(fixed).filter(|n| *n <= 100)? }),
                };
            }
            let (low, high) = text.split_once('-')?;
            let (low_khz, high_khz) = (number(low)?, number(high)?);
            (low_khz <= high_khz).then_some(Frequency::Between { low_khz, high_khz })
        };
        read().ok_or_else(|| {
            Error::user(format!("`{text}` is not a frequency bound"))
                .hint("use LOW-HIGH in kHz (300000-1267200), fixed:1267200kHz, or fixed:50 (per cent, 1 to 100)")
        })
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frequency::Between { low_khz, high_khz } => write!(f, "{low_khz}-{high_khz}"),
            Frequency::Fixed { khz } => write!(f, "fixed:{khz}kHz"),
            Frequency::FixedShare { per_cent } => write!(f, "fixed:{per_cent}"),
        }
    }
}

impl Serialize for Frequency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Frequency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|e: Error| serde::de::Error::custom(e.chain()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_read_what_they_write() {
        for text in ["300000-1267200", "fixed:50", "fixed:1267200kHz", "5-5"] {
            assert_eq!(text.parse::<Frequency>().unwrap().to_string(), text);
        }
        for text in ["", "fast", "fixed:0", "fixed:101", "fixed:", "2-1", "0-1", "1-", "fixed:5MHz", "-1-2"] {
            assert!(text.parse::<Frequency>().unwrap_err().cure().is_some(), "{text}");
        }
    }

    #[test]
    fn a_share_is_the_nearest_operating_point() {
        let on = |text: &str, points: &[u32]| text.parse::<Frequency>().unwrap().within((300_000, 2_649_600), points);
        // A Nexus 6: half of 2649600 is 1324800, and 1267200 is nearer than 1497600.
        let points = [2_649_600, 1_497_600, 1_267_200, 300_000];
        assert_eq!(on("fixed:50", &points), Some((1_267_200, 1_267_200)));
        assert_eq!(on("fixed:100", &points), Some((2_649_600, 2_649_600)));
        assert_eq!(on("fixed:1", &points), Some((300_000, 300_000)));
        assert_eq!(on("fixed:50", &[]), Some((1_324_800, 1_324_800)));
        assert_eq!(on("fixed:1", &[]), Some((300_000, 300_000)));
        assert_eq!(on("200000-400000", &points), Some((300_000, 400_000)));
        assert_eq!(on("100-200", &points), None);
        assert_eq!(on("fixed:9000000kHz", &points), None);
    }
}
