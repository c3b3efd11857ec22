//! SQLite's own record of its file calls against what strace saw of the same process.

mod database_support;

use database_support::{Rows, measured, spec};
use pocketstone_core::database::{DatabaseEngine, DatabaseSpec};
use pocketstone_core::events::{EventKind, EventLog, SystemCall};
use pocketstone_core::events_log::decode_events;
use pocketstone_core::hint::{Hint, TakesHints};
use pocketstone_engine::database::{Informs, Process, Task, TaskResult, Work, load, serve_informing};
use pocketstone_testing::{Need, Skip, program};
use pocketstone_workload::database::{Trace, Value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Set for the process that serves: its task's file.
const TASK: &str = "POCKETSTONE_TEST_TASK";
const LIMIT: Duration = Duration::from_secs(120);
/// Calls of strace that the record has, too.
const FOLLOWED: &str = "trace=?open,openat,close,read,pread64,write,pwrite64,fsync,fdatasync,?ftruncate,?ftruncate64,\
                        ?unlink,unlinkat";

/// How many calls of each kind returned, on each file, and the sum of what reads and writes returned.
type Counts = BTreeMap<(SystemCall, String), (u64, u64)>;

fn count(counts: &mut Counts, call: SystemCall, file: &str, result: i64) {
    let moved = if matches!(call, SystemCall::Read | SystemCall::Write) { result.max(0) } else { 0 };
    let (calls, bytes) = counts.entry((call, file.to_owned())).or_default();
    (*calls, *bytes) = (*calls + 1, *bytes + moved as u64);
}

#[test]
#[ignore = "other tests start it as the process of an engine"]
fn serves_a_task() {
    let path = std::env::var_os(TASK).expect("the task's file");
    let output = File::options().write(true).open("/proc/self/fd/3").unwrap();
    let path = Path::new(&path);
    let hints = path.with_file_name("hints");
    let informs = |spec: &DatabaseSpec| {
        let make = move || Box::new(Letters(File::create(&hints).unwrap())) as Box<dyn TakesHints>;
        spec.conditions.governor.is_some().then(|| Box::new(make) as Box<Informs>)
    };
    std::process::exit(i32::from(serve_informing(path, std::io::stdin().lock(), output, informs)));
}

/// Writes a letter for each hint.
struct Letters(File);

impl TakesHints for Letters {
    fn hint(&mut self, hint: Hint) {
        let letter = match hint {
            Hint::OperationStarts { .. } => b"S",
            Hint::Blocks => b"B",
            Hint::Resumes => b"R",
            Hint::OperationEnds { transaction_ended: true, .. } => b"T",
            Hint::OperationEnds { transaction_ended: false, .. } => b"E",
        };
        self.0.write_all(letter).unwrap();
    }
}

/// Whether strace can follow a process here.
fn strace() -> Result<(), Skip> {
    program("strace", "strace")?;
    let output = Command::new("strace").args(["-o", "/dev/null", "true"]).output().expect("strace starts");
    let why = || Need::Kernel.lacks(format_args!("strace: {}", String::from_utf8_lossy(&output.stderr)));
    output.status.success().then_some(()).ok_or_else(why)
}

/// Runs a task in a process of its own, under strace if `traced`; one file for each thread.
fn run(folder: &Path, spec: &DatabaseSpec, trace: &Trace, events: bool, traced: bool) -> TaskResult {
    let (file, database) = (trace.encode(), folder.join("database"));
    fs::write(folder.join("trace"), &file).unwrap();
    let _ = fs::remove_dir_all(&database);
    fs::create_dir_all(&database).unwrap();
    load(spec, &database, &Arc::new(trace.clone())).unwrap();
    let task = Task {
        work: Work::Measure,
        directory: database,
        trace: folder.join("trace"),
        calls: folder.join("calls.bin"),
        events: events.then(|| folder.join("own.bin")),
        result: folder.join("result.json"),
        spec: DatabaseSpec { trace: Trace::digest(&file), ..spec.clone() },
    };
    let path = folder.join("task.json");
    fs::write(&path, serde_json::to_vec(&task).unwrap()).unwrap();
    let strace = format!("strace -ff -y -s 16 -o {} -e {FOLLOWED}", folder.join("strace").display());
    let strace = if traced { &strace } else { "" };
    let mut command = Command::new("sh");
    // Words of the test's own on standard output are no part of the protocol, which goes by descriptor 3.
    let script = format!("exec 3>&1 1>&2; exec {strace} \"$1\" --exact serves_a_task --ignored --nocapture");
    command.args(["-c", &script, "sh"]).arg(std::env::current_exe().unwrap()).env(TASK, path);
    let mut process = Process::spawn(command, &task, folder).unwrap();
    process.wait_ready(LIMIT).unwrap();
    process.go().unwrap();
    process.wait_done(LIMIT).unwrap();
    process.finish().unwrap()
}

/// The calls of one of strace's lines, such as `pread64(4</tmp/data>, "..."..., 16, 24) = 16`.
fn line_of_strace(line: &str) -> Option<(SystemCall, &str, i64)> {
    let (name, arguments) = line.split_once('(')?;
    let call = match name {
        "open" | "openat" => SystemCall::Open,
        "close" => SystemCall::Close,
        "read" | "pread64" => SystemCall::Read,
        "write" | "pwrite64" => SystemCall::Write,
        "fsync" | "fdatasync" => SystemCall::Sync,
        "ftruncate" | "ftruncate64" => SystemCall::Truncate,
        "unlink" | "unlinkat" => SystemCall::Delete,
        _ => return None,
    };
    let file = match call {
        SystemCall::Open | SystemCall::Delete => arguments.split('"').nth(1)?,
        _ => arguments.split_once('<')?.1.split_once('>')?.0,
    };
    let result = line.rsplit_once(" = ")?.1.split([' ', '<']).next()?.parse().ok()?;
    Some((call, file, result))
}

/// What strace saw on files in `database`, and on that folder, between `go` and `done`.
fn seen_by_strace(folder: &Path, database: &Path) -> Counts {
    let (mut counts, mut begins) = (Counts::new(), 0);
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_string_lossy().starts_with("strace.") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        // The thread that obeys; others live during the run alone.
        let begin = lines.iter().position(|l| l.starts_with("read(0<") && l.contains("\"go\\n"));
        let end = begin.map(|b| b + lines[b..].iter().position(|l| l.contains(", \"done")).expect("an end"));
        begins += usize::from(begin.is_some());
        for line in &lines[begin.unwrap_or(0)..end.unwrap_or(lines.len())] {
            let Some((call, file, result)) = line_of_strace(line) else { continue };
            if Path::new(file).starts_with(database) {
                count(&mut counts, call, file, result);
            }
        }
    }
    assert_eq!(begins, 1, "strace saw `go` once");
    counts
}

