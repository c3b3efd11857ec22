//! Open files: reading, writing, syncing.

use crate::arguments::{data, flags, name, permissions, place, reference, room, taken};
use crate::error::{Call, Health, Result, count, status};
use crate::names::fill;
use crate::types::{Attributes, SCMFS_CREATE, SCMFS_CREATE_NEW, SCMFS_READ, SCMFS_TRUNCATE, SCMFS_WRITE};
use crate::volume::OpenVolume;
use pocketstone_scmfs::{Error, File};
use pocketstone_vfs::OpenOptions;
use std::ffi::{c_char, c_int, c_void};

/// An open file.
pub struct OpenFile {
    file: File,
    flags: u32,
    health: Health,
}

impl OpenFile {
    #[inline]
    fn opened_for(&self, flag: u32) -> Result<&File> {
        if self.flags & flag != 0 { Ok(&self.file) } else { Err(Error::BadHandle.into()) }
    }

    /// The file, if it is open for writing.
    #[inline]
    pub(crate) fn to_write(&self) -> Result<&File> {
        self.opened_for(SCMFS_WRITE)
    }
}

/// The file behind a handle, and that a call uses it.
///
/// # Safety
/// As [`reference`].
#[inline]
unsafe fn entered<'a>(file: *const OpenFile) -> Result<(&'a OpenFile, Call<'a>)> {
    // SAFETY: the caller's promise.
    let file = unsafe { reference(file, "file is NULL") }?;
    Ok((file, file.health.enter()?))
}

/// Opens a file, or creates it. "flags" are SCMFS_READ, SCMFS_WRITE, SCMFS_CREATE, SCMFS_CREATE_NEW and SCMFS_TRUNCATE;
/// "mode" is a new file's permissions, such as 0644, which this interface stores but does not check. Paths are bytes in
/// any encoding, names separated by "/", from the root directory with or without a leading "/"; symbolic links are
/// followed.
///
/// Returns 0 and the file in "*file", or a negative errno and NULL there: -ENOENT, -EEXIST, -EISDIR, -ENOTDIR, -ELOOP,
/// -ENAMETOOLONG, -ENOSPC, -EROFS; -EINVAL for flags that contradict each other.
///
/// After a crash a file is created with its name or not at all. Truncating an old one is a step of its own: all or
/// nothing, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_open(
    volume: *const OpenVolume,
    path: *const c_char,
    flags: u32,
    mode: u32,
    file: *mut *mut OpenFile,
) -> c_int {
    status("scmfs_open", || {
        // SAFETY: the header asks callers for a variable.
        let file = unsafe { place(file, "file is NULL") }?;
        *file = std::ptr::null_mut();
        // SAFETY: the header asks callers for an open volume.
        let volume = unsafe { reference(volume, "volume is NULL") }?;
        let _call = volume.health.enter()?;
        // SAFETY: the header asks callers for a text.
        let path = unsafe { name(path, "path is NULL") }?;
        self::flags(flags, SCMFS_READ | SCMFS_WRITE | SCMFS_CREATE | SCMFS_CREATE_NEW | SCMFS_TRUNCATE)?;
        let has = |flag| flags & flag != 0;
        let opened = OpenOptions::new()
            .read(has(SCMFS_READ))
            .write(has(SCMFS_WRITE))
            .create(has(SCMFS_CREATE))
            .create_new(has(SCMFS_CREATE_NEW))
            .truncate(has(SCMFS_TRUNCATE))
            .mode(permissions(mode)?)
            .open(&volume.fs, path)?;
        let opened = OpenFile { file: opened.handle().clone(), flags, health: volume.health.clone() };
        *file = Box::into_raw(Box::new(opened));
        Ok(())
    })
}

/// Closes a file and sets "*file" to NULL. No other call on it may be in progress or follow. NULL, and a pointer to
/// NULL, are allowed: closing the same variable twice does nothing the second time.
///
/// Returns 0, or a negative errno if something is wrong with the library; the handle is gone in both cases.
///
/// A file without a name is deleted when it is closed for the last time; after a crash it is gone, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_close(file: *mut *mut OpenFile) -> c_int {
    status("scmfs_close", || {
        // SAFETY: the header asks callers for a variable with a file that nothing uses any more.
        let Some(file) = (unsafe { taken(file) })? else { return Ok(()) };
        let health = file.health.clone();
        let _call = health.enter()?;
        drop(file);
        Ok(())
    })
}

