//! Files that grow without the volume, by leases of their ends, and whoever goes on storing when the lease is over.

use super::{BYTES, Ground, Last, ROOT, Slow};
use pocketstone_random::Random;
use pocketstone_scmfs::{
    Allocate, Appended, CreateOptions, Error, File, Geometry, Ino, Meta, OpenOptions, Operations, OutsideStores,
    Protection, Rename, Running, Shown, Threshold, Volume, Watch, check,
};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a client and the server settle: the size, and whether more is being stored behind it.
#[derive(Default)]
pub(super) struct Leased {
    pub word: Mutex<Option<(u64, bool)>>,
    pub last: Mutex<Last>,
    slow: Arc<Slow>,
}

pub(super) struct Leasing(pub Arc<Leased>);

impl Watch for Leasing {
    fn begin(&self) {}

    fn is_leased(&self) -> bool {
        self.0.word.lock().unwrap().is_some()
    }

    fn appended(&self, take: bool) -> Option<Appended> {
        let mut word = self.0.word.lock().unwrap();
        let (size, busy) = (*word)?;
        if take {
            *word = None;
        }
        Some(Appended { size, running: if take && busy { self.0.slow.running() } else { None } })
    }

    fn end(&self, now: &Shown<'_>) {
        *self.0.last.lock().unwrap() = Last::of(now);
    }
}

/// Who grows a file.
struct Client {
    leased: Arc<Leased>,
    region: std::fs::File,
}

impl Client {
    fn new(ground: &Ground, volume: &Volume, slow: &Arc<Slow>, name: &[u8]) -> (File, Client) {
        let file = volume.create_file(ROOT, name, &Meta::file(0o644)).unwrap();
        let leased = Arc::new(Leased { slow: slow.clone(), ..Leased::default() });
        assert!(file.watch(|_| Some(Box::new(Leasing(leased.clone())))).unwrap());
        let region = std::fs::OpenOptions::new().write(true).open(ground.home.path().join("region")).unwrap();
        (file, Client { leased, region })
    }

    /// Where a range of the file lies, as was shown last.
    fn places(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let last = self.leased.last.lock().unwrap();
        let part = |(offset, at, bytes): &(u64, u64, u64)| {
            let (start, end) = (from.max(*offset), to.min(offset + bytes));
            (start < end).then(|| (at + start - offset, end - start))
        };
        last.pieces.iter().filter_map(part).collect()
    }

    fn store(&self, places: &[(u64, u64)], byte: u8) {
        for (at, bytes) in places {
            self.region.write_all_at(&vec![byte; *bytes as usize], *at).unwrap();
        }
    }

    fn lease(&self, file: &File, bytes: u64) -> pocketstone_scmfs::Result<Option<u64>> {
        let limit = file.room_to_append(bytes)?;
        let given = file.lease_end(limit, |size| *self.leased.word.lock().unwrap() = Some((size, false)))?;
        Ok(given.then_some(limit))
    }

    /// Appends by the lease.
    fn append(&self, bytes: u64, byte: u8) {
        let (size, _) = self.leased.word.lock().unwrap().expect("a lease");
        let places = self.places(size, size + bytes);
        assert_eq!(places.iter().map(|(_, bytes)| bytes).sum::<u64>(), bytes, "there is space");
        self.store(&places, byte);
        *self.leased.word.lock().unwrap() = Some((size + bytes, false));
    }

    fn has_lease(&self) -> bool {
        self.leased.word.lock().unwrap().is_some()
    }
}

fn content(file: &File) -> Vec<u8> {
    let mut content = vec![0; file.attributes().size as usize];
    assert_eq!(file.read_at(&mut content, 0).unwrap(), content.len());
    content
}

/// What others do to a file, and to the model of it.
fn other(volume: &Volume, file: &File, model: &mut Vec<u8>, random: &mut Random, byte: u8) -> String {
    let (offset, bytes) = (random.below(40_000) as usize, 1 + random.below(4000) as usize);
    let data = vec![byte; bytes];
    let write = |model: &mut Vec<u8>, at: usize| {
        model.resize(model.len().max(at + bytes), 0);
        model[at..at + bytes].copy_from_slice(&data);
    };
    let size = model.len();
    let what = random.below(11);
    let outcome = match what {
        0 | 1 => file.append(&data).map(|done| {
            assert_eq!(done, (bytes, (size + bytes) as u64));
            write(model, size);
        }),
        2 => file.write_at(&data, offset as u64).map(|_| write(model, offset)),
        3 => file.write_at(&data, size as u64 / 2).map(|_| write(model, size / 2)),
        4 => file.truncate(offset as u64).map(|()| model.resize(offset, 0)),
        5 => file.truncate(size as u64 / 2).map(|()| model.truncate(size / 2)),
        6 => file.allocate(Allocate::PunchHole, offset as u64, bytes as u64).map(|()| {
            let (from, to) = (offset.min(size), (offset + bytes).min(size));
            model[from..to].fill(0);
        }),
        7 => file.allocate(Allocate::Extend, size as u64, bytes as u64).map(|()| model.resize(size + bytes, 0)),
        8 => {
            let at = size.saturating_sub(bytes / 2);
            file.write_atomic(&data[..bytes.min(500)], at as u64).map(|()| {
                let bytes = bytes.min(500);
                model.resize(size.max(at + bytes), 0);
                model[at..at + bytes].fill(byte);
            })
        }
        9 => {
            let _ = volume.collect();
            Ok(())
        }
        _ => volume
            .rename(ROOT, b"file", ROOT, b"moved", Rename::Replace)
            .and_then(|()| volume.rename(ROOT, b"moved", ROOT, b"file", Rename::Replace)),
    };
    assert!(matches!(outcome, Ok(()) | Err(Error::NoSpace)), "{outcome:?}");
    format!("{what} of {bytes} bytes at {offset} of {size}: {outcome:?}")
}