fn recorded(log: &EventLog, database: &Path) -> Counts {
    let (mut counts, mut entered) = (Counts::new(), BTreeMap::new());
    for event in &log.events {
        match event.kind {
            EventKind::Enter { call, file, .. } => {
                let file = file.expect("every file has a name");
                assert_eq!(entered.insert(event.pid, (call, file)), None, "a thread makes one call at a time");
            }
            EventKind::Exit { call, result } => {
                let (begun, file) = entered.remove(&event.pid).expect("a call that began");
                assert_eq!(begun, call);
                let name = &log.files[usize::from(file)];
                if Path::new(name).starts_with(database) {
                    count(&mut counts, call, name, result);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(entered.is_empty());
    counts
}

/// Reads, updates and insertions; some transactions of several statements.
fn workload(count: i64) -> Trace {
    let mut rows = Rows::new("INTEGER").with(200);
    for n in 0..count {
        let key = Value::Integer(n * 7 % 200 * 10);
        rows.then(0, rows.read, &[key]);
        let text = "t".repeat(300 + n as usize % 50);
        rows.then(0, rows.update_a, &[Value::Text(&text), key]);
        rows.then(0, rows.insert, &[Value::Integer(5 + n * 10), Value::Text(&text), Value::Null]);
        rows.then(0, rows.scan, &[key, Value::Integer(20)]);
    }
    rows.trace
}

fn configured(journal_mode: &str, threads: u32) -> DatabaseSpec {
    let mut spec = DatabaseSpec { threads, ..spec(DatabaseEngine::Sqlite) };
    spec.configuration.journal_mode = Some(journal_mode.into());
    spec.configuration.synchronous = Some("full".into());
    // Pages come from the file again and again.
    spec.configuration.cache_bytes = Some(16 << 10);
    spec
}

fn total(counts: &Counts, call: SystemCall, end: &str) -> u64 {
    counts.iter().filter(|((c, file), _)| *c == call && file.ends_with(end)).map(|(_, (n, _))| n).sum()
}

#[test]
fn counts_and_bytes_of_each_file_are_those_of_strace_in_every_journal_mode() {
    let strace = strace().is_ok();
    let trace = workload(12);
    for mode in ["delete", "persist", "wal", "truncate", "memory"] {
        for threads in [1, 3] {
            let spec = configured(mode, threads);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().canonicalize().unwrap();
            let database = path.join("database");
            let result = run(&path, &spec, &trace, true, strace);
            let log = decode_events(&fs::read(path.join("own.bin")).unwrap()).unwrap();
            let counts = recorded(&log, &database);
            if strace {
                let seen = seen_by_strace(&path, &database);
                assert_eq!(counts, seen, "{mode}, {threads} threads");
            }
            // Everything happened within the run.
            let first = log.events.first().unwrap().time_ns;
            let last = log.events.last().unwrap().time_ns;
            assert!(result.start_ns <= first && last <= result.end_ns || threads > 1, "{mode}");
            let workers = log.events.iter().map(|e| e.pid).collect::<std::collections::BTreeSet<_>>();
            assert_eq!(workers.len(), threads as usize);
            assert!(workers.iter().all(|pid| log.task(*pid).is_some()));

            let other = match mode {
                "wal" => "-wal",
                "memory" => "",
                _ => "-journal",
            };
            assert!(total(&counts, SystemCall::Read, "data.sqlite") > 0, "{counts:?}");
            assert!(total(&counts, SystemCall::Write, other) > 0, "{counts:?}");
            assert!(total(&counts, SystemCall::Sync, other) > 0, "{counts:?}");
            let of_journal = |call| total(&counts, call, "-journal");
            let journals = [SystemCall::Open, SystemCall::Delete, SystemCall::Truncate].map(of_journal);
            match mode {
                "delete" => assert!(journals[0] >= 24 && journals[1] >= 24 && journals[2] == 0, "{counts:?}"),
                "truncate" => assert!(journals[1] == 0 && journals[2] >= 24, "{counts:?}"),
                "persist" => assert!(journals[0] > 0 && journals[1] == 0, "{counts:?}"),
                _ => assert_eq!(journals[0], 0, "{counts:?}"),
            }
            // A new journal is durable with its folder's entry of it, and a removed one, too.
            assert_eq!(total(&counts, SystemCall::Sync, "database") > 0, !other.is_empty(), "{mode} {counts:?}");
            if threads == 1 {
                let plain = run(&path, &spec, &trace, false, false);
                assert_eq!((result.digest.clone(), result.rows), (plain.digest, plain.rows), "{mode}");
                assert_eq!(result.digest, measured(&spec, &trace).unwrap().digest, "{mode}");
            }
        }
    }
}

#[test]
fn nothing_is_recorded_where_no_log_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &configured("delete", 1), &workload(2), false, false);
    assert!(!folder.path().join("own.bin").exists());
}

/// A read waits for no sync; a change has one for its journal and one for the database at least.
#[test]
fn a_thread_tells_of_its_waits_for_durable_data_whether_calls_are_recorded_or_not() {
    for events in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = configured("delete", 1);
        spec.conditions.governor = Some("anything".into());
        run(folder.path(), &spec, &workload(3), events, false);
        let hints = fs::read_to_string(folder.path().join("hints")).unwrap();
        let operations: Vec<&str> = hints.split_inclusive(['E', 'T']).collect();
        assert_eq!(operations.len(), 12, "{hints}");
        for (n, operation) in operations.iter().enumerate() {
            let waits = operation.matches("BR").count();
            let changes = matches!(n % 4, 1 | 2);
            let expected = format!("S{}{}", "BR".repeat(waits), if changes { "T" } else { "E" });
            assert_eq!(*operation, expected);
            assert!(if changes { waits >= 2 } else { waits == 0 }, "{hints}");
        }
    }
}
