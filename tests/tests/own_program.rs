//! Programs of the user's under test: `pocketstone run -- PROGRAM`, and the workload `command`.

use pocketstone_random::Random;
use pocketstone_testing::wait::until;
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::{Process, board, changed, lab, pocketstone, run, write};
use pocketstone_tests::results::{self, metric};
use pocketstone_tests::suites::built;
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes 16 pages one by one, each made durable, reads them back at once, and has a child that writes 100 bytes.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char page[65536];

int main(int count, char **words) {
    int data = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int n = 0; n < 16; n++)
        if (write(data, page, 4096) != 4096 || fsync(data)) return 1;
    if (pread(data, page, 65536, 0) != 65536) return 2;
    if (fork() == 0) {
        int other = open("of the child", O_WRONLY | O_CREAT, 0600);
        _exit(write(other, page, 100) != 100);
    }
    int status;
    if (wait(&status) < 0 || status) return 3;
    printf("%s with seed %s\n", count > 1 ? words[1] : "nothing", getenv("POCKETSTONE_SEED"));
    return 0;
}
"#;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// The program in a folder, for this machine or for the board.
fn build(compiler: &Path, folder: &Path) {
    compile(compiler, folder, "app", PROGRAM, &["-static"]);
}

fn compile(compiler: &Path, folder: &Path, name: &str, text: &str, options: &[&str]) {
    let source = format!("{name}.c");
    write(folder, &source, text);
    let made = run(Command::new(compiler).args(["-O1", "-o", name, &source]).args(options).current_dir(folder));
    made.ends_with(0);
}

/// Calls of the first traced cell on a file: reads, bytes read, writes, bytes written, syncs.
fn calls(db: &Connection, file_system: &str, file: &str) -> [u64; 5] {
    let sql = "SELECT reads, read_bytes, writes, written_bytes, syncs FROM file_cost JOIN cells ON id = cell \
               WHERE file_system = ?1 AND file LIKE '%/' || ?2 ORDER BY id LIMIT 1";
    let row = db.query_row(sql, [file_system, file], |row| {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
    });
    row.unwrap_or_else(|e| panic!("{file} on {file_system}: {e}"))
}

#[test]
fn a_program_of_ones_own_is_measured_on_volumes_of_this_machine() {
    let home = folder();
    build(&or_skip!(program("cc", "gcc")), home.path());
    let arguments = ["run", "--repetitions", "2", "--set", "file_system=tmpfs,directory", "--output", "out"];
    let said = lab(home.path(), &[&arguments[..], &["--", "./app", "it's me"]].concat());
    let said =
        said.ends_with(0).says(&["from start to end", "its output", "it's me with seed 0", "tmpfs", "directory"]);
    assert!(!said.out.contains("failed") && said.out.contains("range of 2"), "{said}");
    let out = home.path().join("out");
    let value = |sql: &str| results::value::<String>(&out, sql);
    // Two seeds on two volumes, and the first seed's traced twins.
    assert_eq!(value("SELECT count(*) || ' ' || sum(traced) FROM cell WHERE status = 'done'"), "6 2");
    let output = "SELECT group_concat(DISTINCT json_extract(outcome, '$.command.output')) FROM cell WHERE seed = 1";
    assert_eq!(value(output), "it's me with seed 1\n");
    assert_eq!(value("SELECT group_concat(DISTINCT value) FROM metric WHERE name = 'output_bytes'"), "20.0");
    let took = "SELECT count(*) FROM cells a JOIN metric t ON t.cell = a.id AND t.name = 'total_ns' \
                JOIN metric c ON c.cell = a.id AND c.name = 'on_core_ns' WHERE t.value > 0 AND c.value < 10 * t.value";
    assert_eq!(value(&format!("SELECT '' || ({took})")), "4");
    let traced = results::read(&out).query_row("SELECT count(*) FROM file_cost", [], |row| row.get::<_, u64>(0));
    if traced.unwrap() > 0 {
        // The whole of it, whatever the names of the files are: the child's write and that of the line it says, too.
        let sum = "SELECT group_concat(DISTINCT writes || ' ' || written || ' ' || syncs) FROM (SELECT \
                   sum(writes) AS writes, sum(written_bytes) AS written, sum(syncs) AS syncs \
                   FROM file_cost GROUP BY cell)";
        assert_eq!(value(sum), format!("18 {} 16", 16 * 4096 + 100 + 20));
        said.says(&["64.1 KiB"]);
    }
    // What was run is kept, and can be run again; the report has the tables.
    assert_eq!(fs::read_dir(out.join("workloads")).unwrap().count(), 1);
    let report = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains("What it took") && report.contains("Its files") && !report.contains("Results: command"));
    let (answer, opening) = answer_and_opening(&report);
    assert!(answer.contains(" with the fastest setting and ") && answer.contains(" with the slowest"), "{answer}");
    assert!(opening.contains(">tmpfs</text>") && opening.contains(">directory</text>"), "{opening}");
    lab(home.path(), &["run", "--resume", "out"]).ends_with(0);
}

