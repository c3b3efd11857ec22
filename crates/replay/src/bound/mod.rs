//! The bound: the least energy that any governor could have used for a latency, had it known the whole run
//! beforehand. It is modelled, as every replay is, with the replay's own accounting of energy.
//!
//! Two sets of policies are solved, and a result says which one it is about:
//!
//! * [`Front::corners`] bounds **every governor**: the frequency may change at any moment, also within an
//!   operation; changes are free and at once; the whole run is known. What a cycle costs at a frequency does not
//!   depend on where in the run it is, so that the optimum is a mixture of two neighbours on the lower convex
//!   envelope of (time of a cycle, energy of a cycle): a line between corners, exact for every budget. Time that
//!   does not scale with frequency (stalls, delays that are spent on the core) is spent at the least power.
//! * [`Front::points`] are **schedules that exist**: one operating point for each stretch on the core, from the
//!   operation's start or the end of a wait until the operation's end or its next wait; changes are free. Found by
//!   dynamic programming over the stretches: a front of (latency, energy) grows by one stretch at a time, and
//!   what another entry beats in both is dropped. Where that front outgrows [`MOST_STATES`], the front's convex
//!   hull is taken instead, which is the sum of the stretches' hulls: steps from all stretches in order of
//!   energy saved for a nanosecond. Every vertex of it is a schedule, and none is better at its latency.
//!
//! An entry of energy includes everything that is drawn meanwhile, so that racing to idle and stretching are both
//! covered: the core, what is awake with it, the memory, and the other cores' idling, for a run that gets longer
//! with its operations (a thread's delays count from the end of the operation before).
//!
//! With one thread and nothing in the background, the accounting is exact. With more, cores may or may not be
//! awake together: then only what holds in any case is charged (each thread's share of what is shared), waiting
//! for a core takes no time, and other work of the machine is left out. It is a bound then too, a looser one.

mod costs;
mod merge;
mod schedule;
#[cfg(test)]
mod tests;

pub use costs::busy_mw;
pub use merge::{MOST_POINTS, MOST_STATES};
pub use schedule::{Scheduled, of_schedule, stretches};

use crate::activity::Activity;
use crate::device::Device;
use crate::levers::Levers;
use pocketstone_core::Result;
use serde::Serialize;

/// Energy against latency, for the offline optimum of one run on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Front {
    /// Number of operations: a total latency over it is the mean.
    pub operations: u64,
    /// Schedules that nothing beats, from the fastest to the one with the least energy.
    pub points: Vec<FrontPoint>,
    /// At any latency, the best of `points` that is not slower takes at most so much more energy than the best
    /// schedule of its kind: 0 where `points` is the whole front, else the largest step between neighbours.
    pub error_mj: f64,
    /// The bound for every governor: straight lines between these, from the fastest to the one with the least
    /// energy; more latency than the last one's saves nothing.
    pub corners: Vec<Corner>,
    /// Whether the accounting is exact: one thread and nothing in the background. A looser bound otherwise.
    pub exact: bool,
}

/// A schedule's cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FrontPoint {
    /// Sum of the operations' latencies.
    pub total_latency_ns: u64,
    /// Energy of the whole run.
    pub energy_mj: f64,
}

/// A corner of the bound: every cycle at one operating point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Corner {
    /// The operating point.
    pub khz: u32,
    /// Sum of the operations' latencies.
    pub total_latency_ns: f64,
    /// Energy of the whole run.
    pub energy_mj: f64,
}

/// The bound of a run on a device, under levers.
///
/// The time it takes is `n p log(n p)` for `n` stretches on the core and `p` operating points.
///
/// # Errors
/// As [`Levers::apply`] and [`Levers::cores_of`]; `ErrorKind::User` if the cluster has no operating point or no idle
/// state.
pub fn front(activity: &Activity, device: &Device, levers: &Levers) -> Result<Front> {
    let applied = levers.apply(activity, device)?;
    let costs = costs::Costs::new(&applied, device, levers)?;
    let (points, error) = merge::points(&costs);
    Ok(Front {
        operations: costs.operations,
        points: points.into_iter().map(|p| p.shown()).collect(),
        error_mj: costs::mj(error),
        corners: costs.corners(),
        exact: costs.exact,
    })
}

