//! The results of one run: a folder with one SQLite file.

mod busy;
pub mod dump;
mod file_cost;
mod functions;
mod hot;
mod lock;
mod logs;
mod origin;
mod replay_views;
mod schema;
mod select;
mod sql;
pub(in crate::results) mod statements;
mod take;

pub use select::select;
pub(in crate::results) use take::repeated;

use crate::results::left_out::LeftOut;
use crate::results::metrics::{analysis, put_metrics};
use crate::results::statistics;
use crate::results::stats::{Spread, Statistic};
use crate::results::store::lock::RunLock;
use crate::results::store::origin::Seen;
use crate::specification::cell::Cell;
use crate::specification::factor::Point;
use crate::specification::study::Study;
use pocketstone_board::{Failed, Measured};
use pocketstone_core::block_log::encode_block;
use pocketstone_core::bytes::hexadecimal;
use pocketstone_core::error::Context;
use pocketstone_core::events::EventLog;
use pocketstone_core::events_log::{decode_events, encode_events};
use pocketstone_core::log::{Call, FlashKind, FlashLog, FlashOp, encode_calls, encode_flash};
use pocketstone_core::outcome::Facts;
use pocketstone_core::outcome::Failure;
use pocketstone_core::{Error, Result};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the results file in a run's folder.
pub const FILE: &str = "results.sqlite";
/// Its name while it is made.
const BEGUN: &str = "results.sqlite-begun";

/// A run's results.
pub struct Store {
    pub(crate) db: Connection,
    folder: PathBuf,
    /// What a query of the user's may take.
    limit: Duration,
    /// What queries have read.
    seen: Seen,
    /// Nobody else writes to the folder while this is there.
    _lock: Option<RunLock>,
}

/// The key of a cell: experiment, point (JSON), seed, traced.
pub type CellKey = (String, String, u64, bool);

/// The key of a cell.
pub fn key(cell: &Cell) -> Result<CellKey> {
    Ok((cell.experiment.clone(), point_text(&cell.point)?, cell.plan.seed, cell.traced))
}

fn point_text(point: &Point) -> Result<String> {
    serde_json::to_string(point).map_err(|e| Error::bug("a point is not valid JSON").because(e))
}

/// A cell as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCell {
    /// Row.
    pub id: i64,
    /// Experiment.
    pub experiment: String,
    /// Factors.
    pub point: Point,
    /// Seed.
    pub seed: u64,
    /// Whether it is a traced twin.
    pub traced: bool,
    /// Digest of its logs; `None` if it failed.
    pub digest: Option<String>,
}

/// A metric of a point over its seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Summarized {
    /// Experiment.
    pub experiment: String,
    /// Factors.
    pub point: Point,
    /// Metric.
    pub metric: String,
    /// Its statistic.
    pub statistic: Statistic,
}

impl Store {
    /// Refuses a folder that new results cannot go into: it has some, or files of others.
    ///
    /// # Errors
    /// `ErrorKind::User` if it has, or it cannot be listed.
    pub fn refuse_taken(folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        if path.exists() {
            return Err(Error::user(format!("{} already exists", path.display()))
                .hint(format!("resume it: --resume {}", folder.display())));
        }
        let entries = match fs::read_dir(folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries.user(|| format!("cannot use {} for results", folder.display()))?,
        };
        // A run that is just beginning there has no more than these, and one that was killed then leaves them.
        match entries.flatten().map(|e| e.file_name()).find(|name| name != lock::FILE && name != BEGUN) {
            None => Ok(()),
            Some(other) => {
                let (folder, other) = (folder.display(), other.to_string_lossy());
                Err(Error::user(format!("{folder} holds other files, such as {other}"))
                    .hint("choose an empty or new folder"))
            }
        }
    }

