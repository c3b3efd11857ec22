//! The same programs on tmpfs, on a mount, and on a mount without the kernel: the same output, the same files.

use crate::report::{Report, storing, tree};
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::run;
use pocketstone_tests::project;
use pocketstone_tests::suites::{self, built, command, tell};
use std::fs;
use std::path::Path;

/// What is compared: a name, a program that is needed, and a script that runs in a folder of its own. Its output and
/// all its files count.
const SCRIPTS: [(&str, &str, &str); 14] = [
    ("dd", "dd", include_str!("scripts/dd.sh")),
    ("coreutils", "sort", include_str!("scripts/coreutils.sh")),
    ("shell", "bash", include_str!("scripts/shell.sh")),
    ("sed and awk", "awk", include_str!("scripts/sed-awk.sh")),
    ("archives", "tar", include_str!("scripts/archives.sh")),
    ("rsync", "rsync", include_str!("scripts/rsync.sh")),
    ("perl", "perl", include_str!("scripts/perl.sh")),
    ("python", "python3", include_str!("scripts/python.sh")),
    ("sqlite", "sqlite3", include_str!("scripts/sqlite.sh")),
    ("git", "git", include_str!("scripts/git.sh")),
    ("compiler", "cc", include_str!("scripts/compiler.sh")),
    ("java", "java", include_str!("scripts/java.sh")),
    ("static", "cc", include_str!("scripts/static.sh")),
    ("descriptors", "python3", include_str!("scripts/descriptors.sh")),
];

#[test]
fn programs_do_the_same_without_the_kernel() {
    the_same("write");
}

#[test]
fn programs_that_append_do_the_same_without_the_kernel() {
    the_same("append");
}

fn the_same(preload: &str) {
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", &format!("preload={preload}")]);
    let (mut reads, mut writes) = (0, 0);
    for (name, needs, script) in SCRIPTS {
        if program(needs, needs).is_err() {
            tell(&format!("{name}: {needs} is not installed"));
            continue;
        }
        let report = Report::at(place.path(&format!("report of {name}")));
        let ways: [(&str, &Path, bool); 3] =
            [("tmpfs", &place.path(""), false), ("mount", volume.path(), false), ("direct", volume.path(), true)];
        let outcomes = ways.map(|(way, folder, direct)| {
            let home = folder.join(format!("{name} on {way}"));
            fs::create_dir(&home).expect("a new folder");
            let mut words = if direct { report.run("bash") } else { command("bash") };
            words.args(["-c", script]).current_dir(&home);
            let ran = run(&mut words).ends_with(0);
            assert_eq!(ran.err, "", "{name} on {way}");
            (ran.out, tree(&home))
        });
        assert_eq!(outcomes[0], outcomes[1], "{name}: tmpfs and the mount");
        assert_eq!(outcomes[0], outcomes[2], "{name}: tmpfs and without the kernel");
        let direct = report.direct();
        tell(&format!("{name}: {} reads and {} writes without the kernel", direct.0, direct.1));
        (reads, writes) = (reads + direct.0, writes + direct.1);
        assert!(name != "python" || direct.0 > 500 && direct.1 > 500, "{}", report.text());
    }
    assert!(reads > 1000 && writes > 1000, "{reads} reads and {writes} writes were direct");
    volume.end();
}

/// A program that has many calls for each of its files is direct from their first call on: of 100 files only the first
/// ones are used by the kernel first.
#[test]
fn programs_with_many_calls_a_file_are_direct_from_the_first_one_on() {
    let place = or_skip!(storing());
    or_skip!(program("python3", "python3"));
    let volume = place.volume(&["-o", "preload=append"]);
    let script = "import os\nfor name in range(100):\n  file = os.open(str(name), os.O_WRONLY | os.O_CREAT)\n  \
                  for page in range(100): os.write(file, b'%04d' % page * 1024)\n  os.close(file)\n";
    let report = Report::at(place.path("report"));
    run(report.run("python3").args(["-c", script]).current_dir(volume.path())).ends_with(0);
    for name in 0..100 {
        let pages = fs::read(volume.path().join(name.to_string())).expect("a file");
        assert!(pages.chunks(4096).eq((0..100).map(|page| format!("{page:04}").repeat(1024).into_bytes())), "{name}");
    }
    // After nine files, of which each goes by the kernel for nine calls first, the first one for up to 64: its number
    // was that of files which lie elsewhere; and after 40 writes at an offset for which the program is not trusted yet.
    // What they stumble over besides is not the program's doing.
    let (_, direct) = report.direct();
    assert!(direct >= 100 * 100 - 9 * 9 - 64 - 40 - 20, "{}", report.text());
    volume.end();
}

/// Fails with the first lines that differ: all of them are thousands.
fn same_lines(left: &str, right: &str, what: &str) {
    for (line, (left, right)) in (1..).zip(left.lines().zip(right.lines())) {
        assert_eq!(left, right, "{what}, line {line}");
    }
    assert_eq!(left.lines().count(), right.lines().count(), "{what}: lines");
}

