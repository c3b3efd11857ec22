//! SCMFS as the kernel's programs meet it, through FUSE, beside a FUSE file system that does nothing,
//! tmpfs, and ext4 on a loop device. Medians over interleaved rounds, and ratios from one run.

// Shared with the benchmarks of the library, which use more of them.
#[path = "scmfs/appended.rs"]
mod appended;
#[allow(dead_code)]
#[path = "scmfs/ground.rs"]
mod ground;
#[path = "scmfs/mapped.rs"]
mod mapped;
#[allow(dead_code)]
#[path = "scmfs/measure.rs"]
mod measure;
#[path = "scmfs/preloaded.rs"]
mod preloaded;
#[path = "scmfs/rocksdb.rs"]
mod rocksdb;
#[path = "scmfs/round_trip.rs"]
mod round_trip;

use ground::{Ground, left_out, volume};
use measure::{bar, nanoseconds};
use pocketstone_core::median::median;
use pocketstone_core::random::Random;
use pocketstone_mount::{MountOptions, Mounted, Preload, mount_null, mount_scmfs};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

const MIB: u64 = 1 << 20;
const PAGE: usize = 4096;
const HOT_BYTES: u64 = 16 * MIB;
const ROUNDS: usize = 3;

/// Measures something and says what came of it.
type Bench = fn(&Ground);

/// Prints a line.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    if mapped::is_subject() {
        return mapped::subject();
    }
    if !Path::new("/dev/fuse").exists() {
        return left_out("the benchmarks of the mount", "there is no /dev/fuse", "modprobe fuse");
    }
    let Some(ground) = Ground::prepare(12 << 30) else { return };
    let benches: [(&str, Bench); 10] = [
        ("direct", direct),
        ("cached", cached),
        ("opening", opening),
        ("round-trip", round_trip::round_trip),
        ("preloaded", preloaded::preloaded),
        ("appended", appended::appended),
        ("mapped", mapped::mapped),
        ("postmark", postmark),
        ("rocksdb", rocksdb::rocksdb),
        ("fio", fio),
    ];
    for (name, bench) in benches {
        if wanted(name) {
            say(&format!("\n{name}"));
            bench(&ground);
        }
    }
}

/// A fresh volume, mounted by threads of this process at a folder of the tmpfs.
struct OnFuse {
    // Unmounted before the rest goes.
    _mounted: Mounted,
    // Its memory is the machine's: not kept for the next benchmark.
    _region: tempfile::TempPath,
    path: PathBuf,
}

impl OnFuse {
    fn new(ground: &Ground, name: &str, bytes: u64, options: &MountOptions) -> OnFuse {
        let path = ground.tmpfs.join(format!("{name}.mount"));
        fs::create_dir(&path).expect("a new folder");
        let region = ground.tmpfs.join(name);
        let volume = Arc::new(volume(&region, bytes, false, None));
        let mounted = mount_scmfs(volume, &path, options).expect("a mount");
        OnFuse { _mounted: mounted, _region: tempfile::TempPath::try_from_path(region).expect("a whole path"), path }
    }
}

/// A volume mounted as usual, and one whose writes the kernel collects.
fn on_fuse(ground: &Ground, name: &str) -> [OnFuse; 2] {
    [false, true].map(|writeback| {
        let options = MountOptions { writeback, ..MountOptions::default() };
        OnFuse::new(ground, &format!("{name}-{writeback}"), 2 << 30, &options)
    })
}

/// The file systems that programs run on, by name.
fn places<'a>(ground: &'a Ground, [usual, writeback]: &'a [OnFuse; 2]) -> Vec<(&'static str, &'a Path)> {
    let ours = [("scmfs", usual.path.as_path()), ("writeback", writeback.path.as_path())];
    let ext4 = ground.ext4.as_deref().map(|path| ("ext4", path));
    ours.into_iter().chain(ext4).chain([("tmpfs", ground.tmpfs.as_path())]).collect()
}

fn filled(path: &Path) -> PathBuf {
    fs::write(path, vec![0x5a; HOT_BYTES as usize]).expect("a new file");
    path.to_owned()
}

