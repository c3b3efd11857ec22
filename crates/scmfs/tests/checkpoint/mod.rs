//! Checkpoints: what an image holds, what a loss of power leaves, and what damage is found.

mod hostile;
mod meanwhile;
mod power;
mod running;

use crate::support::region::Shared;
use pocketstone_media::{Heap, Medium, Region, TRACKED_BYTES, Tracked, Tracker};
use pocketstone_scmfs::checkpoint::{Checkpoints, Directory, Folder, Output, restore};
use pocketstone_scmfs::{CreateOptions, Geometry, Meta, OpenOptions, Operations, ROOT, Volume, check};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The volume's files and what they hold.
type Files = BTreeMap<String, Vec<u8>>;

const BYTES: usize = 4 << 20;

fn options() -> CreateOptions {
    let geometry = Geometry::new(512, 64 << 10);
    CreateOptions::default().geometry(geometry).inodes(256).uuid([7; 16])
}

/// An empty volume in memory whose stores are tracked.
fn tracked(options: &CreateOptions, background: bool) -> (Volume, Arc<Tracker>) {
    let region = Tracked::new(Heap::new(BYTES), 0);
    let tracker = region.tracker().unwrap().clone();
    let memory = Shared::of(region);
    Volume::create(memory.region(), options).unwrap();
    let open = OpenOptions::default().background(background);
    (Volume::open(memory.region(), &open).unwrap(), tracker)
}

/// All files of a folder's checkpoint, after fsck found nothing.
fn restored(folder: &dyn Folder, generation: Option<u64>) -> Result<(u64, Files), String> {
    let mut image = None;
    let done = restore(folder, generation, |bytes| {
        let memory = Shared::new(bytes);
        let region = memory.region();
        image = Some(memory);
        Ok(Box::new(Mutex::new(Medium::new(region))))
    });
    let done = done.map_err(|error| pocketstone_scmfs::vfs::chain(&error))?;
    let image = image.unwrap();
    let report = check(image.region()).unwrap();
    assert_eq!(report.findings, [], "generation {}", done.generation);
    let volume = Volume::open(image.region(), &OpenOptions::default()).unwrap();
    let mut names = Vec::new();
    let take = &mut |entry: &pocketstone_scmfs::Entry| {
        names.push((entry.ino, String::from_utf8(entry.name.clone()).unwrap()));
        true
    };
    volume.read_directory(ROOT, 0, take).unwrap();
    let dots = [".", ".."];
    let files = names.into_iter().filter(|(_, name)| !dots.contains(&name.as_str())).map(|(ino, name)| {
        let file = volume.open(ino).unwrap();
        let mut content = vec![0; file.attributes().size as usize];
        assert_eq!(file.read_at(&mut content, 0).unwrap(), content.len());
        (name, content)
    });
    let files = files.collect();
    drop(volume);
    Ok((done.generation, files))
}

