//! The measured part of a cell.

use crate::energy::Ready;
use crate::settings::guarded_settings;
use crate::{database, files, read_ahead, served, session, volume};
use pocketstone_core::error::Context;
use pocketstone_core::log::{FlashLog, FlashOp, encode_calls, encode_flash};
use pocketstone_core::outcome::{
    EnergyReading, FlashCounts, Geometry, OUTCOME_FORMAT, Outcome, ReadAheadInForce, Unavailable,
};
use pocketstone_core::plan::{FileSystem, PLAN_FORMAT, Plan, TARGET_FILE, Workload};
use pocketstone_core::{Error, Result};
use pocketstone_engine::{Engine, PosixFile};
use pocketstone_probe::Settings;
use pocketstone_probe::facts::gather;
use pocketstone_probe::flashmon::{Flashmon, first_nand, totals};
use pocketstone_workload::Operation;
use std::fs;
use std::path::Path;

/// Measures one cell; the logs of calls and flash operations go to `folder`.
///
/// # Errors
/// When any part of it fails; nothing is measured in part.
pub fn measure(plan: &Plan, trace: &Path, folder: &Path) -> Result<Outcome> {
    if plan.format != PLAN_FORMAT {
        return Err(Error::user(format!("the plan has format {}, this runner knows {PLAN_FORMAT}", plan.format))
            .hint("build the board again with the same version of pocketstone: pocketstone board build NAME"));
    }
    let spec = match &plan.workload {
        Workload::Read(spec) => spec,
        Workload::Files(spec) => return files::measure(plan, spec, folder),
        Workload::Postmark(_) | Workload::AppStart(_) => return session::measure(plan, folder),
        Workload::Database(spec) => return database::measure(plan, spec, trace, folder),
    };
    let operations: Vec<Operation> = pocketstone_workload::operations(&plan.workload, plan.seed).collect();
    let target = volume::folder(&plan.volume)?.join(TARGET_FILE);
    let mut unavailable = Vec::new();

    // The value is captured when the file is opened: it is set before, and put back at the end.
    let thrown_away = plan.volume.file_system != FileSystem::Directory;
    let mut settings = match plan.read_ahead.is_none() || thrown_away {
        true => Settings::unguarded(),
        false => guarded_settings()?,
    };
    let mut in_force = read_ahead::set(plan, &target, &mut settings, &mut unavailable)?;
    chill(plan, &target)?;
    let (mut engine, advice) = PosixFile::open(&target, spec, plan.read_ahead)?;
    in_force.advice = advice.into();
    in_force.resident_pages_before = pocketstone_engine::resident_pages(&target);

    let recorded = record(plan, &mut engine, &operations, folder, &mut unavailable)?;
    Ok(Outcome { prefetched: engine.prefetched(), ..recorded.outcome(in_force, unavailable) })
}

/// What the measured loop gave; its logs are in the cell's folder.
pub struct Recorded {
    /// Time of the first call's start.
    pub start_ns: u64,
    /// Time of the last call's end.
    pub end_ns: u64,
    /// Number of calls.
    pub calls: u64,
    /// The flash chip, where there is one.
    pub chip: Option<Geometry>,
    /// Flash operations, where they were traced.
    pub flash: Option<FlashCounts>,
    /// Its energy, where it was asked for and could be had.
    pub energy: Vec<EnergyReading>,
}

impl Recorded {
    /// The cell's outcome, with the machine's facts as they are now.
    pub fn outcome(self, read_ahead: ReadAheadInForce, unavailable: Vec<Unavailable>) -> Outcome {
        Outcome {
            format: OUTCOME_FORMAT,
            facts: gather(),
            read_ahead,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            calls: self.calls,
            chip: self.chip,
            flash: self.flash,
            prefetched: None,
            database: None,
            energy: self.energy,
            unavailable,
        }
    }
}

/// Runs the operations, traced where the plan says so, and keeps the logs in `folder`.
///
/// # Errors
/// When an operation fails, or the logs cannot be kept.
pub fn record(
    plan: &Plan,
    engine: &mut impl Engine,
    operations: &[Operation],
    folder: &Path,
    unavailable: &mut Vec<Unavailable>,
) -> Result<Recorded> {
    let energy = Ready::new(plan, unavailable)?;
    let monitor = if plan.trace { start_tracing(unavailable)? } else { None };
    let mut energy = energy.begin();
    energy.raise()?;
    let recording = pocketstone_engine::run(engine, operations);
    energy.lower()?;
    let energy = energy.finish(unavailable);
    let page_reads = monitor.as_ref().is_some_and(|m| m.page_reads_unavailable().is_none());
    let log = monitor.map(Flashmon::stop).transpose()?;
    let recording = recording?;
    let mut workers = served::threads_of(&plan.volume);
    workers.push(std::process::id());

    // Kernel threads do a block device's reads, and on a read-only volume nobody else has any.
    let all = plan.volume.file_system.read_only();
    keep(folder, "calls.bin", &encode_calls(&recording.calls))?;
    if let Some(log) = &log {
        keep(folder, "flash.bin", &encode_flash(log))?;
    }
    Ok(Recorded {
        start_ns: recording.start_ns,
        end_ns: recording.end_ns,
        calls: recording.calls.len() as u64,
        chip: first_nand().ok(),
        flash: log.map(|log| counts(&log, page_reads, |op| all || workers.contains(&op.pid))),
        energy,
    })
}

/// Writes a log into the cell's folder.
///
/// # Errors
/// When it cannot be written.
pub fn keep(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, bytes).board(|| format!("cannot write {}", path.display()))
}

/// Empties the page cache: all of it on a board that is ours, the target's part of it elsewhere.
fn chill(plan: &Plan, target: &Path) -> Result<()> {
    if plan.volume.file_system == FileSystem::Directory {
        return pocketstone_engine::evict(target);
    }
    fs::write("/proc/sys/vm/drop_caches", "1").board(|| "cannot drop the page cache".into())
}

/// Starts flashmon, or says why there is none: a machine without raw NAND still measures latency.
pub fn start_tracing(unavailable: &mut Vec<Unavailable>) -> Result<Option<Flashmon>> {
    match first_nand().and_then(Flashmon::new) {
        Ok(monitor) => {
            if let Some(why) = monitor.page_reads_unavailable() {
                unavailable.push(Unavailable { what: "page reads".into(), why, cure: String::new() });
            }
            monitor.start()?;
            Ok(Some(monitor))
        }
        Err(error) => {
            let cure = error.cure().unwrap_or_default().to_owned();
            unavailable.push(Unavailable { what: "flash operations".into(), why: error.chain(), cure });
            Ok(None)
        }
    }
}

/// Flash operations by the workload's threads, those of who serves its file system among them, and by all others.
pub fn counts(log: &FlashLog, page_reads: bool, mine: impl Fn(&FlashOp) -> bool) -> FlashCounts {
    FlashCounts { workload: totals(log, page_reads, &mine), background: totals(log, page_reads, |op| !mine(op)) }
}
