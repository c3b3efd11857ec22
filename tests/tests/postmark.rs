//! The `postmark` workload beside the program PostMark, as strace sees it: its transactions alone keep the same rules
//! and have the same mix; a whole run is the same, call for call.

use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::run;
use pocketstone_tests::suites::command;
use pocketstone_workload::postmark::program::ProgramSpec;
use pocketstone_workload::{Data, PostmarkSpec};
use pocketstone_workload::{FileWorkload, Operation, Purpose};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FILES: u64 = 200;
const TRANSACTIONS: u64 = 2000;
const LEAST: u64 = 500;
const MOST: u64 = 10_000;
const BLOCK: u64 = 512;

/// What is done to one file: by open() until close(), or by unlink(). Bytes are those of each read() or write(), and
/// [`ATTRIBUTES`] and [`END`] of an fstat() and of an lseek() to the end.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Create(u32, Vec<u64>),
    Read(u32, Vec<u64>),
    Append(u32, Vec<u64>),
    Delete(u32),
}

const ATTRIBUTES: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;

/// What PostMark did, from strace's output.
fn events_of_program(text: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut open: Option<(u32, String, Vec<u64>)> = None;
    for line in text.lines() {
        let quoted = line.split('"').nth(1).unwrap_or_default();
        // PostMark counts its files from 1, we from 0.
        let file = || quoted.rsplit('/').next()?.parse::<u32>().ok()?.checked_sub(1);
        let result: u64 = line.rsplit("= ").next().and_then(|n| n.trim().parse().ok()).unwrap_or(0);
        if line.starts_with("openat") {
            open = file().map(|file| (file, line.to_owned(), Vec::new()));
        } else if line.starts_with("unlink") {
            events.extend(file().map(Event::Delete));
        } else if line.starts_with("close") {
            events.extend(open.take().map(|(file, flags, bytes)| match flags {
                flags if flags.contains("O_APPEND") => Event::Append(file, bytes),
                flags if flags.contains("O_CREAT") => Event::Create(file, bytes),
                _ => Event::Read(file, bytes),
            }));
        } else if let Some((_, _, bytes)) = &mut open {
            bytes.push(match line {
                line if line.starts_with("newfstatat") || line.starts_with("fstat") => ATTRIBUTES,
                line if line.starts_with("lseek") => {
                    assert!(line.contains("0, SEEK_END"), "{line}");
                    END
                }
                _ => result,
            });
        }
    }
    events
}

/// What our workload does.
fn events_of_workload(spec: &PostmarkSpec, seed: u64) -> Vec<Event> {
    let there = spec.population(seed).list();
    let mut events: Vec<Event> = (0..).zip(there).map(|(n, f)| Event::Create(n, vec![f.bytes])).collect();
    for operation in spec.operations(seed) {
        match operation {
            Operation::Create { file } => events.push(Event::Create(file, Vec::new())),
            Operation::Open { file, purpose: Purpose::Append } => events.push(Event::Append(file, Vec::new())),
            Operation::Open { file, purpose: Purpose::Read } => events.push(Event::Read(file, Vec::new())),
            Operation::Delete { file } => events.push(Event::Delete(file)),
            Operation::Read { bytes, .. } | Operation::Append { bytes, .. } => part(&mut events, bytes),
            Operation::Attributes { .. } => part(&mut events, ATTRIBUTES),
            Operation::SeekEnd { .. } => part(&mut events, END),
            Operation::Close { .. } | Operation::Evict { .. } => {}
            other => panic!("{other:?} is none of PostMark's"),
        }
    }
    events
}

/// A call between a file's open() and its close().
fn part(events: &mut [Event], call: u64) {
    match events.last_mut() {
        Some(Event::Create(_, all) | Event::Read(_, all) | Event::Append(_, all)) => all.push(call),
        other => panic!("{call} after {other:?}"),
    }
}

/// What of a transaction is random: its two choices, and how large things are.
#[derive(Debug, Default)]
struct Mix {
    reads: f64,
    creations: f64,
    /// Sizes of new files in bytes.
    created: Vec<f64>,
    /// Appends, as a part of what was missing from the largest size.
    filled: Vec<f64>,
}

fn blocks_are_whole(bytes: &[u64]) {
    let Some((last, whole)) = bytes.split_last() else { return };
    // Where a size is a multiple of the block, PostMark ends with a call that moves nothing.
    assert!(whole.iter().all(|b| *b == BLOCK) && *last <= BLOCK, "{bytes:?}");
}

