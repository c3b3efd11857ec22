//! Android's logs of SQL, as `frameworks/base` writes them.
//!
//! * `V/SQLiteStatements( 812): /data/.../app.db: "SELECT 1"`: each statement with its values in it
//!   (`setprop log.tag.SQLiteStatements VERBOSE`; `android_database_SQLiteConnection.cpp`);
//! * `V/SQLiteTime( 812): /data/.../app.db: "SELECT 1" took 0.100 ms`: the same when it has ended;
//! * `executeForLong took 1ms - succeeded, sql="SELECT ?", bindArgs=["x"]`: operations, in the log or by
//!   `dumpsys dbinfo`, which has a numbered list of each connection, the latest first (`SQLiteConnection.java`). Those
//!   of kind `prepare` compile a statement and do not execute it: another operation does, if any.

use super::timestamp::Form;
use super::values::{self, Bound};
use pocketstone_core::Error;
use std::collections::{BTreeSet, HashMap};

/// A year that has all days.
const YEAR_NS: i128 = 366 * 24 * 3600 * 1_000_000_000;

/// A statement of a log.
pub(super) struct Entry {
    pub line: usize,
    pub time_ns: Option<i128>,
    /// The time has no year of its own.
    yearless: bool,
    /// Its number in a connection's list.
    number: Option<u64>,
    pub sql: String,
    pub values: Result<Vec<Bound>, String>,
    /// The statement has its last quote still, wherever that is.
    quoted: bool,
}

/// The statements of a log of Android's; `None` where it is none.
///
/// # Errors
/// `ErrorKind::User` if it has statements on more than one database.
pub(super) fn entries(log: &str) -> pocketstone_core::Result<Option<Vec<Entry>>> {
    let begins = |line, tag| message(line, tag).is_some_and(|message| beginning(message.text).is_some());
    // With both tags, each statement is there twice.
    let tag = ["SQLiteStatements", "SQLiteTime"].into_iter().find(|tag| log.lines().any(|line| begins(line, tag)));
    let mut logged = Logged::default();
    for (n, line) in log.lines().enumerate() {
        match tag.and_then(|tag| message(line, tag)) {
            Some(message) => logged.message(n + 1, line, message),
            None => logged.operation(n + 1, line),
        }
    }
    if logged.databases.len() > 1 {
        let databases: Vec<&str> = logged.databases.into_iter().collect();
        return Err(Error::user(format!("the log has statements on several databases: {}", databases.join(", ")))
            .hint("a workload has one database: keep the lines of one process, such as with grep"));
    }
    let mut entries = logged.entries;
    // Most of a log is of other programs; but plain SQL has no such line at all.
    if entries.is_empty() && !logged.prepares {
        return Ok(None);
    }
    entries.iter_mut().for_each(Entry::end);
    count_years(&mut entries);
    in_order(&mut entries);
    Ok(Some(entries))
}

/// Gives times without a year the one that is nearest to the line before: logs go on over New Year's Eve.
fn count_years(entries: &mut [Entry]) {
    let mut last = None;
    for time in entries.iter_mut().filter(|entry| entry.yearless).filter_map(|entry| entry.time_ns.as_mut()) {
        let before: i128 = *last.get_or_insert(*time);
        let years = (before - *time + YEAR_NS / 2).div_euclid(YEAR_NS);
        *time += years * YEAR_NS;
        last = Some(*time);
    }
}

/// Puts lists of connections in the order in which their operations began. Times alone do not say it: many operations
/// share a millisecond.
fn in_order(entries: &mut [Entry]) {
    for lists in entries.chunk_by_mut(|a, b| a.number.is_some() == b.number.is_some()) {
        if lists[0].number.is_none() {
            continue;
        }
        lists.chunk_by_mut(|a, b| a.number < b.number).for_each(<[Entry]>::reverse);
        lists.sort_by_key(|entry| entry.time_ns);
    }
}

impl Entry {
    fn new(line: usize, text: &str, sql: &str, values: Result<Vec<Bound>, String>) -> Entry {
        let (time_ns, yearless) = time(text).map_or((None, false), |(ns, yearless)| (Some(ns), yearless));
        Entry { line, time_ns, yearless, number: number(text), sql: sql.to_owned(), values, quoted: false }
    }

    /// Takes off what is behind the statement: its quote, and how long it took.
    fn end(&mut self) {
        if self.quoted {
            let ends = |rest: &str| rest.trim().is_empty() || rest.starts_with(" took ");
            match self.sql.rsplit_once('"').filter(|(_, rest)| ends(rest)) {
                Some((sql, _)) => self.sql = sql.to_owned(),
                None => self.values = Err("its statement is cut off".to_owned()),
            }
        }
        self.sql = self.sql.trim().trim_end_matches(';').to_owned();
    }
}

