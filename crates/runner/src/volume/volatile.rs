//! Volumes in the machine's memory, made for one cell: SCMFS on a region in a tmpfs, a hugetlbfs, this process's memory
//! or simulated phase change memory, in process or by FUSE; YAFFS2 on a simulated chip; names without content by FUSE;
//! tmpfs and ramfs themselves; ext2, ext3 and ext4 on a loop device on a file in a tmpfs.
//!
//! All mounts are in a mount namespace of this process, and what serves them dies with it: however the cell
//! or the lab ends, the kernel takes everything away.

use super::{Home, loop_device, preloaded, served};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Facts;
use pocketstone_core::units::format_bytes;
use pocketstone_core::volume::{Access, FileSystem, Medium, Setup, Volume as Asked};
use pocketstone_core::words::Word;
use pocketstone_core::{Error, Result};
use pocketstone_engine::{ScmfsTree, Yaffs2Tree, end_with_this_process, open_scmfs};
use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_media::{MapOptions, Mapped, Pcm, PcmOptions, WearMap};
use pocketstone_mount::daemon::watch;
use pocketstone_mount::{MountOptions, Preload, mount_hollow, mount_scmfs, mount_yaffs2};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Threshold, Volume};
use pocketstone_yaffs2 as yaffs2;
use procfs::process::{MMapPath, Process};
use procfs::{Current, Meminfo};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

/// Size of a file system here that is to have the usual one, where the machine has the memory.
const VOLUME_BYTES: u64 = 256 << 20;
/// A volume smaller than this is not worth measuring.
const LEAST_BYTES: u64 = 64 << 20;
/// What sizes are multiples of: huge pages.
const UNIT_BYTES: u64 = 2 << 20;

/// A volatile volume that was made. Dropping it ends who serves it; its mounts go with this process.
pub struct Made {
    facts: Facts,
    wear: Option<WearMap>,
    _server: Option<Server>,
}

/// What an SCMFS volume lies on.
struct Backing {
    medium: Medium,
    bytes: u64,
    /// The file that is mapped; `None`: memory that no file stands for.
    file: Option<PathBuf>,
    /// What is unusual about the volume.
    setup: Setup,
    /// Keeps a file that has no name.
    _memory: Option<OwnedFd>,
}

/// Makes a volume with its mount points in `folder`. This process sees a mount namespace of its own from then on.
///
/// # Errors
/// `ErrorKind::Board` if the machine lacks what it takes; the hint says what would give it. `ErrorKind::User` for mount
/// options, or if a region does not fit; `ErrorKind::Bug` for a file system that is unsupported in memory.
pub fn make(asked: &Asked, folder: &Path, for_engine: bool) -> Result<(Home, Made)> {
    if !asked.options.is_empty() {
        return Err(Error::user(format!(
            "{} in memory does not support the option `{}`",
            asked.name(),
            asked.options.join(",")
        ))
        .hint("omit compression and bulk_read for it"));
    }
    let bytes = volume_bytes(asked.setup.bytes, memory()?.mem_available.unwrap_or(0))?;
    enter_own_namespace()?;
    let facts = Facts::from([
        ("volume.bytes".to_owned(), bytes.to_string()),
        ("volume.medium".to_owned(), asked.medium.name().to_owned()),
        ("volume.access".to_owned(), asked.access.name().to_owned()),
        ("volume.caches".to_owned(), "warm".to_owned()),
    ]);
    let mut made = Made { facts, wear: None, _server: None };
    let home = match asked.file_system {
        FileSystem::Tmpfs => Home::Kernel(made.tmpfs(folder, bytes, asked.medium == Medium::Tmpfs)?),
        FileSystem::Ramfs => {
            let mounted = folder.join("volume");
            mount_ramfs(&mounted)?;
            made.facts.insert("volume.bytes".into(), "unlimited".into());
            Home::Kernel(mounted)
        }
        FileSystem::Ext2 | FileSystem::Ext3 | FileSystem::Ext4 => {
            let backing = made.tmpfs(folder, bytes + UNIT_BYTES, true)?.join("region");
            let mounted = folder.join("volume");
            mount_ext(asked.file_system, &backing, bytes, &mounted, &asked.setup)?;
            made.facts.insert("volume.direct".into(), asked.setup.direct.to_string());
            made.facts.insert("volume.barriers".into(), (!asked.setup.no_barriers).to_string());
            if asked.setup.direct { Home::Direct(mounted) } else { Home::Kernel(mounted) }
        }
        FileSystem::Scmfs => made.scmfs(asked, folder, bytes, for_engine)?,
        FileSystem::Yaffs2 => made.yaffs2(asked, folder, bytes)?,
        FileSystem::Null => made.null(folder)?,
        _ => return Err(Error::bug(format!("{} is unsupported in memory", asked.name()))),
    };
    Ok((home, made))
}

