//! Traces made by hand: the field numbers here are those of the published schema, written down once more, and so is the
//! wire format. What is expected of them is written beside them.

use super::*;
use crate::analysis::PhoneRuns;
use crate::ftrace::FileNumber;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pocketstone_core::events::{Event, EventKind};
use pocketstone_testing::protobuf::{bytes, number, varint};
use std::io::Write;

fn packed(field: u64, values: &[u64]) -> Vec<u8> {
    bytes(field, values.iter().flat_map(|value| varint(*value)).collect::<Vec<u8>>())
}

/// A packet of the ftrace sequence that holds a bundle.
fn bundle(cpu: u64, content: &[Vec<u8>]) -> Vec<u8> {
    bytes(1, [bytes(1, [number(1, cpu), content.concat()].concat()), number(10, 5)].concat())
}

fn event(time_ns: u64, pid: u64, field: u64, what: &[Vec<u8>]) -> Vec<u8> {
    bytes(2, [number(1, time_ns), number(2, pid), bytes(field, what.concat())].concat())
}

fn print(time_ns: u64, pid: u64, text: &str) -> Vec<u8> {
    event(time_ns, pid, 3, &[number(1, 0xffff_ff80), bytes(2, text)])
}

fn compressed(packets: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    packer.write_all(packets).unwrap();
    bytes(1, bytes(50, packer.finish().unwrap()))
}

fn reads(trace: &[u8]) -> Reading {
    let context = Context {
        numbers: vec![FileNumber { device: 254 << 20 | 300, inode: 77, name: "/data/a.db".into() }],
        ..Context::default()
    };
    let reading = read(trace, &context).unwrap();
    assert_eq!(reading.lines, reading.used + reading.left_out.values().sum::<u64>());
    reading
}

fn refused(trace: &[u8]) -> String {
    read(trace, &Context::default()).unwrap_err().chain()
}

/// Two processors, of which the second one's bundle comes first and is earlier and later than the first one's: switches
/// and wakings as numbers side by side. Thread 7 is on processor 0 from its mark at 1000 to 4000, and from 9000 on.
fn a_phones_trace() -> [Vec<u8>; 2] {
    let second = bundle(
        1,
        &[bytes(
            4,
            [
                // 500 and 6000: to thread 9 and to the idle thread.
                packed(1, &[500, 5500]),
                packed(2, &[0, 2]),
                packed(3, &[9, 0]),
                packed(4, &[120, 120]),
                bytes(5, "mmcqd/1"),
                bytes(5, "swapper/1"),
                packed(6, &[0, 1]),
            ]
            .concat(),
        )],
    );
    let table = [
        bytes(5, "swapper/0"),
        bytes(5, b"app\xc3"),
        packed(1, &[4000, 5000]),
        // A number packed and others with their keys are one column.
        packed(2, &[1]),
        number(2, 0),
        number(3, 0),
        number(3, 7),
        packed(6, &[0, 1]),
        packed(7, &[8500]),
        packed(8, &[7]),
        packed(9, &[0]),
        packed(10, &[120]),
        packed(11, &[1]),
        packed(12, &[1]),
    ];
    let first = bundle(
        0,
        &[
            event(900, 0, 11, &[number(1, 300_000), number(2, 0)]),
            print(1000, 7, "B|7|SQL_START\n"),
            event(4100, 0, 13, &[number(1, 2), number(2, 0)]),
            event(8400, 0, 13, &[number(1, 0xffff_ffff), number(2, 0)]),
            event(8450, 0, 11, &[number(1, 600_000), number(2, 0)]),
            print(9500, 7, "SQL_END\nmore"),
            bytes(4, table.concat()),
        ],
    );
    [second, first]
}

const TASKS: [(u32, &str); 2] = [(7, "app\u{fffd}"), (9, "mmcqd/1")];

