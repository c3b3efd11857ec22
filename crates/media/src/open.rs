//! What a mapping is made of: opening, locking and filling files, and knowing what they lie on.

use crate::locked::LockedFile;
use crate::{Error, Result};
use pocketstone_vfs::{Context, setters};
use rustix::fs::{FallocateFlags, fallocate, fstatfs, fstatvfs, statfs};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How a file is to be mapped.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapOptions {
    /// Whether to store to it, too. A file that is only read can be open in several processes.
    pub writable: bool,
    /// The user declares that the memory behind the file outlives a loss of power (batteries, say):
    /// stores are flushed and fenced, and count as power-safe.
    pub persistent: bool,
    /// Stores are flushed and fenced where the processor can, whatever the memory is: for a program that does not
    /// know it, and ends soon. Nothing counts as power-safe for that.
    pub flushed: bool,
    /// Creating may destroy what an existing file holds.
    pub overwrite: bool,
    /// How many bytes of address space to keep for growing; by default 16 times the length on 64-bit
    /// processors, and the length itself on others.
    pub reserve_bytes: Option<u64>,
}

impl Default for MapOptions {
    fn default() -> Self {
        MapOptions { writable: true, persistent: false, flushed: false, overwrite: false, reserve_bytes: None }
    }
}

impl MapOptions {
    setters! {
        writable: bool,
        persistent: bool,
        flushed: bool,
        overwrite: bool,
        reserve_bytes: impl Into<Option<u64>>,
    }
}

/// What kind of memory is behind a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Backing {
    /// A file, on a file system of this name.
    File { path: PathBuf, system: String },
    /// A character device that is memory itself, of this length.
    Device { path: PathBuf, bytes: u64 },
    /// Memory without a name.
    Anonymous,
}

impl Backing {
    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Backing::File { path, .. } | Backing::Device { path, .. } => path.display().to_string(),
            Backing::Anonymous => "memory of this process".into(),
        }
    }
}

/// An open and locked medium.
pub(crate) struct Source {
    pub(crate) file: LockedFile,
    pub(crate) backing: Backing,
    pub(crate) bytes: u64,
    pub(crate) map_bytes: u64,
    pub(crate) zeroed: bool,
}

const HUGETLBFS: u32 = 0x9584_58f6;

fn system_name(magic: u32) -> String {
    match magic {
        0x0102_1994 => "tmpfs".into(),
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x794c_7630 => "overlayfs".into(),
        0xf2f5_2010 => "f2fs".into(),
        HUGETLBFS => "hugetlbfs".into(),
        other => format!("a file system of type {other:#x}"),
    }
}

/// The smallest unit by which a file can be mapped: see [`crate::Region::map_bytes`]. Of a file that does not exist
/// yet, by its folder.
///
/// # Errors
/// `Refused` if neither exists.
pub fn map_bytes_at(path: &Path) -> Result<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let system = statfs(path).or_else(|_| statfs(folder)).refused(|| format!("cannot examine {}", path.display()))?;
    Ok(if system.f_type as u32 == HUGETLBFS { system.f_bsize as u64 } else { rustix::param::page_size() as u64 })
}

/// Opens what exists.
pub(crate) fn open(path: &Path, options: &MapOptions) -> Result<Source> {
    let file = OpenOptions::new()
        .read(true)
        .write(options.writable)
        .open(path)
        .refused(|| format!("cannot open {}", path.display()))?;
    let source = inspect(lock(file, path, options.writable)?, path)?;
    if source.bytes == 0 {
        return Err(Error::refused(format!("{} is empty", path.display())).hint("create a volume in it first"));
    }
    if source.bytes % source.map_bytes != 0 && source.map_bytes > rustix::param::page_size() as u64 {
        let message = format!("{} is not a whole number of {}-byte pages long", path.display(), source.map_bytes);
        return Err(Error::refused(message));
    }
    if options.writable {
        fill_holes(&source)?;
    }
    Ok(source)
}

/// Creates a file of `bytes` bytes, rounded up to whole pages, or takes an empty one. A new file is its owner's alone:
/// whoever can read a region can read all that is in it.
pub(crate) fn create(path: &Path, bytes: u64, options: &MapOptions) -> Result<Source> {
    if !options.writable {
        return Err(Error::refused(format!("{} cannot be created read-only", path.display())));
    }
    create_as(path, |source| fill(source, bytes, options))
}

