//! A crash at any moment of the largest atomic write, on pages of the default sizes, leaves all of it or
//! nothing.

use crate::support::explore::{Case, Effort, Start, explore_all};
use crate::support::shape::{Shape, expect_sound};
use crate::support::subject::{OpenFiles, apply_both};
use crate::support::{amount, say, seed};
use pocketstone_fstest::Op;
use pocketstone_media::{Pcm, PcmOptions};
use pocketstone_random::Random;
use pocketstone_scmfs::{CreateOptions, Error, File, FileBatch, FileType, Meta, OpenOptions, Operations, ROOT, Volume};

const MIB: u64 = 1 << 20;

fn start() -> Start {
    let mut shape = Shape::normal();
    shape.region_bytes = 72 * MIB;
    shape.create.inodes = Some(64);
    let (shared, volume, mut model) = shape.start();
    let mut files = OpenFiles::default();
    let ops = [
        Op::Create("/a".into(), FileType::Regular, 0o644, None),
        Op::Write("/a".into(), 0, 3 * MIB, 1),
        Op::Create("/b".into(), FileType::Regular, 0o644, None),
        Op::Write("/b".into(), 0, 100, 2),
    ];
    for op in &ops {
        apply_both(&volume, &mut files, &mut model, op, false).expect("a start can be built");
    }
    drop(files);
    volume.close().expect("a start can be closed");
    model.restart();
    Start { name: "two files", shape, image: shared.image(), model, prelude: Vec::new() }
}

#[test]
fn a_mebibyte_is_written_whole_or_not_at_all() {
    let (start, seed) = (start(), seed(1));
    let volume = Volume::open(crate::support::region::Shared::from_image(&start.image).region(), &start.shape.open);
    let volume = volume.expect("a start opens");
    let file = volume.open(volume.resolve("/a").expect("a name")).expect("a file opens");
    assert_eq!(file.atomic_max(), MIB);
    drop(file);
    volume.abandon();
    // Across two huge pages at odd bytes, beyond the end, and of a file that moves to huge pages for it.
    let writes = [("/a", 2 * MIB - 300_001), ("/a", 3 * MIB - 7), ("/b", 12_345)];
    let cases = writes.map(|(path, offset)| Case {
        start: &start,
        ops: vec![Op::WriteAtomic(path.into(), offset, MIB, 3)],
        close: false,
        seed,
    });
    let effort = Effort { lines: 1, states_per_fence: amount(3, 100) as usize, recrash_every: 0 };
    let (count, failures) = explore_all(&cases, &effort, &|| {});
    say(&format!("atomic writes of 1 MiB, seed {seed}: {count:?}"));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(count.states.into_inner() >= 3 * 6, "hardly any crash states");
}

/// A volume with room for the largest batch.
fn large(checksums: bool) -> Shape {
    let shape = Shape { region_bytes: 72 * MIB, ..Shape::normal() };
    if checksums { shape.with_checksums() } else { shape }
}

/// What a file holds.
fn held(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.attributes().size as usize];
    assert_eq!(file.read_at(&mut bytes, 0).expect("a read"), bytes.len());
    bytes
}

#[test]
fn a_batch_that_cannot_be_one_is_refused_and_changes_nothing() {
    for checksums in [false, true] {
        let shape = large(checksums);
        let (shared, volume, _) = shape.start();
        let other = shape.start().1;
        let [a, b] = [&b"a"[..], b"b"].map(|name| volume.create_file(ROOT, name, &Meta::file(0o600)).expect("a file"));
        let foreign = other.create_file(ROOT, b"a", &Meta::file(0o600)).expect("a file");
        a.write_at(&[1; 5000], 0).expect("space");
        b.write_at(&[2; 9000], 0).expect("space");
        let much = vec![9; volume.batch_max() as usize];
        type Writes<'a> = [(u64, &'a [u8])];
        let (early, late): (&Writes<'_>, &Writes<'_>) = (&[(0, &much[1..]), (0, b"xx")], &[(3, &much[300..])]);
        let refused: [(&File, &Writes<'_>, Option<u64>, Error); 6] = [
            (&a, &[(9, b"y")], None, Error::Invalid),
            (&foreign, &[(9, b"y")], None, Error::Invalid),
            (&b, &[(9, b"y")], Some(9), Error::Invalid),
            (&b, early, None, Error::TooLarge),
            (&b, late, None, Error::TooLarge),
            (&b, &[(u64::MAX - 1, b"xx")], None, Error::TooLarge),
        ];
        for (file, writes, size, expected) in refused {
            let first = FileBatch { file: &a, writes: &[(7000, b"x")], size: None };
            let found = volume.write_batch(&[first, FileBatch { file, writes, size }]).expect_err("it is refused");
            assert_eq!(found.errno(), expected.errno(), "{found}");
            assert_eq!((held(&a), held(&b)), (vec![1; 5000], vec![2; 9000]));
        }
        // As much as there is room for, and into both.
        let room = much.len() - 2 * (144 + 64);
        let (start, rest): (&Writes<'_>, &Writes<'_>) = (&[(0, &much[..100])], &[(9000, &much[100..room])]);
        let first = FileBatch { file: &a, writes: start, size: Some(100) };
        volume.write_batch(&[first, FileBatch { file: &b, writes: rest, size: None }]).expect("one record takes it");
        assert_eq!(held(&a), [9; 100]);
        assert_eq!((&held(&b)[..9000], &held(&b)[9000..]), (&[2; 9000][..], &much[100..room]));
        volume.write_batch(&[]).expect("nothing to do");
        drop((a, b, foreign));
        volume.close().expect("a clean close");
        expect_sound(&shared);
    }
}

