//! Processes and servers that are killed in the middle.

use crate::report::{Report, storing};
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::{MountedVolume, scmfs};
use pocketstone_tests::suites::tell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const RECORD: usize = 4096;
const RECORDS: usize = 64;

/// Overwrites records one after the other, each with the number of the round, and says which one is done.
const WRITER: &str = "
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
n = 0
while True:
    n += 1
    at = n % 64
    os.pwrite(fd, b'%015d\\n' % n * 256, at * 4096)
    os.write(1, b'%d\\n' % n)
";

fn writer(mut command: Command, file: &Path) -> Child {
    command.args(["-c", WRITER]).arg(file).stdout(Stdio::piped()).stdin(Stdio::null());
    command.spawn().expect("python3 starts")
}

/// The number in each line of a record.
fn numbers(record: &[u8]) -> Vec<u64> {
    let lines = record.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| std::str::from_utf8(line).expect("digits").parse().expect("a number")).collect()
}

/// All records are what was written last, or, of the one that was being written, a mix of it and the one before.
fn expect_records(content: &[u8], said: u64) {
    for (place, record) in content.chunks(RECORD).enumerate() {
        // Whole words of it are old or new: so are lines of 16 bytes, or halves of them.
        let text = String::from_utf8_lossy(record);
        let last = (1..=said).rev().find(|n| *n as usize % RECORDS == place).unwrap_or(0);
        let next = if last == 0 { place as u64 + if place == 0 { 64 } else { 0 } } else { last + RECORDS as u64 };
        let line = |n: u64| format!("{n:015}\n").into_bytes();
        let (old, new) = (line(last), line(next));
        let fits = record.chunks(8).enumerate().all(|(i, half)| {
            let part = i % 2 * 8..i % 2 * 8 + 8;
            half == &old[part.clone()] || half == &new[part]
        });
        let settled = next > said + 1 || numbers(record).iter().all(|n| *n == last || *n == next);
        assert!(fits && settled, "record {place} after {said}: {}", &text[..64.min(text.len())]);
        if next > said + 1 {
            assert!(numbers(record).iter().all(|n| *n == last), "record {place}: nobody wrote {next}");
        }
    }
}

/// Lets a writer say so much, and kills it; the last that it said.
fn kill_after(mut child: Child, lines: usize) -> u64 {
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut said = 0;
    let mut left = lines;
    for line in output.lines() {
        said = line.expect("a line").parse().expect("a number");
        left = left.saturating_sub(1);
        if left == 0 {
            // What it says from here on is read, too: until it is dead.
            let _ = child.kill();
        }
    }
    child.wait().expect("it ends");
    said
}

#[test]
fn a_program_that_is_killed_leaves_what_it_said_it_wrote() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=write"]);
    let report = Report::at(place.path("report"));
    let file = volume.path().join("file");
    let mut said_in_all = 0;
    for round in 0..25 {
        fs::write(&file, b"000000000000000\n".repeat(256 * RECORDS)).expect("a new file");
        let said = kill_after(writer(report.run(&python), &file), 50 + round * 37);
        expect_records(&fs::read(&file).expect("the file"), said);
        said_in_all += said;
        // Others do what they do.
        fs::write(volume.path().join("other"), vec![round as u8; 100_000]).expect("a new file");
        assert_eq!(fs::read(volume.path().join("other")).expect("it"), vec![round as u8; 100_000]);
    }
    tell(&format!("25 programs killed, {said_in_all} records"));
    volume.end();
}