fn expected() -> Vec<Event> {
    let at = |time_ns, cpu, pid, kind| Event { time_ns, cpu, pid, kind };
    let switch = |prev, state, next| EventKind::Switch { prev, state, next };
    vec![
        at(500, 1, 0, switch(0, b'R', 9)),
        at(900, 0, 0, EventKind::Frequency { cpu: 0, khz: 300_000 }),
        at(1000, 0, 7, EventKind::Mark { text: 0 }),
        at(4000, 0, 7, switch(7, b'S', 0)),
        at(4100, 0, 0, EventKind::Idle { cpu: 0, state: Some(2) }),
        at(6000, 1, 9, switch(9, b'D', 0)),
        at(8400, 0, 0, EventKind::Idle { cpu: 0, state: None }),
        at(8450, 0, 0, EventKind::Frequency { cpu: 0, khz: 600_000 }),
        at(8500, 0, 0, EventKind::Wake { pid: 7 }),
        at(9000, 0, 0, switch(0, b'R', 7)),
        at(9500, 0, 7, EventKind::Mark { text: 1 }),
    ]
}

#[test]
fn a_phones_trace_is_a_log() {
    let [second, first] = a_phones_trace();
    let trace = [second.clone(), first.clone()].concat();
    for trace in [trace.clone(), compressed(&trace), [second, compressed(&first)].concat()] {
        assert!(is_one(&trace[..START_BYTES.min(trace.len())]));
        let reading = reads(&trace);
        assert_eq!(reading.log.events, expected());
        assert_eq!(reading.log.marks, ["B|7|SQL_START", "SQL_END"]);
        let tasks: Vec<(u32, &str)> = reading.log.tasks.iter().map(|(pid, name)| (*pid, name.as_str())).collect();
        assert_eq!((tasks.as_slice(), reading.used, reading.lines), (TASKS.as_slice(), 11, 11));
    }
    // 3000 ns from the mark to the switch at 300 MHz, and 500 ns at 600 MHz.
    let mut runs = PhoneRuns::default();
    read_from(trace.as_slice(), &Context::default(), &mut runs).unwrap();
    let [run] = <[_; 1]>::try_from(runs.end().unwrap()).unwrap();
    assert_eq!((run.name.as_str(), run.app, run.runtime_ns, run.on_core_ns), ("SQL", 7, 8500, 3500));
    assert_eq!((run.bursts.count, run.bursts.max_ns, run.lost_events), (2, Some(3000), false));
    assert_eq!(run.on_core_khz_ns.into_iter().collect::<Vec<_>>(), [(300_000, 3000), (600_000, 500)]);
}

