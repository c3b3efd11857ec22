//! The workloads `fio` and `postmark` beside the programs fio and PostMark, on a tmpfs, timed from outside: processes
//! of either, in turns, from their start to their end.
//!
//! Prints, for each kind, the medians over the pairs of the program's processor time over ours, of the time in the
//! kernel, and of the time in all. The bar is 15 % of the processor time, which other processes of the machine change
//! less than the time in all. fio does not scramble what it writes, which is no work on files.

use pocketstone_core::median::median;
use pocketstone_engine::{Executor, KernelTree, populate, run};
use pocketstone_testing::{Need, or_skip, program};
use pocketstone_workload::postmark::program::ProgramSpec;
use pocketstone_workload::{Data, FileWorkload, FioSpec, PostmarkSpec};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const PAIRS: usize = 9;
/// Runs with one request, for what starting takes.
const STARTS: usize = 5;
const BAR: f64 = 0.15;
const SEED: u64 = 42;
/// A folder of a tmpfs, on Linux.
const PLACE: &str = "/dev/shm";
/// Arguments of a process of ours, before its workload and its folder.
const FIO: &str = "--fio";
const POSTMARK: &str = "--postmark";

/// What a process took: seconds in programs' own code, in the kernel, and in all.
#[derive(Clone, Copy, Default)]
struct Took {
    user_s: f64,
    system_s: f64,
    wall_s: f64,
}

impl Took {
    fn processor_s(&self) -> f64 {
        self.user_s + self.system_s
    }

    fn without(self, start: Took) -> Took {
        Took {
            user_s: self.user_s - start.user_s,
            system_s: self.system_s - start.system_s,
            wall_s: self.wall_s - start.wall_s,
        }
    }

    fn medians(all: &[Took]) -> Took {
        let of = |value: fn(&Took) -> f64| median(all.iter().map(value).collect::<Vec<_>>()).expect("runs");
        Took { user_s: of(|t| t.user_s), system_s: of(|t| t.system_s), wall_s: of(|t| t.wall_s) }
    }
}

/// Seconds of all processes that have ended since.
fn children() -> (f64, f64) {
    let stat = procfs::process::Process::myself().and_then(|process| process.stat()).expect("/proc");
    let seconds = |ticks: i64| ticks as f64 / procfs::ticks_per_second() as f64;
    (seconds(stat.cutime), seconds(stat.cstime))
}

