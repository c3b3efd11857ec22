//! Several threads on one volume: on subtrees of their own against a model each, and on the same objects,
//! where what must hold is checked.

use crate::support::shape::{Shape, expect_sound};
use crate::support::subject::{OpenFiles, apply_both, walk};
use crate::support::{amount, seed};
use pocketstone_fstest::{Decoder, Model, Op, Tree, differences};
use pocketstone_random::Random;
use pocketstone_scmfs::{Allocate, Attr, Error, Meta, Operations, ROOT, Rename, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn roomy() -> Shape {
    let mut shape = Shape::roomy().with_null_files(4);
    shape.open.background = true;
    shape
}

/// What is below a path, with the path itself.
fn below(tree: Tree, prefix: &str) -> Tree {
    tree.into_iter().filter(|(path, _)| path.starts_with(prefix)).collect()
}

#[test]
fn subtrees_do_not_disturb_each_other() {
    let (seed, shape) = (seed(1), roomy());
    let (shared, volume, model) = shape.start();
    let finals: Vec<(String, Tree)> = std::thread::scope(|scope| {
        let threads = ["/t0", "/t1", "/t2"].map(|prefix| {
            let (volume, shape, mut model) = (&volume, &shape, model.clone());
            scope.spawn(move || {
                let mut files = OpenFiles::default();
                let mut random = Random::labelled(seed, prefix);
                let decoder = Decoder { prefix: prefix.into(), ..shape.decoder() };
                let mkdir = Op::Mkdir(prefix.into(), 0o755);
                apply_both(volume, &mut files, &mut model, &mkdir, false).expect("a subtree is made");
                for step in 0..amount(3_000, 100_000) {
                    let op = decoder.random(&mut random);
                    apply_both(volume, &mut files, &mut model, &op, false)
                        .unwrap_or_else(|what| panic!("seed {seed}, {prefix}, step {step}: {what}"));
                }
                (prefix.to_string(), below(model.tree(), prefix))
            })
        });
        threads.map(|thread| thread.join().expect("no thread fails")).into()
    });
    let check = |volume: &Volume, when: &str| {
        let tree = walk(volume).unwrap_or_else(|broken| panic!("seed {seed}, {when}: {broken:?}"));
        for (prefix, want) in &finals {
            let lines = differences(&below(tree.clone(), prefix), want);
            assert!(lines.is_empty(), "seed {seed}, {when}:\n{}", lines.join("\n"));
        }
    };
    check(&volume, "at the end");
    volume.close().expect("a clean close");
    expect_sound(&shared);
    check(&shape.open(&shared), "after a restart");
}

/// A record of one append: who, the how-manieth, and a check of both.
const RECORD_BYTES: usize = 24;

fn record(who: u64, number: u64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&who.to_le_bytes());
    record[8..16].copy_from_slice(&number.to_le_bytes());
    record[16..].copy_from_slice(&(who.wrapping_mul(31) ^ number ^ 0x5eed_5eed).to_le_bytes());
    record
}

#[test]
fn appends_of_several_threads_stay_whole() {
    let (threads, each) = (3, amount(2_000, 50_000));
    let mut shape = roomy();
    shape.region_bytes = threads * each * RECORD_BYTES as u64 * 4 + (1 << 20);
    shape.create.max_bytes = None;
    let (shared, volume, _) = shape.start();
    let file = volume.create_file(ROOT, b"log", &Meta::file(0o644)).expect("a file is created");
    std::thread::scope(|scope| {
        for who in 0..threads {
            let file = file.clone();
            scope.spawn(move || {
                for number in 0..each {
                    let (_, end) = file.append(&record(who, number)).expect("an append");
                    let at = end - RECORD_BYTES as u64;
                    let mut back = [0; RECORD_BYTES];
                    file.read_at(&mut back, at).expect("a read");
                    assert_eq!(back, record(who, number), "thread {who}: not where append said, {at}");
                }
            });
        }
    });
    let view = file.view().expect("a view").to_vec();
    assert_eq!(view.len(), (threads * each) as usize * RECORD_BYTES);
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for found in view.chunks(RECORD_BYTES) {
        let who = u64::from_le_bytes(found[..8].try_into().expect("8 bytes"));
        let number = next.entry(who).or_default();
        assert_eq!(found, record(who, *number), "thread {who} lost the order of its records");
        *number += 1;
    }
    assert!(next.values().all(|count| *count == each), "{next:?}");
    drop(file);
    volume.close().expect("a clean close");
    expect_sound(&shared);
}

