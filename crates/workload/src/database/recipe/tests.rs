use super::*;
use crate::database::{StatementKind, Step, Value};
use pocketstone_core::pattern::Pattern;
use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, Value as Owned};
use std::collections::HashSet;

use DatabaseWorkload as W;

const EVERY: [W; 17] = [
    W::YcsbA,
    W::YcsbB,
    W::YcsbC,
    W::YcsbD,
    W::YcsbE,
    W::YcsbF,
    W::PocketdataA,
    W::PocketdataB,
    W::PocketdataC,
    W::PocketdataD,
    W::PocketdataE,
    W::PocketdataF,
    W::PocketdataIa,
    W::PocketdataIb,
    W::PocketdataIc,
    W::Contacts,
    W::Null,
];

/// Workloads whose conditions are SQL's.
const ANALYSES: [W; 3] = [W::PocketdataIa, W::PocketdataIb, W::PocketdataIc];

fn recipe(workload: W) -> Recipe {
    Recipe {
        workload,
        file: None,
        records: 200,
        operations: 1000,
        fields: 10,
        field_bytes: 100,
        scan_records: 100,
        pattern: Pattern::Random,
        delay: None,
    }
}

#[test]
fn threads_have_bounds() {
    let (threads, _) = crate::database::DATABASE_FACTORS.iter().find(|(factor, _)| factor.name == "threads").unwrap();
    for valid in [1, 1024] {
        threads.check(&valid.into()).unwrap();
    }
    // The last one is 1 in 32 bits.
    for wrong in [0, 1025, 4_294_967_297_u64] {
        let error = threads.check(&wrong.into()).unwrap_err();
        assert_eq!(error.cure(), Some("threads must be from 1 to 1024"), "{}", error.chain());
    }
}

fn bound<'a>(value: &Value<'a>) -> ToSqlOutput<'a> {
    match value {
        Value::Integer(n) => ToSqlOutput::Owned(Owned::Integer(*n)),
        Value::Real(x) => ToSqlOutput::Owned(Owned::Real(*x)),
        Value::Text(text) => ToSqlOutput::from(*text),
        other => panic!("no recipe makes {other:?}"),
    }
}

/// Executes a step: rows returned or changed.
fn execute(database: &Connection, trace: &Trace, step: &Step) -> usize {
    let mut statement = database.prepare_cached(&trace.statement(step).text).unwrap();
    let values: Vec<ToSqlOutput<'_>> = trace.values(step).map(|v| bound(&v)).collect();
    let values = rusqlite::params_from_iter(values);
    if statement.column_count() == 0 {
        return statement.execute(values).unwrap();
    }
    let mut rows = statement.query(values).unwrap();
    let mut count = 0;
    while rows.next().unwrap().is_some() {
        count += 1;
    }
    count
}

fn loaded(trace: &Trace, page_bytes: u64) -> Connection {
    let database = Connection::open_in_memory().unwrap();
    database.pragma_update(None, "page_size", page_bytes).unwrap();
    trace.loading().iter().for_each(|step| {
        execute(&database, trace, step);
    });
    database
}

#[test]
fn sqlite_runs_every_recipe_and_every_request_hits() {
    for workload in EVERY {
        let trace = prepare(&recipe(workload), 1).unwrap();
        let database = loaded(&trace, 4096);
        let operations = if workload == W::Null { 0 } else { 1000 };
        assert_eq!(trace.operations(), operations, "{workload:?}");
        for step in trace.measured() {
            let done = execute(&database, &trace, step);
            let values: Vec<Value<'_>> = trace.values(step).collect();
            match trace.statement(step).kind {
                StatementKind::Read | StatementKind::Update | StatementKind::Insert => {
                    assert_eq!(done, 1, "{workload:?}: {}", trace.sql(step));
                }
                StatementKind::Scan => assert!(done >= 1, "{workload:?}: {}", trace.sql(step)),
                StatementKind::ScanAfter => {
                    // Keys are 0, 1, ... without gaps.
                    let [Value::Integer(key), Value::Integer(limit)] = values[..] else { panic!("{values:?}") };
                    let there: i64 = database.query_row("SELECT count(*) FROM YCSBDATA", [], |r| r.get(0)).unwrap();
                    assert_eq!(done as i64, limit.min(there - 1 - key));
                }
                StatementKind::Sql => {
                    assert!(ANALYSES.contains(&workload), "key-value engines cannot run a statement of {workload:?}");
                    let changes = trace.statement(step).text.starts_with("UPDATE");
                    assert!(done == 1 || !changes, "{workload:?}: {}", trace.sql(step));
                }
            }
        }
        assert_eq!(trace.summary().key_value, !ANALYSES.contains(&workload), "{workload:?}");
    }
}

