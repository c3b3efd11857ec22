//! Volumes on hugetlbfs, where the machine lets a test have huge pages.

use pocketstone_media::{MapOptions, Mapped, Piece, Region};
use pocketstone_testing::wait::{LONG, poll};
use pocketstone_testing::{Need, or_skip};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::path::Path;

const HUGE: u64 = 2 << 20;
const COUNT: &str = "/proc/sys/vm/nr_hugepages";
const WANTED: u64 = 8;

fn count() -> Result<u64, String> {
    let text = std::fs::read_to_string(COUNT).map_err(|error| format!("{COUNT}: {error}"))?;
    text.trim().parse().map_err(|error| format!("{COUNT}: {error}"))
}

/// Huge pages and a file system for them, both given back when dropped.
struct HugePages {
    before: u64,
    home: tempfile::TempDir,
    mounted: bool,
}

impl HugePages {
    fn get() -> Result<HugePages, String> {
        let before = count()?;
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut pages = HugePages { before, home, mounted: false };
        std::fs::write(COUNT, (before + WANTED).to_string()).map_err(|error| format!("{COUNT}: {error}"))?;
        if count()? < before + WANTED {
            return Err("the kernel has no memory for huge pages".into());
        }
        mount("none", pages.home.path(), "hugetlbfs", MountFlags::empty(), c"pagesize=2M")
            .map_err(|error| format!("mounting hugetlbfs: {error}"))?;
        pages.mounted = true;
        Ok(pages)
    }

    fn home(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if self.mounted {
            let _ = unmount(self.home.path(), UnmountFlags::DETACH);
        }
        let _ = std::fs::write(COUNT, self.before.to_string());
    }
}

/// Does something with so many huge pages free, and again if somebody else took or gave some meanwhile: they are the
/// whole machine's.
fn with_free_pages<T>(mut act: impl FnMut(u64) -> T) -> T {
    let free = || -> u64 {
        let text = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").unwrap();
        text.trim().parse().unwrap()
    };
    let once = || {
        let before = free();
        let done = act(before);
        (free() == before).then_some(done)
    };
    poll(LONG, once).expect("a moment in which nobody else uses huge pages")
}

#[test]
fn a_volume_on_huge_pages() {
    let pages = or_skip!(HugePages::get().map_err(|why| Need::Kernel.lacks(why)));
    let path = pages.home().join("volume");
    let region = Mapped::create(&path, HUGE + 1, &MapOptions::default()).unwrap();
    assert_eq!((region.bytes(), region.map_bytes()), (2 * HUGE, HUGE));
    assert!(region.describe().contains("on hugetlbfs"), "{}", region.describe());
    assert_eq!(region.base() as u64 % HUGE, 0);
    region.touch(0, 2 * HUGE);
    // SAFETY: nobody else uses these bytes.
    unsafe { region.write(HUGE, &[5; 100]) };
    region.grow(3 * HUGE).unwrap();
    // SAFETY: nobody else uses these bytes.
    unsafe { region.write(2 * HUGE, &[6; 100]) };
    let holes = [Some(2 * HUGE), None, Some(HUGE)].map(|at| Piece { at, bytes: HUGE });
    let window = region.window(&holes).expect("a window of huge pages");
    let word = |at: u64| {
        // SAFETY: inside the window's three huge pages.
        unsafe { window.base().add(at as usize).read() }
    };
    assert_eq!([word(0), word(HUGE), word(2 * HUGE)], [6, 0, 5]);
    drop(window);
    drop(region);
    // Addresses for more than all huge pages of this machine, however many it has.
    let reserve_bytes = Some((with_free_pages(|free| free) + 64) * HUGE);
    let region = Mapped::open(&path, &MapOptions::default().reserve_bytes(reserve_bytes)).unwrap();
    let mut found = [0; 100];
    region.read(HUGE, &mut found);
    assert_eq!(found, [5; 100]);

    // All but three are left, perhaps besides some that were free before.
    let other = pages.home().join("other");
    let too_large = |free: u64| {
        let made = Mapped::create(&other, (free + 4) * HUGE, &MapOptions::default());
        if made.is_ok() {
            std::fs::remove_file(&other).unwrap();
        }
        made.map(drop)
    };
    let error = with_free_pages(too_large).expect_err("more huge pages than there are");
    let cure = error.cure().unwrap_or_default();
    assert!(cure.starts_with("raise /proc/sys/vm/nr_hugepages by 4"), "{}; {cure}", error.chain());
    assert!(!other.exists());
    let cure = with_free_pages(|free| region.grow((3 + free + 2) * HUGE)).unwrap_err();
    assert!(cure.cure().unwrap_or_default().starts_with("raise /proc/sys/vm/nr_hugepages by 2"), "{}", cure.chain());
    assert_eq!(region.bytes(), 3 * HUGE);
}
