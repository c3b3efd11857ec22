//! How evenly a mail server's work wears phase change memory.

use crate::support::mail::Mail;
use crate::support::region::Shared;
use crate::support::{amount, say, seed};
use pocketstone_media::{Hot, Pcm, PcmOptions, WearMap};
use pocketstone_scmfs::{CreateOptions, Ino, Meta, OpenOptions, Operations, ROOT, Volume};

/// Where the parts of a volume lie, read off its superblock.
struct Map {
    page: u64,
    journal: (u64, u64),
    inodes_at: u64,
    mapping_at: u64,
    free_map_at: u64,
    data_at: u64,
}

impl Map {
    fn of(memory: &Shared) -> Map {
        let b = memory.image();
        let word = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("8 bytes"));
        let page = word(12) & 0xffff_ffff;
        Map {
            page,
            journal: (word(40), word(48)),
            inodes_at: word(56),
            mapping_at: word(64),
            free_map_at: word(72),
            data_at: word(80),
        }
    }

    fn name(&self, at: u64, mail: Ino) -> String {
        if at < self.journal.0 {
            return format!("superblock {}", at / self.page);
        }
        if at < self.inodes_at {
            return format!("journal, line {} of {}", (at - self.journal.0) / 64, self.journal.1 / 64);
        }
        if at < self.mapping_at {
            let ino = (at - self.inodes_at) / 256 + 1;
            let whose = match ino as Ino {
                ROOT => "the root",
                ino if ino == mail => "the mail directory",
                _ => "a file or null file",
            };
            return format!("inode {ino} ({whose}), line {}", (at - self.inodes_at) % 256 / 64);
        }
        if at < self.free_map_at {
            return format!("mapping table, entries from {}", (at - self.mapping_at) / 16);
        }
        if at < self.data_at {
            return "free map".into();
        }
        let (page, line) = ((at - self.data_at) / self.page, (at - self.data_at) % self.page / 64);
        format!("small page {page} of the data area, line {line}")
    }
}

const BYTES: u64 = 64 << 20;
/// As the thesis has it (section 1.2).
const ENDURANCE: f64 = 1e8;

/// A volume on phase change memory that takes no time, its wear, and what lies where.
fn fresh() -> (Volume, WearMap, Map) {
    let options = PcmOptions::default().read_ns(0).write_ns(0);
    let (memory, wear) = Pcm::new(BYTES, &options);
    let shared = Shared::of(memory.region().expect("nobody else has it"));
    let create = CreateOptions::default().zeroed(true);
    Volume::create(shared.region(), &create).expect("a volume");
    let map = Map::of(&shared);
    (Volume::open(shared.region(), &OpenOptions::default()).expect("a volume opens"), wear, map)
}

/// The hottest lines, with their names; all that were written more than `times` the mean, hottest first.
fn hot_lines(map: &Map, wear: &WearMap, mail: Ino, times: f64) -> Vec<String> {
    let mean = wear.summary().mean_writes;
    let lines =
        wear.hottest(200).into_iter().map(|Hot { at, writes }| (writes as f64 / mean, writes, map.name(at, mail)));
    lines
        .take_while(|(ratio, ..)| *ratio > times)
        .map(|(r, w, name)| format!("{w} writes, {r:.1} x mean: {name}"))
        .collect()
}

#[test]
fn a_volume_on_zeros_is_made_without_looking_at_all_of_them() {
    let (_, wear, _) = fresh();
    let lines = BYTES / 64;
    // The map of the test reads all once; opening reads the tables.
    assert!(wear.summary().reads_total < lines * 5 / 4, "{:?}", wear.summary());
}

#[test]
fn mail_wears_phase_change_memory_evenly() {
    let (seed, rounds) = (seed(1), amount(20_000, 864_000));
    let (volume, wear, map) = fresh();
    let mut mail = Mail::new(&volume, 1000, seed);
    let operations: u64 = (0..rounds).map(|_| mail.round(&volume)).sum();
    let summary = wear.summary();
    let per_day = summary.hottest_writes as f64 / operations as f64 * 1000.0 * 86_400.0;
    say(&format!("seed {seed}: {rounds} rounds, {operations} operations: {summary:?}"));
    say(&format!("at 1000 operations a second, extrapolated linearly: {:.1} years", ENDURANCE / per_day / 365.0));
    hot_lines(&map, &wear, mail.directory(), summary.ratio / 1.5).iter().take(12).for_each(|line| say(line));
    assert!(summary.writes_total > rounds * 100, "hardly anything was written: {summary:?}");
    assert!(summary.ratio < 100.0, "{summary:?}");
    volume.close().expect("a clean close");
}

#[test]
fn times_of_a_directory_are_stored_seldom_enough_for_slow_mail() {
    // Ten rounds a second: the directory's times are stored every five seconds, here by asking for it.
    const ROUNDS_PER_SECOND: u64 = 10;
    const STALE_S: u64 = 5;
    let (seed, seconds) = (seed(2), amount(2_000, 86_400));
    let (volume, wear, map) = fresh();
    let mut mail = Mail::new(&volume, 1000, seed);
    for _ in 0..seconds / STALE_S {
        for _ in 0..ROUNDS_PER_SECOND * STALE_S {
            mail.round(&volume);
        }
        volume.sync_inode(mail.directory()).expect("times are stored");
    }
    let summary = wear.summary();
    let years = ENDURANCE / (summary.hottest_writes as f64 / seconds as f64) / 86_400.0 / 365.0;
    say(&format!("seed {seed}: {seconds} s of mail: {summary:?}; {years:.1} years"));
    let hot = hot_lines(&map, &wear, mail.directory(), 20.0);
    hot.iter().for_each(|line| say(line));
    assert!(hot.iter().all(|line| line.contains("the mail directory")), "{hot:#?}");
    // Two versions in turn: each line once in ten seconds, and a little when it was made.
    assert!(summary.hottest_writes <= seconds / STALE_S / 2 + 20, "{summary:?}");
    assert!(summary.ratio < 100.0 && years > 25.0, "{summary:?}, {years} years");
    volume.close().expect("a clean close");
}

#[test]
fn a_log_wears_its_inode() {
    // The known weak spot: each synchronised append stores a version of the same inode.
    let appends = amount(20_000, 1_000_000);
    let (volume, wear, map) = fresh();
    let file = volume.create_file(ROOT, b"log", &Meta::file(0o644)).expect("a file");
    for _ in 0..appends {
        if file.attributes().size > 8 << 20 {
            file.truncate(0).expect("a log is begun anew");
        }
        file.append(&[0x6c; 200]).expect("an append");
        file.sync().expect("a sync");
    }
    let (summary, ino) = (wear.summary(), file.ino());
    say(&format!("{appends} appends: {summary:?}; life: {:.2e} appends", appends as f64 / summary.life_used));
    let name = map.name(summary.hottest_at, 0);
    assert!(name.starts_with(&format!("inode {ino} ")), "{name}");
    assert!(summary.hottest_writes <= appends / 2 + 100, "{summary:?}");
    drop(file);
    volume.close().expect("a clean close");
}
