//! Specification of a database workload: operations, engine, configuration and pacing.

mod frequency;

pub use frequency::Frequency;

use crate::{Error, Result, words};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Name of the folder that a database lives in, within its volume.
pub const DATABASE_FOLDER: &str = "pocketstone-database";

/// A prepared workload on one engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSpec {
    /// The recipe of the workload.
    pub recipe: Recipe,
    /// Digest of the prepared workload (64 hexadecimal digits): the name of its file.
    pub trace: String,
    /// Digest of its loading steps alone, a prepared workload too: cells that start alike share a state.
    pub loading_trace: String,
    /// The engine.
    pub engine: DatabaseEngine,
    /// How statements are handed over.
    pub sql: SqlForm,
    /// The engine's settings.
    pub configuration: Configuration,
    /// Threads that share the operations; thread `t` of `n` has the operations `t`, `t + n`, ...
    pub threads: u32,
    /// How a delay is waited for.
    pub waiting: Waiting,
    /// The start of a delay.
    pub arrival: Arrival,
    /// Whether the page cache has nothing of the database before the first operation.
    pub cold: bool,
    /// Conditions that the machine is asked for.
    pub conditions: Conditions,
}

impl DatabaseSpec {
    /// A prepared workload on an engine, with everything else as where nothing is asked for: prepared statements, one
    /// thread, closed, warm.
    pub fn new(recipe: Recipe, engine: DatabaseEngine) -> DatabaseSpec {
        DatabaseSpec {
            recipe,
            trace: String::new(),
            loading_trace: String::new(),
            engine,
            sql: SqlForm::Prepared,
            configuration: Configuration::default(),
            threads: 1,
            waiting: Waiting::Sleep,
            arrival: Arrival::Closed,
            cold: false,
            conditions: Conditions::default(),
        }
    }

    /// The part that matters for loading: pacing and counting do not affect the initial state.
    pub fn loading(&self) -> DatabaseSpec {
        let recipe = Recipe {
            operations: 0,
            scan_records: 1,
            pattern: crate::pattern::Pattern::Random,
            delay: None,
            ..self.recipe.clone()
        };
        DatabaseSpec {
            recipe,
            trace: self.loading_trace.clone(),
            sql: SqlForm::Prepared,
            threads: 1,
            waiting: Waiting::Sleep,
            arrival: Arrival::Closed,
            cold: false,
            conditions: Conditions::default(),
            ..self.clone()
        }
    }
}

/// The recipe of a prepared workload; with a seed, it gives the same bytes everywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The kind of workload.
    pub workload: DatabaseWorkload,
    /// The file it comes from, for [`DatabaseWorkload::File`].
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// Records that there are before the first operation.
    pub records: u64,
    /// Operations.
    pub operations: u64,
    /// Fields of a record, in addition to its key.
    pub fields: u64,
    /// Characters of a field.
    pub field_bytes: u64,
    /// Longest scan in records.
    pub scan_records: u64,
    /// Order of keys, for [`DatabaseWorkload::Contacts`].
    pub pattern: crate::pattern::Pattern,
    /// Delay between two operations; `None` keeps a workload file's own.
    pub delay: Option<Delay>,
}

impl Recipe {
    /// A workload of YCSB's size: 500 records, 1,800 operations, 10 fields of 100 characters, scans of up to 100.
    pub fn new(workload: DatabaseWorkload) -> Recipe {
        Recipe {
            workload,
            file: None,
            records: 500,
            operations: 1800,
            fields: 10,
            field_bytes: 100,
            scan_records: 100,
            pattern: crate::pattern::Pattern::Random,
            delay: None,
        }
    }
}

