//! How the numbers of claims and texts are written.

use pocketstone_core::units::{digits_that_tell, format_ns_to};
use serde::Deserialize;

/// What stands for a claim's number in its words.
pub(crate) const PLACE: &str = "{}";

/// How a number is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// As it is.
    #[default]
    Number,
    /// A fraction, as per cent.
    Percent,
    /// The difference of two fractions, as points of a per cent.
    Points,
    /// How many times as much one is as the other.
    Times,
    /// Nanoseconds.
    Nanoseconds,
}

/// Digits that a number has at most, where its bound is next to it: behind the point, or of those that say something.
const MOST_DIGITS: usize = 6;

impl Unit {
    /// A number as texts show it.
    pub(crate) fn write(self, v: f64) -> String {
        self.with_decimals(v, self.decimals())
    }

    /// A number that is held against bounds: with as many digits as tell it from them.
    pub(crate) fn write_against(self, v: f64, bounds: &[f64]) -> String {
        let of_bounds = bounds.iter().map(|bound| decimals_of(self.factor() * bound)).max();
        let most = of_bounds.filter(|_| self != Unit::Nanoseconds).unwrap_or(0).max(MOST_DIGITS);
        let write = |v, decimals| self.with_decimals(v, decimals);
        self.with_decimals(v, digits_that_tell(v, bounds, self.decimals()..most, write))
    }

    /// A bound, without digits that say nothing.
    pub(crate) fn write_bound(self, v: f64) -> String {
        let shown = self.factor() * v;
        let bound = trimmed(shown, decimals_of(shown));
        match self {
            Unit::Nanoseconds => {
                let text = format_ns_to(v, MOST_DIGITS);
                let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
                format!("{} {unit}", without_zeros(number))
            }
            // One times as much is no plural, 1.0 times is.
            Unit::Times if !bound.contains('.') => format!("{bound}.0 times"),
            _ => bound + self.word(),
        }
    }

    fn with_decimals(self, v: f64, decimals: usize) -> String {
        let shown = self.factor() * v;
        match self {
            Unit::Nanoseconds => format_ns_to(v, decimals),
            Unit::Number => trimmed(shown, decimals),
            _ => fixed(shown, decimals) + self.word(),
        }
    }

    /// Digits behind the point; of times, those that say something.
    fn decimals(self) -> usize {
        match self {
            Unit::Percent | Unit::Points => 1,
            Unit::Times => 2,
            Unit::Number | Unit::Nanoseconds => 3,
        }
    }

    fn factor(self) -> f64 {
        if matches!(self, Unit::Percent | Unit::Points) { 100.0 } else { 1.0 }
    }

    fn word(self) -> &'static str {
        match self {
            Unit::Percent => " %",
            Unit::Points => " points",
            Unit::Times => " times",
            Unit::Number | Unit::Nanoseconds => "",
        }
    }
}

/// Digits behind the point with which a number has as many digits as say something.
fn decimals_of(v: f64) -> usize {
    let before = if v == 0.0 { 0 } else { v.abs().log10().floor() as i32 + 1 };
    (MOST_DIGITS as i32 - before).clamp(0, 15) as usize
}

/// So many digits behind the point; what rounds to zero has no sign.
fn fixed(v: f64, decimals: usize) -> String {
    let text = format!("{v:.decimals$}");
    if text.trim_start_matches('-').bytes().all(|b| matches!(b, b'0' | b'.')) {
        return text.trim_start_matches('-').to_owned();
    }
    text
}

/// At most so many digits behind the point, and no zeros at their end.
fn trimmed(v: f64, decimals: usize) -> String {
    without_zeros(&fixed(v, decimals)).to_owned()
}

/// A number in digits, without zeros at the end of its fraction.
fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_unit_and_bounds_no_needless_digits() {
        assert_eq!(Unit::Percent.write(0.7351), "73.5 %");
        assert_eq!((Unit::Percent.write_bound(0.6), Unit::Percent.write_bound(0.045)), ("60 %".into(), "4.5 %".into()));
        assert_eq!((Unit::Times.write(3.043), Unit::Times.write_bound(1.0)), ("3.04 times".into(), "1.0 times".into()));
        assert_eq!(
            (Unit::Times.write_bound(1.02), Unit::Points.write(0.083)),
            ("1.02 times".into(), "8.3 points".into())
        );
        assert_eq!((Unit::Number.write(4.0), Unit::Number.write(0.6131)), ("4".into(), "0.613".into()));
        assert_eq!(
            (Unit::Nanoseconds.write(562.0), Unit::Nanoseconds.write_bound(1e6)),
            ("562 ns".into(), "1 ms".into())
        );
        // As a number is written that is held against it.
        assert_eq!(Unit::Nanoseconds.write_bound(1_234_567.0), "1.23457 ms");
        assert_eq!(Unit::Nanoseconds.write_against(1_234_000.0, &[1_234_567.0]), "1.234 ms");
        assert_eq!(Unit::Percent.write(-0.0001), "0.0 %");
        let bounds = [(0.00002, "0.00002"), (3e-9, "0.000000003"), (1_234_567.0, "1234567"), (0.1 + 0.2, "0.3")];
        for (bound, text) in bounds {
            assert_eq!(Unit::Number.write_bound(bound), text);
        }
        assert_eq!((Unit::Number.write_bound(0.0), Unit::Percent.write_bound(0.07)), ("0".into(), "7 %".into()));
    }

    #[test]
    fn a_number_beside_its_bound_is_told_from_it() {
        assert_eq!(Unit::Percent.write_against(0.59996, &[0.6]), "59.996 %");
        assert_eq!(Unit::Times.write_against(0.9998, &[1.0]), "0.9998 times");
        assert_eq!(Unit::Percent.write_against(0.6, &[0.6]), "60.0 %");
        assert_eq!(Unit::Percent.write_against(0.7351, &[0.6]), "73.5 %");
        assert_eq!(Unit::Nanoseconds.write_against(1_000_400.0, &[1e6]), "1.0004 ms");
        assert_eq!(Unit::Nanoseconds.write_against(1_534_000.0, &[1e6]), "1.53 ms");
        assert_eq!(Unit::Number.write_against(0.00001, &[0.00002]), "0.00001");
        assert_eq!(Unit::Number.write_against(4e-9, &[3e-9]), "0.000000004");
        assert_eq!(Unit::Times.write_against(1.0 - 1e-9, &[1.0]), "1.000000 times", "no more digits than so");
    }
}
