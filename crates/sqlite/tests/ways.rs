//! What SQLite does on a volume is what it does on any other file system.

use crate::support::{Home, Memory, connect, integrity, text};
use rusqlite::Connection;

const MIB: u64 = 1 << 20;

/// All that is in a database.
fn dump(connection: &Connection) -> Vec<(i64, String)> {
    let mut statement = connection.prepare("SELECT id, value FROM t ORDER BY id").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Statements of every kind that changes pages; the same on both.
fn work(connection: &mut Connection) {
    connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT)").unwrap();
    connection.execute_batch("CREATE INDEX i ON t (value)").unwrap();
    for id in 0..200 {
        connection.execute("INSERT INTO t VALUES (?1, ?2)", (id, format!("value {id}").repeat(20))).unwrap();
    }
    connection.execute("UPDATE t SET value = 'changed' WHERE id % 7 = 0", []).unwrap();
    let transaction = connection.transaction().unwrap();
    transaction.execute("DELETE FROM t WHERE id < 50", []).unwrap();
    transaction.rollback().unwrap();
    let mut transaction = connection.transaction().unwrap();
    transaction.execute("DELETE FROM t WHERE id BETWEEN 100 AND 120", []).unwrap();
    let savepoint = transaction.savepoint().unwrap();
    savepoint.execute("DELETE FROM t", []).unwrap();
    savepoint.finish().unwrap_or_default();
    transaction.execute_batch("SAVEPOINT s; DELETE FROM t WHERE id > 150; ROLLBACK TO s; RELEASE s").unwrap();
    transaction.commit().unwrap();
    connection.execute_batch("DELETE FROM t WHERE id % 3 = 0; VACUUM; REINDEX; ANALYZE").unwrap();
    connection.execute("INSERT INTO t VALUES (1000, 'last')", []).unwrap();
}

#[test]
fn every_journal_mode_leaves_what_a_database_in_memory_has() {
    let mut expected = Connection::open_in_memory().unwrap();
    work(&mut expected);
    for locking in ["normal", "exclusive"] {
        for journal in ["delete", "truncate", "persist", "memory", "off", "wal"] {
            for synchronous in ["off", "normal", "full", "extra"] {
                let home = Home::new(32 * MIB);
                let mut connection = home.connect("/a.db");
                let mode = text(&connection, &format!("PRAGMA locking_mode={locking}"));
                assert_eq!(mode, locking);
                assert_eq!(text(&connection, &format!("PRAGMA journal_mode={journal}")), journal);
                connection.execute_batch(&format!("PRAGMA synchronous={synchronous}")).unwrap();
                if journal == "off" {
                    // Without a journal there is no rollback.
                    connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT)").unwrap();
                    connection.execute("INSERT INTO t VALUES (1, 'x')", []).unwrap();
                } else {
                    work(&mut connection);
                    assert_eq!(dump(&connection), dump(&expected), "{locking} {journal} {synchronous}");
                }
                assert_eq!(integrity(&connection), "ok");
                drop(connection);
                let again = home.connect("/a.db");
                assert_eq!(integrity(&again), "ok", "{locking} {journal} {synchronous}, opened again");
                if journal != "off" {
                    assert_eq!(dump(&again), dump(&expected), "{locking} {journal} {synchronous}, opened again");
                }
            }
        }
    }
}

#[test]
fn a_transaction_that_is_larger_than_a_record_is_done_with_a_journal_file() {
    let home = Home::new(64 * MIB);
    let mut connection = home.connect("/a.db");
    connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT)").unwrap();
    let other = home.connect("/a.db");
    for round in 0..4 {
        let transaction = connection.transaction().unwrap();
        for id in 0..3000 {
            transaction.execute("INSERT OR REPLACE INTO t VALUES (?1, ?2)", (id, "x".repeat(3000 + round))).unwrap();
        }
        if round == 2 {
            transaction.rollback().unwrap();
        } else {
            transaction.commit().unwrap();
        }
        let length = text(&other, "SELECT max(length(value)) FROM t");
        assert_eq!(length, [3000, 3001, 3001, 3003][round].to_string());
        assert_eq!(integrity(&other), "ok");
    }
    connection.execute_batch("DELETE FROM t WHERE id > 5; VACUUM").unwrap();
    assert_eq!(text(&other, "SELECT count(*) FROM t"), "6");
}

