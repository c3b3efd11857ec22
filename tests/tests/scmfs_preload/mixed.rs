//! Several processes on the same files, as fsx does on one file by one process: half of them have the library loaded,
//! half of them are static programs. What they are told to do is done to a model as well, and all that they read and
//! answer is compared with it.

use crate::report::{Report, compiled, storing};
use pocketstone_random::Random;
use pocketstone_testing::{Skip, or_skip, program, seed};
use pocketstone_tests::mounted::Place;
use pocketstone_tests::suites::{command, tell};
use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const FILES: usize = 3;
const WORKERS: usize = 4;
const FILE_BYTES_MOST: u64 = 256 << 10;
/// So many steps are told of when one fails.
const SHOWN: usize = 20;
/// All files are read by yet another process so often.
const STEPS_PER_LOOK: u64 = 5000;

/// What a worker can do, by the numbers in `mixed.c`; the first ones read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Pread,
    ReadOn,
    Preadv,
    Load,
    SendFile,
    Stream,
    Pwrite,
    WriteOn,
    Pwritev,
    Append,
    Store,
    StoreAndSync,
    Truncate,
    Allocate,
    CopyRange,
    Size,
    Fsync,
    Fdatasync,
    Forget,
    Reopen,
}

use What::{
    Allocate, Append, CopyRange, Fdatasync, Forget, Fsync, Load, Pread, Preadv, Pwrite, Pwritev, ReadOn, Reopen,
    SendFile, Size, Store, StoreAndSync, Stream, Truncate, WriteOn,
};

/// How often, of 100.
const WEIGHTS: [(What, u64); 20] = [
    (Pread, 16),
    (ReadOn, 10),
    (Preadv, 2),
    (Load, 5),
    (SendFile, 2),
    (Stream, 2),
    (Pwrite, 16),
    (WriteOn, 10),
    (Pwritev, 2),
    (Append, 9),
    (Store, 4),
    (StoreAndSync, 2),
    (Truncate, 4),
    (Allocate, 5),
    (CopyRange, 3),
    (Size, 3),
    (Fsync, 1),
    (Fdatasync, 1),
    (Forget, 1),
    (Reopen, 2),
];

/// fallocate(2): to make longer, beyond the end, a hole, zeros, zeros beyond the end.
const MODES: [u32; 5] = [0, 1, 3, 0x10, 0x11];
const KEEPS_SIZE: u32 = 1;
const ZEROES: u32 = 0x10 | 2;

/// What a mount promises, as docs/preload.md has it.
#[derive(Clone, Copy)]
struct Promises {
    /// By the kernel everybody maps; directly, who has the library loaded.
    maps: bool,
    /// sendfile(2) gives what there is.
    sends: bool,
    /// read(2) gives nothing behind the end, where another process had room for more; else only after stat(2).
    ends: bool,
}

impl Promises {
    fn of(preload: &str, loaded: bool) -> Promises {
        let by_kernel = preload != "map";
        Promises { maps: by_kernel || loaded, sends: by_kernel, ends: preload != "append" }
    }
}

#[derive(Debug, Clone, Copy)]
struct Task {
    what: What,
    file: usize,
    at: u64,
    bytes: u64,
    /// The file that is copied to.
    other: usize,
    /// Which bytes are written, or the mode of fallocate(2), or the offset to copy to.
    fill: u32,
}

/// What a write with this number puts at an offset.
fn pattern(number: u32, at: u64, bytes: u64) -> impl Iterator<Item = u8> {
    (at..at + bytes).map(move |at| 1 + ((u64::from(number) * 37 + at * 11 + at / 256 * 7) % 255) as u8)
}

/// What the files hold.
struct Model([Vec<u8>; FILES]);

impl Model {
    fn size(&self, file: usize) -> u64 {
        self.0[file].len() as u64
    }

    fn write(&mut self, file: usize, at: u64, bytes: impl Iterator<Item = u8>) {
        let (content, mut at) = (&mut self.0[file], at as usize);
        if at > content.len() {
            content.resize(at, 0);
        }
        for byte in bytes {
            match content.get_mut(at) {
                Some(place) => *place = byte,
                None => content.push(byte),
            }
            at += 1;
        }
    }

