//! Checksums of contents: damage is never served, and nothing sound is taken for damage.

use crate::support::explore::Start;
use crate::support::region::Shared;
use crate::support::run::Run;
use crate::support::shape::Shape;
use crate::support::{amount, seed, starts};
use pocketstone_fstest::Pair;
use pocketstone_random::Random;
use pocketstone_scmfs::{Allocate, Error, File, Meta, Operations, ROOT, Volume, check};
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: u64 = 256;

fn shape() -> Shape {
    Shape::tiny(256 << 10).with_checksums()
}

fn open(volume: &Volume, name: &[u8]) -> File {
    let found = volume.lookup(ROOT, name).expect("the file is there");
    volume.open(found.ino).expect("the file opens")
}

fn create(volume: &Volume, name: &[u8]) -> File {
    let meta = Meta::file(0o600);
    volume.create_file(ROOT, name, &meta).expect("a file is made")
}

/// Bytes that differ from page to page and from file to file.
fn text(salt: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::labelled(salt, "text");
    (0..bytes).map(|_| random.below(256) as u8).collect()
}

/// Where some bytes lie in an image. They are long enough to be there once.
fn find(image: &[u8], bytes: &[u8]) -> usize {
    let found = image.windows(bytes.len()).position(|window| window == bytes);
    found.expect("the bytes are on the medium")
}

fn read(file: &File, offset: u64, bytes: usize) -> Result<Vec<u8>, Error> {
    let mut into = vec![0; bytes];
    let got = file.read_at(&mut into, offset)?;
    into.truncate(got);
    Ok(into)
}

fn is_damage<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(error @ Error::Damaged(_)) if error.errno() == 5)
}

/// A closed volume with one file, one byte of which was changed behind its back.
fn damaged(content: &[u8], at: usize) -> Shared {
    let shared = shape().make();
    let volume = shape().open(&shared);
    create(&volume, b"a").write_at(content, 0).expect("a write");
    volume.close().expect("it closes");
    let mut image = shared.image();
    let start = at / 16 * 16;
    let place = find(&image, &content[start..(start + 16).min(content.len())]) + at - start;
    image[place] ^= 0x20;
    Shared::from_image(&image)
}

#[test]
fn every_flipped_byte_fails_the_reads_of_its_page_and_no_others() {
    // In a run of small pages, and in huge ones.
    for bytes in [900, 5000] {
        let content = text(1, bytes);
        let stride = amount(97, 1) as usize;
        for at in (0..bytes).step_by(stride) {
            let shared = damaged(&content, at);
            let report = check(shared.region()).expect("fsck reads it");
            assert!(report.findings.is_empty(), "metadata is sound: {:?}", report.findings);
            let volume = shape().open(&shared);
            let file = open(&volume, b"a");
            let page = at as u64 / PAGE;
            for i in 0..(bytes as u64).div_ceil(PAGE) {
                let (from, to) = (i * PAGE, ((i + 1) * PAGE).min(bytes as u64));
                for (from, to) in [(from, to), (from, from + 1), (to - 1, to), (from + 3, to - 3)] {
                    let got = read(&file, from, (to - from) as usize);
                    if i == page {
                        assert!(is_damage(got), "byte {at}: {from}..{to} was served");
                    } else {
                        assert_eq!(got.expect("a sound page"), content[from as usize..to as usize]);
                    }
                }
            }
            let error = read(&file, 0, bytes).expect_err("the whole file");
            let end = ((page + 1) * PAGE).min(bytes as u64);
            assert!(error.to_string().contains(&format!("bytes {}..{end}", page * PAGE)), "{error}");
            assert!(is_damage(file.view()));
        }
    }
}

