//! Sizes and durations as people write them: `4KiB`, `128KiB`, `10ms`.

use crate::{Error, Result};

const BYTES: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

const NANOSECONDS: &[(&str, u64)] =
    &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];

fn parse(text: &str, units: &[(&str, u64)], what: &str) -> Result<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
    let names = || units.iter().map(|u| u.0).collect::<Vec<_>>().join(", ");
    let bad = || Error::user(format!("`{text}` is not {what}")).hint(format!("use a number and one of {}", names()));
    let factor = match unit {
        "" => 1,
        _ => units.iter().find(|u| u.0 == unit).ok_or_else(bad)?.1,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(bad);
    }
    // Exactly: no binary fraction is 1.005.
    let (whole, part) = number.split_once('.').filter(|_| number.len() > 1).ok_or_else(bad)?;
    let part = part.trim_end_matches('0');
    let digits = format!("0{whole}{part}").parse::<u128>().ok().and_then(|digits| digits.checked_mul(factor.into()));
    let scale = u32::try_from(part.len()).ok().and_then(|places| 10u128.checked_pow(places));
    match (digits, scale) {
        (Some(digits), Some(scale)) if digits % scale == 0 => u64::try_from(digits / scale).map_err(|_| bad()),
        _ => Err(bad()),
    }
}

/// Reads a size in bytes: `4096`, `4KiB`, `1.5MiB`.
///
/// # Errors
/// `ErrorKind::User` if the text is not a number, has an unknown unit, or is not a whole number of bytes.
pub fn parse_bytes(text: &str) -> Result<u64> {
    parse(text, BYTES, "a size")
}

/// Reads a duration in nanoseconds: `500`, `10ms`, `1.5s`.
///
/// # Errors
/// `ErrorKind::User` if the text is not a number, has an unknown unit, or is not a whole number of nanoseconds.
pub fn parse_ns(text: &str) -> Result<u64> {
    parse(text, NANOSECONDS, "a duration")
}

/// A size for people: the largest binary unit that divides it.
pub fn format_bytes(bytes: u64) -> String {
    let (unit, factor) = BYTES[..4].iter().rev().find(|u| bytes >= u.1 && bytes % u.1 == 0).unwrap_or(&BYTES[0]);
    format!("{} {unit}", bytes / factor)
}

/// A duration for people, with three significant digits.
pub fn format_ns(ns: f64) -> String {
    format_ns_to(ns, 3)
}

/// A duration for people, with so many significant digits; whole numbers of a unit have no fraction.
pub fn format_ns_to(ns: f64, digits: usize) -> String {
    // Unit and decimals are those of the value as it is written: 999.7 us are 1.00 ms.
    let reaches = |value: f64, limit: f64| value.abs() >= limit * (1.0 - 0.5 * 10f64.powi(-(digits as i32)));
    let unit = NANOSECONDS[..4].iter().rev().find(|unit| reaches(ns, unit.1 as f64));
    let (unit, factor) = unit.unwrap_or(&NANOSECONDS[0]);
    let value = ns / *factor as f64;
    let whole = 1 + [10.0, 100.0].into_iter().filter(|limit| reaches(value, *limit)).count();
    let decimals = if value == value.trunc() { 0 } else { digits.saturating_sub(whole) };
    format!("{value:.decimals$} {unit}")
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
        assert_eq!(parse_ns("10ms").unwrap(), 10_000_000);
        assert_eq!(parse_ns("1.005us").unwrap(), 1005);
        assert_eq!(parse_ns(".50us").unwrap(), 500);
        for wrong in [".", "1.2.3s", "0.5ns", "1.0000000000000001s", "18446744073709551615.5us"] {
            assert!(parse_ns(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format_bytes(5 << 20), "5 MiB");
        assert_eq!(format_bytes(0), "0 B");
        assert_eq!(format_ns(1_534_000.0), "1.53 ms");
        assert_eq!(format_ns(0.0), "0 ns");
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
            (0.25, "0.25 ns"),
            (1.5e12, "1500 s"),
        ] {
            assert_eq!(format_ns(ns), text, "{ns}");
        }
        assert_eq!((format_ns_to(1_000_400.0, 5), format_ns_to(999_700.0, 4)), ("1.0004 ms".into(), "999.7 us".into()));
    }

    #[test]
    fn nonsense_is_refused_with_the_units_named() {
        for bad in ["", "x", "4 parsecs", "-1", "0.3B", "99999999999GiB"] {
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
