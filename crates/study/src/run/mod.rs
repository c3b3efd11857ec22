//! Running a study on a board.

pub mod costs;
#[cfg(test)]
mod tests;

use crate::results::left_out::LeftOut;
use crate::results::store::{Store, key, select};
use crate::run::costs::{Costs, Left};
use crate::specification::cell::{Cell, cells, count};
use crate::specification::factor::TLB;
use crate::specification::shares::{Asked, Share, Shares};
use crate::specification::study::Study;
use crate::specification::traces::Traces;
use pocketstone_board::{Board, BoardContext, Failed, Measured, answer};
use pocketstone_core::database::{DatabaseEngine, DatabaseSpec};
use pocketstone_core::units::format_bytes;
use pocketstone_core::volume::Volume;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_engine::database::accepts;
use pocketstone_workload::Data;
use pocketstone_workload::plan::Step;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Observer of a run's progress.
pub trait Observer {
    /// The run begins: so many cells are to be measured, from so many states.
    fn begin(&mut self, todo: usize, states: usize);
    /// One more of the states that cells start from is made; what is left takes so long, where that is known.
    fn state(&mut self, left: Option<Duration>);
    /// A cell is done or has failed; what is left takes so long, where that is known.
    fn cell(&mut self, cell: &Cell, result: &Result<Measured, Failed>, left: Option<Duration>);
    /// `done` of so many replays are computed.
    fn replays(&mut self, done: usize, total: usize) {
        let _ = (done, total);
    }
}

/// The run request.
pub struct Request<'a> {
    /// The study.
    pub study: &'a Study,
    /// An SQL condition on its cells.
    pub only: Option<&'a str>,
    /// The directory that host cells work in, instead of the profile's.
    pub directory: Option<&'a Path>,
    /// Bytes of the board's chip, where that is known.
    pub chip_bytes: Option<u64>,
    /// Most cells that the user wants.
    pub most_cells: u64,
    /// The share of those cells that are to run; all of them without it.
    pub asked: Option<Asked>,
}

/// What is to run.
pub struct Selected {
    /// The cells, in the order to measure them.
    pub cells: Vec<Cell>,
    /// What cannot run, and why.
    pub left_out: BTreeSet<LeftOut>,
    /// Which share of the study's cells these are.
    pub share: Option<Share>,
}

/// The cells to run on a board, and those it does not support.
///
/// # Errors
/// `ErrorKind::User` for an invalid SQL condition; `ErrorKind::Board` if the board supports no cell of the study.
pub fn select_cells(request: &Request<'_>, kind: &str, board: Option<&Board>, traces: &mut Traces) -> Result<Selected> {
    let mut left_out = BTreeSet::new();
    let number = count(request.study, kind)?;
    if number > request.most_cells {
        let error = Error::user(format!("{} has {number} cells on a {kind} board", request.study.name));
        return Err(error.hint(format!("more than {} require --many-cells", request.most_cells)));
    }
    let mut cells = cells(request.study, kind, request.directory, true, traces)?;
    if let Some(chip_bytes) = request.chip_bytes {
        cells.iter().try_for_each(|c| fits(request.study, kind, c, chip_bytes))?;
    }
    if let Some(condition) = request.only {
        cells = select(cells, condition)?;
        if cells.is_empty() {
            return Err(Error::user(format!("no cell of {} matches `{condition}`", request.study.name))
                .hint("list the cells with --dry-run"));
        }
    }
    leave_out_what_cannot_run(&mut cells, &mut left_out, traces);
    // Shared out before anything is left out that depends on a machine: all have the same shares, whatever they lack.
    let shares = |asked: Asked| Shares::of(request.study, &cells, asked.shard.of, asked.verify_fraction);
    let shares = request.asked.map(|asked| Ok::<_, Error>((asked, shares(asked)?))).transpose()?;
    if let Some(board) = board {
        leave_out_what_the_board_lacks(request.study, kind, board, &mut cells, &mut left_out)?;
    }
    let share = shares.map(|(asked, shares)| {
        cells.retain(|cell| shares.has(asked.shard.index, cell));
        Share { asked, plan: shares.digest, cells: cells.len() }
    });
    Ok(Selected { cells, left_out, share })
}

