//! The side of the engine's process; the protocol is in `task.rs`.

use super::calls::Recording;
use super::session::Ready;
use super::{Informs, Session, Task, TaskResult, Work, available, load};
use crate::clock::now_ns;
use pocketstone_core::database::{DatabaseEngine, DatabaseSpec};
use pocketstone_core::error::Context;
use pocketstone_core::events_log::encode_events;
use pocketstone_core::log::encode_calls;
use pocketstone_core::outcome::Failure;
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::Trace;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

/// Room for this many file calls is made for each step before the run, within bounds: 48 bytes each. SQLite
/// makes about 12 for a transaction with a rollback journal.
const CALLS_A_STEP: usize = 24;
const LEAST_CALLS: usize = 1 << 14;
const MOST_CALLS: usize = 1 << 20;

/// Carries out the task in a file, obeying `input` and answering on `output`. Returns the process's exit
/// status: 0, or 1 where the result has a failure (or cannot be written, which standard error then says).
pub fn serve(task_file: &Path, input: impl BufRead, output: impl Write) -> u8 {
    serve_informing(task_file, input, output, |_| None)
}

/// As [`serve`]; the threads that execute operations tell of their work, to whom `informs` gives for the task:
/// when operations start and end, and, with the SQLite that is compiled in, when they wait for data to be durable.
pub fn serve_informing(
    task_file: &Path,
    mut input: impl BufRead,
    mut output: impl Write,
    informs: impl FnOnce(&DatabaseSpec) -> Option<Box<Informs>>,
) -> u8 {
    let mut result = TaskResult { main_ns: now_ns(), ..TaskResult::default() };
    let task = match read_task(task_file) {
        Ok(task) => task,
        Err(error) => return complain(&error),
    };
    let informs = informs(&task.spec);
    if let Err(error) = work(&task, &mut input, &mut output, &mut result, informs.as_deref()) {
        result.failure = Some(Failure::from(&error));
    }
    match write_result(&task.result, &result) {
        Ok(()) => u8::from(result.failure.is_some()),
        Err(error) => complain(&error),
    }
}

/// There is no result to put it in: the last lines of standard error are what the runner shows then.
fn complain(error: &Error) -> u8 {
    let _ = writeln!(std::io::stderr(), "{}", error.chain());
    1
}

fn read_task(path: &Path) -> Result<Task> {
    let text = std::fs::read(path).board(|| format!("cannot read the task {}", path.display()))?;
    serde_json::from_slice(&text).board(|| format!("{} is not a task", path.display()))
}

fn write_result(path: &Path, result: &TaskResult) -> Result<()> {
    let text = serde_json::to_vec(result).map_err(|e| Error::bug("a result has no JSON").because(e))?;
    std::fs::write(path, text).board(|| format!("cannot write the result {}", path.display()))
}

fn work(
    task: &Task,
    input: &mut impl BufRead,
    output: &mut impl Write,
    result: &mut TaskResult,
    informs: Option<&Informs>,
) -> Result<()> {
    let trace = Arc::new(read_trace(task)?);
    match task.work {
        Work::Load => {
            result.loaded_ns = now_ns();
            result.engine = available(task.spec.engine)?;
            result.opened_ns = now_ns();
            say(output, "ready")?;
            hear_go(input)?;
            result.start_ns = now_ns();
            load(&task.spec, &task.directory, &trace)?;
            result.end_ns = now_ns();
            say(output, "done")?;
            hear_end(input)
        }
        Work::Measure => {
            let recording = match &task.events {
                Some(path) if task.spec.engine == DatabaseEngine::Sqlite => {
                    let room = trace.measured().len().saturating_mul(CALLS_A_STEP).clamp(LEAST_CALLS, MOST_CALLS);
                    Some((Recording::install(room)?, path))
                }
                // Its calls are known where it waits, and none is kept.
                _ if informs.is_some() && task.spec.engine == DatabaseEngine::Sqlite => {
                    Recording::install(0)?;
                    None
                }
                _ => None,
            };
            let ready = Ready::new(&task.spec, trace)?;
            result.loaded_ns = now_ns();
            let mut session = Session::open_ready(&task.spec, &task.directory, ready)?;
            session.engine().clone_into(&mut result.engine);
            result.opened_ns = now_ns();
            say(output, "ready")?;
            hear_go(input)?;
            if let Some((recording, _)) = &recording {
                recording.start();
            }
            let measured = session.run_informing(informs)?;
            if let Some((recording, _)) = &recording {
                recording.stop();
            }
            say(output, "done")?;
            hear_end(input)?;
            result.digest = measured.digest;
            result.rows = measured.rows;
            result.start_ns = measured.start_ns;
            result.end_ns = measured.end_ns;
            if let Some((recording, path)) = &recording {
                std::fs::write(path, encode_events(&recording.events())?)
                    .board(|| format!("cannot write the event log {}", path.display()))?;
            }
            std::fs::write(&task.calls, encode_calls(&measured.calls))
                .board(|| format!("cannot write the call log {}", task.calls.display()))
        }
    }
}

fn read_trace(task: &Task) -> Result<Trace> {
    let path = task.trace.display();
    let file = std::fs::read(&task.trace).board(|| format!("cannot read the prepared workload {path}"))?;
    let trace = Trace::decode(&file).board(|| format!("invalid prepared workload {path}"))?;
    let digest = Trace::digest(&file);
    if digest != task.spec.trace {
        return Err(Error::board(format!("{path} is the prepared workload {digest}, not {}", task.spec.trace))
            .hint("prepare the workload again"));
    }
    Ok(trace)
}

fn say(output: &mut impl Write, line: &str) -> Result<()> {
    writeln!(output, "{line}").and_then(|()| output.flush()).board(|| format!("cannot send `{line}` to the runner"))
}

fn hear_go(input: &mut impl BufRead) -> Result<()> {
    let mut line = String::new();
    input.read_line(&mut line).board(|| "cannot read from the runner".to_owned())?;
    match line.as_str() {
        "go\n" => Ok(()),
        "" => Err(Error::board("the runner exited before sending `go`")),
        other => Err(Error::bug(format!("the runner sent {other:?} instead of `go`"))),
    }
}

/// Waits until the runner has asked what this process used: while it does, nothing more may be used.
fn hear_end(input: &mut impl BufRead) -> Result<()> {
    let mut rest = Vec::new();
    input.read_to_end(&mut rest).board(|| "cannot read from the runner".to_owned())?;
    match rest.is_empty() {
        true => Ok(()),
        false => Err(Error::bug("the runner sent more than `go`")),
    }
}
