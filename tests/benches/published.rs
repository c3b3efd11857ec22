//! What the project reads of others' published files, against what is known of them: PocketData's workloads, and two
//! traces of a phone. They are large and not this project's, so `POCKETSTONE_REFERENCE` names the folder they are in.

use pocketstone_core::database::Delay;
use pocketstone_core::events::{EventKind, Window};
use pocketstone_core::events_log::{decode_events, encode_events};
use pocketstone_probe::analysis::{PhoneSummary, analyse, phone_summary};
use pocketstone_probe::ftrace::{Context, Reading, read};
use pocketstone_replay::activity::{Activity, Segment};
use pocketstone_replay::recorded::from_phone;
use pocketstone_testing::{Need, or_skip};
use pocketstone_tests::command::{lab, write};
use pocketstone_workload::database::{from_published, to_published};
use rusqlite::Connection;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

fn main() {
    let folder = std::env::var_os("POCKETSTONE_REFERENCE").map(PathBuf::from);
    let folder = folder.map(|folder| folder.join("pocketdata")).filter(|folder| folder.is_dir());
    let folder = or_skip!(folder.ok_or_else(|| Need::ReferenceData.lacks("PocketData's published files are not here")));
    type Check = fn(&Path);
    let checks: [(&str, Check); 6] = [
        ("the published workloads run unchanged and are written as they were", workloads),
        ("they give the system calls of figure 9", figure_9),
        ("H2 returns for them what SQLite returns", h2),
        ("recordings of them predict a phone's runs", validation),
        ("the saturated read-only run of a phone", saturated),
        ("the run of a phone with delays and writes", with_delays),
    ];
    for (name, check) in checks {
        let start = Instant::now();
        check(&folder);
        let _ = writeln!(std::io::stdout(), "published: {name}: {:.1} s", start.elapsed().as_secs_f64());
    }
}

/// What a program that unpacks writes to its standard output.
fn unpacked(program: &str, path: &Path) -> Vec<u8> {
    let output = Command::new(program).arg("-dc").arg(path).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(output.status.success(), "{}", path.display());
    output.stdout
}

fn workload(folder: &Path, name: &str) -> Vec<u8> {
    unpacked("xz", &folder.join(format!("workload_{name}.json.xz")))
}

fn workloads(folder: &Path) {
    // Counts that were taken from the files by another program: SELECT, UPDATE, INSERT.
    for (letter, counts) in [("a", [879, 921, 0]), ("b", [1700, 100, 0]), ("c", [1800, 0, 0]), ("e", [1707, 0, 93])] {
        for delays in ["0ms", "log"] {
            let name = format!("{letter}_{delays}");
            let json = workload(folder, &name);
            let trace = from_published(&json, None, 1).unwrap();
            let words = trace.summary().words;
            let count = |word: &str| words.iter().find(|(w, _)| w == word).map_or(0, |(_, n)| *n);
            assert_eq!(["SELECT", "UPDATE", "INSERT"].map(count), counts, "{name}");
            assert_eq!((trace.loading().len(), trace.operations()), (501, 1800));
            let written: Value = serde_json::from_str(&to_published(&trace).unwrap()).unwrap();
            assert_eq!(written, serde_json::from_slice::<Value>(&json).unwrap(), "{name}");

            // The lab's own delays of that name are the ones in the file.
            let delay = if delays == "log" { Delay::PublishedLog } else { Delay::None };
            let mut paced = trace.clone();
            paced.set_delays(Delay::Fixed { ns: 1 }, 1);
            assert_ne!(paced, trace);
            paced.set_delays(delay, 1);
            assert_eq!(paced, trace);
        }
    }
}

/// Runs a study of published workloads without delays, with more factors; the results.
fn study(folder: &Path, home: &Path, names: &[&str], factors: &str) -> Connection {
    for name in names {
        fs::write(home.join(format!("{name}.json")), workload(folder, &format!("{name}_0ms"))).unwrap();
    }
    let files: Vec<String> = names.iter().map(|name| format!("'{name}.json'")).collect();
    let text = format!(
        "title = 't'\nboard = 'host'\n[[experiment]]\nname = 'e'\n[experiment.factors]\nfile_system = 'directory'\n\
         workload = 'prepared'\nworkload_file = [{}]\ndelay = 'own'\n{factors}\n",
        files.join(", ")
    );
    write(home, "published.toml", &text);
    // SQLite records its calls itself: the kernel's trace need not be there.
    lab(home, &["run", "published.toml", "--output", "out"]).ends_with(0);
    pocketstone_tests::results::read(&home.join("out"))
}