/// The sentence that a report opens with, and the figure that follows it.
fn answer_and_opening(report: &str) -> (String, &str) {
    let between = |start: &str, end: &str| {
        let rest = report.split_once(start).unwrap_or_else(|| panic!("the page has no {start}")).1;
        rest.split_once(end).unwrap().0
    };
    (between("class=\"answer\">", "</p>").replace('\u{a0}', " "), between("class=\"opening\"", "</section>"))
}

#[test]
fn the_page_opens_with_what_the_time_went_to() {
    let home = folder();
    let arguments = ["run", "--repetitions", "1", "--set", "file_system=tmpfs", "--output", "out"];
    lab(home.path(), &[&arguments[..], &["--", "sleep", "0.3"]].concat()).ends_with(0);
    let report = fs::read_to_string(home.path().join("out/report.html")).unwrap();
    let (answer, opening) = answer_and_opening(&report);
    let milliseconds = |before: &str, after: &str| -> f64 {
        let text = answer.split_once(before).unwrap_or_else(|| panic!("{answer}")).1.split_once(after).unwrap().0;
        let (number, unit) = text.split_once(' ').unwrap_or_else(|| panic!("{answer}"));
        number.parse::<f64>().unwrap() * [("ms", 1.0), ("µs", 1e-3)].into_iter().find(|(u, _)| *u == unit).unwrap().1
    };
    let (total, core) =
        (milliseconds("A run takes ", " from start to end: "), milliseconds(" end: ", " on a core and "));
    let waiting = milliseconds(" on a core and ", " waiting");
    // All but the start of a program is asleep; numbers have three digits.
    assert!(total >= 300.0 && waiting >= 295.0 && (core + waiting - total).abs() <= 1.5, "{answer}");
    assert!(opening.contains("id=\"time\"") && opening.matches("class=\"bar\"").count() >= 2, "{opening}");
    assert!(opening.contains("<title>waiting: ") && opening.contains("<title>on a core: "), "{opening}");
    // Of so little time on a core the clock's ticks know nothing.
    assert!(report.contains("time on a core") && !report.contains("of it in the kernel"));
    let advise = ["advise", "governor", "out", "--device", "nexus-6"];
    lab(home.path(), &advise).ends_with(1).complains(&["this one is of a program"]);
}

