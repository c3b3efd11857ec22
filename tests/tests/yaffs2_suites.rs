//! Programs of others on a mounted YAFFS2 volume, on a simulated chip. Needs root, FUSE and the programs; what cannot
//! be had is left out, and named.

use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_mount::{MountOptions, mount_yaffs2};
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::Place;
use pocketstone_tests::suites::{built, cases, command, plain, settings, tell};
use std::collections::BTreeSet;

#[test]
#[ignore = "waits whole seconds, as the format's times are: make torture"]
fn pjdfstest() {
    let Some(suite) = built("pjdfstest") else { return };
    let Some(place) = Place::new() else { return };
    let (at, other) = (place.folder("mount"), place.folder("other"));
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 38, pages_per_block: 64, blocks: 1024 };
    let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    pocketstone_yaffs2::format(&mut chip.clone()).expect("an empty volume");
    let open = || pocketstone_yaffs2::Volume::mount(Box::new(chip.clone()), &Default::default()).expect("the volume");
    let (mounted, volume) = mount_yaffs2(open(), &at, &MountOptions::raw_nand("chip")).expect("a mount");
    pocketstone_tests::mounted::open_to_all(&at);
    let mut words = command(&suite);
    words.arg("-c").arg(settings("pjdfstest-yaffs2.toml")).arg("-p").arg(&at).arg("-s").arg(&other);
    let ran = run(&mut words);
    let out = plain(&ran.out);
    assert_eq!(cases(&out, "FAILED"), BTreeSet::new(), "{ran}");
    // The settings say why.
    let left_out = |name: &&str| name.contains("::erofs_") || name.starts_with("posix_fallocate::");
    let (left_out, skipped): (BTreeSet<_>, BTreeSet<_>) = cases(&out, "skipped").into_iter().partition(left_out);
    assert_eq!((left_out.len(), skipped), (13 + 5, BTreeSet::from(["link::link_count_max"])), "{ran}");
    assert!(out.contains("0 failed") && out.contains("1 expected failures"), "{ran}");
    let passed = cases(&out, "ok").len();
    assert!(passed >= 378, "only {passed} passed: {ran}");
    tell(&format!("pjdfstest on YAFFS2: {passed} cases passed, none failed"));
    mounted.unmount().expect("nobody uses it");
    volume.close().expect("the volume is closed");
}
