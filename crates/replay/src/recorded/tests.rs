use super::*;
use pocketstone_core::events::Event;

const ME: u32 = 7;
const OTHER: u32 = 8;

fn switch(time_ns: u64, prev: u32, state: u8, next: u32) -> Event {
    Event { time_ns, cpu: 0, pid: prev, kind: EventKind::Switch { prev, state, next } }
}

fn leaves(time_ns: u64, state: u8) -> Event {
    switch(time_ns, ME, state, 0)
}

fn comes(time_ns: u64) -> Event {
    switch(time_ns, 0, b'R', ME)
}

fn wakes(time_ns: u64) -> Event {
    Event { time_ns, cpu: 1, pid: 0, kind: EventKind::Wake { pid: ME } }
}

fn enters(time_ns: u64, call: SystemCall) -> Event {
    Event { time_ns, cpu: 0, pid: ME, kind: EventKind::Enter { call, file: None, offset: None, bytes: 0 } }
}

fn exits(time_ns: u64, call: SystemCall) -> Event {
    Event { time_ns, cpu: 0, pid: ME, kind: EventKind::Exit { call, result: 0 } }
}

fn frequency(time_ns: u64, khz: u32) -> Event {
    Event { time_ns, cpu: 0, pid: 0, kind: EventKind::Frequency { cpu: 0, khz } }
}

fn log(events: &[Event]) -> EventLog {
    EventLog { events: events.to_vec(), ..EventLog::default() }
}

fn call(start_ns: u64, end_ns: u64) -> Call {
    Call { start_ns, latency_ns: end_ns - start_ns, intended_ns: start_ns }
}

const WINDOW: Window = Window { start_ns: 0, end_ns: 10_000 };

fn compute(cycles: u64) -> Segment {
    Segment::Compute { cycles }
}

fn io(ns: u64, kind: IoKind) -> Segment {
    Segment::Io { ns, kind }
}

#[test]
fn each_kind_of_time_becomes_its_segment() {
    let events = [
        enters(1_100, SystemCall::Read),
        leaves(1_150, b'D'),
        wakes(1_350),
        comes(1_400),
        exits(1_450, SystemCall::Read),
        // It loses its core to another thread: that is left out.
        switch(1_500, ME, b'R', OTHER),
        switch(1_600, OTHER, b'S', ME),
        // A lock.
        leaves(1_700, b'S'),
        wakes(1_800),
        comes(1_800),
        // A page that was not there.
        leaves(1_850, b'D'),
        wakes(1_900),
        comes(1_900),
        // The operation ends at 2000; the program goes on until 2100 and sleeps; 2900 to 3000 it prepares.
        leaves(2_100, b'S'),
        wakes(2_800),
        comes(2_900),
        enters(3_200, SystemCall::Sync),
        leaves(3_210, b'S'),
        wakes(3_310),
        comes(3_310),
        exits(3_350, SystemCall::Sync),
    ];
    let calls = [call(1_000, 2_000), call(3_000, 3_400)];
    let run = from_events(&log(&events), WINDOW, ME, &calls, 2.0).unwrap();
    let [first, second] = &run.threads[0].operations[..] else { panic!("two operations") };
    let expected = [
        compute(2 * 150),
        io(200, IoKind::Read),
        // 1400 to 1500 and 1600 to 1700.
        compute(2 * 200),
        Segment::Sleep { ns: 100 },
        compute(2 * 50),
        io(50, IoKind::Read),
        compute(2 * 100),
    ];
    assert_eq!((first.delay_ns, &first.segments[..], first.transaction), (0, &expected[..], false));
    // 100 before and 100 after the sleep, 210 of its own; then 90.
    let expected = [compute(2 * (200 + 210)), io(100, IoKind::Sync), compute(2 * 90)];
    assert_eq!((second.delay_ns, &second.segments[..], second.transaction), (700, &expected[..], true));
}

/// A sync that a kernel carries out in two waits is one request, the next sync another one.
#[test]
fn the_waits_of_one_call_are_one_request() {
    let events = [
        enters(1_000, SystemCall::Sync),
        leaves(1_100, b'D'),
        wakes(1_300),
        comes(1_300),
        leaves(1_350, b'D'),
        wakes(1_400),
        comes(1_400),
        exits(1_450, SystemCall::Sync),
        enters(1_450, SystemCall::Sync),
        leaves(1_450, b'D'),
        wakes(1_600),
        comes(1_600),
        exits(1_600, SystemCall::Sync),
    ];
    let run = from_events(&log(&events), WINDOW, ME, &[call(1_000, 2_000)], 1.0).unwrap();
    // 100 before, 50 between and 50 after the waits of 200 and 50; then 150, and the rest of 400.
    let expected = [compute(100), io(250, IoKind::Sync), compute(100), io(150, IoKind::Sync), compute(400)];
    assert_eq!(run.threads[0].operations[0].segments, expected);
}

