//! Job files of fio as workloads, by the command and on volumes.

use pocketstone_tests::command::{lab, write};
use pocketstone_tests::results;

const STUDY: &str = r#"title = "t"
board = "host"
repetitions = 2
[[experiment]]
name = "jobs"
[experiment.factors]
workload = "fio"
fio_file = "jobs.fio"
fio_options = ["", "rw=write"]
file_system = ["tmpfs", "directory", "scmfs", "yaffs2-anonymous-in-process"]
"#;

const JOBS: &str = "[global]\nbs=4k\nsize=64k\n[a]\nrw=randread\nnumjobs=2\n[b]\nrw=randwrite\nfsync=4\n";

#[test]
fn a_job_file_is_a_workload_on_any_volume() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write(home.path(), "study.toml", STUDY);
    write(home.path(), "jobs.fio", JOBS);
    lab(home.path(), &["run", "study.toml", "--output", "out"]).ends_with(0);
    // Three threads with 16 requests of 4 KiB each. fio makes durable before the next request what four writes have
    // left: of 16 writes three times, of 48 (all three jobs write with rw=write) as only [b] says.
    let out = home.path().join("out");
    let one = |sql: &str| results::value::<u64>(&out, sql);
    assert_eq!(one("SELECT count(*) FROM cell WHERE status = 'done'"), 16);
    assert_eq!(one("SELECT min(n) FROM (SELECT count(*) n FROM call GROUP BY cell)"), 16 * 3 + 3);
    assert_eq!(one("SELECT max(n) FROM (SELECT count(*) n FROM call GROUP BY cell)"), 16 * 3 + 3);
}

#[test]
fn a_job_file_that_cannot_be_followed_is_refused_with_its_line() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write(home.path(), "study.toml", STUDY);
    write(home.path(), "jobs.fio", "[a]\nsize=64k\nverify=md5\n");
    let refused = lab(home.path(), &["run", "study.toml", "--dry-run"]).ends_with(1);
    refused.complains(&["jobs.fio line 3: `verify=md5`", "the lab does not verify"]);
    std::fs::remove_file(home.path().join("jobs.fio")).expect("it is there");
    lab(home.path(), &["run", "study.toml", "--dry-run"]).ends_with(1).complains(&["cannot read", "jobs.fio"]);
}