words! {
    /// Database workloads.
    DatabaseWorkload {
        /// YCSB A: 50% reads, 50% updates, Zipfian.
        YcsbA = "ycsb-a",
        /// YCSB B: 95% reads, 5% updates, Zipfian.
        YcsbB = "ycsb-b",
        /// YCSB C: reads, Zipfian.
        YcsbC = "ycsb-c",
        /// YCSB D: 95% reads of the latest records, 5% inserts.
        YcsbD = "ycsb-d",
        /// YCSB E: 95% scans, 5% inserts, Zipfian.
        YcsbE = "ycsb-e",
        /// YCSB F: 50% reads, 50% read-modify-writes, Zipfian.
        YcsbF = "ycsb-f",
        /// YCSB A on PocketData's own schema, as SQL text.
        PocketdataA = "pocketdata-a",
        /// YCSB B on it.
        PocketdataB = "pocketdata-b",
        /// YCSB C on it.
        PocketdataC = "pocketdata-c",
        /// YCSB D on it.
        PocketdataD = "pocketdata-d",
        /// YCSB E on it.
        PocketdataE = "pocketdata-e",
        /// YCSB F on it.
        PocketdataF = "pocketdata-f",
        /// 41% scans, 42% conditions on integers without an index, 9% updates, 8% inserts, on it.
        PocketdataIa = "pocketdata-ia",
        /// The same with narrow ranges of a decimal.
        PocketdataIb = "pocketdata-ib",
        /// The same with wider ranges of two.
        PocketdataIc = "pocketdata-ic",
        /// Look-ups by number in a table of contacts (the read-ahead paper's SQLite workload).
        Contacts = "contacts",
        /// A prepared workload or a published JSON file.
        File = "prepared",
        /// No operations: the floor of every measurement.
        Null = "null",
    }
}

/// Delay between two operations.
///
/// As text: `none`, a duration (`1ms`), `lognormal:MEAN` or `lognormal:MEAN:SHAPE` (`lognormal:6ms:1`),
/// `published-log`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// No delay: saturation.
    None,
    /// Always the same.
    Fixed {
        /// Nanoseconds.
        ns: u64,
    },
    /// Lognormal.
    Lognormal {
        /// Mean in nanoseconds.
        mean_ns: u64,
        /// Shape: standard deviation of the logarithm.
        sigma: f64,
    },
    /// round(ln i) milliseconds before operation i + 1, as in PocketData's published "log" files.
    PublishedLog,
}

/// Default shape of a lognormal delay.
pub const LOGNORMAL_SIGMA: f64 = 1.0;

impl FromStr for Delay {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::user(format!("`{text}` is not a delay"))
                .hint("delays: none, a duration such as 1ms, lognormal:6ms, lognormal:6ms:SHAPE, published-log")
        };
        let duration = |t: &str| crate::units::parse_ns(t).map_err(|e| wrong().because(e));
        match text.split(':').collect::<Vec<_>>()[..] {
            ["none"] => Ok(Delay::None),
            ["published-log"] => Ok(Delay::PublishedLog),
            ["lognormal", mean] => Ok(Delay::Lognormal { mean_ns: duration(mean)?, sigma: LOGNORMAL_SIGMA }),
            ["lognormal", mean, sigma] => {
                let sigma: f64 = sigma.parse().map_err(|_| wrong())?;
                match sigma.is_finite() && (0.0..=5.0).contains(&sigma) {
                    true => Ok(Delay::Lognormal { mean_ns: duration(mean)?, sigma }),
                    false => Err(wrong().hint("a lognormal's shape must be from 0 to 5")),
                }
            }
            [fixed] => match duration(fixed)? {
                0 => Ok(Delay::None),
                ns => Ok(Delay::Fixed { ns }),
            },
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::None => f.write_str("none"),
            Delay::Fixed { ns } => write!(f, "{}", short_ns(*ns)),
            Delay::Lognormal { mean_ns, sigma } if *sigma == LOGNORMAL_SIGMA => {
                write!(f, "lognormal:{}", short_ns(*mean_ns))
            }
            Delay::Lognormal { mean_ns, sigma } => write!(f, "lognormal:{}:{sigma}", short_ns(*mean_ns)),
            Delay::PublishedLog => f.write_str("published-log"),
        }
    }
}

/// A duration in the largest unit that it is a whole number of.
fn short_ns(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units.into_iter().find(|(size, _)| ns >= *size && ns % size == 0);
    unit.map_or_else(|| format!("{ns}ns"), |(size, name)| format!("{}{name}", ns / size))
}

impl Serialize for Delay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|e: Error| serde::de::Error::custom(e.chain()))
    }
}

words! {
    /// The engine of a database workload.
    DatabaseEngine {
        /// SQLite, compiled in.
        Sqlite = "sqlite",
        /// Berkeley DB by its SQL interface, loaded at run time.
        Bdb = "bdb",
        /// H2 by JDBC.
        H2 = "h2",
        /// LMDB: key-value operations only.
        Lmdb = "lmdb",
        /// redb: key-value operations only.
        Redb = "redb",
        /// No engine: steps through the operations without executing them.
        Null = "null",
    }
}

impl DatabaseEngine {
    /// Whether it understands SQL text; the others have the key-value operations alone.
    pub fn speaks_sql(self) -> bool {
        matches!(self, DatabaseEngine::Sqlite | DatabaseEngine::Bdb | DatabaseEngine::H2)
    }

