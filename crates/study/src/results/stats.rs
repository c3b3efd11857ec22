//! Statistics over repetitions.

use pocketstone_core::median::median;
use serde::Serialize;

/// Median and mean of some values, and how far they are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistic {
    /// Number of values.
    pub n: usize,
    /// Median.
    pub median: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// How far the values are spread, or how well the median is known.
    pub spread: Spread,
}

/// The two ends that stand beside a median, and what they are.
///
/// Which of the two it is follows from the number of values alone: see [`ranks`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Spread {
    /// A confidence interval of the median of the distribution that the values are drawn from.
    Interval {
        /// Its lower end.
        low: f64,
        /// Its upper end.
        high: f64,
        /// The probability that such an interval contains that median; at least [`CONFIDENCE`].
        coverage: f64,
    },
    /// The smallest and the largest of values that are too few for an interval.
    Range {
        /// The smallest value.
        low: f64,
        /// The largest value.
        high: f64,
        /// How many values there are.
        n: usize,
    },
}

impl Spread {
    /// The spread of `n` values whose ends are known already, as the results have them.
    pub fn known(n: usize, low: f64, high: f64) -> Spread {
        match ranks(n) {
            Some(Ranks { coverage, .. }) => Spread::Interval { low, high, coverage },
            None => Spread::Range { low, high, n },
        }
    }

    /// The lower end.
    pub fn low(&self) -> f64 {
        let (Spread::Interval { low, .. } | Spread::Range { low, .. }) = self;
        *low
    }

    /// The upper end.
    pub fn high(&self) -> f64 {
        let (Spread::Interval { high, .. } | Spread::Range { high, .. }) = self;
        *high
    }

    /// The probability that it contains the median of the distribution; `None` for a range, which claims nothing.
    pub fn coverage(&self) -> Option<f64> {
        match self {
            Spread::Interval { coverage, .. } => Some(*coverage),
            Spread::Range { .. } => None,
        }
    }

    /// What the two ends are, in words: `93.7% interval`, `range of 3`; `None` for one value, which has no spread.
    pub fn name(&self) -> Option<String> {
        match self {
            Spread::Interval { coverage, .. } => Some(format!("{} interval", percent(*coverage))),
            Spread::Range { n: 0 | 1, .. } => None,
            Spread::Range { n, .. } => Some(format!("range of {n}")),
        }
    }
}

/// A coverage with one decimal, rounded down: never more than it is.
fn percent(coverage: f64) -> String {
    format!("{:.1}%", (coverage * 1000.0).floor() / 10.0)
}

/// The least coverage that an interval has.
pub const CONFIDENCE: f64 = 0.9;

/// Which of `n` sorted values are the ends of the interval of the median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranks {
    /// The lower end, counted from 0; the upper end is as far from the largest value.
    pub low: usize,
    /// The probability that the two contain the median.
    pub coverage: f64,
}

/// The narrowest interval between order statistics that contains the median of any distribution with a probability of
/// at least [`CONFIDENCE`]; `None` where even the smallest and the largest of `n` values do not, which is below 5.
///
/// Each value is below the median with probability 1/2, so the number of those that are is binomial: the values of rank
/// `k` and `n + 1 - k` miss the median where fewer than `k` values are on one of its sides. Where the distribution has
/// a point of its own probability at the median, the coverage is only larger.
pub fn ranks(n: usize) -> Option<Ranks> {
    let mut found = None;
    // Of `2^-n C(n, below)`, and of their sum; as logarithms, because 2^-n is 0 for large n.
    let mut of_one = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    for low in 0..n / 2 {
        below += of_one.exp();
        let coverage = 1.0 - 2.0 * below;
        if coverage < CONFIDENCE {
            break;
        }
        found = Some(Ranks { low, coverage });
        of_one += ((n - low) as f64 / (low + 1) as f64).ln();
    }
    found
}

