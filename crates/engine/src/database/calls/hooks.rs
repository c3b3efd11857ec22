//! The functions that SQLite calls in place of the system's, and its virtual file system with another `xSync`.

use super::super::hints;
use super::log::{NO_FILE, Record};
use super::{INSTALLED, Installed};
use crate::clock::now_ns;
use libsqlite3_sys::{self as ffi, sqlite3_file, sqlite3_io_methods, sqlite3_syscall_ptr, sqlite3_vfs};
use pocketstone_core::events::SystemCall;
use pocketstone_core::{Error, Result};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::{Mutex, PoisonError};

// Positions are 64 bits wide on every machine: SQLite defines _FILE_OFFSET_BITS as 64.
type Open = unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int;
type Close = unsafe extern "C" fn(c_int) -> c_int;
type Read = unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize;
type Write = unsafe extern "C" fn(c_int, *const c_void, usize) -> isize;
type ReadAt = unsafe extern "C" fn(c_int, *mut c_void, usize, i64) -> isize;
type WriteAt = unsafe extern "C" fn(c_int, *const c_void, usize, i64) -> isize;
type Truncate = unsafe extern "C" fn(c_int, i64) -> c_int;
type Unlink = unsafe extern "C" fn(*const c_char) -> c_int;
type OpenDirectory = unsafe extern "C" fn(*const c_char, *mut c_int) -> c_int;
type OpenFile =
    unsafe extern "C" fn(*mut sqlite3_vfs, ffi::sqlite3_filename, *mut sqlite3_file, c_int, *mut c_int) -> c_int;
type Sync = unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int;

const NAME: &CStr = c"pocketstone";

/// What was there before.
#[derive(Clone, Copy)]
pub(super) struct Original {
    vfs: *mut sqlite3_vfs,
    open_file: OpenFile,
    open: Open,
    close: Close,
    read: Read,
    write: Write,
    read_at: ReadAt,
    write_at: WriteAt,
    truncate: Truncate,
    unlink: Unlink,
    open_directory: OpenDirectory,
}

// SAFETY: SQLite's virtual file systems and their functions are there as long as the program, for all threads.
unsafe impl Send for Original {}
// SAFETY: as above; nothing is changed through it.
unsafe impl std::marker::Sync for Original {}

thread_local! {
    /// File and start of the sync that this thread is in.
    static SYNCING: Cell<Option<(u16, u64)>> = const { Cell::new(None) };
    /// A folder's descriptor, opened to be made durable, and when that was done.
    static FOLDER: Cell<Option<(c_int, Option<u64>)>> = const { Cell::new(None) };
    /// The file that this thread opened last.
    static OPENED: Cell<u16> = const { Cell::new(NO_FILE) };
}

impl Original {
    /// What SQLite has now.
    ///
    /// # Errors
    /// `ErrorKind::Bug` if it is not the expected one.
    pub(super) fn find() -> Result<Original> {
        let missing = |what: &CStr| Error::bug(format!("SQLite has no {}", what.to_string_lossy()));
        // SAFETY: it initialises SQLite and returns its default file system, which stays.
        let vfs = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        if vfs.is_null() {
            return Err(missing(c"file system"));
        }
        // SAFETY: as above; nobody writes to it but SQLite, to its list of them.
        let table = unsafe { *vfs };
        let get = table.xGetSystemCall.filter(|_| table.iVersion >= 3).ok_or_else(|| missing(c"system calls"))?;
        let call = |name: &CStr| {
            // SAFETY: the file system is the function's own; the name ends with a zero byte.
            unsafe { get(vfs, name.as_ptr()) }.ok_or_else(|| missing(name))
        };
        // SAFETY: the types are those that SQLite's source gives the entries of these names (`aSyscall`).
        unsafe {
            Ok(Original {
                vfs,
                open_file: table.xOpen.ok_or_else(|| missing(c"xOpen"))?,
                open: transmute::<unsafe extern "C" fn(), Open>(call(c"open")?),
                close: transmute::<unsafe extern "C" fn(), Close>(call(c"close")?),
                read: transmute::<unsafe extern "C" fn(), Read>(call(c"read")?),
                write: transmute::<unsafe extern "C" fn(), Write>(call(c"write")?),
                read_at: transmute::<unsafe extern "C" fn(), ReadAt>(call(c"pread")?),
                write_at: transmute::<unsafe extern "C" fn(), WriteAt>(call(c"pwrite")?),
                truncate: transmute::<unsafe extern "C" fn(), Truncate>(call(c"ftruncate")?),
                unlink: transmute::<unsafe extern "C" fn(), Unlink>(call(c"unlink")?),
                open_directory: transmute::<unsafe extern "C" fn(), OpenDirectory>(call(c"openDirectory")?),
            })
        }
    }
}

