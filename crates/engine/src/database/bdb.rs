//! Berkeley DB's SQL interface: SQLite's C interface on Berkeley DB's trees, from Debian's library, loaded
//! at run time and kept apart from the SQLite that is compiled in.

use super::sqlite_api::SqliteApi;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use pocketstone_core::{Error, Result};
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

/// The library's name, by the loader's search path.
const LIBRARY: &str = "libdb_sql-5.3.so";
const INSTALL: &str = "sudo apt-get install libdb5.3-sql";
/// glibc's RTLD_DEEPBIND: the library's own functions come before those of the program.
const RTLD_DEEPBIND: c_int = 8;

struct Loaded {
    api: SqliteApi,
    version: String,
}

/// The library's functions.
///
/// # Errors
/// `ErrorKind::Board` if it is not installed.
pub(super) fn api() -> Result<&'static SqliteApi> {
    loaded().map(|l| &l.api)
}

/// Its name and version.
///
/// # Errors
/// `ErrorKind::Board` if it is not installed.
pub(super) fn version() -> Result<String> {
    loaded().map(|l| l.version.clone())
}

fn loaded() -> Result<&'static Loaded> {
    static LOADED: OnceLock<Result<Loaded, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| load(LIBRARY).map_err(|e| e.to_string()));
    loaded
        .as_ref()
        .map_err(|why| Error::board(format!("cannot load Berkeley DB's SQL library {LIBRARY}: {why}")).hint(INSTALL))
}

fn load(name: &str) -> Result<Loaded, libloading::Error> {
    // SAFETY: its initialisers set up nothing that another library uses.
    let library = unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND)? };
    // SAFETY: it never ends, so that its functions may be called as long as the program runs.
    let library: &'static libloading::Library = Box::leak(Box::new(library.into()));
    // SAFETY: it has SQLite's interface, by its manual; it stays loaded.
    let api = unsafe { SqliteApi::load(library)? };
    // SAFETY: `char *db_version(int *, int *, int *)`, by its manual: it writes three numbers.
    let text = unsafe {
        let version: libloading::Symbol<'_, unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char> =
            library.get(b"db_version\0")?;
        let mut numbers = [0; 3];
        let [major, minor, patch] = &mut numbers;
        version(major, minor, patch);
        format!("Berkeley DB {}.{}.{}", numbers[0], numbers[1], numbers[2])
    };
    // SAFETY: a text that is never freed.
    let sqlite = unsafe { CStr::from_ptr((api.libversion)()) }.to_string_lossy();
    Ok(Loaded { version: format!("{text} (SQL interface of SQLite {sqlite})"), api })
}
