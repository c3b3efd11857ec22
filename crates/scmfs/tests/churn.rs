//! A volume that is churned ten times its size at 85 % full loses nothing. `benches/churn.rs` measures it.

use crate::support::churn::Churn;
use crate::support::{amount, say, seed};
use pocketstone_media::Mapped;
use pocketstone_scmfs::{CreateOptions, OpenOptions, Operations, Volume, check};

const MIB: u64 = 1 << 20;

fn churn(background: bool, seed: u64) {
    let bytes = amount(64, 1024) * MIB;
    let home = tempfile::tempdir().expect("a directory for the volume");
    let path = home.path().join("volume");
    let region = Mapped::create(&path, bytes, &Default::default()).expect("a region");
    let create = CreateOptions::default().zeroed(true);
    Volume::create(Box::new(region), &create).expect("a volume");
    let map = || Box::new(Mapped::open(&path, &Default::default()).expect("the region opens"));
    let options = OpenOptions::default().background(background);
    let mut volume = Volume::open(map(), &options).expect("the volume opens");
    // The root keeps the page that its first name takes.
    Churn::new(&volume, (4096, 8 * MIB), seed).clear(&volume);
    volume.collect();
    let free = |volume: &Volume| (volume.statfs().unwrap().free_blocks, volume.statfs().unwrap().free_inodes);
    let fresh = free(&volume);
    // 8 MiB are too much of a volume of 64.
    let mut churn = Churn::new(&volume, (4096, (bytes / 16).min(8 * MIB)), seed);
    for round in 1..=10 {
        while churn.written < round * bytes {
            churn.step(&volume);
        }
        churn.read_all(&volume);
        if round == 5 {
            // Once in between, a clean stop and start.
            volume.close().expect("a clean close");
            let report = check(map()).expect("fsck reads the volume");
            assert!(report.findings.is_empty(), "seed {seed}: {report:#?}");
            volume = Volume::open(map(), &options).expect("the volume opens");
        }
    }
    let (written, changes, refused) = (churn.written / MIB, churn.changes, churn.refused);
    say(&format!("seed {seed}: {written} MiB in {changes} changes on {} MiB; {refused} found no space", bytes / MIB));
    // Now and then no huge page is left at 85 %: the zone of small pages has what is free.
    assert!(refused * 10 < changes, "seed {seed}: {refused} of {changes} changes found no space");
    churn.clear(&volume);
    volume.collect();
    assert_eq!(free(&volume), fresh, "seed {seed}: not all is free again (blocks, inodes)");
    let usage = volume.usage();
    volume.close().expect("a clean close");
    let report = check(map()).expect("fsck reads the volume");
    assert!(report.findings.is_empty(), "seed {seed}: {report:#?}");
    assert_eq!((report.inodes_used, report.files), (1, 0), "seed {seed}: {usage:?}");
}

#[test]
fn ten_times_the_size() {
    churn(false, seed(1));
}

#[test]
fn ten_times_the_size_with_a_collector_in_the_background() {
    churn(true, seed(2));
}
