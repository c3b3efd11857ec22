//! The table of cases: what it says of each number, and what came out.

use crate::ground::Fault;
use pocketstone_tests::suites::settings;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What the table says of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It runs and passes.
    Pass,
    /// It runs and fails still, for this reason. That it passes is an error then.
    Fails(String),
    /// It does not run, for this reason.
    NotApplicable(String),
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Line {
    /// What the case is about.
    pub title: String,
    /// What is to come out.
    pub status: Status,
    /// Why ext4 does not show that the case is right.
    pub no_reference: Option<String>,
}

/// The table by numbers.
pub type Table = BTreeMap<u32, Line>;

/// Reads `tests/suites/xfstests.toml`.
pub fn shipped() -> Table {
    let path = settings("xfstests.toml");
    parse(&std::fs::read_to_string(&path).expect("the table")).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Reads a table.
pub fn parse(text: &str) -> Result<Table, String> {
    let read: toml::Table = text.parse().map_err(|e| format!("{e}"))?;
    let cases = read.get("cases").and_then(toml::Value::as_array).ok_or("there is no list of cases")?;
    let mut table = Table::new();
    for case in cases {
        let word = |name: &str| case.get(name).and_then(toml::Value::as_str).map(str::to_owned);
        let number = case.get("number").and_then(toml::Value::as_integer).ok_or(format!("no number: {case}"))?;
        let reason = || word("reason").ok_or(format!("{number}: no reason"));
        let status = match word("status").as_deref() {
            Some("run") => Status::Pass,
            Some("fails") => Status::Fails(reason()?),
            Some("not-applicable") => Status::NotApplicable(reason()?),
            other => return Err(format!("{number}: the status {other:?}")),
        };
        let known = ["number", "title", "status", "reason", "no-reference"];
        if let Some(key) = case.as_table().and_then(|case| case.keys().find(|key| !known.contains(&key.as_str()))) {
            return Err(format!("{number}: the unknown key {key}"));
        }
        let title = word("title").ok_or(format!("{number}: no title"))?;
        let line = Line { title, status, no_reference: word("no-reference") };
        if table.insert(number as u32, line).is_some() {
            return Err(format!("{number} is there twice"));
        }
    }
    Ok(table)
}

/// What came out of a case on both file systems.
#[derive(Debug, Default)]
pub struct Outcome {
    /// On SCMFS; `None` until it ran.
    pub scmfs: Option<Result<(), Fault>>,
    /// On ext4; `None` where it did not run.
    pub reference: Option<Result<(), Fault>>,
    /// How long it took on SCMFS.
    pub took_ms: u128,
}

/// What is wrong with an outcome, by the table.
pub fn wrong(number: u32, line: Option<&Line>, outcome: &Outcome) -> Option<String> {
    let Some(line) = line else { return Some(format!("{number} is not in the table")) };
    if let Some(Err(Fault::Failed(why))) = &outcome.reference {
        return Some(format!("{number} fails on ext4, so the case itself is wrong: {why}"));
    }
    match (&line.status, &outcome.scmfs) {
        (Status::NotApplicable(_), _) => Some(format!("{number} runs, and the table says that it does not apply")),
        (Status::Pass, Some(Err(Fault::Failed(why)))) => Some(format!("{number} fails: {why}")),
        (Status::Fails(_), Some(Ok(()))) => Some(format!("{number} passes: take it off the table's failures")),
        (_, None) => Some(format!("{number} did not run")),
        _ => None,
    }
}

/// The lines of the report, and how many passed, failed as expected, were skipped, and do not apply.
pub fn report(table: &Table, outcomes: &BTreeMap<u32, Outcome>, all: bool) -> String {
    let mut text = String::new();
    let (mut passed, mut failed, mut skipped, mut not_applicable) = (0, 0, 0, 0);
    for (number, line) in table {
        let (word, why) = match (&line.status, outcomes.get(number)) {
            (Status::NotApplicable(why), None) => ("n/a", why.clone()),
            (_, None) => continue,
            (status, Some(outcome)) => match (&outcome.scmfs, status) {
                (Some(Ok(())), _) => ("pass", format!("{} ms", outcome.took_ms)),
                (Some(Err(Fault::Skipped(why))), _) => ("skip", why.clone()),
                (Some(Err(Fault::Failed(why))), Status::Fails(reason)) => ("fail", format!("{reason}: {why}")),
                (Some(Err(Fault::Failed(why))), _) => ("FAIL", why.clone()),
                (None, _) => ("FAIL", "it did not run".to_owned()),
            },
        };
        match word {
            "pass" => passed += 1,
            "skip" => skipped += 1,
            "n/a" => not_applicable += 1,
            _ => failed += 1,
        }
        if all || !matches!(word, "pass" | "n/a") {
            let _ = writeln!(text, "generic/{number:03} {word:4} {}: {}", line.title, why.trim().replace('\n', " "));
        }
    }
    let on_ext4 = outcomes.values().filter(|outcome| matches!(outcome.reference, Some(Ok(())))).count();
    let _ = write!(
        text,
        "xfstests' generic cases: {passed} passed ({on_ext4} of all run passed on ext4, too), {failed} failed, \
         {skipped} skipped, {not_applicable} not applicable"
    );
    text
}
