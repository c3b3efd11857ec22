//! The file is read back by a reader of protobuf's wire format that knows nothing of the writer; the field
//! numbers here are those of the published schema, written down once more.

use super::*;
use pocketstone_core::events::SystemCall;
use pocketstone_core::log::{FlashKind, FlashOp};

/// A field's value: a number, or the bytes of a text or message.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a number is cut off");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number is too long")
}

/// The fields of a message.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

/// The message or text at a path of field numbers, the first of each.
fn bytes(message: &[u8], path: &[u64]) -> Option<Vec<u8>> {
    let mut at = message.to_vec();
    for field in path {
        at = fields(&at).into_iter().find_map(|(number, value)| match value {
            Value::Bytes(bytes) if number == *field => Some(bytes),
            _ => None,
        })?;
    }
    Some(at)
}

fn text(message: &[u8], path: &[u64]) -> Option<String> {
    bytes(message, path).map(|b| String::from_utf8(b).unwrap())
}

fn int(message: &[u8], path: &[u64]) -> Option<u64> {
    let (last, path) = path.split_last().unwrap();
    fields(&bytes(message, path)?).into_iter().find_map(|(number, value)| match value {
        Value::Number(value) if number == *last => Some(value),
        _ => None,
    })
}

fn packets(run: &PerfettoRun<'_>) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    write(&mut out, run).unwrap();
    let packet = |(number, value)| match value {
        Value::Bytes(bytes) if number == 1 => bytes,
        other => panic!("field {number} of the trace is {other:?}"),
    };
    fields(&out).into_iter().map(packet).collect()
}

/// The names of tracks by number.
fn tracks(packets: &[Vec<u8>]) -> BTreeMap<u64, String> {
    let track = |p: &Vec<u8>| {
        let d = bytes(p, &[60])?;
        Some((int(&d, &[1])?, text(&d, &[2]).or(text(&d, &[3, 6])).or(text(&d, &[4, 5])).unwrap_or_default()))
    };
    packets.iter().filter_map(track).collect()
}

/// The track events as track, time, kind (1 begin, 2 end, 3 instant, 4 counter), name or count.
fn track_events(packets: &[Vec<u8>]) -> Vec<(String, u64, u64, String)> {
    let tracks = tracks(packets);
    let event = |p: &Vec<u8>| {
        let e = bytes(p, &[11])?;
        assert_eq!((int(p, &[10]), int(p, &[13])), (Some(1), Some(2)), "the sequence, whose state it needs");
        let what = text(&e, &[23]).or(int(&e, &[30]).map(|n| n.to_string())).unwrap_or_default();
        Some((tracks[&int(&e, &[11])?].clone(), int(p, &[8])?, int(&e, &[9])?, what))
    };
    packets.iter().filter_map(event).collect()
}

fn event(time_ns: u64, pid: u32, kind: EventKind) -> Event {
    Event { time_ns, cpu: 0, pid, kind }
}

fn enter(time_ns: u64, call: SystemCall) -> Event {
    event(time_ns, 42, EventKind::Enter { call, file: Some(0), offset: Some(8192), bytes: 4096 })
}

fn exit(time_ns: u64, call: SystemCall, result: i64) -> Event {
    event(time_ns, 42, EventKind::Exit { call, result })
}

fn log(events: Vec<Event>) -> EventLog {
    let tasks = vec![(42, "engine".to_owned()), (50, "kworker/0:1".to_owned())];
    EventLog { tasks, files: vec!["orders.db".into()], marks: vec!["loaded\n".into(), "B|42|x".into()], events }
}

fn run<'a>(events: &'a EventLog, queries: &'a [PerfettoQuery<'a>]) -> PerfettoRun<'a> {
    PerfettoRun {
        start_ns: 1000,
        end_ns: 9000,
        kernel: Some("6.12.41"),
        process: Some(PerfettoProcess { pid: 42, name: "pocketstone-runner", threads: &[] }),
        queries,
        events,
        flash: None,
        frequencies: &[],
    }
}

