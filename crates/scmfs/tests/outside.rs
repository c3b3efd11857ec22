//! What those see who reach the content of files without the volume, and what the volume does not take from them.

use pocketstone_media::{MapOptions, Mapped};
use pocketstone_random::Random;
use pocketstone_scmfs::{
    Allocate, Attr, CreateOptions, Error, File, Geometry, Meta, OpenOptions, Operations, OutsideStores, Protection,
    ROOT, Rename, Running, SetAttr, Shown, Threshold, Volume, Watch, Written, check,
};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[path = "outside/append.rs"]
mod append;
#[path = "outside/records.rs"]
mod records;
#[path = "outside/still.rs"]
mod still;

const BYTES: u64 = 1 << 20;

/// A volume, and the file that its bytes can be looked up in.
struct Ground {
    home: tempfile::TempDir,
    bytes: std::fs::File,
}

impl Ground {
    fn new(checksums: bool) -> (Ground, Volume) {
        let geometry = Geometry::new(256, 16 << 10);
        let threshold = Threshold::Bytes(20_000);
        let create = CreateOptions::default().geometry(geometry).threshold(threshold).inodes(64).checksums(checksums);
        let ground = Ground::of(BYTES, &create);
        let volume = ground.open();
        (ground, volume)
    }

    fn of(bytes: u64, create: &CreateOptions) -> Ground {
        let home = tempfile::tempdir().unwrap();
        let region = Mapped::create(&home.path().join("region"), bytes, &MapOptions::default()).unwrap();
        Volume::create(Box::new(region), create).unwrap();
        let bytes = std::fs::File::open(home.path().join("region")).unwrap();
        Ground { home, bytes }
    }

    fn open(&self) -> Volume {
        Volume::open(Box::new(self.region()), &OpenOptions::default()).unwrap()
    }

    fn region(&self) -> Mapped {
        Mapped::open(&self.home.path().join("region"), &MapOptions::default()).unwrap()
    }

    /// What the file is if the process that has the volume dies now.
    fn after_death(&self) -> Attr {
        let copy = self.home.path().join("copy");
        std::fs::copy(self.home.path().join("region"), &copy).unwrap();
        assert_eq!(std::fs::metadata(&copy).unwrap().len(), BYTES);
        let open = || Box::new(Mapped::open(&copy, &MapOptions::default()).unwrap());
        let volume = Volume::open(open(), &OpenOptions::default()).unwrap();
        let file = volume.lookup(ROOT, b"file").unwrap();
        volume.close().unwrap();
        let report = check(open()).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        file
    }
}

/// The last that was shown of a file.
#[derive(Debug, Default, Clone)]
struct Last {
    size: u64,
    readable: bool,
    writable: bool,
    settled: bool,
    sequence: u32,
    pieces: Vec<(u64, u64, u64)>,
}

impl Last {
    fn of(now: &Shown<'_>) -> Last {
        let Shown { size, readable, writable, settled, sequence, pieces, .. } = *now;
        Last { size, readable, writable, settled, sequence, pieces: pieces.to_vec() }
    }

    /// What a reader finds; holes are zeros.
    fn read(&self, ground: &Ground) -> Vec<u8> {
        let mut content = vec![0; self.size as usize];
        for (offset, at, bytes) in &self.pieces {
            let end = (offset + bytes).min(self.size);
            if *offset < end {
                ground.bytes.read_exact_at(&mut content[*offset as usize..end as usize], *at).unwrap();
            }
        }
        content
    }
}

#[derive(Default)]
struct Seen {
    last: Mutex<Last>,
    changing: AtomicBool,
    changes: AtomicU64,
    gone: AtomicBool,
    /// When somebody stored last, as long as nobody has asked.
    written: Mutex<Option<i64>>,
}

impl Seen {
    fn write(&self, at_ns: i64) {
        *self.written.lock().unwrap() = Some(at_ns);
    }

    fn last(&self) -> Last {
        assert!(!self.changing.load(Ordering::SeqCst));
        self.last.lock().unwrap().clone()
    }
}

struct Watching(Arc<Seen>);