/// Each kind of event that is used, as a message of its own.
#[test]
fn events_are_what_the_text_reader_makes_of_them() {
    let request =
        |letters: &str| vec![number(1, rustix::fs::makedev(179, 3)), number(2, 64), number(3, 8), bytes(5, letters)];
    let woken = [bytes(1, "app"), number(2, 7), number(3, 120)];
    let switch = |state: u64| {
        [
            bytes(1, "app"),
            number(2, 7),
            number(3, 120),
            number(4, state),
            bytes(5, "swapper"),
            number(6, 0),
            number(7, 120),
        ]
    };
    let events = [
        event(10, 1, 4, &switch(2)),
        event(20, 1, 4, &switch(16)),
        event(30, 1, 20, &woken),
        event(31, 1, 17, &woken),
        event(32, 1, 114, &woken),
        event(40, 1, 126, &request("WS")),
        event(41, 1, 45, &request("WS")),
        event(42, 1, 45, &request("FDS")),
        event(43, 1, 125, &request("RA")),
        event(50, 1, 97, &[number(2, 77), number(3, 5), number(4, rustix::fs::makedev(254, 300))]),
        event(60, 1, 236, &[number(1, 7), bytes(2, "app"), bytes(3, "worker")]),
        event(61, 1, 235, &[number(1, 8), bytes(2, "child")]),
        event(62, 1, 239, &[number(2, 7), number(4, 9)]),
        event(63, 1, 12, &[number(1, 1)]),
        event(64, 1, 327, &[bytes(1, "of_tomorrow")]),
        event(65, 1, 9999, &[]),
        event(66, 1, 45, &[number(2, 64)]),
        bytes(2, number(1, 67)),
    ];
    let system = bytes(1, bytes(45, [bytes(1, bytes(3, "3.18.71-g1")), number(6, 16384)].concat()));
    let reading = reads(&[system, bundle(2, &events)].concat());
    let kinds: Vec<(u64, EventKind)> = reading.log.events.iter().map(|event| (event.time_ns, event.kind)).collect();
    let (device, sector, sectors) = (179 << 20 | 3, 64, 8);
    let expected = [
        (10, EventKind::Switch { prev: 7, state: b'D', next: 0 }),
        // Of Linux 3.18.
        (20, EventKind::Switch { prev: 7, state: b'Z', next: 0 }),
        (30, EventKind::Wake { pid: 7 }),
        (32, EventKind::Wake { pid: 7 }),
        (41, EventKind::BlockIssue { device, write: true, sector, sectors }),
        (43, EventKind::BlockComplete { device, write: false, sector, sectors }),
        // Its pages are four of 4096 bytes.
        (50, EventKind::CacheMiss { file: Some(0), page: 20, pages: 4 }),
    ];
    assert_eq!(kinds, expected);
    assert!(reading.log.events.iter().all(|event| (event.cpu, event.pid) == (2, 1)));
    assert_eq!(
        (reading.log.task(7), reading.log.task(8), reading.started),
        (Some("worker"), Some("child"), vec![(1, 8), (7, 9)])
    );
    let left_out: Vec<(&str, u64)> = reading.left_out.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
    let expected = [
        ("event not understood: block_rq_issue", 1),
        ("event not used: block_rq_insert", 1),
        ("event not used: block_rq_issue of a discard", 1),
        ("event not used: cpu_frequency_limits", 1),
        ("event not used: event 9999 of Perfetto's schema", 1),
        ("event not used: of_tomorrow", 1),
        ("event not used: sched_wakeup", 1),
        ("event not used: without content", 1),
        ("name of a thread: task_rename", 1),
        ("packet: system_info", 1),
        ("start of a thread or process: sched_process_fork", 1),
        ("start of a thread or process: task_newtask", 1),
    ];
    assert_eq!(left_out, expected);
}

#[test]
fn threads_clocks_and_other_packets_are_known() {
    let thread = |tid, name: &str, tgid| bytes(2, [number(1, tid), bytes(2, name), number(3, tgid)].concat());
    let process = bytes(1, [number(1, 7), number(2, 1), bytes(3, "com.example.app")].concat());
    let tree = bytes(1, bytes(2, [process, thread(8, "RenderThread", 7), thread(9, "", 7)].concat()));
    let track = bytes(
        1,
        bytes(60, [number(1, 1), bytes(4, [number(1, 7), number(2, 10), bytes(5, "engine")].concat())].concat()),
    );
    let clock = |id, time_ns| bytes(1, [number(1, id), number(2, time_ns)].concat());
    let snapshot = |clocks: [Vec<u8>; 2]| bytes(1, bytes(6, clocks.concat()));
    let clocks = [
        snapshot([clock(6, 1_000), clock(3, 900)]),
        snapshot([clock(6, 2_000), clock(1, 5)]),
        snapshot([clock(3, 2_900), clock(6, 5_000)]),
    ];
    let others = [
        bytes(1, [number(8, 5), bytes(7, "x")].concat()),
        bytes(1, number(87, 1)),
        bytes(1, bytes(60, "\u{7f}")),
        // Not a packet.
        bytes(9, "x"),
        number(3, 1),
    ];
    let reading = reads(&[tree, track, clocks.concat(), others.concat()].concat());
    assert_eq!(reading.processes.into_iter().collect::<Vec<_>>(), [(8, 7), (9, 7), (10, 7)]);
    assert_eq!(reading.log.tasks, [(8, "RenderThread".into()), (10, "engine".into())]);
    let clocks = reading.clocks.unwrap();
    assert_eq!((clocks.first, clocks.last, clocks.suspended_ns()), ((1_000, 900), (5_000, 2_900), 2_000));
    let left_out: Vec<(&str, u64)> = reading.left_out.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
    let expected = [
        ("packet not understood: track_descriptor", 1),
        ("packet without content", 1),
        ("packet: clock_snapshot", 3),
        ("packet: process_tree", 1),
        ("packet: sys_stats", 1),
        ("packet: track_descriptor", 1),
    ];
    assert_eq!(left_out, expected);
}

