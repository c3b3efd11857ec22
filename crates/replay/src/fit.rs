//! Fits to published measurements. The forms are physical and have few parameters; what they are fitted to and what
//! they predict are different rows. All of it is plain data: nothing here reads a file.

use crate::device::{Cluster, Device, StorageTimes};
use pocketstone_core::median::median;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run of fixed compute work on some processors of one cluster, each of which does all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FixedWork {
    /// The cluster.
    pub cluster: String,
    /// Number of processors at work.
    pub cpus: u32,
    /// `fixedN`, N in per cent of the highest frequency, or the name of a governor.
    pub policy: String,
    /// Until the work was done.
    pub runtime_s: f64,
    /// Charge out of the battery until then.
    pub energy_uah: f64,
    /// Charge in a window that began with the run, where it was measured.
    pub window_uah: Option<f64>,
}

/// Length of the window of [`FixedWork::window_uah`].
pub const WINDOW_S: f64 = 75.0;

/// A device at its battery, fitted to runs on one processor: the current while n processors work is
/// `base + per_ghz f + per_mw n P(f)`, with P from the device's profile, and `pinned_per_ghz f` more where a policy
/// holds the frequency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatteryFit {
    /// Current of what is awake with any core, in mA; clusters share it.
    pub base_ma: f64,
    /// Current of what follows the processor's clock and is there once (caches, interconnect, memory), in mA/GHz.
    pub per_ghz_ma: f64,
    /// The same of what only runs as fast while a policy pins the frequency, in mA/GHz; 0 where all fitted rows are
    /// pinned, or none is: then it cannot be told from the rest.
    pub pinned_per_ghz_ma: f64,
    /// Battery current for each mW that a core takes: 1 / (battery voltage x efficiency of the supply).
    pub per_mw_ma: f64,
    /// Current when the work is done, in mA: the median of the fitted rows with a window.
    pub idle_ma: Option<f64>,
    /// The work, by cluster.
    pub work: BTreeMap<String, Work>,
}

/// Work at any frequency: `cycles / f + stall_s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Work {
    /// Processor cycles.
    pub cycles: f64,
    /// Time that does not scale with frequency.
    pub stall_s: f64,
}

impl Work {
    /// Its time at a frequency.
    pub fn seconds(&self, khz: u32) -> f64 {
        self.cycles / (f64::from(khz) * 1e3) + self.stall_s
    }

    /// Part of its time at that frequency that does not scale with it: the memory share, 0 to 1.
    pub fn memory_share(&self, khz: u32) -> f64 {
        self.stall_s / self.seconds(khz)
    }
}

/// What a fit says of a run, and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The measured run.
    pub row: FixedWork,
    /// The frequency that its policy holds.
    pub khz: u32,
    /// Predicted until the work is done.
    pub runtime_s: f64,
    /// Predicted charge until then.
    pub energy_uah: f64,
}

impl Prediction {
    /// Predicted / measured runtime - 1.
    pub fn runtime_error(&self) -> f64 {
        self.runtime_s / self.row.runtime_s - 1.0
    }

    /// Predicted / measured energy - 1.
    pub fn energy_error(&self) -> f64 {
        self.energy_uah / self.row.energy_uah - 1.0
    }
}

/// The fit to one-processor rows, and its predictions of all others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fitted {
    /// The fit.
    pub fit: BatteryFit,
    /// The rows that it was not fitted to, in their order.
    pub predictions: Vec<Prediction>,
}

/// Fits the rows with one processor and predicts the others. `device` has a power for each frequency of the rows'
/// clusters: `msm8998` for the Pixel 2.
///
/// Least squares of relative errors, as the rows' energies differ by a factor of two and their noise with them.
/// No parameter may be negative: one that would be is left out.
///
/// # Errors
/// `ErrorKind::User` if a row's cluster, policy or numbers are impossible, or there are too few rows to fit.
pub fn fixed_work(rows: &[FixedWork], device: &Device) -> Result<Fitted> {
    let fit = battery(rows, device)?;
    let others = rows.iter().filter(|row| row.cpus != 1);
    let predictions = others.map(|row| fit.predict(device, row)).collect::<Result<_>>()?;
    Ok(Fitted { fit, predictions })
}

