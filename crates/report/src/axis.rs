//! Axes: which values can be drawn, where a value lies, and at which round numbers the ticks are.

use crate::format::{self, TickFormat, superscript};
use pocketstone_study::views::model::Scale;

/// Beyond this size sums of two values are no longer sure to be finite.
const HUGE: f64 = 1e290;

/// Values nearer to zero than this are drawn as zero.
const TINY: f64 = 1e-280;

/// Room for the maximum on an axis of percentiles, in nines.
const MAXIMUM: f64 = 0.45;

/// A tick: its value and what is written beside it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    /// Where on the axis, from 0 to 1.
    pub at: f64,
    /// The value, in the unit of the data.
    pub value: f64,
    /// Its label.
    pub label: String,
}

/// An axis that spans its values, with ticks at both ends.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// The ticks, ascending.
    pub ticks: Vec<Tick>,
}

/// Whether a value has a place on an axis of this scale.
pub(crate) fn drawable(scale: Scale, value: f64) -> bool {
    let logarithmic = matches!(scale, Scale::Log2 | Scale::LogDuration);
    let percentile = scale == Scale::Percentile;
    value.is_finite()
        && value.abs() <= HUGE
        && (!logarithmic || value >= TINY)
        && (!percentile || (0.0..=100.0).contains(&value))
}

/// Whether a value lies below every axis of this scale.
pub(crate) fn is_below(scale: Scale, value: f64) -> bool {
    matches!(scale, Scale::Log2 | Scale::LogDuration) && value < TINY
}

/// Where a percentile lies: 0 at 0, 90 at 1, 99 at 2. The maximum has no number of nines; its axis knows its place.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).max(1e-12).log10()
}

impl Axis {
    /// An axis for the drawable ones among `values`, with about `count` ticks; none where nothing
    /// can be drawn. `zero` makes a linear axis include zero.
    pub(crate) fn new(scale: Scale, values: impl IntoIterator<Item = f64>, zero: bool, count: usize) -> Option<Axis> {
        if scale == Scale::Percentile {
            return Axis::of_percentiles(values);
        }
        let (low, high) = values.into_iter().filter(|&v| drawable(scale, v)).fold(None, |range, v| match range {
            None => Some((v, v)),
            Some((low, high)) => Some((f64::min(low, v), f64::max(high, v))),
        })?;
        Some(match scale {
            Scale::Log2 => Axis::powers_of_two(low, high, count),
            Scale::LogDuration => Axis::powers_of_ten(low, high, count),
            _ if zero => Axis::linear(scale, low.min(0.0), high.max(0.0), count),
            _ => Axis::linear(scale, low, high, count),
        })
    }

    /// An axis with a name at each of 0, 1, 2 and so on, and room for bars around each.
    pub(crate) fn of_names(names: &[String]) -> Axis {
        let count = names.len().max(1) as f64;
        let tick =
            |(n, name): (usize, &String)| Tick { at: (n as f64 + 0.5) / count, value: n as f64, label: name.clone() };
        let ticks = names.iter().enumerate().map(tick).collect();
        Axis { scale: Scale::Linear, low: -0.5, high: count - 0.5, ticks }
    }

    /// An axis of percentiles, with the maximum a little to the right of the highest one below it.
    fn of_percentiles(values: impl IntoIterator<Item = f64>) -> Option<Axis> {
        let values: Vec<f64> = values.into_iter().filter(|&v| drawable(Scale::Percentile, v)).collect();
        if values.is_empty() {
            return None;
        }
        let highest = values.iter().copied().filter(|&v| v < 100.0).fold(90.0, f64::max);
        let has_maximum = values.contains(&100.0);
        let high = nines(highest) + if has_maximum { MAXIMUM } else { 0.0 };
        let mut axis = Axis { scale: Scale::Percentile, low: 0.0, high, ticks: Vec::new() };
        let nines = (1..=12).map(|n| 100.0 - 100.0 / 10f64.powi(n)).filter(|&v| v <= highest + 1e-9);
        // 0 would run into 50 on a phone.
        let values = [50.0].into_iter().chain(nines).chain(has_maximum.then_some(100.0));
        axis.ticks = values
            .map(|value| Tick { at: axis.at(value), value, label: format::value(Scale::Percentile, value) })
            .collect();
        Some(axis)
    }

