//! A board that has a shell, three programs and a kernel, reached by ssh over a cable: what it measures, the cable
//! pulled in the middle of a cell, and whoever takes part killed at any moment.

use pocketstone_random::Random;
use pocketstone_testing::wait::{poll, until};
use pocketstone_testing::{amount, or_skip, say, seed};
use pocketstone_tests::command::{Process, changed, lab, run, write};
use pocketstone_tests::context;
use pocketstone_tests::poor_board::{GOVERNOR, PoorBoards};
use pocketstone_tests::results::{finished, value};
use pocketstone_tests::small_study::{Database, are_alike, files, study};
use rustix::process::Signal;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a cell sets on the board while it is measured.
const SET: &str = "performance";
/// How soon a board that is lost must be noticed on both sides of the cable.
const NOTICED: Duration = Duration::from_secs(35);
/// Between operations of a database.
const DELAY: Duration = Duration::from_millis(100);

/// A study whose cells with a database take long and set the governor.
fn study_with_settings(repetitions: u32, operations: u32) -> String {
    let more = [("delay", &*format!("{}ms", DELAY.as_millis())), ("governor", SET)];
    let database = Database { operations, repetitions, more: &more, ..Database::default() };
    study(&[files("directory", "none"), database.experiment()])
}

/// Where runners note what is to be put back.
const NOTES: &str = "var/tmp/pocketstone-settings-0";

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// What runners have noted to put back and have not.
fn journals(root: &Path) -> Vec<String> {
    names(&root.join(NOTES)).into_iter().filter(|name| name.ends_with(".journal")).collect()
}

/// The lab's copies of journals that it does not know to be carried out. Those of other boards are other tests'.
fn copies(boards: &PoorBoards) -> Vec<PathBuf> {
    let settings = context().cache.folder("settings").expect("a folder");
    let at = boards.path().to_string_lossy();
    let of_these = |folder: &PathBuf| fs::read_to_string(folder.join("board")).is_ok_and(|board| board.contains(&*at));
    let folders = names(&settings).into_iter().map(|name| settings.join(name)).filter(of_these);
    let files = folders.flat_map(|folder| names(&folder).into_iter().map(move |name| folder.join(name)));
    files.filter(|file| !file.ends_with("board")).collect()
}