fn battery(rows: &[FixedWork], device: &Device) -> Result<BatteryFit> {
    let mut equations: Vec<[f64; 5]> = Vec::new();
    let mut idle = Vec::new();
    let mut times: BTreeMap<String, Vec<(u32, f64)>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.cpus == 1) {
        check(row)?;
        let cluster = device.cluster(Some(&row.cluster))?;
        let (khz, power_mw) = held(cluster, &row.policy)?;
        let current_ma = row.energy_uah * 3.6 / row.runtime_s;
        let (ghz, pinned_ghz) = (f64::from(khz) / 1e6, pinned_ghz(khz, &row.policy));
        // Divided by the measured current, so that each row's residual is its relative error.
        equations.push([1.0, ghz, power_mw, pinned_ghz, current_ma].map(|v| v / current_ma));
        if let Some(window) = row.window_uah.filter(|_| row.runtime_s < WINDOW_S) {
            idle.push((window - row.energy_uah) * 3.6 / (WINDOW_S - row.runtime_s));
        }
        times.entry(row.cluster.clone()).or_default().push((khz, row.runtime_s));
    }
    let rows = equations.len();
    let too_few = || {
        Error::user(format!("{rows} rows with one processor are too few to fit"))
            .hint("give the rows of at least four frequencies")
    };
    if rows < 4 {
        return Err(too_few());
    }
    if equations.iter().all(|row| row[3] > 0.0) {
        equations.iter_mut().for_each(|row| row[3] = 0.0);
    }
    let [base_ma, per_ghz_ma, per_mw_ma, pinned_per_ghz_ma] = least_squares(&equations).ok_or_else(too_few)?;
    let work = times.into_iter().map(|(name, times)| work(&times).map(|work| (name, work))).collect::<Result<_>>()?;
    Ok(BatteryFit { base_ma, per_ghz_ma, pinned_per_ghz_ma, per_mw_ma, idle_ma: median(&mut idle), work })
}

impl BatteryFit {
    /// What it says of a row, whose measured numbers it does not look at.
    ///
    /// # Errors
    /// `ErrorKind::User` if the row's cluster, policy or numbers are impossible, or nothing was fitted for that
    /// cluster.
    pub fn predict(&self, device: &Device, row: &FixedWork) -> Result<Prediction> {
        check(row)?;
        let cluster = device.cluster(Some(&row.cluster))?;
        if row.cpus > cluster.cores {
            let wrong = format!("`{}` has {} cores, not {}", cluster.name, cluster.cores, row.cpus);
            return Err(Error::user(wrong).hint("give rows of at most as many processors as the cluster has"));
        }
        let (khz, power_mw) = held(cluster, &row.policy)?;
        let work = self.work.get(&row.cluster).ok_or_else(|| {
            Error::user(format!("no row with one processor is of cluster `{}`", row.cluster))
                .hint("add one, so that its work can be fitted")
        })?;
        let runtime_s = work.seconds(khz);
        let shared_ma = self.base_ma
            + self.per_ghz_ma * f64::from(khz) / 1e6
            + self.pinned_per_ghz_ma * pinned_ghz(khz, &row.policy);
        let current_ma = shared_ma + self.per_mw_ma * f64::from(row.cpus) * power_mw;
        Ok(Prediction { row: row.clone(), khz, runtime_s, energy_uah: current_ma * runtime_s / 3.6 })
    }
}

fn check(row: &FixedWork) -> Result<()> {
    let positive = |v: f64| v.is_finite() && v > 0.0;
    if row.cpus > 0 && positive(row.runtime_s) && positive(row.energy_uah) {
        return Ok(());
    }
    let wrong = format!("the row {} {} {} is impossible", row.cluster, row.cpus, row.policy);
    Err(Error::user(wrong).hint("processors, runtime and energy must be above 0"))
}

/// The frequency that a policy holds under steady load, and a core's power at it. A percentage means the next
/// operating point at or above it: so the Pixel 2's big cores do the same cycles at each.
fn held(cluster: &Cluster, policy: &str) -> Result<(u32, f64)> {
    let (first, last) = match (cluster.points.first(), cluster.points.last()) {
        (Some(first), Some(last)) => (first, last),
        _ => return Err(Error::user(format!("cluster `{}` has no operating points", cluster.name))),
    };
    let percent = policy.strip_prefix("fixed").map(|n| n.trim_start_matches(':').parse::<u64>());
    let point = match (policy, percent) {
        ("powersave", _) => first,
        ("performance" | "schedutil" | "interactive" | "ondemand" | "conservative", _) => last,
        (_, Some(Ok(percent))) if percent <= 100 => {
            let reaches = |khz: u32| u64::from(khz) * 100 >= u64::from(last.khz) * percent;
            cluster.points.iter().find(|p| reaches(p.khz)).unwrap_or(last)
        }
        _ => {
            let error = Error::user(format!("the frequency of `{policy}` is unknown"));
            return Err(error.hint("use fixedN, N from 0 to 100, or a governor's name"));
        }
    };
    Ok((point.khz, point.power_mw))
}

/// The frequency in GHz where a policy holds it whatever the load, else 0.
fn pinned_ghz(khz: u32, policy: &str) -> f64 {
    let pinned = policy.starts_with("fixed") || matches!(policy, "performance" | "powersave");
    if pinned { f64::from(khz) / 1e6 } else { 0.0 }
}

