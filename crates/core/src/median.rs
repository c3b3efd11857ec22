//! The median: every crate that sums up values takes this one.

/// The median of `values`, which are sorted in place: of an even number of them, the mean of the two in the middle.
/// `None` of nothing; NaN where the two in the middle are infinities of opposite signs, between which nothing is the
/// middle.
pub fn median(mut values: impl AsMut<[f64]>) -> Option<f64> {
    let values = values.as_mut();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([7.0]), Some(7.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
        let mut values = [3.0, 1.0, 2.0];
        assert_eq!((median(&mut values), values), (Some(2.0), [1.0, 2.0, 3.0]));
    }

    const ABOVE: f64 = f64::INFINITY;
    const BELOW: f64 = f64::NEG_INFINITY;

    #[test]
    fn infinities_have_a_middle_unless_they_are_opposite() {
        assert_eq!(median([ABOVE, 1.0, BELOW]), Some(1.0));
        assert_eq!(median([ABOVE, ABOVE, 1.0]), Some(ABOVE));
        assert_eq!(median([ABOVE, 1.0]), Some(ABOVE));
        assert!(median([ABOVE, BELOW]).is_some_and(f64::is_nan));
    }
}
