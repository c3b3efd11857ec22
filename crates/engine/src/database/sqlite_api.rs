//! The functions of SQLite's C interface that are called here, as a table of pointers: the same code runs
//! on the SQLite that is compiled in and on any other library with this interface.
//! Meanings and result codes: <https://sqlite.org/c3ref/funclist.html>.

use libsqlite3_sys as ffi;
use std::ffi::{c_char, c_double, c_int, c_uchar, c_void};

pub(super) use ffi::{sqlite3, sqlite3_stmt, sqlite3_value};

/// Frees a bound value; `None` is SQLITE_STATIC: the value outlives the statement.
type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;

/// Says whether a statement that is prepared may do something: its action, and up to four names.
type Authorizer =
    unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_char, *const c_char, *const c_char) -> c_int;

macro_rules! table {
    ($($field:ident = $symbol:ident($($argument:ty),*) -> $result:ty;)*) => {
        /// Pointers to the functions of one library.
        #[derive(Clone, Copy)]
        pub(super) struct SqliteApi {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        /// The SQLite that is compiled in.
        pub(super) static BUNDLED: SqliteApi = SqliteApi { $($field: ffi::$symbol,)* };

        #[cfg(all(feature = "bdb", not(target_feature = "crt-static")))]
        impl SqliteApi {
            /// The functions of a library.
            ///
            /// # Safety
            /// The library stays loaded, and its functions have the types that SQLite's have.
            pub(super) unsafe fn load(library: &libloading::Library) -> Result<SqliteApi, libloading::Error> {
                // SAFETY: the caller vouches for the types and for the library's life.
                unsafe {
                    Ok(SqliteApi { $($field: *library.get(concat!(stringify!($symbol), "\0").as_bytes())?,)* })
                }
            }
        }
    };
}

table! {
    libversion = sqlite3_libversion() -> *const c_char;
    open_v2 = sqlite3_open_v2(*const c_char, *mut *mut sqlite3, c_int, *const c_char) -> c_int;
    close = sqlite3_close(*mut sqlite3) -> c_int;
    busy_timeout = sqlite3_busy_timeout(*mut sqlite3, c_int) -> c_int;
    set_authorizer = sqlite3_set_authorizer(*mut sqlite3, Option<Authorizer>, *mut c_void) -> c_int;
    prepare_v2 =
        sqlite3_prepare_v2(*mut sqlite3, *const c_char, c_int, *mut *mut sqlite3_stmt, *mut *const c_char) -> c_int;
    finalize = sqlite3_finalize(*mut sqlite3_stmt) -> c_int;
    parameters = sqlite3_bind_parameter_count(*mut sqlite3_stmt) -> c_int;
    bind_null = sqlite3_bind_null(*mut sqlite3_stmt, c_int) -> c_int;
    bind_int64 = sqlite3_bind_int64(*mut sqlite3_stmt, c_int, i64) -> c_int;
    bind_double = sqlite3_bind_double(*mut sqlite3_stmt, c_int, c_double) -> c_int;
    bind_text = sqlite3_bind_text(*mut sqlite3_stmt, c_int, *const c_char, c_int, Destructor) -> c_int;
    bind_blob = sqlite3_bind_blob(*mut sqlite3_stmt, c_int, *const c_void, c_int, Destructor) -> c_int;
    step = sqlite3_step(*mut sqlite3_stmt) -> c_int;
    reset = sqlite3_reset(*mut sqlite3_stmt) -> c_int;
    column_count = sqlite3_column_count(*mut sqlite3_stmt) -> c_int;
    column_value = sqlite3_column_value(*mut sqlite3_stmt, c_int) -> *mut sqlite3_value;
    value_type = sqlite3_value_type(*mut sqlite3_value) -> c_int;
    value_int64 = sqlite3_value_int64(*mut sqlite3_value) -> i64;
    value_double = sqlite3_value_double(*mut sqlite3_value) -> c_double;
    value_text = sqlite3_value_text(*mut sqlite3_value) -> *const c_uchar;
    value_blob = sqlite3_value_blob(*mut sqlite3_value) -> *const c_void;
    value_bytes = sqlite3_value_bytes(*mut sqlite3_value) -> c_int;
    total_changes = sqlite3_total_changes(*mut sqlite3) -> c_int;
    errmsg = sqlite3_errmsg(*mut sqlite3) -> *const c_char;
    extended_errcode = sqlite3_extended_errcode(*mut sqlite3) -> c_int;
}

pub(super) const ROW: c_int = 100;
pub(super) const DONE: c_int = 101;
pub(super) const OK: c_int = 0;
/// Primary result codes that are told apart; the others say what they are themselves.
pub(super) const BUSY: c_int = 5;
pub(super) const LOCKED: c_int = 6;
pub(super) const FULL: c_int = 13;
pub(super) const IO_ERROR: c_int = 10;
pub(super) const NOT_AUTHORIZED: c_int = 23;
pub(super) const NOT_A_DATABASE: c_int = 26;
/// SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX: a connection is one thread's.
pub(super) const OPEN: c_int = 0x2 | 0x4 | 0x8000;
/// Names that begin with `file:` are URIs.
pub(super) const OPEN_URI: c_int = 0x40;
