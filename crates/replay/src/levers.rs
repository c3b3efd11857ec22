//! What can be turned on a run besides the governor: delays, batches, cores, the device's storage and memory.

use crate::activity::{Activity, IoKind, Operation, Segment, Thread};
use crate::device::{Cluster, Device};
use pocketstone_core::database::Delay;
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::delays;
use serde::{Deserialize, Serialize};

/// The levers of a replay. The default leaves everything as it was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Levers {
    /// The cluster that runs everything; the device's first one where none is named.
    pub cluster: Option<String>,
    /// Cores on-line; all of the cluster's where none is said. Cores that are off-line use no power.
    pub cores: Option<u32>,
    /// Whether threads look at the clock during delays instead of sleeping.
    pub busy_waiting: bool,
    /// Operations that are handed over together; 1 for each by itself.
    pub batch: u32,
    /// Delays instead of the recorded ones.
    pub delay: Option<Delay>,
    /// Seed of these delays.
    pub seed: u64,
    /// Whether waits for a device take the times of the device's storage instead of the recorded ones.
    pub device_storage: bool,
    /// Part of the computing time at the cluster's highest frequency that is spent waiting for memory, 0 to 1.
    /// Where none is said, it is the device's for activities without any stall, and nothing is changed in others.
    pub memory_share: Option<f64>,
    /// Factor on all cycles.
    pub cycles_scale: f64,
}

impl Default for Levers {
    fn default() -> Self {
        Levers {
            cluster: None,
            cores: None,
            busy_waiting: false,
            batch: 1,
            delay: None,
            seed: 0,
            device_storage: false,
            memory_share: None,
            cycles_scale: 1.0,
        }
    }
}

impl Levers {
    /// The cluster that runs everything.
    ///
    /// # Errors
    /// As [`Device::cluster`].
    pub fn cluster_of<'d>(&self, device: &'d Device) -> Result<&'d Cluster> {
        device.cluster(self.cluster.as_deref())
    }

    /// The number of cores on-line.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is 0, or more than the cluster has.
    pub fn cores_of(&self, cluster: &Cluster) -> Result<u32> {
        match self.cores.unwrap_or(cluster.cores) {
            cores if (1..=cluster.cores).contains(&cores) => Ok(cores),
            cores => Err(Error::user(format!("{cores} cores online of the {} of {}", cluster.cores, cluster.name))
                .hint(format!("cores must be from 1 to {}", cluster.cores))),
        }
    }

    /// The activity that is replayed. [`Levers::cores`] and [`Levers::busy_waiting`] are the simulator's.
    ///
    /// Delays: operation `k` of the `t`-th of `n` threads that count is operation `k n + t` of the workload, as
    /// the engine deals operations out. Batches: what the delays of `b` operations sum up to is waited for
    /// before the first one, and the others follow it without a delay; `held_ns` of each is the time from its own
    /// moment until the batch starts. Background threads keep their delays. With a memory share `s`, `c` cycles
    /// become `c (1 - s)` cycles and a stall of `s c / f_max`.
    ///
    /// # Errors
    /// `ErrorKind::User` if a lever's value is out of its range, or the device lacks what it needs; otherwise as
    /// [`Activity::check`].
    pub fn apply(&self, activity: &Activity, device: &Device) -> Result<Activity> {
        activity.check()?;
        let cluster = self.cluster_of(device)?;
        if self.batch == 0 {
            return Err(Error::user("a batch of 0 operations").hint("`batch` must be 1 or more; 1 disables batching"));
        }
        if !(self.cycles_scale.is_finite() && self.cycles_scale > 0.0) {
            return Err(Error::user(format!("a factor of {} on cycles", self.cycles_scale))
                .hint("`cycles_scale` must be a number above 0"));
        }
        let stalls =
            |t: &Thread| t.operations.iter().flat_map(|o| &o.segments).any(|s| matches!(s, Segment::Stall { .. }));
        let share = match self.memory_share {
            Some(share) => share,
            None if activity.threads.iter().any(stalls) => 0.0,
            None => device.memory_share,
        };
        if !(0.0..=1.0).contains(&share) {
            return Err(Error::user(format!("a memory share of {share}")).hint("`memory_share` must be from 0 to 1"));
        }
        let top_khz = cluster.points.last().map(|p| p.khz).filter(|khz| *khz > 0).ok_or_else(|| {
            Error::user(format!("the cluster {} of {} has no operating point", cluster.name, device.name))
                .hint("add its `points` to the device's profile")
        })?;
        let split = Split { scale: self.cycles_scale, share, top_khz, storage: self.storage(device)? };
        let mut applied = Activity::default();
        for thread in &activity.threads {
            let operations = thread.operations.iter().map(|o| split.operation(o)).collect();
            applied.threads.push(Thread { operations, background: thread.background });
        }
        if let Some(delay) = self.delay {
            set_delays(&mut applied, delay, self.seed);
        }
        if self.batch > 1 {
            for thread in applied.threads.iter_mut().filter(|t| !t.background) {
                thread.operations.chunks_mut(self.batch as usize).for_each(hold);
            }
        }
        applied.check()?;
        Ok(applied)
    }

    /// Times of reads, writes and syncs, where they replace the recorded ones.
    fn storage(&self, device: &Device) -> Result<Option<[u64; 3]>> {
        match (self.device_storage, device.storage.times) {
            (false, _) => Ok(None),
            (true, Some(times)) => Ok(Some([times.read_ns, times.write_ns, times.sync_ns])),
            (true, None) => Err(Error::user(format!("the device {} has no storage times", device.name))
                .hint("remove `device_storage`, or add `storage.times` to the device's profile")),
        }
    }
}