    /// Whether its files are opened by the board that has them: LMDB's depend on the word of its processor.
    pub fn opens_on_the_board(self) -> bool {
        matches!(self, DatabaseEngine::Lmdb | DatabaseEngine::Redb)
    }
}

words! {
    /// How a statement is handed to an SQL engine.
    SqlForm {
        /// Prepared once, before the clock starts; values are bound.
        Prepared = "prepared",
        /// As text with its values in it, parsed each time.
        Text = "text",
    }
}

/// The database configuration, named after SQLite's pragmas. `None` leaves the engine's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Configuration {
    /// `journal_mode`: delete, truncate, persist, memory, wal, off; `atomic`, which is no pragma: F2FS's atomic writes.
    pub journal_mode: Option<String>,
    /// `synchronous`: off, normal, full, extra.
    pub synchronous: Option<String>,
    /// `locking_mode`: normal, exclusive.
    pub locking_mode: Option<String>,
    /// Page size in bytes.
    pub page_bytes: Option<u64>,
    /// Cache size in bytes.
    pub cache_bytes: Option<u64>,
    /// How long a connection waits for a lock that another one holds, in milliseconds: at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_timeout_ms: Option<u64>,
}

words! {
    /// How a delay is waited for.
    Waiting {
        /// The thread sleeps.
        Sleep = "sleep",
        /// The thread looks at the clock until it is time: the processor stays hot.
        Busy = "busy",
    }
}

words! {
    /// The start of a delay.
    Arrival {
        /// From the end of the previous operation (think time), as in PocketData.
        Closed = "closed",
        /// From the intended start of the operation before (a timetable): operations queue behind slow ones.
        Open = "open",
    }
}

/// Conditions of a trial. `None` leaves the machine's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// CPU frequency governor.
    pub governor: Option<String>,
    /// Cores on-line.
    pub cores: Option<u32>,
    /// Power source, a label such as `battery`.
    pub power: Option<String>,
    /// Bounds of the processors' frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
}

/// One condition of a trial: requested and effective value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// `governor`, `frequency`, `cores` or `power`.
    pub name: String,
    /// The requested value.
    pub asked: String,
    /// The effective value, if the machine reports it.
    pub in_force: Option<String>,
    /// Why it was not set; empty if it was.
    pub why: String,
}

/// The output of an engine process besides its call log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatabaseOutcome {
    /// Digest of all returned results, 16 hexadecimal digits; the same for every engine. `None` with several threads,
    /// whose results depend on timing.
    pub digest: Option<String>,
    /// Engine and version, such as `SQLite 3.50.2`.
    pub engine: String,
    /// From the start of the process to the first result, without the loading of the workload, in ns.
    pub startup_ns: Option<u64>,
    /// Time on a core from the start of the process to the end of the run, in ns.
    pub process_ns: Option<u64>,
    /// Its process.
    pub pid: u32,
    /// Its threads, as far as they were followed.
    pub threads: Vec<u32>,
    /// Rows that the operations returned.
    pub rows: u64,
    /// Resource usage of the process from first start to last end; names as in docs/results.md.
    pub usage: Usage,
    /// The conditions of the trial.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Resource usage of a process during the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time on a core, user and system, of all threads.
    pub on_core_ns: Option<u64>,
    /// Time on a core in the kernel.
    pub kernel_ns: Option<u64>,
    /// Times that a thread gave its core up to wait.
    pub voluntary_switches: Option<u64>,
    /// Times that a thread's core was taken away.
    pub involuntary_switches: Option<u64>,
    /// Read system calls.
    pub read_calls: Option<u64>,
    /// Write system calls.
    pub write_calls: Option<u64>,
    /// Bytes read from a device.
    pub device_read_bytes: Option<u64>,
    /// Bytes written to a device.
    pub device_write_bytes: Option<u64>,
    /// Page faults that needed a device.
    pub major_faults: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_reads_what_it_writes() {
        for text in ["none", "1ms", "1500us", "lognormal:6ms", "lognormal:6ms:0.5", "published-log"] {
            assert_eq!(text.parse::<Delay>().unwrap().to_string(), text);
        }
        assert_eq!("0ms".parse::<Delay>().unwrap(), Delay::None);
        for text in ["", "soon", "lognormal", "lognormal:6ms:x", "lognormal:6ms:1:2", "lognormal:6ms:-1"] {
            assert!(text.parse::<Delay>().unwrap_err().cure().is_some(), "{text}");
        }
    }
}