#[test]
fn the_same_recipe_and_seed_give_the_same_file() {
    let delay = Some(Delay::Lognormal { mean_ns: 6_000_000, sigma: 1.0 });
    for workload in EVERY {
        let recipe = Recipe { delay, ..recipe(workload) };
        let file = |seed| prepare(&recipe, seed).unwrap().encode();
        let one = file(1);
        assert!(one == file(1), "{workload:?}");
        assert_eq!(one == file(2), workload == W::Null, "{workload:?}");
        assert_eq!(Trace::decode(&one).unwrap().encode(), one, "{workload:?}");
    }
}

/// Taken from this program when it was first right; a new digest means that recorded seeds have changed
/// their meaning.
#[test]
fn what_a_seed_means_never_changes() {
    let delay = Some(Delay::Lognormal { mean_ns: 6_000_000, sigma: 1.0 });
    let digests = FIXED.map(|(workload, _)| {
        let trace = prepare(&Recipe { delay, ..recipe(workload) }, 1).unwrap();
        (workload, Trace::digest(&trace.encode()))
    });
    let seen = digests.each_ref().map(|(workload, digest)| (*workload, &digest[..16]));
    assert_eq!(seen, FIXED);
}

const FIXED: [(W, &str); 6] = [
    (W::YcsbA, "80ff55e4e27d5cf7"),
    (W::YcsbD, "e5fcf7f72bc4caa2"),
    (W::YcsbE, "3cc83fa8f92c2077"),
    (W::YcsbF, "fc9b23a28bf38a53"),
    (W::PocketdataA, "b1ddf0981b5fbfbb"),
    (W::Contacts, "61bc34dc498f49a7"),
];

#[test]
fn ycsbs_rows_have_its_keys_and_fields() {
    let trace = prepare(&recipe(W::YcsbA), 1).unwrap();
    let first: Vec<Value<'_>> = trace.values(&trace.loading()[1]).collect();
    assert_eq!(first[0], Value::Text("user6284781860667377211"));
    assert_eq!(first.len(), 11);
    for value in &first[1..] {
        let Value::Text(text) = value else { panic!("{value:?}") };
        assert!(text.len() == 100 && text.bytes().all(|b| (b'0'..=b'o').contains(&b)), "{text}");
    }
    let updates: HashSet<u64> =
        trace.measured().iter().map(|s| trace.statement(s)).filter(|s| s.columns != 0).map(|s| s.columns).collect();
    // Each of the ten fields, one at a time; bit 0 is the key.
    assert_eq!(updates, (1..=10).map(|field| 1 << field).collect());
    let text = |workload, n: usize| prepare(&recipe(workload), 1).unwrap().statements[n].text.clone();
    assert_eq!(text(W::YcsbA, 6), "UPDATE usertable SET FIELD3 = ? WHERE YCSB_KEY = ?");
    assert_eq!(text(W::YcsbE, 2), "SELECT * FROM usertable WHERE YCSB_KEY >= ? ORDER BY YCSB_KEY LIMIT ?");
}

#[test]
fn a_read_modify_write_is_one_operation() {
    let trace = prepare(&Recipe { delay: Some(Delay::Fixed { ns: 5 }), ..recipe(W::YcsbF) }, 1).unwrap();
    let steps = trace.measured();
    let joined = steps.iter().filter(|s| s.joined).count();
    assert!((400..600).contains(&joined) && steps.len() == 1000 + joined);
    for pair in steps.windows(2).filter(|pair| pair[1].joined) {
        let key = |step: &Step| trace.values(step).last().map(|v| format!("{v:?}"));
        assert_eq!((trace.statement(&pair[0]).kind, key(&pair[0])), (StatementKind::Read, key(&pair[1])));
        assert_eq!((trace.statement(&pair[1]).kind, pair[1].pause_ns), (StatementKind::Update, 0));
    }
}

#[test]
fn pocketdatas_texts_are_the_published_ones_with_values_of_their_kinds() {
    let trace = prepare(&recipe(W::PocketdataE), 1).unwrap();
    let scan = trace.measured().iter().find(|s| trace.statement(s).kind == StatementKind::ScanAfter).unwrap();
    let text = trace.sql(scan);
    assert!(text.starts_with("SELECT * FROM YCSBDATA WHERE key > ") && text.contains(" ORDER BY key ASC LIMIT "));
    for step in &trace.loading()[1..] {
        let values: Vec<Value<'_>> = trace.values(step).collect();
        assert!(values[1..7].iter().all(|v| matches!(v, Value::Integer(0..1_000_000))));
        for value in &values[7..9] {
            let Value::Real(x) = value else { panic!("{value:?}") };
            // At most four digits, below 100.
            assert_eq!(format!("{x:.4}").parse::<f64>().unwrap(), *x);
            assert!((0.0..100.0).contains(x));
        }
        assert!(values[9..].iter().all(|v| matches!(v, Value::Text(t) if (30..50).contains(&t.len()))));
    }
}

