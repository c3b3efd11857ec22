//! Where a series of values changes its level: E-divisive, by Matteson and James, "A Nonparametric Approach for
//! Multiple Change Point Analysis of Multivariate Data" (Journal of the American Statistical Association 109, 2014,
//! 334-345), which MongoDB's developers use for the results of their CI (Daly et al., "The Use of Change Point
//! Detection to Identify Software Performance Regressions in a Continuous Integration System", ICPE 2020).
//!
//! Parts are divided where their two sides differ most by the energy distance (with exponent 1), and a division counts
//! if hardly any order of the same values, shuffled within the parts, divides as well. Nothing is assumed of the
//! distribution of the values.

use pocketstone_core::random::Random;

/// The share of series without any change in which one is found.
pub const LEVEL: f64 = 0.01;
/// Orders that a division is held against.
const PERMUTATIONS: u32 = 999;
/// Values on each side of a division: one alone has no spread.
const LEAST: usize = 2;
/// So many values can show a change at [`LEVEL`]: of the 252 ways to choose 5 of 10, two are the order that has all low
/// values before all high ones, or behind them; of the 126 ways for 9, two would be too many.
pub const ENOUGH: usize = 10;

/// The places at which the level changes: each is the index of the first value of the new level. The same values and
/// seed give the same places.
pub fn change_points(values: &[f64], seed: u64) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    if values.len() < ENOUGH {
        return found;
    }
    let mut random = Random::labelled(seed, "change points");
    loop {
        let ends: Vec<usize> = [0].into_iter().chain(found.iter().copied()).chain([values.len()]).collect();
        let parts = || ends.windows(2).map(|ends| ends[0]..ends[1]);
        let best = |values: &[f64]| {
            let divisions = parts().filter_map(|part| Some((part.start, division(&values[part])?)));
            divisions.map(|(start, (at, size))| (start + at, size)).max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let Some((at, size)) = best(values).filter(|(_, size)| *size > 0.0) else { return found };
        let (mut shuffled, mut as_large) = (values.to_vec(), 0);
        let allowed = LEVEL * f64::from(PERMUTATIONS + 1) - 1.0;
        for _ in 0..PERMUTATIONS {
            parts().for_each(|part| shuffle(&mut shuffled[part], &mut random));
            // Sums in another order differ in their last digits.
            as_large += u32::from(best(&shuffled).is_some_and(|(_, other)| other >= size * (1.0 - 1e-9)));
            if f64::from(as_large) > allowed {
                return found;
            }
        }
        found.push(at);
        found.sort_unstable();
    }
}

/// Where two sides of some values differ most, and by how much; none where they are too few.
fn division(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    let distances =
        |i: usize, range: std::ops::Range<usize>| -> f64 { range.map(|j| (values[i] - values[j]).abs()).sum() };
    let all: f64 = (0..n).map(|i| distances(i, 0..i)).sum();
    let (mut left, mut across, mut best) = (0.0, 0.0, None::<(usize, f64)>);
    for at in 1..n {
        // Value `at - 1` moves from the right side to the left one.
        let (to_left, to_right) = (distances(at - 1, 0..at - 1), distances(at - 1, at..n));
        left += to_left;
        across += to_right - to_left;
        let right = all - left - across;
        if at < LEAST || n - at < LEAST {
            continue;
        }
        let (m, k) = (at as f64, (n - at) as f64);
        let pairs = |count: f64| count * (count - 1.0) / 2.0;
        let energy = 2.0 * across / (m * k) - left / pairs(m) - right / pairs(k);
        let size = m * k / (m + k) * energy;
        if best.is_none_or(|(_, most)| size > most) {
            best = Some((at, size));
        }
    }
    best
}

/// Fisher and Yates.
fn shuffle(values: &mut [f64], random: &mut Random) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise of a standard deviation of about 1: the sum of twelve uniform numbers, less 6.
    fn noise(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn a_division_is_the_energy_distance_of_its_sides_weighed_by_their_sizes() {
        // By hand: all pairs across are 2 apart, none within: 2 x 2 / 4 x (2 x 2) = 4.
        assert_eq!(division(&[1.0, 1.0, 3.0, 3.0]), Some((2, 4.0)));
        // By hand, at 2: across 2 x (9 + 10 + 12 + 8 + 9 + 11) / 6, within 1 and (1 + 3 + 2) / 3; times 6 / 5.
        let (at, size) = division(&[0.0, 1.0, 9.0, 10.0, 12.0]).unwrap();
        assert_eq!(at, 2);
        assert!((size - 1.2 * (2.0 * 59.0 / 6.0 - 1.0 - 2.0)).abs() < 1e-9, "{size}");
        assert_eq!(division(&[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn steps_are_found_where_they_are_and_the_same_ones_every_time() {
        let mut random = Random::new(7);
        let level = |run: usize| [100.0, 110.0, 104.0][usize::from(run >= 20) + usize::from(run >= 45)];
        let values: Vec<f64> = (0..60).map(|run| level(run) + noise(&mut random)).collect();
        assert_eq!(change_points(&values, 1), [20, 45]);
        assert_eq!(change_points(&values, 1), change_points(&values, 1));
        // The scale and the origin of the values say nothing.
        let moved: Vec<f64> = values.iter().map(|v| 1e9 + 1e6 * v).collect();
        assert_eq!(change_points(&moved, 1), [20, 45]);
    }

    #[test]
    fn in_noise_alone_hardly_any_change_is_found() {
        let mut random = Random::new(11);
        let mut found = 0;
        for series in 0..200 {
            let values: Vec<f64> = (0..20).map(|_| 50.0 + noise(&mut random)).collect();
            found += usize::from(!change_points(&values, series).is_empty());
        }
        // 2 of 200 are expected; more than 8 in less than one of 10,000 tries.
        assert!(found <= 8, "{found}");
    }

    #[test]
    fn ten_values_are_enough_for_the_clearest_change_and_nine_are_not() {
        let values = |n: usize| (0..n).map(|run| if run < n / 2 { 1.0 } else { 2.0 } + run as f64 * 1e-3).collect();
        let (ten, nine): (Vec<f64>, Vec<f64>) = (values(10), values(9));
        assert_eq!(change_points(&ten, 3), [5]);
        assert_eq!(change_points(&nine, 3), [0; 0]);
        assert_eq!(change_points(&[4.0; 30], 3), [0; 0], "no value differs");
    }
}
