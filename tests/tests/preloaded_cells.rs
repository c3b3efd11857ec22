//! Cells on an SCMFS mount whose programs have the library for direct access loaded, and those that have not.

use pocketstone_testing::{Need, or_skip, program};
use pocketstone_tests::command::{lab, write};
use pocketstone_tests::results;

/// dd says what went directly: 8 calls, until the library looks at the file, are the kernel's.
const STUDY: &str = r#"title = "Preloaded"
board = "host"
repetitions = 1

[[experiment]]
name = "programs"
traced = "none"
[experiment.factors]
workload = "command"
file_system = ["scmfs-fuse", "scmfs-preload"]
command = [
  "SCMFS_PRELOAD_REPORT=$PWD/r dd if=/dev/zero of=f bs=4k count=100 && grep 'writes direct: 52 calls, 212992 bytes' r",
  "! grep libscmfs_preload /proc/self/maps",
]
"#;

#[test]
fn only_cells_that_are_to_have_the_library_have_it() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "preloaded.toml", STUDY);
    let ran = lab(home.path(), &["run", "preloaded.toml", "--output", "r"]);
    if ran.out.contains("left out: cells on scmfs-") {
        return Need::Fuse.lacks(format_args!("{}", ran.out.trim())).end();
    }
    let db = results::read(&home.path().join("r"));
    let mut query = db.prepare("SELECT file_system, command LIKE '!%', status FROM cells ORDER BY 1, 2").unwrap();
    let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?, row.get(2)?))).unwrap();
    let found: Vec<(String, bool, String)> = rows.map(Result::unwrap).collect();
    let expected =
        [("scmfs-fuse", [false, true]), ("scmfs-preload", [true, false])].into_iter().flat_map(|(name, works)| {
            let status = |works| if works { "done" } else { "failed" }.to_owned();
            [false, true].map(|bare| (name.to_owned(), bare, status(works[usize::from(bare)])))
        });
    assert_eq!(found, expected.collect::<Vec<_>>(), "{ran}");
    let way = "SELECT count(*) FROM cell WHERE outcome ->> '$.facts.\"volume.preload\"' = 'append'";
    assert_eq!(db.query_row(way, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[test]
fn a_program_as_it_is_runs_on_file_systems_in_memory() {
    or_skip!(program("postmark", "postmark"));
    let home = tempfile::tempdir().unwrap();
    let only =
        "command LIKE '%postmark' AND seed = 1 AND file_system IN ('scmfs-fuse', 'scmfs-preload', 'ramfs', 'ext3')";
    let ran = lab(home.path(), &["run", "programs", "--only", only, "--output", "r"]);
    let measured = results::read(&home.path().join("r"));
    let sql = "SELECT count(DISTINCT file_system) FROM cells WHERE status = 'done'";
    let left_out = ran.out.matches("left out: cells on ").count() as i64;
    assert_eq!(measured.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() + left_out, 4, "{ran}");
}
