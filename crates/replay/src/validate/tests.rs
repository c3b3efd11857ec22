use super::*;
use crate::device::{Cluster, IdleState, OperatingPoint};

const HEAD: &str = "workload,delay,governor,sql_cpu_s,sql_wall_s\n";

/// One core of 500 MHz and 1 GHz that wakes in no time.
fn device() -> Device {
    let cluster = Cluster {
        name: "cpu".into(),
        cores: 1,
        points: [500_000, 1_000_000].map(|khz| OperatingPoint { khz, power_mw: 1.0 }).to_vec(),
        idle: vec![IdleState { name: "idle".into(), power_mw: 0.0, exit_ns: 0, least_ns: 0 }],
        ..Cluster::default()
    };
    Device { name: "test".into(), clusters: vec![cluster], cycles_per_recorded_ns: 1.0, ..Device::default() }
}

/// By hand: 1.8 s pinned at 1 GHz are 3.6 s at 500 MHz, I/O stays, and there are 1,799 delays between operations.
#[test]
fn times_at_half_the_frequency_are_those_by_hand() {
    let table = format!("{HEAD}A,0ms,clean,1.8,2.721\nA,1ms,real,9,10\nA,1ms,clean,1.8,4.6\nA,log,real,3.6,17.6\n")
        + "A,0ms,real,3.5,4.6\n";
    let checks = checks("t.csv", &table, &device(), &"powersave".parse().unwrap(), &[]).unwrap();
    let rows: Vec<_> = checks.iter().map(|c| (c.row.as_str(), c.quantity, c.measured)).collect();
    let expected = [
        ("A 1ms sql", "cpu_s", 9.0),
        ("A 1ms sql", "wall_s", 10.0),
        ("A log sql", "cpu_s", 3.6),
        ("A log sql", "wall_s", 17.6),
        ("A 0ms sql", "cpu_s", 3.5),
        ("A 0ms sql", "wall_s", 4.6),
    ];
    assert_eq!(rows, expected);
    let near = |check: &Check, by_hand: f64| (check.predicted / by_hand - 1.0).abs() < 1e-3;
    // The published delays, round(ln i) ms, are 11.544 s together.
    let by_hand = [3.6, 3.6 + 0.921 + 1.799, 3.6, 3.6 + 0.921 + 11.544, 3.6, 3.6 + 0.921];
    for (check, by_hand) in checks.iter().zip(by_hand) {
        assert!(near(check, by_hand), "{check:?} {by_hand}");
    }
    let (median, worst) = errors(&checks).unwrap();
    assert!(worst.measured == 9.0 && median > 0.0 && errors(&[]).is_none());
}

#[test]
fn what_is_wrong_with_a_table_is_named_with_its_line() {
    let clean = "C,0ms,clean,1,1.1\n";
    for (text, place, word) in [
        ("a,b\n1,2\n".to_owned(), "t.csv:1:", "not a table"),
        (format!("{HEAD}{clean}C,1ms,real,1\n"), "t.csv:3:", "4 cells"),
        (format!("{HEAD}{clean}C,1ms,real,-1,2\n"), "t.csv:3:", "`-1`"),
        (format!("{HEAD}{clean}C,2ms,real,1,2\n"), "t.csv:3:", "2ms"),
        (format!("{HEAD}{clean}C,1ms,fast,1,2\n"), "t.csv:3:", "fast"),
        (format!("{HEAD}C,1ms,real,1,2\n"), "t.csv:1:", "no pinned run"),
        ("workload,delay,governor,sql_cpu_s\nC,0ms,clean,1\n".to_owned(), "t.csv:1:", "sql_wall_s"),
        ("cluster,n_cpus,policy,runtime_s\nbig,x,fixed30,1\n".to_owned(), "t.csv:2:", "CPUs"),
    ] {
        let error = checks("t.csv", &text, &device(), &"powersave".parse().unwrap(), &[]).unwrap_err();
        assert!(error.chain().contains(place) && error.chain().contains(word), "{}", error.chain());
        assert!(error.cure().is_some());
    }
    let unknown = format!("{HEAD}Z,0ms,clean,1,1.1\nZ,1ms,real,1,2\n");
    let error = checks("t.csv", &unknown, &device(), &"powersave".parse().unwrap(), &[]).unwrap_err();
    assert!(error.chain().contains("`Z`") && error.cure().is_some(), "{}", error.chain());
}

