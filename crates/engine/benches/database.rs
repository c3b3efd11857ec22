//! What the measured loop adds to a bare loop on prepared statements of SQLite.
//!
//! 500 rows of a key and 10 texts of 100 bytes in memory, read by key. One bare loop reads its values as programs do,
//! by `sqlite3_column_text` and its like; another one as the lab does, by `sqlite3_value_text`, which costs less. Each
//! has a database of its own. Prints medians, and the medians of the ratios of rounds with 95% bootstrap intervals; the
//! bar is 5% of a bare operation as programs do it. What one reading of the clock costs is printed, too: an operation
//! that is timed costs that much at least.

use libsqlite3_sys as ffi;
use pocketstone_core::database::{DatabaseEngine, DatabaseSpec, DatabaseWorkload, Recipe};
use pocketstone_core::median::median;
use pocketstone_core::random::Random;
use pocketstone_engine::database::Session;
use pocketstone_testing::clock;
use pocketstone_workload::database::{StatementKind, Trace, Value};
use std::ffi::{CString, c_int};
use std::hint::black_box;
use std::io::Write;
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

/// Many short runs: what else the machine does disturbs few of them.
const ROUNDS: usize = 401;
const ROWS: u64 = 500;
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
const READS: u64 = 1000;
/// Share of a bare operation.
const BAR: f64 = 0.05;
const BOOTSTRAPS: usize = 2000;

const READ: &str = "SELECT * FROM usertable WHERE ycsb_key = ?";

fn key(n: u64) -> String {
    format!("user{:016}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12)
}

fn workload() -> Trace {
    let (mut trace, mut random) = (Trace::default(), Random::new(7));
    let fields: String = (0..FIELDS).map(|n| format!(", field{n} TEXT")).collect();
    let create = format!("CREATE TABLE usertable (ycsb_key VARCHAR(255) PRIMARY KEY{fields})");
    let create = trace.add_statement(create, StatementKind::Sql, 0);
    let marks = ", ?".repeat(FIELDS);
    let insert = trace.add_statement(format!("INSERT INTO usertable VALUES (?{marks})"), StatementKind::Insert, 0);
    let read = trace.add_statement(READ, StatementKind::Read, 0);
    trace.load(create, &[]).expect("a step");
    for n in 0..ROWS {
        let mut field = || (0..FIELD_BYTES).map(|_| (b' ' + random.below(95) as u8) as char).collect::<String>();
        let texts: Vec<String> = std::iter::once(key(n)).chain((0..FIELDS).map(|_| field())).collect();
        let values: Vec<Value<'_>> = texts.iter().map(|t| Value::Text(t)).collect();
        trace.load(insert, &values).expect("a step");
    }
    for _ in 0..READS {
        trace.measure(0, read, &[Value::Text(&key(random.below(ROWS)))], false).expect("a step");
    }
    trace
}

/// SQLite by its own interface, without the lab.
struct Bare {
    db: *mut ffi::sqlite3,
    read: *mut ffi::sqlite3_stmt,
    keys: Vec<String>,
}

impl Bare {
    fn new(trace: &Trace) -> Bare {
        let mut bare = Bare { db: ptr::null_mut(), read: ptr::null_mut(), keys: Vec::new() };
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_NOMUTEX;
        // SAFETY: the name ends with a zero byte; the handle is written.
        let code = unsafe { ffi::sqlite3_open_v2(c":memory:".as_ptr(), &mut bare.db, flags, ptr::null()) };
        assert_eq!(code, ffi::SQLITE_OK);
        for step in trace.loading() {
            let statement = bare.prepare(&trace.statement(step).text);
            (1..).zip(trace.values(step)).for_each(|(n, value)| match value {
                Value::Text(text) => bind(statement, n, text),
                _ => unreachable!("the workload has texts alone"),
            });
            // SAFETY: the statement is this connection's, and is not used again.
            unsafe {
                assert_eq!(ffi::sqlite3_step(statement), ffi::SQLITE_DONE);
                ffi::sqlite3_finalize(statement);
            }
        }
        bare.read = bare.prepare(READ);
        let text = |value| match value {
            Some(Value::Text(text)) => text.to_owned(),
            _ => unreachable!("the workload has texts alone"),
        };
        bare.keys = trace.measured().iter().map(|s| text(trace.values(s).next())).collect();
        bare
    }

    fn prepare(&self, text: &str) -> *mut ffi::sqlite3_stmt {
        let (text, mut statement) = (CString::new(text).expect("no zero byte"), ptr::null_mut());
        // SAFETY: the text ends with a zero byte; the statement is written.
        let code = unsafe { ffi::sqlite3_prepare_v2(self.db, text.as_ptr(), -1, &mut statement, ptr::null_mut()) };
        assert_eq!(code, ffi::SQLITE_OK);
        statement
    }

    /// All reads, each value by its column or, as the lab does it, by what `sqlite3_column_value` gives: nanoseconds
    /// per operation.
    fn run<const BY_VALUE: bool>(&self) -> f64 {
        let (begin, mut bytes) = (Instant::now(), 0);
        for key in &self.keys {
            bind(self.read, 1, key);
            // SAFETY: the statement is this connection's, which one thread has; values are used before the next step.
            unsafe {
                let columns = ffi::sqlite3_column_count(self.read);
                while ffi::sqlite3_step(self.read) == ffi::SQLITE_ROW {
                    for n in 0..columns {
                        let (kind, start, length) = if BY_VALUE {
                            let value = ffi::sqlite3_column_value(self.read, n);
                            let kind = ffi::sqlite3_value_type(value);
                            (kind, ffi::sqlite3_value_text(value), ffi::sqlite3_value_bytes(value))
                        } else {
                            let kind = ffi::sqlite3_column_type(self.read, n);
                            (kind, ffi::sqlite3_column_text(self.read, n), ffi::sqlite3_column_bytes(self.read, n))
                        };
                        assert_eq!(kind, ffi::SQLITE_TEXT);
                        black_box(touch(std::slice::from_raw_parts(start, length as usize)));
                        bytes += length as usize;
                    }
                }
                ffi::sqlite3_reset(self.read);
            }
        }
        let elapsed = begin.elapsed().as_nanos() as f64;
        assert_eq!(bytes, READS as usize * (FIELDS * FIELD_BYTES + key(0).len()));
        elapsed / READS as f64
    }
}

/// Reads every byte, as anything that uses a value does, at the least cost there is.
fn touch(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder().iter().fold(0, |sum, byte| sum ^ u64::from(*byte));
    words.fold(rest, |sum, w| sum ^ u64::from_le_bytes([w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]]))
}

