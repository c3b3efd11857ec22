//! Running a study on a board.

use crate::cell::{Cell, cells};
use crate::model::LeftOut;
use crate::store::{Store, key, select};
use crate::study::Study;
use crate::summarize;
use pocketstone_board::{Board, Failed, Measured, Surroundings};
use pocketstone_core::plan::{FileSystem, Step};
use pocketstone_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
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
) -> Result<(Vec<Cell>, BTreeSet<LeftOut>)> {
    let mut left_out = BTreeSet::new();
    let mut cells = cells(request.study, kind, request.directory, true)?;
    if let Some(condition) = request.only {
        cells = select(cells, condition)?;
        if cells.is_empty() {
            return Err(Error::user(format!("no cell of {} fulfils `{condition}`", request.study.name))
                .hint("list the cells with --dry-run"));
        }
    }
    let Some(board) = board else { return Ok((cells, left_out)) };
    let mut offers: BTreeMap<&str, bool> = BTreeMap::new();
    for file_system in FileSystem::ALL {
        let wanted = cells.iter().any(|c| c.plan.volume.file_system == file_system);
        if let (true, Err(error)) = (wanted, board.offers(file_system)) {
            let cure = error.cure().unwrap_or_default().to_owned();
            let what = format!("cells on {}", file_system.name());
            left_out.insert(LeftOut { what, why: error.chain(), cure });
            offers.insert(file_system.name(), false);
        }
    }
    cells.retain(|c| *offers.get(c.plan.volume.file_system.name()).unwrap_or(&true));
    // A study that has nothing to trace misses nothing.
    if let (true, Err(error)) = (cells.iter().any(|c| c.traced), board.traces()) {
        let cure = error.cure().unwrap_or_default().to_owned();
        left_out.insert(LeftOut { what: "flash operations".into(), why: error.chain(), cure });
        cells.retain(|c| !c.traced);
    }
    if cells.is_empty() {
        let why = left_out.iter().map(|l| l.why.clone()).collect::<Vec<_>>().join("; ");
        return Err(Error::board(format!("the board {} can run nothing of this: {why}", board.name()))
            .hint("choose another board: pocketstone board list"));
    }
    // What the study has for other kinds of board is left out here, and that is worth a word.
    let other: BTreeSet<&str> = request
        .study
        .experiments
        .iter()
        .filter(|e| e.on.contains_key(kind))
        .flat_map(|e| {
            let here = e.on[kind].get("file_system");
            e.factors["file_system"]
                .iter()
                .filter(move |v| here.is_some_and(|h| !h.contains(v)))
                .filter_map(|v| v.as_str())
        })
        .collect();
    for name in other {
        let file_system = FileSystem::ALL.into_iter().find(|f| f.name() == name);
        if let Some(Err(error)) = file_system.map(|f| board.offers(f)) {
            let cure = error.cure().unwrap_or_default().to_owned();
            left_out.insert(LeftOut { what: format!("cells on {name}"), why: error.chain(), cure });
        }
    }
    Ok((cells, left_out))
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
            None => board.measure(&cell.plan),
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