    /// Creates the results of a new run in `folder`, which must not have any. They are there with all of `facts`
    /// or not at all, whenever the process is killed: without them a run cannot go on.
    ///
    /// # Errors
    /// `ErrorKind::User` if it has, or it cannot be written.
    pub fn create<'a>(folder: &Path, facts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        Self::refuse_taken(folder)?;
        fs::create_dir_all(folder).user(|| format!("cannot create {}", folder.display()))?;
        let lock = RunLock::take(folder)?;
        // Whoever had it before may have left results.
        Self::refuse_taken(folder)?;
        let (path, begun) = (folder.join(FILE), folder.join(BEGUN));
        let failed = || format!("cannot write {} (is the disk full?)", path.display());
        if begun.exists() {
            fs::remove_file(&begun).user(failed)?;
        }
        // One file without a journal beside it: whoever is killed here leaves nothing that anybody reads.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let db = Self::connect(&begun, flags)?;
        db.execute_batch(&format!("PRAGMA journal_mode = MEMORY; {}", schema::whole())).user(failed)?;
        for (name, value) in facts {
            db.execute("INSERT OR REPLACE INTO run VALUES (?1, ?2)", [name, value]).user(failed)?;
        }
        drop(db);
        fs::rename(&begun, &path).user(failed)?;
        Self::over(Self::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?, folder, schema::KEPT, Some(lock))
    }

    /// Opens the results of a run to read them, or to add to them.
    ///
    /// # Errors
    /// `ErrorKind::User` if there are none, or their version is unsupported.
    pub fn open(folder: &Path, write: bool) -> Result<Self> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Err(Error::user(format!("{} holds no results (no {FILE})", folder.display()))
                .hint("specify a folder created by `pocketstone run`, such as results/readahead-quick-..."));
        }
        let lock = write.then(|| RunLock::take(folder)).transpose()?;
        let flags = if write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        let db = Self::connect(&path, flags)?;
        match write {
            true => db.busy_timeout(busy::PATIENCE).user(|| format!("cannot open {}", path.display()))?,
            false => hot::undo(&db, folder)?,
        }
        let names = schema::bring_up_to_date(&db, &path, write)?;
        Self::over(db, folder, names, lock)
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
        let failed = || format!("cannot open {}", path.display());
        let db = Connection::open_with_flags(take::no_uri(path).user(failed)?, flags).user(failed)?;
        db.busy_timeout(std::time::Duration::from_secs(10)).user(failed)?;
        db.execute_batch("PRAGMA foreign_keys = ON;").user(failed)?;
        Ok(db)
    }

    /// Results over a connection that has all their tables.
    fn over(db: Connection, folder: &Path, names: schema::Names, lock: Option<RunLock>) -> Result<Self> {
        let watched = origin::watch(&db, &names, &schema::views());
        let seen = watched.user(|| format!("cannot read {}", folder.join(FILE).display()))?;
        Ok(Store { db, folder: folder.to_owned(), limit: sql::LIMIT, seen, _lock: lock })
    }

    /// Empty results in memory, to check queries on: those may take less time.
    ///
    /// # Errors
    /// `ErrorKind::User` if memory is short.
    pub(crate) fn to_check() -> Result<Self> {
        let failed = || "cannot create results in memory".to_owned();
        let db = Connection::open_in_memory().user(failed)?;
        db.execute_batch(&schema::whole()).user(failed)?;
        Ok(Store { limit: sql::CHECK_LIMIT, ..Self::over(db, Path::new(""), schema::KEPT, None)? })
    }

    /// Runs a query with a text of the user's in it, within the time that those have; `text` is the user's.
    ///
    /// # Errors
    /// `ErrorKind::User` for invalid SQL, or if it takes too long; the message quotes only the user's part of the
    /// query.
    pub(crate) fn asked<T>(
        &self,
        text: &str,
        sql: &str,
        parameters: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        sql::limited(&self.db, self.limit, text, |db| db.prepare(sql)?.query_map(parameters, read)?.collect())
    }

    /// As [`Store::asked`], for whatever is done with a query that is the user's from end to end.
    pub(crate) fn limited<T>(&self, text: &str, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        sql::limited(&self.db, self.limit, text, run)
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Sets facts of the run.
    ///
    /// # Errors
    /// `ErrorKind::User` if they cannot be written.
    pub fn set_facts<'a>(&self, facts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<()> {
        // All or none: who goes on with a run compares them.
        let together = self.db.unchecked_transaction().map_err(self.failed())?;
        for (name, value) in facts {
            together.execute("INSERT OR REPLACE INTO run VALUES (?1, ?2)", [name, value]).map_err(self.failed())?;
        }
        together.commit().map_err(self.failed())
    }

    /// A fact of the run.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file cannot be read.
    pub fn fact(&self, name: &str) -> Result<Option<String>> {
        self.db
            .query_row("SELECT value FROM run WHERE name = ?1", [name], |r| r.get(0))
            .optional()
            .map_err(self.failed())
    }

    /// Whether the board of the run repeats to the bit: its times are virtual, and none of them is noise. Results that
    /// were stored before boards said so are known by their kind of board.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file cannot be read.
    pub fn repeats_to_the_bit(&self) -> Result<bool> {
        Ok(match self.fact("board.repeats_to_the_bit")? {
            Some(word) => word == "yes",
            None => self.fact("board.kind")?.as_deref() == Some("virtual"),
        })
    }

    /// All facts of the run, by name.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file cannot be read.
    pub fn facts(&self) -> Result<Vec<(String, String)>> {
        self.rows("SELECT name, value FROM run ORDER BY name", [], |r| Ok((r.get(0)?, r.get(1)?)))
    }

    /// What the board said of itself, by name.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file cannot be read.
    pub fn board_facts(&self) -> Result<Facts> {
        let of_board = |(name, value): (String, String)| Some((name.strip_prefix("fact.")?.to_owned(), value));
        Ok(self.facts()?.into_iter().filter_map(of_board).collect())
    }

    /// Rows of a query.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let query = || -> rusqlite::Result<Vec<T>> { self.db.prepare(sql)?.query_map(parameters, read)?.collect() };
        query().user(|| format!("cannot query {}", self.folder.join(FILE).display()))
    }

    /// Names of a query's columns.
    pub(crate) fn columns(&self, sql: &str) -> Result<Vec<String>> {
        let names = |s: rusqlite::Statement<'_>| s.column_names().into_iter().map(str::to_owned).collect();
        self.limited(sql, |db| db.prepare(sql).map(names))
    }

    /// Heads and rows of any query, as text; NULL is `unavailable`.
    pub(crate) fn table(&self, sql: &str) -> Result<(Vec<String>, Vec<Vec<String>>)> {
        use rusqlite::types::ValueRef;
        let text = |value: ValueRef<'_>| match value {
            ValueRef::Null => "unavailable".to_owned(),
            ValueRef::Integer(n) => n.to_string(),
            ValueRef::Real(x) if x == x.trunc() && x.abs() < 1e15 => format!("{x:.0}"),
            ValueRef::Real(x) => x.to_string(),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            ValueRef::Blob(bytes) => format!("{} bytes", bytes.len()),
        };
        self.limited(sql, |db| {
            let mut statement = db.prepare(sql)?;
            let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
            let row = |r: &rusqlite::Row<'_>| (0..columns.len()).map(|n| Ok(text(r.get_ref(n)?))).collect();
            let rows = statement.query_map([], row)?.collect::<rusqlite::Result<_>>()?;
            Ok((columns, rows))
        })
    }

    /// A JSON column of a cell.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, cell: i64, column: &str) -> Result<T> {
        let text: Vec<String> = self.rows(&format!("SELECT {column} FROM cell WHERE id = ?1"), [cell], |r| r.get(0))?;
        let text = text.first().ok_or_else(|| Error::user(format!("no cell {cell}")))?;
        serde_json::from_str(text).user(|| format!("the {column} of cell {cell} is damaged"))
    }

    /// A cell's calls.
    pub(crate) fn calls(&self, cell: i64) -> Result<Vec<Call>> {
        let sql = "SELECT start_ns, latency_ns, intended_ns FROM call WHERE cell = ?1 ORDER BY number";
        let ns = |r: &rusqlite::Row<'_>, n: usize| r.get::<_, i64>(n).map(|v| v as u64);
        self.rows(sql, [cell], |r| Ok(Call { start_ns: ns(r, 0)?, latency_ns: ns(r, 1)?, intended_ns: ns(r, 2)? }))
    }

    /// The first traced cell with a database, of those that an SQL condition on the view `cells` selects, or of all.
    ///
    /// # Errors
    /// `ErrorKind::User` if there is none, or for an invalid SQL condition.
    pub fn traced_cell(&self, only: Option<&str>) -> Result<StoredCell> {
        let condition = only.unwrap_or("true");
        let sql = format!(
            "SELECT id FROM cells WHERE traced AND status = 'done' AND engine IS NOT NULL AND ({condition})
             ORDER BY id LIMIT 1"
        );
        let invalid = |e| Error::user(format!("`{condition}` is not a valid condition on cells")).because(e);
        let found = self.asked(condition, &sql, [], |r| r.get::<_, i64>(0)).map_err(invalid)?;
        let missing = || {
            let of = |only| format!("no traced cell with a database matches `{only}`");
            Error::user(only.map_or("the run has no traced cell with a database".to_owned(), of))
                .hint("only traced cells have system calls; see `traced` in docs/studies.md, and what the run skipped")
        };
        let id = found.first().ok_or_else(missing)?;
        self.cells()?.into_iter().find(|c| c.id == *id).ok_or_else(missing)
    }

    /// The cell that a traced one is the twin of.
    pub(crate) fn plain_twin(&self, cell: i64) -> Result<Option<i64>> {
        let sql = "SELECT p.id FROM cell t JOIN cell p USING (experiment, point, seed)
                   WHERE t.id = ?1 AND NOT p.traced AND p.status = 'done'";
        Ok(self.rows(sql, [cell], |r| r.get(0))?.first().copied())
    }

    /// A cell's kernel events; none where it was not traced.
    pub(crate) fn events(&self, cell: i64) -> Result<EventLog> {
        let bytes: Vec<Vec<u8>> = self.rows("SELECT bytes FROM event_log WHERE cell = ?1", [cell], |r| r.get(0))?;
        bytes.first().map_or(Ok(EventLog::default()), |b| decode_events(b))
    }

    /// A cell's flash operations; none where it was not traced.
    pub(crate) fn flash(&self, cell: i64) -> Result<FlashLog> {
        let sql = "SELECT time_ns, kind, page, pages, pid, task FROM flash_op WHERE cell = ?1 ORDER BY number";
        let rows = self.rows(sql, [cell], |r| {
            let (kind, task): (String, String) = (r.get(1)?, r.get(5)?);
            Ok((r.get::<_, i64>(0)? as u64, kind, r.get(2)?, r.get(3)?, r.get(4)?, task))
        })?;
        let mut log = FlashLog::default();
        for (time_ns, name, page, pages, pid, task) in rows {
            let kind = FlashKind::ALL.into_iter().find(|k| k.name() == name);
            let kind = kind.ok_or_else(|| Error::user(format!("unknown flash operation `{name}`")))?;
            let task = log.task_index(&task);
            log.ops.push(FlashOp { time_ns, kind, page, pages, pid, task });
        }
        Ok(log)
    }

    /// The keys of the cells that are done.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file cannot be read.
    pub fn done(&self) -> Result<BTreeSet<CellKey>> {
        let sql = "SELECT experiment, point, seed, traced FROM cell WHERE status = 'done'";
        Ok(self
            .rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get::<_, i64>(2)? as u64, r.get(3)?)))?
            .into_iter()
            .collect())
    }

    /// Every cell, in the order of their rows.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file cannot be read.
    pub fn cells(&self) -> Result<Vec<StoredCell>> {
        let sql = "SELECT id, experiment, point, seed, traced, digest FROM cell ORDER BY id";
        let rows = self.rows(sql, [], |r| {
            let point: String = r.get(2)?;
            let (id, experiment, seed) = (r.get(0)?, r.get(1)?, r.get::<_, i64>(3)? as u64);
            Ok((
                StoredCell { id, experiment, point: Point::default(), seed, traced: r.get(4)?, digest: r.get(5)? },
                point,
            ))
        })?;
        let read = |(cell, point): (StoredCell, String)| {
            let point = serde_json::from_str(&point).user(|| format!("cell {} has no point", cell.id))?;
            Ok(StoredCell { point, ..cell })
        };
        rows.into_iter().map(read).collect()
    }

    /// Adds a cell's result in one transaction, replacing an earlier failure of the cell.
    ///
    /// # Errors
    /// `ErrorKind::User` if it cannot be written; nothing is written then.
    pub fn put(&mut self, cell: &Cell, result: &Result<Measured, Failed>, host_ms: f64) -> Result<()> {
        let failed = self.failed();
        let point = point_text(&cell.point)?;
        let plan = serde_json::to_string(&cell.plan).map_err(|e| Error::bug("a plan is not valid JSON").because(e))?;
        let events = result.as_ref().ok().and_then(|m| m.events.as_ref()).map(encode_events).transpose()?;
        let transaction = self.db.transaction().map_err(&failed)?;
        let key = params![cell.experiment, point, cell.plan.seed as i64, cell.traced];
        let replace = "DELETE FROM cell WHERE experiment = ?1 AND point = ?2 AND seed = ?3 AND traced = ?4";
        let write = || -> rusqlite::Result<()> {
            transaction.execute(replace, key)?;
            // Rows of results that an earlier version began are in the order in which cells ended: one may have the
            // number of another cell, and then any number will do.
            let number = "(SELECT ?14 WHERE ?14 > 0 AND NOT EXISTS (SELECT 1 FROM cell WHERE id = ?14))";
            let insert = format!(
                "INSERT INTO cell (experiment, point, repetition, seed, traced, status, plan, outcome, digest, host_ms,
                 message, hint, console, id) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,{number})"
            );
            let (status, outcome, digest, failure, console) = match result {
                Ok(m) => ("done", serde_json::to_string(&m.outcome).ok(), Some(log_digest(m)), None, None),
                Err(f) => {
                    let status = if f.lost { "lost" } else { "failed" };
                    (status, None, None, Some(Failure::from(&f.error)), f.console.clone())
                }
            };
            let (message, hint) = failure.map_or((None, None), |f| (Some(f.message), f.hint));
            transaction.execute(
                &insert,
                params![
                    cell.experiment,
                    point,
                    cell.repetition,
                    cell.plan.seed as i64,
                    cell.traced,
                    status,
                    plan,
                    outcome,
                    digest,
                    host_ms,
                    message,
                    hint,
                    console,
                    cell.number as i64
                ],
            )?;
            let id = transaction.last_insert_rowid();
            if let Ok(measured) = result {
                logs::put(&transaction, id, measured)?;
                if let Some(events) = &events {
                    transaction.execute("INSERT INTO event_log VALUES (?1, ?2)", params![id, events])?;
                }
                let analysis = analysis(measured);
                if let Some(analysis) = &analysis {
                    logs::put_costs(&transaction, id, measured, analysis)?;
                }
                put_metrics(&transaction, id, cell.traced, &cell.plan, measured, analysis.as_ref())?;
            }
            Ok(())
        };
        write().map_err(&failed)?;
        transaction.commit().map_err(failed)
    }

    /// What each of these cells that is done cost, in milliseconds of this machine's time.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file cannot be read.
    pub(crate) fn costs<'a>(&self, cells: &'a [Cell]) -> Result<Vec<(&'a Cell, f64)>> {
        let sql = "SELECT experiment, point, seed, traced, host_ms FROM cell WHERE status = 'done'";
        let rows =
            self.rows(sql, [], |r| Ok(((r.get(0)?, r.get(1)?, r.get::<_, i64>(2)? as u64, r.get(3)?), r.get(4)?)))?;
        let costs: BTreeMap<CellKey, f64> = rows.into_iter().collect();
        let found = cells.iter().map(|c| Ok(costs.get(&key(c)?).map(|ms| (c, *ms))));
        found.filter_map(Result::transpose).collect()
    }

    /// Computes the statistics of the cells that are done, and what the study compares.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read or written.
    pub fn summarize(&mut self, study: &Study) -> Result<()> {
        let failed = self.failed();
        let transaction = self.db.transaction().map_err(&failed)?;
        schema::define(&transaction).map_err(&failed)?;
        let (statistic, comparison) = (schema::KEPT.statistic, schema::KEPT.comparison);
        statistics::compute(&transaction, Some(study), statistic, comparison).map_err(&failed)?;
        transaction.commit().map_err(failed)
    }

    /// Every metric of every point, over its seeds.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file cannot be read.
    pub fn statistics(&self) -> Result<Vec<Summarized>> {
        self.summarized("statistic")
    }

    /// Every metric of every point of a comparison: the share that the candidate saves. The factor that is compared is
    /// not in its point.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file cannot be read.
    pub fn comparisons(&self) -> Result<Vec<Summarized>> {
        self.summarized("comparison")
    }

    fn summarized(&self, table: &str) -> Result<Vec<Summarized>> {
        let sql = format!("SELECT experiment, point, metric, n, median, mean, low, high FROM {table} ORDER BY 1, 2, 3");
        let rows = self.rows(&sql, [], |r| {
            let number = |n: usize| r.get::<_, f64>(n);
            let (n, median, mean) = (r.get::<_, i64>(3)? as usize, number(4)?, number(5)?);
            let statistic = Statistic { n, median, mean, spread: Spread::known(n, number(6)?, number(7)?) };
            Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?, r.get::<_, String>(2)?, statistic))
        })?;
        let read = |(experiment, point, metric, statistic): (_, String, _, _)| {
            let point = serde_json::from_str(&point).user(|| "a point is not valid JSON".into())?;
            Ok(Summarized { experiment, point, metric, statistic })
        };
        rows.into_iter().map(read).collect()
    }

    /// Notes something that the run could not have.
    ///
    /// # Errors
    /// `ErrorKind::User` if it cannot be written.
    pub fn leave_out(&self, left_out: &LeftOut) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO left_out VALUES (?1, ?2, ?3)";
        self.db.execute(sql, [&left_out.what, &left_out.why, &left_out.cure]).map_err(self.failed()).map(|_| ())
    }

    /// Clears the list of skipped items, but for what no later command finds again: the board that another one took the
    /// place of, and what the cells that are done could not have.
    ///
    /// # Errors
    /// `ErrorKind::User` if it cannot be written.
    pub fn clear_left_out(&self) -> Result<()> {
        let sql = "DELETE FROM left_out WHERE what NOT LIKE 'the board %';
            INSERT OR REPLACE INTO left_out
                SELECT u.value ->> '$.what', u.value ->> '$.why', coalesce(u.value ->> '$.cure', '')
                FROM cell c, json_each(c.outcome, '$.unavailable') u WHERE c.status = 'done';";
        let transaction = self.db.unchecked_transaction().map_err(self.failed())?;
        transaction.execute_batch(sql).map_err(self.failed())?;
        transaction.commit().map_err(self.failed())
    }
}

