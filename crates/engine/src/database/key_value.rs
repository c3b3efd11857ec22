//! The key-value operations of a workload on an engine without SQL, whichever it is.

use super::record::{self, too_few};
use super::{Database, cut};
use pocketstone_core::database::{Configuration, DatabaseEngine};
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{ResultDigest, StatementKind, Step, Trace, Value};
use std::ops::Bound;
use std::sync::Arc;

/// What a function that is shown a row says: whether it wants the next one.
pub(super) type See<'f> = &'f mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// Makes the new record from the old one, and says whether it is to be written.
pub(super) type Make<'f> = &'f mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Result<bool>;

/// Writes the next row, key and record, and says whether there was one.
pub(super) type Next<'f> = &'f mut dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> Result<bool>;

/// An engine: one ordered table of bytes. Each call is one transaction.
pub(super) trait Store {
    /// Shows the record of a key, if there is one.
    fn get(&mut self, key: &[u8], see: See<'_>) -> Result<()>;
    /// Shows rows in order of keys, from one on.
    fn scan(&mut self, from: Bound<&[u8]>, see: See<'_>) -> Result<()>;
    /// Changes the record of a key; `record` is a buffer. Durable when it returns, as configured.
    fn change(&mut self, key: &[u8], record: &mut Vec<u8>, make: Make<'_>) -> Result<()>;
    /// Writes new rows in one transaction, until there is no next one.
    fn load(&mut self, next: Next<'_>) -> Result<()>;
}

/// A workload on such an engine.
pub(super) struct KeyValue<S> {
    store: S,
    trace: Arc<Trace>,
    key: Vec<u8>,
    record: Vec<u8>,
}

impl<S: Store> KeyValue<S> {
    /// # Errors
    /// `ErrorKind::User` if the workload's steps are not all key-value operations on one table.
    pub(super) fn new(store: S, engine: DatabaseEngine, trace: Arc<Trace>, steps: &[Step]) -> Result<Self> {
        check(engine, &trace, steps)?;
        Ok(KeyValue { store, trace, key: Vec::new(), record: Vec::new() })
    }

    /// What it works on.
    pub(super) fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// Brings the database to the workload's initial state.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the engine cannot write a row; `ErrorKind::User` if one has too few values, a first one
    /// that cannot be a key, or, in redb, the key of another row.
    pub(super) fn load(&mut self) -> Result<()> {
        let trace = self.trace.clone();
        let mut steps = trace.loading().iter().filter(|s| trace.statement(s).kind == StatementKind::Insert);
        self.store.load(&mut |key, record| match steps.next() {
            Some(step) => row(&trace, step, key, record).map(|()| true),
            None => Ok(false),
        })
    }
}

/// The row that an insertion writes.
fn row(trace: &Trace, step: &Step, key: &mut Vec<u8>, record: &mut Vec<u8>) -> Result<()> {
    let mut values = trace.values(step);
    record::put_key(values.next().ok_or_else(too_few)?, key)?;
    record.clear();
    values.for_each(|v| record::put_value(v, record));
    Ok(())
}

/// Refuses a workload that is more than key-value operations on one table.
///
/// # Errors
/// `ErrorKind::User`, which says what of it is more.
pub(super) fn check(engine: DatabaseEngine, trace: &Trace, steps: &[Step]) -> Result<()> {
    let name = engine.name();
    let only = |what: String| {
        Error::user(format!("{name} supports only key-value operations; {what}"))
            .hint("use a YCSB workload (workload = \"ycsb-a\"), or an engine with SQL (engine = \"sqlite\")")
    };
    if !trace.image.is_empty() {
        return Err(only("this workload starts from a SQLite database file".into()));
    }
    let loads = |step: &&Step| trace.statement(step).kind == StatementKind::Insert;
    let ignored = |step: &Step| makes_table(&trace.statement(step).text);
    if let Some(step) = trace.loading().iter().find(|s| !loads(s) && !ignored(s)) {
        return Err(only(format!("this workload is loaded by SQL statements: {}", cut(&trace.statement(step).text))));
    }
    if let Some(step) = steps.iter().find(|s| trace.statement(s).kind == StatementKind::Sql && !ignored(s)) {
        return Err(only(format!("this workload has SQL statements: {}", cut(&trace.statement(step).text))));
    }
    let of_rows = trace.statements.iter().filter(|s| s.kind != StatementKind::Sql);
    let mut tables: Vec<String> = of_rows.filter_map(|s| table(&s.text)).collect();
    tables.sort();
    tables.dedup();
    match tables.len() {
        0 | 1 => Ok(()),
        _ => Err(only(format!("this workload has the tables {}; only one is supported", tables.join(", ")))),
    }
}

fn makes_table(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    [words.next(), words.next()].map(|w| w.unwrap_or_default().to_ascii_lowercase()) == ["create", "table"]
}

/// The table that a statement names behind FROM, INTO or UPDATE, in lower case.
fn table(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| c.is_ascii_whitespace() || c == '(').filter(|w| !w.is_empty());
    words.find(|w| ["from", "into", "update"].iter().any(|k| w.eq_ignore_ascii_case(k)))?;
    words.next().map(|w| w.trim_matches(['"', '`', ';']).to_ascii_lowercase())
}

/// Refuses settings that an engine does not have; `known` are those that it has.
///
/// # Errors
/// `ErrorKind::User` for the first unsupported setting, which it names.
pub(super) fn refuse(engine: DatabaseEngine, configuration: &Configuration, known: &[&str]) -> Result<()> {
    let Configuration { journal_mode, synchronous, locking_mode, page_bytes, cache_bytes, busy_timeout_ms } =
        configuration;
    let set = [
        ("journal_mode", journal_mode.is_some()),
        ("synchronous", synchronous.is_some()),
        ("locking_mode", locking_mode.is_some()),
        ("page_bytes", page_bytes.is_some()),
        ("cache_bytes", cache_bytes.is_some()),
        ("busy_timeout_ms", busy_timeout_ms.is_some()),
    ];
    match set.into_iter().find(|(name, set)| *set && !known.contains(name)) {
        Some((name, _)) => Err(Error::user(format!("{} has no {name}", engine.name()))
            .hint(format!("omit {name} for it; it supports {}", known.join(", ")))),
        None => Ok(()),
    }
}

impl<S: Store> Database for KeyValue<S> {
    fn execute(&mut self, _: usize, step: &Step, digest: &mut ResultDigest) -> Result<()> {
        let KeyValue { store, trace, key, record } = self;
        let statement = trace.statement(step);
        let mut values = trace.values(step);
        match statement.kind {
            StatementKind::Read => {
                record::put_key(values.next().ok_or_else(too_few)?, key)?;
                store.get(key, &mut |key, record| record::digest_row(key, record, digest).map(|()| false))?;
            }
            StatementKind::Scan | StatementKind::ScanAfter => {
                record::put_key(values.next().ok_or_else(too_few)?, key)?;
                let Some(Value::Integer(mut left)) = values.next() else {
                    return Err(Error::user("a scan's second value is not a number of rows").hint("prepare it again"));
                };
                let from = match statement.kind {
                    StatementKind::Scan => Bound::Included(&key[..]),
                    _ => Bound::Excluded(&key[..]),
                };
                // A negative number of rows is no limit in SQL's LIMIT.
                if left != 0 {
                    store.scan(from, &mut |key, record| {
                        left -= 1;
                        record::digest_row(key, record, digest).map(|()| left != 0)
                    })?;
                }
            }
            StatementKind::Update => {
                let count = trace.value_count(step).checked_sub(1).ok_or_else(too_few)?;
                if statement.columns & 1 == 1 || statement.columns.count_ones() as usize != count {
                    return Err(Error::user("an update's columns do not match its values, or include the key")
                        .hint("prepare the workload again"));
                }
                let set = values.clone().take(count);
                record::put_key(values.nth(count).ok_or_else(too_few)?, key)?;
                let mut changed = 0;
                store.change(key, record, &mut |old, new| match old {
                    Some(old) => {
                        changed = 1;
                        record::replace(old, statement.columns, set.clone(), new).map(|()| true)
                    }
                    None => Ok(false),
                })?;
                digest.changed(changed);
            }
            StatementKind::Insert => {
                row(trace, step, key, record)?;
                let first = values.next();
                store.change(key, record, &mut |old, _| match old {
                    Some(_) => Err(Error::user(format!("a row with the key {first:?} already exists"))
                        .hint("reload the database before measuring")),
                    None => Ok(true),
                })?;
                digest.changed(1);
            }
            // The table is there from the first write on.
            StatementKind::Sql => digest.changed(0),
        }
        digest.end();
        Ok(())
    }
}
