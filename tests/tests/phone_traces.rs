//! Logs of phones through the command: every form of marks, compressed or not, one or a folder of them; and the two
//! published ones, against another reading of them.

use pocketstone_testing::{Need, or_skip};
use pocketstone_tests::command::{binary, lab, pocketstone, run, write};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let ran = lab(folder, arguments).ends_with(0);
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.out))
}

/// A line of a log at `us` microseconds.
fn line(us: u64, core: u32, pid: u32, event: &str) -> String {
    format!("           <...>-{pid}  [{core:03}] ...1 {:>5}.{:06}: {event}\n", us / 1_000_000, us % 1_000_000)
}

fn switch(us: u64, core: u32, prev: u32, state: &str, next: u32) -> String {
    let event = format!(
        "sched_switch: prev_comm=a b prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=x next_pid={next} \
         next_prio=120"
    );
    line(us, core, prev, &event)
}

/// A log whose app, 77, runs from 1,000 us to 21,000 us: 20 ms, of which it is on a core for 1 + 4 + 6 = 11 ms in three
/// bursts, on two cores, the first at 300 MHz and later 600 MHz, the second at 900 MHz. It reads once and syncs once.
fn log(start: &str, end: &str) -> String {
    log_at(0, start, end)
}

/// The same, later by `at` microseconds.
fn log_at(at: u64, start: &str, end: &str) -> String {
    let line = |us: u64, core: u32, pid: u32, event: &str| line(at + us, core, pid, event);
    let switch = |us: u64, core: u32, prev: u32, state: &str, next: u32| switch(at + us, core, prev, state, next);
    let request = |us: u64, event: &str, kind: &str| line(us, 0, 9, &format!("{event}: 179,0 {kind} 0 () 64 + 8 [x]"));
    let call = |us: u64, event: &str, action: &str, fields: &str| {
        let start_ns = (at + us - 10) * 1000;
        let body = format!("\"action\":\"{action}\", \"start\":{start_ns}, \"delta\":10000, \"pid\":77, {fields}");
        line(us, 0, 77, &format!("{event}: {{{body}}}"))
    };
    [
        "# tracer: nop\n#\n".to_owned(),
        line(100, 0, 0, "cpu_frequency: state=300000 cpu_id=0"),
        line(110, 1, 0, "cpu_frequency: state=900000 cpu_id=1"),
        switch(500, 0, 0, "R", 77),
        line(1_000, 0, 77, start),
        "\n".to_owned(),
        call(1_500, "plsc_rw", "pread64", "\"retval\":100, \"fd\":5, \"bytes\":100, \"offset\":0"),
        // Of a later kernel, of another one, and of none: ignored.
        call(1_600, "plsc_dup", "dup2", "\"oldfd\":5, \"newfd\":6, \"flags\":0"),
        line(1_700, 0, 77, "plsc_ioprio: {\"action\":\"ioprio_set\", \"which\":1, \"who\":0, \"ioprio\":4}"),
        line(1_800, 0, 77, "some_event_of_tomorrow: what=ever"),
        line(1_900, 0, 77, UNKNOWN),
        switch(2_000, 0, 77, "S", 0),
        line(2_500, 0, 9, "cpu_frequency: state=600000 cpu_id=0"),
        switch(4_000, 0, 0, "R", 77),
        request(5_000, "block_rq_insert", "WS"),
        call(7_900, "plsc_sync", "fdatasync", "\"retval\":0, \"fd\":5"),
        switch(8_000, 0, 77, "D", 9),
        request(9_000, "block_rq_complete", "WS"),
        switch(15_000, 1, 0, "R", 77),
        line(21_000, 1, 77, end),
        switch(22_000, 1, 77, "S", 0),
    ]
    .concat()
}

const UNKNOWN: &str = "tracing_mark_write: {\"EVENT\":\"what nobody knows\"}";
const START: &str = "tracing_mark_write: {\"EVENT\":\"SQL_START\"}";
const END: &str = "tracing_mark_write: {\"EVENT\":\"SQL_END\"}";

