//! `libscmfs_preload.so`: programs as they are, which know nothing of SCMFS, read and write files of a mount at its
//! memory. `LD_PRELOAD=/path/libscmfs_preload.so program`.
//!
//! **What is direct.** `read`, `pread`, `write` and `pwrite`, called by the program or by libc itself (stdio), on a
//! regular file of a mount that permits it, inside the file or at its end, if the mount's table says so
//! ([`pocketstone_lease`]); and `mmap` with `MAP_SHARED`, where the mount permits that. Everything else, and every
//! doubt, is the kernel's, exactly as without this library.
//!
//! **Descriptors and offsets are the kernel's.** A direct `read` or `write` moves the offset by lseek(2), which is a
//! step of its own: so no other process may have the offset (`transfer`), and threads take turns (`turns`). A program
//! reads and writes directly at the offsets of what it has opened itself, once it is trusted; all other calls at an
//! offset are the kernel's, but for writes by `O_APPEND`, which do not go by it.
//!
//! **What a number means** is asked of the kernel at each call (statx(2), F_GETFL), unless every close is seen: all
//! functions of libc that close or replace a descriptor are hooked (`watch`), and all other code of the process was
//! looked through and makes no system calls (`code`). Whatever raises a doubt ends that trust for good (`trust`).
//!
//! **Short programs pay nothing.** A number is looked at after 8 calls or 64 KiB; the process attaches to a mount at
//! the first file there.
//!
//! **Environment.** `SCMFS_PRELOAD=off`, `read`, `write`, `append` or `map` (also without it: what the mount permits).
//! `SCMFS_PRELOAD_REPORT=FILE`: at the end of each process, what went which way is appended to this file (an absolute
//! path; `1` or `stderr`: written to descriptor 2). `SCMFS_PRELOAD_REST_MS=N`: a file that others keep using by the
//! kernel is left to it so long before it is tried again; 1000 without it. `SCMFS_PRELOAD_TRUST=off`: the kernel is
//! asked at each call.
//!
//! # What is not as by the kernel
//!
//! - A wild pointer is no EFAULT, but ends the program by a signal, as any other use of it does. Addresses that no
//!   program has (below 64 KiB, above its address space) are handed to the kernel, which says EFAULT.
//! - A signal handler that jumps out of a direct read or write at the offset leaves the offset behind it.
//! - A thread that calls execve(2) while another one writes directly at an offset may leave a gap before what the next
//!   program writes there.
//! - Several processes or threads append at once by one `O_WRONLY | O_APPEND` descriptor: where lseek(2) says that it
//!   is afterwards is the end of any of their writes, which go to the end all the same.
//! - inotify(7) and fanotify(7) do not see direct calls.
//! - A limit of file sizes that another process, or a raw system call, sets is not seen; nor a raw system call that
//!   installs a filter of system calls. (By prctl(2) it is: everything goes by the kernel from then on.)
//! - Whoever changes this process from outside (ptrace(2), pidfd_getfd(2) with F_SETFL, a supervisor that replaces
//!   descriptors by SECCOMP_IOCTL_NOTIF_ADDFD), is not seen by a process that is trusted.
//! - Another preloaded library's `read` and `write` are not called, if they come after these.
//! - A child of fork(2) in a signal handler that interrupted a direct call does not have the memory that it returns to.
//! - A signal handler that jumps out of a direct store leaves its slot taken, until the process ends.
//! - Programs without a dynamic loader and set-user-ID programs use the mount. Those with another libc than glibc do
//!   not start.

#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
// Nothing is hooked elsewhere, so there is never trust.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod alone;
mod calls;
mod code;
mod descriptors;
mod events;
#[cfg(target_arch = "x86_64")]
mod hooks;
mod instructions;
mod mapped;
mod mappings;
mod mounts;
mod process;
mod raw;
mod replace;
mod report;
mod symbols;
mod transfer;
mod trust;
mod turns;
#[cfg(target_arch = "x86_64")]
mod watch;
mod ways;

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::Ordering;
use pocketstone_lease::Access;
use process::State;

/// A variable of the environment.
fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name is a C string, and what is returned stays as long as nobody changes the environment: the program
    // does not run yet.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: as above.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Whether valgrind runs the program: the stacks that it has, its system calls and what it may reach are valgrind's to
/// know. It has a library of its own loaded into whatever it runs.
fn runs_in_valgrind() -> bool {
    let libraries = variable(c"LD_PRELOAD").map(CStr::to_bytes).unwrap_or_default();
    libraries.windows(b"/vgpreload_".len()).any(|word| word == b"/vgpreload_")
}

/// Run by the loader, before the program.
extern "C" fn begin(_arguments: c_int, _values: *const *const c_char, _environment: *const *const c_char) {
    let wanted = variable(c"SCMFS_PRELOAD").map(CStr::to_bytes);
    if wanted == Some(b"off") || !replace::is_preloaded() || runs_in_valgrind() {
        return;
    }
    let Some(memory) = raw::memory(size_of::<State>()) else { return };
    raw::look_at_threads_by(symbols::in_libc(c"__libc_single_threaded").cast());
    let rest_ms = variable(c"SCMFS_PRELOAD_REST_MS").and_then(|text| text.to_str().ok()?.parse().ok());
    let access = match wanted {
        Some(b"read") => Access::Read,
        Some(b"write") => Access::Write,
        Some(b"append") => Access::Append,
        _ => Access::Map,
    };
    mounts::begin(access, rest_ms);
    transfer::look_at_limits();
    calls::follow_forks();
    mapped::begin();
    if let Some(target) = variable(c"SCMFS_PRELOAD_REPORT") {
        report::begin(target);
    }
    process::begin(memory.cast());
    // Code of libc is changed while nobody else runs it, or not at all.
    if raw::is_single() {
        let replaced = replace::replace();
        report::REPLACED.store(replaced.functions, Ordering::Relaxed);
        #[cfg(target_arch = "x86_64")]
        if variable(c"SCMFS_PRELOAD_TRUST").map(CStr::to_bytes) != Some(b"off") && trust::is_known(replaced.at_offsets)
        {
            if let Some(page) = watch::begin() {
                trust::begin(page);
            }
        }
    }
}

/// Run at exit(3), after the program.
extern "C" fn end() {
    report::write();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