    /// Where a drawable value lies.
    fn at(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Log2 => value.log2(),
            Scale::LogDuration => value.log10(),
            Scale::Percentile if value >= 100.0 => self.high,
            Scale::Percentile => nines(value),
            _ => value,
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Where a value lies: 0 at the low end, 1 at the high end; none where it cannot be drawn.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        if !drawable(self.scale, value) {
            return None;
        }
        Some(self.at(value))
    }

    /// Where an end of an interval lies: what is below the axis is at its foot.
    pub(crate) fn place_of_end(&self, value: f64) -> Option<f64> {
        self.place(value).or_else(|| is_below(self.scale, value).then_some(0.0))
    }

    /// Where zero lies, if the axis goes on below it.
    pub(crate) fn zero_inside(&self) -> Option<f64> {
        (!matches!(self.scale, Scale::Log2 | Scale::LogDuration) && self.low < 0.0).then(|| self.place(0.0)).flatten()
    }

    /// A value of this axis, as tooltips and tables write it.
    pub(crate) fn describe(&self, value: f64) -> String {
        format::value(self.scale, value)
    }

    fn linear(scale: Scale, low: f64, high: f64, count: usize) -> Axis {
        let (low, high) = widen(low, high);
        let binary = scale == Scale::Bytes && format::binary(low.abs().max(high.abs()));
        let step = Step::at_least((high - low) / count.max(1) as f64, binary);
        let first = (low / step.size() + 1e-9).floor();
        let last = (high / step.size() - 1e-9).ceil().max(first + 1.0);
        let (low, high) = (step.times(first), step.times(last));
        let format = TickFormat::new(scale, low.abs().max(high.abs()), step.size());
        let ticks = (0..=(last - first) as usize)
            .map(|i| {
                let value = step.times(first + i as f64);
                Tick { at: i as f64 / (last - first), value, label: format.label(value) }
            })
            .collect();
        Axis { scale, low, high, ticks }
    }

    /// Whole powers of ten at both ends; where they are few, 2 and 5 times them have ticks too.
    fn powers_of_ten(low: f64, high: f64, count: usize) -> Axis {
        // What is a power of ten but for rounding is one.
        let (mut first, mut last) = ((low.log10() + 1e-9).floor() as i32, (high.log10() - 1e-9).ceil() as i32);
        if first >= last {
            (first, last) = (first.min(last), first.max(last) + 1);
        }
        let stride = ((last - first) as usize).div_ceil(count.max(1)).max(1) as i32;
        last = first + (last - first + stride - 1) / stride * stride;
        let digits: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let values = (first..=last).step_by(stride as usize).flat_map(|e| digits.iter().map(move |d| (e, *d)));
        let mut axis = Axis { scale: Scale::LogDuration, low: f64::from(first), high: f64::from(last), ticks: vec![] };
        axis.ticks = values
            .filter(|(e, d)| *e < last || *d == 1.0)
            .map(|(e, d)| {
                let value = Step { digit: d, exponent: e }.size();
                Tick { at: axis.at(value), value, label: TickFormat::new(Scale::Duration, value, value).label(value) }
            })
            .collect();
        axis
    }

    fn powers_of_two(low: f64, high: f64, count: usize) -> Axis {
        let (mut first, mut last) = (low.log2().floor() as i32, high.log2().ceil() as i32);
        if first == last {
            (first, last) = (first - 1, last + 1);
        }
        let stride = (last - first).div_euclid(count.max(1) as i32 + 1) + 1;
        // The last tick lies at the end, so the axis may go on a little beyond its values.
        last = first + (last - first + stride - 1) / stride * stride;
        let ticks = (first..=last)
            .step_by(stride as usize)
            .map(|exponent| Tick {
                at: f64::from(exponent - first) / f64::from(last - first),
                value: 2f64.powi(exponent),
                label: match exponent {
                    -3..=20 => format::value(Scale::Log2, 2f64.powi(exponent)),
                    _ => format!("2{}", superscript(exponent)),
                },
            })
            .collect();
        Axis { scale: Scale::Log2, low: f64::from(first), high: f64::from(last), ticks }
    }
}

/// A range that is wide enough to have ticks at distinct numbers.
fn widen(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if size < TINY {
        (0.0, 1.0)
    } else if high - low < size * 1e-9 {
        (low - size / 2.0, high + size / 2.0)
    } else {
        (low, high)
    }
}

/// The distance of two ticks: a digit times a power of ten, or a power of two.
#[derive(Debug, Clone, Copy)]
struct Step {
    digit: f64,
    exponent: i32,
}

