//! Copies of a volume that were made while it was changed: they are torn everywhere, and repair ends in a sound
//! volume all the same.

use crate::support::hostile::{Held, options};
use crate::support::region::Shared;
use crate::support::{say, seed};
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_random::Random;
use pocketstone_scmfs::{
    CreateOptions, Error, Geometry, Meta, Operations, ROOT, Rename, SetXattr, Threshold, Volume, check, repair,
};
use pocketstone_testing::wait::until;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const REGION_BYTES: u64 = 1 << 20;
/// The copy is made in pieces of this size.
const PIECE_BYTES: usize = 4096;

fn memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}

/// One change, of any kind.
fn change(volume: &Volume, random: &mut Random) -> Result<(), Error> {
    let name = |random: &mut Random| format!("n{}", random.below(60)).into_bytes();
    let home = |random: &mut Random| {
        let directory = format!("d{}", random.below(6));
        volume.lookup(ROOT, directory.as_bytes()).map_or(ROOT, |attr| attr.ino)
    };
    let (from, to) = (home(random), home(random));
    let (one, other) = (name(random), name(random));
    match random.below(9) {
        0 => {
            volume.create_directory(ROOT, format!("d{}", random.below(6)).as_bytes(), &Meta::directory(0o755)).map(drop)
        }
        1 | 2 => volume.create_file(from, &one, &Meta::file(0o644)).map(drop),
        3 | 4 => {
            let file = volume.open(volume.lookup(from, &one)?.ino)?;
            let content = vec![random.below(256) as u8; 1 + random.below(9000) as usize];
            file.write_at(&content, random.below(3000)).map(drop)
        }
        5 => volume.rename(from, &one, to, &other, Rename::Replace),
        6 => volume.unlink(from, &one),
        7 => {
            let value = vec![7; random.below(900) as usize];
            volume.set_xattr(volume.lookup(from, &one)?.ino, b"user.a", &value, SetXattr::Any)
        }
        _ => volume.remove_directory(ROOT, format!("d{}", random.below(6)).as_bytes()),
    }
}

/// The volume's bytes, in pieces and in any order, while somebody changes them.
fn torn_copy(file: &File, random: &mut Random) -> Vec<u8> {
    let mut image = vec![0; REGION_BYTES as usize];
    let mut pieces: Vec<usize> = (0..image.len()).step_by(PIECE_BYTES).collect();
    for i in (1..pieces.len()).rev() {
        pieces.swap(i, random.below(i as u64 + 1) as usize);
    }
    for (count, at) in pieces.into_iter().enumerate() {
        file.read_exact_at(&mut image[at..at + PIECE_BYTES], at as u64).expect("the region can be read");
        if count % 16 == 0 {
            std::thread::sleep(std::time::Duration::from_micros(random.below(200)));
        }
    }
    image
}

fn expect_mended(image: &[u8], what: &str) -> (bool, usize) {
    let shared = Shared::from_image(image);
    let report = repair(shared.region()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let again = check(shared.region()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(again.clean && again.findings.is_empty(), "{what}: {:#?}\nafter {:#?}", again.findings, report.findings);
    let volume = Volume::open(shared.region(), &options()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let held = Held::of(&volume).unwrap_or_else(|error| panic!("{what}: {error}"));
    volume.close().unwrap_or_else(|error| panic!("{what}: {error}"));
    (report.findings.is_empty(), held.paths.len())
}

/// Says so when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn copy_under_load(copies: u64, seed: u64) {
    let file = tempfile::NamedTempFile::new_in(memory()).expect("a file");
    let region = Mapped::create(file.path(), REGION_BYTES, &MapOptions::default().overwrite(true));
    let geometry = Geometry::new(512, 8192);
    let threshold = Threshold::Bytes(4096);
    let create = CreateOptions::default().inodes(256).geometry(geometry).threshold(threshold);
    let region = region.expect("a region");
    Volume::create(Box::new(region), &create).expect("a volume");
    let region = Mapped::open(file.path(), &MapOptions::default()).expect("the region opens");
    let volume = Volume::open(Box::new(region), &options()).expect("it opens");
    let reader = File::open(file.path()).expect("it can be read");
    let (mut random, is_over) = (Random::labelled(seed, "copies"), AtomicBool::new(false));
    let changes = AtomicU64::new(0);
    let (mut made, mut sound, mut names) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::labelled(seed, "changes");
            while !is_over.load(Ordering::Relaxed) {
                // Names that are there already, or not yet, are refused.
                if let Err(Error::Damaged(damage)) = change(&volume, &mut random) {
                    panic!("{damage:?}");
                }
                changes.fetch_add(1, Ordering::Relaxed);
            }
        });
        // However this ends, the changes do.
        let _over = Over(&is_over);
        until("the volume is changed", || changes.load(Ordering::Relaxed) > 1000);
        // Where the changes get no processor while copies are made, more copies are needed until one is torn.
        while made < copies || (sound == made && made < 100 * copies) {
            let image = torn_copy(&reader, &mut random);
            let (is_sound, paths) = expect_mended(&image, &format!("seed {seed}, copy {made}"));
            made += 1;
            sound += u64::from(is_sound);
            names += paths;
        }
    });
    volume.abandon();
    say(&format!("seed {seed}: {made} copies under load, {sound} of them not torn; {names} names kept"));
    assert!(sound < made && names as u64 > made, "nothing was torn, or nothing was kept");
}

#[test]
fn twenty_torn_copies() {
    copy_under_load(20, seed(1));
}

#[test]
#[ignore = "long"]
fn torture_torn_copies() {
    copy_under_load(200, seed(2));
}