impl Made {
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

    fn tmpfs(&mut self, folder: &Path, bytes: u64, huge: bool) -> Result<PathBuf> {
        let memory = folder.join("memory");
        let huge = mount_tmpfs(&memory, bytes, huge)?;
        self.facts.insert("volume.tmpfs_huge".into(), huge.into());
        Ok(memory)
    }

    fn scmfs(&mut self, asked: &Asked, folder: &Path, bytes: u64, for_engine: bool) -> Result<Home> {
        let setup = asked.setup.clone();
        let mut backing = Backing { medium: asked.medium, bytes, file: None, setup, _memory: None };
        match asked.medium {
            Medium::Tmpfs => backing.file = Some(self.tmpfs(folder, bytes + UNIT_BYTES, true)?.join("region")),
            Medium::Hugetlbfs => backing.file = Some(mount_hugetlbfs(&folder.join("memory"), bytes)?.join("region")),
            _ => {}
        }
        if asked.medium == Medium::Pcm {
            let options = pcm_options(&asked.setup);
            self.facts.insert("volume.pcm_read_ns".into(), options.read_ns.to_string());
            self.facts.insert("volume.pcm_write_ns".into(), options.write_ns.to_string());
        }
        if asked.access != Access::InProcess {
            if asked.access == Access::Preload {
                preloaded::check()?;
                self.facts.insert("volume.preload".into(), preloaded::WAY.into());
            }
            let mounted = folder.join("volume");
            // Without a name the file is the server's own.
            let region = backing.file.as_deref().map_or(Some(""), Path::to_str);
            let region = region.ok_or_else(|| Error::user("a folder's name is not UTF-8"))?;
            let setup = serde_json::to_string(&backing.setup).board(|| "a volume's setup has no text".into())?;
            let words = ["serve", asked.access.word(), backing.medium.word(), &bytes.to_string(), region, &setup];
            let alone = |command: &mut Command| {
                preloaded::without(command);
                end_with_this_process(command);
            };
            let server = Server(served::spawn(&words, &mounted, alone)?);
            let process = Process::new(server.0.id() as i32).ok();
            self.note_huge_pages(process, backing.file.as_deref());
            self._server = Some(server);
            return Ok(Home::Kernel(mounted));
        }
        if let Some(file) = backing.file.as_ref().filter(|_| for_engine) {
            if asked.setup.null_files.is_some() || asked.setup.collector {
                let error = Error::user("an engine's process opens the volume with null files and collector as usual");
                return Err(error.hint("omit null_files and collector, or set volume_access = \"fuse\""));
            }
            make_volume(file, bytes, false, &backing.setup)?;
            return Ok(Home::Region(file.clone()));
        }
        let (volume, wear) = make_scmfs(&mut backing)?;
        self.wear = wear;
        self.note_huge_pages(Process::myself().ok(), backing.file.as_deref());
        Ok(Home::Scmfs(Box::new(ScmfsTree::new(volume))))
    }

    fn note_huge_pages(&mut self, process: Option<Process>, file: Option<&Path>) {
        let mapped = process.zip(file).and_then(|(process, file)| mapped_huge_bytes(&process, file));
        self.facts.extend(mapped.map(|bytes| ("volume.mapped_huge_bytes".to_owned(), bytes.to_string())));
    }

    fn null(&mut self, folder: &Path) -> Result<Home> {
        let mounted = folder.join("volume");
        self._server = Some(Server(served::spawn(&["serve-null-anonymous"], &mounted, end_with_this_process)?));
        Ok(Home::Kernel(mounted))
    }

