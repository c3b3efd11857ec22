//! The example queries of docs/results.md, on results of a run.

use pocketstone_testing::or_skip;
use pocketstone_tests::command::{board, lab, write};
use pocketstone_tests::{project, results};
use rusqlite::Connection;
use std::path::Path;

const STUDY: &str = r#"title = "t"
board = "BOARD"
repetitions = 2
[[experiment]]
name = "database"
traced = "first"
[experiment.factors]
workload = "ycsb-a"
records = 50
operations = 40
file_system = "SYSTEM"
[[experiment]]
name = "files"
traced = "first"
[experiment.factors]
workload = "files"
operation = "append"
file_bytes = 0
requests = 30
file_system = "SYSTEM"
"#;

/// The queries in their order.
fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(project().join("docs/results.md")).unwrap();
    let (_, examples) = text.split_once("\n## Example queries\n").expect("the page has example queries");
    let (examples, _) = examples.split_once("\n## ").expect("a section follows");
    examples.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// How many rows each query has.
fn rows(db: &Connection) -> Vec<usize> {
    let count = |sql: &String| -> rusqlite::Result<usize> {
        let mut statement = db.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut number = 0;
        while rows.next()?.is_some() {
            number += 1;
        }
        Ok(number)
    };
    queries().iter().map(|sql| count(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))).collect()
}

fn run_on(home: &Path, board: &str, file_system: &str) -> Connection {
    write(home, "study.toml", &STUDY.replace("BOARD", board).replace("SYSTEM", file_system));
    lab(home, &["run", "study.toml", "--output", "a"]).ends_with(0);
    results::read(&home.join("a"))
}

#[test]
fn every_example_query_answers_on_this_machine() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let db = run_on(home.path(), "host", "directory");
    let found = rows(&db);
    assert_eq!(found.len(), 10);
    // Two points; two seeds of each; ten calls of 2 x (40 + 30); two files' classes of latencies at least.
    assert_eq!((found[1], found[2], found[3]), (2, 4, 10), "{found:?}");
    assert!(found[0] > 5 && found[4] >= 2, "{found:?}");
    // There is no raw NAND here, and the run says so.
    assert_eq!((found[7], found[8]), (0, 0), "{found:?}");
    assert!(found[9] >= 1, "{found:?}");
}

#[test]
fn the_queries_of_flash_and_traces_answer_on_the_board() {
    or_skip!(board());
    let home = tempfile::tempdir().expect("a temporary folder");
    let db = run_on(home.path(), "virt-nand", "jffs2");
    let found = rows(&db);
    // 20 of the 40 operations; the database and its journal; one traced cell of each experiment.
    assert_eq!((found[5], found[7]), (20, 2), "{found:?}");
    assert!(found[6] >= 2 && found[8] >= 2, "{found:?}");
}
