//! Volumes that are full, in every way that they can be: removing things always works, and then everything
//! can be used again.

use crate::support::shape::{Shape, expect_sound};
use crate::support::{amount, say, space_from_start};
use pocketstone_scmfs::{
    Allocate, Dump, Error, File, Ino, Meta, Operations, ROOT, Result, SetXattr, Threshold, Volume, dump,
};

/// How to fill a directory: one step, and whether it was done; `NoSpace` ends it.
type Step = fn(&Volume, Ino, u64) -> Result<()>;

fn name(step: u64) -> Vec<u8> {
    format!("n{step}").into_bytes()
}

fn create(volume: &Volume, home: Ino, step: u64) -> Result<File> {
    volume.create_file(home, &name(step), &Meta::file(0o644))
}

/// The file of an earlier step, or a new one.
fn same(volume: &Volume, home: Ino, which: u64) -> Result<File> {
    match volume.lookup(home, &name(which)) {
        Ok(attr) => volume.open(attr.ino),
        Err(Error::NotFound) => create(volume, home, which),
        Err(error) => Err(error),
    }
}

fn bytes(volume: &Volume, home: Ino, _: u64) -> Result<()> {
    same(volume, home, 0)?.append(&[7; 3000]).map(drop)
}

fn small_files(volume: &Volume, home: Ino, step: u64) -> Result<()> {
    create(volume, home, step)?.write_at(&[8; 700], 0).map(drop)
}

fn mixed(volume: &Volume, home: Ino, step: u64) -> Result<()> {
    same(volume, home, step % 7)?.append(&vec![9; 100 << (step % 6)]).map(drop)
}

fn sparse(volume: &Volume, home: Ino, step: u64) -> Result<()> {
    same(volume, home, 0)?.write_at(b"x", step * 5000).map(drop)
}

fn reserved(volume: &Volume, home: Ino, step: u64) -> Result<()> {
    create(volume, home, step)?.allocate(Allocate::KeepSize, 0, 1 + step % 5 * 900)
}

fn inodes(volume: &Volume, home: Ino, step: u64) -> Result<()> {
    create(volume, home, step).map(drop)
}

fn directories(volume: &Volume, home: Ino, step: u64) -> Result<()> {
    volume.create_directory(home, &name(step), &Meta::directory(0o755)).map(drop)
}

fn links(volume: &Volume, home: Ino, step: u64) -> Result<()> {
    let ino = same(volume, home, 0)?.ino();
    volume.link(ino, home, format!("{step:0>250}").as_bytes()).map(drop)
}

fn symlinks(volume: &Volume, home: Ino, step: u64) -> Result<()> {
    volume.create_symlink(home, &name(step), &[b't'; 900], 0, 0).map(drop)
}

fn attributes(volume: &Volume, home: Ino, step: u64) -> Result<()> {
    let ino = same(volume, home, step / 8)?.ino();
    volume.set_xattr(ino, format!("user.{}", step % 8).as_bytes(), &[3; 200], SetXattr::Any)
}

/// The ways, and how many inodes make sure that it is the space, or the inodes, that end first.
const WAYS: [(&str, Step, u32); 11] = [
    ("bytes", bytes, 64),
    ("small files", small_files, 4096),
    ("mixed sizes", mixed, 64),
    ("sparse", sparse, 64),
    ("reserved", reserved, 4096),
    ("inodes", inodes, 64),
    ("directories", directories, 4096),
    ("directory growth", links, 64),
    ("symbolic links", symlinks, 4096),
    ("attributes", attributes, 4096),
    ("few inodes and pages", small_files, 64),
];

fn fill(volume: &Volume, home: Ino, step: Step) -> u64 {
    for i in 0..1_000_000 {
        match step(volume, home, i) {
            Ok(()) => {}
            Err(Error::NoSpace) => return i,
            Err(error) => panic!("after {i} steps: {error}"),
        }
    }
    panic!("a volume that is never full");
}

fn names(volume: &Volume, directory: Ino) -> Vec<pocketstone_scmfs::Entry> {
    pocketstone_fstest::list(volume, directory).expect("a full volume can be listed")
}

