//! RocksDB's own benchmark with each write synchronised: its log grows by a record and is made durable, again and
//! again. Preloaded, on the mount alone, and on tmpfs. They take turns.

use crate::ground::Ground;
use crate::measure::{bar, nanoseconds};
use crate::{OnFuse, ROUNDS, is_there, output, say};
use pocketstone_core::median::median;
use pocketstone_mount::{MountOptions, Preload};
use std::path::Path;
use std::process::Command;

const LOADS: [&str; 2] = ["fillseq", "overwrite"];
const RECORDS: u32 = 100_000;

/// The time of a write of each load, in ns, as the program says it.
fn measured(place: &Path, preload: Option<&Path>) -> [f64; 2] {
    let folder = place.join("rocksdb");
    let mut command = Command::new("db_bench");
    command.arg(format!("--benchmarks={}", LOADS.join(","))).arg(format!("--db={}", folder.display()));
    command.args(["--sync=1", "--compression_type=none", &format!("--num={RECORDS}")]);
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    let said = output(&mut command);
    std::fs::remove_dir_all(&folder).expect("the database");
    LOADS.map(|load| {
        let line = said.lines().find(|line| line.starts_with(load)).expect("a line of each");
        let mut words = line.split_whitespace();
        let us = words.find(|word| word.parse::<f64>().is_ok()).expect("microseconds");
        assert_eq!(words.next(), Some("micros/op"), "{line}");
        us.parse::<f64>().expect("a number") * 1e3
    })
}

/// Writes of 116 bytes, each durable.
pub fn rocksdb(ground: &Ground) {
    if !is_there("db_bench", "rocksdb-tools") {
        return;
    }
    let library = pocketstone_testing::library("libscmfs_preload.so");
    let options = MountOptions { preload: Preload::Append, ..MountOptions::default() };
    let appending = OnFuse::new(ground, "rocksdb-append", 2 << 30, &options);
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let times =
            [measured(&appending.path, Some(&library)), measured(&appending.path, None), measured(&ground.tmpfs, None)];
        all.iter_mut().zip(times).for_each(|(all, times)| all.push(times));
    }
    for (number, load) in LOADS.into_iter().enumerate() {
        let medians = all
            .each_ref()
            .map(|rounds| median(rounds.iter().map(|times| times[number]).collect::<Vec<_>>()).expect("rounds"));
        let [preloaded, mount, tmpfs] = medians.map(nanoseconds);
        say(&format!("  {load} with sync, a write: preloaded {preloaded}, mount {mount}, tmpfs {tmpfs}"));
        let over = |other: usize| {
            median(all[0].iter().zip(&all[other]).map(|(own, other)| other[number] / own[number]).collect::<Vec<_>>())
                .expect("rounds")
        };
        bar(&format!("speed of {load} preloaded over tmpfs"), Some(over(2)), None, Some(0.8));
        say(&format!("  speed of {load} preloaded over the mount alone: {:.1}", over(1)));
    }
}
