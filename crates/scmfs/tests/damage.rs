//! Damaged volumes: nothing panics, and no damage to metadata is served as if it were sound.

use crate::support::explore::Start;
use crate::support::region::Shared;
use crate::support::seal::Seal;
use crate::support::subject::walk;
use crate::support::{amount, fuzz, say, seed, starts};
use pocketstone_fstest::Tree;
use pocketstone_random::Random;
use pocketstone_scmfs::{Error, FileType, FindingKind, Ino, Operations, ROOT, Rename, Result, Volume, check, repair};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

fn start(name: &str) -> Start {
    starts::all().into_iter().find(|start| start.name == name).expect("there is such a start")
}

/// What became of damage.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Verdict {
    /// An operation said so.
    Refused,
    /// fsck said so; what was served was sound.
    Found,
    /// The bytes are not in use: everything is as it was.
    Unused,
    /// The bytes are a file's: exactly they differ in it.
    Data,
}

/// Whether two trees differ in the content of one file alone, and there in one byte, by `mask`.
fn differs_in_one_byte(got: &Tree, want: &Tree, mask: u8) -> bool {
    let Some(first) = want.iter().find(|(path, leaf)| got.get(*path) != Some(leaf)).map(|(_, leaf)| leaf.first.clone())
    else {
        return false;
    };
    let (Some(mine), true) = (got.get(&first).map(|leaf| leaf.content.clone()), want.contains_key(&first)) else {
        return false;
    };
    let places = mine.differences(&want[&first].content);
    let mut rest = got.clone();
    for leaf in rest.values_mut().filter(|leaf| leaf.first == first) {
        leaf.content = want[&first].content.clone();
    }
    let [at] = places[..] else { return false };
    rest == *want && mine.byte(at) ^ want[&first].content.byte(at) == mask
}

/// `Err` for damage that was served.
fn judge(image: &[u8], start: &Start, want: &Tree, mask: u8) -> Result<Verdict, String> {
    let findings = match check(Shared::from_image(image).region()) {
        Ok(report) => report.findings,
        Err(_) => return expect_no_panic(image, start),
    };
    let volume = match Volume::open(Shared::from_image(image).region(), &start.shape.open) {
        Ok(volume) => volume,
        Err(_) => return Ok(Verdict::Refused),
    };
    let walked = walk(&volume);
    volume.abandon();
    match walked {
        Err(pocketstone_fstest::Broken::Error(..)) => Ok(Verdict::Refused),
        Ok(tree) if tree == *want => Ok(if findings.is_empty() { Verdict::Unused } else { Verdict::Found }),
        Ok(tree) if differs_in_one_byte(&tree, want, mask) => Ok(Verdict::Data),
        Ok(_) | Err(_) if !findings.is_empty() => Ok(Verdict::Found),
        Ok(tree) => Err(format!("served as sound: {}", pocketstone_fstest::differences(&tree, want).join("; "))),
        Err(broken) => Err(format!("served as sound: {broken:?}")),
    }
}

fn expect_no_panic(image: &[u8], start: &Start) -> Result<Verdict, String> {
    if let Ok(volume) = Volume::open(Shared::from_image(image).region(), &start.shape.open) {
        drop(walk(&volume));
        volume.abandon();
    }
    Ok(Verdict::Refused)
}

/// Flips a bit in one byte after another, and counts the verdicts.
fn flip_bytes(name: &str, stride: usize, seed: u64) {
    let start = start(name);
    let want = start.model.tree();
    let mut random = Random::labelled(seed, "flips");
    let mut counts = std::collections::BTreeMap::new();
    let first = random.below(stride as u64) as usize;
    for at in (first..start.image.len()).step_by(stride) {
        let mask = 1 << random.below(8);
        let mut image = start.image.clone();
        image[at] ^= mask;
        let verdict = catch_unwind(AssertUnwindSafe(|| judge(&image, &start, &want, mask)))
            .unwrap_or_else(|_| Err("panic".into()))
            .unwrap_or_else(|what| panic!("start {name}, seed {seed}: byte {at} ^ {mask:#04x}: {what}"));
        *counts.entry(verdict).or_insert(0u64) += 1;
    }
    say(&format!("{name}: {counts:?}"));
    assert!(counts.len() >= 3, "damage of every kind was made: {counts:?}");
}

