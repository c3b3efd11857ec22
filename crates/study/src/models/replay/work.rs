//! Computing replays, on all cores; what comes out does not depend on their number.

use super::recorded::ActivitySource;
use super::store::Row;
use crate::specification::setting::Setting;
use crate::specification::study::Choice;
use pocketstone_core::{Error, Result};
use pocketstone_replay::activity::Activity;
use pocketstone_replay::bound::{Front, front};
use pocketstone_replay::device::Device;
use pocketstone_replay::outcome::Replayed;
use pocketstone_replay::simulate::simulate;
use sha2::{Digest, Sha256};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The replays of one run on one device with one setting, under some governors.
pub(crate) struct Job {
    pub name: String,
    /// The cell, or what is known of a run that none is, as JSON.
    pub cell: Option<i64>,
    pub recorded: Option<String>,
    pub seed: u64,
    pub device: Device,
    pub profile: String,
    pub setting: Setting,
    pub cycles_scale: f64,
    pub activity: Activity,
    pub source: ActivitySource,
    /// Whether the offline optimum is wanted, at least for regrets.
    pub bound: bool,
    /// Governors with the digests of their inputs.
    pub governors: Vec<(Choice, String)>,
}

/// What comes of each job, in their order.
pub(crate) fn on_all_cores(jobs: &[Job]) -> Vec<Result<Vec<Row>>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    on_cores(jobs, cores)
}

/// The same with so many threads.
pub(crate) fn on_cores(jobs: &[Job], threads: usize) -> Vec<Result<Vec<Row>>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Vec<Row>>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                let take = || {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    jobs.get(at).map(|job| (job, &results[at]))
                };
                while let Some((job, result)) = take() {
                    if let Ok(mut result) = result.lock() {
                        *result = Some(replay(job));
                    }
                }
            });
        }
    });
    let lost = || Err(Error::bug("a replay exited without a result"));
    results.into_iter().map(|r| r.into_inner().ok().flatten().unwrap_or_else(lost)).collect()
}

fn replay(job: &Job) -> Result<Vec<Row>> {
    let device = job.setting.scaled(&job.device)?;
    let levers = job.setting.levers(job.seed, job.cycles_scale)?;
    let operations = job.activity.threads.iter().filter(|t| !t.background).map(|t| t.operations.len()).sum::<usize>();
    let least = if job.bound { Some(front(&job.activity, &device, &levers)?) } else { None };
    let mut rows = Vec::new();
    for (choice, input) in &job.governors {
        let (metrics, points, digest) = match (choice, &least) {
            (Choice::Governor(spec), _) => {
                let replayed = simulate(&job.activity, &device, spec, &levers)?;
                let frequencies = super::cluster(&device, &job.setting)?.points.iter().map(|p| p.khz).collect();
                (metrics(&replayed, frequencies, least.as_ref()), Vec::new(), digest(&replayed))
            }
            (Choice::Bound, Some(least)) => of_bound(least, operations),
            (Choice::Bound, None) => continue,
        };
        rows.push(Row {
            name: job.name.clone(),
            cell: job.cell,
            recorded: job.recorded.clone(),
            device: device.name.clone(),
            governor: choice.to_string(),
            setting: job.setting.clone(),
            cycles_scale: job.cycles_scale,
            seed: job.seed,
            source: job.source,
            profile: job.profile.clone(),
            input: input.clone(),
            digest,
            metrics,
            front: points,
        });
    }
    Ok(rows)
}

/// Points of the front that are kept.
const FRONT_POINTS: usize = 200;

type Modelled = (Vec<(String, f64)>, Vec<(f64, f64)>, String);