/// Fits `cycles / f + stall` to runtimes in seconds at frequencies in kHz, by least squares of relative errors; the
/// stall is not negative. Where there is none, the cycles are the median of `f t`, which one odd row cannot move.
///
/// # Errors
/// `ErrorKind::User` if there is no row.
pub fn work(times: &[(u32, f64)]) -> Result<Work> {
    let rows: Vec<[f64; 3]> = times.iter().map(|(khz, s)| [1e6 / f64::from(*khz) / s, 1.0 / s, 1.0]).collect();
    let [_, stall_s]: [f64; 2] = least_squares(&rows).unwrap_or_default();
    let mut cycles: Vec<f64> = times.iter().map(|(khz, s)| (s - stall_s) * f64::from(*khz) * 1e3).collect();
    let cycles = median(&mut cycles)
        .ok_or_else(|| Error::user("no runtimes to fit").hint("give one at each of several frequencies"))?;
    Ok(Work { cycles, stall_s })
}

/// A run that was pinned at one frequency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PinnedRun {
    /// The frequency.
    pub khz: u32,
    /// Time on a core.
    pub cpu_s: f64,
    /// Time in all.
    pub wall_s: f64,
}

/// What a pinned run without delays was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PinnedWork {
    /// Processor cycles.
    pub cycles: u64,
    /// Time off the cores, which is I/O where there are no delays.
    pub io_ns: u64,
}

/// Cycles = CPU seconds x frequency; I/O = wall - CPU seconds.
///
/// # Errors
/// `ErrorKind::User` if the times are impossible.
pub fn pinned(run: &PinnedRun) -> Result<PinnedWork> {
    if !(run.cpu_s > 0.0 && run.wall_s >= run.cpu_s && run.wall_s < 1e6) {
        let wrong = format!("{} s on the processor within {} s is impossible", run.cpu_s, run.wall_s);
        return Err(Error::user(wrong).hint("give the seconds of one thread: 0 < cpu_s <= wall_s"));
    }
    let cycles = (run.cpu_s * f64::from(run.khz) * 1e3).round() as u64;
    Ok(PinnedWork { cycles, io_ns: ((run.wall_s - run.cpu_s) * 1e9).round() as u64 })
}

/// How often a run called its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
}

/// Times of requests from the I/O times of two pinned runs: `reader` only reads, `writer` does all three. A write is
/// buffered and taken to wait as long as a read; syncs have the rest. `None` where the times do not suffice for it,
/// or a run lacks the calls.
pub fn storage_times(reader: (u64, Calls), writer: (u64, Calls)) -> Option<StorageTimes> {
    let (io_ns, calls) = reader;
    if calls.writes > 0 || calls.syncs > 0 {
        return None;
    }
    let rounded = |ns: u64, n: u64| ns.checked_add(n / 2)?.checked_div(n);
    let read_ns = rounded(io_ns, calls.reads)?;
    let (io_ns, calls) = writer;
    let buffered_ns = calls.reads.checked_add(calls.writes)?.checked_mul(read_ns)?;
    let sync_ns = rounded(io_ns.checked_sub(buffered_ns)?, calls.syncs)?;
    Some(StorageTimes { read_ns, write_ns: read_ns, sync_ns })
}

/// Least squares of `x[0] a + x[1] b + ... = x[N - 1]`, none of a, b and so on negative: while one is, the most
/// negative one becomes 0. A column of zeros gives 0. `None` where the rows do not determine the rest.
fn least_squares<const N: usize, const UNKNOWNS: usize>(rows: &[[f64; N]]) -> Option<[f64; UNKNOWNS]> {
    const { assert!(UNKNOWNS + 1 == N) };
    let mut used: Vec<usize> = (0..UNKNOWNS).filter(|c| rows.iter().any(|r| r[*c] != 0.0)).collect();
    loop {
        let solved = normal_equations(rows, &used)?;
        let lowest = (0..used.len()).min_by(|a, b| solved[*a].total_cmp(&solved[*b]))?;
        if solved[lowest] >= 0.0 {
            let mut all = [0.0; UNKNOWNS];
            used.iter().zip(solved).for_each(|(column, value)| all[*column] = value);
            return Some(all);
        }
        used.remove(lowest);
    }
}

/// Gauss's elimination, with pivoting, of the normal equations of the columns `used`.
fn normal_equations<const N: usize>(rows: &[[f64; N]], used: &[usize]) -> Option<Vec<f64>> {
    let n = used.len();
    let product = |a: usize, b: usize| rows.iter().map(|r| r[a] * r[b]).sum::<f64>();
    let columns = || used.iter().copied().chain([N - 1]);
    let mut m: Vec<Vec<f64>> = used.iter().map(|a| columns().map(|b| product(*a, b)).collect()).collect();
    let scale = (0..n).map(|i| m[i][i]).fold(0.0, f64::max);
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| m[*a][i].abs().total_cmp(&m[*b][i].abs()))?;
        m.swap(i, pivot);
        let solvable = m[i][i].abs() > scale * 1e-12; // not for NaN either
        if !solvable {
            return None;
        }
        let row = m[i].clone();
        for (_, other) in m.iter_mut().enumerate().filter(|(r, _)| *r != i) {
            let factor = other[i] / row[i];
            other.iter_mut().zip(&row).for_each(|(v, p)| *v -= factor * p);
        }
    }
    Some((0..n).map(|i| m[i][n] / m[i][i]).collect())
}