/// Has the profile set something by a command as well, which is to be undone by one. What was done is in `/setting`.
fn set_by_command(boards: &PoorBoards) {
    let by_command = |word: &str| format!("[\"sh\", \"-c\", \"echo {word} >> /setting\"]");
    let profile = fs::read_to_string(boards.path().join("board0.toml")).expect("the profile");
    let settings = format!("settings = [{{ set = {}, undo = {} }}]\n", by_command("set"), by_command("undone"));
    write(boards.path(), "board0.toml", &(profile + &settings));
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

fn clients(pid: u32) -> Vec<Process> {
    Process::descendants(pid).into_iter().filter(|process| process.name == "ssh" && !process.ended).collect()
}

#[test]
fn a_board_with_a_shell_and_little_else_measures_what_this_machine_does() {
    let boards = or_skip!(PoorBoards::new(1));
    write(boards.path(), "study.toml", &study(&[files("directory", "none"), Database::default().experiment()]));
    lab(boards.path(), &["run", "study.toml", "--output", "here"]).ends_with(0);
    let there = ["run", "study.toml", "--board", "./board0.toml", "--output", "there"];
    run(&mut boards.lab(&there)).ends_with(0).says(&["measured on the board board0"]);
    are_alike(boards.path(), ["here", "there"]);
    until("the board is quiet", || boards.board(0).processes().is_empty());
}

#[test]
#[ignore = "waits for a lost board: make torture"]
fn a_pulled_cable_is_noticed_on_both_sides_and_the_cell_is_tried_again() {
    let boards = or_skip!(PoorBoards::new(1));
    let board = boards.board(0);
    // As long as the lease and a bit: the board must not have come to the cell's end by itself.
    let operations = (NOTICED + Duration::from_secs(5)).div_duration_f64(DELAY) as u32;
    write(boards.path(), "study.toml", &study_with_settings(1, operations));
    let mut lab = boards.begin(&["run", "study.toml", "--board", "./board0.toml", "--output", "run"]);
    let results = boards.path().join("run");
    until("a cell is under way", || board.governor() == SET);
    let (before, near) = (finished(&results), clients(lab.id()));
    assert!(!near.is_empty() && !board.serving().is_empty());

    board.cable(false);
    let pulled = Instant::now();
    let mut noticed = [None, None];
    let both = poll(2 * NOTICED, || {
        let ended = [near.iter().all(|client| !client.runs()), board.processes().is_empty()];
        for (at, ended) in noticed.iter_mut().zip(ended) {
            *at = at.or(ended.then(|| pulled.elapsed()));
        }
        noticed.iter().all(Option::is_some).then_some(())
    });
    assert!(both.is_some(), "noticed by the lab and by the board after {noticed:?}");
    say(&format!("the pulled cable was noticed by the lab and by the board after {noticed:.1?}"));
    assert!(noticed.iter().flatten().all(|after| *after <= NOTICED), "{noticed:?}");
    assert_eq!(board.governor(), GOVERNOR);
    assert_eq!(journals(board.root()), [""; 0]);

    board.cable(true);
    let status = lab.wait().expect("the lab ends");
    let mut said = String::new();
    lab.stderr.take().expect("its errors").read_to_string(&mut said).expect("text");
    assert!(status.success(), "{said}");
    let attempts: String = value(
        &results,
        "SELECT group_concat(outcome ->> '$.facts.\"board.attempt\"') FROM cell WHERE experiment = 'database'",
    );
    // Until the board had noticed there was no cable for the second one.
    assert!(["2", "3"].contains(&&*attempts), "attempt {attempts}");
    let after = finished(&results);
    assert_eq!(after.len(), 2);
    assert!(before.iter().all(|(id, cell)| after.get(id) == Some(cell)), "a finished cell was lost");
    until("the board is quiet", || board.processes().is_empty());
    assert_eq!(board.governor(), GOVERNOR);
    // Both sides know that, and nothing is left of it.
    assert_eq!((names(&board.root().join(NOTES)), copies(&boards)), (Vec::new(), Vec::new()));
}

#[test]
fn the_lab_puts_back_what_a_board_has_set_that_lost_its_journal() {
    let boards = or_skip!(PoorBoards::new(1));
    let board = boards.board(0);
    write(boards.path(), "study.toml", &study_with_settings(1, 600));
    set_by_command(&boards);
    let setting = || fs::read_to_string(board.root().join("setting")).unwrap_or_default();
    let begin = |output: &str| {
        let lab = boards.begin(&["run", "study.toml", "--board", "./board0.toml", "--output", output]);
        until("a cell is under way", || board.governor() == SET);
        lab
    };
    let connect = || run(&mut boards.lab(&["board", "exec", "./board0.toml", "env"]));
    let call_it = |serial: &str| fs::write(board.root().join("etc/machine-id"), serial).expect("a serial number");
    call_it("3d1219c7c4c5404aaa1f6d2a48adfda4");

    // The board's processes end all at once, its watchdog too, and what it had on its disk is gone.
    let mut lab = begin("lost");
    let all = board.processes();
    [Signal::STOP, Signal::KILL].iter().for_each(|what| all.iter().for_each(|process| process.signal(*what)));
    lab.kill().expect("the lab is killed");
    lab.wait().expect("the lab ends");
    until("the board is quiet", || board.processes().is_empty());
    for folder in [NOTES, "var/tmp/pocketstone-runner"] {
        fs::remove_dir_all(board.root().join(folder)).expect("a folder of the board");
    }
    // The cell before it has undone its own.
    assert_eq!((board.governor().as_str(), setting().as_str()), (SET, "set\nundone\nset\n"));
    let left = copies(&boards);
    let [copy] = &left[..] else { panic!("one copy: {left:?}") };
    let lines = fs::read_to_string(copy).expect("a copy");
    assert_eq!(lines.lines().count(), 2, "the command, and the governor: {lines}");
    // What cannot be put back is said, with where it is noted.
    fs::write(copy, lines.replace("undone", "undone; exit 3")).expect("a copy");
    connect().ends_with(4).complains(&["are not put back", &name_of(copy), "exit 3", "by hand"]);
    fs::write(copy, lines).expect("a copy");
    // Another board at the same address is left alone, and the copy waits for the one that it is of.
    call_it("90127a3e5c5b4b0f8f5d1f0c6f1a2b3c");
    let before = setting();
    board.set_governor("powersave");
    connect().ends_with(0);
    assert_eq!((board.governor().as_str(), setting(), copies(&boards).len()), ("powersave", before, 1));
    call_it("3d1219c7c4c5404aaa1f6d2a48adfda4");
    connect().ends_with(0);
    assert_eq!((board.governor().as_str(), copies(&boards)), (GOVERNOR, Vec::new()));
    assert!(setting().ends_with("undone\n"), "{}", setting());
    until("nothing is left on the board", || names(&board.root().join(NOTES)).is_empty());

    // A board that has put everything back by itself is left alone, whatever was set there since.
    let mut lab = begin("killed");
    lab.kill().expect("the lab is killed");
    lab.wait().expect("the lab ends");
    until("the board is quiet", || board.processes().is_empty());
    assert_eq!((board.governor().as_str(), copies(&boards).len()), (GOVERNOR, 1));
    board.set_governor("powersave");
    let before = setting();
    connect().ends_with(0);
    assert_eq!((board.governor().as_str(), setting(), copies(&boards)), ("powersave", before, Vec::new()));
    until("nothing is left on the board", || names(&board.root().join(NOTES)).is_empty());
}

#[test]
fn a_board_that_is_exchanged_in_a_run_is_not_taken_for_the_one_before() {
    let boards = or_skip!(PoorBoards::new(1));
    let board = boards.board(0);
    write(boards.path(), "study.toml", &study_with_settings(1, 200));
    let call_it = |serial: &str| fs::write(board.root().join("etc/machine-id"), serial).expect("a serial number");
    call_it("3d1219c7c4c5404aaa1f6d2a48adfda4");
    let mut lab = boards.begin(&["run", "study.toml", "--board", "./board0.toml", "--output", "run"]);
    until("a cell is under way", || board.governor() == SET);
    call_it("90127a3e5c5b4b0f8f5d1f0c6f1a2b3c");
    clients(lab.id()).iter().for_each(Process::kill);
    assert_eq!(lab.wait().expect("the lab ends").code(), Some(4));
    let said: String = value(&boards.path().join("run"), "SELECT message FROM cell WHERE status = 'failed'");
    assert!(said.contains("another board answers"), "{said}");
    until("the board is quiet", || board.processes().is_empty());
}

#[test]
#[ignore = "undoes for longer than a board may be silent: make torture"]
fn what_takes_long_to_be_put_back_does_not_lock_the_board_out() {
    let boards = or_skip!(PoorBoards::new(1));
    let board = boards.board(0);
    write(boards.path(), "study.toml", &study_with_settings(1, 600));
    set_by_command(&boards);
    let profile = fs::read_to_string(boards.path().join("board0.toml")).expect("the profile");
    let slow = changed(&profile, "echo undone", "test -e /slow && sleep 40; echo undone");
    write(boards.path(), "board0.toml", &slow);
    let mut lab = boards.begin(&["run", "study.toml", "--board", "./board0.toml", "--output", "run"]);
    until("a cell is under way", || board.governor() == SET);
    let all = board.processes();
    [Signal::STOP, Signal::KILL].iter().for_each(|what| all.iter().for_each(|process| process.signal(*what)));
    lab.kill().expect("the lab is killed");
    lab.wait().expect("the lab ends");
    until("the board is quiet", || board.processes().is_empty());
    write(board.root(), "slow", "");
    // The lab has it put back, whose copy alone is left.
    fs::remove_dir_all(board.root().join(NOTES)).expect("a folder of the board");
    run(&mut boards.lab(&["board", "exec", "./board0.toml", "env"])).ends_with(0);
    let setting = fs::read_to_string(board.root().join("setting")).expect("what was done");
    assert!(setting.ends_with("set\nundone\n"), "{setting}");
    assert_eq!((board.governor().as_str(), copies(&boards)), (GOVERNOR, Vec::new()));
}

#[test]
fn whoever_is_killed_at_any_moment_no_finished_cell_is_lost_and_the_board_is_as_before() {
    let boards = or_skip!(PoorBoards::new(1));
    let board = boards.board(0);
    write(boards.path(), "study.toml", &study_with_settings(6, 5));
    // Beside the governor, which is a file.
    set_by_command(&boards);
    let setting = || fs::read_to_string(board.root().join("setting")).unwrap_or_default();
    let seed = seed(19);
    let mut random = Random::labelled(seed, "moments");
    // Of each kind.
    for moment in 0..3 * amount(1, 20) {
        let name = format!("moment{moment}");
        let (results, new) = (boards.path().join(&name), ["--board", "./board0.toml", "--output", &name]);
        let mut lab = boards.begin(&[&["run", "study.toml"], &new[..]].concat());
        // It may connect yet, or have measured everything.
        std::thread::sleep(Duration::from_millis(random.below(8000)));
        let before = finished(&results);
        let of_lab = moment % 3 == 0;
        match moment % 3 {
            0 => lab.kill().expect("the lab is killed"),
            1 => clients(lab.id()).iter().for_each(Process::kill),
            _ => board.serving().iter().for_each(Process::kill),
        }
        let done = lab.wait().expect("the lab ends").success();
        let what = format!("seed {seed}, {name}");
        until(&format!("the board is quiet: {what}"), || board.processes().is_empty());
        // Before the first cell there is nothing to go on with.
        let begun = results.join("results.sqlite").exists();
        match (done, begun) {
            (true, _) => {}
            (false, true) => drop(run(&mut boards.lab(&["run", "--resume", &name])).ends_with(0)),
            (false, false) => drop(run(&mut boards.lab(&[&["run", "study.toml"], &new[..]].concat())).ends_with(0)),
        }
        assert!(done || of_lab || !begun, "{what}: the lab did not go on by itself");
        let after = finished(&results);
        assert_eq!(after.len(), 7, "{what}");
        assert!(before.iter().all(|(id, cell)| after.get(id) == Some(cell)), "a finished cell was lost: {what}");
        until(&format!("the board is quiet at the end: {what}"), || board.processes().is_empty());
        assert_eq!(board.governor(), GOVERNOR, "{what}");
        assert_eq!(journals(board.root()), [""; 0], "{what}");
        assert_eq!(copies(&boards), Vec::<PathBuf>::new(), "{what}");
        assert!(setting().is_empty() || setting().ends_with("undone\n"), "{what}: {}", setting());
    }
    assert!(setting().matches("\nset\n").count() > 6, "{}", setting());
}
