//! Running a study on a board.

use crate::cell::{Cell, cells};
use crate::model::LeftOut;
use crate::store::{Store, key, select};
use crate::study::Study;
use crate::summarize;
use crate::traces::Traces;
use pocketstone_board::{Board, Failed, Measured, Surroundings};
use pocketstone_core::database::{DatabaseEngine, DatabaseSpec};
use pocketstone_core::plan::{FileSystem, Step, Workload};
use pocketstone_core::{Error, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Instant;

/// Told how a run goes.
pub trait Observer {
    /// The run begins: `total` cells, `todo` of which are not yet done.
    fn begin(&mut self, total: usize, todo: usize, states: usize);
    /// `done` of the states that cells start from are made.
    fn state(&mut self, done: usize);
    /// A cell is done or has failed.
    fn cell(&mut self, cell: &Cell, result: &Result<Measured, Failed>, host_ms: f64);
    /// `done` of so many replays are computed.
    fn replays(&mut self, done: usize, total: usize) {
        let _ = (done, total);
    }
}

/// What to run.
pub struct Request<'a> {
    /// The study.
    pub study: &'a Study,
    /// An SQL condition on its cells.
    pub only: Option<&'a str>,
    /// The directory that host cells work in, instead of the profile's.
    pub directory: Option<&'a Path>,
}

/// The cells to run on a board, and what cannot be run there.
///
/// # Errors
/// When the condition is no SQL, or the board can run nothing of the study.
pub fn select_cells(
    request: &Request<'_>,
    kind: &str,
    board: Option<&dyn Board>,
    traces: &mut Traces,
) -> Result<(Vec<Cell>, BTreeSet<LeftOut>)> {
    let mut left_out = BTreeSet::new();
    let mut cells = cells(request.study, kind, request.directory, true, traces)?;
    if let Some(condition) = request.only {
        cells = select(cells, condition)?;
        if cells.is_empty() {
            return Err(Error::user(format!("no cell of {} fulfils `{condition}`", request.study.name))
                .hint("list the cells with --dry-run"));
        }
    }
    let Some(board) = board else { return Ok((cells, left_out)) };
    for file_system in FileSystem::ALL {
        let on = |c: &Cell| c.plan.volume.file_system == file_system;
        if cells.iter().any(on)
            && lacks(&mut left_out, &format!("cells on {}", file_system.name()), board.offers(file_system))
        {
            cells.retain(|c| !on(c));
        }
    }
    for engine in DatabaseEngine::ALL {
        let with = |c: &Cell| database(c).is_some_and(|d| d.engine == engine);
        if cells.iter().any(with)
            && lacks(&mut left_out, &format!("cells with {}", engine.name()), board.engine(engine))
        {
            cells.retain(|c| !with(c));
        }
    }
    // A study that has nothing to trace misses nothing; a database's system calls need no flash.
    let flash = |c: &Cell| c.traced && database(c).is_none();
    if cells.iter().any(flash) && lacks(&mut left_out, "flash operations", board.traces()) {
        cells.retain(|c| !flash(c));
    }
    if cells.is_empty() {
        let why = left_out.iter().map(|l| l.why.clone()).collect::<Vec<_>>().join("; ");
        return Err(Error::board(format!("the board {} can run nothing of this: {why}", board.name()))
            .hint("choose another board: pocketstone board list"));
    }
    for file_system in only_elsewhere(request.study, kind) {
        lacks(&mut left_out, &format!("cells on {}", file_system.name()), board.offers(file_system));
    }
    Ok((cells, left_out))
}

/// Notes what a board lacks, and says whether it lacks it.
fn lacks<T>(left_out: &mut BTreeSet<LeftOut>, what: &str, offer: Result<T>) -> bool {
    let Err(error) = offer else { return false };
    let cure = error.cure().unwrap_or_default().to_owned();
    left_out.insert(LeftOut { what: what.to_owned(), why: error.chain(), cure });
    true
}

fn database(cell: &Cell) -> Option<&DatabaseSpec> {
    match &cell.plan.workload {
        Workload::Database(database) => Some(database),
        _ => None,
    }
}

/// File systems that a study has for other kinds of board alone: they are left out here, and that is worth a
/// word.
fn only_elsewhere(study: &Study, kind: &str) -> BTreeSet<FileSystem> {
    let replaced = study.experiments.iter().filter_map(|e| Some((e, e.on.get(kind)?.get("file_system")?)));
    let elsewhere = replaced.flat_map(|(e, here)| e.factors["file_system"].iter().filter(|v| !here.contains(v)));
    let names: Vec<&str> = elsewhere.filter_map(|v| v.as_str()).collect();
    FileSystem::ALL.into_iter().filter(|f| names.contains(&f.name())).collect()
}

