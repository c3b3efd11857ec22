//! Replays of phones' logs, which no cell of the run has: of each log the longest run.

use super::recorded::ActivitySource;
use super::store::recorded_inputs;
use super::work::Job;
use super::{Inputs, Run, Work, plan_run};
use crate::results::left_out::LeftOut;
use crate::results::store::Store;
use crate::specification::factor::{Point, Value};
use crate::specification::phone_logs::{log, logs_below, recorded};
use crate::specification::recordings::Recorded;
use crate::specification::study::ReplaySpec;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_replay::device::Device;
use pocketstone_replay::recorded::from_phone;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A log of a study: its name there, and its file.
struct Log {
    name: String,
    file: PathBuf,
}

/// Plans the replays of a study's logs: those that are sought in `folders`, in this order. Where one is not there, the
/// replays that the results have of it stay.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read or written. A log that cannot be replayed is skipped and reported.
pub(super) fn plan_all(
    store: &Store,
    replay: &ReplaySpec,
    devices: &[&Device],
    folders: &[&Path],
    inputs: &mut Inputs,
) -> Result<Vec<(String, Vec<Job>)>> {
    let mut planned = Vec::new();
    let leave_out = |name: &str, error: Error| {
        store.leave_out(&LeftOut::new(format!("replays `{}` of {name}", replay.name), &error))
    };
    for path in replay.logs.iter().map(|path| path.get_ref()) {
        let logs = match found(path, folders) {
            Ok(logs) => logs,
            Err(error) => {
                let kept = recorded_inputs(store, &replay.name, path)?;
                if kept.is_empty() {
                    leave_out(path, error)?;
                }
                inputs.wanted.extend(kept);
                continue;
            }
        };
        for log in logs {
            match plan_one(replay, devices, &log, inputs) {
                Ok(jobs) => planned.push((log.name, jobs)),
                Err(error) => leave_out(&log.name, error)?,
            }
        }
    }
    Ok(planned)
}

/// The log of a path, or all those in a folder.
fn found(path: &str, folders: &[&Path]) -> Result<Vec<Log>> {
    let there = |folder: &&Path| Some(folder.join(path)).filter(|file| file.exists());
    let file = folders.iter().find_map(there).ok_or_else(|| {
        Error::user(format!("there is no {path}")).hint(format!(
            "a log's path is relative to the study's folder, or to that which {} names",
            super::REFERENCE
        ))
    })?;
    if !file.is_dir() {
        return Ok(vec![Log { name: path.to_owned(), file }]);
    }
    let mut files = Vec::new();
    logs_below(&file, &mut files)?;
    let name = |below: &Path| Path::new(path).join(below.strip_prefix(&file).unwrap_or(below)).display().to_string();
    Ok(files.into_iter().map(|file| Log { name: name(&file), file }).collect())
}

fn plan_one(replay: &ReplaySpec, devices: &[&Device], of: &Log, inputs: &mut Inputs) -> Result<Vec<Job>> {
    let failed = || format!("cannot read {}", of.file.display());
    let mut hash = Sha256::new();
    std::io::copy(&mut File::open(&of.file).user(failed)?, &mut hash).user(failed)?;
    let digest = format!("{:x}", hash.finalize());
    let (khz, beside) = (replay.recorded_khz, recorded(&of.file)?);
    let run = Run { cell: None, seed: 1, identity: format!("log\n{digest}\n{khz:?}\n{}\n{beside:?}", of.name) };
    // Logs are long: one whose replays the results have is not read again.
    let mut known: Option<Work> = None;
    let mut work = || match &known {
        Some(work) => Ok(work.clone()),
        None => Ok(known.insert(work_of(of, khz)?).clone()),
    };
    let mut jobs = Vec::new();
    for device in devices {
        jobs.extend(plan_run(replay, &run, (device, 1.0), inputs, &mut work)?);
    }
    Ok(jobs)
}

/// What the longest run of a log did; `khz` is what it was recorded at where it does not say so.
fn work_of(of: &Log, khz: Option<u32>) -> Result<Work> {
    let (events, recorded) = log(&of.file)?;
    // What a recording's nanosecond is worth on a device is of the lab's machine, not of a phone.
    let (activity, assumed_ns) = from_phone(&events, f64::from(khz.unwrap_or(1)) / 1e6)?;
    if assumed_ns > 0 && khz.is_none() {
        return Err(Error::user("the log does not have the frequency of all time on a core")
            .hint("say what it was recorded at: recorded_khz = 2265600, for example"));
    }
    let point = point(&of.name, &recorded, khz.filter(|_| assumed_ns > 0));
    let recorded = serde_json::to_string(&point).map_err(|e| Error::bug("a point is no JSON").because(e))?;
    Ok(Work { activity, source: ActivitySource::Log, recorded: Some(recorded) })
}

/// What a log is of, as the factors of a cell; `khz` is what it was taken to be recorded at.
fn point(name: &str, of: &Recorded, khz: Option<u32>) -> Point {
    let words = [
        ("workload", of.workload.as_deref()),
        ("engine", of.engine.as_deref()),
        ("delay", of.delay.as_deref()),
        ("governor", of.governor.as_deref()),
        ("log", Some(name)),
    ];
    let words = words.into_iter().filter_map(|(name, word)| Some((name.to_owned(), Value::Text(word?.to_owned()))));
    words.chain(khz.map(|khz| ("assumed_khz".to_owned(), Value::Number(khz.into())))).collect()
}
