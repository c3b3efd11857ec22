//! The VFS of `pocketstone-sqlite` as `libscmfs_sqlite.so`, an extension that any program's SQLite can load.

use std::ffi::{c_char, c_int, c_void};

/// Where SQLite begins with an extension.
///
/// # Safety
/// Called by SQLite, with its table of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    _connection: *mut c_void,
    _error: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { pocketstone_sqlite::register_extension(routines) }
}
