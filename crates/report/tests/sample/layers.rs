//! A database run, layer by layer, with numbers that look like one.

use super::line;
use pocketstone_core::random::Random;
use pocketstone_study::views::model::*;

/// A latency with a long tail.
fn latency(random: &mut Random, median_ns: f64) -> u64 {
    let tail = if random.unit() < 0.02 { 8.0 } else { 1.0 };
    (median_ns * (0.6 + 0.8 * random.unit()) * tail / (1.0 - 0.9 * random.unit()).powf(0.35)) as u64
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), scale }
}

fn names(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|t| t.to_string()).collect()
}

pub fn figures() -> Vec<Figure> {
    let delays = [0.0, 1e6, 2e6, 5e6, 10e6];
    let part = |name: &str, ys: [f64; 5]| line(name, Source::Measured, &delays, &ys.map(|y| y * 1e6), 0.0);
    let totals = |ys: [f64; 5]| {
        let point =
            |(&x, y): (&f64, f64)| Point { x, y: y * 1e6, low: Some(y * 0.94e6), high: Some(y * 1.08e6), n: Some(7) };
        delays.iter().zip(ys).map(point).collect()
    };
    let runs: Vec<f64> = (1..=60).map(f64::from).collect();
    let mut random = Random::new(5);
    let io: Vec<f64> = runs.iter().map(|_| 1.2e9 + 0.5e9 * random.unit()).collect();
    let rest: Vec<f64> = runs.iter().map(|_| 2.0e9 + 0.2e9 * random.unit()).collect();
    vec![
        Figure {
            id: "parts".into(),
            title: "Time of a query on a core and off it, by delay".into(),
            caption: "The longer the delay, the more often the core sleeps when a query comes.".into(),
            x: axis("Delay between two queries", Scale::Duration),
            y: axis("Time of a query", Scale::Duration),
            series: vec![
                part("SQLite, on a core", [0.61, 0.72, 0.9, 1.15, 1.3]),
                part("SQLite, off a core", [1.1, 1.0, 1.15, 1.5, 1.7]),
                part("BDB, on a core", [0.9, 1.02, 1.2, 1.4, 1.7]),
                part("BDB, off a core", [0.8, 0.86, 1.0, 1.2, 1.22]),
            ],
            stacked: true,
            stacks: vec![
                Stack { name: "SQLite".into(), series: vec![0, 1], totals: totals([1.71, 1.72, 2.05, 2.65, 3.0]) },
                Stack { name: "BDB".into(), series: vec![2, 3], totals: totals([1.7, 1.88, 2.2, 2.6, 2.92]) },
            ],
            ..Figure::default()
        },
        Figure {
            id: "runs".into(),
            title: "Time of each run in file I/O and in the rest".into(),
            caption: "Sixty runs of one workload.".into(),
            x: axis("Run", Scale::Linear),
            y: axis("Time of a run", Scale::Duration),
            series: vec![
                line("file I/O", Source::Measured, &runs, &io, 0.0),
                line("the rest", Source::Measured, &runs, &rest, 0.0),
            ],
            stacked: true,
            ..Figure::default()
        },
        Figure {
            id: "workloads".into(),
            title: "Where the time of a query goes, by workload".into(),
            caption: "One engine, six workloads.".into(),
            x: axis("Workload", Scale::Linear),
            y: axis("Time of a query", Scale::Duration),
            names: names(&["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "pocketdata-e", "read-ahead contacts"]),
            series: [("on a core", 0.4), ("read", 0.3), ("sync", 0.9)]
                .map(|(name, y)| {
                    let ys: Vec<f64> = (0..6).map(|i| y * 1e6 * (1.0 + f64::from(i * 7 % 5) / 4.0)).collect();
                    line(name, Source::Measured, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &ys, 0.0)
                })
                .into(),
            stacked: true,
            ..Figure::default()
        },
    ]
}

pub fn distributions() -> Vec<Distribution> {
    let mut random = Random::new(7);
    let service: Vec<u64> = (0..20_000).map(|_| latency(&mut random, 420_000.0)).collect();
    let mut behind = 0;
    let response: Vec<u64> = service
        .iter()
        .map(|ns| {
            behind = (behind + ns).saturating_sub(900_000);
            ns + behind
        })
        .collect();
    vec![Distribution {
        id: "latencies".into(),
        title: "Latency of SQLite, workload A".into(),
        caption: "One slow query delays those behind it, which service time alone does not show.".into(),
        series: vec![Quantiles::of("service time", &service), Quantiles::of("since the intended start", &response)],
    }]
}

pub fn timelines() -> Vec<Timeline> {
    let mut random = Random::new(11);
    let (start_ns, end_ns) = (5_000_000_000, 7_000_000_000);
    let (mut queries, mut cores, mut io, mut flash) = (vec![], vec![], vec![], vec![]);
    let span = |start_ns: u64, ns: f64, kind: usize, label: &str| Span {
        start_ns,
        end_ns: start_ns + ns as u64,
        kind,
        label: label.into(),
    };
    let mut at = start_ns;
    while at < end_ns {
        let ns = latency(&mut random, 1_400_000.0) as f64;
        queries.push(span(at, ns, 0, "SELECT field3 FROM usertable WHERE ycsb_key = 'user71'"));
        cores.push(span(at, ns * 0.35, 1, ""));
        let call = if random.unit() < 0.6 { 2 } else { 3 };
        io.push(span(at + (ns * 0.4) as u64, ns * 0.3, call, "usertable.db, 4 KiB"));
        flash.push(span(at + (ns * 0.5) as u64, 0.0, 5, "page 8123"));
        if call == 3 {
            io.push(span(at + (ns * 0.72) as u64, ns * 0.2, 4, "usertable.db-wal"));
        }
        let pause = if random.unit() < 0.03 { 40e6 } else { 6e6 * random.unit() };
        at += ns as u64 + pause as u64;
    }
    let mut steps: Vec<(u64, Option<f64>)> = vec![(start_ns + 90_000_000, Some(300.0))];
    steps.extend((1..18).map(|i| {
        (start_ns + 90_000_000 + i * 103_000_000, Some([300.0, 652.0, 1190.0, 2265.0][(i as usize * 7) % 4]))
    }));
    let spans = |name: &str, spans| Lane { name: name.into(), content: LaneContent::Spans(spans) };
    vec![Timeline {
        id: "run".into(),
        title: "The first two seconds of the run".into(),
        caption: "Queries wait for the flash, and the core's clock follows late.".into(),
        start_ns,
        end_ns,
        kinds: names(&["query", "on a core", "read", "write", "sync", "page sense"]),
        lanes: vec![
            spans("Queries", queries),
            spans("On a core", cores),
            spans("File I/O", io),
            spans("Flash", flash),
            Lane { name: "CPU 0".into(), content: LaneContent::Steps { unit: "MHz".into(), steps } },
        ],
    }]
}

pub fn chains() -> Vec<Chain> {
    let start_ns = 5_100_000_000;
    let call = |name: &str, file: &str, offset, at_us: u64, us: u64| ChainCall {
        name: name.into(),
        file: file.into(),
        offset,
        bytes: (name != "sync").then_some(4096),
        start_ns: start_ns + at_us * 1000,
        duration_ns: Some(us * 1000),
        on_core_ns: Some(us * 1000 / 12),
        result: Some(if name == "sync" { 0 } else { 4096 }),
        ..ChainCall::default()
    };
    let sense = |page, us: u64| ChainFlash { kind: "sense".into(), page, time_ns: start_ns + us * 1000 };
    let mut read = call("read", "usertable.db", Some(122_880), 80, 560);
    read.misses = vec![ChainMiss { file: "usertable.db".into(), first_page: 30, pages: 4 }];
    read.flash = vec![sense(8123, 110), sense(8124, 230), sense(8190, 400)];
    let write = call("write", "usertable.db-wal", Some(32), 700, 90);
    let mut sync = call("sync", "usertable.db-wal", None, 800, 2900);
    sync.blocks = vec![ChainBlock {
        device: "179:2".into(),
        write: true,
        first_sector: 90_112,
        sectors: 16,
        issue_ns: start_ns + 900_000,
        duration_ns: Some(2_600_000),
    }];
    let query = |number: u64, label: &str, sql: &str, ms: f64, on_core_ns, calls| ChainQuery {
        number,
        label: label.into(),
        sql: sql.into(),
        start_ns,
        service_ns: (ms * 1e6) as u64,
        response_ns: (ms * 1.4e6) as u64,
        on_core_ns,
        calls,
        ..ChainQuery::default()
    };
    let update = "UPDATE usertable SET field7 = ? WHERE ycsb_key = ?";
    let select = "SELECT ycsb_key, field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 \
                  FROM usertable WHERE ycsb_key = ?";
    vec![Chain {
        id: "chain".into(),
        title: "Pick a query, see its chain".into(),
        caption: "The slowest query, the median, and the first of each kind.".into(),
        queries: vec![
            query(1733, "slowest", update, 4.2, Some(700_000), vec![read.clone(), write, sync]),
            query(12, "median", select, 0.9, Some(300_000), vec![read]),
            query(0, "first select", select, 0.31, None, vec![]),
        ],
    }]
}