#[test]
fn readers_and_a_writer_keep_out_of_each_others_way() {
    let home = Home::new(32 * MIB);
    let writer = home.connect("/a.db");
    writer.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO t VALUES (1, 'a')").unwrap();
    let reader = home.connect("/a.db");
    reader.busy_timeout(std::time::Duration::ZERO).unwrap();
    writer.busy_timeout(std::time::Duration::ZERO).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; UPDATE t SET value = 'b'").unwrap();
    // Nothing of it is seen, and nobody else may write.
    assert_eq!(text(&reader, "SELECT value FROM t"), "a");
    let busy = reader.execute_batch("BEGIN IMMEDIATE").unwrap_err();
    assert_eq!(busy.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
    // A commit waits for those who read.
    reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    assert_eq!(text(&reader, "SELECT value FROM t"), "a");
    let busy = writer.execute_batch("COMMIT").unwrap_err();
    assert_eq!(busy.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
    reader.execute_batch("COMMIT").unwrap();
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(text(&reader, "SELECT value FROM t"), "b");
}

#[test]
fn several_databases_change_together_or_not_at_all() {
    let home = Home::new(32 * MIB);
    let connection = home.connect("/a.db");
    connection.execute("ATTACH ?1 AS b", [home.uri("/b.db")]).unwrap();
    connection.execute_batch("CREATE TABLE t (v); CREATE TABLE b.u (v); BEGIN").unwrap();
    connection.execute_batch("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); COMMIT").unwrap();
    connection.execute_batch("BEGIN; INSERT INTO t VALUES (2); INSERT INTO u VALUES (2); ROLLBACK").unwrap();
    for (file, table) in [("/a.db", "t"), ("/b.db", "u")] {
        let other = home.connect(file);
        assert_eq!(text(&other, &format!("SELECT group_concat(v) FROM {table}")), "1");
        assert_eq!(integrity(&other), "ok");
    }
}

#[test]
fn what_another_sqlite_left_half_done_is_rolled_back() {
    let home = Home::new(32 * MIB);
    let connection = home.connect("/a.db");
    connection.execute_batch("CREATE TABLE t (v); INSERT INTO t VALUES ('old')").unwrap();
    drop(connection);
    // With nolock=1 the journal is a file, as nobody says who may write. The connection is lost in mid-transaction.
    let uri = format!("{}&nolock=1", home.uri("/a.db"));
    let half = connect(&uri);
    half.execute_batch("PRAGMA cache_size=1; PRAGMA cache_spill=1; BEGIN; UPDATE t SET v = 'new'").unwrap();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)";
    half.execute_batch(&format!("INSERT INTO t {many} SELECT hex(randomblob(200)) FROM n")).unwrap();
    std::mem::forget(half);
    let connection = home.connect("/a.db");
    assert_eq!(text(&connection, "SELECT group_concat(v) FROM t"), "old");
    assert_eq!(integrity(&connection), "ok");
}

/// The connection keeps its journal open, and does not look for another one's.
#[test]
fn what_another_sqlite_left_half_done_is_not_rolled_back_over_a_later_commit() {
    for mode in ["persist", "truncate"] {
        let home = Home::new(32 * MIB);
        let connection = home.connect("/a.db");
        assert_eq!(text(&connection, &format!("PRAGMA journal_mode={mode}")), mode);
        connection.execute_batch("CREATE TABLE t (v); INSERT INTO t VALUES ('old'), ('older')").unwrap();
        let mut reading = connection.prepare("SELECT v FROM t").unwrap();
        let mut rows = reading.query([]).unwrap();
        rows.next().unwrap();
        connection.execute("INSERT INTO t VALUES ('a')", []).unwrap();
        // A journal whose header is valid at once, and a database that nothing was written to yet.
        let uri = format!("{}&nolock=1", home.uri("/a.db"));
        let half = connect(&uri);
        half.execute_batch("PRAGMA synchronous=OFF; BEGIN IMMEDIATE; UPDATE t SET v = 'new'").unwrap();
        std::mem::forget(half);
        for _ in 0..8 {
            connection.execute("INSERT INTO t VALUES (hex(zeroblob(2000)))", []).unwrap();
        }
        drop(rows);
        drop(reading);
        drop(connection);
        let again = home.connect("/a.db");
        assert_eq!(text(&again, "SELECT count(*) FROM t"), "11", "{mode}");
        assert_eq!(integrity(&again), "ok", "{mode}");
    }
}

/// The connection keeps its locks from one transaction to the next.
#[test]
fn what_is_committed_behind_a_full_volume_is_there() {
    for free_bytes in [64 << 10, 256 << 10] {
        let home = Home::new(32 * MIB);
        let connection = home.connect("/a.db");
        text(&connection, "PRAGMA locking_mode=exclusive");
        connection.execute_batch("PRAGMA cache_size=20; CREATE TABLE t (a INTEGER PRIMARY KEY, v)").unwrap();
        for a in 0..300 {
            connection.execute("INSERT INTO t VALUES (?1, randomblob(3000))", [a]).unwrap();
        }
        let filler = home.connect("/filler.db");
        filler.execute_batch("CREATE TABLE f (v)").unwrap();
        let mut piece = 1 << 20;
        while piece >= 4096 {
            if filler.execute("INSERT INTO f VALUES (randomblob(?1))", [piece]).is_err() {
                piece /= 2;
            }
        }
        filler
            .execute("DELETE FROM f WHERE rowid IN (SELECT rowid FROM f WHERE length(v) <= ?1)", [free_bytes])
            .unwrap();
        filler.execute_batch("VACUUM").unwrap_or_default();
        connection.execute_batch("BEGIN").unwrap();
        let full =
            (300..30_000).find_map(|a| connection.execute("INSERT INTO t VALUES (?1, randomblob(3000))", [a]).err());
        assert!(full.is_some());
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK").unwrap();
        }
        assert_eq!(text(&connection, "SELECT count(*) FROM t"), "300");
        connection.execute("DELETE FROM t WHERE a < 10", []).unwrap();
        connection.execute("UPDATE t SET v = 'x' WHERE a = 100", []).unwrap();
        connection.execute("UPDATE t SET v = 'y' WHERE a = 101", []).unwrap();
        drop(connection);
        let again = home.connect("/a.db");
        assert_eq!(
            text(&again, "SELECT count(*) || group_concat(CASE a WHEN 100 THEN v WHEN 101 THEN v END, '') FROM t"),
            "290xy"
        );
        assert_eq!(integrity(&again), "ok");
    }
}

