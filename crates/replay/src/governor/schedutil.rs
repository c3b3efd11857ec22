//! The schedutil governor: frequency from the scheduler's own tracking of utilisation.
//!
//! At every update of the scheduler (a thread becomes ready or stops, a tick):
//!
//! 1. `next = 1.25 x fmax x util / 1024`, and the lowest operating point that is at least that; util is that of the
//!    busiest core ([`super::pelt`]). Without frequency-invariant tracking, the current frequency stands for fmax.
//! 2. A thread that becomes ready after waiting for a device boosts: util is then at least 128, doubled by each
//!    such wake-up up to 1024, and halved by each update without one; below 128 it ends. A tick without any update
//!    resets it.
//! 3. rate_limit_us must have passed since the last change; otherwise nothing happens.
//! 4. The frequency is not lowered if no core of the domain has idled since the last update that was not held back
//!    by rule 3.
//!
//! These follow published descriptions; details of boosts and of held-back updates are from memory, not verified.
//! That rule 4 counts all cores of a domain is ours (kernels have it for domains of one core). Clamping, deadlines
//! and estimates of utilisation (UTIL_EST) are not part of it.
//!
//! | Tunable | Unit | Default |
//! | --- | --- | --- |
//! | rate_limit_us | us | 1.5 times the transition latency, at most 2000; 1000 where that is 0 |
//! | frequency_invariant | 0 or 1; the kernel's, not in sysfs | 1 |
//! | hz | ticks a second; the kernel's, not in sysfs | 250 |

use pocketstone_core::Result;

use super::kernel::hz;
use super::pelt::Pelt;
use super::tunables::Tunables;
use super::{Decision, Domain, Governor, Moment, TimerRequest, at_least};
use crate::device::Cluster;

/// Names of the tunables.
pub(super) const TUNABLES: &[&str] = &["rate_limit_us", "frequency_invariant", "hz"];

const LEAST_BOOST: u64 = 128;
const MOST: u64 = 1024;

/// The governor.
#[derive(Debug)]
pub struct Schedutil {
    rate_limit_ns: u64,
    invariant: bool,
    tick_ns: u64,
    cores: Vec<Core>,
    /// The frequency in force since the last moment.
    in_force_khz: u32,
    accounted_ns: u64,
    changed_ns: Option<u64>,
    idled: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Core {
    pelt: Pelt,
    busy_ns: u64,
    boost: u64,
    /// A wake-up has raised the boost, and no update has used it yet.
    raised: bool,
    updated_ns: u64,
}

impl Core {
    /// Rule 2's part that the rate limit does not hold back.
    fn note(&mut self, from_io: bool, now_ns: u64, tick_ns: u64) {
        let forgotten = now_ns - self.updated_ns > tick_ns;
        self.updated_ns = now_ns;
        if self.boost > 0 && forgotten {
            self.boost = if from_io { LEAST_BOOST } else { 0 };
            self.raised = from_io;
        } else if from_io && !self.raised {
            self.raised = true;
            self.boost = if self.boost > 0 { (self.boost * 2).min(MOST) } else { LEAST_BOOST };
        }
    }

    /// The boost that counts now.
    fn boosted(&mut self, now_ns: u64, tick_ns: u64) -> u64 {
        if std::mem::take(&mut self.raised) {
            return self.boost;
        }
        self.boost /= 2;
        if self.boost < LEAST_BOOST || now_ns - self.updated_ns > tick_ns {
            self.boost = 0;
        }
        self.boost
    }
}

impl Schedutil {
    /// The governor of a cluster with these tunables. A user error if one is out of its range.
    pub fn new(tunables: &Tunables, cluster: &Cluster) -> Result<Self> {
        let rate_us = match cluster.transition_latency_ns {
            0 => 1000,
            latency_ns => (latency_ns.saturating_mul(3) / 2000).min(2000),
        };
        Ok(Schedutil {
            rate_limit_ns: tunables.time_ns("rate_limit_us", rate_us, 0)?,
            invariant: tunables.switch("frequency_invariant", true)?,
            tick_ns: 1_000_000_000 / hz(tunables, 250)?,
            cores: Vec::new(),
            in_force_khz: 0,
            accounted_ns: 0,
            changed_ns: None,
            idled: true,
        })
    }

    fn account(&mut self, domain: &Domain<'_>) {
        let highest = domain.frequencies_khz[domain.frequencies_khz.len() - 1];
        let khz = if self.invariant { self.in_force_khz } else { highest };
        let passed = domain.now_ns - self.accounted_ns;
        self.accounted_ns = domain.now_ns;
        self.in_force_khz = domain.khz;
        for (core, times) in self.cores.iter_mut().zip(domain.cores) {
            let busy = (times.busy_ns - core.busy_ns).min(passed);
            core.busy_ns = times.busy_ns;
            core.pelt.idle(passed - busy);
            core.pelt.busy(busy, khz, highest);
        }
    }

    fn update(&mut self, at: usize, from_io: bool, domain: &Domain<'_>) -> Option<u32> {
        let now = domain.now_ns;
        self.cores[at].note(from_io, now, self.tick_ns);
        if self.changed_ns.is_some_and(|changed| now - changed < self.rate_limit_ns) {
            return None;
        }
        let tick_ns = self.tick_ns;
        let util = |core: &mut Core| core.pelt.utilisation().max(core.boosted(now, tick_ns));
        let util = self.cores.iter_mut().map(util).max().unwrap_or(0);
        let all = domain.frequencies_khz;
        let base = u64::from(if self.invariant { all[all.len() - 1] } else { domain.khz });
        let khz = at_least(all, (base + base / 4) * util / MOST);
        let idled = std::mem::take(&mut self.idled);
        if khz == domain.khz || khz < domain.khz && !idled {
            return None;
        }
        self.changed_ns = Some(now);
        self.in_force_khz = khz;
        Some(khz)
    }
}

impl Governor for Schedutil {
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision {
        if moment == Moment::Start || self.cores.len() != domain.cores.len() {
            let core = |c: &super::CoreTimes| Core { busy_ns: c.busy_ns, updated_ns: domain.now_ns, ..Core::default() };
            self.cores = domain.cores.iter().map(core).collect();
            self.in_force_khz = domain.khz;
            self.accounted_ns = domain.now_ns;
            return Decision::default();
        }
        self.account(domain);
        let khz = match moment {
            Moment::Tick { core } => self.update(core, false, domain),
            Moment::IdleExit { core, from_io } | Moment::Wakeup { core, from_io } => self.update(core, from_io, domain),
            Moment::IdleEntry { core } => {
                let khz = self.update(core, false, domain);
                self.idled = true;
                khz
            }
            Moment::Start | Moment::Timer | Moment::Hint { .. } => None,
        };
        Decision { khz, timer: TimerRequest::Keep }
    }

    fn tick_ns(&self) -> Option<u64> {
        Some(self.tick_ns)
    }
}
