//! A workload from a log of SQL statements and the database they were made on.

use super::published::Texts;
use super::tokens::{LastEnds, TokenKind, Tokens};
use super::trace::{Trace, Value};
use pocketstone_core::database::Delay;
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;

mod android;
mod continued;
mod timestamp;
mod values;

use continued::{Ahead, Continued};
use timestamp::{Form, form_of};
use values::Bound;

/// What an SQLite database file begins with.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// Makes a workload from a log of SQL statements; each is an operation.
///
/// A line holds one statement or several with `;` between them. Where a line ends within quotes, parentheses, a
/// `/* comment */` or the body of a `CREATE TRIGGER`, or where one ends or the next one begins as no statement does
/// (`INSERT INTO t`, `WHERE x = 1`), the next line goes on with it. Blank lines and lines that are comments are left
/// out. The values of a statement's `?` may stand behind it, in a comment: `-- [1, 'two', NULL]`.
///
/// A log of Android's (the tags `SQLiteStatements` and `SQLiteTime`, or operations with `sql="..."` and
/// `bindArgs=[...]`) is known by its lines, and of those the statements are taken.
///
///  Each line may begin with the time of its statements, followed by
/// blanks, `|` or `,`:
///
/// | time | form |
/// | --- | --- |
/// | calendar | `2024-05-17 08:30:00.25`, with `T` for the blank and `Z` or `+02:00` behind it or neither |
/// | seconds | `12.345`, since anything |
/// | milliseconds | `12345`, since anything |
///
/// Then the time between two lines is the pause before the second one's first statement; the others of
/// a line have none. `delay` replaces these pauses; `seed` is for its random numbers. `database_image` is
/// an SQLite file that the operations start from, or empty: then they start from nothing.
///
/// # Errors
/// `ErrorKind::User` if the image is not a SQLite file, there is no statement, a quote is not closed, or times are
/// missing, in different formats or decrease; the message includes the line.
pub fn from_sql_log(queries: &str, database_image: Vec<u8>, delay: Option<Delay>, seed: u64) -> Result<Trace> {
    import(queries, database_image, delay, seed, None).map(|imported| imported.trace)
}

/// A workload from a log, with where its statements come from.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The workload.
    pub trace: Trace,
    /// Line of each statement, as the trace has them.
    pub lines: Vec<usize>,
    /// Lines that are left out, and why.
    pub skipped: Vec<(usize, String)>,
}

/// As [`from_sql_log`]. With `skip`, lines that are not understood are left out, and those named in it.
///
/// # Errors
/// `ErrorKind::User`, as [`from_sql_log`]; with `skip`, errors of lines are collected instead.
pub fn import(
    queries: &str,
    database_image: Vec<u8>,
    delay: Option<Delay>,
    seed: u64,
    skip: Option<&BTreeMap<usize, String>>,
) -> Result<Imported> {
    check_image(&database_image)?;
    let mut log = Log {
        queries,
        trace: Trace::default(),
        texts: Texts::default(),
        form: None,
        last_ns: None,
        pause_ns: 0,
        lines: Vec::new(),
        ends: LastEnds::of(queries),
        line_ends: queries.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at).collect(),
        skip,
        skipped: Vec::new(),
        stuck_at: 0,
        looked_to: 0,
        patience_bytes: (PATIENCE * queries.len()).max(LEAST_PATIENCE_BYTES),
    };
    log.trace.image = database_image;
    match android::entries(queries)? {
        Some(entries) => log.entries(entries)?,
        None => log.whole()?,
    }
    if log.trace.measured().is_empty() {
        return Err(log.nothing());
    }
    if let Some(delay) = delay {
        log.trace.set_delays(delay, seed);
    }
    Ok(Imported { trace: log.trace, lines: log.lines, skipped: log.skipped })
}

/// Refuses what is no database: none at all is one without tables.
///
/// # Errors
/// `ErrorKind::User` if the bytes are not a SQLite file's.
pub fn check_image(image: &[u8]) -> Result<()> {
    if image.is_empty() || image.starts_with(SQLITE) {
        return Ok(());
    }
    Err(Error::user("the database image is not a SQLite file (it does not start with `SQLite format 3`)")
        .hint("use the database's main file, not its journal; encrypted files are unsupported"))
}

/// Skipped lines that an error names.
const NAMED: usize = 5;
/// How often as much as a log has may be looked at in vain, and how many bytes at least, where lines are skipped.
const PATIENCE: usize = 16;
const LEAST_PATIENCE_BYTES: usize = 16 << 20;

struct Log<'a> {
    queries: &'a str,
    trace: Trace,
    texts: Texts,
    /// Form of every line's time, once there was a line; the inner `None` is for lines without.
    form: Option<Option<Form>>,
    last_ns: Option<i128>,
    /// Pause before the next statement.
    pause_ns: u64,
    /// Line of each statement.
    lines: Vec<usize>,
    ends: LastEnds,
    /// Bytes at which lines end.
    line_ends: Vec<usize>,
    skip: Option<&'a BTreeMap<usize, String>>,
    skipped: Vec<(usize, String)>,
    /// Where the last line was not understood, which may be lines behind its beginning, and how far was looked.
    stuck_at: usize,
    looked_to: usize,
    /// Bytes that may yet be looked at anew: from every line on something may look well up to the end of the log.
    patience_bytes: usize,
}