/// Measures the cells that the store does not have yet, then computes statistics.
///
/// A failed cell is stored, and the rest goes on.
///
/// # Errors
/// When the user interrupts (what is done is kept) or the results cannot be written.
pub fn run(
    study: &Study,
    cells: &[Cell],
    board: &dyn Board,
    store: &mut Store,
    traces: &Traces,
    surroundings: &Surroundings,
    observer: &mut dyn Observer,
) -> Result<()> {
    let done = store.done()?;
    let mut todo = Vec::new();
    for cell in cells {
        if !done.contains(&key(cell)?) {
            todo.push(cell);
        }
    }
    let mut states: Vec<Vec<Step>> = Vec::new();
    for cell in &todo {
        let steps = cell.plan.steps();
        if !states.contains(&steps) {
            states.push(steps);
        }
    }
    // Results say what was executed, whatever becomes of the cache.
    todo.iter().filter_map(|c| database(c)).try_for_each(|d| traces.keep(&d.trace, store.folder()))?;
    observer.begin(cells.len(), todo.len(), states.len());
    let workers = board.parallel().max(1);
    let mut made = 0;
    let mut broken: Vec<(Vec<Step>, Failed)> = Vec::new();
    in_parallel(
        workers,
        &states,
        |steps| board.prepare(steps),
        |steps, result| {
            made += 1;
            observer.state(made);
            if let Err(failed) = result {
                broken.push((steps.clone(), failed));
            }
            Ok(())
        },
        surroundings,
    )?;
    let measure = |cell: &&Cell| {
        let begin = Instant::now();
        let steps = cell.plan.steps();
        // What cannot be prepared once is not tried again for every cell that starts from it.
        let result = match broken.iter().find(|(s, _)| *s == steps) {
            Some((_, failed)) => {
                let why = failed.error.chain();
                let error = Error::board(format!("the state it starts from cannot be made: {why}"));
                let error = match failed.error.cure() {
                    Some(cure) => error.hint(cure),
                    None => error,
                };
                Err(Failed { error, console: failed.console.clone() })
            }
            None => board.measure(&cell.plan).and_then(|measured| match database(cell) {
                Some(spec) => Ok(traces.check(spec, measured)?),
                None => Ok(measured),
            }),
        };
        (result, begin.elapsed().as_secs_f64() * 1000.0)
    };
    let outcome = in_parallel(
        workers,
        &todo,
        measure,
        |cell, (result, host_ms)| {
            // An interrupted cell is no failed one: it is simply not done.
            if surroundings.check().is_err() && result.is_err() {
                return Ok(());
            }
            store.put(cell, &result, host_ms)?;
            for u in result.iter().flat_map(|m| &m.outcome.unavailable) {
                let (what, why, cure) = (u.what.clone(), u.why.clone(), u.cure.clone());
                store.leave_out(&LeftOut { what, why, cure })?;
            }
            observer.cell(cell, &result, host_ms);
            Ok(())
        },
        surroundings,
    );
    // Results that cannot be stored are the first thing to say; the statistics would fail for the same reason.
    let summarized = summarize::summarize(store, study);
    outcome?;
    summarized?;
    surroundings.check()
}

/// Brings the replays and modelled energies of a run up to date, once its cells are measured.
///
/// # Errors
/// When the user interrupts, a device's profile is wrong, or the results cannot be written.
pub fn replay(
    study: &Study,
    devices: &Path,
    store: &mut Store,
    surroundings: &Surroundings,
    observer: &mut dyn Observer,
) -> Result<()> {
    let devices = crate::replay::devices(study, devices, Some(store))?;
    crate::replay::refresh(store, study, &devices, &mut |done, total| {
        observer.replays(done, total);
        surroundings.check()
    })
}

/// Does `work` on all items with some threads, and hands the results to `collect` on this one.
fn in_parallel<T: Sync, R: Send>(
    workers: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut collect: impl FnMut(&T, R) -> Result<()>,
    surroundings: &Surroundings,
) -> Result<()> {
    let queue = Mutex::new(0..items.len());
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..workers.min(items.len()) {
            let (send, queue, work) = (send.clone(), &queue, &work);
            scope.spawn(move || {
                let next = || queue.lock().ok()?.next();
                while surroundings.check().is_ok() {
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

/// A dry run's line for each cell.
pub fn dry_run(cells: &[Cell]) -> Vec<String> {
    cells.iter().map(Cell::describe).collect()
}

/// The factors in which the points of a run differ, in the order of the table of factors.
pub fn varying(points: &[&crate::factor::Point]) -> Vec<&'static str> {
    let names = crate::factor::FACTORS.iter().map(|f| f.name);
    names.filter(|n| points.iter().map(|p| p.get(*n)).collect::<Vec<_>>().windows(2).any(|w| w[0] != w[1])).collect()
}
