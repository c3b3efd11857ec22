//! Studies of a moment, for boards of which this machine's results are the right ones: a file that grows, and a
//! phone's database.

use crate::results::value;
use std::fmt::Write as _;
use std::path::Path;

/// A study of these experiments, of one repetition where they do not say otherwise.
pub fn study(experiments: &[String]) -> String {
    format!("title = \"t\"\nboard = \"host\"\nrepetitions = 1\n{}", experiments.concat())
}

/// The experiment `files`: 16 appends to a file.
pub fn files(file_system: &str, traced: &str) -> String {
    format!(
        r#"[[experiment]]
name = "files"
traced = "{traced}"
[experiment.factors]
file_system = "{file_system}"
workload = "files"
operation = "append"
file_bytes = "64KiB"
requests = 16
"#
    )
}

/// The experiment `database`: what an app of a phone did, by each engine, in a folder.
pub struct Database<'a> {
    /// How many of its operations.
    pub operations: u32,
    /// By what.
    pub engines: &'a [&'a str],
    /// How often.
    pub repetitions: u32,
    /// Which have a twin.
    pub traced: &'a str,
    /// Other factors and their values.
    pub more: &'a [(&'a str, &'a str)],
}

impl Default for Database<'_> {
    fn default() -> Self {
        Database { operations: 40, engines: &["sqlite"], repetitions: 1, traced: "none", more: &[] }
    }
}

impl Database<'_> {
    /// As a part of a study.
    pub fn experiment(&self) -> String {
        let Database { operations, engines, repetitions, traced, more } = self;
        let mut text = format!(
            r#"[[experiment]]
name = "database"
traced = "{traced}"
repetitions = {repetitions}
[experiment.factors]
file_system = "directory"
workload = "pocketdata-a"
engine = {engines:?}
operations = {operations}
"#
        );
        for (factor, value) in *more {
            let _ = writeln!(text, "{factor} = \"{value}\"");
        }
        text
    }
}

/// Two runs of a folder, of a study with the experiment `database`, have the same cells, calls and results.
#[track_caller]
pub fn are_alike(home: &Path, runs: [&str; 2]) {
    for sql in [
        "SELECT group_concat(outcome ->> '$.database.digest') FROM cell WHERE experiment = 'database'",
        "SELECT group_concat(id || ' ' || status || ' ' || experiment) FROM cell",
        "SELECT group_concat(n) FROM (SELECT count(*) AS n FROM call GROUP BY cell)",
    ] {
        let [one, other] = runs.map(|run| value::<String>(&home.join(run), sql));
        assert_eq!(one, other, "{sql}");
    }
}