/// Figure 9 of the paper: reads, writes and syncs of SQLite on a phone.
const FIGURE_9: [(&str, [f64; 3]); 4] = [
    ("a", [4073.0, 4986.0, 2234.0]),
    ("b", [3675.0, 572.0, 244.0]),
    ("c", [3625.0, 0.0, 0.0]),
    ("e", [3719.0, 1037.0, 464.0]),
];

fn figure_9(folder: &Path) {
    let home = tempfile::tempdir().unwrap();
    let factors = "sql = 'text'\njournal_mode = 'persist'\nsynchronous = 'full'";
    let db = study(folder, home.path(), &FIGURE_9.map(|(name, _)| name), factors);
    let number = |sql: &str| -> f64 { db.query_row(sql, [], |r| r.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}")) };
    for (name, paper) in FIGURE_9 {
        for (metric, expected) in ["reads", "writes", "syncs"].into_iter().zip(paper) {
            let found = number(&format!(
                "SELECT median FROM summary WHERE metric = '{metric}' AND workload_file = '{name}.json'"
            ));
            assert!((found - expected).abs() <= 0.02 * expected, "{name} {metric}: {found}, the paper has {expected}");
        }
    }
    // Each file has a name, and a rollback journal is told from the database.
    assert_eq!(number("SELECT count(*) FROM file_cost WHERE file IS NULL"), 0.0);
    let journal = "SELECT sum(writes) > 1000 AND sum(syncs) > 1000 FROM file_cost WHERE role = 'journal'";
    assert_eq!(number(journal), 1.0);
}

/// A cell whose engine returns something else than SQLite in memory fails.
fn h2(folder: &Path) {
    let home = tempfile::tempdir().unwrap();
    let db = study(folder, home.path(), &["a", "e"], "engine = ['sqlite', 'h2']\nsql = ['prepared', 'text']");
    let sql = "SELECT count(*) FROM cells WHERE engine = 'h2' AND status = 'done'";
    let done: i64 = db.query_row(sql, [], |r| r.get(0)).unwrap();
    if done == 0 {
        Need::Engines.lacks("H2 against the published workloads").end();
    }
}

/// The published times of a phone against the model, from this machine's recordings of the published files: each row,
/// and the median and the worst error of each quantity by delay.
fn validation(folder: &Path) {
    let home = tempfile::tempdir().unwrap();
    let factors = "sql = 'text'\njournal_mode = 'persist'\nsynchronous = 'full'\n[[validation]]\nname = 'v'\n\
                   table = 'pocketdata/measured_msm8974.csv'\ndevice = 'nexus-5'\ngovernor = 'ondemand-legacy'\n\
                   recordings = 'e'";
    let db = study(folder, home.path(), &["a", "c", "e"], factors);
    let mut query = db.prepare("SELECT row, quantity, predicted, measured FROM validation ORDER BY 2, 1").unwrap();
    let rows = query.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?))).unwrap();
    let rows: Vec<(String, String, f64, f64)> = rows.collect::<Result<_, _>>().unwrap();
    // Three workloads, delays and engines.
    assert_eq!(rows.len(), 2 * 27);
    let mut out = std::io::stdout().lock();
    let mut errors: BTreeMap<(&str, &str), Vec<(f64, &str)>> = BTreeMap::new();
    for (row, quantity, predicted, measured) in &rows {
        let error = predicted / measured - 1.0;
        let _ = writeln!(out, "  {row:<14} {quantity:<7} {predicted:>8.3} {measured:>8.3} {:>+6.1} %", 100.0 * error);
        let delay = row.split(' ').nth(1).unwrap();
        for of in [delay, "all"] {
            errors.entry((quantity.as_str(), of)).or_default().push((error, row.as_str()));
        }
    }
    for ((quantity, delay), mut found) in errors {
        found.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
        let (worst, row) = found[found.len() - 1];
        let (median, worst) = (100.0 * found[found.len() / 2].0.abs(), 100.0 * worst);
        let _ = writeln!(out, "  {quantity}, {delay}: median error {median:.1} %, worst {worst:+.1} % ({row})");
    }
}

fn trace(folder: &Path, name: &str) -> (Reading, PhoneSummary) {
    let text = unpacked("gzip", &folder.join("ftrace").join(name));
    let reading = read(text.as_slice(), &Context::default()).unwrap();
    let summary = phone_summary(&reading.log).unwrap();
    (reading, summary)
}