#[test]
fn an_unknown_workload_leaves_the_known_ones_and_is_named_once() {
    let known = "C,0ms,clean,1,1.1\nC,1ms,real,1,2\n";
    let table = format!("{HEAD}Z,0ms,clean,1,1.1\n{known}Z,7ms,real,1,2\nY,1ms,real,1,2\n");
    let found = checks("t.csv", &table, &device(), &"powersave".parse().unwrap(), &[]).unwrap();
    assert_eq!(
        found,
        checks("t.csv", &format!("{HEAD}{known}"), &device(), &"powersave".parse().unwrap(), &[]).unwrap()
    );
    assert_eq!(
        (found.len(), unknown_workloads("t.csv", &table, &[]).unwrap()),
        (2, vec!["Z".to_owned(), "Y".to_owned()])
    );
    assert!(unknown_workloads("t.csv", "cluster,n_cpus,policy\nbig,1,fixed30\n", &[]).unwrap().is_empty());
}

/// A recording of operations of so many cycles, all of which wait for a sync of so many ns.
fn recording(workload: &str, engine: &str, operations: &[(u64, u64)]) -> Recording {
    let operation = |&(cycles, ns): &(u64, u64)| Operation {
        delay_ns: 77,
        segments: vec![Segment::Compute { cycles }, Segment::Io { ns, kind: IoKind::Sync }],
        ..Operation::default()
    };
    let operations = operations.iter().map(operation).collect();
    let activity = Activity { threads: vec![Thread { operations, background: false }] };
    Recording { workload: workload.to_owned(), engine: engine.to_owned(), activity }
}

/// By hand: 2 s pinned at 1 GHz are 4 s at 500 MHz, 1 s of I/O stays, and there is a delay before each operation but
/// the first: so the operations of the recording that was taken are seen in the wall seconds.
#[test]
fn work_lies_among_the_operations_as_in_the_recordings_of_the_engine() {
    let head = "workload,delay,governor,sql_cpu_s,sql_wall_s,bdb100_cpu_s,bdb100_wall_s\n";
    let table = format!("{head}Z,0ms,clean,2,3,2,3\nZ,1ms,real,1,1,1,1\n");
    let of = |engine, operations: usize| recording("Z", engine, &vec![(50, 5); operations]);
    let walls = |recordings: &[Recording]| {
        let found = checks("t.csv", &table, &device(), &"powersave".parse().unwrap(), recordings).unwrap();
        let near = |check: &&Check| check.quantity == "cpu_s" && (check.predicted - 4.0).abs() < 1e-3;
        assert_eq!(found.iter().filter(near).count(), 2, "{found:?}");
        let walls = found.iter().filter(|check| check.quantity == "wall_s");
        walls.map(|check| ((check.predicted - 5.0) * 1e3).round() as i64).collect::<Vec<_>>()
    };
    // The median of three trials, and one of Berkeley DB, which has another column.
    assert_eq!(walls(&[of("sql", 3), of("sql", 11), of("sql", 8), of("bdb", 101)]), [7, 100]);
    assert_eq!(walls(&[of("sql", 3)]), [2, 2]);
    assert_eq!(unknown_workloads("t.csv", &table, &[of("sql", 3)]).unwrap(), Vec::<String>::new());
    let nothing =
        checks("t.csv", &table, &device(), &"powersave".parse().unwrap(), &[recording("Z", "sql", &[(0, 5)])]);
    assert!(nothing.unwrap_err().cure().is_some());
}

#[test]
fn cycles_and_waits_of_a_recording_become_those_of_the_pinned_run() {
    let mut device = device();
    let work = PinnedWork { cycles: 4_000, io_ns: 600 };
    let of = |recording: &Recording, device: &Device| -> Vec<Vec<Segment>> {
        let scaled = scaled(&recording.activity, &work, device).unwrap();
        assert!(scaled.threads[0].operations.iter().all(|o| o.delay_ns == 0));
        scaled.threads[0].operations.iter().map(|o| o.segments.clone()).collect()
    };
    let (cycles, io) = (|cycles| Segment::Compute { cycles }, |ns, kind| Segment::Io { ns, kind });
    let mut recorded = recording("A", "sql", &[(10, 20), (30, 40)]);
    // Without times of the storage, waits are to each other as they were.
    let sync = IoKind::Sync;
    assert_eq!(of(&recorded, &device), [[cycles(1_000), io(200, sync)], [cycles(3_000), io(400, sync)]]);
    // With them, as those of their kinds.
    device.storage.times = Some(crate::device::StorageTimes { read_ns: 1, write_ns: 1, sync_ns: 5 });
    recorded.activity.threads[0].operations[0].segments[1] = io(20, IoKind::Read);
    assert_eq!(of(&recorded, &device), [[cycles(1_000), io(100, IoKind::Read)], [cycles(3_000), io(500, sync)]]);
    // A recording that waited for nothing reads in each operation.
    for operation in &mut recorded.activity.threads[0].operations {
        operation.segments.truncate(1);
    }
    let read = io(300, IoKind::Read);
    assert_eq!(of(&recorded, &device), [[cycles(1_000), read], [cycles(3_000), read]]);
}
