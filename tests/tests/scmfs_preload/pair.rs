//! Two processes on one file, one of them without the kernel: compared with a model after every step.

use crate::puppet::Puppet;
use crate::report::{Report, storing};
use pocketstone_random::Random;
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::suites::tell;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn two_processes_see_what_each_other_does() {
    run("write");
}

#[test]
fn two_processes_see_what_each_other_appends() {
    run("append");
}

fn run(preload: &str) {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", &format!("preload={preload}")]);
    let kinds = if preload == "append" { 50 } else { 30 };
    let (file, script) = (volume.path().join("file"), place.path("pair.py"));
    fs::write(&script, include_str!("pair.py")).expect("a new file");
    let mut model = vec![1_u8; 200_000];
    fs::write(&file, &model).expect("a new file");
    let report = Report::at(place.path("report"));
    let mut both = [report.run(&python), Command::new(&python)].map(|command| Puppet::start(command, &script, &file));
    let mut random = Random::new(11);
    let start = Instant::now();
    let mut steps = 0;
    // Most steps are the same one's, in turns: a file that both use all the time is left to the kernel.
    while steps < 6000 && start.elapsed() < Duration::from_secs(60) {
        let (who, turn) = (usize::from(random.below(3) == 0), 1 + random.below(60));
        for _ in 0..turn {
            steps += 1;
            let at = random.below(model.len() as u64) as usize;
            let bytes = (1 + random.below(9000) as usize).min(model.len() - at);
            let byte = steps as u8;
            let puppet = &mut both[who];
            let size = model.len();
            match random.below(kinds) {
                30..42 if size < 400_000 => {
                    let word = if random.below(3) == 0 { "write" } else { "append" };
                    assert_eq!(puppet.tell(word, size, bytes, byte), bytes.to_string().into_bytes());
                    model.resize(size + bytes, byte);
                }
                30..42 => {
                    puppet.tell("truncate", 0, at + 1, 0);
                    model.truncate(at + 1);
                }
                42..45 => {
                    let from = size - (size - at).min(20_000);
                    let got = puppet.tell("pread", from, 60_000, 0);
                    assert!(got == model[from..(from + 60_000).min(size)], "step {steps}: up to the end by {who}");
                }
                45 | 46 => {
                    let from = size - (size - at).min(20_000);
                    let got = puppet.tell("send", from, 60_000, 0);
                    assert!(got == model[from..(from + 60_000).min(size)], "step {steps}: sent by {who}");
                }
                47 => drop(puppet.tell("sync", 0, 0, 0)),
                48 => drop(puppet.tell("size", 0, 0, 0)),
                kind @ 0..14 => {
                    let got = puppet.tell(if kind < 10 { "pread" } else { "read" }, at, bytes, 0);
                    assert!(got == model[at..at + bytes], "step {steps}: {bytes} bytes at {at} by {who}");
                }
                kind @ 14..25 => {
                    let word = if kind < 22 { "pwrite" } else { "write" };
                    assert_eq!(puppet.tell(word, at, bytes, byte), bytes.to_string().into_bytes());
                    model[at..at + bytes].fill(byte);
                }
                25 => {
                    puppet.tell("store", at, 0, byte);
                    model[at] = byte;
                }
                26 => assert!(puppet.tell("load", at, bytes, 0) == model[at..at + bytes], "step {steps}"),
                27 => {
                    let size = 1000 + random.below(250_000) as usize;
                    puppet.tell("truncate", 0, size, 0);
                    model.resize(size, 0);
                }
                28 => assert_eq!(puppet.tell("size", 0, 0, 0), model.len().to_string().into_bytes()),
                _ => drop(puppet.tell("rename", 0, 0, 0)),
            }
        }
        if random.below(6) == 0 {
            // The second that a file is left to the kernel is over.
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    both.into_iter().for_each(Puppet::end);
    assert!(fs::read(&file).expect("the file") == model);
    let (reads, writes) = report.direct();
    tell(&format!("{steps} steps of two processes, {reads} reads and {writes} writes without the kernel"));
    assert!(steps >= 1000 && reads > 50 && writes > 50, "{}", report.text());
    volume.end();
}