impl Watch for Watching {
    fn begin(&self) {
        assert!(!self.0.changing.swap(true, Ordering::SeqCst), "one change at a time");
    }

    fn is_written(&self) -> bool {
        self.0.written.lock().unwrap().is_some()
    }

    fn written(&self) -> Option<Written> {
        assert!(self.0.changing.load(Ordering::SeqCst), "asked by whoever may change it");
        self.0.written.lock().unwrap().take().map(|at_ns| Written { at_ns, now_ns: i64::MAX })
    }

    fn end(&self, now: &Shown<'_>) {
        *self.0.last.lock().unwrap() = Last::of(now);
        self.0.changes.fetch_add(1, Ordering::SeqCst);
        assert!(self.0.changing.swap(false, Ordering::SeqCst), "what ends has begun");
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::SeqCst);
    }
}

fn watched(volume: &Volume, name: &[u8]) -> (File, Arc<Seen>) {
    let file = volume.create_file(ROOT, name, &Meta::file(0o644)).unwrap();
    let seen = Arc::new(Seen::default());
    assert!(file.watch(|_| Some(Box::new(Watching(seen.clone())))).unwrap());
    assert!(!file.watch(|_| panic!("it is watched")).unwrap());
    (file, seen)
}

#[test]
fn of_two_who_want_to_watch_at_once_one_makes_something() {
    let (_ground, volume) = Ground::new(false);
    let file = volume.create_file(ROOT, b"file", &Meta::file(0o644)).unwrap();
    let (seen, making) = (Arc::new(Seen::default()), AtomicU64::new(0));
    let make = |_| {
        making.fetch_add(1, Ordering::SeqCst);
        // The other one has time to come as far.
        std::thread::sleep(Duration::from_millis(100));
        Some(Box::new(Watching(seen.clone())) as Box<dyn Watch>)
    };
    let new = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| file.watch(make).unwrap()));
        both.map(|one| one.join().unwrap())
    });
    assert_eq!((new.iter().filter(|new| **new).count(), making.into_inner()), (1, 1));
    assert!(!seen.gone.load(Ordering::SeqCst), "what was made is kept");
    file.write_at(b"data", 0).unwrap();
    assert_eq!(seen.last().size, 4);
}

#[test]
fn what_is_shown_is_what_reading_gives() {
    let (ground, volume) = Ground::new(false);
    let (file, seen) = watched(&volume, b"file");
    let mut random = Random::new(7);
    let mut several = 0;
    for step in 0..4000_u64 {
        let (offset, bytes) = (random.below(60_000), 1 + random.below(6000));
        let data = vec![step as u8; bytes as usize];
        let changes = seen.changes.load(Ordering::SeqCst);
        let outcome = match random.below(12) {
            0..4 => file.write_at(&data, offset).map(drop),
            4 => file.append(&data).map(drop),
            5 => file.truncate(offset),
            6 => file.allocate(Allocate::PunchHole, offset, bytes),
            7 => file.allocate(Allocate::KeepSize, offset, bytes),
            8 => file.write_atomic(&data[..data.len().min(500)], offset),
            9 => {
                // Somebody else's content comes and goes between this file's.
                let other = volume.lookup(ROOT, b"other").and_then(|attr| volume.open(attr.ino));
                let other = other.or_else(|_| volume.create_file(ROOT, b"other", &Meta::file(0o644)));
                other.and_then(|other| other.truncate(0).and_then(|()| other.write_at(&data, 0)).map(drop))
            }
            10 => {
                volume.collect();
                Ok(())
            }
            _ => volume
                .rename(ROOT, b"file", ROOT, b"moved", Rename::Replace)
                .and_then(|()| volume.rename(ROOT, b"moved", ROOT, b"file", Rename::Replace)),
        };
        assert!(matches!(outcome, Ok(()) | Err(Error::NoSpace | Error::TooLarge)), "step {step}: {outcome:?}");
        let mut content = vec![0; file.attributes().size as usize];
        file.read_at(&mut content, 0).unwrap();
        let last = seen.last();
        assert!(last.readable && last.writable);
        assert!(last.read(&ground) == content, "step {step}, {} pieces", last.pieces.len());
        several += usize::from(last.pieces.len() > 1);
        assert!(seen.changes.load(Ordering::SeqCst) >= changes);
    }
    assert!(several > 100, "the file lay in several pieces {several} times");
    assert!(!seen.gone.load(Ordering::SeqCst));
    drop(file);
    volume.unlink(ROOT, b"file").unwrap();
    assert!(seen.gone.load(Ordering::SeqCst));
    volume.close().unwrap();
}

