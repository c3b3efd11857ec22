//! Runs that are cut off, and boards that do not come up or hang: what is done stays, what runs ends.

use pocketstone_board::Cache;
use pocketstone_testing::wait::LONG;
use pocketstone_testing::{Skip, or_skip, root};
use pocketstone_tests::command::{Process, Ran, board, changed, lab, pocketstone, poll, profile_with, ran, run, write};
use pocketstone_tests::results;
use rusqlite::Connection;
use rustix::process::{Pid, Signal};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Twelve short cells that all start from one state.
const STUDY: &str = r#"title = "Short cells"
board = "virt-nand"
seed = 1

[[experiment]]
name = "short"
[experiment.factors]
file_system = "jffs2"
compression = "none"
file_bytes = "5MiB"
requests = [8, 12, 16]
read_ahead_bytes = ["128KiB", 0]
[experiment.on.host]
file_system = "directory"
compression = "default"
read_ahead_by = "file"
"#;
const CELLS: usize = 12;
/// Until a run is at work; where others boot boards, too, that takes minutes.
const LIMIT: Duration = Duration::from_secs(300);

/// A folder with the study in it, and the results of a run that nobody disturbed; a counted skip without QEMU.
///
/// That run also makes the saved states that all tests here start from.
#[track_caller]
fn undisturbed() -> Result<&'static Path, Skip> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    board()?;
    let make = || {
        let folder = folder_of_this_program();
        write(&folder, "short.toml", STUDY);
        lab(&folder, &["run", "short.toml", "--output", "whole"]).ends_with(0).says(&["12 cells measured"]);
        folder
    };
    Ok(FOLDER.get_or_init(make))
}

