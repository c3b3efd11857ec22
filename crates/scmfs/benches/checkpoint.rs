//! What checkpoints cost: 4 KiB overwrites between them, one after 1 % of the pages of 1 GiB has changed, how long
//! operations are held up, and restoring beside reading the target's files. Each bar is one line, with the figure, the
//! bar, and whether it is met. The volume is on `/dev/shm`; `SCMFS_BENCH_TARGET` names another place for the target.

#[path = "calls/measure.rs"]
#[allow(dead_code, reason = "the bench of calls uses more of it")]
mod measure;

use measure::{Times, each, say};
use pocketstone_core::median::median;
use pocketstone_media::{MapOptions, Mapped, Region, Tracked, Unmapped};
use pocketstone_random::Random;
use pocketstone_scmfs::checkpoint::{Checkpoints, Directory, Taken, restore};
use pocketstone_scmfs::{CreateOptions, File, Meta, OpenOptions, Operations, ROOT, Volume};
use std::path::{Path, PathBuf};
use std::time::Instant;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// The volume, and the file in it.
const VOLUME: u64 = 1024 * MIB;
const FILE: u64 = 800 * MIB;
/// Of the file that is overwritten between checkpoints: it stays in the caches of a processor.
const HOT: u64 = 16 * MIB;
const RESTORES: usize = 15;
/// So many that the interval is narrower than what the bar allows.
const OVERWRITES: usize = 1000;

/// A volume that is there.
fn opened(path: &Path, bytes: u64, tracked: bool) -> Volume {
    let region = Mapped::open(path, &MapOptions::default()).expect("it opens");
    let region: Box<dyn Region> = if tracked { Box::new(Tracked::new(region, bytes)) } else { Box::new(region) };
    Volume::open(region, &OpenOptions::default()).expect("the volume opens")
}

/// A new volume with a file.
fn filled(path: &Path, bytes: u64, tracked: bool, file_bytes: u64) -> (Volume, File) {
    let region = Mapped::create(path, bytes, &MapOptions::default()).expect("a region");
    let create = CreateOptions::default().zeroed(true);
    Volume::create(Box::new(region), &create).expect("a volume");
    let volume = opened(path, bytes, tracked);
    let file = volume.create_file(ROOT, b"file", &Meta::file(0o644)).expect("a new file");
    let mut part = vec![0; MIB as usize];
    let mut random = Random::labelled(1, "contents");
    for at in (0..file_bytes).step_by(MIB as usize) {
        random.fill(&mut part);
        file.write_at(&part, at).expect("space");
    }
    (volume, file)
}

fn main() {
    let home = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let target = std::env::var_os("SCMFS_BENCH_TARGET").map_or_else(|| home.path().to_owned(), PathBuf::from);
    let target = tempfile::tempdir_in(target).expect("a folder for the target");
    // `-- overwrites` or `-- checkpoints` is one of them.
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if asked.is_empty() || asked.iter().any(|word| word == "overwrites") {
        overwrites(home.path());
    }
    if asked.is_empty() || asked.iter().any(|word| word == "checkpoints") {
        checkpoints(home.path(), target.path());
    }
}

/// 4 KiB overwrites at random places, by processor time. All sides are the same volume in the same memory, opened anew:
/// of two volumes, one may be faster by where its pages are. One side is measured twice, for what the measurement makes
/// of sides that do not differ.
fn overwrites(home: &Path) {
    const CALLS: u64 = 50;
    let path = home.join("overwritten");
    drop(filled(&path, 64 * MIB, false, HOT));
    let (page, mut random, mut times) = (vec![7; PAGE as usize], Random::labelled(2, "places"), Times::default());
    for round in 0..=OVERWRITES {
        let places: Vec<u64> = (0..100 * CALLS).map(|_| random.below(HOT / PAGE) * PAGE).collect();
        let mut sides = ["untracked", "tracked", "untracked again"];
        sides.rotate_left(round % 3);
        for name in sides {
            let volume = opened(&path, 64 * MIB, name == "tracked");
            let ino = volume.lookup(ROOT, b"file").expect("the file").ino;
            let file = Operations::open(&volume, ino).expect("the file opens");
            // Makes pages present, and sets their bits.
            (0..HOT).step_by(PAGE as usize).for_each(|at| _ = file.write_at(&page, at).expect("a write"));
            // The median of short runs: what others do to the caches now and then is in few of them.
            let run =
                |places: &[u64]| each(CALLS, |call| _ = file.write_at(&page, places[call as usize]).expect("a write"));
            let ns = median(places.chunks_exact(CALLS as usize).map(run).collect::<Vec<_>>()).expect("rounds");
            if round > 0 {
                times.add(name, ns);
            }
        }
    }
    std::fs::remove_file(path).expect("it is there");
    times.say("4 KiB overwrites");
    times.interval("4 KiB overwrites, one side twice", "untracked again", "untracked");
    times.interval("4 KiB overwrites between checkpoints", "tracked", "untracked");
    times.at_most(1.03, "4 KiB overwrites between checkpoints", "tracked", "untracked");
}

