//! Sizes that whoever grows a file by a lease has recorded in the region.

use super::append::{Leased, Leasing};
use super::*;
use crate::support::region::Shared;
use pocketstone_media::Region;
use pocketstone_media::crash::{CrashState, Limits, Log, Recorder};
use pocketstone_media::size_record::{self, Line, Version};
use pocketstone_scmfs::repair;
use std::cell::Cell;
use std::collections::HashSet;
use std::ops::ControlFlow;

const REGION_BYTES: u64 = 256 << 10;
/// Where the incompatible features are in both superblocks' bytes, and that of records (docs/scmfs-format.md).
const FEATURES_AT: usize = 140;
const SIZE_RECORDS: u32 = 2;

/// A volume with four records on a medium that logs, and a file with a lease of its end.
struct Place {
    medium: Shared,
    log: Log,
    volume: Volume,
    file: File,
    leased: Arc<Leased>,
    /// Whose record the next one is.
    record: Cell<u64>,
}

/// A record in the region, as who has it mapped stores there.
struct Record<'a>(&'a Shared, u64);

impl Line for Record<'_> {
    fn load(&self, word: usize) -> u64 {
        let mut bytes = [0; 8];
        self.0.read(self.1 + word as u64 * 8, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn store(&self, word: usize, value: u64) {
        // SAFETY: the record is this thread's, which is all there is.
        unsafe { self.0.store_u64(self.1 + word as u64 * 8, value) };
    }

    fn persist(&self) {
        self.0.flush(self.1, 24);
        self.0.fence();
    }
}

/// What the file has there, whenever it was stored.
fn byte_at(offset: u64) -> u8 {
    (offset * 7 % 251) as u8 + 1
}

fn options() -> OpenOptions {
    OpenOptions::default().null_files(0).fixed_clock_ns(1)
}

impl Place {
    fn new() -> Place {
        let empty = Shared::new(REGION_BYTES);
        let geometry = Geometry::new(512, 8 << 10);
        let create = CreateOptions::default().geometry(geometry).inodes(16);
        Volume::create(empty.region(), &create).unwrap();
        let (recorder, log) = Recorder::new(&empty.image());
        let medium = Shared::of(recorder);
        let volume = Volume::open(medium.region(), &options()).unwrap();
        assert_eq!(volume.size_records(), (512 + 256, 4));
        volume.use_size_records().unwrap();
        let file = volume.create_file(ROOT, b"file", &Meta::file(0o644)).unwrap();
        let leased = Arc::new(Leased::default());
        assert!(file.watch(|_| Some(Box::new(Leasing(leased.clone())))).unwrap());
        Place { medium, log, volume, file, leased, record: Cell::new(0) }
    }

    fn lease(&self, bytes: u64) {
        let limit = self.file.room_to_append(bytes).unwrap();
        let give = |size| *self.leased.word.lock().unwrap() = Some((size, false));
        assert!(self.file.lease_end(limit, give).unwrap());
    }

    fn size(&self) -> Option<u64> {
        self.leased.word.lock().unwrap().map(|(size, _)| size)
    }

    fn append(&self, bytes: u64) {
        let from = self.size().expect("a lease");
        for (offset, at, long) in &self.leased.last.lock().unwrap().pieces {
            let (start, end) = (from.max(*offset), (from + bytes).min(offset + long));
            if start < end {
                let content: Vec<u8> = (start..end).map(byte_at).collect();
                // SAFETY: it lies in the room that was leased.
                unsafe { self.medium.write(at + start - offset, &content) };
                self.medium.flush(at + start - offset, end - start);
            }
        }
        self.medium.fence();
        *self.leased.word.lock().unwrap() = Some((from + bytes, false));
    }

    fn place_of(&self, record: u64) -> Record<'_> {
        Record(&self.medium, self.volume.size_records().0 + record * 64)
    }

    /// What a client does at fdatasync(2).
    fn record(&self) {
        let sequence = self.leased.last.lock().unwrap().sequence;
        // The first use of the inode number.
        let version = Version { key: u64::from(self.file.ino()) | 1 << 32, sequence };
        size_record::note(&self.place_of(self.record.get()), version, self.size().expect("a lease"));
    }

    /// The size of the file, were all killed now.
    fn after_death(&self) -> u64 {
        size_in(&self.medium.image()).unwrap()
    }
}

