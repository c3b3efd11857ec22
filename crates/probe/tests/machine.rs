//! What needs a machine: settings that outlive a killed process, and recording by tracefs. The processes
//! that are killed and recorded are this program itself, so it is run without a test harness.

#[path = "machine/copies.rs"]
mod copies;

use pocketstone_core::database::Conditions;
use pocketstone_probe::conditions::Machine;
use pocketstone_probe::meters::Found;
use pocketstone_probe::recorder::{BUFFER_KIB, Follow, Recorder};
use pocketstone_probe::settings::{Settings, WATCHDOG, restore_left, watchdog_main};
use pocketstone_probe::{LabCopy, analysis, ensure_tracefs};
use pocketstone_testing::wait::until;
use pocketstone_testing::{Need, Skip};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [word, ..] if word == WATCHDOG => watchdog_main(&arguments[1..]).unwrap(),
        ["hold", folder] => hold(Path::new(folder), None),
        ["hold-copied", folder] => copies::hold_copied(Path::new(folder)),
        ["hold-frequency", folder] => hold_frequency(Path::new(folder)),
        ["meters", folder] => say(&format!("{:?}", Found::on(Path::new(folder)).unavailable().unwrap())),
        ["record"] => record(),
        ["work", file, rounds] => work(Path::new(file), rounds.parse().unwrap()),
        _ => tests(&words),
    }
}

/// Whether a test ran to its end.
type Test = fn() -> Result<(), Skip>;

/// The few of a harness's arguments that tools use: `--list` and a filter.
fn tests(words: &[&str]) {
    let tests: [(&str, Test); 12] = [
        ("a_killed_process_leaves_no_setting", a_killed_process_leaves_no_setting),
        ("a_killed_process_leaves_the_frequency_as_it_was", a_killed_process_leaves_the_frequency_as_it_was),
        ("ctrl_c_leaves_the_frequency_as_it_was", ctrl_c_leaves_the_frequency_as_it_was),
        ("a_meter_that_may_not_be_read_says_so_with_the_cure", a_meter_that_may_not_be_read_says_so),
        ("what_a_killed_watchdog_left_is_restored_at_the_next_start", what_a_killed_watchdog_left_is_restored),
        ("a_lab_has_noted_a_setting_before_it_is_made", copies::a_lab_has_noted_a_setting_before_it_is_made),
        ("a_copy_puts_back_what_a_lost_journal_cannot", copies::a_copy_puts_back_what_a_lost_journal_cannot),
        (
            "what_is_put_back_already_is_not_put_back_by_a_copy",
            copies::what_is_put_back_already_is_not_put_back_by_a_copy,
        ),
        ("known_calls_are_counted_exactly", known_calls_are_counted_exactly),
        ("what_a_killed_recorder_left_is_removed_by_the_next", what_a_killed_recorder_left_is_removed),
        ("a_buffer_too_small_is_an_error_with_its_cure", a_buffer_too_small_is_an_error),
        ("this_machine_says_what_it_cannot_set", this_machine_says_what_it_cannot_set),
    ];
    let filter = words.iter().find(|w| !w.starts_with('-'));
    for (name, test) in tests.into_iter().filter(|(n, _)| filter.is_none_or(|f| n.contains(f))) {
        if words.contains(&"--list") {
            let _ = writeln!(std::io::stdout(), "{name}: test");
            continue;
        }
        // Skips are counted with the thread's name.
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(test).unwrap();
        let outcome = thread.join().unwrap_or_else(|_| panic!("{name} failed")).map_or("skipped", |()| "ok");
        let _ = writeln!(std::io::stderr(), "test {name} ... {outcome}");
    }
}

