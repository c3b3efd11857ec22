//! What a run costs by operating point: the documented accounting of energy, taken apart into stretches on the
//! core, whose cost depends on the frequency, and a rest that does not.
//!
//! Powers are whole nanowatts and times whole nanoseconds, so that sums do not depend on their order.

use super::{Corner, FrontPoint};
use crate::activity::{Activity, IoKind, Operation, Segment, Thread};
use crate::device::{Cluster, Device, IdleState};
use crate::levers::Levers;
use pocketstone_core::{Error, Result};
use std::ops::Range;

/// Energy in nanowatt nanoseconds.
pub(super) type Nwns = i128;

/// Millijoules.
pub(super) fn mj(energy: Nwns) -> f64 {
    energy as f64 / 1e15
}

fn nw(power_mw: f64) -> Nwns {
    (power_mw * 1e6) as Nwns
}

/// A stretch on the core at one operating point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its computing segments, each of which ends at a whole nanosecond: where they are in [`Stretches::cycles`].
    segments: Range<usize>,
    /// Time that takes the same at every frequency.
    pub fixed_ns: u64,
    /// Whether it is a part of an operation: a delay spent on the core is none.
    pub counts: bool,
}

/// What is chosen for a stretch, or for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    pub latency_ns: u64,
    pub energy: Nwns,
}

impl Cost {
    pub fn shown(self) -> FrontPoint {
        FrontPoint { total_latency_ns: self.latency_ns, energy_mj: mj(self.energy) }
    }
}

/// A run's costs.
pub(super) struct Costs {
    pub operations: u64,
    pub stretches: Stretches,
    /// What no choice changes.
    pub rest: Cost,
    /// Frequency of each point, and what a busy nanosecond costs at it with everything that is on meanwhile.
    pub points: Vec<(u32, Nwns)>,
    pub exact: bool,
}

/// Stretches in order.
#[derive(Default)]
pub(super) struct Stretches {
    pub all: Vec<Stretch>,
    cycles: Vec<u64>,
}

impl Stretches {
    /// Adds those of an operation; a delay that is spent on the core is one of its own before them.
    pub fn add(&mut self, operation: &Operation, busy_waiting: bool) {
        if busy_waiting && operation.delay_ns > 0 {
            self.all.push(Stretch { fixed_ns: operation.delay_ns, ..Stretch::default() });
        }
        let mut open = false;
        for segment in &operation.segments {
            let (cycles, fixed_ns) = match segment {
                Segment::Compute { cycles } => (*cycles, 0),
                Segment::Stall { ns } => (0, *ns),
                Segment::Io { .. } | Segment::Sleep { .. } => {
                    open = false;
                    continue;
                }
            };
            if cycles == 0 && fixed_ns == 0 {
                continue;
            }
            if !std::mem::replace(&mut open, true) {
                let segments = self.cycles.len()..self.cycles.len();
                self.all.push(Stretch { segments, fixed_ns: 0, counts: true });
            }
            if cycles > 0 {
                self.cycles.push(cycles);
            }
            if let Some(last) = self.all.last_mut() {
                last.segments.end = self.cycles.len();
                last.fixed_ns += fixed_ns;
            }
        }
    }

    /// Time of a stretch at a frequency.
    pub fn ns(&self, stretch: &Stretch, khz: u32) -> u64 {
        let computing = self.cycles[stretch.segments.clone()].iter().map(|c| compute_ns(*c, khz));
        stretch.fixed_ns + computing.sum::<u64>()
    }
}

/// The cluster that a run is on.
pub(super) fn cluster<'a>(device: &'a Device, levers: &Levers) -> Result<&'a Cluster> {
    let found = levers.cluster_of(device)?;
    match found.points.is_empty() || found.idle.is_empty() {
        true => {
            Err(Error::user(format!("cluster `{}` of {} has no frequency or no idle state", found.name, device.name))
                .hint("a profile requires at least one of each"))
        }
        false => Ok(found),
    }
}

/// The state of a core that is idle for so long: the deepest that is worth it; the shallowest where none is.
pub(super) fn state_for(idle: &[IdleState], length_ns: u64) -> usize {
    idle.iter().rposition(|s| s.least_ns <= length_ns).unwrap_or(0)
}

/// Whether a core in this state keeps what it shares, and the device, awake: the shallowest of several states
/// (it only waits for an interrupt), and no deeper one.
pub(super) fn keeps_awake(idle: &[IdleState], state: usize) -> bool {
    state == 0 && idle.len() > 1
}

