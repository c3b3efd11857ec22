//! LMDB with a writable map: transactions that are durable when they are committed, by programs that know nothing of
//! SCMFS with the library that spares them the kernel, on the mount without it, and on tmpfs. They take turns.

use crate::ground::Ground;
use crate::measure::{bar, nanoseconds};
use crate::{OnFuse, output, say};
use heed::types::Bytes;
use heed::{EnvFlags, EnvOpenOptions};
use pocketstone_core::median::median;
use pocketstone_core::random::Random;
use pocketstone_mount::{MountOptions, Preload};
use rustix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Set for a process that is measured: the folder.
const SUBJECT: &str = "SCMFS_BENCH_DATABASE";
const ROUNDS: usize = 9;
const MAP_BYTES: usize = 64 << 20;
const TRANSACTIONS: usize = 5000;
const KEYS: u64 = 20_000;

pub fn is_subject() -> bool {
    std::env::var_os(SUBJECT).is_some()
}

/// Time of this process's processors, in ns.
fn processor_ns() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// What the process that is measured does: transactions of one record of 100 bytes at a random place. Says the mean
/// time of one, and that of processors, in ns.
pub fn subject() {
    let path = std::env::var_os(SUBJECT).expect("a folder");
    let mut options = EnvOpenOptions::new();
    // SAFETY: nobody stores to the map but the database.
    unsafe { options.map_size(MAP_BYTES).flags(EnvFlags::WRITE_MAP) };
    // SAFETY: nobody else changes the file.
    let env = unsafe { options.open(Path::new(&path)) }.expect("a database");
    let mut random = Random::labelled(5, "mapped");
    let mut transaction = env.write_txn().expect("a transaction");
    let table = env.create_database::<Bytes, Bytes>(&mut transaction, None).expect("a table");
    for key in 0..KEYS {
        table.put(&mut transaction, &key.to_be_bytes(), &[1; 100]).expect("it fits");
    }
    transaction.commit().expect("it fits");
    let (start, processor_start) = (Instant::now(), processor_ns());
    for number in 0..TRANSACTIONS {
        let mut transaction = env.write_txn().expect("a transaction");
        let key = random.below(KEYS).to_be_bytes();
        table.put(&mut transaction, &key, &[number as u8; 100]).expect("it fits");
        transaction.commit().expect("it fits");
    }
    let all = [start.elapsed().as_nanos() as f64, processor_ns() - processor_start];
    let [ns, processor] = all.map(|ns| ns / TRANSACTIONS as f64);
    let _ = std::io::stdout().write_all(format!("{ns} {processor}\n").as_bytes());
}

fn measured(folder: &Path, preload: Option<&Path>) -> [f64; 2] {
    std::fs::create_dir(folder).expect("a new folder");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(SUBJECT, folder);
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    let said = output(&mut command);
    std::fs::remove_dir_all(folder).expect("the folder");
    let mut numbers = said.split_whitespace().map(|number| number.parse().expect("a number"));
    [numbers.next().expect("two numbers"), numbers.next().expect("two numbers")]
}

/// Transactions of one record.
pub fn mapped(ground: &Ground) {
    let library = pocketstone_testing::library("libscmfs_preload.so");
    let maps = MountOptions { preload: Preload::Map, ..MountOptions::default() };
    let mapping = OnFuse::new(ground, "mapped", 1 << 30, &maps);
    let usual = OnFuse::new(ground, "mapped-usual", 1 << 30, &MountOptions::default());
    let folders = [&mapping.path, &usual.path, &ground.tmpfs].map(|path| path.join("database"));
    let mut all = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        for (number, (folder, all)) in folders.iter().zip(&mut all).enumerate() {
            let times = measured(folder, (number == 0).then_some(&*library));
            if round > 0 {
                all.push(times);
            }
        }
    }
    // Of each round by itself: what else the machine does changes from one to the next.
    let over = |other: usize, which: usize| {
        let rounds = all[0].iter().zip(&all[other]);
        median(rounds.map(|(own, other)| other[which] / own[which]).collect::<Vec<_>>()).expect("rounds")
    };
    let (of_mount, of_tmpfs, of_tmpfs_processor) = (over(1, 0), over(2, 0), over(2, 1));
    for (which, what) in ["elapsed", "processor time of the program"].into_iter().enumerate() {
        let medians = all
            .each_ref()
            .map(|rounds| median(rounds.iter().map(|times| times[which]).collect::<Vec<_>>()).expect("rounds"));
        let [preloaded, mount, tmpfs] = medians.map(nanoseconds);
        say(&format!("  LMDB, durable transaction, {what}: preloaded {preloaded}, mount {mount}, tmpfs {tmpfs}"));
    }
    say(&format!("  speed with the library over that without: {of_mount:.1}"));
    say(&format!("  speed of LMDB preloaded over that on tmpfs, by processor time: {of_tmpfs_processor:.2}"));
    bar("speed of LMDB preloaded over that on tmpfs", Some(of_tmpfs), None, Some(0.9));
}
