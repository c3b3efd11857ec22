//! Which library this is.

use std::ffi::c_char;

/// The version of this interface. It changes when programs have to be compiled anew.
pub const SCMFS_ABI: u32 = 1;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version of the interface that the library was built with. A program that loads the library at run time compares
/// it with SCMFS_ABI before it calls anything else.
#[unsafe(no_mangle)]
pub extern "C" fn scmfs_abi() -> u32 {
    SCMFS_ABI
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn scmfs_version() -> *const c_char {
    VERSION.as_ptr().cast()
}
