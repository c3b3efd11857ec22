//! The tracks: queries and calls nested in them by thread, block requests, and flash operations.

use super::{PerfettoRun, Writer, on_tracks};
use pocketstone_core::Result;
use pocketstone_core::events::{Event, EventKind};
use pocketstone_core::log::{FlashKind, FlashLog};
use pocketstone_probe::perfetto::messages::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::Write;

/// Numbers of tracks: of the process, of flash operations and its counters, and the first of each group.
const PROCESS: u64 = 1;
const FLASH: u64 = 2;
const COUNTERS: u64 = 16;
const THREADS: u64 = 1 << 32;
const QUERIES: u64 = 2 << 32;
const DEVICES: u64 = 3 << 32;

/// Something on a track: a slice, or an instant where it has no end.
struct Item {
    start_ns: u64,
    end_ns: Option<u64>,
    name: String,
    about: Vec<DebugAnnotation>,
}

pub(super) fn write(
    writer: &mut Writer<'_, impl Write>,
    run: &PerfettoRun<'_>,
    names: &HashMap<u32, &str>,
) -> Result<()> {
    let mut threads = by_thread(run);
    if let Some(process) = run.process {
        let descriptor = ProcessDescriptor { pid: Some(process.pid as i32), process_name: Some(process.name.into()) };
        describe(writer, TrackDescriptor { uuid: Some(PROCESS), process: Some(descriptor), ..Default::default() })?;
        for thread in process.threads.iter().chain([&process.pid]) {
            threads.entry(*thread).or_default();
        }
    }
    for (thread, items) in threads {
        let uuid = THREADS + u64::from(thread);
        let name = names.get(&thread).map(|n| (*n).to_owned());
        let process = run.process.filter(|p| p.pid == thread || p.threads.contains(&thread));
        // Of a thread of whatever other process the process is not known.
        let descriptor = match process {
            Some(process) => TrackDescriptor {
                thread: Some(ThreadDescriptor {
                    pid: Some(process.pid as i32),
                    tid: Some(thread as i32),
                    thread_name: name,
                }),
                ..Default::default()
            },
            None => {
                let name = name.map_or_else(|| format!("thread {thread}"), |name| format!("{name} ({thread})"));
                TrackDescriptor { name: Some(format!("I/O of {name}")), ..Default::default() }
            }
        };
        describe(writer, TrackDescriptor { uuid: Some(uuid), ..descriptor })?;
        slices(writer, uuid, items)?;
    }
    let apart = run.queries.iter().filter(|q| q.thread.is_none()).map(query).collect();
    lanes(writer, QUERIES, "Queries", apart)?;
    for (number, (device, items)) in requests(run).into_iter().enumerate() {
        let name = format!("Block device {}:{}", device >> 20, device & 0xf_ffff);
        lanes(writer, DEVICES + ((number as u64) << 16), &name, items)?;
    }
    run.flash.map_or(Ok(()), |log| flash(writer, log))
}

fn describe(writer: &mut Writer<'_, impl Write>, descriptor: TrackDescriptor) -> Result<()> {
    writer.packet(&TracePacket { track_descriptor: Some(descriptor), ..on_tracks() })
}

fn text(name: &str, value: &str) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.into()), string_value: Some(value.into()), ..Default::default() }
}

fn number(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.into()), uint_value: Some(value), ..Default::default() }
}

fn query(query: &super::PerfettoQuery<'_>) -> Item {
    let about = if query.sql.is_empty() { Vec::new() } else { vec![text("sql", query.sql)] };
    let end_ns = Some(query.end_ns.max(query.start_ns));
    Item { start_ns: query.start_ns, end_ns, name: query.name.to_owned(), about }
}

