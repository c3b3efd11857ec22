//! All free space is one: what `statfs` calls available can be had, in one file or in many, however the free
//! space lies.

use crate::support::churn::Churn;
use crate::support::region::Shared;
use crate::support::shape::{Shape, expect_sound};
use crate::support::{say, seed};
use pocketstone_media::{Mapped, Region};
use pocketstone_scmfs::{Allocate, CreateOptions, File, Meta, OpenOptions, Operations, ROOT, Usage, Volume, check};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn pieces(usage: &Usage) -> String {
    let Usage { small_free_runs, small_free_bytes, small_longest_run_bytes, listed_files, .. } = usage;
    format!(
        "{small_free_bytes} bytes free in {small_free_runs} pieces, {small_longest_run_bytes} in the longest, \
         {listed_files} lists"
    )
}

fn available_bytes(volume: &Volume) -> u64 {
    let statfs = volume.statfs().unwrap();
    statfs.available_blocks * u64::from(statfs.block_bytes)
}

/// Appends all that is said to be available, and reads it back; the slowest write.
fn fill_one(volume: &Volume, file: &File, step: u64, what: &str) -> (u64, Duration) {
    let (total, mut slowest) = (available_bytes(volume), Duration::ZERO);
    let mut written = 0;
    while written < total {
        let bytes: Vec<u8> = (written..total.min(written + step)).map(|at| (at % 251) as u8).collect();
        let start = Instant::now();
        let done = file.append(&bytes);
        slowest = slowest.max(start.elapsed());
        done.unwrap_or_else(|error| panic!("{what}: {error} after {written} of {total} bytes in one file"));
        written += bytes.len() as u64;
    }
    let mut buffer = vec![0; step as usize];
    for from in (0..total).step_by(step as usize) {
        let got = file.read_at(&mut buffer, from).expect("a read") as u64;
        assert_eq!(got, step.min(total - from));
        assert!((from..from + got).all(|at| buffer[(at - from) as usize] == (at % 251) as u8), "{what}: at {from}");
    }
    (total, slowest)
}

/// The same in files of one small page; the slowest of them, from its creation to its last byte.
fn fill_many(volume: &Volume, what: &str) -> (u64, Duration) {
    let many = volume.create_directory(ROOT, b"many", &Meta::directory(0o755)).expect("a directory").ino;
    let (files, page) = (volume.statfs().unwrap().available_blocks, volume.statfs().unwrap().block_bytes as usize);
    let mut slowest = Duration::ZERO;
    for i in 0..files {
        let start = Instant::now();
        let file = volume.create_file(many, format!("f{i}").as_bytes(), &Meta::file(0o644));
        let done = file.and_then(|file| file.write_at(&vec![1 + (i % 250) as u8; page], 0));
        slowest = slowest.max(start.elapsed());
        done.unwrap_or_else(|error| panic!("{what}: {error} after {i} of {files} files"));
    }
    let mut buffer = vec![0; page + 1];
    for i in 0..files {
        let ino = volume.lookup(many, format!("f{i}").as_bytes()).expect("the file is there").ino;
        let got = volume.open(ino).and_then(|file| file.read_at(&mut buffer, 0)).expect("a read");
        assert!(got == page && buffer[..page].iter().all(|byte| *byte == 1 + (i % 250) as u8), "{what}: file {i}");
        volume.unlink(many, format!("f{i}").as_bytes()).expect("a file is removed");
    }
    volume.remove_directory(ROOT, b"many").expect("a directory is removed");
    (files, slowest)
}