/// A file of `bytes` bytes, in place of what it held, of which none has room on the medium yet. It is refused where
/// there is less free than that, or where write(2) does not store.
pub(crate) fn create_empty(path: &Path, bytes: u64) -> Result<Source> {
    create_as(path, |mut source| {
        let name = source.backing.name();
        if matches!(source.backing, Backing::Device { .. }) || source.map_bytes > rustix::param::page_size() as u64 {
            return Err(Error::refused(format!("{name} can only be mapped")));
        }
        let wrong = || format!("cannot give {name} {bytes} bytes");
        source.file.set_len(0).failed(wrong)?;
        // A tmpfs without a limit has no blocks.
        let space = fstatvfs(&*source.file).failed(wrong)?;
        if space.f_blocks > 0 && space.f_bavail.saturating_mul(space.f_frsize) < bytes {
            return Err(no_room(Errno::NOSPC.into(), &source.backing, source.map_bytes, bytes));
        }
        source.file.set_len(bytes).failed(wrong)?;
        (source.bytes, source.zeroed) = (bytes, true);
        Ok(source)
    })
}

fn create_as(path: &Path, make: impl FnOnce(Source) -> Result<Source>) -> Result<Source> {
    let wrong = || format!("cannot create {}", path.display());
    let opened = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    let (file, new) = match opened {
        Ok(file) => (file, true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            not_planted(path).refused(wrong)?;
            (OpenOptions::new().read(true).write(true).open(path).refused(wrong)?, false)
        }
        Err(error) => return Err(Error::refused(wrong()).because(error)),
    };
    let made = lock(file, path, true).and_then(|file| inspect(file, path)).and_then(make);
    if made.is_err() && new {
        // Nothing of value: this call made it. The error says what matters.
        let _ = std::fs::remove_file(path);
    }
    made
}

/// Refuses what somebody else may have put where everybody may create files, as `fs.protected_regular` and
/// `fs.protected_symlinks` of proc(5) do where they are set: its owner could read all that comes into a file, and
/// choose which one a link leads to.
fn not_planted(path: &Path) -> std::io::Result<()> {
    /// Everybody may create files, and remove his own: sticky, and writable by all.
    const SHARED: u32 = 0o1002;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (file, folder) = (std::fs::symlink_metadata(path)?, std::fs::metadata(parent)?);
    let trusted = file.uid() == rustix::process::geteuid().as_raw() || file.uid() == folder.uid();
    let plain = file.file_type().is_file() || file.file_type().is_symlink();
    if plain && !trusted && folder.mode() & SHARED == SHARED {
        let message =
            format!("it belongs to user {}, and everybody may create files in {}", file.uid(), parent.display());
        return Err(std::io::Error::other(format!("{message}: remove it first, or choose a folder of your own")));
    }
    Ok(())
}

fn fill(mut source: Source, bytes: u64, options: &MapOptions) -> Result<Source> {
    let name = source.backing.name();
    if source.bytes > 0 && !options.overwrite {
        let message = match source.backing {
            Backing::Device { .. } => format!("{name} is a device, which may hold data already"),
            _ => format!("{name} already exists and holds {} bytes", source.bytes),
        };
        return Err(Error::refused(message).hint("choose another file, or allow overwriting"));
    }
    if let Backing::Device { bytes: most, .. } = source.backing {
        let wanted = if bytes == 0 { Some(most) } else { bytes.checked_next_multiple_of(source.map_bytes) };
        source.bytes = wanted
            .filter(|&bytes| bytes <= most)
            .ok_or_else(|| Error::refused(format!("{name} has {most} bytes, not {bytes}")))?;
        return Ok(source);
    }
    if bytes == 0 {
        return Err(Error::refused(format!("{name} requires a length of at least one byte")));
    }
    let too_long = || Error::refused(format!("{bytes} bytes are too long for the file {name}"));
    let bytes =
        bytes.checked_next_multiple_of(source.map_bytes).filter(|&b| i64::try_from(b).is_ok()).ok_or_else(too_long)?;
    if source.bytes > 0 {
        if bytes > source.bytes {
            // As long as there might be no room, what it holds stays.
            lengthen(&source.file, &source.backing, source.map_bytes, source.bytes, bytes)?;
        }
        source.file.set_len(0).refused(|| format!("cannot truncate {name}"))?;
        source.bytes = 0;
    }
    lengthen(&source.file, &source.backing, source.map_bytes, 0, bytes)?;
    (source.bytes, source.zeroed) = (bytes, true);
    Ok(source)
}

/// Lengthens a file, with room on the medium for every byte: a store to a mapped file whose file
/// system is full would kill the process. On failure the file is as long as it was.
pub(crate) fn lengthen(file: &File, backing: &Backing, map_bytes: u64, from: u64, to: u64) -> Result<()> {
    if *backing == Backing::Anonymous && available_memory().is_some_and(|available| available < to - from) {
        // The kernel would take all of the machine's memory first, and other processes' with it.
        return Err(no_room(Errno::NOMEM.into(), backing, map_bytes, to - from));
    }
    let done = match allocate(file, from, to) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, from, to),
        other => other.map_err(std::io::Error::from),
    };
    done.map_err(|error| {
        // Gives what was allocated back; the error that matters is the first.
        let _ = file.set_len(from);
        no_room(error, backing, map_bytes, to - from)
    })
}

