//! The JSON form that PocketData published its workloads in.
//!
//! ```text
//! {"init": [{"sql": "CREATE ..."}, ...],
//!  "benchmark": [{"op": "query", "sql": "SELECT ..."}, {"op": "break", "delta": MILLISECONDS}, ...]}
//! ```
//! This lab adds `"joined": true` to a query that belongs to the operation before it.

use super::trace::{StatementKind, Trace};
use pocketstone_core::database::Delay;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::fmt::Write;

/// Longest pause of a JSON file, 6 days: up to here milliseconds as a double keep every nanosecond.
const LONGEST_PAUSE_NS: u64 = 1 << 49;

/// Statements without values, each text once.
#[derive(Default)]
pub(super) struct Texts(HashMap<String, u32>);

impl Texts {
    /// The statement with that text, added to the trace where it is new.
    pub(super) fn statement(&mut self, trace: &mut Trace, text: &str) -> u32 {
        if let Some(known) = self.0.get(text) {
            return *known;
        }
        let statement = trace.add_statement(text, StatementKind::Sql, 0);
        self.0.insert(text.to_owned(), statement);
        statement
    }
}

/// Reads a workload in the published JSON form. Breaks become the next query's pause; those that follow
/// each other add up, and one behind the last query is dropped, for there is nothing to wait for. A
/// `delay` replaces the file's breaks; `seed` is for its random numbers.
///
/// # Errors
/// `ErrorKind::User` if it does not have that format; the message names the element.
pub fn from_published(json: &[u8], delay: Option<Delay>, seed: u64) -> Result<Trace> {
    let file: Json = serde_json::from_slice(json).user(|| "not a published workload: invalid JSON".to_owned())?;
    let (mut trace, mut texts) = (Trace::default(), Texts::default());
    for (n, element) in list(&file, "init")?.iter().enumerate() {
        let statement = texts.statement(&mut trace, sql(element).map_err(|e| at("init", n, e))?);
        trace.load(statement, &[])?;
    }
    let mut pause_ns = 0u64;
    for (n, element) in list(&file, "benchmark")?.iter().enumerate() {
        let wrong = |what: String| at("benchmark", n, what);
        match element.get("op").and_then(Json::as_str) {
            Some("query") => {
                let statement = texts.statement(&mut trace, sql(element).map_err(wrong)?);
                let joined = match element.get("joined") {
                    None => false,
                    Some(Json::Bool(joined)) => *joined && !trace.measured().is_empty(),
                    Some(other) => return Err(wrong(format!("its `joined` is {other}, not true or false"))),
                };
                trace.measure(pause_ns, statement, &[], joined)?;
                pause_ns = 0;
            }
            Some("break") => pause_ns = add_break(pause_ns, element).map_err(wrong)?,
            Some(other) => return Err(wrong(format!("its `op` is `{other}`, not query or break"))),
            None => return Err(wrong("it has no `op`, query or break".to_owned())),
        }
    }
    if let Some(delay) = delay {
        trace.set_delays(delay, seed);
    }
    Ok(trace)
}

fn list<'a>(file: &'a Json, name: &str) -> Result<&'a Vec<Json>> {
    file.get(name).and_then(Json::as_array).ok_or_else(|| {
        Error::user(format!("not a published workload: it has no list `{name}`"))
            .hint(r#"the form is {"init": [{"sql": ...}], "benchmark": [{"op": "query", "sql": ...}, ...]}"#)
    })
}

fn at(list: &str, n: usize, what: String) -> Error {
    Error::user(format!("{list}[{n}]: {what}")).hint("elements are counted from 0; correct this one")
}

fn sql(element: &Json) -> Result<&str, String> {
    match element.get("sql") {
        Some(Json::String(text)) if text.trim().is_empty() => Err("its `sql` is empty".to_owned()),
        Some(Json::String(text)) => Ok(text),
        Some(other) => Err(format!("its `sql` is {other}, not text")),
        None => Err("it has no `sql`".to_owned()),
    }
}

fn add_break(pause_ns: u64, element: &Json) -> Result<u64, String> {
    let ms = match element.get("delta") {
        Some(delta) => delta.as_f64().ok_or_else(|| format!("its `delta` is {delta}, not a number"))?,
        None => return Err("it has no `delta`, milliseconds".to_owned()),
    };
    let ns = (ms * 1e6).round();
    if !(0.0..=LONGEST_PAUSE_NS as f64).contains(&ns) {
        return Err(format!("its `delta` is {ms}: milliseconds are from 0 to {}", LONGEST_PAUSE_NS / 1_000_000));
    }
    let sum = pause_ns + ns as u64;
    match sum <= LONGEST_PAUSE_NS {
        true => Ok(sum),
        false => Err(format!("the pause before it exceeds {} ms", LONGEST_PAUSE_NS / 1_000_000)),
    }
}

/// Writes a workload in the published JSON form. Values are literals in the SQL text, so that a reader
/// gets statements without values. A pause is exact: with a fraction where it is no whole millisecond.
///
/// # Errors
/// `ErrorKind::User` if it starts from a database file, which the format cannot represent, or a pause is longer than 6
/// days.
pub fn to_published(trace: &Trace) -> Result<String> {
    if !trace.image.is_empty() {
        return Err(Error::user("a workload that starts from a database file cannot be written as JSON")
            .hint("keep it as a prepared workload"));
    }
    let mut json = String::from("{\"init\": [");
    for (n, step) in trace.loading().iter().enumerate() {
        json.push_str(if n == 0 { "\n" } else { ",\n" });
        let _ = write!(json, "{{\"sql\": {}}}", Json::from(trace.sql(step)));
    }
    json.push_str("\n], \"benchmark\": [");
    for (n, step) in trace.measured().iter().enumerate() {
        if step.pause_ns > LONGEST_PAUSE_NS {
            return Err(Error::user(format!("the pause before step {n} is {} ns, too long for JSON", step.pause_ns))
                .hint(format!("pauses are at most {LONGEST_PAUSE_NS} ns; set other delays")));
        }
        json.push_str(if n == 0 { "\n" } else { ",\n" });
        // Between two operations there is always a break, as in the published files.
        if step.pause_ns > 0 || (n > 0 && !step.joined) {
            let _ = writeln!(json, "{{\"op\": \"break\", \"delta\": {}}},", milliseconds(step.pause_ns));
        }
        let joined = if step.joined { ", \"joined\": true" } else { "" };
        let _ = write!(json, "{{\"op\": \"query\", \"sql\": {}{joined}}}", Json::from(trace.sql(step)));
    }
    json.push_str("\n]}\n");
    Ok(json)
}

/// Nanoseconds as milliseconds in decimals, all of them.
fn milliseconds(ns: u64) -> String {
    let (whole, fraction) = (ns / 1_000_000, ns % 1_000_000);
    match fraction {
        0 => whole.to_string(),
        _ => format!("{whole}.{fraction:06}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests;
