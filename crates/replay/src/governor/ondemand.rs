//! The ondemand governor of current mainline kernels.
//!
//! Once in a sampling period it takes the load of the busiest core. Above up_threshold it goes to the maximum, and
//! the next samples are sampling_down_factor periods apart until it leaves it. Otherwise the target is
//! `min + load x (max - min) / 100`, and it goes to the operating point nearest to it.
//!
//! The formula and "nearest" are described in the message of mainline's change "cpufreq: ondemand: Eliminate the
//! deadband effect" (2014), with a table of loads, targets and selected frequencies. Sampling waits while all
//! cores are idle (kernels sample from the scheduler's updates, which an idle core has none of), and a core that
//! idled for more than two of its periods counts once with its load from before ([`super::sampling`]).
//!
//! | Tunable | Unit | Default |
//! | --- | --- | --- |
//! | up_threshold | % | 95, as of kernels that account idle time exactly (NO_HZ); 80 without |
//! | sampling_rate | us | by kernel, latency and hz ([`super::kernel`]): at 250 Hz at least 8000 |
//! | sampling_down_factor | periods | 1 |
//! | io_is_busy | 0 or 1 | 0 |
//! | powersave_bias | thousandths | 0 |
//! | kernel | version; not in sysfs | 6.12 |
//! | hz | ticks a second; not in sysfs | the device's, else 250 |

use pocketstone_core::Result;

use super::kernel::{sampling_ns, ten_ms_us};
use super::sampling::{Clock, at};
use super::tunables::Tunables;
use super::{Decision, Domain, Governor, Moment, at_least, nearest};
use crate::device::Cluster;

/// Names of the tunables.
pub(super) const TUNABLES: &[&str] =
    &["up_threshold", "sampling_rate", "sampling_down_factor", "io_is_busy", "powersave_bias", "kernel", "hz"];

/// The governor.
#[derive(Debug)]
pub struct Ondemand {
    up_threshold: u64,
    sampling_down_factor: u64,
    clock: Clock,
}

impl Ondemand {
    /// The governor of a cluster with these tunables.
    ///
    /// # Errors
    /// `ErrorKind::User` if one is out of its range.
    pub fn new(tunables: &Tunables, cluster: &Cluster) -> Result<Self> {
        let sampling_ns = sampling_ns(tunables, cluster, ten_ms_us)?;
        let io_is_busy = tunables.switch("io_is_busy", false)?;
        Ok(Ondemand {
            up_threshold: tunables.number("up_threshold", 95, 1, 100)?,
            sampling_down_factor: tunables.number("sampling_down_factor", 1, 1, 100_000)?,
            clock: Clock::new(sampling_ns, io_is_busy, tunables.number("powersave_bias", 0, 0, 1000)?),
        })
    }

    fn sample(&mut self, domain: &Domain<'_>) -> Decision {
        let all = domain.frequencies_khz;
        let (lowest, highest) = (all[0], all[all.len() - 1]);
        let clock = &mut self.clock;
        let bursts = Some(clock.period_ns * clock.periods);
        let Some(window) = clock.sampler.window(domain, clock.io_is_busy, bursts) else {
            return at(domain, None, domain.now_ns + clock.period_ns, clock.wheel);
        };
        let target = if window.load > self.up_threshold {
            if domain.khz < highest {
                clock.periods = self.sampling_down_factor;
            }
            highest
        } else {
            clock.periods = 1;
            let wanted = u64::from(lowest) + window.load * u64::from(highest - lowest) / 100;
            // A bias is taken off the lowest operating point that carries the load, not off the nearest.
            if clock.powersave_bias > 0 { at_least(all, wanted) } else { nearest(all, wanted) }
        };
        clock.go(domain, Some(target))
    }
}

impl Governor for Ondemand {
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision {
        self.clock.due(moment, domain).unwrap_or_else(|| self.sample(domain))
    }
}
