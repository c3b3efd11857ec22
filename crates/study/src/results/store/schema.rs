//! The tables and views of results, and how those of earlier versions are brought up to date: nothing measured is
//! lost when tables or factors are added.

use crate::results::{replay_statistics, statistics};
use crate::specification::factor::FACTORS;
use crate::specification::metric::{self, Metric};
use crate::specification::study::Study;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

/// 4: what models give of a run's cells is kept beside them, in tables of its own. 5: the model of read-ahead, too.
/// 6: intervals of medians by order statistics, and the definitions of the metrics. 7: the text of statements.
/// 8: requests to block devices.
const VERSION: u32 = 8;
/// The version from which on statistics are as they are today.
const STATISTICS_SINCE: u32 = 6;
/// The earliest version that the missing tables can be added to.
const EARLIEST: u32 = 3;

const TABLES: &str = include_str!("../schema.sql");
/// What later versions added, each with the version that did.
const ADDED: [(u32, &str); 5] = [
    (4, include_str!("../schema_models.sql")),
    (5, include_str!("../schema_read_ahead.sql")),
    (STATISTICS_SINCE, include_str!("../schema_statistics.sql")),
    (7, include_str!("../schema_statements.sql")),
    (8, include_str!("../schema_block.sql")),
];

/// The tables that hold statistics: results of an earlier version that are only read have theirs beside them.
#[derive(Debug, Clone, Copy)]
pub(in crate::results) struct Names {
    pub statistic: &'static str,
    pub comparison: &'static str,
    replay_statistic: &'static str,
}

/// Those of results that are up to date.
pub(in crate::results) const KEPT: Names =
    Names { statistic: "main.statistic", comparison: "main.comparison", replay_statistic: "main.replay_statistic" };

/// Those that stand beside results of an earlier version, for one connection.
const BESIDE: Names = Names {
    statistic: "temp.statistic_beside",
    comparison: "temp.comparison_beside",
    replay_statistic: "temp.replay_statistic",
};

/// Everything that new results need.
pub(super) fn whole() -> String {
    format!("BEGIN; {TABLES} {} {} {} COMMIT;", added_since(EARLIEST), definitions(), views())
}

/// The tables that results of a version lack.
fn added_since(version: u32) -> String {
    ADDED.iter().filter(|(added, _)| version < *added).map(|(_, tables)| *tables).collect()
}

/// The rows of `metric_definition`.
fn definitions() -> String {
    let row = |m: &Metric| {
        let texts = [m.name, m.unit.name(), m.better.name(), m.source.name(), m.origin().name(), m.label];
        format!("({})", texts.map(|text| format!("'{}'", text.replace('\'', "''"))).join(", "))
    };
    format!("INSERT INTO metric_definition VALUES {};", metric::all().map(row).collect::<Vec<_>>().join(", "))
}

/// Brings the definitions of the metrics up to date.
pub(super) fn define(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(&format!("DELETE FROM main.metric_definition; {}", definitions()))
}

/// Gives results of an earlier version the tables that they lack, every factor its column, and statistics by today's
/// definition, with the study of the results where there is one that can be read. Where they are only read, that is for
/// this connection alone. Returns where the statistics are.
pub(super) fn bring_up_to_date(db: &Connection, path: &Path, write: bool) -> Result<Names> {
    let version = version(db, path)?;
    let failed = || format!("cannot upgrade {}", path.display());
    let names = if write || version >= STATISTICS_SINCE { KEPT } else { BESIDE };
    let steps = steps(version, &kept_views(db).user(failed)?, write);
    if !steps.is_empty() {
        upgrade(db, &steps, version, names).user(failed)?;
    }
    if write {
        allow_lost(db).user(failed)?;
        allow_logs(db).user(failed)?;
    }
    Ok(names)
}

/// The version of results, if it is one that can be read.
fn version(db: &Connection, path: &Path) -> Result<u32> {
    let version: u32 = db
        .query_row("PRAGMA user_version", [], |r| r.get(0))
        .user(|| format!("{} is not a results file", path.display()))?;
    if (EARLIEST..=VERSION).contains(&version) {
        return Ok(version);
    }
    Err(Error::user(format!(
        "{} has version {version}; this pocketstone supports {EARLIEST} to {VERSION}",
        path.display()
    ))
    .hint("read it with the pocketstone that wrote it: SELECT value FROM run WHERE name = 'git.revision'"))
}

