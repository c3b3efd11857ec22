//! What a new user tries in the first hour: commands that are pasted, started twice, asked for too much.

use pocketstone_testing::{Need, or_skip, program, root};
use pocketstone_tests::command::{Ran, binary, changed, lab, pocketstone, poll, run, write};
use pocketstone_tests::project;
use pocketstone_tests::results;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Two points on this machine.
const SMALL: &str = r#"title = "A small file"
board = "host"
seed = 1

[[experiment]]
name = "small"
[experiment.factors]
file_system = "directory"
file_bytes = "1MiB"
requests = [8, 16]
read_ahead_by = "file"
read_ahead_bytes = ["128KiB", 0]
[experiment.compare]
factor = "read_ahead_bytes"
baseline = "128KiB"
candidate = 0

[[figure]]
name = "time"
title = "Total time"
caption = "Of all requests."
experiment = "small"
metric = "total_ns"
show = "value"
x = "requests"
series = ["read_ahead_bytes"]
only = "requests = 8"

[[claim]]
name = "time-passes"
text = "Reads take time"
value = "SELECT min(median) FROM summary WHERE metric = 'total_ns'"
unit = "nanoseconds"
at_least = 1
"#;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn seconds(text: &str) -> f64 {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn check(text: &str) -> Ran {
    let folder = folder();
    write(folder.path(), "s.toml", text);
    lab(folder.path(), &["study", "check", "s.toml"])
}

#[test]
fn the_command_in_the_results_makes_the_same_run_again() {
    let place = folder();
    let here = place.path().join("it's a place");
    fs::create_dir(&here).expect("a folder");
    write(&here, "my study.toml", SMALL);
    let words = ["run", "my study.toml", "--only", "requests = 8 AND 'a' != '$HOME'", "--directory", "some files"];
    lab(&here, &[&words[..], &["--output", "out"]].concat()).ends_with(0);
    let command: String = results::value(&here.join("out"), "SELECT value FROM run WHERE name = 'command'");
    // Pasted into a shell that is somewhere else.
    run(Command::new("sh").args(["-c", &command]).current_dir("/")).ends_with(0).says(&["2 cells measured"]);
    let again = here.join("results/latest");
    let point = "SELECT group_concat(point || seed || traced, ';') FROM (SELECT * FROM cell ORDER BY point)";
    assert_eq!(results::value::<String>(&again, point), results::value::<String>(&here.join("out"), point));
    // What goes on with a run belongs to it.
    lab(&here, &["run", "--resume", "out"]).ends_with(0).says(&["4 cells measured"]);
    let command: String = results::value(&here.join("out"), "SELECT value FROM run WHERE name = 'command'");
    assert!(!command.contains("--only") && command.contains("--directory"), "{command}");
}

#[test]
fn results_latest_leads_to_the_last_run() {
    let folder = folder();
    write(folder.path(), "s.toml", SMALL);
    let run = |more: &[&str]| {
        lab(folder.path(), &[&["run", "s.toml", "--directory", "files", "--only", "requests = 8"], more].concat())
            .ends_with(0)
    };
    run(&["--output", "elsewhere"]);
    assert!(!folder.path().join("results").exists(), "results of one's own place leave no link");
    run(&[]);
    let latest = || fs::read_link(folder.path().join("results/latest")).expect("results/latest");
    let first = latest();
    assert!(first.to_string_lossy().starts_with("s-"), "{}", first.display());
    run(&["--output", "results/mine"]);
    assert_eq!(latest(), Path::new("mine"));
    lab(folder.path(), &["report", "results/latest"]).ends_with(0);
    // Somebody's own folder of that name stays.
    fs::remove_file(folder.path().join("results/latest")).expect("the link");
    fs::create_dir(folder.path().join("results/latest")).expect("a folder");
    run(&["--output", "results/third"]);
    assert!(folder.path().join("results/latest").is_dir());
}

#[test]
fn a_folder_of_other_files_is_not_for_results() {
    let folder = folder();
    write(folder.path(), "s.toml", SMALL);
    fs::create_dir(folder.path().join("photos")).expect("a folder");
    write(&folder.path().join("photos"), "cat.jpg", "a cat");
    let run = |output: &str| lab(folder.path(), &["run", "s.toml", "--directory", "files", "--output", output]);
    run("photos").ends_with(1).complains(&["photos holds other files, such as cat.jpg", "hint: "]);
    assert_eq!(fs::read_dir(folder.path().join("photos")).expect("photos").count(), 1);
    run("s.toml").ends_with(1);
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    run("empty").ends_with(0);
}

