//! Perfetto's binary traces through the command: a phone's, whose text is read to the same results; what the lab itself
//! exports; and those that nothing but malice or damage writes.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pocketstone_core::events::{Event, EventKind, EventLog, Window};
use pocketstone_core::events_log::decode_events;
use pocketstone_probe::analysis::analyse;
use pocketstone_probe::ftrace::Context;
use pocketstone_probe::perfetto;
use pocketstone_testing::protobuf::{bytes, number, varint};
use pocketstone_testing::{Need, or_skip, root};
use pocketstone_tests::command::{binary, lab, write};
use pocketstone_tests::small_study::{Database, study};
use pocketstone_tests::{project, results};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: usize = 1 << 20;

/// Memory of its own that the command may have.
const MEMORY_KIB: u64 = 96 << 10;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let ran = lab(folder, arguments).ends_with(0);
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.out))
}

/// A text in Perfetto's form, made by a script that shares nothing with the crates: as a phone's own, or plain.
fn converted(text: &Path, form: &str, trace: &Path) {
    let script = project().join("tests/tests/perfetto_traces/to_perfetto.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(form).stdin(File::open(text).unwrap()).stdout(File::create(trace).unwrap());
    assert!(command.status().expect("python3 starts").success());
}

/// A log of 40 ms whose app, 77, sleeps, waits for a device, is preempted, and moves between two cores whose
/// frequencies change.
fn log() -> String {
    let line = |us: u64, core: u32, pid: u32, event: &str| {
        format!("           <...>-{pid}  [{core:03}] ...1 {:>5}.{:06}: {event}\n", 7, us)
    };
    let switch = |us: u64, core: u32, prev: u32, state: &str, next: u32| {
        let event = format!(
            "sched_switch: prev_comm=a b prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=a b \
             next_pid={next} next_prio=120"
        );
        line(us, core, prev, &event)
    };
    let waking = |us: u64, core: u32, pid: u32| {
        line(us, core, 0, &format!("sched_waking: comm=a b pid={pid} prio=120 target_cpu=000"))
    };
    let request = |us: u64, pid: u32, event: &str| line(us, 0, pid, &format!("{event}: 259,300 WS 0 () 64 + 8 [x]"));
    [
        line(100, 0, 0, "cpu_frequency: state=300000 cpu_id=0"),
        line(110, 1, 0, "cpu_frequency: state=900000 cpu_id=1"),
        switch(500, 0, 0, "R", 77),
        switch(600, 1, 0, "R", 9),
        line(1_000, 0, 77, "tracing_mark_write: B|77|SQL_START"),
        switch(2_000, 0, 77, "S", 0),
        line(2_500, 1, 9, "cpu_frequency: state=600000 cpu_id=0"),
        line(2_600, 0, 0, "cpu_idle: state=4294967295 cpu_id=0"),
        waking(3_900, 0, 77),
        switch(4_000, 0, 0, "R", 77),
        request(5_000, 77, "block_rq_insert"),
        switch(8_000, 0, 77, "D", 0),
        request(9_000, 0, "block_rq_complete"),
        switch(12_000, 1, 9, "S", 0),
        waking(14_000, 1, 77),
        switch(15_000, 1, 0, "R", 77),
        switch(18_000, 1, 77, "R+", 9),
        switch(20_000, 1, 9, "S", 77),
        line(41_000, 1, 77, "print: 0xffffff80: SQL_END"),
        switch(42_000, 1, 77, "S", 0),
    ]
    .concat()
}

#[test]
fn a_phones_trace_is_what_its_text_is() {
    let home = folder();
    let at = |name: &str| home.path().join(name);
    fs::create_dir(at("logs")).unwrap();
    write(home.path(), "x.log", &log());
    let text = json(home.path(), &["trace", "x.log", "--json"]);
    assert_eq!((&text["form"], &text["run"]["on_core_ns"]), (&"ftrace".into(), &29_000_000.into()));
    let advised = |file: &str| json(home.path(), &["advise", "governor", file, "--device", "nexus-5", "--json"]);
    for (form, name) in [("phone", "logs/WorkloadC_NoTimingsql.pftrace"), ("plain", "logs/any.txt")] {
        converted(&at("x.log"), form, &at(name));
        // By its content, whatever its name is, and from a pipe.
        let found = json(home.path(), &["trace", name, "--json"]);
        assert_eq!((&found["form"], &found["run"]), (&"perfetto".into(), &text["run"]), "{form}");
        let piped = format!("gzip -c {name} | '{}' trace - --json", binary().display());
        let out = Command::new("sh").args(["-c", &piped]).current_dir(home.path()).output().unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&out.stdout).unwrap()["run"], text["run"], "{form}");
        assert_eq!(advised(name)["advice"], advised("x.log")["advice"], "{form}");
    }
    lab(home.path(), &["trace", "logs/any.txt"]).ends_with(0).says(&["events and other packets", "SQL by thread 77"]);
    assert!(Command::new("gzip").arg(at("logs/any.txt")).status().unwrap().success());
    let rows = json(home.path(), &["trace", "logs", "--json"]);
    let rows = rows.as_array().unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["run"] == text["run"]), "{rows:?}");
    assert!(rows.iter().any(|row| row["of"]["workload"] == "C" && row["of"]["engine"] == "sqlite"), "{rows:?}");
}

