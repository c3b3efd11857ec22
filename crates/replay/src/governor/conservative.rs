//! The conservative governor: up and down in steps, in both of its revisions.
//!
//! Once in a sampling period, by a timer that an idle domain defers (the old revision's runs on the ticks that are
//! multiples of the period, or on the first one after idling), it takes the load of the busiest core. It keeps a
//! wanted frequency of its own, which starts at the current one and need not be an operating point.
//!
//! 1. load > up_threshold: the wanted frequency rises by a step, freq_step per cent of the maximum, and it goes to
//!    the highest operating point that is at most that.
//! 2. Otherwise only every sampling_down_factor-th sample counts: if the load is below down_threshold, the wanted
//!    frequency falls by a step.
//!
//! 3. Today's revision first lowers it by a step for each period that cores idled for, where that is more than two
//!    periods: the fewest of such cores' count. Such a core also has its load from before ([`super::sampling`]). What
//!    is lowered so is forgotten unless rule 1 or 2 follows; if it leaves the wanted frequency at the minimum, rule 2
//!    does nothing, and the frequency stays where it is.
//!
//! Thresholds 80 and 20, steps of 5% and a sampling_down_factor of 1 today and 5 in the old revision are facts of
//! the published descriptions, and rule 3 what mainline does since "cpufreq: conservative: Decrease frequency faster
//! for deferred updates" (4.10) with "cpufreq: governors: Fix long idle detection logic in load calculation" (4.18).
//! Falling, today's revision goes to the lowest operating point that is at least the wanted frequency and the old one
//! to the highest that is at most it.
//!
//! | Tunable | Unit | Default |
//! | --- | --- | --- |
//! | up_threshold, down_threshold | % | 80, 20 |
//! | freq_step | % of the maximum | 5; 0 never changes anything |
//! | sampling_rate | us | as [`super::ondemand`]'s; old: 1000 times the latency; before 4.14 at least 20 ticks |
//! | sampling_down_factor | samples | 1; old: 5 |
//! | kernel, hz | as [`super::ondemand`]'s; the old revision has no kernel | |

use pocketstone_core::{Error, Result};

use super::kernel::{Wheel, legacy_sampling_ns, sampling_ns, twenty_ticks_us};
use super::sampling::{Sampler, at};
use super::tunables::Tunables;
use super::{Decision, Domain, Governor, Moment, at_least, at_most};
use crate::device::Cluster;

/// Names of the tunables.
pub(super) const TUNABLES: &[&str] =
    &["up_threshold", "down_threshold", "freq_step", "sampling_rate", "sampling_down_factor", "hz", "kernel"];
/// Names of the old revision's tunables.
pub(super) const LEGACY_TUNABLES: &[&str] = TUNABLES.split_at(6).0;

/// The governor.
#[derive(Debug)]
pub struct Conservative {
    legacy: bool,
    up_threshold: u64,
    down_threshold: u64,
    freq_step: u64,
    sampling_ns: u64,
    sampling_down_factor: u64,
    wheel: Wheel,
    sampler: Sampler,
    wanted_khz: u64,
    passed: u64,
}

impl Conservative {
    /// The governor of a cluster with these tunables; `legacy` is its old revision.
    ///
    /// # Errors
    /// `ErrorKind::User` if one is out of its range.
    pub fn new(tunables: &Tunables, cluster: &Cluster, legacy: bool) -> Result<Self> {
        let up_threshold = tunables.number("up_threshold", 80, 1, 100)?;
        let down_threshold = tunables.number("down_threshold", 20, 1, 100)?;
        if down_threshold >= up_threshold {
            return Err(Error::user(format!(
                "conservative: down_threshold {down_threshold} is not below up_threshold {up_threshold}"
            ))
            .hint("lower down_threshold or raise up_threshold"));
        }
        let period_ns = if legacy { legacy_sampling_ns } else { sampling_ns };
        Ok(Conservative {
            legacy,
            up_threshold,
            down_threshold,
            freq_step: tunables.number("freq_step", 5, 0, 100)?,
            sampling_ns: period_ns(tunables, cluster, twenty_ticks_us)?,
            sampling_down_factor: tunables.number("sampling_down_factor", if legacy { 5 } else { 1 }, 1, 100_000)?,
            wheel: if legacy { Wheel::legacy(tunables)? } else { Wheel::EXACT },
            sampler: Sampler::default(),
            wanted_khz: 0,
            passed: 0,
        })
    }

    fn sample(&mut self, domain: &Domain<'_>) -> Option<u32> {
        let bursts = (!self.legacy).then_some(self.sampling_ns);
        let window = self.sampler.window(domain, false, bursts)?;
        let all = domain.frequencies_khz;
        let (lowest, highest) = (u64::from(all[0]), u64::from(all[all.len() - 1]));
        if self.freq_step == 0 {
            return None;
        }
        // A step of nothing would stick: kernels take 5 kHz then.
        let step = match highest * self.freq_step / 100 {
            0 => 5,
            step => step,
        };
        let missed = window.idle_periods.unwrap_or(0).saturating_mul(step);
        let wanted_khz = self.wanted_khz.saturating_sub(missed).max(lowest);
        if window.load > self.up_threshold {
            self.passed = 0;
            if wanted_khz == highest {
                return None;
            }
            self.wanted_khz = (wanted_khz + step).min(highest);
            return Some(at_most(all, self.wanted_khz));
        }
        self.passed += 1;
        if self.passed < self.sampling_down_factor {
            return None;
        }
        self.passed = 0;
        if window.load >= self.down_threshold || wanted_khz == lowest && (!self.legacy || domain.khz == all[0]) {
            return None;
        }
        self.wanted_khz = wanted_khz.saturating_sub(step).max(lowest);
        Some(if self.legacy { at_most(all, self.wanted_khz) } else { at_least(all, self.wanted_khz) })
    }
}

impl Conservative {
    fn next(&self, domain: &Domain<'_>, khz: Option<u32>) -> Decision {
        let (now_ns, period_ns) = (domain.now_ns, self.sampling_ns);
        let at_ns = if self.legacy { self.wheel.together_ns(now_ns, period_ns) } else { now_ns + period_ns };
        at(domain, khz, at_ns, self.wheel)
    }
}

impl Governor for Conservative {
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision {
        match moment {
            Moment::Start => {
                self.sampler.start(domain, false);
                self.wanted_khz = u64::from(domain.khz);
                self.next(domain, None)
            }
            Moment::Timer => {
                let khz = self.sample(domain);
                self.next(domain, khz)
            }
            _ => Decision::default(),
        }
    }
}
