//! Databases on the host board: engines that agree, engines that do not, and files that are no workloads.

use pocketstone_tests::command::{lab, write};
use pocketstone_tests::results;
use rusqlite::Connection;
use std::fs;

fn number(db: &Connection, sql: &str) -> Option<f64> {
    db.query_row(sql, [], |r| r.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn study(factors: &str) -> String {
    format!(
        "title = 't'\nboard = 'host'\n[[experiment]]\nname = 'e'\n[experiment.factors]\nfile_system = 'directory'\n\
         {factors}\n"
    )
}

/// Engines of a run, each with the digest of what it returned.
fn digests(db: &Connection, workload: &str) -> Vec<(String, String)> {
    let sql = "SELECT DISTINCT point ->> '$.engine', outcome ->> '$.database.digest' FROM cell
               WHERE status = 'done' AND point ->> '$.workload' = ?1 ORDER BY 1";
    let mut query = db.prepare(sql).unwrap();
    let rows = query.query_map([workload], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn all_engines_return_the_same_and_what_is_missing_is_named() {
    let home = tempfile::tempdir().unwrap();
    let workloads = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "pocketdata-a", "pocketdata-e"];
    let list: Vec<String> = workloads.iter().map(|w| format!("'{w}'")).collect();
    let engines = ["sqlite", "bdb", "h2", "lmdb", "redb"];
    let factors = format!(
        "workload = [{}]\nengine = ['sqlite', 'bdb', 'h2', 'lmdb', 'redb']\nrecords = 60\noperations = 80",
        list.join(", ")
    );
    write(home.path(), "engines.toml", &study(&factors).replace("name = 'e'\n", "name = 'e'\ntraced = 'none'\n"));
    let ran = lab(home.path(), &["run", "engines.toml", "--output", "out"]).ends_with(0);
    let db = results::read(&home.path().join("out"));
    let there: Vec<&str> =
        engines.into_iter().filter(|e| !ran.out.contains(&format!("left out: cells with {e}"))).collect();
    for workload in workloads {
        let found = digests(&db, workload);
        let mut expected = there.clone();
        expected.sort_unstable();
        assert_eq!(found.iter().map(|(e, _)| e.as_str()).collect::<Vec<_>>(), expected, "{workload} in {ran}");
        assert!(found.windows(2).all(|w| w[0].1 == w[1].1), "{workload}: {found:?}");
    }
    for metric in ["total_ns", "response_p99_ns", "on_core_ns", "startup_ns", "run_ns"] {
        let sql = format!("SELECT count(*) FROM summary WHERE metric = '{metric}' AND median > 0");
        assert_eq!(number(&db, &sql), Some((workloads.len() * there.len()) as f64), "{metric}");
    }
}

#[test]
fn your_own_database_and_statements_become_a_study() {
    let home = tempfile::tempdir().unwrap();
    let app = Connection::open(home.path().join("app.db")).unwrap();
    app.execute_batch("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO note VALUES (1, 'a')")
        .unwrap();
    drop(app);
    write(
        home.path(),
        "log.sql",
        "0.000\tSELECT * FROM note\n0.020\tINSERT INTO note VALUES (2, 'it''s; so')\n\
         0.050\tSELECT count(*) FROM note\n",
    );
    lab(home.path(), &["import", "--db", "app.db", "--queries", "log.sql", "--study", "own.toml"])
        .ends_with(0)
        .says(&["3 operations"]);
    lab(home.path(), &["run", "own.toml", "--output", "out"]).ends_with(0);
    let db = results::read(&home.path().join("out"));
    // The third statement came 50 ms after the first.
    let sql = "SELECT min(median) FROM summary WHERE metric = 'run_ns' AND delay = 'own'";
    assert!(number(&db, sql).unwrap() >= 5e7);
    let sql = "SELECT count(*) FROM cell WHERE status = 'done' AND outcome ->> '$.database.rows' = 2";
    assert!(number(&db, sql).unwrap() >= 12.0, "a row, and the count of rows, from each cell");
    let report = fs::read_to_string(home.path().join("out/report.html")).unwrap();
    assert!(report.contains("it&#39;s; so") || report.contains("it''s; so") || report.contains("it&#x27;&#x27;s; so"));
}

#[test]
fn what_is_wrong_with_a_workload_is_said_with_its_place() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "bad.sql", "SELECT 1\nSELEKT 2\n");
    lab(home.path(), &["import", "--queries", "bad.sql"]).ends_with(1).complains(&["bad.sql", "SELEKT"]);
    write(home.path(), "late.sql", "5.0 SELECT 1\n4.0 SELECT 2\n");
    lab(home.path(), &["import", "--queries", "late.sql"]).ends_with(1).complains(&["late.sql", "line 2"]);
    write(home.path(), "bad.json", "{\"init\": [], \"benchmark\": [{\"op\": \"sleep\"}]}");
    lab(home.path(), &["workload", "show", "bad.json"]).ends_with(1).complains(&["bad.json", "sleep"]);
    write(home.path(), "cut.trace", "PKTTRACE");
    lab(home.path(), &["workload", "show", "cut.trace"]).ends_with(1).complains(&["cut.trace"]);
    let wrong = |factors: &str, words: &[&str]| {
        write(home.path(), "wrong.toml", &study(factors));
        lab(home.path(), &["run", "wrong.toml", "--dry-run"]).ends_with(1).complains(words);
    };
    wrong("workload = 'prepared'\nworkload_file = 'none.trace'", &["none.trace", "study's folder"]);
    wrong("workload = 'ycsb-a'\njournal_mode = 'journal'", &["wrong.toml:8", "delete, truncate"]);
    wrong("workload = 'ycsb-a'\nrequests = 5", &["requests", "remove"]);
    wrong("workload = 'ycsb-a'\ndelay = 'soon'", &["soon", "lognormal"]);
}

#[test]
fn what_an_engine_cannot_run_is_left_out_and_the_others_go_on() {
    let home = tempfile::tempdir().unwrap();
    // LMDB has no SQL, SQLite has.
    write(home.path(), "text.sql", "CREATE TABLE t (a INTEGER)\nINSERT INTO t VALUES (1)\nSELECT sum(a) FROM t\n");
    lab(home.path(), &["import", "--queries", "text.sql"]).ends_with(0);
    let factors =
        "workload = 'prepared'\nworkload_file = 'text.trace'\nsql = 'text'\nengine = ['lmdb', 'sqlite']\ndelay = 'own'";
    write(home.path(), "failing.toml", &study(factors));
    lab(home.path(), &["run", "failing.toml", "--output", "out"]).ends_with(0).says(&["left out", "lmdb", "SQL"]);
    let db = results::read(&home.path().join("out"));
    let count = |sql: &str| number(&db, sql).unwrap();
    assert_eq!(count("SELECT count(*) FROM cells WHERE engine = 'sqlite' AND status = 'done'"), 2.0);
    assert_eq!(count("SELECT count(*) FROM cells WHERE engine = 'lmdb'"), 0.0);
    assert_eq!(count("SELECT count(*) FROM summary WHERE engine = 'lmdb'"), 0.0);
}
