//! Names: directories, links, renaming, attributes by path.

use crate::arguments::{name, permissions, room};
use crate::error::{Failure, Result, count, status};
use crate::types::Attributes;
use crate::volume::{OpenVolume, entered};
use pocketstone_scmfs::{Attr, Error};
use std::ffi::{c_char, c_int};

/// Hands attributes over.
///
/// # Safety
/// The pointer is NULL, or can be written to.
pub(crate) unsafe fn fill(attributes: *mut Attributes, attr: &Attr) -> Result<()> {
    if attributes.is_null() || !attributes.is_aligned() {
        return Err(Failure::Argument("attributes is NULL or not aligned"));
    }
    let filled = Attributes {
        size: attr.size,
        allocated: attr.allocated,
        atime_ns: attr.atime_ns,
        mtime_ns: attr.mtime_ns,
        ctime_ns: attr.ctime_ns,
        btime_ns: attr.btime_ns,
        inode: attr.ino,
        generation: attr.generation,
        mode: u32::from(attr.kind.mode_bits() | attr.permissions),
        links: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        reserved: 0,
    };
    // SAFETY: the caller's promise. What was there need not have been initialized.
    unsafe { attributes.write(filled) };
    Ok(())
}

/// Creates a directory, with the permissions 0755.
///
/// Returns 0 or a negative errno: -EEXIST, -ENOENT, -ENOTDIR, -ENAMETOOLONG, -ENOSPC, -EROFS.
///
/// Durable on return. After a crash during the call: all or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_mkdir(volume: *const OpenVolume, path: *const c_char) -> c_int {
    status("scmfs_mkdir", || {
        // SAFETY: the header asks callers for an open volume and a text.
        let ((fs, _call), path) = unsafe { (entered(volume)?, name(path, "path is NULL")?) };
        Ok(fs.create_dir(path)?)
    })
}

/// Removes an empty directory.
///
/// Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ENOTEMPTY, -EROFS; never -ENOSPC.
///
/// Durable on return. After a crash during the call: all or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_rmdir(volume: *const OpenVolume, path: *const c_char) -> c_int {
    status("scmfs_rmdir", || {
        // SAFETY: the header asks callers for an open volume and a text.
        let ((fs, _call), path) = unsafe { (entered(volume)?, name(path, "path is NULL")?) };
        Ok(fs.remove_dir(path)?)
    })
}

/// Removes a name that is not a directory's. The file is deleted with its last name, or when it is closed after that.
///
/// Returns 0 or a negative errno: -ENOENT, -EISDIR, -ENOTDIR, -EROFS; never -ENOSPC.
///
/// Durable on return. After a crash during the call: all or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_unlink(volume: *const OpenVolume, path: *const c_char) -> c_int {
    status("scmfs_unlink", || {
        // SAFETY: the header asks callers for an open volume and a text.
        let ((fs, _call), path) = unsafe { (entered(volume)?, name(path, "path is NULL")?) };
        Ok(fs.remove_file(path)?)
    })
}

/// Renames a file, directory or symbolic link; an existing file or empty directory at "to" is replaced.
///
/// Returns 0 or a negative errno as rename(2): -ENOENT, -ENOTEMPTY, -EISDIR, -ENOTDIR, -ENOSPC, -EROFS; -EINVAL if a
/// directory would move into itself; -EBUSY if a path ends with "." or "..", or is the root.
///
/// Durable on return. After a crash during the call: all or nothing; "to" names the old or the new file at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_rename(volume: *const OpenVolume, from: *const c_char, to: *const c_char) -> c_int {
    status("scmfs_rename", || {
        // SAFETY: the header asks callers for an open volume and texts.
        let ((fs, _call), from, to) =
            unsafe { (entered(volume)?, name(from, "from is NULL")?, name(to, "to is NULL")?) };
        Ok(fs.rename(from, to)?)
    })
}

