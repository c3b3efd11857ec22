//! All factors and their values: those of the machine are defined here, those of the volume beside this file, and
//! workloads define their own.

use super::volume;
use pocketstone_core::database::Delay;
use pocketstone_core::units::{format_bytes, format_ns, parse_bytes, parse_ns};
use pocketstone_core::volume::Volume;
use pocketstone_core::words::{Word, choices, nearest};
use pocketstone_core::{Error, Result};
use pocketstone_workload::factor::{Bytes, CountOrNone, Factor, Flag, OrDefault, Text};
use pocketstone_workload::plan::{IoScheduler, ReadAheadBy};
use pocketstone_workload::table::{Name, WORKLOAD};
use std::sync::LazyLock;

pub use pocketstone_workload::factor::{AnyFactor, Kind, Point, Value};

/// What orders requests to the block device.
pub const IO_SCHEDULER: Factor<OrDefault<IoScheduler>> =
    Factor::new("io_scheduler", "I/O scheduler of the board's block device; default leaves the kernel's")
        .default("default")
        .quiet();
/// Whether energy is measured.
pub const ENERGY: Factor<Flag> =
    Factor::new("energy", "read the machine's power meters, after a second of rest before each run").default("false");
/// What the processor counts.
pub const COUNTERS: Factor<Flag> = Factor::new(
    "counters",
    "count misses of the data TLB by the processor's own counters, where it has them, and page faults and time on \
     processors by the kernel's",
)
.default("false")
.quiet();
/// The modelled data TLB.
pub const TLB: Factor<OrDefault<Text>> = Factor::new(
    "tlb",
    "count misses of this processor's data TLB by a model of every access: a profile of kind tlb; default counts none",
)
.default("default")
.quiet();
/// Cuts of the power.
pub const POWER_CUTS: Factor<CountOrNone> = Factor::new(
    "power_cuts",
    "cut the power at so many flash operations of the traced twin, by the seed, and look what a fresh board finds",
)
.default("none")
.quiet()
.checked(|cuts| match cuts {
    0..=1000 => Ok(()),
    _ => Err(Error::user(format!("{cuts} cuts of one run are too many")).hint("power_cuts must be at most 1000")),
});
/// Faults of the chip.
pub const FAULTS: Factor<Text> = Factor::new(
    "faults",
    "faults of the simulated chip once the volume is filled, such as bitflips=1 or weakblocks=5%:2, by the seed",
)
.default("none")
.quiet();
/// Where read-ahead is set.
pub const READ_AHEAD_BY: Factor<ReadAheadBy> =
    Factor::new("read_ahead_by", "set through the bdi of the mount, or by posix_fadvise on the file").default("mount");
/// Read-ahead.
pub const READ_AHEAD_BYTES: Factor<OrDefault<Bytes>> =
    Factor::new("read_ahead_bytes", "maximum read-ahead window; 0 disables it, default leaves the machine's")
        .default("default")
        .checked(|bytes| match bytes % 1024 {
            0 => Ok(()),
            _ => Err(Error::user(format!("read-ahead cannot be {bytes} bytes"))
                .hint("the kernel counts it in KiB: use a multiple of 1024, or 0")),
        });

/// Those of every workload.
const OF_ALL: [AnyFactor; 20] = [
    volume::FILE_SYSTEM.any(),
    volume::MEDIUM.any(),
    volume::VOLUME_ACCESS.any(),
    volume::COMPRESSION.any(),
    volume::BULK_READ.any(),
    ENERGY.any(),
    COUNTERS.any(),
    volume::VOLUME_BYTES.any(),
    volume::THRESHOLD.any(),
    volume::NULL_FILES.any(),
    volume::COLLECTOR.any(),
    volume::DIRECT.any(),
    volume::BARRIERS.any(),
    TLB.any(),
    volume::PCM_READ.any(),
    volume::PCM_WRITE.any(),
    POWER_CUTS.any(),
    volume::MOUNT_OPTIONS.any(),
    IO_SCHEDULER.any(),
    FAULTS.any(),
];
/// Those of workloads whose page cache is cold, or can be.
const OF_CACHED: [AnyFactor; 2] = [READ_AHEAD_BY.any(), READ_AHEAD_BYTES.any()];

