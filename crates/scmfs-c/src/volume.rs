//! Volumes: creating, opening, syncing and closing them.

use crate::arguments::{flags, name, place, reference, taken};
use crate::error::{Call, Failure, Health, Result, status};
use crate::types::{
    CreateOptions, SCMFS_BACKGROUND, SCMFS_CHECKSUMS, SCMFS_OVERWRITE, SCMFS_PERSISTENT, SCMFS_READ_ONLY,
    SCMFS_THRESHOLD_NEVER,
};
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{self as scmfs, FileSystem, Threshold, Volume};
use rustix::fs::MemfdFlags;
use std::ffi::{OsStr, c_char, c_int};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An open volume.
pub struct OpenVolume {
    pub(crate) fs: FileSystem<Volume>,
    pub(crate) health: Health,
}

/// The volume behind a handle, and that a call uses it.
///
/// # Safety
/// As [`reference`].
pub(crate) unsafe fn entered<'a>(volume: *const OpenVolume) -> Result<(&'a FileSystem<Volume>, Call<'a>)> {
    // SAFETY: the caller's promise.
    let volume = unsafe { reference(volume, "volume is NULL") }?;
    Ok((&volume.fs, volume.health.enter()?))
}

/// A path of this machine: bytes, of any encoding.
///
/// # Safety
/// As [`name`].
unsafe fn region_path<'a>(region: *const c_char) -> Result<&'a Path> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { name(region, "region is NULL") }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// What a volume is created with.
struct Wanted {
    map: MapOptions,
    create: scmfs::CreateOptions,
}

/// # Safety
/// As [`reference`]; the label as [`name`].
unsafe fn wanted(options: *const CreateOptions) -> Result<Wanted> {
    // Stores are flushed whatever the memory is: a new volume is written once.
    let mut map = MapOptions::default().flushed(true);
    let mut create = scmfs::CreateOptions::default();
    if options.is_null() {
        return Ok(Wanted { map, create });
    }
    // SAFETY: the caller's promise.
    let options = unsafe { reference(options, "") }?;
    flags(options.flags, SCMFS_OVERWRITE | SCMFS_CHECKSUMS)?;
    if options.reserved != [0; 4] {
        return Err(Failure::Argument("reserved is not zero"));
    }
    if !options.label.is_null() {
        // SAFETY: the caller's promise.
        let label = std::str::from_utf8(unsafe { name(options.label, "") }?);
        create.label = label.map_err(|_| Failure::Argument("label is not UTF-8"))?.to_owned();
    }
    let given = |value: u64| (value != 0).then_some(value);
    map.overwrite = options.flags & SCMFS_OVERWRITE != 0;
    create.checksums = options.flags & SCMFS_CHECKSUMS != 0;
    create.inodes = (options.inodes != 0).then_some(options.inodes);
    create.max_bytes = given(options.max_bytes);
    create.small_bytes = given(options.small_bytes);
    create.threshold = match options.threshold_bytes {
        0 => create.threshold,
        SCMFS_THRESHOLD_NEVER => Threshold::Never,
        bytes => Threshold::Bytes(bytes),
    };
    Ok(Wanted { map, create })
}

fn create(region: &Path, bytes: u64, wanted: &mut Wanted) -> Result<()> {
    let region = Mapped::create(region, bytes, &wanted.map).map_err(scmfs::Error::from)?;
    wanted.create.zeroed = region.zeroed();
    Ok(Volume::create(Box::new(region), &wanted.create)?)
}

fn open(region: &Path, flags: u32) -> Result<*mut OpenVolume> {
    let read_only = flags & SCMFS_READ_ONLY != 0;
    let persistent = flags & SCMFS_PERSISTENT != 0;
    let map = MapOptions::default().writable(!read_only).persistent(persistent);
    let region = Mapped::open(region, &map).map_err(scmfs::Error::from)?;
    let background = flags & SCMFS_BACKGROUND != 0;
    let options = scmfs::OpenOptions::default().read_only(read_only).background(background);
    let fs = Volume::open(Box::new(region), &options)?.into_file_system();
    Ok(Box::into_raw(Box::new(OpenVolume { fs, health: Health::default() })))
}