impl Step {
    fn at_least(raw: f64, binary: bool) -> Step {
        if binary {
            // Less than an eighth of a byte is nothing that anybody measures.
            return Step { digit: 2f64.powf(raw.log2().ceil().max(-3.0)), exponent: 0 };
        }
        let exponent = raw.log10().floor() as i32;
        let mantissa = raw / 10f64.powi(exponent);
        let (digit, exponent) = match [1.0, 2.0, 5.0].into_iter().find(|d| mantissa <= d * (1.0 + 1e-9)) {
            Some(digit) => (digit, exponent),
            None => (1.0, exponent + 1),
        };
        Step { digit, exponent }
    }

    fn size(self) -> f64 {
        self.times(1.0)
    }

    /// Divides by a whole power of ten rather than multiplying by an inexact one: 3 steps of 0.1
    /// are 0.3.
    fn times(self, n: f64) -> f64 {
        match self.exponent {
            e if e < 0 => n * self.digit / 10f64.powi(-e),
            e => n * self.digit * 10f64.powi(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINEAR: [Scale; 4] = [Scale::Linear, Scale::Percent, Scale::Duration, Scale::Bytes];

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        Axis::new(scale, values.iter().copied(), true, 5).unwrap().ticks.into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn the_ticks_are_those_one_would_choose() {
        assert_eq!(labels(Scale::Percent, &[0.03, 0.47]), ["0", "10%", "20%", "30%", "40%", "50%"]);
        assert_eq!(labels(Scale::Linear, &[-3.0, 7.0]), ["\u{2212}4", "\u{2212}2", "0", "2", "4", "6", "8"]);
        assert_eq!(labels(Scale::Duration, &[1.7e6]), ["0", "0.5 ms", "1.0 ms", "1.5 ms", "2.0 ms"]);
        assert_eq!(labels(Scale::Bytes, &[100.0 * 1024.0]), ["0", "32 KiB", "64 KiB", "96 KiB", "128 KiB"]);
        assert_eq!(labels(Scale::Log2, &[1.0, 30.0]), ["1", "2", "4", "8", "16", "32"]);
        assert_eq!(labels(Scale::Log2, &[8.0]), ["4", "8", "16"]);
    }

    #[test]
    fn names_stand_in_the_middle_of_their_bars() {
        let axis = Axis::of_names(&["a".into(), "b".into()]);
        assert_eq!(axis.place(0.0), Some(0.25));
        assert_eq!(axis.ticks.iter().map(|t| t.at).collect::<Vec<_>>(), [0.25, 0.75]);
    }

    #[test]
    fn latencies_stand_at_powers_of_ten() {
        assert_eq!(labels(Scale::LogDuration, &[3e3, 4e6]), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]);
        assert_eq!(labels(Scale::LogDuration, &[2e6, 9e6]), ["1 ms", "2 ms", "5 ms", "10 ms"]);
        assert_eq!(labels(Scale::LogDuration, &[1e3]), ["1 µs", "2 µs", "5 µs", "10 µs"]);
        let axis = Axis::new(Scale::LogDuration, [1e3, 1e7], true, 5).unwrap();
        assert!((axis.place(1e5).unwrap() - 0.5).abs() < 1e-9 && axis.place(0.0).is_none());
    }

    #[test]
    fn percentiles_have_their_nines_evenly_spaced_and_the_maximum_at_the_end() {
        let axis = Axis::new(Scale::Percentile, [0.0, 50.0, 99.9, 100.0], true, 5).unwrap();
        assert_eq!(
            axis.ticks.iter().map(|t| t.label.as_str()).collect::<Vec<_>>(),
            ["50%", "90%", "99%", "99.9%", "max"]
        );
        let at = |p: f64| axis.place(p).unwrap();
        assert!((at(99.0) - at(90.0) - at(90.0)).abs() < 1e-9 && (at(99.9) - 3.0 * at(90.0)).abs() < 1e-9);
        // log10(2) of the way from 0 to 90.
        assert!((at(50.0) / at(90.0) - 2f64.log10()).abs() < 1e-9);
        assert_eq!((at(100.0), axis.place(100.1), axis.place(-1.0)), (1.0, None, None));
    }

    #[test]
    fn what_cannot_be_drawn_has_no_place() {
        for scale in LINEAR {
            assert!(Axis::new(scale, [f64::NAN, f64::INFINITY], true, 5).is_none());
            let axis = Axis::new(scale, [1.0, f64::NAN, f64::NEG_INFINITY], true, 5).unwrap();
            assert_eq!(axis.place(f64::NAN), None);
            assert_eq!(axis.place(0.0), Some(0.0));
        }
        let axis = Axis::new(Scale::Log2, [0.0, -4.0, 2.0, 4.0], true, 5).unwrap();
        assert_eq!(axis.place(0.0), None);
        assert_eq!(axis.place(2.0), Some(0.0));
        assert_eq!(axis.place(4.0), Some(1.0));
    }

    #[test]
    fn a_range_without_width_still_has_an_axis() {
        for value in [0.0, 1e-300, 5.0, -5.0, 1e280, -1e290, 1e15 + 0.5] {
            for zero in [true, false] {
                let axis = Axis::new(Scale::Linear, [value, value], zero, 5).unwrap();
                assert!(axis.ticks.len() >= 2 && axis.high > axis.low, "{value}");
                let slack = (axis.high - axis.low) * 1e-6;
                assert!(axis.low <= value + slack && value <= axis.high + slack, "{value}");
            }
        }
    }

    proptest! {
        #[test]
        fn linear_ticks_are_round_and_cover_the_values(
            a in -1.0f64..1.0, b in -1.0f64..1.0, power in -200i32..200, zero: bool, which in 0usize..4,
        ) {
            let (a, b) = (a * 10f64.powi(power), b * 10f64.powi(power));
            let axis = Axis::new(LINEAR[which], [a, b], zero, 5).unwrap();
            let (first, last) = (&axis.ticks[0], &axis.ticks[axis.ticks.len() - 1]);
            let span = last.value - first.value;
            prop_assert!(first.value <= a.min(b) + span * 1e-6 && last.value >= a.max(b) - span * 1e-6);
            prop_assert!((2..=9).contains(&axis.ticks.len()), "{} ticks", axis.ticks.len());
            if zero {
                prop_assert!(axis.ticks.iter().any(|t| t.label == "0"));
            }
            // Round: the step has one significant digit, or is a power of two where bytes are drawn.
            let step = span / (axis.ticks.len() - 1) as f64;
            let digits = format!("{step:.6e}");
            let round = ["1.000000e", "2.000000e", "5.000000e"].iter().any(|d| digits.starts_with(d));
            let log = step.log2();
            let binary = LINEAR[which] == Scale::Bytes && a.abs().max(b.abs()) < 1e15;
            prop_assert!(if binary { (log - log.round()).abs() < 1e-9 } else { round || log.fract() == 0.0 },
                "{digits}");
            let mut labels: Vec<_> = axis.ticks.iter().map(|t| &t.label).collect();
            labels.dedup();
            prop_assert_eq!(labels.len(), axis.ticks.len());
        }

        #[test]
        fn a_greater_value_lies_higher(
            mut values in proptest::collection::vec(-1e9f64..1e9, 2..20), log: bool, zero: bool,
        ) {
            let scale = if log { Scale::Log2 } else { Scale::Linear };
            values.sort_by(f64::total_cmp);
            values.retain(|v| !log || *v > 0.0);
            if let Some(axis) = Axis::new(scale, values.iter().copied(), zero, 5) {
                let places: Vec<_> = values.iter().map(|&v| axis.place(v).unwrap()).collect();
                prop_assert!(places.windows(2).all(|w| w[0] <= w[1]));
                prop_assert!(places.iter().all(|p| (0.0..=1.0).contains(p)));
            }
        }

        #[test]
        fn powers_of_two_are_evenly_spaced(low in -40i32..40, width in 0i32..60) {
            let (a, b) = (2f64.powi(low), 2f64.powi(low + width));
            let axis = Axis::new(Scale::Log2, [a, b], false, 8).unwrap();
            prop_assert!((2..=10).contains(&axis.ticks.len()), "{} ticks", axis.ticks.len());
            let gap = axis.ticks[1].at - axis.ticks[0].at;
            for (i, tick) in axis.ticks.iter().enumerate() {
                prop_assert!((tick.at - gap * i as f64).abs() < 1e-9);
                prop_assert_eq!(tick.value.log2().fract(), 0.0);
                prop_assert!((axis.place(tick.value).unwrap() - tick.at).abs() < 1e-9);
            }
        }
    }
}
