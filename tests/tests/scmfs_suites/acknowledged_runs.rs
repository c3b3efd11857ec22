//! The programs that are loaded and killed under: which run in `make test`, and which in `make torture`.

use crate::acknowledged::{Lmdb, PYTHON, Personality, Postgres, Redis, RocksDb, Sqlite, trial};
use pocketstone_testing::{Need, or_skip, program};
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::Place;
use pocketstone_tests::suites::{command, tell};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(4);

/// A folder for sockets, which everybody may use.
fn sockets() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    pocketstone_tests::mounted::open_to_all(folder.path());
    folder
}

fn sqlite(kills: u64, most: Duration) {
    let shell = or_skip!(program("sqlite3", "sqlite3"));
    for journal in ["delete", "wal"] {
        trial(&Sqlite { shell: shell.clone(), journal }, kills, SHORT, most, &[]);
    }
}

#[test]
fn sqlite_under_2_kills() {
    sqlite(2, 2 * SHORT);
}

#[test]
#[ignore = "takes a minute: make torture"]
fn sqlite_under_10_kills() {
    sqlite(10, LONG);
}

fn personalities(names: &[&'static str], kills: u64, most: Duration) {
    if !Path::new(PYTHON).exists() {
        return Need::Programs.lacks(format_args!("there is no {PYTHON}: sudo apt-get install python3")).end();
    }
    for name in names {
        trial(&Personality(name), kills, SHORT, most, &[]);
    }
}

#[test]
fn varmail_under_2_kills() {
    personalities(&["varmail"], 2, 2 * SHORT);
}

#[test]
#[ignore = "takes minutes: make torture"]
fn personalities_under_10_kills() {
    personalities(&["varmail", "fileserver", "webproxy", "webserver"], 10, LONG);
}

#[test]
#[ignore = "takes a minute: make torture"]
fn lmdb_under_10_kills() {
    let has_it = || run(command(PYTHON).args(["-c", "import lmdb"])).status == Some(0);
    if !Path::new(PYTHON).exists() || !has_it() {
        return Need::Programs.lacks("Python has no module lmdb: sudo apt-get install python3-lmdb").end();
    }
    trial(&Lmdb, 10, SHORT, LONG, &[]);
}

#[test]
#[ignore = "takes a minute: make torture"]
fn rocksdb_under_10_kills() {
    let tool = or_skip!(program("ldb", "rocksdb-tools"));
    trial(&RocksDb { tool }, 10, SHORT, LONG, &[]);
}

#[test]
#[ignore = "takes a minute: make torture"]
fn redis_under_10_kills() {
    let server = or_skip!(program("redis-server", "redis-server"));
    let sockets = sockets();
    trial(&Redis { server, socket: sockets.path().join("redis") }, 10, SHORT, LONG, &[]);
}

/// Where Debian keeps PostgreSQL's programs.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    versions.map(|version| version.path().join("bin")).find(|programs| programs.join("initdb").is_file())
}

#[test]
#[ignore = "takes a minute: make torture"]
fn postgresql_under_5_kills() {
    let Some(programs) = postgres_programs() else {
        return Need::Programs.lacks("there is no PostgreSQL: sudo apt-get install postgresql").end();
    };
    let sockets = sockets();
    trial(&Postgres { programs, socket: sockets.path().to_owned() }, 5, SHORT, LONG, &[]);
}

fn dbench(suite: &Path, folder: &Path, seconds: u64) -> std::process::Command {
    let mut words = command(suite);
    words.arg("-D").arg(folder).args(["-t", &seconds.to_string(), "4"]);
    words
}

/// dbench acknowledges nothing, so that the volume has to be sound, and dbench to run on it again.
#[test]
#[ignore = "takes a minute: make torture"]
fn dbench_under_5_kills() {
    let suite = or_skip!(program("dbench", "dbench"));
    let place = or_skip!(Place::new());
    let mut volume = place.volume(&[]);
    for round in 0..5 {
        let folder = volume.path().join(format!("round-{round}"));
        std::fs::create_dir(&folder).expect("a new folder");
        let mut child =
            dbench(&suite, &folder, 600).stdout(std::process::Stdio::null()).spawn().expect("dbench starts");
        std::thread::sleep(Duration::from_millis(1500 + 700 * round));
        volume.kill();
        let _ = child.kill();
        let _ = child.wait();
        volume = volume.kill_and_mount_again(&[]);
        run(command("rm").arg("-r").arg(volume.path().join(format!("round-{round}")))).ends_with(0);
    }
    run(&mut dbench(&suite, volume.path(), 5)).ends_with(0).says(&["Throughput"]);
    volume.end();
    tell("dbench: the server was killed 5 times");
}
