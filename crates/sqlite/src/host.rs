//! What the VFS calls in SQLite: the library that it is linked with, or the one that loads it.

use libsqlite3_sys as ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

type VfsFind = unsafe extern "C" fn(*const c_char) -> *mut ffi::sqlite3_vfs;
type VfsRegister = unsafe extern "C" fn(*mut ffi::sqlite3_vfs, c_int) -> c_int;
type UriParameter = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;
type Malloc = unsafe extern "C" fn(c_int) -> *mut c_void;
type Version = unsafe extern "C" fn() -> c_int;
type Log = unsafe extern "C" fn(c_int, *const c_char, ...);

/// Functions of the SQLite library that the VFS is registered in.
#[derive(Clone, Copy)]
pub struct Host {
    pub(crate) vfs_find: VfsFind,
    pub(crate) vfs_register: VfsRegister,
    uri_parameter: UriParameter,
    malloc: Malloc,
    log: Log,
    version: Version,
}

/// `struct sqlite3_api_routines` of sqlite3ext.h, as far as it is used: pointers to functions. It only ever grows at
/// its end.
///
/// ```text
///  67 libversion_number
///  68 malloc
/// 141 vfs_find
/// 142 vfs_register
/// 167 log
/// 189 uri_parameter
/// ```
#[repr(C)]
pub(crate) struct Routines([*const c_void; 190]);

/// The oldest SQLite that keeps an extension as it asks for, and says when it commits: 3.14.
const OLDEST: c_int = 3_014_000;
const VERSION: usize = 67;
const MALLOC: usize = 68;
const VFS_FIND: usize = 141;
const VFS_REGISTER: usize = 142;
const LOG: usize = 167;
const URI_PARAMETER: usize = 189;

impl Host {
    /// The SQLite library that this program is linked with, by libsqlite3-sys.
    pub fn linked() -> Host {
        Host {
            vfs_find: ffi::sqlite3_vfs_find,
            vfs_register: ffi::sqlite3_vfs_register,
            uri_parameter: ffi::sqlite3_uri_parameter,
            malloc: ffi::sqlite3_malloc,
            log: ffi::sqlite3_log,
            version: ffi::sqlite3_libversion_number,
        }
    }

    /// The SQLite library that gave `routines` to an extension.
    ///
    /// # Safety
    /// They are those of a library that has all of [`Routines`]: SQLite 3.7.16 or newer.
    pub(crate) unsafe fn of_extension(routines: &Routines) -> Host {
        // SAFETY: sqlite3ext.h gives the entries these types; the caller promises that they are there.
        unsafe {
            Host {
                vfs_find: std::mem::transmute::<*const c_void, VfsFind>(routines.0[VFS_FIND]),
                vfs_register: std::mem::transmute::<*const c_void, VfsRegister>(routines.0[VFS_REGISTER]),
                uri_parameter: std::mem::transmute::<*const c_void, UriParameter>(routines.0[URI_PARAMETER]),
                malloc: std::mem::transmute::<*const c_void, Malloc>(routines.0[MALLOC]),
                log: std::mem::transmute::<*const c_void, Log>(routines.0[LOG]),
                version: std::mem::transmute::<*const c_void, Version>(routines.0[VERSION]),
            }
        }
    }

    /// Whether the library does all that the VFS relies on.
    pub(crate) fn is_new_enough(&self) -> bool {
        // SAFETY: it takes nothing.
        unsafe { (self.version)() >= OLDEST }
    }
}

/// The one that the VFS is registered in.
pub(crate) static HOST: OnceLock<Host> = OnceLock::new();

/// The value of a parameter of a database's URI.
///
/// # Safety
/// `name` is one that SQLite gave to the VFS for a database file.
pub(crate) unsafe fn parameter(name: *const c_char, key: &CStr) -> Option<String> {
    let host = HOST.get()?;
    // SAFETY: the caller's promise; what is returned lies behind the name, and ends with a zero.
    let value = unsafe { (host.uri_parameter)(name, key.as_ptr()) };
    // SAFETY: as above.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
}

/// Tells SQLite's error log why something failed: a result code says little.
pub(crate) fn log(code: c_int, message: &str) {
    let (Some(host), Ok(text)) = (HOST.get(), CString::new(format!("scmfs: {message}"))) else { return };
    // SAFETY: a format with one string, and that string.
    unsafe { (host.log)(code, c"%s".as_ptr(), text.as_ptr()) };
}

/// A copy of a text in SQLite's memory, which SQLite frees; null if there is none.
pub(crate) fn text(text: &CStr) -> *mut c_char {
    let bytes = text.to_bytes_with_nul();
    let Some(host) = HOST.get() else { return std::ptr::null_mut() };
    // SAFETY: a length of a few bytes.
    let copy = unsafe { (host.malloc)(bytes.len() as c_int) }.cast::<u8>();
    if !copy.is_null() {
        // SAFETY: so many bytes were just allocated.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    }
    copy.cast()
}
