//! The tables and views of results, and how those of earlier versions are brought up to date: nothing measured is
//! lost when tables or factors are added.

use crate::factor::FACTORS;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rusqlite::Connection;
use std::path::Path;

/// 4: what models give of a run's cells is kept beside them, in tables of its own. 5: the model of read-ahead, too.
const VERSION: u32 = 5;
/// The earliest version that the missing tables can be added to.
const EARLIEST: u32 = 3;

const TABLES: &str = include_str!("../schema.sql");
const MODELS: &str = include_str!("../schema_models.sql");
const READ_AHEAD: &str = include_str!("../schema_read_ahead.sql");

/// Everything that new results need.
pub(super) fn whole() -> String {
    format!("BEGIN; {TABLES} {MODELS} {READ_AHEAD} {} COMMIT;", views())
}

/// Gives results of an earlier version the tables that they lack, and every factor its column. Where they are only
/// read, that is for this connection alone.
pub(super) fn bring_up_to_date(db: &Connection, path: &Path, write: bool) -> Result<()> {
    let version: u32 = db
        .query_row("PRAGMA user_version", [], |r| r.get(0))
        .user(|| format!("{} is not a results file", path.display()))?;
    if !(EARLIEST..=VERSION).contains(&version) {
        return Err(Error::user(format!(
            "{} has version {version}, this pocketstone knows {EARLIEST} to {VERSION}",
            path.display()
        ))
        .hint("read it with the pocketstone that wrote it: SELECT value FROM run WHERE name = 'git.revision'"));
    }
    let failed = || format!("cannot bring {} up to date", path.display());
    let (wanted, kept) = (views(), kept_views(db).user(failed)?);
    let all_kept = kept.len() == wanted.matches("CREATE VIEW").count();
    let mut steps = String::new();
    for (added, tables) in [(4, MODELS), (5, READ_AHEAD)] {
        if version < added {
            steps += tables;
        }
    }
    if version < VERSION || !(all_kept && kept.iter().all(|(_, sql)| wanted.contains(sql))) {
        let drop = |(name, _): &(String, String)| format!("DROP VIEW {name};");
        steps.extend(kept.iter().filter(|_| write).map(drop));
        steps += &wanted;
    }
    if !write {
        steps = steps.replace("PRAGMA user_version", "PRAGMA temp.user_version");
        steps = steps.replace("CREATE TABLE ", "CREATE TEMP TABLE ").replace("CREATE VIEW ", "CREATE TEMP VIEW ");
        steps = steps.replace("CREATE INDEX ", "CREATE INDEX temp.");
    }
    if steps.is_empty() { Ok(()) } else { db.execute_batch(&format!("BEGIN; {steps} COMMIT;")).user(failed) }
}

/// The views that results have: names and definitions.
fn kept_views(db: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut query = db.prepare("SELECT name, sql FROM main.sqlite_schema WHERE type = 'view'")?;
    query.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
}

fn views() -> String {
    let columns: String = FACTORS.iter().map(|f| format!("point ->> '$.{0}' AS {0}, ", f.name)).collect();
    let measured = format!(
        "CREATE VIEW summary AS SELECT experiment, {columns} metric, n, median, mean, low, high FROM statistic;
         CREATE VIEW improvement AS SELECT experiment, {columns} metric, n, median, mean, low, high FROM comparison;
         CREATE VIEW cells AS
             SELECT id, experiment, {columns} repetition, seed, traced, status, digest, host_ms FROM cell;
         CREATE VIEW task_operations AS SELECT flash_op.task, flash_op.kind, count(*) AS operations FROM flash_op
             GROUP BY flash_op.task, flash_op.kind;"
    );
    let read_ahead = format!(
        "CREATE VIEW read_ahead_models AS
             SELECT m.name AS model, m.cell, c.experiment, {} c.repetition, c.seed, m.rules, m.page_reads,
                    m.prefetched_pages, m.page_senses, m.total_ns, m.page_saving, m.time_saving
             FROM read_ahead_model m JOIN cell c ON c.id = m.cell;",
        columns.replace("point ->>", "c.point ->>")
    );
    measured + &crate::replay::store::views() + &read_ahead
}

