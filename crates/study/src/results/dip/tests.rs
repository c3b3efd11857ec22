//! Dips against those of the Python package diptest 0.12, which is made from Maechler's corrected version of the
//! authors' algorithm, and p-values against its table of quantiles (1,000,001 samples of each size).

use super::*;

#[track_caller]
fn assert_dip(values: &[f64], expected: f64) {
    let found = dip(values).unwrap();
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    // The order, the unit and the direction of an axis do not matter.
    let turned: Vec<f64> = values.iter().rev().map(|x| 7.0 - 2.0 * x).collect();
    assert!((dip(&turned).unwrap() - expected).abs() < 1e-9, "turned: {:?}", dip(&turned));
}

/// Six seconds and eleven, as in the paper's figure 10.
const TWO_MODES: [f64; 20] =
    [6.0, 6.1, 6.2, 6.05, 6.3, 5.9, 6.15, 6.22, 6.4, 5.8, 11.0, 11.2, 10.9, 11.1, 11.3, 10.8, 11.05, 10.95, 11.4, 6.01];

#[test]
fn dips_are_those_of_another_program() {
    // By hand: half of the values at each of two places; an atom can follow one half alone.
    assert_dip(&[0.0, 0.0, 1.0, 1.0], 0.25);
    assert_dip(&[0.0, 0.0, 0.0, 1.0, 5.0, 5.0, 6.0, 6.0, 6.0], 0.177_777_777_777_777_78);
    assert_dip(&[0.0, 1.0, 2.0, 10.0, 11.0, 12.0], 0.2);
    assert_dip(&[1.0, 1.0, 1.0, 2.0], 0.125);
    assert_dip(&[0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 9.0, 9.0, 9.0], 0.15);
    let digits = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4];
    assert_dip(&digits.map(f64::from), 0.081_25);
    assert_dip(&TWO_MODES, 0.198);
    // Evenly spaced: nothing is nearer to a unimodal distribution.
    assert_dip(&[1.0, 2.0, 3.0, 4.0], 0.125);
    assert_eq!(dip(&[1.0, 2.0, 3.0]), None);
}

/// Pseudo-random numbers below 1000 that the other program was given as well.
#[test]
fn dips_of_many_values_are_those_of_another_program() {
    let mut state = 1u64;
    let expected = [
        (5, 0.166_896_551_724_137_9),
        (9, 0.110_610_610_610_610_62),
        (17, 0.080_903_915_818_526_84),
        (50, 0.034_184_100_418_410_045),
        (200, 0.028_737_864_077_669_89),
    ];
    for (n, expected) in expected {
        let next = |_| {
            state = (state * 1_103_515_245 + 12345) % (1 << 31);
            (state / 65536 % 1000) as f64
        };
        let values: Vec<f64> = (0..n).map(next).collect();
        assert_dip(&values, expected);
    }
}

#[test]
fn p_values_are_those_of_the_published_table() {
    // Size; the dips that a half, 90, 95 and 99 per cent of uniform samples stay below.
    let table = [
        (20, [0.073_343_8, 0.097_234_6, 0.105_130_2, 0.120_624_0]),
        (50, [0.048_851_2, 0.064_913_6, 0.070_273_9, 0.081_199_8]),
        (200, [0.025_584_4, 0.033_996_8, 0.036_841_8, 0.042_686_5]),
    ];
    for (n, quantiles) in table {
        let mut random = Random::labelled(7, "another generator's place");
        let samples = 4000;
        let drawn: Vec<Vec<f64>> = (0..samples).map(|_| (0..n).map(|_| random.unit()).collect()).collect();
        let dips: Vec<f64> = drawn.iter().map(|values| dip(values).unwrap()).collect();
        for (quantile, above) in quantiles.into_iter().zip([0.5, 0.1, 0.05, 0.01]) {
            let share = dips.iter().filter(|d| **d > quantile).count() as f64 / f64::from(samples);
            let chance = 4.0 * (above * (1.0 - above) / f64::from(samples)).sqrt();
            assert!((share - above).abs() < chance, "{n}: {share} of the samples are above {quantile}, not {above}");
        }
        // P-values are the shares of other uniform samples with such dips.
        for values in [&drawn[0], &drawn[1], &drawn[2]] {
            let (d, p) = (dip(values).unwrap(), p_value(values).unwrap());
            let share = dips.iter().filter(|other| **other >= d).count() as f64 / f64::from(samples);
            let chance = 4.0 * (share * (1.0 - share) / f64::from(samples)).sqrt() * 1.4 + 0.001;
            assert!((p - share).abs() < chance, "{n}: p of {d} is {p}, not {share}");
        }
    }
}

#[test]
fn two_modes_are_told_from_one() {
    assert!(p_value(&TWO_MODES).unwrap() < 0.001);
    assert_eq!(p_value(&TWO_MODES), p_value(&TWO_MODES));
    let one: Vec<f64> = (1..=20).map(|i| f64::from(i) + 0.1 * f64::from(i % 3)).collect();
    assert!(p_value(&one).unwrap() > 0.9);
    // More values than are drawn: 2000 in two halves with an even floor; and evenly spaced ones.
    let many: Vec<f64> = (0..2000).map(|i| if i < 200 { f64::from(i) / 200.0 } else { f64::from(i % 2) }).collect();
    assert!(p_value(&many).unwrap() < 0.001);
    assert!(p_value(&(0..2000).map(f64::from).collect::<Vec<_>>()).unwrap() > 0.99);
}
