//! A run as a Perfetto trace: one time line from the queries down to the flash, to be opened in Perfetto's viewer.
//!
//! What goes where is in docs/perfetto.md. The format is a protobuf message of packets (`perfetto_trace.proto`);
//! scheduling, frequencies, idle states and block requests are ftrace events as a kernel records them, everything
//! else is slices, instants and counters on tracks.

mod tracks;

use pocketstone_core::error::Context;
use pocketstone_core::events::{Event, EventKind, EventLog};
use pocketstone_core::log::FlashLog;
use pocketstone_core::{Error, Result};
use pocketstone_probe::perfetto::messages::*;
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// Sequence of the packets with tracks; those with ftrace events have one of their own.
const TRACKS: u32 = 1;
const FTRACE: u32 = 2;
/// Events that go into packets together, one for each processor.
const DRAINED: usize = 4096;
/// Idle state that stands for "left the idle state".
const NOT_IDLE: u32 = u32::MAX;

/// A run to be written. All times are `CLOCK_MONOTONIC` in ns.
#[derive(Debug, Clone)]
pub struct PerfettoRun<'a> {
    /// Start of the run; what is known about its beginning is dated so.
    pub start_ns: u64,
    /// End of the run; a request whose end was not seen lasts until then.
    pub end_ns: u64,
    /// Kernel release, such as `6.12.41`: states of threads are read by it.
    pub kernel: Option<&'a str>,
    /// The process that ran the queries.
    pub process: Option<PerfettoProcess<'a>>,
    /// The queries, by ascending start.
    pub queries: &'a [PerfettoQuery<'a>],
    /// What the kernel did.
    pub events: &'a EventLog,
    /// Flash operations, where they were counted.
    pub flash: Option<&'a FlashLog>,
    /// Frequency of processors in kHz as it was at the start, for those where that is known.
    pub frequencies: &'a [(u16, u32)],
}

/// A process and its threads.
#[derive(Debug, Clone, Copy)]
pub struct PerfettoProcess<'a> {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: &'a str,
    /// Numbers of its threads beside the first, whose number is the process's.
    pub threads: &'a [u32],
}

/// A query.
#[derive(Debug, Clone, Copy)]
pub struct PerfettoQuery<'a> {
    /// Its start.
    pub start_ns: u64,
    /// When it returned.
    pub end_ns: u64,
    /// The thread that executed it; `None` puts it on a track of its own, beside the threads.
    pub thread: Option<u32>,
    /// Name of its slice, such as `SELECT` or `read`.
    pub name: &'a str,
    /// Its statement; may be empty.
    pub sql: &'a str,
}

/// Writes a run as a Perfetto trace.
///
/// Events of `run.events` are expected in order of time; slices of one thread are nested, and where clocks of
/// different resolution make a call overlap the end of a query, the call is cut to lie on one side.
///
/// # Errors
/// `ErrorKind::User` if `out` cannot be written to.
pub fn write(out: &mut impl Write, run: &PerfettoRun<'_>) -> Result<()> {
    let mut writer = Writer { out, buffer: Vec::with_capacity(1 << 16) };
    let names: HashMap<u32, &str> = run.events.tasks.iter().map(|(pid, name)| (*pid, name.as_str())).collect();
    preamble(&mut writer, run)?;
    tracks::write(&mut writer, run, &names)?;
    ftrace(&mut writer, run, &names)?;
    writer.flush()
}

struct Writer<'a, W> {
    out: &'a mut W,
    buffer: Vec<u8>,
}

impl<W: Write> Writer<'_, W> {
    fn packet(&mut self, packet: &TracePacket) -> Result<()> {
        self.buffer.push(PACKET_TAG);
        // A vector grows: nothing else can go wrong here.
        let encoded = packet.encode_length_delimited(&mut self.buffer);
        encoded.map_err(|e| Error::bug("cannot encode a packet of the Perfetto trace").because(e))?;
        if self.buffer.len() >= 1 << 16 { self.flush() } else { Ok(()) }
    }

    fn event(&mut self, time_ns: u64, event: TrackEvent) -> Result<()> {
        self.packet(&TracePacket {
            timestamp: Some(time_ns),
            track_event: Some(event),
            sequence_flags: Some(NEEDS_STATE),
            ..on_tracks()
        })
    }

    fn flush(&mut self) -> Result<()> {
        self.out.write_all(&self.buffer).user(|| "cannot write the Perfetto trace".into())?;
        self.buffer.clear();
        Ok(())
    }
}

fn on_tracks() -> TracePacket {
    TracePacket { trusted_packet_sequence_id: Some(TRACKS), ..TracePacket::default() }
}

/// Clocks and the kernel.
///
/// Perfetto reads ftrace events as `CLOCK_BOOTTIME` and has no field that says otherwise. The snapshot sets it
/// equal to `CLOCK_MONOTONIC`, from which it differs by the time a machine was suspended, and a run is not.
/// The times shown are `CLOCK_MONOTONIC` then, without any shift between the two kinds of packet.
fn preamble(writer: &mut Writer<'_, impl Write>, run: &PerfettoRun<'_>) -> Result<()> {
    let clock = |id| Clock { clock_id: Some(id), timestamp: Some(run.start_ns) };
    writer.packet(&TracePacket {
        clock_snapshot: Some(ClockSnapshot {
            clocks: [CLOCK_MONOTONIC, CLOCK_BOOTTIME].map(clock).into(),
            primary_trace_clock: Some(CLOCK_MONOTONIC),
        }),
        trace_packet_defaults: Some(TracePacketDefaults { timestamp_clock_id: Some(CLOCK_MONOTONIC) }),
        sequence_flags: Some(STATE_CLEARED),
        ..on_tracks()
    })?;
    let Some(release) = run.kernel else { return Ok(()) };
    let utsname = Utsname { sysname: Some("Linux".into()), release: Some(release.into()) };
    writer.packet(&TracePacket {
        system_info: Some(SystemInfo { utsname: Some(utsname), page_size: None }),
        ..on_tracks()
    })
}

