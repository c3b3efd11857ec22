//! What a phone's trace says by itself: the runs between its marks.

use super::{BlockRequest, CallPairs, FinishedCall, RequestPairs, add};
use crate::ftrace::{Sink, Twin};
use pocketstone_core::Result;
use pocketstone_core::events::{Event, EventKind, EventLog, SystemCall, Window, no_run, too_many_runs};
use pocketstone_core::events_threads::{ThreadClock, ThreadState, ThreadTime};
use pocketstone_core::run_marks::RunMarks;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Frequencies of a run that are told apart: the largest phones' processors have some 60.
const MOST_FREQUENCIES: usize = 256;

/// Changes of frequency in one span on a core, which are kept until it ends. Where there are more, the times at the
/// last ones are not told apart.
const MOST_CHANGES: usize = 1 << 14;

/// The longest word that is taken of what the app writes of a run, in bytes.
const LONGEST_WORD_BYTES: usize = 128;

/// A run on a phone, between marks NAME_START and NAME_END.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhoneSummary {
    /// The name in its marks: PocketData's app has SQL for SQLite and BDB for Berkeley DB.
    pub name: String,
    /// What the app wrote of the run before it.
    pub parameters: Parameters,
    /// The thread that wrote the first mark.
    pub app: u32,
    /// When it wrote the first one.
    pub start_ns: u64,
    /// From one mark to the other.
    pub runtime_ns: u64,
    /// Time of that thread on a core.
    pub on_core_ns: u64,
    /// Its spans on a core.
    pub bursts: Bursts,
    /// That time by the frequency of the core, in kHz, as far as the trace has it.
    pub on_core_khz_ns: BTreeMap<u32, u64>,
    /// Calls of that thread that read.
    pub reads: u64,
    /// Bytes they returned.
    pub read_bytes: u64,
    /// Time in them.
    pub read_ns: u64,
    /// Calls that write.
    pub writes: u64,
    /// Bytes they wrote.
    pub written_bytes: u64,
    /// Time in them.
    pub write_ns: u64,
    /// Calls that wait until written data is durable.
    pub syncs: u64,
    /// Time in them.
    pub sync_ns: u64,
    /// Block requests of the machine that ended in that time, reading.
    pub block_reads: u64,
    /// Bytes they read.
    pub block_read_bytes: u64,
    /// Requests that wrote or flushed.
    pub block_writes: u64,
    /// Bytes they wrote.
    pub block_written_bytes: u64,
    /// Mean time from issue to completion, of requests that have both in that time.
    pub block_mean_ns: Option<u64>,
    /// Events were lost within it: its counts and times are too low.
    #[serde(default)]
    pub lost_events: bool,
}

impl PhoneSummary {
    fn new(name: &str, parameters: Parameters, mark: &Event) -> PhoneSummary {
        PhoneSummary {
            name: name.to_owned(),
            parameters,
            app: mark.pid,
            start_ns: mark.time_ns,
            runtime_ns: 0,
            on_core_ns: 0,
            bursts: Bursts::default(),
            on_core_khz_ns: BTreeMap::new(),
            reads: 0,
            read_bytes: 0,
            read_ns: 0,
            writes: 0,
            written_bytes: 0,
            write_ns: 0,
            syncs: 0,
            sync_ns: 0,
            block_reads: 0,
            block_read_bytes: 0,
            block_writes: 0,
            block_written_bytes: 0,
            block_mean_ns: None,
            lost_events: false,
        }
    }

    /// Part of the run that the app was on a core, from 0 to 1; `None` of a run that took no time.
    pub fn on_core_share(&self) -> Option<f64> {
        (self.runtime_ns > 0).then(|| self.on_core_ns as f64 / self.runtime_ns as f64)
    }

    /// Mean frequency of the app's cores while it was on them, in kHz; `None` if the trace does not have it.
    pub fn mean_khz(&self) -> Option<f64> {
        let ns: f64 = self.on_core_khz_ns.values().map(|ns| *ns as f64).sum();
        (ns > 0.0).then(|| self.on_core_khz_ns.iter().map(|(khz, ns)| f64::from(*khz) * *ns as f64).sum::<f64>() / ns)
    }

    fn window(&self) -> Window {
        Window { start_ns: self.start_ns, end_ns: u64::MAX }
    }

    fn call(&mut self, done: &FinishedCall) {
        match done.call {
            SystemCall::Read => done.count(&mut self.reads, Some(&mut self.read_bytes), &mut self.read_ns),
            SystemCall::Write => done.count(&mut self.writes, Some(&mut self.written_bytes), &mut self.write_ns),
            SystemCall::Sync => done.count(&mut self.syncs, None, &mut self.sync_ns),
            _ => {}
        }
    }