/// A small page of the volumes of this file.
const PAGE: usize = 4096;

#[test]
fn a_batch_leaves_what_its_writes_say_in_their_order() {
    let mut random = Random::new(seed(3));
    for checksums in [false, true] {
        let (shared, volume, _) = large(checksums).start();
        let file = volume.create_file(ROOT, b"a", &Meta::file(0o600)).expect("a file");
        let mut model = vec![7; 8 * PAGE + 100];
        file.write_at(&model, 0).expect("space");
        for round in 0..200 {
            let writes: Vec<(u64, Vec<u8>)> = (0..1 + random.below(4))
                .map(|_| {
                    let offset = random.below(8 * PAGE as u64) as usize;
                    let end = (offset + 1 + random.below(2 * PAGE as u64) as usize).min(model.len() + 50);
                    // Mostly what is there already, or was there before an earlier write of the same batch.
                    let mut data = model[offset..end.min(model.len())].to_vec();
                    data.resize(end - offset, 1);
                    for _ in 0..random.below(4) {
                        let at = random.below(data.len() as u64) as usize;
                        data[at] = random.below(256) as u8;
                    }
                    (offset as u64, data)
                })
                .collect();
            for (offset, data) in &writes {
                let end = *offset as usize + data.len();
                model.resize(model.len().max(end), 0);
                model[*offset as usize..end].copy_from_slice(data);
            }
            let borrowed: Vec<(u64, &[u8])> = writes.iter().map(|(offset, data)| (*offset, &data[..])).collect();
            volume.write_batch(&[FileBatch { file: &file, writes: &borrowed, size: None }]).expect("space");
            assert!(held(&file) == model, "checksums {checksums}, round {round}: {borrowed:?}");
        }
        drop(file);
        volume.close().expect("a clean close");
        expect_sound(&shared);
    }
}

#[test]
fn a_batch_wears_the_medium_by_what_it_changes() {
    let (memory, wear) = Pcm::new(64 * MIB, &PcmOptions::default().read_ns(0).write_ns(0));
    Volume::create(Box::new(memory.region().expect("a region")), &CreateOptions::default()).expect("a volume");
    let volume = Volume::open(Box::new(memory.region().expect("a region")), &OpenOptions::default()).expect("a volume");
    let file = volume.create_file(ROOT, b"a", &Meta::file(0o600)).expect("a file");
    let mut pages = vec![7; 4 * PAGE];
    file.write_at(&pages, 0).expect("space");
    let lines = |pages: &[u8]| {
        let before = wear.summary().writes_total;
        let writes: Vec<(u64, &[u8])> =
            pages.chunks(PAGE).enumerate().map(|(i, page)| ((i * PAGE) as u64, page)).collect();
        volume.write_batch(&[FileBatch { file: &file, writes: &writes, size: None }]).expect("space");
        wear.summary().writes_total - before
    };
    pages.iter_mut().step_by(PAGE).for_each(|byte| *byte = 8);
    let few = lines(&pages);
    pages.fill(9);
    let all = lines(&pages);
    // 256 lines of four pages, twice: in the record and in their places. And of each page one, twice, beside the rest
    // of two records and the inode.
    assert!(all >= 512, "{all} lines for four whole pages");
    assert!((8..40).contains(&few), "{few} lines for a byte in each of four pages");
}