#[test]
fn one_command_at_a_time_adds_to_a_run_and_the_other_is_told_who() {
    let folder = folder();
    let long = changed(SMALL, "requests = [8, 16]", "requests = 20\ninter_arrival_ns = \"100ms\"");
    let long = changed(&changed(&long, "only = \"requests = 8\"\n", ""), "seed = 1", "seed = 1\nrepetitions = 5");
    write(folder.path(), "s.toml", &long);
    let mut first = pocketstone(folder.path(), &["run", "s.toml", "--directory", "files", "--output", "out"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a run");
    let results = folder.path().join("out/results.sqlite");
    // Another run on this machine's board may have to end first.
    poll(Duration::from_secs(120), || results.exists().then_some(())).expect("results");
    let second = lab(folder.path(), &["run", "--resume", "out", "--directory", "files"]).ends_with(1);
    second.complains(&[&format!("out is in use by process {}", first.id()), "run s.toml", "hint: "]);
    let new = lab(folder.path(), &["run", "s.toml", "--directory", "files", "--output", "out"]);
    new.ends_with(1).complains(&["already exists"]);
    // One that is killed leaves no lock.
    first.kill().expect("it runs");
    first.wait().expect("it ends");
    lab(folder.path(), &["run", "--resume", "out", "--only", "seed = 1"]).ends_with(0);
    assert!(!folder.path().join("out/in-use").exists());
}

#[test]
fn json_has_the_cells_of_a_dry_run_and_the_numbers_of_a_run() {
    let folder = folder();
    write(folder.path(), "s.toml", SMALL);
    let json = |words: &[&str]| {
        let ran =
            lab(folder.path(), &[&["run", "s.toml", "--directory", "files", "--json"], words].concat()).ends_with(0);
        serde_json::from_str::<serde_json::Value>(&ran.out).unwrap_or_else(|e| panic!("{e} in {ran}"))
    };
    let dry = json(&["--dry-run"]);
    assert_eq!(dry["number"].as_u64(), Some(dry["cells"].as_array().expect("cells").len() as u64));
    assert_eq!(dry["cells"][0]["point"]["requests"], 8);
    let outcome = json(&["--output", "out"]);
    let statistics = outcome["statistics"].as_array().expect("statistics");
    let is = |row: &&serde_json::Value| {
        row["metric"] == "total_ns" && row["point"]["requests"] == 8 && row["point"]["read_ahead_bytes"] == 0
    };
    let median = statistics.iter().find(is).expect("the point's time")["median"].as_f64();
    let stored = "SELECT median FROM summary WHERE metric = 'total_ns' AND requests = 8 AND read_ahead_bytes = 0";
    assert_eq!(median, Some(results::value(&folder.path().join("out"), stored)));
    assert!(outcome["comparisons"].as_array().is_some_and(|c| c.iter().any(|row| row["metric"] == "total_ns")));
}

#[test]
fn a_comparison_is_of_the_cells_that_both_have() {
    let folder = folder();
    write(folder.path(), "s.toml", &changed(SMALL, "seed = 1", "seed = 1\nrepetitions = 2"));
    let run = |output: &str| {
        lab(folder.path(), &["run", "s.toml", "--directory", "files", "--output", output]).ends_with(0);
        results::change(&folder.path().join(output))
    };
    let (a, b) = (run("a"), run("b"));
    // The same numbers in both, but for a seed that one of them lacks: there its median would be another.
    for db in [&a, &b] {
        let set = "UPDATE metric SET value = 1000.0 * (SELECT seed FROM cell WHERE id = cell) WHERE name = 'total_ns';
                   UPDATE statistic SET median = 1500, low = 1000, high = 2000 WHERE metric = 'total_ns'";
        db.execute_batch(set).expect("numbers");
    }
    b.execute_batch(
        "PRAGMA foreign_keys = ON; DELETE FROM cell WHERE seed = 2;
         UPDATE statistic SET median = 1000, low = 1000, high = 1000 WHERE metric = 'total_ns'",
    )
    .expect("cells");
    drop((a, b));
    let compared = lab(folder.path(), &["compare", "a", "b"]).ends_with(0);
    assert!(
        !compared.out.contains("total_ns") && compared.out.contains("4 cells are in only one of the runs"),
        "{compared}"
    );
    // What the second run has more is no loss; what it has less is one.
    lab(folder.path(), &["compare", "b", "a", "--max-regression", "1"]).ends_with(0);
    let less = lab(folder.path(), &["compare", "a", "b", "--max-regression", "1"]).ends_with(3);
    less.complains(&["4 cells of the first run are missing or failed in the second"]);
}

#[test]
fn a_new_study_is_one_whatever_its_workload() {
    let folder = folder();
    let new = |arguments: &[&str]| lab(folder.path(), &[&["study", "new"][..], arguments].concat());
    let line = "sort -t, -k2,2 names.csv";
    let one = ["line.toml", "--board", "host", "--workload", "command", "--set", &format!("command={line}")];
    new(&one).ends_with(0);
    let written: toml::Table = fs::read_to_string(folder.path().join("line.toml")).unwrap().parse().unwrap();
    assert_eq!(written["experiment"][0]["factors"]["command"].as_str(), Some(line));
    let on_files = ["read", "files", "postmark", "app-start", "iozone", "lookup", "androsh", "filebench", "capacity"];
    for workload in on_files.into_iter().chain(["command", "ycsb-a", "contacts"]) {
        let file = format!("{workload}.toml");
        new(&[&file, "--workload", workload, "--board", "host"]).ends_with(0).says(&["cells on a host board", "ok"]);
        // A line for each factor, and nothing that is not wanted.
        let text = fs::read_to_string(folder.path().join(&file)).expect("a study");
        assert!(text.contains("\n# ") && text.contains("file_system = \"directory\""), "{text}");
    }
    let more = ["many.toml", "--workload", "read", "--file-systems", "jffs2,ubifs", "--set", "requests=16,64"];
    new(&[&more[..], &["--set", "read_ahead_bytes=0,128KiB", "--repetitions", "2"]].concat()).ends_with(0);
    lab(folder.path(), &["run", "many.toml", "--dry-run"]).ends_with(0).says(&["32 cells on the board virt-nand"]);
    // It runs as it is.
    lab(folder.path(), &["run", "files.toml", "--only", "seed = 0", "--directory", "x"]).ends_with(0);
    let set = ["set.toml", "--workload", "read", "--board", "virt-nand", "--set", "file_system=jffs2,ubifs"];
    new(&[&set[..], &["--set", "requests=16,64"]].concat()).ends_with(0);
    lab(folder.path(), &["run", "set.toml", "--dry-run"]).ends_with(0).says(&["40 cells on the board virt-nand"]);
    let file = |name: &str| folder.path().join(name).exists();
    for (workload, factor) in [("calls", "calls_file"), ("fio", "fio_file")] {
        let of = ["recorded.toml", "--board", "host", "--workload", workload];
        new(&of).ends_with(1).complains(&["needs a file", &format!("--set {factor}=FILE")]);
        new(&[&of[..], &["--set", &format!("{factor}=none")]].concat()).ends_with(1).complains(&["none"]);
        assert!(!file("recorded.toml"));
    }
    new(&["recorded.toml", "--board", "host", "--workload", "prepared"]).ends_with(1).complains(&["workload_file"]);
    write(folder.path(), "job.fio", "[a]\nrw=write\nsize=64k\n");
    new(&["fio.toml", "--board", "host", "--workload", "fio", "--set", "fio_file=job.fio"]).ends_with(0);
    new(&["wrong.toml", "--set", "requests=1", "--set", "requests=2"]).ends_with(1).complains(&["set twice"]);
    new(&["wrong.toml", "--set", "workload=read,files"]).ends_with(1).complains(&["--workload"]);
    new(&["wrong.toml", "--file-systems", "ubifs", "--set", "file_system=jffs2"])
        .ends_with(1)
        .complains(&["the same thing"]);
    new(&["files.toml"]).ends_with(1).complains(&["files.toml exists"]);
    new(&["wrong.toml", "--workload", "none"]).ends_with(1).complains(&["unknown workload `none`", "ycsb-a"]);
    new(&["wrong.toml", "--set", "requests=a"]).ends_with(1).complains(&["requests", "wrong.toml:"]);
    new(&["wrong.toml", "--set", "requests"]).ends_with(1).complains(&["sets nothing"]);
    new(&["wrong.toml", "--board", "none"]).ends_with(1).complains(&["unknown board"]);
    assert!(!folder.path().join("wrong.toml").exists());
}

/// For Python: the results, and what each exported table is of them.
const TABLES: &str = r#"
import sqlite3
db = sqlite3.connect('a/results.sqlite')
queries = {'run': 'SELECT name, value FROM run ORDER BY name', 'calls': 'SELECT * FROM call ORDER BY cell, number',
           'metrics': 'SELECT cell, name, value FROM metric ORDER BY cell, name',
           'cells': 'SELECT * FROM cells ORDER BY id', 'statistics': 'SELECT * FROM summary'}
"#;

/// What is exported is what the results have, as others read it.
#[test]
fn tables_are_exported_for_other_programs() {
    let python = or_skip!(program("python3", "python3"));
    let folder = folder();
    write(folder.path(), "s.toml", SMALL);
    lab(folder.path(), &["run", "s.toml", "--directory", "files", "--output", "a"]).ends_with(0);
    results::change(&folder.path().join("a"))
        .execute("UPDATE run SET value = 'a \"b\", c' || char(10) || 'd' WHERE name = 'host.kernel'", [])
        .expect("a text that is not plain");
    lab(folder.path(), &["export", "a", "--csv", "tables"]).ends_with(0).says(&["tables/calls.csv"]);
    lab(folder.path(), &["export", "a", "--json", "tables"]).ends_with(0).says(&["tables/calls.json"]);
    let script = r#"
import csv, json
for name, sql in queries.items():
    rows = db.execute(sql).fetchall()
    with open('tables/%s.csv' % name, newline='') as file: of_csv = list(csv.reader(file))[1:]
    of_json = [list(row.values()) for row in json.load(open('tables/%s.json' % name))]
    assert rows and of_json == [list(row) for row in rows], name
    same = lambda text, value: text == '' if value is None else \
        text == value if isinstance(value, str) else float(text) == value
    assert len(of_csv) == len(rows), name
    assert all(same(text, value) for a, b in zip(of_csv, rows) for text, value in zip(a, b)), name
print('equal')
"#;
    run(Command::new(python).args(["-c", &format!("{TABLES}{script}")]).current_dir(folder.path()))
        .ends_with(0)
        .says(&["equal"]);
    // Without a folder, beside what they are from.
    lab(folder.path(), &["export", "a", "--csv"]).ends_with(0).says(&["a/tables/calls.csv"]);
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a table");
    assert_eq!(read("a/tables/calls.csv"), read("tables/calls.csv"));
    lab(folder.path(), &["export", "a"]).ends_with(2).complains(&["--csv"]);
    lab(folder.path(), &["export", "a", "--csv", "x", "--json", "y"]).ends_with(2);
    lab(folder.path(), &["export", "a", "--csv", "x", "--only", "1"]).ends_with(2).complains(&["--only"]);
}

/// Parquet is read by a program that is not ours.
#[test]
fn tables_are_exported_as_parquet() {
    let fetched = project().join(".cache/duckdb");
    let whole = fetched.join("complete").exists();
    or_skip!(whole.then_some(()).ok_or_else(|| Need::Programs.lacks("there is no DuckDB: scripts/python-modules")));
    let python = fetched.join("bin/python");
    let folder = folder();
    write(folder.path(), "s.toml", SMALL);
    lab(folder.path(), &["run", "s.toml", "--directory", "files", "--output", "a"]).ends_with(0);
    lab(folder.path(), &["export", "a", "--parquet", "tables"]).ends_with(0).says(&["tables/calls.parquet"]);
    let script = r#"
import duckdb
for name, sql in queries.items():
    rows = db.execute(sql).fetchall()
    found = duckdb.sql("SELECT * FROM 'tables/%s.parquet'" % name)
    assert rows and found.fetchall() == rows, name
types = dict(zip(found.columns, map(str, found.types)))
assert (types['metric'], types['n'], types['median']) == ('VARCHAR', 'BIGINT', 'DOUBLE'), types
print('equal')
"#;
    run(Command::new(python).args(["-c", &format!("{TABLES}{script}")]).current_dir(folder.path()))
        .ends_with(0)
        .says(&["equal"]);
}

/// Read by a parser that is not ours.
#[test]
fn claims_and_failed_cells_are_told_to_ci_servers() {
    let python = or_skip!(program("python3", "python3"));
    let folder = folder();
    let more = "[[claim]]\nname = 'too-much'\ntext = 'A & B < \"C\"'\nvalue = 'SELECT 1'\nunit = 'number'\n\
                at_least = 2\nrequired = true\n[[claim]]\nname = 'nothing'\ntext = 'Nothing'\n\
                value = 'SELECT value FROM metric WHERE 0'\nunit = 'number'\nat_least = 2\n";
    write(folder.path(), "s.toml", &format!("{SMALL}{more}"));
    lab(folder.path(), &["run", "s.toml", "--directory", "files", "--output", "a"]).ends_with(3);
    results::change(&folder.path().join("a"))
        .execute(
            "UPDATE cell SET status = 'failed', message = 'it \u{1} broke' || char(10) || '<here>' WHERE id = 1",
            [],
        )
        .expect("a failed cell");
    // And its traced twin.
    let twin = "UPDATE cell SET status = 'failed', message = 'so did this', traced = 1, \
                (experiment, point, seed) = (SELECT experiment, point, seed FROM cell WHERE id = 1) \
                WHERE id = (SELECT max(id) FROM cell)";
    results::change(&folder.path().join("a")).execute(twin, []).expect("a failed twin");
    lab(folder.path(), &["report", "a", "--junit", "a.xml"]).ends_with(0);
    let script = "import sys, xml.etree.ElementTree as e\nt = e.parse('a.xml').getroot()\n\
                  print(t.get('name'), t.get('tests'), t.get('failures'), t.get('errors'), t.get('skipped'))\n\
                  for c in t: print(c.get('classname'), '|', c.get('name')[:24], '|', c[0].tag, '|', \
                  c[0].get('message'))\nassert len({c.get('name') for c in t}) == len(t), 'names'";
    let read = run(Command::new(python).args(["-c", script]).current_dir(folder.path())).ends_with(0);
    let lines: Vec<&str> = read.out.lines().collect();
    assert_eq!(lines[0], "s 5 1 2 1", "{read}");
    assert!(lines[1].starts_with("s.claims | time-passes: Reads take") && lines[1].contains("system-out"), "{read}");
    assert!(lines[2].starts_with("s.claims | too-much: A & B < \"C\" | failure"), "{read}");
    assert!(lines[3].starts_with("s.claims | nothing: Nothing | skipped | unavailable"), "{read}");
    assert!(lines[4].starts_with("s.cells | small: ") && lines[4].ends_with("| error | it  broke"), "{read}");
    assert_eq!(lines[5], "<here>");
}

#[test]
fn a_regression_is_judged_by_the_studys_metrics_and_told_apart_from_noise() {
    let folder = folder();
    let five = changed(SMALL, "seed = 1", "seed = 1\nrepetitions = 5\njudged_metrics = [\"operations_per_s\"]");
    write(folder.path(), "five.toml", &five);
    write(folder.path(), "one.toml", &changed(&five, "repetitions = 5", "repetitions = 1"));
    let run = |study: &str, output: &str, rate: f64| {
        lab(folder.path(), &["run", study, "--directory", "files", "--output", output]).ends_with(0);
        let db = results::change(&folder.path().join(output));
        db.execute("UPDATE metric SET value = ?1 WHERE name = 'operations_per_s'", [rate]).expect("a rate");
    };
    let compare = |a: &str, b: &str| lab(folder.path(), &["compare", a, b, "--max-regression", "20"]);
    for study in ["five", "one"] {
        run(&format!("{study}.toml"), &format!("{study}-1000"), 1000.0);
        run(&format!("{study}.toml"), &format!("{study}-500"), 500.0);
    }
    // Fewer operations in a second are worse, more are not; time is not what this study judges.
    let slower = compare("five-1000", "five-500").ends_with(3).complains(&["4 medians are worse by more than 20 %"]);
    slower.says(&["operations_per_s: 1000/s -> 500/s (pairs -50.0 %; 93.7% interval: -50.0 to -50.0), smaller"]);
    let faster = compare("five-500", "five-1000").ends_with(0).says(&["operations_per_s: 500/s -> 1000/s"]);
    assert!(!faster.out.contains("total_ns"), "{faster}");
    // The same for programs, and for the summary of a CI job.
    let told = |form: &str| {
        lab(folder.path(), &["compare", "five-1000", "five-500", "--max-regression", "20", form]).ends_with(3).out
    };
    let json: serde_json::Value = serde_json::from_str(&told("--json")).expect("JSON");
    assert_eq!(json["faults"], serde_json::json!(["4 medians are worse by more than 20 %"]));
    let rows = json["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["metric"] == "operations_per_s" && row["change"] == -0.5), "{json}");
    assert_eq!((rows.len(), &rows[0]["regression"], &rows[0]["verdict"]), (4, &0.5.into(), &"smaller".into()));
    let page = told("--markdown");
    assert!(page.contains("**Failed**: 4 medians are worse by more than 20 %."), "{page}");
    let line = page.lines().find(|line| line.contains("operations_per_s")).expect("a row");
    assert!(line.ends_with("| smaller |") && line.contains("| 1000/s | 500/s | -50.0 %"), "{line}");
    assert_eq!(line.matches('|').count(), 7, "{line}");
    assert_eq!((&json["unjudged_rows"], &rows[0]["reason"]), (&0.into(), &serde_json::Value::Null), "{json}");
    // What is judged and gone is no success.
    let five = results::change(&folder.path().join("five-500"));
    five.execute("DELETE FROM metric WHERE name = 'operations_per_s' AND cell = 1", []).expect("less");
    compare("five-500", "five-1000").ends_with(0);
    compare("five-1000", "five-500").ends_with(3).complains(&["1 median of the first run is without values"]);
    // One run each of a machine that does not repeat to the bit says nothing.
    let one = compare("one-1000", "one-500").ends_with(3);
    let one = one.complains(&["none of the medians can be judged", "repetitions = 5"]);
    one.says(&[
        "operations_per_s: 1000/s -> 500/s (pairs -50.0 %), cannot tell",
        "4 medians cannot be distinguished from noise",
    ]);
}

#[test]
fn a_check_says_first_how_many_cells_and_how_long_and_is_quick_with_100_000() {
    let many = changed(SMALL, "requests = [8, 16]", &format!("requests = {:?}", (1..=250).collect::<Vec<_>>()));
    // On a virtual board each has a twin: 250 x 2 x 100 x 2.
    let many = changed(&many, "seed = 1", "seed = 1\nrepetitions = 100");
    let folder = folder();
    write(folder.path(), "s.toml", &many);
    // Time of a processor: other tests run beside it.
    let script = format!("TIMEFORMAT='took %U %S'; time {} study check s.toml", binary().display());
    let checked = run(Command::new("bash").args(["-c", &script]).current_dir(folder.path())).ends_with(0);
    let first = checked.out.lines().next().unwrap_or_default();
    assert!(first.contains("100000 cells on a virtual board, about "), "{checked}");
    let took: f64 = checked.err.rsplit("took ").next().unwrap_or_default().split_whitespace().map(seconds).sum();
    let limit = if binary().to_string_lossy().contains("release") { 3.0 } else { 60.0 };
    assert!(took > 0.0 && took < limit, "{took} s: {checked}");
    let more = changed(&many, "repetitions = 100", "repetitions = 101");
    check(&more).ends_with(1).complains(&["101000 cells", "--many-cells"]);
    let far_more: Vec<u32> = (1..=20_000).collect();
    let far_more =
        changed(SMALL, "requests = [8, 16]", &format!("requests = {far_more:?}\ninter_arrival_ns = {far_more:?}"));
    write(folder.path(), "s.toml", &far_more);
    // Counted, not made.
    lab(folder.path(), &["run", "s.toml", "--dry-run"]).ends_with(1).complains(&["1600000000 cells", "--many-cells"]);
    write(folder.path(), "more.toml", &more);
    lab(folder.path(), &["study", "check", "more.toml", "--many-cells"]).ends_with(0).says(&["101000 cells"]);
}

#[test]
fn what_cannot_be_is_refused_where_it_stands() {
    for (from, to, words) in [
        ("board = \"host\"", "board = \"hots\"", &["s.toml:2:9", "unknown board `hots`", "virt-nand"][..]),
        ("candidate = 0", "candidate = \"128KiB\"", &["s.toml:16:13", "baseline and candidate are both 128 KiB"]),
        ("[\"128KiB\", 0]", "[\"128KiB\", 0, 1000]", &["s.toml:12:20", "1000", "multiple of 1024"]),
        ("[8, 16]", "[8, 16, 8]", &["s.toml:10:12", "the value 8 twice"]),
        ("seed = 1", "seed = 1\nrepetitions = 0", &["s.toml:4:15", "repetitions must be 1 or more"]),
        ("name = \"small\"", "name = \"small\"\nrepetitions = 0", &["s.toml:7:15", "repetitions must be 1 or more"]),
        ("[8, 16]", "[8, 16]\nrequest_bytes = [\"4KiB\", \"2MiB\"]", &["s.toml:11:17", "do not fit a file", "small"]),
        ("\"directory\"", "\"tmpfs\"", &["s.toml:12:20", "tmpfs in memory does not support read-ahead"]),
        ("\"directory\"", "\"jffs2\"\nmedium = \"ubi\"", &["s.toml:9:10", "jffs2 is unsupported on ubi", "medium = "]),
        ("\"directory\"", "\"ntfs\"", &["s.toml:8:15", "unknown value `ntfs` of `file_system`", "squashfs-ubi"]),
        ("only = \"requests = 8\"", "only = \"requsts = 8\"", &["s.toml:27:8", "no such column: requsts"]),
    ] {
        let complaint = check(&changed(SMALL, from, to)).ends_with(1).complains(words);
        assert!(!complaint.err.contains("SELECT"), "the text around the user's is none of theirs: {complaint}");
    }
    let flash = changed(&changed(SMALL, "\"host\"", "\"virt-nand\""), "\"directory\"", "\"jffs2\"");
    let flash = changed(&changed(&flash, "= \"file\"", "= \"mount\""), "\"1MiB\"", "\"300MiB\"");
    check(&flash).ends_with(1).complains(&["s.toml:9:14", "300 MiB", "256 MiB"]);
    // This machine offers no flash.
    let checked = check(&changed(&flash, "\"300MiB\"", "\"1MiB\"")).ends_with(0);
    assert!(checked.out.contains("8 of 8 cannot run on this machine"), "{checked}");
    assert!(!check(SMALL).ends_with(0).out.contains("cannot run"));
}

#[test]
fn a_check_runs_nothing() {
    let folder = folder();
    write(folder.path(), "s.toml", SMALL);
    let own = folder.path().join("temporary");
    fs::create_dir(&own).expect("a folder");
    // A board that is asked anything has a folder there.
    let checked = run(pocketstone(folder.path(), &["study", "check", "s.toml"]).env("TMPDIR", &own)).ends_with(0);
    assert_eq!(fs::read_dir(&own).expect("it is there").count(), 0, "{checked}");
}

#[test]
fn a_query_without_an_end_is_ended() {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let claim = changed(SMALL, "SELECT min(median) FROM summary WHERE metric = 'total_ns'", endless);
    let claim = std::thread::spawn(move || check(&claim));
    let folder = folder();
    write(folder.path(), "s.toml", SMALL);
    let only = format!("requests IN ({endless})");
    let only = lab(folder.path(), &["run", "s.toml", "--dry-run", "--only", &only]).ends_with(1);
    only.complains(&["takes longer than 5 s"]);
    let claim = claim.join().expect("a check").ends_with(1);
    claim.complains(&["s.toml:32", "`time-passes`", "takes longer than 5 s", endless]);
    let short = lab(folder.path(), &["run", "s.toml", "--dry-run", "--only", "requests = "]).ends_with(1);
    assert!(!short.err.contains("SELECT") && short.err.contains("it is incomplete"), "{short}");
}

#[test]
fn an_edited_study_stays_and_lines_that_fail_are_listed() {
    let folder = folder();
    let example = project().join("examples");
    let (db, log) = (example.join("app.db"), example.join("log.sql"));
    let mut text = fs::read_to_string(log).expect("the example");
    text += "4.500 SELECT * FROM nobody\n4.600 SELECT ?\n4.700 SELECT 'last'\n";
    write(folder.path(), "log.sql", &text);
    let import = |more: &[&str]| {
        let words = ["import", "--db", db.to_str().expect("a path"), "--queries", "log.sql", "--study", "own.toml"];
        lab(folder.path(), &[&words, more].concat())
    };
    let number = |line: &str| text.lines().position(|l| l == line).expect("a line") + 1;
    let (nobody, unbound) = (number("4.500 SELECT * FROM nobody"), number("4.600 SELECT ?"));
    import(&[]).ends_with(1).complains(&[&format!("line {unbound}: it has 1 `?` but 0 values"), "--skip-errors"]);
    let imported = import(&["--skip-errors"]).ends_with(0);
    imported.says(&[
        &format!("line {nobody}: "),
        "no such table: nobody",
        &format!("line {unbound}: "),
        "61 operations",
        "starts from a database of 7168 bytes",
    ]);
    import(&["--skip-errors"]).ends_with(0);
    let edited = fs::read_to_string(folder.path().join("own.toml")).expect("the study") + "# mine\n";
    write(folder.path(), "own.toml", &edited);
    import(&["--skip-errors"]).ends_with(1).complains(&["own.toml already exists", "--study another name"]);
    assert_eq!(fs::read_to_string(folder.path().join("own.toml")).expect("the study"), edited);
    write(folder.path(), "notes.txt", "mine");
    let (db, log) = (db.to_str().expect("a path"), "log.sql");
    let words =
        ["import", "--db", db, "--queries", log, "--study", "new.toml", "--output", "notes.txt", "--skip-errors"];
    lab(folder.path(), &words).ends_with(1);
    assert_eq!(fs::read_to_string(folder.path().join("notes.txt")).expect("notes"), "mine");
}

#[test]
fn after_root_another_user_can_still_run() {
    let folder = folder();
    or_skip!(root());
    let (root, other) = (folder.path().join("root"), folder.path().join("other"));
    for place in [&root, &other] {
        fs::create_dir(place).expect("a folder");
        write(place, "s.toml", SMALL);
    }
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("the mode");
    // A number that no account has.
    const USER: u32 = 61_234;
    for path in [&other, &other.join("s.toml")] {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).expect("the owner");
    }
    let only = ["run", "s.toml", "--only", "requests = 8", "--output", "out"];
    run(pocketstone(&root, &only).env("POCKETSTONE_CACHE", root.join("cache"))).ends_with(0);
    let mut as_other = Command::new("setpriv");
    as_other.args(["--reuid", &USER.to_string(), "--regid", &USER.to_string(), "--clear-groups"]);
    as_other.arg(binary()).args(only).current_dir(&other).env("POCKETSTONE_CACHE", other.join("cache"));
    let ran = run(as_other.env("HOME", &other));
    let _ = fs::remove_dir_all(format!("/var/tmp/pocketstone-{USER}"));
    if ran.err.contains("Permission denied") && ran.status.is_some_and(|s| s >= 126) {
        return Need::Root.lacks("a second user: what was built is in a folder that only root may enter").end();
    }
    ran.ends_with(0).says(&["2 cells measured"]);
}

#[test]
fn a_narrow_terminal_has_whole_words() {
    let folder = folder();
    write(folder.path(), "s.toml", SMALL);
    lab(folder.path(), &["run", "s.toml", "--directory", "files", "--output", "out"]).ends_with(0);
    // util-linux's script is a terminal; its size is set by stty.
    let command = format!("stty cols 40; {} run --resume out --only 'requests = 8'", binary().display());
    let script = or_skip!(program("script", "bsdutils"));
    let output = Command::new(script).args(["-qec", &command, "/dev/null"]).current_dir(folder.path()).output();
    let ran = String::from_utf8_lossy(&output.expect("script runs").stdout).into_owned();
    let plain: Vec<&str> = ran.lines().map(|l| l.trim_end()).filter(|l| !l.contains('\u{1b}')).collect();
    let folders = |line: &str| line.contains('/');
    let long: Vec<_> = plain.iter().filter(|l| l.chars().count() > 40 && !folders(l)).collect();
    assert!(long.is_empty() && ran.contains("requests: 8"), "{long:?} in\n{ran}");
}

#[test]
fn what_names_no_file_system_gets_one_that_its_board_has() {
    let folder = folder();
    let boards = [("virt-nand", "jffs2"), ("virt-emmc", "ext4-block"), ("virt-emmc-arm64", "ext4-block")];
    for (board, file_system) in boards.into_iter().chain([("host", "directory")]) {
        for workload in ["read", "files", "command"] {
            let file = format!("{board}-{workload}.toml");
            lab(folder.path(), &["study", "new", &file, "--board", board, "--workload", workload]).ends_with(0);
            lab(folder.path(), &["study", "check", &file]).ends_with(0).says(&["ok"]);
            let text = fs::read_to_string(folder.path().join(&file)).expect("a study");
            assert!(text.contains(&format!("file_system = \"{file_system}\"\n")), "{board}: {text}");
        }
        let run = ["run", "--board", board, "--dry-run", "--", "true"];
        lab(folder.path(), &run).ends_with(0).says(&[&format!("file_system={file_system} ")]);
    }
}
