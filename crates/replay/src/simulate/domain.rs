//! A frequency domain: its governor, its frequency and the change that is under way.

use crate::governor::{CoreTimes, Decision, Domain, Governor, Moment, Others, TimerRequest};
use pocketstone_core::{Error, Result};

/// A change of frequency that is under way.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// From then on, cores stand still.
    still_ns: u64,
    /// It is in force then.
    at_ns: u64,
    /// To that operating point.
    point: usize,
}

/// The governor's timer.
#[derive(Debug, Clone, Copy)]
struct Timer {
    at_ns: u64,
    deferrable: bool,
    tick_ns: u64,
}

pub(super) struct Clock {
    pub(super) governor: Box<dyn Governor>,
    /// What the governor sees of each core.
    pub(super) times: Vec<CoreTimes>,
    /// The operating point in force.
    pub(super) point: usize,
    /// The one decided for.
    pub(super) wanted: usize,
    change: Option<Change>,
    timer: Option<Timer>,
    latency_ns: u64,
    stall_ns: u64,
}

impl Clock {
    pub(super) fn new(governor: Box<dyn Governor>, cores: usize, latency_ns: u64, stall_ns: u64) -> Self {
        let times = vec![CoreTimes::default(); cores];
        Clock { governor, times, point: 0, wanted: 0, change: None, timer: None, latency_ns, stall_ns }
    }

    /// Asks the governor. Whether another frequency is in force at once.
    pub(super) fn decide(
        &mut self,
        moment: Moment,
        now_ns: u64,
        frequencies_khz: &[u32],
        others: Others,
    ) -> Result<bool> {
        let khz = frequencies_khz[self.wanted];
        let domain = Domain { now_ns, khz, frequencies_khz, cores: &self.times, others };
        let Decision { khz, timer } = self.governor.decide(moment, &domain);
        match timer {
            TimerRequest::Keep => {}
            TimerRequest::Off => self.timer = None,
            TimerRequest::At { at_ns, deferrable, tick_ns } => {
                // A timer that asks for its own moment again would stop the clock.
                let first_ns = if moment == Moment::Timer { now_ns + 1 } else { now_ns };
                self.timer = Some(Timer { at_ns: at_ns.max(first_ns), deferrable, tick_ns: tick_ns.max(1) });
            }
        }
        let Some(khz) = khz else { return Ok(false) };
        self.wanted = frequencies_khz.binary_search(&khz).map_err(|_| {
            Error::bug(format!("a governor chose {khz} kHz, which is not in {frequencies_khz:?}"))
                .hint("report it, with the device's profile and the governor's tunables")
        })?;
        if moment == Moment::Start {
            self.point = self.wanted;
            return Ok(false);
        }
        Ok(self.begin(now_ns))
    }

    /// Begins a change, where one is wanted and none is under way. Whether it is in force at once.
    fn begin(&mut self, now_ns: u64) -> bool {
        if self.change.is_some() || self.wanted == self.point {
            return false;
        }
        let whole_ns = self.latency_ns.max(self.stall_ns);
        if whole_ns == 0 {
            self.point = self.wanted;
            return true;
        }
        let at_ns = now_ns + whole_ns;
        self.change = Some(Change { still_ns: at_ns - self.stall_ns, at_ns, point: self.wanted });
        false
    }

    /// Ends the change that is due. Whether another frequency is in force now.
    pub(super) fn finish(&mut self, now_ns: u64) -> bool {
        let Some(change) = self.change.filter(|c| c.at_ns <= now_ns) else { return false };
        (self.point, self.change) = (change.point, None);
        self.begin(now_ns);
        true
    }

    /// Whether its cores stand still.
    pub(super) fn still(&self, now_ns: u64) -> bool {
        self.change.is_some_and(|c| c.still_ns <= now_ns && now_ns < c.at_ns)
    }

    /// Whether the timer expires now; it is off then.
    pub(super) fn expires(&mut self, now_ns: u64) -> bool {
        let due = self.timer_ns(now_ns).is_some_and(|at_ns| at_ns <= now_ns);
        if due {
            self.timer = None;
        }
        due
    }

    /// When the timer expires, as things are.
    fn timer_ns(&self, now_ns: u64) -> Option<u64> {
        let timer = self.timer?;
        let waits = timer.deferrable && !self.times.iter().any(|c| c.busy);
        let late = timer.deferrable && now_ns > timer.at_ns;
        let at_ns = if late { now_ns.next_multiple_of(timer.tick_ns) } else { timer.at_ns.max(now_ns) };
        (!waits).then_some(at_ns)
    }

    /// The next moment at which something happens to it.
    pub(super) fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let change = self.change.map(|c| if c.still_ns > now_ns { c.still_ns } else { c.at_ns });
        [change, self.timer_ns(now_ns)].into_iter().flatten().min()
    }
}
