//! Work on databases: the engine runs in processes of its own, one that loads and one that is measured.

use super::{Work, drop_caches_of, programs_read_ahead, sequence, settings, speed};
use crate::context::Context;
use crate::probes::{Gathered, Program};
use crate::volume::{Home, Opened, empty_folder};
use pocketstone_core::database::{Condition, DatabaseEngine, DatabaseOutcome, DatabaseSpec, Usage};
use pocketstone_core::error::Context as _;
use pocketstone_core::log::decode_calls;
use pocketstone_core::outcome::{Failure, Outcome, Response};
use pocketstone_core::{Error, Result};
use pocketstone_engine::database::Work as Job;
use pocketstone_engine::database::{Process, Task, available};
use pocketstone_workload::database::Trace;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time until a process is ready: a Java machine on a slow board takes seconds.
const READY_LIMIT: Duration = Duration::from_secs(300);
/// Longest time that operations may take beyond twice their delays; what takes longer hangs.
const RUN_LIMIT: Duration = Duration::from_secs(1800);

/// Which engines this machine has.
pub fn engines() -> Response {
    let (mut offered, mut missing) = (BTreeMap::new(), BTreeMap::new());
    for engine in DatabaseEngine::ALL {
        match available(engine) {
            Ok(version) => {
                offered.insert(engine, version);
            }
            Err(error) => {
                missing.insert(engine, Failure::from(&error));
            }
        }
    }
    Response::Engines { offered, missing }
}

/// Loads the database of a volume, in a process of its own.
///
/// # Errors
/// The engine's own failure; `ErrorKind::Board` if its folder cannot be made, or it cannot be started, exits early or
/// hangs.
pub fn load(home: &Home, spec: &DatabaseSpec, trace: &Path, folder: &Path) -> Result<()> {
    let directory = home.of_database()?;
    if let Home::Kernel(_) = home {
        empty_folder(&directory)?;
    }
    let task = task(Job::Load, &directory, spec, trace, folder);
    let mut process = Process::start(&program()?, &task, folder)?;
    process.wait_ready(READY_LIMIT)?;
    process.go()?;
    process.wait_done(RUN_LIMIT)?;
    process.finish().map(|_| ())
}

fn task(work: Job, directory: &Path, spec: &DatabaseSpec, trace: &Path, folder: &Path) -> Task {
    Task {
        work,
        directory: directory.to_owned(),
        trace: trace.to_owned(),
        calls: folder.join("calls.bin"),
        events: None,
        result: folder.join("result.json"),
        spec: spec.clone(),
    }
}

fn program() -> Result<PathBuf> {
    std::env::current_exe().board(|| "cannot find the path of this program".into())
}

/// Measures a cell on a database.
///
/// # Errors
/// `ErrorKind::User` if the volume is open in this process, or the prepared workload is damaged; `ErrorKind::Board` if
/// a setting or a probe fails, or a log cannot be read; otherwise as [`load`].
pub fn measure(context: &Context<'_>, spec: &DatabaseSpec, opened: &Opened) -> Result<Outcome> {
    let directory = opened.home.of_database()?;
    if opened.is_new() {
        load(&opened.home, spec, context.trace, context.folder)?;
    }
    let mut unavailable = Vec::new();
    let mut settings = settings(context, &spec.conditions)?;
    // What the engine's process is told of them is what is in force.
    let mut told = spec.clone();
    let conditions = speed::condition(&mut told.conditions, speed::hints(spec.engine), &mut settings, &mut unavailable);
    let in_force = programs_read_ahead(context, &opened.home, &mut settings, &mut unavailable)?;
    let mut work = OnDatabase {
        context,
        spec,
        told,
        conditions,
        directory,
        limit: RUN_LIMIT + 2 * delays(context.trace)?,
        process: None,
        spawned_ns: 0,
    };
    let outcome = sequence(context, &mut work, in_force, unavailable)?;
    settings.restore().map(|()| outcome)
}

struct OnDatabase<'a> {
    context: &'a Context<'a>,
    spec: &'a DatabaseSpec,
    told: DatabaseSpec,
    conditions: Vec<Condition>,
    directory: PathBuf,
    limit: Duration,
    process: Option<Process>,
    spawned_ns: u64,
}

impl OnDatabase<'_> {
    fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().ok_or_else(|| Error::bug("the engine was not started"))
    }
}

impl Work for OnDatabase<'_> {
    fn start(&mut self) -> Result<Program> {
        // Time before a process's own code runs is a part of its start-up.
        self.spawned_ns = pocketstone_engine::now_ns();
        let Context { trace, folder, plan, .. } = self.context;
        let mut task = task(Job::Measure, &self.directory, &self.told, trace, folder);
        // SQLite's own record costs less than the kernel's, and has every file's name. A traced twin alone has it.
        let own_events = (plan.trace && self.spec.engine == DatabaseEngine::Sqlite).then(|| folder.join("own.bin"));
        task.events.clone_from(&own_events);
        let mut process = Process::start(&program()?, &task, folder)?;
        process.wait_ready(READY_LIMIT)?;
        let pid = process.pid();
        self.process = Some(process);
        Ok(Program { pid, folder: Some(self.directory.clone()), own_events })
    }

    fn drop_caches(&mut self) -> Result<()> {
        // The kernel caches nothing of a volume in process.
        match self.spec.cold && !self.directory.is_file() {
            true => drop_caches_of(&self.directory, self.context),
            false => Ok(()),
        }
    }

    fn go(&mut self) -> Result<()> {
        let limit = self.limit;
        let process = self.process()?;
        process.go()?;
        process.wait_done(limit)
    }

    fn finish(&mut self, gathered: &mut Gathered) -> Result<()> {
        let process = self.process.take().ok_or_else(|| Error::bug("the engine was not started"))?;
        let pid = process.pid();
        let result = process.finish()?;
        let calls =
            fs::read(self.context.folder.join("calls.bin")).board(|| "the engine produced no call log".into())?;
        let calls = decode_calls(&calls)?;
        // The first result is there after the start, the opening, and the first operation.
        let own = result.main_ns.saturating_sub(self.spawned_ns) + result.opened_ns.saturating_sub(result.loaded_ns);
        let outcome = &mut gathered.outcome;
        (outcome.start_ns, outcome.end_ns, outcome.calls) = (result.start_ns, result.end_ns, calls.len() as u64);
        outcome.database = Some(DatabaseOutcome {
            digest: result.digest,
            engine: result.engine,
            startup_ns: (result.main_ns > 0).then(|| own + calls.first().map_or(0, |c| c.latency_ns)),
            process_ns: None,
            pid,
            threads: Vec::new(),
            rows: result.rows,
            usage: Usage::default(),
            conditions: std::mem::take(&mut self.conditions),
        });
        Ok(())
    }
}

/// How long a workload waits in all.
fn delays(trace: &Path) -> Result<Duration> {
    let file = fs::read(trace).board(|| format!("cannot read {}", trace.display()))?;
    let trace = Trace::decode(&file)?;
    Ok(trace.measured().iter().map(|step| Duration::from_nanos(step.pause_ns)).sum())
}