#[test]
fn where_a_write_does_more_than_storing_stores_are_not_allowed() {
    let (_ground, volume) = Ground::new(false);
    let (file, seen) = watched(&volume, b"file");
    file.write_at(&[1; 100], 0).unwrap();
    assert!(seen.last().writable);
    let (ino, locked) = (file.ino(), Protection { append_only: false, immutable: true });
    for (mode, allowed) in [(0o4755, false), (0o2755, false), (0o755, true)] {
        let change = SetAttr::default().permissions(Some(mode));
        volume.set_attributes(ino, &change).unwrap();
        assert_eq!(seen.last().writable, allowed, "{mode:o}");
    }
    for (protection, allowed) in [(locked, false), (Protection::default(), true)] {
        volume.protect(ino, protection).unwrap();
        assert_eq!(seen.last().writable, allowed);
    }
    volume.set_xattr(ino, b"security.capability", b"x", pocketstone_scmfs::SetXattr::Any).unwrap();
    assert!(!seen.last().writable);
    assert!(volume.drop_capability(ino).unwrap());
    drop(volume);
    let (_ground, volume) = Ground::new(true);
    let file = volume.create_file(ROOT, b"sums", &Meta::file(0o644)).unwrap();
    assert!(matches!(file.watch(|_| panic!("it has checksums")), Err(Error::NotSupported)));
}

#[test]
fn the_time_of_a_store_is_noted_if_it_is_later() {
    let (_ground, volume) = Ground::new(false);
    let (file, _) = watched(&volume, b"file");
    let before = file.attributes();
    file.note_written(Some(before.mtime_ns - 1)).unwrap();
    assert_eq!(file.attributes(), before);
    file.note_written(Some(before.mtime_ns + 5)).unwrap();
    let after = file.attributes();
    assert_eq!((after.mtime_ns, after.ctime_ns), (before.mtime_ns + 5, before.mtime_ns + 5));
    volume.close().unwrap();
}

#[test]
fn the_time_of_a_store_is_there_for_whoever_looks_and_never_comes_after_what_was_set_later() {
    let (ground, volume) = Ground::new(false);
    let (file, seen) = watched(&volume, b"file");
    let (ino, first) = (file.ino(), file.attributes().mtime_ns);
    seen.write(first + 10);
    assert_eq!(file.attributes().mtime_ns, first + 10);
    seen.write(first + 20);
    assert_eq!(volume.lookup(ROOT, b"file").unwrap().mtime_ns, first + 20);
    // Nobody has looked at this one when another time is set.
    seen.write(first + 30);
    let earlier = SetAttr::default().mtime_ns(Some(first - 1000));
    volume.set_attributes(ino, &earlier).unwrap();
    assert_eq!(*seen.written.lock().unwrap(), None);
    assert_eq!(file.attributes().mtime_ns, first - 1000);
    // What is synchronised has it, too.
    seen.write(first + 40);
    file.sync().unwrap();
    assert_eq!(ground.after_death().mtime_ns, first + 40);
    seen.write(first + 50);
    drop(file);
    assert_eq!(ground.after_death().mtime_ns, first + 50, "closing a file stores its times");
}

#[test]
fn an_inode_that_leaves_memory_takes_the_time_of_a_store_along() {
    const OTHERS: usize = 40_000;
    let ground = Ground::of(64 << 20, &CreateOptions::default().inodes(50_000));
    let volume = ground.open();
    let (file, seen) = watched(&volume, b"file");
    let time = file.attributes().mtime_ns + 1_000_000_000;
    drop(file);
    seen.write(time);
    for number in 0..OTHERS {
        drop(volume.create_file(ROOT, format!("{number}").as_bytes(), &Meta::file(0o644)).unwrap());
    }
    assert!(seen.gone.load(Ordering::SeqCst), "it is still in memory");
    assert_eq!(volume.lookup(ROOT, b"file").unwrap().mtime_ns, time);
}