/// How many bytes of memory the machine can still give, if it says so.
fn available_memory() -> Option<u64> {
    let facts = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name: &str| -> Option<u64> {
        facts.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix(" kB")?.parse().ok()
    };
    // What lies in such a file can be swapped.
    kib("MemAvailable:")?.checked_add(kib("SwapFree:").unwrap_or(0))?.checked_mul(1024)
}

fn allocate(file: &File, from: u64, to: u64) -> Result<(), Errno> {
    loop {
        // A signal interrupts long allocations on tmpfs, which start again where they were.
        match fallocate(file, FallocateFlags::empty(), from, to - from) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// For file systems that cannot allocate: zeros are the next best.
fn write_zeros(file: &File, from: u64, to: u64) -> std::io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let bytes = (to - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..bytes as usize], at)?;
        at += bytes;
    }
    Ok(())
}

fn no_room(error: std::io::Error, backing: &Backing, map_bytes: u64, bytes: u64) -> Error {
    let message = format!("cannot allocate {bytes} more bytes to {}", backing.name());
    let full = matches!(Errno::from_io_error(&error), Some(Errno::NOSPC | Errno::NOMEM));
    let huge = matches!(backing, Backing::File { system, .. } if system == "hugetlbfs");
    let failed = Error::failed(message).because(error);
    match (full, huge) {
        (true, true) => failed.hint(huge_page_hint(map_bytes, bytes)),
        (true, false) if *backing == Backing::Anonymous => failed.hint("free memory, or request less"),
        (true, false) => failed.hint("its file system is full: free space, or request less"),
        (false, _) => failed,
    }
}

/// Only the kernel's default size of huge page is counted by the file that everybody knows.
fn huge_page_hint(map_bytes: u64, bytes: u64) -> String {
    let directory = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", map_bytes / 1024);
    let free = std::fs::read_to_string(format!("{directory}/free_hugepages"));
    let free: u64 = free.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let missing = bytes.div_ceil(map_bytes).saturating_sub(free).max(1);
    let count = if map_bytes == 2 << 20 { "/proc/sys/vm/nr_hugepages".into() } else { directory + "/nr_hugepages" };
    format!("raise {count} by {missing} ({free} huge pages of {} KiB are free)", map_bytes / 1024)
}

/// A file with holes would need space at a moment when nobody can be told that there is none.
pub(crate) fn fill_holes(source: &Source) -> Result<()> {
    let Backing::File { .. } = source.backing else { return Ok(()) };
    let facts = source.file.metadata().failed(|| format!("cannot examine {}", source.backing.name()))?;
    if facts.blocks() * 512 >= source.bytes {
        return Ok(());
    }
    allocate_if_possible(&source.file, 0, source.bytes).map_err(|error| {
        let missing = source.bytes - facts.blocks() * 512;
        no_room(error.into(), &source.backing, source.map_bytes, missing)
    })
}

/// Leaves a file system that cannot allocate, or need not, as it is.
pub(crate) fn allocate_if_possible(file: &File, from: u64, to: u64) -> Result<(), Errno> {
    match allocate(file, from, to) {
        Err(error @ (Errno::NOSPC | Errno::NOMEM | Errno::DQUOT | Errno::IO)) => Err(error),
        _ => Ok(()),
    }
}

fn lock(file: File, path: &Path, writable: bool) -> Result<LockedFile> {
    let file = LockedFile::new(file);
    file.lock(writable).map_err(|error| match error {
        Errno::WOULDBLOCK => Error::in_use(format!("{} is in use (is it mounted?)", path.display()))
            .hint(format!("unmount it, or stop the process shown by `fuser -v {}`", path.display())),
        error => Error::failed(format!("cannot lock {}", path.display())).because(error),
    })?;
    Ok(file)
}

fn inspect(file: LockedFile, path: &Path) -> Result<Source> {
    let wrong = || format!("cannot examine {}", path.display());
    let facts = file.metadata().failed(wrong)?;
    let path = path.to_path_buf();
    if facts.file_type().is_char_device() {
        let (major, minor) = (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev()));
        let (bytes, map_bytes) = device_size(Path::new(&format!("/sys/dev/char/{major}:{minor}")), &path)?;
        return Ok(Source { file, backing: Backing::Device { path, bytes }, bytes, map_bytes, zeroed: false });
    }
    if !facts.is_file() {
        let message = format!("{} is neither a file nor a memory device (/dev/dax...)", path.display());
        return Err(
            Error::refused(message).hint("for a block device, mount its file system with `-o dax`, and use a file")
        );
    }
    let system = fstatfs(&*file).failed(wrong)?;
    let magic = system.f_type as u32;
    let map_bytes = if magic == HUGETLBFS { system.f_bsize as u64 } else { rustix::param::page_size() as u64 };
    let backing = Backing::File { path, system: system_name(magic) };
    Ok(Source { file, backing, bytes: facts.len(), map_bytes, zeroed: false })
}

