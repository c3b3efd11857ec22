//! Many small files, and what they cost.

use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{CreateOptions, Ino, Meta, OpenOptions, Operations, ROOT, Volume};
use std::path::Path;
use std::time::{Duration, Instant};

const FILES_PER_DIRECTORY: u64 = 10_000;

/// What was measured.
#[derive(Debug)]
pub struct Many {
    pub files: u64,
    /// Lines of /proc/self/maps that name the region's file.
    pub mappings: usize,
    /// Anonymous memory that came with the open volume and its files, in bytes.
    pub memory: u64,
    pub create: Duration,
    pub read: Duration,
    pub open_clean: Duration,
    pub recover: Duration,
}

fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn mappings(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc/self/maps");
    let name = path.to_str().expect("a path in UTF-8");
    maps.lines().filter(|line| line.ends_with(name)).count()
}

fn content(index: u64, bytes: usize) -> Vec<u8> {
    index.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

impl Many {
    pub fn memory_per_file(&self) -> f64 {
        self.memory as f64 / self.files as f64
    }

    /// Creates `files` files of `bytes` bytes on a new volume in a directory, and looks at everything.
    pub fn measure(directory: &Path, files: u64, bytes: usize) -> Many {
        let home = tempfile::tempdir_in(directory).expect("a directory for the volume");
        let path = home.path().join("volume");
        let pages = files * (bytes as u64).next_multiple_of(4096);
        // A tenth more than the files' pages and inodes, and what the smallest volume needs.
        let region_bytes = (pages + files * 512) / 10 * 11 + (64 << 20);
        let options = MapOptions::default().reserve_bytes(region_bytes);
        let create =
            CreateOptions::default().zeroed(true).inodes((files + files / 50 + 1000) as u32).max_bytes(region_bytes);
        let region = Mapped::create(&path, region_bytes, &options).expect("a region");
        Volume::create(Box::new(region), &create).expect("a volume");
        let open = || {
            let start = Instant::now();
            let region = Mapped::open(&path, &options).expect("the region opens");
            let volume = Volume::open(Box::new(region), &OpenOptions::default()).expect("the volume opens");
            (volume, start.elapsed())
        };
        let before = anonymous_bytes();
        let (volume, _) = open();
        let start = Instant::now();
        let mut home_ino: Ino = ROOT;
        for index in 0..files {
            if index % FILES_PER_DIRECTORY == 0 {
                let name = format!("d{}", index / FILES_PER_DIRECTORY);
                let made = volume.create_directory(ROOT, name.as_bytes(), &Meta::directory(0o755));
                home_ino = made.expect("a directory").ino;
            }
            let made = volume.create_file(home_ino, format!("f{index}").as_bytes(), &Meta::file(0o644));
            made.expect("a file").write_at(&content(index, bytes), 0).expect("a write");
        }
        let create = start.elapsed();
        let start = Instant::now();
        let mut found = vec![0; bytes];
        // In an order that is not that of creation.
        for step in 0..files {
            let index = step.wrapping_mul(7_919) % files;
            let path = format!("/d{}/f{index}", index / FILES_PER_DIRECTORY);
            let file = volume.open(volume.resolve(&path).expect("a name")).expect("a file opens");
            assert_eq!(file.read_at(&mut found, 0).expect("a read"), bytes);
            assert_eq!(found[..8], index.to_le_bytes(), "{path}");
        }
        let read = start.elapsed();
        let memory = anonymous_bytes().saturating_sub(before);
        let mappings = mappings(&path);
        volume.close().expect("a clean close");
        let (volume, open_clean) = open();
        // A change, so that there is something to recover.
        volume.create_file(ROOT, b"last", &Meta::file(0o644)).expect("a file");
        volume.abandon();
        let (volume, recover) = open();
        assert!(volume.resolve("/last").is_ok(), "a file was lost");
        assert!(volume.usage().inodes_used as u64 > files, "files were lost");
        volume.close().expect("a clean close");
        Many { files, mappings, memory, create, read, open_clean, recover }
    }
}