#[test]
fn checkpoints_have_what_there_was_and_only_what_changed_is_stored() {
    let home = tempfile::tempdir().unwrap();
    let (volume, _) = tracked(&options(), false);
    let mut series = Checkpoints::open(home.path(), 10).unwrap();
    let file = volume.create_file(ROOT, b"f", &Meta::file(0o644)).unwrap();
    file.write_at(&[1; 300 << 10], 0).unwrap();
    let first = volume.checkpoint(&mut series).unwrap();
    assert!(first.complete && first.generation == 1 && first.trouble.is_none());
    // Nothing: not even times.
    let nothing = volume.checkpoint(&mut series).unwrap();
    assert_eq!((nothing.complete, nothing.pages), (false, 0));
    file.write_at(&[2; 5000], 100_000).unwrap();
    let third = volume.checkpoint(&mut series).unwrap();
    // 5000 bytes touch two or three pages; times and size lie in another.
    assert!((2..=6).contains(&third.pages), "{third:?}");
    volume.unlink(ROOT, b"f").unwrap();
    drop(file);
    volume.checkpoint(&mut series).unwrap();
    let folder = Directory::to_read(home.path());
    let mut content = vec![1; 300 << 10];
    let expected = |content: &[u8]| Files::from([("f".to_owned(), content.to_vec())]);
    assert_eq!(restored(&folder, Some(1)).unwrap(), (1, expected(&content)));
    assert_eq!(restored(&folder, Some(2)).unwrap(), (2, expected(&content)));
    content[100_000..105_000].fill(2);
    assert_eq!(restored(&folder, Some(3)).unwrap(), (3, expected(&content)));
    assert_eq!(restored(&folder, None).unwrap(), (4, Files::new()));
    assert!(restored(&folder, Some(9)).unwrap_err().contains("no checkpoint 9"));
    // The target is one writer's, and one volume's.
    let error = Checkpoints::open(home.path(), 1).map(drop).unwrap_err();
    assert!(error.to_string().contains("another process's checkpoints"), "{error}");
    drop(series);
    let (other, _) = tracked(&options().uuid([8; 16]), false);
    let error = other.checkpoint(&mut Checkpoints::open(home.path(), 1).unwrap()).unwrap_err();
    assert!(error.to_string().contains("checkpoints of another volume"), "{error}");
    // A new series of the same volume begins with all of it.
    let again = volume.checkpoint(&mut Checkpoints::open(home.path(), 1).unwrap()).unwrap();
    assert_eq!((again.complete, again.generation), (true, 5));
    assert_eq!(restored(&folder, None).unwrap(), (5, Files::new()));
    assert!(restored(&folder, Some(4)).is_err(), "one is kept");
}

#[test]
fn chains_are_put_together_and_old_ones_removed() {
    const KEEP: u64 = 3;
    let home = tempfile::tempdir().unwrap();
    let (volume, _) = tracked(&options(), false);
    let mut series = Checkpoints::open(home.path(), KEEP as u32).unwrap();
    let file = volume.create_file(ROOT, b"f", &Meta::file(0o644)).unwrap();
    file.write_at(&[0xFF; 1 << 20], 0).unwrap();
    let folder = Directory::to_read(home.path());
    let most = 3 * BYTES as u64;
    for round in 1..=90_u64 {
        let at = round * 11_111 % (1 << 20);
        file.write_at(&round.to_le_bytes(), at.min((1 << 20) - 8)).unwrap();
        // Most of these are small, some are not.
        if round % 9 == 0 {
            file.write_at(&vec![round as u8; 200 << 10], round * 997).unwrap();
        }
        let taken = volume.checkpoint(&mut series).unwrap();
        assert_eq!((taken.generation, taken.trouble), (round, None));
        let bytes: u64 =
            std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes < most, "{bytes} bytes after {round}");
        let mut now = vec![0; 1 << 20];
        file.read_at(&mut now, 0).unwrap();
        if round % 7 == 0 {
            let (_, files) = restored(&folder, None).unwrap();
            assert!(files["f"] == now, "round {round}");
            for kept in round.saturating_sub(KEEP - 1)..round {
                assert_eq!(restored(&folder, Some(kept)).unwrap().0, kept);
            }
        }
    }
    assert!(home.path().read_dir().unwrap().count() < 80);
}

