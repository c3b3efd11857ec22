//! What can go wrong around a database's trial: its engine is killed, the lab is killed while the machine's
//! settings are changed, the volume is full, another program holds the database's folder.

use pocketstone_testing::Need;
use pocketstone_testing::wait::LONG;
use pocketstone_tests::command::{Process, lab, pocketstone, poll, ran, write};
use pocketstone_tests::results::value;
use rustix::process::{Pid, Signal};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Until a run is at work.
const LIMIT: Duration = Duration::from_secs(300);

/// A process below `lab` whose command line has all these words.
fn below(lab: u32, words: &[&str]) -> Option<u32> {
    let found = Process::descendants(lab).into_iter().find(|p| {
        let line = fs::read(format!("/proc/{}/cmdline", p.pid)).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        words.iter().all(|word| line.split('\0').any(|part| part == *word))
    });
    found.map(|p| p.pid)
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid as i32).expect("a process number");
    rustix::process::kill_process(pid, Signal::KILL).expect("a process of ours");
}

#[test]
fn an_engine_that_is_killed_fails_its_trial_alone() {
    let home = tempfile::tempdir().unwrap();
    let study = "title = 't'\nboard = 'host'\n[[experiment]]\nname = 'e'\ntraced = 'none'\n[experiment.factors]\n\
                 file_system = 'directory'\nworkload = 'ycsb-c'\nrecords = 20\noperations = 400\n\
                 delay = ['20ms', 'none']\n";
    write(home.path(), "study.toml", study);
    let mut command = pocketstone(home.path(), &["run", "study.toml", "--output", "out"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The process that measures, when it has its database open. The first cell takes 8 s.
    let measuring = || {
        let pid = below(child.id(), &["database"])?;
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let task = fs::read(line.split('\0').find(|word| word.ends_with("task.json"))?).ok()?;
        let task: serde_json::Value = serde_json::from_slice(&task).ok()?;
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let mut open = files.flatten().filter_map(|f| fs::read_link(f.path()).ok());
        (task["work"] == "measure" && open.any(|f| f.ends_with("data.sqlite"))).then_some(pid)
    };
    // Twice the same half a second apart: it is in the middle of its operations.
    let engine = poll(LIMIT, || {
        let pid = measuring()?;
        std::thread::sleep(Duration::from_millis(500));
        (measuring() == Some(pid)).then_some(pid)
    });
    kill(engine.expect("an engine at work"));
    let output = child.wait_with_output().unwrap();
    ran("the lab".into(), &output).ends_with(4).says(&["failed", "signal"]);
    let results = home.path().join("out");
    assert_eq!(value::<i64>(&results, "SELECT count(*) FROM cells WHERE status = 'failed' AND delay = '20ms'"), 1);
    assert_eq!(value::<i64>(&results, "SELECT count(*) FROM cells WHERE status = 'done' AND delay = 'none'"), 1);
    assert_eq!(value::<i64>(&results, "SELECT count(*) FROM summary WHERE delay = '20ms'"), 0);
    // What failed is measured when the run is taken up again.
    lab(home.path(), &["run", "--resume", "out"]).ends_with(0);
    assert_eq!(value::<i64>(&results, "SELECT count(*) FROM cells WHERE status = 'done'"), 2);
}

/// The read-ahead setting of the device that a folder is on, where it may be changed.
fn read_ahead_of(folder: &Path) -> Option<PathBuf> {
    let device = fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = PathBuf::from(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"));
    (rustix::process::geteuid().is_root() && file.exists()).then_some(file)
}

#[test]
fn settings_are_put_back_when_the_lab_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let Some(file) = read_ahead_of(home.path()) else {
        let why = "read-ahead of the temporary folder's device cannot be set: it needs root and a block device";
        return Need::Kernel.lacks(why).end();
    };
    let value = || fs::read_to_string(&file).unwrap().trim().to_owned();
    let before = value();
    let other = if before == "64" { "32" } else { "64" };
    let study = format!(
        "title = 't'\nboard = 'host'\n[[experiment]]\nname = 'e'\ntraced = 'none'\n[experiment.factors]\n\
         file_system = 'directory'\nworkload = 'contacts'\nfield_bytes = 64\noperations = 400\ndelay = '50ms'\n\
         page_cache = 'cold'\nread_ahead_bytes = '{other}KiB'\n"
    );
    write(home.path(), "study.toml", &study);
    let directory = home.path().join("cells");
    let mut command =
        pocketstone(home.path(), &["run", "study.toml", "--output", "out", "--directory", directory.to_str().unwrap()]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let set = poll(LIMIT, || (value() == other).then_some(()));
    let began = Process::descendants(child.id());
    kill(child.id());
    child.wait().unwrap();
    assert!(set.is_some(), "read-ahead was never set");
    let back = poll(LONG, || (value() == before).then_some(()));
    assert!(back.is_some(), "{} is {}, and was {before}", file.display(), value());
    let ended = poll(LONG, || began.iter().all(|p| !p.runs()).then_some(()));
    assert!(ended.is_some(), "{began:?} live on");
}