/// What makes results of a version, which have those views, ones of today; where they are only read, in tables that
/// stand beside them.
fn steps(version: u32, kept: &[(String, String)], write: bool) -> String {
    let wanted = views();
    let all_kept = kept.len() == wanted.matches("CREATE VIEW").count();
    let is_kept = version == VERSION && all_kept && kept.iter().all(|(_, sql)| wanted.contains(sql));
    let drops = write && !is_kept && !kept.is_empty();
    let lacks_statistics = version < STATISTICS_SINCE;
    let mut steps = String::new();
    if drops {
        steps.extend(kept.iter().map(|(name, _)| format!("DROP VIEW {name};")));
    }
    if lacks_statistics && write {
        let old = ["statistic", "comparison", "replay_statistic"];
        steps.extend(old.map(|table| format!("DROP TABLE IF EXISTS {table};")));
    }
    steps += &added_since(version);
    if lacks_statistics {
        steps += &definitions();
    }
    if drops || (write && kept.is_empty()) {
        steps += &wanted;
    }
    if write { steps } else { beside(&steps) }
}

/// The same steps for tables that one connection has.
fn beside(steps: &str) -> String {
    let mut steps = steps.replace("PRAGMA user_version", "PRAGMA temp.user_version");
    steps = steps.replace("CREATE TABLE ", "CREATE TEMP TABLE ").replace("CREATE INDEX ", "CREATE INDEX temp.");
    for table in ["statistic", "comparison"] {
        steps = steps.replace(&format!("TABLE {table} "), &format!("TABLE {table}_beside "));
    }
    steps
}

/// All steps, or none: whoever is killed here leaves no tables without the statistics that belong into them.
fn upgrade(db: &Connection, steps: &str, version: u32, names: Names) -> rusqlite::Result<()> {
    let together = db.unchecked_transaction()?;
    together.execute_batch(steps)?;
    if version < STATISTICS_SINCE {
        let study = study(&together)?;
        statistics::compute(&together, study.as_ref(), names.statistic, names.comparison)?;
        replay_statistics::compute(&together, names.replay_statistic)?;
    }
    together.commit()
}

/// Lets results have lost cells, which those of earlier versions forbid: as sqlite.org/lang_altertable.html has it for
/// constraints that are loosened, in the text of the table's definition.
fn allow_lost(db: &Connection) -> rusqlite::Result<()> {
    const OLD: &str = "CHECK (status IN ('done', 'failed'))";
    const NEW: &str = "CHECK (status IN ('done', 'failed', 'lost'))";
    loosen(db, "cell", OLD, NEW)
}

/// Replaces a constraint in the text of a table's definition, where it is there.
fn loosen(db: &Connection, table: &str, old: &str, new: &str) -> rusqlite::Result<()> {
    let has = "SELECT count(*) FROM main.sqlite_schema WHERE name = ?1 AND instr(sql, ?2)";
    if db.query_row(has, [table, old], |r| r.get::<_, u32>(0))? == 0 {
        return Ok(());
    }
    let version: u32 = db.query_row("PRAGMA main.schema_version", [], |r| r.get(0))?;
    let (old, new) = (old.replace('\'', "''"), new.replace('\'', "''"));
    db.execute_batch(&format!(
        "BEGIN; PRAGMA writable_schema = ON;
         UPDATE main.sqlite_schema SET sql = replace(sql, '{old}', '{new}') WHERE name = '{table}';
         PRAGMA main.schema_version = {}; PRAGMA writable_schema = OFF; COMMIT;",
        version + 1
    ))
}

/// Lets replays be of phones' logs, which those of earlier versions forbid.
fn allow_logs(db: &Connection) -> rusqlite::Result<()> {
    let has = "SELECT count(*) FROM pragma_table_info('replay') WHERE name = 'recorded'";
    if db.query_row(has, [], |r| r.get::<_, u32>(0))? == 0 {
        db.execute_batch("ALTER TABLE main.replay ADD COLUMN recorded TEXT")?;
    }
    loosen(db, "replay", "cell INTEGER NOT NULL REFERENCES", "cell INTEGER REFERENCES")
}