#[test]
fn the_next_one_has_everything_when_a_file_that_it_would_build_on_is_gone() {
    let home = tempfile::tempdir().unwrap();
    let (volume, _) = tracked(&options(), false);
    let mut series = Checkpoints::open(home.path(), 9).unwrap();
    let folder = Directory::to_read(home.path());
    let file = volume.create_file(ROOT, b"f", &Meta::file(0o644)).unwrap();
    let names = || -> Vec<_> {
        let names = home.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<_> = names.filter(|path| !path.ends_with("lock")).collect();
        names.sort();
        names
    };
    let mut taken = |content: u8| {
        file.write_at(&[content; 5000], 0).unwrap();
        let taken = volume.checkpoint(&mut series).unwrap();
        let files = Files::from([("f".to_owned(), vec![content; 5000])]);
        assert_eq!(restored(&folder, None).unwrap(), (taken.generation, files));
        (taken.generation, taken.complete)
    };
    assert_eq!([1, 2, 3].map(&mut taken), [(1, true), (2, false), (3, false)]);
    // The oldest, as one does who needs room: it alone has everything.
    std::fs::remove_file(&names()[0]).unwrap();
    assert_eq!([4, 5].map(&mut taken), [(4, true), (5, false)]);
    // All: no number is given twice.
    names().iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert_eq!([6, 7].map(&mut taken), [(6, true), (7, false)]);
    // One that is another file by the same name.
    std::fs::copy(&names()[0], home.path().join("kept")).unwrap();
    let other = tempfile::tempdir().unwrap();
    let mut elsewhere = Checkpoints::open(other.path(), 9).unwrap();
    (0..6).for_each(|_| drop(volume.checkpoint(&mut elsewhere).unwrap()));
    let theirs = other.path().join(names()[0].file_name().unwrap());
    std::fs::copy(theirs, &names()[0]).unwrap();
    assert_eq!(taken(8), (8, true));
}

#[test]
fn whoever_asks_is_answered_and_a_target_of_another_volume_is_refused_at_once() {
    use pocketstone_scmfs::checkpoint::Schedule;
    let home = tempfile::tempdir().unwrap();
    let (volume, _) = tracked(&options(), true);
    let schedule = |target: &str, every| Schedule::new(home.path().join(target)).every(every);
    volume.schedule_checkpoints(&schedule("a", None)).unwrap();
    let words: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    words.iter().for_each(|word| volume.ask_for_checkpoint(word).unwrap());
    // Another series begins when all of them are answered, and has their answers.
    volume.schedule_checkpoints(&schedule("b", None)).unwrap();
    let state = volume.checkpoint_state().unwrap();
    assert!(state.waiting == 0 && state.taken == 0, "{state:?}");
    assert!(state.answers.iter().map(|answer| &answer.word).eq(&words), "{state:?}");
    let numbers = state.answers.iter().map(|answer| answer.taken.as_ref().unwrap().generation);
    assert!(numbers.eq(1..=20));
    let (other, _) = tracked(&options().uuid([8; 16]), false);
    let hourly = Some(std::time::Duration::from_secs(3600));
    volume.schedule_checkpoints(&schedule("c", None)).unwrap();
    let error = other.schedule_checkpoints(&schedule("a", hourly)).unwrap_err();
    assert!(error.to_string().contains("checkpoints of another volume"), "{error}");
    // Of one that is asked for, whoever asks is told.
    other.schedule_checkpoints(&schedule("a", None)).unwrap();
    other.ask_for_checkpoint("now").unwrap();
    pocketstone_testing::wait::until("the answer", || other.checkpoint_state().unwrap().waiting == 0);
    let state = other.checkpoint_state().unwrap();
    let error = state.answers[0].error.as_ref().unwrap();
    assert!(error.contains("checkpoints of another volume") && state.answers[0].taken.is_none(), "{error}");
}

#[test]
fn as_many_are_kept_as_before_unless_it_is_said() {
    let home = tempfile::tempdir().unwrap();
    let (volume, _) = tracked(&options(), false);
    let folder = Directory::to_read(home.path());
    let take = |keep: Option<u32>| volume.checkpoint(&mut Checkpoints::open(home.path(), keep).unwrap()).unwrap();
    let there = || (1..=9).filter(|n| restored(&folder, Some(*n)).is_ok()).collect::<Vec<u64>>();
    (0..2).for_each(|_| drop(take(None)));
    assert_eq!(there(), [2]);
    (0..2).for_each(|_| drop(take(Some(3))));
    take(None);
    assert_eq!(there(), [3, 4, 5]);
}