/// The published logs, whose folder `POCKETSTONE_REFERENCE` names.
fn published(name: &str) -> Result<PathBuf, pocketstone_testing::Skip> {
    let folder = std::env::var_os("POCKETSTONE_REFERENCE").map(PathBuf::from);
    let file = folder.map(|folder| folder.join("pocketdata/ftrace").join(name)).filter(|file| file.is_file());
    file.ok_or_else(|| Need::ReferenceData.lacks(format!("PocketData's log {name} is not here")))
}

/// But for their calls, which are events of a kernel of their own, that Perfetto does not know.
#[test]
#[ignore = "reads published files, which are not this project's: make torture"]
fn the_published_logs_are_the_same_in_perfettos_form() {
    for name in ["YCSB_WorkloadC_NoTimingsql.log.gz", "YCSB_WorkloadA_LogTimingsql.log.gz"] {
        let file = or_skip!(published(name));
        let home = folder();
        let text = home.path().join("x.log");
        let unpacked = Command::new("gzip").arg("-cd").arg(&file).stdout(File::create(&text).unwrap()).status();
        assert!(unpacked.unwrap().success());
        let without_calls = |file: &str| {
            let mut found = json(home.path(), &["trace", file, "--json"]);
            assert!(found["events"].as_u64().unwrap() > 100_000, "{}", found["events"]);
            let run = found["run"].as_object_mut().unwrap();
            run.retain(|key, _| !["read", "writ", "sync"].iter().any(|call| key.starts_with(call)));
            assert!(run["on_core_ns"].as_u64().unwrap() > 1_000_000_000);
            Value::from(run.clone())
        };
        let expected = without_calls("x.log");
        for form in ["phone", "plain"] {
            converted(&text, form, &home.path().join("x.pftrace"));
            assert_eq!(without_calls("x.pftrace"), expected, "{name} as {form}");
        }
    }
}

/// Cells with a database, each with its traced twin.
fn cells() -> String {
    let database = Database { operations: 60, traced: "each", ..Database::default() };
    study(&[database.experiment()])
}

/// Time that each thread was on a core, and how often it came there.
fn threads(log: &EventLog, window: Window) -> Vec<(u32, u64, u64)> {
    let threads: BTreeSet<u32> = log.tasks.iter().map(|(thread, _)| *thread).collect();
    let of = |thread: &u32| {
        let total = analyse(log, window, &BTreeSet::from([*thread]), &[], 1).total;
        let comes = |event: &&Event| matches!(event.kind, EventKind::Switch { next, .. } if next == *thread);
        (*thread, total.on_core_ns, log.events.iter().filter(comes).count() as u64)
    };
    threads.iter().map(of).collect()
}

/// A study's replays of a text and of the same in Perfetto's form.
#[test]
fn a_phones_trace_is_replayed_as_its_text_is() {
    let home = folder();
    write(home.path(), "x.log", &log());
    converted(&home.path().join("x.log"), "phone", &home.path().join("x.pftrace"));
    let replay = "[[replay]]\nname = 'phones'\nlogs = ['x.log', 'x.pftrace']\ndevices = ['nexus-5']\n\
                  governors = ['performance', 'ondemand']\n";
    write(home.path(), "study.toml", &cells().replace("[[experiment]]", &format!("{replay}[[experiment]]")));
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let of = |log: &str| -> String {
        let sql = format!(
            "SELECT group_concat(governor || ' ' || metric || ' ' || median, '; ') FROM \
             (SELECT * FROM replay_summary WHERE log = '{log}' ORDER BY governor, metric)"
        );
        results::value(&home.path().join("a"), &sql)
    };
    // On a core for 29 ms: 1 ms at 300 MHz, 4 ms at 600, 24 ms at 900 are 24.3 million cycles at up to 2,265.6 MHz.
    assert_eq!(of("x.log"), of("x.pftrace"));
    assert!(of("x.pftrace").contains("performance busy_ns 10725"), "{}", of("x.pftrace"));
}

