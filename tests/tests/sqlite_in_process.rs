//! Studies with SQLite on an SCMFS volume in process: measured as on any volume, and refused for engines that cannot.

use pocketstone_testing::Need;
use pocketstone_tests::command::{lab, pocketstone, run, write};
use pocketstone_tests::results;

fn study(engine: &str, file_system: &str) -> String {
    format!(
        r#"title = "SQLite in process"
board = "host"
repetitions = 1

[[experiment]]
name = "tiny"
[experiment.factors]
workload = ["ycsb-a", "ycsb-d"]
engine = "{engine}"
operations = 100
file_system = ["{file_system}", "tmpfs"]
journal_mode = ["delete", "wal"]
"#
    )
}

#[test]
fn sqlite_is_measured_on_a_volume_in_process() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "study.toml", &study("sqlite", "scmfs"));
    let ran = run(&mut pocketstone(home.path(), &["run", "study.toml", "--output", "results"]));
    if ran.err.contains("supports none of this study") {
        return Need::Namespaces.lacks(format_args!("no file system in memory: {}", ran.err.trim())).end();
    }
    ran.ends_with(0);
    let db = results::read(&home.path().join("results"));
    // A cell is done only if its results equal those of SQLite in memory.
    let count = |of: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM cells WHERE status = 'done' AND {of}");
        db.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    for file_system in ["scmfs", "tmpfs"] {
        assert_eq!(count(&format!("file_system = '{file_system}' AND NOT traced")), 4, "{file_system}");
    }
    assert_eq!(count("TRUE"), db.query_row("SELECT count(*) FROM cells", [], |row| row.get::<_, i64>(0)).unwrap());
}

#[test]
fn an_engine_that_needs_files_is_refused_with_the_cure() {
    let home = tempfile::tempdir().unwrap();
    for (engine, file_system) in [("lmdb", "scmfs"), ("sqlite", "scmfs-pcm")] {
        let text = study(engine, file_system).replace("journal_mode = [\"delete\", \"wal\"]\n", "");
        write(home.path(), "study.toml", &text);
        let ran = lab(home.path(), &["study", "check", "study.toml"]);
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains(&format!("{engine} needs files visible to the kernel")), "{said}");
        assert!(said.contains("scmfs-fuse"), "{said}");
    }
}