#[track_caller]
fn is_that_run(run: &Value, name: &str) {
    let expected = serde_json::json!({
        "name": name, "app": 77, "runtime_ns": 20_000_000, "on_core_ns": 11_000_000,
        "bursts": {"count": 3, "mean_ns": 3_666_666, "max_ns": 6_000_000},
        "on_core_khz_ns": {"300000": 1_000_000, "600000": 4_000_000, "900000": 6_000_000},
        "reads": 1, "read_bytes": 100, "read_ns": 10_000, "writes": 0, "syncs": 1, "sync_ns": 10_000,
        "block_reads": 0, "block_writes": 1, "block_written_bytes": 4096, "block_mean_ns": 4_000_000,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&run[key], value, "{key} of {name}");
    }
}

#[test]
fn a_run_is_found_between_the_marks_of_any_engine() {
    let home = folder();
    for (form, name) in [
        ("tracing_mark_write: {\"EVENT\":\"{}\"}", "SQL"),
        ("tracing_mark_write: {\"EVENT\":\"{}\"}", "BDB"),
        ("tracing_mark_write: {\"EVENT\":\"{}\"}\r", "BDB100"),
        ("tracing_mark_write: \"EVENT\":\"{}\"}", "DATABASE"),
        ("tracing_mark_write: B|77|{}", "WAL"),
        ("print: 0xc0123456: {}", "H2"),
        ("print: {}", "MY_OWN_ENGINE"),
    ] {
        let mark = |what: &str| form.replace("{}", &format!("{name}_{what}"));
        write(home.path(), "x.log", &log(&mark("START"), &mark("END")));
        let found = json(home.path(), &["trace", "x.log", "--json"]);
        is_that_run(&found["run"], name);
        assert_eq!(found["left_out"]["event not used: plsc_dup dup2"], 1);
        assert_eq!(found["left_out"]["event not used: some_event_of_tomorrow"], 1);
    }
    // Two engines in one log, each within its own marks; what the first one does in parts is one run.
    let unknown = line(1_900, 0, 77, UNKNOWN);
    let part = line(1_900, 0, 77, "print: PART_START") + &line(1_950, 0, 77, "print: PART_END");
    let bdb = |mark: &str| mark.replace("SQL", "BDB");
    let both = log(START, END).replacen(&unknown, &part, 1) + &log_at(1_000_000, &bdb(START), &bdb(END));
    write(home.path(), "both.log", &both);
    let found = json(home.path(), &["trace", "both.log", "--json"]);
    assert_eq!(found["runs"].as_array().unwrap().len(), 2);
    is_that_run(&found["runs"][0], "SQL");
    is_that_run(&found["runs"][1], "BDB");

    write(home.path(), "none.log", &log("print: nothing", "print: nothing"));
    lab(home.path(), &["trace", "none.log"]).ends_with(0).says(&["no marked run", "SQL_START"]);
    write(home.path(), "cut.log", &log(START, "print: nothing"));
    lab(home.path(), &["trace", "cut.log"]).ends_with(0).says(&["SQL_START and no SQL_END"]);
    write(home.path(), "other.log", "This is no trace.\n");
    lab(home.path(), &["trace", "other.log"]).ends_with(1).complains(&["other.log", "line 1"]);
}

/// Compresses a file in place.
fn gzip(path: &Path) {
    assert!(Command::new("gzip").arg("-n").arg(path).status().expect("gzip").success());
}

