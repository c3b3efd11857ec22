//! File systems in the machine's memory, made for one cell: SCMFS on a region in a tmpfs, the same mounted by
//! FUSE, tmpfs itself, ext4 on a loop device on a file in a tmpfs.
//!
//! All mounts are in a mount namespace of this process, and what serves them dies with it: however the cell
//! or the lab ends, the kernel takes everything away.

use crate::{loop_device, served};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Facts;
use pocketstone_core::plan::{FileSystem, Volume as Asked};
use pocketstone_core::{Error, Result};
use pocketstone_media::{MapOptions, Mapped, Pcm, PcmOptions, Region, WearMap};
use pocketstone_mount::MountOptions;
use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::Signal;
use rustix::thread::UnshareFlags;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

/// Size of every file system here, where the machine has the memory.
const VOLUME_BYTES: u64 = 256 << 20;
/// A volume smaller than this is not worth measuring.
const LEAST_BYTES: u64 = 64 << 20;
/// What sizes are multiples of: huge pages.
const UNIT_BYTES: u64 = 2 << 20;

/// What a `files` workload works on.
pub enum Place {
    /// A directory that the kernel serves.
    Directory(PathBuf),
    /// An open volume.
    Volume(Volume),
}

/// A file system in memory. Dropping it ends who serves it; its mounts go with this process.
pub struct InMemory {
    place: Option<Place>,
    facts: Facts,
    wear: Option<WearMap>,
    _server: Option<Server>,
}

impl InMemory {
    /// Makes a file system with its mount points in `folder`. This process sees a mount namespace of its own
    /// from then on.
    ///
    /// # Errors
    /// When the machine lacks what it takes; the hint says what would give it.
    pub fn make(asked: &Asked, folder: &Path) -> Result<Self> {
        if !asked.options.is_empty() {
            let (options, name) = (asked.options.join(","), asked.file_system.name());
            return Err(Error::user(format!("the options `{options}` are none of {name} in memory"))
                .hint("leave compression and bulk_read out for it"));
        }
        let bytes = volume_bytes(&fs::read_to_string("/proc/meminfo").board(|| "cannot read /proc/meminfo".into())?)?;
        enter_own_namespace()?;
        let memory = folder.join("memory");
        // ext4 and SCMFS have a file of that size in it, tmpfs is of that size.
        let room = if asked.file_system == FileSystem::Tmpfs { bytes } else { bytes + UNIT_BYTES };
        let huge = mount_tmpfs(&memory, room)?;
        let mut facts = Facts::from([
            ("volume.bytes".to_owned(), bytes.to_string()),
            ("volume.caches".to_owned(), "warm".to_owned()),
            ("volume.tmpfs_huge".to_owned(), huge.to_owned()),
        ]);
        let (backing, mounted) = (memory.join("region"), folder.join("volume"));
        let mut server = None;
        let mut wear = None;
        let place = match asked.file_system {
            FileSystem::Tmpfs => Place::Directory(memory),
            FileSystem::Ext4 => {
                mount_ext4(&backing, bytes, &mounted)?;
                Place::Directory(mounted)
            }
            FileSystem::ScmfsPcm => {
                let options = PcmOptions::default();
                let (pcm, map) = Pcm::new(bytes, &options);
                let create = CreateOptions { zeroed: true, ..CreateOptions::default() };
                Volume::create(Box::new(pcm.clone()), &create)?;
                facts.insert("volume.pcm_read_ns".into(), options.read_ns.to_string());
                facts.insert("volume.pcm_write_ns".into(), options.write_ns.to_string());
                wear = Some(map);
                Place::Volume(Volume::open(Box::new(pcm), &OpenOptions::default())?)
            }
            FileSystem::ScmfsFuse => {
                make_volume(&backing, bytes)?;
                let region = backing.to_str().ok_or_else(|| Error::user("a folder's name is not UTF-8"))?;
                server = Some(Server(served::spawn(&["serve", region], &mounted)?));
                Place::Directory(mounted)
            }
            _ => {
                make_volume(&backing, bytes)?;
                Place::Volume(open_volume(&backing)?)
            }
        };
        if let FileSystem::Scmfs | FileSystem::ScmfsFuse = asked.file_system {
            let pid = server.as_ref().map_or_else(|| "self".to_owned(), |s| s.0.id().to_string());
            let mapped = mapped_huge_bytes(&pid, &backing);
            facts.extend(mapped.map(|bytes| ("volume.mapped_huge_bytes".to_owned(), bytes.to_string())));
        }
        Ok(InMemory { place: Some(place), facts, wear, _server: server })
    }

    /// Where to work; once.
    pub fn take_place(&mut self) -> Option<Place> {
        self.place.take()
    }

    /// What it is made of, and how much of it is worn by now.
    pub fn facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        if let Some(wear) = self.wear.as_ref().map(WearMap::summary) {
            facts.insert("volume.pcm_lines_written".into(), wear.writes_total.to_string());
            facts.insert("volume.pcm_hottest_line_writes".into(), wear.hottest_writes.to_string());
            facts.insert("volume.pcm_hottest_over_mean".into(), format!("{:.2}", wear.ratio));
        }
        facts
    }
}

/// The size of a volume on a machine with that /proc/meminfo: at most half of what it has to spare.
fn volume_bytes(meminfo: &str) -> Result<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024;
    let bytes = VOLUME_BYTES.min(available / 2) / UNIT_BYTES * UNIT_BYTES;
    match bytes >= LEAST_BYTES {
        true => Ok(bytes),
        false => Err(Error::board(format!("{available} bytes of free memory are too little for a volume in memory"))
            .hint(format!("free {} bytes", 2 * LEAST_BYTES))),
    }
}