/// Leaves out what a board does not support.
fn leave_out_what_the_board_lacks(
    study: &Study,
    kind: &str,
    board: &Board,
    cells: &mut Vec<Cell>,
    left_out: &mut BTreeSet<LeftOut>,
) -> Result<()> {
    for volume in volumes(cells) {
        let on = |c: &Cell| bare(&c.plan.volume) == volume;
        if lacks(left_out, &format!("cells on {}", volume.name()), answer(board.offers(&volume))?) {
            cells.retain(|c| !on(c));
        }
    }
    for engine in DatabaseEngine::ALL {
        let with = |c: &Cell| database(c).is_some_and(|d| d.engine == engine);
        let what = format!("cells with {}", engine.name());
        if cells.iter().any(with) && lacks(left_out, &what, answer(board.engine(engine))?) {
            cells.retain(|c| !with(c));
        }
    }
    for cell in cells.iter().filter(|c| c.plan.tlb.is_some()) {
        refuse_unknown_processor(study, kind, board, cell)?;
    }
    cells.retain(|c| {
        let processor = c.plan.tlb.as_deref().unwrap_or_default();
        let what = format!("TLB misses of {processor} on {}", c.plan.volume.name());
        !lacks(left_out, &what, board.models(&c.plan))
    });
    cells.retain(|c| {
        let what = format!("cuts of the power on {}", c.plan.volume.name());
        c.plan.power_cuts == 0 || !lacks(left_out, &what, board.cuts_power(&c.plan.volume))
    });
    cells.retain(|c| {
        let what = format!("faults of the chip on {}", c.plan.volume.name());
        c.plan.faults.is_none() || !lacks(left_out, &what, board.wears(&c.plan.volume))
    });
    // A study that has nothing to trace misses nothing; a program's system calls need no flash.
    let flash = |c: &Cell| c.traced && c.plan.workload.on_files().is_some();
    if cells.iter().any(flash) && lacks(left_out, "flash operations", board.capabilities().flash_counters.refuse()) {
        cells.retain(|c| !flash(c));
    }
    if cells.is_empty() {
        let why = left_out.iter().map(|l| l.why.clone()).collect::<Vec<_>>().join("; ");
        return Err(Error::board(format!("the board {} supports none of this study: {why}", board.name()))
            .hint("choose another board: pocketstone board list"));
    }
    for volume in only_elsewhere(study, kind) {
        // No cell here may erase anything, so neither may this.
        lacks(left_out, &format!("cells on {}", volume.name()), answer(board.offers_unerased(&volume))?);
    }
    Ok(())
}

/// Refuses a data TLB that nobody knows: that is no lack of a board.
fn refuse_unknown_processor(study: &Study, kind: &str, board: &Board, cell: &Cell) -> Result<()> {
    match board.models(&cell.plan) {
        Err(error) if error.kind() == ErrorKind::User => {
            let place = study.experiments.iter().find(|e| e.name == cell.experiment).map(|e| e.place(kind, TLB.name()));
            Err(match place {
                Some(place) => study.error_at(place, error),
                None => error,
            })
        }
        _ => Ok(()),
    }
}

/// Leaves out what an engine cannot run, whatever the board: settings that it does not have, and workloads.
fn leave_out_what_cannot_run(cells: &mut Vec<Cell>, left_out: &mut BTreeSet<LeftOut>, traces: &Traces) {
    // Each pair is looked at once: a workload's file is read for it.
    let mut configured = BTreeMap::new();
    let mut prepared = BTreeMap::new();
    cells.retain(|cell| {
        let Some(spec) = database(cell) else { return true };
        let name = spec.engine.name();
        let settings = format!("{:?}", spec.configuration);
        let refused = *configured.entry((name, settings)).or_insert_with(|| {
            lacks(left_out, &format!("some cells with {name}"), accepts(spec.engine, &spec.configuration))
        });
        let file = spec.recipe.file.as_ref().map(|file| file.display().to_string());
        let workload = file.unwrap_or_else(|| spec.recipe.workload.name().to_owned());
        let what = format!("cells with {name} and {workload}");
        let unable = *prepared
            .entry((name, workload))
            .or_insert_with(|| lacks(left_out, &what, traces.runs(spec.engine, &spec.recipe)));
        !refused && !unable
    });
}

