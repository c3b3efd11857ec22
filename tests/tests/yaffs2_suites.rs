//! Programs of others on a mounted YAFFS2 volume, on a simulated chip. Needs root, FUSE and the programs; what cannot
//! be had is left out, and named.

use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_mount::{MountOptions, mount_yaffs2};
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::mounted::Place;
use pocketstone_tests::suites::{self, built, cases, fio, postmark, settings, tell};
use pocketstone_yaffs2::{OpenOptions, Volume, check};
use std::collections::BTreeSet;
use std::path::Path;

/// A volume on a simulated chip of 128 MiB, mounted.
struct Mounted {
    chip: SimulatedNand,
    mounted: pocketstone_mount::Mounted,
    volume: pocketstone_mount::Yaffs2,
}

impl Mounted {
    fn new(at: &Path) -> Mounted {
        let geometry = Geometry { page_bytes: 2048, spare_bytes: 38, pages_per_block: 64, blocks: 1024 };
        let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
        let volume = Volume::open(Box::new(chip.clone()), &OpenOptions::default()).expect("an empty volume");
        let (mounted, volume) = mount_yaffs2(volume, at, &MountOptions::raw_nand("chip")).expect("a mount");
        Mounted { chip, mounted, volume }
    }

    /// Unmounts it; fsck finds nothing wrong then.
    fn end(self) {
        self.mounted.unmount().expect("nobody uses it");
        self.volume.close().expect("the volume is closed");
        let report = check(Box::new(self.chip), &OpenOptions::default()).expect("a chip that can be read");
        assert_eq!(report.errors, 0, "{:#?}", report.findings);
    }
}

fn fsx(operations: u64, seeds: std::ops::RangeInclusive<u64>) {
    let suite = or_skip!(built("fsx"));
    let place = or_skip!(Place::new());
    let at = place.folder("mount");
    let volume = Mounted::new(&at);
    suites::fsx(&suite, "fsx-yaffs2.toml", &place.path(""), &at, operations, seeds.clone());
    tell(&format!("fsx on YAFFS2: {operations} operations, seeds {seeds:?}"));
    volume.end();
}

#[test]
fn fsx_for_a_while() {
    fsx(10_000, 1..=2);
}

#[test]
#[ignore = "takes minutes: make torture"]
fn fsx_for_long() {
    fsx(250_000, 1..=4);
}

#[test]
fn programs_leave_a_sound_volume() {
    let place = or_skip!(Place::new());
    let at = place.folder("mount");
    let volume = Mounted::new(&at);
    if let Ok(suite) = program("fio", "fio") {
        fio(&suite, &at, "psync", "4k", "16m");
        tell("fio on YAFFS2: 16 MiB written at random, read back and verified");
    }
    if let Ok(suite) = program("postmark", "postmark") {
        let folder = at.join("postmark");
        std::fs::create_dir(&folder).expect("a folder");
        let ran = postmark(&suite, &folder, &place.path("postmark"), 1000, "");
        assert!(ran.out.contains("1000 "), "{ran}");
        tell("PostMark on YAFFS2: 1,000 transactions");
    }
    volume.end();
}

#[test]
#[ignore = "waits whole seconds, as the format's times are: make torture"]
fn pjdfstest() {
    let suite = or_skip!(built("pjdfstest"));
    let place = or_skip!(Place::new());
    let (at, other) = (place.folder("mount"), place.folder("other"));
    let volume = Mounted::new(&at);
    pocketstone_tests::mounted::open_to_all(&at);
    let ran = suites::pjdfstest(&suite, &settings("pjdfstest-yaffs2.toml"), &at, &other, &[]);
    let out = &ran.out;
    // The settings say why.
    let left_out = |name: &&str| name.contains("::erofs_") || name.starts_with("posix_fallocate::");
    let (left_out, skipped): (BTreeSet<_>, BTreeSet<_>) = cases(out, "skipped").into_iter().partition(left_out);
    assert_eq!((left_out.len(), skipped), (13 + 5, BTreeSet::from(["link::link_count_max"])), "{ran}");
    assert!(out.contains("0 failed") && out.contains("1 expected failures"), "{ran}");
    let passed = cases(out, "ok").len();
    assert!(passed >= 378, "only {passed} passed: {ran}");
    tell(&format!("pjdfstest on YAFFS2: {passed} cases passed, none failed"));
    volume.end();
}