#[test]
fn what_is_appended_is_there_and_what_comes_too_late_is_nowhere() {
    for seed in 1..=6 {
        let (ground, volume) = Ground::new(false);
        let slow = Arc::new(Slow::default());
        volume.let_others_store(slow.clone()).unwrap();
        let (file, client) = Client::new(&ground, &volume, &slow, b"file");
        let beside = volume.create_file(ROOT, b"beside", &Meta::file(0o644)).unwrap();
        let (mut model, mut random) = (Vec::new(), Random::new(seed));
        let (mut limit, mut appends, mut late) = (0, 0, 0);
        for step in 0..1500_u64 {
            let byte = step as u8;
            if model.len() > 60_000 {
                file.truncate(100).unwrap();
                model.truncate(100);
            }
            if !client.has_lease() {
                match client.lease(&file, 1 + random.below(9000)) {
                    Ok(given) => limit = given.unwrap_or(0),
                    Err(error) => assert!(matches!(error, Error::NoSpace), "{error}"),
                }
            }
            for _ in 0..random.below(4) {
                let bytes = 1 + random.below(1500);
                if client.has_lease() && model.len() as u64 + bytes <= limit {
                    client.append(bytes, byte);
                    model.resize(model.len() + bytes as usize, byte);
                    appends += 1;
                }
            }
            // An append is under way while others change the file, and goes on behind the end as it was.
            let busy = client.has_lease() && random.below(2) == 0;
            let size = model.len() as u64;
            let places = if busy { client.places(size, limit) } else { Vec::new() };
            if busy {
                *client.leased.word.lock().unwrap() = Some((size, true));
                slow.runs.store(true, Ordering::SeqCst);
            }
            for _ in 0..1 + random.below(3) {
                let what = other(&volume, &file, &mut model, &mut random, byte);
                // Where it was free to store when it began.
                client.store(&places, 0xEE);
                let bytes = random.below(5000) as usize;
                let whole = beside.truncate(0).and_then(|()| beside.write_at(&vec![byte; bytes], 0)).is_ok();
                client.store(&places, 0xEE);
                late += usize::from(busy);
                let wrong = content(&file).iter().zip(&model).position(|(is, should)| is != should);
                let is_right = wrong.is_none() && content(&file).len() == model.len();
                assert!(is_right, "seed {seed}, step {step}: {what}; {wrong:?}");
                let others = content(&beside);
                assert!(others.len() == bytes || !whole, "seed {seed}, step {step}");
                assert!(others.iter().all(|is| *is == byte), "seed {seed}, step {step}: in another file");
            }
            assert!(!busy || client.leased.word.lock().unwrap().is_none(), "the lease was taken");
            slow.runs.store(false, Ordering::SeqCst);
        }
        assert!(appends > 500 && late > 500, "{appends} appends, {late} too late");
        drop((file, beside));
        volume.close().unwrap();
        let report = check(Box::new(ground.region())).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let volume = Volume::open(Box::new(ground.region()), &OpenOptions::default()).unwrap();
        let file = volume.open(volume.lookup(ROOT, b"file").unwrap().ino).unwrap();
        assert!(content(&file) == model, "seed {seed}: after closing");
    }
}

