//! What a program is told to be durable, and by whom.

use crate::puppet::Puppet;
use crate::report::{Report, storing};
use pocketstone_testing::{or_skip, program};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PAGE: usize = 4096;
const STORED_AT: usize = 5 * PAGE + 100;

/// Overwrites what is there, and then makes another file longer; each write is followed by an fdatasync(2).
const WRITER: &str = "
import os, sys
old, new = (os.open(path, os.O_WRONLY | os.O_CREAT) for path in sys.argv[1:])
for n in range(400):
    os.pwrite(old, b'%04d' % n * 1024, n % 16 * 4096)
    os.fdatasync(old)
    os.write(new, b'%04d' % n * 100)
    os.fdatasync(new)
print('done', flush=True)
sys.stdin.read()
";

/// Stores a byte to a page that it has mapped, and keeps it so.
const MAPPER: &str = "
import mmap, os, sys
m = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)
m[int(sys.argv[2])] = 77
print('done', flush=True)
sys.stdin.read()
";

/// Starts a program, and waits until it has done what it does before it waits itself.
fn done(command: &mut Command) -> Child {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 starts");
    let said = BufReader::new(child.stdout.take().expect("a pipe")).lines().next();
    assert_eq!(said.expect("a line").expect("a line"), "done");
    child
}

#[test]
fn fdatasync_asks_nobody_and_what_it_kept_outlives_program_and_server() {
    let python = or_skip!(program("python3", "python3"));
    for options in [["-o", "preload=append"], ["-o", "preload=map"]] {
        let place = or_skip!(storing());
        let volume = place.volume(&options);
        let report = Report::at(place.path("report"));
        let [old, new] = ["old", "new"].map(|name| volume.path().join(name));
        fs::write(&old, [0; 16 * PAGE]).expect("a file");
        let mut child = done(report.run(&python).args(["-c", WRITER]).arg(&old).arg(&new));
        // Both are dead: nothing is left but what was made durable.
        volume.kill();
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let volume = volume.kill_and_mount_again(&options);
        let appended: Vec<u8> = (0..400).flat_map(|n| format!("{n:04}").repeat(100).into_bytes()).collect();
        assert!(fs::read(volume.path().join("new")).expect("the file") == appended, "{options:?}");
        let overwritten = (384..400).map(|n| (n % 16, format!("{n:04}").repeat(1024)));
        let content = fs::read(volume.path().join("old")).expect("the file");
        for (at, page) in overwritten {
            assert!(content[at * PAGE..(at + 1) * PAGE] == *page.as_bytes(), "{options:?}: page {at}");
        }
        volume.end();
    }
    // The same again, to its end. The first calls are the kernel's; and every few seconds the server stores sizes.
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=append"]);
    let report = Report::at(place.path("report"));
    let [old, new] = ["old", "new"].map(|name| volume.path().join(name));
    fs::write(&old, [0; 16 * PAGE]).expect("a file");
    let mut command = report.run(&python);
    let ended = command.args(["-c", WRITER]).arg(&old).arg(&new).stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(ended.expect("python3 starts").success());
    assert!((600..=800).contains(&report.syncs()), "{}", report.text());
    volume.end();
}

/// Makes files longer, one after the other and again; each write is followed by an fdatasync(2).
const LOGS: &str = "
import os, sys
folder, name, count, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
files = [os.open('%s/%s%d' % (folder, name, n), os.O_WRONLY | os.O_CREAT) for n in range(count)]
for n in range(rounds):
    for file in files:
        os.write(file, b'%04d' % n * 25)
        os.fdatasync(file)
print('done', flush=True)
sys.stdin.read()
";

#[test]
fn more_files_grow_than_there_are_records_and_those_that_grow_no_more_leave_theirs_to_others() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let options = ["-o", "preload=append"];
    let volume = place.volume(&options);
    let many = Report::at(place.path("many"));
    let few = Report::at(place.path("few"));
    let logs = |report: &Report, name: &str, count: u32, rounds: u32| {
        let (count, rounds) = (count.to_string(), rounds.to_string());
        done(report.run(&python).args(["-c", LOGS]).arg(volume.path()).args([name, &count, &rounds]))
    };
    let mut programs = vec![logs(&many, "many", 80, 40)];
    // The server looks every 2.5 s whether they still grow.
    std::thread::sleep(Duration::from_secs(8));
    programs.push(logs(&few, "few", 20, 40));
    for mut program in programs {
        drop(program.stdin.take());
        program.wait().expect("it ends");
    }
    volume.kill();
    // Of each file the first calls are the kernel's. There are 60 records.
    assert!((60 * 20..60 * 40).contains(&many.syncs()), "{}", many.text());
    assert!(few.syncs() >= 20 * 20, "{}", few.text());
    let volume = volume.kill_and_mount_again(&options);
    let grown: Vec<u8> = (0..40).flat_map(|n| format!("{n:04}").repeat(25).into_bytes()).collect();
    for (name, count) in [("many", 80), ("few", 20)] {
        for n in 0..count {
            let content = fs::read(volume.path().join(format!("{name}{n}"))).expect("the file");
            assert!(content == grown, "{name}{n}: {} bytes", content.len());
        }
    }
    volume.end();
}

#[test]
fn fdatasync_stores_what_another_program_has_stored_to_a_mapping() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let options = ["-o", "preload=append"];
    let volume = place.volume(&options);
    let report = Report::at(place.path("report"));
    let file = volume.path().join("file");
    fs::write(&file, [1; 16 * PAGE]).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scmfs_preload/pair.py");
    let mut writer = Puppet::start(report.run(&python), &script, &file);
    for n in 0..120 {
        writer.tell("pwrite", n % 3 * PAGE, PAGE, 2);
        writer.tell("datasync", 0, 0, 0);
    }
    let mut mapper = done(Command::new(&python).args(["-c", MAPPER]).arg(&file).arg(STORED_AT.to_string()));
    writer.tell("datasync", 0, 0, 0);
    writer.end();
    assert!(report.syncs() >= 10, "{}", report.text());
    volume.kill();
    drop(mapper.stdin.take());
    mapper.wait().expect("it ends");
    let volume = volume.kill_and_mount_again(&options);
    assert_eq!(fs::read(volume.path().join("file")).expect("the file")[STORED_AT], 77);
    volume.end();
}
