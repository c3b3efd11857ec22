//! What the governors that sample have in common: the load of a window.
//!
//! Load is `100 x (wall - idle) / wall` in whole per cent, rounded down, as the governors of kernels keep it; the
//! busiest core counts. With io_is_busy, time that a core idles while a thread waits for a device is not idle.

use super::bias::course;
use super::kernel::Wheel;
use super::{Decision, Domain, Moment, TimerRequest};

/// The end of the last window, by core.
#[derive(Debug, Clone, Default)]
pub(super) struct Sampler {
    at_ns: u64,
    cores: Vec<Core>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Core {
    worked_ns: u64,
    /// Load of the last window; 0 once it stood for another one's.
    last_load: u64,
    /// The higher one of the last two windows' loads.
    recent_load: u64,
}

/// What a window was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// Highest load of a core in per cent.
    pub load: u64,
    /// Periods that the core that idled least of those that idled long idled for; `None` where none idled long.
    pub idle_periods: Option<u64>,
}

/// The timer of both ondemand governors: one sample in some periods, and the second part of a period under
/// powersave_bias.
#[derive(Debug)]
pub(super) struct Clock {
    /// Load by window.
    pub sampler: Sampler,
    /// What its timer runs on.
    pub wheel: Wheel,
    /// Whether all cores sample together ([`Wheel::together_ns`]).
    pub together: bool,
    /// Length of a period.
    pub period_ns: u64,
    /// Periods to the next sample.
    pub periods: u64,
    /// Whether waiting for a device is load.
    pub io_is_busy: bool,
    /// By how many thousandths targets are lowered.
    pub powersave_bias: u64,
    /// Frequency and length of a period's second part.
    second: Option<(u32, u64)>,
}

impl Clock {
    /// With an exact timer.
    pub(super) fn new(period_ns: u64, io_is_busy: bool, powersave_bias: u64) -> Self {
        let (sampler, wheel) = (Sampler::default(), Wheel::EXACT);
        Clock { sampler, wheel, together: false, period_ns, periods: 1, io_is_busy, powersave_bias, second: None }
    }

    /// With a timer on ticks.
    pub(super) fn on(self, wheel: Wheel, together: bool) -> Self {
        Clock { wheel, together, ..self }
    }

    /// Goes to a frequency, and wants the next sample after a while.
    fn sample_after(&self, domain: &Domain<'_>, khz: Option<u32>, ns: u64) -> Decision {
        let now_ns = domain.now_ns;
        let at_ns = if self.together { self.wheel.together_ns(now_ns, ns) } else { self.wheel.after_ns(now_ns, ns) };
        at(domain, khz, at_ns, self.wheel)
    }

    /// What is to be done at a moment; `None` when it is time for a sample.
    pub(super) fn due(&mut self, moment: Moment, domain: &Domain<'_>) -> Option<Decision> {
        match moment {
            Moment::Start => {
                self.sampler.start(domain, self.io_is_busy);
                Some(self.sample_after(domain, None, self.period_ns))
            }
            Moment::Timer => self.second.take().map(|(khz, ns)| self.part(domain, khz, ns)),
            _ => Some(Decision::default()),
        }
    }

    /// Goes to a target, less the bias; without one, only waits for the next sample.
    pub(super) fn go(&mut self, domain: &Domain<'_>, target_khz: Option<u32>) -> Decision {
        let whole_ns = self.period_ns * self.periods;
        let Some(target) = target_khz else { return self.sample_after(domain, None, whole_ns) };
        let course = course(domain.frequencies_khz, target, self.powersave_bias, self.period_ns);
        match course.then {
            Some((first_ns, khz, second_ns)) => {
                // Kernels round the first part to the nearest tick.
                let (tick_ns, all_ns) = (self.wheel.tick_ns(), self.wheel.ticks_ns(first_ns + second_ns));
                let first_ns = (first_ns + tick_ns / 2) / tick_ns * tick_ns;
                self.second = Some((khz, all_ns - first_ns));
                self.part(domain, course.khz, first_ns)
            }
            None => self.sample_after(domain, Some(course.khz), whole_ns),
        }
    }

    /// One of the two parts of a period under powersave_bias.
    fn part(&self, domain: &Domain<'_>, khz: u32, ns: u64) -> Decision {
        at(domain, Some(khz), self.wheel.after_ns(domain.now_ns, ns), self.wheel)
    }
}

/// Goes to a frequency, and wants the timer at a moment.
pub(super) fn at(domain: &Domain<'_>, khz: Option<u32>, at_ns: u64, wheel: Wheel) -> Decision {
    let timer = TimerRequest::At { at_ns, deferrable: true, tick_ns: wheel.tick_ns() };
    Decision { khz: khz.filter(|k| *k != domain.khz), timer }
}

impl Sampler {
    /// Starts a window.
    pub(super) fn start(&mut self, domain: &Domain<'_>, io_is_busy: bool) {
        self.at_ns = domain.now_ns;
        let core = |c| Core { worked_ns: worked_ns(c, io_is_busy), ..Core::default() };
        self.cores = domain.cores.iter().map(core).collect();
    }

    /// Ends the window and starts the next one; `None` for one of no length.
    ///
    /// With `bursts` (a period), a core that was idle for longer than two periods is given the load that it had
    /// before, once: mainline kernels do so since 3.16, because the timer waits while a core is idle, and work
    /// that comes in bursts would begin each of them slowly. How many periods such cores idled for is counted too
    /// (since 4.10).
    pub(super) fn window(&mut self, domain: &Domain<'_>, io_is_busy: bool, bursts: Option<u64>) -> Option<Window> {
        let wall_ns = domain.now_ns.checked_sub(self.at_ns).filter(|w| *w > 0)?;
        self.at_ns = domain.now_ns;
        self.cores.resize(domain.cores.len(), Core::default());
        let (mut highest, mut idle_periods) = (0, None);
        for (core, times) in self.cores.iter_mut().zip(domain.cores) {
            let worked = worked_ns(times, io_is_busy);
            let in_window = (worked - core.worked_ns).min(wall_ns);
            core.worked_ns = worked;
            let idle_ns = wall_ns - in_window;
            let idled_long = bursts.filter(|period| idle_ns > 2 * period);
            if let Some(period) = idled_long {
                idle_periods = Some(idle_periods.unwrap_or(u64::MAX).min(idle_ns / period));
            }
            let load = if idled_long.is_some() && core.last_load != 0 {
                std::mem::take(&mut core.last_load)
            } else {
                let load = 100 * in_window / wall_ns;
                core.recent_load = load.max(core.last_load);
                core.last_load = load;
                load
            };
            highest = highest.max(load);
        }
        Some(Window { load: highest, idle_periods })
    }

    /// The highest load of a core from that number on, each the higher one of its last two windows.
    pub(super) fn recent_load(&self, from: usize) -> u64 {
        self.cores.iter().skip(from).map(|c| c.recent_load).max().unwrap_or(0)
    }
}

fn worked_ns(core: &super::CoreTimes, io_is_busy: bool) -> u64 {
    core.busy_ns + if io_is_busy { core.iowait_ns } else { 0 }
}
