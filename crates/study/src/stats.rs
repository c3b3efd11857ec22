//! Statistics over repetitions.

use pocketstone_core::random::Random;

/// Median, mean and the 90% confidence interval of the median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistic {
    /// Number of values.
    pub n: usize,
    /// Median.
    pub median: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Resamples of the bootstrap.
const RESAMPLES: usize = 2000;

/// The median of `values`, which are sorted on the way. NaN for none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// The smallest of `sorted` values that at least a share `p` of them does not exceed.
pub fn percentile(sorted: &[f64], p: f64) -> f64 {
    let rank = (p * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).wrapping_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The statistic of `values`, or `None` for none of them.
///
/// The interval is the bootstrap's percentile interval (Efron 1979): the 5th and 95th percentile of
/// the medians of resamples with replacement. Its random numbers are seeded: the same values give
/// the same interval.
pub fn statistic(values: &[f64]) -> Option<Statistic> {
    if values.is_empty() {
        return None;
    }
    let n = values.len();
    let mut random = Random::labelled(n as u64, "bootstrap");
    let mut resample = vec![0.0; n];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resample.fill_with(|| values[random.below(n as u64) as usize]);
            median(&mut resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    Some(Statistic {
        n,
        median: median(&mut values.to_vec()),
        mean: values.iter().sum::<f64>() / n as f64,
        low: percentile(&medians, 0.05),
        high: percentile(&medians, 0.95),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.99), 99.0);
        assert_eq!(percentile(&hundred, 0.0), 1.0);
        assert_eq!(percentile(&[5.0], 0.5), 5.0);
        assert!(statistic(&[]).is_none());
    }

    /// Order statistics give an exact interval of a median to hold the bootstrap against: for 101
    /// values, ranks 43 and 59 bracket it with 91% (binomial, n = 101, p = 1/2).
    #[test]
    fn the_bootstrap_agrees_with_the_exact_interval_of_a_median() {
        let values: Vec<f64> = (1..=101).map(f64::from).collect();
        let s = statistic(&values).unwrap();
        assert_eq!((s.median, s.mean, s.n), (51.0, 51.0, 101));
        assert!((s.low - 43.0).abs() <= 2.0 && (s.high - 59.0).abs() <= 2.0, "{s:?}");
        assert_eq!(statistic(&values), Some(s));
        assert_eq!(statistic(&[7.0, 7.0, 7.0]).unwrap().low, 7.0);
    }
}