/// The study that results have.
fn study(db: &Connection) -> rusqlite::Result<Option<Study>> {
    let fact = |name: &str| -> rusqlite::Result<Option<String>> {
        db.query_row("SELECT value FROM run WHERE name = ?1", [name], |r| r.get(0)).optional()
    };
    let name = fact("study.name")?.unwrap_or_default();
    Ok(fact("study")?.and_then(|text| Study::parse(&format!("{name}.toml"), &text).ok()))
}

/// The views that results have: names and definitions.
fn kept_views(db: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut query = db.prepare("SELECT name, sql FROM main.sqlite_schema WHERE type = 'view'")?;
    query.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
}

/// The views, as results have them.
pub(super) fn views() -> String {
    let columns: String = FACTORS.iter().map(|f| format!("point ->> '$.{0}' AS {0}, ", f.name)).collect();
    let origin = "(SELECT d.origin FROM metric_definition d WHERE d.name = metric) AS origin";
    let measured = format!(
        "CREATE VIEW summary AS SELECT experiment, {columns} metric, n, median, mean, low, high, coverage, {origin}
             FROM statistic;
         CREATE VIEW improvement AS SELECT experiment, {columns} metric, n, median, mean, low, high, coverage, {origin}
             FROM comparison;
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
    // The digest of a prepared workload is in the plans of its cells.
    let statements = "CREATE VIEW operation_sql AS SELECT k.cell, k.number, s.sql FROM call k
             JOIN cell c ON c.id = k.cell
             JOIN statement s ON s.workload = c.plan ->> '$.workload.trace' AND s.number = k.number;";
    // The outcome of a cell has them.
    let cuts = format!(
        "CREATE VIEW power_cut AS
             SELECT c.id AS cell, c.experiment, {} c.repetition, c.seed, j.value ->> '$.change' AS change,
                    j.value ->> '$.kind' AS kind, j.value ->> '$.left' AS left_of_it,
                    j.value ->> '$.returned' AS returned, j.value ->> '$.promised' AS promised,
                    j.value ->> '$.found.refused.message' AS refused,
                    j.value ->> '$.found.unwritable.message' AS unwritable, j.value ->> '$.found.mount_ns' AS mount_ns,
                    j.value ->> '$.verdict.lost_promises' AS lost_promises,
                    j.value ->> '$.verdict.lost_unpromised' AS lost_unpromised,
                    j.value ->> '$.verdict.mixed' AS mixed, j.value ->> '$.verdict.damaged' AS damaged,
                    j.value ->> '$.verdict.first' AS first_loss
             FROM cell c, json_each(c.outcome, '$.cuts') j;",
        columns.replace("point ->>", "c.point ->>")
    );
    measured + &super::replay_views::views() + &read_ahead + statements + &cuts
}

#[cfg(test)]
mod tests {
    use super::{EARLIEST, VERSION};
    use crate::results::store::{FILE, Store};
    use rusqlite::Connection;
    use std::path::Path;

    const VIEWS: [&str; 10] = [
        "summary",
        "improvement",
        "cells",
        "task_operations",
        "replays",
        "replay_summary",
        "replay_residency",
        "read_ahead_models",
        "operation_sql",
        "power_cut",
    ];
    const MODELS: [&str; 4] = ["replay_metric", "replay_front", "validation", "replay"];
    const STUDY: &str = r#"
        title = "t"
        board = "virt-nand"
        repetitions = 5
        [[experiment]]
        name = "e"
        [experiment.factors]
        file_system = "jffs2"
        file_bytes = "1MiB"
        requests = 16
        read_ahead_bytes = ["128KiB", 0]
        [experiment.compare]
        factor = "read_ahead_bytes"
        baseline = "128KiB"
        candidate = 0
    "#;

    fn point(read_ahead_bytes: u32) -> String {
        format!(r#"{{"read_ahead_bytes":{read_ahead_bytes},"workload":"read"}}"#)
    }

    /// Results of five seeds as earlier versions wrote them, with ends by the bootstrap, and with a view that lacks
    /// most factors; those before version 4 have no tables of models, and those before 5 none of read-ahead.
    fn old(folder: &Path, version: u32) {
        Store::create(folder, [("study.name", "s"), ("study", STUDY)]).unwrap();
        let db = Connection::open(folder.join(FILE)).unwrap();
        let drop = |what: &str, name: &&str| db.execute_batch(&format!("DROP {what} {name}")).unwrap();
        VIEWS.iter().for_each(|view| drop("VIEW", view));
        ["statistic", "comparison", "replay_statistic", "metric_definition"].iter().for_each(|t| drop("TABLE", t));
        MODELS.iter().filter(|_| version < 4).for_each(|table| drop("TABLE", table));
        ["read_ahead_model"].iter().filter(|_| version < 5).for_each(|table| drop("TABLE", table));
        ["statement", "block_request"].iter().for_each(|table| drop("TABLE", table));
        let columns = "median REAL NOT NULL, mean REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL";
        let of_point = "experiment TEXT, point TEXT, metric TEXT, n INTEGER NOT NULL";
        db.execute_batch(&format!(
            "CREATE TABLE statistic ({of_point}, {columns}); CREATE TABLE comparison ({of_point}, {columns});
             INSERT INTO statistic VALUES ('e', '{}', 'total_ns', 5, 3, 22, 2, 4);
             CREATE VIEW summary AS SELECT experiment, point ->> '$.workload' AS workload FROM statistic;
             PRAGMA user_version = {version}",
            point(0)
        ))
        .unwrap();
        if version >= 4 {
            db.execute_batch(&format!("CREATE TABLE replay_statistic (name TEXT, {of_point}, {columns})")).unwrap();
        }
        for (seed, value) in [1.0, 2.0, 3.0, 4.0, 100.0].into_iter().enumerate() {
            for (read_ahead_bytes, value) in [(0, value), (131_072, 10.0 * value)] {
                let sql =
                    "INSERT INTO cell VALUES (NULL, 'e', ?1, ?2, ?2, 0, 'done', '{}', NULL, NULL, 1, NULL, NULL, NULL)";
                db.execute(sql, (point(read_ahead_bytes), seed as i64)).unwrap();
                let cell = db.last_insert_rowid();
                db.execute("INSERT INTO metric VALUES (?1, 'total_ns', ?2)", (cell, value)).unwrap();
            }
        }
    }

    type Row = (Option<String>, Option<i64>, f64, f64, f64, f64);

    /// The summary of the candidate's points, and of what it improves.
    fn rows(store: &Store) -> Vec<Row> {
        let replays = store.rows("SELECT cell FROM replays", [], |r| r.get::<_, i64>(0)).unwrap();
        assert!(replays.is_empty());
        let models = store.rows("SELECT cell FROM read_ahead_models", [], |r| r.get::<_, i64>(0)).unwrap();
        assert!(models.is_empty());
        let sql = "SELECT governor, read_ahead_bytes, median, low, high, coverage FROM summary
            WHERE metric = 'total_ns' AND read_ahead_bytes = 0 AND workload = 'read'
            UNION ALL SELECT governor, read_ahead_bytes, median, low, high, coverage FROM improvement";
        store.rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?, r.get(5)?))).unwrap()
    }

    #[test]
    fn results_of_an_earlier_version_are_read_as_they_are_and_written_with_what_they_lacked() {
        for version in [3, 4, 5] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(FILE);
            old(folder.path(), version);
            // All of five values are within the ends of their interval: 1 - 2 / 2^5.
            let expected: Vec<Row> =
                vec![(None, Some(0), 3.0, 1.0, 100.0, 0.9375), (None, None, 0.9, 0.9, 0.9, 0.9375)];
            let before = std::fs::read(&file).unwrap();
            assert_eq!(rows(&Store::open(folder.path(), false).unwrap()), expected);
            assert!(std::fs::read(&file).unwrap() == before);
            let store = Store::open(folder.path(), true).unwrap();
            assert_eq!((rows(&store), store.fact("study.name").unwrap().as_deref()), (expected.clone(), Some("s")));
            drop(store);
            let db = Connection::open(&file).unwrap();
            assert!(db.prepare("SELECT * FROM summary").unwrap().column_count() > 20);
            assert_eq!(db.query_row("PRAGMA user_version", [], |r| r.get::<_, u32>(0)).unwrap(), VERSION);
            assert!(db.prepare("SELECT * FROM block_request").is_ok());
            // What is up to date is not touched.
            let before = std::fs::read(&file).unwrap();
            assert_eq!(rows(&Store::open(folder.path(), true).unwrap()), expected);
            assert!(std::fs::read(&file).unwrap() == before);
        }
    }

    #[test]
    fn an_upgrade_that_fails_leaves_the_earlier_version() {
        let folder = tempfile::tempdir().unwrap();
        old(folder.path(), 5);
        let db = Connection::open(folder.path().join(FILE)).unwrap();
        let version = || db.query_row("PRAGMA user_version", [], |r| r.get::<_, u32>(0)).unwrap();
        // The last step, the statistics, cannot be had.
        db.execute_batch("ALTER TABLE metric RENAME TO gone").unwrap();
        assert!(Store::open(folder.path(), true).is_err());
        assert_eq!(version(), 5);
        db.execute_batch("ALTER TABLE gone RENAME TO metric").unwrap();
        assert_eq!(rows(&Store::open(folder.path(), true).unwrap())[0].2, 3.0);
        assert_eq!(version(), VERSION);
    }

    #[test]
    fn results_that_forbid_lost_cells_allow_them_once_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        old(folder.path(), 6);
        let db = Connection::open(folder.path().join(FILE)).unwrap();
        let set = |sql: &str| {
            let sql = format!("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET {sql} WHERE name = 'cell'");
            db.execute_batch(&format!("{sql}; PRAGMA writable_schema = RESET")).unwrap();
        };
        set("sql = replace(sql, ', ''lost''', '')");
        let lose = |db: &Connection| db.execute("UPDATE cell SET status = 'lost' WHERE seed = 0", []);
        assert!(lose(&db).is_err());
        drop(Store::open(folder.path(), true).unwrap());
        let db = Connection::open(folder.path().join(FILE)).unwrap();
        assert_eq!(lose(&db).unwrap(), 2);
        assert!(db.execute("UPDATE cell SET status = 'other'", []).is_err());
        let whole: String = db.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!(whole, "ok");
    }

    #[test]
    fn results_whose_replays_are_of_cells_alone_take_logs_once_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        drop(Store::create(folder.path(), [("study.name", "s")]).unwrap());
        let db = Connection::open(folder.path().join(FILE)).unwrap();
        db.execute_batch(
            "DROP VIEW replays; ALTER TABLE replay DROP COLUMN recorded; PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, 'cell INTEGER REF', 'cell INTEGER NOT NULL REF')
             WHERE name = 'replay'; PRAGMA writable_schema = RESET",
        )
        .unwrap();
        let put = |db: &Connection, recorded: &str| {
            db.execute_batch(&format!(
                "INSERT INTO replay (name, device, governor, cluster, delay, cores, waiting, batch, storage,
                 memory_share, power_scale, cycles_scale, seed, source, profile, input, digest {recorded}"
            ))
        };
        let values = "'n', 'd', 'g', 'c', 'd', 1, 'w', 1, 's', 0, 1, 1, 1, 'log', 'p', 'i', 'd'";
        assert!(put(&db, &format!(") VALUES ({values})")).is_err());
        drop(db);
        drop(Store::open(folder.path(), true).unwrap());
        let db = Connection::open(folder.path().join(FILE)).unwrap();
        put(&db, &format!(", recorded) VALUES ({values}, '{{\"workload\":\"A\",\"log\":\"x.log\"}}')")).unwrap();
        let row: (Option<i64>, String, String) = db
            .query_row("SELECT cell, log, workload FROM replays", [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))
            .unwrap();
        assert_eq!(row, (None, "x.log".into(), "A".into()));
        let whole: String = db.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!(whole, "ok");
    }

    #[test]
    fn a_run_killed_while_its_results_were_made_leaves_the_folder_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(super::super::BEGUN);
        std::fs::write(&left, "half of a file").unwrap();
        std::fs::write(folder.path().join("in-use"), "process 1: long gone\n").unwrap();
        let error = Store::open(folder.path(), true).err().unwrap();
        assert!(error.message().contains("holds no results"), "{}", error.message());
        Store::create(folder.path(), [("study.name", "s")]).unwrap();
        assert!(!left.exists());
        assert_eq!(Store::open(folder.path(), true).unwrap().fact("study.name").unwrap().as_deref(), Some("s"));
    }

    #[test]
    fn unknown_versions_are_refused_with_where_their_revision_is() {
        for version in [EARLIEST - 1, VERSION + 1] {
            let folder = tempfile::tempdir().unwrap();
            old(folder.path(), version);
            let error = Store::open(folder.path(), false).err().unwrap();
            assert!(error.chain().contains(&format!("version {version}")) && error.cure().is_some());
        }
    }
}
