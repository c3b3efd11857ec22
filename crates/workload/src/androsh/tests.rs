use super::*;
use std::collections::BTreeMap;

fn spec(script: Script, media: Media) -> AndroshSpec {
    AndroshSpec {
        script,
        media,
        tree: Tree::Root,
        tree_file_bytes: 4096,
        names_are: NamesAre::Cached,
        rounds: None,
        scale: 1,
        request_bytes: 64 << 10,
        data: Data::Random,
    }
}

/// Plays operations on a table of sizes; the files that are left, and bytes written.
fn play(spec: &AndroshSpec, seed: u64) -> (BTreeMap<u32, u64>, u64) {
    let mut sizes: BTreeMap<u32, u64> = (0..).zip(spec.population(seed).list().iter().map(|f| f.bytes)).collect();
    let names = spec.names(seed).len() as u32;
    let (mut open, mut written) = (None, 0);
    for operation in spec.operations(seed) {
        match operation {
            Operation::Create { file } => {
                assert!(file < names && sizes.insert(file, 0).is_none() && open.replace(file).is_none());
            }
            Operation::CreateFile { file } => assert!(file < names && sizes.insert(file, 0).is_none()),
            Operation::Open { file, .. } => assert!(sizes.contains_key(&file) && open.replace(file).is_none()),
            Operation::Close { file } => assert_eq!(open.take(), Some(file)),
            Operation::Append { file, bytes } => {
                assert!(open == Some(file) && (1..=spec.request_bytes).contains(&bytes));
                *sizes.get_mut(&file).unwrap() += bytes;
                written += bytes;
            }
            Operation::Write { file, offset, bytes } => {
                let size = sizes.get_mut(&file).unwrap();
                *size = (*size).max(offset + bytes);
                written += bytes;
            }
            Operation::Read { file, offset, bytes } => assert!(open == Some(file) && offset + bytes <= sizes[&file]),
            Operation::ReadFile { file } => assert!(open.is_none() && sizes.contains_key(&file)),
            Operation::Delete { file } => assert!(open.is_none() && sizes.remove(&file).is_some()),
            Operation::Archive { first, files, into } => {
                assert!(open.is_none() && (first..first + files).all(|file| sizes.contains_key(&file)));
                assert!(into < names && sizes.insert(into, 1).is_none());
            }
            other => panic!("{other:?} is none of AndroSH's"),
        }
    }
    assert_eq!(open, None);
    (sizes, written)
}

#[test]
fn what_is_copied_is_what_the_reference_lists() {
    // Number of files and MiB of each in Figure 32 and 33, rounds in 34.
    let expected = [
        (Media::Photo, 2, 50, 50, 10),
        (Media::Song, 6, 16, 17, 5),
        (Media::Audio, 25, 4, 4, 2),
        (Media::Video, 100, 1, 2, 1),
    ];
    for (media, mib, same, random, rounds) in expected {
        let (files, written) = play(&spec(Script::Copy, media), 1);
        assert!(files.len() == same && files.values().all(|bytes| *bytes == mib << 20));
        assert_eq!(spec(Script::Copy, media).throughput_bytes(1), Some(written));
        assert!((96 << 20..=100 << 20).contains(&written), "they fill 100 MiB");
        let tree = spec(Script::CopyTree, media);
        let (files, _) = play(&tree, 1);
        assert!(files.len() == random && files.values().all(|bytes| *bytes <= mib << 20));
        assert_ne!(files, play(&tree, 2).0, "sizes come from the seed");
        assert!(tree.names(1).iter().all(|name| name.split('/').count() == 4));
        // Each round leaves nothing.
        let one = spec(Script::CompressOne, media);
        let archives = one.operations(1).filter(|o| matches!(o, Operation::Archive { .. })).count();
        assert_eq!((play(&one, 1).0.len(), archives), (0, rounds));
        assert_eq!(play(&one, 1).1, rounds as u64 * (mib << 20));
    }
}

#[test]
fn many_files_are_compressed_into_one() {
    let many = spec(Script::CompressMany, Media::Photo);
    let (mut sum, seeds) = (0, 40);
    for seed in 0..seeds {
        let (files, written) = play(&many, seed);
        assert_eq!(files.len(), 51);
        assert!(files.iter().take(50).all(|(_, bytes)| (4096..=6 << 20).contains(bytes)));
        sum += written;
    }
    // "About 150 MB": 50 (4 KiB + 6 MiB) / 2 = 157,388,800 bytes; of 2,000 sizes the mean's standard deviation is
    // 6 MiB / sqrt(12 * 2000) = 1.3 % of the mean; five of them.
    let mean = sum / seeds;
    assert!(mean.abs_diff(157_388_800) < 10_200_000, "{mean}");
    assert_eq!(many.names(1)[50], "archive.tar.gz");
}

#[test]
fn records_are_moved_once_each_in_order_or_not() {
    let offsets = |script, seed| -> Vec<u64> {
        let of = |operation| match operation {
            Operation::Read { offset, bytes: 65_536, .. } | Operation::Write { offset, bytes: 65_536, .. } => {
                Some(offset / 65_536)
            }
            _ => None,
        };
        spec(script, Media::Photo).operations(seed).filter_map(of).collect()
    };
    let all: Vec<u64> = (0..1600).collect();
    for script in [Script::SequentialWrite, Script::SequentialRead] {
        assert_eq!(offsets(script, 1), all.repeat(3), "three rounds");
    }
    for script in [Script::RandomWrite, Script::RandomRead] {
        let mut found = offsets(script, 1);
        assert!(found != all && found != offsets(script, 2));
        found.sort_unstable();
        assert_eq!(found, all);
    }
    assert_eq!(play(&spec(Script::SequentialWrite, Media::Photo), 1).0, [(0, 100 << 20)].into());
    play(&spec(Script::RandomRead, Media::Photo), 1);
    assert_eq!(spec(Script::SequentialRead, Media::Photo).throughput_bytes(1), Some(300 << 20));
    // Three rounds: two of them find a file to delete.
    let deleted = |o: &Operation| matches!(o, Operation::Delete { file: 0 });
    assert_eq!(spec(Script::SequentialWrite, Media::Photo).operations(1).filter(deleted).count(), 2);
}

