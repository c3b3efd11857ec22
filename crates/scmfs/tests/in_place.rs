//! Bytes that are given where they lie stay what they were, whatever becomes of the file and of the space around.

use crate::support::shape::{Shape, expect_sound};
use pocketstone_scmfs::{Allocate, Error, File, InPlace, Meta, Operations, ROOT, Threshold, Volume};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

fn shape() -> Shape {
    let mut shape = Shape::normal();
    shape.region_bytes = 24 * MIB;
    // Files move to huge pages when they grow beyond this.
    shape.create.threshold = Threshold::Bytes(512 << 10);
    shape
}

fn create(volume: &Volume, name: &str) -> File {
    volume.create_file(ROOT, name.as_bytes(), &Meta::file(0o600)).expect("a file")
}

/// A page that was given.
fn seen<'a>(reader: &InPlace, page: u64) -> &'a [u8] {
    let at = reader.take(page * PAGE, PAGE).expect("a page of the file");
    // SAFETY: valid for reads until it is given back, and nobody writes to it in place.
    unsafe { std::slice::from_raw_parts(at, PAGE as usize) }
}

/// Takes all space there is, in pages of 9s, by as many files as it takes; how many.
fn fill(volume: &Volume, name: &str) -> u64 {
    let mut pages = 0;
    for number in 0.. {
        let before = pages;
        let Ok(file) = volume.create_file(ROOT, format!("{name}{number}").as_bytes(), &Meta::file(0o600)) else {
            break;
        };
        loop {
            match file.append(&[9; PAGE as usize]) {
                Ok(_) => pages += 1,
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if pages == before {
            break;
        }
    }
    pages
}

/// What takes pages from a file.
type Loss = fn(&Volume, &File);

#[test]
fn bytes_in_place_are_given_to_nobody_else() {
    let losses: [(&str, u64, Loss); 6] = [
        ("truncated", 20, |_, file| file.truncate(0).expect("it is cut")),
        ("cut to a part", 20, |_, file| file.truncate(PAGE).expect("it is cut")),
        ("punched", 20, |_, file| file.allocate(Allocate::PunchHole, 0, 20 * PAGE).expect("holes")),
        ("unlinked", 20, |volume, _| volume.unlink(ROOT, b"a").expect("a name")),
        ("moved to huge pages", 20, |_, file| file.write_at(&[1; PAGE as usize], 200 * PAGE).map(drop).expect("space")),
        ("of a huge page", 600, |_, file| file.truncate(0).expect("it is cut")),
    ];
    for (how, pages, lose) in losses {
        let (shared, volume, _) = shape().start();
        let file = create(&volume, "a");
        for page in 0..pages {
            file.append(&[page as u8; PAGE as usize]).expect("space");
        }
        let reader = file.in_place().expect("a regular file");
        let given: Vec<(u64, &[u8])> = [3, 11, 3].map(|page| (page, seen(&reader, page))).into();
        lose(&volume, &file);
        drop(file);
        let before = fill(&volume, "b");
        for (page, bytes) in &given {
            assert!(bytes.iter().all(|byte| u64::from(*byte) == *page), "{how}: page {page} is another file's");
        }
        // The last one that is given back makes the space free.
        reader.give_back();
        reader.give_back();
        assert_eq!(fill(&volume, "c"), 0, "{how}: a page is out, and its space was given to others");
        reader.give_back();
        let after = fill(&volume, "d");
        assert!(after >= 19, "{how}: only {after} pages came back after {before}");
        drop(reader);
        volume.close().expect("a clean close");
        expect_sound(&shared);
    }
}

#[test]
fn who_ends_with_bytes_in_place_keeps_no_space() {
    let (_, volume, _) = shape().start();
    let file = create(&volume, "a");
    for page in 0..20 {
        file.append(&[page; PAGE as usize]).expect("space");
    }
    let reader = file.in_place().expect("a regular file");
    seen(&reader, 3);
    file.truncate(0).expect("it is cut");
    fill(&volume, "b");
    drop(reader);
    assert!(fill(&volume, "c") >= 19);
}

#[test]
fn what_cannot_be_given_in_place_is_not() {
    let (_, volume, _) = shape().start();
    let file = create(&volume, "a");
    file.write_at(&[1; 3 * PAGE as usize + 100], 8 * PAGE).expect("space");
    let reader = file.in_place().expect("a regular file");
    for (offset, bytes, why) in
        [(8 * PAGE, 4 * PAGE, "beyond the end"), (100 * PAGE, 1, "behind the end"), (u64::MAX, 2, "beyond all numbers")]
    {
        assert!(reader.take(offset, bytes).is_none(), "{why}");
    }
    assert!(reader.take(8 * PAGE, 3 * PAGE + 100).is_some());
    reader.give_back();
    // None of these counted.
    file.truncate(0).expect("it is cut");
    fill(&volume, "b");
    assert_eq!(fill(&volume, "c"), 0);
    let directory = volume.create_directory(ROOT, b"d", &Meta::directory(0o700));
    if let Ok(directory) = directory {
        let opened = volume.open(directory.ino).expect("a directory opens");
        assert!(opened.in_place().is_err());
    }
    let (_, volume, _) = shape().with_checksums().start();
    let file = create(&volume, "a");
    file.write_at(&[1; PAGE as usize], 0).expect("space");
    assert!(file.in_place().expect("a regular file").take(0, PAGE).is_none(), "a checksum is to be looked at");
}
