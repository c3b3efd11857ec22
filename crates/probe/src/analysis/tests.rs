use super::*;
use crate::ftrace::{Context, OpenFile, read, read_from};
use std::collections::BTreeMap;

/// The text is one thread, 10, on one processor; times in microseconds. Thread 20 is somebody else's.
///
/// ```text
/// 100 operation 0 begins    110-120 read (blocks 112-118)   130 preempted, back at 140   150 ends
/// 150 nothing: asleep 155-190, woken, on core at 195        200 operation 1 begins
/// 220-225 write, 230-280 sync (D 235-270, waits to 275)                                   300 ends
/// ```
const TEXT: &str = include_str!("../../tests/data/operations.ftrace");

fn log() -> EventLog {
    let file = |fd, name: &str| OpenFile { process: 10, fd, name: name.into() };
    let context = Context { open: vec![file(3, "/d/x.db"), file(4, "/d/x.db-wal")], ..Context::default() };
    read(TEXT.as_bytes(), &context).unwrap().log
}

const WINDOW: Window = Window { start_ns: 95_000, end_ns: 400_000 };

fn call(start_us: u64, end_us: u64) -> Call {
    Call { start_ns: start_us * 1000, latency_ns: (end_us - start_us) * 1000, intended_ns: 0 }
}

#[test]
fn costs_are_those_counted_by_hand() {
    let calls = [call(100, 150), call(200, 300)];
    let analysis = analyse(&log(), WINDOW, &BTreeSet::from([10]), &calls, 1);
    assert!(analysis.unavailable.is_empty());
    let first = OperationCost {
        // 50 without 6 of the read and 10 of the other thread.
        on_core_ns: 34_000,
        off_core_ns: 16_000,
        // 117-118 and 130-140.
        waiting_ns: 11_000,
        blocked_ns: 5_000,
        switches: 2,
        wakeups: 1,
        idle_entries: 1,
        reads: 1,
        read_bytes: 4096,
        read_ns: 10_000,
        cache_misses: 2,
        block_reads: 1,
        block_read_bytes: 4096,
        block_ns: 5_000,
        ..OperationCost::default()
    };
    let second = OperationCost {
        on_core_ns: 60_000,
        off_core_ns: 40_000,
        waiting_ns: 5_000,
        blocked_ns: 35_000,
        switches: 1,
        wakeups: 1,
        frequency_changes: 1,
        writes: 1,
        written_bytes: 256,
        write_ns: 5_000,
        syncs: 1,
        sync_ns: 50_000,
        block_writes: 1,
        block_written_bytes: 512,
        block_ns: 30_000,
        ..OperationCost::default()
    };
    assert_eq!(analysis.operations, [first, second]);
    let total = OperationCost {
        // 305 without 16, 40 asleep or woken, and 40.
        on_core_ns: 209_000,
        off_core_ns: 96_000,
        waiting_ns: 21_000,
        sleeping_ns: 35_000,
        blocked_ns: 40_000,
        switches: 4,
        wakeups: 3,
        frequency_changes: 1,
        idle_entries: 1,
        writes: 2,
        write_ns: 7_000,
        block_ns: 35_000,
        reads: 1,
        read_bytes: 4096,
        read_ns: 10_000,
        cache_misses: 2,
        block_reads: 1,
        block_read_bytes: 4096,
        ..second
    };
    assert_eq!(analysis.total, total);
    assert_eq!(total.on_core_ns + total.off_core_ns, WINDOW.end_ns - WINDOW.start_ns);
}

#[test]
fn files_have_their_calls_and_unknown_ones_are_not_hidden() {
    let analysis = analyse(&log(), WINDOW, &BTreeSet::from([10]), &[], 1);
    let short: Vec<_> = analysis
        .files
        .iter()
        .map(|f| (f.file.as_deref(), f.role, [f.reads, f.writes, f.syncs], [f.read_bytes, f.written_bytes], f.sync_ns))
        .collect();
    let expected = [
        (Some("/d/x.db"), Some(FileRole::Other), [1, 0, 0], [4096, 0], 0),
        (Some("/d/x.db-wal"), Some(FileRole::Wal), [0, 1, 1], [0, 256], 50_000),
        (None, None, [0, 1, 0], [0, 0], 0),
    ];
    assert_eq!(short, expected);
    // Its page cache miss is of a file number that nobody named.
    assert_eq!(analysis.files[2].cache_misses, 2);
    assert_eq!(FileRole::of("a.db-journal"), FileRole::Journal);
    assert_eq!(FileRole::of("a.db-shm"), FileRole::SharedMemory);
}