/// The events that Perfetto knows from kernels, by processor. As in a kernel's own trace, no bundle is behind another
/// one whose events are all later: who reads them need not hold them all.
fn ftrace(writer: &mut Writer<'_, impl Write>, run: &PerfettoRun<'_>, names: &HashMap<u32, &str>) -> Result<()> {
    let mut drained = Drained::default();
    for &(cpu, khz) in run.frequencies {
        let state = CpuState { state: Some(khz), cpu_id: Some(u32::from(cpu)) };
        drained.put(writer, cpu, kernel_event(run.start_ns, 0, Ftrace::CpuFrequency(state)))?;
    }
    for event in &run.events.events {
        if let Some(kind) = kernel_kind(event, run.events, names) {
            let pid = match event.kind {
                EventKind::Switch { prev, .. } => prev,
                _ => event.pid,
            };
            drained.put(writer, event.cpu, kernel_event(event.time_ns, pid, kind))?;
        }
    }
    drained.write(writer)
}

/// Events that are written together, by processor.
#[derive(Default)]
struct Drained {
    bundles: BTreeMap<u16, Vec<FtraceEvent>>,
    events: usize,
}

impl Drained {
    fn put(&mut self, writer: &mut Writer<'_, impl Write>, cpu: u16, event: FtraceEvent) -> Result<()> {
        self.bundles.entry(cpu).or_default().push(event);
        self.events += 1;
        if self.events >= DRAINED { self.write(writer) } else { Ok(()) }
    }

    fn write(&mut self, writer: &mut Writer<'_, impl Write>) -> Result<()> {
        self.events = 0;
        std::mem::take(&mut self.bundles).into_iter().try_for_each(|(cpu, events)| write_bundle(writer, cpu, events))
    }
}

fn write_bundle(writer: &mut Writer<'_, impl Write>, cpu: u16, event: Vec<FtraceEvent>) -> Result<()> {
    writer.packet(&TracePacket {
        ftrace_events: Some(FtraceEventBundle { cpu: Some(u32::from(cpu)), event }),
        trusted_packet_sequence_id: Some(FTRACE),
        ..TracePacket::default()
    })
}

fn kernel_event(time_ns: u64, pid: u32, event: Ftrace) -> FtraceEvent {
    FtraceEvent { timestamp: Some(time_ns), pid: Some(pid), event: Some(event) }
}

fn kernel_kind(event: &Event, log: &EventLog, names: &HashMap<u32, &str>) -> Option<Ftrace> {
    let name = |pid: u32| match names.get(&pid) {
        Some(name) => Some((*name).as_bytes().to_owned()),
        None => (pid == 0).then(|| b"swapper".to_vec()),
    };
    let rwbs = |write: bool| Some(if write { "W" } else { "R" }.to_owned());
    Some(match event.kind {
        EventKind::Switch { prev, state, next } => Ftrace::SchedSwitch(SchedSwitch {
            prev_comm: name(prev),
            prev_pid: Some(prev as i32),
            prev_state: state_bits(state),
            next_comm: name(next),
            next_pid: Some(next as i32),
        }),
        EventKind::Wake { pid } => Ftrace::SchedWaking(SchedWaking { comm: name(pid), pid: Some(pid as i32) }),
        EventKind::Frequency { cpu, khz } => {
            Ftrace::CpuFrequency(CpuState { state: Some(khz), cpu_id: Some(u32::from(cpu)) })
        }
        EventKind::Idle { cpu, state } => {
            Ftrace::CpuIdle(CpuState { state: Some(state.unwrap_or(NOT_IDLE)), cpu_id: Some(u32::from(cpu)) })
        }
        EventKind::BlockIssue { device, write, sector, sectors } => Ftrace::BlockRqIssue(BlockRequest {
            dev: Some(self::device(device)),
            sector: Some(sector),
            nr_sector: Some(sectors),
            rwbs: rwbs(write),
        }),
        EventKind::BlockComplete { device, write, sector, sectors } => Ftrace::BlockRqComplete(BlockRequest {
            dev: Some(self::device(device)),
            sector: Some(sector),
            nr_sector: Some(sectors),
            rwbs: rwbs(write),
        }),
        EventKind::Mark { text } => {
            Ftrace::Print(Print { buf: Some(log.marks.get(text as usize)?.clone().into_bytes()) })
        }
        EventKind::Enter { .. } | EventKind::Exit { .. } | EventKind::CacheMiss { .. } => return None,
    })
}

/// A thread's state as `sched_switch` has it since Linux 4.14, by its letter; an unknown one is left out.
fn state_bits(letter: u8) -> Option<i64> {
    let states =
        [(b'R', 0), (b'S', 1), (b'D', 2), (b'T', 4), (b't', 8), (b'X', 16), (b'Z', 32), (b'P', 64), (b'I', 128)];
    states.iter().find(|s| s.0 == letter).map(|s| s.1)
}

#[cfg(test)]
mod tests;