/// Every factor, in the order that cells are made: the last one varies fastest.
pub static FACTORS: LazyLock<Vec<AnyFactor>> = LazyLock::new(|| {
    let mut all: Vec<AnyFactor> = OF_ALL.to_vec();
    all.push(WORKLOAD.any());
    let names = Name::WORDS.iter().filter_map(|word| Name::of_word(word));
    // Those of databases first: they were never mixed with the others.
    let (of_databases, on_files): (Vec<Name>, Vec<Name>) = names.partition(|name| matches!(name, Name::Database(_)));
    for factor in of_databases.into_iter().chain(on_files).flat_map(Name::factors) {
        match all.iter_mut().find(|known| known.name == factor.name) {
            // One that some workload has always had is in its points.
            Some(known) => known.quiet &= factor.quiet,
            None => all.push(*factor),
        }
    }
    all.extend(OF_CACHED);
    all
});

/// Whether points with that workload have a factor, and how: a factor may be quiet with one workload alone.
pub fn of_workload(factor: &AnyFactor, workload: &str) -> Option<AnyFactor> {
    let name = Name::of_word(workload)?;
    let all = OF_ALL.iter().chain([&WORKLOAD_ANY]).chain(name.factors());
    all.chain(OF_CACHED.iter().filter(|_| name.may_be_cold())).find(|own| own.name == factor.name).copied()
}

const WORKLOAD_ANY: AnyFactor = WORKLOAD.any();

/// A factor's value at a point. A quiet one that is at its default is not in the point; `None` where the point's
/// workload has no such factor.
pub(crate) fn value_of(point: &Point, factor: &AnyFactor) -> Option<Value> {
    point
        .get(factor.name)
        .cloned()
        .or_else(|| of_workload(factor, workload_of(point)).filter(|own| own.quiet)?.default_value())
}

/// A point's workload.
pub(crate) fn workload_of(point: &Point) -> &str {
    point.get(WORKLOAD.name()).and_then(Value::as_str).or(WORKLOAD_ANY.default).unwrap_or_default()
}

/// The factor of that name.
///
/// # Errors
/// `ErrorKind::User` for an unknown name; the hint lists the factors.
pub fn named(name: &str) -> Result<&'static AnyFactor> {
    FACTORS.iter().find(|f| f.name == name).ok_or_else(|| {
        let names: Vec<&str> = FACTORS.iter().map(|f| f.name).collect();
        Error::user(format!("unknown factor `{name}`")).hint(choices(name, "factors", &names))
    })
}

/// Reads a factor's value as a study writes it.
///
/// # Errors
/// `ErrorKind::User` if the value is invalid for this factor.
pub fn read(factor: &AnyFactor, value: &toml::Value) -> Result<Value> {
    let read = read_any(factor, value)?;
    factor.check(&read).map(|()| read)
}