#[test]
fn damage_is_healed_by_writing_the_page_anew_and_not_hidden_by_less() {
    let content = text(2, 1000);
    // A page in the middle, and the last one, of which the file has a part.
    for (at, page) in [(300, 256..512), (900, 768..1000)] {
        let fresh = || {
            let shared = damaged(&content, at);
            let volume = shape().open(&shared);
            let file = open(&volume, b"a");
            (volume, file)
        };
        let still_damaged = |file: &File| {
            assert!(is_damage(read(file, at as u64, 1)));
            assert_eq!(read(file, 0, 256).expect("another page"), content[..256]);
        };
        let (_volume, file) = fresh();
        assert!(is_damage(file.write_at(b"x", page.start + 7)));
        assert!(is_damage(file.write_at(&[1; 200], page.start.saturating_sub(100))));
        assert!(is_damage(file.write_atomic(b"x", page.end - 1)));
        assert!(is_damage(file.allocate(Allocate::Zero, page.start + 1, 20)));
        assert!(is_damage(file.allocate(Allocate::PunchHole, page.start + 1, 20)));
        still_damaged(&file);
        let before = file.attributes();
        if page.end == 1000 {
            assert!(is_damage(file.append(b"more")));
            assert!(is_damage(file.truncate(2000)));
            assert!(is_damage(file.allocate(Allocate::Extend, 0, 4000)));
            assert!(is_damage(file.allocate(Allocate::Zero, 1500, 400)));
            assert_eq!(file.attributes(), before);
            assert!(is_damage(file.write_at(b"far", 1500)));
            still_damaged(&file);
        } else {
            // Not touched: the file grows, and moves to huge pages, and still nobody is served that page.
            file.append(&text(3, 3000)).expect("an append");
            still_damaged(&file);
            assert_eq!(read(&file, 1000, 3000).expect("the rest"), text(3, 3000));
        }
        assert!(file.attributes().size >= before.size);

        let whole = text(4, (page.end - page.start) as usize);
        file.write_at(&whole, page.start).expect("all that the file has in the page");
        assert_eq!(read(&file, page.start, whole.len()).expect("healed"), whole);
        let (_volume, file) = fresh();
        file.write_atomic(&whole, page.start).expect("all that the file has in the page");
        assert_eq!(read(&file, page.start, whole.len()).expect("healed"), whole);
        let (_volume, file) = fresh();
        file.allocate(Allocate::Zero, page.start, page.end - page.start).expect("zeros");
        assert_eq!(read(&file, page.start, whole.len()).expect("healed"), vec![0; whole.len()]);
        let (_volume, file) = fresh();
        file.truncate(0).expect("nothing is left");
        file.truncate(1000).expect("zeros");
        assert_eq!(read(&file, 0, 1000).expect("zeros"), vec![0; 1000]);
    }
}

#[test]
fn a_move_takes_damage_along() {
    // Small to huge pages by a reservation, which touches no content; the whole file, and its last page alone.
    let content = text(5, 900);
    for at in [10, 899] {
        let shared = damaged(&content, at);
        let volume = shape().open(&shared);
        let file = open(&volume, b"a");
        let before = file.attributes().allocated;
        file.allocate(Allocate::KeepSize, 0, 6000).expect("space");
        assert!(file.attributes().allocated >= before + 2048, "it moved");
        let page = at as u64 / PAGE * PAGE;
        for other in (0..900).step_by(PAGE as usize) {
            let got = read(&file, other, 132);
            if other == page {
                assert!(is_damage(got));
            } else {
                assert_eq!(got.expect("a sound page"), content[other as usize..other as usize + 132]);
            }
        }
        volume.close().expect("it closes");
        let volume = shape().open(&shared);
        assert!(is_damage(read(&open(&volume, b"a"), at as u64, 1)));
    }
}

#[test]
fn what_has_no_checksums_serves_what_is_there() {
    let shape = Shape::tiny(256 << 10);
    let shared = shape.make();
    let volume = shape.open(&shared);
    let content = text(6, 600);
    create(&volume, b"a").write_at(&content, 0).expect("a write");
    volume.close().expect("it closes");
    let mut image = shared.image();
    let place = find(&image, &content);
    image[place] ^= 1;
    let volume = shape.open(&Shared::from_image(&image));
    assert_eq!(read(&open(&volume, b"a"), 0, 1).expect("a read"), [content[0] ^ 1]);
}