#[test]
fn cycles_follow_the_logs_frequencies() {
    let events = [
        frequency(500, 300_000),
        leaves(1_200, b'R'),
        comes(1_300),
        frequency(1_400, 1_000_000),
        frequency(1_450, 2_000_000),
        leaves(5_000, b'S'),
    ];
    let run = from_events(&log(&events), WINDOW, ME, &[call(400, 2_000)], 5.0);
    // 100 ns before the first frequency at 5, 700 and 100 at 0.3, 50 at 1, 550 at 2.
    let cycles = 500 + 240 + 50 + 1_100;
    assert_eq!(run.unwrap().threads[0].operations[0].segments, [compute(cycles)]);
}

#[test]
fn latencies_alone_are_all_computing() {
    let run = from_calls(&[call(1_000, 1_500), call(1_500, 1_501), call(2_000, 2_100)], 1.5).unwrap();
    let operations: Vec<_> = run.threads[0].operations.iter().map(|o| (o.delay_ns, o.segments[0])).collect();
    assert_eq!(operations, [(0, compute(750)), (0, compute(2)), (499, compute(150))]);
}

#[test]
fn a_phones_operations_are_what_comes_between_sleeps() {
    let mark = |time_ns, text| Event { time_ns, cpu: 0, pid: ME, kind: EventKind::Mark { text } };
    let mut log = log(&[
        mark(1_000, 0),
        enters(1_100, SystemCall::Write),
        leaves(1_200, b'D'),
        wakes(1_300),
        comes(1_350),
        exits(1_400, SystemCall::Write),
        leaves(2_000, b'S'),
        wakes(7_000),
        comes(7_100),
        mark(8_000, 1),
    ]);
    log.marks = vec!["{\"EVENT\":\"SQL_START\"}".into(), "{\"EVENT\":\"SQL_END\"}".into()];
    let (run, assumed_ns) = from_phone(&log, 1.0).unwrap();
    assert_eq!(assumed_ns, 200 + 650 + 900);
    let [first, second] = &run.threads[0].operations[..] else { panic!("two operations") };
    assert_eq!(first.segments, [compute(200), io(100, IoKind::Write), compute(650)]);
    assert_eq!((first.delay_ns, first.transaction), (0, true));
    assert_eq!((second.delay_ns, &second.segments[..], second.transaction), (5_000, &[compute(900)][..], false));
    // Another core's frequency says nothing, and a later one nothing of the time before.
    let of_core = |cpu| EventKind::Frequency { cpu, khz: 1_000_000 };
    log.events.insert(0, Event { time_ns: 500, cpu: 0, pid: 0, kind: of_core(1) });
    assert_eq!(from_phone(&log, 1.0).unwrap(), (run.clone(), 1_750));
    log.events.insert(10, Event { time_ns: 7_500, cpu: 0, pid: 0, kind: of_core(0) });
    assert_eq!(from_phone(&log, 1.0).unwrap(), (run, 200 + 650 + 400));
    log.marks[1].clear();
    assert!(from_phone(&log, 1.0).unwrap_err().cure().is_some());
}

#[test]
fn what_cannot_be_is_refused_with_its_place_and_a_cure() {
    let fine = log(&[leaves(5_000, b'S')]);
    let refused = |result: Result<Activity>, word: &str| {
        let error = result.unwrap_err();
        assert!(error.chain().contains(word) && error.cure().is_some(), "{}", error.chain());
    };
    let negative = Call { start_ns: 0u64.wrapping_sub(3), latency_ns: 1, intended_ns: 0 };
    refused(from_calls(&[call(1, 2), negative], 1.0), "operation 2: start_ns is negative (-3)");
    refused(from_calls(&[call(1, 5), call(4, 6)], 1.0), "operation 2 starts at 4 ns, operation 1 ends at 5 ns");
    refused(from_calls(&[], 1.0), "no calls");
    refused(from_calls(&[call(1, 2)], f64::NAN), "NaN cycles");
    let events = |events: &[Event]| from_events(&log(events), WINDOW, ME, &[call(1, 2)], 1.0);
    refused(events(&[leaves(5, b'S'), wakes(4)]), "event 2 is at 4 ns, the one before it at 5 ns");
    refused(events(&[leaves(0u64.wrapping_sub(5), b'S')]), "event 1: its time is negative (-5 ns)");
    refused(from_events(&fine, WINDOW, OTHER, &[call(1, 2)], 1.0), "no events of thread 8");
    refused(from_events(&fine, WINDOW, ME, &[call(9_999, 10_001)], 1.0), "the window is from 0 to 10000");
    refused(events(&[leaves(1, b'X')]), "ended before its operation 1");
    let turned = Window { start_ns: 5, end_ns: 4 };
    refused(from_events(&fine, turned, ME, &[call(1, 2)], 1.0), "before its start");
}