/// Churns a volume at 99 % full, then takes all that is available, in one file and in many; the bytes of the one.
fn take_all(
    region: &dyn Fn() -> Box<dyn Region>,
    create: &CreateOptions,
    sizes: (u64, u64),
    seed: u64,
    turns: u64,
) -> u64 {
    Volume::create(region(), create).expect("a volume");
    let options = OpenOptions::default();
    let volume = Volume::open(region(), &options).expect("the volume opens");
    let (bytes, what) = (volume.usage().volume_bytes, format!("seed {seed}"));
    let mut churn = Churn::new(&volume, sizes, seed);
    churn.full_percent = 99;
    // As full as that, and not more: the last step may have been one too many.
    let some = |volume: &Volume| volume.statfs().unwrap().free_blocks * 300 >= volume.statfs().unwrap().blocks;
    while churn.written < turns * bytes || !churn.is_full(&volume) || !some(&volume) {
        churn.step(&volume);
    }
    let before = volume.usage();
    if volume.statfs().unwrap().available_blocks == 0 {
        say(&format!("{what}: nothing is available; {}", pieces(&before)));
        volume.close().expect("a clean close");
        return 0;
    }
    let file = volume.create_file(ROOT, b"one", &Meta::file(0o644)).expect("a file");
    let (one, slowest_one) = fill_one(&volume, &file, 1 << 20, &what);
    drop(file);
    volume.unlink(ROOT, b"one").expect("the file is removed");
    let (many, slowest_many) = fill_many(&volume, &what);
    churn.read_all(&volume);
    say(&format!(
        "{what}, 99 % of {bytes}: {one} bytes in one file (slowest write {slowest_one:?}), {many} files (slowest \
         {slowest_many:?}); before: {}; after: {}",
        pieces(&before),
        pieces(&volume.usage())
    ));
    volume.close().expect("a clean close");
    let report = check(region()).expect("fsck reads the volume");
    assert!(report.findings.is_empty(), "{what}: {report:#?}");
    one
}

#[test]
fn what_is_available_can_be_had_on_small_volumes() {
    let mut taken = 0;
    for seed in (0..10).map(|i| seed(1) + i) {
        let shape = Shape::tiny(1 << 20);
        let shared = Shared::new(shape.region_bytes);
        taken += take_all(&|| shared.region(), &shape.create, (256, 16 << 10), seed, 3);
    }
    assert!(taken > 10 * 1024, "hardly anything was available: {taken} bytes in ten volumes");
}

fn take_all_of_default(mib: u64, seeds: u64, turns: u64) {
    for seed in (0..seeds).map(|i| seed(2) + i) {
        let home = tempfile::tempdir().expect("a directory for the volume");
        let path = home.path().join("volume");
        drop(Mapped::create(&path, mib * MIB, &Default::default()).expect("a region"));
        let map = || -> Box<dyn Region> { Box::new(Mapped::open(&path, &Default::default()).expect("it opens")) };
        let create = CreateOptions::default().zeroed(true);
        let taken = take_all(&map, &create, (4096, 8 * MIB), seed, turns);
        assert!(taken > mib * MIB / 400, "only {taken} bytes of {mib} MiB were available");
    }
}

#[test]
#[ignore = "long: ten volumes of 1 GiB, churned four times their size"]
fn torture_what_is_available_can_be_had_on_a_large_volume() {
    take_all_of_default(1024, 10, 4);
}

#[test]
fn what_is_available_can_be_had_with_default_pages() {
    take_all_of_default(64, 1, 2);
}

/// A new volume with default pages, and where it is.
fn with_default_pages(mib: u64) -> (tempfile::TempDir, Volume) {
    let home = tempfile::tempdir().expect("a directory for the volume");
    let path = home.path().join("volume");
    let region = Mapped::create(&path, mib * MIB, &Default::default()).expect("a region");
    Volume::create(Box::new(region), &CreateOptions::default().zeroed(true)).expect("a volume");
    let region = Mapped::open(&path, &Default::default()).expect("the region opens");
    (home, Volume::open(Box::new(region), &OpenOptions::default()).expect("the volume opens"))
}