/// Reads a value of its kind, whatever steps its numbers may have.
fn read_any(factor: &AnyFactor, value: &toml::Value) -> Result<Value> {
    let or = if factor.or_default { ", or \"default\"" } else { "" };
    let wrong = |expected: &str| Error::user(format!("`{}` takes {expected}{or}, not {value}", factor.name));
    match (factor.kind, value) {
        (_, toml::Value::String(text)) if factor.or_default && text == "default" => Ok(text.clone().into()),
        (Kind::Word(words), toml::Value::String(text)) if words.contains(&text.as_str()) => Ok(text.clone().into()),
        (Kind::Word(words), value) => {
            let error = wrong(&format!("one of {}", words.join(", ")));
            let meant = value.as_str().and_then(|text| nearest(text, words.iter().copied()));
            Err(meant.map(|word| format!("did you mean \"{word}\"?")).into_iter().fold(error, Error::hint))
        }
        (Kind::Volume, toml::Value::String(text)) => Volume::named(text).map(|_| text.clone().into()).map_err(|e| {
            let error = Error::user(format!("unknown value `{text}` of `{}`", factor.name));
            e.cure().into_iter().fold(error, Error::hint)
        }),
        (Kind::Volume, _) => Err(wrong("the name of a volume, such as \"jffs2\"")),
        (Kind::Flag, toml::Value::Boolean(flag)) => Ok((*flag).into()),
        (Kind::Flag, _) => Err(wrong("true or false")),
        (Kind::Text, toml::Value::String(text)) => Ok(text.clone().into()),
        (Kind::Text, _) => Err(wrong("a text")),
        (Kind::Count, toml::Value::Integer(n @ 1..)) => Ok((*n as u64).into()),
        (Kind::Count, _) => Err(wrong("a number of at least 1")),
        (Kind::TenthsOrNone, toml::Value::String(text)) if text == "none" => Ok(text.clone().into()),
        (Kind::TenthsOrNone, toml::Value::Integer(n @ 0..=10)) => Ok((*n as u64).into()),
        (Kind::TenthsOrNone, _) => Err(wrong("a number from 0 to 10, or \"none\"")),
        (Kind::CountOrNone, toml::Value::String(text)) if text == "none" => Ok(text.clone().into()),
        (Kind::CountOrNone, toml::Value::Integer(n @ 1..)) => Ok((*n as u64).into()),
        (Kind::CountOrNone, _) => Err(wrong("a number of at least 1, or \"none\"")),
        (Kind::Delay, toml::Value::String(text)) if text == "own" => Ok(text.clone().into()),
        (Kind::Delay, toml::Value::String(text)) => Ok(text.parse::<Delay>()?.to_string().into()),
        (Kind::Delay, _) => Err(wrong("a delay, such as \"none\", \"1ms\" or \"lognormal:6ms\"")),
        (Kind::Bytes | Kind::Nanoseconds, toml::Value::Integer(n @ 0..)) => Ok((*n as u64).into()),
        (Kind::Bytes, toml::Value::String(text)) => Ok(parse_bytes(text)?.into()),
        (Kind::Bytes, _) => Err(wrong("a size, such as \"4KiB\"")),
        (Kind::Nanoseconds, toml::Value::String(text)) => Ok(parse_ns(text)?.into()),
        (Kind::Nanoseconds, _) => Err(wrong("a duration, such as \"10ms\"")),
    }
}

/// A factor's value for people.
pub fn show(factor: &AnyFactor, value: &Value) -> String {
    match (factor.kind, value.as_u64()) {
        (Kind::Bytes, Some(n)) => format_bytes(n),
        (Kind::Nanoseconds, Some(n)) => format_ns(n as f64),
        _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

/// `name=value` of every factor of a point that is in `names`.
pub fn describe(point: &Point, names: &[&str]) -> String {
    let shown = FACTORS.iter().filter(|f| names.contains(&f.name));
    let parts: Vec<String> =
        shown.filter_map(|f| Some(format!("{}={}", f.name, show(f, point.get(f.name)?)))).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_values_of_their_factor() {
        for factor in FACTORS.iter().filter(|f| f.default.is_some()) {
            let value = factor.default_value().unwrap();
            let toml = toml::Value::try_from(&value).unwrap();
            assert_eq!(read(factor, &toml).unwrap(), value, "{}", factor.name);
        }
    }

    #[test]
    fn wrong_values_are_refused_with_what_would_be_right() {
        let read = |name: &str, value: toml::Value| read(named(name).unwrap(), &value);
        assert_eq!(read("request_bytes", "4KiB".into()).unwrap(), 4096);
        assert_eq!(read("inter_arrival_ns", "1ms".into()).unwrap(), 1_000_000);
        assert!(read("file_bytes", (-1).into()).is_err());
        assert!(read("bulk_read", "yes".into()).is_err());
        assert!(read("read_ahead_bytes", 1000.into()).unwrap_err().cure().unwrap().contains("1024"));
        assert!(read("page_bytes", 1000.into()).unwrap_err().cure().unwrap().contains("power of two"));
        assert!(read("governor", "default".into()).is_ok() && read("engine", "default".into()).is_err());
        assert!(read("null_files", "none".into()).is_ok() && read("null_files", 64.into()).is_ok());
        assert!(named("requets").unwrap_err().cure().unwrap().starts_with("did you mean `requests`? factors: "));
        let error = read("file_system", "tmpf".into()).unwrap_err();
        assert_eq!(error.message(), "unknown value `tmpf` of `file_system`");
        assert!(error.cure().unwrap().starts_with("did you mean `tmpfs`? volumes: "));
        assert_eq!(read("page_cache", "could".into()).unwrap_err().cure(), Some("did you mean \"cold\"?"));
    }
}
