//! The model held against published measurements of phones. What it is calibrated with and what it predicts are
//! different rows of the same table; a row's own times are only looked at to be compared.
//!
//! Two tables are known, by their first lines:
//!
//! - `workload,delay,governor,ENGINE_cpu_s,ENGINE_wall_s,...`: databases on a phone. Calibrated with the pinned runs
//!   without delays, it predicts the runs under the phone's own governor, without delays and with them. How the work
//!   lies among the operations is that of a recording of the workload ([`Recording`]); where there is none, all
//!   operations compute alike, and those that write share the I/O evenly; where none writes, all do.
//! - `cluster,n_cpus,policy,runtime_s,energy_uAh_fixed75s_window,energy_uAh_to_completion`: fixed work on processors
//!   of a phone. Fitted to the rows of one processor ([`crate::fit::fixed_work`]), it predicts those of more.

use crate::activity::{Activity, IoKind, Operation, Segment, Thread};
use crate::device::Device;
use crate::fit::{self, FixedWork, PinnedRun, PinnedWork, pinned};
use crate::governor::Spec;
use crate::levers::Levers;
use crate::simulate::simulate;
use pocketstone_core::database::Delay;
use pocketstone_core::median::median;
use pocketstone_core::{Error, Result};

/// Operations of a published workload.
const OPERATIONS: usize = 1800;

/// Those that write, by workload: counted in the published files (INSERT of E; UPDATE of A and B whose key is in the
/// table, as the others change nothing). Figure 9's syncs, 2234, 244 and 464, are five for each.
const WRITERS: [(&str, usize); 4] = [("A", 447), ("B", 49), ("C", 0), ("E", 93)];

/// A recorded run of a published workload without delays: one of its trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The workload: A, B, C or E.
    pub workload: String,
    /// The engine's name in the table's columns: `sql`, `bdb`.
    pub engine: String,
    /// What it did.
    pub activity: Activity,
}

/// A number that the model predicts, and what was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The row, in words.
    pub row: String,
    /// What is predicted, with its unit last.
    pub quantity: &'static str,
    /// By the model.
    pub predicted: f64,
    /// In the table.
    pub measured: f64,
}

impl Check {
    /// Predicted / measured - 1.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// The median and the worst of the errors' sizes, and the worst row; `None` of no rows.
pub fn errors<'a>(checks: impl IntoIterator<Item = &'a Check>) -> Option<(f64, &'a Check)> {
    let checks: Vec<&Check> = checks.into_iter().collect();
    let mut sizes: Vec<f64> = checks.iter().map(|c| c.error().abs()).collect();
    let worst = checks.into_iter().max_by(|a, b| a.error().abs().total_cmp(&b.error().abs()))?;
    Some((median(&mut sizes)?, worst))
}

/// Predicts the rows of a table that the model is not calibrated with. `governor` is the phone's own one. Of several
/// recordings of a workload those of the row's engine are taken, else all; what is predicted is the median over them.
///
/// # Errors
/// `ErrorKind::User` for a table that is not understood, with the line, that lacks a row which the model is calibrated
/// with, or of which no workload is known ([`unknown_workloads`]); otherwise as [`simulate`].
pub fn checks(
    file: &str,
    text: &str,
    device: &Device,
    governor: &Spec,
    recordings: &[Recording],
) -> Result<Vec<Check>> {
    let table = Table::read(file, text)?;
    match table.head[..] {
        ["workload", "delay", "governor", ..] => databases(&table, device, governor, recordings),
        ["cluster", "n_cpus", "policy", ..] => fixed_work(&table, device),
        _ => Err(table.error(1, "not a table of measurements that the model supports")),
    }
}

/// Workloads of a table of databases that the model knows nothing of, and that no recording is of, each once:
/// [`checks`] leaves their rows out.
///
/// # Errors
/// `ErrorKind::User` with the line, if one has another number of cells than the first.
pub fn unknown_workloads(file: &str, text: &str, recordings: &[Recording]) -> Result<Vec<String>> {
    let table = Table::read(file, text)?;
    let mut unknown = Vec::new();
    if table.head.starts_with(&["workload", "delay", "governor"]) {
        for (_, cells) in &table.rows {
            if !is_known(cells[0], recordings) && !unknown.iter().any(|known| known == cells[0]) {
                unknown.push(cells[0].to_owned());
            }
        }
    }
    Ok(unknown)
}

/// Whether a workload's rows can be predicted.
fn is_known(workload: &str, recordings: &[Recording]) -> bool {
    writers(workload).is_some() || recordings.iter().any(|r| r.workload == workload)
}

/// Operations of a published workload that write.
fn writers(workload: &str) -> Option<usize> {
    WRITERS.iter().find(|(known, _)| *known == workload).map(|(_, n)| *n)
}