/// Everything that makes things smaller must work on a full volume, and removes what is in a directory.
fn empty(volume: &Volume, home: Ino) {
    for (i, entry) in names(volume, home).into_iter().enumerate() {
        let what = String::from_utf8_lossy(&entry.name).into_owned();
        let done = match entry.kind {
            pocketstone_scmfs::FileType::Directory => volume.remove_directory(home, &entry.name),
            pocketstone_scmfs::FileType::Regular => {
                let file = volume.open(entry.ino).expect("a file opens");
                let size = file.attributes().size;
                match i % 4 {
                    0 if size > 0 => file.allocate(Allocate::PunchHole, 0, size).expect("a hole is punched"),
                    1 => file.truncate(size / 2).expect("a file is cut"),
                    2 => file.truncate(0).expect("a file is cut to nothing"),
                    _ => {}
                }
                for attribute in volume.list_xattrs(entry.ino).expect("attributes can be listed") {
                    volume.remove_xattr(entry.ino, &attribute).expect("an attribute is removed");
                }
                volume.unlink(home, &entry.name)
            }
            _ => volume.unlink(home, &entry.name),
        };
        done.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

fn home(volume: &Volume, who: usize) -> Ino {
    volume.create_directory(ROOT, format!("d{who}").as_bytes(), &Meta::directory(0o755)).expect("a directory").ino
}

fn shape(inodes: u32) -> Shape {
    let mut shape = Shape::tiny(amount(2048, 16384).max(2048) << 10);
    shape.create.inodes = Some(inodes);
    shape
}

fn free(volume: &Volume) -> (u64, u64) {
    (volume.statfs().unwrap().free_blocks, volume.statfs().unwrap().free_inodes)
}

/// Fills and empties a volume three times, with so many threads at once.
fn fill_and_empty(what: &str, shape: &Shape, step: Step, threads: usize) {
    let (shared, volume, _) = shape.start();
    // The root keeps the page that its first name takes.
    let remove = |who: usize| {
        let removed = volume.remove_directory(ROOT, format!("d{who}").as_bytes());
        removed.unwrap_or_else(|error| panic!("{what}, d{who}: {error}"));
    };
    home(&volume, 0);
    remove(0);
    let fresh = free(&volume);
    let (mut counts, mut left) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let homes: Vec<Ino> = (0..threads).map(|who| home(&volume, who)).collect();
        let start = std::sync::Barrier::new(threads);
        let round = |home: Ino| {
            start.wait();
            fill(&volume, home, step)
        };
        let count: u64 = if threads == 1 {
            round(homes[0])
        } else {
            std::thread::scope(|scope| {
                let all: Vec<_> = homes.iter().map(|home| scope.spawn(|| round(*home))).collect();
                all.into_iter().map(|thread| thread.join().expect("no thread fails")).sum()
            })
        };
        assert!(count > 3, "{what}: full at once, after {count} steps");
        let statfs = volume.statfs().unwrap();
        left.push(statfs.free_blocks * 100 / statfs.blocks);
        counts.push(count);
        std::thread::scope(|scope| homes.iter().for_each(|home| drop(scope.spawn(|| empty(&volume, *home)))));
        (0..threads).for_each(remove);
        assert_eq!(free(&volume), fresh, "{what}: not all is free again (blocks, inodes)");
    }
    say(&format!("{what}, {threads} threads: {counts:?} steps until full, {left:?} % of the space left"));
    // As much fits the second and third time, but for where things happen to lie.
    assert!(counts.iter().all(|count| *count >= counts[0] * 3 / 4), "{what}: less and less fits: {counts:?}");
    volume.close().expect("a clean close");
    expect_sound(&shared);
    let volume = shape.open(&shared);
    assert_eq!(free(&volume), fresh, "{what}: at the next start");
    volume.abandon();
}

#[test]
fn one_thread() {
    for (what, step, inodes) in WAYS {
        fill_and_empty(what, &shape(inodes), step, 1);
    }
}

#[test]
fn two_threads() {
    for (what, step, inodes) in WAYS {
        fill_and_empty(what, &shape(inodes), step, 2);
    }
}

#[test]
fn null_files_and_a_collector_in_the_background() {
    for (what, step, inodes) in WAYS {
        let mut shape = shape(inodes).with_null_files(16);
        shape.open.background = true;
        for threads in [1, 2] {
            fill_and_empty(what, &shape, step, threads);
        }
    }
}

#[test]
fn a_small_zone_alone() {
    // Files never move to huge pages; the zone may take all of the volume, page by page.
    for small_bytes in [0, 4096, 400 << 10] {
        let mut shape = shape(4096);
        shape.create.threshold = Threshold::Never;
        shape.create.small_bytes = Some(small_bytes);
        for (what, step) in [("bytes", bytes as Step), ("small files", small_files), ("mixed sizes", mixed)] {
            fill_and_empty(&format!("{what}, zone of {small_bytes}"), &shape, step, 1);
        }
    }
}

#[test]
fn what_is_refused_leaves_every_byte_and_the_size_as_they_were() {
    let (shared, volume, _) = Shape::tiny(128 << 10).start();
    // Huge pages of 2048 bytes: the file has three of the first six, with a hole before the last.
    let file = create(&volume, ROOT, 0).expect("space");
    file.write_at(&[5; 3000], 0).expect("space");
    file.write_at(&[6; 2000], 10_240).expect("space");
    let mut expected = vec![0; 12_240];
    expected[..3000].fill(5);
    expected[10_240..].fill(6);
    let other = home(&volume, 0);
    fill(&volume, other, bytes);
    fill(&volume, other, |volume, home, _| same(volume, home, 0)?.append(&[7; 256]).map(drop));
    let refused: [(&str, &dyn Fn() -> Result<()>); 8] = [
        ("zeroes", &|| file.allocate(Allocate::Zero, 100, 12_000)),
        ("zeroes beyond the end", &|| file.allocate(Allocate::Zero, 2000, 30_000)),
        ("zeroes, size kept", &|| file.allocate(Allocate::ZeroKeepSize, 2500, 30_000)),
        ("space", &|| file.allocate(Allocate::Extend, 100, 30_000)),
        ("space, size kept", &|| file.allocate(Allocate::KeepSize, 100, 12_000)),
        ("a write", &|| file.write_at(&[9; 12_000], 100).map(drop)),
        ("an atomic write", &|| file.write_atomic(&[9; 1500], 3000)),
        ("an append", &|| file.append(&[9; 9000]).map(drop)),
    ];
    let expect = |expected: &[u8], what: &str| {
        let mut found = vec![0xEE; expected.len() + 1];
        let bytes = file.read_at(&mut found, 0).expect("a read");
        assert!(found[..bytes] == *expected, "{what}: {bytes} bytes, other contents");
    };
    for (what, step) in refused {
        let done = step();
        assert!(matches!(done, Err(Error::NoSpace)), "{what}: {done:?}");
        expect(&expected, what);
        assert_eq!(space_from_start(&file), 4096, "{what}");
    }
    // What needs no space is not refused.
    file.allocate(Allocate::PunchHole, 1000, 500).expect("a hole");
    file.allocate(Allocate::Zero, 2000, 500).expect("zeros where there is space");
    file.truncate(50_000).expect("a longer file");
    expected.resize(50_000, 0);
    expected[1000..1500].fill(0);
    expected[2000..2500].fill(0);
    expect(&expected, "a hole, zeros, a longer file");
    drop(file);
    volume.close().expect("a clean close");
    expect_sound(&shared);
}

#[test]
fn space_that_cannot_be_there_is_refused_before_anything_is_rearranged_for_it() {
    let mut shape = Shape::tiny(512 << 10);
    shape.create.small_bytes = Some(64 << 10);
    let (shared, volume, _) = shape.start();
    let file = create(&volume, ROOT, 0).expect("space");
    file.write_at(&[5; 3000], 0).expect("space");
    let mapping = || dump(shared.region(), &Dump::Mapping).expect("a table");
    let before = mapping();
    for how in [Allocate::Extend, Allocate::KeepSize] {
        assert!(matches!(file.allocate(how, 0, 600 << 10), Err(Error::NoSpace)));
        assert_eq!(mapping(), before);
    }
    // All that there is can still be had.
    let bytes = volume.statfs().unwrap().free_blocks * 256;
    file.allocate(Allocate::KeepSize, 0, bytes - (4 << 10)).expect("space");
    drop(file);
    volume.close().expect("a clean close");
    expect_sound(&shared);
}

#[test]
fn files_go_into_the_pieces_of_a_volume_that_was_full_without_a_look_at_all_others() {
    let (shared, volume, _) = shape(4096).start();
    let count = fill(&volume, ROOT, |volume, home, step| create(volume, home, step)?.write_at(&[8; 200], 0).map(drop));
    for step in (0..count).step_by(2) {
        volume.unlink(ROOT, &name(step)).expect("a full volume gets emptier");
    }
    let before = volume.usage().collections;
    let content: Vec<u8> = (0..=255).cycle().take(500).collect();
    for step in 0..50 {
        let file = create(&volume, ROOT, count + 1 + step).expect("space");
        file.write_at(&content, 0).expect("space, in pieces");
        let mut found = [0; 501];
        assert_eq!(file.read_at(&mut found, 0).expect("a read"), 500);
        assert!(found[..500] == content);
    }
    let usage = volume.usage();
    assert_eq!(usage.collections, before);
    assert!(usage.listed_files >= 25, "{usage:?}");
    volume.close().expect("a clean close");
    expect_sound(&shared);
}