#[test]
fn neighbours_are_written_by_several_threads() {
    let shape = Shape::roomy().with_checksums();
    let shared = shape.make();
    let volume = shape.open(&shared);
    // Their pages follow each other, so that their checksums share words and lines.
    let names: Vec<Vec<u8>> = (0..8).map(|i| format!("f{i}").into_bytes()).collect();
    for name in &names {
        create(&volume, name).write_at(&[1; 300], 0).expect("a write");
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(i, name)| {
                let (volume, stop) = (&volume, &stop);
                scope.spawn(move || {
                    let file = open(volume, name);
                    for round in 0..amount(1500, 50_000) {
                        let new = text(round * 8 + i as u64, 1 + (round as usize * 37) % 700);
                        match round % 8 {
                            5 => file.truncate(round % 300).expect("a truncation"),
                            6 => _ = file.append(&new).expect("an append"),
                            7 => file.write_atomic(&new[..new.len().min(300)], 5).expect("an atomic write"),
                            _ => _ = file.write_at(&new, round % 200).expect("a write"),
                        }
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                })
            })
            .collect();
        let (volume, names) = (&volume, &names);
        let stopped = &stop;
        scope.spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for name in names {
                    read(&open(volume, name), 0, 4000).expect("a sound file");
                }
            }
        });
        for writer in writers {
            writer.join().expect("a writer");
        }
        stop.store(true, Ordering::Relaxed);
    });
    volume.close().expect("it closes");
    let volume = shape.open(&shared);
    for name in &names {
        read(&open(&volume, name), 0, 4000).expect("a sound file");
    }
}

#[test]
fn after_every_operation_all_pages_of_files_are_verified() {
    for shape in [Shape::roomy(), Shape::roomy().with_null_files(5)].map(Shape::with_checksums) {
        let (decoder, seed) = (shape.decoder(), seed(9));
        let (mut random, mut run) = (Random::labelled(seed, "verified"), Run::new(&shape));
        let mut verified = 0;
        for step in 0..amount(4_000, 100_000) {
            let op = decoder.random(&mut random);
            run.step(&op).unwrap_or_else(|what| panic!("seed {seed}, step {step}: {what}"));
            if step % 20 == 0 {
                let report = run.volume.scrub(&mut |_| true);
                assert!(report.damaged.is_empty(), "seed {seed}, step {step}, {op:?}: {report:?}");
                assert_eq!(report.pages_unknown, 0, "seed {seed}, step {step}, {op:?}");
                verified += report.pages_verified;
            }
        }
        assert!(verified > 1000, "{verified}");
        run.finish().expect("a sound volume");
    }
}

/// Flips bits all over a volume: what is served is right, or an error.
#[test]
fn no_flipped_bit_of_a_content_is_served() {
    let start: Start = starts::with_checksums().into_iter().next().expect("there is a start");
    let want = start.model.tree();
    let mut random = Random::labelled(seed(8), "flips");
    let (mut refused, mut unused) = (0u32, 0u32);
    for at in (0..start.image.len()).step_by(amount(13, 1) as usize) {
        let mut image = start.image.clone();
        image[at] ^= 1 << random.below(8);
        let Ok(volume) = Volume::open(Shared::from_image(&image).region(), &start.shape.open) else { continue };
        let findings = check(Shared::from_image(&image).region()).map_or(1, |report| report.findings.len());
        match crate::support::subject::walk(&volume) {
            Err(_) => refused += 1,
            Ok(tree) if tree == want => unused += 1,
            Ok(_) => assert!(findings > 0, "byte {at}: served as sound"),
        }
        volume.abandon();
    }
    assert!(refused > 100 && unused > 100, "{refused} refused, {unused} unused");
}