    fn yaffs2(&mut self, asked: &Asked, folder: &Path, bytes: u64) -> Result<Home> {
        if asked.access == Access::Fuse {
            let mounted = folder.join("volume");
            let server =
                served::spawn(&["serve-yaffs2-anonymous", &bytes.to_string()], &mounted, end_with_this_process)?;
            self._server = Some(Server(server));
            return Ok(Home::Kernel(mounted));
        }
        Ok(Home::Yaffs2(Box::new(Yaffs2Tree::new(anonymous_yaffs2(bytes)?))))
    }
}

/// A YAFFS2 volume on a simulated chip of so many bytes, with pages of 2 KiB and blocks of 128 KiB. What it takes is
/// what the file system takes: the chip itself answers at once.
fn anonymous_yaffs2(bytes: u64) -> Result<yaffs2::Volume> {
    let blocks = u32::try_from(bytes >> 17).board(|| "the chip is too large".into())?;
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 64, pages_per_block: 64, blocks };
    let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    let volume = yaffs2::Volume::open(Box::new(chip), &yaffs2::OpenOptions::default());
    volume.board(|| "cannot open a volume on a simulated chip".into())
}

/// Makes an SCMFS volume and opens it.
fn make_scmfs(backing: &mut Backing) -> Result<(Volume, Option<WearMap>)> {
    if backing.medium == Medium::Pcm {
        let (memory, wear) = Pcm::new(backing.bytes, &pcm_options(&backing.setup));
        Volume::create(Box::new(memory.region()?), &creation(&backing.setup, true))?;
        return Ok((Volume::open(Box::new(memory.region()?), &opening(&backing.setup))?, Some(wear)));
    }
    let path = match &backing.file {
        Some(path) => path.clone(),
        None => {
            // A file that nobody can name: memory of this process, that can be mapped twice.
            let flags = rustix::fs::MemfdFlags::CLOEXEC;
            let memory = rustix::fs::memfd_create("scmfs", flags).board(|| "no memory for a volume".into())?;
            rustix::fs::ftruncate(&memory, backing.bytes).board(|| "no memory for a volume".into())?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
            backing._memory = Some(memory);
            path
        }
    };
    make_volume(&path, backing.bytes, backing._memory.is_some(), &backing.setup)?;
    Ok((open_scmfs(&path, &opening(&backing.setup))?, None))
}

fn pcm_options(setup: &Setup) -> PcmOptions {
    let usual = PcmOptions::default();
    let (read_ns, write_ns) = (setup.pcm_read_ns, setup.pcm_write_ns);
    usual.read_ns(read_ns.unwrap_or(usual.read_ns)).write_ns(write_ns.unwrap_or(usual.write_ns))
}

fn creation(setup: &Setup, zeroed: bool) -> CreateOptions {
    let usual = CreateOptions::default().zeroed(zeroed);
    match setup.threshold {
        Some(threshold) => usual.threshold(threshold.bytes().map_or(Threshold::Never, Threshold::Bytes)),
        None => usual,
    }
}

fn opening(setup: &Setup) -> OpenOptions {
    let usual = OpenOptions::default().background(setup.collector);
    match setup.null_files {
        Some(null_files) => usual.null_files(null_files),
        None => usual,
    }
}

/// What the kernel says of this machine's memory.
fn memory() -> Result<Meminfo> {
    Meminfo::current().board(|| "cannot read /proc/meminfo".into())
}

/// The size of a volume on a machine with so much memory available: at most half of it. One that is asked for is not
/// made smaller.
fn volume_bytes(asked: Option<u64>, available: u64) -> Result<u64> {
    if let Some(asked) = asked.filter(|bytes| *bytes < LEAST_BYTES) {
        let [asked, least] = [asked, LEAST_BYTES].map(format_bytes);
        return Err(Error::board(format!("volume_bytes = {asked} is less than {least}"))
            .hint(format!("set volume_bytes to at least {least}")));
    }
    let most = available / 2 / UNIT_BYTES * UNIT_BYTES;
    if let Some(asked) = asked.map(|bytes| bytes / UNIT_BYTES * UNIT_BYTES).filter(|bytes| *bytes > most) {
        let error = Error::board(format!("a volume of {asked} bytes leaves too little of {available} bytes of memory"));
        return Err(error.hint(format!("set volume_bytes to at most {most}")));
    }
    let bytes = asked.unwrap_or(VOLUME_BYTES).min(most) / UNIT_BYTES * UNIT_BYTES;
    match bytes >= LEAST_BYTES {
        true => Ok(bytes),
        false => Err(Error::board(format!("{available} bytes of free memory are too few for a volume in memory"))
            .hint(format!("free {} bytes", 2 * LEAST_BYTES))),
    }
}

