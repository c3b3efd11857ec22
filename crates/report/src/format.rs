//! Numbers as people read them: one format for the ticks of an axis, one for single values.

use pocketstone_core::units::{format_bytes_rounded, format_ns};
use pocketstone_core::words::noun;
use pocketstone_study::views::model::Scale;

/// Shown where a value is no number.
pub(crate) const NOTHING: &str = "–";

/// Binary units, each 1024 times the one before.
const BINARY: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A text of the report's own numbers, in which the sign of a millionth is the one of print: terminals show `us`.
pub(crate) fn printed(text: &str) -> String {
    let mut words = text.split_inclusive([' ', '\u{a0}']);
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let of_number = out.trim_end().ends_with(|c: char| c.is_ascii_digit());
        let rest = ["us", "uJ"].into_iter().find_map(|unit| Some((unit, word.strip_prefix(unit)?)));
        match rest.filter(|(_, rest)| of_number && !rest.starts_with(char::is_alphanumeric)) {
            Some((unit, rest)) => out += &format!("µ{}{rest}", &unit[1..]),
            None => out += word,
        }
    }
    out
}

/// Digits in groups of three from five digits on, and a real minus sign.
pub(crate) fn group(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |rest| ("\u{2212}", rest));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && whole.len() > 4 && (whole.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out + fraction
}

/// A count, grouped.
pub(crate) fn count(value: u64) -> String {
    group(&value.to_string())
}

/// A number of things, grouped, by what one of them is called.
pub(crate) fn grouped(value: u64, one: &str) -> String {
    format!("{} {}", count(value), noun(value == 1, one))
}

/// A number in superscript digits.
pub(crate) fn superscript(number: i32) -> String {
    let digit = |c| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        c => char::from_digit(c.to_digit(10).unwrap_or(0), 10)
            .and_then(|c| char::from_u32('⁰' as u32 + (c as u32 - '0' as u32)))
            .unwrap_or(c),
    };
    number.to_string().chars().map(digit).collect()
}

/// How the ticks of one axis are written: all in the same unit, with the same decimals.
#[derive(Debug, Clone)]
pub(crate) struct TickFormat {
    factor: f64,
    decimals: usize,
    suffix: String,
}

impl TickFormat {
    /// The format for ticks `step` apart, up to `largest` away from zero.
    pub(crate) fn new(scale: Scale, largest: f64, step: f64) -> TickFormat {
        let (factor, suffix) = match scale {
            Scale::Linear | Scale::Log2 | Scale::Percentile => plain_unit(largest),
            Scale::Percent => {
                let (factor, suffix) = plain_unit(largest * 100.0);
                (factor / 100.0, suffix + "%")
            }
            Scale::Duration | Scale::LogDuration => match largest {
                l if !(1e-4..1e18).contains(&l) => {
                    let (factor, suffix) = plain_unit(largest / 1e9);
                    (factor * 1e9, suffix + " s")
                }
                l if l >= 1e9 => (1e9, " s".into()),
                l if l >= 1e6 => (1e6, " ms".into()),
                l if l >= 1e3 => (1e3, " µs".into()),
                _ => (1.0, " ns".into()),
            },
            Scale::Bytes if !binary(largest) => {
                let (factor, suffix) = plain_unit(largest);
                (factor, suffix + " B")
            }
            Scale::Bytes => {
                let unit = binary_unit(largest);
                (1024f64.powi(unit as i32), format!(" {}", BINARY[unit]))
            }
        };
        TickFormat { factor, decimals: decimals(step / factor), suffix }
    }

    /// One tick's label.
    pub(crate) fn label(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".into();
        }
        group(&format!("{:.*}", self.decimals, value / self.factor)) + &self.suffix
    }
}

/// Whether binary units can write so many bytes; more than any of them is written in decimal.
pub(crate) fn binary(bytes: f64) -> bool {
    bytes < 1024f64.powi(BINARY.len() as i32)
}