/// What lies on the track of each thread, parents before their children.
fn by_thread(run: &PerfettoRun<'_>) -> BTreeMap<u32, Vec<Item>> {
    let mut threads: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
    for query in run.queries {
        if let Some(thread) = query.thread {
            threads.entry(thread).or_default().push(self::query(query));
        }
    }
    let mut queries: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for (thread, items) in &mut threads {
        items.sort_by_key(|i| i.start_ns);
        // A thread executes one query at a time.
        let starts: Vec<u64> = items.iter().skip(1).map(|i| i.start_ns).collect();
        for (item, next) in items.iter_mut().zip(starts) {
            item.end_ns = item.end_ns.map(|end| end.min(next));
        }
        let ends = items.iter().map(|i| (i.start_ns, i.end_ns.unwrap_or(i.start_ns)));
        queries.insert(*thread, ends.collect());
    }
    // The call that each thread is in.
    let mut open: BTreeMap<u32, Item> = BTreeMap::new();
    for event in &run.events.events {
        let mut put = |item: Item| threads.entry(event.pid).or_default().push(item);
        match event.kind {
            EventKind::Enter { .. } => {
                if let Some(lost) = open.insert(event.pid, entered(event, run)) {
                    put(half(lost, "return not seen"));
                }
            }
            EventKind::Exit { call, result } => match open.remove(&event.pid) {
                Some(mut item) if item.name == call.name() => {
                    item.about.push(DebugAnnotation {
                        name: Some("result".into()),
                        int_value: Some(result),
                        ..Default::default()
                    });
                    let none = Vec::new();
                    let within = queries.get(&event.pid).unwrap_or(&none);
                    let (start, end) = fit(within, item.start_ns, event.time_ns.max(item.start_ns));
                    (item.start_ns, item.end_ns) = (start, Some(end));
                    put(item);
                }
                other => {
                    if let Some(lost) = other {
                        put(half(lost, "return not seen"));
                    }
                    let (name, start_ns) = (call.name().to_owned(), event.time_ns);
                    put(half(Item { start_ns, end_ns: None, name, about: Vec::new() }, "start not seen"));
                }
            },
            EventKind::CacheMiss { file, page, pages } => {
                let mut about = named_file(run, file);
                about.extend([number("page", page), number("pages", u64::from(pages))]);
                put(Item { start_ns: event.time_ns, end_ns: None, name: "page cache miss".into(), about });
            }
            // Marks in the form of Android's tracing are read as such from the ftrace event.
            EventKind::Mark { text } => match run.events.marks.get(text as usize) {
                Some(mark) if !is_atrace(mark) => {
                    let name = mark.trim_end().to_owned();
                    put(Item { start_ns: event.time_ns, end_ns: None, name, about: Vec::new() });
                }
                _ => {}
            },
            _ => {}
        }
    }
    for (thread, lost) in open {
        threads.entry(thread).or_default().push(half(lost, "return not seen"));
    }
    threads
}

