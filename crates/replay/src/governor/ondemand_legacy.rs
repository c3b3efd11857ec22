//! The ondemand governor of the phone era, with what Qualcomm's kernels added to it.
//!
//! Once in a sampling period, by a timer that runs on ticks (of several cores all on the same ones, the multiples of
//! the period) and that an idle domain defers to the first tick on which it is busy, it takes the load of the busiest
//! core:
//!
//! 1. load > up_threshold: to the maximum; coming from below it, the next samples are sampling_down_factor periods
//!    apart until the frequency is lowered.
//! 2. Another core's load > up_threshold_any_cpu_load: below sync_freq, to it. Nothing else follows.
//! 3. load > up_threshold_multi_core: below optimal_freq, to it. Nothing else follows.
//! 4. load < up_threshold - down_differential, and not at the minimum: to the lowest operating point that is at least
//!    `load x current / (up_threshold - down_differential)`, but
//!    - not below sync_freq where another core's load > up_threshold_multi_core - down_differential;
//!    - to optimal_freq where load > up_threshold_multi_core - down_differential_multi_core.
//! 5. Otherwise the frequency stays.
//!
//! 2, 3 and the parts of 4 are Qualcomm's. They are there where sync_freq or optimal_freq is set (the other one is the
//! minimum then), and hold while several cores are on-line. Another core's load is the higher one of its last two
//! samples, and that of the busiest one counts; while one is at the maximum and this one at optimal_freq or above, it
//! is taken for up_threshold_any_cpu_load, as that core may only wait for its sampling_down_factor. Cores of a domain
//! are one policy, whose first core is its own and the rest others. What cores do that a replay has no thread for is
//! the scenario's: others_load and others_freq. Their kernels also go to sync_freq for a thread that moves to another
//! core; in a replay none does.
//!
//! Rules 1 and 5, the first of 4, the defaults 80 and 10 (95 and 3 with exact accounting of idle time), the least
//! period of 10 ms and the Nexus 5's settings are facts of the published descriptions; the rest is what the governor of
//! Qualcomm's kernels of 3.4 does. That its thresholds of several cores begin at 80 and the second differential at 3 is
//! from memory.
//!
//! | Tunable | Unit | Default |
//! | --- | --- | --- |
//! | up_threshold, down_differential | % | 80, 10 |
//! | sampling_rate | us | 1000 times the transition latency, at least 10000 |
//! | sampling_down_factor | periods | 1 |
//! | io_is_busy | 0 or 1 | 0 |
//! | powersave_bias | thousandths | 0 |
//! | up_threshold_multi_core, up_threshold_any_cpu_load | % | 80, 80 |
//! | down_differential_multi_core | % | 3 |
//! | optimal_freq, sync_freq | kHz | 0 (off) |
//! | others_load | %, the scenario's: of the busiest core without a thread of the replay | 0 |
//! | others_freq | kHz, the scenario's: the highest of such cores | 0 |
//! | hz | ticks a second; not in sysfs | the device's, else 100 |

use pocketstone_core::{Error, Result};

use super::kernel::{Wheel, legacy_sampling_ns, ten_ms_us};
use super::sampling::Clock;
use super::tunables::Tunables;
use super::{Decision, Domain, Governor, Moment, Others, at_least};
use crate::device::Cluster;

/// Names of the tunables.
pub(super) const TUNABLES: &[&str] = &[
    "up_threshold",
    "down_differential",
    "sampling_rate",
    "sampling_down_factor",
    "io_is_busy",
    "powersave_bias",
    "up_threshold_multi_core",
    "up_threshold_any_cpu_load",
    "optimal_freq",
    "sync_freq",
    "hz",
    "down_differential_multi_core",
    "others_load",
    "others_freq",
];

/// The governor.
#[derive(Debug)]
pub struct OndemandLegacy {
    up_threshold: u64,
    /// Below it, the frequency is lowered.
    down_threshold: u64,
    sampling_down_factor: u64,
    up_threshold_multi_core: u64,
    up_threshold_any_cpu_load: u64,
    /// Load of the core itself above which a lowered one goes to optimal_khz.
    down_multi_core: u64,
    /// Load of another core above which a lowered one goes to sync_khz at least.
    down_others: u64,
    optimal_khz: u64,
    sync_khz: u64,
    scenario: Others,
    clock: Clock,
}