#[cfg(test)]
mod tests {
    use crate::store::{FILE, Store};
    use rusqlite::Connection;
    use std::path::Path;

    const VIEWS: [&str; 8] = [
        "summary",
        "improvement",
        "cells",
        "task_operations",
        "replays",
        "replay_summary",
        "replay_residency",
        "read_ahead_models",
    ];
    const MODELS: [&str; 5] = ["replay_metric", "replay_front", "replay_statistic", "validation", "replay"];

    /// Results with a view that lacks most factors; those before version 4 have no tables of models, and
    /// those before 5 none of read-ahead.
    fn old(folder: &Path, version: u32) {
        Store::create(folder).unwrap().set_facts([("study.name", "s")]).unwrap();
        let db = Connection::open(folder.join(FILE)).unwrap();
        let drop = |what: &str, name: &&str| db.execute_batch(&format!("DROP {what} {name}")).unwrap();
        VIEWS.iter().for_each(|view| drop("VIEW", view));
        MODELS.iter().filter(|_| version < 4).for_each(|table| drop("TABLE", table));
        ["read_ahead_model"].iter().filter(|_| version < 5).for_each(|table| drop("TABLE", table));
        db.execute_batch(&format!(
            "INSERT INTO statistic VALUES ('e', '{{\"workload\": \"read\"}}', 'total_ns', 1, 5, 5, 5, 5);
             CREATE VIEW summary AS SELECT experiment, point ->> '$.workload' AS workload FROM statistic;
             PRAGMA user_version = {version}"
        ))
        .unwrap();
    }

    fn rows(store: &Store) -> Vec<(String, Option<String>, f64)> {
        let replays = store.rows("SELECT cell FROM replays", [], |r| r.get::<_, i64>(0)).unwrap();
        assert!(replays.is_empty());
        let models = store.rows("SELECT cell FROM read_ahead_models", [], |r| r.get::<_, i64>(0)).unwrap();
        assert!(models.is_empty());
        let sql = "SELECT workload, governor, median FROM summary WHERE metric = 'total_ns'";
        store.rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).unwrap()
    }

    #[test]
    fn results_of_an_earlier_version_are_read_as_they_are_and_written_with_what_they_lacked() {
        for version in [3, 4, 5] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(FILE);
            old(folder.path(), version);
            let expected = vec![("read".to_owned(), None, 5.0)];
            let before = std::fs::read(&file).unwrap();
            assert_eq!(rows(&Store::open(folder.path(), false).unwrap()), expected);
            assert!(std::fs::read(&file).unwrap() == before);
            let store = Store::open(folder.path(), true).unwrap();
            assert_eq!((rows(&store), store.fact("study.name").unwrap().as_deref()), (expected.clone(), Some("s")));
            drop(store);
            let db = Connection::open(&file).unwrap();
            assert!(db.prepare("SELECT * FROM summary").unwrap().column_count() > 20);
            assert_eq!(db.query_row("PRAGMA user_version", [], |r| r.get::<_, u32>(0)).unwrap(), 5);
            // What is up to date is not touched.
            let before = std::fs::read(&file).unwrap();
            assert_eq!(rows(&Store::open(folder.path(), true).unwrap()), expected);
            assert!(std::fs::read(&file).unwrap() == before);
        }
    }

    #[test]
    fn unknown_versions_are_refused_with_where_their_revision_is() {
        for version in [2, 6] {
            let folder = tempfile::tempdir().unwrap();
            old(folder.path(), version);
            let error = Store::open(folder.path(), false).err().unwrap();
            assert!(error.chain().contains(&format!("version {version}")) && error.cure().is_some());
        }
    }
}