/// The smallest of `sorted` values that at least a share `p` of them does not exceed.
pub fn percentile(sorted: &[f64], p: f64) -> f64 {
    let rank = (p * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).wrapping_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The statistic of `values`, or `None` for none of them.
pub fn statistic(values: &[f64]) -> Option<Statistic> {
    let mut sorted = values.to_vec();
    let median = median(&mut sorted)?;
    let (n, low) = (sorted.len(), ranks(sorted.len()).map_or(0, |r| r.low));
    let spread = Spread::known(n, *sorted.get(low)?, sorted[n - 1 - low]);
    Some(Statistic { n, median, mean: values.iter().sum::<f64>() / n as f64, spread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::random::Random;

    #[test]
    fn percentiles_are_values() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.99), 99.0);
        assert_eq!(percentile(&hundred, 0.0), 1.0);
        assert_eq!(percentile(&[5.0], 0.5), 5.0);
        assert!(statistic(&[]).is_none());
    }

    /// The binomial distribution by counting: of all 2^n ways in which n values lie on the two sides of the median,
    /// those with at least `k` on each.
    fn by_counting(n: u32, k: u32) -> f64 {
        let ways = 1u64 << n;
        (0..ways).filter(|w| w.count_ones() >= k && n - w.count_ones() >= k).count() as f64 / ways as f64
    }

    #[test]
    fn the_ranks_are_the_innermost_whose_coverage_is_enough() {
        for n in 0..=18u32 {
            let enough: Vec<u32> = (1..=n / 2).filter(|k| by_counting(n, *k) >= 0.9).collect();
            let found = ranks(n as usize);
            assert_eq!(found.map(|r| r.low as u32 + 1), enough.last().copied(), "{n}");
            if let (Some(found), Some(k)) = (found, enough.last()) {
                assert!((found.coverage - by_counting(n, *k)).abs() < 1e-12, "{n}");
            }
        }
        assert_eq!((ranks(4), ranks(5)), (None, Some(Ranks { low: 0, coverage: 0.9375 })));
        // Ranks 42 and 60 of 101: 0.92724 by exact fractions, and 0.88908 for those within. No underflow of 2^-n.
        assert!(ranks(101).is_some_and(|r| r.low == 41 && (r.coverage - 0.927_243).abs() < 1e-6));
        let many = ranks(100_000).unwrap();
        // The normal approximation: n/2 - 1.645 sqrt(n)/2.
        assert!((many.low as f64 - (50_000.0 - 0.8224 * 100_000f64.sqrt())).abs() < 3.0, "{many:?}");
        assert!((0.9..0.903).contains(&many.coverage));
    }

    /// Draws from distributions whose medians are known, symmetric and not, and counts how often the interval
    /// contains it: the share is the coverage that is stated, within what chance does to so many trials.
    #[test]
    fn intervals_contain_the_median_as_often_as_they_say() {
        const TRIALS: u32 = 20_000;
        let mut random = Random::labelled(16, "coverage");
        let mut uniform = move || (random.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64;
        // By the inverse of the distribution's function, and that inverse at 1/2.
        type Draw = fn(f64) -> f64;
        let distributions: [(&str, Draw, f64); 4] = [
            ("uniform", |u| u, 0.5),
            ("exponential", |u| -(1.0 - u).ln(), std::f64::consts::LN_2),
            ("Pareto, of infinite mean", |u| (1.0 - u).powf(-1.25), 2f64.powf(1.25)),
            ("two humps", |u| if u < 0.6 { u } else { 100.0 + u }, 0.5),
        ];
        for (name, draw, median) in distributions {
            for n in [2, 3, 4, 5, 6, 8, 11, 20] {
                let mut inside = 0;
                let mut stated = None;
                for _ in 0..TRIALS {
                    let values: Vec<f64> = (0..n).map(|_| draw(uniform())).collect();
                    let spread = statistic(&values).unwrap().spread;
                    inside += u32::from((spread.low()..=spread.high()).contains(&median));
                    stated = spread.coverage();
                }
                let share = f64::from(inside) / f64::from(TRIALS);
                let chance = 4.0 * (share * (1.0 - share) / f64::from(TRIALS)).sqrt();
                match stated {
                    Some(coverage) => {
                        assert!(n >= 5 && coverage >= 0.9, "{name}, {n}");
                        assert!((share - coverage).abs() < chance, "{name}, {n}: {share}, not {coverage}");
                    }
                    // A range of n values misses the median where all are on one side of it.
                    None => assert!(n < 5 && (share - (1.0 - 2f64.powi(1 - n))).abs() < chance, "{name}, {n}: {share}"),
                }
            }
        }
    }

    #[test]
    fn a_spread_says_what_it_is() {
        let name = |values: &[f64]| statistic(values).unwrap().spread.name();
        assert_eq!(name(&[7.0]), None);
        assert_eq!(name(&[7.0, 8.0]).as_deref(), Some("range of 2"));
        assert_eq!(name(&[1.0, 3.0, 2.0, 4.0]).as_deref(), Some("range of 4"));
        assert_eq!(name(&[1.0, 3.0, 2.0, 4.0, 0.0]).as_deref(), Some("93.7% interval"));
        let s = statistic(&[9.0, 1.0, 3.0, 2.0, 4.0, 0.0, 5.0, 6.0]).unwrap();
        // Of eight, the second and the seventh: 1 - 2 (1 + 8) / 256.
        assert_eq!(s.spread, Spread::Interval { low: 1.0, high: 6.0, coverage: 238.0 / 256.0 });
        assert_eq!((s.median, s.mean, s.n), (3.5, 3.75, 8));
    }
}