impl Log<'_> {
    /// Why there is no workload.
    fn nothing(&self) -> Error {
        if self.skipped.is_empty() {
            return Error::user("the log has no statement").hint("write one SQL statement per line");
        }
        let lines: Vec<String> = self.skipped.iter().take(NAMED).map(|(n, why)| format!("line {n}: {why}")).collect();
        Error::user(format!("all {} statements of the log were skipped", self.skipped.len()))
            .because(Error::user(lines.join("; ")))
    }

    /// A log of SQL.
    fn whole(&mut self) -> Result<()> {
        let queries = self.queries;
        let mut at = if queries.starts_with('\u{feff}') { 3 } else { 0 };
        while at < queries.len() {
            (self.stuck_at, self.looked_to) = (at, at);
            at = match self.line(at) {
                Err(error) if self.skip.is_some() => self.skip_line(at, error.message()),
                next => next?,
            };
        }
        Ok(())
    }

    /// Leaves out the line at a byte, or, once that was tried for long, all up to the one that is not understood;
    /// returns where the next one begins.
    fn skip_line(&mut self, at: usize, why: &str) -> usize {
        self.patience_bytes = self.patience_bytes.saturating_sub(self.looked_to - at);
        let (first, stuck) = (self.line_of(at), self.line_of(self.stuck_at));
        let last = if self.patience_bytes > 0 { first } else { stuck };
        self.skipped.extend((first..=last).map(|line| (line, why.to_owned())));
        self.line_ends.get(last - 1).map_or(self.queries.len(), |end| end + 1)
    }

    /// Statements that were found in a log of another form.
    fn entries(&mut self, entries: Vec<android::Entry>) -> Result<()> {
        for entry in entries {
            let added = entry.values.clone().and_then(|values| {
                let before = entry.time_ns.and_then(|now| self.last_ns.replace(now));
                let pause_ns = entry.time_ns.zip(before).map_or(0, |(now, before)| now - before);
                self.pause_ns += u64::try_from(pause_ns).unwrap_or(0);
                self.put(entry.line, &entry.sql, &values)
            });
            match added {
                Err(what) if self.skip.is_some() => self.skipped.push((entry.line, what)),
                Err(what) => {
                    let hint = "log the statements with their values, or skip such lines with --skip-errors";
                    return Err(Error::user(format!("line {}: {what}", entry.line)).hint(hint));
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Adds a statement with its values, unless its line is to be left out.
    fn put(&mut self, line: usize, sql: &str, values: &[Bound]) -> Result<(), String> {
        if let Some(why) = self.skip.and_then(|skip| skip.get(&line)) {
            self.skipped.push((line, why.clone()));
            return Ok(());
        }
        let marks = values::marks(sql)?;
        if marks != values.len() {
            return Err(format!("it has {marks} `?` but {} values for them", values.len()));
        }
        let values: Vec<Value<'_>> = values.iter().map(Bound::value).collect();
        let statement = self.texts.statement(&mut self.trace, sql);
        let pause_ns = std::mem::take(&mut self.pause_ns);
        let first = self.trace.measured().is_empty();
        let added = self.trace.measure(if first { 0 } else { pause_ns }, statement, &values, false);
        added.map(|()| self.lines.push(line)).map_err(|e| e.chain())
    }

    /// The number of the line with the byte `at`.
    fn line_of(&self, at: usize) -> usize {
        1 + self.line_ends.partition_point(|end| *end < at)
    }

    fn error(&self, at: usize, what: impl std::fmt::Display) -> Error {
        Error::user(format!("line {}: {what}", self.line_of(at)))
    }

    /// Takes the line that begins at `at`, and those that go on with it; returns where the next one begins.
    fn line(&mut self, at: usize) -> Result<usize> {
        let queries = self.queries;
        let rest = &queries[at..];
        let content = rest.trim_start_matches([' ', '\t', '\r']);
        let start = at + rest.len() - content.len();
        let end = content.find('\n').map_or(queries.len(), |n| start + n + 1);
        if queries[start..end].trim().is_empty() || content.starts_with("--") {
            return Ok(end);
        }
        let start = self.time(start, end)?;
        // The statement at hand: from its first token to the end of its last one, comments apart.
        let mut statement: Option<(usize, usize)> = None;
        // One that has ended, whose values may follow in a comment.
        let mut ended: Option<(usize, usize)> = None;
        let mut bound: Option<&str> = None;
        let mut trigger = Trigger::default();
        let mut continued = Continued::default();
        let mut ahead = Ahead::new(queries, self.ends);
        for token in Tokens::with(queries, start, self.ends) {
            (self.stuck_at, self.looked_to) = (token.start, token.end);
            if !token.closed {
                let what = if token.kind == TokenKind::Comment { "comment" } else { "quote" };
                return Err(self
                    .error(token.start, format_args!("a {what} is not closed"))
                    .hint("a quote within quotes is doubled: 'it''s'"));
            }
            let text = &queries[token.start..token.end];
            let ends = match token.kind {
                TokenKind::Blank => continue,
                TokenKind::Comment => {
                    bound = values::in_comment(text).or(bound);
                    continue;
                }
                TokenKind::Line if statement.is_none() => true,
                TokenKind::Line => !trigger.open() && !continued.goes_on(&mut ahead, token.end),
                TokenKind::Semicolon => {
                    trigger.semicolon();
                    !trigger.open()
                }
                _ => {
                    // The one before had no values behind it, or has them by now.
                    self.add(ended.take(), &mut bound)?;
                    trigger.word(text);
                    continued.word(token.kind, text);
                    false
                }
            };
            if ends {
                if statement.is_some() {
                    self.add(ended.take(), &mut bound)?;
                    ended = statement.take();
                }
                trigger = Trigger::default();
                continued = Continued::default();
                if token.kind == TokenKind::Line {
                    self.add(ended, &mut bound)?;
                    return Ok(token.end);
                }
            } else if token.kind != TokenKind::Line {
                statement = Some((statement.map_or(token.start, |s| s.0), token.end));
            }
        }
        if trigger.open() {
            return Err(self.error(start, "a trigger has no END").hint("close its body with END"));
        }
        self.add(ended.take(), &mut bound)?;
        self.add(statement, &mut bound)?;
        Ok(queries.len())
    }

    /// Adds the statement in a range of bytes, with the values that stand behind it.
    fn add(&mut self, statement: Option<(usize, usize)>, bound: &mut Option<&str>) -> Result<()> {
        let Some((start, end)) = statement else { return Ok(()) };
        let (line, queries) = (self.line_of(start), self.queries);
        let sql = &queries[start..end];
        // A comment that looks like values stands behind many statements that need none.
        let text = bound.take().filter(|_| values::marks(sql).is_ok_and(|n| n > 0));
        let values = text.map_or(Ok(Vec::new()), values::read);
        match values.and_then(|values| self.put(line, sql, &values)) {
            Err(what) if self.skip.is_some() => {
                self.skipped.push((line, what));
                Ok(())
            }
            added => added.map_err(|what| {
                let hint = "add the values of each `?` after the statement: -- [1, 'two', NULL]; or skip such lines: \
                    --skip-errors";
                self.error(start, what).hint(hint)
            }),
        }
    }

    /// Takes the time off the line from `start` to `end` and returns where the rest begins.
    fn time(&mut self, start: usize, end: usize) -> Result<usize> {
        let line = &self.queries[start..end];
        let form = form_of(line);
        let known = *self.form.get_or_insert(form);
        if form != known {
            let words = |form: Option<Form>| form.map_or("no time", Form::name);
            let what = format!("it begins with {}, but the first line with {}", words(form), words(known));
            return Err(self.error(start, what).hint("either all lines have a time in the same format, or none"));
        }
        let Some(form) = form else { return Ok(start) };
        let (time_ns, length) = form.read(line).map_err(|what| {
            self.error(start, what).hint("a time is `2024-05-17 08:30:00.25`, seconds `12.345` or milliseconds `12345`")
        })?;
        let before = self.last_ns.replace(time_ns).unwrap_or(time_ns);
        let pause_ns = u64::try_from(time_ns - before).ok().and_then(|ns| self.pause_ns.checked_add(ns));
        let Some(pause_ns) = pause_ns else {
            let what = if time_ns < before {
                "its time is before that of the previous line"
            } else {
                "its time is out of range"
            };
            return Err(self.error(start, what).hint("sort the log by time; write calendar times in one time zone"));
        };
        self.pause_ns = pause_ns;
        Ok(start + length)
    }
}

/// Whether a statement is a `CREATE TRIGGER` whose body is still open: statements in it end with `;` too,
/// and it closes with `END` behind one of these.
#[derive(Debug, Default)]
struct Trigger {
    words: u32,
    create: bool,
    temporary: bool,
    trigger: bool,
    after_semicolon: bool,
    ended: bool,
}

impl Trigger {
    fn word(&mut self, word: &str) {
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        match self.words {
            0 => self.create = is("CREATE"),
            1 => self.trigger = self.create && is("TRIGGER"),
            2 if !self.trigger => self.trigger = self.create && self.temporary && is("TRIGGER"),
            _ => {}
        }
        self.temporary = self.words == 1 && (is("TEMP") || is("TEMPORARY"));
        self.ended = self.trigger && self.after_semicolon && is("END");
        self.after_semicolon = false;
        self.words = self.words.saturating_add(1);
    }

    fn semicolon(&mut self) {
        self.after_semicolon = true;
    }

    fn open(&self) -> bool {
        self.trigger && !self.ended
    }
}

#[cfg(test)]
mod tests;