#[test]
fn flipped_bits_in_files() {
    flip_bytes("files", amount(7, 1) as usize, seed(1));
}

#[test]
fn flipped_bits_in_links_and_attributes() {
    flip_bytes("links", amount(7, 1) as usize, seed(2));
}

#[test]
fn flipped_bits_in_large_directories() {
    flip_bytes("many", amount(7, 1) as usize, seed(3));
}

#[test]
fn truncated_images() {
    let start = start("files");
    for bytes in (0..start.image.len()).step_by(amount(509, 64) as usize) {
        let image = &start.image[..bytes];
        let opened = Volume::open(Shared::from_image(image).region(), &start.shape.open);
        assert!(opened.is_err(), "a volume of {} bytes opened on {bytes}", start.image.len());
        let refused = check(Shared::from_image(image).region()).map_or(true, |report| !report.findings.is_empty());
        assert!(refused, "fsck found nothing wrong with {bytes} bytes of {}", start.image.len());
    }
}

#[test]
fn foreign_content() {
    let start = start("files");
    let mut random = Random::labelled(seed(4), "foreign");
    let mut noise = vec![0; start.image.len()];
    random.fill(&mut noise);
    let text = b"This is not a volume at all.\n".repeat(2000);
    for (what, image) in
        [("zeros", vec![0; 64 << 10]), ("ones", vec![0xff; 64 << 10]), ("noise", noise), ("text", text)]
    {
        assert!(Volume::open(Shared::from_image(&image).region(), &start.shape.open).is_err(), "{what} opened");
        assert!(check(Shared::from_image(&image).region()).is_err(), "fsck took {what} for a volume");
        fuzz::examine(&image);
    }
}

#[test]
fn much_damage_at_once() {
    let seed = seed(5);
    let starts = starts::all();
    let mut random = Random::labelled(seed, "much");
    for round in 0..amount(300, 20_000) {
        let mut image = starts[random.below(starts.len() as u64) as usize].image.clone();
        for _ in 0..=random.below(30) {
            let at = random.below(image.len() as u64 - 64) as usize;
            match random.below(4) {
                0 => image[at] = random.next_u64() as u8,
                1 => random.fill(&mut image[at / 64 * 64..][..64]),
                2 => image[at / 64 * 64..][..64].fill(0),
                _ => image.copy_within(at / 64 * 64..at / 64 * 64 + 64, random.below(700) as usize * 8),
            }
        }
        if let Err(panic) = catch_unwind(|| fuzz::examine(&image)) {
            say(&format!("seed {seed}, round {round}"));
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn much_damage_with_right_checksums() {
    let seed = seed(6);
    let mut random = Random::labelled(seed, "sealed");
    let mut failures = Vec::new();
    for round in 0..amount(2_000, 200_000) {
        let mut edits = vec![0; 1 + 6 * (1 + random.below(6) as usize)];
        random.fill(&mut edits);
        // Mostly metadata, always sealed, never cut short.
        for edit in edits[1..].chunks_exact_mut(6) {
            edit[3] = edit[3] & 0x80 | 0x40 | [0, 8, 16, 24, 37, 49][random.below(6) as usize];
        }
        if let Err(panic) = catch_unwind(|| fuzz::image(&edits)) {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or(panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default();
            failures.push(format!("seed {seed}, round {round}, edits {edits:02x?}: {text}"));
        }
    }
    assert!(failures.is_empty(), "{} failures, such as {:#?}", failures.len(), &failures[..failures.len().min(4)]);
}

#[test]
fn sealing_what_is_sound_changes_nothing() {
    for start in starts::all() {
        let seal = Seal::of(&start.image);
        for at in 0..start.image.len() {
            let mut image = start.image.clone();
            seal.seal(&mut image, at);
            assert!(image == start.image, "start {}, byte {at}", start.name);
        }
    }
}

#[test]
fn a_free_map_that_frees_what_does_not_exist() {
    // All bits of the inodes are cleared, so that number 0 and those after the last seem to be free.
    let start = start("files");
    let (mut image, seal) = (start.image.clone(), Seal::of(&start.image));
    let (from, inodes) = seal.inode_bits();
    image[from..from + (inodes + 1).div_ceil(64) * 8].fill(0);
    seal.free_map(&mut image);
    let report = check(Shared::from_image(&image).region()).expect("fsck reads the volume");
    assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::FreeMap), "{report:#?}");
    let json = serde_json::to_value(&report.findings).expect("JSON");
    assert_eq!(json[0]["kind"], "free-map");
    let volume = Volume::open(Shared::from_image(&image).region(), &start.shape.open).expect("the volume opens");
    // Beside these, 8 can be made of each huge page of 2048 bytes that is free.
    let statfs = volume.statfs().unwrap();
    assert_eq!(statfs.free_inodes - statfs.free_blocks * 256 / 2048 * 8, inodes as u64);
    let numbers: Vec<u32> = (0..inodes)
        .map_while(|_| Some(volume.temporary_file(&pocketstone_scmfs::Meta::file(0o600)).ok()?.ino()))
        .collect();
    assert!(numbers.iter().all(|ino| (1..=inodes as u32).contains(ino)), "{numbers:?}");
    volume.abandon();
}

#[test]
fn a_damaged_list_of_extents_is_never_believed() {
    let start = start("punched");
    let volume = Volume::open(Shared::from_image(&start.image).region(), &start.shape.open).expect("it opens");
    let ino = volume.resolve("/a").expect("it is there");
    volume.abandon();
    // Both versions of the inode are 128 bytes; the list's page is at 104, the extents at 112 (docs/scmfs-format.md).
    let seal = Seal::of(&start.image);
    let word = |at: usize| u32::from_le_bytes(start.image[at..at + 4].try_into().expect("4 bytes"));
    let halves = [0, 128].map(|half| seal.inodes_at + (ino as usize - 1) * 256 + half);
    let newest = halves.into_iter().max_by_key(|half| word(*half)).expect("there are two");
    let (list, extents) = (seal.data_at + word(newest + 104) as usize * 256, word(newest + 112) as usize);
    assert!(extents > 0, "the file has no list");
    for at in list..list + 8 + 12 * extents {
        let mut image = start.image.clone();
        image[at] ^= 0x10;
        let report = check(Shared::from_image(&image).region()).expect("fsck reads the volume");
        assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::List), "byte {at}: {report:#?}");
        let volume = Volume::open(Shared::from_image(&image).region(), &start.shape.open).expect("it opens");
        assert!(matches!(volume.open(ino).map(drop), Err(Error::Damaged(_))), "byte {at}");
        volume.abandon();
    }
}