/// Refuses files that the board's chip has no room for. What is compressed may take less.
fn fits(study: &Study, kind: &str, cell: &Cell, chip_bytes: u64) -> Result<()> {
    let volume = &cell.plan.volume;
    let Some(files) = cell.plan.workload.on_files().filter(|_| volume.on_raw_nand()) else { return Ok(()) };
    let population = files.population(cell.plan.seed);
    let bytes = population.bytes();
    if population.data == Data::Compressible || bytes <= chip_bytes {
        return Ok(());
    }
    let (bytes, chip) = (format_bytes(bytes), format_bytes(chip_bytes));
    let error = Error::user(format!("{bytes} of files do not fit the board's chip of {chip}"));
    let place = study.experiments.iter().find(|e| e.name == cell.experiment).map(|e| e.place(kind, "file_bytes"));
    Err(match place {
        Some(place) => study.error_at(place, error),
        None => error,
    })
}

/// Notes what a board lacks, and says whether it lacks it.
fn lacks<T>(left_out: &mut BTreeSet<LeftOut>, what: &str, offer: Result<T>) -> bool {
    let Err(error) = offer else { return false };
    left_out.insert(LeftOut::new(what, &error));
    true
}

fn database(cell: &Cell) -> Option<&DatabaseSpec> {
    cell.plan.workload.database()
}

/// A volume without its options and directory.
fn bare(volume: &Volume) -> Volume {
    Volume { options: Vec::new(), directory: None, ..volume.clone() }
}

/// The volumes that cells are on.
fn volumes(cells: &[Cell]) -> Vec<Volume> {
    let mut found = Vec::new();
    for volume in cells.iter().map(|cell| bare(&cell.plan.volume)) {
        if !found.contains(&volume) {
            found.push(volume);
        }
    }
    found
}

/// Volumes that a study has for other kinds of board alone: they are left out here, and that is worth a word.
fn only_elsewhere(study: &Study, kind: &str) -> Vec<Volume> {
    let replaced = study.experiments.iter().filter_map(|e| Some((e, e.on.get(kind)?.get("file_system")?)));
    let elsewhere = replaced.flat_map(|(e, here)| e.factors["file_system"].iter().filter(|v| !here.contains(v)));
    let names: BTreeSet<&str> = elsewhere.filter_map(|v| v.as_str()).collect();
    names.into_iter().filter_map(|name| Volume::named(name).ok()).collect()
}

/// Measures the cells that the store does not have yet, then computes statistics.
///
/// A failed cell is stored, and the others continue; one whose board is lost for good is stored and ends the run. Cell
/// costs are read from `costs` and added to it.
///
/// # Errors
/// `ErrorKind::Interrupted` if the user interrupts, with finished cells kept; `ErrorKind::User` if the results cannot
/// be written.
#[expect(clippy::too_many_arguments, reason = "each is a thing of its own")]
pub fn run(
    study: &Study,
    cells: &[Cell],
    board: &Board,
    store: &mut Store,
    traces: &Traces,
    context: &BoardContext,
    costs: &mut Costs,
    observer: &mut dyn Observer,
) -> Result<()> {
    let todo = not_done(cells, store)?;
    let states = states(&todo)?;
    // Results say what was executed, whatever becomes of the cache.
    traces.keep(cells.iter().map(|cell| &cell.plan.workload), store.folder())?;
    observer.begin(todo.len(), states.len());
    let workers = board.capabilities().parallel.max(1);
    let mut left = Left::new(store.costs(cells)?, board.name(), costs, &todo, states.len(), workers);
    let mut broken: Vec<(Vec<Step>, Failed)> = Vec::new();
    in_parallel(
        workers,
        &states,
        |steps| {
            let begin = Instant::now();
            (board.prepare(steps), begin.elapsed())
        },
        |steps, (result, took)| {
            left.state(took);
            observer.state(left.time());
            if let Err(failed) = result {
                broken.push((steps.clone(), failed));
            }
            Ok(())
        },
        context,
    )?;
    let measure = |cell: &&Cell| {
        let begin = Instant::now();
        let steps = cell.plan.steps();
        // What cannot be prepared once is not tried again for every cell that starts from it.
        let measured = match broken.iter().find(|(s, _)| *s == steps) {
            Some((_, failed)) => Err(without_state(failed)),
            None => board.measure(&cell.plan),
        };
        let waited = measured.as_ref().map_or_else(|failed| failed.waited, |measured| measured.waited);
        let result = measured.and_then(|measured| match database(cell) {
            Some(spec) => Ok(traces.check(spec, measured)?),
            None => Ok(measured),
        });
        (result, begin.elapsed().saturating_sub(waited).as_secs_f64() * 1000.0)
    };
    let outcome = in_parallel(
        workers,
        &todo,
        measure,
        |cell, (result, host_ms)| {
            // An interrupted cell is no failed one: it is simply not done.
            if context.check().is_err() && result.is_err() {
                return Ok(());
            }
            keep(store, cell, &result, host_ms)?;
            left.cell(cell, host_ms, result.is_ok());
            observer.cell(cell, &result, left.time());
            // The others would be lost as well: they are simply not done.
            match result {
                Err(failed) if failed.lost => Err(failed.into()),
                _ => Ok(()),
            }
        },
        context,
    );
    // Results that cannot be stored are the first thing to say; the statistics would fail for the same reason.
    let summarized = store.summarize(study).and_then(|()| store.keep_statements());
    left.learned(costs);
    outcome?;
    summarized?;
    context.check()
}

