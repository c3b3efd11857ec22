//! Programs that people use file systems for, and programs that imitate them.

use pocketstone_testing::{Need, or_skip, program};
use pocketstone_tests::command::{Process, run};
use pocketstone_tests::mounted::{Place, kill};
use pocketstone_tests::project;
use pocketstone_tests::suites::{command, fio, postmark as run_postmark, tell};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn fio_in_all_ways(size: &str) {
    let suite = or_skip!(program("fio", "fio"));
    let place = or_skip!(Place::new());
    let mut volume = place.volume(&[]);
    for options in ["rw", "direct_io", "writeback"] {
        volume = volume.again(&["-o", options]);
        for (engine, block) in [("psync", "4k"), ("psync", "1m"), ("mmap", "4k")] {
            fio(&suite, volume.path(), engine, block, size);
            fs::remove_file(volume.path().join(format!("{engine}-{block}.0.0"))).expect("fio's file");
        }
    }
    volume.end();
}

#[test]
fn fio_verifies() {
    fio_in_all_ways("16m");
}

#[test]
#[ignore = "takes minutes: make torture"]
fn fio_verifies_much() {
    fio_in_all_ways("512m");
}

fn postmark(transactions: u32) {
    let suite = or_skip!(program("postmark", "postmark"));
    let place = or_skip!(Place::new());
    let volume = place.volume(&[]);
    let settings = "set size 4096 2097152\nset read 4096\nset write 4096\nset seed 42\n";
    run_postmark(&suite, volume.path(), &place.path("postmark"), transactions, settings);
    volume.end();
}

#[test]
fn postmark_of_few_transactions() {
    postmark(500);
}

#[test]
#[ignore = "takes minutes: make torture"]
fn postmark_of_many_transactions() {
    postmark(40_000);
}

#[test]
fn git_clones_and_checks() {
    let git = or_skip!(program("git", "git"));
    let place = or_skip!(Place::new());
    let bare = place.path("bare.git");
    let git = || {
        let mut words = command(&git);
        words.args(["-c", "safe.directory=*", "-c", "gc.auto=0"]).env("GIT_CONFIG_GLOBAL", "/dev/null");
        words
    };
    let cloned = run(git().args(["clone", "-q", "--bare"]).arg(project()).arg(&bare));
    if cloned.status != Some(0) {
        return Need::Git.lacks("this source tree is no repository").end();
    }
    let volume = place.volume(&[]);
    let clone = volume.path().join("clone");
    run(git().args(["clone", "-q", "--no-local"]).arg(&bare).arg(&clone)).ends_with(0);
    let within = |words: &[&str]| run(git().arg("-C").arg(&clone).args(words)).ends_with(0);
    within(&["fsck", "--full", "--strict"]);
    within(&["repack", "-q", "-a", "-d", "-f"]);
    within(&["fsck", "--full", "--strict"]);
    assert_eq!(within(&["status", "--porcelain"]).out, "");
    let volume = volume.again(&[]);
    within(&["fsck", "--full", "--strict"]);
    // Every file is read again, whatever its times say.
    within(&["update-index", "-q", "--really-refresh"]);
    assert_eq!(within(&["status", "--porcelain"]).out, "");
    volume.end();
}

/// The source of a crate that this project is built with.
fn source(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?.flatten();
    let crates = registries.filter_map(|registry| fs::read_dir(registry.path()).ok()).flatten().flatten();
    let is_it = |found: &str| {
        found.strip_prefix(name).and_then(|v| v.strip_prefix('-')).is_some_and(|v| v.starts_with(char::is_numeric))
    };
    crates.map(|entry| entry.path()).find(|path| path.file_name().and_then(|n| n.to_str()).is_some_and(is_it))
}