/// Makes the entry of a name lead elsewhere, with the right checksums. The type is the upper four bits of
/// st_mode, as docs/scmfs-format.md has it.
fn lead_elsewhere(start: &Start, name: &[u8], old: Ino, new: Ino, kind: u8) -> Vec<u8> {
    let (mut image, seal) = (start.image.clone(), Seal::of(&start.image));
    let is_it = |at: &usize| {
        let slot = &start.image[*at..at + 64];
        slot[..4] == old.to_le_bytes() && usize::from(slot[12]) == name.len() && slot[16..].starts_with(name)
    };
    let at = (seal.data_at..image.len()).step_by(64).find(is_it).expect("the name has an entry");
    image[at..at + 4].copy_from_slice(&new.to_le_bytes());
    image[at + 13] = kind;
    seal.seal(&mut image, at);
    image
}

/// Everything that follows the name `a` of the directory `d`, each on the volume as it was found.
fn follow(image: &[u8], start: &Start) -> Vec<(&'static str, Result<()>)> {
    type Follow = fn(&Volume, Ino) -> Result<()>;
    let follows: [(&str, Follow); 8] = [
        ("look up", |v, d| v.lookup(d, b"a").map(drop)),
        ("unlink", |v, d| v.unlink(d, b"a")),
        ("remove", |v, d| v.remove_directory(d, b"a")),
        ("rename", |v, d| v.rename(d, b"a", d, b"n", Rename::Replace)),
        ("move", |v, d| v.rename(d, b"a", v.resolve("/e")?, b"n", Rename::Replace)),
        ("replace by file", |v, d| v.rename(ROOT, b"b", d, b"a", Rename::Replace)),
        ("replace by directory", |v, d| v.rename(ROOT, b"e", d, b"a", Rename::Replace)),
        ("exchange", |v, d| v.rename(d, b"a", ROOT, b"b", Rename::Exchange)),
    ];
    let done = follows.map(|(what, follow)| {
        let region = Shared::from_image(image).region();
        let volume = Volume::open(region, &start.shape.open).expect("a closed volume opens");
        let d = volume.resolve("/d").expect("the directory is sound");
        let (send, receive) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let done = follow(&volume, d);
            volume.abandon();
            drop(send.send(done));
        });
        let done = receive.recv_timeout(Duration::from_secs(60));
        let done = done.unwrap_or_else(|_| panic!("{what}: waits for a lock that it holds itself"));
        thread.join().expect("no panic");
        (what, done)
    });
    Vec::from(done)
}