#[test]
fn operations_of_several_threads_are_not_attributed() {
    let calls = [call(100, 150), call(120, 300)];
    for (workers, why) in [(2, "2 threads"), (1, "overlap")] {
        let analysis = analyse(&log(), WINDOW, &BTreeSet::from([10]), &calls, workers);
        assert!(analysis.operations.is_empty());
        assert!(analysis.unavailable[0].why.contains(why), "{:?}", analysis.unavailable);
        assert_eq!(analysis.total.reads, 1);
    }
}

#[test]
fn a_window_cuts_what_reaches_over_its_ends() {
    let window = Window { start_ns: 114_000, end_ns: 132_000 };
    let total = analyse(&log(), window, &BTreeSet::from([10, 20]), &[], 1).total;
    // Thread 10: blocked 114-117, waits 117-118, runs 118-130, waits 130-132. Thread 20: waits 114-130, runs.
    assert_eq!([total.blocked_ns, total.waiting_ns, total.on_core_ns], [3_000, 1_000 + 2_000 + 16_000, 12_000 + 2_000]);
    assert_eq!((total.reads, total.switches, total.block_reads), (0, 1, 0));
}

#[test]
fn a_phone_run_lies_between_its_marks() {
    let mark =
        |us: u64, text: &str| format!("a-10 [000] .... 0.{us:06}: tracing_mark_write: {{\"EVENT\":\"{text}\"}}\n");
    let text = format!("{TEXT}{}{}", mark(105, "SQL_START"), mark(233, "SQL_END"));
    let log = read(text.as_bytes(), &Context::default()).unwrap().log;
    let expected = PhoneSummary {
        name: "SQL".into(),
        parameters: Parameters::default(),
        app: 10,
        start_ns: 105_000,
        runtime_ns: 128_000,
        // 105-112, 118-130, 140-155, 195-233.
        on_core_ns: 72_000,
        bursts: Bursts { count: 4, mean_ns: Some(18_000), max_ns: Some(38_000) },
        // Not known before 141; 141-155 and 195-205; 205-233.
        on_core_khz_ns: BTreeMap::from([(300, 24_000), (600, 28_000)]),
        reads: 1,
        read_bytes: 4096,
        read_ns: 10_000,
        writes: 1,
        written_bytes: 256,
        write_ns: 5_000,
        // It returns after the mark.
        syncs: 0,
        sync_ns: 0,
        block_reads: 1,
        block_read_bytes: 4096,
        block_writes: 0,
        block_written_bytes: 0,
        block_mean_ns: Some(5_000),
        lost_events: false,
    };
    assert_eq!(phone_summary(&log).unwrap(), expected);
    assert_eq!(
        (expected.on_core_share(), expected.mean_khz()),
        (Some(0.5625), Some((24.0 * 300.0 + 28.0 * 600.0) / 52.0))
    );
    let error = phone_summary(&EventLog::default()).unwrap_err();
    assert!(error.message().contains("SQL_START") && error.cure().is_some());
}

#[test]
fn requests_that_never_complete_do_not_hide_later_ones() {
    let mut requests = RequestPairs::default();
    let mut event = |time_ns, kind| requests.event(&Event { time_ns, cpu: 0, pid: 0, kind }, Twin::None);
    let issue = |sector| EventKind::BlockIssue { device: 1, write: false, sector, sectors: 8 };
    let lost = MOST_REQUESTS as u64 * 3;
    (0..lost).for_each(|n| assert!(event(n, issue(n)).is_none()));
    event(lost, issue(lost));
    let complete = |sector| EventKind::BlockComplete { device: 1, write: false, sector, sectors: 8 };
    assert_eq!(event(lost + 7, complete(lost)).unwrap().ns(), Some(7));
    assert_eq!(event(lost + 8, complete(0)).unwrap().ns(), None);
    assert!(requests.issued.len() <= MOST_REQUESTS);
}

/// Name, app, wall time, time on a core and bursts.
type Found = (String, u32, u64, u64, u64);

/// The runs of a text, as they are found while it is read.
fn runs(text: &str) -> pocketstone_core::Result<Vec<Found>> {
    let mut runs = PhoneRuns::default();
    read_from(text.as_bytes(), &Context::default(), &mut runs).unwrap();
    Ok(runs.end()?.into_iter().map(|r| (r.name, r.app, r.runtime_ns, r.on_core_ns, r.bursts.count)).collect())
}

