//! Losses of power: every one of a bounded set, and many at random.

use crate::support::durable::Durable;
use crate::support::power::{candidates, recover, recover_with_cuts, storm, use_a_little, use_it_all};
use crate::support::recorder::Torn;
use crate::support::run::{Restart, Run};
use crate::support::shape::Shape;
use crate::support::subject::{OpenFiles, close};
use crate::support::{amount, say, seed};
use pocketstone_fstest::{Op, Outcome, Pair, Target, apply};
use pocketstone_random::Random;
use pocketstone_vfs::{FileType, Rename, SetXattr};
use std::sync::Mutex;

fn file(path: &str) -> Target {
    Target::Path(path.into())
}

fn create(path: &str) -> Op {
    Op::Create(path.into(), FileType::Regular, 0o644, None)
}

fn rename(from: &str, to: &str) -> Op {
    Op::Rename(from.into(), to.into(), Rename::Replace)
}

/// What is done in pairs.
fn operations(chunk: u64) -> Vec<Op> {
    vec![
        create("/new"),
        Op::Mkdir("/d/sub".into(), 0o755),
        Op::Symlink("/symlink".into(), "a/target".into()),
        Op::Link("/a".into(), "/d/a".into()),
        Op::Unlink("/a".into()),
        Op::Unlink("/linked".into()),
        Op::Unlink("/second".into()),
        Op::Unlink("/open".into()),
        Op::Rmdir("/empty".into()),
        rename("/a", "/renamed"),
        rename("/a", "/d/b"),
        rename("/a", "/linked"),
        rename("/a", "/second"),
        rename("/second", "/a"),
        rename("/d", "/empty"),
        rename("/a", "/open"),
        Op::Write(file("/a"), 0, chunk + 9, 3),
        Op::Write(file("/a"), 3 * chunk - 20, 100, 4),
        Op::Write(file("/d/b"), 9 * chunk, chunk, 5),
        Op::Write(Target::Slot(0), 10, chunk + 9, 6),
        Op::Truncate(file("/a"), chunk + chunk / 2),
        Op::Truncate(file("/a"), 0),
        Op::Truncate(file("/a"), 12 * chunk + 1),
        Op::Chmod("/a".into(), 0o600),
        Op::SetXattr("/d/b".into(), "user.x".into(), 50, 1, SetXattr::Any),
        Op::SyncFile(file("/a")),
        Op::Sync,
        Op::Background,
        Op::Close(0),
    ]
}

/// Volumes to begin with: files of all kinds; one that is full of garbage; one just mounted by its checkpoint.
fn start(which: usize) -> Run {
    let (shape, churn, restart) = match which {
        0 => (Shape::new(24, 8, 1024), 0, None),
        1 => (Shape::new(20, 8, 1024).with(|shape| shape.options.cache_chunks = 2), 90, None),
        2 => (Shape::new(60, 8, 528), 60, Some(Restart::Unmount)),
        _ => (Shape::new(20, 16, 528), 40, Some(Restart::Drop)),
    };
    let chunk = shape.chunk_bytes();
    let mut run = Run::new(&shape, 0);
    let ops = [
        create("/a"),
        Op::Write(file("/a"), 0, 4 * chunk + 77, 1),
        Op::Mkdir("/d".into(), 0o700),
        create("/d/b"),
        Op::Write(file("/d/b"), 0, 2 * chunk + 1, 2),
        Op::Mkdir("/empty".into(), 0o700),
        create("/linked"),
        Op::Write(file("/linked"), 0, chunk, 8),
        Op::Link("/linked".into(), "/second".into()),
        create("/open"),
        Op::Write(file("/open"), 0, 3 * chunk, 7),
    ];
    ops.iter().for_each(|op| run.step(op).expect("a start is made"));
    for number in 0..churn {
        let (at, fill) = (number * 5 % 37 * chunk / 10, number as u8);
        run.step(&Op::Write(file("/churn"), at, chunk, fill)).ok();
        if number % 9 == 0 {
            run.step(&create("/churn")).expect("a start is made");
            run.step(&Op::Truncate(file("/churn"), 2 * chunk)).expect("a start is made");
        }
        run.step(&Op::SyncFile(file("/churn"))).expect("a start is made");
    }
    run.step(&Op::Sync).expect("a start is made");
    if let Some(how) = restart {
        run = run.leave(how).expect("a start is made");
    }
    run.step(&Op::Open(0, "/open".into())).expect("a start is made");
    run
}