/// Digest of a cell's logs: what must be identical when a cell is repeated.
pub fn log_digest(measured: &Measured) -> String {
    let mut hash = Sha256::new();
    hash.update(encode_calls(&measured.calls));
    if let Some(flash) = &measured.flash {
        hash.update(encode_flash(flash));
    }
    if let Some(block) = &measured.block {
        hash.update(encode_block(block));
    }
    // A log that cannot be encoded cannot be stored either, and fails there.
    if let Some(events) = measured.events.as_ref().and_then(|e| encode_events(e).ok()) {
        hash.update(events);
    }
    hexadecimal(&hash.finalize())
}

/// Number of senses of each block of the chip in a traced cell.
pub(crate) fn senses_by_block(store: &Store, cell: i64, block_pages: u32, blocks: u64) -> Result<Vec<u64>> {
    let sql = "SELECT page / ?2, count(*) FROM flash_op WHERE cell = ?1 AND kind = ?3 GROUP BY 1";
    let rows: Vec<(i64, i64)> =
        store.rows(sql, params![cell, block_pages, FlashKind::Sense.name()], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let mut counts = vec![0; blocks as usize];
    for (block, count) in rows {
        if let Some(c) = counts.get_mut(block as usize) {
            *c = count as u64;
        }
    }
    Ok(counts)
}
