//! What a database holds after its machine lost power, and what it held after each of its operations.

use super::key_value::{KeyValue, Make, Next, See, Store};
use super::lmdb::Lmdb;
use super::record::digest_row;
use super::redb::Redb;
use super::run::Operations;
use super::session::{execute_loading, file};
use super::sqlite::{Connection, Sql};
use super::{Database, pragma, sqlite_api};
use pocketstone_core::database::{Arrival, Configuration, DatabaseEngine, SqlForm};
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{ResultDigest, Trace};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// A database as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// What `PRAGMA integrity_check` says first; `ok` if it finds nothing.
    pub integrity: String,
    /// Digest of all rows of all tables.
    pub state: String,
}

fn open(path: &Path) -> Result<Connection> {
    pragma::open(&sqlite_api::BUNDLED, "sqlite", path, &Configuration::default())
}

/// Opens a database file, with whatever journal lies beside it, and looks at all of it.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be opened or read.
pub fn inspect(path: &Path) -> Result<Inspected> {
    let connection = open(path)?;
    let integrity = connection.word("PRAGMA integrity_check")?.unwrap_or_default();
    Ok(Inspected { integrity, state: state(&connection)? })
}

/// Opens the database of a key-value engine in a folder, and reads all of it; the digest of its rows.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be opened or read, or its own check finds it damaged; `ErrorKind::User` for an
/// engine that is none.
pub fn inspect_rows(engine: DatabaseEngine, directory: &Path) -> Result<String> {
    let configuration = Configuration::default();
    match engine {
        DatabaseEngine::Lmdb => rows(&mut Lmdb::open(directory, &configuration, 1)?),
        DatabaseEngine::Redb => {
            let mut store = Redb::open(&file(engine, directory), &configuration)?;
            store.check()?;
            rows(&mut store)
        }
        other => Err(Error::user(format!("{} is no key-value engine", other.name()))),
    }
}

/// A digest of all rows of a store, in the order of their keys.
fn rows(store: &mut dyn Store) -> Result<String> {
    let mut digest = ResultDigest::default();
    store.scan(Bound::Unbounded, &mut |key, record| digest_row(key, record, &mut digest).map(|()| true))?;
    Ok(digest.text())
}

/// The store that says what others should hold.
#[derive(Default)]
struct InMemory(BTreeMap<Vec<u8>, Vec<u8>>);

impl Store for InMemory {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Result<()> {
        self.0.get(key).map_or(Ok(false), |record| see(key, record)).map(drop)
    }

    fn scan(&mut self, from: Bound<&[u8]>, see: See<'_>) -> Result<()> {
        for (key, record) in self.0.range::<[u8], _>((from, Bound::Unbounded)) {
            if !see(key, record)? {
                break;
            }
        }
        Ok(())
    }

    fn change(&mut self, key: &[u8], record: &mut Vec<u8>, make: Make<'_>) -> Result<()> {
        if make(self.0.get(key).map(Vec::as_slice), record)? {
            self.0.insert(key.to_vec(), record.clone());
        }
        Ok(())
    }

    fn load(&mut self, next: Next<'_>) -> Result<()> {
        let (mut key, mut record) = (Vec::new(), Vec::new());
        while next(&mut key, &mut record)? {
            self.0.insert(key.clone(), record.clone());
        }
        Ok(())
    }
}

fn states_of_rows(engine: DatabaseEngine, trace: &Arc<Trace>) -> Result<Vec<String>> {
    let steps = trace.measured();
    let mut database = KeyValue::new(InMemory::default(), engine, trace.clone(), steps)?;
    database.load()?;
    let mut states = vec![rows(database.store())?];
    let mut digest = ResultDigest::default();
    for range in Operations::new(trace, Arrival::Closed)?.steps() {
        for number in range {
            database.execute(number, &steps[number], &mut digest)?;
        }
        states.push(rows(database.store())?);
    }
    Ok(states)
}

/// The digest of a workload's database before its first operation and after each: of what is committed. What SQLite and
/// [`inspect`] say of a database, or for key-value engines [`inspect_rows`].
///
/// # Errors
/// The error of the statement that SQLite cannot execute; `ErrorKind::User` if a key-value engine has no such
/// operations.
pub fn states(engine: DatabaseEngine, trace: &Arc<Trace>) -> Result<Vec<String>> {
    if !engine.speaks_sql() {
        return states_of_rows(engine, trace);
    }
    let mut connection = open(Path::new(":memory:"))?;
    connection.fill(&trace.image)?;
    let steps = trace.measured();
    let mut sql: Sql = execute_loading(connection, trace)?.go_on(steps, SqlForm::Prepared)?;
    let mut committed = state(sql.connection())?;
    let mut states = vec![committed.clone()];
    let mut digest = ResultDigest::default();
    for range in Operations::new(trace, Arrival::Closed)?.steps() {
        for number in range {
            sql.execute(number, &steps[number], &mut digest)?;
        }
        if sql.connection().is_committed() {
            committed = state(sql.connection())?;
        }
        states.push(committed.clone());
    }
    Ok(states)
}

