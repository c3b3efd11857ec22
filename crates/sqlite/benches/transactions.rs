//! What SQLite's transactions and queries cost on a volume in process, beside tmpfs: processor time, medians of
//! interleaved rounds. Region and files are in /dev/shm. Nothing is durable there but against the end of a process, on
//! either side; what is compared is what each does for durability. The file in memory (SQLite's VFS `memdb`, with the
//! same small cache) shows what SQLite itself takes.

use pocketstone_core::median::median;
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{CreateOptions, Volume};
use pocketstone_sqlite::{Host, register};
use pocketstone_testing::bench::cpu;
use rusqlite::{Connection, OpenFlags};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;

const ROWS: i64 = 20_000;
const ROUNDS: usize = 15;
const CALLS: u32 = 2_000;

/// A database, and what it is called in the table.
struct Subject {
    name: &'static str,
    connection: Connection,
    times: [Vec<f64>; 3],
}

fn subject(name: &'static str, uri: &str, pragmas: &str) -> Subject {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags).expect("a database");
    connection.execute_batch(pragmas).expect("pragmas");
    let many = format!("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {})", ROWS - 1);
    let rows = format!("INSERT INTO t {many} SELECT i, hex(zeroblob(400)), 0 FROM n");
    connection
        .execute_batch(&format!("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, n INTEGER); {rows}"))
        .expect("rows");
    let rows = "INSERT INTO p SELECT id, 0, zeroblob(3000) FROM t WHERE id < 1000";
    connection
        .execute_batch(&format!("CREATE TABLE p (id INTEGER PRIMARY KEY, n INTEGER, filler BLOB); {rows}"))
        .expect("rows of a page each");
    Subject { name, connection, times: Default::default() }
}

impl Subject {
    /// Microseconds each of: an update of one row; of four rows on four pages; a query of one row.
    fn round(&mut self, seed: i64) {
        let row = |i: u32| (i64::from(i) * 7919 + seed * 104_729) % ROWS;
        let mut update = self.connection.prepare("UPDATE t SET n = n + 1 WHERE id = ?1").expect("a statement");
        let time = |calls: u32, mut call: Box<dyn FnMut(u32) + '_>| {
            let start = cpu();
            (0..calls).for_each(&mut *call);
            (cpu() - start).as_secs_f64() * 1e6 / f64::from(calls)
        };
        let one = time(
            CALLS,
            Box::new(|i| {
                black_box(update.execute([row(i)]).expect("an update"));
            }),
        );
        drop(update);
        let sql = "UPDATE p SET n = n + 1 WHERE id BETWEEN ?1 % 997 AND ?1 % 997 + 3";
        let mut update = self.connection.prepare(sql).expect("a statement");
        let four = time(
            CALLS,
            Box::new(|i| {
                black_box(update.execute([row(i)]).expect("an update"));
            }),
        );
        drop(update);
        let mut query = self.connection.prepare("SELECT n FROM t WHERE id = ?1").expect("a statement");
        let query = time(
            CALLS,
            Box::new(|i| {
                black_box(query.query_row([row(i)], |r| r.get::<_, i64>(0)).expect("a row"));
            }),
        );
        for (times, time) in self.times.iter_mut().zip([one, four, query]) {
            times.push(time);
        }
    }
}

fn main() {
    register(Host::linked()).expect("a VFS");
    let home = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let region = home.path().join("volume.scmfs");
    let mapped = Mapped::create(&region, 256 << 20, &MapOptions::default()).expect("a region");
    Volume::create(Box::new(mapped), &CreateOptions::default().zeroed(true)).expect("a volume");
    let small = "PRAGMA cache_size = 64;";
    let mounted = |name: &str| format!("file:{}", Path::new(home.path()).join(name).display());
    let inside = |name: &str| format!("file:/{name}?vfs=scmfs&volume={}", region.display());
    let full = |journal: &str| format!("PRAGMA journal_mode={journal}; PRAGMA synchronous=FULL; {small}");
    let mapped = |journal: &str| format!("{}PRAGMA mmap_size = 268435456;", full(journal));
    let mut subjects = [
        subject("SCMFS in process, DELETE/FULL", &inside("a"), &full("delete")),
        subject("SCMFS in process, WAL/FULL", &inside("b"), &full("wal")),
        subject("tmpfs, DELETE/FULL", &mounted("c"), &full("delete")),
        subject("tmpfs, WAL/FULL", &mounted("d"), &full("wal")),
        subject("tmpfs, WAL/FULL, mmap_size", &mounted("e"), &mapped("wal")),
        subject("SCMFS in process, DELETE/FULL, mmap_size", &inside("f"), &mapped("delete")),
        subject("SCMFS in process, WAL/FULL, mmap_size", &inside("g"), &mapped("wal")),
        subject("a file in memory", "file:/h?vfs=memdb", small),
        subject("in memory", "file::memory:", ""),
    ];
    for round in 0..ROUNDS {
        // What another subject left in the processor's caches is no subject's alone.
        let first = round % subjects.len();
        for i in 0..subjects.len() {
            let subject = (first + i) % subjects.len();
            subjects[subject].round(round as i64);
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<42} {:>12} {:>12} {:>12}   us", "", "update", "of 4 pages", "query").expect("a terminal");
    for subject in &subjects {
        let [one, four, query] = subject.times.clone().map(|times| median(times).expect("rounds"));
        writeln!(out, "{:<42} {one:>12.2} {four:>12.2} {query:>12.2}", subject.name).expect("a terminal");
    }
    // Of two subjects in the same round, as the machine is not the same in all of them.
    let ratio = |over: usize, under: usize, what: usize| {
        let rounds = subjects[over].times[what].iter().zip(&subjects[under].times[what]);
        median(rounds.map(|(over, under)| over / under).collect::<Vec<_>>()).expect("rounds")
    };
    let mut bar = |name: &str, value: f64, bar: f64, most: bool| {
        let met = if most { value <= bar } else { value >= bar };
        let (sign, word) = (if most { "at most" } else { "at least" }, if met { "met" } else { "NOT met" });
        writeln!(out, "{name}: {value:.2} ({sign} {bar}: {word})").expect("a terminal");
    };
    bar("durable updates, times those of tmpfs with WAL/FULL", ratio(3, 0, 0), 1.5, false);
    bar("a transaction of 4 pages, times that of a file in memory", ratio(0, 7, 1), 1.6, true);
    bar("queries, times those of tmpfs with mmap_size", ratio(4, 5, 2), 1.0, false);
}
