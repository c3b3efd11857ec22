//! The `postmark` workload beside the program PostMark, as strace sees it: the same rules, the same mix.

use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::run;
use pocketstone_tests::suites::command;
use pocketstone_workload::postmark::postmark_operations;
use pocketstone_workload::{Data, PostmarkSpec};
use pocketstone_workload::{FileWorkload, Operation, Purpose};
use std::collections::BTreeMap;
use std::fs;

const FILES: u64 = 200;
const TRANSACTIONS: u64 = 2000;
const LEAST: u64 = 500;
const MOST: u64 = 10_000;
const BLOCK: u64 = 512;

/// What is done to one file: by open() until close(), or by unlink(). Bytes are those of each read() or write().
#[derive(Debug)]
enum Event {
    Create(u32, Vec<u64>),
    Read(u32, Vec<u64>),
    Append(u32, Vec<u64>),
    Delete(u32),
}

/// What PostMark did, from strace's output.
fn events_of_program(text: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut open: Option<(u32, String, Vec<u64>)> = None;
    for line in text.lines() {
        let quoted = line.split('"').nth(1).unwrap_or_default();
        let file = || quoted.rsplit('/').next().and_then(|name| name.parse().ok());
        let result: u64 = line.rsplit("= ").next().and_then(|n| n.trim().parse().ok()).unwrap_or(0);
        if line.starts_with("openat") {
            open = file().map(|file| (file, line.to_owned(), Vec::new()));
        } else if line.starts_with("unlink") {
            events.extend(file().map(Event::Delete));
        } else if line.starts_with("close") {
            events.extend(open.take().map(|(file, flags, bytes)| match flags {
                flags if flags.contains("O_CREAT") => Event::Create(file, bytes),
                flags if flags.contains("O_APPEND") => Event::Append(file, bytes),
                _ => Event::Read(file, bytes),
            }));
        } else if let (Some((_, _, bytes)), 1..) = (&mut open, result) {
            // Where a size is a multiple of the block, it ends with a call that moves nothing.
            bytes.push(result);
        }
    }
    events
}

/// What our workload does.
fn events_of_workload(spec: &PostmarkSpec, seed: u64) -> Vec<Event> {
    let there = spec.population(seed).list();
    let mut events: Vec<Event> = (0..).zip(there).map(|(n, f)| Event::Create(n, vec![f.bytes])).collect();
    for operation in postmark_operations(spec, seed) {
        match operation {
            Operation::Create { file } => events.push(Event::Create(file, Vec::new())),
            Operation::Open { file, purpose: Purpose::Append } => events.push(Event::Append(file, Vec::new())),
            Operation::Open { file, purpose: Purpose::Read } => events.push(Event::Read(file, Vec::new())),
            Operation::Delete { file } => events.push(Event::Delete(file)),
            Operation::Read { bytes, .. } | Operation::Append { bytes, .. } => match events.last_mut() {
                Some(Event::Create(_, all) | Event::Read(_, all) | Event::Append(_, all)) => all.push(bytes),
                other => panic!("{bytes} bytes after {other:?}"),
            },
            Operation::Close { .. } | Operation::Evict { .. } => {}
            other => panic!("{other:?} is none of PostMark's"),
        }
    }
    events
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
    assert!(whole.iter().all(|b| *b == BLOCK) && (1..=BLOCK).contains(last), "{bytes:?}");
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

#[test]
fn our_transactions_keep_the_rules_of_the_program_and_have_its_mix() {
    let postmark = or_skip!(program("postmark", "postmark"));
    let strace = or_skip!(program("strace", "strace"));
    let home = tempfile::tempdir().expect("a folder");
    let (files, words, log) = (home.path().join("files"), home.path().join("words"), home.path().join("log"));
    fs::create_dir(&files).expect("a folder");
    let instructions = format!(
        "set location {}\nset size {LEAST} {MOST}\nset number {FILES}\nset transactions {TRANSACTIONS}\nset read \
         {BLOCK}\nset write {BLOCK}\nset buffering false\nset seed 42\nrun\nquit\n",
        files.display()
    );
    fs::write(&words, instructions).expect("instructions");
    let mut traced = command(&strace);
    traced.args(["-s", "0", "-e", "trace=openat,read,write,close,unlink", "-o"]).arg(&log).arg(&postmark).arg(&words);
    run(&mut traced).ends_with(0).says(&["Deleting files...Done"]);
    let text = fs::read_to_string(&log).expect("strace's log");
    let folder = files.display().to_string();
    let start = text.find(&format!("\"{folder}/")).map(|at| text[..at].rfind('\n').map_or(0, |n| n + 1));
    let theirs = judge(&events_of_program(&text[start.expect("PostMark made a file")..]));

    let (files, least_file_bytes, file_bytes) = (FILES, LEAST, MOST);
    let (transactions, request_bytes, data) = (TRANSACTIONS, BLOCK, Data::Random);
    let spec = PostmarkSpec { files, least_file_bytes, file_bytes, transactions, request_bytes, data };
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