/// What is done to each segment.
struct Split {
    scale: f64,
    share: f64,
    top_khz: u32,
    storage: Option<[u64; 3]>,
}

impl Split {
    fn operation(&self, operation: &Operation) -> Operation {
        let mut segments = Vec::with_capacity(operation.segments.len() * if self.share > 0.0 { 2 } else { 1 });
        for segment in &operation.segments {
            match *segment {
                Segment::Compute { cycles } => {
                    let cycles = if self.scale == 1.0 { cycles } else { (cycles as f64 * self.scale).round() as u64 };
                    // f64 has 53 bits: without a share, cycles stay exactly what they are.
                    let waiting = if self.share == 0.0 { 0.0 } else { cycles as f64 * self.share };
                    segments.push(Segment::Compute { cycles: cycles.saturating_sub(waiting.round() as u64) });
                    if waiting > 0.0 {
                        segments.push(Segment::Stall { ns: (waiting * 1e6 / f64::from(self.top_khz)).round() as u64 });
                    }
                }
                Segment::Io { ns, kind } => {
                    let ns = self.storage.map_or(ns, |times| times[kind_index(kind)]);
                    segments.push(Segment::Io { ns, kind });
                }
                other => segments.push(other),
            }
        }
        Operation { segments, ..*operation }
    }
}

/// Reads, writes, syncs: their order in tables.
pub(crate) fn kind_index(kind: IoKind) -> usize {
    match kind {
        IoKind::Read => 0,
        IoKind::Write => 1,
        IoKind::Sync => 2,
    }
}

fn set_delays(activity: &mut Activity, delay: Delay, seed: u64) {
    let mut counted: Vec<&mut Thread> = activity.threads.iter_mut().filter(|t| !t.background).collect();
    let rounds = counted.iter().map(|t| t.operations.len()).max().unwrap_or(0);
    let mut delays = delays(delay, seed);
    for round in 0..rounds {
        for thread in &mut counted {
            let delay_ns = delays.next().unwrap_or(0);
            if let Some(operation) = thread.operations.get_mut(round) {
                (operation.delay_ns, operation.held_ns) = (delay_ns, 0);
            }
        }
    }
}

/// Makes one batch of some operations.
fn hold(batch: &mut [Operation]) {
    let mut left_ns = batch.iter().fold(0u64, |sum, o| sum.saturating_add(o.delay_ns));
    let whole_ns = left_ns;
    for (number, operation) in batch.iter_mut().enumerate() {
        left_ns -= operation.delay_ns.min(left_ns);
        operation.held_ns = operation.held_ns.saturating_add(left_ns);
        operation.delay_ns = if number == 0 { whole_ns } else { 0 };
    }
}

#[cfg(test)]
mod tests;
