//! `sqlite3_vfs`: what SQLite asks by names, and how it comes to know the VFS.

use crate::files::Object;
use crate::host::{self, Host, Routines, log};
use crate::in_process;
use crate::methods::{Handle, NAME, code, guarded};
use crate::place::Place;
use crate::store::{Failure, Result};
use crate::volumes::{self, Use};
use crate::{below, mounted};
use libsqlite3_sys as ffi;
use pocketstone_scmfs::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The parameter of a URI that names the volume.
const VOLUME: &CStr = c"volume";

/// The VFS's description.
struct Registered(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite calls a VFS from all threads; what the pointer points to stays until the program ends, and is not
// changed but by SQLite, under its own lock.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

static REGISTERED: OnceLock<Registered> = OnceLock::new();

/// Registers the VFS `scmfs`, not as the default.
///
/// # Errors
/// `SQLITE_ERROR` if SQLite is older than 3.14; otherwise what `sqlite3_vfs_register()` returns, if not `SQLITE_OK`.
pub fn register(host: Host) -> std::result::Result<(), c_int> {
    if !host.is_new_enough() {
        return Err(ffi::SQLITE_ERROR);
    }
    // Of two registrations the first one counts.
    let host = host::HOST.get_or_init(|| host);
    let known = REGISTERED.get_or_init(|| {
        // SAFETY: a null name asks for the default.
        let below = below::remember(|| unsafe { (host.vfs_find)(std::ptr::null()) });
        // SAFETY: SQLite always has a default VFS, which stays where it is.
        Registered(Box::into_raw(Box::new(unsafe { describe(&*below) })))
    });
    // SAFETY: a whole description, which is never freed.
    match unsafe { (host.vfs_register)(known.0, 0) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(code),
    }
}

/// Registers the VFS in the SQLite that loads an extension, and says what its entry point returns.
///
/// # Safety
/// `routines` is what SQLite gave to the entry point: its table of functions.
pub unsafe fn register_extension(routines: *const c_void) -> c_int {
    guarded(ffi::SQLITE_ERROR, || {
        // SAFETY: all versions of SQLite that have URIs have a table that is long enough.
        let host = unsafe { Host::of_extension(&*routines.cast::<Routines>()) };
        // The VFS is used after the connection that loads it is gone.
        register(host).map_or_else(|code| code, |()| ffi::SQLITE_OK_LOAD_PERMANENTLY)
    })
}

/// The longest name: of a volume, and of a file in it.
const LONGEST: c_int = 4096;

fn describe(below: &ffi::sqlite3_vfs) -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: below.iVersion.min(3),
        szOsFile: below.szOsFile.max(size_of::<Handle>() as c_int),
        mxPathname: below.mxPathname.max(LONGEST),
        pNext: std::ptr::null_mut(),
        zName: NAME.as_ptr(),
        pAppData: std::ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: Some(dl_sym),
        xDlClose: Some(dl_close),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: below.xCurrentTimeInt64.and(Some(current_time_int64)),
        xSetSystemCall: below.xSetSystemCall.and(Some(set_system_call)),
        xGetSystemCall: below.xGetSystemCall.and(Some(get_system_call)),
        xNextSystemCall: below.xNextSystemCall.and(Some(next_system_call)),
    }
}

/// The volume and the place of a name that SQLite gives back.
///
/// # Safety
/// `name` is null or ends with a zero.
unsafe fn place(name: *const c_char) -> Result<Option<(Use, Place)>> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    if mounted::is_known(name) {
        return Ok(None);
    }
    let Ok(name) = name.to_str() else { return Ok(None) };
    Ok(volumes::find(name)?)
}