#[test]
fn a_name_is_made_and_removed_once() {
    // Each success is counted: for each name, makings minus removals is 1 if it exists, else 0.
    const NAMES: u64 = 5;
    let (seed, shape) = (seed(2), roomy());
    let (shared, volume, _) = shape.start();
    let counts: Vec<(AtomicU64, AtomicU64)> = (0..NAMES).map(|_| Default::default()).collect();
    let one = volume.create_file(ROOT, b"one", &Meta::file(0o644)).expect("a file is created").ino();
    std::thread::scope(|scope| {
        for who in 0..3u64 {
            let (volume, counts) = (&volume, &counts);
            scope.spawn(move || {
                let mut random = Random::labelled(seed.wrapping_add(who), "names");
                for _ in 0..amount(3_000, 100_000) {
                    let index = random.below(NAMES);
                    let name = format!("n{index}");
                    let (made, removed) = &counts[index as usize];
                    let (result, counter) = match random.below(4) {
                        0 => (volume.create_file(ROOT, name.as_bytes(), &Meta::file(0o600)).map(drop), made),
                        1 => (volume.link(one, ROOT, name.as_bytes()).map(drop), made),
                        _ => (volume.unlink(ROOT, name.as_bytes()), removed),
                    };
                    match result {
                        Ok(()) => drop(counter.fetch_add(1, Ordering::Relaxed)),
                        Err(Error::Exists | Error::NotFound) => {}
                        Err(error) => panic!("seed {seed}, {name}: {error}"),
                    }
                }
            });
        }
    });
    // The walk also compares every link count with the number of names.
    let tree = walk(&volume).unwrap_or_else(|broken| panic!("seed {seed}: {broken:?}"));
    for (index, (made, removed)) in counts.iter().enumerate() {
        let exists = u64::from(tree.contains_key(&format!("/n{index}")));
        let (made, removed) = (made.load(Ordering::Relaxed), removed.load(Ordering::Relaxed));
        assert!(made > 0, "seed {seed}: n{index} was never made");
        assert_eq!(made - removed, exists, "seed {seed}: n{index}");
    }
    volume.close().expect("a clean close");
    expect_sound(&shared);
}

