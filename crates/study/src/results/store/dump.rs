//! Whole tables, row by row: they may be longer than memory.

use super::{FILE, Store};
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use rusqlite::types::ValueRef;

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
pub const TABLES: [(&str, &str); 11] = [
    ("run", "SELECT name, value FROM run ORDER BY name"),
    ("cells", "SELECT * FROM cells ORDER BY id"),
    ("metrics", "SELECT cell, name AS metric, value FROM metric ORDER BY cell, name"),
    ("calls", "SELECT cell, number, start_ns, latency_ns, intended_ns FROM call ORDER BY cell, number"),
    ("operations", "SELECT * FROM operation_cost ORDER BY cell, number"),
    ("statements", "SELECT cell, number, sql FROM operation_sql ORDER BY cell, number"),
    ("files", "SELECT * FROM file_cost ORDER BY cell, file"),
    ("flash_operations", "SELECT * FROM flash_op ORDER BY cell, number"),
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
    /// Reads in one transaction: a run that goes on meanwhile waits, and all tables are of the same moment.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read; the errors of `read`.
    pub fn at_one_moment<T>(&self, read: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        // Dropped, it is rolled back: nothing was written.
        let began = self.db.unchecked_transaction();
        let _transaction = began.user(|| format!("cannot read {}", self.folder.join(FILE).display()))?;
        read(self)
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
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
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
            .at_one_moment(|store| {
                let before = facts(store)?;
                // The writer has to wait, or what it writes is not seen; which of the two is SQLite's affair.
                let written = writes.set_facts([("new", "1")]);
                assert_eq!(facts(store)?, before, "{written:?}");
                Ok(())
            })
            .unwrap();
        let before = facts(&reads).unwrap();
        writes.set_facts([("newer", "1")]).unwrap();
        assert_eq!(facts(&reads).unwrap(), before + 1);
    }
}
