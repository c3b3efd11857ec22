//! Factors of the volume and of the machine, and parsing of factor values in studies. Workloads define their own
//! factors.

use pocketstone_core::database::Delay;
use pocketstone_core::units::{format_bytes, format_ns, parse_bytes, parse_ns};
use pocketstone_core::volume::{Access, FileSystem, Medium, Threshold, Volume};
use pocketstone_core::words::{Word, choices, nearest};
use pocketstone_core::{Error, Result, words};
use pocketstone_workload::factor::{
    Bytes, CountOrNone, Factor, Flag, Impossible, Nanoseconds, OrDefault, Text, VolumeName, blame,
};
use pocketstone_workload::plan::{IoScheduler, ReadAheadBy};
use pocketstone_workload::table::{Name, WORKLOAD};
use std::sync::LazyLock;

pub use pocketstone_workload::factor::{AnyFactor, Kind, Point, Value};

words! {
    /// Compressors that file systems have.
    Compression {
        /// None.
        None = "none",
        /// LZO.
        Lzo = "lzo",
        /// zlib.
        Zlib = "zlib",
        /// zstd.
        Zstd = "zstd",
    }
}

/// The volume, by its name.
pub const FILE_SYSTEM: Factor<VolumeName> =
    Factor::new("file_system", "file system under test; a full volume name includes medium and access");
/// Another medium than the name says.
pub const MEDIUM: Factor<OrDefault<Medium>> =
    Factor::new("medium", "the file system's medium; default is its usual one").default("default").quiet();
/// Another access than the name says.
pub const VOLUME_ACCESS: Factor<OrDefault<Access>> =
    Factor::new("volume_access", "how programs access the volume; default is the usual way").default("default").quiet();
/// The compressor.
pub const COMPRESSION: Factor<OrDefault<Compression>> = Factor::new(
    "compression",
    "the file system's compressor (mount option compr); default leaves it to the file system",
)
.default("default");
/// UBIFS's own read-ahead.
pub const BULK_READ: Factor<Flag> =
    Factor::new("bulk_read", "UBIFS's own read-ahead (mount option bulk_read); other file systems support only false")
        .default("false");
/// The size of a volume in memory.
pub const VOLUME_BYTES: Factor<OrDefault<Bytes>> =
    Factor::new("volume_bytes", "size of a volume in memory; default is 256 MiB, or less where memory is short")
        .default("default")
        .quiet()
        .checked(|bytes| match bytes {
            0 => Err(Error::user("a volume of 0 bytes holds nothing").hint("set volume_bytes = \"1GiB\", or omit it")),
            _ => Ok(()),
        });
/// When SCMFS's files move to huge pages.
pub const THRESHOLD: Factor<OrDefault<Threshold>> =
    Factor::new("threshold", "size beyond which a file of SCMFS moves to huge pages; other file systems have none")
        .default("default")
        .quiet();
/// SCMFS's null files.
pub const NULL_FILES: Factor<OrDefault<CountOrNone>> =
    Factor::new("null_files", "null files that SCMFS keeps ready; other file systems have none")
        .default("default")
        .quiet();
/// SCMFS's collector.
pub const COLLECTOR: Factor<Flag> =
    Factor::new("collector", "whether SCMFS collects garbage in a thread of its own; other file systems do not")
        .default("false")
        .quiet();
/// Those that only SCMFS has.
pub const OF_SCMFS: [AnyFactor; 3] = [THRESHOLD.any(), NULL_FILES.any(), COLLECTOR.any()];
/// Whether calls go past the page cache.
pub const DIRECT: Factor<Flag> =
    Factor::new("direct", "whether ext4's files are opened with O_DIRECT; other file systems support only false")
        .default("false")
        .quiet();
/// Whether ext4 keeps the order of its writes.
pub const BARRIERS: Factor<Flag> =
    Factor::new("barriers", "whether ext4 is mounted with barriers; other file systems support only true")
        .default("true")
        .quiet();