fn bind(statement: *mut ffi::sqlite3_stmt, n: c_int, text: &str) {
    // SAFETY: the text outlives the statement's execution.
    let code = unsafe {
        ffi::sqlite3_bind_text(statement, n, text.as_ptr().cast(), text.len() as c_int, ffi::SQLITE_STATIC())
    };
    assert_eq!(code, ffi::SQLITE_OK);
}

fn spec() -> DatabaseSpec {
    let recipe = Recipe {
        records: ROWS,
        operations: READS,
        fields: FIELDS as u64,
        field_bytes: FIELD_BYTES as u64,
        ..Recipe::new(DatabaseWorkload::YcsbC)
    };
    DatabaseSpec::new(recipe, DatabaseEngine::Sqlite)
}

/// All operations by the lab: nanoseconds per operation, from the call to its return.
fn lab(session: &mut Session) -> f64 {
    let begin = Instant::now();
    let run = session.run().expect("the run");
    let elapsed = begin.elapsed().as_nanos() as f64;
    assert_eq!((run.calls.len() as u64, run.rows), (READS, READS));
    elapsed / READS as f64
}

fn main() {
    let trace = Arc::new(workload());
    // A database each: whose is in the cache already has it easier.
    let [programs, values] = [(); 2].map(|()| Bare::new(&trace));
    let mut session = Session::in_memory(&spec(), trace).expect("a session");
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let mut times = [0.0; 3];
        for n in 0..times.len() {
            let which = (round + n) % times.len();
            times[which] = match which {
                0 => programs.run::<false>(),
                1 => values.run::<true>(),
                _ => lab(&mut session),
            };
        }
        rounds.push(times);
    }
    let median_of = |which: usize| median(rounds.iter().map(|times| times[which]).collect::<Vec<_>>()).expect("rounds");
    let [programs, values] = [0, 1].map(|bare| Added::over(bare, &rounds));
    let word = if programs.median <= BAR { "met" } else { "NOT met" };
    let text = format!(
        "YCSB-C-like reads, SQLite in memory: bare {:.0} ns, lab {:.0} ns per operation; the lab adds {programs} \
         ({ROUNDS} rounds; a reading of the clock takes {:.0} ns); bar {:.0}%: {word}. To a bare loop that reads \
         values as the lab does, {:.0} ns, it adds {values}\n",
        median_of(0),
        median_of(2),
        clock::reading_ns(),
        100.0 * BAR,
        median_of(1),
    );
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// What the lab adds, as a share of a bare operation.
struct Added {
    median: f64,
    low: f64,
    high: f64,
}

impl Added {
    /// To the bare loop that is number `bare` of each round; the lab is the last one.
    fn over(bare: usize, rounds: &[[f64; 3]]) -> Added {
        let added: Vec<f64> = rounds.iter().map(|times| times[2] / times[bare] - 1.0).collect();
        let mut random = Random::new(1);
        let mut resampled: Vec<f64> = (0..BOOTSTRAPS)
            .map(|_| {
                let sample: Vec<f64> = added.iter().map(|_| added[random.below(ROUNDS as u64) as usize]).collect();
                median(sample).expect("rounds")
            })
            .collect();
        resampled.sort_by(f64::total_cmp);
        let [low, high] = [BOOTSTRAPS / 40, BOOTSTRAPS - 1 - BOOTSTRAPS / 40].map(|n| resampled[n]);
        Added { median: median(added).expect("rounds"), low, high }
    }
}

impl std::fmt::Display for Added {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, low, high] = [self.median, self.low, self.high].map(|share| 100.0 * share);
        write!(f, "{median:.1}% ({low:.1} to {high:.1})")
    }
}