    fn request(&mut self, request: &BlockRequest) {
        let (count, bytes) = match request.write {
            true => (&mut self.block_writes, &mut self.block_written_bytes),
            false => (&mut self.block_reads, &mut self.block_read_bytes),
        };
        *count += 1;
        add(bytes, request.bytes);
    }
}

/// Spans of a thread on a core, from switch to switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// How many.
    pub count: u64,
    /// Mean length; `None` without any.
    pub mean_ns: Option<u64>,
    /// Longest.
    pub max_ns: Option<u64>,
}

/// What PocketData's later app writes of a run before it:
/// `{"EVENT":"Parameters", "Database":"SQL", "Workload":"A", "Governor":"interactive", "Delay":"lognormal"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all(deserialize = "PascalCase"))]
pub struct Parameters {
    /// The engine.
    pub database: Option<String>,
    /// The workload.
    pub workload: Option<String>,
    /// The governor.
    pub governor: Option<String>,
    /// The delay between operations.
    pub delay: Option<String>,
}

impl Parameters {
    /// Those of a mark that has them.
    fn of(text: &str) -> Option<Parameters> {
        if !text.contains("\"Parameters\"") {
            return None;
        }
        let mut said: Parameters = serde_json::from_str(text).ok()?;
        for word in [&mut said.database, &mut said.workload, &mut said.governor, &mut said.delay] {
            word.take_if(|word| word.len() > LONGEST_WORD_BYTES);
        }
        Some(said)
    }
}

/// Sums up the runs of a trace while it is read, in memory that does not grow with it.
#[derive(Debug, Default)]
pub struct PhoneRuns {
    runs: RunMarks<OpenRun, PhoneSummary>,
    parameters: Parameters,
    /// Frequency of each core, as far as it is known.
    khz: BTreeMap<u16, u32>,
    /// Whether sched_waking was seen: sched_wakeup says nothing more.
    waking: bool,
    /// Until when events were lost.
    lost_until_ns: u64,
}

impl PhoneRuns {
    /// The runs, in the order of their ends.
    ///
    /// # Errors
    /// `ErrorKind::User` if there is none: the trace lacks a mark, or they are in the wrong order; or if there are more
    /// than are told of.
    pub fn end(self) -> Result<Vec<PhoneSummary>> {
        if self.runs.beyond() > 0 {
            return Err(too_many_runs(self.runs.beyond()));
        }
        let (runs, left) = self.runs.end();
        match runs.is_empty() {
            true => Err(no_run(left.as_deref())),
            false => Ok(runs),
        }
    }
}

impl Sink for PhoneRuns {
    fn event(&mut self, event: Event, twin: Twin) {
        match event.kind {
            EventKind::Frequency { cpu, khz } => drop(self.khz.insert(cpu, khz)),
            EventKind::Wake { .. } if twin == Twin::None => self.waking = true,
            EventKind::Wake { .. } if self.waking => return,
            _ => {}
        }
        self.runs.open().for_each(|run| run.event(&event, twin, &self.khz));
    }

    fn mark(&mut self, event: Event, text: &str) {
        if let Some(parameters) = Parameters::of(text) {
            self.parameters = parameters;
        }
        let mut within = false;
        for run in self.runs.open() {
            within = true;
            run.event(&event, Twin::None, &self.khz);
        }
        let lost_events = event.time_ns < self.lost_until_ns;
        let start = |name: &str| {
            let summary = PhoneSummary::new(name, self.parameters.clone(), &event);
            OpenRun::new(PhoneSummary { lost_events, ..summary }, &event, &self.khz)
        };
        self.runs.mark(text, start, |run| run.end(event.time_ns));
        if within && self.runs.open().next().is_none() {
            // They were of the run that has ended.
            self.parameters = Parameters::default();
        }
    }

    fn lost(&mut self, _from_ns: u64, until_ns: u64) {
        self.lost_until_ns = self.lost_until_ns.max(until_ns);
        self.runs.open().for_each(|run| run.summary.lost_events = true);
    }
}

/// A run whose end is still to come.
#[derive(Debug)]
struct OpenRun {
    summary: PhoneSummary,
    clock: ThreadClock,
    calls: CallPairs,
    requests: RequestPairs,
    /// Requests that were issued in the run, and their time.
    timed: (u64, u64),
    core: u16,
    speed: Speed,
}

impl OpenRun {
    fn new(summary: PhoneSummary, mark: &Event, khz: &BTreeMap<u16, u32>) -> OpenRun {
        let mut clock = ThreadClock::new(mark.time_ns, &BTreeSet::from([mark.pid]));
        // Who writes a mark is on a core.
        clock.event(mark, |_| {});
        let speed = Speed { khz: khz.get(&mark.cpu).copied(), changes: Vec::new() };
        let (calls, requests) = (CallPairs::default(), RequestPairs::default());
        OpenRun { summary, clock, calls, requests, timed: (0, 0), core: mark.cpu, speed }
    }