/// Where the superblocks are: the newer one is the last.
fn superblocks(image: &[u8]) -> Vec<usize> {
    let number = |at: &usize| u64::from_le_bytes(image[at + 112..at + 120].try_into().unwrap());
    let mut found: Vec<usize> =
        (0..image.len()).step_by(256).filter(|at| image[*at..].starts_with(&image[..8])).collect();
    assert_eq!(found.len(), 2);
    found.sort_by_key(number);
    found
}

/// What either superblock says that a program has to know of.
fn features(image: &[u8]) -> u32 {
    let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
    superblocks(image).into_iter().fold(0, |all, at| all | word(at + FEATURES_AT))
}

/// The size that the file has in what a crash left; it has its content, and fsck finds nothing before and after.
fn size_in(image: &[u8]) -> Result<u64, String> {
    let shared = Shared::from_image(image);
    let said = |error: Error| error.to_string();
    let sound = |when: &str| match check(shared.region()).map_err(said)?.findings {
        findings if findings.is_empty() => Ok(()),
        findings => Err(format!("fsck {when}: {findings:?}")),
    };
    sound("before recovery")?;
    let volume = Volume::open(shared.region(), &options()).map_err(said)?;
    let size = match volume.lookup(ROOT, b"file") {
        Ok(attr) => {
            let file = volume.open(attr.ino).map_err(said)?;
            let mut content = vec![0; attr.size as usize];
            file.read_at(&mut content, 0).map_err(said)?;
            let wrong = (0..attr.size).find(|offset| content[*offset as usize] != byte_at(*offset));
            if let Some(offset) = wrong {
                return Err(format!("byte {offset} of {}", attr.size));
            }
            attr.size
        }
        Err(error) => return Err(said(error)),
    };
    volume.close().map_err(said)?;
    sound("after recovery")?;
    if features(&shared.image()) != 0 || shared.image()[512..1024] != [0; 512] {
        return Err("records are left in a closed volume".into());
    }
    Ok(size)
}

#[test]
fn what_is_recorded_is_there_after_a_crash_at_any_store() {
    let (mut states, mut recorded) = (0, 0);
    for seed in 1..=8 {
        let place = Place::new();
        let mut random = Random::new(seed);
        place.lease(6000);
        // What is promised, and all that there is, after each step.
        let mut after = vec![(0, 0)];
        place.log.mark(0);
        for step in 1..=60_u64 {
            let (mut promised, _) = after[after.len() - 1];
            if place.size().is_none() {
                place.lease(6000);
            }
            match random.below(11) {
                0..4 => place.append(1 + random.below(200)),
                4..7 => {
                    place.record();
                    promised = place.size().unwrap();
                    recorded += 1;
                }
                7 => {
                    // The size is stored, and the lease goes on: the record is of an old version.
                    place.file.sync().unwrap();
                    promised = place.size().unwrap();
                }
                // It takes the lease, and stores nothing.
                8 => _ = place.volume.lookup(ROOT, b"file").unwrap(),
                9 => {
                    let to = random.below(place.size().unwrap() + 1);
                    place.file.truncate(to).unwrap();
                    promised = to;
                }
                // Another process has the end, and another record.
                _ => {
                    let _ = place.volume.lookup(ROOT, b"file").unwrap();
                    place.record.set(random.below(4));
                }
            }
            let size = place.size().unwrap_or_else(|| place.file.attributes().size);
            after.push((promised, size));
            place.log.mark(step);
        }
        place.volume.abandon();
        let limits = Limits { max_lines: 2, max_states_per_fence: Some(30), seed };
        let mut seen = HashSet::new();
        place.log.trace().crash_states(&limits, &mut |state: &CrashState| {
            let Some(mark) = state.last_mark else { return ControlFlow::Continue(()) };
            if !seen.insert((state.image.to_vec(), mark)) {
                return ControlFlow::Continue(());
            }
            states += 1;
            // The step after the mark may have happened, or a part of it.
            let now = after[mark as usize];
            let next = after.get(mark as usize + 1).copied().unwrap_or(now);
            let (least, most) = (now.0.min(next.0), now.1.max(next.1));
            match size_in(state.image) {
                Ok(size) if (least..=most).contains(&size) => {}
                found => panic!("seed {seed}, {}: {found:?}, not {least} to {most}", state.describe()),
            }
            ControlFlow::Continue(())
        });
    }
    assert!(states > 2000 && recorded > 30, "{states} states, {recorded} records");
}

