//! The two published phone traces as activities, against times that crates/probe/tests/phone_traces.py counted.

use pocketstone_probe::ftrace::{Context, read};
use pocketstone_replay::activity::{Activity, Segment, from_phone};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// The activity of a trace at one cycle in a nanosecond, where the reference material is there.
fn activity(name: &str) -> Option<Activity> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference");
    let folder = std::env::var_os("POCKETSTONE_REFERENCE").map_or_else(beside, PathBuf::from);
    let file = folder.join("pocketdata/ftrace").join(name);
    if !file.exists() {
        let _ = writeln!(std::io::stderr(), "skipped: there is no {}", file.display());
        return None;
    }
    let out = Command::new("gzip").arg("-dc").arg(&file).output().unwrap();
    assert!(out.status.success());
    Some(from_phone(&read(&out.stdout, &Context::default()).unwrap().log, 1.0).unwrap())
}

/// Operations, transactions, computing, waits for devices and delays, in ns.
fn sums(activity: &Activity) -> (usize, usize, u64, u64, u64) {
    let operations = &activity.threads[0].operations;
    let (mut cycles, mut io_ns) = (0, 0);
    for segment in operations.iter().flat_map(|o| &o.segments) {
        match segment {
            Segment::Compute { cycles: of } => cycles += of,
            Segment::Io { ns, .. } => io_ns += ns,
            Segment::Stall { .. } | Segment::Sleep { .. } => panic!("{segment:?} in a phone's run"),
        }
    }
    let transactions = operations.iter().filter(|o| o.transaction).count();
    (operations.len(), transactions, cycles, io_ns, operations.iter().map(|o| o.delay_ns).sum())
}

#[test]
fn the_saturated_read_only_run() {
    let Some(activity) = activity("YCSB_WorkloadC_NoTimingsql.log.gz") else { return };
    let (operations, transactions, cycles, io_ns, delay_ns) = sums(&activity);
    assert_eq!((cycles, transactions), (1_070_291_000, 0));
    assert!(operations <= 36, "{operations} operations of 36 spans on a core");
    assert!(cycles + io_ns + delay_ns <= 1_082_858_000);
}

#[test]
fn the_run_with_delays_and_writes() {
    let Some(activity) = activity("YCSB_WorkloadA_LogTimingsql.log.gz") else { return };
    let (operations, transactions, cycles, io_ns, delay_ns) = sums(&activity);
    assert_eq!(cycles, 6_864_412_000);
    // 1798 of the workload's 1799 delays are longer than 0 ms, all together 11.544 s; a sleep lasts at least that.
    assert!((1798..1900).contains(&operations), "{operations}");
    assert!((11_544_000_000..13_000_000_000).contains(&delay_ns), "{delay_ns}");
    // The published workload has 921 updates; 447 of them are of keys that there are, the others write nothing.
    assert_eq!(transactions, 447);
    assert!(cycles + io_ns + delay_ns <= 24_344_527_000, "{io_ns}");
}