/// What the lab recorded of a run, exported and read back.
#[test]
fn an_export_is_read_back_as_what_was_recorded() {
    or_skip!(root());
    let home = folder();
    write(home.path(), "study.toml", &cells());
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let logs: i64 = results::value(&home.path().join("a"), "SELECT count(*) FROM event_log");
    if logs == 0 {
        return Need::Kernel.lacks("this kernel's events are not recorded").end();
    }
    lab(home.path(), &["export", "a", "--perfetto", "x.pftrace"]).ends_with(0);
    let recorded: Vec<u8> = results::value(&home.path().join("a"), "SELECT bytes FROM event_log");
    let mut recorded = decode_events(&recorded).unwrap();
    let back =
        perfetto::read(fs::read(home.path().join("x.pftrace")).unwrap().as_slice(), &Context::default()).unwrap();
    // Calls and misses are drawn, not exported as events.
    let is_drawn = |kind: EventKind| {
        matches!(kind, EventKind::Enter { .. } | EventKind::Exit { .. } | EventKind::CacheMiss { .. })
    };
    recorded.events.retain(|event| !is_drawn(event.kind));
    let counted = |log: &EventLog, kind: fn(&EventKind) -> bool| log.events.iter().filter(|e| kind(&e.kind)).count();
    assert!(counted(&recorded, |kind| matches!(kind, EventKind::Switch { .. })) > 100);
    // Of one time, the order may be another.
    let sorted = |log: &EventLog| {
        let mut events: Vec<(u64, u16, String)> = log
            .events
            .iter()
            .map(|event| (event.time_ns, event.cpu, format!("{:?} {:?}", event.pid, event.kind)))
            .collect();
        events.sort();
        events
    };
    // Who left a core is who was on it.
    for event in &mut recorded.events {
        if let EventKind::Switch { prev, .. } = event.kind {
            event.pid = prev;
        }
    }
    assert_eq!(sorted(&back.log), sorted(&recorded));
    let times = recorded.events.iter().map(|event| event.time_ns);
    let window = Window { start_ns: times.clone().min().unwrap(), end_ns: times.max().unwrap() };
    let mut named = back.log.clone();
    named.tasks.clone_from(&recorded.tasks);
    assert_eq!(threads(&named, window), threads(&recorded, window));
    lab(home.path(), &["trace", "x.pftrace"]).ends_with(0).says(&["track_event", "no marked run"]);
}

fn bundle(events: &[Vec<u8>]) -> Vec<u8> {
    bytes(1, bytes(1, [number(1, 0), events.concat()].concat()))
}

fn event(time_ns: u64, thread: u64, field: u64, what: &[Vec<u8>]) -> Vec<u8> {
    bytes(2, [number(1, time_ns), number(2, thread), bytes(field, what.concat())].concat())
}

fn mark(time_ns: u64, text: &str) -> Vec<u8> {
    event(time_ns, 7, 3, &[bytes(2, text)])
}

fn packed(content: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::best());
    packer.write_all(content).unwrap();
    packer.finish().unwrap()
}

/// What the command says of a trace that begins with a run's start, then has as many bytes of `parts` as asked for, the
/// n-th of them that of `n`, and then the run's end 3 s later.
fn in_a_run(parts: impl Fn(u64) -> Vec<u8> + Send + 'static, least: usize) -> Value {
    let script = format!("ulimit -d {MEMORY_KIB}; exec '{}' trace - --json", binary().display());
    let mut command = Command::new("sh");
    let command = command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        input.write_all(&bundle(&[mark(1_000_000_000, "SQL_START")]))?;
        let mut written = 0;
        for n in 0.. {
            if written >= least {
                break;
            }
            let part = parts(n);
            input.write_all(&part)?;
            written += part.len();
        }
        input.write_all(&bundle(&[mark(4_000_000_000, "SQL_END")]))
    });
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{:?}: {said}", out.status);
    writer.join().unwrap().expect("it reads to the end");
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&found["run"]["name"], &found["run"]["runtime_ns"]), (&"SQL".into(), &3_000_000_000u64.into()));
    found
}

