//! An application's recorded calls, replayed: the workload `calls`, from strace and from the lab's own recording.

use pocketstone_testing::{Need, Skip, or_skip, program};
use pocketstone_tests::command::{board, changed, lab, run, write};
use pocketstone_tests::results;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the tests record: files there at first, made, grown, cut, renamed and removed, a thread's calls and a pause.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char page[4096];
static int shared;

static void *thread(void *nothing) {
    for (int n = 0; n < 8; n++)
        if (pwrite(shared, page, 4096, 4096 * n) != 4096) _exit(8);
    return nothing;
}

int main(void) {
    pthread_t other;
    int there = open("there", O_RDWR), log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (pread(there, page, 4096, 16384) != 4096 || lseek(there, -100, SEEK_END) != 39900) return 1;
    if (read(there, page, 4096) != 100 || read(there, page, 4096) != 0) return 2;
    for (int n = 0; n < 5; n++)
        if (write(log, page, 30) != 30 || fsync(log)) return 3;
    usleep(200000);
    shared = open("new", O_RDWR | O_CREAT | O_EXCL, 0600);
    if (pthread_create(&other, 0, thread, 0) || pthread_join(other, 0)) return 4;
    if (ftruncate(shared, 10000) || fdatasync(shared) || pread(shared, page, 4096, 8000) != 2000) return 5;
    if (close(shared) || rename("new", "there") || unlink("log")) return 6;
    return 0;
}
"#;

const STUDY: &str = r#"title = "t"
board = "host"
repetitions = 1
[[experiment]]
name = "replay"
[experiment.factors]
workload = "calls"
calls_file = "app.strace"
calls_pauses = ["own", "none"]
file_system = ["tmpfs", "directory", "scmfs", "yaffs2-anonymous-in-process"]
"#;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Records a program that runs in the folder `data` of a folder, as `app.strace` beside it.
fn record(home: &Path, strace: &Path, program: &Path, arguments: &[&str]) {
    let data = home.join("data");
    let mut command = Command::new(strace);
    command.args(arguments).args(["-o", "../app.strace"]).arg(program).current_dir(data);
    run(&mut command).ends_with(0);
}

#[test]
fn a_recorded_program_is_replayed_on_any_volume_with_its_pauses() {
    let strace = or_skip!(program("strace", "strace"));
    let home = folder();
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    write(home.path(), "app.c", PROGRAM);
    let compiler = or_skip!(program("cc", "gcc"));
    run(Command::new(compiler).args(["-pthread", "-o", "app", "app.c"]).current_dir(home.path())).ends_with(0);
    write(home.path(), "study.toml", STUDY);
    // Each way to record it says the same of its files. What is open is closed at the end.
    for arguments in [&["-f", "-T", "-ttt", "-y"][..], &["-f", "-T", "-tt"], &["-f", "-T", "-ttt", "-yy"]] {
        std::fs::write(data.join("there"), vec![7; 40_000]).unwrap();
        record(home.path(), &strace, &home.path().join("app"), arguments);
        let shown = lab(home.path(), &["workload", "show", "app.strace"]).ends_with(0);
        // Counted in the program above.
        shown.says(&[
            "1 file of 40000 B at first, 2 more names",
            "3 open",
            "4 read of 6196 B",
            "13 write of 32918 B",
            "6 sync",
            "1 truncate",
            "1 rename",
            "1 delete",
            "3 close",
        ]);
    }
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let results = home.path().join("a");
    let calls = "SELECT group_concat(DISTINCT n) FROM (SELECT count(*) AS n FROM call GROUP BY cell)";
    assert_eq!(results::value::<String>(&results, calls), (3 + 4 + 13 + 6 + 1 + 1 + 1 + 3).to_string());
    assert_eq!(results::value::<u64>(&results, "SELECT count(*) FROM cell WHERE status = 'done'"), 8);
    // The program slept 200 ms between two calls; without pauses the longest time between calls is far from that.
    let pause = |pauses: &str| {
        let sql = format!(
            "SELECT min(pause) FROM (SELECT max(b.start_ns - a.start_ns - a.latency_ns) AS pause \
             FROM call a JOIN call b ON b.cell = a.cell AND b.number = a.number + 1 JOIN cells c ON c.id = a.cell \
             WHERE c.calls_pauses = '{pauses}' GROUP BY a.cell)"
        );
        results::value::<u64>(&results, &sql)
    };
    let (own, none) = (pause("own"), pause("none"));
    assert!(own >= 200_000_000 && none < own / 10, "{own} ns and {none} ns");

    // What is wrong is said before anything runs, with file and line.
    let text = std::fs::read_to_string(home.path().join("app.strace")).unwrap();
    let lines = text.lines().count();
    write(home.path(), "app.strace", &format!("{text}nonsense\n"));
    let place = format!("app.strace line {}", lines + 1);
    lab(home.path(), &["run", "study.toml"]).ends_with(1).complains(&[&place, "nonsense", "strace -f -T -ttt -y"]);
    write(home.path(), "study.toml", &changed(STUDY, "app.strace", "none.strace"));
    lab(home.path(), &["study", "check", "study.toml"]).ends_with(1).complains(&["none.strace", "study.toml:8"]);
}

/// Transactions that insert, update, delete and move everything.
const DATABASE: &str = r#"
#include "sqlite3.h"
#include <stdio.h>

