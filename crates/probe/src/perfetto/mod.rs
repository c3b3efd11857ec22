//! Perfetto's binary traces as an event log: `ftrace_events` of a phone's `traced`, and of what this project exports.
//!
//! A trace is a protobuf message of any length, which is walked through packet by packet: at most one of them is held,
//! and the events that a drained buffer may still be before. docs/tracing.md lists what is read.

mod bundle;
pub mod messages;
mod names;
mod order;
mod rails;
mod started;
mod wire;

pub use rails::{Rail, rails};
pub use started::{has_events, has_rails};

use crate::ftrace::{Clocks, Context, Files, Form, Reading, Sink, Threads, collect};
use flate2::bufread::ZlibDecoder;
use messages::{CLOCK_BOOTTIME, CLOCK_MONOTONIC, ClockSnapshot, SystemInfo, TrackDescriptor, TreeThread};
use order::Ordered;
use pocketstone_core::{Error, Result};
use prost::Message;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use wire::{Coming, Fields, Stream, Value, field};

/// The most bytes of a packet's content that are held: those of `traced` have at most some 100,000, as it drains a
/// buffer of a processor by parts.
const MOST_CONTENT_BYTES: u64 = 1 << 23;

/// The most bytes that a compressed packet unpacks to: those of `traced` have at most some 500,000.
const MOST_UNPACKED_BYTES: u64 = 1 << 26;

/// Sequences of packets that are told apart; `traced` has one for each writer.
const MOST_SEQUENCES: usize = 1 << 12;

/// How much of a file's start tells Perfetto's form from text.
pub const START_BYTES: usize = 64;

/// Whether a file that begins with these bytes, of which there are [`START_BYTES`] unless it is shorter, is a Perfetto
/// trace: the key of its first packet is a line feed as text, and behind it come bytes that no text has.
pub fn is_one(start: &[u8]) -> bool {
    let is_text = |byte: &u8| *byte >= b' ' || byte.is_ascii_whitespace();
    start.first() == Some(&PACKET_KEY) && !start[1..].iter().all(is_text)
}

/// `Trace.packet`, with a length.
const PACKET_KEY: u8 = (field::TRACE_PACKET as u8) << 3 | 2;

/// Reads a trace into a log. Of `context`, the numbers of files are used.
///
/// # Errors
/// As [`read_from`]; `ErrorKind::Board` if events were lost; `ErrorKind::User` if there are too many to be kept.
pub fn read(trace: impl BufRead, context: &Context) -> Result<Reading> {
    collect(|sink| read_from(trace, context, sink))
}

/// Reads a trace of any length, whose events go to `sink` in the order of their times: what comes back holds none, and
/// no marks.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be read, ends within a packet, or has one that is not understood. The message has
/// the byte at which that packet begins.
pub fn read_from(trace: impl BufRead, context: &Context, sink: &mut dyn Sink) -> Result<Reading> {
    let mut reader = Reader {
        ordered: Ordered::new(sink),
        reading: Reading::of(Form::Perfetto),
        threads: Threads::default(),
        files: Files::new(&context.open, &context.numbers, context.folder.as_deref()),
        kernel: (u32::MAX, 0),
        page_bytes: 4096,
        ends: BTreeMap::new(),
        sequences: BTreeSet::new(),
        last: None,
    };
    reader.packets(&mut Stream::new(trace), &|byte| format!("at byte {byte}"), true)?;
    Ok(reader.end())
}

struct Reader<'a> {
    ordered: Ordered<'a>,
    reading: Reading,
    threads: Threads,
    files: Files,
    /// Version of the kernel: a thread's state is read by it.
    kernel: (u32, u32),
    /// What the page cache's events count in.
    page_bytes: u64,
    /// The time of the last event of each processor.
    ends: BTreeMap<u16, u64>,
    /// Sequences that had events.
    sequences: BTreeSet<u64>,
    /// The times of the first and the last event of the last packet that had any.
    last: Option<(u64, u64)>,
}