#[test]
fn every_single_cut_of_pairs_of_operations_leaves_each_done_or_not() {
    let counted = Mutex::new((0, 0));
    std::thread::scope(|scope| {
        for which in 0..4 {
            let counted = &counted;
            scope.spawn(move || {
                let ops = operations(start(which).shape.chunk_bytes());
                for number in 0..ops.len() * ops.len() {
                    let (first, second) = (&ops[number / ops.len()], &ops[number % ops.len()]);
                    let cuts = pair(which, first, second, number);
                    let mut counted = counted.lock().expect("no thread failed");
                    *counted = (counted.0 + cuts, counted.1 + 1);
                }
            });
        }
    });
    let (cuts, pairs) = *counted.lock().expect("no thread failed");
    say(&format!("{cuts} cuts in {pairs} pairs of operations"));
    assert!(cuts > 10_000);
}

/// How many cuts there were.
fn pair(which: usize, first: &Op, second: &Op, number: usize) -> u64 {
    let mut run = start(which);
    let shape = run.shape.clone();
    let mut cuts = 0;
    for (place, op) in [first, second].into_iter().enumerate() {
        let before = run.model.clone();
        // Cuts in the first one are the same whatever follows.
        let wanted = place == 1 || number % operations(512).len() == 0;
        run.recorder.record(wanted);
        run.step(op).unwrap_or_else(|what| panic!("start {which}: {first:?}, {second:?}: {what}"));
        let may_be = candidates(&before, op);
        cuts += look(&run.recorder.take(), &shape, &may_be, cuts, &format!("start {which}: {first:?}, {second:?}"));
    }
    cuts
}

fn look(torn: &[Torn], shape: &Shape, may_be: &[Durable], salt: u64, what: &str) -> u64 {
    for (number, torn) in (salt..).zip(torn) {
        let fail = |why: String| -> ! { panic!("{what}: cut at change {} with {:?}: {why}", torn.at, torn.tear) };
        let recovered = match number % 3 {
            0 => recover_with_cuts(&torn.chip, shape, may_be),
            _ => recover(&torn.chip, shape, may_be),
        };
        let recovered = recovered.unwrap_or_else(|why| fail(why));
        if number % 41 == 0 {
            use_it_all(recovered.volume, &torn.chip, shape).unwrap_or_else(|why| fail(why));
        } else if number % 4 == 1 {
            use_a_little(recovered, &torn.chip, shape).unwrap_or_else(|why| fail(why));
        }
    }
    torn.len() as u64
}

#[test]
fn a_cut_while_a_checkpoint_is_written_or_erased_leaves_everything() {
    for which in 0..4 {
        let mut run = start(which);
        let shape = run.shape.clone();
        run.step(&create("/late")).expect("a file is made");
        run.step(&Op::Write(file("/late"), 0, 100, 1)).expect("it is written");
        let mut before = run.model.clone();
        before.restart();
        run.recorder.record(true);
        close(run.volume).expect("it is unmounted");
        let torn = run.recorder.take();
        assert!(!torn.is_empty());
        look(&torn, &shape, &[before.clone()], 0, "unmount");
        // The first change after the mount.
        before.settle_all();
        run.recorder.record(true);
        let volume = run.recorder.mount(&shape).expect("it is mounted");
        let op = create("/first");
        let done = apply(&volume, &mut OpenFiles::default(), &op);
        assert!(matches!(done, Ok(Outcome::Node(_))), "{done:?}");
        look(&run.recorder.take(), &shape, &candidates(&before, &op), 0, "first change");
    }
}

