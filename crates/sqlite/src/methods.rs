//! `sqlite3_io_methods`: what SQLite calls on an open file.

use crate::files::Object;
use crate::host;
use crate::store::{Failure, Result};
use crate::transaction::Level;
use libsqlite3_sys as ffi;
use pocketstone_scmfs::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What SQLite has memory for: its `sqlite3_file`, and our object.
///
/// ```text
///   0 | methods (a pointer)   what SQLite knows
///   8 | object (a pointer)    ours, in a box
/// ```
#[repr(C)]
pub(crate) struct Handle {
    methods: *const ffi::sqlite3_io_methods,
    object: *mut Object,
}

impl Handle {
    pub fn new(object: Object) -> Handle {
        Handle { methods: &METHODS, object: Box::into_raw(Box::new(object)) }
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

/// The VFS's name.
pub(crate) const NAME: &CStr = c"scmfs";

/// Runs `f`; a panic must not reach C.
pub(crate) fn guarded(code: c_int, f: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        host::log(code, "a bug: the file system panicked");
        code
    })
}

/// The result code of a failure; `otherwise`: the one of the operation.
pub(crate) fn code(failure: &Failure, otherwise: c_int) -> c_int {
    let error = match failure {
        // It has said so itself.
        Failure::Below(code) => return *code,
        Failure::Volume(error) => error,
    };
    let code = match error {
        // After these, and those of input and output, SQLite takes no page for good that it did not read again.
        Error::NoSpace | Error::TooLarge => ffi::SQLITE_FULL,
        _ => otherwise,
    };
    if !matches!(error, Error::NotFound | Error::ReadOnly) {
        host::log(code, &error.to_string());
    }
    code
}

fn outcome(result: Result<()>, otherwise: c_int) -> c_int {
    answer(result, otherwise, |()| {})
}

/// Gives what a result has to `put`.
fn answer<T>(result: Result<T>, otherwise: c_int, put: impl FnOnce(T)) -> c_int {
    match result {
        Ok(value) => {
            put(value);
            ffi::SQLITE_OK
        }
        Err(failure) => code(&failure, otherwise),
    }
}

/// The object of an open file.
///
/// # Safety
/// `file` is one that [`Handle::new`] made and [`close`] was not called for; SQLite calls the methods of a file one at
/// a time.
unsafe fn object<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Object {
    // SAFETY: `file` begins a `Handle`, whose object is a box that is freed by `close` alone.
    unsafe { &mut *(*file.cast::<Handle>()).object }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    guarded(ffi::SQLITE_IOERR_CLOSE, || {
        let handle = file.cast::<Handle>();
        // SAFETY: SQLite closes an open file once; the object came out of a box.
        unsafe {
            drop(Box::from_raw((*handle).object));
            (*handle).methods = std::ptr::null();
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, into: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    guarded(ffi::SQLITE_IOERR_READ, || {
        // SAFETY: an open file, and memory for so many bytes.
        let (object, into) = unsafe { (object(file), slice_mut(into, bytes)) };
        match object.read(into, offset as u64) {
            Ok(read) if read < into.len() => ffi::SQLITE_IOERR_SHORT_READ,
            Ok(_) => ffi::SQLITE_OK,
            Err(error) => code(&error, ffi::SQLITE_IOERR_READ),
        }
    })
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, bytes: c_int, offset: i64) -> c_int {
    guarded(ffi::SQLITE_IOERR_WRITE, || {
        // SAFETY: an open file, and so many bytes.
        let (object, from) = unsafe { (object(file), slice_mut(from.cast_mut(), bytes)) };
        outcome(object.write(from, offset as u64), ffi::SQLITE_IOERR_WRITE)
    })
}

/// # Safety
/// `at` is valid for `bytes` bytes while the slice is used.
unsafe fn slice_mut<'a>(at: *mut c_void, bytes: c_int) -> &'a mut [u8] {
    if bytes <= 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), bytes as usize) }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    guarded(ffi::SQLITE_IOERR_TRUNCATE, || {
        // SAFETY: an open file.
        outcome(unsafe { object(file) }.truncate(size as u64), ffi::SQLITE_IOERR_TRUNCATE)
    })
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_FSYNC, || {
        // SAFETY: an open file.
        outcome(unsafe { object(file) }.sync(), ffi::SQLITE_IOERR_FSYNC)
    })
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    guarded(ffi::SQLITE_IOERR_FSTAT, || {
        // SAFETY: an open file.
        let found = unsafe { object(file) }.size();
        // SAFETY: memory for the answer.
        answer(found, ffi::SQLITE_IOERR_FSTAT, |bytes| unsafe { *size = bytes as i64 })
    })
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_LOCK, || {
        // SAFETY: an open file.
        let Object::Database(connection) = (unsafe { object(file) }) else { return ffi::SQLITE_OK };
        outcome(connection.raise(Level::of(level)), ffi::SQLITE_IOERR_LOCK)
    })
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_UNLOCK, || {
        // SAFETY: an open file.
        let Object::Database(connection) = (unsafe { object(file) }) else { return ffi::SQLITE_OK };
        outcome(connection.lower(Level::of(level)), ffi::SQLITE_IOERR_UNLOCK)
    })
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, into: *mut c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, || {
        // SAFETY: an open file.
        let reserved = match unsafe { object(file) } {
            Object::Database(connection) => connection.sharing().is_reserved(),
            _ => Ok(false),
        };
        // SAFETY: memory for the answer.
        answer(reserved, ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, |is| unsafe { *into = is.into() })
    })
}

unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, what: c_int, argument: *mut c_void) -> c_int {
    guarded(ffi::SQLITE_IOERR, || {
        // SAFETY: an open file.
        let object = unsafe { object(file) };
        match (what, object) {
            // SAFETY: a pointer to a pointer.
            (ffi::SQLITE_FCNTL_VFSNAME, _) => unsafe { *argument.cast::<*mut c_char>() = host::text(NAME) },
            // SAFETY: a pointer to an int.
            (ffi::SQLITE_FCNTL_HAS_MOVED, object) => unsafe { *argument.cast::<c_int>() = object.has_moved().into() },
            (ffi::SQLITE_FCNTL_LOCKSTATE, Object::Database(connection)) => {
                // SAFETY: a pointer to an int.
                unsafe { *argument.cast::<c_int>() = connection.level() as c_int };
            }
            // Its argument is the name of a super-journal, if there is one.
            (ffi::SQLITE_FCNTL_SYNC, Object::Database(connection)) => {
                return outcome(connection.prepare(!argument.is_null()), ffi::SQLITE_IOERR_FSYNC);
            }
            (ffi::SQLITE_FCNTL_COMMIT_PHASETWO, Object::Database(connection)) => {
                return outcome(connection.commit(), ffi::SQLITE_IOERR_COMMIT_ATOMIC);
            }
            (ffi::SQLITE_FCNTL_CKPT_START, Object::Database(connection)) => connection.leave_rollback_mode(),
            (ffi::SQLITE_FCNTL_MMAP_SIZE, Object::Database(connection)) => {
                // SAFETY: a pointer to a number of bytes: below 0 it asks, else it says.
                let value = unsafe { &mut *argument.cast::<i64>() };
                *value = connection.limit_in_place(u64::try_from(*value).ok()) as i64;
            }
            // The file grows with its transaction.
            (ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE, _) => {}
            // SAFETY: SQLite's argument.
            (what, Object::Database(connection)) => return unsafe { connection.sharing().control(what, argument) },
            _ => return ffi::SQLITE_NOTFOUND,
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    4096
}

/// A write changes no byte beside it, whatever happens.
unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    number: c_int,
    bytes: c_int,
    extend: c_int,
    at: *mut *mut c_void,
) -> c_int {
    guarded(ffi::SQLITE_IOERR_SHMMAP, || {
        // SAFETY: an open file.
        let Object::Database(connection) = (unsafe { object(file) }) else { return ffi::SQLITE_IOERR_SHMMAP };
        match connection.map_shm(number, bytes, extend != 0) {
            Ok(region) => {
                // SAFETY: memory for the answer.
                unsafe { *at = region.at };
                if region.is_read_only { ffi::SQLITE_READONLY } else { ffi::SQLITE_OK }
            }
            Err(failure) => code(&failure, ffi::SQLITE_IOERR_SHMMAP),
        }
    })
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, first: c_int, number: c_int, flags: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_SHMLOCK, || {
        // SAFETY: an open file.
        let Object::Database(connection) = (unsafe { object(file) }) else { return ffi::SQLITE_IOERR_SHMLOCK };
        let slots = first as usize..(first + number) as usize;
        outcome(connection.sharing().lock_shm(slots, flags), ffi::SQLITE_IOERR_SHMLOCK)
    })
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    guarded(ffi::SQLITE_OK, || {
        // SAFETY: an open file.
        if let Object::Database(connection) = unsafe { object(file) } {
            connection.sharing().barrier();
        }
        ffi::SQLITE_OK
    });
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_SHMMAP, || {
        // SAFETY: an open file.
        let Object::Database(connection) = (unsafe { object(file) }) else { return ffi::SQLITE_OK };
        outcome(connection.sharing().unmap_shm(delete != 0), ffi::SQLITE_IOERR_SHMMAP)
    })
}

/// Gives a page where it lies, or null: then SQLite reads it.
unsafe extern "C" fn fetch(file: *mut ffi::sqlite3_file, offset: i64, bytes: c_int, at: *mut *mut c_void) -> c_int {
    guarded(ffi::SQLITE_IOERR, || {
        // SAFETY: an open file.
        let page = match unsafe { object(file) } {
            Object::Database(connection) => connection.in_place(offset as u64, bytes as u64),
            _ => None,
        };
        // SAFETY: memory for the answer.
        unsafe { *at = page.map_or(std::ptr::null_mut(), |page| page.cast_mut().cast()) };
        ffi::SQLITE_OK
    })
}

/// Takes a page back; null: what SQLite knows of the file is old, which changes nothing here.
unsafe extern "C" fn unfetch(file: *mut ffi::sqlite3_file, _offset: i64, page: *mut c_void) -> c_int {
    guarded(ffi::SQLITE_IOERR, || {
        // SAFETY: an open file.
        if let (Object::Database(connection), false) = (unsafe { object(file) }, page.is_null()) {
            connection.give_back();
        }
        ffi::SQLITE_OK
    })
}