/// Puts the functions below in place, and makes the file system the default one.
///
/// # Errors
/// `ErrorKind::Bug` if SQLite refuses.
pub(super) fn install() -> Result<()> {
    let original = &installed().original;
    // SAFETY: it was found, and stays.
    let mut table = unsafe { *original.vfs };
    let set = table.xSetSystemCall.ok_or_else(|| Error::bug("cannot replace SQLite's system calls"))?;
    // SAFETY: each function has the type of the entry that it takes the place of, and no other meaning.
    let hooks: [(&CStr, sqlite3_syscall_ptr); 9] = unsafe {
        [
            (c"open", transmute::<Open, sqlite3_syscall_ptr>(open)),
            (c"close", transmute::<Close, sqlite3_syscall_ptr>(close)),
            (c"read", transmute::<Read, sqlite3_syscall_ptr>(read)),
            (c"write", transmute::<Write, sqlite3_syscall_ptr>(write)),
            (c"pread", transmute::<ReadAt, sqlite3_syscall_ptr>(read_at)),
            (c"pwrite", transmute::<WriteAt, sqlite3_syscall_ptr>(write_at)),
            (c"ftruncate", transmute::<Truncate, sqlite3_syscall_ptr>(truncate)),
            (c"unlink", transmute::<Unlink, sqlite3_syscall_ptr>(unlink)),
            (c"openDirectory", transmute::<OpenDirectory, sqlite3_syscall_ptr>(open_directory)),
        ]
    };
    for (name, hook) in hooks {
        // SAFETY: the process has no open database yet: nobody calls through the table meanwhile.
        if unsafe { set(original.vfs, name.as_ptr(), hook) } != ffi::SQLITE_OK {
            return Err(Error::bug(format!("SQLite does not allow replacing its {}", name.to_string_lossy())));
        }
    }
    table.zName = NAME.as_ptr();
    table.pNext = ptr::null_mut();
    table.szOsFile = number_at(original) as c_int + size_of::<u16>() as c_int;
    table.xOpen = Some(open_file);
    // SAFETY: the table is never freed. All its other functions are the default file system's, which look at
    // nothing of it but pAppData: that is the same.
    match unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(table)), 1) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(Error::bug(format!("SQLite rejected the file system (result code {code})"))),
    }
}

/// Where, in an open file of SQLite, the number of its name is: behind everything that SQLite has there.
fn number_at(original: &Original) -> usize {
    // SAFETY: as in `install`.
    unsafe { (*original.vfs).szOsFile as usize }.next_multiple_of(align_of::<u64>())
}

fn installed() -> &'static Installed {
    match INSTALLED.get() {
        Some(installed) => installed,
        // Hooks are set after it is; there is no way back through C's frames.
        None => std::process::abort(),
    }
}

/// Notes a call that has returned, if it began while calls are recorded. An error's number stays as it is.
#[inline]
pub(super) fn note(call: SystemCall, start_ns: Option<u64>, file: u16, offset: Option<i64>, bytes: usize, result: i64) {
    let Some(start_ns) = start_ns else { return };
    let end_ns = now_ns();
    let offset = offset.map(|o| o as u64);
    let mut record = Record { call, file, offset, bytes: bytes as u64, result, start_ns, end_ns };
    if result >= 0 {
        return installed().log.push(&record);
    }
    keep_errno(|errno| {
        record.result = -i64::from(errno);
        installed().log.push(&record);
    });
}

