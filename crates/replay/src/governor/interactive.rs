//! The interactive governor of Android's 3.10 kernels, with its per-core timers.
//!
//! Each core has a timer of timer_rate that does not wake it, and a target; the domain runs at the highest target.
//! When a core's timer runs, its load is its frequency-weighted busy time over the window, over the frequency in
//! force:
//!
//! 1. load >= go_hispeed_load, or boosted: below hispeed_freq to hispeed_freq, else to the higher of the choice
//!    ([`super::choose`]) and hispeed_freq. Otherwise to the choice, but from below hispeed_freq to at most it.
//! 2. At or above hispeed_freq, raising waits until above_hispeed_delay of the present target has passed since the
//!    last evaluation that did not wait.
//! 3. Lowering below the floor waits until min_sample_time has passed since the floor was set; every evaluation
//!    that gets here sets it, but for boosts that keep at hispeed_freq or below.
//! 4. The timer is armed again, but at the maximum: there it is off until the core idles.
//! 5. Qualcomm's, without load and boost of rule 1: a choice below sync_freq becomes sync_freq where another core's
//!    last load is at least up_threshold_any_cpu_load and the highest target of such cores is above
//!    up_threshold_any_cpu_freq; hispeed_freq caps only choices from sync_freq on. What cores do that a replay has no
//!    thread for is the scenario's: others_load and others_freq.
//!
//! A core that idles above the minimum gets its timer armed if it is off. Above the minimum a second timer wakes
//! the core timer_slack after the first (-1: never), which so runs although the core idles. At the end of idling
//! the timer is armed if it is off, and runs at once if it has expired. Arming starts a new window.
//!
//! boost holds hispeed_freq as the least from the start; a boostpulse does for boostpulse_duration. A replay has
//! nobody who writes to boostpulse, so the tunable holds the times of writing. Input boosts (the Nexus 6's
//! 1497600 kHz for 40 ms at a touch) are not part of it: nobody touches the screen in a replay.
//!
//! The rules, the defaults and the Nexus 6's settings follow published descriptions. From memory, not verified: the
//! order of the search, slack and windows, the default 99 of go_hispeed_load, and that a sampling_down_factor above
//! 0 (Qualcomm's) stands for min_sample_time at the maximum. Timers run on ticks: a delay counts from the tick before
//! it was asked for, in whole ticks, rounded up.
//!
//! | Tunable | Unit | Default |
//! | --- | --- | --- |
//! | timer_rate | us | 20000 |
//! | timer_slack | us, -1 for never | 80000 |
//! | min_sample_time | us | 80000 |
//! | above_hispeed_delay | us, list by frequency | 20000 |
//! | target_loads | %, list by frequency | 90 |
//! | go_hispeed_load | % | 99 |
//! | hispeed_freq | kHz | the maximum |
//! | boost | 0 or 1 | 0 |
//! | boostpulse | us since the start, several | none |
//! | boostpulse_duration | us | 80000 |
//! | io_is_busy | 0 or 1 | 0 |
//! | sampling_down_factor | us | 0 (off) |
//! | sync_freq | kHz | 0 (off) |
//! | up_threshold_any_cpu_load, up_threshold_any_cpu_freq | %, kHz | 0 |
//! | others_load, others_freq | %, kHz; the scenario's | 0 |
//! | hz | ticks a second; not in sysfs | the device's, else 100 |

use pocketstone_core::{Error, Result};

use super::choose::choose;
use super::kernel::Wheel;
use super::tunables::{Steps, Tunables};
use super::{Decision, Domain, Governor, Moment, Others, TimerRequest, at_least};

/// Names of the tunables.
pub(super) const TUNABLES: &[&str] = &[
    "timer_rate",
    "timer_slack",
    "min_sample_time",
    "above_hispeed_delay",
    "target_loads",
    "go_hispeed_load",
    "hispeed_freq",
    "boost",
    "boostpulse",
    "boostpulse_duration",
    "io_is_busy",
    "sampling_down_factor",
    "hz",
    "sync_freq",
    "up_threshold_any_cpu_load",
    "up_threshold_any_cpu_freq",
    "others_load",
    "others_freq",
];

/// The governor.
#[derive(Debug)]
pub struct Interactive {
    settings: Settings,
    /// Moments of boost pulses that are to come, the next one last.
    pulses_ns: Vec<u64>,
    boosted_until_ns: u64,
    /// The frequency in force since the last moment.
    in_force_khz: u32,
    cores: Vec<Core>,
}

#[derive(Debug)]
struct Settings {
    wheel: Wheel,
    timer_ns: u64,
    slack_ns: Option<u64>,
    min_sample_ns: u64,
    above_hispeed_delay_us: Steps,
    target_loads: Steps,
    go_hispeed_load: u64,
    hispeed_khz: Option<u64>,
    boost: bool,
    boostpulse_ns: u64,
    io_is_busy: bool,
    sampling_down_ns: u64,
    sync_khz: u64,
    any_cpu_load: u64,
    any_cpu_khz: u64,
    others: Others,
}

