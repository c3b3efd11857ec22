//! A workload from a log of SQL statements and the database they were made on.

use super::published::Texts;
use super::tokens::{TokenKind, Tokens};
use super::trace::Trace;
use pocketstone_core::database::Delay;
use pocketstone_core::{Error, Result};

mod timestamp;

use timestamp::{Form, form_of};

/// What an SQLite database file begins with.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// Makes a workload from a log of SQL statements; each is an operation.
///
/// A line holds one statement or several with `;` between them. Where a line ends within quotes, a
/// `/* comment */` or the body of a `CREATE TRIGGER`, the next line goes on with it. Blank lines and lines
/// that are comments are left out. Each line may begin with the time of its statements, followed by
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
/// When the image is no SQLite file, there is no statement, a quote is not closed, or times are missing,
/// of different forms or go backwards; the message names the line.
pub fn from_sql_log(queries: &str, database_image: Vec<u8>, delay: Option<Delay>, seed: u64) -> Result<Trace> {
    if !database_image.is_empty() && !database_image.starts_with(SQLITE) {
        return Err(Error::user("the database image is no SQLite file (`SQLite format 3` is not at its start)")
            .hint("give the database's main file, not its journal; an encrypted one cannot be taken"));
    }
    let mut log =
        Log { queries, trace: Trace::default(), texts: Texts::default(), form: None, last_ns: None, pause_ns: 0 };
    log.trace.image = database_image;
    let mut at = if queries.starts_with('\u{feff}') { 3 } else { 0 };
    while at < queries.len() {
        at = log.line(at)?;
    }
    if log.trace.measured().is_empty() {
        return Err(Error::user("the log has no statement").hint("write one SQL statement per line"));
    }
    if let Some(delay) = delay {
        log.trace.set_delays(delay, seed);
    }
    Ok(log.trace)
}

struct Log<'a> {
    queries: &'a str,
    trace: Trace,
    texts: Texts,
    /// Form of every line's time, once there was a line; the inner `None` is for lines without.
    form: Option<Option<Form>>,
    last_ns: Option<i128>,
    /// Pause before the next statement.
    pause_ns: u64,
}

impl Log<'_> {
    fn error(&self, at: usize, what: impl std::fmt::Display) -> Error {
        let line = 1 + self.queries.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
        Error::user(format!("line {line}: {what}"))
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
        let mut trigger = Trigger::default();
        for token in Tokens::new(queries, start) {
            if !token.closed {
                let what = if token.kind == TokenKind::Comment { "comment" } else { "quote" };
                return Err(self
                    .error(token.start, format_args!("a {what} begins that never closes"))
                    .hint("a quote within quotes is doubled: 'it''s'"));
            }
            let ends = match token.kind {
                TokenKind::Blank | TokenKind::Comment => continue,
                TokenKind::Line => !trigger.open(),
                TokenKind::Semicolon => {
                    trigger.semicolon();
                    !trigger.open()
                }
                _ => {
                    trigger.word(&queries[token.start..token.end]);
                    false
                }
            };
            if ends {
                self.add(statement.take())?;
                trigger = Trigger::default();
                if token.kind == TokenKind::Line {
                    return Ok(token.end);
                }
            } else if token.kind != TokenKind::Line {
                statement = Some((statement.map_or(token.start, |s| s.0), token.end));
            }
        }
        if trigger.open() {
            return Err(self.error(start, "a trigger begins that has no END").hint("close its body with END"));
        }
        self.add(statement)?;
        Ok(queries.len())
    }

    fn add(&mut self, statement: Option<(usize, usize)>) -> Result<()> {
        let Some((start, end)) = statement else { return Ok(()) };
        let statement = self.texts.statement(&mut self.trace, &self.queries[start..end]);
        let pause_ns = std::mem::take(&mut self.pause_ns);
        let first = self.trace.measured().is_empty();
        self.trace.measure(if first { 0 } else { pause_ns }, statement, &[], false)
    }

    /// Takes the time off the line from `start` to `end` and returns where the rest begins.
    fn time(&mut self, start: usize, end: usize) -> Result<usize> {
        let line = &self.queries[start..end];
        let form = form_of(line);
        let known = *self.form.get_or_insert(form);
        if form != known {
            let words = |form: Option<Form>| form.map_or("no time", Form::name);
            let what = format!("it begins with {}, the first line with {}", words(form), words(known));
            return Err(self.error(start, what).hint("all lines have a time of the same form, or none has"));
        }
        let Some(form) = form else { return Ok(start) };
        let (time_ns, length) = form.read(line).map_err(|what| {
            self.error(start, what).hint("a time is `2024-05-17 08:30:00.25`, seconds `12.345` or milliseconds `12345`")
        })?;
        let before = self.last_ns.replace(time_ns).unwrap_or(time_ns);
        let pause_ns = u64::try_from(time_ns - before).ok().and_then(|ns| self.pause_ns.checked_add(ns));
        let Some(pause_ns) = pause_ns else {
            let what =
                if time_ns < before { "its time is before that of the line above" } else { "its time is too far" };
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