/// What is found while a log is read.
#[derive(Default)]
struct Logged<'a> {
    entries: Vec<Entry>,
    /// The last statement of each thread, by its place among the entries.
    last: HashMap<Thread<'a>, usize>,
    databases: BTreeSet<&'a str>,
    /// It has statements that were compiled.
    prepares: bool,
}

impl<'a> Logged<'a> {
    /// Takes a line that may be an operation.
    fn operation(&mut self, number: usize, line: &str) {
        match operation(line) {
            Some(("prepare", ..)) => self.prepares = true,
            Some((_, sql, values)) => self.entries.push(Entry::new(number, line, sql, values)),
            None => {}
        }
    }

    /// Takes a line with a tag. Each line of a statement has it, and the first one the database.
    fn message(&mut self, number: usize, line: &str, Message { thread, text }: Message<'a>) {
        if let Some((database, sql)) = beginning(text) {
            self.databases.insert(database);
            self.last.insert(thread, self.entries.len());
            self.entries.push(Entry { quoted: true, ..Entry::new(number, line, sql, Ok(Vec::new())) });
        } else if let Some(at) = self.last.get(&thread) {
            let sql = &mut self.entries[*at].sql;
            sql.push('\n');
            sql.push_str(text);
        } else {
            let why = "it goes on with a statement whose beginning is not in the log".to_owned();
            self.entries.push(Entry::new(number, line, text, Err(why)));
        }
    }
}

/// A thread as a line names it: the numbers in front of the tag, and the one behind it.
type Thread<'a> = (Vec<&'a str>, &'a str);

/// A line with a tag.
struct Message<'a> {
    thread: Thread<'a>,
    text: &'a str,
}

fn message<'a>(line: &'a str, tag: &str) -> Option<Message<'a>> {
    let (before, behind) = line.split_once(tag)?;
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let (number, text) = behind.split_at(behind.find(|c: char| !(c.is_ascii_digit() || "() ".contains(c)))?);
    let text = text.strip_prefix(':')?;
    let thread = (before.split_whitespace().filter(is_number).collect(), number);
    Some(Message { thread, text: text.strip_prefix(' ').unwrap_or(text) })
}

/// The database and the statement of a message's first line; the others are SQL, which may have quotes anywhere.
fn beginning(text: &str) -> Option<(&str, &str)> {
    text.split_once(": \"").filter(|(database, _)| !database.contains(['"', '\'']))
}

/// An operation's kind, its statement's text, and its values.
type Found<'a> = (&'a str, &'a str, Result<Vec<Bound>, String>);

/// The kind, the statement and the values of an operation.
fn operation(line: &str) -> Option<Found<'_>> {
    let (before, quoted) = line.split_once(", sql=\"")?;
    let (begins, _) = before.split_once(" took ").or_else(|| before.split_once(" started "))?;
    if before.ends_with("failed") {
        return None;
    }
    let kind = begins.split_whitespace().next_back().unwrap_or_default();
    match quoted.split_once("\", bindArgs=[") {
        Some((sql, list)) => {
            let list = &list[..list.rfind(']')?];
            Some((kind, sql, values::read(&format!("[{list}]"))))
        }
        None => {
            let sql = quoted.split_once("\", ").map_or_else(|| quoted.trim_end_matches('"'), |q| q.0);
            Some((kind, sql, Ok(Vec::new())))
        }
    }
}

/// The number that a line of a list begins with: `3: [2024-05-17 08:30:00.250]`.
fn number(line: &str) -> Option<u64> {
    line.trim_start().split_once(": [")?.0.parse().ok()
}

/// The time that a line begins with: `05-17 08:30:00.250` of logcat, or `[2024-05-17 08:30:00.250]`; and whether it has
/// no year.
fn time(line: &str) -> Option<(i128, bool)> {
    let digits =
        |text: &str, from: usize, to: usize| text.get(from..to).is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()));
    let read = |dated: &str| Form::Calendar.read(dated).ok().map(|(ns, _)| ns);
    if let Some((_, dated)) = line.split_once('[').filter(|(_, dated)| digits(dated, 0, 4)) {
        return read(&dated.replacen(']', " ", 1)).map(|ns| (ns, false));
    }
    let line = line.trim_start();
    if digits(line, 0, 2) && line.as_bytes().get(2) == Some(&b'-') && digits(line, 3, 5) {
        // Any leap year has all days.
        return read(&format!("2000-{line}")).map(|ns| (ns, true));
    }
    digits(line, 0, 4).then(|| read(line)).flatten().map(|ns| (ns, false))
}