/// A kernel without a boot-time clock: 10,000 on its own is 70,000.
#[test]
fn times_of_another_clock_are_shifted() {
    let idle = |time_ns| event(time_ns, 0, 13, &[number(1, 1), number(2, 0)]);
    let clock = [number(5, 2), number(6, 10_000), number(7, 70_000)].concat();
    let reading = reads(&bundle(0, &[idle(10_500), clock]));
    assert_eq!((reading.log.events[0].time_ns, reading.has_other_clock), (70_500, false));
    // Without what it differs by, its times stay what they are.
    let reading = reads(&bundle(0, &[idle(10_500), number(5, 3)]));
    assert_eq!((reading.log.events[0].time_ns, reading.has_other_clock), (10_500, true));
    let shifted = bundle(0, &[idle(10), number(5, 2), number(6, 10_000), number(7, 10)]);
    assert!(refused(&shifted).contains("before the machine's start"));
}

#[test]
fn events_that_were_lost_are_told_of_the_runs_they_are_missing_in() {
    let idle = |time_ns| event(time_ns, 0, 13, &[number(1, 1), number(2, 1)]);
    let run = |from, until, name: &str| {
        [print(from, 7, &format!("{name}_START")), print(until, 7, &format!("{name}_END"))].concat()
    };
    let runs_of = |trace: &[u8]| {
        let mut runs = PhoneRuns::default();
        let reading = read_from(trace, &Context::default(), &mut runs).unwrap();
        let lost = runs.end().unwrap().into_iter().map(|run| (run.name, run.lost_events)).collect::<Vec<_>>();
        (reading.losses, lost)
    };
    let marks = bundle(0, &[run(100, 200, "A"), run(290, 500, "B"), run(600, 700, "C"), run(900, 950, "D")]);
    let trace = [marks, bundle(1, &[idle(250)]), bundle(1, &[number(3, 1), idle(650), idle(800)])].concat();
    let expected = [("A", false), ("B", true), ("C", true), ("D", false)].map(|(name, lost)| (name.to_owned(), lost));
    assert_eq!(runs_of(&trace), (1, expected.to_vec()));
    assert!(refused(&trace).contains("lost events between 0.000000 s"));
    // A packet that was dropped before the second one of a sequence; what was before the first is no loss.
    let dropped = |content: Vec<u8>| bytes(1, [bytes(1, content), number(10, 4), number(42, 1)].concat());
    let of_other = |time_ns| dropped([number(1, 1), idle(time_ns)].concat());
    let marks = |name| bundle(0, &[run(100, 200, name)]);
    assert_eq!(runs_of(&[of_other(150), marks("A")].concat()), (0, vec![("A".into(), false)]));
    assert_eq!(runs_of(&[of_other(150), of_other(160), marks("A")].concat()), (1, vec![("A".into(), true)]));
}