/// A new folder in target/. What is shared by all tests of a program is never dropped, so that a later
/// program removes the folders of those that have ended.
fn folder_of_this_program() -> PathBuf {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("robustness");
    fs::create_dir_all(&parent).expect("a folder in target/");
    for entry in fs::read_dir(&parent).expect("the folder").flatten() {
        let owner = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if owner.is_some_and(|pid| pid == std::process::id() || Process::of(pid).is_none()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let folder = parent.join(std::process::id().to_string());
    fs::create_dir(&folder).expect("a new folder");
    folder
}

/// What tells a cell apart, and what shows that it was not measured again: its digest and row.
type Cells = BTreeMap<String, (String, i64)>;

fn query(db: &Connection) -> rusqlite::Result<Cells> {
    let sql = "SELECT experiment || point || seed || traced, digest, id FROM cell WHERE status = 'done'";
    let mut query = db.prepare(sql)?;
    let cells = query.query_map([], |r| Ok((r.get(0)?, (r.get(1)?, r.get(2)?))))?;
    cells.collect()
}

fn done(results: &Path) -> Cells {
    query(&results::change(results)).unwrap_or_else(|e| panic!("{}: {e}", results.display()))
}

/// The lab at work, with a process group of its own as a shell would give it.
struct Working {
    /// Taken when it has ended.
    lab: Option<Child>,
    pid: u32,
    words: String,
    machines: Vec<Process>,
}

impl Working {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = pocketstone(folder, arguments);
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let words = format!("{command:?}");
        let lab = command.spawn().unwrap_or_else(|e| panic!("{words}: {e}"));
        Working { pid: lab.id(), lab: Some(lab), words, machines: Vec::new() }
    }

    fn has_ended(&mut self) -> bool {
        self.lab.as_mut().is_none_or(|lab| lab.try_wait().expect("a child of ours").is_some())
    }

    /// Waits until `ready`, and until a machine of it runs; remembers the machines. Whether that came before its end.
    #[track_caller]
    fn comes_to(&mut self, what: &str, mut ready: impl FnMut() -> bool) -> bool {
        let found = poll(LIMIT, || {
            let ended = self.has_ended();
            let machines = if ended || !ready() { Vec::new() } else { Process::machines_of(self.pid) };
            (ended || !machines.is_empty()).then_some(machines)
        });
        assert!(found.is_some(), "`{}` never was at work with {what}", self.words);
        self.machines = found.unwrap_or_default();
        !self.machines.is_empty()
    }

    /// A signal to the lab's process group, as the terminal sends it.
    fn signal(&self, signal: Signal) {
        let group = Pid::from_raw(self.pid as i32).expect("a process number");
        rustix::process::kill_process_group(group, signal).expect("a process group of ours");
    }

    /// Waits for its end; none of its machines outlives it, however long one would run.
    #[track_caller]
    fn end(mut self) -> Ran {
        let ended = poll(LONG, || self.has_ended().then_some(()));
        assert!(ended.is_some(), "`{}` did not end within {LONG:?}", self.words);
        let gone = poll(Duration::from_secs(30), || (!self.machines.iter().any(Process::runs)).then_some(()));
        assert!(gone.is_some(), "machines outlive `{}`: {:?}", self.words, self.machines);
        let output = self.lab.take().and_then(|lab| lab.wait_with_output().ok()).expect("its output");
        ran(self.words.clone(), &output)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(mut lab) = self.lab.take() {
            let _ = lab.kill();
            let _ = lab.wait();
        }
    }
}

/// A run that was cut off with some cells done and more to come.
struct CutOff {
    results: String,
    /// What its lab said before it ended.
    lab: Ran,
    pid: u32,
    /// The folders of the machines that it ended with.
    cells: Vec<PathBuf>,
}

/// Cuts a run off by a signal. The cells are short: where all are done before the signal comes, another run is begun.
#[track_caller]
fn cut_off(folder: &Path, name: &str, signal: Signal) -> CutOff {
    const RUNS: u32 = 5;
    let run = |number: u32| {
        let results = format!("{name}-{number}");
        let mut working = Working::start(folder, &["run", "short.toml", "--output", &results]);
        let path = folder.join(&results);
        let some = || results::begun(&path).and_then(|db| query(&db)).is_ok_and(|cells| cells.len() >= 3);
        if !working.comes_to("some cells done", some) {
            return None;
        }
        let (pid, cells) = (working.pid, working.machines.iter().filter_map(Process::cell).collect());
        working.signal(signal);
        let lab = working.end();
        (done(&path).len() < CELLS).then_some(CutOff { results, lab, pid, cells })
    };
    (0..RUNS).find_map(run).expect("a run that is cut off before all its cells are done")
}

/// Finishes a run that was cut off: the rest is measured, no more, and the whole is as if nothing had
/// happened.
fn finish(folder: &Path, results: &str) {
    let before = done(&folder.join(results));
    assert!((3..CELLS).contains(&before.len()), "{} of {CELLS} cells are done when it is cut off", before.len());
    lab(folder, &["run", "--resume", results]).ends_with(0).says(&["12 cells measured on the board virt-nand"]);
    let after = done(&folder.join(results));
    assert_eq!(after.len(), CELLS, "cells that are done in the end");
    for (cell, row) in &before {
        assert_eq!(after.get(cell), Some(row), "a cell that was done is measured again: {cell}");
    }
    let compared = lab(folder, &["compare", "whole", results]).ends_with(0);
    assert_eq!(compared.out, "identical: the logs of all 12 common cells are bit-identical\n", "{compared}");
}

#[test]
fn a_killed_lab_leaves_no_machine_and_loses_no_cell() {
    let folder = or_skip!(undisturbed());
    let CutOff { results, lab: killed, pid, cells } = cut_off(folder, "killed", Signal::KILL);
    let prefix = format!("cell-{pid}-");
    assert_eq!(killed.status, None, "a signal ended {killed}");
    finish(folder, &results);
    // Nothing could tidy up after the kill; the next run did.
    for cell in cells {
        let name = cell.file_name().unwrap_or_default().to_string_lossy().into_owned();
        assert!(name.starts_with(&prefix), "a machine works in a folder of its lab's: {}", cell.display());
        assert!(!cell.exists(), "{} is left of a killed lab", cell.display());
    }
}

#[test]
fn ctrl_c_ends_a_run_that_can_go_on_later() {
    let folder = or_skip!(undisturbed());
    let CutOff { results, lab, cells, .. } = cut_off(folder, "interrupted", Signal::INT);
    let resume = format!("pocketstone run --resume {results}");
    let interrupted = lab.ends_with(130).complains(&["interrupted", &resume]);
    assert!(!interrupted.err.contains("failed"), "an interrupted cell is no failed one: {interrupted}");
    assert!(cells.iter().all(|c| !c.exists()), "folders of cells are left: {cells:?}");
    finish(folder, &results);
}

#[test]
fn ctrl_c_ends_a_boot_too() {
    let folder = or_skip!(undisturbed());
    // Another command line is another machine: it has no saved state, so it boots.
    let append = format!("append = \"interrupted_boot={}\"", std::process::id());
    let profile = profile_with("append = \"\"", &append);
    let profile = write(folder, "boots.toml", &profile);
    let mut working = Working::start(folder, &["run", "short.toml", "--board", &profile, "--output", "unborn"]);
    assert!(working.comes_to("a boot", || true), "a machine that boots");
    let console = working.machines[0].cell().expect("its folder").join("console.log");
    let booting = poll(LONG, || fs::metadata(&console).ok().filter(|m| m.len() > 0));
    assert!(booting.is_some(), "the board says something while it boots");
    working.signal(Signal::INT);
    working.end().ends_with(130).complains(&["error: interrupted"]);
    assert!(!folder.join("unborn").exists(), "a run that never began leaves no results");
}

#[test]
fn a_module_that_the_kernel_lacks_is_named() {
    let folder = or_skip!(undisturbed());
    let profile = write(folder, "module.toml", &profile_with("\"nandsim\", ", "\"nandsim\", \"yaffs2\", "));
    lab(folder, &["run", "short.toml", "--board", &profile, "--output", "none"]).ends_with(4).complains(&[
        "no module `yaffs2`",
        "hint: ",
        "[modules] load",
    ]);
    assert!(!folder.join("none").exists(), "a board that cannot be opened leaves no results");
}

#[test]
fn a_kernel_that_panics_is_seen_at_once_and_shown() {
    let folder = or_skip!(undisturbed());
    let profile = profile_with("append = \"\"", "append = \"rdinit=/nonexistent\"");
    let profile = write(folder, "panics.toml", &profile);
    // Not that it did not come up in time: that is another failure.
    lab(folder, &["run", "short.toml", "--board", &profile, "--output", "none"]).ends_with(4).complains(&[
        "the board died: its kernel panicked or powered off",
        "Kernel panic - not syncing: VFS: Unable to mount root fs",
        "hint: ",
    ]);
    assert!(!folder.join("none").exists(), "a board that cannot be opened leaves no results");
}

#[test]
fn a_cell_that_takes_too_long_fails_alone() {
    let folder = or_skip!(undisturbed());
    let study = changed(STUDY, "[8, 12, 16]", "[8, 4000000]");
    let study = changed(&study, "[\"128KiB\", 0]", "\"128KiB\"");
    write(folder, "long.toml", &study);
    // Only what a cell may take is less: the saved states are those of the shipped board.
    let profile = profile_with("cell_timeout_s = 600", "cell_timeout_s = 12");
    let profile = write(folder, "impatient.toml", &profile);
    let run = ["run", "long.toml", "--board", &profile, "--output", "long"];
    let long = lab(folder, &run).ends_with(4).says(&[
        "2 cells measured, 2 failed on the board impatient",
        "failed: short: ",
        "requests=4000000",
        "the board did not finish within 12 s",
        "hint: raise cell_timeout_s",
        "report:  long/report.html",
    ]);
    assert!(long.err.lines().filter(|l| l.starts_with("failed: ")).count() == 2, "failures are told at once: {long}");
    let report = fs::read_to_string(folder.join("long/report.html")).expect("a report in spite of failures");
    assert!(report.contains("the board did not finish within 12 s"), "the report lists failures");
    let db = results::read(&folder.join("long"));
    let sql = "SELECT point ->> '$.requests', count(*), count(hint), count(console) FROM cell WHERE status = ?1";
    let of = |status: &str| -> (i64, i64, i64, i64) {
        let row = db.query_row(sql, [status], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)));
        row.unwrap_or_else(|e| panic!("{status}: {e}"))
    };
    assert_eq!(of("done"), (8, 2, 0, 0), "requests, cells, hints and consoles of what is done");
    assert_eq!(of("failed"), (4_000_000, 2, 2, 2), "requests, cells, hints and consoles of what failed");

    // Failed cells are tried again, on the board that the run was begun with.
    let again = lab(folder, &["run", "--resume", "long", "--only", "requests < 100"]);
    again.says(&["on the board impatient"]);
}

