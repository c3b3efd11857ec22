//! Files that come, grow, shrink, are overwritten and go, on a volume that is kept nearly full.

use pocketstone_random::Random;
use pocketstone_scmfs::{Error, Ino, Meta, Operations, ROOT, Volume};

/// How full the data area is kept, in percent, unless somebody says otherwise.
const FULL_PERCENT: u64 = 85;
const DIRECTORIES: u64 = 8;

/// A file: where, and its bytes.
struct Held {
    directory: usize,
    name: Vec<u8>,
    ino: Ino,
    bytes: u64,
}

/// What is on the volume, and what comes next.
pub struct Churn {
    random: Random,
    directories: Vec<Ino>,
    files: Vec<Held>,
    buffer: Vec<u8>,
    next: u64,
    /// Smallest and largest size of a file.
    sizes: (u64, u64),
    /// How full the data area is kept, in percent.
    pub full_percent: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Changes in all, and those that found no space.
    pub changes: u64,
    pub refused: u64,
}

impl Churn {
    pub fn new(volume: &Volume, sizes: (u64, u64), seed: u64) -> Churn {
        let mut random = Random::labelled(seed, "churn");
        let mut buffer = vec![0; sizes.1 as usize];
        random.fill(&mut buffer);
        let make = |i: u64| {
            let name = format!("d{i}");
            volume.create_directory(ROOT, name.as_bytes(), &Meta::directory(0o755)).expect("a directory").ino
        };
        let directories = (0..DIRECTORIES).map(make).collect();
        Churn {
            random,
            directories,
            files: Vec::new(),
            buffer,
            next: 0,
            sizes,
            full_percent: FULL_PERCENT,
            written: 0,
            changes: 0,
            refused: 0,
        }
    }

    /// Log-uniform: as many files between the least size and its double as between half the most and that.
    fn size(&mut self) -> u64 {
        let (least, most) = self.sizes;
        let doublings = (most / least).ilog2();
        let base = least << self.random.below(u64::from(doublings));
        base + self.random.below(base)
    }

    pub fn is_full(&self, volume: &Volume) -> bool {
        let statfs = volume.statfs().unwrap();
        (statfs.blocks - statfs.free_blocks) * 100 >= statfs.blocks * self.full_percent
    }

    fn wrote(&mut self, result: Result<u64, Error>) {
        match result {
            Ok(bytes) => self.written += bytes,
            Err(Error::NoSpace) => self.refused += 1,
            Err(error) => panic!("while the volume is churned: {error}"),
        }
    }

    fn create(&mut self, volume: &Volume) {
        let (bytes, directory) = (self.size(), self.random.below(DIRECTORIES) as usize);
        let name = format!("f{}", self.next).into_bytes();
        self.next += 1;
        let made = volume.create_file(self.directories[directory], &name, &Meta::file(0o644));
        let file = match made {
            Ok(file) => file,
            Err(error) => return self.wrote(Err(error)),
        };
        let written = file.write_at(&self.buffer[..bytes as usize], 0).map(|bytes| bytes as u64);
        let bytes = written.as_ref().map_or(0, |bytes| *bytes);
        self.wrote(written);
        self.files.push(Held { directory, name, ino: file.ino(), bytes });
    }

    fn remove(&mut self, volume: &Volume, index: usize) {
        let held = self.files.swap_remove(index);
        volume.unlink(self.directories[held.directory], &held.name).expect("a file is removed");
    }

    /// One change; the volume becomes neither fuller than it should be nor much emptier.
    pub fn step(&mut self, volume: &Volume) {
        self.changes += 1;
        if self.files.is_empty() {
            return self.create(volume);
        }
        let index = self.random.below(self.files.len() as u64) as usize;
        let what = self.random.below(10);
        if self.is_full(volume) && what < 7 {
            if what < 6 {
                return self.remove(volume, index);
            }
            let held = &mut self.files[index];
            held.bytes = self.random.below(held.bytes + 1);
            let file = volume.open(held.ino).expect("a file opens");
            return file.truncate(held.bytes).expect("a file is cut");
        }
        if what < 4 {
            return self.create(volume);
        }
        let held = &self.files[index];
        let (old, part) = (held.bytes, 1 + self.random.below(held.bytes.max(self.sizes.0)));
        // Append, or overwrite somewhere inside.
        let at = if what < 6 || old == 0 { old } else { self.random.below(old) };
        let end = (at + part).min(if at == old { self.sizes.1 } else { old });
        if end <= at {
            return;
        }
        let file = volume.open(held.ino).expect("a file opens");
        let written = file.write_at(&self.buffer[..(end - at) as usize], at).map(|bytes| bytes as u64);
        if written.is_ok() {
            self.files[index].bytes = old.max(end);
        }
        self.wrote(written);
    }

    /// Reads every file from start to end; the bytes.
    pub fn read_all(&mut self, volume: &Volume) -> u64 {
        let mut bytes = 0;
        for held in &self.files {
            let file = volume.open(held.ino).expect("a file opens");
            let got = file.read_at(&mut self.buffer, 0).expect("a file is read") as u64;
            assert_eq!(got, held.bytes, "the size of file {}", held.ino);
            bytes += got;
        }
        bytes
    }

    /// Files of so many bytes and more: inode numbers and bytes.
    pub fn large(&self, least: u64) -> Vec<(Ino, u64)> {
        self.files.iter().filter(|held| held.bytes >= least).map(|held| (held.ino, held.bytes)).collect()
    }

    /// Removes everything, the directories too.
    pub fn clear(mut self, volume: &Volume) {
        while !self.files.is_empty() {
            self.remove(volume, 0);
        }
        for i in 0..DIRECTORIES {
            volume.remove_directory(ROOT, format!("d{i}").as_bytes()).expect("a directory is removed");
        }
    }
}