/// A volume that was made small has a small journal.
#[test]
fn more_huge_pages_behind_the_end_than_a_transaction_frees_are_given_up_all_the_same() {
    let geometry = Geometry::new(256, 2048);
    let create = CreateOptions::default().geometry(geometry).threshold(Threshold::Bytes(1024)).inodes(16);
    let ground = Ground::of(BYTES, &create.bytes(128 << 10).max_bytes(BYTES));
    let volume = ground.open();
    volume.resize(BYTES).unwrap();
    let slow = Arc::new(Slow::default());
    volume.let_others_store(slow.clone()).unwrap();
    let (file, client) = Client::new(&ground, &volume, &slow, b"file");
    file.write_at(&[1; 5000], 0).unwrap();
    file.allocate(Allocate::KeepSize, 0, 300 << 10).unwrap();
    assert!(client.lease(&file, 1000).unwrap().is_some());
    *client.leased.word.lock().unwrap() = Some((5000, true));
    slow.runs.store(true, Ordering::SeqCst);
    file.append(&[2; 1000]).unwrap();
    assert_eq!(content(&file), [vec![1; 5000], vec![2; 1000]].concat());
    slow.runs.store(false, Ordering::SeqCst);
    drop(file);
    volume.close().unwrap();
    let report = check(Box::new(ground.region())).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Which files have grown, as the server knows it.
#[derive(Default)]
struct Grown {
    files: Mutex<Vec<Ino>>,
    asked: AtomicBool,
}

impl OutsideStores for Grown {
    fn running(&self) -> Option<Running> {
        None
    }

    fn pause(&self) {}

    fn resume(&self) {}

    fn stored(&self, _: &mut dyn FnMut(u64, u64)) {}

    fn take_grown(&self) -> Vec<Ino> {
        self.asked.store(true, Ordering::SeqCst);
        std::mem::take(&mut self.files.lock().unwrap())
    }
}

#[test]
fn sizes_are_stored_when_they_are_synchronised_and_the_lease_stays() {
    let (ground, volume) = Ground::new(false);
    let grown = Arc::new(Grown::default());
    volume.let_others_store(grown.clone()).unwrap();
    let (file, client) = Client::new(&ground, &volume, &Arc::default(), b"file");
    file.write_at(&[1; 300], 0).unwrap();
    assert!(client.lease(&file, 5000).unwrap().is_some());
    let settled = || client.leased.last.lock().unwrap().settled;
    client.append(100, 2);
    assert_eq!(ground.after_death().size, 300, "nobody asked for more");
    file.sync().unwrap();
    assert!(client.has_lease() && settled());
    assert_eq!((client.leased.last.lock().unwrap().size, ground.after_death().size), (400, 400));
    client.append(50, 3);
    volume.sync_inode(file.ino()).unwrap();
    assert!(client.has_lease());
    assert_eq!(ground.after_death().size, 450);
    client.append(50, 3);
    volume.store_sizes();
    assert_eq!(ground.after_death().size, 450, "the server knows of none that grew");
    grown.files.lock().unwrap().extend([file.ino(), 40]);
    volume.store_sizes();
    assert!(client.has_lease());
    assert_eq!(ground.after_death().size, 500);
    file.note_written(Some(volume.lookup(ROOT, b"file").unwrap().mtime_ns + 1)).unwrap();
    // Looking at it takes the lease.
    assert!(!client.has_lease() && client.lease(&file, 100).unwrap().is_some());
    client.append(20, 4);
    file.note_written(Some(i64::MAX / 2)).unwrap();
    assert!(client.has_lease(), "a time is no size");
    client.append(20, 4);
    assert_eq!(volume.lookup(ROOT, b"file").unwrap().size, 540);
    // The volume knows it, and the medium does not.
    assert!(!client.has_lease() && !settled() && ground.after_death().size < 540);
    volume.sync_inode(file.ino()).unwrap();
    assert!(settled());
    assert_eq!(ground.after_death().size, 540);
    file.write_at(&[1], 0).unwrap();
    drop(file);
    assert_eq!(ground.after_death().size, 540, "closing stores what is known");
    drop(volume);
}

#[test]
fn ends_are_leased_only_where_there_is_space_and_a_write_may_go() {
    let (ground, volume) = Ground::new(false);
    let (file, client) = Client::new(&ground, &volume, &Arc::default(), b"file");
    file.write_at(&[1; 300], 0).unwrap();
    let limit = file.room_to_append(1000).unwrap();
    assert_eq!(limit % 256, 0, "a whole page");
    assert!((1300..2000).contains(&limit), "{limit}");
    assert!(!file.lease_end(300, |_| panic!("nothing to append")).unwrap());
    assert!(!file.lease_end(limit + (1 << 20), |_| panic!("no space")).unwrap());
    assert!(matches!(file.room_to_append(BYTES), Err(Error::NoSpace)));
    assert!(matches!(file.room_to_append(u64::MAX), Err(Error::TooLarge)));
    assert_eq!(file.attributes().size, 300);
    for (protection, refused) in [
        (Protection { append_only: false, immutable: true }, true),
        (Protection { append_only: true, immutable: false }, false),
        (Protection::default(), false),
    ] {
        volume.protect(file.ino(), protection).unwrap();
        assert_eq!(matches!(file.room_to_append(1), Err(Error::NotPermitted)), refused);
    }
    let folder = volume.create_directory(ROOT, b"folder", &Meta::directory(0o755)).unwrap();
    assert!(volume.open(folder.ino).unwrap().room_to_append(1).is_err());
    // Free space that a lease took is not lost to others.
    let before = volume.statfs().unwrap().free_blocks;
    assert!(client.lease(&file, 100_000).unwrap().is_some());
    assert!(volume.statfs().unwrap().free_blocks < before);
    client.append(10, 5);
    let hungry = volume.create_file(ROOT, b"hungry", &Meta::file(0o644)).unwrap();
    let most = volume.statfs().unwrap().free_blocks * 256;
    let mut taken = 0;
    while hungry.append(&[7; 1000]).is_ok() {
        taken += 1000;
    }
    assert!(taken > most + 50_000, "{taken} of {most} bytes");
    assert_eq!((client.has_lease(), file.attributes().size), (false, 310));
}