/// Gives this process mounts of its own; where it is not root, as root of a user namespace of its own.
fn enter_own_namespace() -> Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let mut flags = UnshareFlags::NEWNS;
    flags.set(UnshareFlags::NEWUSER, !user.is_root());
    let refused = |e: rustix::io::Errno| {
        Error::board("this process may not have mounts of its own").because(e).hint("run as root")
    };
    // SAFETY: no file descriptors are unshared.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(refused)?;
    if !user.is_root() {
        let (users, groups) = (format!("0 {} 1", user.as_raw()), format!("0 {} 1", group.as_raw()));
        for (file, text) in [("setgroups", "deny"), ("uid_map", &users), ("gid_map", &groups)] {
            fs::write(format!("/proc/self/{file}"), text).board(|| format!("cannot write /proc/self/{file}"))?;
        }
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(refused)
}

/// Mounts a tmpfs and says which huge pages it has: those of the kernel's choice where it lets us choose.
fn mount_tmpfs(at: &Path, bytes: u64) -> Result<&'static str> {
    fs::create_dir(at).board(|| format!("cannot create {}", at.display()))?;
    let attempt = |options: String| {
        let data = CString::new(options).unwrap_or_default();
        mount("tmpfs", at, "tmpfs", MountFlags::empty(), Some(data.as_c_str()))
    };
    if attempt(format!("size={bytes},mode=700,huge=always")).is_ok() {
        return Ok("always");
    }
    attempt(format!("size={bytes},mode=700"))
        .map_err(|e| Error::board("cannot mount a tmpfs").because(e).hint("run as root"))?;
    Ok("never")
}

/// A file with room for every byte, and a volume in it.
fn make_volume(path: &Path, bytes: u64) -> Result<()> {
    let region = Mapped::create(path, bytes, &MapOptions::default())?;
    let zeroed = region.zeroed();
    Ok(Volume::create(Box::new(region), &CreateOptions { zeroed, ..CreateOptions::default() })?)
}

/// Opens a volume, and has all of its memory mapped: storage class memory is there from the start.
fn open_volume(path: &Path) -> Result<Volume> {
    let region = Mapped::open(path, &MapOptions::default())?;
    region.touch(0, region.bytes());
    Ok(Volume::open(Box::new(region), &OpenOptions::default())?)
}

/// How much of a mapped file is mapped by huge pages in a process.
fn mapped_huge_bytes(pid: &str, file: &Path) -> Option<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?;
    let name = file.to_str()?;
    let mut inside = false;
    let mut kilobytes = 0;
    for line in maps.lines() {
        // The head of a mapping has no unit at its end.
        if !line.ends_with("kB") && line.contains('-') {
            inside = line.ends_with(name);
        } else if let (true, Some(rest)) = (inside, line.strip_prefix("ShmemPmdMapped:")) {
            kilobytes += rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?;
        }
    }
    Some(kilobytes * 1024)
}

/// Makes ext4 in a file, and mounts it by a loop device.
fn mount_ext4(backing: &Path, bytes: u64, at: &Path) -> Result<()> {
    // With room for every byte, as the others have: nothing is allocated below ext4 while it is measured.
    drop(Mapped::create(backing, bytes, &MapOptions::default())?);
    // Blocks as on larger disks: left to itself, mkfs makes them smaller below 512 MiB, and writes slower.
    // What it would leave to the kernel to finish in the background is done at once.
    let program = find("mkfs.ext4")
        .ok_or_else(|| Error::board("there is no mkfs.ext4 on this machine").hint("apt-get install e2fsprogs"))?;
    let options = ["-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];
    let made = Command::new(program).args(options).arg(backing).output().board(|| "cannot run mkfs.ext4".into())?;
    if !made.status.success() {
        return Err(Error::board(format!("mkfs.ext4 failed: {}", String::from_utf8_lossy(&made.stderr).trim())));
    }
    let (_device, path) = loop_device::attach(backing)?;
    fs::create_dir(at).board(|| format!("cannot create {}", at.display()))?;
    mount(path.as_str(), at, "ext4", MountFlags::empty(), None)
        .map_err(|e| Error::board(format!("cannot mount {path} as ext4")).because(e).hint("modprobe ext4, as root"))
}

/// A program in the search path, or where root's programs are.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|program| program.exists())
}

/// The process that serves a mounted volume; ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Mounts a volume and serves it until it is unmounted, or until the process that started this one ends.
///
/// # Errors
/// When it cannot be opened or mounted.
pub fn serve(region: &Path, at: &Path, say: impl Fn(&str)) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .board(|| "cannot ask for this process's end with its parent".into())?;
    let volume = Arc::new(open_volume(region)?);
    let mounted = pocketstone_mount::mount(volume, at, &MountOptions::default())?;
    say(&format!("{}\n", served::READY));
    mounted.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_as_large_as_memory_allows() {
        let on =
            |kilobytes: u64| volume_bytes(&format!("MemTotal: 9 kB\nMemAvailable:   {kilobytes} kB\nBuffers: 1 kB\n"));
        assert_eq!(on(24 << 20).unwrap(), 256 << 20);
        assert_eq!(on((400 << 10) + 5).unwrap(), 200 << 20);
        assert!(on(100 << 10).unwrap_err().cure().unwrap().contains("134217728"));
        assert!(volume_bytes("").is_err());
    }
}
