//! Converts a point of a study to a database workload.

use super::recipe::out_of_range;
use crate::conditions::{self, CORES, FREQUENCY, GOVERNOR, POWER};
use crate::factor::{AnyFactor, Bytes, Count, DelayOrOwn, Factor, Impossible, OrDefault, Point, Text, blame};
use crate::factors::PATTERN;
use crate::recording::{KeptCalls, Selection};
use pocketstone_core::database::*;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::{Error, Result, words};

/// Makes prepared workloads and keeps them.
pub trait Prepares {
    /// Makes a workload, unless it is there; the digests of the whole, and of its loading steps.
    ///
    /// # Errors
    /// `ErrorKind::User` if the recipe is invalid, or the workload cannot be stored.
    fn digests(&mut self, recipe: &Recipe, seed: u64) -> Result<(String, String)>;

    /// Packs a folder, or the contents of a tar file, unless that is done; the digest of the archive.
    ///
    /// # Errors
    /// `ErrorKind::User` if there is no such folder or file, it cannot be read, or the archive cannot be stored.
    fn files(&mut self, path: &str) -> Result<String>;

    /// Reads a text that a study names.
    ///
    /// # Errors
    /// `ErrorKind::User` if there is no such file, or it is no text.
    fn text(&mut self, path: &str) -> Result<String>;

    /// Reads recorded calls and keeps them, unless that is done.
    ///
    /// # Errors
    /// `ErrorKind::User` if there is no such file, or it is not understood; the message has the line.
    fn calls(&mut self, path: &str, selection: &Selection) -> Result<KeptCalls>;
}

words! {
    /// Whether the page cache has anything of the files before the first operation.
    PageCache {
        /// What writing them left.
        Warm = "warm",
        /// Nothing.
        Cold = "cold",
    }
}

words! {
    /// SQLite's journal modes.
    JournalMode {
        /// The journal is deleted.
        Delete = "delete",
        /// It is truncated.
        Truncate = "truncate",
        /// Its header is overwritten.
        Persist = "persist",
        /// It is in memory.
        Memory = "memory",
        /// A write-ahead log.
        Wal = "wal",
        /// None.
        Off = "off",
        /// None where the file system changes several pages at once, as F2FS does.
        Atomic = "atomic",
    }
}

words! {
    /// How much SQLite makes durable.
    Synchronous {
        /// Nothing.
        Off = "off",
        /// The most critical moments.
        Normal = "normal",
        /// Every commit.
        Full = "full",
        /// And the directory.
        Extra = "extra",
    }
}

words! {
    /// How SQLite locks its file.
    LockingMode {
        /// For each transaction.
        Normal = "normal",
        /// Until it is closed.
        Exclusive = "exclusive",
    }
}

const WORKLOAD_FILE: Factor<Text> =
    Factor::new("workload_file", "a prepared workload or a published JSON file, relative to the study").default("");
const SQL: Factor<SqlForm> =
    Factor::new("sql", "statements prepared before the clock starts, or parsed each time").default("prepared");
const JOURNAL_MODE: Factor<OrDefault<JournalMode>> = Factor::new("journal_mode", "the pragma").default("default");
const SYNCHRONOUS: Factor<OrDefault<Synchronous>> = Factor::new("synchronous", "the pragma").default("default");
const LOCKING_MODE: Factor<OrDefault<LockingMode>> = Factor::new("locking_mode", "the pragma").default("default");
const PAGE_BYTES: Factor<OrDefault<Bytes>> = Factor::new("page_bytes", "size of a database's page")
    .default("default")
    .checked(|bytes| match bytes.is_power_of_two() && (512..=65536).contains(&bytes) {
        true => Ok(()),
        false => Err(Error::user(format!("a page cannot have {bytes} bytes"))
            .hint("page_bytes must be a power of two from 512 to 65536")),
    });
const CACHE_BYTES: Factor<OrDefault<Bytes>> = Factor::new("cache_bytes", "size of the database's own cache")
    .default("default")
    .checked(|bytes| match bytes % 1024 == 0 && bytes > 0 {
        true => Ok(()),
        false => Err(Error::user(format!("a cache cannot have {bytes} bytes"))
            .hint("cache_bytes must be a multiple of 1024, at least 1024")),
    });
const BUSY_TIMEOUT_MS: Factor<OrDefault<Count>> =
    Factor::new("busy_timeout_ms", "milliseconds that a connection waits for another one's lock")
        .default("default")
        .checked(|ms| match (1..=86_400_000).contains(&ms) {
            true => Ok(()),
            false => Err(Error::user(format!("a connection cannot wait {ms} ms for a lock"))
                .hint("busy_timeout_ms must be from 1 to 86400000, a day")),
        })
        .quiet();