/// Decimals that write multiples of `step` in full, for the steps that axes have.
fn decimals(step: f64) -> usize {
    (0..12)
        .find(|&d| {
            let shifted = step * 10f64.powi(d as i32);
            shifted >= 0.999 && (shifted - shifted.round()).abs() < 1e-6 * shifted
        })
        .unwrap_or(12)
}

/// Millions and more by their letter, extremes as a power of ten.
fn plain_unit(largest: f64) -> (f64, String) {
    match largest {
        l if l >= 1e15 || (l < 1e-4 && l > 0.0) => {
            let exponent = l.log10().floor() as i32;
            (10f64.powi(exponent), format!("×10{}", superscript(exponent)))
        }
        l if l >= 1e12 => (1e12, " T".into()),
        l if l >= 1e9 => (1e9, " G".into()),
        l if l >= 1e6 => (1e6, " M".into()),
        _ => (1.0, String::new()),
    }
}

fn binary_unit(largest: f64) -> usize {
    (1..BINARY.len()).rev().find(|&i| largest >= 1024f64.powi(i as i32)).unwrap_or(0)
}

/// Three or four significant digits, without needless zeros.
fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let size = value.abs();
    if !(1e-4..1e15).contains(&size) {
        let exponent = size.log10().floor() as i32;
        let mantissa = value / 10f64.powi(exponent);
        return format!("{}×10{}", group(&format!("{mantissa:.2}")), superscript(exponent));
    }
    let decimals = (3 - size.log10().floor() as i32).clamp(0, 8) as usize;
    let text = format!("{value:.decimals$}");
    group(if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
}

/// One value on its own, as tooltips and tables write it.
pub(crate) fn value(scale: Scale, value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.into();
    }
    match scale {
        Scale::Linear | Scale::Log2 if value.fract() == 0.0 && value.abs() < 1e15 => group(&format!("{value:.0}")),
        Scale::Linear | Scale::Log2 => significant(value),
        Scale::Percent => match (value * 100.0).abs() {
            size if size == 0.0 || (0.1..1e6).contains(&size) => group(&format!("{:.1}", value * 100.0)) + "%",
            // What is not zero is not written as if it were; more digits would pretend to matter.
            size if size < 0.1 && value > 0.0 => "< 0.1%".into(),
            size if size < 0.1 => "> \u{2212}0.1%".into(),
            _ => significant(value * 100.0) + "%",
        },
        Scale::Percentile if value == 100.0 => "max".into(),
        // So many nines as there are, and no more.
        Scale::Percentile => percentile(value),
        Scale::Duration | Scale::LogDuration if value.abs() >= 1e18 => significant(value / 1e9) + " s",
        Scale::Duration | Scale::LogDuration => printed(&format_ns(value).replacen('-', "\u{2212}", 1)),
        Scale::Bytes => bytes(value),
    }
}

/// Two digits behind the leading nines: `50%`, `87.4%`, `99.9%`, `99.984%`.
fn percentile(value: f64) -> String {
    let nines = -(1.0 - value / 100.0).max(1e-12).log10();
    let decimals = (nines + 1e-9).floor().max(0.0) as usize + usize::from(nines > 0.0);
    let text = format!("{value:.decimals$}");
    (if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text }).to_owned() + "%"
}