/// Holds transactions against PostMark's rules, and says what is random of them.
fn judge(events: &[Event]) -> Mix {
    let (first, rest) = events.split_at(FILES as usize);
    let mut sizes = BTreeMap::new();
    for event in first {
        let Event::Create(file, bytes) = event else { panic!("{event:?} before all files are there") };
        assert!(sizes.insert(*file, bytes.iter().sum::<u64>()).is_none());
    }
    let mut mix = Mix::default();
    for pair in rest.chunks(2).take(TRANSACTIONS as usize) {
        match &pair[0] {
            Event::Read(file, bytes) => {
                mix.reads += 1.0;
                assert_eq!(bytes.iter().sum::<u64>(), sizes[file], "a file is read whole");
                blocks_are_whole(bytes);
            }
            Event::Append(file, bytes) => {
                let (added, size) = (bytes.iter().sum::<u64>(), sizes.get_mut(file).expect("a file that is there"));
                let room = MOST - *size;
                assert!(if room == 0 { added == 0 } else { (1..=room).contains(&added) }, "{added} of {room}");
                blocks_are_whole(bytes);
                if room > 100 {
                    mix.filled.push(added as f64 / room as f64);
                }
                *size += added;
            }
            other => panic!("{other:?} is the first half of a transaction"),
        }
        match &pair[1] {
            Event::Create(file, bytes) => {
                mix.creations += 1.0;
                let size = bytes.iter().sum::<u64>();
                assert!((LEAST..=MOST).contains(&size) && sizes.insert(*file, size).is_none());
                blocks_are_whole(bytes);
                mix.created.push(size as f64);
            }
            Event::Delete(file) => assert!(sizes.remove(file).is_some()),
            other => panic!("{other:?} is the second half of a transaction"),
        }
    }
    mix
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// What strace shows of PostMark from the first file on, with files, transactions, smallest and largest size.
fn traced(strace: &Path, postmark: &Path, numbers: (u64, u64, u64, u64), settings: &str) -> String {
    let home = tempfile::tempdir().expect("a folder");
    let (folder, words, log) = (home.path().join("files"), home.path().join("words"), home.path().join("log"));
    fs::create_dir(&folder).expect("a folder");
    let (files, transactions, least, most) = numbers;
    let instructions = format!(
        "set location {}\nset size {least} {most}\nset number {files}\nset transactions {transactions}\n{settings}\
         run\nquit\n",
        folder.display()
    );
    fs::write(&words, instructions).expect("instructions");
    let mut traced = command(strace);
    traced.args(["-f", "-s", "0", "-e", "trace=openat,read,write,close,unlink,fstat,newfstatat,lseek", "-o"]).arg(&log);
    let ran = run(traced.arg(postmark).arg(&words)).ends_with(0).says(&["Deleting files...Done"]);
    assert!(!format!("{}{}", ran.out, ran.err).contains("Error"), "{ran}");
    let text = fs::read_to_string(&log).expect("strace's log");
    // Each line has a process's number before it.
    let lines: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(' ')?.1.trim_start())).collect();
    let place = format!("\"{}/", folder.display());
    let start = lines.iter().position(|line| line.contains(&place)).expect("PostMark made a file");
    lines[start..].join("\n")
}

