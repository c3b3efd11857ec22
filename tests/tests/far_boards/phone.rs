//! Phones that adb reaches: Android's own daemon and client, with this machine's kernel for a phone's, and scripts for
//! the programs of Android that answer what a phone has said.

use pocketstone_core::events::{Event, EventKind};
use pocketstone_core::events_log::decode_events;
use pocketstone_testing::wait::until;
use pocketstone_testing::{amount, or_skip};
use pocketstone_tests::command::{ran, run, write};
use pocketstone_tests::phone::{LOCAL, Phone, SHELL};
use pocketstone_tests::small_study::{Database, are_alike, files, study};
use pocketstone_tests::{project, results};
use std::fs;
use std::path::Path;

#[test]
fn a_phone_measures_what_this_machine_does_and_says_what_it_is() {
    let phone = or_skip!(Phone::new());
    let database = Database { engines: &["sqlite", "lmdb", "redb"], ..Database::default() };
    write(phone.path(), "study.toml", &study(&[files("directory", "none"), database.experiment()]));
    let throttled = "cells the board was throttled (thermal status up to 1)";
    let here = phone.lab(&["run", "study.toml", "--output", "here"]).ends_with(0);
    assert!(!here.out.contains("throttled"), "{here}");
    let there = phone.lab(&["run", "study.toml", "--board", "./phone.toml", "--output", "there"]).ends_with(0);
    // Lines are broken where the screen ends.
    assert!(there.out.split_whitespace().collect::<Vec<_>>().join(" ").contains(throttled), "{there}");
    are_alike(phone.path(), ["here", "there"]);
    let value = |run: &str, sql: &str| results::value::<String>(&phone.path().join(run), sql);
    let fact = |name: &str| value("there", &format!("SELECT value FROM run WHERE name = 'fact.{name}'"));
    assert_eq!(
        (fact("android.model"), fact("android.api"), fact("board.host")),
        ("Pixel 2".into(), "30".into(), phone.serial())
    );
    let facts = ["battery.level_percent", "battery.temperature_c", "battery.charging", "thermal.status"];
    let ends = facts.map(|name| format!("group_concat(DISTINCT outcome ->> '$.facts.\"{name}\"')")).join(" || ' ' || ");
    assert_eq!(value("there", &format!("SELECT {ends} FROM cell")), "85 28.1 false 1");
    // Nothing of the cells is left.
    let left = fs::read_dir(phone.local().join("runner/volume")).unwrap().flatten().count();
    assert_eq!(left, 0);
    until("the runner has ended", || phone.processes().is_empty());
}

#[test]
fn a_phone_whose_connection_ends_is_tried_again_and_a_tired_one_is_waited_for() {
    let mut phone = or_skip!(Phone::new());
    let command = |profile: &'static str, output: &'static str, line: &'static str| {
        let set = "file_system=directory";
        ["run", "--output", output, "--board", profile, "--repetitions", "1", "--set", set, "--", "sh", "-c", line]
    };
    // The second attempt finds what the first one has made.
    let first = "cd /data/local/tmp; test -e begun || { : > begun; exec sleep 1000; }";
    let run = phone.begin(&command("./phone.toml", "lost", first));
    let sleeping = |phone: &Phone| phone.processes().into_iter().find(|process| process.name == "sleep");
    until("the program runs", || sleeping(&phone).is_some());
    let program = sleeping(&phone).unwrap();
    phone.lose_connection();
    let done = ran("run".into(), &run.wait_with_output().unwrap());
    done.ends_with(0);
    assert!(!program.runs());
    let attempts =
        "SELECT group_concat(coalesce(outcome ->> '$.facts.\"board.attempt\"', '1') || ' ' || status) FROM cell";
    assert_eq!(results::value::<String>(&phone.path().join("lost"), attempts), "2 done,1 done");

    phone.battery(20);
    phone.profile("careful.toml", "battery_least_percent = 30\ntemperature_most_c = 35");
    let run = phone.begin(&command("./careful.toml", "tired", "true"));
    until("the board is in use", || !phone.processes().is_empty());
    std::thread::sleep(std::time::Duration::from_secs(2));
    phone.battery(31);
    ran("run".into(), &run.wait_with_output().unwrap()).ends_with(0);
    let levels = "SELECT group_concat(DISTINCT outcome ->> '$.facts.\"battery.level_percent\"') FROM cell";
    assert_eq!(results::value::<String>(&phone.path().join("tired"), levels), "31");
}

