//! Boards that a command reaches: this machine as if it were far away, in a network of its own.

use super::by_ssh::ATTEMPTS;
use pocketstone_testing::wait::until;
use pocketstone_testing::{or_skip, program, root};
use pocketstone_tests::command::{Process, lab, pocketstone, run, write};
use pocketstone_tests::network::Network;
use pocketstone_tests::results;
use pocketstone_tests::small_study::{Database, are_alike, files, study};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ONE_CELL: &str = "run --output a --board ./box.toml --repetitions 1 --set file_system=tmpfs";

/// A board by a command that is this machine in a network of its own, with more lines in its profile.
fn boxed(more: &str) -> (Network, TempDir) {
    let (network, home) = (Network::new(), tempfile::tempdir().expect("a folder"));
    let enter: Vec<String> = network.enter().split(' ').map(|word| format!("\"{word}\"")).collect();
    let (words, folder) = (enter.join(", "), home.path().join("remote"));
    let more = more.replace("HOME", &home.path().to_string_lossy());
    let text = format!("kind = \"command\"\ncommand = [{words}]\nfolder = \"{}\"\n{more}\n", folder.display());
    write(home.path(), "box.toml", &text);
    (network, home)
}

/// What a command reaches, and this machine as if it were far away: the same runner over the same frames.
#[test]
fn a_board_by_a_command_measures_what_this_machine_does_and_puts_back_what_a_killed_lab_has_set() {
    or_skip!(root());
    let (network, home) = boxed("");
    let at = home.path();
    let profile = |name: &str, words: &str| {
        let folder = at.join("remote");
        write(at, name, &format!("kind = \"command\"\ncommand = [{words}]\nfolder = \"{}\"\n", folder.display()));
    };
    profile("here.toml", "");
    let database = Database { engines: &["sqlite"], ..Database::default() };
    write(at, "study.toml", &study(&[files("tmpfs", "each"), database.experiment()]));
    lab(at, &["run", "study.toml", "--output", "host"]).ends_with(0);
    lab(at, &["run", "study.toml", "--board", "./box.toml", "--output", "box"]).ends_with(0);
    // In a network of its own, so that nobody else's board is this one.
    let mut inside = network.command(pocketstone(at, &[]).get_program().to_str().expect("a path"));
    let inside = inside.args(["run", "study.toml", "--board", "./here.toml", "--output", "here"]).current_dir(at);
    run(inside).ends_with(0);
    are_alike(at, ["host", "box"]);
    are_alike(at, ["host", "here"]);
    let value = |run: &str, name: &str| -> String {
        results::value(&at.join(run), &format!("SELECT value FROM run WHERE name = 'fact.board.{name}'"))
    };
    assert_eq!((value("here", "host"), value("box", "host")), ("this machine".into(), network.enter()));

    // A lab that is killed leaves its runner to put back what it has set.
    write(at, "set", "as it was");
    let text = fs::read_to_string(at.join("box.toml")).expect("the profile");
    let setting = format!("settings = [{{ file = \"{}\", value = \"measured\" }}]\n", at.join("set").display());
    write(at, "box.toml", &format!("{text}{setting}"));
    let now = || fs::read_to_string(at.join("set")).expect("what is set").trim_end().to_owned();
    let arguments: Vec<&str> = ONE_CELL.split(' ').chain(["--", "sleep", "1000"]).collect();
    let mut command = pocketstone(at, &arguments);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    until("it is set", || now() == "measured");
    child.kill().unwrap();
    child.wait().unwrap();
    until("it is put back", || now() == "as it was");

    // What cannot be reached says how it was tried.
    profile("none.toml", "\"no-such-program\", \"a b\"");
    let said = lab(at, &["board", "exec", "./none.toml", "true"]).ends_with(4);
    said.complains(&["cannot start no-such-program", "`command`"]);
    profile("false.toml", "\"false\", \"a b\"");
    let said = lab(at, &["board", "exec", "./false.toml", "true"]).ends_with(4);
    said.complains(&["cannot reach false 'a b'", "try it by hand: false 'a b' sh -c true"]);
}

