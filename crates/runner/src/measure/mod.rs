//! The measured part of a cell: one sequence, whatever is measured.
//!
//! The volume is opened (or made and filled, where it lives only as long as this process), settings are made, the
//! program under test is put in place, caches are made as the workload wants them, probes are armed, the work is
//! done, and probes are collected.

mod command;
mod database;
mod files;
mod read_ahead;
mod speed;

use crate::context::Context;
use crate::probes::{self, Gathered, Probe, Program};
use crate::volume::{self, Home, worn};
use pocketstone_core::database::Conditions;
use pocketstone_core::error::Context as _;
use pocketstone_core::faults::Worn;
use pocketstone_core::outcome::{OUTCOME_FORMAT, Outcome, ReadAheadInForce, Unavailable};
use pocketstone_core::{Error, Result};
use pocketstone_engine::{KernelTree, Tree};
use pocketstone_probe::facts::gather;
use pocketstone_probe::settings::{journals, restore_left};
use pocketstone_probe::{LabCopy, Settings};
use pocketstone_workload::Workload;
use pocketstone_workload::plan::PLAN_FORMAT;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs;
use std::path::Path;

pub use command::unpack;
pub use database::{engines, load};
pub use speed::informs;

/// Work to be measured.
trait Work {
    /// Puts everything in place: after this, the work alone is left.
    fn start(&mut self) -> Result<Program>;

    /// Makes caches cold, where the work wants them so.
    fn drop_caches(&mut self) -> Result<()>;

    /// Does the work.
    fn go(&mut self) -> Result<()>;

    /// Ends the program; what it says of itself goes into the outcome.
    fn finish(&mut self, gathered: &mut Gathered) -> Result<()>;
}

/// Measures one cell; the logs of calls, flash operations and events go to the cell's folder.
///
/// # Errors
/// `ErrorKind::User` if the plan has another format, or asks for what its volume does not support; `ErrorKind::Board`
/// if the volume, a setting, a probe or an engine fails. Nothing is measured in part.
pub fn measure(context: &Context<'_>) -> Result<Outcome> {
    let plan = context.plan;
    if plan.format != PLAN_FORMAT {
        return Err(Error::user(format!("the plan has format {}; this runner supports {PLAN_FORMAT}", plan.format))
            .hint("rebuild the board with the same version of pocketstone: pocketstone board build NAME"));
    }
    let for_engine = plan.workload.database().is_some();
    if let Some(scheduler) = plan.io_scheduler {
        volume::set_scheduler(scheduler, &context.board.places.block)?;
    }
    let watch = plan.faults.map(|_| worn::Watch::begin(context.board)).transpose()?;
    let opened = volume::open(&plan.volume, context.board, context.folder, for_engine)?;
    let mut outcome = match &plan.workload {
        Workload::Database(spec) => database::measure(context, spec, &opened)?,
        Workload::Command(spec) => command::measure(context, spec, &opened)?,
        Workload::Calls(spec) => {
            let file = std::fs::read(context.trace).board(|| format!("cannot read {}", context.trace.display()))?;
            files::measure(context, &spec.with(&file)?, &opened)?
        }
        on_files => files::measure(context, on_files.files()?, &opened)?,
    };
    outcome.facts.extend(opened.facts());
    if let Some(watch) = watch {
        let run = watch.end()?;
        drop(opened);
        let watch = worn::Watch::begin(context.board)?;
        let engine = plan.workload.engine_on_the_board();
        let found = worn::look(&plan.volume, engine, context.board, context.folder)?;
        outcome.worn = Some(Worn { run, look: watch.end()?, found, verdict: None });
    }
    Ok(outcome)
}