#[derive(Debug, Clone, Default)]
struct Core {
    idle: bool,
    target_khz: u32,
    floor_khz: u32,
    floor_since_ns: u64,
    hispeed_since_ns: u64,
    expires_ns: Option<u64>,
    /// When it runs even if the core idles.
    slack_ns: Option<u64>,
    window_from_ns: u64,
    /// Work in the window: kHz times ns.
    work: u128,
    /// Busy (and iowait) time at the last moment.
    worked_ns: u64,
    /// Load of the last evaluation in per cent.
    last_load: u64,
}

impl Core {
    fn arm(&mut self, now_ns: u64, lowest_khz: u32, settings: &Settings) {
        let expires = settings.wheel.after_ns(now_ns, settings.timer_ns);
        self.expires_ns = Some(expires);
        let slack_ns = settings.slack_ns.filter(|_| self.target_khz > lowest_khz);
        self.slack_ns = slack_ns.map(|slack| expires + settings.wheel.ticks_ns(slack));
        self.window_from_ns = now_ns;
        self.work = 0;
    }

    /// When its timer runs if nothing happens before.
    fn wakes_ns(&self) -> Option<u64> {
        if self.idle { self.slack_ns } else { self.expires_ns }
    }
}

impl Interactive {
    /// The governor with these tunables.
    ///
    /// # Errors
    /// `ErrorKind::User` if one is out of its range.
    pub fn new(tunables: &Tunables) -> Result<Self> {
        let slack_ns = match tunables.text("timer_slack") {
            Some("-1") => None,
            _ => Some(tunables.time_ns("timer_slack", 80_000, 0).map_err(|e| {
                Error::user(e.message().to_owned()).hint("give microseconds, or -1 for a timer that never wakes a core")
            })?),
        };
        let khz = |name| tunables.number(name, 0, 0, u64::from(u32::MAX));
        let hispeed = khz("hispeed_freq")?;
        let mut pulses_ns: Vec<u64> = tunables.list("boostpulse")?.iter().map(|us| us.saturating_mul(1000)).collect();
        pulses_ns.sort_unstable();
        pulses_ns.reverse();
        Ok(Interactive {
            settings: Settings {
                wheel: Wheel::legacy(tunables)?,
                timer_ns: tunables.time_ns("timer_rate", 20_000, 1)?,
                slack_ns,
                min_sample_ns: tunables.time_ns("min_sample_time", 80_000, 0)?,
                above_hispeed_delay_us: tunables.steps("above_hispeed_delay", 20_000, 0)?,
                target_loads: tunables.steps("target_loads", 90, 1)?,
                go_hispeed_load: tunables.number("go_hispeed_load", 99, 0, 100)?,
                hispeed_khz: Some(hispeed).filter(|khz| *khz > 0),
                boost: tunables.switch("boost", false)?,
                boostpulse_ns: tunables.time_ns("boostpulse_duration", 80_000, 0)?,
                io_is_busy: tunables.switch("io_is_busy", false)?,
                sampling_down_ns: tunables.time_ns("sampling_down_factor", 0, 0)?,
                sync_khz: khz("sync_freq")?,
                any_cpu_load: tunables.number("up_threshold_any_cpu_load", 0, 0, 100)?,
                any_cpu_khz: khz("up_threshold_any_cpu_freq")?,
                others: Others {
                    cores: 0,
                    load: tunables.number("others_load", 0, 0, 100)?,
                    khz: khz("others_freq")? as u32,
                },
            },
            pulses_ns,
            boosted_until_ns: 0,
            in_force_khz: 0,
            cores: Vec::new(),
        })
    }

    fn hispeed_khz(&self, domain: &Domain<'_>) -> u32 {
        let highest = domain.frequencies_khz[domain.frequencies_khz.len() - 1];
        self.settings.hispeed_khz.map_or(highest, |khz| at_least(domain.frequencies_khz, khz))
    }

    fn start(&mut self, domain: &Domain<'_>) {
        self.cores = vec![Core { idle: true, target_khz: domain.khz, floor_khz: domain.khz, ..Core::default() }];
        self.cores.resize(domain.cores.len(), self.cores[0].clone());
        for (core, times) in self.cores.iter_mut().zip(domain.cores) {
            core.idle = !times.busy;
            core.floor_since_ns = domain.now_ns;
            core.hispeed_since_ns = domain.now_ns;
            core.worked_ns = times.busy_ns + if self.settings.io_is_busy { times.iowait_ns } else { 0 };
            core.arm(domain.now_ns, domain.frequencies_khz[0], &self.settings);
        }
        if self.settings.boost {
            self.boost(domain);
        }
    }

    /// Adds what the cores worked since the last moment to their windows.
    fn account(&mut self, domain: &Domain<'_>) {
        for (core, times) in self.cores.iter_mut().zip(domain.cores) {
            let worked = times.busy_ns + if self.settings.io_is_busy { times.iowait_ns } else { 0 };
            core.work += u128::from(worked - core.worked_ns) * u128::from(self.in_force_khz);
            core.worked_ns = worked;
        }
    }