/// A run of 10 ms, of which its app, 7, is on a core for 6 in three spans, on two cores; `mark` is the form of a mark,
/// with `{}` for its text.
fn phone(mark: &str, start: &str, end: &str) -> String {
    let mark = |ms: u32, core: u32, text: &str| {
        format!("<...>-7 [00{core}] ...1 1.{ms:03}000: {}\n", mark.replace("{}", text))
    };
    let switch = |ms: u32, core: u32, prev: u32, state: &str, next: u32| {
        format!(
            "<...>-{prev} [00{core}] ...2 1.{ms:03}000: sched_switch: prev_comm=x prev_pid={prev} prev_prio=120 \
             prev_state={state} ==> next_comm=y next_pid={next} next_prio=120\n"
        )
    };
    [
        switch(1, 0, 0, "R", 7),
        mark(2, 0, start),
        switch(3, 0, 7, "S", 0),
        switch(5, 1, 0, "R", 7),
        switch(8, 1, 7, "R+", 9),
        switch(10, 1, 9, "D", 7),
        mark(12, 1, end),
        switch(15, 1, 7, "S", 0),
    ]
    .concat()
}

#[test]
fn a_run_is_found_in_every_form_of_its_marks() {
    for (mark, start, end, name) in [
        ("tracing_mark_write: {\"EVENT\":\"{}\"}", "SQL_START", "SQL_END", "SQL"),
        ("tracing_mark_write: {\"EVENT\":\"{}\"}\n", "BDB_START", "BDB_END", "BDB"),
        ("tracing_mark_write: {}", "BDB100_START", "BDB100_END", "BDB100"),
        ("tracing_mark_write: \"EVENT\":\"{}\"}\n", "DATABASE_OPEN_START", "DATABASE_OPEN_END", "DATABASE_OPEN"),
        ("tracing_mark_write: B|7|{}", "WAL_START", "WAL_END", "WAL"),
        ("print: 0xffffff80: {}", "H2_START", "H2_END", "H2"),
        ("0: {}", "SQL_START", "SQL_END", ""),
    ] {
        let found = runs(&phone(mark, start, end));
        match name {
            "" => assert!(found.unwrap_err().message().contains("no marks")),
            _ => assert_eq!(found.unwrap(), [(name.to_owned(), 7, 10_000_000, 6_000_000, 3)], "{mark}"),
        }
    }
    let cut = phone("print: {}", "SQL_START", "nothing");
    let error = runs(&cut).unwrap_err();
    assert!(error.message().contains("SQL_START and no SQL_END") && error.cure().is_some(), "{error}");
}

#[test]
fn a_run_is_the_same_read_at_once_or_bit_by_bit() {
    let mark = |us: u64, text: &str| format!("a-10 [000] .... 0.{us:06}: tracing_mark_write: {text}\n");
    let mut lines: Vec<String> = TEXT.lines().map(|line| format!("{line}\n")).collect();
    lines.insert(2, mark(105, "SQL_START"));
    lines.insert(2, mark(104, "{\"EVENT\":\"Parameters\", \"Database\":\"SQL\", \"Governor\":\"ondemand\"}"));
    lines.insert(26, mark(233, "SQL_END"));
    let text = lines.concat();
    let mut found = PhoneRuns::default();
    read_from(text.as_bytes(), &Context::default(), &mut found).unwrap();
    let summary = phone_summary(&read(text.as_bytes(), &Context::default()).unwrap().log).unwrap();
    assert_eq!(found.end().unwrap(), std::slice::from_ref(&summary));
    assert_eq!((summary.runtime_ns, summary.on_core_ns), (128_000, 72_000));
    assert_eq!(summary.parameters.governor.as_deref(), Some("ondemand"));
}

#[test]
fn parameters_are_of_one_run_and_the_runs_in_it() {
    let mark = |us: u64, text: &str| format!("a-10 [000] .... 0.{us:06}: tracing_mark_write: {text}\n");
    let parameters = |us: u64, workload: &str| {
        mark(us, &format!("{{\"EVENT\":\"Parameters\", \"Database\":\"SQL\", \"Workload\":\"{workload}\"}}"))
    };
    let marks = ["SQL_START", "SQL_END", "BDB_START", "BDB_END"];
    let pair = |us: u64, first: usize| mark(us, marks[first]) + &mark(us + 1, marks[first + 1]);
    let workloads = |text: String| -> Vec<Option<String>> {
        let mut runs = PhoneRuns::default();
        read_from(text.as_bytes(), &Context::default(), &mut runs).unwrap();
        runs.end().unwrap().into_iter().map(|run| run.parameters.workload).collect()
    };
    let a = || Some("A".to_owned());
    assert_eq!(workloads(parameters(1, "A") + &pair(2, 0) + &pair(4, 2)), [a(), None]);
    assert_eq!(
        workloads(parameters(1, "A") + &pair(2, 0) + &parameters(4, "C") + &pair(5, 2)),
        [a(), Some("C".into())]
    );
    // A run that is left open has them to its end, and so has one in it.
    assert_eq!(workloads(parameters(1, "A") + &mark(2, "OPEN_START") + &pair(3, 0)), [a()]);
}