/// Runs a process in a folder that is empty, and says what it took.
fn time(mut command: Command, folder: &Path) -> Took {
    fs::create_dir(folder).expect("a folder");
    let (before, start) = (children(), Instant::now());
    let output = command.stdin(Stdio::null()).output().expect("a process");
    let wall_s = start.elapsed().as_secs_f64();
    let after = children();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("Error"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_dir_all(folder).expect("it was there");
    Took { user_s: after.0 - before.0, system_s: after.1 - before.1, wall_s }
}

/// A process of ours: makes the workload's files, and does its operations as the lab does.
fn ours(workload: &dyn FileWorkload, folder: &Path) {
    workload.check().expect("a workload");
    let tree = KernelTree::open(folder).expect("a folder");
    populate(&tree, &workload.population(SEED)).expect("its files");
    let operations: Vec<_> = workload.operations(SEED).collect();
    let mut executors = Executor::all(&tree, workload, SEED).expect("executors");
    run(&mut executors, &operations).expect("its operations");
}

/// What makes a process of either that is given a folder.
type Makes<'a> = &'a dyn Fn(&Path) -> Command;

/// Runs both in turns, without what they take to start; prints the medians, and says that of the processor time.
fn pairs(name: &str, home: &Path, [theirs, ours]: [Makes<'_>; 2], start: [Took; 2]) -> f64 {
    let folder = home.join("files");
    let pair = |_| (time(theirs(&folder), &folder).without(start[0]), time(ours(&folder), &folder).without(start[1]));
    let pairs: Vec<(Took, Took)> = (0..PAIRS).map(pair).collect();
    let of_pairs = |of: &dyn Fn(&(Took, Took)) -> f64| median(pairs.iter().map(of).collect::<Vec<_>>()).expect("pairs");
    let ratio = |of: &dyn Fn(&Took) -> f64| of_pairs(&|(theirs, ours)| of(theirs) / of(ours));
    let of_theirs = |of: &dyn Fn(&Took) -> f64| of_pairs(&|(theirs, _)| of(theirs));
    let (processor, system) = (ratio(&Took::processor_s), ratio(&|took| took.system_s));
    let (user, wall) = (of_theirs(&|took| took.user_s / took.processor_s()), ratio(&|took| took.wall_s));
    let seconds = of_theirs(&Took::processor_s);
    let _ = writeln!(
        std::io::stdout(),
        "{name}: {seconds:.2} s of a processor, {:.0} % of it in the program's own code; the program's over ours: \
         processor {processor:.2}, kernel {system:.2}, in all {wall:.2}",
        100.0 * user
    );
    processor
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, kind, workload, folder] = &arguments[..] {
        let text = fs::read_to_string(workload).expect("a workload");
        match kind.as_str() {
            FIO => ours(&FioSpec::read(&text, workload, "", Data::Random).expect("a job file"), Path::new(folder)),
            POSTMARK => ours(&serde_json::from_str::<PostmarkSpec>(&text).expect("JSON"), Path::new(folder)),
            other => panic!("{other}"),
        }
        return;
    }
    let kept = tempfile::Builder::new().prefix("pocketstone").tempdir_in(PLACE);
    let home = or_skip!(kept.map_err(|error| Need::Kernel.lacks(format_args!("no files in {PLACE}: {error}"))));
    let ours = |kind: &'static str, workload: PathBuf| {
        move |folder: &Path| {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.arg(kind).arg(&workload).arg(folder);
            command
        }
    };

    let mut found = Vec::new();
    let postmark = or_skip!(program("postmark", "postmark"));
    // Its defaults with more files, and the settings of the thesis on SCMFS.
    for (files, transactions, least_file_bytes, file_bytes) in
        [(10_000, 50_000, 500, 10_000), (200, 4000, 4096, 2 << 20)]
    {
        let words = home.path().join("words");
        let place = home.path().join("files");
        let settings =
            format!("set size {least_file_bytes} {file_bytes}\nset number {files}\nset transactions {transactions}");
        fs::write(&words, format!("set location {}\n{settings}\nset seed {SEED}\nrun\nquit\n", place.display()))
            .expect("settings");
        let program = ProgramSpec {
            write_bytes: 512,
            bias_read: Some(5),
            bias_create: Some(5),
            subdirectories: 1,
            buffered: true,
        };
        let (request_bytes, data, program) = (512, Data::Random, Some(program));
        let spec = PostmarkSpec { files, least_file_bytes, file_bytes, transactions, request_bytes, data, program };
        let workload = home.path().join("postmark.json");
        fs::write(&workload, serde_json::to_string(&spec).expect("JSON")).expect("a workload");
        let theirs = |_: &Path| {
            let mut command = Command::new(&postmark);
            command.arg(&words);
            command
        };
        let name =
            format!("postmark, {files} files of {least_file_bytes} to {file_bytes}, {transactions} transactions");
        let ratio = pairs(&name, home.path(), [&theirs, &ours(POSTMARK, workload)], Default::default());
        found.push((name, ratio));
    }

    let fio = or_skip!(program("fio", "fio"));
    for kind in ["read", "write", "rw", "randread", "randwrite", "randrw"] {
        // The workload refuses mixed ones that go through their file more than once: small requests, so that these
        // and not the first touch of a large file are what takes the time.
        let [bs, size, all] = if kind.ends_with("rw") { ["512", "1g", "1g"] } else { ["4k", "64m", "2g"] };
        let name = format!("fio, {kind}");
        // fio starts in a tenth of a second and lays its file out: a run with one request is that.
        let job = |bytes: &str| {
            let path = home.path().join(format!("{kind}-{bytes}.fio"));
            let job =
                format!("[job]\nrw={kind}\nbs={bs}\nsize={size}\nio_size={bytes}\nioengine=psync\ninvalidate=0\n");
            fs::write(&path, job + "scramble_buffers=0\n").expect("a job file");
            path
        };
        let theirs = |job: PathBuf| {
            let fio = &fio;
            move |folder: &Path| {
                let mut command = Command::new(fio);
                command.arg(format!("--directory={}", folder.display())).arg(&job);
                command
            }
        };
        let (short, long) = (job("4k"), job(all));
        let folder = home.path().join("files");
        let starting = |makes: Makes<'_>| {
            let all: Vec<Took> = (0..STARTS).map(|_| time(makes(&folder), &folder)).collect();
            Took::medians(&all)
        };
        let start = [starting(&theirs(short.clone())), starting(&ours(FIO, short))];
        let ratio = pairs(&name, home.path(), [&theirs(long.clone()), &ours(FIO, long)], start);
        found.push((name, ratio));
    }
    found.retain(|(_, ratio)| (ratio - 1.0).abs() > BAR);
    assert!(found.is_empty(), "more than 15 % apart: {found:?}");
}