    /// Something that can be done.
    fn choose(&self, random: &mut Random, promises: Promises) -> Task {
        let mut at_weight = random.below(100);
        let chosen = WEIGHTS.iter().find(|(_, weight)| {
            let is_it = at_weight < *weight;
            at_weight = at_weight.saturating_sub(*weight);
            is_it
        });
        let mut what = chosen.map_or(Pread, |(what, _)| *what);
        let (file, other) = (random.below(FILES as u64) as usize, random.below(FILES as u64) as usize);
        let size = self.size(file);
        let most = [100, 5000, 40_000][random.below(3) as usize];
        let (at, bytes) = (random.below(size.max(1)), 1 + random.below(most));
        // Now and then behind the end.
        let beyond = if random.below(16) == 0 { size + random.below(20_000) } else { at };
        let fill = random.below(256) as u32;
        let inside = |what| Task { what, file, at, bytes: bytes.min(size - at), other, fill };
        match what {
            Store | StoreAndSync | Load if size == 0 => what = Reopen,
            Store | StoreAndSync if !promises.maps => what = Pwrite,
            Load if !promises.maps => what = ReadOn,
            SendFile if !promises.sends => what = Pread,
            _ => {}
        }
        let longest = match what {
            Append => size + bytes,
            Pwrite | WriteOn | Pwritev | Allocate => beyond + bytes,
            CopyRange => self.size(other) + bytes,
            _ => 0,
        };
        match what {
            _ if longest > FILE_BYTES_MOST => {
                Task { what: Truncate, file: if what == CopyRange { other } else { file }, at, bytes: 0, other, fill }
            }
            Load | Store | StoreAndSync => inside(what),
            Append => Task { what, file, at: size, bytes, other, fill },
            Pread | ReadOn | Preadv | Stream | Pwrite | WriteOn | Pwritev => {
                Task { what, file, at: beyond, bytes, other, fill }
            }
            Allocate => Task { what, file, at: beyond, bytes, other, fill: MODES[random.below(5) as usize] },
            CopyRange => {
                let to = random.below(self.size(other) + 1);
                let apart = file != other || at + bytes <= to || to + bytes <= at;
                let what = if apart { CopyRange } else { Size };
                Task { what, file, at, bytes, other, fill: to as u32 }
            }
            Truncate => Task { what, file, at: random.below(FILE_BYTES_MOST / 2), bytes: 0, other, fill },
            _ => Task { what, file, at, bytes, other, fill },
        }
    }

    /// The answer, and what is read.
    fn apply(&mut self, task: &Task) -> (i64, Vec<u8>) {
        let Task { what, file, at, bytes, other, fill } = *task;
        let size = self.size(file);
        let there = bytes.min(size.saturating_sub(at));
        let read = |content: &[u8]| content[at.min(size) as usize..][..there as usize].to_vec();
        match what {
            Pread | ReadOn | Preadv | Load | SendFile | Stream => (there as i64, read(&self.0[file])),
            Pwrite | WriteOn | Pwritev | Append | Store | StoreAndSync => {
                self.write(file, at, pattern(fill, at, bytes));
                (bytes as i64, Vec::new())
            }
            Truncate => {
                self.0[file].resize(at as usize, 0);
                (0, Vec::new())
            }
            Allocate => {
                if fill & KEEPS_SIZE == 0 && at + bytes > size {
                    self.0[file].resize((at + bytes) as usize, 0);
                }
                if fill & ZEROES != 0 {
                    let size = self.size(file);
                    self.0[file][at.min(size) as usize..(at + bytes).min(size) as usize].fill(0);
                }
                (0, Vec::new())
            }
            CopyRange => {
                let moved = read(&self.0[file]);
                self.write(other, fill.into(), moved.into_iter());
                (there as i64, Vec::new())
            }
            Size => (size as i64, Vec::new()),
            Fsync | Fdatasync | Forget | Reopen => (0, Vec::new()),
        }
    }
}

/// A process that does what it is told.
struct Worker {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    loaded: bool,
}

impl Worker {
    fn start(mut command: Command, files: &[PathBuf], loaded: bool) -> Worker {
        let mut child = command.args(files).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Worker { child, input, output, loaded }
    }