#[test]
fn a_full_volume_keeps_what_was_committed() {
    for (journal, locking) in
        [("delete", "normal"), ("delete", "exclusive"), ("persist", "exclusive"), ("truncate", "normal")]
    {
        let home = Home::new(8 * MIB);
        let connection = home.connect("/a.db");
        text(&connection, &format!("PRAGMA locking_mode={locking}"));
        assert_eq!(text(&connection, &format!("PRAGMA journal_mode={journal}")), journal);
        connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, value BLOB)").unwrap();
        let mut committed = 0;
        let full = loop {
            match connection.execute("INSERT INTO t (value) VALUES (randomblob(50000))", []) {
                Ok(_) => committed += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull), "{full}");
        assert!(committed > 10);
        let as_it_was = |committed: i64, when: &str| {
            assert_eq!(
                text(&connection, "SELECT count(*) FROM t"),
                committed.to_string(),
                "{journal} {locking} {when}"
            );
            assert_eq!(text(&connection, "SELECT max(length(value)) FROM t"), "50000", "{journal} {locking} {when}");
            assert_eq!(integrity(&connection), "ok", "{journal} {locking} {when}");
        };
        as_it_was(committed, "full");
        // More than a record takes, and more than there is space for, whether for its journal or for the database.
        for free in [0, 4, 8, 12] {
            connection.execute("DELETE FROM t WHERE id <= ?1 AND id > ?1 - 4", [free]).unwrap();
            committed = text(&connection, "SELECT count(*) FROM t").parse().unwrap();
            for change in
                ["UPDATE t SET value = randomblob(60000)", "UPDATE t SET value = randomblob(49999) || zeroblob(9)"]
            {
                let full = connection.execute(change, []);
                assert!(full.is_err(), "{journal} {locking}: {change} with {free} rows less");
                as_it_was(committed, change);
            }
        }
        connection.execute("INSERT INTO t (value) VALUES (randomblob(50000))", []).unwrap();
        committed += 1;
        as_it_was(committed, "with space again");
        drop(connection);
        let again = home.connect("/a.db");
        assert_eq!(text(&again, "SELECT count(*) FROM t"), committed.to_string(), "{journal} {locking}");
        assert_eq!(integrity(&again), "ok", "{journal} {locking}");
    }
}

