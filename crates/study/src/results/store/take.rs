//! Cells that go from one run's results into another's, row by row as they are.

use super::origin::{Holds, TABLES};
use super::{FILE, Store};
use crate::results::left_out::LeftOut;
use crate::specification::factor::{Point, describe};
use crate::specification::shares::{FACT, Share};
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// The tables of what was measured, those first that others refer to. Everything else follows from them.
fn tables() -> impl Iterator<Item = &'static str> {
    let measured = TABLES.iter().filter(|(_, holds)| *holds == Holds::Measured).map(|(name, _)| *name);
    ["cell", "metric"].into_iter().chain(measured)
}

impl Store {
    /// Which shard of a run this is; `None` for a whole one.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read, or are damaged.
    pub fn share(&self) -> Result<Option<Share>> {
        let read = |text: String| serde_json::from_str(&text);
        let damaged = || format!("the fact `{FACT}` of {} is damaged", self.folder.display());
        self.fact(FACT)?.map(read).transpose().user(damaged)
    }

    /// What a run could not have.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read.
    pub fn left_out(&self) -> Result<Vec<LeftOut>> {
        let sql = "SELECT what, why, cure FROM left_out ORDER BY what, why";
        self.rows(sql, [], |r| Ok(LeftOut { what: r.get(0)?, why: r.get(1)?, cure: r.get(2)? }))
    }

    /// Adds all cells of another run that these results lack, under the same numbers, and returns how many: all of
    /// them, or none.
    ///
    /// # Errors
    /// `ErrorKind::User` if they cannot be read or written.
    pub(in crate::results) fn take(&mut self, other: &Store) -> Result<usize> {
        let failed = self.failed();
        beside(&self.db, other, |db| {
            let transaction = db.unchecked_transaction()?;
            // Found before any row is added.
            transaction.execute_batch(
                "CREATE TEMP TABLE taken AS SELECT id FROM other.cell AS o WHERE NOT EXISTS (
                     SELECT 1 FROM main.cell AS c
                     WHERE (c.experiment, c.point, c.seed, c.traced) = (o.experiment, o.point, o.seed, o.traced));
                 CREATE UNIQUE INDEX temp.taken_id ON taken (id);",
            )?;
            let mut cells = 0;
            // Results of an earlier version may lack a table of what they do not have.
            let has = "SELECT count(*) > 0 FROM other.sqlite_schema WHERE type = 'table' AND name = ?1";
            for table in tables() {
                if !transaction.query_row(has, [table], |r| r.get::<_, bool>(0))? {
                    continue;
                }
                let cell = if table == "cell" { "id" } else { "cell" };
                let sql = format!(
                    "INSERT INTO main.{table} SELECT * FROM other.{table} WHERE {cell} IN (SELECT id FROM temp.taken)"
                );
                let rows = transaction.execute(&sql, [])?;
                cells += if table == "cell" { rows } else { 0 };
            }
            transaction.execute_batch("DROP TABLE temp.taken")?;
            transaction.commit()?;
            Ok(cells)
        })
        .map_err(failed)
    }
}

/// Of the cells that both have, and one of them has measured: how many gave the same, and the others in words.
///
/// # Errors
/// `ErrorKind::User` if they cannot be read.
pub(in crate::results) fn repeated(store: &Store, other: &Store) -> Result<(usize, Vec<String>)> {
    let sql = "SELECT c.experiment, c.point, c.seed, c.status = o.status AND c.digest IS o.digest
               FROM main.cell c JOIN other.cell o USING (experiment, point, seed, traced)
               WHERE c.status = 'done' OR o.status = 'done' ORDER BY c.id";
    let ask = |db: &Connection| -> rusqlite::Result<Vec<(String, String, i64, bool)>> {
        let mut query = db.prepare(sql)?;
        query.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?.collect()
    };
    let rows = beside(&store.db, other, ask).map_err(store.failed())?;
    let (same, different): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(.., same)| *same);
    let words = |(experiment, point, seed, _): (String, String, i64, bool)| {
        let point: Point = serde_json::from_str(&point).unwrap_or_default();
        let names: Vec<&str> = point.keys().map(String::as_str).collect();
        format!("{experiment}: {} seed={seed}", describe(&point, &names))
    };
    Ok((same.len(), different.into_iter().map(words).collect()))
}

/// The path of a file as SQLite takes it for one: what begins with `file:` would be a URI.
pub(super) fn no_uri(path: &Path) -> std::io::Result<PathBuf> {
    std::path::absolute(path)
}

/// Does something with another run's results as the schema `other` beside a connection's own.
fn beside<T>(
    db: &Connection,
    other: &Store,
    run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let path = no_uri(&other.folder.join(FILE)).map_err(|_| rusqlite::Error::InvalidPath(other.folder.clone()))?;
    db.execute("ATTACH ?1 AS other", [path.as_os_str().as_encoded_bytes()])?;
    let done = run(db);
    let detached = db.execute_batch("DETACH other");
    let done = done?;
    detached.map(|()| done)
}