#[test]
fn directories_that_move_stay_a_tree() {
    // Threads move directories into one another; a loop would cut them off from the root.
    const DIRECTORIES: usize = 6;
    let (seed, shape) = (seed(3), roomy());
    let (shared, volume, _) = shape.start();
    let inos: Vec<u32> = (0..DIRECTORIES)
        .map(|i| {
            let name = format!("d{i}");
            volume.create_directory(ROOT, name.as_bytes(), &Meta::directory(0o755)).expect("a directory").ino
        })
        .collect();
    std::thread::scope(|scope| {
        for who in 0..3u64 {
            let (volume, inos) = (&volume, &inos);
            scope.spawn(move || {
                let mut random = Random::labelled(seed.wrapping_add(who), "moves");
                let mut place = || match random.below(DIRECTORIES as u64 + 1) as usize {
                    DIRECTORIES => ROOT,
                    index => inos[index],
                };
                for round in 0..amount(5_000, 200_000) {
                    let (from, to) = (place(), place());
                    let name = format!("d{}", (round + who) % DIRECTORIES as u64);
                    match volume.rename(from, name.as_bytes(), to, name.as_bytes(), Rename::NoReplace) {
                        Ok(()) | Err(Error::NotFound | Error::Invalid | Error::Exists | Error::NotEmpty) => {}
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
            });
        }
    });
    let tree = walk(&volume).unwrap_or_else(|broken| panic!("seed {seed}: {broken:?}"));
    assert_eq!(tree.len(), DIRECTORIES + 1, "seed {seed}: {:?}", tree.keys());
    volume.close().expect("a clean close");
    expect_sound(&shared);
}

#[test]
fn a_view_is_of_one_moment() {
    // One thread writes the file full of one value after another, shrinks and lengthens it; the other looks.
    let shape = roomy();
    let (shared, volume, _) = shape.start();
    let file = volume.create_file(ROOT, b"f", &Meta::file(0o644)).expect("a file is created");
    let (done, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let view = file.view().expect("a view");
                let (first, sum) =
                    (view.first().copied().unwrap_or(0), view.iter().map(|b| u64::from(*b)).sum::<u64>());
                // A longer file from the round before may follow what a shorter write left.
                let values = view.iter().collect::<std::collections::BTreeSet<_>>().len();
                assert!(values <= 2, "a view of {values} rounds at once");
                // The same again: nothing may change under a view.
                assert_eq!(view.iter().map(|b| u64::from(*b)).sum::<u64>(), sum, "changed under a view ({first})");
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
        let rounds = amount(2_000, 50_000);
        // On a busy machine the other thread may come late: it gets its look.
        let late = || seen.load(Ordering::Relaxed) == 0 && !looks.is_finished();
        for round in (0..).take_while(|round| *round < rounds || late()) {
            let bytes = [100, 900, 1500, 5000][round as usize % 4];
            file.write_at(&vec![round as u8; bytes], 0).expect("a write");
            file.truncate(bytes as u64 / 2).expect("a truncation");
        }
        done.store(true, Ordering::Release);
    });
    assert!(seen.into_inner() > 0, "nobody looked");
    drop(file);
    volume.close().expect("a clean close");
    expect_sound(&shared);
}

#[test]
fn models_do_not_share() {
    // The comparison of subtrees relies on it: a clone of a model is a model of its own.
    let mut one = Model::new(roomy().has(), 0o755, 0, 0);
    let other = one.clone();
    one.apply(&Op::Mkdir("/d".into(), 0o700));
    assert_eq!((one.tree().len(), other.tree().len()), (2, 1));
}

#[test]
fn a_name_that_is_now_a_file_and_now_a_directory_is_never_damage() {
    // The one inode that is left serves both by turns: who looks up may see an entry of one and the other inode.
    let mut shape = Shape::tiny(256 << 10);
    shape.create.inodes = Some(2);
    let (_, volume, _) = shape.start();
    let rounds = amount(200_000, 2_000_000);
    let (done, found) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                match volume.lookup(ROOT, b"a") {
                    Ok(_) => _ = found.fetch_add(1, Ordering::Relaxed),
                    Err(Error::NotFound) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        // On a busy machine the other thread may come late: it gets its look.
        let late = || found.load(Ordering::Relaxed) == 0 && !looks.is_finished();
        for _ in (0..).take_while(|round| *round < rounds || late()) {
            drop(volume.create_file(ROOT, b"a", &Meta::file(0o644)).expect("room for one"));
            volume.unlink(ROOT, b"a").expect("it is there");
            volume.create_directory(ROOT, b"a", &Meta::directory(0o755)).expect("room for one");
            volume.remove_directory(ROOT, b"a").expect("it is there");
        }
        done.store(true, Ordering::Relaxed);
        looks.join().expect("no panic");
    });
    assert!(found.into_inner() > 0, "nothing was ever found");
}

#[test]
fn what_is_removed_while_it_is_made_leaves_nothing() {
    let shape = roomy();
    let (shared, volume, _) = shape.start();
    let used = volume.usage().inodes_used;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // Now and then whoever makes it has not let go of it yet.
                let _ = volume.unlink(ROOT, b"link");
                let _ = volume.remove_directory(ROOT, b"folder");
            }
        });
        let make = |made: &dyn Fn() -> Result<Attr, Error>| loop {
            match made() {
                Ok(_) => break,
                Err(Error::Exists) => std::thread::yield_now(),
                Err(error) => {
                    done.store(true, Ordering::Relaxed);
                    panic!("{error}");
                }
            }
        };
        for _ in 0..amount(500, 100_000) {
            make(&|| volume.create_symlink(ROOT, b"link", b"x", 0, 0));
            make(&|| volume.create_directory(ROOT, b"folder", &Meta::directory(0o755)));
        }
        done.store(true, Ordering::Relaxed);
    });
    let _ = volume.unlink(ROOT, b"link");
    let _ = volume.remove_directory(ROOT, b"folder");
    assert_eq!(volume.usage().inodes_used, used, "inodes without a name are left");
    volume.close().expect("a clean close");
    expect_sound(&shared);
}