/// A process that is killed leaves what its last ones build on: nobody asked to keep those.
#[test]
fn a_series_that_ends_anywhere_does_not_make_the_next_one_keep_more() {
    let home = tempfile::tempdir().unwrap();
    let (volume, _) = tracked(&options(), false);
    for round in 0..5 {
        let mut series = Checkpoints::open(home.path(), None).unwrap();
        let numbers = [(); 3].map(|()| volume.checkpoint(&mut series).unwrap().generation);
        let there: Vec<u64> = (1..=15).filter(|n| Directory::to_read(home.path()).open(&name(*n)).is_ok()).collect();
        assert_eq!(there, numbers, "round {round}");
    }
}

fn name(generation: u64) -> String {
    format!("checkpoint-{generation:020}")
}

#[test]
fn closing_a_volume_takes_a_last_one_that_is_clean() {
    use pocketstone_scmfs::checkpoint::Schedule;
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("made");
    let (volume, _) = tracked(&options(), true);
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let keeper = told.clone();
    let schedule = Schedule::new(&target)
        .keep(1)
        .every(std::time::Duration::from_secs(3600))
        .report(move |line| keeper.lock().unwrap().push(line.to_owned()));
    volume.schedule_checkpoints(&schedule).unwrap();
    volume.ask_for_checkpoint("now").unwrap();
    pocketstone_testing::wait::until("the answer", || {
        volume.checkpoint_state().is_some_and(|state| state.answers.iter().any(|answer| answer.word == "now"))
    });
    assert_eq!(volume.checkpoint_state().unwrap().taken, 1);
    volume.create_file(ROOT, b"late", &Meta::file(0o644)).unwrap().write_at(b"said", 0).unwrap();
    volume.close().unwrap();
    let folder = Directory::to_read(&target);
    assert_eq!(restored(&folder, None).unwrap(), (2, Files::from([("late".into(), b"said".into())])));
    let mut image = None;
    restore(&folder, None, |bytes| {
        let memory = Shared::new(bytes);
        let region = memory.region();
        image = Some(memory);
        Ok(Box::new(Mutex::new(Medium::new(region))))
    })
    .unwrap();
    // One that was not closed could not be opened so.
    let read_only = OpenOptions::default().read_only(true);
    Volume::open(image.unwrap().region(), &read_only).unwrap();
    assert!(told.lock().unwrap().is_empty());
    assert_eq!(BYTES as u64 % TRACKED_BYTES, 0);
}

/// Offsets and ends of what was stored, or got room.
#[derive(Clone, Default)]
struct Touched(Arc<Mutex<Vec<(u64, u64)>>>);

impl Output for Touched {
    fn write_all_at(&self, from: &[u8], at: u64) -> std::io::Result<()> {
        self.allocate(at, from.len() as u64)
    }

    fn allocate(&self, at: u64, bytes: u64) -> std::io::Result<()> {
        self.0.lock().unwrap().push((at, at + bytes));
        Ok(())
    }

    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_byte_of_a_region_is_stored_or_gets_room_once() {
    let home = tempfile::tempdir().unwrap();
    let (volume, _) = tracked(&options(), false);
    let mut series = Checkpoints::open(home.path(), 10).unwrap();
    let file = volume.create_file(ROOT, b"f", &Meta::file(0o644)).unwrap();
    for (value, bytes, at) in [(1, 1 << 20, 0), (2, 5000, 100_000), (0, 200_000, 300_000), (3, 64 << 10, 90_000)] {
        file.write_at(&vec![value; bytes], at).unwrap();
        volume.checkpoint(&mut series).unwrap();
    }
    for generation in 1..=4 {
        let touched = Touched::default();
        let made = touched.clone();
        restore(&Directory::to_read(home.path()), Some(generation), |bytes| {
            assert_eq!(bytes, BYTES as u64);
            Ok(Box::new(made))
        })
        .unwrap();
        let mut touched = touched.0.lock().unwrap().clone();
        touched.sort_unstable();
        assert!(touched.len() > 2);
        assert_eq!(touched.iter().fold(0, |end, &(from, to)| if from == end { to } else { u64::MAX }), BYTES as u64);
    }
}
