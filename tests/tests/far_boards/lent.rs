//! Boards that are shared: several equal ones that share a study's cells, and one that a lab of labgrid lends.

use pocketstone_testing::wait::{poll, until};
use pocketstone_testing::{Need, Skip, or_skip};
use pocketstone_tests::command::{Process, Ran, run, write};
use pocketstone_tests::poor_board::PoorBoards;
use pocketstone_tests::small_study::{Database, study};
use pocketstone_tests::{project, results};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const COORDINATOR: &str = "127.0.0.1:20408";
/// The place that the first board is in labgrid.
const PLACE: &str = "b1";

/// Cells of which each takes about so many tenths of a second.
fn cells(repetitions: u32, operations: u32) -> String {
    let database = Database { operations, repetitions, more: &[("delay", "100ms")], ..Database::default() };
    study(&[database.experiment()])
}

/// How many cells each board has measured, by its name.
fn shares(results: &Path) -> Vec<(String, u32)> {
    let Ok(db) = results::begun(results) else { return Vec::new() };
    let sql =
        "SELECT outcome ->> '$.facts.\"board.name\"' AS board, count(*) FROM cell WHERE status = 'done' GROUP BY 1";
    let Ok(mut query) = db.prepare(sql) else { return Vec::new() };
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.map(|rows| rows.map(|row| row.expect("a share")).collect()).unwrap_or_default()
}

fn ends_well(mut lab: Child) -> String {
    let status = lab.wait().expect("the lab ends");
    let mut said = String::new();
    lab.stderr.take().expect("its errors").read_to_string(&mut said).expect("text");
    assert!(status.success(), "{said}");
    said
}

fn kill_clients(pid: u32) {
    for client in Process::descendants(pid).iter().filter(|process| process.name == "ssh") {
        run(Command::new("kill").args(["-9", &client.pid.to_string()]));
    }
}

#[test]
#[ignore = "waits for lost boards: make torture"]
fn boards_of_a_pool_share_the_cells_and_go_on_without_one_that_is_lost() {
    let boards = or_skip!(PoorBoards::new(2));
    write(boards.path(), "pool.toml", "kind = \"pool\"\nboards = [\"board0\", \"board1\"]\n");
    write(boards.path(), "study.toml", &cells(6, 5));
    let words = ["run", "study.toml", "--board", "./pool.toml", "--output"];
    ends_well(boards.begin(&[&words[..], &["both"]].concat()));
    let both = shares(&boards.path().join("both"));
    let names: Vec<&str> = both.iter().map(|(name, _)| &**name).collect();
    assert_eq!((names, both.iter().map(|(_, cells)| cells).sum()), (vec!["board0", "board1"], 6));
    let digests = "SELECT count(DISTINCT outcome ->> '$.database.digest') || ' ' || count(DISTINCT seed) FROM cell";
    assert_eq!(results::value::<String>(&boards.path().join("both"), digests), "6 6");

    write(boards.path(), "long.toml", &cells(8, 20));
    let lab = boards.begin(&["run", "long.toml", "--board", "./pool.toml", "--output", "one"]);
    let results = boards.path().join("one");
    until("both have measured", || shares(&results).len() == 2);
    boards.board(1).cable(false);
    // Else it is noticed half a minute later.
    kill_clients(lab.id());
    ends_well(lab);
    let one = shares(&results);
    assert_eq!(one.iter().map(|(_, cells)| cells).sum::<u32>(), 8);
    assert!(one[0].1 > one[1].1, "{one:?}");
    // The one that the lost board had, and perhaps one that only lost its connection.
    let again = "SELECT count(*) FROM cell WHERE CAST(outcome ->> '$.facts.\"board.attempt\"' AS INTEGER) > 1";
    assert!((1..=2).contains(&results::value::<u32>(&results, again)));
}

