//! What operations through FUSE are made of: a message to another process and back, as a FUSE file system has it that
//! keeps names and sizes alone, and what the library takes for the same in process.

use crate::ground::{Ground, volume};
use crate::measure::{bar, nanoseconds};
use crate::{OnFuse, say};
use pocketstone_core::median::median;
use pocketstone_mount::{MountOptions, mount_hollow};
use pocketstone_scmfs::{File as Ours, Meta, Operations, ROOT, Rename, Volume};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Operations of each kind in a round.
const MANY: u64 = 400;
const ROUNDS: usize = 15;
const PAGE: usize = 4096;
/// In the order in which a round does them.
const OPERATIONS: [&str; 7] =
    ["create and close", "4 KiB append", "4 KiB overwrite", "4 KiB pread, O_DIRECT", "fsync", "rename", "unlink"];
/// What the bar of SCMFS through FUSE is for pread, taken for all.
const MOST: f64 = 1.3;

/// Where operations are done.
enum Place<'a> {
    Library(&'a Volume),
    Kernel(PathBuf),
}

/// The file of a place whose content is read and written.
enum Content {
    Ours(Ours),
    /// Through the page cache, and past it.
    Kernel(File, File),
}

impl Place<'_> {
    fn create(&self, name: &str) {
        match self {
            Place::Library(volume) => {
                drop(volume.create_file(ROOT, name.as_bytes(), &Meta::file(0o644)).expect("space"));
            }
            Place::Kernel(folder) => drop(File::create_new(folder.join(name)).expect("space")),
        }
    }

    fn rename(&self, from: &str, to: &str) {
        match self {
            Place::Library(volume) => {
                let renamed = volume.rename(ROOT, from.as_bytes(), ROOT, to.as_bytes(), Rename::Replace);
                renamed.expect("it is there");
            }
            Place::Kernel(folder) => fs::rename(folder.join(from), folder.join(to)).expect("it is there"),
        }
    }

    fn unlink(&self, name: &str) {
        match self {
            Place::Library(volume) => volume.unlink(ROOT, name.as_bytes()).expect("it is there"),
            Place::Kernel(folder) => fs::remove_file(folder.join(name)).expect("it is there"),
        }
    }

    fn content(&self) -> Content {
        match self {
            Place::Library(volume) => {
                Content::Ours(volume.create_file(ROOT, b"content", &Meta::file(0o644)).expect("space"))
            }
            Place::Kernel(folder) => {
                let path = folder.join("content");
                let open = |flags| File::from(rustix::fs::open(&path, flags, Mode::from(0o644)).expect("a file"));
                let cached = open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
                // A tmpfs before Linux 6.6 has none.
                let direct = rustix::fs::open(&path, OFlags::RDONLY | OFlags::DIRECT, Mode::empty());
                Content::Kernel(cached, direct.map_or_else(|_| open(OFlags::RDONLY), File::from))
            }
        }
    }

    /// Does every operation many times: nanoseconds of each kind.
    fn round(&self, page: &[u8], into: &mut [u8]) -> [f64; OPERATIONS.len()] {
        let mut times = [0.0; OPERATIONS.len()];
        let mut next = times.iter_mut();
        let mut timed = |each: &mut dyn FnMut(u64)| {
            let start = Instant::now();
            (0..MANY).for_each(each);
            *next.next().expect("an operation") = start.elapsed().as_nanos() as f64 / MANY as f64;
        };
        timed(&mut |n| self.create(&format!("file-{n}")));
        let content = self.content();
        let at = |n: u64| n * PAGE as u64;
        let write = |n: u64| match &content {
            Content::Ours(file) => _ = file.write_at(page, at(n)).expect("space"),
            Content::Kernel(file, _) => file.write_all_at(page, at(n)).expect("space"),
        };
        timed(&mut |n| write(n));
        timed(&mut |n| write(n));
        timed(&mut |n| match &content {
            Content::Ours(file) => _ = file.read_at(into, at(n)).expect("a page"),
            Content::Kernel(_, file) => file.read_exact_at(into, at(n)).expect("a page"),
        });
        timed(&mut |_| match &content {
            Content::Ours(file) => file.sync().expect("it is kept"),
            Content::Kernel(file, _) => file.sync_all().expect("it is kept"),
        });
        drop(content);
        self.unlink("content");
        timed(&mut |n| self.rename(&format!("file-{n}"), &format!("name-{n}")));
        timed(&mut |n| self.unlink(&format!("name-{n}")));
        times
    }
}

/// Memory of a page that begins at one.
fn at_page(memory: &mut [u8]) -> &mut [u8] {
    let skip = memory.as_ptr().align_offset(PAGE);
    &mut memory[skip..skip + PAGE]
}

/// Each operation in process, through FUSE without and with SCMFS behind it, on tmpfs and on ext4.
pub fn round_trip(ground: &Ground) {
    let fuse = OnFuse::new(ground, "round-trip", 256 << 20, &MountOptions::default());
    let library = volume(&ground.tmpfs.join("round-trip-library"), 256 << 20, false, None);
    let null = ground.tmpfs.join("hollow.mount");
    fs::create_dir(&null).expect("a new folder");
    let _null = mount_hollow(&null, &MountOptions::default()).expect("a mount");
    let inside = |path: &Path| {
        let folder = path.join("round-trip.files");
        fs::create_dir(&folder).expect("a new folder");
        Place::Kernel(folder)
    };
    let mut places = vec![
        ("in process", Place::Library(&library)),
        ("null", inside(&null)),
        ("scmfs", inside(&fuse.path)),
        ("tmpfs", inside(&ground.tmpfs)),
    ];
    places.extend(ground.ext4.as_deref().map(|path| ("ext4", inside(path))));
    let (mut memory, mut other) = (vec![7_u8; 2 * PAGE], vec![0_u8; 2 * PAGE]);
    let (page, into) = (&*at_page(&mut memory), at_page(&mut other));
    let mut rounds: Vec<Vec<[f64; OPERATIONS.len()]>> = vec![Vec::new(); places.len()];
    for round in 0..=ROUNDS {
        for ((_, place), times) in places.iter().zip(&mut rounds) {
            let found = place.round(page, into);
            // The first round does not count.
            if round > 0 {
                times.push(found);
            }
        }
    }
    for (n, what) in OPERATIONS.into_iter().enumerate() {
        let of = |times: &Vec<[f64; OPERATIONS.len()]>| median(times.iter().map(|round| round[n]).collect::<Vec<_>>());
        let ns: Vec<f64> = rounds.iter().map(|times| of(times).expect("rounds")).collect();
        let all: Vec<String> = places.iter().zip(&ns).map(|((name, _), ns)| format!("{name} {}", ns_of(*ns))).collect();
        say(&format!("  {what}: {}", all.join(", ")));
        let rest = ns[2] - ns[1] - ns[0];
        say(&format!(
            "    is made of: round trip {} ({:.0} %), the library {} ({:.0} %), the rest {}",
            ns_of(ns[1]),
            100.0 * ns[1] / ns[2],
            ns_of(ns[0]),
            100.0 * ns[0] / ns[2],
            ns_of(rest),
        ));
        let ratios = rounds[2].iter().zip(&rounds[1]).map(|(ours, null)| ours[n] / null[n]);
        bar(
            &format!("{what}: scmfs over a FUSE file system that does nothing"),
            median(ratios.collect::<Vec<_>>()),
            Some(MOST),
            None,
        );
    }
}

/// A time for people, which a difference may make negative.
fn ns_of(ns: f64) -> String {
    if ns < 0.0 { format!("-{}", nanoseconds(-ns)) } else { nanoseconds(ns) }
}