impl OndemandLegacy {
    /// The governor of a cluster with these tunables.
    ///
    /// # Errors
    /// `ErrorKind::User` if one is out of its range.
    pub fn new(tunables: &Tunables, cluster: &Cluster) -> Result<Self> {
        let up_threshold = tunables.number("up_threshold", 80, 1, 100)?;
        let differential = tunables.number("down_differential", 10, 0, 99)?;
        if differential >= up_threshold {
            return Err(Error::user(format!(
                "ondemand-legacy: down_differential {differential} is not below up_threshold {up_threshold}"
            ))
            .hint("their difference is the load below which the frequency is lowered: keep it above 0"));
        }
        let sampling_ns = legacy_sampling_ns(tunables, cluster, ten_ms_us)?;
        let io_is_busy = tunables.switch("io_is_busy", false)?;
        let multi_core = tunables.number("up_threshold_multi_core", 80, 1, 100)?;
        let multi_differential = tunables.number("down_differential_multi_core", 3, 0, 99)?;
        let khz = |name| tunables.number(name, 0, 0, u64::from(u32::MAX));
        let scenario =
            Others { cores: 0, load: tunables.number("others_load", 0, 0, 100)?, khz: khz("others_freq")? as u32 };
        Ok(OndemandLegacy {
            up_threshold,
            down_threshold: up_threshold - differential,
            sampling_down_factor: tunables.number("sampling_down_factor", 1, 1, 100_000)?,
            up_threshold_multi_core: multi_core,
            up_threshold_any_cpu_load: tunables.number("up_threshold_any_cpu_load", 80, 1, 100)?,
            down_multi_core: multi_core.saturating_sub(multi_differential),
            down_others: multi_core.saturating_sub(differential),
            optimal_khz: khz("optimal_freq")?,
            sync_khz: khz("sync_freq")?,
            scenario,
            clock: Clock::new(sampling_ns, io_is_busy, tunables.number("powersave_bias", 0, 0, 1000)?)
                .on(Wheel::legacy(tunables)?, cluster.cores > 1),
        })
    }

    fn target(&mut self, load: u64, domain: &Domain<'_>) -> Option<u32> {
        let (all, khz) = (domain.frequencies_khz, u64::from(domain.khz));
        let highest = all[all.len() - 1];
        if load > self.up_threshold {
            if domain.khz < highest {
                self.clock.periods = self.sampling_down_factor;
            }
            return Some(highest);
        }
        let others = self.others(domain);
        if let Some(other) = others {
            if other > self.up_threshold_any_cpu_load {
                return (khz < self.sync_khz).then(|| at_least(all, self.sync_khz));
            }
            if load > self.up_threshold_multi_core {
                return (khz < self.optimal_khz).then(|| at_least(all, self.optimal_khz));
            }
        }
        if domain.khz == all[0] || load >= self.down_threshold {
            return None;
        }
        self.clock.periods = 1;
        let mut wanted = load * khz / self.down_threshold;
        if let Some(other) = others {
            if other > self.down_others {
                wanted = wanted.max(self.sync_khz);
            }
            if load > self.down_multi_core {
                wanted = self.optimal_khz;
            }
        }
        Some(at_least(all, wanted))
    }

    /// The load of the busiest other core, where Qualcomm's rules hold.
    fn others(&self, domain: &Domain<'_>) -> Option<u64> {
        let several = domain.cores.len() > 1 || domain.others.cores > 0;
        if !several || self.optimal_khz == 0 && self.sync_khz == 0 {
            return None;
        }
        let highest = domain.frequencies_khz[domain.frequencies_khz.len() - 1];
        let own_khz = if domain.cores.len() > 1 { domain.khz } else { 0 };
        let others_khz = domain.others.khz.max(self.scenario.khz).max(own_khz);
        if others_khz >= highest && u64::from(domain.khz) >= self.optimal_khz {
            return Some(self.up_threshold_any_cpu_load);
        }
        Some(self.clock.sampler.recent_load(1).max(domain.others.load).max(self.scenario.load))
    }

    fn sample(&mut self, domain: &Domain<'_>) -> Decision {
        let window = self.clock.sampler.window(domain, self.clock.io_is_busy, None);
        let target = window.and_then(|w| self.target(w.load, domain));
        self.clock.go(domain, target)
    }
}

impl Governor for OndemandLegacy {
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision {
        self.clock.due(moment, domain).unwrap_or_else(|| self.sample(domain))
    }

    fn load(&self) -> u64 {
        self.clock.sampler.recent_load(0)
    }
}
