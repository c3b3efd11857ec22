//! Volumes of format 1 become volumes of format 2. `tests/data/README.md` says where they come from.

use crate::support::region::Shared;
use crate::support::seal::Seal;
use crate::support::{amount, say};
use pocketstone_fstest::list;
use pocketstone_media::crash::{Limits, Recorder};
use pocketstone_scmfs::{Error, FileType, Ino, OpenOptions, Operations, ROOT, Volume, check, repair, upgrade};
use std::ops::ControlFlow;
use std::path::Path;

fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn image(name: &str) -> Vec<u8> {
    data(&format!("{name}.v1"))
}

/// What a volume holds, in the form of the listings that the old program made.
fn listing(volume: &Volume) -> String {
    let (mut lines, mut todo) = (Vec::new(), vec![(ROOT, String::from("/"))]);
    while let Some((ino, path)) = todo.pop() {
        let attr = volume.attributes(ino).expect("there is such an inode");
        let mut line =
            format!("{path} {:?} {:o} {} {} {}", attr.kind, attr.permissions, attr.uid, attr.links, attr.size);
        match attr.kind {
            FileType::Regular => {
                let mut content = vec![0; attr.size as usize];
                volume.open(ino).expect("it opens").read_at(&mut content, 0).expect("it is read");
                line += &format!(" {:08x}", crc32c::crc32c(&content));
            }
            FileType::Symlink => {
                line += &format!(" {}", String::from_utf8_lossy(&volume.read_link(ino).expect("it is a link")));
            }
            _ => {}
        }
        for name in volume.list_xattrs(ino).expect("they are sound") {
            let value = volume.get_xattr(ino, &name).expect("it is there");
            line += &format!(" {}={:08x}", String::from_utf8_lossy(&name), crc32c::crc32c(&value));
        }
        lines.push(line);
        if attr.kind == FileType::Directory {
            let mut entries: Vec<(String, Ino)> = list(volume, ino)
                .expect("it is sound")
                .into_iter()
                .map(|entry| (String::from_utf8_lossy(&entry.name).into_owned(), entry.ino))
                .collect();
            entries.sort();
            let below = entries.into_iter().rev();
            todo.extend(below.map(|(name, ino)| (ino, format!("{}/{name}", path.trim_end_matches('/')))));
        }
    }
    lines.join("\n") + "\n"
}

fn options() -> OpenOptions {
    OpenOptions::default().null_files(0)
}

fn expect_listing(shared: &Shared, name: &str) {
    let report = check(shared.region()).expect("fsck reads it");
    assert!(report.clean && report.findings.is_empty(), "{report:#?}");
    let volume = Volume::open(shared.region(), &options()).expect("it opens");
    assert_eq!(listing(&volume), String::from_utf8_lossy(&data(&format!("{name}.list"))), "{name}");
    volume.close().expect("it is closed");
}

#[test]
fn what_the_old_program_made_is_all_there() {
    for name in ["closed", "in-use"] {
        let old = image(name);
        let shared = Shared::from_image(&old);
        for refused in [Volume::open(shared.region(), &options()).err(), repair(shared.region()).err()] {
            let Some(Error::Medium(error)) = refused else { panic!("{refused:?}") };
            assert!(error.message().contains("format 1"), "{}", error.message());
            assert!(error.cure().is_some_and(|cure| cure.contains("scmfs fsck --upgrade")));
        }
        assert!(shared.image() == old, "a volume that was refused was changed");
        let done = upgrade(shared.region()).expect("it is converted");
        assert!(done.report.clean && done.report.findings.is_empty(), "{done:#?}");
        let size = u64::from_le_bytes(old[24..32].try_into().expect("8 bytes"));
        assert!(size <= done.max_bytes && done.max_bytes <= done.old_max_bytes, "{done:#?}");
        expect_listing(&shared, name);
        // It grows as far as it says.
        let again = upgrade(shared.region());
        assert!(matches!(&again, Err(Error::Medium(error)) if error.message().contains("newest format")), "{again:?}");
    }
}

#[test]
fn the_copy_of_the_superblock_that_is_left_is_enough() {
    for damaged in [0, 256] {
        let mut old = image("closed");
        old[damaged..damaged + 256].fill(0x55);
        let shared = Shared::from_image(&old);
        let Err(Error::Medium(error)) = check(shared.region()) else { panic!("format 1 was taken for 2") };
        assert!(error.cure().is_some_and(|cure| cure.contains("scmfs fsck --upgrade")), "{}", error.message());
        upgrade(shared.region()).expect("it is converted");
        expect_listing(&shared, "closed");
    }
}

#[test]
fn without_room_for_the_tables_nothing_is_changed() {
    let old = image("no-room");
    let shared = Shared::from_image(&old);
    let Err(Error::Medium(error)) = upgrade(shared.region()) else { panic!("there is no room") };
    assert!(error.message().contains("no space"), "{}", error.message());
    assert!(error.cure().is_some_and(|cure| cure.contains("copy the files")));
    assert!(shared.image() == old);
}

#[test]
fn a_damaged_volume_is_not_converted() {
    // The first entry of the mapping table, of which format 1 has only one.
    let mut old = image("closed");
    let at = u64::from_le_bytes(old[64..72].try_into().expect("8 bytes")) as usize;
    old[at + 1] ^= 4;
    let shared = Shared::from_image(&old);
    assert!(upgrade(shared.region()).is_err());
    assert!(shared.image() == old);
}

#[test]
fn a_conversion_that_was_interrupted_is_done_again() {
    for name in ["closed", "in-use"] {
        let old = image(name);
        let (recorder, log) = Recorder::new(&old);
        upgrade(Box::new(recorder)).expect("it is converted");
        let limits = Limits { max_lines: 2, max_states_per_fence: Some(amount(4, 40) as usize), seed: 1 };
        let (mut states, mut old_still) = (0, 0);
        log.trace().crash_states(&limits, &mut |state| {
            let shared = Shared::from_image(state.image);
            states += 1;
            match Volume::open(shared.region(), &options()) {
                // It has become one of format 2.
                Ok(volume) => volume.close().expect("it is closed"),
                Err(Error::Medium(error)) => {
                    assert!(error.cure().is_some_and(|cure| cure.contains("--upgrade")), "{}", error.message());
                    old_still += 1;
                    upgrade(shared.region()).unwrap_or_else(|error| panic!("{}: {error}", state.describe()));
                }
                Err(error) => panic!("{}: {error}", state.describe()),
            }
            expect_listing(&shared, name);
            ControlFlow::Continue(())
        });
        say(&format!("{name}: interrupted in {states} ways; {old_still} of them left format 1"));
        assert!(old_still > 0 && old_still < states);
    }
}

#[test]
fn the_second_superblock_has_moved() {
    let shared = Shared::from_image(&image("closed"));
    upgrade(shared.region()).expect("it is converted");
    let now = shared.image();
    let [near, far] = Seal::of(&now).superblocks();
    assert_eq!(now[near..near + 8], now[far..far + 8]);
    assert!(now[256..512].iter().all(|byte| *byte == 0), "the old copy is gone");
}