/// Runs two loops at once; neither may be kept waiting by the other for ever.
#[track_caller]
fn both_end(one: impl Fn(&Volume) + Send + 'static, two: impl Fn(&Volume) + Send + 'static, volume: &Arc<Volume>) {
    let (ended, ends) = std::sync::mpsc::channel();
    let start = |run: Box<dyn Fn(&Volume) + Send>| {
        let (volume, ended) = (volume.clone(), ended.clone());
        std::thread::spawn(move || {
            (0..20_000).for_each(|_| run(&volume));
            ended.send(())
        })
    };
    // Not joined: one that waits for ever would keep the test from failing.
    let _threads = [start(Box::new(one)), start(Box::new(two))];
    for _ in 0..2 {
        ends.recv_timeout(std::time::Duration::from_secs(300)).expect("nobody waits for ever");
    }
}

#[test]
fn looking_up_the_parent_waits_for_nobody_who_waits_for_it() {
    let (_shared, volume, _) = roomy().start();
    let volume = Arc::new(volume);
    let directory = volume.create_directory(ROOT, b"d", &Meta::directory(0o755)).expect("a directory").ino;
    let above = move |volume: &Volume| assert_eq!(volume.lookup(directory, b"..").expect("the root").ino, ROOT);
    let of_root = |volume: &Volume| assert_eq!(volume.lookup(ROOT, b"..").expect("the root").ino, ROOT);
    let rename = |volume: &Volume| {
        volume.rename(ROOT, b"d", ROOT, b"e", Rename::Replace).expect("it is there");
        volume.rename(ROOT, b"e", ROOT, b"d", Rename::Replace).expect("it is there");
    };
    let make = |volume: &Volume| {
        drop(volume.create_file(ROOT, b"f", &Meta::file(0o644)).expect("new"));
        volume.unlink(ROOT, b"f").expect("it is there");
    };
    both_end(above, rename, &volume);
    both_end(of_root, make, &volume);
}

#[test]
fn a_file_that_changes_places_with_a_directory_can_be_linked_into_it() {
    let (_shared, volume, _) = roomy().start();
    let volume = Arc::new(volume);
    let file = volume.create_file(ROOT, b"a", &Meta::file(0o644)).expect("new").ino();
    let directory = volume.create_directory(ROOT, b"b", &Meta::directory(0o755)).expect("a directory").ino;
    assert!(file < directory);
    let exchange = |volume: &Volume| volume.rename(ROOT, b"a", ROOT, b"b", Rename::Exchange).expect("both are there");
    let link = move |volume: &Volume| {
        volume.link(file, directory, b"h").expect("a link");
        volume.unlink(directory, b"h").expect("it is there");
    };
    both_end(exchange, link, &volume);
}

/// Space beyond the end of an empty file comes along to huge pages.
#[test]
fn what_was_reserved_beyond_the_end_stays_when_a_file_moves() {
    let (_shared, volume, _) = roomy().start();
    let file = volume.create_file(ROOT, b"f", &Meta::file(0o644)).expect("new");
    let page = u64::from(volume.statfs().expect("its space").block_bytes);
    file.allocate(Allocate::KeepSize, 2 * page, 2 * page).expect("space");
    file.write_at(&[1], 4 << 20).expect("space");
    let fill = volume.create_file(ROOT, b"fill", &Meta::file(0o644)).expect("new");
    let (mut at, mut part) = (0, 1 << 20);
    while part >= page {
        match fill.write_at(&vec![2; part as usize], at) {
            Ok(_) => at += part,
            Err(Error::NoSpace) => part /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    file.write_at(&vec![3; 2 * page as usize], 2 * page).expect("it was reserved");
}
