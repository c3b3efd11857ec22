//! The two published phone traces, against numbers that phone_traces.py beside this counted.

use pocketstone_core::events::Window;
use pocketstone_core::events_log::{decode_events, encode_events};
use pocketstone_probe::analysis::{analyse, phone_summary};
use pocketstone_probe::ftrace::{Context, Reading, read};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

fn reference() -> PathBuf {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference");
    std::env::var_os("POCKETSTONE_REFERENCE").map_or_else(beside, PathBuf::from)
}

/// The text of a trace, where the reference material is there.
fn trace(name: &str) -> Option<Vec<u8>> {
    let file = reference().join("pocketdata/ftrace").join(name);
    if !file.exists() {
        let _ = writeln!(std::io::stderr(), "skipped: there is no {}", file.display());
        return None;
    }
    let out = Command::new("gzip").arg("-dc").arg(&file).output().unwrap();
    assert!(out.status.success());
    Some(out.stdout)
}

fn left_out(reading: &Reading) -> Vec<(&str, u64)> {
    reading.left_out.iter().map(|(reason, n)| (reason.as_str(), *n)).collect()
}

/// Reads, writes and syncs of the app between its marks: count, bytes, time.
fn calls(reading: &Reading) -> [(u64, u64, u64); 3] {
    let log = &reading.log;
    let summary = phone_summary(log).unwrap();
    let start = log.events.iter().find(|e| {
        matches!(e.kind, pocketstone_core::events::EventKind::Mark { text }
            if log.marks[text as usize].contains("SQL_START"))
    });
    let start_ns = start.unwrap().time_ns;
    let window = Window { start_ns, end_ns: start_ns + summary.runtime_ns };
    let total = analyse(log, window, &BTreeSet::from([summary.app]), &[], 1).total;
    assert_eq!(total.on_core_ns, summary.on_core_ns);
    [
        (total.reads, total.read_bytes, total.read_ns),
        (total.writes, total.written_bytes, total.write_ns),
        (total.syncs, 0, total.sync_ns),
    ]
}

#[test]
fn the_saturated_read_only_run() {
    let Some(text) = trace("YCSB_WorkloadC_NoTimingsql.log.gz") else { return };
    let reading = read(&text, &Context::default()).unwrap();
    let expected = [
        ("blank line", 2),
        ("comment", 11),
        ("event not used: plsc_delete mkdirat", 1),
        ("event not used: plsc_exec execve", 12),
        ("event not used: plsc_fork clone", 67),
        ("event not used: plsc_fork fork", 54),
        ("event not used: plsc_lseek llseek", 53),
        ("event not used: plsc_lseek lseek", 28),
        ("event not used: plsc_mmap mmap", 503),
    ];
    assert_eq!(left_out(&reading), expected);
    assert_eq!((reading.lines, reading.used), (196_852, 196_852 - 731));
    let summary = phone_summary(&reading.log).unwrap();
    assert_eq!((summary.app, summary.runtime_ns, summary.on_core_ns), (3180, 1_082_858_000, 1_070_291_000));
    let bursts = summary.bursts;
    assert_eq!((bursts.count, bursts.mean_ns, bursts.max_ns), (36, Some(29_730_305), Some(65_541_000)));
    assert_eq!((summary.block_reads, summary.block_read_bytes, summary.block_writes), (13, 155_648, 0));
    assert_eq!(summary.block_mean_ns, Some(1_367_153));
    assert_eq!(calls(&reading), [(3626, 112_655, 16_411_786), (0, 0, 0), (0, 0, 0)]);
    assert_eq!(reading.log.task(3180), Some("chmark_withjson"));
    // By its path's open and its descriptor: the file that all reads of the run are on.
    assert!(reading.log.files.iter().any(|f| f.ends_with("/databases/SQLBenchmark")));
}

#[test]
fn the_run_with_delays_and_writes() {
    let Some(text) = trace("YCSB_WorkloadA_LogTimingsql.log.gz") else { return };
    let start = std::time::Instant::now();
    let reading = read(&text, &Context::default()).unwrap();
    let passed = start.elapsed();
    let _ = writeln!(std::io::stderr(), "{} lines in {passed:?}", reading.lines);
    assert_eq!((reading.lines, reading.used), (332_296, 332_296 - 1177));
    let summary = phone_summary(&reading.log).unwrap();
    assert_eq!((summary.app, summary.runtime_ns, summary.on_core_ns), (3348, 24_344_527_000, 6_864_412_000));
    let bursts = summary.bursts;
    assert_eq!((bursts.count, bursts.mean_ns, bursts.max_ns), (9775, Some(702_241), Some(6_664_000)));
    assert_eq!((summary.block_reads, summary.block_read_bytes), (13, 155_648));
    assert_eq!((summary.block_writes, summary.block_written_bytes), (5842, 18_542_592));
    assert_eq!(summary.block_mean_ns, Some(1_133_047));
    let expected = [(4074, 120_311, 78_849_571), (4987, 7_725_136, 323_863_406), (2235, 0, 6_141_228_490)];
    assert_eq!(calls(&reading), expected);
    let bytes = encode_events(&reading.log).unwrap();
    assert!(bytes.len() < 34 * reading.log.events.len());
    assert_eq!(decode_events(&bytes).unwrap(), reading.log);
}
