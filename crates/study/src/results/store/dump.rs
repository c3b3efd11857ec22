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
pub const TABLES: [(&str, &str); 10] = [
    ("run", "SELECT name, value FROM run ORDER BY name"),
    ("cells", "SELECT * FROM cells ORDER BY id"),
    ("metrics", "SELECT cell, name AS metric, value FROM metric ORDER BY cell, name"),
    ("calls", "SELECT cell, number, start_ns, latency_ns, intended_ns FROM call ORDER BY cell, number"),
    ("operations", "SELECT * FROM operation_cost ORDER BY cell, number"),
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
