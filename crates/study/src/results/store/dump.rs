//! Whole tables, row by row: they may be longer than memory.

use super::{FILE, Store};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rusqlite::types::ValueRef;
use std::path::Path;

/// A value of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<'a> {
    /// Unavailable.
    Nothing,
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(&'a str),
}

/// What of the results makes a table for other programs: its name, and the query. Columns are as docs/results.md has
/// them; factors are columns of their own.
pub const TABLES: [(&str, &str); 12] = [
    ("run", "SELECT name, value FROM run ORDER BY name"),
    ("cells", "SELECT * FROM cells ORDER BY id"),
    ("metrics", "SELECT cell, name AS metric, value FROM metric ORDER BY cell, name"),
    ("calls", "SELECT cell, number, start_ns, latency_ns, intended_ns FROM call ORDER BY cell, number"),
    ("operations", "SELECT * FROM operation_cost ORDER BY cell, number"),
    ("statements", "SELECT cell, number, sql FROM operation_sql ORDER BY cell, number"),
    ("files", "SELECT * FROM file_cost ORDER BY cell, file"),
    ("flash_operations", "SELECT * FROM flash_op ORDER BY cell, number"),
    ("block_requests", "SELECT * FROM block_request ORDER BY cell, number"),
    ("statistics", "SELECT * FROM summary"),
    ("improvements", "SELECT * FROM improvement"),
    ("left_out", "SELECT what, why, cure FROM left_out ORDER BY what, why"),
];

/// A line of a table.
#[derive(Debug, Clone, Copy)]
pub enum Line<'a> {
    /// The first one: the names of the columns.
    Names(&'a [&'a str]),
    /// A row.
    Fields(&'a [Field<'a>]),
}

impl Store {
    /// Reads a copy, so that all tables are of the same moment: a run that goes on meanwhile waits while it is made,
    /// and not while it is read. It is in `folder` until then.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read, or the copy cannot be written; the errors of `read`.
    pub fn at_one_moment<T>(&self, folder: &Path, read: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        let failed = || format!("cannot copy {} to {}", self.folder.join(FILE).display(), folder.display());
        let place = tempfile::tempdir_in(folder).user(failed)?;
        let copy = place.path().join(FILE);
        let name = copy.to_str().ok_or_else(|| Error::user(failed()).hint("choose a folder whose name is UTF-8"))?;
        self.db.execute("VACUUM INTO ?1", [name]).user(failed)?;
        read(&Store::open(place.path(), false)?)
    }

    /// Tells the lines of a query of [`TABLES`].
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read; the errors of `tell`.
    pub fn dump(&self, sql: &str, mut tell: impl FnMut(Line<'_>) -> Result<()>) -> Result<()> {
        let failed = || format!("cannot read {}", self.folder.join(FILE).display());
        let mut statement = self.db.prepare(sql).user(failed)?;
        let columns = statement.column_count();
        tell(Line::Names(&statement.column_names()))?;
        let mut rows = statement.query([]).user(failed)?;
        while let Some(found) = rows.next().user(failed)? {
            let mut fields = Vec::with_capacity(columns);
            for column in 0..columns {
                fields.push(match found.get_ref(column).user(failed)? {
                    ValueRef::Integer(n) => Field::Integer(n),
                    ValueRef::Real(x) => Field::Real(x),
                    ValueRef::Text(text) => Field::Text(std::str::from_utf8(text).user(failed)?),
                    ValueRef::Null | ValueRef::Blob(_) => Field::Nothing,
                });
            }
            tell(Line::Fields(&fields))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_meanwhile_is_in_no_table() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        drop(Store::create(&folder, []).unwrap());
        let (reads, writes) = (Store::open(&folder, false).unwrap(), Store::open(&folder, true).unwrap());
        writes.db.busy_timeout(std::time::Duration::ZERO).unwrap();
        let facts = |store: &Store| {
            let mut lines = 0;
            let told = store.dump(TABLES[0].1, |_| {
                lines += 1;
                Ok(())
            });
            told.map(|()| lines)
        };
        reads
            .at_one_moment(place.path(), |store| {
                let before = facts(store)?;
                // Whoever writes does not wait, in the middle of a table either.
                let mut first = true;
                store.dump(TABLES[0].1, |_| {
                    if std::mem::take(&mut first) {
                        writes.set_facts([("new", "1")])?;
                    }
                    Ok(())
                })?;
                assert_eq!(facts(store)?, before);
                Ok(())
            })
            .unwrap();
        let before = facts(&reads).unwrap();
        writes.set_facts([("newer", "1")]).unwrap();
        assert_eq!(facts(&reads).unwrap(), before + 1);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "the copy is gone");
    }

    #[test]
    fn whoever_finds_the_results_in_use_is_told_so() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        drop(Store::create(&folder, []).unwrap());
        let (reads, writes) = (Store::open(&folder, false).unwrap(), Store::open(&folder, true).unwrap());
        writes.db.busy_timeout(std::time::Duration::ZERO).unwrap();
        let reading = reads.db.unchecked_transaction().unwrap();
        reads.facts().unwrap();
        let error = writes.set_facts([("new", "1")]).unwrap_err();
        assert!(error.chain().contains("another program reads"), "{}", error.chain());
        assert!(!error.chain().contains("disk") && error.cure().is_some_and(|cure| cure.contains("--resume")));
        drop(reading);
        writes.set_facts([("new", "1")]).unwrap();
    }
}