/// The shipped study, or the part of it that takes seconds, with a setting that has to be undone in each cell; and in
/// the middle of it the connection is lost.
#[test]
fn pocketdatas_quick_study_runs_on_a_phone_and_every_setting_is_undone() {
    let mut phone = or_skip!(Phone::new());
    let commands = phone.local().join("commands");
    phone.program("cmd", &format!("echo \"$*\" >> {LOCAL}/commands"));
    let mode = |on: bool| format!("[\"cmd\", \"power\", \"set-fixed-performance-mode-enabled\", \"{on}\"]");
    // As the phone of the tests has no such programs by itself.
    ["input", "setprop"].iter().for_each(|name| phone.program(name, &format!("echo \"{name} $*\" >> {LOCAL}/others")));
    let own = "screen = \"off\"\ncharging = \"suspended\"\nthermal_status_most = 1";
    phone.profile("fixed.toml", &format!("{own}\nsettings = [{{ set = {}, undo = {} }}]", mode(true), mode(false)));
    let study = project().join("studies/pocketdata-quick.toml");
    let some = ["--only", "seed = 1 AND workload = 'pocketdata-c'"];
    let more = &some[..amount(2, 0) as usize];
    let words = ["run", study.to_str().expect("a path"), "--board", "./fixed.toml", "--output", "quick"];
    let run = phone.begin(&[&words, more].concat());
    let said = || fs::read_to_string(&commands).unwrap_or_default();
    until("a cell is under way", || said().lines().count() >= 5 && said().ends_with("true\n"));
    phone.lose_connection();
    let done = ran("run".into(), &run.wait_with_output().unwrap());
    done.ends_with(0).says(&["measured on the board fixed", "left out: cells with h2", "claims hold"]);
    let quick = phone.path().join("quick");
    let of = |sql: &str| results::value::<i64>(&quick, sql);
    let cells = if amount(0, 1) == 1 { 2 * 3 * 2 * (5 + 1) } else { 3 * 2 * 2 };
    assert_eq!(
        (of("SELECT count(*) FROM cell"), of("SELECT count(*) FROM cell WHERE status = 'done'")),
        (cells, cells)
    );
    let again = "SELECT count(*) FROM cell WHERE CAST(outcome ->> '$.facts.\"board.attempt\"' AS INTEGER) > 1";
    assert_eq!(of(again), 1);
    // One after the other, once for each cell and once for the one that was lost.
    let (on, off): (Vec<_>, Vec<_>) = said().lines().map(str::to_owned).enumerate().partition(|(n, _)| n % 2 == 0);
    assert!(on.iter().all(|(_, line)| line.ends_with("true")) && off.iter().all(|(_, line)| line.ends_with("false")));
    assert_eq!([on.len(), off.len()], [cells as usize + 1; 2]);
    // The screen sleeps and the charger stops, in each of them.
    let others = fs::read_to_string(phone.local().join("others")).unwrap();
    let times = |line: &str| others.lines().filter(|said| *said == line).count();
    let set = ["input keyevent KEYCODE_SLEEP", "setprop power.battery_input.suspended true"];
    let undone = ["input keyevent KEYCODE_WAKEUP", "setprop power.battery_input.suspended false"];
    assert!(set.iter().chain(&undone).all(|line| times(line) == on.len()), "{others}");
    until("nothing is noted on the phone", || {
        let notes = phone.local().join(format!("pocketstone-settings-{SHELL}"));
        fs::read_dir(notes).unwrap().next().is_none()
    });
}

