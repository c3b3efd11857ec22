//! Checkpoints that are asked for, and what is said when one cannot be taken.

use pocketstone_testing::or_skip;
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::{MountedVolume, Place, make, scmfs};
use std::fs;
use std::process::Command;

#[test]
fn many_may_ask_at_once_and_a_target_on_the_volume_is_refused() {
    let place = or_skip!(Place::new());
    let volume = place.volume(&[]);
    let target = place.path("target");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..10 {
                    run(scmfs(["checkpoint"]).arg(volume.path()).arg(&target)).ends_with(0).says(&["checkpoint"]);
                }
            });
        }
    });
    for inside in ["", "a/new/one"] {
        let inside = volume.path().join(inside);
        run(scmfs(["checkpoint"]).arg(volume.path()).arg(&inside)).ends_with(1).complains(&["on the volume itself"]);
    }
    let region = volume.region().to_owned();
    let directory = volume.path().to_owned();
    volume.end();
    let option = format!("checkpoint={}", directory.join("cp").display());
    let refused = run(scmfs(["mount", "-o", &option]).arg(&region).arg(&directory)).ends_with(1);
    refused.complains(&["on the volume itself"]);
}

#[test]
fn a_last_checkpoint_that_fails_and_a_target_of_another_volume_are_told() {
    let place = or_skip!(Place::new());
    let target = place.folder("target");
    let small = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2M", "tmpfs"]).arg(&target).status();
    assert!(small.expect("mount").success());
    let option = format!("checkpoint={},every=1h", target.display());
    let volume = place.volume(&["-o", &option]);
    let content: Vec<u8> = (0..8_u32 << 18).flat_map(u32::to_le_bytes).collect();
    fs::write(volume.path().join("f"), content).expect("there is room in the volume");
    let (region, directory) = (volume.region().to_owned(), volume.path().to_owned());
    run(scmfs(["umount"]).arg(&directory)).ends_with(4).complains(&["no last checkpoint", "scmfs checkpoint"]);
    // As it says: the volume is whole, and a larger target takes it.
    let larger = place.folder("larger");
    run(scmfs(["checkpoint"]).arg(&region).arg(&larger)).ends_with(0).says(&["checkpoint 1"]);
    let other = place.path("other");
    make(&other, &["--size", "64M"]);
    let option = format!("checkpoint={}", larger.display());
    let refused = run(scmfs(["mount", "-o", &option]).arg(&other).arg(&directory)).ends_with(1);
    refused.complains(&["checkpoints of another volume"]);
    // Its own goes on with it; unmounting is no error then.
    let again = MountedVolume::mount(&region, &directory, &["-o", &option]);
    run(scmfs(["umount"]).arg(again.path())).ends_with(0);
    run(scmfs(["checkpoint", "--verify"]).arg(&larger)).ends_with(0).says(&["0 damaged"]);
    // What is damaged is no reason to begin with an empty volume.
    for entry in fs::read_dir(&larger).expect("a folder").flatten() {
        if entry.file_name().to_string_lossy().starts_with("checkpoint-") {
            fs::write(entry.path(), b"nothing").expect("damage");
        }
    }
    fs::remove_file(&region).expect("lost");
    let option = format!("checkpoint={},restore", larger.display());
    let refused = run(scmfs(["mount", "-o", &option]).arg(&region).arg(&directory)).ends_with(1);
    refused.complains(&["damaged", "--verify"]);
}