#[test]
fn a_state_that_cannot_be_made_fails_the_cells_that_start_from_it() {
    let folder = or_skip!(undisturbed());
    // A seed of its own, so that the file is to be written; that takes longer than a second.
    let study = changed(STUDY, "seed = 1", "seed = 987654321");
    write(folder, "unmade.toml", &study);
    let profile = write(folder, "hasty.toml", &profile_with("cell_timeout_s = 600", "cell_timeout_s = 1"));
    let run = ["run", "unmade.toml", "--board", &profile, "--output", "unmade", "--only", "requests = 8"];
    lab(folder, &run).ends_with(4).says(&[
        "0 cells measured, 4 failed on the board hasty",
        "cannot create its initial state: the board did not finish within 1 s",
        "hint: raise cell_timeout_s",
    ]);
    // Each cell fails by what was tried before, in no time of its own: none tries to make the state again.
    let db = results::read(&folder.join("unmade"));
    let sql = "SELECT count(*), min(host_ms) FROM cell WHERE message LIKE 'cannot create its initial state: %'";
    let (cells, least_ms): (i64, f64) = db.query_row(sql, [], |r| Ok((r.get(0)?, r.get(1)?))).expect("failed cells");
    assert!(cells == 4 && least_ms < 1000.0, "the same state is tried again for every cell: {cells}, {least_ms} ms");
    assert_eq!(done(&folder.join("unmade")), Cells::new(), "cells that are done");
}

