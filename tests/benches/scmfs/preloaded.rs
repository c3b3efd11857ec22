//! Programs that know nothing of SCMFS, with the library that spares them the kernel: beside the library in process,
//! the mount alone, and tmpfs. Each is a process of its own that calls pread(2) and pwrite(2); they take turns. The
//! program is one of C: this one makes system calls by itself, as rustix does, and is not trusted.

use crate::ground::{Ground, compiled, volume};
use crate::measure::{bar, nanoseconds};
use crate::{HOT_BYTES, OnFuse, PAGE, filled, output, say};
use pocketstone_core::median::median;
use pocketstone_core::random::Random;
use pocketstone_mount::{MountOptions, Preload};
use pocketstone_scmfs::{Meta, Operations, ROOT};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 9;
const AT_ONCE: usize = 100;
const TURNS: usize = 200;

/// Times of one call of either kind, in ns: the median of many turns.
fn times(read: &mut dyn FnMut(&mut [u8], u64), write: &mut dyn FnMut(&[u8], u64)) -> [f64; 2] {
    let mut random = Random::labelled(3, "preloaded");
    let (mut buffer, mut turns) = (vec![7_u8; PAGE], [Vec::new(), Vec::new()]);
    let place = |random: &mut Random| random.below(HOT_BYTES / PAGE as u64) * PAGE as u64;
    for turn in 0..=TURNS {
        let places: Vec<u64> = (0..AT_ONCE).map(|_| place(&mut random)).collect();
        let start = Instant::now();
        places.iter().for_each(|at| read(&mut buffer, *at));
        let between = Instant::now();
        places.iter().for_each(|at| write(&buffer, *at));
        let end = Instant::now();
        if turn > 0 {
            turns[0].push((between - start).as_nanos() as f64 / AT_ONCE as f64);
            turns[1].push((end - between).as_nanos() as f64 / AT_ONCE as f64);
        }
    }
    turns.map(|times| median(times).expect("turns"))
}

/// Times of the program, with the library or not, and with trust or not.
fn measured(subject: &Path, file: &Path, preload: Option<(&Path, &str)>) -> [f64; 2] {
    let mut command = Command::new(subject);
    command.arg(file);
    if let Some((library, trust)) = preload {
        command.env("LD_PRELOAD", library).env("SCMFS_PRELOAD_TRUST", trust);
    }
    let said = output(&mut command);
    let mut numbers = said.split_whitespace().map(|number| number.parse().expect("a number"));
    [numbers.next().expect("two numbers"), numbers.next().expect("two numbers")]
}

/// 4 KiB reads and overwrites at random places of a file of 16 MiB.
pub fn preloaded(ground: &Ground) {
    let Some(subject) = compiled(ground, "subject", include_str!("subject.c")) else { return };
    let library = pocketstone_testing::library("libscmfs_preload.so");
    let options = MountOptions { preload: Preload::Write, ..MountOptions::default() };
    let fuse = OnFuse::new(ground, "preloaded", 256 << 20, &options);
    let on_mount = filled(&fuse.path.join("file"));
    let on_tmpfs = filled(&ground.tmpfs.join("preloaded.file"));
    let own = volume(&ground.tmpfs.join("preloaded.own"), 256 << 20, false, None);
    let file = own.create_file(ROOT, b"file", &Meta::file(0o644)).expect("a new file");
    file.write_at(&vec![0x5a; HOT_BYTES as usize], 0).expect("it fits");
    let mut all = [const { Vec::new() }; 10];
    for _ in 0..ROUNDS {
        let library_times =
            times(&mut |into, at| assert_eq!(file.read_at(into, at).expect("a page"), PAGE), &mut |from, at| {
                assert_eq!(file.write_at(from, at).expect("a page"), PAGE)
            });
        let round = [
            library_times,
            measured(&subject, &on_mount, Some((&library, "on"))),
            measured(&subject, &on_mount, Some((&library, "off"))),
            measured(&subject, &on_mount, None),
            measured(&subject, &on_tmpfs, None),
        ];
        all.iter_mut().zip(round.as_flattened()).for_each(|(all, time)| all.push(*time));
    }
    let [
        in_process,
        in_process_write,
        direct,
        direct_write,
        asked,
        asked_write,
        mount,
        mount_write,
        tmpfs,
        tmpfs_write,
    ] = all.map(|times| median(times).expect("rounds"));
    let line = |what: &str, times: [f64; 5]| {
        let [library, direct, asked, mount, tmpfs] = times.map(nanoseconds);
        say(&format!(
            "  {what} of 4 KiB: library {library}, preloaded {direct}, not trusted {asked}, mount {mount}, \
             tmpfs {tmpfs}"
        ));
    };
    line("pread", [in_process, direct, asked, mount, tmpfs]);
    line("pwrite", [in_process_write, direct_write, asked_write, mount_write, tmpfs_write]);
    bar("preloaded 4 KiB pread over the library", Some(direct / in_process), Some(1.5), None);
    bar("preloaded 4 KiB pwrite over the library", Some(direct_write / in_process_write), Some(1.5), None);
    bar("tmpfs over preloaded 4 KiB pread", Some(tmpfs / direct), None, Some(1.5));
    bar("tmpfs over preloaded 4 KiB pwrite", Some(tmpfs_write / direct_write), None, Some(1.5));
}