/// What a packet says of itself.
#[derive(Default)]
struct Packet {
    sequence: u64,
    dropped: bool,
    /// The field that it holds, unless that is events.
    holds: Option<u32>,
    /// The times of the first and the last of its events.
    events: Option<(u64, u64)>,
    has_bundle: bool,
    is_compressed: bool,
    is_understood: bool,
}

impl Reader<'_> {
    /// Reads packets to a stream's end. `place` says where a packet is that begins at some byte of it.
    fn packets<R: BufRead>(
        &mut self,
        stream: &mut Stream<R>,
        place: &dyn Fn(u64) -> String,
        may_be_compressed: bool,
    ) -> Result<()> {
        while !stream.is_at_end()? {
            let start = stream.position();
            self.packet(stream, place, may_be_compressed).map_err(|e| {
                match e.message().starts_with(NOT_UNDERSTOOD) {
                    true => e,
                    false => Error::board(format!("{NOT_UNDERSTOOD} {}", place(start)))
                        .because(e)
                        .hint("it may be cut off or damaged; copy it again"),
                }
            })?;
        }
        Ok(())
    }

    fn packet<R: BufRead>(
        &mut self,
        stream: &mut Stream<R>,
        place: &dyn Fn(u64) -> String,
        may_be_compressed: bool,
    ) -> Result<()> {
        let start = stream.position();
        let Some(end) = stream.packet()? else { return Ok(()) };
        let mut packet = Packet { is_understood: true, ..Packet::default() };
        while stream.position() < end {
            let (number, coming) = stream.field()?;
            let length = match coming {
                Coming::Number(_) => 0,
                Coming::Bytes(length) => length,
            };
            if stream.position().checked_add(length).is_none_or(|after| after > end) {
                return Err(Error::board("a field is longer than its packet"));
            }
            match (number, coming) {
                (field::PACKET_SEQUENCE, Coming::Number(sequence)) => packet.sequence = sequence,
                (field::PACKET_PREVIOUS_DROPPED, Coming::Number(dropped)) => packet.dropped = dropped != 0,
                (field::PACKET_FTRACE_EVENTS, Coming::Bytes(_)) => {
                    packet.has_bundle = true;
                    packet.events = self.bundle(&stream.take(length, MOST_CONTENT_BYTES)?)?.or(packet.events);
                }
                (field::PACKET_COMPRESSED, Coming::Bytes(_)) => {
                    if !may_be_compressed {
                        return Err(Error::board("a compressed packet lies within another one"));
                    }
                    packet.is_compressed = true;
                    self.compressed(&stream.take(length, MOST_CONTENT_BYTES)?, &place(start))?;
                }
                (
                    field::PACKET_PROCESS_TREE
                    | field::PACKET_CLOCK_SNAPSHOT
                    | field::PACKET_SYSTEM_INFO
                    | field::PACKET_TRACK_DESCRIPTOR,
                    Coming::Bytes(_),
                ) => {
                    packet.holds = Some(number);
                    let content = stream.take(length, MOST_CONTENT_BYTES)?;
                    packet.is_understood &= self.known(number, &content).is_ok();
                }
                _ => {
                    if !names::is_about_packet(number) {
                        packet.holds = Some(number);
                    }
                    stream.skip(length)?;
                }
            }
        }
        self.told(&packet);
        Ok(())
    }

    /// Counts a packet, and notes whether some before it were lost.
    fn told(&mut self, packet: &Packet) {
        if packet.has_bundle {
            let is_first = !self.sequences.contains(&packet.sequence);
            if is_first && self.sequences.len() < MOST_SEQUENCES {
                self.sequences.insert(packet.sequence);
            }
            // What a ring buffer no longer had before its first packet is not missing within the trace.
            if packet.dropped && !is_first {
                let (from, until) =
                    (self.last.map_or(0, |(first, _)| first), packet.events.map_or(0, |(_, last)| last));
                self.lost(from, until.max(from));
            }
            self.last = packet.events.or(self.last);
            return;
        }
        if packet.is_compressed {
            return;
        }
        self.reading.lines += 1;
        let reason = match (packet.holds, packet.is_understood) {
            (None, _) => "packet without content".to_owned(),
            (Some(number), true) => format!("packet: {}", names::of_packet(number)),
            (Some(number), false) => format!("packet not understood: {}", names::of_packet(number)),
        };
        self.reading.leave_out(&reason);
    }

    fn lost(&mut self, from_ns: u64, until_ns: u64) {
        self.reading.losses += 1;
        self.ordered.lost(from_ns, until_ns);
    }

    fn compressed(&mut self, content: &[u8], place: &str) -> Result<()> {
        let unpacked = ZlibDecoder::new(content).take(MOST_UNPACKED_BYTES);
        let mut stream = Stream::new(BufReader::with_capacity(1 << 16, unpacked));
        let within = |byte: u64| format!("{place}, in what it unpacks to at byte {byte}");
        let read = self.packets(&mut stream, &within, false);
        if stream.position() >= MOST_UNPACKED_BYTES {
            let most = MOST_UNPACKED_BYTES >> 20;
            return Err(Error::board(format!("a compressed packet unpacks to more than {most} MiB")));
        }
        read
    }

    /// Takes what is used of a packet that holds no events.
    fn known(&mut self, number: u32, content: &[u8]) -> Result<()> {
        match number {
            field::PACKET_PROCESS_TREE => {
                for field in Fields::of(content) {
                    let (field::TREE_THREADS, Value::Bytes(thread)) = field? else { continue };
                    let thread = decoded::<TreeThread>(thread)?;
                    let name = thread.name.as_deref().map(text);
                    self.thread(thread.tid, thread.tgid, name.as_deref());
                }
            }
            field::PACKET_TRACK_DESCRIPTOR => {
                if let Some(thread) = decoded::<TrackDescriptor>(content)?.thread {
                    self.thread(thread.tid, thread.pid, thread.thread_name.as_deref());
                }
            }
            field::PACKET_CLOCK_SNAPSHOT => {
                let clocks = decoded::<ClockSnapshot>(content)?.clocks;
                let of = |id| clocks.iter().find(|clock| clock.clock_id == Some(id))?.timestamp;
                if let (Some(boot), Some(monotonic)) = (of(CLOCK_BOOTTIME), of(CLOCK_MONOTONIC)) {
                    let now = (boot, monotonic);
                    self.reading.clocks.get_or_insert(Clocks { first: now, last: now }).last = now;
                }
            }
            _ => {
                let info = decoded::<SystemInfo>(content)?;
                if let Some(kernel) = info.utsname.and_then(|name| version(&name.release?)) {
                    self.kernel = kernel;
                }
                if let Some(bytes) = info.page_size.filter(|bytes| (4096..=1 << 16).contains(bytes)) {
                    self.page_bytes = u64::from(bytes);
                }
            }
        }
        Ok(())
    }

    fn thread(&mut self, thread: Option<i32>, process: Option<i32>, name: Option<&str>) {
        let Some(thread) = thread.and_then(|thread| u32::try_from(thread).ok()) else { return };
        if let Some(process) = process.and_then(|process| u32::try_from(process).ok()) {
            self.threads.is_of(thread, process);
        }
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.threads.named(thread, name);
        }
    }

    fn end(mut self) -> Reading {
        self.ordered.end();
        self.reading.end(self.threads, self.files)
    }
}

/// How errors begin that say where they are.
const NOT_UNDERSTOOD: &str = "the Perfetto trace is not understood";

fn decoded<M: Message + Default>(bytes: &[u8]) -> Result<M> {
    M::decode(bytes).map_err(|e| Error::board("a message is not of its kind").because(e))
}

/// A kernel's text, of which threads' names may hold anything.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A kernel's release, such as `4.14.117-perf`, by its first two numbers.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests;
