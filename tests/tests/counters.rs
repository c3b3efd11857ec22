//! What the processor and the kernel count of a cell: the factor `counters`, on this machine.

use pocketstone_core::counted::Counted;
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::{lab, run, write};
use pocketstone_tests::results;
use std::process::Command;

/// Touches 1000 pages of fresh memory in a child, each once, and 500 by another thread of its own.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *touch(void *pages) {
    long bytes = (long)pages * 4096;
    char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (long at = 0; at < bytes; at += 4096) *(volatile char *)(memory + at) = 1;
    return 0;
}

int main(void) {
    pthread_t thread;
    int status;
    if (fork() == 0) {
        touch((void *)1000);
        _exit(0);
    }
    if (wait(&status) < 0 || status) return 1;
    if (pthread_create(&thread, 0, touch, (void *)500) || pthread_join(thread, 0)) return 2;
    return 0;
}
"#;

#[test]
fn page_faults_of_a_program_its_children_and_threads_are_counted_and_what_is_not_there_says_why() {
    let compiler = or_skip!(program("cc", "gcc"));
    let home = tempfile::tempdir().expect("a temporary folder");
    write(home.path(), "app.c", PROGRAM);
    let mut compile = Command::new(compiler);
    run(compile.args(["-O1", "-static", "-pthread", "-o", "app", "app.c"]).current_dir(home.path())).ends_with(0);
    let arguments = ["run", "--repetitions", "1", "--set", "file_system=directory", "--set", "counters=true,false"];
    lab(home.path(), &[&arguments[..], &["--output", "out", "--", "./app"]].concat()).ends_with(0);
    let out = home.path().join("out");
    let metric = |name: &str, counters: bool| -> Option<f64> {
        let sql = format!(
            "SELECT (SELECT value FROM metric m WHERE m.cell = c.id AND name = '{name}') FROM cells c \
             WHERE NOT traced AND coalesce(counters, 0) = {}",
            u8::from(counters)
        );
        results::value(&out, &sql)
    };
    for what in Counted::ALL {
        assert_eq!(metric(what.name(), false), None, "{} is counted where nobody asks", what.name());
    }
    // A program and a shell take some hundred pages of their own.
    let faults = metric("page_faults", true).expect("every kernel counts page faults");
    assert!((1500.0..2500.0).contains(&faults), "{faults}");
    // One thing after the other: on processors no longer than the run is.
    let (on_core, run) = (metric("task_clock_ns", true).unwrap(), metric("total_ns", true).unwrap());
    assert!(on_core > 0.0 && on_core <= run, "{on_core} ns of {run} ns");
    // Each of the processor's own is there, or the reason why not.
    for what in [Counted::DataTlbLoadMisses, Counted::DataTlbStoreMisses, Counted::DataPageWalks] {
        let sql = format!(
            "SELECT count(*) FROM cell, json_each(outcome, '$.unavailable') u \
             WHERE u.value ->> '$.what' = '{}' AND length(u.value ->> '$.why') > 20",
            what.in_words()
        );
        let missing: u64 = results::value(&out, &sql);
        assert_eq!(missing, u64::from(metric(what.name(), true).is_none()), "{}", what.name());
    }
}

const STUDY: &str = r#"title = "t"
board = "host"
[[experiment]]
name = "e"
[experiment.factors]
workload = "files"
file_system = "scmfs-anonymous"
operation = "append"
counters = true
files = 4
file_bytes = "16KiB"
request_bytes = "1MiB"
requests = 40
threads = [1, 2]
"#;

/// Operations in process are counted in the threads that do them.
#[test]
fn work_in_process_is_counted() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write(home.path(), "study.toml", STUDY);
    lab(home.path(), &["run", "study.toml", "--output", "out"]).ends_with(0);
    let out = home.path().join("out");
    let least = "SELECT min(t.value / (CASE threads WHEN 1 THEN r.value ELSE 2 * r.value END)) FROM cells c \
                 JOIN metric t ON t.cell = c.id AND t.name = 'task_clock_ns' \
                 JOIN metric r ON r.cell = c.id AND r.name = 'run_ns'";
    let (cells, share): (u64, f64) =
        (results::value(&out, "SELECT count(*) FROM metric WHERE name = 'task_clock_ns'"), results::value(&out, least));
    // 40 MiB are copied and mapped: nearly all of the run's time is on processors, however busy others keep them.
    assert!(cells == 2 && share > 0.05, "{cells} cells, at least {share} of the time");
}