/// A new volume's data area and what one file gets of it, in percent.
fn fresh(mib: u64) -> u64 {
    let (_home, volume) = with_default_pages(mib);
    let file = volume.create_file(ROOT, b"one", &Meta::file(0o644)).expect("a file");
    let data = volume.statfs().unwrap().blocks * u64::from(volume.statfs().unwrap().block_bytes);
    let available = available_bytes(&volume);
    let buffer = vec![7; MIB as usize];
    for step in [MIB as usize, 4096] {
        while file.append(&buffer[..step]).is_ok() {}
    }
    let bytes = file.attributes().size;
    say(&format!("{mib} MiB: {bytes} of {data} bytes in one file; {available} were said to be available"));
    assert!(bytes >= available);
    bytes * 100 / data
}

#[test]
fn one_file_gets_a_new_volume() {
    assert!(fresh(64) >= 98);
}

#[test]
#[ignore = "long: a file of 1 GiB"]
fn torture_one_file_gets_a_new_volume() {
    assert!(fresh(1024) >= 98);
}

/// Where the file has data, as SEEK_DATA and SEEK_HOLE say.
fn data(file: &File) -> Vec<(u64, u64)> {
    let (mut at, mut parts) = (0, Vec::new());
    while let Ok(from) = file.next_data(at) {
        at = file.next_hole(from).expect("an end");
        parts.push((from, at));
    }
    parts
}

#[test]
fn reserved_space_and_the_rest_of_a_huge_page_are_holes() {
    // Pages of 256 and 2048 bytes, threshold 1024.
    let (_, volume, _) = Shape::roomy().start();
    let file = volume.create_file(ROOT, b"file", &Meta::file(0o644)).expect("a file");
    file.allocate(Allocate::Extend, 0, 10_000).expect("space");
    assert_eq!((file.attributes().allocated, data(&file)), (10_240, vec![]));
    file.write_at(b"one", 2045).expect("a write");
    file.write_at(b"x", 5000).expect("a write");
    assert_eq!(data(&file), [(1792, 2048), (4864, 5120)]);
    // From inside of a page: it is data there, or the next one is looked for.
    assert_eq!(
        (file.next_data(1900).ok(), file.next_data(2048).ok(), file.next_hole(5000).ok()),
        (Some(1900), Some(4864), Some(5120))
    );
    file.write_at(b"z", 9999).expect("a write");
    assert_eq!(
        (file.next_hole(9990).ok(), file.next_data(10_000).ok(), file.next_hole(10_000).ok()),
        (Some(10_000), None, None)
    );
    file.write_at(&[0; 3], 2045).expect("zeros");
    assert_eq!(data(&file), [(4864, 5120), (9984, 10_000)]);
}

#[test]
fn a_search_from_inside_of_a_page_goes_on_by_whole_pages() {
    let (_home, volume) = with_default_pages(64);
    let file = volume.create_file(ROOT, b"file", &Meta::file(0o644)).expect("a file");
    file.truncate(20 * MIB).expect("a longer file");
    for end in [8 * MIB, 16 * MIB] {
        // However far a search goes at a time: a page that begins with data is data to its end.
        file.write_at(&vec![1; 8 * MIB as usize + 10], end - 8 * MIB).expect("a write");
        for from in [0, 10, 100, 4095] {
            assert_eq!(file.next_hole(end - 8 * MIB + from).ok(), Some(end + 4096), "from {from}");
        }
        // And one that ends with data is data from its start.
        file.write_at(&vec![0; 8 * MIB as usize + 10], end - 8 * MIB).expect("zeros");
        file.write_at(b"x", end + 4000).expect("a byte");
        for from in [0, 10, 100, 4095] {
            assert_eq!(file.next_data(end - 8 * MIB + from).ok(), Some(end), "from {from}");
        }
    }
}

