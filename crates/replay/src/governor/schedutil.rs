//! The schedutil governor: frequency from the scheduler's own tracking of utilisation.
//!
//! The scheduler tells of a core when a thread becomes ready on it, when it idles, and at ticks, but only where a
//! period of tracking has ended since it last looked at that core ([`super::pelt`]; "decayed"): at a low frequency the
//! clock of tracking is slow, and ticks pass without. A thread that becomes ready after waiting for a device is told
//! of always, before its core is looked at, and then again if a period has ended. What it is told:
//!
//! 1. `next = 1.25 x fmax x util / 1024`, and the lowest operating point that is at least that. util is that of the
//!    busiest core as it was last looked at, at least the estimate of what runs on it ([`super::estimate`], since 4.17;
//!    a core that idles is told of without it since 5.11). Without frequency-invariant tracking, the current
//!    frequency stands for fmax.
//!    - until 5.13: `(fmax + fmax / 4) util / 1024`;
//!    - from 5.14 on: `fmax (util + util / 4) / 1024`, each division rounded down;
//!    - from 6.8 on, `util + util / 4` is at most 1024, and 1.25 times the current frequency stands for fmax where
//!      tracking is not frequency-invariant.
//! 2. A thread that becomes ready after waiting for a device boosts: util is then at least 128, doubled by each
//!    such wake-up up to 1024, and halved by each use without one; below 128 it ends. More than a tick without any word
//!    of the core resets it.
//! 3. rate_limit_us must have passed since the last change; otherwise nothing happens, and no boost is used. Android's
//!    kernels have one limit for raising and one for lowering: the shorter one comes first, and once the frequency is
//!    known its own.
//! 4. The frequency of a core with a clock of its own is not lowered unless it has idled since the last time that
//!    rule 3 let pass. Cores that share a clock have no such rule.
//!
//! These are facts of kernels' change messages and code: "cpufreq: schedutil: Avoid reducing frequency of busy CPUs
//! prematurely" (4.12), "sched/fair: Update util_est only on util_avg updates" (4.17), "sched/fair: Avoid stale CPU
//! util_est value for schedutil in task dequeue" (5.11), "sched/cpufreq: Consider reduced CPU capacity in energy
//! calculation" (5.14), "sched/cpufreq: Rework schedutil governor performance estimation" (6.8). The versions of 5.11
//! and 5.14 are from memory. Clamping, deadlines, and updates of an idle core by others are not part of it; the first
//! wake-up of a replay finds a period ended.
//!
//! | Tunable | Unit | Default |
//! | --- | --- | --- |
//! | rate_limit_us | us | by kernel and transition latency ([`super::kernel`]) |
//! | up_rate_limit_us, down_rate_limit_us | us; Android's | rate_limit_us |
//! | frequency_invariant | 0 or 1; the kernel's, not in sysfs | 1 |
//! | kernel | version; not in sysfs | 6.12 |
//! | hz | ticks a second; not in sysfs | the device's, else 250 |

use pocketstone_core::Result;

use super::estimate::Estimate;
use super::kernel::{Version, between_changes_us, hz};
use super::pelt::Pelt;
use super::tunables::Tunables;
use super::{Decision, Domain, Governor, Moment, TimerRequest, at_least};
use crate::device::Cluster;

/// Names of the tunables.
pub(super) const TUNABLES: &[&str] =
    &["rate_limit_us", "up_rate_limit_us", "down_rate_limit_us", "frequency_invariant", "kernel", "hz"];

const LEAST_BOOST: u64 = 128;
const MOST: u64 = 1024;

/// The governor.
#[derive(Debug)]
pub struct Schedutil {
    up_limit_ns: u64,
    down_limit_ns: u64,
    invariant: bool,
    version: Version,
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
    /// A period of tracking has ended since the scheduler looked at the core.
    decayed: bool,
    /// Utilisation as it was when it looked.
    utilisation: u64,
    estimate: Estimate,
    busy_ns: u64,
    boost: u64,
    /// A wake-up has raised the boost, and nothing has used it yet.
    raised: bool,
    told_ns: u64,
}

impl Core {
    /// Rule 2's part that the rate limit does not hold back.
    fn note(&mut self, from_io: bool, now_ns: u64, tick_ns: u64) {
        let forgotten = now_ns - self.told_ns > tick_ns;
        self.told_ns = now_ns;
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
        if self.boost > 0 && now_ns - self.told_ns > tick_ns {
            (self.boost, self.raised) = (0, false);
        }
        if !std::mem::take(&mut self.raised) {
            self.boost /= 2;
            if self.boost < LEAST_BOOST {
                self.boost = 0;
            }
        }
        self.boost
    }

    /// The scheduler looks at it. Whether a period has ended.
    fn look(&mut self) -> bool {
        let decayed = std::mem::take(&mut self.decayed);
        if decayed {
            self.utilisation = self.pelt.utilisation();
            self.estimate.changed = true;
        }
        decayed
    }
}