#[test]
fn a_database_whose_holes_would_fill_the_volume_needs_space_for_what_is_written_only() {
    for journal in ["delete", "persist", "wal"] {
        let memory = Memory::new(32 * MIB);
        let home = Home::of(memory.volume());
        let connection = home.connect("/a.db");
        assert_eq!(text(&connection, &format!("PRAGMA journal_mode={journal}")), journal);
        connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT)").unwrap();
        drop((connection, home));
        // A hole of 1 GiB behind its pages, and no number of pages in its header: then the file's size counts.
        memory.with("a.db", |file| {
            file.truncate(1 << 30).unwrap();
            file.write_at(&[0; 4], 28).unwrap();
        });
        let home = Home::of(memory.volume());
        let connection = home.connect("/a.db");
        assert_eq!(text(&connection, "PRAGMA page_count"), (1 << 30 >> 12).to_string(), "{journal}");
        for id in 0..3 {
            connection.execute("INSERT INTO t VALUES (?1, ?2)", (id, "k".repeat(30_000))).unwrap();
            connection.execute("UPDATE t SET value = value || 'u' WHERE id = ?1", [id]).unwrap();
        }
        drop(connection);
        let again = home.connect("/a.db");
        let lengths = "SELECT group_concat(length(replace(value, 'k', '.')), ' ') FROM t";
        assert_eq!(text(&again, lengths), "30001 30001 30001", "{journal}");
    }
}

#[test]
fn databases_of_several_volumes_find_each_others_journals() {
    let (one, two) = (Home::new(32 * MIB), Home::new(32 * MIB));
    let connection = one.connect("/a.db");
    connection.execute("ATTACH ?1 AS b", [two.uri("/b.db")]).unwrap();
    connection.execute_batch("CREATE TABLE t (v); CREATE TABLE b.u (v)").unwrap();
    for (journal, locking) in [("delete", "normal"), ("persist", "normal"), ("truncate", "exclusive")] {
        for schema in ["main", "b"] {
            text(&connection, &format!("PRAGMA {schema}.locking_mode={locking}"));
            text(&connection, &format!("PRAGMA {schema}.journal_mode={journal}"));
        }
        connection.execute_batch("BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); COMMIT").unwrap();
        connection.execute_batch("BEGIN; INSERT INTO t VALUES (2); INSERT INTO u VALUES (2); ROLLBACK").unwrap();
        connection.execute_batch("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)").unwrap();
    }
    drop(connection);
    for (home, file, table) in [(&one, "/a.db", "t"), (&two, "/b.db", "u")] {
        let other = home.connect(file);
        assert_eq!(text(&other, &format!("SELECT count(*) || ' ' || max(v) FROM {table}")), "6 1");
        assert_eq!(integrity(&other), "ok");
    }
}

#[test]
fn many_connections_write_in_turns() {
    for journal in ["delete", "wal"] {
        let home = Home::new(32 * MIB);
        let first = home.connect("/a.db");
        assert_eq!(text(&first, &format!("PRAGMA journal_mode={journal}")), journal);
        first.execute_batch("CREATE TABLE t (thread INTEGER, number INTEGER)").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let home = &home;
                scope.spawn(move || {
                    let connection = home.connect("/a.db");
                    connection.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
                    for number in 0..50 {
                        connection.execute("INSERT INTO t VALUES (?1, ?2)", (thread, number)).unwrap();
                    }
                });
            }
        });
        assert_eq!(text(&first, "SELECT count(*) || ' ' || sum(number) FROM t"), "200 4900");
        assert_eq!(integrity(&first), "ok");
    }
}

#[test]
fn names_without_a_volume_are_files_as_ever() {
    let home = Home::new(32 * MIB);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.db");
    let connection = connect(&format!("file:{}?vfs=scmfs", path.display()));
    connection.execute_batch("CREATE TABLE t (v); INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[..15], *b"SQLite format 3");
    connection.execute("ATTACH ?1 AS b", [home.uri("/b.db")]).unwrap();
    connection.execute_batch("CREATE TABLE b.u AS SELECT * FROM t").unwrap();
    assert_eq!(text(&home.connect("/b.db"), "SELECT v FROM u"), "1");
}

#[test]
fn read_only_connections_change_nothing() {
    let home = Home::new(32 * MIB);
    home.connect("/a.db").execute_batch("CREATE TABLE t (v); INSERT INTO t VALUES (1)").unwrap();
    for how in ["mode=ro", "immutable=1"] {
        let connection = connect(&format!("{}&{how}", home.uri("/a.db")));
        assert_eq!(text(&connection, "SELECT v FROM t"), "1", "{how}");
        let refused = connection.execute("INSERT INTO t VALUES (2)", []).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::ReadOnly), "{how}: {refused}");
    }
}