/// Reads up to "length" bytes at an offset in bytes. A reader sees all of a write or none of it.
///
/// Returns the number of bytes, less than "length" only at the end of the file and 0 behind it, or a negative errno:
/// -EBADF if the file is not open for reading, -EIO for damage, in which case nothing is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_pread(file: *const OpenFile, into: *mut c_void, length: usize, offset: u64) -> i64 {
    count("scmfs_pread", || {
        // SAFETY: the header asks callers for an open file, and for room for that many bytes.
        let ((file, _call), into) = unsafe { (entered(file)?, room(into, length)?) };
        Ok(file.opened_for(SCMFS_READ)?.read_at(into, offset)? as u64)
    })
}

/// Writes at an offset in bytes, all of it or nothing; a gap behind the end of the file reads as zeros.
///
/// Returns "length", or a negative errno: -EBADF if the file is not open for writing, -ENOSPC, -EFBIG, -EROFS, -EPERM
/// if the file is protected.
///
/// Durable on return. After a crash during the call: bytes within the old size are old and new ones in any mix; if the
/// file grows, it has the new size and all new bytes, or the old size. Of a single write of more than 85 GiB, a prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_pwrite(file: *const OpenFile, from: *const c_void, length: usize, offset: u64) -> i64 {
    count("scmfs_pwrite", || {
        // SAFETY: the header asks callers for an open file, and for data of that length.
        let ((file, _call), from) = unsafe { (entered(file)?, data(from, length)?) };
        Ok(file.to_write()?.write_at(from, offset)? as u64)
    })
}

/// Writes at the end of the file, also among several threads that do. "*offset" becomes the place in bytes that was
/// written to; "offset" may be NULL.
///
/// Returns "length", or a negative errno as scmfs_pwrite().
///
/// Durable on return. After a crash during the call: the new size and all new bytes, or the old size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_append(
    file: *const OpenFile,
    from: *const c_void,
    length: usize,
    offset: *mut u64,
) -> i64 {
    count("scmfs_append", || {
        // SAFETY: the header asks callers for an open file, and for data of that length.
        let ((file, _call), from) = unsafe { (entered(file)?, data(from, length)?) };
        let mut ignored = 0;
        // SAFETY: the header asks callers for a variable.
        let offset = if offset.is_null() { &mut ignored } else { unsafe { place(offset, "") }? };
        let (bytes, end) = file.to_write()?.append(from)?;
        *offset = end - bytes as u64;
        Ok(bytes as u64)
    })
}

/// Writes at an offset in bytes, at most scmfs_atomic_max() bytes.
///
/// Returns "length", or a negative errno as scmfs_pwrite(); -EFBIG also for more bytes than that.
///
/// Durable on return. After a crash during the call: all of it or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_write_atomic(
    file: *const OpenFile,
    from: *const c_void,
    length: usize,
    offset: u64,
) -> i64 {
    count("scmfs_write_atomic", || {
        // SAFETY: the header asks callers for an open file, and for data of that length.
        let ((file, _call), from) = unsafe { (entered(file)?, data(from, length)?) };
        file.to_write()?.write_atomic(from, offset)?;
        Ok(length as u64)
    })
}

/// What scmfs_write_atomic() takes at most, in bytes: 1 MiB on a volume of 64 MiB or more.
///
/// Returns it, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_atomic_max(file: *const OpenFile) -> i64 {
    count("scmfs_atomic_max", || {
        // SAFETY: the header asks callers for an open file.
        let (file, _call) = unsafe { entered(file) }?;
        Ok(file.file.atomic_max())
    })
}

/// Cuts the file to a size in bytes, or extends it with zeros.
///
/// Returns 0 or a negative errno as scmfs_pwrite().
///
/// Durable on return. After a crash during the call: all or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_truncate(file: *const OpenFile, size: u64) -> c_int {
    status("scmfs_truncate", || {
        // SAFETY: the header asks callers for an open file.
        let (file, _call) = unsafe { entered(file) }?;
        Ok(file.to_write()?.truncate(size)?)
    })
}

/// Makes the file durable, as fsync(2): its timestamps, too, and on an ordinary file system the whole region is written
/// back.
///
/// Returns 0 or a negative errno if the medium fails.
///
/// See scmfs_volume_sync() for when it is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_sync(file: *const OpenFile) -> c_int {
    status("scmfs_sync", || {
        // SAFETY: the header asks callers for an open file.
        let (file, _call) = unsafe { entered(file) }?;
        Ok(file.file.sync()?)
    })
}

/// The attributes of an open file.
///
/// Returns 0 or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_fstat(file: *const OpenFile, attributes: *mut Attributes) -> c_int {
    status("scmfs_fstat", || {
        // SAFETY: the header asks callers for an open file.
        let (file, _call) = unsafe { entered(file) }?;
        // SAFETY: the header asks callers for a variable.
        unsafe { fill(attributes, &file.file.attributes()) }
    })
}