/// Times of single reads of 4 KiB at random places, of each file in turn: the median of each.
fn reads<const N: usize>(files: [&File; N]) -> [f64; N] {
    const AT_ONCE: usize = 200;
    const TURNS: usize = 100;
    // O_DIRECT asks for memory that begins at a page.
    let mut memory = vec![0_u8; 2 * PAGE];
    let skip = memory.as_ptr().align_offset(PAGE);
    let buffer = &mut memory[skip..skip + PAGE];
    let mut random = Random::labelled(1, "reads");
    let mut times = files.map(|_| Vec::with_capacity(AT_ONCE * TURNS));
    for turn in 0..=TURNS {
        for (file, times) in files.iter().zip(&mut times) {
            for _ in 0..AT_ONCE {
                let at = random.below(HOT_BYTES / PAGE as u64) * PAGE as u64;
                let start = Instant::now();
                file.read_exact_at(buffer, at).expect("a page");
                if turn > 0 {
                    times.push(start.elapsed().as_nanos() as f64);
                }
            }
        }
    }
    times.map(|times| median(times).expect("reads"))
}

/// The null file system's file.
const NULL_FILE: &str = "zeros";

/// Reads that go through FUSE every time, against those of a file system that does nothing.
fn direct(ground: &Ground) {
    let options = MountOptions { direct_io: true, ..MountOptions::default() };
    let fuse = OnFuse::new(ground, "direct", 256 * MIB, &options);
    let null = ground.tmpfs.join("null.mount");
    fs::create_dir(&null).expect("a new folder");
    let _null = mount_null(&null, NULL_FILE, 1 << 30, &options).expect("a mount");
    let open = |path: &Path| -> File {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).expect("a file").into()
    };
    let ours = open(&filled(&fuse.path.join("file")));
    let theirs = open(&null.join(NULL_FILE));
    let [ours, theirs] = reads([&ours, &theirs]);
    say(&format!("  pread of 4 KiB, p50: scmfs {}, null {}", nanoseconds(ours), nanoseconds(theirs)));
    bar(
        "4 KiB pread with O_DIRECT, p50, over a FUSE file system that does nothing",
        Some(ours / theirs),
        Some(1.3),
        None,
    );
}

/// Reads of what the kernel keeps, beside what it keeps for a file system of its own.
fn cached(ground: &Ground) {
    let fuse = OnFuse::new(ground, "cached", 256 * MIB, &MountOptions::default());
    let open = |folder: &Path| {
        let file = File::open(filled(&folder.join("cached.file"))).expect("a file");
        // Once, so that the kernel has it.
        file.read_exact_at(&mut vec![0; HOT_BYTES as usize], 0).expect("all of it");
        file
    };
    let (ours, theirs, ext4) = (open(&fuse.path), open(&ground.tmpfs), ground.ext4.as_deref().map(open));
    let ([ours, theirs], ext4) = match ext4 {
        Some(ext4) => {
            let [ours, theirs, ext4] = reads([&ours, &theirs, &ext4]);
            ([ours, theirs], nanoseconds(ext4))
        }
        None => (reads([&ours, &theirs]), "unavailable".to_owned()),
    };
    say(&format!("  pread of 4 KiB, p50: scmfs {}, ext4 {ext4}, tmpfs {}", nanoseconds(ours), nanoseconds(theirs)));
    bar("cached 4 KiB read over tmpfs", Some(ours / theirs), Some(1.2), None);
}

/// Opening and closing a file, on a mount that the kernel need not ask then and on one that it asks.
fn opening(ground: &Ground) {
    const AT_ONCE: usize = 200;
    const TURNS: usize = 100;
    let strict = MountOptions { strict_open: true, ..MountOptions::default() };
    let usual = OnFuse::new(ground, "opening", 256 * MIB, &MountOptions::default());
    let strict = OnFuse::new(ground, "opening-strict", 256 * MIB, &strict);
    let paths = [&usual.path, &strict.path, &ground.tmpfs].map(|folder| filled(&folder.join("opened.file")));
    let mut times = paths.each_ref().map(|_| Vec::with_capacity(AT_ONCE * TURNS));
    for turn in 0..=TURNS {
        for (path, times) in paths.iter().zip(&mut times) {
            for _ in 0..AT_ONCE {
                let start = Instant::now();
                drop(File::open(path).expect("it is there"));
                if turn > 0 {
                    times.push(start.elapsed().as_nanos() as f64);
                }
            }
        }
    }
    let [usual, strict, tmpfs] = times.map(|times| median(times).expect("rounds"));
    let [shown, strict_shown, tmpfs_shown] = [usual, strict, tmpfs].map(nanoseconds);
    say(&format!("  open and close, p50: scmfs {shown}, with strict_open {strict_shown}, tmpfs {tmpfs_shown}"));
    bar("open and close over tmpfs", Some(usual / tmpfs), Some(2.5), None);
}