/// Gives this process mounts of its own; where it is not root, as root of a user namespace of its own.
fn enter_own_namespace() -> Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let mut flags = UnshareFlags::NEWNS;
    flags.set(UnshareFlags::NEWUSER, !user.is_root());
    let refused = |e: rustix::io::Errno| {
        Error::board("this process cannot create a mount namespace").because(e).hint("run as root")
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

/// Mounts a tmpfs and says which huge pages it has: with `huge` those of the kernel's choice where it lets us choose.
fn mount_tmpfs(at: &Path, bytes: u64, huge: bool) -> Result<&'static str> {
    fs::create_dir(at).board(|| format!("cannot create {}", at.display()))?;
    let attempt = |options: String| {
        let data = CString::new(options).unwrap_or_default();
        mount("tmpfs", at, "tmpfs", MountFlags::empty(), Some(data.as_c_str()))
    };
    let wanted = if huge { "always" } else { "never" };
    if attempt(format!("size={bytes},mode=700,huge={wanted}")).is_ok() {
        return Ok(wanted);
    }
    attempt(format!("size={bytes},mode=700"))
        .map_err(|e| Error::board("cannot mount a tmpfs").because(e).hint("run as root"))?;
    Ok("never")
}

/// Mounts a hugetlbfs, whose pages the machine has set aside.
fn mount_hugetlbfs(at: &Path, bytes: u64) -> Result<PathBuf> {
    fs::create_dir(at).board(|| format!("cannot create {}", at.display()))?;
    let pages = bytes / UNIT_BYTES + 1;
    let options = CString::new(format!("size={},mode=700", pages * UNIT_BYTES)).unwrap_or_default();
    let refused = |e: rustix::io::Errno| Error::board("cannot mount a hugetlbfs").because(e).hint("run as root");
    mount("hugetlbfs", at, "hugetlbfs", MountFlags::empty(), Some(options.as_c_str())).map_err(refused)?;
    let free = memory()?.hugepages_free.unwrap_or(0);
    match free >= pages {
        true => Ok(at.to_owned()),
        false => Err(Error::board(format!("{free} of {pages} huge pages are reserved"))
            .hint(format!("as root: echo {pages} > /proc/sys/vm/nr_hugepages"))),
    }
}

/// A file with room for every byte, and a volume in it.
fn make_volume(path: &Path, bytes: u64, there: bool, setup: &Setup) -> Result<()> {
    let region = match there {
        true => Mapped::open(path, &MapOptions::default())?,
        false => Mapped::create(path, bytes, &MapOptions::default())?,
    };
    let zeroed = there || region.zeroed();
    Ok(Volume::create(Box::new(region), &creation(setup, zeroed))?)
}

/// How much of a mapped file is mapped by huge pages in a process.
fn mapped_huge_bytes(process: &Process, file: &Path) -> Option<u64> {
    let maps = process.smaps().ok()?;
    let of_file = maps.iter().filter(|map| matches!(&map.pathname, MMapPath::Path(path) if path == file));
    Some(of_file.filter_map(|map| map.extension.map.get("ShmemPmdMapped")).sum())
}

/// Mounts a ramfs.
fn mount_ramfs(at: &Path) -> Result<()> {
    fs::create_dir(at).board(|| format!("cannot create {}", at.display()))?;
    mount("ramfs", at, "ramfs", MountFlags::empty(), Some(c"mode=700"))
        .map_err(|e| Error::board("cannot mount a ramfs").because(e).hint("run as root"))
}