/// Those that only ext4 has.
pub const OF_EXT4: [AnyFactor; 2] = [DIRECT.any(), BARRIERS.any()];
/// How long phase change memory takes to read.
pub const PCM_READ: Factor<OrDefault<Nanoseconds>> =
    Factor::new("pcm_read", "time to read a line of 64 bytes of simulated phase change memory; other media have none")
        .default("default")
        .quiet();
/// How long phase change memory takes to write.
pub const PCM_WRITE: Factor<OrDefault<Nanoseconds>> = Factor::new(
    "pcm_write",
    "time to write a line of 64 bytes of simulated phase change memory; other media have none",
)
.default("default")
.quiet();
/// Those that only phase change memory has.
pub const OF_PCM: [AnyFactor; 2] = [PCM_READ.any(), PCM_WRITE.any()];
/// How the volume is mounted.
pub const MOUNT_OPTIONS: Factor<OrDefault<Text>> =
    Factor::new("mount_options", "options of the mount, as mount -o takes them; default passes none")
        .default("default")
        .quiet();
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

/// Those of every volume.
const OF_VOLUME: [AnyFactor; 20] = [
    FILE_SYSTEM.any(),
    MEDIUM.any(),
    VOLUME_ACCESS.any(),
    COMPRESSION.any(),
    BULK_READ.any(),
    ENERGY.any(),
    COUNTERS.any(),
    VOLUME_BYTES.any(),
    THRESHOLD.any(),
    NULL_FILES.any(),
    COLLECTOR.any(),
    DIRECT.any(),
    BARRIERS.any(),
    TLB.any(),
    PCM_READ.any(),
    PCM_WRITE.any(),
    POWER_CUTS.any(),
    MOUNT_OPTIONS.any(),
    IO_SCHEDULER.any(),
    FAULTS.any(),
];
/// Those of workloads whose page cache is cold, or can be.
const OF_CACHED: [AnyFactor; 2] = [READ_AHEAD_BY.any(), READ_AHEAD_BYTES.any()];