/// What was cut off, or overwritten in memory alone, when the power failed must not come back at the next failure.
#[test]
fn a_second_cut_brings_nothing_back() {
    let mut cuts = 0;
    for which in 0..4 {
        let chunk = start(which).shape.chunk_bytes();
        let cases = [
            (Op::Truncate(file("/a"), chunk + chunk / 2), Op::Write(file("/a"), chunk + 1, 11 * chunk, 9)),
            (Op::Truncate(file("/a"), 0), Op::Write(file("/a"), chunk / 2, chunk, 9)),
            (Op::Write(file("/a"), 3, 14 * chunk, 6), Op::Truncate(file("/a"), 20 * chunk)),
        ];
        for (first, second) in cases {
            let mut run = start(which);
            let shape = run.shape.clone();
            let before = run.model.clone();
            run.recorder.record(true);
            for op in [&first, &Op::SyncFile(file("/a"))] {
                run.step(op).expect("a file is changed");
            }
            let may_be = [candidates(&before, &first), vec![run.model.clone()]].concat();
            for torn in run.recorder.take() {
                let recovered = recover(&torn.chip, &shape, &may_be).expect("as the other test has shown");
                let mut run = Run::of(&shape, torn.chip, recovered.model);
                for op in [&second, &Op::SyncFile(file("/a")), &Op::Sync] {
                    let before = run.model.clone();
                    run.recorder.record(true);
                    run.step(op).unwrap_or_else(|why| panic!("start {which}: {first:?}, cut, {op:?}: {why}"));
                    let what = format!("start {which}: {first:?}, cut at {} with {:?}, {op:?}", torn.at, torn.tear);
                    cuts += look(&run.recorder.take(), &shape, &candidates(&before, op), cuts, &what);
                }
            }
        }
    }
    say(&format!("{cuts} second cuts"));
    assert!(cuts > 1000);
}

/// The header of a file that was cut, and written since, moves while the file is brought to the chip.
#[test]
fn a_header_that_is_collected_tells_of_nothing_that_is_not_there() {
    let shape = Shape::new(20, 8, 1024).with(|shape| shape.options.summary = false);
    let (chunk, mut cuts, mut moved) = (shape.chunk_bytes(), 0, 0);
    for number in 0..200 {
        let mut random = Random::labelled(number, "churn");
        let mut write = || Op::Write(file("/churn"), random.below(32) * chunk, chunk, number as u8);
        let before: Vec<Op> = (0..150).map(|_| write()).collect();
        // The block with the header holds nothing else of use.
        let again = |fill| (0..7).map(move |at| Op::Write(file("/churn"), at * chunk, chunk, fill));
        let between = again(1).chain(again(2)).take(7 + number as usize % 8);
        let start = [create("/a"), create("/keep"), create("/churn")];
        // What is cut off lies in blocks that are not worth collecting.
        let kept = (0..8).flat_map(|number| {
            let keep = Op::Write(file("/keep"), 3 * number * chunk, 3 * chunk, 2);
            [Op::Write(file("/a"), number * chunk, chunk, 1), keep]
        });
        // In the cache, all of it.
        let after = (0..8).map(|number| Op::Write(file("/a"), number * chunk, chunk - 1, 9));
        let cut = [Op::Truncate(file("/a"), 0)];
        let all = start.into_iter().chain(kept).chain(before).chain(cut).chain(between).chain(after);
        let mut run = Run::new(&shape, 0);
        for op in all {
            run.step(&op).expect("there is space");
        }
        let model = run.model.clone();
        let collected = run.volume.usage().moved_chunks;
        run.recorder.record(true);
        run.step(&Op::SyncFile(file("/a"))).expect("there is space");
        moved += run.volume.usage().moved_chunks - collected;
        let may_be = candidates(&model, &Op::SyncFile(file("/a")));
        cuts += look(&run.recorder.take(), &shape, &may_be, cuts, &format!("churn {number}"));
    }
    say(&format!("{cuts} cuts, {moved} chunks moved meanwhile"));
    assert!(moved > 100);
}

fn storms(seeds: u64, cuts: u64) {
    let first = seed(1);
    let shapes = [
        Shape::new(24, 8, 1024),
        Shape::new(24, 16, 528).with(|shape| shape.options.cache_chunks = 3),
        Shape::new(64, 8, 528),
        Shape::new(32, 8, 2048).with(|shape| shape.options.summary = false),
        Shape::new(64, 8, 1024).with(|shape| {
            (shape.options.tags_ecc, shape.options.cache_chunks) = (false, 0);
            shape.geometry.spare_bytes = 16;
        }),
    ];
    for seed in first..first + seeds {
        for shape in &shapes {
            let decoder = shape.decoder();
            storm(shape, seed, cuts, &|random| decoder.random(random))
                .unwrap_or_else(|what| panic!("seed {seed}, {}: {what}", shape.describe()));
        }
    }
    say(&format!("{} cuts at random", seeds * cuts * shapes.len() as u64));
}

#[test]
fn cuts_at_random_lose_nothing_that_was_synced() {
    storms(amount(40, 40), 50);
}

#[test]
#[ignore = "long: 250,000 cuts"]
fn torture_power() {
    storms(500, 100);
}
