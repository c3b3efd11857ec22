//! The model against Linux: what volumes are compared with must itself be right.

#[path = "support/on_host.rs"]
mod on_host;
mod support;

use on_host::{Host, is_usable};
use pocketstone_core::random::Random;
use pocketstone_scmfs::FileType;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use support::decode::Decoder;
use support::model::Model;
use support::op::Op;
use support::shape::Shape;
use support::tree::differences;
use support::{amount, say, seed};

#[test]
fn the_model_does_what_linux_does() {
    let seed = seed(1);
    // tmpfs has all that is compared; other file systems may count links in another way.
    let parent =
        Some(Path::new("/dev/shm")).filter(|path| path.is_dir()).map_or_else(std::env::temp_dir, Path::to_path_buf);
    let directory = tempfile::tempdir_in(parent).expect("a directory can be made");
    if !is_usable(directory.path()).expect("a directory can be used") {
        say("left out: the model against Linux; why: no tmpfs here; cure: mount one on /dev/shm");
        return;
    }
    let meta = directory.path().metadata().expect("it has attributes");
    let mut model = Model::new((meta.mode() & 0o7777) as u16, 0, 0);
    // A file of another owner than root could not be read whatever its permissions.
    let is_root = meta.uid() == 0;
    let mut host = Host::new(directory.path());
    let decoder = Decoder::new(&Shape::roomy());
    let mut random = Random::labelled(seed, "host");
    let (mut compared, mut left_out) = (0, 0);
    for step in 0..amount(20_000, 500_000) {
        let mut op = decoder.random(&mut random);
        if let Op::Create(_, kind, permissions, slot) = &mut op {
            if *kind != FileType::Regular {
                *slot = None;
            }
            if !is_root {
                *permissions |= 0o600;
            }
        }
        let Some(got) = host.apply(&op) else {
            left_out += 1;
            continue;
        };
        let want = model.apply(&op);
        assert_eq!(got, want, "seed {seed}, step {step}: {op:?}: Linux on the left, the model on the right");
        compared += 1;
        if step % 50 == 0 {
            let lines = differences(&host.tree().expect("the directory can be read"), &model.tree());
            assert!(lines.is_empty(), "seed {seed}, step {step}, after {op:?}:\n{}", lines.join("\n"));
        }
    }
    say(&format!("{compared} operations compared, {left_out} left out"));
    assert!(compared > 10 * left_out, "hardly anything could be compared");
}