    /// Its answer, and the bytes that it read.
    fn act(&mut self, task: &Task) -> (i64, Vec<u8>) {
        let Task { what, file, at, bytes, other, fill } = *task;
        let mut words = [0; 40];
        let numbers = [what as u64 | (file as u64) << 32, at, bytes, other as u64, fill.into()];
        words.chunks_exact_mut(8).zip(numbers).for_each(|(word, number)| word.copy_from_slice(&number.to_ne_bytes()));
        self.input.write_all(&words).expect("it listens");
        let mut answer = [0; 8];
        self.output.read_exact(&mut answer).expect("it answers");
        let answer = i64::from_ne_bytes(answer);
        let reads = (what as u32) < Pwrite as u32 && answer > 0;
        let mut content = vec![0; if reads { answer as usize } else { 0 }];
        self.output.read_exact(&mut content).expect("it says what it read");
        (answer, content)
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// The worker, with the C library's functions in a library of their own, or in it.
struct Programs {
    dynamic: PathBuf,
    fixed: PathBuf,
}

#[track_caller]
fn programs(place: &Place) -> Result<Programs, Skip> {
    let compiler = program("cc", "gcc")?;
    let build = |name: &str, how: &[&str]| {
        compiled(&compiler, place, name, include_str!("mixed.c"), &[&["-Wall"], how].concat())
    };
    Ok(Programs { dynamic: build("dynamic", &[]), fixed: build("static", &["-static"]) })
}

/// Runs so many steps on files of a folder; how many files were mapped.
fn run_steps(programs: &Programs, report: &Report, folder: &Path, preload: &str, seed: u64, steps: u64) -> u64 {
    let files: [PathBuf; FILES] = std::array::from_fn(|file| folder.join(format!("{seed}-{file}")));
    files.iter().for_each(|file| fs::write(file, "").expect("a new file"));
    let mut workers: [Worker; WORKERS] = std::array::from_fn(|number| match number % 2 {
        0 => Worker::start(report.run(&programs.dynamic), &files, true),
        _ => Worker::start(command(&programs.fixed), &files, false),
    });
    let mut model = Model([const { Vec::new() }; FILES]);
    let mut random = Random::labelled(seed, "mixed");
    let (mut step, mut maps, mut before) = (0, 0, VecDeque::new());
    let by_kernel = preload != "map";
    while step < steps {
        // Mostly the same one for a while: what several use all the time is left to the kernel.
        let (who, turn) = (random.below(WORKERS as u64) as usize, 1 + random.below(60));
        for _ in 0..turn {
            let worker = &mut workers[who];
            let promises = Promises::of(preload, worker.loaded);
            let task = model.choose(&mut random, promises);
            if !promises.ends && (task.what as u32) < Pwrite as u32 {
                let size = model.size(task.file);
                if task.at + task.bytes > size {
                    assert_eq!(worker.act(&Task { what: Size, ..task }).0, size as i64, "seed {seed}, step {step}");
                }
            }
            if before.len() == SHOWN {
                before.pop_front();
            }
            before.push_back((step, who, task));
            let says =
                || format!("{preload}, seed {seed}; step, worker and task, up to the one that failed: {before:#?}");
            let (answer, content) = worker.act(&task);
            if matches!(task.what, Load | Store | StoreAndSync) {
                // In too many pieces.
                if answer == 0 && !by_kernel {
                    continue;
                }
                maps += 1;
            }
            step += 1;
            let (expected, expected_content) = model.apply(&task);
            assert_eq!(answer, expected, "{}", says());
            if content != expected_content {
                let at = content.iter().zip(&expected_content).position(|(is, should)| is != should);
                panic!("{}: at {at:?} of what it read", says());
            }
            if step % STEPS_PER_LOOK == 0 {
                let found = files.each_ref().map(|file| fs::read(file).expect("the file"));
                assert!(found == model.0, "{}: all files after it", says());
            }
        }
    }
    workers.into_iter().for_each(Worker::end);
    let found = files.each_ref().map(|file| fs::read(file).expect("the file"));
    assert!(found == model.0, "{preload}, seed {seed}: at the end");
    maps
}

fn mixed(preload: &str, seeds: RangeInclusive<u64>, steps: u64) {
    let place = or_skip!(storing());
    let programs = or_skip!(programs(&place));
    let volume = place.volume(&["-o", &format!("preload={preload}")]);
    let report = Report::at(place.path("report"));
    let (count, folder) = (seeds.clone().count() as u64, volume.path());
    let maps: u64 = std::thread::scope(|threads| {
        let steps_of = |seed| run_steps(&programs, &report, folder, preload, seed, steps);
        let running: Vec<_> = seeds.clone().map(|seed| threads.spawn(move || steps_of(seed))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
    });
    let ((reads, writes), direct_maps) = (report.direct(), report.maps());
    tell(&format!(
        "preload={preload}, seeds {seeds:?}: {steps} steps each of {WORKERS} processes; without the kernel {reads} \
         reads, {writes} writes, {direct_maps} of {maps} mappings"
    ));
    let least = steps * count / 50;
    assert!(reads > least && writes > least && maps > least, "{}", report.text());
    assert_eq!(preload == "map", direct_maps > 0, "{}", report.text());
    volume.end();
}

#[test]
fn half_of_the_processes_write_without_the_kernel() {
    mixed("write", 1..=2, 10_000);
}

#[test]
fn half_of_the_processes_append_without_the_kernel() {
    mixed("append", 3..=4, 10_000);
}

#[test]
fn half_of_the_processes_map_without_the_kernel() {
    mixed("map", 5..=6, 10_000);
}

#[test]
#[ignore = "takes long: make torture"]
fn half_of_the_processes_without_the_kernel_for_long() {
    let preload = |seed: u64| ["append", "write", "map"][(seed as usize - 1) / 4 % 3];
    match seed(0) {
        // Four at a time.
        0 => (1..=20).step_by(4).for_each(|first| mixed(preload(first), first..=first + 3, 1_000_000)),
        one => mixed(preload(one), one..=one, 1_000_000),
    }
}