#[test]
fn calls_that_fail_and_signals_are_as_on_tmpfs() {
    let compiler = or_skip!(program("cc", "gcc"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=append"]);
    for name in ["errors", "signals"] {
        let source = project().join(format!("crates/preload/tests/loaded/{name}.c"));
        let built = place.path(name);
        run(command(&compiler).args(["-O1", "-w", "-pthread", "-o"]).arg(&built).arg(source)).ends_with(0);
        let report = Report::at(place.path(&format!("report of {name}")));
        let on_tmpfs = run(command(&built).current_dir(place.folder(&format!("{name} on tmpfs")))).ends_with(0);
        let folder = volume.path().join(name);
        fs::create_dir(&folder).expect("a new folder");
        let on_mount = run(command(&built).current_dir(&folder)).ends_with(0);
        let direct = run(report.run(&built).current_dir(&folder)).ends_with(0);
        same_lines(&on_tmpfs.out, &on_mount.out, &format!("{name}: tmpfs and the mount"));
        same_lines(&on_tmpfs.out, &direct.out, &format!("{name}: tmpfs and without the kernel"));
        let (reads, writes) = report.direct();
        assert!(reads > 10 && (writes > 10 || name == "errors"), "{}", report.text());
    }
    volume.end();
}

#[test]
fn fio_verifies_without_the_kernel() {
    let suite = or_skip!(program("fio", "fio"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=write"]);
    let report = Report::at(place.path("report"));
    // One after the other writes what the next one finds.
    for engine in ["psync", "sync", "pvsync", "mmap", "libaio", "io_uring"] {
        let mut words = report.run(&suite);
        words.args([&format!("--directory={}", volume.path().display()), "--name=job", "--size=8m", "--bs=4k"]);
        words.args([&format!("--ioengine={engine}"), "--rw=randrw", "--verify=crc32c", "--verify_fatal=1"]);
        words.args(["--filename=file", "--fallocate=none", "--thread", "--numjobs=1", "--norandommap=0"]);
        // It leaves files where it is.
        let ran = run(words.current_dir(place.path("")));
        if ran.out.contains("engine") && ran.out.contains("not loadable") || ran.err.contains("failed to init engine") {
            tell(&format!("fio has no engine {engine} here"));
            continue;
        }
        ran.ends_with(0);
    }
    let (reads, writes) = report.direct();
    assert!(reads > 500 && writes > 500, "{}", report.text());
    volume.end();
}

fn fsx(operations: u64, seeds: std::ops::RangeInclusive<u64>, preload: &str) {
    let suite = or_skip!(built("fsx"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", &format!("preload={preload}")]);
    let report = Report::at(place.path("report"));
    std::thread::scope(|scope| {
        for seed in seeds {
            let words = if seed % 2 == 1 { report.run(&suite) } else { command(&suite) };
            let mut words = suites::fsx_once(words, "fsx.toml", &place.path(""), volume.path(), operations, seed);
            scope.spawn(move || run(&mut words).ends_with(0));
        }
    });
    let (reads, writes) = report.direct();
    tell(&format!("fsx: {operations} operations, {reads} reads and {writes} writes without the kernel"));
    assert!(reads > operations / 200, "{}", report.text());
    volume.end();
}

#[test]
fn fsx_for_a_while_without_the_kernel() {
    fsx(10_000, 1..=2, "write");
}

#[test]
fn fsx_for_a_while_with_appends_without_the_kernel() {
    fsx(10_000, 1..=2, "append");
}

#[test]
#[ignore = "takes long: make torture"]
fn fsx_for_long_without_the_kernel() {
    // Four at a time; fsx 0.3.2 leaves mappings, of which a process may have 65,530.
    for first in (1..=20).step_by(4) {
        fsx(250_000, first..=first + 3, if first % 8 == 1 { "append" } else { "write" });
    }
}

#[test]
fn other_users_go_by_the_kernel() {
    let setpriv = or_skip!(program("setpriv", "util-linux"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=write"]);
    let file = volume.path().join("file");
    fs::write(&file, vec![b'a'; 300_000]).expect("a new file");
    pocketstone_tests::mounted::open_to_all(&file);
    let reports = place.folder("reports");
    let report = Report::at(reports.join("report"));
    fs::write(reports.join("report"), "").expect("a new file");
    pocketstone_tests::mounted::open_to_all(&reports.join("report"));
    let script = "for i in $(seq 20); do dd if=FILE bs=1000 count=200 status=none | sha256sum | head -c 20 | \
                  dd of=FILE conv=notrunc bs=1 seek=$i status=none; done; sha256sum < FILE";
    let script = script.replace("FILE", &file.display().to_string());
    let mut words = report.run(&setpriv);
    words.args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", &script]);
    let ran = run(&mut words).ends_with(0);
    let expected = run(command("sha256sum").arg(&file)).out;
    assert_eq!(ran.out.split_whitespace().next(), expected.split_whitespace().next());
    assert_eq!(report.direct(), (0, 0), "{}", report.text());
    assert!(report.text().contains("not permitted"), "{}", report.text());
    volume.end();
}