/// Length and granularity of a memory device, from its directory in /sys.
fn device_size(directory: &Path, path: &Path) -> Result<(u64, u64)> {
    let number = |name: &str| -> Option<u64> {
        std::fs::read_to_string(directory.join(name)).ok()?.trim().parse().ok().filter(|&n| n > 0)
    };
    let wrong = |what: &str| {
        Error::refused(format!("{} is not a memory device: {} {what}", path.display(), directory.display()))
            .hint("specify a device like /dev/dax0.0, created by `ndctl create-namespace --mode=devdax`")
    };
    let size = number("size").ok_or_else(|| wrong("has no size"))?;
    // The attribute moved when the devices got a bus of their own.
    let align = number("align").or_else(|| number("device/align")).ok_or_else(|| wrong("has no align"))?;
    if !align.is_power_of_two() || size < align {
        return Err(wrong("has a wrong align"));
    }
    Ok((size / align * align, align))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_testing::or_skip;

    #[test]
    fn more_memory_than_the_machine_has_is_refused_before_any_is_taken() {
        let error = crate::Mapped::anonymous(1 << 50).err().unwrap();
        assert!(error.message().contains("memory of this process"), "{}", error.message());
        assert!(error.cure().is_some_and(|cure| cure.contains("free memory")), "{:?}", error.cure());
    }

    #[test]
    fn a_devices_size_comes_from_either_layout_of_sysfs() {
        let home = tempfile::tempdir().unwrap();
        let device = Path::new("/dev/dax0.0");
        let error = device_size(home.path(), device).unwrap_err();
        assert!(error.message().contains("/dev/dax0.0 is not a memory device"), "{}", error.message());
        std::fs::write(home.path().join("size"), "6291457\n").unwrap();
        assert!(device_size(home.path(), device).is_err());
        std::fs::create_dir(home.path().join("device")).unwrap();
        std::fs::write(home.path().join("device/align"), "2097152\n").unwrap();
        assert_eq!(device_size(home.path(), device).unwrap(), (6 << 20, 2 << 20));
        std::fs::write(home.path().join("align"), "4096\n").unwrap();
        assert_eq!(device_size(home.path(), device).unwrap(), (6 << 20, 4096));
    }

    #[test]
    fn a_device_that_is_no_memory_and_a_directory_are_refused() {
        let error = open(Path::new("/dev/null"), &MapOptions::default()).map(|_| ()).unwrap_err();
        assert!(error.message().contains("/dev/null is not a memory device"), "{}", error.message());
        let options = MapOptions { writable: false, ..MapOptions::default() };
        let error = open(Path::new("/"), &options).map(|_| ()).unwrap_err();
        assert!(error.message().contains("neither a file nor a memory device"), "{}", error.message());
    }

    #[test]
    fn what_others_put_where_everybody_may_is_not_taken_for_a_new_region() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        or_skip!(pocketstone_testing::root());
        const OTHER: Option<u32> = Some(12345);
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let mode = |mode| std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        for name in ["own", "theirs", "precious"] {
            File::create(at(name)).unwrap();
        }
        chown(at("theirs"), OTHER, None).unwrap();
        symlink(at("precious"), at("link")).unwrap();
        std::os::unix::fs::lchown(at("link"), OTHER, None).unwrap();
        mode(0o1777);
        let made = |name: &str| create(&at(name), 4096, &MapOptions::default()).map(drop);
        for name in ["theirs", "link"] {
            let error = pocketstone_vfs::chain(&made(name).unwrap_err());
            assert!(error.contains("belongs to user 12345") && error.contains("remove it first"), "{error}");
        }
        assert_eq!(at("precious").metadata().unwrap().len(), 0);
        made("own").unwrap();
        // Where others cannot put anything, it is there because its owner wants it so.
        mode(0o755);
        made("theirs").unwrap();
    }

    #[test]
    fn zeros_are_written_where_nothing_can_be_allocated() {
        let file = tempfile::tempfile().unwrap();
        write_zeros(&file, 4096, (3 << 20) + 4096).unwrap();
        assert_eq!(file.metadata().unwrap().len(), (3 << 20) + 4096);
        assert!(file.metadata().unwrap().blocks() * 512 >= 3 << 20);
    }
}