#[test]
fn what_is_not_understood_is_named_by_its_byte() {
    let before = bytes(1, bytes(7, "x"));
    let at = format!("at byte {}", before.len());
    let idle = || event(10, 0, 13, &[number(1, 1), number(2, 0)]);
    let compact = |columns: &[Vec<u8>]| bundle(0, &[bytes(4, columns.concat())]);
    let nested = compressed(&compressed(&bundle(0, &[idle()])));
    let bomb = compressed(&bytes(9, vec![0; MOST_UNPACKED_BYTES as usize]));
    for (bad, why) in [
        (
            bytes(1, [bytes(1, [number(1, 0), idle()].concat()), number(10, 5)].concat())[..9].to_vec(),
            "ends in the middle",
        ),
        ([0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff].to_vec(), "no end"),
        ([0x0a, 0x80, 0x80, 0x80, 0x80, 0x10, 0x0a, 0xff, 0xff, 0xff, 0x7f].to_vec(), "at most 8388608"),
        ([varint(1 << 3 | 2), varint(u64::MAX)].concat(), "no end"),
        (bytes(1, [varint(1 << 3 | 2), varint(5), vec![0]].concat()), "longer than its packet"),
        (bytes(1, [0x0b]), "group"),
        (bytes(1, [0x00, 0x00]), "is no field"),
        (bundle(1 << 16, &[idle()]), "there is no processor 65536"),
        (bundle(0, &[bytes(2, [0x08])]), "a message is not of its kind"),
        (compact(&[packed(1, &[1, 2]), packed(2, &[0, 0]), packed(3, &[5])]), "has no thread"),
        (compact(&[packed(1, &[1]), packed(2, &[0]), packed(3, &[5, 6])]), "has no time"),
        (compact(&[packed(1, &[1]), packed(3, &[5])]), "has no state"),
        (compact(&[packed(1, &[1]), packed(2, &[0]), packed(3, &[u64::MAX])]), "there is no thread"),
        (compact(&[packed(7, &[u64::MAX, 1]), packed(8, &[5, 5])]), "do not end"),
        (nested, "within another one"),
        (bomb, "unpacks to more than 64 MiB"),
        (bytes(1, bytes(50, "no zlib")), "cannot be read"),
    ] {
        let said = refused(&[before.clone(), bad].concat());
        assert!(said.contains(&at) && said.contains(why), "{said}, not {why}");
    }
    // Where it is in what a packet holds is said, too.
    let within = compressed(&[before.clone(), bundle(0, &[bytes(2, [0x08])])].concat());
    let said = refused(&[before.clone(), within].concat());
    assert!(said.contains(&format!("{at}, in what it unpacks to {at}:")), "{said}");
}

#[test]
fn text_is_not_taken_for_a_trace() {
    for text in
        ["", "\n", "\n# tracer: nop\n#\n", "# tracer", "\n\n\ta-1 [000] .... 1.0: print: x", "{\"traceEvents\":["]
    {
        assert!(!is_one(text.as_bytes()), "{text}");
    }
    assert!(is_one(&a_phones_trace().concat()) && is_one(b"\x0a\x00"));
}

/// Threads without end: what is beyond the bounds is not known by its name.
#[test]
fn what_is_kept_of_threads_and_names_is_bounded() {
    let thread = |tid| bytes(2, [number(1, tid), bytes(2, "t"), number(3, tid)].concat());
    let tree = |from: u64| bytes(1, bytes(2, (from..from + 50_000).flat_map(thread).collect::<Vec<u8>>()));
    let names = bundle(0, &[bytes(4, (0..200_000).flat_map(|_| bytes(5, "")).collect::<Vec<u8>>())]);
    let reading = reads(&[tree(1), tree(50_001), tree(100_001), names].concat());
    assert_eq!((reading.log.tasks.len(), reading.processes.len()), (1 << 17, 1 << 17));
}

#[test]
fn a_trace_that_is_being_written_has_begun_with_its_first_whole_event() {
    let of_itself = bytes(1, number(10, 1));
    let empty = bundle(0, &[]);
    let switch = bundle(0, &[event(1, 2, 4, &[number(2, 2), number(7, 3)])]);
    let all = [of_itself, empty, switch.clone(), switch.clone()].concat();
    let second = all.len() - switch.len();
    let begun: Vec<bool> = (0..=all.len()).map(|length| has_events(&all[..length])).collect();
    assert!(begun[..second].iter().all(|begun| !begun) && begun[second..].iter().all(|begun| *begun), "{begun:?}");
    assert!(!has_rails(&all[..]));
    let named = bytes(1, bytes(40, bytes(1, number(1, 0))));
    let read = bytes(1, bytes(40, bytes(2, [number(1, 0), number(2, 5), number(3, 6)].concat())));
    assert!(!has_rails(&named[..]) && has_rails(&[named, read].concat()[..]));
}