/// Gives the file "existing" the further name "path". A symbolic link at the end of "existing" is not followed.
///
/// Returns 0 or a negative errno: -EEXIST, -ENOENT, -EPERM for a directory, -EMLINK, -ENOSPC, -EROFS.
///
/// Durable on return. After a crash during the call: all or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_link(volume: *const OpenVolume, existing: *const c_char, path: *const c_char) -> c_int {
    status("scmfs_link", || {
        // SAFETY: the header asks callers for an open volume and texts.
        let ((fs, _call), existing, path) =
            unsafe { (entered(volume)?, name(existing, "existing is NULL")?, name(path, "path is NULL")?) };
        Ok(fs.hard_link(existing, path)?)
    })
}

/// Creates the symbolic link "path" with a target of 1 to 4095 bytes, which need not exist.
///
/// Returns 0 or a negative errno: -EEXIST, -ENOENT (also for an empty target), -ENAMETOOLONG, -ENOSPC, -EROFS.
///
/// Durable on return. After a crash during the call: all or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_symlink(volume: *const OpenVolume, target: *const c_char, path: *const c_char) -> c_int {
    status("scmfs_symlink", || {
        // SAFETY: the header asks callers for an open volume and texts.
        let ((fs, _call), target, path) =
            unsafe { (entered(volume)?, name(target, "target is NULL")?, name(path, "path is NULL")?) };
        Ok(fs.symlink(target, path)?)
    })
}

/// Reads the target of a symbolic link, and ends it with a zero byte, unlike readlink(2). "room" bytes are there for
/// both; 4096 are always enough.
///
/// Returns the length of the target in bytes without the zero, or a negative errno: -ERANGE if it does not fit,
/// -EINVAL if this is no symbolic link, -ENOENT, -ENOTDIR.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_readlink(
    volume: *const OpenVolume,
    path: *const c_char,
    target: *mut c_char,
    room: usize,
) -> i64 {
    count("scmfs_readlink", || {
        // SAFETY: the header asks callers for an open volume and a text.
        let ((fs, _call), path) = unsafe { (entered(volume)?, name(path, "path is NULL")?) };
        // SAFETY: the header asks callers for room for that many bytes.
        let into = unsafe { self::room(target.cast(), room) }?;
        let found = fs.read_link(path)?;
        let (text, zero) = into.split_at_mut_checked(found.len()).ok_or(Error::Range)?;
        *zero.first_mut().ok_or(Error::Range)? = 0;
        text.copy_from_slice(&found);
        Ok(found.len() as u64)
    })
}

/// The attributes of what a path leads to, through symbolic links.
///
/// Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ELOOP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_stat(
    volume: *const OpenVolume,
    path: *const c_char,
    attributes: *mut Attributes,
) -> c_int {
    status("scmfs_stat", || {
        // SAFETY: the header asks callers for an open volume and a text.
        let ((fs, _call), path) = unsafe { (entered(volume)?, name(path, "path is NULL")?) };
        // SAFETY: the header asks callers for a variable.
        unsafe { fill(attributes, &fs.metadata(path)?) }
    })
}

/// As scmfs_stat(), but a symbolic link at the end of the path is not followed.
///
/// Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ELOOP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_lstat(
    volume: *const OpenVolume,
    path: *const c_char,
    attributes: *mut Attributes,
) -> c_int {
    status("scmfs_lstat", || {
        // SAFETY: the header asks callers for an open volume and a text.
        let ((fs, _call), path) = unsafe { (entered(volume)?, name(path, "path is NULL")?) };
        // SAFETY: the header asks callers for a variable.
        unsafe { fill(attributes, &fs.symlink_metadata(path)?) }
    })
}

/// Sets the permissions, such as 0600, of what a path leads to. Calls in process do not check them; a mount does.
///
/// Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -EROFS, -EPERM.
///
/// Durable on return. After a crash during the call: all or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_chmod(volume: *const OpenVolume, path: *const c_char, mode: u32) -> c_int {
    status("scmfs_chmod", || {
        // SAFETY: the header asks callers for an open volume and a text.
        let ((fs, _call), path) = unsafe { (entered(volume)?, name(path, "path is NULL")?) };
        Ok(fs.set_permissions(path, permissions(mode)?)?)
    })
}