fn myself(arguments: &[&str]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn say(word: &str) {
    let mut out = std::io::stdout();
    out.write_all(format!("{word}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

fn line_of(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

fn go(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
}

fn value(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap().trim().to_owned()
}

/// The journals in a folder.
fn journals(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".journal")).collect()
}

/// Changes two settings and waits to be killed.
fn hold(folder: &Path, copy: Option<LabCopy>) {
    let mut settings = Settings::guarded(&std::env::current_exe().unwrap(), folder, copy).unwrap();
    settings.set(&folder.join("a"), "new").unwrap();
    settings.set(&folder.join("b"), "off").unwrap();
    settings.set(&folder.join("a"), "newer").unwrap();
    say("set");
    let _ = std::io::stdin().read(&mut [0]);
}

fn held() -> (tempfile::TempDir, Child) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "old\n").unwrap();
    fs::write(folder.path().join("b"), "on\n").unwrap();
    let mut child = myself(&["hold", folder.path().to_str().unwrap()]);
    assert_eq!(line_of(&mut child), "set");
    assert_eq!((value(folder.path(), "a"), value(folder.path(), "b")), ("newer".into(), "off".into()));
    (folder, child)
}

fn a_killed_process_leaves_no_setting() -> Result<(), Skip> {
    let (folder, mut child) = held();
    child.kill().unwrap();
    child.wait().unwrap();
    until("the settings are back", || journals(folder.path()).is_empty());
    assert_eq!((value(folder.path(), "a"), value(folder.path(), "b")), ("old".into(), "on".into()));
    // One that ends as it should puts its settings back itself.
    let (folder, mut child) = held();
    go(&mut child);
    assert!(child.wait().unwrap().success());
    assert_eq!((value(folder.path(), "a"), value(folder.path(), "b")), ("old".into(), "on".into()));
    assert!(journals(folder.path()).is_empty());
    Ok(())
}

const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

/// Holds the frequency of a tree's processor and waits to be killed.
fn hold_frequency(root: &Path) {
    // Where these tests were started in the background, Ctrl-C is ignored, and would be here.
    // SAFETY: the signal gets its default action, no handler of ours.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let mut settings = Settings::guarded(&std::env::current_exe().unwrap(), root, None).unwrap();
    let frequency = Some("fixed:1000kHz".parse().unwrap());
    let asked = Conditions { governor: Some("userspace".into()), frequency, ..Conditions::default() };
    let got = Machine::at(root).apply(&asked, &mut settings);
    assert!(got.iter().all(|c| c.why.is_empty()), "{got:?}");
    say("set");
    let _ = std::io::stdin().read(&mut [0]);
}

/// A processor's settings as they are before a test.
const BEFORE: [(&str, &str); 4] = [
    ("scaling_governor", "ondemand"),
    ("scaling_min_freq", "300"),
    ("scaling_max_freq", "900"),
    ("scaling_setspeed", "300"),
];

/// Sets a tree's frequency in a process that is a group of its own, as a terminal's job is; `end` ends it.
fn frequency_is_put_back_after(end: fn(&mut Child)) -> Result<(), Skip> {
    let tree = tempfile::tempdir().unwrap();
    let policy = tree.path().join(POLICY);
    fs::create_dir_all(&policy).unwrap();
    let limits = [("cpuinfo_min_freq", "300"), ("cpuinfo_max_freq", "1000")];
    BEFORE.iter().chain(&limits).for_each(|(file, text)| fs::write(policy.join(file), text).unwrap());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["hold-frequency", tree.path().to_str().unwrap()]).process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(line_of(&mut child), "set");
    let now = BEFORE.map(|(file, _)| value(&policy, file));
    assert_eq!(now, ["userspace", "1000", "1000", "1000"]);
    end(&mut child);
    assert!(!child.wait().unwrap().success(), "it was ended, and did not end itself");
    until("the settings are back", || journals(tree.path()).is_empty());
    BEFORE.iter().for_each(|(file, text)| assert_eq!(value(&policy, file), *text, "{file}"));
    Ok(())
}

fn a_killed_process_leaves_the_frequency_as_it_was() -> Result<(), Skip> {
    frequency_is_put_back_after(|child| child.kill().unwrap())
}