/// Opens what a name means, and says by which flags; `None`: it is a file like any other.
///
/// # Safety
/// `name` is one that SQLite gives to xOpen with `flags`.
unsafe fn open_object(name: *const c_char, flags: c_int) -> Result<Option<(Object, c_int)>> {
    if name.is_null() {
        return Ok(None);
    }
    let of_database = flags & ffi::SQLITE_OPEN_MAIN_DB != 0;
    // SAFETY: a name of a database.
    let volume = of_database.then(|| unsafe { host::parameter(name, VOLUME) }).flatten();
    // Open from here on, so that its place is found.
    let _open = volume.map(|volume| volumes::open(&volumes::name_of(&volume)?)).transpose()?;
    // SAFETY: as the caller says.
    let Some((opened, place)) = (unsafe { place(name) })? else {
        // SAFETY: a name ends with a zero.
        let path = unsafe { CStr::from_ptr(name) };
        if flags & ffi::SQLITE_OPEN_WAL != 0 {
            mounted::begin_wal(path);
        }
        return match flags {
            // SAFETY: as the caller says.
            _ if of_database && mounted::is_offered(path) => unsafe { mounted::connect(name, flags) }.map(Some),
            _ if flags & ffi::SQLITE_OPEN_MAIN_JOURNAL == 0 || flags & ffi::SQLITE_OPEN_CREATE == 0 => Ok(None),
            _ => mounted::begin_journal(path).transpose().map(|begun| Some((begun?, flags))),
        };
    };
    let create = flags & ffi::SQLITE_OPEN_CREATE != 0;
    let read_only = flags & ffi::SQLITE_OPEN_READONLY != 0 || opened.is_read_only();
    let writable = flags & !(ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE);
    let done = if read_only { writable | ffi::SQLITE_OPEN_READONLY } else { flags };
    Ok(Some((open_at(opened, &place, flags, create && !read_only)?, done)))
}

fn open_at(opened: Use, place: &Place, flags: c_int, create: bool) -> Result<Object> {
    if flags & ffi::SQLITE_OPEN_WAL != 0 {
        in_process::begin_wal(&opened, place);
    }
    if flags & ffi::SQLITE_OPEN_MAIN_JOURNAL != 0 {
        return in_process::open_journal(opened, place, create);
    }
    if create && flags & ffi::SQLITE_OPEN_EXCLUSIVE != 0 && place.find(&opened.volume).is_ok() {
        return Err(Error::Exists.into());
    }
    let file = if create { place.create(&opened.volume)? } else { place.open(&opened.volume)? };
    Ok(match flags & ffi::SQLITE_OPEN_MAIN_DB {
        0 => in_process::other(opened, place, file),
        _ => Object::Database(in_process::connect(opened, place, file)),
    })
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: memory for a file; without methods SQLite does not close it.
    unsafe { (*file).pMethods = std::ptr::null() };
    guarded(ffi::SQLITE_CANTOPEN, || {
        // SAFETY: SQLite's name and flags.
        match unsafe { open_object(name, flags) } {
            // SAFETY: as SQLite called it.
            Ok(None) => unsafe { open_below(vfs, name, file, flags, out_flags) },
            Ok(Some((object, done))) => {
                // SAFETY: `szOsFile` bytes, room for a handle; and for flags, if they are asked for.
                unsafe {
                    file.cast::<Handle>().write(Handle::new(object));
                    if !out_flags.is_null() {
                        *out_flags = done;
                    }
                }
                ffi::SQLITE_OK
            }
            Err(error) => {
                let missing = matches!(error, Failure::Volume(Error::NotFound));
                if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 && missing {
                    log(ffi::SQLITE_CANTOPEN, "no such file or directory in the volume");
                }
                code(&error, ffi::SQLITE_CANTOPEN)
            }
        }
    })
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_DELETE, || {
        // SAFETY: a name.
        let (opened, place) = match unsafe { place(name) } {
            Ok(Some(found)) => found,
            // SAFETY: as SQLite called it.
            Ok(None) => return unsafe { delete_outside(vfs, name, sync) },
            Err(error) => return code(&error, ffi::SQLITE_IOERR_DELETE),
        };
        match place.remove(&opened.volume) {
            Ok(()) => ffi::SQLITE_OK,
            // A journal that was in memory only.
            Err(Error::NotFound) if place.is_journal() => ffi::SQLITE_OK,
            Err(Error::NotFound) => ffi::SQLITE_IOERR_DELETE_NOENT,
            Err(error) => code(&error.into(), ffi::SQLITE_IOERR_DELETE),
        }
    })
}

/// Removes a file that is in no volume of this process.
///
/// # Safety
/// As xDelete.
unsafe fn delete_outside(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: a name ends with a zero.
    if unsafe { !name.is_null() && mounted::is_journal_in_memory(CStr::from_ptr(name)) } {
        return ffi::SQLITE_OK;
    }
    // SAFETY: the caller's promise.
    unsafe { delete_below(vfs, name, sync) }
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    guarded(ffi::SQLITE_IOERR_ACCESS, || {
        // SAFETY: a name.
        let (opened, place) = match unsafe { place(name) } {
            Ok(Some(found)) => found,
            // SAFETY: as SQLite called it.
            Ok(None) => return unsafe { access_below(vfs, name, flags, answer) },
            // That a journal is not there is no answer where nobody could look.
            Err(error) => return code(&error, ffi::SQLITE_IOERR_ACCESS),
        };
        // As SQLite's own VFS has it, an empty file is none.
        let there = match place.open(&opened.volume) {
            Ok(file) => flags != ffi::SQLITE_ACCESS_EXISTS || file.attributes().size > 0,
            Err(_) => false,
        };
        let may = flags != ffi::SQLITE_ACCESS_READWRITE || !opened.is_read_only();
        // SAFETY: memory for the answer.
        unsafe { *answer = (there && may).into() };
        ffi::SQLITE_OK
    })
}

