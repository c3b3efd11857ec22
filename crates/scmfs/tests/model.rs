//! Random operations on a volume and on the model: the same answers, the same trees.

mod support;

use pocketstone_core::random::Random;
use pocketstone_scmfs::{FileType, Statfs};
use proptest::collection::vec;
use proptest::prelude::*;
use support::decode::{Decoder, Word};
use support::op::Op;
use support::run::Run;
use support::shape::Shape;
use support::{amount, say, seed};

/// Long random runs on one volume, with restarts; trees are compared every `every` steps.
fn long_run(shape: &Shape, seed: u64, steps: u64, every: u64) {
    let mut random = Random::labelled(seed, "model");
    let decoder = Decoder::new(shape);
    let mut run = Run::new(shape);
    for step in 0..steps {
        let fail = |what: String| -> ! { panic!("seed {seed}, step {step}: {what}") };
        let op = decoder.random(&mut random);
        run.step(&op).unwrap_or_else(|what| fail(what));
        if step % every == 0 {
            run.compare().unwrap_or_else(|what| fail(format!("after {op:?}: {what}")));
        }
        if step % 500 == 499 {
            run = run.restart(random.below(2) == 0).unwrap_or_else(|what| fail(format!("restart: {what}")));
        }
    }
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
fn collector_in_the_background() {
    let mut shape = Shape::tiny(128 << 10);
    shape.open.background = true;
    long_run(&shape, seed(4), amount(5_000, 200_000), 10);
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
    let decoder = Decoder::new(&shape);
    let mut run = Run::new(&shape);
    let fresh = run.volume.statfs();
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
        expect_free(&fresh, &run.volume.statfs());
        say(&format!("round {round}: {refused} operations without effect"));
        run = run.restart(round % 2 == 0).unwrap_or_else(|what| fail(what));
    }
    run.finish().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
}

/// Nothing was lost; the root directory may have grown by a few pages.
fn expect_free(fresh: &Statfs, now: &Statfs) {
    assert_eq!(now.free_inodes, fresh.free_inodes, "inodes were lost");
    let lost = (fresh.free_blocks - now.free_blocks) * u64::from(fresh.block_bytes);
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
        let decoder = Decoder::new(&shape);
        let mut run = Run::new(&shape);
        let mut done = Vec::new();
        for word in words {
            let op = decoder.decode(word);
            let result = run.step(&op).and_then(|()| run.compare());
            done.push(op);
            prop_assert!(result.is_ok(), "{:#?}: {}", done, result.unwrap_err());
        }
        let result = run.finish();
        prop_assert!(result.is_ok(), "{:#?}: {}", done, result.unwrap_err());
    }
}