#[test]
fn a_record_is_void_with_the_next_version_and_by_damage() {
    let place = Place::new();
    assert_eq!(features(&place.medium.image()), SIZE_RECORDS, "an older program must not open it");
    place.lease(3000);
    place.append(1000);
    assert_eq!(place.after_death(), 0);
    place.record();
    assert_eq!(place.after_death(), 1000);
    // fsck that repairs something else keeps it.
    let shared = Shared::from_image(&place.medium.image());
    shared.overwrite(place.volume.size_records().0 + 200, &[0xFF; 8]);
    assert_eq!(size_in(&shared.image()), Ok(1000), "another record is damaged");
    let mut image = place.medium.image();
    for bit in 0..24 * 8 {
        let at = place.volume.size_records().0 as usize + bit / 8;
        image[at] ^= 1 << (bit % 8);
        assert_eq!(size_in(&image), Ok(0), "bit {bit}");
        image[at] ^= 1 << (bit % 8);
    }
    place.file.truncate(300).unwrap();
    assert_eq!(place.after_death(), 300);
    // A file that gets the inode's number is another one.
    place.lease(3000);
    place.append(50);
    place.record();
    assert_eq!(place.after_death(), 350);
    let Place { medium, volume, file, .. } = place;
    let ino = file.ino();
    drop(file);
    volume.unlink(ROOT, b"file").unwrap();
    let other = volume.create_file(ROOT, b"file", &Meta::file(0o644)).unwrap();
    assert_eq!(other.ino(), ino);
    assert_eq!(size_in(&medium.image()), Ok(0));
    drop(other);
    volume.close().unwrap();
    assert_eq!((features(&medium.image()), size_in(&medium.image())), (0, Ok(0)));
}

#[test]
fn repair_keeps_what_was_recorded() {
    let place = Place::new();
    place.volume.create_directory(ROOT, b"folder", &Meta::directory(0o755)).unwrap();
    place.lease(3000);
    place.append(1234);
    place.record();
    for copy in 0..2 {
        repair_keeps(&place, copy);
    }
}

/// One of the superblocks is damaged.
fn repair_keeps(place: &Place, copy: usize) {
    let mut image = place.medium.image();
    let at = superblocks(&image)[copy];
    image[at + 20] ^= 1;
    let (recorder, log) = Recorder::new(&image);
    let medium = Shared::of(recorder);
    let report = repair(medium.region()).unwrap();
    assert!(!report.findings.is_empty(), "there was something to repair");
    assert_eq!(size_in(&medium.image()), Ok(1234));
    // Nor does it lose that when it is interrupted.
    let mut states = 0;
    log.trace().crash_states(&Limits { max_states_per_fence: Some(20), ..Limits::default() }, &mut |state| {
        let shared = Shared::from_image(state.image);
        repair(shared.region()).unwrap();
        assert_eq!(size_in(&shared.image()), Ok(1234), "{}", state.describe());
        states += 1;
        ControlFlow::Continue(())
    });
    assert!(states > 20);
}