/// Makes ext2, ext3 or ext4 in a file, and mounts it by a loop device.
fn mount_ext(file_system: FileSystem, backing: &Path, bytes: u64, at: &Path, setup: &Setup) -> Result<()> {
    let name = file_system.name();
    // With room for every byte, as the others have: nothing is allocated below it while it is measured.
    drop(Mapped::create(backing, bytes, &MapOptions::default())?);
    let mkfs = format!("mkfs.{name}");
    let program = find(&mkfs).ok_or_else(|| {
        Error::board(format!("{mkfs} is not installed on this machine")).hint("apt-get install e2fsprogs")
    })?;
    // Blocks as on larger disks: left to itself, mkfs makes them smaller below 512 MiB, and writes slower.
    // What it would leave to the kernel to finish in the background is done at once.
    let options = ["-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];
    let made = Command::new(program).args(options).arg(backing).output().board(|| format!("cannot run {mkfs}"))?;
    if !made.status.success() {
        return Err(Error::board(format!("{mkfs} failed: {}", String::from_utf8_lossy(&made.stderr).trim())));
    }
    let (_device, path) = loop_device::attach(backing)?;
    fs::create_dir(at).board(|| format!("cannot create {}", at.display()))?;
    let options = setup.no_barriers.then_some(c"nobarrier");
    mount(path.as_str(), at, name, MountFlags::empty(), options)
        .map_err(|e| Error::board(format!("cannot mount {path} as {name}")).because(e).hint("modprobe ext4, as root"))
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

/// Makes an SCMFS volume, mounts it and serves it until it is unmounted. An empty `region` is memory of this process;
/// `setup` is JSON.
///
/// # Errors
/// `ErrorKind::Bug` for an unknown medium; `ErrorKind::User` if `bytes` is not a number, or the region does not fit;
/// `ErrorKind::Board` if memory is short, or serving fails; otherwise as [`mount_scmfs`].
pub fn serve_scmfs([access, medium, bytes, region, setup]: [&str; 5], at: &Path, say: impl Fn(&str)) -> Result<()> {
    let setup = serde_json::from_str(setup).user(|| format!("`{setup}` is no setup of a volume"))?;
    let medium = Medium::of_word(medium).ok_or_else(|| Error::bug(format!("`{medium}` is not a medium")))?;
    let bytes = bytes.parse().user(|| format!("`{bytes}` is not a number of bytes"))?;
    let file = (!region.is_empty()).then(|| PathBuf::from(region));
    let (volume, _) = make_scmfs(&mut Backing { medium, bytes, file, setup, _memory: None })?;
    let preload = if access == Access::Preload.word() { Preload::Append } else { Preload::Off };
    let mounted = mount_scmfs(Arc::new(volume), at, &MountOptions { preload, ..MountOptions::default() })?;
    watch(&mounted)?;
    say(&format!("{}\n", served::READY));
    mounted.wait()
}

/// Makes a YAFFS2 volume on a simulated chip, mounts it and serves it until it is unmounted.
///
/// # Errors
/// `ErrorKind::User` if `bytes` is not a number; `ErrorKind::Board` if no volume can be opened on such a chip, or
/// serving fails; otherwise as [`mount_yaffs2`].
pub fn serve_yaffs2_anonymous(bytes: &str, at: &Path, say: impl Fn(&str)) -> Result<()> {
    let bytes = bytes.parse().user(|| format!("`{bytes}` is not a number of bytes"))?;
    let (mounted, _volume) = mount_yaffs2(anonymous_yaffs2(bytes)?, at, &MountOptions::default())?;
    say(&format!("{}\n", served::READY));
    mounted.wait()
}

/// Serves names and sizes without content until they are unmounted.
///
/// # Errors
/// `ErrorKind::Board` if serving fails; otherwise as [`mount_hollow`].
pub fn serve_null_anonymous(at: &Path, say: impl Fn(&str)) -> Result<()> {
    let mounted = mount_hollow(at, &MountOptions::default())?;
    say(&format!("{}\n", served::READY));
    mounted.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_as_large_as_memory_allows() {
        let on = |kibibytes: u64| volume_bytes(None, kibibytes << 10);
        assert_eq!(on(24 << 20).unwrap(), 256 << 20);
        assert_eq!(on((400 << 10) + 5).unwrap(), 200 << 20);
        assert!(on(100 << 10).unwrap_err().cure().unwrap().contains("134217728"));
        assert!(on(0).is_err());
        let asked = |bytes| volume_bytes(Some(bytes), 4 << 30);
        assert_eq!((asked(1 << 30).unwrap(), asked((2 << 30) + 7).unwrap()), (1 << 30, 2 << 30));
        assert!(asked(3 << 30).unwrap_err().cure().unwrap().contains("at most 2147483648"));
        let small = asked((64 << 20) - 1024).unwrap_err();
        assert!(small.chain().contains("volume_bytes = 65535 KiB is less than 64 MiB"), "{small:?}");
        assert!(small.cure().unwrap().contains("at least 64 MiB") && asked(64 << 20).is_ok());
    }
}