/// What a program that has to end well says.
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn is_there(program: &str, package: &str) -> bool {
    let there = Command::new(program).arg("--version").stdin(Stdio::null()).output().is_ok();
    if !there {
        left_out(program, "it is not installed", &format!("apt-get install {package}"));
    }
    there
}

fn postmark(ground: &Ground) {
    if !is_there("postmark", "postmark") {
        return;
    }
    let fuse = on_fuse(ground, "postmark");
    let library = pocketstone_testing::library("libscmfs_preload.so");
    let options = MountOptions { preload: Preload::Append, ..MountOptions::default() };
    let appending = OnFuse::new(ground, "postmark-append", 2 << 30, &options);
    let mut places = places(ground, &fuse);
    places.push(("preloaded", &appending.path));
    let mut seconds = vec![Vec::new(); places.len()];
    for _ in 0..ROUNDS {
        for ((name, place), seconds) in places.iter().zip(&mut seconds) {
            let folder = place.join("postmark.files");
            fs::create_dir(&folder).expect("a new folder");
            let instructions = ground.tmpfs.join("postmark.words");
            let text = format!(
                "set location {}\nset size 4096 2097152\nset number 200\nset transactions 4000\n\
                 set read 4096\nset write 4096\nset seed 42\nrun\nquit\n",
                folder.display()
            );
            fs::write(&instructions, text).expect("instructions");
            let start = Instant::now();
            let mut command = Command::new("postmark");
            if *name == "preloaded" {
                command.env("LD_PRELOAD", &library);
            }
            let said = output(command.arg(&instructions));
            seconds.push(start.elapsed().as_secs_f64());
            assert!(said.contains("Deleting files...Done") && !said.contains("Error"), "{name}: {said}");
            fs::remove_dir(&folder).expect("an empty folder");
        }
    }
    let medians: Vec<f64> = seconds.into_iter().map(|times| median(times).expect("runs")).collect();
    say("  200 files of 4 KiB to 2 MiB, 4000 transactions");
    for ((name, _), seconds) in places.iter().zip(&medians) {
        say(&format!(
            "  {name:<9} {seconds:8.2} s {:9.0} transactions/s {:6.2} times scmfs",
            4000.0 / seconds,
            seconds / medians[0]
        ));
    }
    let of = |name: &str| places.iter().position(|place| place.0 == name).map(|place| medians[place]);
    let over = |other: &str| Some(of("preloaded")? / of(other)?);
    bar("preloaded PostMark over tmpfs", over("tmpfs"), Some(1.3), None);
    bar("preloaded PostMark over ext4", over("ext4"), Some(1.0), None);
}

fn fio(ground: &Ground) {
    if !is_there("fio", "fio") {
        return;
    }
    let fuse = on_fuse(ground, "fio");
    let places = places(ground, &fuse);
    let heads: String = places.iter().map(|(name, _)| format!("{name:>10}")).collect();
    say("  MiB/s, of files of 128 MiB that are not cached before");
    say(&format!("  {:<13}{heads}", ""));
    for block in ["4k", "1m"] {
        for kind in ["write", "randwrite", "read", "randread"] {
            let mut rates = vec![Vec::new(); places.len()];
            for _ in 0..ROUNDS {
                for ((_, place), rates) in places.iter().zip(&mut rates) {
                    rates.push(fio_rate(place, kind, block));
                }
            }
            let rates: String =
                rates.into_iter().map(|rates| format!("{:>10.0}", median(rates).expect("runs"))).collect();
            say(&format!("  {kind:<10} {block}{rates}"));
        }
    }
}

/// MiB per second of one job. Its file stays for the next, so only the first write has to make it.
fn fio_rate(place: &Path, kind: &str, block: &str) -> f64 {
    let mut command = Command::new("fio");
    command.arg(format!("--directory={}", place.display())).args(["--name=job", "--size=128m", "--ioengine=psync"]);
    command.args([format!("--rw={kind}"), format!("--bs={block}")]);
    command.args(["--filename=fio.file", "--randrepeat=1", "--output-format=json"]);
    let report: serde_json::Value = serde_json::from_str(&output(&mut command)).expect("JSON");
    let side = if kind.ends_with("read") { "read" } else { "write" };
    report["jobs"][0][side]["bw_bytes"].as_f64().expect("a rate") / MIB as f64
}