/// How often SQLite had to read a page for itself since this was asked last.
fn pages_read(connection: &Connection) -> i32 {
    let (mut now, mut most) = (0, 0);
    // SAFETY: an open connection, and memory for two answers.
    let code = unsafe {
        let miss = rusqlite::ffi::SQLITE_DBSTATUS_CACHE_MISS;
        rusqlite::ffi::sqlite3_db_status(connection.handle(), miss, &raw mut now, &raw mut most, 1)
    };
    assert_eq!(code, 0);
    now
}

#[test]
fn pages_are_given_in_place_up_to_mmap_size() {
    for journal in ["delete", "wal"] {
        let home = Home::new(64 * MIB);
        let writer = home.connect("/a.db");
        assert_eq!(text(&writer, &format!("PRAGMA journal_mode={journal}")), journal);
        writer.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT)").unwrap();
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)";
        writer.execute_batch(&format!("INSERT INTO t {many} SELECT i, hex(zeroblob(1000)) || i FROM n")).unwrap();
        text(&writer, "PRAGMA wal_checkpoint(TRUNCATE)");
        let reader = home.connect("/a.db");
        reader.execute_batch("PRAGMA cache_size = 20").unwrap();
        let expected = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
             SELECT sum(length(hex(zeroblob(1000)) || i)) FROM n";
        let expected = text(&Connection::open_in_memory().unwrap(), expected);
        let sum = "SELECT sum(length(value)) FROM t";
        // It is off at first, as everywhere.
        assert_eq!(text(&reader, "PRAGMA mmap_size"), "0");
        assert_eq!(text(&reader, sum), expected);
        assert!(pages_read(&reader) > 900, "{journal}");
        assert_eq!(text(&reader, "PRAGMA mmap_size = 1000000000"), "1000000000");
        pages_read(&reader);
        assert_eq!(text(&reader, sum), expected);
        assert!(pages_read(&reader) < 20, "{journal}: pages are read though they can be given");
        // 400 of about 1,000 pages are inside.
        let limit = 400 * 4096;
        assert_eq!(text(&reader, &format!("PRAGMA mmap_size = {limit}")), limit.to_string());
        pages_read(&reader);
        assert_eq!(text(&reader, sum), expected);
        assert!((500..800).contains(&pages_read(&reader)), "{journal}");
        assert_eq!(text(&reader, "PRAGMA mmap_size = 0"), "0");
        assert_eq!(text(&reader, sum), expected);
        assert!(pages_read(&reader) > 900, "{journal}");
    }
}

#[test]
fn a_query_that_is_not_over_keeps_its_pages_whatever_others_do() {
    let home = Home::new(32 * MIB);
    let writer = home.connect("/a.db");
    assert_eq!(text(&writer, "PRAGMA journal_mode=wal"), "wal");
    let rows = |connection: &Connection, value: u8| {
        let filler = String::from_utf8(vec![value; 900]).unwrap();
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)";
        connection.execute(&format!("INSERT OR REPLACE INTO t {many} SELECT i, ?1 FROM n"), [filler]).unwrap();
    };
    writer.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT)").unwrap();
    rows(&writer, b'a');
    assert_eq!(text(&writer, "PRAGMA wal_checkpoint(TRUNCATE)"), "0");
    let reader = home.connect("/a.db");
    reader.execute_batch("PRAGMA cache_size = 2; PRAGMA mmap_size = 1000000000").unwrap();
    let mut statement = reader.prepare("SELECT value FROM t ORDER BY id").unwrap();
    let mut query = statement.query([]).unwrap();
    let mut next = || query.next().unwrap().map(|row| row.get::<_, String>(0).unwrap());
    let old = "a".repeat(900);
    for step in 0..300 {
        assert_eq!(next().as_deref(), Some(&*old), "row {step}");
        if step % 40 == 0 {
            // The file grows, moves and shrinks around what the query has.
            rows(&writer, b'b' + (step / 40) as u8);
            let filler = "CREATE TABLE IF NOT EXISTS u (x); INSERT INTO u VALUES (zeroblob(1500000))";
            writer.execute_batch(filler).unwrap();
            text(&writer, "PRAGMA wal_checkpoint(PASSIVE)");
            writer.execute_batch("DELETE FROM u").unwrap();
            text(&writer, "PRAGMA wal_checkpoint(PASSIVE)");
        }
    }
    assert_eq!(next(), None);
    drop(query);
    drop(statement);
    assert_eq!(text(&reader, "SELECT DISTINCT substr(value, 1, 1) FROM t"), "i");
    assert_eq!(integrity(&reader), "ok");
}
