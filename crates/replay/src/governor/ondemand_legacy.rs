//! The ondemand governor of the phone era, with what Qualcomm's kernels added to it.
//!
//! Once in a sampling period, by a timer that runs on ticks (of several cores all on the same ones, the multiples of
//! the period) and that an idle domain defers to the first tick on which it is busy, it takes the load of the busiest core:
//!
//! 1. load > up_threshold: to the maximum; coming from below it, the next samples are sampling_down_factor periods
//!    apart until the frequency is lowered.
//! 2. Several cores on-line, load > up_threshold_any_cpu_load and the frequency below sync_freq: to sync_freq.
//! 3. Several cores on-line, load > up_threshold_multi_core and the frequency below optimal_freq: to optimal_freq.
//! 4. load < up_threshold - down_differential: to the lowest operating point that is at least
//!    `load x current / (up_threshold - down_differential)`.
//! 5. Otherwise the frequency stays.
//!
//! Rules 1, 4 and 5, the defaults 80 and 10 (95 and 3 with exact accounting of idle time), the least period of
//! 10 ms and the Nexus 5's settings are facts of the published descriptions. The order of 2 and 3 and the 80 of
//! their thresholds are from memory, unverified. On the phone, rule 2 looks at other cores than the governor's own;
//! here a governor sees the cores of its domain, so rule 2 holds for domains with several cores.
//!
//! | Tunable | Unit | Default |
//! | --- | --- | --- |
//! | up_threshold, down_differential | % | 80, 10 |
//! | sampling_rate | us | 1000 times the transition latency, at least 10000 |
//! | sampling_down_factor | periods | 1 |
//! | io_is_busy | 0 or 1 | 0 |
//! | powersave_bias | thousandths | 0 |
//! | up_threshold_multi_core, up_threshold_any_cpu_load | % | 80, 80 |
//! | optimal_freq, sync_freq | kHz | 0 (off) |
//! | hz | ticks a second; not in sysfs | the device's, else 100 |

use pocketstone_core::{Error, Result};

use super::kernel::{Wheel, legacy_sampling_ns};
use super::sampling::Clock;
use super::tunables::Tunables;
use super::{Decision, Domain, Governor, Moment, at_least};
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
    optimal_khz: u64,
    sync_khz: u64,
    several_cores: bool,
    clock: Clock,
}

impl OndemandLegacy {
    /// The governor of a cluster with these tunables. A user error if one is out of its range.
    pub fn new(tunables: &Tunables, cluster: &Cluster) -> Result<Self> {
        let up_threshold = tunables.number("up_threshold", 80, 1, 100)?;
        let differential = tunables.number("down_differential", 10, 0, 99)?;
        if differential >= up_threshold {
            return Err(Error::user(format!(
                "ondemand-legacy: down_differential {differential} is not below up_threshold {up_threshold}"
            ))
            .hint("their difference is the load below which the frequency is lowered: keep it above 0"));
        }
        let sampling_ns = legacy_sampling_ns(tunables, cluster)?;
        let io_is_busy = tunables.switch("io_is_busy", false)?;
        Ok(OndemandLegacy {
            up_threshold,
            down_threshold: up_threshold - differential,
            sampling_down_factor: tunables.number("sampling_down_factor", 1, 1, 100_000)?,
            up_threshold_multi_core: tunables.number("up_threshold_multi_core", 80, 1, 100)?,
            up_threshold_any_cpu_load: tunables.number("up_threshold_any_cpu_load", 80, 1, 100)?,
            optimal_khz: tunables.number("optimal_freq", 0, 0, u64::from(u32::MAX))?,
            sync_khz: tunables.number("sync_freq", 0, 0, u64::from(u32::MAX))?,
            several_cores: cluster.cores > 1,
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
        if domain.cores.len() > 1 && load > self.up_threshold_any_cpu_load && khz < self.sync_khz {
            return Some(at_least(all, self.sync_khz));
        }
        if self.several_cores && load > self.up_threshold_multi_core && khz < self.optimal_khz {
            return Some(at_least(all, self.optimal_khz));
        }
        if domain.khz == all[0] || load >= self.down_threshold {
            return None;
        }
        self.clock.periods = 1;
        Some(at_least(all, load * khz / self.down_threshold))
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
}
