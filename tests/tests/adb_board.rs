//! Phones that adb reaches: Android's own daemon and client, with this machine's kernel for a phone's, and scripts for
//! the programs of Android that answer what a phone has said.

use pocketstone_core::events::{Event, EventKind};
use pocketstone_core::events_log::decode_events;
use pocketstone_testing::wait::until;
use pocketstone_testing::{Need, Skip, or_skip, root};
use pocketstone_tests::command::{Process, Ran, binary, ran, run, write};
use pocketstone_tests::network::Network;
use pocketstone_tests::small_study::{Database, are_alike, files, study};
use pocketstone_tests::{project, results};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The user that adb's shell is on a phone that is not rooted.
const SHELL: &str = "2000";
const SERIAL: &str = "127.0.0.1:45555";

/// A phone: its folder has profile, daemon and client. It has a network of its own, as its daemon asks nobody for a
/// key.
struct Phone {
    home: TempDir,
    network: Network,
    daemon: Child,
}

impl Phone {
    #[track_caller]
    fn new() -> Result<Phone, Skip> {
        root()?;
        if !Path::new("/proc/self/ns/time").exists() {
            return Err(Need::Kernel.lacks("this kernel has no namespaces of time"));
        }
        let programs = project().join(".cache/phone");
        if !programs.join("daemon/adbd").exists() {
            return Err(Need::Programs.lacks("there is no adbd: scripts/phone"));
        }
        let network = Network::new();
        run(network.command("ip").args(["link", "set", "lo", "up"])).ends_with(0);
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("permissions");
        run(Command::new("cp").arg("-rL").arg(fs::canonicalize(programs).expect("a path")).arg(folder.join("phone")))
            .ends_with(0);
        for name in ["bin", "data", "adb"] {
            fs::create_dir(folder.join(name)).expect("a folder");
        }
        run(Command::new("chown").args([SHELL, "data"]).current_dir(folder)).ends_with(0);
        let at = folder.display();
        program(folder, "phone/adb", &format!("LD_LIBRARY_PATH={at}/phone/client exec {at}/phone/client/adb \"$@\""));
        program(folder, "bin/getprop", &format!("sed -n \"s/^$1=//p\" {at}/properties"));
        program(folder, "bin/dumpsys", &format!("cat {at}/dumpsys.$1"));
        write(folder, "properties", "ro.product.model=Pixel 2\nro.build.version.sdk=30\nro.build.type=user\n");
        write(folder, "dumpsys.thermalservice", "IsStatusOverride: false\nThermal Status: 1\n");
        let daemon = daemon(folder, &network);
        let phone = Phone { home, network, daemon };
        phone.battery(85);
        phone.profile("phone.toml", "");
        Ok(phone)
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    fn battery(&self, percent: u32) {
        let text = format!("Current Battery Service state:\n  status: 3\n  level: {percent}\n  temperature: 281\n");
        write(self.path(), "dumpsys.battery", &text);
    }

    fn profile(&self, name: &str, more: &str) {
        let folder = self.path().join("data/runner");
        let text = format!("kind = \"adb\"\nserial = \"{SERIAL}\"\nfolder = \"{}\"\n{more}\n", folder.display());
        write(self.path(), name, &text);
    }

    /// The lab, with adb's server and key of its own.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.network.command(&binary().to_string_lossy());
        let path = format!("{}/phone:{}", self.path().display(), std::env::var("PATH").unwrap());
        command.current_dir(self.path()).args(arguments).env("PATH", path);
        command.env("ADB_SERVER_SOCKET", "tcp:localhost:15037").env("ADB_VENDOR_KEYS", self.path().join("adb"));
        // The board's cache is the user's, adb's key is not.
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
        command.env("XDG_CACHE_HOME", cache).env("HOME", self.path().join("adb"));
        command
    }

    fn lab(&self, arguments: &[&str]) -> Ran {
        run(&mut self.command(arguments))
    }

