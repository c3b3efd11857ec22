//! Sizes and durations as people write them: `4KiB`, `128KiB`, `10ms`.

use crate::{Error, Result};
use std::ops::Range;

/// As coreutils have them: a letter alone is a power of 1024, as is one with `iB`; one with `B` is a power of 1000.
const BYTES: &[(&str, u64)] = &[
    ("B", 1),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("T", 1 << 40),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
];

/// The units that sizes are shown in.
const SHOWN: &[(&str, u64)] = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

const NANOSECONDS: &[(&str, u64)] =
    &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];

const NANOJOULES: &[(&str, u64)] = &[("nJ", 1), ("uJ", 1_000), ("mJ", 1_000_000), ("J", 1_000_000_000)];

/// A number as it is written, times its unit: the digits over a power of ten, since no binary fraction is 1.005.
struct Scaled {
    digits: u128,
    over: u128,
    unit: u64,
}

impl Scaled {
    fn read(text: &str, unit_of: impl Fn(&str) -> Option<u64>) -> Option<Scaled> {
        let text = text.trim();
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
        let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
        let unit = if unit.is_empty() { 1 } else { unit_of(unit)? };
        let (whole, part) = number.split_once('.').unwrap_or((&number, ""));
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let part = part.trim_end_matches('0');
        let digits = format!("0{whole}{part}").parse::<u128>().ok()?.checked_mul(unit.into())?;
        Some(Scaled { digits, over: 10u128.checked_pow(u32::try_from(part.len()).ok()?)?, unit })
    }

    fn is_whole(&self) -> bool {
        self.digits % self.over == 0
    }

    fn rounded_down(&self) -> Option<u64> {
        u64::try_from(self.digits / self.over).ok()
    }
}

fn refused(text: &str, what: &str, units: &[(&str, u64)]) -> Error {
    let names: Vec<&str> = units.iter().map(|unit| unit.0).collect();
    Error::user(format!("`{text}` is not {what}")).hint(format!("use a number and one of {}", names.join(", ")))
}

/// Reads a size in bytes: `4096`, `64K`, `4KiB`, `1.5MiB`, `64MB`, in upper or lower case. `K`, `M`, `G` and `T`, with
/// or without `iB`, are powers of 1024; `kB`, `MB`, `GB` and `TB` are powers of 1000. A fraction of a larger unit is
/// rounded down to whole bytes.
///
/// # Errors
/// `ErrorKind::User` if the text is not a number, has an unknown unit, or is a fraction of a byte.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let unit_of = |word: &str| BYTES.iter().find(|unit| unit.0.eq_ignore_ascii_case(word)).map(|unit| unit.1);
    let size = Scaled::read(text, unit_of).filter(|size| size.unit > 1 || size.is_whole());
    size.and_then(|size| size.rounded_down()).ok_or_else(|| refused(text, "a size", BYTES))
}

/// Reads a duration in nanoseconds: `500`, `10ms`, `1.5s`.
///
/// # Errors
/// `ErrorKind::User` if the text is not a number, has an unknown unit, or is not a whole number of nanoseconds.
pub fn parse_ns(text: &str) -> Result<u64> {
    let unit_of = |word: &str| NANOSECONDS.iter().find(|unit| unit.0 == word).map(|unit| unit.1);
    let duration = Scaled::read(text, unit_of).filter(Scaled::is_whole);
    duration.and_then(|duration| duration.rounded_down()).ok_or_else(|| refused(text, "a duration", NANOSECONDS))
}

/// A size to the byte, as [`parse_bytes`] reads it back: the largest binary unit that divides it. For what is asked
/// for.
pub fn format_bytes(bytes: u64) -> String {
    let (unit, factor) = SHOWN.iter().rev().find(|u| bytes >= u.1 && bytes % u.1 == 0).unwrap_or(&SHOWN[0]);
    format!("{} {unit}", bytes / factor)
}

/// A size rounded to a tenth of its unit, `1.5 GiB`, for how much there is of something, or was measured.
pub fn format_bytes_rounded(bytes: u64) -> String {
    let (unit, factor) = SHOWN.iter().rev().find(|u| bytes >= u.1).unwrap_or(&SHOWN[0]);
    let value = bytes as f64 / *factor as f64;
    if value.fract() == 0.0 { format!("{value} {unit}") } else { format!("{value:.1} {unit}") }
}

/// A duration for people, with three significant digits.
pub fn format_ns(ns: f64) -> String {
    format_ns_to(ns, 3)
}

/// A duration for people, with so many significant digits; whole numbers of a unit have no fraction.
pub fn format_ns_to(ns: f64, digits: usize) -> String {
    scaled(ns, &NANOSECONDS[..4], digits)
}

/// An energy in microjoules for people, with so many significant digits.
pub fn format_uj_to(uj: f64, digits: usize) -> String {
    scaled(1e3 * uj, NANOJOULES, digits)
}

/// The fewest of so many digits with which `write` tells a number from others, unless it is the same as they; the end
/// of the range where none do.
pub fn digits_that_tell(
    value: f64,
    others: &[f64],
    digits: Range<usize>,
    write: impl Fn(f64, usize) -> String,
) -> usize {
    let tell = |&digits: &usize| {
        let text = write(value, digits);
        others.iter().all(|&other| value == other || !say_the_same(&text, &write(other, digits)))
    };
    digits.clone().find(tell).unwrap_or(digits.end)
}

