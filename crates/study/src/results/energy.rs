//! Energy of a run's cells by a bench meter: found in its file, and put into the results.

use crate::results::store::Store;
use crate::specification::factor::describe;
use crate::specification::points::varying;
use crate::specification::study::Study;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Outcome;
use pocketstone_core::{Error, Result};
use pocketstone_probe::bench_meter::{Aligned, Alignment, MeterFile, Window, align};
use pocketstone_probe::meters::REST;
use pocketstone_workload::plan::Plan;
use rusqlite::params;

/// How far the time of rest stays away from what is before and behind it.
const GUARD_NS: u64 = 50_000_000;

/// The metrics of a bench meter that a cell has.
const METRICS: [&str; 3] = ["bench_energy_uj", "bench_active_energy_uj", "bench_idle_mw"];

/// Energy of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellEnergy {
    /// The cell in words: the factors in which cells differ, and its seed.
    pub cell: String,
    /// How long it ran in ns of the board's clock.
    pub run_ns: u64,
    /// Its energy in uJ.
    pub energy_uj: f64,
    /// Mean power of the machine at rest before it in mW; `None` where it did not rest (`energy = true` makes it), or
    /// the file begins later.
    pub idle_mw: Option<f64>,
}

impl CellEnergy {
    /// Energy above idle over that time, in uJ.
    pub fn active_uj(&self) -> Option<f64> {
        // mW times ns is pJ.
        Some(self.energy_uj - self.idle_mw? * self.run_ns as f64 / 1e6)
    }
}

/// The energy added to a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// Where the run lies in the file.
    pub aligned: Aligned,
    /// Its cells in order of time, without traced twins.
    pub cells: Vec<CellEnergy>,
}

struct Done {
    id: i64,
    traced: bool,
    rested: bool,
    window: Window,
    name: String,
}

/// Finds a run's cells in a meter's file, stores their energies (in place of those of an earlier file), and computes
/// the run's statistics again.
///
/// # Errors
/// `ErrorKind::User` if the run's times are virtual, its cells are not in the file, or the results cannot be written;
/// nothing has changed then.
pub fn add(store: &mut Store, study: &Study, file: &MeterFile, how: Alignment) -> Result<Added> {
    if store.repeats_to_the_bit()? {
        return Err(Error::user("the times of the run are virtual, and no meter can measure them")
            .hint("measure a run on a real machine: --board host"));
    }
    let done = done(store)?;
    let windows: Vec<Window> = done.iter().map(|d| d.window).collect();
    let aligned = align(file, &windows, how)?;
    let mut cells = Vec::new();
    for cell in done.iter().filter(|d| !d.traced) {
        let Window { start_ns, end_ns } = cell.window;
        let energy_uj = file.taken_uj(aligned.meter_ns(start_ns), aligned.meter_ns(end_ns))?;
        let idle_mw = cell.rested.then(|| idle_mw(file, &aligned, start_ns)).flatten();
        cells.push((cell.id, CellEnergy { cell: cell.name.clone(), run_ns: end_ns - start_ns, energy_uj, idle_mw }));
    }
    let failed = format!("cannot write the energies to {}", store.folder().display());
    let transaction = store.db.transaction().user(|| failed.clone())?;
    let write = || -> rusqlite::Result<()> {
        for metric in METRICS {
            transaction.execute("DELETE FROM main.metric WHERE name = ?1", [metric])?;
        }
        let mut insert = transaction.prepare("INSERT INTO main.metric VALUES (?1, ?2, ?3)")?;
        for (id, cell) in &cells {
            let values = [Some(cell.energy_uj), cell.active_uj(), cell.idle_mw];
            for (name, value) in METRICS.into_iter().zip(values) {
                if let Some(value) = value {
                    insert.execute(params![id, name, value])?;
                }
            }
        }
        Ok(())
    };
    write().user(|| failed.clone())?;
    transaction.commit().user(|| failed)?;
    let (samples, found) = (file.samples.len().to_string(), in_words(&aligned));
    store.set_facts([
        ("bench_meter.file", file.name.as_str()),
        ("bench_meter.columns", &file.columns),
        ("bench_meter.samples", &samples),
        ("bench_meter.alignment", &found),
    ])?;
    store.summarize(study)?;
    Ok(Added { aligned, cells: cells.into_iter().map(|(_, cell)| cell).collect() })
}

/// How a run was found in a file.
pub fn in_words(aligned: &Aligned) -> String {
    let drift = format!("clocks drift by {:.0} ppm", aligned.drift_ppm);
    match (aligned.worst_ns, aligned.correlation) {
        (Some(worst), _) => format!("by the trigger; {drift}, edges are at most {:.1} ms off", worst / 1e6),
        (_, Some((fit, rival))) => {
            format!(
                "by the pattern of its cells, which correlates by {fit:.2} here and by {rival:.2} elsewhere; \
                {drift}"
            )
        }
        _ => "by the given offset; the clocks' drift is unknown".to_owned(),
    }
}

/// Mean power before a cell, where the machine rested.
fn idle_mw(file: &MeterFile, aligned: &Aligned, start_ns: u64) -> Option<f64> {
    let from = aligned.meter_ns(start_ns.checked_sub(REST.as_nanos() as u64)? + GUARD_NS);
    let to = aligned.meter_ns(start_ns - GUARD_NS);
    let energy_uj = file.taken_uj(from, to).ok()?;
    // uJ in ns is GW.
    Some(energy_uj / (to - from) as f64 * 1e6)
}

/// The cells that a run has, in order of time: traced ones took their time, too.
fn done(store: &Store) -> Result<Vec<Done>> {
    let cells = store.cells()?;
    let points: Vec<&crate::specification::factor::Point> = cells.iter().map(|c| &c.point).collect();
    let names = varying(&points);
    let mut all = Vec::new();
    for cell in cells.iter().filter(|c| c.digest.is_some()) {
        let outcome: Outcome = store.json(cell.id, "outcome")?;
        let plan: Plan = store.json(cell.id, "plan")?;
        let name = format!("{}: {} seed={}", cell.experiment, describe(&cell.point, &names), cell.seed);
        let window = Window { start_ns: outcome.start_ns, end_ns: outcome.end_ns };
        all.push(Done { id: cell.id, traced: cell.traced, rested: plan.energy, window, name });
    }
    all.sort_by_key(|d| d.window.start_ns);
    Ok(all)
}

#[cfg(test)]
mod tests;
