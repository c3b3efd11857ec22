//! Targets that are damaged, cut or foreign.

use super::{Files, options, restored, tracked};
use crate::support::{amount, fuzz, seed};
use pocketstone_random::Random;
use pocketstone_scmfs::checkpoint::{Checkpoints, Directory, verify};
use pocketstone_scmfs::{Meta, Operations, ROOT};
use std::path::PathBuf;

/// A target with three generations, and what each holds.
fn target() -> (tempfile::TempDir, Vec<Files>) {
    let home = tempfile::tempdir().unwrap();
    let (volume, _) = tracked(&options(), false);
    let mut series = Checkpoints::open(home.path(), 3).unwrap();
    let file = volume.create_file(ROOT, b"f", &Meta::file(0o644)).unwrap();
    let held = (1..=3_u8).map(|round| {
        file.write_at(&vec![round; 30_000 * usize::from(round)], 0).unwrap();
        volume.checkpoint(&mut series).unwrap();
        Files::from([("f".to_owned(), vec![round; 30_000 * usize::from(round)])])
    });
    let held = held.collect();
    (home, held)
}

fn file(home: &tempfile::TempDir, generation: u64) -> PathBuf {
    home.path().join(format!("checkpoint-{generation:020}"))
}

#[test]
fn damage_anywhere_is_found_and_named() {
    let (home, held) = target();
    let folder = Directory::to_read(home.path());
    let mut random = Random::labelled(seed(3), "damage");
    for round in 0..amount(60, 2000) {
        let generation = 1 + random.below(3);
        let path = file(&home, generation);
        let sound = std::fs::read(&path).unwrap();
        let mut bytes = sound.clone();
        let at = random.below(bytes.len() as u64) as usize;
        match round % 4 {
            0 => bytes.truncate(at),
            1 => bytes.push(0),
            _ => bytes[at] ^= 1 << random.below(8),
        }
        std::fs::write(&path, &bytes).unwrap();
        for (wanted, held) in (1..).zip(&held) {
            let found = restored(&folder, Some(wanted));
            // Later ones build on it, and may have other bytes for what is damaged.
            if wanted < generation {
                assert_eq!(found.unwrap().1, *held);
            } else if let Ok((_, found)) = found {
                assert!(wanted > generation, "round {round}: byte {at} of {generation} is not missed");
                assert_eq!(found, *held, "round {round}");
            } else {
                let error = found.unwrap_err();
                assert!(error.contains(&format!("checkpoint-{generation:020} is damaged")), "{error}");
            }
        }
        for (number, verified) in verify(&folder).unwrap() {
            assert_eq!(verified.is_ok(), number < generation, "round {round}: {number} after damage to {generation}");
        }
        std::fs::write(&path, &sound).unwrap();
    }
    assert!(verify(&folder).unwrap().iter().all(|(_, verified)| verified.is_ok()));
}

#[test]
fn what_is_missing_foreign_or_half_is_said() {
    let (home, held) = target();
    let folder = Directory::to_read(home.path());
    std::fs::remove_file(file(&home, 2)).unwrap();
    let error = restored(&folder, None).unwrap_err();
    assert!(error.contains("checkpoint-00000000000000000002 is damaged: it is not there"), "{error}");
    assert_eq!(restored(&folder, Some(1)).unwrap().1, held[0]);
    std::fs::write(file(&home, 3), b"something else, and long enough".repeat(1000)).unwrap();
    let error = restored(&folder, None).unwrap_err();
    assert!(error.contains("no checkpoint of SCMFS"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let folder = Directory::to_read(empty.path());
    assert!(restored(&folder, None).unwrap_err().contains("the target holds no checkpoint"));
    std::fs::write(empty.path().join("checkpoint-00000000000000000001.part"), [0; 5000]).unwrap();
    assert!(restored(&folder, None).unwrap_err().contains("cut short"));
    assert!(restored(&Directory::to_read(&empty.path().join("none")), None).unwrap_err().contains("cannot read"));
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let mut random = Random::labelled(seed(9), "bytes");
    for _ in 0..amount(2000, 200_000) {
        let mut bytes = vec![0; random.below(80) as usize];
        random.fill(&mut bytes);
        fuzz::checkpoint(&bytes);
    }
}