/// Writes so many bytes to a new file, as a checkpoint does; in ms.
fn written(target: &Path, bytes: u64) -> f64 {
    let (start, path) = (Instant::now(), target.join("as-many"));
    let file = std::fs::File::create(&path).expect("a new file");
    std::io::Write::write_all(&mut &file, &vec![5; bytes as usize]).and_then(|()| file.sync_all()).expect("room");
    let ms = ms(start);
    std::fs::remove_file(path).expect("it is there");
    ms
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn checkpoints(home: &Path, target: &Path) {
    let (volume, file) = filled(&home.join("volume"), VOLUME, true, FILE);
    let mut series = Checkpoints::open(target, 1).expect("a target");
    let mut take = || -> Taken { volume.checkpoint(&mut series).expect("a checkpoint") };
    let shown = |taken: &Taken| {
        let (took, held_up) = (taken.took_ns as f64 / 1e6, taken.held_up_ns as f64 / 1e6);
        format!("{} pages, {took:.1} ms, operations held up for {held_up:.3} ms", taken.pages)
    };
    say(&format!("    complete, of 1 GiB with 800 MiB in it: {}", shown(&take())));
    let mut random = Random::labelled(3, "changes");
    let page = vec![9; PAGE as usize];
    let (mut rest, mut held_up) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        for _ in 0..VOLUME / PAGE / 100 {
            file.write_at(&page, random.below(FILE / PAGE) * PAGE).expect("a write");
        }
        let taken = take();
        let write = written(target, taken.bytes);
        say(&format!("    1 % changed: {}; writing as much: {write:.1} ms", shown(&taken)));
        rest.push(taken.took_ns as f64 / 1e6 - write);
        held_up.push(taken.held_up_ns as f64 / 1e6);
    }
    let median = median(rest).expect("rounds");
    measure::figure("one of 1 % of 1 GiB, without the writing of its pages, median in ms", median, 50.0);
    let most = held_up.iter().fold(0.0, |most: f64, one| most.max(*one));
    measure::figure("operations held up, most of all in ms", most, 1.0);
    drop((volume, file, series));
    std::fs::remove_file(home.join("volume")).expect("it is there");
    restoring(target, &home.join("restored"));
}

/// Restoring beside reading the target's files, as cat(1) to /dev/null does, and beside copying them. A target on a
/// disk is read from the disk each time.
fn restoring(target: &Path, to: &Path) {
    let from = Directory::to_read(target);
    let mut times = Times::default();
    for round in 0..=RESTORES {
        let mut sides: [(&str, &dyn Fn()); 3] = [
            ("restored", &|| {
                let make = |bytes| Ok(Box::new(Unmapped::create(to, bytes)?) as _);
                restore(&from, None, make).map(drop).expect("it is whole");
            }),
            ("read", &|| each_piece(target, |_| ())),
            ("copied", &|| {
                let mut into = std::fs::File::create(to).expect("a new file");
                each_piece(target, |piece| std::io::Write::write_all(&mut into, piece).expect("room"));
            }),
        ];
        sides.rotate_left(round % 3);
        for (name, side) in sides {
            forget(target);
            let start = Instant::now();
            side();
            if round > 0 {
                times.add(name, start.elapsed().as_nanos() as f64);
            }
            let _ = std::fs::remove_file(to);
        }
    }
    times.say("restoring 1 GiB with 800 MiB in it");
    times.interval("restoring beside copying the target's files", "restored", "copied");
    times.interval("restoring beside reading the target's files", "restored", "read");
    times.at_most(1.25, "restoring beside reading the target's files", "restored", "read");
}

fn files(target: &Path) -> impl Iterator<Item = std::fs::File> {
    let entries = std::fs::read_dir(target).expect("the target");
    entries.map(|entry| std::fs::File::open(entry.expect("an entry").path()).expect("a file"))
}

/// Has the kernel drop what it keeps of the files; a tmpfs has nothing else.
fn forget(target: &Path) {
    for file in files(target) {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
    }
}

/// Reads all files of the target, in pieces of the length that cp(1) and cat(1) use.
fn each_piece(target: &Path, mut act: impl FnMut(&[u8])) {
    let mut piece = vec![0; 128 << 10];
    for mut from in files(target) {
        loop {
            let bytes = std::io::Read::read(&mut from, &mut piece).expect("it is read");
            if bytes == 0 {
                break;
            }
            act(&piece[..bytes]);
        }
    }
}