fn ctrl_c_leaves_the_frequency_as_it_was() -> Result<(), Skip> {
    // A terminal sends it to the whole group: to the watchdog, too, if it were in there.
    frequency_is_put_back_after(|child| {
        let group = rustix::process::Pid::from_child(child);
        rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    })
}

/// Nobody, by number: may read no file of root's that is root's alone.
const NOBODY: u32 = 65534;

fn a_meter_that_may_not_be_read_says_so() -> Result<(), Skip> {
    let tree = tempfile::tempdir().unwrap();
    let put = |file: &str, text: &str, mode| {
        let path = tree.path().join("sys").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    };
    // Kernels from 5.10 on let root alone read what others could guess secrets from.
    put("class/powercap/intel-rapl:0/name", "package-0\n", 0o444);
    put("class/powercap/intel-rapl:0/energy_uj", "1\n", 0o000);
    put("class/power_supply/battery/type", "Battery\n", 0o444);
    put("class/power_supply/battery/status", "Discharging\n", 0o444);
    put("class/power_supply/battery/current_now", "1\n", 0o000);
    put("bus/iio/devices/iio:device0/energy_value", "t=1\n", 0o000);
    put("class/hwmon/hwmon0/name", "none\n", 0o444);
    fs::set_permissions(tree.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(tree.path().join("sys/class/hwmon"), Permissions::from_mode(0o000)).unwrap();
    let root = rustix::process::geteuid().is_root();
    // The process of another user must be able to reach this program: a copy lies where everybody may.
    let program = tree.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["meters", tree.path().to_str().unwrap()]).current_dir("/");
    if root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Err(Need::Root.lacks(format_args!("another user's process cannot be started: {error}"))),
    };
    fs::set_permissions(tree.path().join("sys/class/hwmon"), Permissions::from_mode(0o755)).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    for file in ["intel-rapl:0/energy_uj", "battery/current_now", "iio:device0/energy_value", "sys/class/hwmon"] {
        let denied = format!("{file}: Permission denied");
        assert!(said.contains(&denied), "{denied}: {said} {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(said.contains("cure: \"run as root; or measure at the supply"), "{said}");
    Ok(())
}

fn kill_watchdog(child: &Child) {
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let watchdogs: Vec<i32> =
        fs::read_to_string(children).unwrap().split_whitespace().map(|w| w.parse().unwrap()).collect();
    assert_eq!(watchdogs.len(), 1);
    let watchdog = rustix::process::Pid::from_raw(watchdogs[0]).unwrap();
    rustix::process::kill_process(watchdog, rustix::process::Signal::KILL).unwrap();
}

fn what_a_killed_watchdog_left_is_restored() -> Result<(), Skip> {
    let (folder, mut child) = held();
    kill_watchdog(&child);
    assert_eq!(restore_left(folder.path()).unwrap(), 0, "its owner lives");
    assert_eq!(value(folder.path(), "b"), "off");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(value(folder.path(), "a"), "newer");
    assert_eq!(restore_left(folder.path()).unwrap(), 1);
    assert_eq!((value(folder.path(), "a"), value(folder.path(), "b")), ("old".into(), "on".into()));
    Ok(())
}

/// Reads, writes and syncs a known number of times, between two bytes on its input.
fn work(path: &Path, rounds: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    say("ready");
    let mut input = std::io::stdin();
    input.read_exact(&mut [0]).unwrap();
    let mut page = [0; 4096];
    let start = Instant::now();
    for n in 0..rounds {
        file.read_exact_at(&mut page, n % 8 * 4096).unwrap();
        file.read_exact_at(&mut page[..100], 50).unwrap();
        file.write_all_at(&page[..512], n % 4 * 8192).unwrap();
        if rounds < 100 {
            file.sync_all().unwrap();
        }
    }
    let passed = start.elapsed().as_nanos();
    // A thread that is started while this is recorded is followed.
    let copy = file.try_clone().unwrap();
    std::thread::spawn(move || copy.read_exact_at(&mut [0; 7], 0).unwrap()).join().unwrap();
    let created = File::create(path.with_extension("new")).unwrap();
    created.write_all_at(b"four", 0).unwrap();
    fs::remove_file(path.with_extension("new")).unwrap();
    say(&format!("done {passed}"));
    input.read_exact(&mut [0]).unwrap();
}