/// The cells that the store does not have yet.
fn not_done<'a>(cells: &'a [Cell], store: &Store) -> Result<Vec<&'a Cell>> {
    let done = store.done()?;
    let mut todo = Vec::new();
    for cell in cells {
        if !done.contains(&key(cell)?) {
            todo.push(cell);
        }
    }
    Ok(todo)
}

/// The states that cells start from, each once.
fn states(cells: &[&Cell]) -> Result<Vec<Vec<Step>>> {
    let mut states = Vec::new();
    let mut known = BTreeSet::new();
    for cell in cells {
        let steps = cell.plan.steps();
        let text = serde_json::to_vec(&steps).map_err(|e| Error::bug("a plan is not valid JSON").because(e))?;
        if known.insert(text) {
            states.push(steps);
        }
    }
    Ok(states)
}

/// The failure of a cell whose initial state could not be created.
fn without_state(failed: &Failed) -> Failed {
    let error = Error::board(format!("cannot create its initial state: {}", failed.error.chain()));
    let error = match failed.error.cure() {
        Some(cure) => error.hint(cure),
        None => error,
    };
    Failed { console: failed.console.clone(), lost: failed.lost, ..error.into() }
}

/// Stores what became of a cell, and what its measurement lacks.
fn keep(store: &mut Store, cell: &Cell, result: &Result<Measured, Failed>, host_ms: f64) -> Result<()> {
    store.put(cell, result, host_ms)?;
    for u in result.iter().flat_map(|m| &m.outcome.unavailable) {
        let (what, why, cure) = (u.what.to_string(), u.why.clone(), u.cure.clone());
        store.leave_out(&LeftOut { what, why, cure })?;
    }
    Ok(())
}

/// Where models have their numbers from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The folder of devices' profiles.
    pub devices: &'a Path,
    /// The folder of published tables that models are held against; `None`: what the results have of them stays.
    pub tables: Option<&'a Path>,
}

/// Brings the replays, modelled energies and validations of a run up to date, once its cells are measured.
///
/// # Errors
/// `ErrorKind::Interrupted` if the user interrupts; `ErrorKind::User` for an invalid device profile, or if the results
/// cannot be written.
pub fn replay(
    study: &Study,
    sources: Sources<'_>,
    store: &mut Store,
    context: &BoardContext,
    observer: &mut dyn Observer,
) -> Result<()> {
    let devices = crate::models::replay::devices(study, sources.devices, Some(store))?;
    crate::models::refresh::refresh(store, study, &devices, sources.tables, &mut |done, total| {
        observer.replays(done, total);
        context.check()
    })
}

/// Does `work` on all items with some threads, and hands the results to `collect` on this one.
fn in_parallel<T: Sync, R: Send>(
    workers: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut collect: impl FnMut(&T, R) -> Result<()>,
    context: &BoardContext,
) -> Result<()> {
    let queue = Mutex::new(0..items.len());
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..workers.min(items.len()) {
            let (send, queue, work) = (send.clone(), &queue, &work);
            scope.spawn(move || {
                let next = || queue.lock().ok()?.next();
                while context.check().is_ok() {
                    let Some(index) = next() else { return };
                    if send.send((index, work(&items[index]))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut result = Ok(());
        for (index, value) in receive {
            if result.is_ok() {
                result = collect(&items[index], value);
                if result.is_err() {
                    // Nothing more is worth starting when results cannot be kept.
                    if let Ok(mut queue) = queue.lock() {
                        *queue = 0..0;
                    }
                }
            }
        }
        result
    })
}
