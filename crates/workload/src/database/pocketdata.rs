//! YCSB's workloads on the table of PocketData's published workloads (Nuessle, Kennedy and Ziarek,
//! "Benchmarking pocket-scale databases"). docs/workload-format.md says how the published files differ.

use super::requests::{Letter, Request, Requests};
use super::trace::{StatementKind, Trace, Value};
use pocketstone_core::Result;
use pocketstone_core::database::Recipe;
use pocketstone_core::random::Random;

pub(super) const CREATE: &str = "CREATE TABLE YCSBDATA(key int, DAT_INT_0 int, DAT_INT_1 int, DAT_INT_2 int, \
     DAT_INT_3 int, DAT_INT_4 int, DAT_INT_5 int, DAT_FLT_0 decimal, DAT_FLT_1 decimal, DAT_STR_0 varchar(60), \
     DAT_STR_1 varchar(60))";
pub(super) const INSERT: &str = "INSERT INTO YCSBDATA(key, DAT_INT_0, DAT_INT_1, DAT_INT_2, DAT_INT_3, DAT_INT_4, \
     DAT_INT_5, DAT_FLT_0, DAT_FLT_1, DAT_STR_0, DAT_STR_1) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const READ: &str = "SELECT * FROM YCSBDATA WHERE key = ?";
const UPDATE: &str = "UPDATE YCSBDATA SET DAT_INT_0=?, DAT_INT_1=?, DAT_INT_2=?, DAT_INT_3=?, DAT_INT_4=?, \
     DAT_INT_5=?, DAT_FLT_0=?, DAT_FLT_1=?, DAT_STR_0=?, DAT_STR_1=? WHERE key = ?";
pub(super) const SCAN: &str = "SELECT * FROM YCSBDATA WHERE key > ? ORDER BY key ASC LIMIT ?";

/// All columns but the key.
const UPDATED: u64 = 0b111_1111_1110;

const INTEGERS: usize = 6;
const DECIMALS: usize = 2;
/// Longest text of a record: the published ones have from 30 to 49 characters.
pub(super) const LONGEST_TEXT: u64 = 49;

/// What texts are made of.
const WORDS: [&str; 48] = [
    "amber", "anchor", "basalt", "beacon", "birch", "boulder", "brook", "canyon", "cedar", "cinder", "clay", "cobble",
    "coral", "crater", "delta", "dune", "ember", "fern", "flint", "fog", "garnet", "glacier", "granite", "gravel",
    "harbour", "heather", "island", "jasper", "lagoon", "lantern", "lichen", "marble", "meadow", "moss", "onyx",
    "pebble", "quarry", "quartz", "reef", "ridge", "river", "saffron", "shale", "slate", "thicket", "tide", "valley",
    "willow",
];

/// The values of a record but its key.
pub(super) struct Contents {
    random: Random,
    /// Different integers, and decimals in steps of 0.0001.
    numbers: (u64, u64),
    texts: [String; 2],
}

impl Contents {
    fn new(seed: u64, label: &str) -> Self {
        Contents::below(seed, label, 1_000_000, 1_000_000)
    }

    /// Contents with so many different integers, and decimals in steps of 0.0001.
    pub(super) fn below(seed: u64, label: &str, integers: u64, decimals: u64) -> Self {
        let random = Random::labelled(seed, label);
        Contents { random, numbers: (integers, decimals), texts: Default::default() }
    }

    pub(super) fn draw(&mut self) -> [Value<'_>; 10] {
        let random = &mut self.random;
        let (integers, decimals) = self.numbers;
        let numbers: [u64; INTEGERS + DECIMALS] =
            std::array::from_fn(|n| random.below(if n < INTEGERS { integers } else { decimals }));
        for text in &mut self.texts {
            let length = 30 + random.below(20) as usize;
            text.clear();
            while text.len() < length {
                text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
                text.push(' ');
            }
            text.truncate(length);
        }
        std::array::from_fn(|n| match n {
            0..INTEGERS => Value::Integer(numbers[n] as i64),
            // The quotient is the double next to a decimal with four digits.
            INTEGERS..8 => Value::Real(numbers[n] as f64 / 10_000.0),
            _ => Value::Text(&self.texts[n - 8]),
        })
    }
}

pub(super) fn pocketdata(letter: Letter, recipe: &Recipe, seed: u64) -> Result<Trace> {
    let mut trace = Trace::default();
    let create = trace.add_statement(CREATE, StatementKind::Sql, 0);
    let insert = trace.add_statement(INSERT, StatementKind::Insert, 0);
    let read = match letter {
        Letter::E => trace.add_statement(SCAN, StatementKind::ScanAfter, 0),
        _ => trace.add_statement(READ, StatementKind::Read, 0),
    };
    let update = trace.add_statement(UPDATE, StatementKind::Update, UPDATED);
    let integer = |n: u64| Value::Integer(n as i64);
    trace.load(create, &[])?;
    let mut contents = Contents::new(seed, "database records");
    for key in 0..recipe.records {
        let [a, b, c, d, e, f, g, h, i, j] = contents.draw();
        trace.load(insert, &[integer(key), a, b, c, d, e, f, g, h, i, j])?;
    }
    let mut contents = Contents::new(seed, "database new values");
    let requests = Requests::new(letter, recipe.records, recipe.operations, recipe.scan_records, seed);
    for request in requests.take(recipe.operations as usize) {
        match request {
            Request::Read { record } => trace.measure(0, read, &[integer(record)], false)?,
            Request::Scan { record, records } => {
                trace.measure(0, read, &[integer(record), integer(records)], false)?;
            }
            Request::Insert { record } => {
                let [a, b, c, d, e, f, g, h, i, j] = contents.draw();
                trace.measure(0, insert, &[integer(record), a, b, c, d, e, f, g, h, i, j], false)?;
            }
            Request::Update { record } | Request::ReadModifyWrite { record } => {
                let joined = matches!(request, Request::ReadModifyWrite { .. });
                if joined {
                    trace.measure(0, read, &[integer(record)], false)?;
                }
                let [a, b, c, d, e, f, g, h, i, j] = contents.draw();
                trace.measure(0, update, &[a, b, c, d, e, f, g, h, i, j, integer(record)], joined)?;
            }
        }
    }
    Ok(trace)
}