fn worker(rounds: u64) -> (tempfile::TempDir, Child) {
    // Not in a file system in memory: it has no block requests.
    let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
    let path = folder.path().join("data");
    fs::write(&path, vec![7; 8 * 4096]).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    let mut child = myself(&["work", path.to_str().unwrap(), &rounds.to_string()]);
    assert_eq!(line_of(&mut child), "ready");
    (folder, child)
}

/// Nanoseconds that the worker's rounds took.
fn done(child: &mut Child) -> u64 {
    line_of(child).strip_prefix("done ").unwrap().parse().unwrap()
}

/// All of a process, and nothing of those that it starts.
const ONE_PROCESS: Follow = Follow { system_calls: true, children: false };

fn known_calls_are_counted_exactly() -> Result<(), Skip> {
    if let Err(error) = ensure_tracefs() {
        return Err(Need::Kernel.lacks(error.chain()));
    }
    const ROUNDS: u64 = 20;
    let (folder, mut child) = worker(ROUNDS);
    let data = folder.path().join("data");
    let cached = File::open(&data).unwrap();
    rustix::fs::fadvise(&cached, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut recorder = Recorder::new(child.id(), &[folder.path()], BUFFER_KIB, ONE_PROCESS).unwrap();
    recorder.start().unwrap();
    go(&mut child);
    done(&mut child);
    recorder.stop().unwrap();
    let recording = recorder.read().unwrap();
    go(&mut child);
    child.wait().unwrap();
    let (first, last) = (recording.log.events.first().unwrap(), recording.log.events.last().unwrap());
    let window = pocketstone_core::events::Window { start_ns: first.time_ns, end_ns: last.time_ns + 1 };
    let analysis = analysis::analyse(&recording.log, window, &recording.threads, &[], 1);
    let file = analysis.files.iter().find(|f| f.file.as_deref() == data.to_str()).expect("the file is known");
    // The thread's seven bytes come through a descriptor that fcntl has made of this file's.
    assert_eq!([file.reads, file.read_bytes], [2 * ROUNDS + 1, ROUNDS * 4196 + 7]);
    assert_eq!([file.writes, file.written_bytes], [ROUNDS, ROUNDS * 512]);
    assert_eq!(file.syncs, ROUNDS);
    assert!(file.sync_ns > 0 && file.read_ns > 0);
    assert_eq!(recording.threads.len(), 2, "{:?}", recording.threads);
    let seven = recording.log.events.iter().filter(|e| {
        matches!(e.kind, pocketstone_core::events::EventKind::Exit { result: 7, .. }) && e.pid != child.id()
    });
    assert_eq!(seven.count(), 1, "the thread's read");
    assert!(analysis.total.on_core_ns > 0 && analysis.total.switches >= 1);
    let missing: Vec<&str> = recording.unavailable.iter().map(|u| u.what.words()).collect();
    let _ = writeln!(
        std::io::stderr(),
        "{} events; {} cache misses, {} block writes; unavailable: {missing:?}",
        recording.log.events.len(),
        file.cache_misses,
        analysis.total.block_writes
    );
    measure_cost();
    Ok(())
}

/// Says what recording costs an event, by the same calls without and with it.
fn measure_cost() {
    const ROUNDS: u64 = 20_000;
    let (_plain_folder, mut plain) = worker(ROUNDS);
    go(&mut plain);
    let without_ns = done(&mut plain);
    go(&mut plain);
    plain.wait().unwrap();
    let (folder, mut child) = worker(ROUNDS);
    let mut recorder = Recorder::new(child.id(), &[folder.path()], BUFFER_KIB, ONE_PROCESS).unwrap();
    recorder.start().unwrap();
    go(&mut child);
    let with_ns = done(&mut child);
    let start = Instant::now();
    recorder.stop().unwrap();
    let recording = recorder.read().unwrap();
    let read_ns = start.elapsed().as_nanos() as u64;
    go(&mut child);
    child.wait().unwrap();
    let events = recording.log.events.len() as u64;
    assert!(events > 6 * ROUNDS);
    let per_event = with_ns.saturating_sub(without_ns) / (6 * ROUNDS);
    let _ = writeln!(
        std::io::stderr(),
        "{ROUNDS} rounds of 3 calls: {without_ns} ns without, {with_ns} ns with recording, {per_event} ns an event; \
         reading {events} events took {} ns each",
        read_ns / events
    );
}

fn a_buffer_too_small_is_an_error() -> Result<(), Skip> {
    if let Err(error) = ensure_tracefs() {
        return Err(Need::Kernel.lacks(error.chain()));
    }
    let (folder, mut child) = worker(20_000);
    let mut recorder = Recorder::new(child.id(), &[folder.path()], 16, ONE_PROCESS).unwrap();
    recorder.start().unwrap();
    go(&mut child);
    done(&mut child);
    recorder.stop().unwrap();
    let error = recorder.read().unwrap_err();
    go(&mut child);
    child.wait().unwrap();
    assert!(error.message().contains("lost"), "{}", error.chain());
    assert!(error.cure().unwrap().contains("larger buffer"));
    let nobody = Recorder::new(u32::MAX >> 2, &[], 16, ONE_PROCESS).err().unwrap();
    assert!(nobody.chain().contains("no process"), "{}", nobody.chain());
    Ok(())
}

/// Records until it is killed.
fn record() {
    ensure_tracefs().unwrap();
    let mut recorder = Recorder::new(std::process::id(), &[], 16, ONE_PROCESS).unwrap();
    recorder.start().unwrap();
    say("ready");
    std::thread::sleep(std::time::Duration::from_secs(600));
}

fn what_a_killed_recorder_left_is_removed() -> Result<(), Skip> {
    if let Err(error) = ensure_tracefs() {
        return Err(Need::Kernel.lacks(error.chain()));
    }
    let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(|root| Path::new(root).join("instances"));
    let instances = |pid: u32| {
        let all = roots.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
        let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains(&format!("_{pid}_"))).count()
    };
    let mut child = myself(&["record"]);
    assert_eq!(line_of(&mut child), "ready");
    let own = || Recorder::new(std::process::id(), &[], 16, ONE_PROCESS).unwrap();
    drop(own());
    assert!(instances(child.id()) > 0, "it has not been killed");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(own());
    assert_eq!([child.id(), std::process::id()].map(instances), [0, 0]);
    Ok(())
}

fn this_machine_says_what_it_cannot_set() -> Result<(), Skip> {
    let machine = Machine::default();
    let before = machine.cores_online().unwrap();
    let mut settings = Settings::unguarded();
    let asked = Conditions {
        governor: Some("no-such".into()),
        cores: Some(before),
        power: Some("the-sun".into()),
        ..Conditions::default()
    };
    let got = machine.apply(&asked, &mut settings);
    assert_eq!(got[1].in_force, Some(before.to_string()));
    assert!(got[1].why.is_empty());
    let word = if machine.governor().is_some() { "no governor `no-such`" } else { "no cpufreq" };
    assert!(got[0].why.contains(word) || got[0].why.contains("no-such"), "{}", got[0].why);
    assert!(!got[2].why.is_empty());
    settings.restore().unwrap();
    assert_eq!(machine.cores_online().unwrap(), before);
    Ok(())
}