/// Creates an empty volume in a file of "bytes" bytes, all of them allocated, or in a memory device (/dev/dax...; 0:
/// all of it). An existing file must be empty, unless the options say SCMFS_OVERWRITE. "options" may be NULL.
///
/// Returns 0 or a negative errno: what the operating system says about the file, or -EIO if the file has contents or is
/// in use, or if the sizes contradict each other. A file that is made before the call fails may stay behind.
///
/// After a crash during the call the file is no volume, and scmfs_volume_open() says so. To be sure that a file is
/// a volume, create it under another name and rename it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_volume_create(
    region: *const c_char,
    bytes: u64,
    options: *const CreateOptions,
) -> c_int {
    status("scmfs_volume_create", || {
        // SAFETY: the header asks callers for a text, and for options that are initialized.
        let (region, mut wanted) = unsafe { (region_path(region)?, wanted(options)?) };
        create(region, bytes, &mut wanted)
    })
}

/// Opens a volume, and recovers it first if it was not closed. The file is locked: until it is closed, no other
/// process, and nothing else in this one, can open it. "flags" are SCMFS_READ_ONLY, SCMFS_BACKGROUND and
/// SCMFS_PERSISTENT, or 0.
///
/// Returns 0 and the volume in "*volume", or a negative errno and NULL there: what the operating system says about the
/// file, or -EIO if it is in use, damaged, or no volume.
///
/// A crash during recovery does no harm: the next one begins anew.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_volume_open(region: *const c_char, flags: u32, volume: *mut *mut OpenVolume) -> c_int {
    status("scmfs_volume_open", || {
        // SAFETY: the header asks callers for a variable.
        let volume = unsafe { place(volume, "volume is NULL") }?;
        *volume = std::ptr::null_mut();
        // SAFETY: the header asks callers for a text.
        let region = unsafe { region_path(region) }?;
        self::flags(flags, SCMFS_READ_ONLY | SCMFS_BACKGROUND | SCMFS_PERSISTENT)?;
        *volume = open(region, flags)?;
        Ok(())
    })
}

/// Creates a volume of "bytes" bytes in memory of this process and opens it, for tests and for data that need not
/// outlive the process. The memory is returned when the volume and all its files are closed. "options" may be NULL.
///
/// Returns 0 and the volume in "*volume", or a negative errno and NULL there.
///
/// Nothing survives the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_volume_in_memory(
    bytes: u64,
    options: *const CreateOptions,
    volume: *mut *mut OpenVolume,
) -> c_int {
    status("scmfs_volume_in_memory", || {
        // SAFETY: the header asks callers for a variable.
        let volume = unsafe { place(volume, "volume is NULL") }?;
        *volume = std::ptr::null_mut();
        // SAFETY: the header asks callers for options that are initialized.
        let mut wanted = unsafe { wanted(options) }?;
        // A file without a name: unlike plain memory, what creates the volume and what opens it can both map it.
        let memory = rustix::fs::memfd_create("scmfs", MemfdFlags::CLOEXEC);
        let memory = File::from(memory.map_err(|errno| {
            scmfs::Error::from(pocketstone_media::Error::failed("cannot get memory from the kernel").because(errno))
        })?);
        let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
        create(&path, bytes, &mut wanted)?;
        *volume = open(&path, 0)?;
        Ok(())
    })
}

/// Stores what is only in memory, marks the volume as clean, unlocks its file, and sets "*volume" to NULL. No other
/// call on the volume may be in progress or follow. NULL, and a pointer to NULL, are allowed: closing the same
/// variable twice does nothing the second time.
///
/// Files that are still open can be read, and keep the file of the volume locked until they are closed; changing them
/// fails with -EROFS. Open directories stay as they are.
///
/// Returns 0 or a negative errno if the medium fails; the handle is gone in both cases.
///
/// A process that ends without this call loses nothing but timestamps: the volume is recovered when it is opened next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_volume_close(volume: *mut *mut OpenVolume) -> c_int {
    status("scmfs_volume_close", || {
        // SAFETY: the header asks callers for a variable with a volume that nothing uses any more.
        let Some(volume) = (unsafe { taken(volume) })? else { return Ok(()) };
        if volume.health.is_broken() {
            volume.fs.into_volume().abandon();
            return Err(Failure::Broken);
        }
        Ok(volume.fs.into_volume().close()?)
    })
}

/// Makes everything durable, as sync(2): timestamps, too, and on an ordinary file system the whole region is written
/// back.
///
/// Returns 0 or a negative errno.
///
/// It is needed for timestamps, and for regions on ordinary file systems that must survive a loss of power. Without it
/// every completed operation survives the death of the process anyway.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_volume_sync(volume: *const OpenVolume) -> c_int {
    status("scmfs_volume_sync", || {
        // SAFETY: the header asks callers for an open volume.
        let (fs, _call) = unsafe { entered(volume) }?;
        Ok(fs.sync_all()?)
    })
}

#[cfg(test)]
mod tests;
