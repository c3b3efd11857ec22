//! Values of options, in fio's units.

use super::sections::Given;
use crate::operation::{MOST_FILE_BYTES, MOST_PAUSE_NS};
use pocketstone_core::{Error, Result};

/// A size. As for fio with its default `kb_base=1024`, `k`, `kb`, `m`, ... are powers of 1,024, and `kib`, `mib`, ...
/// are powers of 1,000. `ki` is neither: fio's manual has 1,000, and fio 3.33 takes it for 1,024.
pub(super) fn bytes(given: &Given) -> Result<u64> {
    let text = given.value.to_ascii_lowercase();
    let (number, unit) = split(&text);
    if unit.ends_with('i') {
        let why = "fio's manual has 1,000 for `i`, and fio itself takes 1,024";
        return Err(given.wrong(why).hint("write a size as 4096, 4k or 16m"));
    }
    let unit = unit.strip_suffix('b').unwrap_or(unit);
    let (unit, base) = match unit.strip_suffix('i') {
        Some(unit) => (unit, 1000u64),
        None => (unit, 1024),
    };
    let power = match unit {
        "" if base == 1024 => Some(0),
        unit => ["k", "m", "g", "t", "p"].iter().position(|known| *known == unit).map(|place| place as u32 + 1),
    };
    let scaled = power.and_then(|power| whole(number)?.checked_mul(base.checked_pow(power)?));
    scaled
        .filter(|bytes| *bytes <= MOST_FILE_BYTES)
        .ok_or_else(|| given.wrong("not a size").hint("write a size as 4096, 4k or 16m"))
}

/// A duration in nanoseconds; a number without unit counts microseconds.
pub(super) fn duration_ns(given: &Given) -> Result<u64> {
    let text = given.value.to_ascii_lowercase();
    let (number, unit) = split(&text);
    let ns: Option<u64> = match unit {
        "" | "us" | "usec" => Some(1_000),
        "ms" | "msec" => Some(1_000_000),
        "s" | "sec" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        "d" => Some(86_400_000_000_000),
        _ => None,
    };
    let scaled = ns.and_then(|ns| whole(number)?.checked_mul(ns));
    scaled
        .filter(|ns| *ns <= MOST_PAUSE_NS)
        .ok_or_else(|| given.wrong("not a duration").hint("write it as 100us, 5ms or 1s; a number is microseconds"))
}

/// A number of things from `least` to `most`.
pub(super) fn number(given: &Given, least: u64, most: u64) -> Result<u64> {
    let number = whole(&given.value).filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        given.wrong(format!("not a number from {least} to {most}")).hint("numbers of things have no unit")
    })
}

/// Yes or no.
pub(super) fn flag(given: &Given) -> Result<bool> {
    Ok(number(given, 0, 1)? == 1)
}

/// The path of a file in the volume's folder: from the root where it begins there.
pub(super) fn path(given: &Given, path: &str) -> Result<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let whole = parts.join("/");
    let fits = parts.iter().all(|part| *part != ".." && part.len() <= 255) && whole.len() <= 1024;
    match fits && !path.contains(['\\', '\0']) {
        true => Ok(whole),
        false => Err(given.wrong("not a path inside the volume").hint("use names without `..` and backslashes")),
    }
}

/// The number that a text begins with, and what follows it.
fn split(text: &str) -> (&str, &str) {
    let digits = match text.strip_prefix("0x") {
        Some(rest) => 2 + rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len()),
        None => text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()),
    };
    text.split_at(digits)
}

fn whole(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        None => None,
    }
}

/// That an option is none of those the lab understands.
pub(super) fn unknown(given: &Given) -> Error {
    let why = match given.name.as_str() {
        "runtime" | "timeout" | "time_based" => {
            return given
                .wrong("the lab runs a number of operations, not for a time")
                .hint("say how much is done by size, io_size, number_ios or loops");
        }
        name if name.starts_with("rate") => "the lab has no rates: pauses are thinktime's",
        name if name.starts_with("verify") || name == "do_verify" => "the lab does not verify contents in a run",
        name if name.starts_with("trim") || name.starts_with("zone") => "the lab works on files, not on block devices",
        _ => "the lab does not know this option",
    };
    given.wrong(why).hint("docs/studies.md lists the options of fio that are understood")
}
