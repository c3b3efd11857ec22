//! The machine that threads run on: cores, clocks, and what happens next. The rules are in the module above.

use super::domain::Clock;
use super::meters::Meters;
use super::thread::{Next, Replaying, Work};
use crate::activity::Activity;
use crate::device::{Cluster, Device};
use crate::governor::{Governor, Moment, Others};
use crate::levers::{Levers, kind_index};
use crate::outcome::{FrequencyChange, Replayed};
use pocketstone_core::{Error, Result};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How long a thread has a core before it gives way to another one that is ready.
const SLICE_NS: u64 = 3_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CoreState {
    /// In an idle state.
    Idle(usize),
    /// On its way out of one.
    Waking {
        until_ns: u64,
        from_io: bool,
    },
    Busy,
}

struct Core {
    state: CoreState,
    /// Its domain, and which of that domain's cores it is.
    domain: usize,
    number: usize,
    current: Option<usize>,
    /// Threads that are ready.
    queue: VecDeque<usize>,
    /// Threads that are off the core, by the end of that.
    off: BinaryHeap<Reverse<(u64, usize)>>,
    /// How many of them wait for a device.
    io_waiting: u32,
    slice_end_ns: u64,
    tick_ns: Option<u64>,
}

pub(super) struct Machine<'a> {
    device: &'a Device,
    cluster: &'a Cluster,
    frequencies_khz: Vec<u32>,
    now_ns: u64,
    threads: Vec<Replaying<'a>>,
    /// Those with threads.
    cores: Vec<Core>,
    /// Number of the others.
    unused: u64,
    domains: Vec<Clock>,
    /// Requests to the storage by kind.
    requests: [u32; 3],
    /// Threads that the replay waits for.
    left: usize,
    meters: Meters,
    changes: Vec<FrequencyChange>,
    transitions: u64,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        activity: &'a Activity,
        device: &'a Device,
        levers: &Levers,
        build: &mut dyn FnMut(&Cluster) -> Result<Box<dyn Governor>>,
    ) -> Result<Self> {
        let cluster = levers.cluster_of(device)?;
        let online = levers.cores_of(cluster)? as usize;
        if cluster.idle.is_empty() {
            return Err(Error::user(format!("the cluster {} of {} has no idle state", cluster.name, device.name))
                .hint("add at least one `idle` state to the device's profile"));
        }
        let used = online.min(activity.threads.len());
        let core = |c: usize| Core {
            state: CoreState::Idle(0),
            domain: if cluster.clock_per_core { c } else { 0 },
            number: if cluster.clock_per_core { 0 } else { c },
            current: None,
            queue: VecDeque::new(),
            off: BinaryHeap::new(),
            io_waiting: 0,
            slice_end_ns: 0,
            tick_ns: None,
        };
        let (domains, each) = if cluster.clock_per_core { (used, 1) } else { (1, online) };
        let clock =
            |_| Ok(Clock::new(build(cluster)?, each, cluster.transition_latency_ns, cluster.transition_stall_ns));
        let threads: Vec<Replaying<'a>> =
            activity.threads.iter().map(|t| Replaying::new(t, levers.busy_waiting, levers.batch)).collect();
        Ok(Machine {
            device,
            cluster,
            frequencies_khz: cluster.points.iter().map(|p| p.khz).collect(),
            now_ns: 0,
            left: threads.iter().filter(|t| t.counts()).count(),
            threads,
            cores: (0..used).map(core).collect(),
            unused: (online - used) as u64,
            domains: (0..domains).map(clock).collect::<Result<_>>()?,
            requests: [0; 3],
            meters: Meters::new(cluster),
            changes: Vec::new(),
            transitions: 0,
        })
    }

    pub(super) fn run(mut self) -> Result<Replayed> {
        self.start()?;
        while self.left > 0 {
            self.happen()?;
            if self.left == 0 {
                break;
            }
            let next_ns = self.next_ns().ok_or_else(|| Error::bug("a replay makes no progress"))?;
            self.pass(next_ns - self.now_ns);
            self.now_ns = next_ns;
        }
        self.meters.core_idle_ns[self.cluster.idle.len() - 1] += self.unused * self.now_ns;
        Ok(Replayed {
            operations: self.threads.iter_mut().flat_map(|t| std::mem::take(&mut t.times)).collect(),
            run_ns: self.now_ns,
            busy_ns: self.meters.counted_busy_ns,
            residency: self.meters.residency(&self.frequencies_khz),
            transitions: self.transitions,
            energy: self.meters.energy(self.device, self.cluster, self.now_ns),
            frequencies: self.changes,
        })
    }

    fn start(&mut self) -> Result<()> {
        for domain in 0..self.domains.len() {
            self.decide(domain, Moment::Start)?;
            self.note_frequency(domain);
        }
        for thread in 0..self.threads.len() {
            let core = thread % self.cores.len();
            match self.threads[thread].first_sleep() {
                Some(until_ns) => self.cores[core].off.push(Reverse((until_ns, thread))),
                None => self.cores[core].queue.push_back(thread),
            }
        }
        for core in 0..self.cores.len() {
            if self.cores[core].queue.is_empty() {
                self.cores[core].state = CoreState::Idle(self.idle_state(core));
            } else {
                self.begin(core, false)?;
            }
        }
        Ok(())
    }

    /// Everything that is due now.
    fn happen(&mut self) -> Result<()> {
        let now_ns = self.now_ns;
        for domain in 0..self.domains.len() {
            if self.domains[domain].finish(now_ns) {
                self.transitions += 1;
                self.note_frequency(domain);
            }
        }
        for core in 0..self.cores.len() {
            if self.has_finished(core) {
                self.go_on(core)?;
            }
        }
        for core in 0..self.cores.len() {
            while let Some(Reverse((_, thread))) = self.cores[core].off.peek().copied().filter(|n| n.0.0 <= now_ns) {
                self.cores[core].off.pop();
                self.make_ready(core, thread)?;
            }
        }
        for core in 0..self.cores.len() {
            if let CoreState::Waking { until_ns, from_io } = self.cores[core].state {
                if until_ns <= now_ns {
                    self.begin(core, from_io)?;
                }
            }
        }
        for core in 0..self.cores.len() {
            let c = &mut self.cores[core];
            if c.state == CoreState::Busy && !c.queue.is_empty() && c.slice_end_ns <= now_ns {
                c.queue.extend(c.current.take());
                self.go_on(core)?;
            }
        }
        for domain in 0..self.domains.len() {
            if self.domains[domain].expires(now_ns) {
                self.decide(domain, Moment::Timer)?;
            }
        }
        for core in 0..self.cores.len() {
            let c = &self.cores[core];
            if c.state == CoreState::Busy && c.tick_ns.is_some_and(|at_ns| at_ns <= now_ns) {
                let (domain, number) = (c.domain, c.number);
                self.set_tick(core);
                self.decide(domain, Moment::Tick { core: number })?;
            }
        }
        Ok(())
    }

    /// The next moment at which anything happens.
    fn next_ns(&self) -> Option<u64> {
        let now_ns = self.now_ns;
        let mut next_ns = u64::MAX;
        for domain in &self.domains {
            next_ns = next_ns.min(domain.next_ns(now_ns).unwrap_or(u64::MAX));
        }
        for core in &self.cores {
            if let Some(Reverse((at_ns, _))) = core.off.peek() {
                next_ns = next_ns.min(*at_ns);
            }
            match core.state {
                CoreState::Idle(_) => {}
                CoreState::Waking { until_ns, .. } => next_ns = next_ns.min(until_ns),
                CoreState::Busy => {
                    next_ns = next_ns.min(core.tick_ns.unwrap_or(u64::MAX));
                    if !core.queue.is_empty() {
                        next_ns = next_ns.min(core.slice_end_ns.max(now_ns));
                    }
                    let domain = &self.domains[core.domain];
                    if !domain.still(now_ns) {
                        let khz = u64::from(self.frequencies_khz[domain.point]);
                        next_ns = next_ns.min(match core.current.map(|t| self.threads[t].work) {
                            Some(Work::Cycles(left)) => now_ns + left.div_ceil(khz),
                            Some(Work::Memory(left_ns)) => now_ns + left_ns,
                            Some(Work::Clock(until_ns)) => until_ns.max(now_ns),
                            Some(Work::Unknown) | None => now_ns,
                        });
                    }
                }
            }
        }
        (next_ns < u64::MAX).then_some(next_ns)
    }

    /// Time passes.
    fn pass(&mut self, ns: u64) {
        let meters = &mut self.meters;
        let (mut running, mut awake) = (false, false);
        let several = self.cluster.idle.len() > 1;
        for core in &self.cores {
            let domain = &mut self.domains[core.domain];
            match core.state {
                CoreState::Busy => {
                    (running, awake) = (true, true);
                    meters.core_busy_ns[domain.point] += ns;
                    domain.times[core.number].busy_ns += ns;
                    let Some(thread) = core.current.map(|t| &mut self.threads[t]) else { continue };
                    if !thread.background {
                        meters.counted_busy_ns += ns;
                    }
                    if domain.still(self.now_ns) {
                        continue;
                    }
                    match &mut thread.work {
                        Work::Cycles(left) => {
                            let done = u64::from(self.frequencies_khz[domain.point]).saturating_mul(ns);
                            *left = left.saturating_sub(done);
                        }
                        Work::Memory(left_ns) => *left_ns -= ns,
                        Work::Clock(_) | Work::Unknown => {}
                    }
                }
                CoreState::Waking { .. } => {
                    awake = true;
                    meters.core_waking_ns += ns;
                }
                CoreState::Idle(state) => {
                    awake |= state == 0 && several;
                    meters.core_idle_ns[state] += ns;
                    if core.io_waiting > 0 {
                        domain.times[core.number].iowait_ns += ns;
                    }
                }
            }
        }
        for domain in &self.domains {
            let (total_ns, busy_ns) = &mut meters.residency_ns[domain.point];
            *total_ns += ns;
            if domain.times.iter().any(|c| c.busy) {
                *busy_ns += ns;
            }
        }
        if running {
            meters.running_ns += ns;
        }
        if awake {
            meters.awake_ns += ns;
        }
        let asked = (0..3).filter(|kind| self.requests[*kind] > 0).map(|kind| 1 << kind).sum::<usize>();
        meters.storage_ns[asked] += ns;
    }

    /// Whether what runs on a core is done with it.
    fn has_finished(&self, core: usize) -> bool {
        let core = &self.cores[core];
        let Some(thread) = core.current.filter(|_| core.state == CoreState::Busy) else { return false };
        let done = match self.threads[thread].work {
            Work::Cycles(left) => left == 0,
            Work::Memory(left_ns) => left_ns == 0,
            Work::Clock(until_ns) => until_ns <= self.now_ns,
            Work::Unknown => true,
        };
        done && !self.domains[core.domain].still(self.now_ns)
    }

    /// A busy core finds something to run, or becomes idle. What its current thread did is done.
    fn go_on(&mut self, core: usize) -> Result<()> {
        if let Some(thread) = self.cores[core].current {
            self.threads[thread].work = Work::Unknown;
        }
        while self.left > 0 {
            let c = &mut self.cores[core];
            let Some(thread) = c.current else {
                c.current = c.queue.pop_front();
                c.slice_end_ns = self.now_ns + SLICE_NS;
                match c.current {
                    None => return self.become_idle(core),
                    // It lost its core earlier, in the middle of something.
                    Some(next) if self.threads[next].work != Work::Unknown => return Ok(()),
                    Some(_) => continue,
                }
            };
            match self.threads[thread].next(self.now_ns) {
                Next::Run(work) => {
                    self.threads[thread].work = work;
                    return Ok(());
                }
                Next::Hint(hint) => {
                    let (domain, number) = (c.domain, c.number);
                    if !self.threads[thread].background {
                        self.decide(domain, Moment::Hint { core: number, hint })?;
                    }
                }
                Next::Off { until_ns, io } => {
                    c.current = None;
                    c.off.push(Reverse((until_ns, thread)));
                    if let Some(kind) = io {
                        c.io_waiting += 1;
                        self.requests[kind_index(kind)] += 1;
                    }
                }
                Next::Ended => {
                    c.current = None;
                    if self.threads[thread].counts() {
                        self.left -= 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn become_idle(&mut self, core: usize) -> Result<()> {
        let state = CoreState::Idle(self.idle_state(core));
        let c = &mut self.cores[core];
        c.state = state;
        let (domain, number) = (c.domain, c.number);
        self.domains[domain].times[number].busy = false;
        self.decide(domain, Moment::IdleEntry { core: number })
    }

    /// The deepest state that is worth it until the next thread wakes.
    fn idle_state(&self, core: usize) -> usize {
        let idle_ns = self.cores[core].off.peek().map_or(u64::MAX, |next| next.0.0 - self.now_ns);
        self.cluster.idle.iter().rposition(|s| s.least_ns <= idle_ns).unwrap_or(0)
    }

    fn make_ready(&mut self, core: usize, thread: usize) -> Result<()> {
        let io = self.threads[thread].io;
        let c = &mut self.cores[core];
        c.queue.push_back(thread);
        if let Some(kind) = io {
            c.io_waiting -= 1;
            self.requests[kind_index(kind)] -= 1;
        }
        match &mut c.state {
            CoreState::Idle(state) => {
                let until_ns = self.now_ns + self.cluster.idle[*state].exit_ns;
                c.state = CoreState::Waking { until_ns, from_io: io.is_some() };
                Ok(())
            }
            CoreState::Waking { from_io, .. } => {
                *from_io |= io.is_some();
                Ok(())
            }
            CoreState::Busy => {
                let (domain, number) = (c.domain, c.number);
                self.decide(domain, Moment::Wakeup { core: number, from_io: io.is_some() })
            }
        }
    }

    /// A core begins to run what is ready.
    fn begin(&mut self, core: usize, from_io: bool) -> Result<()> {
        let c = &mut self.cores[core];
        c.state = CoreState::Busy;
        let (domain, number) = (c.domain, c.number);
        self.domains[domain].times[number].busy = true;
        self.set_tick(core);
        self.decide(domain, Moment::IdleExit { core: number, from_io })?;
        self.go_on(core)
    }

    fn set_tick(&mut self, core: usize) {
        let period_ns = self.domains[self.cores[core].domain].governor.tick_ns().filter(|ns| *ns > 0);
        self.cores[core].tick_ns = period_ns.map(|ns| (self.now_ns / ns + 1) * ns);
    }

    fn decide(&mut self, domain: usize, moment: Moment) -> Result<()> {
        let others = self.others(domain);
        if self.domains[domain].decide(moment, self.now_ns, &self.frequencies_khz, others)? {
            self.transitions += 1;
            self.note_frequency(domain);
        }
        Ok(())
    }

    /// What the governor of a domain can know of the cores that are not its own.
    fn others(&self, domain: usize) -> Others {
        let all = self.cores.len() as u64 + self.unused;
        let cores = all.saturating_sub(self.domains[domain].times.len() as u64) as u32;
        let rest = self.domains.iter().enumerate().filter(|(n, _)| *n != domain).map(|(_, d)| d);
        rest.fold(Others { cores, ..Others::default() }, |others, d| Others {
            load: others.load.max(d.governor.load()),
            khz: others.khz.max(self.frequencies_khz[d.wanted]),
            ..others
        })
    }

    fn note_frequency(&mut self, domain: usize) {
        let khz = self.frequencies_khz[self.domains[domain].point];
        self.changes.push(FrequencyChange { time_ns: self.now_ns, domain: domain as u16, khz });
    }
}
