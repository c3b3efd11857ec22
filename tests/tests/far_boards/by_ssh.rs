//! Boards that ssh reaches, with the real ssh and sshd: a ProxyCommand is the whole network.

use super::quiet;
use pocketstone_testing::wait::until;
use pocketstone_testing::{Need, Skip, installed, or_skip, program, root, say};
use pocketstone_tests::command::{Process, Ran, binary, lab, pocketstone, run, write};
use pocketstone_tests::network::Network;
use pocketstone_tests::project;
use pocketstone_tests::results;
use pocketstone_tests::small_study::{Database, are_alike, files, study};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// OpenSSH's server: the machine's own, else the one that was fetched, with its libraries and a user for it that nobody
/// else sees.
fn server(folder: &Path) -> Result<PathBuf, Skip> {
    if let Some(installed) = installed("sshd") {
        return Ok(installed);
    }
    let fetched = project().join(".cache/sshd");
    if !fetched.is_dir() {
        return Err(Need::Programs.lacks("there is no sshd: scripts/ssh-servers"));
    }
    let fetched = fs::canonicalize(fetched).expect("its path");
    let passwd = fs::read_to_string("/etc/passwd").expect("the users");
    write(folder, "passwd", &format!("{passwd}sshd:x:65534:65534::/run/sshd:/usr/sbin/nologin\n"));
    let (at, fetched) = (folder.display(), fetched.display());
    let serve = format!("exec env LD_LIBRARY_PATH={fetched}/lib {fetched}/sshd \"$@\"");
    let script = match rustix::process::geteuid().is_root() {
        true => format!("exec unshare --mount sh -c 'mount --bind {at}/passwd /etc/passwd && {serve}' sshd \"$@\"\n"),
        false => format!("{serve}\n"),
    };
    write(folder, "sshd", &format!("#!/bin/sh\n{script}"));
    let path = folder.join("sshd");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    Ok(path)
}

/// A folder with a profile `far.toml` of a board that is this machine, reached by ssh.
struct Far {
    home: TempDir,
    /// Holds its network, so that boards of other tests are other machines; where this user may make one.
    _network: Option<Network>,
}

impl Far {
    fn new() -> Result<Far, Skip> {
        let keygen = program("ssh-keygen", "openssh-client")?;
        // Its own folder, which it wants when it is root's.
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").expect("a folder for sshd");
        }
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path();
        let sshd = server(folder)?;
        for name in ["host_key", "key"] {
            let made =
                Command::new(&keygen).args(["-q", "-t", "ed25519", "-N", "", "-f", name]).current_dir(folder).status();
            assert!(made.expect("ssh-keygen runs").success());
        }
        let at = folder.display();
        let public = fs::read_to_string(folder.join("host_key.pub")).expect("a key");
        write(folder, "known", &format!("board {public}"));
        write(
            folder,
            "sshd.config",
            &format!(
                "HostKey {at}/host_key\nAuthorizedKeysFile {at}/key.pub\nStrictModes no\nUsePAM no\nPidFile none\n\
                 SetEnv TMPDIR={at}\n"
            ),
        );
        let user = String::from_utf8(Command::new("id").arg("-un").output().expect("id").stdout).expect("a name");
        let network = rustix::process::geteuid().is_root().then(Network::new);
        let enter = network.as_ref().map(|network| format!("{} ", network.enter()));
        let enter = enter.unwrap_or_default();
        let proxy = format!("{enter}{} -i -f {at}/sshd.config -E {at}/sshd.log", sshd.display());
        write(
            folder,
            "ssh.config",
            &format!(
                "Host board\n  User {}\n  HostKeyAlias board\n  IdentityFile {at}/key\n  IdentitiesOnly yes\n  \
                 UserKnownHostsFile {at}/known\n  ProxyCommand {proxy}\n",
                user.trim()
            ),
        );
        let far = Far { home, _network: network };
        far.profile("far.toml", &far.folder());
        Ok(far)
    }

    fn profile(&self, name: &str, folder: &Path) {
        let (config, folder) = (self.path().join("ssh.config"), folder.display());
        let options = format!("options = [\"-F\", \"{}\"]", config.display());
        write(self.path(), name, &format!("kind = \"ssh\"\nhost = \"board\"\n{options}\nfolder = \"{folder}\"\n"));
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    /// The runner's folder on the board.
    fn folder(&self) -> PathBuf {
        self.path().join("remote")
    }

    fn lab(&self, arguments: &[&str]) -> Ran {
        lab(self.path(), arguments)
    }

    /// A run that goes on meanwhile.
    fn begin(&self, arguments: &[&str]) -> Child {
        let mut begun = pocketstone(self.path(), arguments);
        begun.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the lab runs")
    }

    /// The processes of the board: all whose folder, program or files are in its own.
    fn processes(&self) -> Vec<Process> {
        Process::within(&self.folder())
    }

    fn sleeping(&self) -> Option<Process> {
        self.processes().into_iter().find(|process| process.name == "sleep")
    }
}