static int run(sqlite3 *db, const char *sql) {
    return sqlite3_exec(db, sql, 0, 0, 0) != SQLITE_OK;
}

int main(void) {
    sqlite3 *db;
    char sql[200];
    if (sqlite3_open("app.db", &db)) return 1;
    if (run(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, value BLOB)")) return 2;
    for (int n = 0; n < 24; n++) {
        sprintf(sql, n % 3 == 2 ? "UPDATE t SET value = randomblob(700) WHERE id = %d"
                                : "INSERT INTO t VALUES (%d, randomblob(1500))", n % 3 == 2 ? n / 2 : n);
        if (run(db, sql)) return 3;
    }
    if (run(db, "DELETE FROM t WHERE id % 5 = 0; VACUUM; SELECT sum(length(value)) FROM t")) return 4;
    return sqlite3_close(db);
}
"#;

const ORIGINAL_AND_REPLAY: &str = r#"title = "t"
board = "virt-nand"
repetitions = 1
[[experiment]]
name = "original"
[experiment.factors]
workload = "command"
command = "./app"
command_files = "board/app"
file_system = "ubifs"
compression = "none"
[[experiment]]
name = "replay"
[experiment.factors]
workload = "calls"
calls_file = "app.strace"
file_system = "ubifs"
compression = "none"
"#;

/// The source of SQLite that this project is built with.
fn sqlite_source() -> Result<PathBuf, Skip> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    let below = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let sources = below(cargo.join("registry/src")).flat_map(below).map(|source| source.join("sqlite3"));
    let mut found = sources.filter(|source| source.join("sqlite3.c").is_file());
    found
        .next()
        .ok_or_else(|| Need::Programs.lacks("the source of libsqlite3-sys is not in cargo's registry: cargo fetch"))
}

#[test]
fn sqlite_recorded_here_does_on_the_boards_flash_what_it_does_there() {
    let strace = or_skip!(program("strace", "strace"));
    let source = or_skip!(sqlite_source());
    let (here, there) = (program("cc", "gcc"), program("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"));
    let (here, there) = (or_skip!(here), or_skip!(there));
    or_skip!(board());
    let home = folder();
    write(home.path(), "app.c", DATABASE);
    for (compiler, folder) in [(&here, "data"), (&there, "board")] {
        std::fs::create_dir(home.path().join(folder)).unwrap();
        let mut build = Command::new(compiler);
        build.args(["-static", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-I"]).arg(&source);
        build.args(["-o", &format!("{folder}/app"), "app.c"]).arg(source.join("sqlite3.c")).arg("-lm");
        run(build.current_dir(home.path())).ends_with(0);
    }
    record(home.path(), &strace, Path::new("./app"), &["-f", "-T", "-ttt", "-y"]);
    write(home.path(), "study.toml", ORIGINAL_AND_REPLAY);
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let db = results::read(&home.path().join("a"));
    // Those of the file system's threads, too: which of the two cleans up is a matter of time.
    let operations = |experiment: &str| {
        let sql = "SELECT count(*) FROM flash_op JOIN cells ON id = cell WHERE experiment = ?1 \
                   AND kind IN ('sense', 'program', 'erase')";
        db.query_row(sql, [experiment], |row| row.get::<_, f64>(0)).unwrap()
    };
    let (original, replay) = (operations("original"), operations("replay"));
    let off = (replay / original - 1.0).abs();
    assert!(original > 300.0 && off <= 0.05, "{original} and {replay} operations");
    // A file of calls, which it was kept as, is the same workload.
    let kept = std::fs::read_dir(home.path().join("a/workloads")).unwrap().map(|entry| entry.unwrap().path());
    let calls = kept.filter(|path| path.extension().is_some_and(|ending| ending == "trace"));
    let [calls] = &calls.collect::<Vec<_>>()[..] else { panic!("one file of calls") };
    let show = |file: &str| lab(home.path(), &["workload", "show", file]).ends_with(0).out;
    assert_eq!(show(&calls.to_string_lossy()), show("app.strace"));
}

const RECORDED: &str = r#"title = "t"
board = "host"
repetitions = 1
[[experiment]]
name = "own"
traced = "first"
[experiment.factors]
workload = "ycsb-a"
records = 100
operations = 100
file_system = "directory"
"#;

#[test]
fn the_labs_own_recording_is_a_workload_too() {
    let home = folder();
    write(home.path(), "own.toml", RECORDED);
    lab(home.path(), &["run", "own.toml", "--output", "own"]).ends_with(0);
    let results = home.path().join("own");
    if results::value::<u64>(&results, "SELECT count(*) FROM file_cost WHERE reads + writes > 0") == 0 {
        return Need::Root.lacks("this machine's kernel records no system calls for this user").end();
    }
    let exported = lab(home.path(), &["export", "own", "--calls", "own.calls"]).ends_with(0);
    // The recording's own sums: of each file that has a name.
    let sums = "SELECT sum(reads) || ' read,' || sum(writes) || ' write,' || sum(syncs) || ' sync' FROM file_cost \
                WHERE file IS NOT NULL AND file NOT LIKE '/proc/%'";
    let sums: String = results::value(&results, sums);
    sums.split(',').for_each(|sum| assert!(exported.out.contains(&format!(" {sum}")), "{sum} is not in {exported}"));
    write(home.path(), "study.toml", &changed(STUDY, "app.strace", "own.calls"));
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
}
