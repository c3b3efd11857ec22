//! Logs that nothing but malice or damage writes, through the command: whatever they are made of, without end, the
//! memory that they take has a bound.

use pocketstone_tests::command::binary;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// Memory of its own that the command may have: less than any of the logs below would take if it were kept.
const MEMORY_KIB: u64 = 96 << 10;

const MIB: usize = 1 << 20;

/// What the command says of a log of `before`, as many bytes of `lines` as asked for, and `after`. The n-th piece of
/// `lines` is that of `n`.
fn read(before: &str, lines: impl Fn(u32) -> String + Send + 'static, bytes: usize, after: &str) -> Value {
    let script = format!("ulimit -d {MEMORY_KIB}; exec '{}' trace - --json", binary().display());
    let mut command = Command::new("sh");
    let command = command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let (before, after) = (before.to_owned(), after.to_owned());
    let writer = std::thread::spawn(move || {
        input.write_all(before.as_bytes())?;
        let mut written = 0;
        for n in 0.. {
            if written >= bytes {
                break;
            }
            let text = lines(n);
            input.write_all(text.as_bytes())?;
            written += text.len();
        }
        input.write_all(after.as_bytes())
    });
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{:?}: {said}", out.status);
    writer.join().unwrap().expect("it reads to the end");
    serde_json::from_slice(&out.stdout).unwrap()
}

fn line(us: u64, thread: u32, event: &str) -> String {
    format!("t-{thread} [000] ...1 {}.{:06}: {event}\n", us / 1_000_000, us % 1_000_000)
}

/// A run of 3 s, which is found whatever lies within it.
fn in_a_run(lines: impl Fn(u32) -> String + Send + 'static, bytes: usize) -> Value {
    let mark = |us, name: &str| line(us, 7, &format!("tracing_mark_write: {name}"));
    let found = read(&mark(1_000_000, "SQL_START"), lines, bytes, &mark(4_000_000, "SQL_END"));
    assert_eq!((&found["run"]["name"], &found["run"]["runtime_ns"]), (&"SQL".into(), &3_000_000_000u64.into()));
    found
}

/// A word of so many bytes that no other `n` has.
fn word(n: u32, bytes: usize) -> String {
    format!("{n:x>bytes$}")
}

#[test]
fn threads() {
    in_a_run(|n| format!("{}-{n} ({n}) [000] ...1 2.000000: cpu_idle: state=1 cpu_id=0\n", word(n, 300)), 96 * MIB);
}

#[test]
fn files_that_are_being_opened() {
    let open = |n: u32| {
        let event = format!("sys_openat(dfd: 0xffffff9c, filename: 0x7f \"/{}\", flags: 0, mode: 0)", word(n, 4000));
        line(2_000_000, 1 + n, &event)
    };
    in_a_run(open, 64 * MIB);
}

#[test]
fn processes_that_have_what_their_parents_have() {
    let lines = |n: u32| match n {
        0..4000 => {
            let call = format!("{{\"action\":\"open\", \"start\":1, \"delta\":1, \"retval\":{n}, \"path\":\"/a\"}}");
            line(2_000_000, 7, &format!("plsc_open: {call}"))
        }
        _ => line(2_000_000, 7, &format!("sched_process_fork: comm=t pid=7 child_comm=t child_pid={n}")),
    };
    in_a_run(lines, 2 * MIB);
}

#[test]
fn reasons_why_lines_are_left_out() {
    let found = in_a_run(|n| line(2_000_000, 7, &format!("{}: x", word(n, 60_000))), 128 * MIB);
    let others = found["left_out"]["event not used: others"].as_u64().unwrap();
    assert_eq!(
        others,
        (128 * MIB as u64).div_ceil(line(2_000_000, 7, &format!("{}: x", word(0, 60_000))).len() as u64)
    );
}

#[test]
fn frequencies() {
    let lines = |n: u32| line(2_000_000 + u64::from(n), 0, &format!("cpu_frequency: state={} cpu_id=0", n + 1));
    let found = in_a_run(lines, 96 * MIB);
    assert_eq!(found["run"]["on_core_khz_ns"].as_object().unwrap().len(), 256);
}

/// Runs are told of with what the app said of them.
#[test]
fn what_is_said_of_runs() {
    let lines = |n: u32| {
        let said = format!("{{\"EVENT\":\"Parameters\", \"Workload\":\"{}\", \"Delay\":\"1ms\"}}", word(n, 40_000));
        let mark = |us, text: &str| line(us, 7, &format!("tracing_mark_write: {text}"));
        let name = |end: &str| format!("{}{end}", word(n, 100));
        let at = 10 * u64::from(n);
        mark(at, &said) + &mark(at, &name("_START")) + &mark(at + 5, &name("_END"))
    };
    let found = read("", lines, 128 * MIB, "");
    let runs = found["runs"].as_array().unwrap();
    assert!(runs.len() > 3000 && runs.iter().all(|run| run["parameters"]["delay"] == "1ms"));
    assert!(runs.iter().all(|run| run["parameters"]["workload"].is_null() && run["runtime_ns"] == 5_000));
    let long = |end: &str| line(1, 7, &format!("tracing_mark_write: {}{end}", word(0, 200)));
    let none = read(&long("_START"), |_| String::from("# x\n"), 1, &long("_END"));
    assert!(none["run"].is_null() && none["why_no_run"].as_str().unwrap().contains("no marks"));
}