fn a_query(start_ns: u64, end_ns: u64, thread: Option<u32>) -> PerfettoQuery<'static> {
    PerfettoQuery { start_ns, end_ns, thread, name: "SELECT", sql: "SELECT 1" }
}

#[test]
fn calls_and_misses_are_nested_in_their_query_on_its_thread() {
    let miss = EventKind::CacheMiss { file: Some(0), page: 2, pages: 4 };
    let events = log(vec![enter(2100, SystemCall::Read), event(2200, 42, miss), exit(2900, SystemCall::Read, 4096)]);
    let queries = [a_query(2000, 3000, Some(42)), a_query(3000, 3500, Some(42))];
    let packets = packets(&run(&events, &queries));
    let expected = [
        (2000, 1, "SELECT"),
        (2100, 1, "read"),
        (2200, 3, "page cache miss"),
        (2900, 2, ""),
        (3000, 2, ""),
        (3000, 1, "SELECT"),
        (3500, 2, ""),
    ];
    let expected = expected.map(|(time, kind, name)| ("engine".to_owned(), time, kind, name.to_owned()));
    assert_eq!(track_events(&packets), expected);
    // The thread belongs to the process, and the query tells its statement.
    let thread = packets.iter().find_map(|p| bytes(p, &[60, 4])).unwrap();
    assert_eq!((int(&thread, &[1]), int(&thread, &[2])), (Some(42), Some(42)));
    let read = packets.iter().find(|p| text(p, &[11, 23]).as_deref() == Some("read")).unwrap();
    let about: Vec<_> = fields(&bytes(read, &[11]).unwrap()).into_iter().filter(|f| f.0 == 4).collect();
    let about: Vec<_> = about
        .iter()
        .map(|(_, v)| match v {
            Value::Bytes(b) => (text(b, &[10]).unwrap(), text(b, &[6]), int(b, &[3]).or(int(b, &[4]))),
            Value::Number(_) => panic!("an annotation is a message"),
        })
        .collect();
    let number = |name: &str, n| (name.to_owned(), None, Some(n));
    let file = ("file".to_owned(), Some("orders.db".to_owned()), None);
    assert_eq!(about, [file, number("offset", 8192), number("bytes", 4096), number("result", 4096)]);
}

