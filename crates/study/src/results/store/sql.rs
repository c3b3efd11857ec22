//! SQL that a user wrote: its time has a limit, and its errors show that text alone.

use pocketstone_core::{Error, Result};
use rusqlite::{Connection, ErrorCode};
use std::time::{Duration, Instant};

/// What a query over results that are there may take.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// What a query may take that is only checked, on tables that are empty, and a condition on cells that are listed.
pub(super) const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// Steps of SQLite's machine between two looks at the clock: a fraction of a millisecond.
const STEPS: i32 = 10_000;

/// Runs a user's query, and ends it when its time is over.
///
/// # Errors
/// `ErrorKind::User` for invalid SQL, or if it takes too long: SQLite's message, without the text around the user's.
pub(super) fn limited<T>(
    db: &Connection,
    limit: Duration,
    text: &str,
    run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T> {
    let end = Instant::now() + limit;
    db.progress_handler(STEPS, Some(move || Instant::now() >= end));
    let result = run(db);
    db.progress_handler(0, None::<fn() -> bool>);
    result.map_err(|e| match e.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => Error::user(format!("it takes longer than {} s", limit.as_secs()))
            .hint("give a recursion an end and a join a condition; a query may not take longer"),
        Some(ErrorCode::AuthorizationForStatementDenied) => Error::user("a table of metrics is read as one of `main`")
            .hint(
                "leave out `main.`, or write `temp.` where WITH has a table of that name: those say which values are \
                 modelled",
            ),
        _ => said(&e, text),
    })
}

/// An error in SQLite's words about `text`, which may stand within a longer query of our own.
fn said(error: &rusqlite::Error, text: &str) -> Error {
    let rusqlite::Error::SqlInputError { msg, .. } = error else { return Error::user(error.to_string()) };
    // What it stumbled over may be ours: the user's text ended too early, or began in the middle.
    let word = msg.strip_prefix("near \"").and_then(|rest| rest.strip_suffix("\": syntax error"));
    let own = word.is_none_or(|word| text.contains(word));
    Error::user(if own && msg != "incomplete input" { msg.clone() } else { "it is incomplete".into() })
}