/// Which attempt at each cell counts, and what came of it.
pub const ATTEMPTS: &str =
    "SELECT group_concat(coalesce(outcome ->> '$.facts.\"board.attempt\"', '1') || ' ' || status) FROM cell";

#[test]
fn a_board_by_ssh_measures_what_this_machine_does() {
    let far = or_skip!(Far::new());
    let database = Database { engines: &["sqlite", "redb"], ..Database::default() };
    write(far.path(), "study.toml", &study(&[files("tmpfs", "each"), database.experiment()]));
    far.lab(&["run", "study.toml", "--output", "here"]).ends_with(0);
    let said = far.lab(&["run", "study.toml", "--board", "./far.toml", "--output", "there"]).ends_with(0);
    said.says(&["measured on the board far"]);
    are_alike(far.path(), ["here", "there"]);
    let value = |run: &str, sql: &str| results::value::<String>(&far.path().join(run), sql);
    assert_eq!(value("there", "SELECT value FROM run WHERE name = 'fact.board.name'"), "far");
    // The runner is there once, for nobody else, and nothing of the cells is left.
    let left: Vec<String> =
        fs::read_dir(far.folder().join("volume")).unwrap().flatten().map(|e| format!("{e:?}")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(fs::metadata(far.folder()).unwrap().permissions().mode() & 0o777, 0o700);
    let runners = || -> Vec<PathBuf> {
        let all = fs::read_dir(far.folder()).unwrap().flatten().map(|entry| entry.path());
        all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("runner-")).collect()
    };
    assert_eq!(runners().len(), 1);
    until("the runner has ended", || far.processes().is_empty());

    // One that is damaged is put there again, and an old one is removed.
    let [runner] = &runners()[..] else { panic!("one runner") };
    fs::remove_file(runner).unwrap();
    fs::write(runner, "damaged").unwrap();
    fs::write(far.folder().join("runner-old"), "old").unwrap();
    far.lab(&["board", "exec", "./far.toml", "echo", "it works"]).ends_with(0).says(&["it works"]);
    assert_eq!(&runners()[..], std::slice::from_ref(runner));
    assert!(fs::metadata(runner).unwrap().len() > 100_000);
}