/// The paper's databases have 518 KB and 1 MB. SQLite 3.7 made pages of 1024 bytes: two records of 64
/// characters a field fit one, and one of 128.
#[test]
fn contacts_databases_are_as_large_as_the_papers() {
    for (field_bytes, sizes) in [(64, 517_500..518_500), (128, 1_000_000..1_060_000)] {
        let trace = prepare(&Recipe { records: 1000, field_bytes, ..recipe(W::Contacts) }, 1).unwrap();
        assert_eq!(trace.value_count(&trace.loading()[1]), 17);
        let database = loaded(&trace, 1024);
        let pages: i64 = database.query_row("SELECT * FROM pragma_page_count", [], |r| r.get(0)).unwrap();
        assert!(sizes.contains(&(pages * 1024)), "{field_bytes}: {}", pages * 1024);
    }
}

#[test]
fn contacts_are_looked_up_in_order_or_at_random() {
    let ids = |pattern| -> Vec<i64> {
        let trace = prepare(&Recipe { pattern, records: 7, operations: 100, ..recipe(W::Contacts) }, 1).unwrap();
        let id = |s: &Step| match trace.values(s).next() {
            Some(Value::Integer(id)) => id,
            other => panic!("{other:?}"),
        };
        trace.measured().iter().map(id).collect()
    };
    assert_eq!(ids(Pattern::Sequential), (0..100).map(|n| n % 7 + 1).collect::<Vec<i64>>());
    let random = ids(Pattern::Random);
    assert_ne!(random, ids(Pattern::Sequential));
    assert_eq!(random.into_iter().collect::<HashSet<_>>(), (1..=7).collect());
}

#[test]
fn numbers_without_sense_are_refused() {
    let wrong = [
        (Recipe { records: 0, ..recipe(W::YcsbA) }, "the workload ycsb-a cannot have records = 0"),
        (Recipe { operations: 0, ..recipe(W::PocketdataA) }, "the workload pocketdata-a cannot have operations = 0"),
        (
            Recipe { operations: 1 << 32, ..recipe(W::Contacts) },
            "the workload contacts cannot have operations = 4294967296",
        ),
        (Recipe { fields: 0, ..recipe(W::YcsbC) }, "the workload ycsb-c cannot have fields = 0"),
        (Recipe { fields: 63, ..recipe(W::YcsbC) }, "the workload ycsb-c cannot have fields = 63"),
        (Recipe { field_bytes: 0, ..recipe(W::Contacts) }, "the workload contacts cannot have field_bytes = 0"),
        (Recipe { field_bytes: 1 << 21, ..recipe(W::YcsbB) }, "the workload ycsb-b cannot have field_bytes = 2097152"),
        (Recipe { scan_records: 0, ..recipe(W::YcsbE) }, "the workload ycsb-e cannot have scan_records = 0"),
        // 5,000,000 records of 10 fields of 100 characters.
        (
            Recipe { records: 5_000_000, ..recipe(W::YcsbC) },
            "the workload ycsb-c would contain 5000000000 bytes of text",
        ),
    ];
    for (recipe, expected) in wrong {
        let error = prepare(&recipe, 1).unwrap_err();
        assert_eq!(error.message(), expected);
        assert!(error.cure().is_some());
        let named = out_of_range(&recipe).is_some_and(|(name, ..)| expected.contains(&format!(" {name} = ")));
        assert_eq!(named, expected.contains(" = "), "{expected}");
    }
    assert!(prepare(&Recipe { fields: 62, scan_records: 0, ..recipe(W::YcsbA) }, 1).is_ok());
    assert!(prepare(&Recipe { records: 0, operations: 0, ..recipe(W::Null) }, 1).is_ok());
    assert_eq!(prepare(&recipe(W::File), 1).unwrap_err().kind(), pocketstone_core::ErrorKind::Bug);
}

#[test]
fn a_file_is_told_by_its_start() {
    let made = prepare(&recipe(W::PocketdataC), 1).unwrap();
    let json = crate::database::to_published(&made).unwrap();
    assert_eq!(from_file(&made.encode(), "x", None, 1).unwrap(), made);
    assert_eq!(from_file(json.as_bytes(), "x", None, 1).unwrap().operations(), 1000);
    let paced = from_file(&made.encode(), "x", Some(Delay::Fixed { ns: 3 }), 1).unwrap();
    assert!(paced.measured()[1..].iter().all(|s| s.pause_ns == 3));
    let error = from_file(b"hello", "my.json", None, 1).unwrap_err();
    assert!(error.chain().starts_with("my.json is not a workload: "), "{}", error.chain());
}