#[test]
fn events_without_end_take_little_memory() {
    // Switches and wakings, side by side, of threads of many numbers.
    let compact = |n: u64| {
        let column = |field, value: fn(u64, u64) -> u64| {
            bytes(field, (0..20_000).flat_map(|at| varint(value(n, at))).collect::<Vec<u8>>())
        };
        let first = |n: u64, at: u64| if at == 0 { 1_000_000_001 + n * 20_000_000 } else { 1000 };
        let table = [
            column(1, first),
            column(2, |_, at| at % 3),
            column(3, |n, at| n * 20_000 + at),
            bytes(5, "name"),
            column(6, |_, _| 0),
            column(7, first),
            column(8, |_, at| at),
            column(11, |_, _| 0),
        ];
        bundle(&[bytes(4, table.concat())])
    };
    let found = in_a_run(compact, 9 * MIB);
    assert!(found["events"].as_u64().unwrap() > 1_500_000, "{}", found["events"]);
    // The longest that an event is in memory for what it is in the trace, in packets of the greatest length.
    let idle = |n: u64| {
        let event = event(1_000_000_001 + n, 0, 13, &[number(1, 1), number(2, 0)]);
        bundle(&vec![event; 300_000])
    };
    in_a_run(idle, 26 * MIB);
}

#[test]
fn texts_and_names_without_end_take_little_memory() {
    let long = |n: u64| format!("{n:x>60000}");
    in_a_run(move |n| bundle(&[mark(1_000_000_001 + n, &long(n))]), 100 * MIB);
    let generic = |n: u64| event(1_000_000_001, 7, 327, &[bytes(1, format!("{n:x>60}"))]);
    in_a_run(move |n| bundle(&(0..100).map(|at| generic(100 * n + at)).collect::<Vec<_>>()), 64 * MIB);
    let thread = |tid: u64| bytes(2, [number(1, tid), bytes(2, format!("{tid:x>64}")), number(3, tid)].concat());
    in_a_run(move |n| bytes(1, bytes(2, (0..1000).flat_map(|at| thread(1000 * n + at)).collect::<Vec<_>>())), 64 * MIB);
    // Names of a table, each of two bytes; sequences, and fields that nobody knows.
    in_a_run(|_| bundle(&[bytes(4, bytes(5, "").repeat(1 << 20))]), 16 * MIB);
    in_a_run(|n| bytes(1, [bytes(1, number(1, 0)), number(10, n)].concat()), 2 * MIB);
    in_a_run(|n| bytes(1, bytes(1000 + n, vec![0; 20 * MIB])), 100 * MIB);
}

/// Compressed to a thousandth: many of them, each within what one may unpack to.
#[test]
fn compressed_packets_without_end_take_little_memory() {
    let content = packed(&bytes(1, bytes(7, vec![0; 60 * MIB])));
    assert!(content.len() < MIB / 10);
    in_a_run(move |_| bytes(1, bytes(50, &content)), MIB / 2);
}

#[test]
fn a_damaged_trace_is_named_by_its_byte_and_takes_little_memory() {
    let home = folder();
    let before = bundle(&[mark(1, "SQL_START")]);
    let at = format!("at byte {}", before.len());
    let bomb = |content: Vec<u8>| bytes(1, bytes(50, packed(&content)));
    for (bad, why) in [
        (bundle(&[mark(2, "SQL_END")])[..12].to_vec(), "ends in the middle"),
        (vec![0xff; 4096], "no end"),
        // Half a terabyte, of which four bytes come.
        ([varint(1 << 3 | 2), varint(1 << 39), varint(1 << 3 | 2), varint(1 << 38), vec![0; 4]].concat(), "at most"),
        (bomb(vec![0; 128 * MIB]), "is no field"),
        (bomb(bytes(9, vec![0; 128 * MIB])), "more than 64 MiB"),
        (bomb(bomb(bytes(9, vec![0; MIB]))), "within another one"),
        // Groups in groups, which are not of the schema.
        (bundle(&[bytes(2, bytes(4, vec![7 << 3 | 3; MIB]))]), "is not of its kind"),
    ] {
        fs::write(home.path().join("x.pftrace"), [before.clone(), bad].concat()).unwrap();
        for arguments in ["trace x.pftrace", "advise governor x.pftrace --device nexus-5"] {
            let script = format!("ulimit -d {MEMORY_KIB}; exec '{}' {arguments}", binary().display());
            let out = Command::new("sh").args(["-c", &script]).current_dir(home.path()).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(1), "{arguments}: {said}");
            assert!(said.contains(&at) && said.contains(why) && said.contains("x.pftrace"), "{said}, not {why}");
        }
    }
}