#[test]
fn trees_are_read_ten_times_when_cached_and_once_when_cold() {
    for (tree, parts) in [(Tree::Root, 1), (Tree::Folders, 2), (Tree::Nested, 4)] {
        let read = AndroshSpec { tree, ..spec(Script::ReadTree, Media::Photo) };
        assert!(read.population(1).list().iter().all(|f| f.bytes == 4096 && f.name.split('/').count() == parts));
        assert_eq!((read.operations(1).count(), read.setup().count()), (500, 50));
        assert_eq!(read.throughput_bytes(1), Some(500 * 4096));
        let cold = AndroshSpec { names_are: NamesAre::Cold, ..read };
        assert_eq!((cold.operations(1).count(), cold.setup().count()), (50, 0));
        assert_eq!(cold.population(1).caches, Caches::Cold);
    }
}

#[test]
fn a_cache_is_read_twice_as_often_as_it_grows_or_shrinks() {
    let cache = spec(Script::ApplicationCache, Media::Photo);
    let count = |is: fn(&Operation) -> bool| cache.operations(1).filter(is).count();
    let reads = count(|o| matches!(o, Operation::ReadFile { .. }));
    let creates = count(|o| matches!(o, Operation::Create { .. }));
    let deletes = count(|o| matches!(o, Operation::Delete { .. }));
    // 1,000 uses with odds of 1/2, 1/4, 1/4: standard deviations 15.8 and 13.7; five of them.
    assert_eq!(reads + creates + deletes, 1000);
    assert!(reads.abs_diff(500) < 79 && creates.abs_diff(250) < 69 && deletes.abs_diff(250) < 69);
    let (files, _) = play(&cache, 1);
    assert_eq!(files.len(), 200 + creates - deletes);
    assert!(files.values().all(|bytes| (1024..=65_536).contains(bytes)));
}

#[test]
fn scaling_divides_sizes_and_nothing_else() {
    for script in Script::ALL {
        let whole = spec(script, Media::Song);
        let small = AndroshSpec { scale: 8, request_bytes: 65_536, ..whole.clone() };
        small.check().unwrap();
        let ((many, written), (few, less)) = (play(&whole, 1), play(&small, 1));
        assert_eq!(many.len(), few.len(), "{script:?}");
        // Random sizes are drawn anew: by sqrt(1/12) of the largest, and there are 17 of them at least.
        assert!(less * 8 <= written * 13 / 10 && less * 8 >= written * 7 / 10, "{script:?}: {less} of {written}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_fix() {
    let cure = |spec: AndroshSpec| spec.check().unwrap_err().cure().unwrap().to_owned();
    let usual = || spec(Script::CompressOne, Media::Video);
    assert!(cure(AndroshSpec { request_bytes: 4096, ..usual() }).contains("at least 65536"));
    assert!(cure(AndroshSpec { request_bytes: 0, ..usual() }).contains("1 or more"));
    assert!(cure(AndroshSpec { scale: 0, ..usual() }).contains("from 1 to 1024"));
    assert!(cure(AndroshSpec { rounds: Some(0), ..usual() }).contains("from 1 to 1000"));
    let record = AndroshSpec { scale: 1024, request_bytes: 1 << 20, ..spec(Script::RandomRead, Media::Photo) };
    assert!(cure(record).contains("at most 102400"));
    let of = |values: &[(&str, &str)]| {
        let point: Point = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        AndroshSpec::of_point(&point, &mut crate::testing::Unprepared)
    };
    let refused = of(&[("script", "copy"), ("tree", "nested")]).unwrap_err();
    assert_eq!(refused.factor, "tree");
    assert!(refused.error.cure().unwrap().contains("it is for read-tree"));
    assert!(of(&[("script", "copy"), ("media", "video")]).is_ok());
    assert_eq!(of(&[("media", "video")]).unwrap_err().factor, "media");
}

#[test]
fn a_script_has_the_rate_of_all_calls_but_deletions() {
    let found = |script| {
        let spec = AndroshSpec { rounds: Some(2), scale: 100, request_bytes: 1 << 20, ..spec(script, Media::Video) };
        let ns = |operation| if matches!(operation, Operation::Delete { .. }) { 1_000_000 } else { 250 };
        let calls = crate::testing::took(spec.operations(1).map(ns));
        spec.metrics(&Ran { seed: 1, calls: &calls, filled_bytes: None })
    };
    // Twice 1 MiB: creating, opening (a copy is open from its creation), a call and closing, 250 ns each.
    assert_eq!(found(Script::SequentialWrite), [("moved_bytes_per_s", Some(2_097_152.0 * 1e9 / 2000.0))]);
    assert_eq!(found(Script::Copy), [("moved_bytes_per_s", Some(2_097_152.0 * 1e9 / 1500.0))]);
    assert_eq!(found(Script::CompressOne), [("moved_bytes_per_s", None)], "its result is a time");
}