#[test]
fn cargo_builds() {
    const PROGRAM: &str = "fn main() { println!(\"{:?}\", memchr::memmem::find(b\"scmfs\", b\"fs\")) }\n";
    let Some(memchr) = source("memchr") else {
        return Need::Programs.lacks("cargo has no source of memchr: cargo fetch").end();
    };
    let place = or_skip!(Place::new());
    let volume = place.volume(&[]);
    run(command("cp").arg("-r").arg(memchr).arg(volume.path().join("memchr"))).ends_with(0);
    let home = volume.path().join("program");
    fs::create_dir_all(home.join("src")).expect("a new folder");
    let manifest = "[package]\nname = \"program\"\nedition = \"2021\"\n[dependencies]\nmemchr.path = \"../memchr\"\n";
    fs::write(home.join("Cargo.toml"), manifest).expect("a manifest");
    fs::write(home.join("src/main.rs"), PROGRAM).expect("a source");
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let build = || {
        let mut words = command(&cargo);
        words.args(["build", "--offline", "--target-dir", "target"]).current_dir(&home);
        run(words.env_remove("RUSTFLAGS")).ends_with(0)
    };
    build().complains(&["Compiling memchr", "Compiling program"]);
    assert_eq!(run(&mut Command::new(home.join("target/debug/program"))).ends_with(0).out, "Some(3)\n");
    // Times of files tell it that there is nothing to do, and that there is.
    assert!(!build().err.contains("Compiling"));
    fs::write(home.join("src/main.rs"), PROGRAM.replace("b\"fs\"", "b\"cm\"")).expect("a source");
    let again = build().complains(&["Compiling program"]);
    assert!(!again.err.contains("Compiling memchr"), "{again}");
    assert_eq!(run(&mut Command::new(home.join("target/debug/program"))).ends_with(0).out, "Some(1)\n");
    volume.end();
}

/// A shell of SQLite that has begun a transaction too large for its cache, and not ended it.
fn in_a_transaction(sqlite: &Path, database: &Path) -> Child {
    let mut child = command(sqlite)
        .args(["-batch", "-bail"])
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sqlite3 starts");
    let words = b"PRAGMA cache_size=8; BEGIN; UPDATE t SET x = zeroblob(500);\n\
        INSERT INTO t(x) SELECT randomblob(700) FROM t; SELECT 'half way';\n";
    child.stdin.as_mut().expect("a pipe").write_all(words).expect("sqlite3 listens");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it answers");
    assert_eq!(line, "half way\n");
    child
}

#[test]
fn sqlite_survives() {
    let sqlite = or_skip!(program("sqlite3", "sqlite3"));
    let place = or_skip!(Place::new());
    let mut volume = place.volume(&[]);
    let database = volume.path().join("database");
    let ask = |words: &str| run(command(&sqlite).args(["-batch", "-bail"]).arg(&database).arg(words)).ends_with(0).out;
    ask("CREATE TABLE t(n INTEGER PRIMARY KEY, x BLOB); CREATE INDEX i ON t(x)");
    for round in 0..6 {
        let rows = "WITH RECURSIVE r(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < 200)";
        for _ in 0..10 {
            ask(&format!("BEGIN; {rows} INSERT INTO t(x) SELECT randomblob(600) FROM r; COMMIT"));
        }
        let committed = ask("SELECT count(*), sum(length(x)) FROM t");
        assert!(committed.starts_with(&format!("{}|", (round + 1) * 2000)), "{committed}");
        let mut child = in_a_transaction(&sqlite, &database);
        assert!(volume.path().join("database-journal").exists(), "half a transaction is on its way");
        let process = Process::of(child.id()).expect("sqlite3 runs");
        if round % 2 == 0 {
            kill(&process, rustix::process::Signal::KILL);
        } else {
            // The file system dies first.
            volume = volume.kill_and_mount_again(&[]);
            child.kill().expect("it is ours");
        }
        child.wait().expect("it is ours");
        assert_eq!(ask("PRAGMA integrity_check"), "ok\n");
        assert_eq!(ask("SELECT count(*), sum(length(x)) FROM t"), committed);
        assert!(!volume.path().join("database-journal").exists(), "the transaction is rolled back");
    }
    volume.end();
    tell("sqlite3: killed in 3 transactions, and the file system under it in 3");
}