#[test]
fn an_entry_that_leads_to_its_own_directory_or_to_another_kind_is_damage_and_not_waited_for() {
    const FILE: u8 = 0o10;
    const DIRECTORY: u8 = 0o4;
    let start = start("files");
    let volume = Volume::open(Shared::from_image(&start.image).region(), &start.shape.open).expect("it opens");
    let ino = |path: &str| volume.resolve(path).expect("it is there");
    let (a, b, d, e, unused) = (ino("/d/a"), ino("/b"), ino("/d"), ino("/e"), 16);
    assert!(matches!(volume.attributes(unused), Err(Error::NotFound)));
    assert_eq!(volume.attributes(a).expect("it is there").kind, FileType::Regular);
    // What is not refused as damage is refused for what the entry itself says.
    let as_file: &[&str] = &["remove", "replace by directory"];
    let as_directory: &[&str] = &["unlink", "replace by file"];
    let cases = [
        ("its directory, as a file", d, FILE, as_file),
        ("its directory", d, DIRECTORY, &["unlink"][..]),
        ("the root, as a file", ROOT, FILE, as_file),
        ("another directory, as a file", e, FILE, as_file),
        ("a file, as a directory", b, DIRECTORY, as_directory),
        ("an unused inode", unused, FILE, as_file),
        ("an unused inode, as a directory", unused, DIRECTORY, as_directory),
    ];
    for (what, new, kind, otherwise) in cases {
        let image = lead_elsewhere(&start, b"a", a, new, kind);
        for (how, done) in follow(&image, &start) {
            match done {
                Err(Error::Damaged(_)) => {}
                Err(error) if otherwise.contains(&how) || how == "look up" && new == unused => {
                    let expected = matches!(error, Error::IsDirectory | Error::NotDirectory | Error::NotFound);
                    assert!(expected, "{what}, {how}: {error}");
                }
                done => panic!("{what}, {how}: {done:?}"),
            }
        }
        expect_entry_mended(&image, &start, what);
    }
    // A sound directory with a second name, one that is above it.
    for (what, new) in [("the root", ROOT), ("another directory", e)] {
        let image = lead_elsewhere(&start, b"a", a, new, DIRECTORY);
        for (how, done) in follow(&image, &start).into_iter().filter(|(how, _)| *how != "look up") {
            assert!(done.is_err(), "{what}, {how}");
        }
        expect_entry_mended(&image, &start, what);
    }
    volume.abandon();
}

/// fsck finds the entry and clears it; the file that lost its name is in lost+found.
fn expect_entry_mended(image: &[u8], start: &Start, what: &str) {
    let shared = Shared::from_image(image);
    let report = repair(shared.region()).expect("fsck reads the volume");
    assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::Entry), "{what}: {report:#?}");
    assert!(report.findings.iter().all(|finding| finding.repaired), "{what}: {report:#?}");
    assert!(check(shared.region()).expect("fsck reads the volume").findings.is_empty(), "{what}");
    let volume = Volume::open(shared.region(), &start.shape.open).expect("it opens");
    let tree = walk(&volume).unwrap_or_else(|broken| panic!("{what}: {broken:?}"));
    volume.abandon();
    let names = |tree: &Tree| tree.keys().filter(|path| !path.starts_with("/lost+found")).count();
    let lost = tree.iter().find(|(path, _)| path.starts_with("/lost+found/#")).expect("the file has a new name");
    assert_eq!(lost.1.content, start.model.tree()["/d/a"].content, "{what}");
    assert_eq!(names(&tree), names(&start.model.tree()) - 1, "{what}: {:?}", tree.keys());
}