#[test]
fn what_a_program_said_it_wrote_survives_the_server() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let mut volume = place.volume(&["-o", "preload=write"]);
    let report = Report::at(place.path("report"));
    for round in 0..6 {
        let file = volume.path().join("file");
        fs::write(&file, b"000000000000000\n".repeat(256 * RECORDS)).expect("a new file");
        let mut child = writer(report.run(&python), &file);
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = output.lines();
        for _ in 0..200 + round * 91 {
            lines.next().expect("a line").expect("a line");
        }
        volume.kill();
        // It gets the error that it would get without the library, and ends.
        let said = lines.map(|line| line.expect("a line").parse().expect("a number")).last().unwrap_or(0_u64);
        assert!(!child.wait().expect("it ends").success());
        volume = volume.kill_and_mount_again(&["-o", "preload=write"]);
        if said > 0 {
            expect_records(&fs::read(volume.path().join("file")).expect("the file"), said);
        }
    }
    volume.end();
}

#[test]
fn a_program_that_may_write_keeps_others_from_the_volume() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=write"]);
    let file = volume.path().join("file");
    fs::write(&file, vec![b'x'; 100_000]).expect("a new file");
    let script = "
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
for i in range(100): os.pwrite(fd, b'y', i)
print('done', flush=True)
try:
    while True:
        time.sleep(0.01)
        os.pwrite(fd, b'z', 0)
except OSError as e: print(e.errno, flush=True)
sys.stdin.read()
";
    let report = Report::at(place.path("report"));
    let mut child =
        report.run(&python).args(["-c", script]).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let child = child.as_mut().expect("python3 starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("a line"), "done");
    volume.kill();
    // ENOTCONN or ECONNABORTED, as without the library.
    let errno: i32 = lines.next().expect("a line").expect("a line").parse().expect("a number");
    assert!([103, 107].contains(&errno), "{errno}");
    let refused = run(scmfs(["mount"]).arg(volume.region()).arg(volume.path()));
    assert_ne!(refused.status, Some(0), "a program may still store to the volume");
    assert!(refused.err.contains("use"), "{refused}");
    drop(child.stdin.take());
    child.wait().expect("it ends");
    let (region, directory) = (volume.region().to_owned(), volume.path().to_owned());
    drop(volume);
    let volume = MountedVolume::mount(&region, &directory, &[]);
    assert_eq!(fs::read(volume.path().join("file")).expect("the file").len(), 100_000);
    volume.end();
}

/// Says when it begins to write what takes a while, over and over.
const LONG_WRITER: &str = "
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
page, all = b'x' * 4096, b'X' * (256 << 20)
for n in range(400): os.pwrite(fd, page, 4096 * n)
print('begins', flush=True)
while True: os.pwrite(fd, all, 0)
";

/// What it still stores to is free for others once the volume is closed.
#[test]
fn a_mount_that_ends_in_the_middle_of_a_write_is_nobody_elses_before_the_writer_ends() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let mut volume = place.volume(&["-o", "preload=write"]);
    let (mut refused, mut tries) = (0, 0);
    while refused == 0 && tries < 10 {
        tries += 1;
        let file = volume.path().join("file");
        fs::write(&file, vec![b'o'; 256 << 20]).expect("a new file");
        let report = Report::at(place.path("report"));
        let child = report.run(&python).args(["-c", LONG_WRITER]).arg(&file).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("python3 starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert_eq!(lines.next().expect("a line").expect("a line"), "begins");
        std::thread::sleep(std::time::Duration::from_millis(200 + 37 * tries));
        let signal = |signal| rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal);
        signal(rustix::process::Signal::STOP).expect("it runs");
        volume.terminate();
        let (region, directory) = (volume.region().to_owned(), volume.path().to_owned());
        drop(volume);
        // In the middle of a copy, most likely, or between two.
        let again = run(scmfs(["mount"]).arg(&region).arg(&directory));
        refused += u64::from(again.status != Some(0));
        match again.status {
            Some(0) => drop(run(scmfs(["umount"]).arg(&directory)).ends_with(0)),
            _ => assert!(again.err.contains("use"), "{again}"),
        }
        let _ = child.kill();
        child.wait().expect("it ends");
        volume = MountedVolume::mount(&region, &directory, &["-o", "preload=write"]);
    }
    assert!(refused > 0, "stopped {tries} times, and never in the middle of a copy");
    volume.end();
}