/// A database in a volume is called by the volume's name and its own path: `/dev/shm/app.scmfs/app.db`.
unsafe extern "C" fn full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    bytes: c_int,
    into: *mut c_char,
) -> c_int {
    guarded(ffi::SQLITE_CANTOPEN, || {
        // SAFETY: a name of a database, with its parameters.
        let Some(volume) = (unsafe { host::parameter(name, VOLUME) }) else {
            // SAFETY: as SQLite called it.
            return unsafe { full_pathname_below(vfs, name, bytes, into) };
        };
        // SAFETY: a name ends with a zero.
        let path = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let volume = match volumes::name_of(&volume) {
            Ok(volume) => volume,
            Err(_) => {
                log(ffi::SQLITE_CANTOPEN, &format!("there is no volume {volume}; create it with scmfs mkfs"));
                return ffi::SQLITE_CANTOPEN;
            }
        };
        let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        let whole = parts.fold(volume, |whole, part| whole + "/" + part);
        if whole.len() as c_int >= bytes {
            return ffi::SQLITE_CANTOPEN;
        }
        // SAFETY: `bytes` bytes, which is more than the name and its zero.
        unsafe {
            std::ptr::copy_nonoverlapping(whole.as_ptr(), into.cast(), whole.len());
            *into.add(whole.len()) = 0;
        }
        ffi::SQLITE_OK
    })
}

/// Defines methods that are those of the VFS below.
macro_rules! below {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*) $(-> $answer:ty)? { $otherwise:expr })*) => { $(
        unsafe extern "C" fn $name(_vfs: *mut ffi::sqlite3_vfs, $($argument: $kind),*) $(-> $answer)? {
            let vfs = below::vfs();
            // SAFETY: there is one once this one is registered; it gets what it would get without this one.
            unsafe { (*vfs).$method.map_or($otherwise, |method| method(vfs, $($argument),*)) }
        }
    )* };
}

type Symbol = Option<unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *mut c_void, *const c_char)>;

below! {
    open_below = xOpen(
        name: *const c_char, file: *mut ffi::sqlite3_file, flags: c_int, out_flags: *mut c_int
    ) -> c_int { ffi::SQLITE_CANTOPEN }
    delete_below = xDelete(name: *const c_char, sync: c_int) -> c_int { ffi::SQLITE_IOERR_DELETE }
    access_below = xAccess(name: *const c_char, flags: c_int, answer: *mut c_int) -> c_int { ffi::SQLITE_IOERR_ACCESS }
    full_pathname_below = xFullPathname(name: *const c_char, bytes: c_int, into: *mut c_char) -> c_int {
        ffi::SQLITE_CANTOPEN
    }
    dl_open = xDlOpen(path: *const c_char) -> *mut c_void { std::ptr::null_mut() }
    dl_error = xDlError(bytes: c_int, into: *mut c_char) { () }
    dl_sym = xDlSym(library: *mut c_void, symbol: *const c_char) -> Symbol { None }
    dl_close = xDlClose(library: *mut c_void) { () }
    randomness = xRandomness(bytes: c_int, into: *mut c_char) -> c_int { 0 }
    sleep = xSleep(microseconds: c_int) -> c_int { 0 }
    current_time = xCurrentTime(now: *mut f64) -> c_int { ffi::SQLITE_ERROR }
    current_time_int64 = xCurrentTimeInt64(now: *mut i64) -> c_int { ffi::SQLITE_ERROR }
    set_system_call = xSetSystemCall(name: *const c_char, call: ffi::sqlite3_syscall_ptr) -> c_int {
        ffi::SQLITE_NOTFOUND
    }
    get_system_call = xGetSystemCall(name: *const c_char) -> ffi::sqlite3_syscall_ptr { None }
    next_system_call = xNextSystemCall(name: *const c_char) -> *const c_char { std::ptr::null() }
    last_error = xGetLastError(bytes: c_int, into: *mut c_char) -> c_int { 0 }
}
