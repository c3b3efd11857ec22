//! What a given schedule costs: the replay's accounting for one thread, walked through from start to end. The
//! bound takes the same accounting apart; this states it as a whole, so that both can be held against each other
//! and against the replay itself.

use super::costs::{Stretches, cluster, keeps_awake, off_spans, state_for, storage_mw};
use crate::activity::Activity;
use crate::device::Device;
use crate::levers::Levers;
use crate::outcome::Energy;
use pocketstone_core::{Error, Result};

/// What a schedule gives.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scheduled {
    /// Sum of the operations' latencies.
    pub total_latency_ns: u64,
    /// From the start until the last operation's end.
    pub run_ns: u64,
    /// Energy of the whole run, by part.
    pub energy: Energy,
}

/// Number of stretches on the core of a run with one thread: a schedule has an operating point for each. Levers
/// are applied already; of them, `busy_waiting` alone is looked at.
pub fn stretches(activity: &Activity, levers: &Levers) -> usize {
    let mut stretches = Stretches::default();
    let all = activity.threads.iter().filter(|t| !t.background).flat_map(|t| &t.operations);
    all.for_each(|o| stretches.add(o, levers.busy_waiting));
    stretches.all.len()
}

/// The cost of a run of one thread, each stretch on the core at the operating point that `schedule` has for it
/// (an index into the cluster's points), frequency changes being free. Levers are applied already; of them,
/// `cluster`, `cores` and `busy_waiting` are looked at.
///
/// * A busy core draws its point's power; stalls and delays spent on the core count as busy.
/// * An idle core draws the power of the deepest state whose least time the idle span reaches, then the
///   shallowest state's while it wakes up, which takes the state's exit time. Other cores idle for the whole run.
/// * What is shared and the device are awake while the core is busy, wakes up or is in the shallowest of several
///   idle states; else the device sleeps.
/// * The memory is on while the core is busy, the storage while it is waited for.
///
/// # Errors
/// `ErrorKind::User` if there is not exactly one thread, the schedule has the wrong length or an unknown point, or the
/// levers do not fit the device.
pub fn of_schedule(activity: &Activity, device: &Device, levers: &Levers, schedule: &[usize]) -> Result<Scheduled> {
    let cluster = cluster(device, levers)?;
    let [thread] = &activity.threads[..] else {
        return Err(Error::user("a schedule requires a single thread").hint("use an activity with one thread"));
    };
    if schedule.len() != stretches(activity, levers) || schedule.iter().any(|p| *p >= cluster.points.len()) {
        return Err(Error::user("a schedule has one operating point per stretch on the core")
            .hint(format!("this one needs {}", stretches(activity, levers))));
    }
    let mut done = Scheduled::default();
    let mut chosen = schedule.iter();
    let on_mw = cluster.shared_mw + device.awake_mw;
    // Milliwatts times nanoseconds are picojoules.
    let mj = |power_mw: f64, ns: u64| power_mw * ns as f64 / 1e9;
    for operation in &thread.operations {
        let mut stretches = Stretches::default();
        stretches.add(operation, levers.busy_waiting);
        for stretch in &stretches.all {
            let point = cluster.points[chosen.next().copied().unwrap_or_default()];
            let ns = stretches.ns(stretch, point.khz);
            done.run_ns += ns;
            done.total_latency_ns += if stretch.counts { ns } else { 0 };
            done.energy.active_mj += mj(point.power_mw, ns);
            done.energy.awake_mj += mj(on_mw, ns);
            done.energy.memory_mj += mj(device.memory_mw, ns);
        }
        for (length_ns, kind, counts) in off_spans(operation, levers.busy_waiting) {
            let state = state_for(&cluster.idle, length_ns);
            let exit_ns = cluster.idle[state].exit_ns;
            done.run_ns += length_ns + exit_ns;
            done.total_latency_ns += if counts { length_ns + exit_ns } else { 0 };
            done.energy.idle_mj += mj(cluster.idle[state].power_mw, length_ns) + mj(cluster.idle[0].power_mw, exit_ns);
            let awake = keeps_awake(&cluster.idle, state);
            done.energy.awake_mj += mj(if awake { on_mw } else { device.asleep_mw }, length_ns) + mj(on_mw, exit_ns);
            done.energy.flash_mj += kind.map_or(0.0, |k| mj(storage_mw(device, k), length_ns));
        }
    }
    let others = f64::from(levers.cores_of(cluster)? - 1);
    let deep_mw = cluster.idle[state_for(&cluster.idle, done.run_ns)].power_mw;
    done.energy.idle_mj += others * mj(deep_mw, done.run_ns);
    Ok(done)
}