fn bytes(value: f64) -> String {
    let unit = binary_unit(value.abs());
    if !binary(value.abs()) {
        return significant(value) + " B";
    }
    // A mean may be a part of a byte.
    if unit == 0 && value.fract() != 0.0 {
        return significant(value) + " B";
    }
    let sign = if value < 0.0 { "\u{2212}" } else { "" };
    format!("{sign}{}", format_bytes_rounded(value.abs().round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_well_in_every_scale() {
        assert_eq!(value(Scale::Linear, 4096.0), "4096");
        assert_eq!(value(Scale::Log2, 65536.0), "65\u{202f}536");
        assert_eq!(value(Scale::Linear, 0.12345), "0.1235");
        assert_eq!(value(Scale::Linear, -12.5), "\u{2212}12.5");
        assert_eq!(value(Scale::Linear, 1.5e-9), "1.50×10⁻⁹");
        assert_eq!(value(Scale::Percent, 0.375), "37.5%");
        assert_eq!(value(Scale::Percent, 0.0), "0.0%");
        let shares = [0.001, 0.000_999, 1e-9, -0.000_5, -0.001].map(|share| value(Scale::Percent, share));
        assert_eq!(shares, ["0.1%", "< 0.1%", "< 0.1%", "> \u{2212}0.1%", "\u{2212}0.1%"]);
        assert_eq!(value(Scale::Duration, 1_534_000.0), "1.53 ms");
        assert_eq!(value(Scale::Bytes, 131_072.0), "128 KiB");
        let sizes = [1_536.5, 1_572_874_196.0, -1_536.0, 0.25].map(|bytes| value(Scale::Bytes, bytes));
        assert_eq!(sizes, ["1.5 KiB", "1.5 GiB", "\u{2212}1.5 KiB", "0.25 B"]);
        assert_eq!(value(Scale::Bytes, 0.0), "0 B");
        for scale in [Scale::Linear, Scale::Log2, Scale::Percent, Scale::Duration, Scale::Bytes] {
            assert_eq!(value(scale, f64::NAN), NOTHING);
            assert_eq!(value(scale, f64::INFINITY), NOTHING);
            assert!(value(scale, 1e290).len() < 24, "{}", value(scale, 1e290));
        }
    }

    #[test]
    fn millionths_are_written_as_print_has_them() {
        assert_eq!(printed("130 us to 1.2 ms (7 uJ), 3\u{a0}us"), "130 µs to 1.2 ms (7 µJ), 3\u{a0}µs");
        assert_eq!(printed("with us 2 users use 3 us"), "with us 2 users use 3 µs");
        assert_eq!((value(Scale::Duration, 1500.0), printed("")), ("1.50 µs".into(), String::new()));
    }

    #[test]
    fn percentiles_have_as_many_digits_as_nines() {
        let texts = [0.0, 20.567, 50.0, 90.0, 99.0, 99.9, 99.999, 99.98418, 100.0].map(|p| value(Scale::Percentile, p));
        assert_eq!(texts, ["0%", "20.6%", "50%", "90%", "99%", "99.9%", "99.999%", "99.9842%", "max"]);
    }

    #[test]
    fn ticks_of_an_axis_share_unit_and_decimals() {
        let labels = |scale, step: f64, n: usize| {
            let format = TickFormat::new(scale, step * n as f64, step);
            (0..=n).map(|i| format.label(step * i as f64)).collect::<Vec<_>>()
        };
        assert_eq!(labels(Scale::Percent, 0.05, 2), ["0", "5%", "10%"]);
        assert_eq!(labels(Scale::Percent, 0.005, 2), ["0", "0.5%", "1.0%"]);
        assert_eq!(labels(Scale::Duration, 500_000.0, 3), ["0", "0.5 ms", "1.0 ms", "1.5 ms"]);
        assert_eq!(labels(Scale::Bytes, 32768.0, 2), ["0", "32 KiB", "64 KiB"]);
        assert_eq!(labels(Scale::Bytes, 256.0, 4), ["0", "0.25 KiB", "0.50 KiB", "0.75 KiB", "1.00 KiB"]);
        assert_eq!(labels(Scale::Linear, 20_000.0, 2), ["0", "20\u{202f}000", "40\u{202f}000"]);
        assert_eq!(labels(Scale::Linear, 500_000.0, 2), ["0", "0.5 M", "1.0 M"]);
        assert_eq!(labels(Scale::Linear, 5e-9, 2), ["0", "0.5×10⁻⁸", "1.0×10⁻⁸"]);
    }

    #[test]
    fn one_is_singular() {
        assert_eq!([1, 12_345].map(|n| grouped(n, "page sense")), ["1 page sense", "12\u{202f}345 page senses"]);
    }
}
