//! Results of which a killed run has left a transaction half written: SQLite's journal beside them is hot.

use super::{FILE, Store};
use crate::results::store::lock::RunLock;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rusqlite::{Connection, OpenFlags, ffi};
use std::path::Path;

/// Undoes what is half written before a connection that only reads, and so cannot, meets it.
pub(super) fn undo(reader: &Connection, folder: &Path) -> Result<()> {
    let hot =
        |error: rusqlite::Error| error.sqlite_error().map(|e| e.extended_code) == Some(ffi::SQLITE_READONLY_ROLLBACK);
    // Whatever else is wrong, the first query says.
    if !read(reader).is_err_and(hot) {
        return Ok(());
    }
    let undone = || -> Result<()> {
        let _lock = RunLock::take(folder)?;
        let writer = Store::connect(&folder.join(FILE), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        read(&writer).user(|| format!("cannot write to {}", folder.display()))
    };
    undone().map_err(|error| {
        Error::user(format!("a run was killed while it stored a cell in {}", folder.display()))
            .because(error)
            .hint(format!("go on with it: pocketstone run --resume {}", folder.display()))
    })
}

fn read(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("SELECT count(*) FROM main.sqlite_schema", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn results_of_a_run_that_was_killed_in_a_transaction_are_read_as_they_were_before_it() {
        let home = tempfile::tempdir().unwrap();
        let [live, killed] = ["live", "killed"].map(|name| home.path().join(name));
        drop(Store::create(&live, [("study.name", "s")]).unwrap());
        let db = Connection::open(live.join(FILE)).unwrap();
        // So little memory has pages written, and the journal before them, while the transaction is under way.
        db.execute_batch("PRAGMA cache_size = 2; BEGIN; UPDATE run SET value = 'half';").unwrap();
        for n in 0..200 {
            db.execute("INSERT INTO run VALUES (?1, ?2)", (format!("fact {n}"), "x".repeat(1000))).unwrap();
        }
        fs::create_dir(&killed).unwrap();
        let journal = format!("{FILE}-journal");
        for name in [FILE, &journal] {
            fs::copy(live.join(name), killed.join(name)).unwrap();
        }
        let store = Store::open(&killed, false).unwrap();
        assert_eq!(store.facts().unwrap(), [("study.name".to_owned(), "s".to_owned())]);
        let names = fs::read_dir(&killed).unwrap().flatten().map(|entry| entry.file_name());
        assert_eq!(names.collect::<Vec<_>>(), [FILE]);
    }
}
