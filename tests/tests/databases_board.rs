//! Databases on the virtual board: the same to the bit, the same results as on the host, and every flash
//! operation with the query that paid for it.

use pocketstone_testing::or_skip;
use pocketstone_tests::command::{board, lab, write};

const STUDY: &str = r#"title = "t"
board = "virt-nand"
[[experiment]]
name = "contacts"
[experiment.factors]
file_system = "jffs2"
compression = "none"
workload = "contacts"
records = 200
field_bytes = 64
page_bytes = 1024
pattern = "random"
operations = 12
page_cache = "cold"
read_ahead_bytes = "128KiB"
delay = ["none", "1ms"]
[[experiment]]
name = "engines"
traced = "none"
[experiment.factors]
file_system = "ubifs"
compression = "none"
workload = "ycsb-a"
engine = ["sqlite", "lmdb", "redb", "h2"]
records = 30
operations = 30
[[experiment]]
name = "on-jffs2"
traced = "none"
[experiment.factors]
file_system = "jffs2"
compression = "none"
workload = "ycsb-a"
engine = ["sqlite", "redb"]
records = 30
operations = 30
[[experiment]]
name = "journal"
traced = "none"
[experiment.factors]
file_system = "jffs2"
compression = "none"
workload = "ycsb-a"
records = 30
operations = 30
journal_mode = ["wal", "persist"]
locking_mode = "exclusive"
"#;

#[test]
fn a_database_on_the_board_repeats_to_the_bit_and_flash_reads_belong_to_queries() {
    or_skip!(board());
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "study.toml", STUDY);
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0).says(&["left out: cells with h2"]);
    pocketstone_tests::results::repeats(
        home.path(),
        "experiment = 'contacts' AND delay = '1ms' \
         OR experiment = 'engines' AND engine = 'lmdb' OR journal_mode = 'wal'",
    );

    let db = pocketstone_tests::results::read(&home.path().join("a"));
    let numbers = |sql: &str| -> Vec<i64> {
        let mut query = db.prepare(sql).unwrap();
        query.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
    };
    // All engines return the same, and the host's check agrees, or the cells would have failed.
    let sql = "SELECT count(DISTINCT outcome ->> '$.database.digest') FROM cell WHERE experiment != 'contacts'";
    assert_eq!(numbers(sql), [1]);
    // Senses of the chip by SQLite's process lie within its operations, those before the first aside.
    let sql = "SELECT sum((SELECT count(*) FROM call k WHERE k.cell = c.id
                   AND f.time_ns BETWEEN k.start_ns - 1000 AND k.start_ns + k.latency_ns)) = count(*)
               FROM cell c JOIN flash_op f ON f.cell = c.id
               WHERE c.experiment = 'contacts' AND f.kind = 'sense' AND f.pid = c.outcome ->> '$.database.pid'
               GROUP BY c.id";
    assert_eq!(numbers(sql), [1, 1]);
    // A page that is not in the page cache is read from the chip: its first miss is the first sense.
    let sql = "SELECT min(o.cache_misses > 0) FROM operation_cost o JOIN cells c ON c.id = o.cell
               WHERE o.number IN (SELECT k.number FROM call k JOIN flash_op f ON f.cell = k.cell AND f.kind = 'sense'
                   AND f.time_ns BETWEEN k.start_ns AND k.start_ns + k.latency_ns WHERE k.cell = o.cell)";
    assert_eq!(numbers(sql), [1]);
    assert!(numbers("SELECT CAST(sum(median) AS INTEGER) FROM summary WHERE metric = 'page_senses'")[0] > 0);
}
