//! Random operations on a volume and on the model: the same answers, the same trees.

use crate::support::run::Run;
use crate::support::shape::Shape;
use crate::support::{amount, say, seed};
use pocketstone_fstest::drive::{Long, short};
use pocketstone_fstest::{Op, Pair, Word};
use pocketstone_random::Random;
use pocketstone_scmfs::{FileType, Operations, Statfs};
use proptest::collection::vec;
use proptest::prelude::*;

fn long_run(shape: &Shape, seed: u64, steps: u64, compare_every: u64) {
    let long = Long { seed, steps, compare_every, restart_one_in: 300 };
    let run = long.run("SCMFS", &shape.decoder(), Run::new(shape));
    run.finish().unwrap_or_else(|what| panic!("seed {seed}, at the end: {what}"));
}

#[test]
fn tiny_pages() {
    long_run(&Shape::roomy(), seed(1), amount(10_000, 500_000), 10);
}

#[test]
fn tiny_pages_and_null_files() {
    long_run(&Shape::roomy().with_null_files(7), seed(2), amount(5_000, 200_000), 10);
}

#[test]
fn default_pages() {
    long_run(&Shape::normal(), seed(3), amount(1_500, 50_000), 50);
}

#[test]
fn tiny_pages_with_checksums() {
    long_run(&Shape::roomy().with_null_files(7).with_checksums(), seed(5), amount(5_000, 200_000), 10);
}

#[test]
fn collector_in_the_background() {
    let mut shape = Shape::tiny(128 << 10);
    shape.open.background = true;
    long_run(&shape, seed(4), amount(5_000, 200_000), 10);
}

#[test]
fn inodes_that_are_made_when_they_are_needed() {
    let mut shape = Shape::tiny(128 << 10);
    shape.create.inodes = Some(2);
    long_run(&shape, seed(6), amount(3_000, 200_000), 10);
}

#[test]
fn small_pages_only() {
    let mut shape = Shape::tiny(64 << 10);
    shape.create.threshold = pocketstone_scmfs::Threshold::Never;
    long_run(&shape.with_null_files(3), seed(7), amount(3_000, 200_000), 10);
}

/// Takes all names away, deepest first.
fn remove_everything(run: &mut Run) -> Result<(), String> {
    for (path, leaf) in run.model.tree().into_iter().rev().filter(|(path, _)| path != "/") {
        let is_directory = leaf.kind == FileType::Directory;
        run.step_with_room(&if is_directory { Op::Rmdir(path) } else { Op::Unlink(path) })?;
    }
    (0..3).try_for_each(|slot| run.step_with_room(&Op::Close(slot)))
}

#[test]
fn a_full_volume_can_be_emptied_and_used_again() {
    let (seed, shape) = (seed(5), Shape::tiny(48 << 10));
    let mut random = Random::labelled(seed, "full");
    let decoder = shape.decoder();
    let mut run = Run::new(&shape);
    let fresh = run.volume.statfs().unwrap();
    for round in 0..amount(40, 1_000) {
        let fail = |what: String| -> ! { panic!("seed {seed}, round {round}: {what}") };
        let mut refused = 0;
        for _ in 0..300 {
            let op = decoder.random(&mut random);
            let before = run.model.tree();
            run.step(&op).unwrap_or_else(|what| fail(what));
            let grows = matches!(op, Op::Write(..) | Op::Append(..) | Op::Create(..));
            refused += u32::from(grows && run.model.tree() == before);
        }
        run.compare().unwrap_or_else(|what| fail(what));
        // Fills what is left, so that the removals below happen on a full volume.
        let path = String::from("/filler");
        run.step(&Op::Create(path.clone(), FileType::Regular, 0o600, None)).unwrap_or_else(|what| fail(what));
        for bytes in [2048, 256, 1].into_iter().flat_map(|bytes| [bytes; 40]) {
            run.step(&Op::Append(path.clone().as_str().into(), bytes, 1)).unwrap_or_else(|what| fail(what));
        }
        remove_everything(&mut run).unwrap_or_else(|what| fail(format!("removal: {what}")));
        run.volume.collect();
        expect_free(&fresh, &run.volume.statfs().unwrap());
        say(&format!("round {round}: {refused} operations without effect"));
        run = run.restart(round as u8).unwrap_or_else(|what| fail(what));
    }
    run.finish().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
}

/// Nothing was lost; the root directory may have grown by a few pages.
fn expect_free(fresh: &Statfs, now: &Statfs) {
    let lost = (fresh.free_blocks - now.free_blocks) * u64::from(fresh.block_bytes);
    // Inodes that could be made of huge pages, 8 in each 2048 bytes, are counted with the free space.
    let could_be = |statfs: &Statfs| statfs.free_blocks * u64::from(statfs.block_bytes) / 2048 * 8;
    assert_eq!(now.free_inodes - could_be(now), fresh.free_inodes - could_be(fresh), "inodes were lost");
    assert!(lost <= 4096, "{lost} bytes were lost: {now:?}, fresh {fresh:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: amount(100, 5_000) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn short_sequences(words in vec(any::<Word>(), 1..60), tight in any::<bool>()) {
        let shape = if tight { Shape::tiny(40 << 10) } else { Shape::roomy() };
        let result = short(&words, &shape.decoder(), Run::new(&shape));
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}
