//! What a SQLite database holds after its machine lost power, and what it held after each of its operations.

use super::run::Operations;
use super::session::execute_loading;
use super::sqlite::{Connection, Sql};
use super::{Database, sqlite_api};
use pocketstone_core::Result;
use pocketstone_core::database::{Arrival, Configuration, SqlForm};
use pocketstone_workload::database::{ResultDigest, Trace};
use std::ffi::CString;
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
    Connection::open(&sqlite_api::BUNDLED, "sqlite", path, &Configuration::default())
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

/// The digest of a workload's database before its first operation and after each: of what is committed.
///
/// # Errors
/// The error of the statement that SQLite cannot execute.
pub fn states(trace: &Arc<Trace>) -> Result<Vec<String>> {
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
        let states = states(&trace).unwrap();
        assert_eq!(states.len(), 41);
        let operations: Vec<bool> =
            trace.measured().iter().map(|step| trace.statement(step).text.starts_with("UPDATE")).collect();
        assert_eq!(operations.len(), 40, "one statement each");
        for (n, update) in operations.iter().enumerate() {
            assert_eq!(states[n] != states[n + 1], *update, "operation {n}");
        }
        assert!(operations.contains(&true) && operations.contains(&false));
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
