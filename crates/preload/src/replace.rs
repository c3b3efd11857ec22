//! libc's own calls: stdio, which most programs write with, calls `read` and `write` inside libc, where no other
//! library's functions are found. So libc's functions are replaced: a jump is written over their beginning. What stands
//! in for them makes the system call itself, and nothing of the old code is needed.
//!
//! Known beginnings, all of them of glibc 2.36 as Debian 12 has it (`gdb -ex 'disassemble /r read' libc.so.6`), after
//! `endbr64` where a distribution compiles with it:
//!
//! ```text
//! read, write                         80 3d .. .. .. .. 00  cmpb $0, __libc_single_threaded(%rip)
//!                                     74 ..                 je
//!                                     31 c0                 xor %eax, %eax, or
//!                                     b8 .. 00 00 00        mov $number, %eax
//!                                     0f 05                 syscall
//! pread64, pwrite64                   49 89 ca (mov %rcx, %r10) between cmpb and je
//! __read_nocancel, __write_nocancel   xor or mov, syscall
//! __pread64_nocancel                  49 89 ca first
//! ```
//!
//! Whatever begins in another way is left alone: then only calls from outside libc are seen. Other processors have no
//! such table yet.

use crate::symbols::{base, in_libc};
use core::ffi::{CStr, c_void};

/// Whether this library came before libc, by `LD_PRELOAD`, and so before the program. One that is loaded later changes
/// nothing.
pub fn is_preloaded() -> bool {
    // SAFETY: the name is a C string.
    let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"read".as_ptr()) };
    let own = crate::calls::read_not_waiting as *const c_void;
    !first.is_null() && base(first) == base(own) && !base(own).is_null()
}

/// What was replaced.
#[derive(Default)]
pub struct Replaced {
    /// So many functions.
    pub functions: u32,
    /// All that read or write at an offset are among them.
    pub at_offsets: bool,
}

#[cfg(not(target_arch = "x86_64"))]
pub fn replace() -> Replaced {
    Replaced::default()
}

/// Replaces what is known. There is one thread.
#[cfg(target_arch = "x86_64")]
pub fn replace() -> Replaced {
    use crate::calls;
    let number = |number: libc::c_long| number as u8;
    let (read, write) = (number(libc::SYS_read), number(libc::SYS_write));
    let (pread, pwrite) = (number(libc::SYS_pread64), number(libc::SYS_pwrite64));
    // Other names of a function, such as `__read`, are at the same place.
    let functions: [(&CStr, u8, *const c_void); 8] = [
        (c"read", read, calls::read as *const c_void),
        (c"write", write, calls::write as *const c_void),
        (c"pread64", pread, calls::pread64 as *const c_void),
        (c"pwrite64", pwrite, calls::pwrite64 as *const c_void),
        (c"__read_nocancel", read, calls::read_not_waiting as *const c_void),
        (c"__write_nocancel", write, calls::write_not_waiting as *const c_void),
        (c"__pread64_nocancel", pread, calls::pread_not_waiting as *const c_void),
        (c"__pwrite64_nocancel", pwrite, calls::pwrite_not_waiting as *const c_void),
    ];
    let mut replaced = Replaced { functions: 0, at_offsets: true };
    for (name, number, by) in functions {
        let function = in_libc(name);
        let is_replaced = !function.is_null() && patch::jump(function.cast(), number, by);
        replaced.functions += u32::from(is_replaced);
        replaced.at_offsets &= is_replaced || number != read && number != write;
    }
    replaced
}

#[cfg(target_arch = "x86_64")]
mod patch {
    use crate::raw;
    use crate::symbols::length;
    use core::ffi::{c_int, c_void};

    /// `jmp *0(%rip)`, and the address.
    const JUMP_BYTES: usize = 14;
    const ENDBR64: [u8; 4] = [0xF3, 0x0F, 0x1E, 0xFA];
    /// The longest known beginning.
    const LOOKED_AT: usize = 24;
    const PAGE: usize = 4096;

    /// Whether code begins as glibc's function for a system call does.
    fn is_known(code: &[u8], number: u8) -> bool {
        const FOURTH: [u8; 3] = [0x49, 0x89, 0xCA];
        let rest = match code {
            [0x80, 0x3D, _, _, _, _, 0, rest @ ..] => {
                let rest = rest.strip_prefix(&FOURTH).unwrap_or(rest);
                let [0x74, _, rest @ ..] = rest else { return false };
                rest
            }
            code => code.strip_prefix(&FOURTH).unwrap_or(code),
        };
        match rest {
            [0x31, 0xC0, 0x0F, 0x05, ..] => number == 0,
            [0xB8, loaded, 0, 0, 0, 0x0F, 0x05, ..] => *loaded == number,
            _ => false,
        }
    }

    /// Replaces a function, if it is long enough and known. Whether it is replaced now.
    pub fn jump(function: *mut u8, number: u8, by: *const c_void) -> bool {
        let whole = length(function);
        if whole < LOOKED_AT {
            return false;
        }
        // SAFETY: the function is as long, readable, and nobody changes it.
        let code = unsafe { core::slice::from_raw_parts(function, LOOKED_AT) };
        let kept = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
        if whole < kept + JUMP_BYTES || !is_known(&code[kept..], number) {
            return false;
        }
        let mut jump = [0xFF, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        jump[6..].copy_from_slice(&(by as u64).to_le_bytes());
        let first = function as usize / PAGE * PAGE;
        let end = (function as usize + kept + JUMP_BYTES).next_multiple_of(PAGE);
        let protect = |prot: c_int| {
            // SAFETY: the pages stay readable and executable all the time: code of libc on them may run, be it of a
            // signal handler.
            unsafe { raw::call(libc::SYS_mprotect, [first, end - first, prot as usize, 0, 0, 0]) == 0 }
        };
        // A system that refuses code which can be written keeps it as it is.
        if !protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) {
            return false;
        }
        // SAFETY: the pages can be written, the function is long enough, and there is one thread, which is not in it.
        unsafe { core::ptr::copy_nonoverlapping(jump.as_ptr(), function.add(kept), JUMP_BYTES) };
        protect(libc::PROT_READ | libc::PROT_EXEC);
        true
    }
}