#[test]
fn an_insertion_is_no_issue_where_there_are_both() {
    let line = |us: u64, event: &str| format!("a-10 [000] .... 0.{us:06}: {event}\n");
    let request = |us: u64, event: &str| line(us, &format!("{event}: 8,0 R 0 () 64 + 8 [a]"));
    let (start, end) = (line(1, "print: A_START"), line(90, "print: A_END"));
    let mean = |requests: &str| {
        let mut runs = PhoneRuns::default();
        read_from(format!("{start}{requests}{end}").as_bytes(), &Context::default(), &mut runs).unwrap();
        runs.end().unwrap()[0].block_mean_ns
    };
    let (insert, issue) = (request(10, "block_rq_insert"), request(15, "block_rq_issue"));
    let done = request(40, "block_rq_complete");
    assert_eq!(mean(&format!("{insert}{done}")), Some(30_000));
    assert_eq!(mean(&format!("{insert}{issue}{done}")), Some(25_000));
    assert_eq!(mean(&done), None);
}

#[test]
fn a_log_of_endless_short_runs_is_refused() {
    let pairs = |n: u64| -> String {
        let mark = |us: u64, text: &str| {
            format!("  app-77  [000] ...1  {}.{:06}: tracing_mark_write: {text}\n", us / 1_000_000, us % 1_000_000)
        };
        (0..n).map(|i| mark(10 * i, "A_START") + &mark(10 * i + 5, "A_END")).collect()
    };
    let read = |text: String| {
        let mut runs = PhoneRuns::default();
        crate::ftrace::read_from(text.as_bytes(), &crate::ftrace::Context::default(), &mut runs).unwrap();
        runs.end()
    };
    assert_eq!(read(pairs(4096)).unwrap().len(), 4096);
    let error = read(pairs(4100)).unwrap_err();
    assert!(error.message().contains("4100 runs") && error.cure().is_some(), "{error}");
}

/// Frequencies and words without end: as many are told apart as a phone has, and the rest of the run is what it is.
#[test]
fn what_is_kept_of_a_run_is_bounded() {
    let line = |us: u64, event: &str| format!("app-77 [000] ...1 {}.{:06}: {event}\n", us / 1_000_000, us % 1_000_000);
    let khz = |us: u64, khz: u64| line(us, &format!("cpu_frequency: state={khz} cpu_id=0"));
    let run = |said: &str, changes: String, end_us: u64| {
        let text = line(0, &format!("print: {said}")) + &line(1, "print: A_START") + &changes;
        let mut runs = PhoneRuns::default();
        read_from((text + &line(end_us, "print: A_END")).as_bytes(), &Context::default(), &mut runs).unwrap();
        runs.end().unwrap().remove(0)
    };
    let long = "w".repeat(129);
    let said = format!("{{\"EVENT\":\"Parameters\", \"Workload\":\"{long}\", \"Governor\":\"ondemand\"}}");
    // 300 frequencies for 1 us each, from 10 us on.
    let many = run(&said, (10..310).map(|us| khz(us, 1000 + us)).collect(), 310);
    assert_eq!((many.on_core_ns, many.on_core_khz_ns.len()), (309_000, 256));
    assert!(many.on_core_khz_ns.values().all(|ns| *ns == 1000));
    assert_eq!((many.parameters.workload, many.parameters.governor.as_deref()), (None, Some("ondemand")));
    // 20,000 changes within one span: the 16,384th and those after it count as the last of them.
    let often = run("x", (10..20_010).map(|us| khz(us, us % 2 + if us < 20_000 { 1 } else { 5 })).collect(), 20_100);
    let last = 20_100 - (10 + 16_383);
    let expected = [(1, 8192), (2, 8191), (6, last)].map(|(khz, us)| (khz, 1000 * us));
    assert_eq!(often.on_core_khz_ns.into_iter().collect::<Vec<_>>(), expected);
}