#[test]
fn a_board_that_is_lost_is_tried_again_and_nothing_is_left_running() {
    let far = or_skip!(Far::new());
    let attempts = |run: &str| results::value::<String>(&far.path().join(run), ATTEMPTS);
    let command = ["--board", "./far.toml", "--repetitions", "1", "--set", "file_system=tmpfs", "--"];
    // Each program waits for a word, so that no time is that of a guess; what it has started would go on without it.
    let go = far.path().join("go");
    let line = format!("sleep 1000 & until test -e {}; do sleep 0.05; done; kill $!", go.display());
    let begun = |output: &str| far.begin(&[&["run", "--output", output], &command[..], &["sh", "-c", &line]].concat());
    let ends = |mut lab: Child| {
        write(far.path(), "go", "");
        assert!(lab.wait().expect("it ends").success());
        fs::remove_file(&go).expect("it is there");
    };
    let of_the_program = |process: &Process| ["sh", "sleep"].contains(&&*process.name);
    let running = || far.processes().into_iter().filter(of_the_program).collect::<Vec<_>>();
    let await_program = || until("the program and what it has started run", || running().len() >= 2);
    // The client, and then the runner, is killed in the middle of a cell.
    for (output, victim) in [("client", "ssh"), ("runner", "runner-")] {
        let child = begun(output);
        await_program();
        let program = running();
        let of = |process: &Process| match victim {
            "ssh" => process.name == "ssh",
            name => process.name.starts_with(name),
        };
        let all = match victim {
            "ssh" => Process::descendants(child.id()),
            _ => far.processes(),
        };
        let victims: Vec<Process> = all.into_iter().filter(of).collect();
        assert!(!victims.is_empty());
        for process in &victims {
            process.signal(Signal::KILL);
        }
        until("all of the lost attempt has ended", || !program.iter().any(Process::runs));
        ends(child);
        // The plain cell was lost and tried again; its traced twin was not.
        assert_eq!(attempts(output), "2 done,1 done", "{output}");
    }

    // The client is killed while the runner cannot hear of it: the next one waits until it does.
    let child = begun("stopped");
    await_program();
    let runners: Vec<Process> = far.processes().into_iter().filter(|p| p.name.starts_with("runner-")).collect();
    runners.iter().for_each(|runner| runner.signal(Signal::STOP));
    let clients = |pid: u32| Process::descendants(pid).into_iter().filter(|p| p.name == "ssh").collect::<Vec<_>>();
    clients(child.id()).iter().for_each(|client| client.signal(Signal::KILL));
    let all = || far.processes().iter().filter(|p| p.name.starts_with("runner-")).count();
    until("the next runner waits", || all() > runners.len());
    std::thread::sleep(std::time::Duration::from_secs(1));
    runners.iter().for_each(|runner| runner.signal(Signal::CONT));
    ends(child);
    assert_eq!(attempts("stopped"), "2 done,1 done");

    // The lab is killed: the end of its input is enough for the runner.
    let mut child = begun("killed");
    await_program();
    // Meanwhile the board is nobody else's.
    let other = far.lab(&["board", "exec", "./far.toml", "true"]);
    other.ends_with(4).complains(&["another lab is at work"]);
    child.kill().unwrap();
    child.wait().unwrap();
    until("the board is quiet", || far.processes().is_empty());
    // What was measured before is not lost, and the run goes on.
    let resumed = far.lab(&["run", "--resume", "killed", "--dry-run"]).ends_with(0);
    resumed.says(&["sleep 1000"]);
}

#[test]
fn what_a_user_has_set_for_sessions_by_hand_does_not_reach_the_labs() {
    let far = or_skip!(Far::new());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = fs::read_to_string(far.path().join("ssh.config")).expect("the configuration");
    let forward = format!("LocalForward {} localhost:1", taken.local_addr().expect("its address"));
    let by_hand = format!("  {forward}\n  ExitOnForwardFailure yes\n  RemoteCommand tmux\n  RequestTTY yes\n");
    // What older clients do not know does not keep them from reading the rest.
    let newer = "  IgnoreUnknown StdinNull,SessionType\n  StdinNull yes\n  SessionType none\n";
    write(far.path(), "ssh.config", &(config + &by_hand + newer));
    far.lab(&["board", "exec", "./far.toml", "echo", "it works"]).ends_with(0).says(&["it works"]);
}

/// The board goes away in the middle of a cell and does not come back: that says nothing about the cell.
#[test]
#[ignore = "waits for a lost board: make torture"]
fn a_board_that_is_lost_for_good_ends_the_run_which_goes_on_when_it_is_back() {
    let far = or_skip!(Far::new());
    let arguments = "run --output lost --board ./far.toml --repetitions 1 --set file_system=tmpfs -- sleep 2";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let child = pocketstone(far.path(), &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the program runs", || far.sleeping().is_some());
    fs::rename(far.path().join("host_key"), far.path().join("hidden")).unwrap();
    let clients = Process::descendants(child.id());
    clients.iter().filter(|p| p.name == "ssh").for_each(|client| client.signal(Signal::KILL));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("run --resume lost"), "{said}");
    let statuses = || -> String {
        results::value(&far.path().join("lost"), "SELECT group_concat(traced || ' ' || status) FROM cell")
    };
    assert_eq!(statuses(), "0 lost");
    fs::rename(far.path().join("hidden"), far.path().join("host_key")).unwrap();
    far.lab(&["run", "--resume", "lost"]).ends_with(0);
    assert_eq!(statuses(), "0 done,1 done");
}

