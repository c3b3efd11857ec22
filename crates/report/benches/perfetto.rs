//! How long it takes to write a trace of 1,000,000 events: `cargo bench -p pocketstone-report`.
//!
//! With an argument that is a path, the trace is written there as well, to be looked at.

#![allow(clippy::print_stdout)]

use pocketstone_core::events::{Event, EventKind, EventLog, SystemCall};
use pocketstone_report::perfetto::{PerfettoProcess, PerfettoQuery, PerfettoRun, write};
use std::time::Instant;

const EVENTS: u64 = 1_000_000;

fn main() {
    // Ten events to a query: a read with a miss, a request, and the switches around them.
    let device = 8 << 20;
    let kinds = [
        EventKind::Enter { call: SystemCall::Read, file: Some(0), offset: Some(4096), bytes: 4096 },
        EventKind::CacheMiss { file: Some(0), page: 1, pages: 4 },
        EventKind::BlockIssue { device, write: false, sector: 800, sectors: 32 },
        EventKind::Switch { prev: 42, state: b'D', next: 0 },
        EventKind::Idle { cpu: 0, state: Some(1) },
        EventKind::BlockComplete { device, write: false, sector: 800, sectors: 32 },
        EventKind::Idle { cpu: 0, state: None },
        EventKind::Wake { pid: 42 },
        EventKind::Switch { prev: 0, state: b'R', next: 42 },
        EventKind::Exit { call: SystemCall::Read, result: 4096 },
    ];
    let event = |n: u64| Event { time_ns: 1_000 + n * 1_000, cpu: 0, pid: 42, kind: kinds[(n % 10) as usize] };
    let events = EventLog {
        tasks: vec![(42, "engine".into())],
        files: vec!["usertable.db".into()],
        marks: vec![],
        events: (0..EVENTS).map(event).collect(),
    };
    let sql = "SELECT * FROM usertable WHERE ycsb_key = ?";
    let query = |n: u64| PerfettoQuery {
        start_ns: 500 + n * 10_000,
        end_ns: 500 + n * 10_000 + 9_900,
        thread: Some(42),
        name: "SELECT",
        sql,
    };
    let queries: Vec<_> = (0..EVENTS / 10).map(query).collect();
    let run = PerfettoRun {
        start_ns: 0,
        end_ns: EVENTS * 1_000 + 2_000,
        kernel: Some("6.12.41"),
        process: Some(PerfettoProcess { pid: 42, name: "engine", threads: &[] }),
        queries: &queries,
        events: &events,
        flash: None,
        frequencies: &[(0, 1_000_000)],
    };
    let mut times = Vec::new();
    let mut out = Vec::new();
    for _ in 0..5 {
        out.clear();
        let start = Instant::now();
        write(&mut out, &run).expect("a vector can be written to");
        times.push(start.elapsed());
    }
    times.sort();
    println!("{EVENTS} events and {} queries: median {:?} of 5, {} bytes", queries.len(), times[2], out.len());
    if let Some(path) = std::env::args().skip(1).find(|a| !a.starts_with('-')) {
        std::fs::write(&path, &out).expect("the trace can be kept");
    }
}