/// Lines of cells.
struct Table<'a> {
    file: &'a str,
    head: Vec<&'a str>,
    /// With their numbers in the file.
    rows: Vec<(usize, Vec<&'a str>)>,
}

impl<'a> Table<'a> {
    fn read(file: &'a str, text: &'a str) -> Result<Self> {
        let mut lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.split(',').collect::<Vec<_>>()));
        let head = lines.next().map(|(_, head)| head).unwrap_or_default();
        let table = Table { file, head, rows: lines.collect() };
        match table.rows.iter().find(|(_, cells)| cells.len() != table.head.len()) {
            Some((line, cells)) => {
                Err(table.error(*line, format!("{} cells, and the first line has {}", cells.len(), table.head.len())))
            }
            None => Ok(table),
        }
    }

    fn error(&self, line: usize, what: impl std::fmt::Display) -> Error {
        Error::user(format!("{}:{line}: {what}", self.file))
            .hint("use the published table unmodified: docs/devices.md lists the supported ones")
    }

    /// A number above 0.
    fn number(&self, line: usize, cells: &[&str], column: &str) -> Result<f64> {
        let at = self.head.iter().position(|c| *c == column);
        let text = at.map(|n| cells[n]).ok_or_else(|| self.error(1, format!("no column `{column}`")))?;
        let number = text.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
        number.ok_or_else(|| self.error(line, format!("`{text}` is not a valid {column}")))
    }
}

/// A run of a database.
struct Run<'a> {
    workload: &'a str,
    engine: &'a str,
    delay: Delay,
    delay_text: &'a str,
    /// Pinned at the highest frequency; else under the phone's own governor.
    pinned: bool,
    cpu_s: f64,
    wall_s: f64,
}

fn databases(table: &Table<'_>, device: &Device, governor: &Spec, recordings: &[Recording]) -> Result<Vec<Check>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    let engines = || table.head.iter().filter_map(|column| column.strip_suffix("_cpu_s"));
    if !table.rows.is_empty() && table.rows.iter().all(|(_, cells)| !is_known(cells[0], recordings)) {
        let (line, cells) = &table.rows[0];
        return Err(table.error(*line, format!("unknown published workload `{}`: use A, B, C or E", cells[0])));
    }
    for (line, cells) in table.rows.iter().filter(|(_, cells)| is_known(cells[0], recordings)) {
        let delay = match cells[1] {
            "0ms" => Delay::None,
            "1ms" => Delay::Fixed { ns: 1_000_000 },
            "log" => Delay::PublishedLog,
            other => return Err(table.error(*line, format!("unknown delay `{other}`: use 0ms, 1ms or log"))),
        };
        let pinned = match cells[2] {
            "clean" => true,
            "real" => false,
            other => return Err(table.error(*line, format!("unknown governor `{other}`: use clean or real"))),
        };
        for engine in engines() {
            let cpu_s = table.number(*line, cells, &format!("{engine}_cpu_s"))?;
            let wall_s = table.number(*line, cells, &format!("{engine}_wall_s"))?;
            runs.push(Run { workload: cells[0], engine, delay, delay_text: cells[1], pinned, cpu_s, wall_s });
        }
    }
    let mut checks = Vec::new();
    for run in runs.iter().filter(|r| !r.pinned) {
        let like = |r: &&Run<'_>| (r.workload, r.engine) == (run.workload, run.engine);
        let reference = runs.iter().filter(like).find(|r| r.pinned && r.delay == Delay::None).ok_or_else(|| {
            table.error(1, format!("{} on {} has no pinned run without delays", run.workload, run.engine))
        })?;
        let levers = Levers { delay: Some(run.delay), ..Levers::default() };
        let (mut busy_s, mut run_s) = (Vec::new(), Vec::new());
        for activity in activities(reference, device, recordings)? {
            let replayed = simulate(&activity, device, governor, &levers)?;
            busy_s.push(replayed.busy_ns as f64 / 1e9);
            run_s.push(replayed.run_ns as f64 / 1e9);
        }
        let row = format!("{} {} {}", run.workload, run.delay_text, run.engine);
        for (quantity, mut all, measured) in [("cpu_s", busy_s, run.cpu_s), ("wall_s", run_s, run.wall_s)] {
            let Some(predicted) = median(&mut all) else { continue };
            checks.push(Check { row: row.clone(), quantity, predicted, measured });
        }
    }
    Ok(checks)
}

/// What a pinned run without delays did, once for each recording of it.
fn activities(reference: &Run<'_>, device: &Device, recordings: &[Recording]) -> Result<Vec<Activity>> {
    let khz = device.highest_khz()?;
    let work = pinned(&PinnedRun { khz, cpu_s: reference.cpu_s, wall_s: reference.wall_s })?;
    let of_workload: Vec<&Recording> = recordings.iter().filter(|r| r.workload == reference.workload).collect();
    let of_engine: Vec<&Recording> =
        of_workload.iter().filter(|r| reference.engine.starts_with(&r.engine)).copied().collect();
    let taken = if of_engine.is_empty() { of_workload } else { of_engine };
    if taken.is_empty() {
        return Ok(vec![alike(reference.workload, &work)?]);
    }
    taken.into_iter().map(|r| scaled(&r.activity, &work, device)).collect()
}