impl Front {
    /// The least energy in millijoules that any policy can reach with a mean latency of at most
    /// `mean_latency_ns`; `None` where no policy is so fast, or there is no operation.
    pub fn least_energy(&self, mean_latency_ns: f64) -> Option<f64> {
        let (first, last) = (self.corners.first()?, self.corners.last()?);
        let budget_ns = mean_latency_ns * self.operations as f64;
        // A mean is a rounded quotient: what is meant to be the fastest point's own latency shall be it.
        let rounding_ns = first.total_latency_ns * 1e-12;
        if self.operations == 0 || budget_ns.is_nan() || budget_ns < first.total_latency_ns - rounding_ns {
            return None;
        }
        let slower = self.corners.windows(2).find(|w| budget_ns < w[1].total_latency_ns);
        Some(slower.map_or(last.energy_mj, |w| {
            let part = (budget_ns - w[0].total_latency_ns) / (w[1].total_latency_ns - w[0].total_latency_ns);
            w[0].energy_mj + part.max(0.0) * (w[1].energy_mj - w[0].energy_mj)
        }))
    }

    /// The best schedule of [`Front::points`] with a mean latency of at most `mean_latency_ns`.
    pub fn best(&self, mean_latency_ns: f64) -> Option<&FrontPoint> {
        let budget_ns = mean_latency_ns * self.operations as f64;
        let after = self.points.partition_point(|p| p.total_latency_ns as f64 <= budget_ns);
        after.checked_sub(1).map(|at| &self.points[at])
    }

    /// Mean latency in ns and energy in mJ of [`Front::points`], by ascending latency: of about `most` equal parts of
    /// them the first, and the last of all.
    pub fn curve(&self, most: usize) -> Vec<(f64, f64)> {
        let last = self.points.len().saturating_sub(1);
        let stride = self.points.len().div_ceil(most.max(1)).max(1);
        let kept = self.points.iter().enumerate().filter(|(n, _)| n % stride == 0 || *n == last);
        let mean = |p: &FrontPoint| p.total_latency_ns as f64 / self.operations.max(1) as f64;
        kept.map(|(_, p)| (mean(p), p.energy_mj)).collect()
    }

    /// How much more energy something took than any policy had to with its mean latency: 0.25 is a quarter more.
    /// `None` as for [`Front::least_energy`].
    pub fn regret(&self, mean_latency_ns: f64, energy_mj: f64) -> Option<f64> {
        let least = self.least_energy(mean_latency_ns)?;
        (least > 0.0).then(|| energy_mj / least - 1.0)
    }
}

/// The least mean energy in millijoules of several runs that any policy can reach if their mean latencies have a mean
/// of at most `mean_latency_ns`, however it shares the latency among them; `None` as for [`Front::least_energy`].
pub fn least_mean_energy(fronts: &[Front], mean_latency_ns: f64) -> Option<f64> {
    let number = fronts.len() as f64;
    let (mut fastest_ns, mut energy_mj) = (0.0, 0.0);
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for front in fronts {
        let first = front.corners.first().filter(|_| front.operations > 0)?;
        let operations = front.operations as f64;
        fastest_ns += first.total_latency_ns / operations;
        energy_mj += first.energy_mj;
        let longer_ns = |w: &[Corner]| (w[1].total_latency_ns - w[0].total_latency_ns) / operations;
        steps.extend(front.corners.windows(2).map(|w| (longer_ns(w), w[0].energy_mj - w[1].energy_mj)));
    }
    // As above, the fastest latency may be off by its rounding.
    let mut left_ns = mean_latency_ns * number - fastest_ns;
    if fronts.is_empty() || left_ns.is_nan() || left_ns < -fastest_ns * 1e-12 {
        return None;
    }
    // Fronts are convex: with what saves most for a nanosecond first, each one's steps stay in their order.
    steps.sort_by(|a, b| (b.1 / b.0).total_cmp(&(a.1 / a.0)));
    for (longer_ns, saved_mj) in steps {
        let part = (left_ns / longer_ns).clamp(0.0, 1.0);
        energy_mj -= part * saved_mj;
        left_ns -= part * longer_ns;
    }
    Some(energy_mj / number)
}