const RECORDS: Factor<Count> = Factor::new("records", "records before the first operation").default("500");
const FIELDS: Factor<Count> = Factor::new("fields", "fields of a record in addition to its key").default("10");
const FIELD_BYTES: Factor<Count> = Factor::new("field_bytes", "characters of a field").default("100");
const SCAN_RECORDS: Factor<Count> = Factor::new("scan_records", "longest scan").default("100");
const OPERATIONS: Factor<Count> = Factor::new("operations", "number of operations").default("1800");
const THREADS: Factor<Count> =
    Factor::new("threads", "threads that share the operations").default("1").checked(|threads| match threads {
        1..=1024 => Ok(()),
        _ => Err(Error::user(format!("{threads} threads cannot share the operations"))
            .hint("threads must be from 1 to 1024")),
    });
pub(crate) const PAGE_CACHE: Factor<PageCache> =
    Factor::new("page_cache", "whether the page cache holds nothing of the files before the first operation")
        .default("warm");
const ARRIVAL: Factor<Arrival> =
    Factor::new("arrival", "delays count from the end of the previous operation, or from its intended start")
        .default("closed");
const WAITING: Factor<Waiting> = Factor::new("waiting", "how to wait for delays").default("sleep");
const ENGINE: Factor<DatabaseEngine> = Factor::new("engine", "the database").default("sqlite");
const DELAY: Factor<DelayOrOwn> = Factor::new("delay", "delay between two operations").default("none");

/// Whether a database workload has something.
pub type Has = fn(DatabaseWorkload) -> bool;

/// What a study can vary of a database workload, beside the volume, and which of them have it.
pub const DATABASE_FACTORS: [(AnyFactor, Has); 24] = [
    (WORKLOAD_FILE.any(), |workload| matches!(workload, DatabaseWorkload::File)),
    (SQL.any(), |_| true),
    (JOURNAL_MODE.any(), |_| true),
    (SYNCHRONOUS.any(), |_| true),
    (LOCKING_MODE.any(), |_| true),
    (PAGE_BYTES.any(), |_| true),
    (CACHE_BYTES.any(), |_| true),
    (BUSY_TIMEOUT_MS.any(), |_| true),
    (RECORDS.any(), |_| true),
    (FIELDS.any(), |_| true),
    (FIELD_BYTES.any(), |_| true),
    (SCAN_RECORDS.any(), |_| true),
    (OPERATIONS.any(), |_| true),
    (THREADS.any(), |_| true),
    (PAGE_CACHE.any(), |_| true),
    (ARRIVAL.any(), |_| true),
    (WAITING.any(), |_| true),
    (GOVERNOR.any(), |_| true),
    (FREQUENCY.any(), |_| true),
    (CORES.any(), |_| true),
    (POWER.any(), |_| true),
    (ENGINE.any(), |_| true),
    (DELAY.any(), |_| true),
    (PATTERN.any(), |workload| matches!(workload, DatabaseWorkload::Contacts)),
];

/// What a point makes of a database workload.
pub(crate) fn of_point(
    workload: DatabaseWorkload,
    point: &Point,
    seed: u64,
    prepares: &mut dyn Prepares,
) -> Result<DatabaseSpec, Impossible> {
    let delay = point.of(&DELAY)?;
    if delay.is_none() && workload != DatabaseWorkload::File {
        let error = "delay = \"own\" requires workload = \"prepared\": others have no delays of their own";
        return Err(blame(DELAY.name())(Error::user(error)));
    }
    let recipe = Recipe {
        workload,
        file: Some(point.of(&WORKLOAD_FILE)?).filter(|f| !f.is_empty()).map(Into::into),
        records: point.of(&RECORDS)?,
        operations: point.of(&OPERATIONS)?,
        fields: point.of(&FIELDS)?,
        field_bytes: point.of(&FIELD_BYTES)?,
        scan_records: point.of(&SCAN_RECORDS)?,
        pattern: if point.get(PATTERN.name()).is_some() { point.of(&PATTERN)? } else { Pattern::Random },
        delay,
    };
    let (trace, loading_trace) = prepares.digests(&recipe, seed).map_err(|error| {
        let factor = out_of_range(&recipe).map_or(WORKLOAD_FILE.name(), |(name, ..)| name);
        Impossible { factor, error }
    })?;
    let engine: DatabaseEngine = point.of(&ENGINE)?;
    Ok(DatabaseSpec {
        trace,
        loading_trace,
        recipe,
        engine,
        // A key-value store has no SQL in any form.
        sql: if engine.speaks_sql() { point.of(&SQL)? } else { SqlForm::Prepared },
        configuration: Configuration {
            journal_mode: point.of(&JOURNAL_MODE)?.map(|mode| mode.name().to_owned()),
            synchronous: point.of(&SYNCHRONOUS)?.map(|word| word.name().to_owned()),
            locking_mode: point.of(&LOCKING_MODE)?.map(|mode| mode.name().to_owned()),
            page_bytes: point.of(&PAGE_BYTES)?,
            cache_bytes: point.of(&CACHE_BYTES)?,
            busy_timeout_ms: point.of(&BUSY_TIMEOUT_MS)?,
        },
        threads: u32::try_from(point.of(&THREADS)?).unwrap_or(u32::MAX),
        waiting: point.of(&WAITING)?,
        arrival: point.of(&ARRIVAL)?,
        cold: point.of(&PAGE_CACHE)? == PageCache::Cold,
        conditions: conditions::of_point(point)?,
    })
}