/// Stores that run for as long as they are told to.
#[derive(Default)]
struct Slow {
    runs: Arc<AtomicBool>,
}

impl OutsideStores for Slow {
    fn running(&self) -> Option<Running> {
        let runs = self.runs.clone();
        self.runs.load(Ordering::SeqCst).then(|| Box::new(move || runs.load(Ordering::SeqCst)) as Running)
    }

    fn pause(&self) {}

    fn resume(&self) {}

    fn stored(&self, _: &mut dyn FnMut(u64, u64)) {}
}

#[test]
fn what_a_store_may_reach_is_given_to_nobody_else() {
    for null_files in [0, 7] {
        let (ground, volume) = Ground::new(false);
        drop(volume);
        let open = OpenOptions::default().null_files(null_files);
        let volume = Volume::open(Box::new(ground.region()), &open).unwrap();
        let slow = Arc::new(Slow::default());
        volume.let_others_store(slow.clone()).unwrap();
        assert!(volume.let_others_store(slow.clone()).is_err());
        let mut random = Random::new(3);
        for round in 0..60_u64 {
            let (file, seen) = watched(&volume, b"file");
            // In small pages, in huge pages, and in both.
            file.write_at(&vec![1; 1 + random.below(50_000) as usize], 0).unwrap();
            if round % 3 == 0 {
                file.allocate(Allocate::PunchHole, 1000, 3000).unwrap();
            }
            let had = seen.last();
            slow.runs.store(true, Ordering::SeqCst);
            match round % 5 {
                0 => file.truncate(0).unwrap(),
                1 => file.truncate(300).unwrap(),
                2 => file.allocate(Allocate::PunchHole, 0, 60_000).unwrap(),
                3 => drop(volume.collect()),
                _ => {
                    drop(file);
                    volume.unlink(ROOT, b"file").unwrap();
                }
            }
            // Others take all the space that there is.
            let others: Vec<(File, Arc<Seen>)> = (0..40)
                .map_while(|number| {
                    let (file, seen) = watched(&volume, format!("other {number}").as_bytes());
                    let taken = file.write_at(&vec![2; 700 + 9000 * (number % 9)], 0);
                    taken.is_ok().then_some((file, seen))
                })
                .collect();
            let overlaps = |a: &(u64, u64, u64), b: &(u64, u64, u64)| a.1 < b.1 + b.2 && b.1 < a.1 + a.2;
            for (_, other) in &others {
                for piece in other.last().pieces {
                    let reached = had.pieces.iter().any(|held| overlaps(held, &piece));
                    assert!(!reached, "round {round}: {piece:?} of another file, {:?} were the file's", had.pieces);
                }
            }
            slow.runs.store(false, Ordering::SeqCst);
            drop(others);
            let mut names = Vec::new();
            volume
                .read_directory(ROOT, 0, &mut |entry| {
                    names.push(entry.name.clone());
                    true
                })
                .unwrap();
            for name in names {
                volume.unlink(ROOT, &name).unwrap();
            }
        }
        // All of it has come back.
        let free = volume.statfs().unwrap().free_blocks;
        let fill = |volume: &Volume| {
            for number in 0..20 {
                let file = volume.create_file(ROOT, &[b'a' + number], &Meta::file(0o644)).unwrap();
                file.write_at(&vec![3; 1000 + 4000 * usize::from(number)], 0).unwrap();
            }
        };
        fill(&volume);
        slow.runs.store(true, Ordering::SeqCst);
        (0..20).for_each(|number| volume.unlink(ROOT, &[b'a' + number]).unwrap());
        assert!(volume.statfs().unwrap().free_blocks < free, "it is kept");
        // Whoever stores keeps others from opening the volume; for this one it is free.
        volume.close().unwrap();
        let report = check(Box::new(ground.region())).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let volume = Volume::open(Box::new(ground.region()), &open).unwrap();
        assert_eq!(volume.statfs().unwrap().free_blocks, free);
        fill(&volume);
        volume.close().unwrap();
    }
}