/// A digest of all rows of all tables, by the tables' names and the order in which they are stored.
fn state(connection: &Connection) -> Result<String> {
    const TABLES: &str = "SELECT group_concat('SELECT ' || quote(name) || ', * FROM \"' || replace(name, '\"', '\"\"') \
                          || '\"', ';') FROM (SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name)";
    let mut digest = ResultDigest::default();
    if let Some(text) = connection.word(TABLES)? {
        let text = CString::new(text).map_err(|e| pocketstone_core::Error::bug("a NUL in a name").because(e))?;
        connection.execute(&text, std::iter::empty(), &mut digest)?;
    }
    Ok(digest.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{Session, load};
    use pocketstone_core::database::{DatabaseWorkload, Recipe};
    use pocketstone_workload::database::prepare;

    #[test]
    fn a_state_is_that_of_the_rows_and_an_open_transaction_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE b(x); CREATE TABLE a(k PRIMARY KEY, v) WITHOUT ROWID").unwrap();
        let seen = || inspect(&path).unwrap();
        let empty = seen();
        assert_eq!(empty.integrity, "ok");
        other.execute_batch("INSERT INTO a VALUES(1, 'one')").unwrap();
        let one = seen();
        assert_ne!(one.state, empty.state);
        // The same row in another table is another state.
        other.execute_batch("DELETE FROM a; INSERT INTO b VALUES('one')").unwrap();
        assert!(![&one.state, &empty.state].contains(&&seen().state));
        other.execute_batch("DELETE FROM b; BEGIN; INSERT INTO a VALUES(1, 'one')").unwrap();
        assert_eq!(seen().state, empty.state);
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(seen().state, one.state);
    }

    #[test]
    fn updates_change_the_state_and_reads_do_not() {
        let recipe = Recipe { records: 10, operations: 40, ..Recipe::new(DatabaseWorkload::YcsbA) };
        let trace = Arc::new(prepare(&recipe, 3).unwrap());
        let states = states(DatabaseEngine::Sqlite, &trace).unwrap();
        assert_eq!(states.len(), 41);
        let operations: Vec<bool> =
            trace.measured().iter().map(|step| trace.statement(step).text.starts_with("UPDATE")).collect();
        assert_eq!(operations.len(), 40, "one statement each");
        for (n, update) in operations.iter().enumerate() {
            assert_eq!(states[n] != states[n + 1], *update, "operation {n}");
        }
        assert!(operations.contains(&true) && operations.contains(&false));
    }

    /// What the engines themselves hold after the same operations is what the map in memory held.
    #[test]
    fn key_value_engines_hold_the_last_of_the_states() {
        let recipe = Recipe { records: 20, operations: 60, ..Recipe::new(DatabaseWorkload::YcsbD) };
        let trace = Arc::new(prepare(&recipe, 3).unwrap());
        for engine in [DatabaseEngine::Lmdb, DatabaseEngine::Redb] {
            let states = states(engine, &trace).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let spec = crate::database::tests::spec(engine);
            load(&spec, folder.path(), &trace).unwrap();
            assert_eq!(inspect_rows(engine, folder.path()).unwrap(), states[0], "{engine:?}");
            Session::open(&spec, folder.path(), trace.clone()).unwrap().run().unwrap();
            assert_eq!(inspect_rows(engine, folder.path()).unwrap(), states[60], "{engine:?}");
            let distinct: std::collections::BTreeSet<&String> = states.iter().collect();
            assert!((2..20).contains(&distinct.len()), "5 % of 60 insert a row: {}", distinct.len());
            // Another file in its place, or a part of it.
            let path = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
            let path = path.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            let end = bytes.len();
            bytes[..end / 2].fill(0x5a);
            std::fs::write(&path, bytes).unwrap();
            assert!(inspect_rows(engine, folder.path()).is_err(), "{engine:?}");
        }
        assert!(inspect_rows(DatabaseEngine::Sqlite, Path::new("/")).is_err());
    }

    #[test]
    fn a_damaged_file_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let other = rusqlite::Connection::open(&path).unwrap();
        other
            .execute_batch(
                "CREATE TABLE a(x); WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n WHERE i < 900)
                            INSERT INTO a SELECT hex(randomblob(50)) FROM n",
            )
            .unwrap();
        drop(other);
        let mut bytes = std::fs::read(&path).unwrap();
        let end = bytes.len();
        bytes[end / 2..end / 2 + 4096].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
        let found = inspect(&path);
        assert!(found.map_or(true, |inspected| inspected.integrity != "ok"));
        std::fs::write(&path, b"not a database at all, but long enough to be looked at").unwrap();
        assert!(inspect(&path).is_err());
    }
}
