//! When prefetch is read: a file system on which every page takes its time shows who waits for it. Needs /dev/fuse
//! and root; says so and passes without.

use pocketstone_mount::{MountOptions, Mountable, mount};
use pocketstone_testing::{fuse, or_skip};
use pocketstone_vfs::*;
use rustix::fs::Advice;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const FILE: Ino = 2;
const FILE_PAGES: u64 = 512;
/// What a page takes, as a slow chip would: long beside what FUSE and a busy machine take.
const PAGE_TIME: Duration = Duration::from_millis(4);

/// The number of no read: the reader rests.
const RESTS: u64 = u64::MAX;

/// A request that came: first page, number of pages, and the number of the read that the reader was in when it came
/// and when it was served.
#[derive(Clone, Debug)]
struct Request {
    first: u64,
    pages: u64,
    came_in: u64,
    served_in: u64,
}

impl Request {
    /// The reader waited for it: the read that was going on when it came had not returned when it was served.
    fn was_waited_for(&self) -> bool {
        self.came_in != RESTS && self.came_in == self.served_in
    }
}

/// One file, whose pages take [`PAGE_TIME`] each.
struct Slow {
    requests: Mutex<Vec<Request>>,
    closings: AtomicU64,
    /// The number of the read that is going on, or [`RESTS`].
    reading: AtomicU64,
}

impl Default for Slow {
    fn default() -> Slow {
        Slow { requests: Mutex::default(), closings: AtomicU64::new(0), reading: AtomicU64::new(RESTS) }
    }
}

fn attributes(ino: Ino) -> Result<Attr> {
    let (kind, permissions, size) = match ino {
        ROOT => (FileType::Directory, 0o755, 0),
        FILE => (FileType::Regular, 0o644, FILE_PAGES * PAGE),
        _ => return Err(Error::NotFound),
    };
    Ok(Attr::new(ino, kind).permissions(permissions).size(size))
}

impl Operations for Slow {
    type Handle = Ino;

    fn lookup(&self, _: Ino, name: &[u8]) -> Result<Attr> {
        if name == b"file" { attributes(FILE) } else { Err(Error::NotFound) }
    }
    fn parent(&self, _: Ino) -> Result<Ino> {
        Ok(ROOT)
    }
    fn attributes(&self, ino: Ino) -> Result<Attr> {
        attributes(ino)
    }
    fn set_attributes(&self, ino: Ino, _: &SetAttr) -> Result<Attr> {
        attributes(ino)
    }
    fn create_file(&self, _: Ino, _: &[u8], _: &Meta) -> Result<Ino> {
        Err(Error::NoSpace)
    }
    fn create_directory(&self, _: Ino, _: &[u8], _: &Meta) -> Result<Attr> {
        Err(Error::NoSpace)
    }
    fn create_symlink(&self, _: Ino, _: &[u8], _: &[u8], _: u32, _: u32) -> Result<Attr> {
        Err(Error::NoSpace)
    }
    fn read_link(&self, _: Ino) -> Result<Vec<u8>> {
        Err(Error::Invalid)
    }
    fn link(&self, _: Ino, _: Ino, _: &[u8]) -> Result<Attr> {
        Err(Error::TooManyLinks)
    }
    fn unlink(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Error::NotPermitted)
    }
    fn remove_directory(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Error::NotPermitted)
    }
    fn rename(&self, _: Ino, _: &[u8], _: Ino, _: &[u8], _: Rename) -> Result<()> {
        Err(Error::NotPermitted)
    }
    fn read_directory(&self, _: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        if cookie == 0 {
            take(&Entry::new(b"file".to_vec(), FILE, FileType::Regular, 1));
        }
        Ok(())
    }
    fn open(&self, ino: Ino) -> Result<Ino> {
        Ok(ino)
    }
    fn release(&self, _: Ino) {}
    fn ino(&self, handle: &Ino) -> Ino {
        *handle
    }
    fn read_at(&self, _: &Ino, into: &mut [u8], offset: u64) -> Result<usize> {
        let pages = (into.len() as u64).div_ceil(PAGE);
        let came_in = self.reading.load(Ordering::SeqCst);
        std::thread::sleep(PAGE_TIME * pages as u32);
        let served_in = self.reading.load(Ordering::SeqCst);
        self.requests.lock().unwrap().push(Request { first: offset / PAGE, pages, came_in, served_in });
        into.fill((offset / PAGE) as u8);
        Ok(into.len())
    }
    fn write_at(&self, _: &Ino, _: &[u8], _: u64) -> Result<usize> {
        Err(Error::NoSpace)
    }
    fn append(&self, _: &Ino, _: &[u8]) -> Result<(usize, u64)> {
        Err(Error::NoSpace)
    }
    fn sync(&self, _: &Ino) -> Result<()> {
        Ok(())
    }
    fn sync_all(&self) -> Result<()> {
        Ok(())
    }
    fn statfs(&self) -> Result<Statfs> {
        Ok(Statfs::new(4096).blocks(512).inodes(2))
    }
}

impl Mountable for Slow {
    const SUBTYPE: &'static str = "slow";
    const ASKS_AT_CLOSE: bool = true;

    fn closing(&self, _: &Ino) -> Result<()> {
        self.closings.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn sync_inode(&self, _: Ino) -> Result<()> {
        Ok(())
    }
    fn get_xattr(&self, _: Ino, _: &[u8]) -> Result<Vec<u8>> {
        Err(Error::NoAttribute)
    }
    fn list_xattrs(&self, _: Ino) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }
    fn set_xattr(&self, _: Ino, _: &[u8], _: &[u8], _: SetXattr) -> Result<()> {
        Err(Error::NotSupported)
    }
    fn remove_xattr(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Error::NoAttribute)
    }
}

