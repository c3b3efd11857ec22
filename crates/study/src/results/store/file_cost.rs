//! What each file cost in a traced cell.

use pocketstone_probe::analysis::FileCost;
use rusqlite::{Connection, params};

/// In results of an earlier version the column of misses holds no NULL.
const INSERT: &str = r#"INSERT INTO file_cost VALUES (?,?,?, ?,?,?,?,?,?,?,?,
    coalesce(?, (SELECT 0 FROM pragma_table_info('file_cost') WHERE name = 'cache_misses' AND "notnull")))"#;

/// Puts a file's costs into the results. `misses` says whether misses of the page cache could be recorded: none that
/// was seen is not none that there was.
pub(super) fn put(db: &Connection, cell: i64, f: &FileCost, misses: bool) -> rusqlite::Result<()> {
    let role = f.role.and_then(|r| serde_json::to_value(r).ok()).and_then(|v| v.as_str().map(str::to_owned));
    let [reads, read_bytes, read_ns] = [f.reads, f.read_bytes, f.read_ns].map(|n| n as i64);
    let [writes, written_bytes, write_ns] = [f.writes, f.written_bytes, f.write_ns].map(|n| n as i64);
    let [syncs, sync_ns] = [f.syncs, f.sync_ns].map(|n| n as i64);
    let misses = misses.then_some(f.cache_misses as i64);
    db.prepare_cached(INSERT)?
        .execute(params![
            cell,
            f.file,
            role,
            reads,
            read_bytes,
            read_ns,
            writes,
            written_bytes,
            write_ns,
            syncs,
            sync_ns,
            misses
        ])
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_that_could_not_be_recorded_are_not_none() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(include_str!("../schema.sql")).unwrap();
        db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        let file = FileCost { reads: 419, ..FileCost::default() };
        put(&db, 1, &file, false).unwrap();
        put(&db, 2, &file, true).unwrap();
        let share = |cell: i64| -> Option<f64> {
            let sql = "SELECT sum(cache_misses) * 1.0 / sum(reads) FROM file_cost WHERE cell = ?1";
            db.query_row(sql, [cell], |r| r.get(0)).unwrap()
        };
        assert_eq!((share(1), share(2)), (None, Some(0.0)));
        // Results that were begun by an earlier version can still be gone on with.
        db.execute_batch("DROP TABLE file_cost").unwrap();
        let columns = "cell, file, role, a, b, c, d, e, f, g, h, cache_misses INTEGER NOT NULL";
        db.execute_batch(&format!("CREATE TABLE file_cost ({columns})")).unwrap();
        put(&db, 1, &file, false).unwrap();
    }
}