/// The least power of an idle core within a run of `run_ns`.
fn least_idle_nw(idle: &[IdleState], run_ns: u64) -> Nwns {
    idle[..=state_for(idle, run_ns)].iter().map(|s| nw(s.power_mw)).min().unwrap_or(0)
}

/// What a busy core costs at each operating point of a cluster, in mW: the core, what its cores share, the rest
/// of the device, the memory, and the `cores - 1` others in their deepest state. Over the frequency, this is the
/// energy of a cycle where the run gets longer with its operations. From a profile; modelled.
pub fn busy_mw(device: &Device, cluster: &Cluster, cores: u32) -> Vec<f64> {
    let deep_mw = cluster.idle.last().map_or(0.0, |s| s.power_mw);
    let on_mw = cluster.shared_mw + device.awake_mw + device.memory_mw + deep_mw * f64::from(cores.max(1) - 1);
    cluster.points.iter().map(|p| p.power_mw + on_mw).collect()
}

impl Costs {
    pub fn new(activity: &Activity, device: &Device, levers: &Levers) -> Result<Costs> {
        let cluster = cluster(device, levers)?;
        let cores = levers.cores_of(cluster)?;
        let all: Vec<&Thread> = activity.threads.iter().filter(|t| !t.operations.is_empty()).collect();
        let threads: Vec<&Thread> = all.iter().copied().filter(|t| !t.background).collect();
        let exact = threads.len() == 1 && all.len() == 1;
        let slowest_khz = cluster.points[0].khz;
        let mut costs = Costs {
            operations: threads.iter().map(|t| t.operations.len() as u64).sum(),
            stretches: Stretches::default(),
            rest: Cost { latency_ns: 0, energy: 0 },
            points: Vec::new(),
            exact,
        };
        let mut off = Off { ns: 0, energy: 0, storage: 0 };
        for operation in threads.iter().flat_map(|t| &t.operations) {
            costs.stretches.add(operation, levers.busy_waiting);
            off.add(operation, device, cluster, levers.busy_waiting, exact, &mut costs.rest.latency_ns);
        }
        let busy_ns = |s: &Stretch| costs.stretches.ns(s, slowest_khz);
        let longest_ns = off.ns + costs.stretches.all.iter().map(busy_ns).sum::<u64>();
        let idle_nw = least_idle_nw(&cluster.idle, longest_ns);

        // For a run of T with busy cores for B in all, on k threads and c = min(k, cores) cores: something is
        // awake for at least B / c, and T is at least a thread's mean.
        let k = Nwns::from(threads.len().max(1) as u32);
        let c = k.min(Nwns::from(cores));
        let (on, asleep) = (nw(cluster.shared_mw) + nw(device.awake_mw), nw(device.asleep_mw));
        let always = on.min(asleep);
        let others = if exact { Nwns::from(cores) - 1 } else { Nwns::from(cores) };
        let run = (idle_nw * Nwns::from(cores) + always) / k;
        let busy = ((on - always) + nw(device.memory_mw)) / c - idle_nw + run;
        costs.points = cluster.points.iter().map(|p| (p.khz, (nw(p.power_mw) + busy).max(0))).collect();
        costs.rest.energy = match exact {
            true => off.energy + off.storage + idle_nw * others * Nwns::from(off.ns),
            false => off.storage / k + run * Nwns::from(off.ns),
        };
        Ok(costs)
    }

    /// What a stretch may cost, from the highest frequency down; what another choice beats is left out.
    pub fn choices(&self, stretch: &Stretch) -> Vec<Cost> {
        let mut best: Vec<Cost> = Vec::with_capacity(self.points.len());
        for (khz, busy_nw) in self.points.iter().rev() {
            let time_ns = self.stretches.ns(stretch, *khz);
            let latency_ns = if stretch.counts { time_ns } else { 0 };
            let energy = busy_nw * Nwns::from(time_ns);
            let beaten = best.last().is_some_and(|b| b.energy <= energy);
            if !beaten {
                if best.last().is_some_and(|b| b.latency_ns == latency_ns) {
                    best.pop();
                }
                best.push(Cost { latency_ns, energy });
            }
        }
        best
    }