/// Sets the read-ahead of a mount in KiB; what it was.
fn set_read_ahead(mounted: &Path, kib: u32) -> String {
    let device = fs::metadata(mounted).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let before = fs::read_to_string(&setting).unwrap().trim().to_owned();
    fs::write(&setting, kib.to_string()).unwrap();
    before
}

/// As [`sequential`], again on a fresh mount while a run shows something else: where the kernel took pages back, its
/// window did not grow, and a reader that got no processor is in no later read when prefetch is served.
fn until_shown(options: &MountOptions, shown: impl Fn(&[Request]) -> bool) -> (Vec<Duration>, Vec<Request>) {
    const RUNS: u32 = 10;
    let mut last = sequential(options, 128, 64);
    for _ in 1..RUNS {
        if shown(&last.1) {
            break;
        }
        last = sequential(options, 128, 64);
    }
    last
}

/// The times of sequential reads of a page each, with a pause behind each in which prefetch can go on, and the
/// requests that came for them.
fn sequential(options: &MountOptions, read_ahead_kib: u32, reads: u64) -> (Vec<Duration>, Vec<Request>) {
    let slow = Arc::new(Slow::default());
    let home = tempfile::tempdir().unwrap();
    let mounted = mount(slow.clone(), home.path(), options).unwrap();
    assert_eq!(set_read_ahead(home.path(), read_ahead_kib), (options.max_readahead_bytes / 1024).to_string());
    let file = File::open(home.path().join("file")).unwrap();
    let mut page = [0; PAGE as usize];
    let times = (0..reads).map(|n| {
        let start = Instant::now();
        slow.reading.store(n, Ordering::SeqCst);
        file.read_exact_at(&mut page, n * PAGE).unwrap();
        slow.reading.store(RESTS, Ordering::SeqCst);
        let time = start.elapsed();
        std::thread::sleep(PAGE_TIME / 2);
        time
    });
    let times = times.collect();
    drop(file);
    mounted.unmount().unwrap();
    assert_eq!(slow.closings.load(Ordering::SeqCst), 1, "the kernel asks at close");
    let requests = slow.requests.lock().unwrap().clone();
    (times, requests)
}

fn pages_of(requests: &[Request]) -> u64 {
    requests.iter().map(|request| request.pages).sum()
}

fn largest(requests: &[Request]) -> Option<u64> {
    requests.iter().map(|request| request.pages).max()
}

#[test]
fn prefetch_is_read_inside_the_read_that_triggers_it() {
    or_skip!(fuse());
    let whole_window = |requests: &[Request]| largest(requests) == Some(32);
    let (times, requests) = until_shown(&MountOptions::raw_nand("slow"), whole_window);
    // A window of 128 KiB is 32 pages, and one read waits for all of it.
    assert_eq!(largest(&requests), Some(32), "{requests:?}");
    assert!(times.iter().any(|time| *time >= PAGE_TIME * 32), "{times:?}");
    // Pages that the kernel took back before they were read come again, one at a time: they, too, are waited for.
    assert!(requests.iter().all(Request::was_waited_for), "{requests:?}");
    let spent: Duration = times.iter().sum();
    assert!(spent >= PAGE_TIME * pages_of(&requests) as u32, "{spent:?} {requests:?}");
}

#[test]
fn with_asynchronous_reads_nobody_waits_for_prefetch() {
    or_skip!(fuse());
    let options = MountOptions { async_read: true, ..MountOptions::raw_nand("slow") };
    // Prefetch goes on while the reader rests or is in a later read.
    let is_left = |request: &Request| request.pages == 32 && !request.was_waited_for();
    let (times, requests) = until_shown(&options, |requests| requests.iter().any(is_left));
    assert_eq!(largest(&requests), Some(32), "{requests:?}");
    assert!(requests.iter().any(is_left), "{requests:?}");
    assert!(times.iter().any(|time| *time >= PAGE_TIME), "the test sees waiting where there is some: {times:?}");
}

#[test]
fn without_a_window_every_page_is_a_request_of_its_own() {
    or_skip!(fuse());
    let (times, requests) = sequential(&MountOptions::raw_nand("slow"), 0, 16);
    let expected: Vec<(u64, u64)> = (0..16).map(|page| (page, 1)).collect();
    assert_eq!(requests.iter().map(|request| (request.first, request.pages)).collect::<Vec<_>>(), expected);
    assert!(times.iter().all(|time| *time >= PAGE_TIME), "{times:?}");
}

#[test]
fn advice_that_pages_will_be_needed_is_served_before_it_returns() {
    or_skip!(fuse());
    for read_ahead_kib in [128, 0] {
        let slow = Arc::new(Slow::default());
        let home = tempfile::tempdir().unwrap();
        let mounted = mount(slow.clone(), home.path(), &MountOptions::raw_nand("slow")).unwrap();
        set_read_ahead(home.path(), read_ahead_kib);
        let file = File::open(home.path().join("file")).unwrap();
        let start = Instant::now();
        rustix::fs::fadvise(&file, 0, std::num::NonZeroU64::new(16 * PAGE), Advice::WillNeed).unwrap();
        // FUSE's backing device has a largest request of its own: advice is heard without a window, too.
        assert!(start.elapsed() >= PAGE_TIME * 16, "{read_ahead_kib}");
        let requests = slow.requests.lock().unwrap().clone();
        // A page that the kernel took back meanwhile comes again.
        let pages: BTreeSet<u64> = requests.iter().flat_map(|r| r.first..r.first + r.pages).collect();
        assert_eq!(pages, (0..16).collect(), "{read_ahead_kib}");
        drop(file);
        mounted.unmount().unwrap();
    }
}