    /// Every core goes to hispeed_freq at least.
    fn boost(&mut self, domain: &Domain<'_>) {
        let hispeed = self.hispeed_khz(domain);
        for core in &mut self.cores {
            if core.target_khz < hispeed {
                core.target_khz = hispeed;
                core.hispeed_since_ns = domain.now_ns;
            }
            core.floor_khz = hispeed;
            core.floor_since_ns = domain.now_ns;
        }
    }

    /// A core's timer runs.
    fn evaluate(&mut self, at: usize, domain: &Domain<'_>) {
        let (all, now) = (domain.frequencies_khz, domain.now_ns);
        let (lowest, highest) = (all[0], all[all.len() - 1]);
        let hispeed = self.hispeed_khz(domain);
        let boosted = self.settings.boost || now < self.boosted_until_ns;
        let others = self.others_sync(at, domain);
        let (settings, core) = (&self.settings, &mut self.cores[at]);
        let window_ns = now - core.window_from_ns;
        if window_ns == 0 {
            return core.arm(now, lowest, settings);
        }
        let work = (core.work / u128::from(window_ns)) as u64 * 100;
        let load = work / u64::from(domain.khz);
        let mut next = choose(all, domain.khz, work, &settings.target_loads);
        if load >= settings.go_hispeed_load || boosted {
            next = if core.target_khz < hispeed { hispeed } else { next.max(hispeed) };
        } else if u64::from(next) < settings.sync_khz {
            if others {
                next = at_least(all, settings.sync_khz);
            }
        } else if next > hispeed && core.target_khz < hispeed {
            next = hispeed;
        }
        core.last_load = load;
        let delay_ns = settings.above_hispeed_delay_us.at(u64::from(core.target_khz)) * 1000;
        if core.target_khz >= hispeed && next > core.target_khz && now - core.hispeed_since_ns < delay_ns {
            return core.arm(now, lowest, settings);
        }
        core.hispeed_since_ns = now;
        let at_maximum = domain.khz == highest && settings.sampling_down_ns > 0;
        let floor_ns = if at_maximum { settings.sampling_down_ns } else { settings.min_sample_ns };
        if next < core.floor_khz && now - core.floor_since_ns < floor_ns {
            return core.arm(now, lowest, settings);
        }
        if !boosted || next > hispeed {
            core.floor_khz = next;
            core.floor_since_ns = now;
        }
        core.target_khz = next;
        if next == highest {
            (core.expires_ns, core.slack_ns) = (None, None);
        } else {
            core.arm(now, lowest, settings);
        }
    }

    /// Whether another core is busy and fast enough for rule 5.
    fn others_sync(&self, at: usize, domain: &Domain<'_>) -> bool {
        let settings = &self.settings;
        let of_domain =
            self.cores.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, c)| (c.last_load, c.target_khz));
        let elsewhere = [(domain.others.load, domain.others.khz), (settings.others.load, settings.others.khz)];
        let busy = of_domain.chain(elsewhere).filter(|(load, _)| *load >= settings.any_cpu_load);
        busy.map(|(_, khz)| u64::from(khz)).max().is_some_and(|khz| khz > settings.any_cpu_khz)
    }

    fn answer(&mut self, domain: &Domain<'_>) -> Decision {
        let khz = self.cores.iter().map(|c| c.target_khz).max().unwrap_or(domain.khz);
        self.in_force_khz = khz;
        let next_pulse = self.pulses_ns.last().copied();
        let wakes = self.cores.iter().filter_map(Core::wakes_ns).chain(next_pulse).min();
        let at = |at_ns| TimerRequest::At { at_ns, deferrable: false, tick_ns: 1 };
        Decision { khz: (khz != domain.khz).then_some(khz), timer: wakes.map_or(TimerRequest::Off, at) }
    }
}

impl Governor for Interactive {
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision {
        let (now, lowest) = (domain.now_ns, domain.frequencies_khz[0]);
        if moment == Moment::Start || self.cores.len() != domain.cores.len() {
            self.start(domain);
            return self.answer(domain);
        }
        self.account(domain);
        match moment {
            Moment::IdleEntry { core } => {
                let core = &mut self.cores[core];
                core.idle = true;
                if core.expires_ns.is_none() && core.target_khz > lowest {
                    core.arm(now, lowest, &self.settings);
                }
            }
            Moment::IdleExit { core, .. } => {
                let core = &mut self.cores[core];
                core.idle = false;
                if core.expires_ns.is_none() {
                    core.arm(now, lowest, &self.settings);
                }
            }
            _ => {}
        }
        while self.pulses_ns.last().is_some_and(|at| *at <= now) {
            self.pulses_ns.pop();
            self.boosted_until_ns = now + self.settings.boostpulse_ns;
            self.boost(domain);
        }
        for at in 0..self.cores.len() {
            if self.cores[at].wakes_ns().is_some_and(|wakes| wakes <= now) {
                self.evaluate(at, domain);
            }
        }
        self.answer(domain)
    }

    fn load(&self) -> u64 {
        self.cores.iter().map(|c| c.last_load).max().unwrap_or(0)
    }
}