#[test]
fn our_transactions_keep_the_rules_of_the_program_and_have_its_mix() {
    let postmark = or_skip!(program("postmark", "postmark"));
    let strace = or_skip!(program("strace", "strace"));
    let settings = format!("set read {BLOCK}\nset write {BLOCK}\nset buffering false\nset seed 42\n");
    let numbers = (FILES, TRANSACTIONS, LEAST, MOST);
    let theirs = judge(&events_of_program(&traced(&strace, &postmark, numbers, &settings)));

    let (files, least_file_bytes, file_bytes) = (FILES, LEAST, MOST);
    let (transactions, request_bytes, data) = (TRANSACTIONS, BLOCK, Data::Random);
    let spec = PostmarkSpec { files, least_file_bytes, file_bytes, transactions, request_bytes, data, program: None };
    let ours = judge(&events_of_workload(&spec, 42));
    // 2,000 coins: a standard deviation of 22.4, of a difference of two 31.6; five of them.
    assert!((theirs.reads - ours.reads).abs() <= 158.0, "{} reads and {}", theirs.reads, ours.reads);
    assert!((theirs.creations - ours.creations).abs() <= 158.0, "{} and {}", theirs.creations, ours.creations);
    // About 1,000 sizes, uniform over 9,500 bytes: 9500 / sqrt(12) / sqrt(1000) = 87, of a difference 123; five.
    let (their_size, our_size) = (mean(&theirs.created), mean(&ours.created));
    assert!((their_size - our_size).abs() <= 615.0, "{their_size} and {our_size}");
    // Parts of the room, uniform over 0 to 1: 1 / sqrt(12) / sqrt(600) = 0.012, of a difference 0.017; five.
    let (their_part, our_part) = (mean(&theirs.filled), mean(&ours.filled));
    assert!(theirs.filled.len() >= 600 && ours.filled.len() >= 600);
    assert!((their_part - our_part).abs() <= 0.085, "{their_part} and {our_part}");
}

#[test]
fn a_whole_run_is_the_programs_call_for_call() {
    let postmark = or_skip!(program("postmark", "postmark"));
    let strace = or_skip!(program("strace", "strace"));
    let usual =
        ProgramSpec { write_bytes: 512, bias_read: Some(5), bias_create: Some(5), subdirectories: 1, buffered: true };
    let own = |change: &dyn Fn(&mut ProgramSpec)| {
        let mut program = usual.clone();
        change(&mut program);
        program
    };
    let runs = [
        (42, 512, (200, 2000, 500, 10_000), usual.clone()),
        (1, 300, (50, 500, 500, 20_000), own(&|p| (p.write_bytes, p.subdirectories) = (3000, 4))),
        (7, 1024, (60, 400, 1, 4096), own(&|p| p.buffered = false)),
        (3, 8, (20, 300, 16, 20), own(&|p| (p.write_bytes, p.buffered, p.bias_read) = (4, false, Some(9)))),
        (9, 512, (20, 300, 700, 700), own(&|p| p.bias_create = Some(8))),
        // All of them are deleted: the transactions end.
        (2_147_483_647, 512, (10, 300, 500, 1000), own(&|p| p.bias_create = Some(1))),
        (5, 512, (10, 60, 500, 1000), own(&|p| (p.bias_read, p.bias_create) = (None, Some(10)))),
        (6, 512, (10, 60, 500, 1000), own(&|p| p.bias_create = None)),
    ];
    for (seed, request_bytes, numbers, program) in runs {
        let bias = |bias: Option<u64>| bias.map_or("-1".into(), |tenths| tenths.to_string());
        let ProgramSpec { write_bytes, subdirectories, buffered, .. } = program;
        let mut settings = format!(
            "set read {request_bytes}\nset write {write_bytes}\nset bias read {}\nset bias create {}\nset buffering \
             {buffered}\nset seed {seed}\n",
            bias(program.bias_read),
            bias(program.bias_create)
        );
        if subdirectories > 1 {
            settings += &format!("set subdirectories {subdirectories}\n");
        }
        let text = traced(&strace, &postmark, numbers, &settings);
        let (files, transactions, least_file_bytes, file_bytes) = numbers;
        let (data, program) = (Data::Random, Some(program));
        let spec = PostmarkSpec { files, least_file_bytes, file_bytes, transactions, request_bytes, data, program };
        spec.check().expect("settings that PostMark has, too");
        let (theirs, ours) = (events_of_program(&text), events_of_workload(&spec, seed));
        let same = theirs.iter().zip(&ours).take_while(|(theirs, ours)| theirs == ours).count();
        let differ = (theirs.get(same), ours.get(same));
        assert_eq!(differ, (None, None), "seed {seed}: after {same} events of {} and {}", theirs.len(), ours.len());
        if subdirectories > 1 {
            let folder_of = |line: &str| line.split("/s").nth(1)?.split('/').next()?.parse::<u64>().ok();
            let theirs: Vec<u64> = text.lines().filter(|line| line.contains("O_TRUNC")).filter_map(folder_of).collect();
            let names = spec.names(seed);
            let ours: Vec<u64> = names.iter().filter_map(|n| n.split(['-', '/']).nth(1)?.parse().ok()).collect();
            assert_eq!(theirs, ours);
        }
    }
}