#[test]
fn a_compressed_log_is_read_as_it_is() {
    let home = folder();
    write(home.path(), "x.log", &log(START, END));
    gzip(&home.path().join("x.log"));
    let packed = fs::read(home.path().join("x.log.gz")).unwrap();
    let found = json(home.path(), &["trace", "x.log.gz", "--json"]);
    is_that_run(&found["run"], "SQL");
    // In two parts, as `cat a.gz b.gz` makes them; from standard input; and whatever its name is.
    for (name, half) in [("1.log", &log(START, END)[..700]), ("2.log", &log(START, END)[700..])] {
        write(home.path(), name, half);
        gzip(&home.path().join(name));
    }
    let halves = [fs::read(home.path().join("1.log.gz")).unwrap(), fs::read(home.path().join("2.log.gz")).unwrap()];
    fs::write(home.path().join("joined"), halves.concat()).unwrap();
    is_that_run(&json(home.path(), &["trace", "joined", "--json"])["run"], "SQL");
    let mut command = pocketstone(home.path(), &["trace", "-", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&packed).unwrap();
    let out = child.wait_with_output().unwrap();
    is_that_run(&serde_json::from_slice::<Value>(&out.stdout).unwrap()["run"], "SQL");
    // Cut off.
    fs::write(home.path().join("cut.log.gz"), &packed[..packed.len() / 2]).unwrap();
    lab(home.path(), &["trace", "cut.log.gz"]).ends_with(1).complains(&["cut.log.gz", "copy it again"]);
}

#[test]
fn a_folder_of_logs_is_a_table_by_what_their_names_and_a_file_beside_them_say() {
    let home = folder();
    let logs = home.path().join("logs");
    fs::create_dir_all(logs.join("more")).unwrap();
    let bdb = |mark: &str| mark.replace("SQL", "BDB");
    write(&logs, "YCSB_WorkloadA_LogTimingsql.log", &log(START, END));
    gzip(&logs.join("YCSB_WorkloadA_LogTimingsql.log"));
    write(&logs, "YCSB_WorkloadIC_NoTimingbdb100.log", &log(&bdb(START), &bdb(END)));
    let parameters = "tracing_mark_write: {\"EVENT\":\"Parameters\", \"Database\":\"SQL\", \"Workload\":\"C\", \
                      \"Governor\":\"interactive\", \"Delay\":\"1ms\"}";
    write(&logs.join("more"), "said.log", &format!("{}{}", line(1, 0, 77, parameters), log(START, END)));
    write(&logs.join("more"), "named.log", &log(START, END));
    write(&logs.join("more"), "broken.log", "nonsense\n");
    // A link would count a run twice, and a pipe would be waited for.
    std::os::unix::fs::symlink("named.log", logs.join("more/linked.log")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(logs.join("pipe.log")).status().expect("mkfifo starts");
    assert!(pipe.success());
    write(
        &logs,
        "traces.toml",
        "governor = 'ondemand'\n['YCSB_WorkloadIC_NoTimingbdb100.log']\ngovernor = 'powersave'",
    );
    write(&logs.join("more"), "traces.toml", "['named.log']\nworkload = 'mine'\nengine = 'sqlite'");

    let rows = json(home.path(), &["trace", "logs", "--json"]);
    let of =
        |row: &Value| ["workload", "engine", "delay", "governor"].map(|key| row["of"][key].as_str().map(String::from));
    let found: Vec<_> = rows.as_array().unwrap().iter().filter(|row| !row["run"].is_null()).map(of).collect();
    let expected = [
        ["A", "sqlite", "published-log", "ondemand"],
        ["C", "sqlite", "1ms", "interactive"],
        ["IC", "bdb100", "none", "powersave"],
        ["mine", "sqlite", "", ""],
    ];
    let expected = expected.map(|row| row.map(|word| Some(word.to_owned()).filter(|word| !word.is_empty())));
    assert_eq!(found, expected);
    let first = rows.as_array().unwrap().iter().find(|row| row["of"]["workload"] == "A").unwrap();
    is_that_run(&first["run"], "SQL");
    assert_eq!(first["on_core_share"], 0.55);
    // (300 + 4 x 600 + 6 x 900) / 11 MHz.
    assert!((first["mean_khz"].as_f64().unwrap() - 8_100_000.0 / 11.0).abs() < 1.0);
    let broken = rows.as_array().unwrap().iter().find(|row| row["file"] == "more/broken.log").unwrap();
    assert!(broken["why_no_run"].as_str().unwrap().contains("line 1"));

    let words = ["A sqlite", "published-log", "55.0 %", "736", "1/0/1", "0/1", "1 of 5 logs have no run", "broken.log"];
    lab(home.path(), &["trace", "logs"]).ends_with(0).says(&words);
    lab(home.path(), &["trace", "logs", "--output", "page.html"]).ends_with(0).says(&["page.html", "1 of 5 logs"]);
    let page = fs::read_to_string(home.path().join("page.html")).unwrap();
    // 1, 4 and 6 ms of the 11 on a core, by frequency; the share of that time in the run; what is left out.
    for found in [
        "4 runs in 5 logs",
        "300 MHz",
        "900 MHz",
        "54.5%",
        "55.0 %",
        "more/broken.log",
        "IC none powersave",
        "trace logs --output page.html",
    ] {
        assert!(page.contains(found), "{found}");
    }
    let one = "logs/more/named.log";
    lab(home.path(), &["trace", one, "--output", "page.html"]).ends_with(1).complains(&["--output", "folder of logs"]);
    write(&logs, "traces.toml", "governer = 'ondemand'");
    lab(home.path(), &["trace", "logs"]).ends_with(1).complains(&["traces.toml", "governer"]);
    fs::create_dir(home.path().join("without")).unwrap();
    write(&home.path().join("without"), "x.log", &log("print: x", "print: x"));
    lab(home.path(), &["trace", "without"]).ends_with(1).complains(&["none of 1 logs", "x.log", "no marks"]);
    fs::create_dir(home.path().join("empty")).unwrap();
    lab(home.path(), &["trace", "empty"]).ends_with(1).complains(&["has no logs", ".gz"]);
}

#[test]
fn a_phones_run_is_replayed_like_the_labs_own() {
    let home = folder();
    write(home.path(), "x.log", &log(START, END));
    let device = ["--device", "nexus-5", "--json"];
    let answer = json(home.path(), &[&["advise", "governor", "x.log"][..], &device].concat());
    // 1 ms at 300 MHz, 4 at 600 and 6 at 900 are 8.1 million cycles; at the phone's 2,265.6 MHz 3.575 ms, in two
    // operations: after the sleep of 2 ms comes one whose wait is no sleep.
    let of = |name: &str| {
        let ranked = answer["advice"]["ranked"].as_array().unwrap().iter();
        ranked.clone().find(|a| a["governor"] == name).unwrap_or_else(|| panic!("no {name} in {answer}")).clone()
    };
    assert!(answer["assumed_khz"].is_null(), "{answer}");
    let (fast, slow) = (of("performance"), of("powersave"));
    let computing = |advised: &Value| advised["mean_latency_ns"].as_f64().unwrap();
    // The operations' times differ between the two by the cycles alone, over two operations: those that scale with the
    // clock, which are all but the profile's memory share of 18 %.
    let khz = |advised: &str| match advised {
        "slow" => 300_000.0,
        _ => 2_265_600.0,
    };
    let cycles = (computing(&slow) - computing(&fast)) * 2.0 / (1e6 / khz("slow") - 1e6 / khz("fast"));
    assert!((cycles / (0.82 * 8_100_000.0) - 1.0).abs() < 0.05, "{cycles} cycles");

    // Without frequencies, time on a core is that of a frequency that is told.
    let without: String =
        log(START, END).lines().filter(|l| !l.contains("cpu_frequency")).map(|l| l.to_owned() + "\n").collect();
    write(home.path(), "y.log", &without);
    let told = lab(home.path(), &["advise", "governor", "y.log", "--device", "nexus-5", "--recorded-khz", "1000000"]);
    told.ends_with(0).says(&["as at 1000000 kHz"]);
    write(home.path(), "none.log", &log("print: x", "print: x"));
    let none = lab(home.path(), &["advise", "governor", "none.log", "--device", "nexus-5"]);
    none.ends_with(1).complains(&["none.log", "no marks"]);
    // What is of the other kind of input only is not ignored.
    let log_only = lab(home.path(), &["advise", "governor", "x.log", "--device", "nexus-5", "--only", "1"]);
    log_only.ends_with(1).complains(&["--only", "a log"]);
    let run_only = lab(home.path(), &["advise", "governor", ".", "--device", "nexus-5", "--recorded-khz", "5"]);
    run_only.ends_with(1).complains(&["--recorded-khz", "a run"]);
}

/// Standard input may come a byte at a time, compressed or not.
#[test]
fn a_log_is_read_from_a_slow_pipe() {
    let home = folder();
    write(home.path(), "x.log", &log(START, END));
    let piped = |pack: &str, arguments: &str| {
        let slow = format!(
            "{pack} x.log | python3 -u -c 'import sys\nfor b in sys.stdin.buffer.read(): \
             sys.stdout.buffer.write(bytes([b]))'"
        );
        let script = format!("{slow} | '{}' {arguments}", binary().display());
        let out = Command::new("sh").args(["-c", &script]).current_dir(home.path()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    for pack in ["cat", "gzip -c"] {
        assert_eq!(piped(pack, "trace -"), piped("cat", "trace x.log"), "{pack}");
        let advice = piped(pack, "advise governor - --device nexus-5");
        assert!(advice.contains("governors tried"), "{advice}");
    }
}

/// 64 MB in a process that may have 48 MiB of memory of its own.
#[test]
fn a_long_log_takes_little_memory() {
    let home = folder();
    let script = format!("ulimit -d 49152; exec '{}' trace - --json", binary().display());
    let mut command = Command::new("sh");
    let mut child = command
        .args(["-c", &script])
        .current_dir(home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        input.write_all(line(1_000, 0, 77, START).as_bytes())?;
        let (mut at_us, mut bytes) = (1_000, 0);
        let mut chunk = String::new();
        // On a core for 1 us of every 2.
        while bytes < 64_000_000 {
            chunk.clear();
            for _ in 0..1000 {
                chunk += &switch(at_us + 1, 0, 77, "S", 0);
                chunk += &switch(at_us + 2, 0, 0, "R", 77);
                at_us += 2;
            }
            bytes += chunk.len();
            input.write_all(chunk.as_bytes())?;
        }
        input.write_all(line(at_us, 0, 77, END).as_bytes()).map(|()| at_us)
    });
    let out = child.wait_with_output().unwrap();
    let at_us = writer.join().unwrap().expect("it reads to the end");
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(found["run"]["runtime_ns"], (at_us - 1_000) * 1000);
    assert_eq!(found["run"]["on_core_ns"], (at_us - 1_000) * 500);
}

/// The published logs, whose folder `POCKETSTONE_REFERENCE` names.
fn published(name: &str) -> Result<PathBuf, pocketstone_testing::Skip> {
    let folder = std::env::var_os("POCKETSTONE_REFERENCE").map(PathBuf::from);
    let file = folder.map(|folder| folder.join("pocketdata/ftrace").join(name)).filter(|file| file.is_file());
    file.ok_or_else(|| Need::ReferenceData.lacks(format!("PocketData's log {name} is not here")))
}

/// What is expected was read from the logs by tests/benches/phone_traces.awk (app, wall, on a core, bursts) and
/// tests/benches/phone_traces.py (all of it), which share nothing with the crates.
#[test]
#[ignore = "reads published files, which are not this project's: make torture"]
fn the_published_logs_are_what_a_plain_reading_of_them_says() {
    for (name, app, wall_us, on_core_us, bursts, calls, block) in [
        ("YCSB_WorkloadC_NoTimingsql.log.gz", 3180, 1_082_858u64, 1_070_291u64, 36, [3626, 0, 0], [13, 0]),
        ("YCSB_WorkloadA_LogTimingsql.log.gz", 3348, 24_344_527, 6_864_412, 9775, [4074, 4987, 2235], [13, 5842]),
    ] {
        let file = or_skip!(published(name));
        let home = folder();
        let found = json(home.path(), &["trace", file.to_str().unwrap(), "--json"]);
        let run = &found["run"];
        assert_eq!((&run["name"], &run["app"]), (&"SQL".into(), &app.into()));
        assert_eq!((&run["runtime_ns"], &run["on_core_ns"]), (&(wall_us * 1000).into(), &(on_core_us * 1000).into()));
        assert_eq!(run["bursts"]["count"], bursts);
        assert_eq!(["reads", "writes", "syncs"].map(|key| run[key].as_i64().unwrap()), calls);
        assert_eq!(["block_reads", "block_writes"].map(|key| run[key].as_i64().unwrap()), block);
        let advice = ["advise", "governor", file.to_str().unwrap(), "--device", "nexus-5"];
        run_of(&home, &advice, if app == 3180 { "C sqlite none" } else { "A sqlite published-log" });
    }
}

fn run_of(home: &tempfile::TempDir, arguments: &[&str], of: &str) {
    run(&mut pocketstone(home.path(), arguments)).ends_with(0).says(&[of, "performance", "kHz (--recorded-khz)"]);
}