#[test]
fn a_call_that_seems_to_begin_before_its_query_is_cut_to_it() {
    // A trace in whole microseconds: the call of 2000.4 us seems to begin before the query of 2000.2 us.
    let events = log(vec![
        enter(2_000_000, SystemCall::Write),
        exit(2_900_000, SystemCall::Write, 10),
        enter(2_999_000, SystemCall::Sync),
        exit(3_900_000, SystemCall::Sync, 0),
    ]);
    let queries = [a_query(2_000_200, 3_000_000, Some(42))];
    let seen = track_events(&packets(&run(&events, &queries)));
    let seen: Vec<_> = seen.iter().map(|e| (e.1, e.2, e.3.as_str())).collect();
    let expected = [
        (2_000_200, 1, "SELECT"),
        (2_000_200, 1, "write"),
        (2_900_000, 2, ""),
        (3_000_000, 2, ""),
        (3_000_000, 1, "sync"),
        (3_900_000, 2, ""),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_call_without_both_ends_has_no_duration() {
    let events =
        log(vec![exit(1500, SystemCall::Read, 1), enter(2000, SystemCall::Write), enter(2500, SystemCall::Sync)]);
    let seen = track_events(&packets(&run(&events, &[])));
    let seen: Vec<_> = seen.iter().map(|e| (e.1, e.2, e.3.as_str())).collect();
    let expected =
        [(1500, 3, "read (start not seen)"), (2000, 3, "write (return not seen)"), (2500, 3, "sync (return not seen)")];
    assert_eq!(seen, expected);
}

#[test]
fn scheduling_frequency_and_idle_are_ftrace_events_of_their_processor() {
    let events = log(vec![
        event(2000, 42, EventKind::Switch { prev: 42, state: b'D', next: 0 }),
        event(2100, 0, EventKind::Idle { cpu: 0, state: Some(1) }),
        event(2200, 0, EventKind::Wake { pid: 42 }),
        event(2300, 0, EventKind::Idle { cpu: 0, state: None }),
        event(2400, 0, EventKind::Frequency { cpu: 0, khz: 300_000 }),
        event(2500, 0, EventKind::Switch { prev: 0, state: b'?', next: 42 }),
        event(2600, 42, EventKind::Mark { text: 1 }),
    ]);
    let packets = packets(&PerfettoRun { frequencies: &[(0, 1_000_000), (1, 600_000)], ..run(&events, &[]) });
    let bundles: Vec<Vec<u8>> = packets.iter().filter_map(|p| bytes(p, &[1])).collect();
    assert_eq!(bundles.iter().map(|b| int(b, &[1])).collect::<Vec<_>>(), [Some(0), Some(1)]);
    let of_cpu = |n: usize| -> Vec<Vec<u8>> {
        let event = |(number, value)| match value {
            Value::Bytes(bytes) if number == 2 => Some(bytes),
            _ => None,
        };
        fields(&bundles[n]).into_iter().filter_map(event).collect()
    };
    let first = of_cpu(0);
    assert_eq!(
        first.iter().map(|e| int(e, &[1]).unwrap()).collect::<Vec<_>>(),
        [1000, 2000, 2100, 2200, 2300, 2400, 2500, 2600]
    );
    // cpu_frequency = 11 {state = 1, cpu_id = 2}: at the start as it was known then, later as it became.
    assert_eq!((int(&first[0], &[11, 1]), int(&first[5], &[11, 1])), (Some(1_000_000), Some(300_000)));
    // sched_switch = 4 {prev_comm = 1, prev_pid = 2, prev_state = 4, next_comm = 5, next_pid = 6}; D is 2.
    assert_eq!((text(&first[1], &[4, 1]).as_deref(), int(&first[1], &[4, 2])), (Some("engine"), Some(42)));
    assert_eq!((int(&first[1], &[4, 4]), int(&first[1], &[4, 6])), (Some(2), Some(0)));
    assert_eq!((text(&first[1], &[4, 5]).as_deref(), int(&first[6], &[4, 4])), (Some("swapper"), None));
    assert_eq!(int(&first[1], &[2]), Some(42), "a switch belongs to the thread that leaves");
    // cpu_idle = 13; leaving is all ones. sched_waking = 20 {pid = 2}. print = 3 {buf = 2}.
    assert_eq!((int(&first[2], &[13, 1]), int(&first[4], &[13, 1])), (Some(1), Some(4_294_967_295)));
    assert_eq!((int(&first[3], &[20, 2]), text(&first[7], &[3, 2]).as_deref()), (Some(42), Some("B|42|x")));
    assert_eq!(int(&of_cpu(1)[0], &[11, 2]), Some(1));
    assert!(track_events(&packets).is_empty(), "Android's marks are read from the ftrace event");
}

#[test]
fn no_frequency_is_invented() {
    let events = log(vec![event(2000, 42, EventKind::Frequency { cpu: 0, khz: 300_000 })]);
    let packets = packets(&run(&events, &[]));
    let bundle = packets.iter().find_map(|p| bytes(p, &[1])).unwrap();
    assert_eq!(fields(&bundle).iter().filter(|f| f.0 == 2).count(), 1);
}

#[test]
fn one_clock_snapshot_makes_the_two_kinds_of_packet_agree() {
    let packets = packets(&run(&log(vec![]), &[]));
    // primary_trace_clock = 2 is MONOTONIC = 3; clocks MONOTONIC and BOOTTIME = 6 show the same.
    let snapshot = bytes(&packets[0], &[6]).unwrap();
    assert_eq!(int(&snapshot, &[2]), Some(3));
    let clocks: Vec<_> = fields(&snapshot)
        .into_iter()
        .filter_map(|(_, value)| match value {
            Value::Bytes(clock) => Some((int(&clock, &[1]).unwrap(), int(&clock, &[2]).unwrap())),
            Value::Number(_) => None,
        })
        .collect();
    assert_eq!(clocks, [(3, 1000), (6, 1000)]);
    // The first packet clears the sequence's state and sets its clock.
    assert_eq!((int(&packets[0], &[13]), int(&packets[0], &[59, 58])), (Some(1), Some(3)));
    assert_eq!(text(&packets[1], &[45, 1, 3]).as_deref(), Some("6.12.41"));
}

#[test]
fn overlapping_requests_are_drawn_side_by_side_and_open_ones_to_the_end() {
    let issue = |sector| EventKind::BlockIssue { device: 8 << 20, write: true, sector, sectors: 8 };
    let complete = |sector| EventKind::BlockComplete { device: 8 << 20, write: true, sector, sectors: 8 };
    let events = log(vec![
        event(2000, 42, issue(100)),
        // Queued and issued are one.
        event(2050, 42, issue(100)),
        event(2100, 42, issue(200)),
        event(2500, 0, complete(100)),
        event(2600, 0, complete(200)),
        event(3000, 42, issue(300)),
        event(3100, 0, complete(999)),
    ]);
    let packets = packets(&run(&events, &[]));
    let seen: Vec<_> = track_events(&packets).into_iter().map(|e| (e.1, e.2, e.3)).collect();
    let expected = [
        (2000, 1, "write"),
        (2500, 2, ""),
        (3000, 1, "write (end not seen)"),
        (9000, 2, ""),
        (2100, 1, "write"),
        (2600, 2, ""),
    ];
    assert_eq!(seen, expected.map(|(time, kind, name)| (time, kind, name.to_owned())));
    assert_eq!(tracks(&packets).values().filter(|name| *name == "Block device 8:0").count(), 2);
    assert_eq!(packets.iter().filter_map(|p| bytes(p, &[1, 2, 45])).count(), 1, "they are ftrace events as well");
}

#[test]
fn flash_operations_are_counted_and_shown_one_by_one() {
    let mut flash = FlashLog::default();
    let task = flash.task_index("engine");
    for (time_ns, kind, page) in
        [(2000, FlashKind::Sense, 7), (2100, FlashKind::Sense, 8), (2200, FlashKind::Erase, 64)]
    {
        flash.ops.push(FlashOp { time_ns, kind, page, pages: 1, pid: 42, task });
    }
    let events = log(vec![]);
    let seen = track_events(&packets(&PerfettoRun { flash: Some(&flash), ..run(&events, &[]) }));
    let counted: Vec<_> = seen.iter().filter(|e| e.2 == 4).map(|e| (e.0.as_str(), e.1, e.3.as_str())).collect();
    let senses = "Flash: senses so far";
    assert_eq!(counted, [(senses, 2000, "1"), (senses, 2100, "2"), ("Flash: erases so far", 2200, "1")]);
    let shown: Vec<_> = seen.iter().filter(|e| e.2 == 3).map(|e| (e.1, e.3.as_str())).collect();
    assert_eq!(shown, [(2000, "sense"), (2100, "sense"), (2200, "erase")]);
}

#[test]
fn queries_without_a_thread_and_calls_of_other_processes_have_tracks_of_their_own() {
    let events = log(vec![event(2000, 50, EventKind::CacheMiss { file: None, page: 1, pages: 1 })]);
    let queries = [a_query(2000, 3000, None), a_query(2500, 3500, None)];
    let packets = packets(&PerfettoRun { process: None, ..run(&events, &queries) });
    let names: Vec<_> = tracks(&packets).into_values().collect();
    assert_eq!(names, ["I/O of kworker/0:1 (50)", "Queries", "Queries"]);
}

#[test]
fn a_full_disk_is_an_error_and_says_of_what() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no space"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = write(&mut Full, &run(&log(vec![]), &[])).unwrap_err();
    assert_eq!(error.chain(), "cannot write the Perfetto trace: no space");
}
