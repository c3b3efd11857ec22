//! Checkpoints while threads change the volume.

use super::{options, restored, tracked};
use crate::support::amount;
use pocketstone_scmfs::checkpoint::{Checkpoints, Directory};
use pocketstone_scmfs::{Meta, Operations, ROOT, Rename};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const THREADS: u64 = 3;
/// Over many pages, and in small pages of the volume and huge ones.
const BYTES: [usize; 2] = [20_000, 200_000];

/// The number that a content was made of, if it is whole.
fn number(content: &[u8]) -> Option<u64> {
    let mut words = content.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let first = words.next()?;
    words.all(|word| word == first).then_some(first)
}

fn content(number: u64, bytes: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(bytes / 8)
}

fn images_have_whole_operations(checksums: bool) {
    let home = tempfile::tempdir().unwrap();
    let (volume, tracker) = tracked(&options().checksums(checksums), true);
    let mut series = Checkpoints::open(home.path(), 1).unwrap();
    let folder = Directory::to_read(home.path());
    // What each thread has begun, and what it has ended.
    let begun: [AtomicU64; THREADS as usize] = Default::default();
    let ended: [AtomicU64; THREADS as usize] = Default::default();
    let stop = AtomicBool::new(false);
    for thread in 0..THREADS {
        for (kind, bytes) in BYTES.into_iter().enumerate() {
            let file = volume.create_file(ROOT, format!("{kind}-{thread}").as_bytes(), &Meta::file(0o644)).unwrap();
            file.write_at(&content(0, bytes), 0).unwrap();
        }
    }
    let strays = tracker.strays();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (volume, begun, ended, stop) = (&volume, &begun[thread as usize], &ended[thread as usize], &stop);
            scope.spawn(move || {
                for round in 1.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    begun.store(round, Ordering::SeqCst);
                    for (kind, bytes) in BYTES.into_iter().enumerate() {
                        let name = format!("{kind}-{thread}");
                        let ino = volume.lookup(ROOT, name.as_bytes()).unwrap().ino;
                        let new = content(round, bytes);
                        if round % 5 == 0 {
                            let fresh = format!("new-{thread}");
                            let file = volume.create_file(ROOT, fresh.as_bytes(), &Meta::file(0o644)).unwrap();
                            file.write_at(&new, 0).unwrap();
                            drop(file);
                            volume.rename(ROOT, fresh.as_bytes(), ROOT, name.as_bytes(), Rename::Replace).unwrap();
                        } else {
                            volume.open(ino).unwrap().write_at(&new, 0).unwrap();
                        }
                    }
                    ended.store(round, Ordering::SeqCst);
                }
            });
        }
        for round in 0..amount(20, 200) {
            let before: Vec<u64> = ended.iter().map(|ended| ended.load(Ordering::SeqCst)).collect();
            let taken = volume.checkpoint(&mut series).unwrap();
            let after: Vec<u64> = begun.iter().map(|begun| begun.load(Ordering::SeqCst)).collect();
            assert_eq!((taken.complete, taken.trouble), (round == 0, None));
            let (_, mut files) = restored(&folder, None).unwrap();
            for thread in 0..THREADS as usize {
                // One that is being written has no name that counts yet.
                files.remove(&format!("new-{thread}"));
                let numbers = [0, 1].map(|kind| {
                    let found = files.remove(&format!("{kind}-{thread}")).unwrap();
                    assert_eq!(found.len(), BYTES[kind]);
                    number(&found).unwrap_or_else(|| panic!("round {round}: half of a write to {kind}-{thread}"))
                });
                let range = before[thread]..=after[thread];
                let fits = numbers.iter().all(|number| range.contains(number));
                // The first is written first.
                assert!(fits && numbers[0] >= numbers[1] && numbers[0] - numbers[1] <= 1, "{numbers:?} in {range:?}");
            }
            assert!(files.is_empty(), "{:?}", files.keys());
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(tracker.strays(), strays, "every store is part of an operation");
}

#[test]
fn an_image_has_all_of_an_operation_or_nothing() {
    images_have_whole_operations(false);
}

#[test]
fn an_image_of_a_volume_with_checksums_too() {
    images_have_whole_operations(true);
}
