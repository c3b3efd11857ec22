//! Where things lie that have names.

use core::ffi::{CStr, c_int, c_void};

/// Where the library begins in memory that an address lies in.
pub fn base(address: *const c_void) -> *mut c_void {
    let mut found = libc::Dl_info {
        dli_fname: core::ptr::null(),
        dli_fbase: core::ptr::null_mut(),
        dli_sname: core::ptr::null(),
        dli_saddr: core::ptr::null_mut(),
    };
    // SAFETY: there is room for what is found.
    unsafe { libc::dladdr(address, &mut found) };
    found.dli_fbase
}

/// libc itself. Nothing else is looked at: another library's functions are that one's.
#[derive(Clone, Copy)]
pub struct Libc(*mut c_void);

impl Libc {
    /// It is there already, and stays.
    pub fn find() -> Libc {
        // SAFETY: the name is a C string.
        Libc(unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) })
    }

    /// What a name means in it, in one of its versions.
    pub fn get(self, name: &CStr, version: Option<&CStr>) -> *mut c_void {
        if self.0.is_null() {
            return core::ptr::null_mut();
        }
        // SAFETY: the names are C strings.
        let found = unsafe {
            match version {
                Some(version) => libc::dlvsym(self.0, name.as_ptr(), version.as_ptr()),
                None => libc::dlsym(self.0, name.as_ptr()),
            }
        };
        if found.is_null() {
            // It is none of the program's errors.
            // SAFETY: as above.
            unsafe { libc::dlerror() };
        }
        found
    }
}

/// What a name means in libc itself.
pub fn in_libc(name: &CStr) -> *mut c_void {
    Libc::find().get(name, None)
}

unsafe extern "C" {
    fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, what: c_int) -> c_int;
}

const SYMBOL: c_int = 1;

/// How long a function is; 0: it is not known.
pub fn length(function: *const u8) -> usize {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut symbol: *mut c_void = core::ptr::null_mut();
    // SAFETY: there is room for what is found.
    let found = unsafe { dladdr1(function.cast(), info.as_mut_ptr(), &mut symbol, SYMBOL) };
    if found == 0 || symbol.is_null() {
        return 0;
    }
    // SAFETY: the loader has filled it, and the symbol is an entry of the library's table, which stays.
    let (info, symbol) = unsafe { (info.assume_init(), &*symbol.cast::<libc::Elf64_Sym>()) };
    if info.dli_saddr.cast::<u8>().cast_const() == function { symbol.st_size as usize } else { 0 }
}
