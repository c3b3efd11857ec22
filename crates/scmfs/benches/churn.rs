//! What age costs: the throughput of a fresh volume, and of one that was churned ten times its size at 85 %
//! full, with files of 4 KiB to 8 MiB, on a tmpfs with huge pages. Bars: at least 90 % of the fresh throughput,
//! at least 95 % on huge pages. `SCMFS_BENCH_DIR` names another place; `SCMFS_BENCH_MIB` the volume's size.

#[path = "../tests/support/churn.rs"]
mod churn;
#[path = "place.rs"]
mod place;

use churn::Churn;
use place::huge_tmpfs;
use pocketstone_core::median::median;
use pocketstone_media::{MapOptions, Mapped, Region};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Operations, Volume};
use pocketstone_testing::bench::cpu;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn since(start: Duration) -> f64 {
    (cpu() - start).as_secs_f64()
}

/// Bytes available to a new region there.
fn available(directory: &Path) -> u64 {
    let space = rustix::fs::statvfs(directory).map_or(0, |space| space.f_bavail * space.f_frsize);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    let memory = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024;
    let on_huge_pages = rustix::fs::statfs(directory).is_ok_and(|found| found.f_type as u64 == 0x9584_58f6);
    if on_huge_pages { space } else { space.min(memory / 2) }
}

/// How much of the region is mapped by huge pages, as smaps says, in percent.
fn huge_percent(base: u64, bytes: u64) -> f64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let (mut range, mut mapped, mut huge) = ((0, 0), 0, 0);
    for line in smaps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-') {
            if let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16)) {
                range = (from, to);
            }
        }
        if range.0 < base || range.1 > base + bytes {
            continue;
        }
        let kib = line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        match first {
            "Size:" => mapped += kib,
            "ShmemPmdMapped:" | "FilePmdMapped:" | "Shared_Hugetlb:" | "Private_Hugetlb:" => huge += kib,
            _ => {}
        }
    }
    if mapped == 0 { 0.0 } else { huge as f64 * 100.0 / mapped as f64 }
}

fn main() {
    let mut out = std::io::stdout().lock();
    let place = tempfile::tempdir().expect("a temporary directory");
    let directory = std::env::var_os("SCMFS_BENCH_DIR").map(PathBuf::from);
    let directory = directory.or_else(|| huge_tmpfs(place.path())).unwrap_or_else(|| {
        let why = "left out: huge pages; why: this process may not mount; fix: run as root";
        writeln!(out, "{why}").expect("output");
        PathBuf::from("/dev/shm")
    });
    let wanted = std::env::var("SCMFS_BENCH_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(2048);
    let bytes = (wanted * MIB).min(available(&directory) / 2 / MIB * MIB);
    assert!(bytes >= 64 * MIB, "{} has no room for a volume", directory.display());
    let home = tempfile::tempdir_in(&directory).expect("a directory for the volume");
    let path = home.path().join("volume");
    let options = MapOptions::default().reserve_bytes(bytes);
    let region = Mapped::create(&path, bytes, &options).expect("a region");
    // Otherwise the fresh volume would pay for the kernel's first touch of every page.
    region.touch(0, region.bytes());
    let what = region.describe();
    let create = CreateOptions::default().zeroed(true);
    Volume::create(Box::new(region), &create).expect("a volume");
    let region = Mapped::open(&path, &options).expect("the region opens");
    region.touch(0, region.bytes());
    let base = region.base() as u64;
    let volume = Volume::open(Box::new(region), &OpenOptions::default()).expect("the volume opens");
    let fresh_share = huge_percent(base, bytes);
    let mut churn = Churn::new(&volume, (4096, 8 * MIB), 1);
    while !churn.is_full(&volume) {
        churn.step(&volume);
    }
    // Windows of one volume's size each: the first is fresh, the last is aged.
    let mut rates = Vec::new();
    for window in 1..=11 {
        let (start, before) = (cpu(), churn.written);
        while churn.written < before + bytes {
            churn.step(&volume);
        }
        let written = (churn.written - before) as f64 / since(start);
        let start = cpu();
        let mut read = 0;
        for _ in 0..3 {
            read += churn.read_all(&volume);
        }
        let read = read as f64 / since(start);
        writeln!(
            out,
            "{window:>3} x: {:>8.0} MiB/s written, {:>8.0} MiB/s read",
            written / 1048576.0,
            read / 1048576.0
        )
        .expect("output");
        rates.push((written, read));
    }
    // The median of the last three, for the machine has other things to do, too.
    let of_last = |figure: fn(&(f64, f64)) -> f64| {
        let last: Vec<f64> = rates[rates.len() - 3..].iter().map(figure).collect();
        median(last).expect("three rates")
    };
    let ((fresh, fresh_read), aged, aged_read) = (rates[0], of_last(|rate| rate.0), of_last(|rate| rate.1));
    // A huge page of the volume is one of the region, so what is said of the region is said of the files.
    let share = huge_percent(base, bytes);
    let large = churn.large(2 * MIB);
    let large_bytes: u64 = large.iter().map(|(_, bytes)| bytes).sum();
    let in_place = large
        .iter()
        .filter(|(ino, _)| {
            let file = volume.open(*ino).expect("a file opens");
            let view = file.view().expect("a view");
            (base..base + bytes).contains(&(view.as_ptr() as u64))
        })
        .count();
    let refused = churn.refused;
    writeln!(out, "{what}, {} MiB; {} changes, {refused} found no space", bytes / MIB, churn.changes).expect("output");
    writeln!(
        out,
        "written: fresh {:.0}, aged {:.0} MiB/s, ratio {:.2}",
        fresh / 1048576.0,
        aged / 1048576.0,
        aged / fresh
    )
    .expect("output");
    let ratio = aged_read / fresh_read;
    writeln!(
        out,
        "read: fresh {:.0}, aged {:.0} MiB/s, ratio {ratio:.2}",
        fresh_read / 1048576.0,
        aged_read / 1048576.0
    )
    .expect("output");
    writeln!(
        out,
        "{} large files, {} MiB, {in_place} of them in one piece; on huge pages: {fresh_share:.1} % of the region at \
         first, {share:.1} % at last",
        large.len(),
        large_bytes / MIB
    )
    .expect("output");
    let start = cpu();
    churn.clear(&volume);
    let statfs = volume.statfs().expect("its space");
    writeln!(out, "all removed in {:.2} s; {} of {} blocks free", since(start), statfs.free_blocks, statfs.blocks)
        .expect("output");
    volume.close().expect("a clean close");
}