/// Operations that are all alike, but for which of them wait.
fn alike(workload: &str, work: &PinnedWork) -> Result<Activity> {
    let writers = writers(workload)
        .ok_or_else(|| Error::user(format!("unknown published workload `{workload}`")).hint("use A, B, C or E"))?;
    let cycles = work.cycles / OPERATIONS as u64;
    let kind = if writers > 0 { IoKind::Sync } else { IoKind::Read };
    let with_io = if writers > 0 { writers } else { OPERATIONS };
    let io = Segment::Io { ns: work.io_ns / with_io as u64, kind };
    let operation = |n: usize| {
        // Evenly spread: the writers are where the product passes a whole number.
        let waits = n * with_io / OPERATIONS != (n + 1) * with_io / OPERATIONS;
        let compute = Segment::Compute { cycles };
        let segments = if waits { vec![compute, io] } else { vec![compute] };
        Operation { segments, transaction: waits && writers > 0, ..Operation::default() }
    };
    let operations = (0..OPERATIONS).map(operation).collect();
    Ok(Activity { threads: vec![Thread { operations, background: false }] })
}

/// A recording that takes the cycles and the I/O of a pinned run. Each wait has a share of the I/O by its kind's time
/// on the device's storage; where nothing was waited for, as where all is in the page cache, all operations read alike.
fn scaled(recording: &Activity, work: &PinnedWork, device: &Device) -> Result<Activity> {
    let times = device.storage.times;
    let share = |ns: u64, kind: IoKind| match (times, kind) {
        (None, _) => ns as f64,
        (Some(times), IoKind::Read) => times.read_ns as f64,
        (Some(times), IoKind::Write) => times.write_ns as f64,
        (Some(times), IoKind::Sync) => times.sync_ns as f64,
    };
    let (mut cycles_in_all, mut shares, mut operations) = (0.0, 0.0, 0u64);
    for operation in recording.threads.iter().flat_map(|t| &t.operations) {
        operations += 1;
        for segment in &operation.segments {
            match *segment {
                Segment::Compute { cycles } => cycles_in_all += cycles as f64,
                Segment::Io { ns, kind } => shares += share(ns, kind),
                Segment::Stall { .. } | Segment::Sleep { .. } => {}
            }
        }
    }
    if cycles_in_all <= 0.0 {
        return Err(Error::user("a recording in which nothing is computed").hint("record the workload again"));
    }
    let mut activity = recording.clone();
    for operation in activity.threads.iter_mut().flat_map(|t| &mut t.operations) {
        operation.delay_ns = 0;
        for segment in &mut operation.segments {
            match segment {
                Segment::Compute { cycles } => {
                    *cycles = (*cycles as f64 / cycles_in_all * work.cycles as f64).round() as u64;
                }
                Segment::Io { ns, kind } => {
                    *ns = (share(*ns, *kind) / shares * work.io_ns as f64).round() as u64;
                }
                Segment::Stall { .. } | Segment::Sleep { .. } => {}
            }
        }
        if shares <= 0.0 {
            operation.segments.push(Segment::Io { ns: work.io_ns / operations, kind: IoKind::Read });
        }
    }
    Ok(activity)
}

/// Rows of fixed work.
fn fixed_work(table: &Table<'_>, device: &Device) -> Result<Vec<Check>> {
    let mut rows = Vec::new();
    for (line, cells) in &table.rows {
        let cpus: u32 =
            cells[1].parse().map_err(|_| table.error(*line, format!("`{}` is not a number of CPUs", cells[1])))?;
        rows.push(FixedWork {
            cluster: cells[0].into(),
            cpus,
            policy: cells[2].into(),
            runtime_s: table.number(*line, cells, "runtime_s")?,
            energy_uah: table.number(*line, cells, "energy_uAh_to_completion")?,
            window_uah: Some(table.number(*line, cells, "energy_uAh_fixed75s_window")?),
        });
    }
    let predictions = fit::fixed_work(&rows, device)?.predictions;
    let both = predictions.into_iter().flat_map(|p| {
        let row = format!("{} {} {}", p.row.cluster, p.row.cpus, p.row.policy);
        let check = |quantity, predicted, measured| Check { row: row.clone(), quantity, predicted, measured };
        [check("runtime_s", p.runtime_s, p.row.runtime_s), check("energy_uah", p.energy_uah, p.row.energy_uah)]
    });
    Ok(both.collect())
}

#[cfg(test)]
mod tests;
