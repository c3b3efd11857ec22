//! Looking through a volume that is in use: all damage is found and named, and nothing else.

use crate::support::region::Shared;
use crate::support::shape::Shape;
use pocketstone_scmfs::{DamageOf, Meta, Operations, ROOT, ScrubReport, SetXattr, Volume, check};
use pocketstone_testing::wait::{LONG, poll};

const PAGE: u64 = 256;

fn shape() -> Shape {
    Shape::tiny(256 << 10).with_checksums()
}

fn file(volume: &Volume, parent: u32, name: &[u8], content: &[u8]) -> u32 {
    let meta = Meta::file(0o600);
    let file = volume.create_file(parent, name, &meta).expect("a file is made");
    file.write_at(content, 0).expect("a write");
    file.ino()
}

/// A closed volume of some files: `/one` of 1000 bytes, `/in/two` of 5000, and what has checksums of its own.
fn make(shape: &Shape) -> Shared {
    let shared = shape.make();
    let volume = shape.open(&shared);
    file(&volume, ROOT, b"one", &[b'1'; 1000]);
    let folder = volume.create_directory(ROOT, b"in", &Meta::directory(0o755)).expect("a folder").ino;
    file(&volume, folder, b"two", &[b'2'; 5000]);
    volume.create_symlink(ROOT, b"link", b"target-of-the-link", 0, 0).expect("a link");
    volume.set_xattr(folder, b"user.a", b"value-of-the-attribute", SetXattr::Any).expect("an attribute");
    volume.close().expect("it closes");
    shared
}

fn scrub(volume: &Volume) -> ScrubReport {
    volume.scrub(&mut |_| true)
}

/// A word of the superblock.
fn word(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes"))
}

/// The image with one byte changed, which is so far into the first place of the data area where `bytes` are found.
fn flipped(image: &[u8], bytes: &[u8], into: usize) -> Shared {
    let mut image = image.to_vec();
    let data_at = word(&image, 80) as usize;
    let data = &mut image[data_at..];
    let at = data.windows(bytes.len()).position(|window| window == bytes).expect("the bytes are there");
    data[at + into] ^= 4;
    Shared::from_image(&image)
}

#[test]
fn a_sound_volume_has_no_damage() {
    let shared = make(&shape());
    let volume = shape().open(&shared);
    let report = scrub(&volume);
    assert!(report.checksums && report.complete && report.damaged.is_empty(), "{report:?}");
    assert_eq!((report.files, report.directories, report.bytes), (2, 2, 6000));
    // 1000 bytes are 4 pages of 256, 5000 bytes are 20.
    assert_eq!((report.pages_verified, report.pages_unknown), (24, 0));
}

#[test]
fn damaged_contents_are_named_and_fsck_says_nothing_of_them() {
    let image = make(&shape()).image();
    for (content, path, size) in [(&[b'1'; 600], "/one", 1000), (&[b'2'; 600], "/in/two", 5000)] {
        // In the third page of the file.
        let shared = flipped(&image, content, 2 * PAGE as usize + 9);
        let report = check(shared.region()).expect("fsck reads it");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let volume = shape().open(&shared);
        let report = scrub(&volume);
        assert_eq!((report.damaged_places, report.complete), (1, true), "{report:?}");
        let damage = &report.damaged[0];
        assert_eq!((damage.of, damage.path.as_deref()), (DamageOf::Contents, Some(path)));
        assert_eq!((damage.offset, damage.bytes), (2 * PAGE, PAGE));
        assert_eq!(volume.attributes(damage.ino).expect("the inode").size, size);
    }
}

#[test]
fn damaged_pages_that_follow_each_other_are_one_place_up_to_the_files_end() {
    let shared = make(&shape());
    let mut image = shared.image();
    let start = image.windows(1000).position(|window| window == [b'1'; 1000]).expect("the file is in one piece");
    image[start + 700] = 0;
    image[start + 999] = 0;
    let volume = shape().open(&Shared::from_image(&image));
    let report = scrub(&volume);
    let found: Vec<_> = report.damaged.iter().map(|damage| (damage.offset, damage.bytes)).collect();
    assert_eq!(found, [(512, 488)]);
}

