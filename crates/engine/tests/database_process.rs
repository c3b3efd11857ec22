//! The protocol between a runner and an engine's process, with processes that do as they should, and not.

mod database_support;

use database_support::{Rows, measured, spec};
use pocketstone_core::database::{DatabaseEngine, SqlForm};
use pocketstone_core::log::decode_calls;
use pocketstone_engine::database::{Process, Task, TaskResult, Work, serve};
use pocketstone_testing::wait::until;
use pocketstone_workload::database::{StatementKind, Trace, Value};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Set for the process that serves: its task's file.
const TASK: &str = "POCKETSTONE_TEST_TASK";
const LIMIT: Duration = Duration::from_secs(60);

fn workload() -> Trace {
    let mut rows = Rows::new("INTEGER").with(5);
    (0..20).for_each(|n| rows.then(0, rows.read, &[Value::Integer(n % 5 * 10)]));
    rows.then(0, rows.update_a, &[Value::Text("new"), Value::Integer(0)]);
    rows.trace
}

/// A task in `folder`, with its workload written there.
fn task(folder: &Path, engine: DatabaseEngine, work: Work, trace: &Trace) -> Task {
    let file = trace.encode();
    std::fs::write(folder.join("trace"), &file).unwrap();
    std::fs::create_dir_all(folder.join("database")).unwrap();
    let mut spec = spec(engine);
    spec.trace = Trace::digest(&file);
    Task {
        work,
        directory: folder.join("database"),
        trace: folder.join("trace"),
        calls: folder.join("calls.bin"),
        events: None,
        result: folder.join("result.json"),
        spec,
    }
}

/// Starts this program again to serve the task. Its own words on standard output are no part of the
/// protocol, which goes by descriptor 3.
fn served(task: &Task, folder: &Path) -> Process {
    let path = folder.join("task.json");
    std::fs::write(&path, serde_json::to_vec(task).unwrap()).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "exec 3>&1 1>&2; exec \"$1\" --exact serves_a_task --ignored --nocapture", "sh"]);
    command.arg(std::env::current_exe().unwrap()).env(TASK, path);
    Process::spawn(command, task, folder).unwrap()
}

#[test]
#[ignore = "other tests start it as the process of an engine"]
fn serves_a_task() {
    let path = std::env::var_os(TASK).expect("the task's file");
    let output = File::options().write(true).open("/proc/self/fd/3").unwrap();
    std::process::exit(i32::from(serve(Path::new(&path), std::io::stdin().lock(), output)));
}

fn shell(task: &Task, folder: &Path, script: &str) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Process::spawn(command, task, folder).unwrap()
}

#[test]
fn a_process_loads_and_another_one_measures() {
    let trace = workload();
    for engine in database_support::engines() {
        let folder = tempfile::tempdir().unwrap();
        for work in [Work::Load, Work::Measure] {
            let task = task(folder.path(), engine, work, &trace);
            let mut process = served(&task, folder.path());
            process.wait_ready(LIMIT).unwrap();
            process.go().unwrap();
            process.wait_done(LIMIT).unwrap();
            // It waits, so that what it used can be read.
            assert!(Path::new(&format!("/proc/{}/stat", process.pid())).exists());
            assert!(!task.result.exists());
            let result = process.finish().unwrap();
            assert!(result.main_ns <= result.loaded_ns && result.loaded_ns <= result.opened_ns);
            assert!(result.opened_ns <= result.start_ns && result.start_ns < result.end_ns);
            assert!(!result.engine.is_empty());
            if work == Work::Measure {
                let calls = decode_calls(&std::fs::read(&task.calls).unwrap()).unwrap();
                let last = calls.last().unwrap();
                assert_eq!((calls.len(), calls[0].start_ns), (21, result.start_ns));
                assert_eq!(last.start_ns + last.latency_ns, result.end_ns);
                assert_eq!(result.digest, measured(&spec(engine), &trace).unwrap().digest);
                assert_eq!(result.rows, 20);
            }
        }
    }
}