/// What the way there and back adds to a cell, of 25 cells each, in turns.
#[test]
#[ignore = "measures times: make torture"]
fn a_cell_by_ssh_takes_at_most_20_ms_more_than_one_here() {
    let _quiet = quiet();
    let far = or_skip!(Far::new());
    let small = files("directory", "none").replace("traced =", "repetitions = 25\ntraced =");
    write(far.path(), "study.toml", &study(&[small]));
    let median = |output: &str| -> f64 {
        let sql = "SELECT avg(host_ms) FROM (SELECT host_ms FROM cell ORDER BY host_ms LIMIT 1 OFFSET 12)";
        results::value(&far.path().join(output), sql)
    };
    let more: Vec<f64> = (0..3)
        .map(|turn| {
            let (here, there) = (format!("here{turn}"), format!("there{turn}"));
            far.lab(&["run", "study.toml", "--output", &here]).ends_with(0);
            far.lab(&["run", "study.toml", "--board", "./far.toml", "--output", &there]).ends_with(0);
            median(&there) - median(&here)
        })
        .collect();
    say(&format!("a cell by ssh takes so many ms more than one here (medians of 25, three turns): {more:.1?}"));
    // Whatever else the machine does can only make it longer.
    assert!(more.iter().any(|ms| *ms <= 20.0), "{more:?}");
}

#[test]
fn a_board_that_cannot_be_used_says_why_and_what_would_help() {
    let far = or_skip!(Far::new());
    let exec = |profile: &str| far.lab(&["board", "exec", profile, "true"]);
    far.profile("relative.toml", Path::new("somewhere"));
    exec("./relative.toml").ends_with(1).complains(&["`folder`", "from its root"]);
    far.profile("shell.toml", Path::new("/tmp/a b; rm x"));
    exec("./shell.toml").ends_with(1).complains(&["`folder`", "letters"]);
    far.profile("full.toml", Path::new("/proc/none"));
    exec("./full.toml").ends_with(4).complains(&["/proc/none", "`folder`"]);
    write(far.path(), "unknown.toml", "kind = \"ssh\"\nhost = \"board\"\nhots = 1\n");
    exec("./unknown.toml").ends_with(1).complains(&["hots"]);
    write(far.path(), "option.toml", "kind = \"ssh\"\nhost = \"-oProxyCommand=true\"\n");
    exec("./option.toml").ends_with(1).complains(&["`host`", "`options`"]);
    // A folder that others may write to, and a link.
    let (open, link) = (far.path().join("open"), far.path().join("link"));
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink(far.path(), &link).unwrap();
    for folder in [open, link] {
        far.profile("others.toml", &folder);
        exec("./others.toml").ends_with(4).complains(&["others may write to it", "`folder`"]);
    }
    // Words that a shell would take apart.
    far.profile("become.toml", &far.folder());
    let profile = fs::read_to_string(far.path().join("become.toml")).unwrap();
    write(far.path(), "become.toml", &format!("{profile}become = [\"env\", \"WORDS=a b; 'c'\"]\n"));
    let said = far.lab(&["board", "exec", "./become.toml", "printenv", "WORDS"]);
    said.ends_with(0).says(&["a b; 'c'"]);
    // Another host key than that which is known.
    write(
        far.path(),
        "known",
        &fs::read_to_string(far.path().join("key.pub")).map(|key| format!("board {key}")).unwrap(),
    );
    exec("./far.toml").ends_with(4).complains(&[
        "cannot reach board",
        "try it by hand: ssh -F ",
        "ssh.config board true",
    ]);
}