#[test]
fn damaged_metadata_is_found_with_and_without_checksums_of_contents() {
    for shape in [shape(), Shape::tiny(256 << 10)] {
        let image = make(&shape).image();
        for (bytes, path) in [
            (&b"target-of-the-link"[..], Some("/link")),
            (b"value-of-the-attribute", Some("/in")),
            // The name in its directory.
            (b"two", Some("/in")),
        ] {
            let volume = shape.open(&flipped(&image, bytes, 1));
            let report = scrub(&volume);
            assert_eq!(report.damaged_places, 1, "{bytes:?}: {report:?}");
            let damage = &report.damaged[0];
            assert_eq!((damage.of, damage.path.as_deref()), (DamageOf::Metadata, path), "{damage:?}");
        }
    }
}

#[test]
fn damage_behind_an_open_volume_is_found_in_both_copies() {
    let shape = shape();
    let shared = make(&shape);
    let volume = shape.open(&shared);
    assert!(scrub(&volume).damaged.is_empty());
    // The layout, from the superblock's words as the format has them: second superblock, mapping tables, inodes.
    let image = shared.image();
    let [inodes_at, mapping_at, data_at, mirror_at] = [56, 64, 80, 192].map(|at| word(&image, at));
    for at in [20, data_at - PAGE + 20, mapping_at + 17, mirror_at + 33, inodes_at + 8, inodes_at + 128 + 8] {
        let mut byte = [0];
        pocketstone_media::Region::read(&*shared.region(), at, &mut byte);
        shared.overwrite(at, &[byte[0] ^ 1]);
        let report = scrub(&volume);
        assert_eq!(report.damaged_places, 1, "byte {at}: {report:?}");
        assert_eq!(report.damaged[0].of, DamageOf::Metadata);
        shared.overwrite(at, &byte);
    }
    assert!(scrub(&volume).damaged.is_empty());
}

#[test]
fn pages_without_a_checksum_get_one() {
    let shape = shape();
    let shared = make(&shape);
    let mut image = shared.image();
    let checks_at = word(&image, 200) as usize;
    let pages = (256 << 10) / 256;
    image[checks_at..checks_at + 4 * pages].fill(0);
    let shared = Shared::from_image(&image);
    let mut reading = shape.open.clone();
    reading.read_only = true;
    let volume = Volume::open(shared.region(), &reading).expect("it opens");
    for _ in 0..2 {
        let report = scrub(&volume);
        assert_eq!((report.pages_verified, report.pages_unknown), (0, 24), "nothing is stored");
    }
    drop(volume);
    let volume = shape.open(&shared);
    assert_eq!(scrub(&volume).pages_unknown, 24);
    let report = scrub(&volume);
    assert_eq!((report.pages_verified, report.pages_unknown, report.damaged_places), (24, 0, 0));
    volume.close().expect("it closes");
    let volume = shape.open(&flipped(&shared.image(), &[b'1'; 600], 3));
    assert_eq!(scrub(&volume).damaged_places, 1);
}

#[test]
fn it_can_be_ended_and_runs_in_the_background() {
    let shape = shape();
    let volume = shape.open(&flipped(&make(&shape).image(), &[b'2'; 600], 3));
    let mut calls = 0;
    let report = volume.scrub(&mut |progress| {
        calls += 1;
        assert!(progress.inodes_done <= progress.inodes);
        calls < 2
    });
    assert!(!report.complete && calls == 2, "{calls}");
    assert_eq!(volume.scrub_state(), None);
    volume.start_scrub().expect("a thread");
    let ended = || volume.scrub_state().filter(|state| !state.running);
    let state = poll(LONG, ended).expect("one was started, and ends");
    let report = state.report.expect("it ended");
    assert_eq!((report.complete, report.damaged_places), (true, 1));
    // Another one, which the closing of the volume ends.
    volume.start_scrub().expect("a thread");
    volume.close().expect("it closes");
}

#[test]
fn files_change_while_it_runs() {
    let shape = Shape::roomy().with_checksums();
    let volume = shape.open(&shape.make());
    let inos: Vec<u32> = (0..6u8).map(|i| file(&volume, ROOT, &[b'a' + i], &[i; 3000])).collect();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..3000u64 {
                let file = volume.open(inos[round as usize % 6]).expect("a file");
                file.write_at(&[round as u8; 700], round * 13 % 5000).expect("a write");
                if round % 9 == 0 {
                    file.truncate(round % 3000).expect("a truncation");
                }
            }
        });
        while !writer.is_finished() {
            let report = scrub(&volume);
            assert!(report.damaged.is_empty(), "{report:?}");
        }
    });
}