/// Nobody waits for another lab's whole run, whose time is no cost of a cell, and a command by hand waits for nothing.
#[test]
fn a_lab_far_away_and_a_run_on_the_machine_itself_measure_in_turns_of_a_cell() {
    or_skip!(root());
    or_skip!(program("bash", "bash"));
    let (network, home) = (Network::new(), tempfile::tempdir().expect("a folder"));
    let at = home.path();
    let folder = at.join("remote");
    let profile = |name: &str, command: &str| {
        let text = format!("kind = \"command\"\ncommand = [{command}]\nfolder = \"{}\"\n", folder.display());
        write(at, &format!("{name}.toml"), &text);
    };
    profile("here", "");
    // What the board says to a lab is kept: without a terminal, the lab itself says only what lasts.
    for name in ["interrupted", "far"] {
        let keeps = format!("'\"$@\" | tee -a {}/{name}.told'", at.display());
        profile(name, &format!("\"bash\", \"-o\", \"pipefail\", \"-c\", {keeps}, \"-\""));
    }
    let inside = |words: &[&str]| {
        let mut command = network.command(pocketstone(at, &[]).get_program().to_str().expect("a path"));
        command.args(words).current_dir(at);
        command
    };
    let begin = |name: &str, board: &str, repetitions: &str, then: &str| {
        let own = format!("cd {}; echo {name} >> log; until test -e go; do sleep 0.02; done", at.display());
        let line = format!("{own}; {then}");
        let words = ["run", "--output", name, "--board", board, "--set", "file_system=tmpfs", "--repetitions"];
        let mut command = inside(&[&words[..], &[repetitions, "--", "sh", "-c", &line]].concat());
        let said = fs::File::create(at.join(format!("{name}.said"))).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().expect("it runs")
    };
    let text = |name: &str| String::from_utf8_lossy(&fs::read(at.join(name)).unwrap_or_default()).into_owned();
    // Once the far lab measures, one cell here takes long.
    let long = "if grep -q far log && mkdir long; then echo long >> log; sleep 4; fi";
    let mut here = begin("here", "host", "4", long);
    until("the machine is taken", || text("log") == "here\n");
    run(&mut inside(&["board", "exec", "./here.toml", "echo", "it works"])).ends_with(0).says(&["it works"]);
    let told = |words: &str| until(words, || text(words).contains("another run on that machine"));
    // Who is interrupted while it waits ends at once, and is not in the way of the next lab.
    let mut interrupted = begin("interrupted", "./interrupted.toml", "4", "true");
    told("interrupted.told");
    let asked = Instant::now();
    Process::of(interrupted.id()).expect("it runs").signal(Signal::INT);
    assert_eq!(interrupted.wait().expect("it ends").code(), Some(130), "{}", text("interrupted.said"));
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    // On a busy machine a lab may have several turns before the other one asks for one.
    let mut far = begin("far", "./far.toml", "30", "true");
    told("far.told");
    assert_eq!(text("log"), "here\n");
    write(at, "go", "");
    assert!(here.wait().expect("it ends").success(), "{}", text("here.said"));
    assert!(far.wait().expect("it ends").success(), "{}", text("far.said"));
    let log = text("log");
    assert!(log.find("far") < log.rfind("here"), "the far lab waited for the whole run: {log}");
    assert!(log.find("long") < log.rfind("far"), "no cell of the far lab waited for the long one: {log}");
    let most_ms: f64 = results::value(&at.join("far"), "SELECT max(host_ms) FROM cell");
    assert!(at.join("long").exists() && most_ms < 3000.0, "{most_ms}");
}

#[test]
fn a_setting_that_cannot_be_undone_fails_its_cell_and_keeps_the_next_one_from_being_measured() {
    or_skip!(root());
    let (_network, home) = boxed("settings = [{ set = [\"touch\", \"HOME/set\"], undo = [\"rm\", \"HOME/none\"] }]");
    let arguments: Vec<&str> = ONE_CELL.split(' ').chain(["--", "true"]).collect();
    let said = lab(home.path(), &arguments).ends_with(4);
    said.says(&["cannot put back what", "HOME/none".replace("HOME", &home.path().to_string_lossy()).as_str()]);
    assert!(home.path().join("set").exists());
    let failed = "SELECT count(*) FROM cell WHERE status = 'failed'";
    assert_eq!(results::value::<u32>(&home.path().join("a"), failed), 2);
    // It is undone as soon as it can be.
    write(home.path(), "none", "");
    lab(home.path(), &["board", "exec", "./box.toml", "true"]).ends_with(0);
    assert!(!home.path().join("none").exists());
}

#[test]
#[ignore = "waits for a board to be ready: make torture"]
fn a_cell_waits_until_the_board_is_ready() {
    or_skip!(root());
    let (_network, home) = boxed("ready = \"test -e HOME/cool\"");
    let arguments: Vec<&str> = ONE_CELL.split(' ').chain(["--", "touch", "ran"]).collect();
    let said = home.path().join("said");
    let mut command = pocketstone(home.path(), &arguments);
    let mut child = command.stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
    until("the lab waits", || fs::read_to_string(&said).unwrap().contains("not ready: test -e "));
    let done = || results::value::<u32>(&home.path().join("a"), "SELECT count(*) FROM cell WHERE status = 'done'");
    assert_eq!(done(), 0, "the board is not ready");
    write(home.path(), "cool", "");
    assert!(child.wait().unwrap().success());
    assert_eq!(done(), 2);
}

#[test]
#[ignore = "waits for a lost board: make torture"]
fn a_board_that_is_lost_twice_is_turned_off_and_on_by_the_command_of_its_profile() {
    or_skip!(root());
    or_skip!(program("pkill", "procps"));
    // As where the runner's folder is in memory, it is gone afterwards.
    let (_network, home) = boxed("power_cycle = [\"sh\", \"-c\", \"touch HOME/turned; rm -rf HOME/remote\"]");
    // The program kills its runner, until the power was turned off and on.
    let program =
        "#!/bin/sh\ntest -e HOME/turned && exit 0\necho x >> HOME/lost\npkill -9 -f HOME/remote/runner-\nsleep 100\n";
    write(home.path(), "program", &program.replace("HOME", &home.path().to_string_lossy()));
    fs::set_permissions(home.path().join("program"), fs::Permissions::from_mode(0o755)).unwrap();
    let program = home.path().join("program").to_string_lossy().into_owned();
    let arguments: Vec<&str> = ONE_CELL.split(' ').chain(["--", &program]).collect();
    lab(home.path(), &arguments).ends_with(0);
    assert_eq!(fs::read_to_string(home.path().join("lost")).unwrap(), "x\nx\n");
    assert_eq!(results::value::<String>(&home.path().join("a"), ATTEMPTS), "3 done,1 done");
}
