//! Android's logs of SQL, as `frameworks/base` writes them.
//!
//! * `V/SQLiteStatements( 812): /data/.../app.db: "SELECT 1"`: each statement with its values in it
//!   (`setprop log.tag.SQLiteStatements VERBOSE`; `android_database_SQLiteConnection.cpp`);
//! * `V/SQLiteTime( 812): /data/.../app.db: "SELECT 1" took 0.100 ms`: the same when it has ended;
//! * `executeForLong took 1ms - succeeded, sql="SELECT ?", bindArgs=["x"]`: operations, in the log or by
//!   `dumpsys dbinfo`, which lists the latest first (`SQLiteConnection.java`).

use super::timestamp::Form;
use super::values::{self, Bound};

/// A statement of a log.
pub(super) struct Entry {
    pub line: usize,
    pub time_ns: Option<i128>,
    pub sql: String,
    pub values: Result<Vec<Bound>, String>,
}

/// The statements of a log of Android's; `None` where it is none.
pub(super) fn entries(log: &str) -> Option<Vec<Entry>> {
    // With both tags, each statement is there twice.
    let tag =
        ["SQLiteStatements", "SQLiteTime"].into_iter().find(|tag| log.lines().any(|line| tagged(line, tag).is_some()));
    let read = |(n, line): (usize, &str)| {
        let (sql, values) = match tag.and_then(|tag| tagged(line, tag)) {
            Some(sql) => (sql, Ok(Vec::new())),
            None => operation(line)?,
        };
        let sql = sql.trim().trim_end_matches(';').to_owned();
        Some(Entry { line: n + 1, time_ns: time(line), sql, values })
    };
    let mut entries: Vec<Entry> = log.lines().enumerate().filter_map(read).collect();
    // Most of a log is of other programs; but plain SQL has no such line at all.
    if entries.is_empty() {
        return None;
    }
    let latest_first = entries.windows(2).all(|w| w[1].time_ns < w[0].time_ns) && entries.len() > 1;
    if latest_first {
        entries.reverse();
    }
    Some(entries)
}

/// The statement of a line with that tag.
fn tagged<'a>(line: &'a str, tag: &str) -> Option<&'a str> {
    let behind = &line[line.find(tag)? + tag.len()..];
    let behind = behind.trim_start_matches(|c: char| c.is_ascii_digit() || "() ".contains(c)).strip_prefix(':')?;
    let (_, quoted) = behind.split_once(": \"")?;
    quoted.rsplit_once('"').map(|(sql, _)| sql)
}

/// A statement's text, and its values.
type Found<'a> = (&'a str, Result<Vec<Bound>, String>);

/// The statement and the values of an operation.
fn operation(line: &str) -> Option<Found<'_>> {
    let (before, quoted) = line.split_once(", sql=\"")?;
    if !(before.contains(" took ") || before.contains(" started ")) || before.ends_with("failed") {
        return None;
    }
    match quoted.split_once("\", bindArgs=[") {
        Some((sql, list)) => {
            let list = &list[..list.rfind(']')?];
            Some((sql, values::read(&format!("[{list}]"))))
        }
        None => Some((quoted.split_once("\", ").map_or_else(|| quoted.trim_end_matches('"'), |q| q.0), Ok(Vec::new()))),
    }
}

/// The time that a line begins with: `05-17 08:30:00.250` of logcat, or `[2024-05-17 08:30:00.250]`.
fn time(line: &str) -> Option<i128> {
    let digits =
        |text: &str, from: usize, to: usize| text.get(from..to).is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()));
    if let Some((_, dated)) = line.split_once('[').filter(|(_, dated)| digits(dated, 0, 4)) {
        return Form::Calendar.read(&dated.replacen(']', " ", 1)).ok().map(|(ns, _)| ns);
    }
    let line = line.trim_start();
    let short = digits(line, 0, 2) && line.as_bytes().get(2) == Some(&b'-') && digits(line, 3, 5);
    // No year: any leap year has all days.
    let dated = if short { format!("2000-{line}") } else { line.to_owned() };
    digits(&dated, 0, 4).then(|| Form::Calendar.read(&dated).ok().map(|(ns, _)| ns)).flatten()
}
