//! Listing directories.

use crate::arguments::{name, place, taken};
use crate::error::{Failure, Result, status};
use crate::types::Entry;
use crate::volume::{OpenVolume, entered};
use pocketstone_scmfs::Error;
use std::ffi::{CString, c_char, c_int};

/// The entries of a directory as they were when it was opened.
pub struct OpenDirectory {
    entries: Vec<(CString, u32, u32)>,
    next: usize,
}

/// Reads all names of a directory, without "." and "..", in no order. They are kept in memory: the directory and even
/// the volume may change or be closed before they are looked at. A name that is added or removed during the call may or
/// may not be among them.
///
/// Returns 0 and the directory in "*directory", or a negative errno and NULL there: -ENOENT, -ENOTDIR, -ELOOP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_opendir(
    volume: *const OpenVolume,
    path: *const c_char,
    directory: *mut *mut OpenDirectory,
) -> c_int {
    status("scmfs_opendir", || {
        // SAFETY: the header asks callers for a variable.
        let directory = unsafe { place(directory, "directory is NULL") }?;
        *directory = std::ptr::null_mut();
        // SAFETY: the header asks callers for an open volume and a text.
        let ((fs, _call), path) = unsafe { (entered(volume)?, name(path, "path is NULL")?) };
        let entries = fs.read_dir(path)?.map(|entry| {
            let entry = entry?;
            // No operation makes such a name.
            let name = CString::new(entry.name).map_err(|_| Error::damaged(0, "a name with a zero byte"))?;
            Ok((name, entry.ino, u32::from(entry.kind.mode_bits())))
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        *directory = Box::into_raw(Box::new(OpenDirectory { entries, next: 0 }));
        Ok(())
    })
}

/// The next entry of a directory. One thread at a time may use a directory.
///
/// Returns 1 and fills "*entry", 0 at the end, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_readdir(directory: *mut OpenDirectory, entry: *mut Entry) -> c_int {
    let mut found = 0;
    let failed = status("scmfs_readdir", || {
        // SAFETY: the header asks callers for an open directory that no other call uses.
        let directory = unsafe { place(directory, "directory is NULL") }?;
        if entry.is_null() || !entry.is_aligned() {
            return Err(Failure::Argument("entry is NULL or not aligned"));
        }
        if let Some((name, inode, mode)) = directory.entries.get(directory.next) {
            directory.next += 1;
            found = 1;
            // SAFETY: the header asks callers for a variable. What was there need not have been initialized.
            unsafe { entry.write(Entry { name: name.as_ptr(), inode: *inode, mode: *mode }) };
        }
        Ok(())
    });
    if failed != 0 { failed } else { found }
}

/// Closes a directory and sets "*directory" to NULL. NULL, and a pointer to NULL, are allowed.
///
/// Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_closedir(directory: *mut *mut OpenDirectory) -> c_int {
    status("scmfs_closedir", || {
        // SAFETY: the header asks callers for a variable with a directory that nothing uses any more.
        drop(unsafe { taken(directory) }?);
        Ok(())
    })
}
