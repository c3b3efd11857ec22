//! The protocol of an engine process. Every engine runs in a separate process, so that a crash, a hang or a wrong
//! result affects only that process.
//!
//! ```text
//! runner                                   engine's process
//!   writes task.json, starts the process ->  reads it; loads the workload; opens the database
//!                                        <-  line "ready" on its standard output
//!   starts tracing, line "go" on its input ->
//!                                            executes all operations (or loads the database)
//!                                        <-  line "done"
//!   stops tracing, asks what it used
//!   closes its input                      ->  writes the call log and result.json, ends with status 0
//! ```
//! A process that fails writes a result with a failure and ends with status 1, without its next line.

use pocketstone_core::database::DatabaseSpec;
use pocketstone_core::outcome::Failure;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The task of an engine process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Make the database and bring it to the workload's initial state.
    Load,
    /// Execute the measured operations on it.
    Measure,
}

/// The task of a process: its file `task.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What to do.
    pub work: Work,
    /// The folder that the database's files are in; it exists, and is empty before loading. A file is the SCMFS volume
    /// that they are in.
    pub directory: PathBuf,
    /// The prepared workload.
    pub trace: PathBuf,
    /// Where to write the call log (`pocketstone_core::log`), when measuring.
    pub calls: PathBuf,
    /// Where to write the process's own record of its file calls (`pocketstone_core::events_log`), when
    /// measuring with the SQLite that is compiled in; nothing is recorded without it. Other engines have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<PathBuf>,
    /// Where to write the [`TaskResult`].
    pub result: PathBuf,
    /// The engine, its configuration and the pacing.
    pub spec: DatabaseSpec,
}

/// The result of an engine process: its file `result.json`. All times are CLOCK_MONOTONIC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaskResult {
    /// Digest of all results, 16 hexadecimal digits; `None` with several threads.
    pub digest: Option<String>,
    /// Engine and version, such as `SQLite 3.50.2`.
    pub engine: String,
    /// Rows returned.
    pub rows: u64,
    /// When the process's own code began.
    pub main_ns: u64,
    /// When it had loaded the workload, with all that is made of it before the database is opened.
    pub loaded_ns: u64,
    /// When the database was open.
    pub opened_ns: u64,
    /// Start of the first operation.
    pub start_ns: u64,
    /// End of the last operation.
    pub end_ns: u64,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}