/// Every factor, in the order that cells are made: the last one varies fastest.
pub static FACTORS: LazyLock<Vec<AnyFactor>> = LazyLock::new(|| {
    let mut all: Vec<AnyFactor> = OF_VOLUME.to_vec();
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
    let all = OF_VOLUME.iter().chain([&WORKLOAD_ANY]).chain(name.factors());
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

/// The volume of a point, with its mount options.
///
/// # Errors
/// `Impossible` if its parts contradict each other, naming the factor at fault.
pub fn volume(point: &Point) -> Result<Volume, Impossible> {
    let named = Volume::named(&point.of(&FILE_SYSTEM)?).map_err(blame(FILE_SYSTEM.name()))?;
    let usual = Volume::usual(named.file_system);
    let mut volume = named.clone();
    if let Some(medium) = point.of(&MEDIUM)? {
        if named.medium != usual.medium && named.medium != medium {
            let error =
                format!("file_system specifies the medium {}, but medium is {}", named.medium.name(), medium.name());
            return Err(blame(MEDIUM.name())(Error::user(error).hint("omit one of them")));
        }
        volume.medium = medium;
        volume.check().map_err(blame(MEDIUM.name()))?;
    }
    if let Some(access) = point.of(&VOLUME_ACCESS)? {
        if named.access != usual.access && named.access != access {
            let (by_name, access) = (named.access.name(), access.name());
            let error = format!("file_system specifies the access {by_name}, but volume_access is {access}");
            return Err(blame(VOLUME_ACCESS.name())(Error::user(error).hint("omit one of them")));
        }
        volume.access = access;
        volume.check().map_err(blame(VOLUME_ACCESS.name()))?;
    }
    let name = volume.name();
    // They never compress: what others have to be told is how they are.
    let uncompressed = matches!(volume.file_system, FileSystem::Yaffs2 | FileSystem::Null);
    match point.of(&COMPRESSION)? {
        None => {}
        Some(Compression::None) if uncompressed => {}
        Some(_) if uncompressed => {
            let error =
                Error::user(format!("{name} does not support compression")).hint("set compression = \"none\" for it");
            return Err(blame(COMPRESSION.name())(error));
        }
        Some(_) if volume.volatile() => {
            let error = Error::user(format!("{name} in memory does not support compression"));
            let hint = "omit compression, or set it in [experiment.on.KIND]";
            return Err(blame(COMPRESSION.name())(error.hint(hint)));
        }
        Some(compression) => volume.options.push(format!("compr={}", compression.name())),
    }
    if point.of(&BULK_READ)? {
        volume.options.push("bulk_read".to_owned());
    }
    if let Some(options) = point.of(&MOUNT_OPTIONS)? {
        if !volume.takes_options() {
            let error = Error::user(format!("{name} is not mounted with options of its own"));
            return Err(blame(MOUNT_OPTIONS.name())(error.hint("omit mount_options for it")));
        }
        volume.options.extend(options.split(',').map(str::to_owned));
    }
    volume.setup.bytes = point.of(&VOLUME_BYTES)?;
    volume.check().map_err(blame(VOLUME_BYTES.name()))?;
    volume.setup.threshold = point.of(&THRESHOLD)?;
    volume.check().map_err(blame(THRESHOLD.name()))?;
    let null_files = point.of(&NULL_FILES)?.map(u32::try_from).transpose();
    let many = |e| Error::user("so many null files are not supported").because(e).hint("null_files = 64 is usual");
    volume.setup.null_files = null_files.map_err(many).map_err(blame(NULL_FILES.name()))?;
    volume.check().map_err(blame(NULL_FILES.name()))?;
    volume.setup.collector = point.of(&COLLECTOR)?;
    volume.check().map_err(blame(COLLECTOR.name()))?;
    volume.setup.direct = point.of(&DIRECT)?;
    volume.check().map_err(blame(DIRECT.name()))?;
    volume.setup.no_barriers = !point.of(&BARRIERS)?;
    volume.check().map_err(blame(BARRIERS.name()))?;
    volume.setup.pcm_read_ns = point.of(&PCM_READ)?;
    volume.check().map_err(blame(PCM_READ.name()))?;
    volume.setup.pcm_write_ns = point.of(&PCM_WRITE)?;
    volume.check().map_err(blame(PCM_WRITE.name()))?;
    Ok(volume)
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

    #[test]
    fn a_volume_is_what_its_name_and_its_factors_say() {
        let of = |values: &[(&str, &str)]| {
            volume(&values.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect())
        };
        let name = |values: &[(&str, &str)]| of(values).map(|v| v.name()).map_err(|i| (i.factor, i.error.chain()));
        assert_eq!(name(&[("file_system", "scmfs"), ("volume_access", "fuse")]).unwrap(), "scmfs-fuse");
        let both = [("file_system", "scmfs-fuse"), ("medium", "hugetlbfs")];
        assert_eq!(name(&both).unwrap(), "scmfs-hugetlbfs-fuse");
        assert_eq!(name(&[("file_system", "squashfs-ubiblock")]).unwrap(), "squashfs-ubi");
        let (factor, error) = name(&[("file_system", "scmfs-pcm"), ("medium", "tmpfs")]).unwrap_err();
        assert!(factor == "medium" && error.contains("specifies the medium pcm"), "{error}");
        let (factor, error) = name(&[("file_system", "jffs2"), ("medium", "ubi")]).unwrap_err();
        assert!(factor == "medium" && error.contains("jffs2 is unsupported on ubi"), "{error}");
        assert_eq!(name(&[("file_system", "tmpfs"), ("volume_access", "fuse")]).unwrap_err().0, "volume_access");
        assert_eq!(of(&[("file_system", "jffs2"), ("compression", "none")]).unwrap().options, ["compr=none"]);
        assert!(of(&[("file_system", "yaffs2"), ("compression", "none")]).unwrap().options.is_empty());
        let setup = of(&[("file_system", "scmfs"), ("threshold", "never"), ("null_files", "none")]).unwrap().setup;
        assert_eq!((setup.threshold, setup.null_files, setup.bytes), (Some(Threshold::Never), Some(0), None));
    }
}