/// Who keeps a phone awake or from charging by hand finds it so afterwards.
#[test]
fn a_phones_screen_and_charger_are_afterwards_as_they_were_before() {
    let phone = or_skip!(Phone::new());
    for name in ["input", "setprop", "svc"] {
        phone.program(name, &format!("echo \"{name} $*\" >> {LOCAL}/said"));
    }
    phone.program("settings", &format!("echo \"settings $*\" >> {LOCAL}/said; cat /said/stay_on"));
    phone.profile("dark.toml", "screen = \"off\"\ncharging = \"suspended\"");
    phone.profile("bright.toml", "screen = \"on\"");
    let said = phone.local().join("said");
    let undone = |profile: &str, output: &str| {
        let _ = fs::remove_file(&said);
        let words = ["run", "--board", profile, "--repetitions", "1", "--set", "file_system=directory", "--output"];
        phone.lab(&[&words[..], &[output, "--", "true"]].concat()).ends_with(0);
        let said = fs::read_to_string(&said).unwrap();
        let lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.into_iter().rev().take(2).collect::<Vec<_>>()
    };
    let properties = fs::read_to_string(phone.root().join("said/properties")).unwrap();
    phone.says("dumpsys.power", "POWER MANAGER\n  mWakefulness=Awake\n  mWakefulnessChanging=false\n");
    let before = ["input keyevent KEYCODE_WAKEUP", "setprop power.battery_input.suspended false"];
    assert_eq!(undone("./dark.toml", "awake"), before);
    phone.says("dumpsys.power", "POWER MANAGER\n  mWakefulness=Asleep\n  mWakefulnessChanging=false\n");
    phone.says("properties", &format!("{properties}power.battery_input.suspended=true\n"));
    let slept = undone("./dark.toml", "asleep");
    assert_eq!(slept, ["setprop power.battery_input.suspended true"; 2]);
    for (stays_on, last) in
        [("null", "svc power stayon false"), ("3", "settings put global stay_on_while_plugged_in 3")]
    {
        phone.says("stay_on", &format!("{stays_on}\n"));
        assert_eq!(undone("./bright.toml", stays_on)[0], last);
    }
}