    fn event(&mut self, event: &Event, twin: Twin, khz: &BTreeMap<u16, u32>) {
        let OpenRun { summary, clock, speed, .. } = self;
        let app = summary.app;
        clock.event(event, |time| spent(summary, speed, &time));
        let running = clock.state(app) == Some(ThreadState::Running);
        match event.kind {
            EventKind::Switch { next, .. } if next == app => self.on(event.cpu, khz),
            EventKind::Switch { .. } | EventKind::Wake { .. } => {}
            EventKind::Frequency { cpu, khz } if cpu == self.core => self.speed.change(event.time_ns, khz, running),
            // A core that it was not seen to get.
            _ if event.pid == app && event.cpu != self.core => self.on(event.cpu, khz),
            _ => {}
        }
        if event.pid == app {
            let done = self.calls.event(event).filter(|done| self.summary.window().holds(done.start_ns));
            done.iter().for_each(|done| self.summary.call(done));
        }
        if let Some(request) = self.requests.event(event, twin) {
            self.summary.request(&request);
            if let Some(ns) = request.ns() {
                self.timed = (self.timed.0 + 1, self.timed.1.saturating_add(ns));
            }
        }
    }

    fn on(&mut self, core: u16, khz: &BTreeMap<u16, u32>) {
        self.core = core;
        self.speed = Speed { khz: khz.get(&core).copied(), changes: Vec::new() };
    }

    /// `None` if it ends before it begins.
    fn end(self, end_ns: u64) -> Option<PhoneSummary> {
        let OpenRun { mut summary, clock, mut speed, timed, .. } = self;
        summary.runtime_ns = end_ns.checked_sub(summary.start_ns)?;
        clock.end(end_ns, |time| spent(&mut summary, &mut speed, &time));
        summary.bursts.mean_ns = summary.on_core_ns.checked_div(summary.bursts.count);
        summary.block_mean_ns = timed.1.checked_div(timed.0);
        Some(summary)
    }
}

/// Adds a span of the app.
fn spent(summary: &mut PhoneSummary, speed: &mut Speed, time: &ThreadTime) {
    if time.state == ThreadState::Running {
        let ns = time.end_ns - time.start_ns;
        add(&mut summary.on_core_ns, ns);
        summary.bursts.count += 1;
        summary.bursts.max_ns = summary.bursts.max_ns.max(Some(ns));
        let times = &mut summary.on_core_khz_ns;
        speed.split(time, |khz, ns| {
            if times.len() < MOST_FREQUENCIES || times.contains_key(&khz) {
                add(times.entry(khz).or_default(), ns);
            }
        });
    }
    speed.settle();
}

/// The frequency of the core that a thread is on: at the start of its span, and what it became since.
#[derive(Debug)]
struct Speed {
    khz: Option<u32>,
    changes: Vec<(u64, u32)>,
}

impl Speed {
    fn change(&mut self, at_ns: u64, khz: u32, running: bool) {
        let is_full = self.changes.len() >= MOST_CHANGES;
        match self.changes.last_mut() {
            Some((_, last)) if is_full => *last = khz,
            _ => self.changes.push((at_ns, khz)),
        }
        if !running {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if let Some((_, khz)) = self.changes.pop() {
            self.khz = Some(khz);
            self.changes.clear();
        }
    }

    fn split(&self, time: &ThreadTime, mut each: impl FnMut(u32, u64)) {
        let (mut khz, mut from_ns) = (self.khz, time.start_ns);
        let end = (time.end_ns, 0);
        for (at_ns, next) in self.changes.iter().chain([&end]) {
            let to_ns = (*at_ns).clamp(from_ns, time.end_ns);
            if let Some(khz) = khz.filter(|_| from_ns < to_ns) {
                each(khz, to_ns - from_ns);
            }
            (khz, from_ns) = (Some(*next), to_ns);
        }
    }
}

/// Sums up the longest run of a trace with marks.
///
/// # Errors
/// As [`PhoneRuns::end`].
pub fn phone_summary(log: &EventLog) -> Result<PhoneSummary> {
    let mut runs = PhoneRuns::default();
    for event in &log.events {
        match event.kind {
            EventKind::Mark { text } => {
                runs.mark(*event, log.marks.get(text as usize).map_or("", String::as_str));
            }
            _ => runs.event(*event, Twin::None),
        }
    }
    let runs = runs.end()?;
    longest(&runs).cloned().ok_or_else(|| no_run(None))
}

/// The longest of some runs, as [`EventLog::phone_run`] chooses it; `None` without any.
pub fn longest(runs: &[PhoneSummary]) -> Option<&PhoneSummary> {
    runs.iter().rev().max_by_key(|run| run.runtime_ns)
}