    /// A run that goes on meanwhile.
    fn begin(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn processes(&self) -> Vec<Process> {
        let folder = self.path().join("data");
        let pids = fs::read_dir("/proc").expect("/proc").flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let here = |process: &Process| {
            ["exe", "cwd"].iter().any(|link| process.link(link).is_some_and(|to| to.starts_with(&folder)))
        };
        pids.filter_map(Process::of).filter(|process| !process.ended && here(process)).collect()
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        let mut adb = self.network.command("env");
        let server = "ADB_SERVER_SOCKET=tcp:localhost:15037";
        let _ = adb.arg(server).arg(self.path().join("phone/adb")).arg("kill-server").output();
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn program(folder: &Path, name: &str, line: &str) {
    write(folder, name, &format!("#!/bin/sh\n{line}\n"));
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// The daemon and all that it starts have a CLOCK_BOOTTIME that is ahead of CLOCK_MONOTONIC, as of a phone that has
/// slept.
fn daemon(folder: &Path, network: &Network) -> Child {
    let at = folder.display();
    let mut command = network.command("unshare");
    command.args(["--time", "--boottime", "5000", "setpriv"]);
    command.args(["--reuid", SHELL, "--regid", SHELL, "--clear-groups", "env"]);
    command.arg(format!("LD_LIBRARY_PATH={at}/phone/daemon")).arg(format!("PATH={at}/bin:/usr/bin:/bin"));
    command.args(["ADBD_PORT=45555", "HOME=/"]).arg(folder.join("phone/daemon/adbd"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("adbd starts")
}

#[test]
fn a_phone_measures_what_this_machine_does_and_says_what_it_is() {
    let phone = or_skip!(Phone::new());
    let database = Database { engines: &["sqlite", "lmdb", "redb"], ..Database::default() };
    write(phone.path(), "study.toml", &study(&[files("directory", "none"), database.experiment()]));
    phone.lab(&["run", "study.toml", "--output", "here"]).ends_with(0);
    phone.lab(&["run", "study.toml", "--board", "./phone.toml", "--output", "there"]).ends_with(0);
    are_alike(phone.path(), ["here", "there"]);
    let value = |run: &str, sql: &str| results::value::<String>(&phone.path().join(run), sql);
    let fact = |name: &str| value("there", &format!("SELECT value FROM run WHERE name = 'fact.{name}'"));
    assert_eq!(
        (fact("android.model"), fact("android.api"), fact("board.host")),
        ("Pixel 2".into(), "30".into(), SERIAL.into())
    );
    let facts = ["battery.level_percent", "battery.temperature_c", "battery.charging", "thermal.status"];
    let ends = facts.map(|name| format!("group_concat(DISTINCT outcome ->> '$.facts.\"{name}\"')")).join(" || ' ' || ");
    assert_eq!(value("there", &format!("SELECT {ends} FROM cell")), "85 28.1 false 1");
    // Nothing of the cells is left.
    let left = fs::read_dir(phone.path().join("data/runner/volume")).unwrap().flatten().count();
    assert_eq!(left, 0);
    until("the runner has ended", || phone.processes().is_empty());
}

#[test]
fn a_phone_whose_connection_ends_is_tried_again_and_a_tired_one_is_waited_for() {
    let mut phone = or_skip!(Phone::new());
    let command = |profile: &'static str, output: &'static str, seconds: &'static str| {
        let set = "file_system=directory";
        ["run", "--output", output, "--board", profile, "--repetitions", "1", "--set", set, "--", "sleep", seconds]
    };
    let run = phone.begin(&command("./phone.toml", "lost", "3"));
    let sleeping = |phone: &Phone| phone.processes().into_iter().find(|process| process.name == "sleep");
    until("the program runs", || sleeping(&phone).is_some());
    let program = sleeping(&phone).unwrap();
    // As when a cable is pulled: neither side is told by the other.
    phone.daemon.kill().unwrap();
    phone.daemon.wait().unwrap();
    phone.daemon = daemon(phone.path(), &phone.network);
    let done = ran("run".into(), &run.wait_with_output().unwrap());
    done.ends_with(0);
    assert!(!program.runs());
    let attempts =
        "SELECT group_concat(coalesce(outcome ->> '$.facts.\"board.attempt\"', '1') || ' ' || status) FROM cell";
    assert_eq!(results::value::<String>(&phone.path().join("lost"), attempts), "2 done,1 done");

    phone.battery(20);
    phone.profile("careful.toml", "battery_least_percent = 30\ntemperature_most_c = 35");
    let run = phone.begin(&command("./careful.toml", "tired", "0.1"));
    until("the board is in use", || !phone.processes().is_empty());
    std::thread::sleep(std::time::Duration::from_secs(2));
    phone.battery(31);
    ran("run".into(), &run.wait_with_output().unwrap()).ends_with(0);
    let levels = "SELECT group_concat(DISTINCT outcome ->> '$.facts.\"battery.level_percent\"') FROM cell";
    assert_eq!(results::value::<String>(&phone.path().join("tired"), levels), "31");
}

#[test]
fn a_phone_that_cannot_be_used_says_why() {
    let phone = or_skip!(Phone::new());
    write(phone.path(), "none.toml", "kind = \"adb\"\nserial = \"0123456789\"\n");
    let said = phone.lab(&["board", "exec", "./none.toml", "true"]);
    said.ends_with(4).complains(&["cannot reach 0123456789", "adb -s 0123456789 shell true"]);
    write(phone.path(), "option.toml", "kind = \"adb\"\nserial = \"-e\"\n");
    phone.lab(&["board", "exec", "./option.toml", "true"]).ends_with(1).complains(&["`serial`", "adb devices"]);
    let config = phone.path().join("config");
    let folder = phone.path().join("data/runner");
    let add = ["board", "add", "mine", "--adb", SERIAL, "--folder", folder.to_str().unwrap()];
    let added = run(phone.command(&add).env("XDG_CONFIG_HOME", &config));
    added.ends_with(0).says(&["android.model: Pixel 2", "sqlite", "mine.toml"]);
    // What it may not, it says, and the user's own status is that of the command.
    phone.lab(&["board", "exec", "./phone.toml", "sh", "-c", "exit 7"]).ends_with(7);
}

/// The engine's process, in a trace of a phone's own form on another clock: the lab has it as its own kernel's events.
#[test]
fn a_phone_that_is_not_rooted_traces_by_perfetto() {
    let phone = or_skip!(Phone::new());
    let at = phone.path().display().to_string();
    for script in ["adb_board/perfetto.py", "perfetto_traces/to_perfetto.py"] {
        let from = project().join("tests/tests").join(script);
        fs::copy(&from, phone.path().join(from.file_name().unwrap())).expect("a copy");
    }
    program(phone.path(), "bin/perfetto", &format!("exec python3 {at}/perfetto.py \"$@\""));
    let traced = Database { operations: 300, traced: "each", more: &[("delay", "1ms")], ..Database::default() };
    write(phone.path(), "study.toml", &study(&[traced.experiment()]));
    phone.lab(&["run", "study.toml", "--board", "./phone.toml", "--output", "traced"]).ends_with(0);
    let results = phone.path().join("traced");
    let window = "SELECT min(start_ns) || ' ' || max(start_ns + latency_ns) FROM call JOIN cell ON cell.id = call.cell \
                  WHERE traced = 1";
    let window: String = results::value(&results, window);
    let (start_ns, end_ns) = window.split_once(' ').unwrap();
    let (start_ns, end_ns): (u64, u64) = (start_ns.parse().unwrap(), end_ns.parse().unwrap());
    // On a core for 0.6 of the time of the run, and not a second of the 5000 that the clocks are apart.
    let on_core: f64 = results::value(&results, "SELECT value FROM metric WHERE name = 'traced_on_core_ns'");
    let share = on_core / (end_ns - start_ns) as f64;
    assert!((share - 0.6).abs() < 0.02, "{share} of {} ns", end_ns - start_ns);
    let log = decode_events(&results::value::<Vec<u8>>(&results, "SELECT bytes FROM event_log")).unwrap();
    let khz = |event: &Event| match event.kind {
        EventKind::Frequency { khz, cpu: 3 } => Some(khz),
        _ => None,
    };
    let changes: Vec<u32> = log.events.iter().filter_map(khz).filter(|khz| [300_000, 900_000].contains(khz)).collect();
    assert_eq!(changes, [300_000, 900_000]);
    let within = log.events.iter().filter(|event| (start_ns..end_ns).contains(&event.time_ns)).count() as u64;
    // Two switches of the engine's in each millisecond, and none of another process's; its calls are of its own record.
    let switches = log.events.iter().filter(|event| matches!(event.kind, EventKind::Switch { .. })).count() as u64;
    assert!(
        within > (end_ns - start_ns) / 1_000_000 && switches >= (end_ns - start_ns) / 500_000,
        "{within} {switches}"
    );
    assert!(log.events.iter().all(|event| !matches!(event.kind, EventKind::Switch { next: 1, .. })));
    // What adb's user may not have is named, with the reason, and nothing of the session is left.
    let left_out = "SELECT group_concat(what || ': ' || why, '; ') FROM left_out";
    let left_out: String = results::value(&results, left_out);
    for what in ["page-cache misses", "block requests", "adb's user"] {
        assert!(left_out.contains(what), "{what} in {left_out}");
    }
    assert!(!left_out.contains("context switches") && !left_out.contains("frequency changes"), "{left_out}");
    let config = fs::read_to_string(phone.path().join("data/perfetto.config")).unwrap();
    assert!(config.contains("sched/sched_switch") && config.contains("compact_sched { enabled: true }"), "{config}");
    let left = |folder: &Path| {
        let names = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".pftrace")).count()
    };
    assert_eq!(left(&phone.path().join("data")), 0);

    // One that does not record: the cell is there without events, and why is said.
    write(phone.path(), "perfetto.refused", "Could not connect to the traced socket");
    phone.lab(&["run", "study.toml", "--board", "./phone.toml", "--output", "refused"]).ends_with(0);
    let refused = phone.path().join("refused");
    assert_eq!(results::value::<i64>(&refused, "SELECT count(*) FROM cell WHERE status = 'done' AND traced = 1"), 1);
    let why = "SELECT group_concat(why || ' ' || cure, '; ') FROM left_out WHERE what LIKE '%context switches%'";
    let why: String = results::value(&refused, why);
    assert!(why.contains("Could not connect to the traced socket") && why.contains("persist.traced.enable"), "{why}");
}
