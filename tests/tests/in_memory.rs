//! File systems in memory on the host board: measured, compared, and gone without a trace, however the lab ends.

use pocketstone_testing::Need;
use pocketstone_testing::wait::LONG;
use pocketstone_tests::command::{Process, lab, pocketstone, poll, write};
use pocketstone_tests::results;
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const STUDY: &str = r#"title = "In memory"
board = "host"
repetitions = 2

[[experiment]]
name = "tiny"
[experiment.factors]
workload = "files"
file_system = ["scmfs", "scmfs-fuse", "scmfs-preload", "tmpfs", "ramfs", "ext2", "ext3", "ext4"]
operation = ["read", "append", "create"]
pattern = "random"
requests = 20
files = 3
file_bytes = "64KiB"

[[figure]]
name = "bars"
title = "Latency"
caption = "By operation"
experiment = "tiny"
metric = "median_ns"
show = "value"
x = "operation"
series = ["file_system"]

[[claim]]
name = "measured"
text = "in process a read is faster than a second"
value = "SELECT max(median) FROM summary WHERE file_system = 'scmfs' AND metric = 'median_ns'"
at_most = 1e9
required = true
"#;
/// Until a run is at work, or what it did has ended.
const LIMIT: Duration = Duration::from_secs(300);
/// As many cells as the study has on each file system.
const CELLS: i64 = 6;

/// The loop devices in use for files below a folder, or for a file whose mount nobody has any more, as a volume's is
/// when its lab has ended: others of this machine may use some meanwhile.
fn loops(folder: &Path) -> BTreeSet<String> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let is_ours = |file: &Path| file.starts_with(folder) || file.parent() == Some(Path::new("/"));
    let used = devices.filter(|device| {
        fs::read_to_string(device.path().join("loop/backing_file")).is_ok_and(|file| is_ours(Path::new(file.trim())))
    });
    used.map(|device| device.file_name().to_string_lossy().into_owned()).collect()
}

/// Processes that see something mounted below a folder.
fn mounts_below(folder: &Path) -> Vec<String> {
    let name = folder.to_str().expect("a path in UTF-8");
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let sees = |path: &Path| fs::read_to_string(path.join("mounts")).is_ok_and(|mounts| mounts.contains(name));
    entries.map(|e| e.path()).filter(|path| sees(path)).map(|path| path.display().to_string()).collect()
}

#[track_caller]
fn nothing_is_left(temporary: &Path, before: &BTreeSet<String>) {
    // The kernel frees a loop device a moment after its mount.
    let limit = LONG;
    let clean = || (mounts_below(temporary).is_empty() && loops(temporary).is_subset(before)).then_some(());
    assert!(poll(limit, clean).is_some(), "mounted in {:?}, loops {:?}", mounts_below(temporary), loops(temporary));
}

// One test: two at once would see each other's loop devices.
#[test]
fn a_study_in_memory_measures_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let temporary = home.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    write(home.path(), "memory.toml", STUDY);
    let before = loops(&temporary);
    let ran = pocketstone_tests::command::run(
        pocketstone(home.path(), &["run", "memory.toml", "--output", "whole"]).env("TMPDIR", &temporary),
    );
    if ran.err.contains("supports none of this study") {
        return Need::Namespaces.lacks(format_args!("no file system in memory: {}", ran.err.trim())).end();
    }
    let ran = ran.ends_with(0);
    nothing_is_left(&temporary, &before);

    let db = results::read(&home.path().join("whole"));
    let sql = "SELECT file_system, count(*) FROM cells WHERE status = 'done' AND NOT traced GROUP BY 1";
    let mut query = db.prepare(sql).unwrap();
    let rows = query.query_map([], |r| Ok((r.get::<_, String>(0)?, r.get::<_, i64>(1)?))).unwrap();
    let measured: Vec<(String, i64)> = rows.map(Result::unwrap).collect();
    assert!(measured.iter().all(|(_, cells)| *cells == CELLS), "{measured:?}");
    for name in ["scmfs", "scmfs-fuse", "scmfs-preload", "tmpfs", "ramfs", "ext2", "ext3", "ext4"] {
        let left_out = ran.out.contains(&format!("left out: cells on {name}:"));
        assert_ne!(measured.iter().any(|(n, _)| n == name), left_out, "{name} in {ran}");
    }
    let facts: i64 = db
        .query_row("SELECT count(*) FROM cell WHERE outcome ->> '$.facts.\"volume.bytes\"' > 0", [], |r| r.get(0))
        .unwrap();
    assert_eq!(facts, measured.len() as i64 * CELLS);
    let report = fs::read_to_string(home.path().join("whole/report.html")).unwrap();
    assert!(report.contains("File systems in memory") && report.contains("Bar chart"));

    // Killed in the middle, again and again: whatever was being made or measured goes too.
    let killed = |cells: i64, attempt: u32| {
        let output = format!("killed-{cells}-{attempt}");
        let mut child = pocketstone(home.path(), &["run", "memory.toml", "--output", &output])
            .env("TMPDIR", &temporary)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Whether it came so far before it ended.
        let far_enough = || {
            if child.try_wait().unwrap().is_some() {
                return Some(false);
            }
            let done = results::begun(&home.path().join(&output))
                .and_then(|db| db.query_row("SELECT count(*) FROM cell", [], |r| r.get::<_, i64>(0)));
            let begun = !mounts_below(&temporary).is_empty();
            (begun && done.map_or(cells == 0, |done| done >= cells)).then_some(true)
        };
        if !poll(LIMIT, far_enough).expect("no cell is measured") {
            return None;
        }
        let began = Process::descendants(child.id());
        rustix::process::kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        // What is in the middle of a mount ends with it, which a busy disk makes long.
        let ended = poll(LIMIT, || began.iter().all(|p| !p.runs()).then_some(()));
        assert!(ended.is_some(), "{began:?} live on");
        nothing_is_left(&temporary, &before);
        Some(output)
    };
    // The cells are short: one that was done before it was looked at is begun again.
    let killed = |cells| (0..5).find_map(|attempt| killed(cells, attempt)).expect("a run that is killed at work");
    let outputs = [0, 2, 5].map(killed);
    lab(home.path(), &["run", "--resume", &outputs[1]]).ends_with(0);
}