impl Schedutil {
    /// The governor of a cluster with these tunables.
    ///
    /// # Errors
    /// `ErrorKind::User` if one is out of its range.
    pub fn new(tunables: &Tunables, cluster: &Cluster) -> Result<Self> {
        let version = Version::of(tunables)?;
        let limit_us = between_changes_us(cluster.transition_latency_ns, version).min(3_600_000_000);
        let limit_us = tunables.time_ns("rate_limit_us", limit_us, 0)? / 1000;
        Ok(Schedutil {
            up_limit_ns: tunables.time_ns("up_rate_limit_us", limit_us, 0)?,
            down_limit_ns: tunables.time_ns("down_rate_limit_us", limit_us, 0)?,
            invariant: tunables.switch("frequency_invariant", true)?,
            version,
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
            core.decayed |= core.pelt.idle(passed - busy);
            core.decayed |= if self.version < Version(5, 1) {
                core.pelt.busy_scaled(busy, khz, highest)
            } else {
                core.pelt.busy(busy, khz, highest)
            };
        }
    }

    /// Rule 1: the frequency for a utilisation.
    fn khz(&self, util: u64, khz: u32, domain: &Domain<'_>) -> u32 {
        let all = domain.frequencies_khz;
        let base = u64::from(if self.invariant { all[all.len() - 1] } else { khz });
        let wanted = if self.version < Version(5, 14) {
            (base + base / 4) * util / MOST
        } else if self.version < Version(6, 8) {
            base * (util + util / 4) / MOST
        } else {
            let base = if self.invariant { base } else { base + base / 4 };
            base * (util + util / 4).min(MOST) / MOST
        };
        at_least(all, wanted)
    }

    /// What follows from word of a core, with a frequency that is the current one: another frequency.
    fn update(&mut self, at: usize, from_io: bool, current_khz: u32, domain: &Domain<'_>) -> Option<u32> {
        let (now, tick_ns) = (domain.now_ns, self.tick_ns);
        self.cores[at].note(from_io, now, tick_ns);
        let since_ns = self.changed_ns.map_or(u64::MAX, |changed| now - changed);
        if since_ns < self.up_limit_ns.min(self.down_limit_ns) {
            return None;
        }
        let util = |core: &mut Core| core.utilisation.max(core.estimate.utilisation()).max(core.boosted(now, tick_ns));
        let util = self.cores.iter_mut().map(util).max().unwrap_or(0);
        let khz = self.khz(util, current_khz, domain);
        let held = !std::mem::take(&mut self.idled) && domain.cores.len() == 1;
        let limit_ns = if khz > current_khz { self.up_limit_ns } else { self.down_limit_ns };
        if khz == current_khz || khz < current_khz && held || since_ns < limit_ns {
            return None;
        }
        self.changed_ns = Some(now);
        self.in_force_khz = khz;
        Some(khz)
    }

    /// A thread becomes ready on a core.
    fn ready(&mut self, at: usize, from_io: bool, domain: &Domain<'_>) -> Option<u32> {
        self.cores[at].estimate.counts = true;
        let boosted = if from_io { self.update(at, true, domain.khz, domain) } else { None };
        if !self.cores[at].look() {
            return boosted;
        }
        self.update(at, false, boosted.unwrap_or(domain.khz), domain).or(boosted)
    }

    /// A core idles.
    fn idles(&mut self, at: usize, domain: &Domain<'_>) -> Option<u32> {
        self.cores[at].estimate.counts &= self.version < Version(5, 11);
        let khz = if self.cores[at].look() { self.update(at, false, domain.khz, domain) } else { None };
        let core = &mut self.cores[at];
        core.estimate.sleeps(core.utilisation, self.version);
        self.idled = true;
        khz
    }
}

impl Governor for Schedutil {
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision {
        if moment == Moment::Start || self.cores.len() != domain.cores.len() {
            let core = |c: &super::CoreTimes| Core {
                busy_ns: c.busy_ns,
                told_ns: domain.now_ns,
                decayed: true,
                ..Core::default()
            };
            self.cores = domain.cores.iter().map(core).collect();
            self.in_force_khz = domain.khz;
            self.accounted_ns = domain.now_ns;
            return Decision::default();
        }
        self.account(domain);
        let khz = match moment {
            Moment::Tick { core } if self.cores[core].look() => self.update(core, false, domain.khz, domain),
            Moment::IdleExit { core, from_io } | Moment::Wakeup { core, from_io } => self.ready(core, from_io, domain),
            Moment::IdleEntry { core } => self.idles(core, domain),
            Moment::Tick { .. } | Moment::Start | Moment::Timer | Moment::Hint { .. } => None,
        };
        Decision { khz, timer: TimerRequest::Keep }
    }

    fn tick_ns(&self) -> Option<u64> {
        Some(self.tick_ns)
    }
}
