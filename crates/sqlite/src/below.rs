//! The VFS that was the default: all that is not in a volume of this process is its.

use crate::store::{Failure, Region, Result, Stored, below};
use crate::transaction::Level;
use libsqlite3_sys as ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// SQLite writes no more at once, and VFSs rely on that.
const LONGEST: usize = 65536;

/// SQLite's description of it.
struct Vfs(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite calls a VFS from all threads; what the pointer points to stays until the program ends, and is not
// changed but by SQLite, under its own lock.
unsafe impl Send for Vfs {}
// SAFETY: as above.
unsafe impl Sync for Vfs {}

static VFS: OnceLock<Vfs> = OnceLock::new();

/// Remembers which one it is; the first one counts.
pub(crate) fn remember(find: impl FnOnce() -> *mut ffi::sqlite3_vfs) -> *mut ffi::sqlite3_vfs {
    VFS.get_or_init(|| Vfs(find())).0
}

/// Null before [`remember`].
pub(crate) fn vfs() -> *mut ffi::sqlite3_vfs {
    VFS.get().map_or(std::ptr::null_mut(), |vfs| vfs.0)
}

/// An open file of it.
pub(crate) struct File {
    /// A `sqlite3_file` and what its VFS has behind it.
    memory: Box<[u64]>,
}

// SAFETY: a file may be used by any thread, by one at a time: SQLite's VFSs promise that, and all who have one have it
// for themselves, or behind the mutex of the one connection that SQLite serves at a time.
unsafe impl Send for File {}

impl File {
    /// Opens a file; also the flags that it was opened by.
    ///
    /// # Safety
    /// `name` is one that SQLite gives to xOpen with `flags`, for a file that is closed before SQLite's is; or it ends
    /// with four zeros and stays as long as the file.
    pub unsafe fn open(name: *const c_char, flags: c_int) -> Result<(File, c_int)> {
        let vfs = vfs();
        // SAFETY: a description that stays, if there is one.
        let Some((bytes, open)) = (unsafe { vfs.as_ref() }).and_then(|vfs| Some((vfs.szOsFile, vfs.xOpen?))) else {
            return Err(Failure::Below(ffi::SQLITE_CANTOPEN));
        };
        let mut file = File { memory: vec![0; (bytes as usize).div_ceil(8)].into() };
        let mut opened = flags;
        // SAFETY: memory of `szOsFile` bytes, as it is aligned by malloc; the caller's promise for the name.
        below(unsafe { open(vfs, name, file.raw(), flags, &raw mut opened) })?;
        Ok((file, opened))
    }

    /// Closes it, once; what is done to it afterwards fails.
    pub fn close(&mut self) {
        let file = self.raw();
        // SAFETY: a file without methods is not open; one with them is closed, and has none afterwards.
        unsafe {
            if let Some(close) = (*file).pMethods.as_ref().and_then(|methods| methods.xClose) {
                close(file);
            }
            (*file).pMethods = std::ptr::null();
        }
    }

    fn raw(&mut self) -> *mut ffi::sqlite3_file {
        self.memory.as_mut_ptr().cast()
    }

    /// The file as its methods take it.
    fn shared(&self) -> *mut ffi::sqlite3_file {
        self.memory.as_ptr().cast_mut().cast()
    }

    /// Calls a method.
    fn call(&self, call: impl FnOnce(&ffi::sqlite3_io_methods, *mut ffi::sqlite3_file) -> Option<c_int>) -> c_int {
        let file = self.shared();
        // SAFETY: an open file has methods, which stay; nobody else uses it meanwhile.
        let methods = unsafe { (*file).pMethods.as_ref() };
        methods.and_then(|methods| call(methods, file)).unwrap_or(ffi::SQLITE_IOERR)
    }

    pub fn lock(&self, level: c_int) -> Result<()> {
        // SAFETY: an open file.
        below(self.call(|methods, file| Some(unsafe { methods.xLock?(file, level) })))
    }

    pub fn unlock(&self, level: c_int) -> Result<()> {
        // SAFETY: an open file.
        below(self.call(|methods, file| Some(unsafe { methods.xUnlock?(file, level) })))
    }

    pub fn is_reserved(&self) -> Result<bool> {
        let mut is = 0;
        // SAFETY: an open file, and memory for the answer.
        below(self.call(|methods, file| Some(unsafe { methods.xCheckReservedLock?(file, &raw mut is) })))?;
        Ok(is != 0)
    }

    /// The lock that it has, as far as its VFS says.
    pub fn level(&self) -> Level {
        let mut level: c_int = 0;
        // SAFETY: that asks for an int.
        unsafe { self.control(ffi::SQLITE_FCNTL_LOCKSTATE, (&raw mut level).cast()) };
        Level::of(level)
    }

    /// # Safety
    /// `argument` is what SQLite's documentation says for `what`.
    pub unsafe fn control(&self, what: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: an open file; the caller's promise.
        self.call(|methods, file| Some(unsafe { methods.xFileControl?(file, what, argument) }))
    }

    pub fn map_shm(&self, number: c_int, bytes: c_int, extend: bool) -> Result<Region> {
        let mut at = std::ptr::null_mut();
        let map = |methods: &ffi::sqlite3_io_methods, file| {
            // SAFETY: an open file, and memory for the answer.
            Some(unsafe { methods.xShmMap?(file, number, bytes, extend.into(), &raw mut at) })
        };
        match self.call(map) {
            // Memory of a WAL that this process may only read.
            ffi::SQLITE_READONLY if !at.is_null() => Ok(Region { at, is_read_only: true }),
            code => below(code).map(|()| Region { at, is_read_only: false }),
        }
    }

    pub fn lock_shm(&self, first: c_int, number: c_int, flags: c_int) -> Result<()> {
        // SAFETY: an open file.
        below(self.call(|methods, file| Some(unsafe { methods.xShmLock?(file, first, number, flags) })))
    }

    pub fn barrier(&self) {
        let barrier = |methods: &ffi::sqlite3_io_methods, file| {
            // SAFETY: an open file.
            unsafe { methods.xShmBarrier?(file) };
            Some(ffi::SQLITE_OK)
        };
        self.call(barrier);
    }

    pub fn unmap_shm(&self, delete: bool) -> Result<()> {
        // SAFETY: an open file.
        below(self.call(|methods, file| Some(unsafe { methods.xShmUnmap?(file, delete.into()) })))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.close();
    }
}

impl Stored for File {
    fn size(&self) -> Result<u64> {
        let mut size = 0;
        // SAFETY: an open file, and memory for the answer.
        below(self.call(|methods, file| Some(unsafe { methods.xFileSize?(file, &raw mut size) })))?;
        Ok(size.max(0) as u64)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let read = |methods: &ffi::sqlite3_io_methods, file| {
            // SAFETY: an open file, and memory for so many bytes.
            Some(unsafe { methods.xRead?(file, into.as_mut_ptr().cast(), into.len() as c_int, offset as i64) })
        };
        match self.call(read) {
            ffi::SQLITE_OK => Ok(into.len()),
            // The rest is zeros.
            ffi::SQLITE_IOERR_SHORT_READ => {
                Ok(Stored::size(self)?.saturating_sub(offset).min(into.len() as u64) as usize)
            }
            code => Err(Failure::Below(code)),
        }
    }

    fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        (offset..).step_by(LONGEST).zip(from.chunks(LONGEST)).try_for_each(|(at, part)| {
            let write = |methods: &ffi::sqlite3_io_methods, file| {
                // SAFETY: an open file, and so many bytes.
                Some(unsafe { methods.xWrite?(file, part.as_ptr().cast(), part.len() as c_int, at as i64) })
            };
            below(self.call(write))
        })
    }

    fn truncate(&self, size: u64) -> Result<()> {
        // SAFETY: an open file.
        below(self.call(|methods, file| Some(unsafe { methods.xTruncate?(file, size as i64) })))
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: an open file.
        below(self.call(|methods, file| Some(unsafe { methods.xSync?(file, ffi::SQLITE_SYNC_NORMAL) })))
    }

    fn has_moved(&self) -> bool {
        let mut moved: c_int = 0;
        // SAFETY: that asks for an int.
        unsafe { self.control(ffi::SQLITE_FCNTL_HAS_MOVED, (&raw mut moved).cast()) };
        moved != 0
    }
}

/// Removes a file; that there is none is fine.
pub(crate) fn remove(name: &CStr) -> Result<()> {
    let vfs = vfs();
    // SAFETY: a description that stays, and a name.
    let removed = unsafe { vfs.as_ref().and_then(|below| below.xDelete).map(|delete| delete(vfs, name.as_ptr(), 1)) };
    match removed.unwrap_or(ffi::SQLITE_IOERR_DELETE) {
        ffi::SQLITE_IOERR_DELETE_NOENT => Ok(()),
        code => below(code),
    }
}

/// Whether there is a file.
pub(crate) fn exists(name: &CStr) -> Result<bool> {
    let (vfs, mut is) = (vfs(), 0);
    // SAFETY: a description that stays, a name, and memory for the answer.
    let asked = unsafe {
        let access = vfs.as_ref().and_then(|below| below.xAccess);
        access.map(|access| access(vfs, name.as_ptr(), ffi::SQLITE_ACCESS_EXISTS, &raw mut is))
    };
    below(asked.unwrap_or(ffi::SQLITE_IOERR_ACCESS))?;
    Ok(is != 0)
}