/// Reads, writes and syncs of the app between its marks: count, bytes, time.
fn calls(reading: &Reading) -> [(u64, u64, u64); 3] {
    let log = &reading.log;
    let summary = phone_summary(log).unwrap();
    let is_start =
        |kind: &EventKind| matches!(kind, EventKind::Mark { text } if log.marks[*text as usize].contains("SQL_START"));
    let start_ns = log.events.iter().find(|e| is_start(&e.kind)).unwrap().time_ns;
    let window = Window { start_ns, end_ns: start_ns + summary.runtime_ns };
    let total = analyse(log, window, &BTreeSet::from([summary.app]), &[], 1).total;
    assert_eq!(total.on_core_ns, summary.on_core_ns);
    [
        (total.reads, total.read_bytes, total.read_ns),
        (total.writes, total.written_bytes, total.write_ns),
        (total.syncs, 0, total.sync_ns),
    ]
}

/// Operations, transactions, computing at one cycle in a nanosecond, waits for devices and delays, in ns.
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

// The numbers of both runs were counted by tests/benches/phone_traces.py, which shares nothing with the crates.

fn saturated(folder: &Path) {
    let (reading, summary) = trace(folder, "YCSB_WorkloadC_NoTimingsql.log.gz");
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
    let left_out: Vec<(&str, u64)> = reading.left_out.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
    assert_eq!(left_out, expected);
    assert_eq!((reading.lines, reading.used), (196_852, 196_852 - 731));
    assert_eq!((summary.app, summary.runtime_ns, summary.on_core_ns), (3180, 1_082_858_000, 1_070_291_000));
    let bursts = &summary.bursts;
    assert_eq!((bursts.count, bursts.mean_ns, bursts.max_ns), (36, Some(29_730_305), Some(65_541_000)));
    assert_eq!((summary.block_reads, summary.block_read_bytes, summary.block_writes), (13, 155_648, 0));
    assert_eq!(summary.block_mean_ns, Some(1_367_153));
    assert_eq!(calls(&reading), [(3626, 112_655, 16_411_786), (0, 0, 0), (0, 0, 0)]);
    assert_eq!(reading.log.task(3180), Some("chmark_withjson"));
    // By its path's open and its descriptor: the file that all reads of the run are on.
    assert!(reading.log.files.iter().any(|f| f.ends_with("/databases/SQLBenchmark")));

    let (operations, transactions, cycles, io_ns, delay_ns) = sums(&from_phone(&reading.log, 1.0).unwrap().0);
    assert_eq!((cycles, transactions), (1_070_291_000, 0));
    assert!(operations <= 36, "{operations} operations of 36 spans on a core");
    assert!(cycles + io_ns + delay_ns <= 1_082_858_000);
}

fn with_delays(folder: &Path) {
    let (reading, summary) = trace(folder, "YCSB_WorkloadA_LogTimingsql.log.gz");
    assert_eq!((reading.lines, reading.used), (332_296, 332_296 - 1177));
    assert_eq!((summary.app, summary.runtime_ns, summary.on_core_ns), (3348, 24_344_527_000, 6_864_412_000));
    let bursts = &summary.bursts;
    assert_eq!((bursts.count, bursts.mean_ns, bursts.max_ns), (9775, Some(702_241), Some(6_664_000)));
    assert_eq!((summary.block_reads, summary.block_read_bytes), (13, 155_648));
    assert_eq!((summary.block_writes, summary.block_written_bytes), (5842, 18_542_592));
    assert_eq!(summary.block_mean_ns, Some(1_133_047));
    let expected = [(4074, 120_311, 78_849_571), (4987, 7_725_136, 323_863_406), (2235, 0, 6_141_228_490)];
    assert_eq!(calls(&reading), expected);
    let bytes = encode_events(&reading.log).unwrap();
    assert!(bytes.len() < 34 * reading.log.events.len());
    assert_eq!(decode_events(&bytes).unwrap(), reading.log);

    let (operations, transactions, cycles, io_ns, delay_ns) = sums(&from_phone(&reading.log, 1.0).unwrap().0);
    assert_eq!(cycles, 6_864_412_000);
    // 1798 of the workload's 1799 delays are longer than 0 ms, all together 11.544 s; a sleep lasts at least that.
    assert!((1798..1900).contains(&operations), "{operations}");
    assert!((11_544_000_000..13_000_000_000).contains(&delay_ns), "{delay_ns}");
    // The published workload has 921 updates; 447 of them are of keys that there are, the others write nothing.
    assert_eq!(transactions, 447);
    assert!(cycles + io_ns + delay_ns <= 24_344_527_000, "{io_ns}");
}