/// A third of the phone's matrix, whose lab is killed in the middle: what was measured stays, and the rest is measured.
#[test]
#[ignore = "takes minutes: make torture"]
fn pocketdatas_matrix_runs_on_a_phone_and_goes_on_after_its_lab_was_killed() {
    let phone = or_skip!(Phone::new());
    let study = project().join("studies/pocketdata-phone.toml");
    let words = ["run", study.to_str().expect("a path"), "--board", "./phone.toml", "--only", "seed = 1"];
    let mut run = phone.begin(&[&words, &["--output", "matrix"][..]].concat());
    let matrix = phone.path().join("matrix");
    let of = |sql: &str| results::value::<i64>(&matrix, sql);
    let done = "SELECT count(*) FROM cell WHERE status = 'done'";
    let so_far = || results::begun(&matrix)?.query_row(done, [], |row| row.get::<_, i64>(0));
    // Its runner may have to be compiled before.
    while so_far().map_or(true, |cells| cells < 5) {
        assert!(run.try_wait().expect("it was begun").is_none(), "it has ended");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    run.kill().expect("it runs");
    run.wait().expect("it was killed");
    until("the phone's runner has ended", || phone.processes().is_empty());
    let before = of(done);
    let whole = phone.lab(&[&words, &["--resume", "matrix"][..]].concat());
    whole.ends_with(0).says(&["measured on the board phone", "left out"]);
    assert!(before >= 5 && of(done) > 100, "{before} and {}", of(done));
    assert_eq!(of("SELECT count(*) FROM cell WHERE status <> 'done'"), 0);
    let combinations = "SELECT count(DISTINCT workload || engine || delay) FROM summary WHERE experiment = 'delays'";
    assert_eq!(of(combinations), 6 * 3 * 3);
    let cold = "SELECT count(DISTINCT page_cache || engine) FROM summary WHERE experiment = 'cold'";
    assert_eq!(of(cold), 2 * 3);
    let report = fs::read_to_string(matrix.join("report.html")).expect("a report");
    assert!(report.contains("With lognormal delays the same operations"), "the answer");
}

/// From Android 12 on the phone drops its whole page cache for anybody.
#[test]
fn a_cold_cell_asks_the_phone_to_drop_its_caches_where_it_does_so() {
    let phone = or_skip!(Phone::new());
    let set = phone.local().join("set");
    phone.program("setprop", &format!("echo \"$1=$2\" >> {LOCAL}/set"));
    let cold = Database { more: &[("page_cache", "cold")], ..Database::default() };
    write(phone.path(), "study.toml", &study(&[cold.experiment()]));
    let properties = fs::read_to_string(phone.root().join("said/properties")).unwrap();
    for (api, asked) in [("30", None), ("31", Some("perf.drop_caches=3"))] {
        let now = properties.replace("sdk=30", &format!("sdk={api}"));
        phone.says("properties", &format!("{now}perf.drop_caches=0\n"));
        phone.lab(&["run", "study.toml", "--board", "./phone.toml", "--output", api]).ends_with(0);
        let said = fs::read_to_string(&set).ok();
        assert_eq!(said.as_deref().and_then(|said| said.lines().next()), asked, "API level {api}");
    }
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
    let (folder, serial) = (format!("{LOCAL}/runner"), phone.serial());
    let add = ["board", "add", "mine", "--adb", &serial, "--folder", &folder];
    let added = run(phone.command(&add).env("XDG_CONFIG_HOME", &config));
    added.ends_with(0).says(&["android.model: Pixel 2", "sqlite", "mine.toml"]);
    // What it may not, it says, and the user's own status is that of the command.
    phone.lab(&["board", "exec", "./phone.toml", "sh", "-c", "exit 7"]).ends_with(7);
}

/// The engine's process, in a trace of a phone's own form on another clock: the lab has it as its own kernel's events.
#[test]
fn a_phone_that_is_not_rooted_traces_by_perfetto() {
    let phone = or_skip!(Phone::with(&["/usr", "/lib", "/lib64", "/etc"]));
    for script in ["far_boards/perfetto.py", "perfetto_traces/to_perfetto.py"] {
        let from = project().join("tests/tests").join(script);
        fs::copy(&from, phone.root().join("said").join(from.file_name().unwrap())).expect("a copy");
    }
    phone.program("perfetto", "exec python3 /said/perfetto.py \"$@\"");
    let traced = Database { operations: 300, traced: "each", more: &[("delay", "1ms")], ..Database::default() };
    let energy = "energy = true\n";
    write(phone.path(), "study.toml", &(study(&[traced.experiment()]) + energy));
    phone.lab(&["run", "study.toml", "--board", "./phone.toml", "--output", "traced"]).ends_with(0);
    let results = phone.path().join("traced");
    // The rails' 1.75 W, from the engine's start to its exit, and as much at rest.
    let of_rails = "SELECT group_concat(round((r.value ->> 'energy_uj') * 1e6 / (r.value ->> 'duration_ns')) || ' ' || \
                    round(r.value ->> 'idle_mw') || ' mW of ' || (r.value ->> 'meter'), '; ' ORDER BY r.key) \
                    FROM cell, json_each(outcome -> '$.energy') r WHERE traced = 0";
    let of_rails: String = results::value(&results, of_rails);
    assert_eq!(of_rails, "1500.0 1500.0 mW of odpm:CPU(BIG):S2M_VDD_CPUCL2; 250.0 250.0 mW of odpm:DDR:S10M_VDD2L");
    let config = fs::read_to_string(phone.local().join("power.config")).unwrap();
    assert!(config.contains("collect_power_rails: true") && config.contains("write_into_file: true"), "{config}");
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
    let config = fs::read_to_string(phone.local().join("perfetto.config")).unwrap();
    assert!(config.contains("sched/sched_switch") && config.contains("flush_period_ms: 250"), "{config}");
    let left = |folder: &Path| {
        let names = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".pftrace")).count()
    };
    assert_eq!(left(&phone.local()), 0);

    // One that does not record: the cell is there without events, and why is said.
    phone.says("perfetto.refused", "Could not connect to the traced socket");
    phone.lab(&["run", "study.toml", "--board", "./phone.toml", "--output", "refused"]).ends_with(0);
    let refused = phone.path().join("refused");
    assert_eq!(results::value::<i64>(&refused, "SELECT count(*) FROM cell WHERE status = 'done' AND traced = 1"), 1);
    let why = "SELECT group_concat(why || ' ' || cure, '; ') FROM left_out WHERE what LIKE '%context switches%'";
    let why: String = results::value(&refused, why);
    assert!(why.contains("Could not connect to the traced socket") && why.contains("persist.traced.enable"), "{why}");
    let why: String = results::value(&refused, "SELECT group_concat(why) FROM left_out WHERE what = 'energy'");
    assert!(why.contains("Could not connect to the traced socket"), "{why}");
}