#[test]
fn a_program_that_fails_is_no_measurement_and_says_what_it_said() {
    let home = folder();
    let run_it = |words: &[&str]| lab(home.path(), &[&["run", "--repetitions", "1"][..], words].concat());
    let failed = run_it(&["--output", "failed", "--", "sh", "-c", "echo the reason >&2; exit 3"]).ends_with(4);
    let failed = failed.says(&["0 cells measured", "status 3", "the reason"]);
    assert!(!failed.out.contains("a paragraph of"), "what failed says why there are no numbers: {failed}");
    let nothing = lab(home.path(), &["export", "failed", "--perfetto", "trace"]).ends_with(1);
    nothing.complains(&["the run has no traced cell with a database"]);
    run_it(&["--", "sh", "-c", "kill -9 $$"]).ends_with(4).says(&["status 137", "Killed"]);
    run_it(&["--", "no-such-program"]).ends_with(4).says(&["status 127", "command_files"]);
    // A trial that fails is recorded, and the others go on; a run that goes on tries it again.
    let half = ["--output", "half", "--set", "file_system=tmpfs", "--", "sh", "-c", "test $POCKETSTONE_SEED = 0"];
    let half = lab(home.path(), &[&["run", "--repetitions", "3"][..], &half].concat());
    half.ends_with(4).says(&["2 cells measured, 2 failed", "seed=1", "seed=2"]);
    let status = "SELECT group_concat(seed || ' ' || status) FROM (SELECT * FROM cell ORDER BY seed, traced)";
    let found: String = results::value(&home.path().join("half"), status);
    assert_eq!(found, "0 done,0 done,1 failed,2 failed");
    lab(home.path(), &["run", "--resume", "half"]).ends_with(4).says(&["2 failed"]);
    // What is wrong is said before anything runs.
    run_it(&["--", "./none"]).ends_with(1).complains(&["there is no file ./none", "--files"]);
    run_it(&["--files", "none", "--", "true"]).ends_with(1).complains(&["cannot read", "none"]);
    run_it(&["--set", "file_system=tmpf", "--", "true"])
        .ends_with(1)
        .complains(&["unknown value `tmpf` of `file_system`, in --set file_system=tmpf", "did you mean `tmpfs`?"]);
    run_it(&["--set", "filesystem=tmpfs", "--", "true"]).ends_with(1).complains(&["did you mean `file_system`?"]);
    run_it(&["--set", "threads=1", "--set", "threads=2", "--", "true"]).ends_with(1).complains(&["set twice"]);
    run_it(&["--set", "workload=read", "--", "true"]).ends_with(1).complains(&["--set workload", "study new"]);
    run_it(&["--set", "tmpfs", "--", "true"]).ends_with(1).complains(&["--set tmpfs", "file_system="]);
    run_it(&["--set", "file_system=scmfs", "--", "true"]).ends_with(1).complains(&["a command", "scmfs-fuse"]);
    run_it(&["--set", "file_system=null", "--", "true"]).ends_with(1).complains(&["null"]);
    lab(home.path(), &["run", "--files", "x"]).ends_with(2).complains(&["PROGRAM"]);
}