#[test]
fn a_run_goes_on_only_with_its_own_study_and_board() {
    let folder = or_skip!(undisturbed());
    write(folder, "another.toml", &changed(STUDY, "seed = 1", "seed = 2"));
    lab(folder, &["run", "another.toml", "--resume", "whole"])
        .ends_with(1)
        .complains(&["another.toml is not the study that whole was run with", "hint: "]);
    lab(folder, &["run", "--resume", "whole", "--board", "host"])
        .ends_with(1)
        .complains(&["the board has changed since whole began", "hint: start a new run"]);
    let before = done(&folder.join("whole"));
    assert_eq!(before.len(), CELLS, "refused runs leave the results as they were");
}

#[test]
fn an_order_that_fails_on_the_board_says_why() {
    let folder = or_skip!(undisturbed());
    lab(folder, &["board", "exec", "virt-nand", "no-such-program"])
        .ends_with(4)
        .complains(&["cannot run `no-such-program`", "No such file"]);
    lab(folder, &["board", "exec", "virt-nand", "sh", "-c", "echo out; echo err >&2; exit 7"])
        .ends_with(7)
        .says(&["out\n", "err\n"]);
}

#[test]
fn a_disk_without_room_for_what_a_board_sends_is_told() {
    or_skip!(root());
    let folder = or_skip!(undisturbed());
    // 2000 calls take ten pages of memory and more, the order one, the reply one.
    let study = changed(STUDY, "[8, 12, 16]", "2000");
    let study = changed(&study, "[\"128KiB\", 0]", "0");
    let study = changed(&study, "name = \"short\"", "name = \"short\"\ntraced = \"none\"");
    write(folder, "crowded.toml", &study);
    let cells = Cache::of_user().and_then(|cache| cache.folder("cells")).expect("the cache");
    // A disk with so many bytes for cells, which nobody else sees.
    let script = r#"mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@""#;
    let with_room = |bytes: &str, output: &str| {
        let lab = pocketstone(folder, &["run", "crowded.toml", "--output", output]);
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", script, "sh", bytes]).arg(&cells);
        run(unshare.current_dir(folder).arg(lab.get_program()).args(lab.get_args()))
    };
    let some = with_room("16k", "crowded").ends_with(4);
    some.says(&["1 failed", "cannot give `calls.bin` to the host", "hint: is the disk full"]);
    let none = with_room("4k", "full").ends_with(4);
    none.says(&["1 failed", "the board died: the disk with its folder", "is full", "hint: free some of it"]);
}

/// A lab with another cache would otherwise measure at the same time, and remove what this one is at work with.
#[test]
fn two_labs_on_this_machine_measure_one_after_the_other_whatever_caches_they_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    // It fails where another one is at work.
    let command = format!("mkdir {0} && sleep 0.3 && rmdir {0}", at("busy"));
    let begin = |name: &str| {
        let words = ["run", "--output", name, "--directory", &at("volume"), "--repetitions", "3"];
        let words = [&words[..], &["--set", "file_system=directory", "--", "sh", "-c", &command]].concat();
        let mut lab = pocketstone(folder.path(), &words);
        lab.env("POCKETSTONE_CACHE", at(&format!("cache-{name}"))).stdout(Stdio::null()).stderr(Stdio::piped());
        lab.spawn().expect("the lab")
    };
    fs::create_dir(folder.path().join("volume")).expect("a folder");
    for lab in ["one", "two"].map(begin) {
        let ended = lab.wait_with_output().expect("the lab ends");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}