#[test]
fn a_pool_of_boards_that_are_not_equal_is_refused() {
    let boards = or_skip!(PoorBoards::new(2));
    // The runner asks the kernel for the memory, and this file is what it sees there.
    let root = boards.board(1).root();
    write(root, "meminfo", "MemTotal:  1000 kB\n");
    let (from, to) = (root.join("meminfo"), root.join("proc/meminfo"));
    boards.board(1).inside(&format!("mount --bind {} {}", from.display(), to.display())).ends_with(0);
    write(boards.path(), "pool.toml", "kind = \"pool\"\nboards = [\"board0\", \"board1\"]\n");
    let refused = run(&mut boards.lab(&["board", "doctor", "./pool.toml"])).ends_with(4);
    refused.complains(&["the boards differ in `memory`", "board1: 1000 kB", "a pool is of equal boards"]);
}

/// labgrid's coordinator, with an exporter of one board that has a power switch; all in the lab's network.
struct Labgrid<'a> {
    boards: &'a PoorBoards,
    programs: PathBuf,
    servers: Vec<Child>,
}

impl Labgrid<'_> {
    fn new(boards: &PoorBoards) -> Result<Labgrid<'_>, Skip> {
        let programs = project().join(".cache/labgrid/bin");
        if !programs.join("labgrid-client").exists() {
            return Err(Need::Programs.lacks("there is no labgrid: scripts/python-modules"));
        }
        let mut labgrid = Labgrid { boards, programs, servers: Vec::new() };
        run(boards.network().command("ip").args(["link", "set", "lo", "up"])).ends_with(0);
        let export = "b1:\n  NetworkService: {address: 10.77.0.2, port: 22, username: root}\n  NetworkPowerPort: \
             {model: rest, host: \"http://127.0.0.1:8080/{index}\", index: 1}\n";
        write(boards.path(), "export.yaml", export);
        // It notes what is asked of it; who plugs the cable in is the test.
        write(
            boards.path(),
            "power.py",
            &[
                "import http.server",
                "class Switch(http.server.BaseHTTPRequestHandler):",
                "    def do_PUT(self):",
                "        open('power', 'ab').write(self.rfile.read(int(self.headers['Content-Length'])))",
                "        self.send_response(200)",
                "        self.end_headers()",
                "http.server.HTTPServer(('127.0.0.1', 8080), Switch).serve_forever()\n",
            ]
            .join("\n"),
        );
        labgrid.serve("labgrid-coordinator", &["-l", COORDINATOR]);
        labgrid.serve("python", &["power.py"]);
        until("the coordinator answers", || labgrid.client("alice", &["places"]).status == Some(0));
        labgrid.serve("labgrid-exporter", &["-c", COORDINATOR, "-n", "far", "--hostname", "localhost", "export.yaml"]);
        until("the board is exported", || {
            labgrid.client("alice", &["resources"]).out.contains("far/b1/NetworkService")
        });
        labgrid.client("alice", &["-p", PLACE, "create"]).ends_with(0);
        labgrid.client("alice", &["-p", PLACE, "add-match", "far/b1/*"]).ends_with(0);
        labgrid.client("alice", &["-p", PLACE, "set-tags", "board=poor"]).ends_with(0);
        Ok(labgrid)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.boards.network().command(&self.programs.join(program).to_string_lossy());
        command.current_dir(self.boards.path());
        command
    }

    fn serve(&mut self, program: &str, arguments: &[&str]) {
        let mut command = self.command(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.servers.push(command.spawn().expect("a server"));
    }

    fn client(&self, user: &str, arguments: &[&str]) -> Ran {
        let mut command = self.command("labgrid-client");
        run(command.env("LG_USERNAME", user).args(["-x", COORDINATOR]).args(arguments))
    }

    /// A run of the lab's user, who has labgrid's client.
    fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = self.boards.lab(arguments);
        let path = std::env::var("PATH").expect("PATH");
        command.env("PATH", format!("{}:{path}", self.programs.display())).env("LG_USERNAME", "alice");
        command
    }

    fn begin(&self, arguments: &[&str]) -> Child {
        let mut begun = self.lab(arguments);
        begun.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the lab runs")
    }

    /// Who has the place.
    fn holder(&self) -> Option<String> {
        let said = self.client("alice", &["-p", PLACE, "show"]).ends_with(0).out;
        let line = said.lines().find_map(|line| line.trim().strip_prefix("acquired: "))?.to_owned();
        (line != "None").then(|| line.rsplit('/').next().unwrap_or_default().to_owned())
    }
}