/// The one sequence of a measurement. `work` is ready to be put in place; settings are made.
fn sequence(
    context: &Context<'_>,
    work: &mut dyn Work,
    read_ahead: ReadAheadInForce,
    mut unavailable: Vec<Unavailable>,
) -> Result<Outcome> {
    // One that is thrown away has nothing left from earlier cells.
    if !context.board.capabilities.disposable {
        pocketstone_probe::remove_left_instances();
    }
    let mut probes = probes::all(context)?;
    probes.iter_mut().try_for_each(|probe| probe.before_start(&mut unavailable))?;
    let program = work.start()?;
    work.drop_caches()?;
    for probe in &mut probes {
        probe.arm(&program, &mut unavailable)?;
    }
    let done = done(&mut probes, work);
    // What went wrong with the work is the first thing to say.
    let ended = probes.iter_mut().try_for_each(|probe| probe.end());
    done?;
    ended?;
    let outcome = Outcome {
        format: OUTCOME_FORMAT,
        facts: gather(),
        read_ahead,
        start_ns: 0,
        end_ns: 0,
        calls: 0,
        chip: context.chip().ok(),
        flash: None,
        block: None,
        translation: None,
        prefetched: None,
        filled_bytes: None,
        space: None,
        database: None,
        command: None,
        energy: Vec::new(),
        others: None,
        counted: BTreeMap::new(),
        cuts: Vec::new(),
        worn: None,
        unavailable,
    };
    let mut gathered = Gathered { outcome, threads: BTreeSet::from([program.pid]), folder: context.folder.to_owned() };
    work.finish(&mut gathered)?;
    probes.into_iter().try_for_each(|probe| probe.collect(&mut gathered))?;
    gathered.outcome.set_threads(gathered.threads.iter().copied().collect());
    Ok(gathered.outcome)
}

fn done(probes: &mut [Box<dyn Probe>], work: &mut dyn Work) -> Result<()> {
    probes.iter_mut().rev().try_for_each(|probe| probe.begin())?;
    work.go()
}

/// Settings are put back by a watchdog on a machine that goes on; a board that is thrown away needs none. What an
/// earlier cell has left is put back in any case: it would be measured as well.
fn settings(context: &Context<'_>, asked: &Conditions) -> Result<Settings> {
    let Conditions { governor, cores, frequency, power: _ } = asked;
    let conditioned = governor.is_some() || cores.is_some() || frequency.is_some();
    let of_board = &context.board.settings;
    let any = conditioned || context.plan.read_ahead.is_some() || !of_board.is_empty();
    let mut settings = match context.board.capabilities.disposable {
        true => Settings::unguarded(),
        false if any => {
            let folder = journals()?;
            restore_left(&folder)?;
            guarded(context, &folder)?
        }
        // Who sets nothing needs no folder for that.
        false => {
            if let Ok(folder) = journals() {
                restore_left(&folder)?;
            }
            Settings::unguarded()
        }
    };
    of_board.iter().try_for_each(|setting| settings.make(setting))?;
    Ok(settings)
}

/// Settings with a journal in `folder`.
fn guarded(context: &Context<'_>, folder: &Path) -> Result<Settings> {
    let program = std::env::current_exe().board(|| "cannot find the path of this program".into())?;
    let lab = context.lab.map(|lab| lab.try_clone()).transpose().board(|| "cannot share a socket".into())?;
    Settings::guarded(&program, folder, lab.map(LabCopy::by))
}

/// The same for a program under test: only who asks for read-ahead misses it where there is none.
fn programs_read_ahead(
    context: &Context<'_>,
    home: &Home,
    settings: &mut Settings,
    unavailable: &mut Vec<Unavailable>,
) -> Result<ReadAheadInForce> {
    let mut missing = Vec::new();
    let in_force = read_ahead(context, home, settings, &mut missing)?;
    if context.plan.read_ahead.is_some() {
        unavailable.append(&mut missing);
    }
    Ok(in_force)
}

/// Makes the files of a program under test leave the page cache.
fn drop_caches_of(folder: &Path, context: &Context<'_>) -> Result<()> {
    volume::drop_caches("1", context.board, || evict(folder))
}

/// Makes the files of a folder, and of those in it, leave the page cache.
fn evict(folder: &Path) -> Result<()> {
    let failed = || format!("cannot list {}", folder.display());
    let tree = KernelTree::open(folder)?;
    for entry in fs::read_dir(folder).board(failed)? {
        let entry = entry.board(failed)?;
        let kind = entry.file_type().board(failed)?;
        if kind.is_dir() {
            evict(&entry.path())?;
        } else if kind.is_file() {
            let name = CString::new(entry.file_name().into_encoded_bytes()).board(failed)?;
            tree.evict(&name)?;
        }
    }
    Ok(())
}

/// Sets read-ahead as the plan asks for, for the kernel's files of a volume.
fn read_ahead(
    context: &Context<'_>,
    home: &Home,
    settings: &mut Settings,
    unavailable: &mut Vec<Unavailable>,
) -> Result<ReadAheadInForce> {
    let Home::Kernel(root) = home else { return Ok(ReadAheadInForce::default()) };
    if context.plan.volume.volatile() {
        return Ok(ReadAheadInForce::default());
    }
    read_ahead::set(context.plan, context.board, root, settings, unavailable)
}
