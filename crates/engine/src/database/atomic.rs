//! F2FS's atomic writes: all pages of a transaction, or none, without a journal.
//!
//! SQLite that is compiled for them asks every database file as it opens it, and takes them in place of any journal but
//! a write-ahead log. Journal modes would then all be the same on F2FS: only who asked for them gets an answer.
//! Calls: <https://www.kernel.org/doc/html/latest/filesystems/f2fs.html>; numbers: `linux/f2fs.h`.

use super::sqlite_api::{self as api, SqliteApi, sqlite3};
use super::{calls, hints};
use crate::clock::now_ns;
use libsqlite3_sys::{self as ffi, sqlite3_file, sqlite3_syscall_ptr};
use pocketstone_core::{Error, Result};
use std::cell::Cell;
use std::ffi::{c_int, c_ulong, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::OnceLock;

/// The word of `journal_mode` for them.
pub(super) const WORD: &str = "atomic";
/// `_IO(0xf5, 2)`: writes out what came since the beginning, and makes it durable.
const COMMIT: u32 = 0xf502;
/// The lower half of `_IOR(0xf5, 12, __u32)`, whose upper half, direction and size, differs between processors.
const GET_FEATURES: u32 = 0xf50c;

type Ioctl = unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int;

thread_local! {
    /// Whether this thread opens a database that may have them.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Runs something that opens a database of the SQLite that is compiled in, with atomic writes if the file system has
/// them and they were `asked` for.
pub(super) fn opening<T>(asked: bool, open: impl FnOnce() -> T) -> T {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    INSTALLED.get_or_init(install);
    ASKED.set(asked);
    let result = open();
    ASKED.set(false);
    result
}

/// Takes the place of the system's ioctl in SQLite's table of calls; false: this SQLite makes no such call.
fn install() -> bool {
    // SAFETY: it initialises SQLite and finds a file system that stays as long as the program.
    let Some(vfs) = (unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()).as_ref() }) else { return false };
    let (Some(get), Some(set)) = (vfs.xGetSystemCall, vfs.xSetSystemCall) else { return false };
    let this = ptr::from_ref(vfs).cast_mut();
    // SAFETY: the file system is the functions' own, and the name ends with a zero byte. The table's entry is a pointer
    // that other threads read whole: they call the one function or the other, which differ in one answer. SQLite's
    // function has no fixed third argument; on Linux's processors it is passed in the same way.
    unsafe {
        let hook = transmute::<Ioctl, sqlite3_syscall_ptr>(ioctl);
        get(this, c"ioctl".as_ptr()).is_some() && set(this, c"ioctl".as_ptr(), hook) == ffi::SQLITE_OK
    }
}

/// What SQLite calls in place of the system's. The third argument is there where the request has one.
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let number = request as u32 & 0xffff;
    if number == GET_FEATURES && !ASKED.get() {
        return -1;
    }
    let commits = number == COMMIT;
    let start_ns = commits.then(|| {
        hints::blocks();
        now_ns()
    });
    // SAFETY: what SQLite has asked for, as it has.
    let result = unsafe { libc::ioctl(fd, request as _, argument) };
    if let Some(start_ns) = start_ns {
        calls::synced(fd, start_ns, i64::from(result));
        hints::resumes();
    }
    result
}

/// Checks that an open database has them.
///
/// # Errors
/// `ErrorKind::Board` if it does not, with what would help.
pub(super) fn check(api: &SqliteApi, engine: &str, file: &str, db: *mut sqlite3) -> Result<()> {
    let refused = || Error::board(format!("journal_mode={WORD} was requested of {engine}, which has no atomic writes"));
    if !ptr::eq(api, &api::BUNDLED) {
        return Err(refused().hint("set engine = \"sqlite\" for it"));
    }
    // SAFETY: the name ends with a zero byte.
    if unsafe { ffi::sqlite3_compileoption_used(c"ENABLE_BATCH_ATOMIC_WRITE".as_ptr()) } == 0 {
        let hint = "build it with LIBSQLITE3_FLAGS=SQLITE_ENABLE_BATCH_ATOMIC_WRITE, as the runner of boards is";
        return Err(refused().hint(hint));
    }
    let mut main: *mut sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open; SQLite writes a pointer to the file's own structure, or leaves it alone.
    let has = unsafe {
        let to = (&raw mut main).cast::<c_void>();
        ffi::sqlite3_file_control(db, c"main".as_ptr(), ffi::SQLITE_FCNTL_FILE_POINTER, to);
        let methods = main.as_ref().and_then(|file| file.pMethods.as_ref());
        methods.and_then(|methods| methods.xDeviceCharacteristics).map_or(0, |characteristics| characteristics(main))
    };
    match has & ffi::SQLITE_IOCAP_BATCH_ATOMIC != 0 {
        true => Ok(()),
        false => Err(Error::board(format!(
            "journal_mode={WORD} was requested, and the file system of {file} has no atomic writes"
        ))
        .hint("set file_system = \"f2fs\" for it, or a directory on F2FS")),
    }
}