/// Runs something that may change `errno`, which SQLite looks at.
fn keep_errno<T>(run: impl FnOnce(c_int) -> T) -> T {
    // SAFETY: this thread's own variable.
    let errno = unsafe { *libc::__errno_location() };
    let result = run(errno);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    result
}

/// The bytes of a name.
///
/// # Safety
/// It ends with a zero byte, and stays meanwhile.
unsafe fn bytes<'a>(name: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

// Each of these hands on what it was given: if SQLite may call the system's function so, it may call this.

unsafe extern "C" fn open(name: *const c_char, flags: c_int, mode: c_int) -> c_int {
    let Installed { log, original } = installed();
    // SAFETY: SQLite's names end with a zero byte.
    let file = log.file(unsafe { bytes(name) });
    let start_ns = log.begin();
    // SAFETY: as above.
    let fd = unsafe { (original.open)(name, flags, mode) };
    note(SystemCall::Open, start_ns, file, None, 0, i64::from(fd));
    if fd >= 0 {
        log.opened(fd, file);
        OPENED.set(file);
    }
    fd
}

unsafe extern "C" fn close(fd: c_int) -> c_int {
    let Installed { log, original } = installed();
    let file = log.closing(fd);
    if let Some((_, since_ns)) = FOLDER.get().filter(|(folder, _)| *folder == fd) {
        FOLDER.set(None);
        keep_errno(|_| hints::resumes());
        note(SystemCall::Sync, since_ns, file, None, 0, 0);
    }
    let start_ns = log.begin();
    // SAFETY: as above.
    let result = unsafe { (original.close)(fd) };
    note(SystemCall::Close, start_ns, file, None, 0, i64::from(result));
    result
}

unsafe extern "C" fn read(fd: c_int, to: *mut c_void, count: usize) -> isize {
    let Installed { log, original } = installed();
    let start_ns = log.begin();
    // SAFETY: as above.
    let result = unsafe { (original.read)(fd, to, count) };
    note(SystemCall::Read, start_ns, log.of(fd), None, count, result as i64);
    result
}

unsafe extern "C" fn write(fd: c_int, from: *const c_void, count: usize) -> isize {
    let Installed { log, original } = installed();
    let start_ns = log.begin();
    // SAFETY: as above.
    let result = unsafe { (original.write)(fd, from, count) };
    note(SystemCall::Write, start_ns, log.of(fd), None, count, result as i64);
    result
}

unsafe extern "C" fn read_at(fd: c_int, to: *mut c_void, count: usize, offset: i64) -> isize {
    let Installed { log, original } = installed();
    let start_ns = log.begin();
    // SAFETY: as above.
    let result = unsafe { (original.read_at)(fd, to, count, offset) };
    note(SystemCall::Read, start_ns, log.of(fd), Some(offset), count, result as i64);
    result
}

unsafe extern "C" fn write_at(fd: c_int, from: *const c_void, count: usize, offset: i64) -> isize {
    let Installed { log, original } = installed();
    let start_ns = log.begin();
    // SAFETY: as above.
    let result = unsafe { (original.write_at)(fd, from, count, offset) };
    note(SystemCall::Write, start_ns, log.of(fd), Some(offset), count, result as i64);
    result
}

unsafe extern "C" fn truncate(fd: c_int, length: i64) -> c_int {
    let Installed { log, original } = installed();
    let start_ns = log.begin();
    // SAFETY: as above.
    let result = unsafe { (original.truncate)(fd, length) };
    note(SystemCall::Truncate, start_ns, log.of(fd), None, 0, i64::from(result));
    result
}

unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    let Installed { log, original } = installed();
    // SAFETY: SQLite's names end with a zero byte.
    let file = log.file(unsafe { bytes(name) });
    let start_ns = log.begin();
    // SAFETY: as above.
    let result = unsafe { (original.unlink)(name) };
    note(SystemCall::Delete, start_ns, file, None, 0, i64::from(result));
    result
}