#[test]
fn a_program_that_has_changed_does_not_go_on_with_the_runs_of_the_one_before() {
    let home = folder();
    let script = |said: &str| {
        write(
            home.path(),
            "go",
            &format!("#!/bin/sh\necho {said}; test -e {}/well || test $POCKETSTONE_SEED = 0", home.path().display()),
        );
        fs::set_permissions(home.path().join("go"), fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("before");
    let words = ["run", "--repetitions", "2", "--set", "file_system=tmpfs", "--output", "out", "--", "./go"];
    lab(home.path(), &words).ends_with(4).says(&["2 cells measured, 1 failed"]);
    script("after");
    write(home.path(), "well", "");
    let resume = || lab(home.path(), &["run", "--resume", "out"]);
    resume().ends_with(1).complains(&["no longer what it was when out measured it", "hint: start a new run"]);
    script("before");
    resume().ends_with(0);
    let output = "SELECT group_concat(DISTINCT json_extract(outcome, '$.command.output')) FROM cell";
    assert_eq!(results::value::<String>(&home.path().join("out"), output), "before\n");
    // Of a run that is whole only the report is made again.
    script("after");
    resume().ends_with(0);
}

#[test]
fn files_come_along_from_a_folder_or_an_archive_and_are_new_for_each_run() {
    let home = folder();
    let app = home.path().join("app");
    fs::create_dir_all(app.join("lib")).unwrap();
    write(&app, "lib/text", "from the folder");
    write(&app, "go", "#!/bin/sh\ncat lib/text\necho changed > lib/text\n");
    fs::set_permissions(app.join("go"), fs::Permissions::from_mode(0o755)).unwrap();
    run(Command::new("tar").args(["-czf", "app.tgz", "-C", "app", "."]).current_dir(home.path())).ends_with(0);
    for files in ["app", "app.tgz"] {
        let arguments = ["run", "--repetitions", "2", "--set", "file_system=tmpfs,directory", "--files", files];
        let rest = ["--output", &format!("of-{files}"), "--", "./go"];
        lab(home.path(), &[&arguments[..], &rest].concat()).ends_with(0);
        let sql = "SELECT group_concat(DISTINCT json_extract(outcome, '$.command.output')) FROM cell";
        let output: String = results::value(&home.path().join(format!("of-{files}")), sql);
        assert_eq!(output, "from the folder", "{files}");
    }
    // The same files make the same cells, from wherever they come.
    let files = |run: &str| -> String {
        results::value(&home.path().join(run), "SELECT json_extract(plan, '$.workload.files') FROM cell LIMIT 1")
    };
    assert_eq!(files("of-app"), files("of-app.tgz"));
}

#[test]
fn nothing_that_a_program_started_is_left() {
    let home = folder();
    // It ends, and leaves something behind that holds its volume.
    let line = "sleep 1000 > held & echo $!";
    let arguments =
        ["run", "--repetitions", "1", "--set", "file_system=tmpfs", "--output", "a", "--", "sh", "-c", line];
    lab(home.path(), &arguments).ends_with(0);
    let sql = "SELECT json_extract(outcome, '$.command.output') FROM cell LIMIT 1";
    let left: String = results::value(&home.path().join("a"), sql);
    let left: u32 = left.trim().parse().unwrap();
    assert!(Process::of(left).is_none_or(|process| process.name != "sleep" || process.ended), "{left} still runs");

    // So is what has a session of its own, of a parent that is gone, and starts itself anew; it is told.
    let line = "(setsid sh -c 'n=0; while :; do sh -c \"sleep 1000 & echo \\$!\"; \
                n=$((n+1)); test $n -lt 20 || sleep 1000; done' &); sleep 1";
    let arguments =
        ["run", "--repetitions", "1", "--set", "file_system=tmpfs", "--output", "c", "--", "sh", "-c", line];
    lab(home.path(), &arguments).ends_with(0).says(&["left running", "sh, sleep"]);
    let left: String = results::value(&home.path().join("c"), sql);
    assert!(left.lines().count() >= 2, "{left}");
    for left in left.lines().map(|pid| pid.parse().unwrap()) {
        assert!(Process::of(left).is_none_or(|process| process.name != "sleep" || process.ended), "{left} still runs");
    }

    // The lab is killed while it runs, with a daemon.
    let line = "(setsid sleep 1000 &); sleep 1001";
    let mut killed = pocketstone(home.path(), &["run", "--output", "b", "--", "sh", "-c", line]);
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sleeping = || -> Vec<Process> {
        Process::descendants(killed.id()).into_iter().filter(|process| process.name == "sleep").collect()
    };
    until("the program runs", || sleeping().len() == 2);
    let programs = sleeping();
    killed.kill().unwrap();
    killed.wait().unwrap();
    until("the program and the daemon have ended", || programs.iter().all(|program| !program.runs()));
}

const STUDY: &str = r#"title = "t"
board = "virt-nand"
repetitions = 1
[[experiment]]
name = "own"
[experiment.factors]
workload = "command"
command = "./app board"
command_files = "app"
file_system = ["jffs2", "yaffs2"]
page_cache = "cold"
"#;

#[test]
fn a_program_of_ones_own_runs_on_the_board_down_to_flash_operations() {
    or_skip!(board());
    let home = folder();
    build(&or_skip!(program("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf")), home.path());
    write(home.path(), "study.toml", STUDY);
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let db = results::read(&home.path().join("a"));
    for file_system in ["jffs2", "yaffs2"] {
        assert_eq!(calls(&db, file_system, "data"), [1, 65_536, 16, 65_536, 16], "{file_system}");
        assert_eq!(calls(&db, file_system, "of the child"), [0, 0, 1, 100, 0], "{file_system}");
        let metric = |name: &str| {
            let sql = "SELECT value FROM metric JOIN cells ON id = cell WHERE file_system = ?1 AND name = ?2";
            db.query_row(sql, [file_system, name], |row| row.get::<_, f64>(0)).unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        // 16 pages that are made durable one by one are at least 16 programs; the program itself is read from flash.
        assert!(metric("page_programs") >= 16.0 && metric("page_senses") > 16.0, "{file_system}");
        assert!(metric("total_ns") >= metric("on_core_ns"), "{file_system}");
    }
    drop(db);
    let output = "SELECT group_concat(DISTINCT json_extract(outcome, '$.command.output')) FROM cell";
    assert_eq!(results::value::<String>(&home.path().join("a"), output), "board with seed 0\n");
    results::repeats(home.path(), "file_system = 'jffs2'");

    // Nothing there is noise: one per cent is caught, and what has not changed passes.
    let gate = |limit: &str| lab(home.path(), &["compare", "b", "a", "--max-regression", limit, "--markdown"]);
    gate("0.01").ends_with(0).says(&["**Passed**"]);
    let slower = "UPDATE metric SET value = 1.01 * value WHERE name = 'total_ns'";
    results::change(&home.path().join("a")).execute(slower, []).unwrap();
    gate("0.9").ends_with(3).says(&["**Failed**", "total_ns", "+1.0 %", "larger"]);
    gate("1.1").ends_with(0);

    // A program for another processor.
    let wrong = changed(STUDY, "\"./app board\"", "\"./wrong\"");
    let wrong = changed(&changed(&wrong, "\"app\"", "\"wrong\""), "[\"jffs2\", \"yaffs2\"]", "\"jffs2\"");
    write(home.path(), "wrong.toml", &wrong);
    fs::copy("/bin/true", home.path().join("wrong")).unwrap();
    lab(home.path(), &["run", "wrong.toml"]).ends_with(4).says(&["0 cells measured", "./wrong"]);
}

/// Writes the numbers of its pages into a file, one after the other, each made durable.
const PAGES_PROGRAM: &str = r#"
#include <fcntl.h>
#include <unistd.h>

static char page[4096];

int main(void) {
    int data = open("data", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int n = 0; n < PAGES; n++) {
        page[n % 4096] = n;
        if (write(data, page, 4096) != 4096 || fsync(data)) return 1;
    }
    return 0;
}
"#;

#[test]
fn a_program_that_does_one_per_cent_more_fails_the_gate_of_the_board() {
    or_skip!(board());
    let compiler = or_skip!(program("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"));
    let home = folder();
    // What a user does between two runs: edit, compile, and measure what has the same path.
    let measure = |pages: u32, output: &str| {
        compile(&compiler, home.path(), "app", PAGES_PROGRAM, &["-static", &format!("-DPAGES={pages}")]);
        let words = ["run", "--board", "virt-nand", "--repetitions", "1", "--output", output, "--", "./app"];
        lab(home.path(), &words).ends_with(0);
    };
    measure(200, "before");
    measure(202, "after");
    let programs = |results: &str| metric(&home.path().join(results), "page_programs", "true");
    let grown = programs("after") / programs("before");
    // The page opens with them.
    let report = fs::read_to_string(home.path().join("before/report.html")).unwrap();
    let (answer, _) = answer_and_opening(&report);
    let said = answer.split_once(" pages, programs ").unwrap_or_else(|| panic!("{answer}")).1;
    let said: String = said.split_once(" and erases ").unwrap().0.chars().filter(char::is_ascii_digit).collect();
    assert_eq!(said.parse::<f64>().unwrap(), programs("before"), "{answer}");
    assert!(report.contains("Flash operations of a run"));
    assert!((1.005..1.015).contains(&grown), "{grown}");
    let gate = |after: &str, limit: &str| {
        lab(home.path(), &["compare", "before", after, "--max-regression", limit, "--markdown"])
    };
    gate("after", "0.5").ends_with(3).says(&["**Failed**", "total_ns"]);
    gate("after", "2").ends_with(0).says(&["**Passed**"]);
    // The program as it was is the same to the bit.
    measure(200, "again");
    gate("again", "0").ends_with(0).says(&["**Passed**"]);
}

/// Reads the first page of a file.
const READER: &str = r#"
#include <fcntl.h>
#include <unistd.h>

int main(void) {
    char page[4096];
    return pread(open("lib/data", O_RDONLY), page, 4096, 0) != 4096;
}
"#;

#[test]
fn a_dynamic_program_finds_its_libraries_and_pays_for_read_ahead() {
    or_skip!(board());
    let compiler = or_skip!(program("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"));
    let home = folder();
    fs::create_dir_all(home.path().join("app/lib")).unwrap();
    let app = home.path().join("app");
    compile(&compiler, &app, "app", READER, &[]);
    for library in ["ld-linux-armhf.so.3", "libc.so.6"] {
        fs::copy(Path::new("/usr/arm-linux-gnueabihf/lib").join(library), app.join("lib").join(library)).unwrap();
    }
    // Nothing that compression makes smaller.
    let mut noise = vec![0; 1 << 18];
    Random::new(1).fill(&mut noise);
    fs::write(app.join("lib/data"), noise).unwrap();
    let words = ["run", "--board", "virt-nand", "--repetitions", "1", "--output", "out", "--files", "app", "--set"];
    let sets = ["page_cache=cold", "--set", "read_ahead_bytes=128KiB,0"];
    let start = ["--", "./lib/ld-linux-armhf.so.3", "--library-path", "lib", "./app"];
    lab(home.path(), &[&words[..], &sets, &start].concat()).ends_with(0).says(&["read ahead bytes", "lib/data"]);
    let report = fs::read_to_string(home.path().join("out/report.html")).unwrap();
    assert!(answer_and_opening(&report).1.contains(">128 KiB</text>"), "places have their unit");
    let senses = |bytes: u32| metric(&home.path().join("out"), "page_senses", &format!("read_ahead_bytes = {bytes}"));
    // The file's first window, and those of the libraries.
    assert!(senses(131_072) > senses(0) && senses(0) > 0.0, "{} and {}", senses(131_072), senses(0));
}

/// Three jobs' worth of fio as it is called by hand: 16 pages at random places, each made durable, then read back.
const FIO: [&str; 9] = [
    "--name=job",
    "--rw=randwrite",
    "--bs=4k",
    "--size=64k",
    "--fsync=1",
    "--ioengine=psync",
    "--thread",
    "--verify=crc32c",
    "--verify_state_save=0",
];

/// What fio did to its file, by the lab: reads, bytes read, writes, bytes written.
fn job(results: &Path, file_system: &str) -> [u64; 4] {
    let [reads, read, writes, written, _] = calls(&results::read(results), file_system, "job.0.0");
    [reads, read, writes, written]
}

#[test]
fn fio_is_a_program_like_any_other() {
    let home = folder();
    or_skip!(program("fio", "fio"));
    let words = ["run", "--repetitions", "1", "--set", "file_system=tmpfs", "--output", "out", "--", "fio"];
    lab(home.path(), &[&words[..], &FIO].concat()).ends_with(0).says(&["its output", "WRITE: bw="]);
    let out = home.path().join("out");
    let count = |sql: &str| results::value::<u64>(&out, sql);
    if count("SELECT count(*) FROM file_cost WHERE file LIKE '%/job.0.0'") > 0 {
        assert_eq!(job(&out, "tmpfs"), [16, 65_536, 16, 65_536]);
    } else if count("SELECT count(*) FROM file_cost") > 0 {
        // A kernel that names no files has the calls in one sum, with those on fio's own files.
        assert!(count("SELECT sum(written_bytes) FROM file_cost") >= 65_536);
        assert!(count("SELECT sum(read_bytes) FROM file_cost") >= 65_536);
    }
}

#[test]
fn fio_runs_on_jffs2_of_the_board() {
    or_skip!(board());
    let fio = or_skip!(built("fio-arm"));
    let home = folder();
    fs::create_dir(home.path().join("app")).unwrap();
    fs::copy(fio, home.path().join("app/fio")).unwrap();
    let words = ["run", "--board", "virt-nand", "--repetitions", "1", "--output", "out", "--files", "app"];
    let words = [&words[..], &["--set", "page_cache=cold", "--", "./fio"], &FIO].concat();
    lab(home.path(), &words).ends_with(0).says(&["flash page programs", "its output", "WRITE: bw="]);
    let out = home.path().join("out");
    assert_eq!(job(&out, "jffs2"), [16, 65_536, 16, 65_536]);
    // A page of 4 KiB is two of the chip's.
    assert!(metric(&out, "page_programs", "true") >= 32.0);
}

#[test]
fn a_governor_is_a_factor_of_a_program_too() {
    let home = folder();
    let words = ["run", "--repetitions", "1", "--set", "governor=powersave,performance", "--output", "out"];
    let ran = lab(home.path(), &[&words[..], &["--", "true"]].concat()).ends_with(0);
    let out = home.path().join("out");
    let asked = "SELECT group_concat(c.value ->> 'asked') FROM (SELECT * FROM cell WHERE NOT traced ORDER BY point), \
                 json_each(outcome, '$.command.conditions') c";
    assert_eq!(results::value::<String>(&out, asked), "performance,powersave");
    // Where the machine has none, each is said to be left out.
    let missed = "SELECT count(*) FROM cell, json_each(outcome, '$.command.conditions') c \
                  WHERE c.value ->> 'why' <> ''";
    if results::value::<u64>(&out, missed) > 0 {
        ran.says(&["governor performance", "governor powersave", "cpufreq"]);
    }
    let unable = ["run", "--repetitions", "1", "--set", "governor=database", "--", "true"];
    lab(home.path(), &unable).ends_with(0).says(&["left out: governor database", "hints"]);
}

#[test]
fn the_command_in_the_results_measures_the_same_program_again() {
    let place = folder();
    let here = place.path().join("it's a place");
    fs::create_dir(&here).expect("a folder");
    let words = ["run", "--repetitions", "1", "--set", "page_cache=warm,cold", "--output", "out", "--", "sh", "-c"];
    let script = "echo 'with spaces, $HOME and \"quotes\"' > file && cat file";
    lab(&here, &[&words[..], &[script]].concat()).ends_with(0);
    let fact = |results: &Path| results::value::<String>(results, "SELECT value FROM run WHERE name = 'command'");
    let command = fact(&here.join("out"));
    // Pasted into a shell that is somewhere else.
    run(Command::new("sh").args(["-c", &command]).current_dir("/")).ends_with(0).says(&["with spaces, $HOME"]);
    let again = here.join("results/latest");
    let point = "SELECT group_concat(point || seed || traced, ';') FROM (SELECT * FROM cell ORDER BY point, traced)";
    assert_eq!(results::value::<String>(&again, point), results::value::<String>(&here.join("out"), point));
    assert_eq!(fact(&again), command);
    // Whoever goes on with it may be elsewhere.
    lab(place.path(), &["run", "--resume", "it's a place/out"])
        .ends_with(0)
        .says(&["from start to end", "with spaces"]);
    assert_eq!(fact(&here.join("out")), command);
}