/// A file system in memory, until this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn with(options: &str, at: PathBuf) -> Mounted {
        fs::create_dir(&at).expect("a folder");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&at)).ends_with(0);
        Mounted(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_folder_in_which_no_runner_can_be_says_what_is_wrong_with_it() {
    or_skip!(root());
    let far = or_skip!(Far::new());
    for (name, options, words) in [
        ("still", "mode=700,noexec", &["the runner does not run in", "noexec", "`folder`"][..]),
        ("fixed", "mode=700,ro", &["must be writable and have", "`folder`"]),
        ("small", "mode=700,size=64k", &["MB left", "`folder`"]),
    ] {
        let mounted = Mounted::with(options, far.path().join(name));
        far.profile("folder.toml", &mounted.0);
        far.lab(&["board", "exec", "./folder.toml", "true"]).ends_with(4).complains(words);
        // Nothing of the runner is left where it had no room.
        let left = fs::read_dir(&mounted.0).unwrap().flatten().filter(|entry| entry.metadata().unwrap().len() > 0);
        // One that may not be run there does not mean that another one would be.
        assert_eq!(left.count(), usize::from(name == "still"), "{name}");
    }
}

#[test]
fn a_runner_has_the_room_of_the_one_before() {
    or_skip!(root());
    let far = or_skip!(Far::new());
    let runner = binary().with_file_name("pocketstone-runner");
    let mb = fs::metadata(runner).expect("the runner").len().div_ceil(1 << 20);
    let mounted = Mounted::with(&format!("mode=700,size={}m", mb * 3 / 2), far.path().join("small"));
    fs::write(mounted.0.join("runner-old"), vec![1; (mb as usize) << 20]).expect("an old runner");
    far.profile("small.toml", &mounted.0);
    far.lab(&["board", "exec", "./small.toml", "true"]).ends_with(0);
}

/// As where an administrator has made it for the lab.
#[test]
fn a_folder_in_one_that_the_user_may_not_write_to_is_enough() {
    or_skip!(root());
    or_skip!(program("setpriv", "util-linux"));
    let (network, home) = (Network::new(), tempfile::tempdir().expect("a folder"));
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let folder = home.path().join("lab");
    fs::create_dir(&folder).expect("a folder");
    std::os::unix::fs::chown(&folder, Some(4242), Some(4242)).expect("its owner");
    let enter = format!("{} setpriv --reuid 4242 --regid 4242 --clear-groups", network.enter());
    let words: Vec<String> = enter.split(' ').map(|word| format!("\"{word}\"")).collect();
    let (words, folder) = (words.join(", "), folder.display());
    write(home.path(), "own.toml", &format!("kind = \"command\"\ncommand = [{words}]\nfolder = \"{folder}\"\n"));
    lab(home.path(), &["board", "exec", "./own.toml", "id", "-u"]).ends_with(0).says(&["4242"]);
}

#[test]
fn a_board_is_added_by_what_it_can() {
    let far = or_skip!(Far::new());
    let config = far.path().join("config");
    let own = |arguments: &[&str]| run(pocketstone(far.path(), arguments).env("XDG_CONFIG_HOME", &config));
    let (option, folder) = (format!("--ssh-option={}", far.path().join("ssh.config").display()), far.folder());
    let add =
        ["board", "add", "mine", "--ssh", "board", "--ssh-option=-F", &option, "--folder", folder.to_str().unwrap()];
    own(&add).ends_with(0).says(&["kernel.release", "directory", "sqlite", "mine.toml"]);
    own(&add).ends_with(1).complains(&["there is a board `mine` already", "--force"]);
    own(&["board", "list"]).ends_with(0).says(&["virt-nand", "mine", "ssh"]);
    own(&["board", "exec", "mine", "uname"]).ends_with(0).says(&["Linux"]);
    own(&["board", "doctor", "mine"]).ends_with(0).says(&["volumes", "databases"]);
    own(&["board", "add", "box", "--command", " "]).ends_with(1).complains(&["--command is \" \""]);
    let add = ["board", "add", "box", "--command", "docker exec 'a b'"];
    own(&add).ends_with(1).complains(&["written into the profile"]);
    let (network, home) = (Network::new(), far.path().join("box"));
    let add = ["board", "add", "box", "--command", &network.enter(), "--folder", home.to_str().unwrap()];
    own(&add).ends_with(0).says(&["by command", "box.toml"]);
    own(&["board", "add", "virt-nand", "--ssh", "board"]).ends_with(1).complains(&["already"]);
    own(&["board", "add", "a/b", "--ssh", "board"]).ends_with(1).complains(&["no name"]);
    own(&["board", "add", "none", "--ssh", "no-such-host.invalid"]).ends_with(4).complains(&["cannot reach"]);
    let kept: Vec<_> =
        fs::read_dir(config.join("pocketstone/boards")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(kept.len() == 2 && ["box.toml", "mine.toml"].iter().all(|name| kept.iter().any(|k| k == name)), "{kept:?}");
}
