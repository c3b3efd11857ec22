//! A database's configuration as SQLite's pragmas, each read back: an engine that does not take one says
//! so by its answer alone. Words and meanings: <https://sqlite.org/pragma.html>.

use super::atomic;
use super::sqlite::Connection;
use super::sqlite_api::SqliteApi;
use pocketstone_core::database::{Configuration, DatabaseEngine};
use pocketstone_core::{Error, Result};
use std::path::Path;

const JOURNAL_MODES: [&str; 7] = ["delete", "truncate", "persist", "memory", "wal", "off", atomic::WORD];
/// By the number that the pragma answers with.
const SYNCHRONOUS: [&str; 4] = ["off", "normal", "full", "extra"];
const LOCKING_MODES: [&str; 2] = ["normal", "exclusive"];
const LARGEST_PAGE_BYTES: u64 = 65_536;

/// Opens a file, made if it is not there, as a configuration has it; `:memory:` is a database in memory.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be opened; `ErrorKind::User` if a setting is not supported.
pub(super) fn open(
    api: &'static SqliteApi,
    engine: &'static str,
    path: &Path,
    configuration: &Configuration,
) -> Result<Connection> {
    let connection = Connection::open(api, engine, path, configuration)?;
    configure(&connection, configuration)?;
    Ok(connection)
}

/// Sets what the configuration names.
///
/// # Errors
/// `ErrorKind::User` for an unknown word or number, or if a different value is in force afterwards.
fn configure(connection: &Connection, configuration: &Configuration) -> Result<()> {
    // The time to wait for locks is in force from the opening on.
    let Configuration { journal_mode, synchronous, locking_mode, page_bytes, cache_bytes, busy_timeout_ms: _ } =
        configuration;
    // The page size counts until the first table is made; exclusive locking is what lets WAL do without
    // shared memory, so it comes before the journal.
    if let Some(bytes) = page_bytes {
        if !bytes.is_power_of_two() || !(512..=LARGEST_PAGE_BYTES).contains(bytes) {
            return Err(Error::user(format!("a page cannot have {bytes} bytes"))
                .hint("page_bytes must be a power of two from 512 to 65536"));
        }
        let hint = "a database keeps its original page size: reload it with this page_bytes";
        set(connection, "page_size", &bytes.to_string(), &bytes.to_string(), hint)?;
    }
    if let Some(word) = locking_mode {
        let word = known("locking_mode", word, &LOCKING_MODES)?;
        set(connection, "locking_mode", word, word, "omit locking_mode for this engine")?;
    }
    if let Some(word) = journal_mode {
        let word = known("journal_mode", word, &JOURNAL_MODES)?;
        let hint = match word {
            "wal" => {
                "WAL requires shared memory on the volume (unsupported on JFFS2): set locking_mode = \
                \"exclusive\""
            }
            _ => "omit journal_mode for this engine, or set the one in force",
        };
        // A transaction whose changes do not fit the cache has a journal in spite of them, which is deleted.
        let mode = if word == atomic::WORD { "delete" } else { word };
        set(connection, "journal_mode", mode, mode, hint)?;
        if word == atomic::WORD {
            connection.has_atomic_writes()?;
        }
    }
    if let Some(word) = synchronous {
        let word = known("synchronous", word, &SYNCHRONOUS)?;
        let number = SYNCHRONOUS.iter().position(|s| *s == word).unwrap_or_default().to_string();
        set(connection, "synchronous", word, &number, "omit synchronous for this engine")?;
    }
    if let Some(bytes) = cache_bytes {
        if bytes % 1024 != 0 || *bytes == 0 {
            return Err(Error::user(format!("a cache cannot have {bytes} bytes"))
                .hint("cache_bytes must be a multiple of 1024, at least 1024"));
        }
        let size = cache_size(connection, *bytes)?;
        set(connection, "cache_size", &size, &size, "omit cache_bytes for this engine")?;
    }
    Ok(())
}

/// A cache's size as the pragma takes it: in KiB where it is negative, which SQLite has from 3.7.10 on; in
/// pages for Berkeley DB, whose SQLite is older and drops the sign.
fn cache_size(connection: &Connection, bytes: u64) -> Result<String> {
    if connection.engine != DatabaseEngine::Bdb.name() {
        return Ok(format!("-{}", bytes / 1024));
    }
    let page = connection.word("PRAGMA page_size")?;
    let page_bytes = page.and_then(|p| p.parse::<u64>().ok()).filter(|b| *b > 0);
    let page_bytes = page_bytes.ok_or_else(|| Error::board("bdb does not report its page size"))?;
    Ok((bytes / page_bytes).max(1).to_string())
}

fn known<'w>(name: &str, word: &'w str, words: &[&str]) -> Result<&'w str> {
    match words.contains(&word) {
        true => Ok(word),
        false => {
            Err(Error::user(format!("{name} has no value `{word}`")).hint(format!("{name}: {}", words.join(", "))))
        }
    }
}

fn set(connection: &Connection, name: &str, value: &str, expected: &str, hint: &str) -> Result<()> {
    let not_set = || format!("{name}={value} was requested of {}", connection.engine);
    let answer = connection
        .word(&format!("PRAGMA {name}={value}"))
        .map_err(|e| Error::board(format!("{}, which refused it", not_set())).because(e).hint(hint))?;
    // Some pragmas answer with what is in force now, others with nothing. Asking again is the same for all,
    // but Berkeley DB repeats a word then that it did not take.
    let in_force = match answer {
        Some(word) if !word.eq_ignore_ascii_case(expected) => Some(word),
        _ => connection.word(&format!("PRAGMA {name}"))?,
    };
    match in_force.as_deref() {
        Some(word) if word.eq_ignore_ascii_case(expected) => Ok(()),
        Some(word) => {
            let word = match name {
                "synchronous" => word.parse().ok().and_then(|n: usize| SYNCHRONOUS.get(n).copied()).unwrap_or(word),
                _ => word,
            };
            Err(Error::board(format!("{}, {word} is in force ({})", not_set(), connection.file)).hint(hint))
        }
        None => Err(Error::board(format!("{}, which does not support it", not_set())).hint(hint)),
    }
}
