//! Cells on databases: the engine runs in processes of its own, one that loads and one that is measured.

use crate::cell::{counts, keep, start_tracing};
use crate::energy::Ready;
use crate::in_memory::{InMemory, Place};
use crate::settings::guarded_settings;
use crate::{read_ahead, served, speed, volume};
use pocketstone_core::database::{Conditions, DATABASE_FOLDER, DatabaseEngine, DatabaseOutcome, DatabaseSpec};
use pocketstone_core::error::Context;
use pocketstone_core::events_log::{decode_events, encode_events};
use pocketstone_core::log::{decode_calls, encode_flash};
use pocketstone_core::outcome::{Failure, OUTCOME_FORMAT, Outcome, Reply, Unavailable};
use pocketstone_core::plan::{Plan, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_engine::database::{Process, Task, Work, available};
use pocketstone_probe::facts::gather;
use pocketstone_probe::flashmon::{Flashmon, first_nand};
use pocketstone_probe::recorder::{BUFFER_KIB, kinds};
use pocketstone_probe::usage::Snapshot;
use pocketstone_probe::{Recorder, Settings, ensure_tracefs};
use pocketstone_workload::database::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time until a process is ready: a Java machine on a slow board takes seconds.
const READY_LIMIT: Duration = Duration::from_secs(300);
/// Longest time that operations may take beyond twice their delays; what takes longer hangs.
const RUN_LIMIT: Duration = Duration::from_secs(1800);

/// Which engines this machine has.
pub fn engines() -> Reply {
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
    Reply::Engines { offered, missing }
}

/// Loads the database of a volume, in a process of its own, and waits until the board is quiet.
///
/// # Errors
/// When the engine or the file system refuses, or the board does not come to rest.
pub fn prepare(asked: &Volume, spec: &DatabaseSpec, trace: &Path, folder: &Path) -> Result<()> {
    load(&volume::folder(asked)?, spec, trace, folder)?;
    volume::settle(asked)
}

fn load(base: &Path, spec: &DatabaseSpec, trace: &Path, folder: &Path) -> Result<()> {
    let directory = base.join(DATABASE_FOLDER);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).board(|| format!("cannot create {}", directory.display()))?;
    let task = task(Work::Load, &directory, spec, trace, folder);
    let mut process = Process::start(&program()?, &task, folder)?;
    process.wait_ready(READY_LIMIT)?;
    process.go()?;
    process.wait_done(RUN_LIMIT)?;
    process.finish().map(|_| ())
}

fn task(work: Work, directory: &Path, spec: &DatabaseSpec, trace: &Path, folder: &Path) -> Task {
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
    std::env::current_exe().board(|| "this program does not know where it is".into())
}

/// Measures a cell; the logs go to `folder`.
///
/// # Errors
/// When any part of it fails; nothing is measured in part.
pub fn measure(plan: &Plan, spec: &DatabaseSpec, trace: &Path, folder: &Path) -> Result<Outcome> {
    if !plan.volume.file_system.in_memory() {
        return run(plan, spec, trace, folder, &volume::folder(&plan.volume)?);
    }
    let mut made = InMemory::make(&plan.volume, folder)?;
    let Some(Place::Directory(base)) = made.take_place() else {
        return Err(Error::user("a database needs files that the kernel knows; scmfs here is a library")
            .hint("set file_system = \"scmfs-fuse\""));
    };
    load(&base, spec, trace, folder)?;
    let mut outcome = run(plan, spec, trace, folder, &base)?;
    outcome.facts.extend(made.facts());
    Ok(outcome)
}