/// Whether two numbers with their units say the same: `1 ms` and `1.00 ms` do.
fn say_the_same(a: &str, b: &str) -> bool {
    let parts = |text: &str| {
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        (number.parse::<f64>().ok(), unit.to_owned())
    };
    parts(a) == parts(b)
}

/// Zeros, the one before the point among them, that a number begins with at most; one with more is a power of ten.
const MOST_ZEROS: i32 = 6;

fn scaled(value: f64, units: &[(&str, u64)], digits: usize) -> String {
    // Unit and decimals are those of the value as it is written: 999.7 us are 1.00 ms.
    let reaches = |value: f64, limit: f64| value.abs() >= limit * (1.0 - 0.5 * 10f64.powi(-(digits as i32)));
    let unit = units.iter().rev().find(|unit| reaches(value, unit.1 as f64));
    let (unit, factor) = unit.unwrap_or(&units[0]);
    let value = value / *factor as f64;
    let whole = 1 + [10.0, 100.0].into_iter().filter(|limit| reaches(value, *limit)).count();
    // Less than one of the smallest unit: the zeros behind the point are no digits that say something.
    let zeros = (0..=MOST_ZEROS).take_while(|zeros| !reaches(value, 10f64.powi(-zeros))).count();
    let decimals = digits.saturating_sub(whole);
    match zeros + decimals {
        _ if value == value.trunc() => format!("{value:.0} {unit}"),
        _ if zeros as i32 > MOST_ZEROS => format!("{value:.decimals$e} {unit}"),
        decimals => format!("{value:.decimals$} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_and_durations() {
        assert_eq!(parse_bytes("4KiB").unwrap(), 4096);
        assert_eq!(parse_bytes("1.5 MiB").unwrap(), 1_572_864);
        assert_eq!(parse_bytes("0").unwrap(), 0);
        assert_eq!(parse_bytes("1.3K").unwrap(), 1331);
        assert_eq!(parse_ns("10ms").unwrap(), 10_000_000);
        assert_eq!(parse_ns("1.005us").unwrap(), 1005);
        assert_eq!(parse_ns(".50us").unwrap(), 500);
        for wrong in [".", "1.2.3s", "0.5ns", "1.0000000000000001s", "18446744073709551615.5us"] {
            assert!(parse_ns(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format_bytes(5 << 20), "5 MiB");
        assert_eq!(format_bytes(3 << 29), "1536 MiB");
        assert_eq!(format_bytes_rounded(3 << 29), "1.5 GiB");
        assert_eq!(format_bytes_rounded(512), "512 B");
        assert_eq!(format_bytes_rounded(1 << 40), "1 TiB");
        assert_eq!(format_bytes(0), "0 B");
        assert_eq!(format_ns(1_534_000.0), "1.53 ms");
        assert_eq!(format_ns(0.0), "0 ns");
        let energies = [7.25, 15_360.1, 2e9, 0.003, -0.004, 0.5].map(|uj| format_uj_to(uj, 3));
        assert_eq!(energies, ["7.25 uJ", "15.4 mJ", "2000 J", "3 nJ", "-4 nJ", "500 nJ"]);
    }

    #[test]
    fn a_letter_of_a_size_is_a_power_of_1024_and_one_with_a_b_of_1000() {
        for (power, letter) in (1..).zip(["K", "M", "G", "T"]) {
            for (text, factor) in
                [(letter.to_owned(), 1024), (format!("{letter}iB"), 1024), (format!("{letter}B"), 1000)]
            {
                for text in [text.to_lowercase(), text.to_uppercase(), text] {
                    assert_eq!(parse_bytes(&format!("64{text}")).unwrap(), 64 * u64::pow(factor, power), "{text}");
                }
            }
        }
    }

    #[test]
    fn durations_have_the_unit_and_the_digits_of_what_is_written() {
        for (ns, text) in [
            (999_700.0, "1.00 ms"),
            (999_400.0, "999 us"),
            (999_990_000.0, "1.00 s"),
            (-999_700.0, "-1.00 ms"),
            (9_996.0, "10.0 us"),
            (9_994.0, "9.99 us"),
            (99_960.0, "100 us"),
            (99_940.0, "99.9 us"),
            (0.25, "0.250 ns"),
            (0.9999, "1.00 ns"),
            (-0.003_21, "-0.00321 ns"),
            (0.000_003, "0.00000300 ns"),
            (3e-7, "3.00e-7 ns"),
            (1.5e12, "1500 s"),
        ] {
            assert_eq!(format_ns(ns), text, "{ns}");
        }
        assert_eq!((format_ns_to(1_000_400.0, 5), format_ns_to(999_700.0, 4)), ("1.0004 ms".into(), "999.7 us".into()));
    }

    #[test]
    fn nonsense_is_refused_with_the_units_named() {
        for bad in ["", "x", "K", "4 parsecs", "12Q", "1e3", "nan", "-1", "0.3", "0.3B", "99999999999GiB"] {
            let error = parse_bytes(bad).unwrap_err();
            assert!(error.cure().unwrap().contains("KiB"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes in 0u64..1 << 50) {
            prop_assert_eq!(parse_bytes(&format_bytes(bytes)).unwrap(), bytes);
        }
    }
}
