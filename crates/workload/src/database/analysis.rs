//! PocketData's workloads IA, IB and IC: scans and conditions on columns without an index, few changes. The paper has
//! them in the published files alone; docs/workload-format.md says what was taken from those, and how.

use super::distribution::SkewedLatest;
use super::pocketdata::{CREATE, Contents, INSERT, SCAN};
use super::trace::{StatementKind, Trace, Value};
use pocketstone_core::Result;
use pocketstone_core::database::Recipe;
use pocketstone_core::random::Random;
use std::collections::BTreeMap;

/// A workload of interactive analysis, by its letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Analysis {
    /// Conditions on one to three integers.
    A,
    /// A narrow range of one decimal.
    B,
    /// Wider ranges of both decimals.
    C,
}

/// In a hundred operations.
const SCANS: u64 = 41;
const CONDITIONS: u64 = 42;
const UPDATES: u64 = 9;

const COLUMNS: [&str; 10] = [
    "DAT_INT_0",
    "DAT_INT_1",
    "DAT_INT_2",
    "DAT_INT_3",
    "DAT_INT_4",
    "DAT_INT_5",
    "DAT_FLT_0",
    "DAT_FLT_1",
    "DAT_STR_0",
    "DAT_STR_1",
];
const INTEGERS: u64 = 6;

impl Analysis {
    /// How many different integers there are, and how many decimals in steps of 0.0001.
    fn values(self) -> (u64, u64) {
        match self {
            Analysis::A => (100, 100),
            Analysis::B | Analysis::C => (1000, 1000),
        }
    }

    /// A condition's text and its values.
    fn condition(self, random: &mut Random) -> (String, Vec<Value<'static>>) {
        let (integers, decimals) = self.values();
        let (mut terms, mut values) = (Vec::new(), Vec::new());
        match self {
            Analysis::A => {
                for _ in 0..1 + random.below(3) {
                    terms.push(format!("({} = ?)", COLUMNS[random.below(INTEGERS) as usize]));
                    values.push(Value::Integer(random.below(integers) as i64));
                }
            }
            Analysis::B | Analysis::C => {
                // A hundredth of all values at most, and a tenth.
                let (columns, widest) = if self == Analysis::B { (1, decimals / 100) } else { (2, decimals / 10) };
                for column in ["DAT_FLT_0", "DAT_FLT_1"].into_iter().take(columns) {
                    terms.push(format!("({column} > ?) AND ({column} < ?)"));
                    // Lower end and width in millionths.
                    let (low, width) = (random.below(decimals) * 100, 1 + random.below(widest * 100));
                    values.extend([low, low + width].map(|end| Value::Real(end as f64 / 1e6)));
                }
            }
        }
        (format!("SELECT * FROM YCSBDATA WHERE {}", terms.join(" AND ")), values)
    }
}

pub(super) fn analysis(kind: Analysis, recipe: &Recipe, seed: u64) -> Result<Trace> {
    let mut trace = Trace::default();
    let create = trace.add_statement(CREATE, StatementKind::Sql, 0);
    let insert = trace.add_statement(INSERT, StatementKind::Insert, 0);
    let scan = trace.add_statement(SCAN, StatementKind::ScanAfter, 0);
    let add = |column: &str| format!("UPDATE YCSBDATA SET {column} = {column}+1 WHERE key = ?");
    let updates = COLUMNS.map(|column| trace.add_statement(add(column), StatementKind::Sql, 0));
    let mut conditions = BTreeMap::new();
    let integer = |n: u64| Value::Integer(n as i64);
    trace.load(create, &[])?;
    let (integers, decimals) = kind.values();
    let mut contents = Contents::below(seed, "database records", integers, decimals);
    let mut records = recipe.records;
    for key in 0..records {
        let [a, b, c, d, e, f, g, h, i, j] = contents.draw();
        trace.load(insert, &[integer(key), a, b, c, d, e, f, g, h, i, j])?;
    }
    let mut contents = Contents::below(seed, "database new values", integers, decimals);
    let (mut kinds, mut random) =
        (Random::labelled(seed, "database operations"), Random::labelled(seed, "database conditions"));
    let (mut keys, mut latest) = (Random::labelled(seed, "database keys"), SkewedLatest::new(records - 1));
    for _ in 0..recipe.operations {
        let drawn = kinds.below(100);
        if drawn < SCANS {
            let key = latest.draw(records - 1, &mut keys);
            trace.measure(0, scan, &[integer(key), integer(1 + random.below(recipe.scan_records))], false)?;
        } else if drawn < SCANS + CONDITIONS {
            let (text, values) = kind.condition(&mut random);
            let statement = match conditions.get(&text) {
                Some(statement) => *statement,
                None => {
                    let statement = trace.add_statement(&*text, StatementKind::Sql, 0);
                    conditions.insert(text, statement);
                    statement
                }
            };
            trace.measure(0, statement, &values, false)?;
        } else if drawn < SCANS + CONDITIONS + UPDATES {
            let key = latest.draw(records - 1, &mut keys);
            trace.measure(0, updates[random.below(COLUMNS.len() as u64) as usize], &[integer(key)], false)?;
        } else {
            let [a, b, c, d, e, f, g, h, i, j] = contents.draw();
            trace.measure(0, insert, &[integer(records), a, b, c, d, e, f, g, h, i, j], false)?;
            records += 1;
        }
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::database::DatabaseWorkload;

    fn texts(kind: Analysis) -> (Trace, Vec<String>) {
        let recipe = Recipe { operations: 20_000, ..Recipe::new(DatabaseWorkload::PocketdataIa) };
        let trace = analysis(kind, &recipe, 3).unwrap();
        let texts = trace.measured().iter().map(|step| trace.statement(step).text.clone()).collect();
        (trace, texts)
    }

    /// Shares that were counted in the published files; five standard deviations of 20,000 draws are at most 0.018.
    #[test]
    fn shares_and_forms_are_those_of_the_published_files() {
        let forms = [
            (Analysis::A, &["(DAT_INT_0 = ?)", "(DAT_INT_4 = ?) AND (DAT_INT_2 = ?) AND (DAT_INT_2 = ?)"][..], 258),
            (Analysis::B, &["(DAT_FLT_0 > ?) AND (DAT_FLT_0 < ?)"][..], 1),
            (Analysis::C, &["(DAT_FLT_0 > ?) AND (DAT_FLT_0 < ?) AND (DAT_FLT_1 > ?) AND (DAT_FLT_1 < ?)"][..], 1),
        ];
        for (kind, conditions, number) in forms {
            let (trace, texts) = texts(kind);
            let share = |of: &str| texts.iter().filter(|t| t.contains(of)).count() as f64 / texts.len() as f64;
            for (of, expected) in [("ORDER BY key", 0.41), ("WHERE (DAT", 0.42), ("UPDATE", 0.09), ("INSERT", 0.08)] {
                assert!((share(of) - expected).abs() < 0.018, "{kind:?}: {of} {}", share(of));
            }
            for condition in conditions {
                assert!(texts.iter().any(|t| *t == format!("SELECT * FROM YCSBDATA WHERE {condition}")), "{condition}");
            }
            let different: std::collections::BTreeSet<_> = texts.iter().filter(|t| t.contains("WHERE (DAT")).collect();
            assert_eq!(different.len(), number, "{kind:?}");
            assert_eq!(
                texts.iter().filter(|t| t.contains("UPDATE")).collect::<std::collections::BTreeSet<_>>().len(),
                10
            );
            // One encoding, and the same from it.
            let bytes = trace.encode();
            assert_eq!(Trace::decode(&bytes).unwrap().encode(), bytes);
        }
    }
}