#[test]
fn a_hole_gives_its_pages_back_wherever_they_are() {
    // Pages of 256 and 2048 bytes, threshold 1024.
    let (shared, volume, _) = Shape::roomy().start();
    let (small, large) = (b"small", b"large");
    let free = || volume.statfs().unwrap().free_blocks;
    let file = volume.create_file(ROOT, small, &Meta::file(0o644)).expect("a file");
    file.write_at(&[1; 1024], 0).expect("space");
    let before = free();
    file.allocate(Allocate::PunchHole, 200, 400).expect("a hole");
    // From 200 to 600 there is one whole page, that from 256 on; what is left needs a page for its list.
    assert_eq!(data(&file), [(0, 256), (512, 1024)]);
    assert_eq!((file.attributes().allocated, free()), (1024, before));
    file.allocate(Allocate::PunchHole, 512, 512).expect("a hole");
    assert_eq!((file.attributes().allocated, free(), data(&file)), (256, before + 3, vec![(0, 256)]));
    // Eight pages of a huge one: three go, four stay, and a list.
    let file = volume.create_file(ROOT, large, &Meta::file(0o644)).expect("a file");
    file.write_at(&[2; 4096], 0).expect("space");
    let before = free();
    file.allocate(Allocate::PunchHole, 2304, 768).expect("a hole");
    assert_eq!(data(&file), [(0, 2304), (3072, 4096)]);
    assert_eq!((file.attributes().allocated, free()), (4096 - 768 + 256, before + 2));
    let mut bytes = vec![9; 4096];
    file.read_at(&mut bytes, 0).expect("a read");
    assert!(bytes[..2304].iter().all(|b| *b == 2) && bytes[2304..3072].iter().all(|b| *b == 0));
    assert!(bytes[3072..].iter().all(|b| *b == 2));
    file.allocate(Allocate::Collapse, 2048, 512).expect("a range goes");
    assert_eq!((file.attributes().size, data(&file)), (3584, vec![(0, 2048), (2560, 3584)]));
    file.allocate(Allocate::Insert, 256, 256).expect("a range comes");
    assert_eq!((file.attributes().size, data(&file)), (3840, vec![(0, 256), (512, 2304), (2816, 3840)]));
    let extents = file.extents();
    assert_eq!(extents.iter().map(|e| (e.offset, e.bytes)).collect::<Vec<_>>(), [(0, 256), (512, 1792), (2816, 1024)]);
    drop(file);
    volume.close().expect("a clean close");
    expect_sound(&shared);
}

#[test]
fn inodes_come_from_free_space_and_go_back() {
    let mut shape = Shape::tiny(96 << 10);
    shape.create.inodes = Some(4);
    let (shared, volume, _) = shape.start();
    let home = volume.create_directory(ROOT, b"d", &Meta::directory(0o755)).expect("a directory").ino;
    let fresh = (volume.statfs().unwrap().free_blocks, volume.statfs().unwrap().free_inodes);
    let name = |i: u32| format!("n{i}").into_bytes();
    for i in 0..100 {
        drop(volume.create_file(home, &name(i), &Meta::file(0o644)).expect("an inode"));
        let statfs = volume.statfs().unwrap();
        // The root, the directory and the files; a huge page of 2048 bytes holds eight inodes.
        assert_eq!(statfs.inodes - statfs.free_inodes, u64::from(i) + 3);
    }
    volume.close().expect("a clean close");
    expect_sound(&shared);
    let volume = shape.open(&shared);
    volume.abandon();
    let volume = shape.open(&shared);
    (0..100).for_each(|i| volume.unlink(home, &name(i)).expect("a file is removed"));
    volume.remove_directory(ROOT, b"d").expect("the directory is removed");
    volume.create_directory(ROOT, b"d", &Meta::directory(0o755)).expect("a directory");
    assert_eq!((volume.statfs().unwrap().free_blocks, volume.statfs().unwrap().free_inodes), fresh);
    volume.collect();
    assert_eq!((volume.statfs().unwrap().free_blocks, volume.statfs().unwrap().free_inodes), fresh);
    volume.close().expect("a clean close");
    expect_sound(&shared);
}