fn run(plan: &Plan, spec: &DatabaseSpec, trace: &Path, folder: &Path, base: &Path) -> Result<Outcome> {
    let directory = base.join(DATABASE_FOLDER);
    let mut unavailable = Vec::new();
    let mut settings = settings(plan, spec)?;
    // What the engine's process is told of them is what is in force.
    let mut told = spec.clone();
    let conditions = speed::apply(&mut told.conditions, spec.engine, &mut settings);
    for missed in conditions.iter().filter(|c| !c.why.is_empty()) {
        let what = format!("{} {}", missed.name, missed.asked);
        unavailable.push(Unavailable { what, why: missed.why.clone(), cure: String::new() });
    }
    // Only who asks for read-ahead misses it where there is none.
    let mut missing = Vec::new();
    let read_ahead = read_ahead::set(plan, base, &mut settings, &mut missing)?;
    if plan.read_ahead.is_some() {
        unavailable.append(&mut missing);
    }

    let limit = RUN_LIMIT + 2 * delays(trace)?;
    // PocketData's energy is that of the engine's whole process.
    let mut energy = Ready::new(plan, &mut unavailable)?.begin();
    // Time before a process's own code runs is a part of its start-up.
    let spawned_ns = pocketstone_engine::now_ns();
    let mut task = task(Work::Measure, &directory, &told, trace, folder);
    // SQLite's own record costs less than the kernel's, and has every file's name. A traced twin alone has it.
    let own = (plan.trace && spec.engine == DatabaseEngine::Sqlite).then(|| folder.join("own.bin"));
    task.events.clone_from(&own);
    let mut process = Process::start(&program()?, &task, folder)?;
    process.wait_ready(READY_LIMIT)?;
    if spec.cold {
        chill(plan, &directory)?;
    }
    // Everything is in place by now: the engine waits.
    energy.rest();
    let monitor = match plan.trace && first_nand().is_ok() {
        true => start_tracing(&mut unavailable)?,
        false => None,
    };
    let mut recorder = match plan.trace {
        true => start_recording(process.pid(), &directory, own.is_none(), &mut unavailable),
        false => None,
    };
    if let Some(recorder) = &mut recorder {
        recorder.start()?;
    }
    let before = Snapshot::of(process.pid());
    energy.raise()?;
    process.go()?;
    let waited = process.wait_done(limit);
    let lowered = energy.lower();
    let after = Snapshot::of(process.pid());
    let recording = recorder.map(Recorder::stop);
    let page_reads = monitor.as_ref().is_some_and(|m| m.page_reads_unavailable().is_none());
    let flash = monitor.map(Flashmon::stop);
    // What went wrong with the engine is the first thing to say.
    waited?;
    lowered?;
    let pid = process.pid();
    let result = process.finish()?;
    let energy = energy.finish(&mut unavailable);
    let (recording, flash) = (recording.transpose()?, flash.transpose()?);

    let calls = fs::read(folder.join("calls.bin")).board(|| "the engine left no call log".into())?;
    let calls = decode_calls(&calls)?;
    let mut threads = BTreeSet::from([pid]);
    let mut events = None;
    if let Some(recording) = recording {
        threads.extend(recording.threads);
        unavailable.extend(recording.unavailable);
        events = Some(recording.log);
    }
    if let Some(path) = own {
        let log = fs::read(&path).board(|| "the engine left no record of its file calls".into())?;
        let log = decode_events(&log)?;
        threads.extend(log.tasks.iter().map(|(thread, _)| *thread));
        // The kernel's first: its names of threads are those of the run's end.
        events = Some(events.unwrap_or_default().join(log)?);
    }
    if let Some(log) = &events {
        keep(folder, "events.bin", &encode_events(log)?)?;
    }
    let threads: Vec<u32> = threads.into_iter().collect();
    let servers = served::threads_of(&plan.volume);
    if let Some(log) = &flash {
        keep(folder, "flash.bin", &encode_flash(log))?;
    }
    // The first result is there after the start, the opening, and the first operation.
    let own = (result.main_ns.saturating_sub(spawned_ns)) + result.opened_ns.saturating_sub(result.loaded_ns);
    Ok(Outcome {
        format: OUTCOME_FORMAT,
        facts: gather(),
        read_ahead,
        start_ns: result.start_ns,
        end_ns: result.end_ns,
        calls: calls.len() as u64,
        chip: first_nand().ok(),
        flash: flash.map(|log| counts(&log, page_reads, |op| threads.contains(&op.pid) || servers.contains(&op.pid))),
        prefetched: None,
        database: Some(DatabaseOutcome {
            digest: result.digest,
            engine: result.engine,
            startup_ns: (result.main_ns > 0).then(|| own + calls.first().map_or(0, |c| c.latency_ns)),
            process_ns: after.on_core_ns(),
            pid,
            threads,
            rows: result.rows,
            usage: after.since(&before),
            conditions,
        }),
        energy,
        unavailable,
    })
}

/// How long a workload waits in all.
fn delays(trace: &Path) -> Result<Duration> {
    let file = fs::read(trace).board(|| format!("cannot read {}", trace.display()))?;
    let trace = Trace::decode(&file)?;
    Ok(trace.measured().iter().map(|step| Duration::from_nanos(step.pause_ns)).sum())
}

/// Settings are put back by a watchdog on a machine that goes on; a board of ours is thrown away.
fn settings(plan: &Plan, spec: &DatabaseSpec) -> Result<Settings> {
    let thrown_away = plan.volume.file_system.of_board();
    let Conditions { governor, cores, frequency, power: _ } = &spec.conditions;
    let asked = governor.is_some() || cores.is_some() || frequency.is_some() || plan.read_ahead.is_some();
    match asked && !thrown_away {
        true => guarded_settings(),
        false => Ok(Settings::unguarded()),
    }
}

/// Starts to record the process's events, or says why that cannot be. The process's own record is there all
/// the same, where it has one: then every other kind is named.
fn start_recording(
    pid: u32,
    directory: &Path,
    system_calls: bool,
    unavailable: &mut Vec<Unavailable>,
) -> Option<Recorder> {
    // As the files' names are in the process's own record.
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let error = match ensure_tracefs().and_then(|()| Recorder::new(pid, &[&directory], BUFFER_KIB, system_calls)) {
        Ok(recorder) => return Some(recorder),
        Err(error) => error,
    };
    let cure = error.cure().unwrap_or_default();
    let mut missed = |what: &str| {
        unavailable.push(Unavailable { what: what.into(), why: error.chain(), cure: cure.into() });
    };
    match system_calls {
        true => missed("reads and writes, time on core and page-cache misses of each operation"),
        false => kinds(system_calls).for_each(missed),
    }
    None
}

/// Empties the page cache: all of it on a board that is ours, the database's part of it elsewhere.
fn chill(plan: &Plan, directory: &Path) -> Result<()> {
    if plan.volume.file_system.of_board() {
        return fs::write("/proc/sys/vm/drop_caches", "1").board(|| "cannot drop the page cache".into());
    }
    let failed = || format!("cannot list {}", directory.display());
    for entry in fs::read_dir(directory).board(failed)? {
        let path = entry.board(failed)?.path();
        if path.is_file() {
            pocketstone_engine::evict(&path)?;
        }
    }
    Ok(())
}