/// SQLite opens a folder for one thing alone: to make it durable, and close it. Within a sync of a file, that
/// comes behind the file's own.
unsafe extern "C" fn open_directory(name: *const c_char, fd: *mut c_int) -> c_int {
    let Installed { log, original } = installed();
    if let Some((file, since_ns)) = SYNCING.take() {
        note(SystemCall::Sync, Some(since_ns), file, None, 0, 0);
    }
    // SAFETY: as above. It opens by the function above.
    let code = unsafe { (original.open_directory)(name, fd) };
    if code == ffi::SQLITE_OK {
        // SAFETY: SQLite's own variable, which it has just written.
        FOLDER.set(Some((unsafe { *fd }, log.begin())));
        hints::blocks();
    }
    code
}

/// The functions of SQLite's open files with another `xSync`, and what they were made from.
#[repr(C)]
struct Methods {
    table: sqlite3_io_methods,
    original: *const sqlite3_io_methods,
}

// SAFETY: both tables stay as they are.
unsafe impl Send for Methods {}
// SAFETY: as above.
unsafe impl std::marker::Sync for Methods {}

/// The methods that stand for SQLite's own; there are as many as it has ways to lock.
///
/// # Safety
/// `original` is a table that stays as it is.
unsafe fn methods(original: *const sqlite3_io_methods) -> &'static Methods {
    static MADE: Mutex<Vec<&Methods>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(methods) = made.iter().find(|m| m.original == original) {
        return methods;
    }
    // SAFETY: the caller's.
    let mut table = unsafe { *original };
    table.xSync = table.xSync.map(|_| sync as Sync);
    let methods: &Methods = Box::leak(Box::new(Methods { table, original }));
    made.push(methods);
    methods
}

unsafe extern "C" fn open_file(
    _: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let Installed { log, original } = installed();
    // SAFETY: what SQLite has for this file system is more than enough for its own.
    let code = unsafe { (original.open_file)(original.vfs, name, file, flags, out_flags) };
    keep_errno(|_| {
        // SAFETY: SQLite made room for the number, behind its own file; it opened the file, so that the file's
        // methods are a table of its own. Such a file takes the functions it had, and `sync`, as before.
        unsafe {
            if code == ffi::SQLITE_OK && !(*file).pMethods.is_null() {
                // A file without a name gets one from SQLite, and was opened by this thread just now.
                let number = if name.is_null() { OPENED.get() } else { log.file(bytes(name)) };
                file.cast::<u8>().add(number_at(original)).cast::<u16>().write(number);
                (*file).pMethods = &raw const methods((*file).pMethods).table;
            }
        }
    });
    code
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    let Installed { log, original } = installed();
    // SAFETY: the file was opened by `open_file`: its methods are the first field of `Methods`, and its number
    // is behind it.
    let (methods, number) = unsafe {
        let methods = &*(*file).pMethods.cast::<Methods>();
        (methods, file.cast::<u8>().add(number_at(original)).cast::<u16>().read())
    };
    // SAFETY: it stays; it has this function, as `methods` looked.
    let Some(original_sync) = (unsafe { (*methods.original).xSync }) else { return ffi::SQLITE_IOERR };
    hints::blocks();
    SYNCING.set(log.begin().map(|now_ns| (number, now_ns)));
    // SAFETY: SQLite's own function on its own file.
    let code = unsafe { original_sync(file, flags) };
    keep_errno(|_| hints::resumes());
    if let Some((number, since_ns)) = SYNCING.take() {
        // Where it failed, SQLite has kept the system's error to itself.
        let result = if code == ffi::SQLITE_OK { 0 } else { -i64::from(libc::EIO) };
        let end_ns = now_ns();
        let call = SystemCall::Sync;
        log.push(&Record { call, file: number, offset: None, bytes: 0, result, start_ns: since_ns, end_ns });
    }
    code
}
