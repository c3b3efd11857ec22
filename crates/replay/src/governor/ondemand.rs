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
//! | up_threshold | % | 80; kernels that account idle time exactly start with 95 |
//! | sampling_rate | us | 10000 |
//! | sampling_down_factor | periods | 1 |
//! | io_is_busy | 0 or 1 | 0 |
//! | powersave_bias | thousandths | 0 |

use pocketstone_core::Result;

use super::bias::course;
use super::sampling::Sampler;
use super::tunables::Tunables;
use super::{Decision, Domain, Governor, Moment, TimerRequest, nearest};

/// Names of the tunables.
pub(super) const TUNABLES: &[&str] =
    &["up_threshold", "sampling_rate", "sampling_down_factor", "io_is_busy", "powersave_bias"];

/// The governor.
#[derive(Debug)]
pub struct Ondemand {
    up_threshold: u64,
    sampling_ns: u64,
    sampling_down_factor: u64,
    io_is_busy: bool,
    powersave_bias: u64,
    sampler: Sampler,
    periods: u64,
    /// The second part of a period under powersave_bias: frequency and length.
    second: Option<(u32, u64)>,
}

impl Ondemand {
    /// The governor with these tunables. A user error if one is out of its range.
    pub fn new(tunables: &Tunables) -> Result<Self> {
        Ok(Ondemand {
            up_threshold: tunables.number("up_threshold", 80, 1, 100)?,
            sampling_ns: tunables.time_ns("sampling_rate", 10_000, 1)?,
            sampling_down_factor: tunables.number("sampling_down_factor", 1, 1, 100_000)?,
            io_is_busy: tunables.switch("io_is_busy", false)?,
            powersave_bias: tunables.number("powersave_bias", 0, 0, 1000)?,
            sampler: Sampler::default(),
            periods: 1,
            second: None,
        })
    }

    fn sample(&mut self, domain: &Domain<'_>) -> Decision {
        let all = domain.frequencies_khz;
        let (lowest, highest) = (all[0], all[all.len() - 1]);
        let bursts = Some(self.sampling_ns * self.periods);
        let Some(window) = self.sampler.window(domain, self.io_is_busy, bursts) else {
            return after(domain, None, self.sampling_ns);
        };
        let target = if window.load > self.up_threshold {
            if domain.khz < highest {
                self.periods = self.sampling_down_factor;
            }
            highest
        } else {
            self.periods = 1;
            nearest(all, u64::from(lowest) + window.load * u64::from(highest - lowest) / 100)
        };
        let course = course(all, target, self.powersave_bias, self.sampling_ns);
        match course.then {
            Some((first_ns, khz, second_ns)) => {
                self.second = Some((khz, second_ns));
                after(domain, Some(course.khz), first_ns)
            }
            None => after(domain, Some(course.khz), self.sampling_ns * self.periods),
        }
    }
}

/// Goes to a frequency, and wants the timer after a while.
pub(super) fn after(domain: &Domain<'_>, khz: Option<u32>, ns: u64) -> Decision {
    let timer = TimerRequest::At { at_ns: domain.now_ns + ns, deferrable: true };
    Decision { khz: khz.filter(|k| *k != domain.khz), timer }
}

impl Governor for Ondemand {
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision {
        match (moment, self.second.take()) {
            (Moment::Start, _) => {
                self.sampler.start(domain, self.io_is_busy);
                after(domain, None, self.sampling_ns)
            }
            (Moment::Timer, Some((khz, ns))) => after(domain, Some(khz), ns),
            (Moment::Timer, None) => self.sample(domain),
            (_, second) => {
                self.second = second;
                Decision::default()
            }
        }
    }
}