impl Drop for Labgrid<'_> {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
fn a_place_of_labgrid_is_acquired_waited_for_power_cycled_and_given_back_whatever_happens() {
    let boards = or_skip!(PoorBoards::new(1));
    let labgrid = or_skip!(Labgrid::new(&boards));
    let key = boards.path().join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("its mode");
    let options = format!(
        "options = [\"-i\", \"{}\", \"-o\", \"StrictHostKeyChecking=no\", \"-o\", \"UserKnownHostsFile=/dev/null\"]",
        key.display()
    );
    let profile = |name: &str, labgrid: &str| {
        let coordinator = format!("coordinator = \"{COORDINATOR}\"");
        write(boards.path(), name, &format!("kind = \"ssh\"\n{options}\n[labgrid]\n{labgrid}\n{coordinator}\n"));
    };
    profile("place.toml", "place = \"b1\"");
    profile("tags.toml", "filter = [\"board=poor\"]");
    profile("nowhere.toml", "place = \"b2\"");

    run(&mut labgrid.lab(&["board", "doctor", "./nowhere.toml"])).ends_with(4).complains(&["b2", "matches nothing"]);
    let said = run(&mut labgrid.lab(&["board", "doctor", "./tags.toml"])).ends_with(0);
    said.says(&["board.place: b1", "board.host: 10.77.0.2"]);
    assert_eq!(labgrid.holder(), None);

    let option = format!("--ssh-option=-i{}", key.display());
    let unknown = ["--ssh-option=-oStrictHostKeyChecking=no", "--ssh-option=-oUserKnownHostsFile=/dev/null"];
    let mut add = labgrid.lab(&["board", "add", "mine", "--labgrid", PLACE, &option, unknown[0], unknown[1]]);
    run(add.env("XDG_CONFIG_HOME", boards.path())).ends_with(0).says(&["mine: b1 by ssh", "written: "]);
    let written = fs::read_to_string(boards.path().join("pocketstone/boards/mine.toml")).expect("its profile");
    assert!(written.contains("[labgrid]\nplace = \"b1\"\n"), "{written}");
    assert_eq!(labgrid.holder(), None);

    // One that the user has taken by hand stays theirs.
    labgrid.client("alice", &["-p", PLACE, "acquire"]).ends_with(0);
    run(&mut labgrid.lab(&["board", "exec", "./place.toml", "uname"])).ends_with(0);
    assert_eq!(labgrid.holder().as_deref(), Some("alice"));
    labgrid.client("alice", &["-p", PLACE, "release"]).ends_with(0);

    // One that another user has is waited for.
    labgrid.client("bob", &["-p", PLACE, "acquire"]).ends_with(0);
    write(boards.path(), "study.toml", &cells(2, 40));
    let lab = labgrid.begin(&["run", "study.toml", "--board", "./place.toml", "--output", "run"]);
    until("it waits", || labgrid.client("alice", &["reservations"]).out.contains("state: waiting"));
    labgrid.client("bob", &["-p", PLACE, "release"]).ends_with(0);
    until("the last cell is under way", || shares(&boards.path().join("run")).len() == 1);
    assert_eq!(labgrid.holder().as_deref(), Some("alice"));

    // A board that is lost twice is turned off and on again.
    boards.board(0).cable(false);
    kill_clients(lab.id());
    let switched = || fs::read_to_string(boards.path().join("power")).unwrap_or_default();
    assert!(poll(Duration::from_secs(120), || (switched() == "01").then_some(())).is_some(), "{:?}", switched());
    boards.board(0).cable(true);
    ends_well(lab);
    assert_eq!(shares(&boards.path().join("run")), [("place".to_owned(), 2)]);
    assert_eq!(labgrid.holder(), None);

    // A lab that is killed keeps no place.
    let mut lab = labgrid.begin(&["run", "study.toml", "--board", "./place.toml", "--output", "killed"]);
    until("it works on the board", || !boards.board(0).serving().is_empty());
    assert_eq!(labgrid.holder().as_deref(), Some("alice"));
    lab.kill().expect("the lab is killed");
    lab.wait().expect("the lab ends");
    until("the place is free", || labgrid.holder().is_none());
    until("the board is quiet", || boards.board(0).processes().is_empty());
}
