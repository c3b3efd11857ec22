//! Where the benchmarks run: a tmpfs with huge pages, hugetlbfs if the machine has pages for it, and ext4
//! on a loop device over the tmpfs. All in a mount namespace of this process, so that nothing stays.

use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::path::{Path, PathBuf};
use std::process::Command;

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// The places, mounted.
pub struct Ground {
    pub tmpfs: PathBuf,
    pub ext4: Option<PathBuf>,
    pub hugetlbfs: Option<PathBuf>,
    hugepages_before: Option<String>,
    _folder: tempfile::TempDir,
}

/// What is left out, why, and the cure.
pub fn left_out(what: &str, why: &str, cure: &str) {
    super::say(&format!("left out: {what}; why: {why}; fix: {cure}"));
}

/// A program of C, which makes its system calls by libc, as most do; `None`: it is left out, and said to be.
#[allow(dead_code)]
pub fn compiled(ground: &Ground, name: &str, source: &str) -> Option<PathBuf> {
    let Ok(compiler) = pocketstone_testing::program("cc", "gcc") else {
        left_out("programs as they are", "there is no C compiler", "apt-get install gcc");
        return None;
    };
    let (written, made) = (ground.tmpfs.join(format!("{name}.c")), ground.tmpfs.join(name));
    std::fs::write(&written, source).expect("a source");
    let run = Command::new(compiler).arg("-O2").arg("-o").args([&made, &written]).status();
    assert!(run.is_ok_and(|status| status.success()), "{name}.c is not compiled");
    Some(made)
}

impl Ground {
    /// Mounts everything; `None` if this process may not mount.
    pub fn prepare(tmpfs_bytes: u64) -> Option<Ground> {
        // SAFETY: benchmarks start with one thread; nothing relies on the old namespace.
        let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        if unshared.and_then(|()| rustix::mount::mount_change("/", private)).is_err() {
            left_out("the file system benchmarks", "this process may not mount", "run as root");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).expect("a new folder");
            path
        };
        let tmpfs = place("tmpfs");
        let options = std::ffi::CString::new(format!("size={tmpfs_bytes},huge=always")).expect("no zero byte");
        rustix::mount::mount("tmpfs", &tmpfs, "tmpfs", MountFlags::empty(), Some(options.as_c_str())).expect("a tmpfs");
        let ext4 = mount_ext4(&tmpfs, &place("ext4"));
        let (hugetlbfs, hugepages_before) = mount_hugetlbfs(&place("hugetlbfs"));
        Some(Ground { tmpfs, ext4, hugetlbfs, hugepages_before, _folder: folder })
    }

    /// A fresh volume on the tmpfs.
    pub fn volume(&self, name: &str, bytes: u64, persistent: bool) -> Volume {
        volume(&self.tmpfs.join(name), bytes, persistent, None)
    }

    /// A fresh volume whose contents have checksums.
    pub fn volume_with_checksums(&self, name: &str, bytes: u64, persistent: bool) -> Volume {
        let create = CreateOptions::default().checksums(true);
        made(&self.tmpfs.join(name), bytes, persistent, create)
    }
}

/// A fresh volume in a file.
pub fn volume(path: &Path, bytes: u64, persistent: bool, inodes: Option<u32>) -> Volume {
    made(path, bytes, persistent, CreateOptions::default().inodes(inodes))
}

fn made(path: &Path, bytes: u64, persistent: bool, create: CreateOptions) -> Volume {
    let options = MapOptions::default().persistent(persistent);
    let region = Mapped::create(path, bytes, &options).expect("a region");
    let create = create.zeroed(region.zeroed());
    Volume::create(Box::new(region), &create).expect("a volume");
    let region = Mapped::open(path, &options).expect("the region again");
    let open = OpenOptions::default().background(true);
    Volume::open(Box::new(region), &open).expect("a sound volume")
}

fn mount_ext4(tmpfs: &Path, at: &Path) -> Option<PathBuf> {
    let image = tmpfs.join("ext4.image");
    let make = || -> std::io::Result<bool> {
        std::fs::File::create(&image)?.set_len(3 << 30)?;
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status()?.success();
        let mount = || Command::new("mount").args(["-o", "loop"]).arg(&image).arg(at).status();
        Ok(made && mount()?.success())
    };
    if make().unwrap_or(false) {
        return Some(at.to_path_buf());
    }
    left_out("ext4", "mkfs.ext4 or the loop device failed", "apt-get install e2fsprogs mount, and run as root");
    None
}

fn mount_hugetlbfs(at: &Path) -> (Option<PathBuf>, Option<String>) {
    let before = std::fs::read_to_string(HUGE_PAGES).ok();
    let wanted = 300;
    let _ = std::fs::write(HUGE_PAGES, wanted.to_string());
    let got = std::fs::read_to_string(HUGE_PAGES).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let mounted = rustix::mount::mount("hugetlbfs", at, "hugetlbfs", MountFlags::empty(), None);
    if mounted.is_ok() && got.is_some_and(|got| got >= wanted) {
        return (Some(at.to_path_buf()), before);
    }
    left_out(
        "hugetlbfs",
        "the kernel gives no 300 huge pages",
        "free memory, or write 300 to /proc/sys/vm/nr_hugepages",
    );
    (None, before)
}

impl Drop for Ground {
    fn drop(&mut self) {
        for place in [&self.ext4, &self.hugetlbfs, &Some(self.tmpfs.clone())].into_iter().flatten() {
            let _ = rustix::mount::unmount(place, UnmountFlags::DETACH);
        }
        if let Some(before) = &self.hugepages_before {
            let _ = std::fs::write(HUGE_PAGES, before);
        }
    }
}