#[test]
fn a_failure_comes_back_with_its_cure() {
    let folder = tempfile::tempdir().unwrap();
    let trace = workload();
    let measure = task(folder.path(), DatabaseEngine::Sqlite, Work::Measure, &trace);
    let error = served(&measure, folder.path()).wait_ready(LIMIT).unwrap_err();
    assert!(error.chain().contains("no database"), "{}", error.chain());
    assert_eq!(error.cure(), Some("load it first"));
    let mut other = task(folder.path(), DatabaseEngine::Sqlite, Work::Load, &trace);
    other.spec.trace = "0".repeat(64);
    let error = served(&other, folder.path()).wait_ready(LIMIT).unwrap_err();
    assert!(error.chain().contains("not 0000"), "{}", error.chain());
    std::fs::write(&other.trace, "no workload").unwrap();
    let error = served(&other, folder.path()).wait_ready(LIMIT).unwrap_err();
    assert!(error.chain().contains("PKTTRACE"), "{}", error.chain());
    // A failure after `go` takes the place of `done`.
    let mut rows = Rows::new("INTEGER").with(1);
    rows.then(0, rows.insert, &[Value::Integer(0), Value::Null, Value::Null]);
    for work in [Work::Load, Work::Measure] {
        let task = task(folder.path(), DatabaseEngine::Sqlite, work, &rows.trace);
        let mut process = served(&task, folder.path());
        process.wait_ready(LIMIT).unwrap();
        process.go().unwrap();
        match work {
            Work::Load => process.wait_done(LIMIT).and_then(|()| process.finish().map(drop)).unwrap(),
            Work::Measure => {
                let chain = process.wait_done(LIMIT).unwrap_err().chain();
                assert!(chain.starts_with("operation 0 failed: INSERT INTO rows"), "{chain}");
            }
        }
    }
}

#[test]
fn texts_of_statements_are_made_before_the_database_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = Rows::new("INTEGER");
    let zero = rows.trace.add_statement("SELECT '\0'", StatementKind::Sql, 0);
    rows.then(0, zero, &[]);
    // There is no database either.
    for sql in [SqlForm::Text, SqlForm::Prepared] {
        let mut measure = task(folder.path(), DatabaseEngine::Sqlite, Work::Measure, &rows.trace);
        measure.spec.sql = sql;
        let error = served(&measure, folder.path()).wait_ready(LIMIT).unwrap_err();
        assert!(error.chain().contains("zero byte"), "{}", error.chain());
        let result: TaskResult = serde_json::from_slice(&std::fs::read(&measure.result).unwrap()).unwrap();
        assert!(result.main_ns > 0 && result.loaded_ns == 0, "they count as loaded: {result:?}");
    }
}

#[test]
fn a_crash_is_told_with_its_signal_and_when() {
    let folder = tempfile::tempdir().unwrap();
    let trace = workload();
    let load = task(folder.path(), DatabaseEngine::Null, Work::Load, &trace);
    let mut process = served(&load, folder.path());
    process.wait_ready(LIMIT).unwrap();
    kill(process.pid());
    let error = process.wait_done(LIMIT).unwrap_err();
    assert_eq!(
        error.message().split(';').next().unwrap(),
        "the process of null was killed by signal 9 while it executed its operations"
    );
    let mut process = shell(&load, folder.path(), "echo first >&2; echo the heap is gone >&2; exit 3");
    let error = process.wait_ready(LIMIT).unwrap_err();
    assert_eq!(
        error.message(),
        "the process of null exited with status 3 before its database was open; its last output: first / the heap is \
            gone"
    );
    let mut process = shell(&load, folder.path(), "echo ready; read go; echo done; exit 0");
    process.wait_ready(LIMIT).unwrap();
    process.go().unwrap();
    process.wait_done(LIMIT).unwrap();
    let error = process.finish().unwrap_err();
    assert_eq!(error.message(), "the process of null exited without a result after its last operation");
    let error = shell(&load, folder.path(), "echo hello").wait_ready(LIMIT).unwrap_err();
    assert_eq!(error.message(), "the process of null sent \"hello\" instead of `ready`");
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_hang_is_ended_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let load = task(folder.path(), DatabaseEngine::Null, Work::Load, &workload());
    let mut process = shell(&load, folder.path(), "echo ready; exec sleep 1000");
    process.wait_ready(LIMIT).unwrap();
    process.go().unwrap();
    let stat = format!("/proc/{}/stat", process.pid());
    until("it sleeps", || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(" (sleep) S ")));
    let begin = Instant::now();
    let error = process.wait_done(Duration::from_millis(300)).unwrap_err();
    assert!(begin.elapsed() >= Duration::from_millis(300));
    let message = "the process of null did not send `done` within 0.3 s and was killed while it executed its \
        operations; its state was S (sleeping)";
    assert_eq!((error.message(), error.cure().is_some()), (message, true));
    assert!(!Path::new(&format!("/proc/{}/stat", process.pid())).exists());
}

#[test]
fn a_process_ends_with_whom_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let load = task(folder.path(), DatabaseEngine::Null, Work::Load, &workload());
    let dropped = shell(&load, folder.path(), "exec sleep 1000");
    let path = format!("/proc/{}/stat", dropped.pid());
    assert!(Path::new(&path).exists());
    drop(dropped);
    assert!(!Path::new(&path).exists());
    // A thread that ends without dropping it stands for a program that is killed.
    let start = || std::mem::ManuallyDrop::new(shell(&load, folder.path(), "exec sleep 1000")).pid();
    let pid = std::thread::scope(|scope| scope.spawn(start).join()).unwrap();
    let gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    until("the process is gone", gone);
}