/// The front's schedules by mean latency, ascending. The bound's own numbers are those of its last corner: no policy
/// has less energy at any latency, while a schedule of the front has one frequency between waits, and so may have more.
fn of_bound(front: &Front, operations: usize) -> Modelled {
    let points = front.curve(usize::MAX);
    let mut hash = Sha256::new();
    let least = front.corners.last().map(|c| (c.total_latency_ns / front.operations.max(1) as f64, c.energy_mj));
    for (latency, energy) in points.iter().chain(&least) {
        hash.update(latency.to_le_bytes());
        hash.update(energy.to_le_bytes());
    }
    let mut metrics = Vec::new();
    if let Some((latency, energy)) = least {
        metrics = vec![("mean_latency_ns".into(), latency), ("energy_mj".into(), energy)];
        metrics.extend(per_operation(energy, operations));
    }
    (metrics, front.curve(FRONT_POINTS), format!("{:x}", hash.finalize()))
}

fn per_operation(energy_mj: f64, operations: usize) -> Option<(String, f64)> {
    (operations > 0).then(|| ("energy_per_operation_uj".into(), energy_mj * 1000.0 / operations as f64))
}

/// The numbers that a replay is summed up in. docs/results.md says what each is.
fn metrics(replayed: &Replayed, frequencies: Vec<u32>, least: Option<&Front>) -> Vec<(String, f64)> {
    let number = replayed.operations.len();
    let energy = replayed.energy.total_mj();
    let mut metrics: Vec<(String, f64)> = vec![
        ("run_ns".into(), replayed.run_ns as f64),
        ("busy_ns".into(), replayed.busy_ns as f64),
        ("energy_mj".into(), energy),
        ("active_mj".into(), replayed.energy.active_mj),
        ("idle_mj".into(), replayed.energy.idle_mj),
        ("awake_mj".into(), replayed.energy.awake_mj),
        ("memory_mj".into(), replayed.energy.memory_mj),
        ("flash_mj".into(), replayed.energy.flash_mj),
        ("transitions".into(), replayed.transitions as f64),
    ];
    metrics.extend(per_operation(energy, number));
    let response = replayed.mean_response_ns();
    if let (Some(mean), Some(p99), Some(response)) = (replayed.mean_latency_ns(), replayed.p99_latency_ns(), response) {
        metrics.push(("mean_latency_ns".into(), mean));
        metrics.push(("p99_latency_ns".into(), p99 as f64));
        metrics.push(("response_mean_ns".into(), response));
        if let Some(bound) = least.and_then(|front| front.least_energy(mean)) {
            metrics.push(("bound_mj".into(), bound));
            if bound > 0.0 {
                metrics.push(("regret".into(), energy / bound - 1.0));
            }
        }
    }
    let busy: f64 = replayed.residency.iter().map(|r| r.busy_ns as f64).sum();
    if busy > 0.0 {
        let cycles: f64 = replayed.residency.iter().map(|r| f64::from(r.khz) * r.busy_ns as f64).sum();
        metrics.push(("mean_khz".into(), cycles / busy));
        // A frequency that was never in force has a share of 0, so that medians over trials are right.
        let share = |khz: u32| {
            let there = replayed.residency.iter().filter(|r| r.khz == khz);
            (format!("residency:{khz}"), there.map(|r| r.busy_ns as f64).sum::<f64>() / busy)
        };
        metrics.extend(frequencies.into_iter().map(share));
    }
    metrics
}

/// SHA-256 of everything that a replay gives.
fn digest(replayed: &Replayed) -> String {
    let mut hash = Sha256::new();
    for o in &replayed.operations {
        [o.start_ns, o.latency_ns, o.response_ns].iter().for_each(|n| hash.update(n.to_le_bytes()));
    }
    for f in &replayed.frequencies {
        [f.time_ns, u64::from(f.domain), u64::from(f.khz)].iter().for_each(|n| hash.update(n.to_le_bytes()));
    }
    for r in &replayed.residency {
        [u64::from(r.khz), r.busy_ns, r.total_ns].iter().for_each(|n| hash.update(n.to_le_bytes()));
    }
    [replayed.run_ns, replayed.busy_ns, replayed.transitions].iter().for_each(|n| hash.update(n.to_le_bytes()));
    let e = &replayed.energy;
    for part in [e.active_mj, e.idle_mj, e.awake_mj, e.memory_mj, e.flash_mj] {
        hash.update(part.to_le_bytes());
    }
    format!("{:x}", hash.finalize())
}