    /// The bound's corners: all cycles at one point, for the points on the lower convex envelope of a cycle.
    pub fn corners(&self) -> Vec<Corner> {
        let cycles = self.stretches.cycles.iter().map(|c| u128::from(*c)).sum::<u128>() as f64;
        let least_nw = self.points.iter().map(|(_, busy)| *busy).min().unwrap_or(0);
        let fixed: u64 = self.stretches.all.iter().map(|s| s.fixed_ns).sum();
        let counted: u64 = self.stretches.all.iter().filter(|s| s.counts).map(|s| s.fixed_ns).sum();
        let (latency_ns, energy) =
            ((self.rest.latency_ns + counted) as f64, self.rest.energy + least_nw * Nwns::from(fixed));
        let mut corners: Vec<Corner> = Vec::new();
        for (khz, busy_nw) in self.points.iter().rev() {
            let time_ns = cycles * 1e6 / f64::from(*khz);
            let new = Corner {
                khz: *khz,
                total_latency_ns: latency_ns + time_ns,
                energy_mj: mj(energy) + *busy_nw as f64 * time_ns / 1e15,
            };
            if corners.last().is_some_and(|last| last.energy_mj <= new.energy_mj) {
                continue;
            }
            while corners.len() > 1 && !turns(&corners[corners.len() - 2], &corners[corners.len() - 1], &new) {
                corners.pop();
            }
            corners.push(new);
        }
        corners
    }
}

/// Whether `b` lies below the line from `a` to `c`.
fn turns(a: &Corner, b: &Corner, c: &Corner) -> bool {
    let (dx, dy) = (b.total_latency_ns - a.total_latency_ns, b.energy_mj - a.energy_mj);
    let (ex, ey) = (c.total_latency_ns - a.total_latency_ns, c.energy_mj - a.energy_mj);
    dy * ex < ey * dx
}

/// Time of cycles at a frequency, rounded up to a nanosecond.
pub(super) fn compute_ns(cycles: u64, khz: u32) -> u64 {
    (u128::from(cycles) * 1_000_000).div_ceil(u128::from(khz.max(1))) as u64
}

/// Power of the storage for a wait.
pub(super) fn storage_mw(device: &Device, kind: IoKind) -> f64 {
    match kind {
        IoKind::Read => device.storage.read_mw,
        IoKind::Write => device.storage.write_mw,
        IoKind::Sync => device.storage.sync_mw,
    }
}

/// Spans off the core: each is idle from the end of one stretch until the start of the next one. Waits that
/// follow each other are spans of their own, as the core is woken between them.
pub(super) fn off_spans(operation: &Operation, busy_waiting: bool) -> Vec<(u64, Option<IoKind>, bool)> {
    let delay = (!busy_waiting && operation.delay_ns > 0).then_some((operation.delay_ns, None, false));
    let waits = operation.segments.iter().filter_map(|s| match s {
        Segment::Io { ns, kind } if *ns > 0 => Some((*ns, Some(*kind), true)),
        Segment::Sleep { ns } if *ns > 0 => Some((*ns, None, true)),
        _ => None,
    });
    delay.into_iter().chain(waits).collect()
}

/// Sums over time off the core.
struct Off {
    ns: u64,
    energy: Nwns,
    storage: Nwns,
}

impl Off {
    fn add(
        &mut self,
        operation: &Operation,
        device: &Device,
        cluster: &Cluster,
        busy_waiting: bool,
        exact: bool,
        latency_ns: &mut u64,
    ) {
        for (length_ns, kind, counts) in off_spans(operation, busy_waiting) {
            let state = state_for(&cluster.idle, length_ns);
            let on = nw(cluster.shared_mw) + nw(device.awake_mw);
            let rest = if keeps_awake(&cluster.idle, state) { on } else { nw(device.asleep_mw) };
            self.energy += (nw(cluster.idle[state].power_mw) + rest) * Nwns::from(length_ns);
            // How long a core idles is known with one thread alone.
            let exit_ns = if exact { cluster.idle[state].exit_ns } else { 0 };
            self.energy += (nw(cluster.idle[0].power_mw) + on) * Nwns::from(exit_ns);
            let time_ns = length_ns + exit_ns;
            self.ns += time_ns;
            self.storage += kind.map_or(0, |k| nw(storage_mw(device, k))) * Nwns::from(length_ns);
            // A thread's clock is read once it runs: waking from the delay is before its operation.
            *latency_ns += if counts { time_ns } else { 0 };
        }
    }
}