/// `B|PID|NAME`, `E`, `C|PID|NAME|VALUE` and so on.
fn is_atrace(mark: &str) -> bool {
    let mut parts = mark.trim_end().split('|');
    let kind = parts.next().is_some_and(|kind| ["B", "E", "C", "S", "F", "I", "N", "G", "H"].contains(&kind));
    kind && parts.next().is_none_or(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
}

fn named_file(run: &PerfettoRun<'_>, file: Option<u16>) -> Vec<DebugAnnotation> {
    file.and_then(|f| run.events.files.get(usize::from(f))).map(|f| text("file", f)).into_iter().collect()
}

/// A call of which only the start was seen so far.
fn entered(event: &Event, run: &PerfettoRun<'_>) -> Item {
    let (mut name, mut about) = (String::new(), Vec::new());
    if let EventKind::Enter { call, file, offset, bytes } = event.kind {
        name = call.name().to_owned();
        about = named_file(run, file);
        about.extend(offset.map(|offset| number("offset", offset)));
        about.push(number("bytes", bytes));
    }
    Item { start_ns: event.time_ns, end_ns: None, name, about }
}

/// A call of which one end was not seen: how long it took is not known, so it is an instant.
fn half(item: Item, what: &str) -> Item {
    Item { end_ns: None, name: format!("{} ({what})", item.name), ..item }
}

/// A call's times, cut to lie within the query that holds its middle, or between two queries. Clocks of traces
/// may be coarser than those of queries, so that a call seems to begin before its query.
fn fit(queries: &[(u64, u64)], start: u64, end: u64) -> (u64, u64) {
    let middle = start + (end - start) / 2;
    let next = queries.partition_point(|q| q.0 <= middle);
    let until = queries.get(next).map_or(u64::MAX, |q| q.0);
    let (low, high) = match next.checked_sub(1).map(|n| queries[n]) {
        Some((from, to)) if middle < to => (from, to),
        Some((_, to)) => (to, until),
        None => (0, until),
    };
    (start.clamp(low, high), end.clamp(low, high))
}

/// Writes what lies on one track, whose slices lie within each other or apart.
fn slices(writer: &mut Writer<'_, impl Write>, uuid: u64, mut items: Vec<Item>) -> Result<()> {
    items.sort_by_key(|i| (i.start_ns, i.end_ns.is_none(), Reverse(i.end_ns)));
    let on_track = |kind| TrackEvent { r#type: Some(kind), track_uuid: Some(uuid), ..Default::default() };
    let mut open: Vec<u64> = Vec::new();
    for item in items {
        // An instant at a slice's end is still part of it.
        while let Some(&end) = open.last().filter(|&&end| end < item.start_ns + u64::from(item.end_ns.is_some())) {
            writer.event(end, on_track(SLICE_END))?;
            open.pop();
        }
        let kind = if item.end_ns.is_some() { SLICE_BEGIN } else { INSTANT };
        let event = TrackEvent { name: Some(item.name), debug_annotations: item.about, ..on_track(kind) };
        writer.event(item.start_ns, event)?;
        if let Some(end) = item.end_ns {
            open.push(open.last().map_or(end, |&outer| end.min(outer)));
        }
    }
    while let Some(end) = open.pop() {
        writer.event(end, on_track(SLICE_END))?;
    }
    Ok(())
}

/// Writes slices that may overlap, on as many tracks of one name as that takes.
fn lanes(writer: &mut Writer<'_, impl Write>, first: u64, name: &str, mut items: Vec<Item>) -> Result<()> {
    items.sort_by_key(|i| i.start_ns);
    let mut lanes: Vec<(u64, Vec<Item>)> = Vec::new();
    for item in items {
        let end = item.end_ns.unwrap_or(item.start_ns);
        match lanes.iter_mut().find(|lane| lane.0 <= item.start_ns) {
            Some(lane) => {
                lane.0 = end;
                lane.1.push(item);
            }
            None => lanes.push((end, vec![item])),
        }
    }
    for (uuid, (_, items)) in (first..).zip(lanes) {
        describe(writer, TrackDescriptor { uuid: Some(uuid), name: Some(name.into()), ..Default::default() })?;
        slices(writer, uuid, items)?;
    }
    Ok(())
}

/// Requests by device, from issue to completion.
fn requests(run: &PerfettoRun<'_>) -> BTreeMap<u32, Vec<Item>> {
    let mut devices: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
    let mut waiting: BTreeMap<(u32, bool, u64), VecDeque<(u64, u32)>> = BTreeMap::new();
    let item = |write: bool, start_ns, end_ns, sector, sectors: u32, whole: bool| {
        let name = match (write, whole) {
            (false, true) => "read",
            (true, true) => "write",
            (false, false) => "read (end not seen)",
            (true, false) => "write (end not seen)",
        };
        let about = vec![number("sector", sector), number("sectors", u64::from(sectors))];
        Item { start_ns, end_ns: Some(end_ns), name: name.into(), about }
    };
    for event in &run.events.events {
        match event.kind {
            EventKind::BlockIssue { device, write, sector, sectors } => {
                let queue = waiting.entry((device, write, sector)).or_default();
                // The same request may be seen when it is queued and when it is given to the device.
                if queue.back().is_none_or(|(_, other)| *other != sectors) {
                    queue.push_back((event.time_ns, sectors));
                }
            }
            EventKind::BlockComplete { device, write, sector, .. } => {
                let Some(queue) = waiting.get_mut(&(device, write, sector)) else { continue };
                let Some((start, sectors)) = queue.pop_front() else { continue };
                let done = item(write, start, event.time_ns.max(start), sector, sectors, true);
                devices.entry(device).or_default().push(done);
            }
            _ => {}
        }
    }
    for ((device, write, sector), queue) in waiting {
        for (start, sectors) in queue {
            let open = item(write, start, run.end_ns.max(start), sector, sectors, false);
            devices.entry(device).or_default().push(open);
        }
    }
    devices
}

/// An instant for each flash operation, and how many of each kind there were so far.
fn flash(writer: &mut Writer<'_, impl Write>, log: &FlashLog) -> Result<()> {
    let kinds: BTreeSet<FlashKind> = log.ops.iter().map(|op| op.kind).collect();
    let name = |kind: FlashKind| kind.name().replace('_', " ");
    for kind in &kinds {
        describe(
            writer,
            TrackDescriptor {
                uuid: Some(COUNTERS + *kind as u64),
                name: Some(format!("Flash: {}s so far", name(*kind))),
                counter: Some(CounterDescriptor {}),
                ..Default::default()
            },
        )?;
    }
    describe(writer, TrackDescriptor { uuid: Some(FLASH), name: Some("Flash".into()), ..Default::default() })?;
    let mut counts: HashMap<FlashKind, i64> = HashMap::new();
    for op in &log.ops {
        let count = counts.entry(op.kind).or_default();
        *count += 1;
        let counter = TrackEvent {
            r#type: Some(COUNTER),
            track_uuid: Some(COUNTERS + op.kind as u64),
            counter_value: Some(*count),
            ..Default::default()
        };
        writer.event(op.time_ns, counter)?;
        let about = vec![
            number("page", u64::from(op.page)),
            number("pages", u64::from(op.pages)),
            text("task", log.task(op)),
            number("thread", u64::from(op.pid)),
        ];
        let instant = TrackEvent {
            r#type: Some(INSTANT),
            track_uuid: Some(FLASH),
            name: Some(name(op.kind)),
            debug_annotations: about,
            ..Default::default()
        };
        writer.event(op.time_ns, instant)?;
    }
    Ok(())
}
