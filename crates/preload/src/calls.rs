//! The functions that programs call in place of libc's: found first by the loader, and jumped to by libc's own.
//!
//! `C-unwind`: a thread that is cancelled here is unwound through these frames. Nothing in them wants to be dropped.

use crate::raw::stop;
use crate::report::{count, count_sync, write as write_report};
use crate::transfer::{Call, Progress, direct, durable, failed, look_at_limits};
use crate::ways::{Direction, Way};
use crate::{alone, mounts, process, raw};
use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

unsafe extern "C-unwind" {
    /// libc's own: sets `errno`.
    fn syscall(number: c_long, ...) -> c_long;
    fn pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int;
    fn pthread_testcancel();
    fn __chk_fail() -> !;
}

const CANCEL_ASYNCHRONOUS: c_int = 1;

/// A system call as libc makes it. `waits`: while the thread waits in it, it can be cancelled.
#[inline(never)]
unsafe extern "C-unwind" fn by_kernel(number: c_long, arguments: &[usize; 6], waits: bool) -> isize {
    let &[a, b, c, d, e, f] = arguments;
    let mut before = 0;
    if waits {
        // SAFETY: libc's own function, with room for its answer. As in glibc before 2.37 the thread is asynchronous for
        // the system call alone; whatever it is interrupted in here needs no cleaning up.
        unsafe { pthread_setcanceltype(CANCEL_ASYNCHRONOUS, &mut before) };
    }
    // SAFETY: the caller's promise.
    let result = unsafe { syscall(number, a, b, c, d, e, f) };
    if waits {
        // SAFETY: as above.
        unsafe { pthread_setcanceltype(before, &mut before) };
    }
    result as isize
}

/// A call, whichever way it goes. `waits`: it is a place to cancel the thread.
#[inline(always)]
unsafe fn run(call: Call, waits: bool) -> isize {
    let waits = waits && !raw::is_single();
    let cancel = || {
        if waits {
            // SAFETY: a place to cancel, as libc's function is, and nothing is done yet.
            unsafe { pthread_testcancel() }
        }
    };
    // SAFETY: the caller's promise.
    let way = match unsafe { direct(&call, cancel) } {
        Progress::Returns(result) => return result,
        Progress::Untouched(way) => way,
    };
    let (number, at) = match (call.direction, call.at) {
        (Direction::Read, None) => (libc::SYS_read, 0),
        (Direction::Write, None) => (libc::SYS_write, 0),
        (Direction::Read, Some(at)) => (libc::SYS_pread64, at),
        (Direction::Write, Some(at)) => (libc::SYS_pwrite64, at),
    };
    let arguments = [call.fd as usize, call.place as usize, call.bytes, at as usize, 0, 0];
    // SAFETY: the caller's promise.
    let result = unsafe { by_kernel(number, &arguments, waits) };
    report(&call, way, result);
    result
}

#[inline]
fn report(call: &Call, way: Way, result: isize) {
    count(call.direction, way, usize::try_from(result).unwrap_or(0));
}

macro_rules! reading {
    ($(#[$export:meta])? $name:ident, $waits:literal $(, $at:ident)?) => {
        $(#[$export])?
        pub unsafe extern "C-unwind" fn $name(fd: c_int, place: *mut c_void, bytes: usize $(, $at: i64)?) -> isize {
            let at = None $(.or(Some($at)))?;
            // SAFETY: the program's promise.
            unsafe { run(Call { direction: Direction::Read, fd, place, bytes, at }, $waits) }
        }
    };
}

macro_rules! writing {
    ($(#[$export:meta])? $name:ident, $waits:literal $(, $at:ident)?) => {
        $(#[$export])?
        pub unsafe extern "C-unwind" fn $name(fd: c_int, from: *const c_void, bytes: usize $(, $at: i64)?) -> isize {
            let at = None $(.or(Some($at)))?;
            let place = from.cast_mut();
            // SAFETY: the program's promise.
            unsafe { run(Call { direction: Direction::Write, fd, place, bytes, at }, $waits) }
        }
    };
}

reading!(
    #[unsafe(no_mangle)]
    read,
    true
);
reading!(
    #[unsafe(no_mangle)]
    pread,
    true,
    at
);
reading!(
    #[unsafe(no_mangle)]
    pread64,
    true,
    at
);
reading!(read_not_waiting, false);
reading!(pread_not_waiting, false, at);
writing!(
    #[unsafe(no_mangle)]
    write,
    true
);
writing!(
    #[unsafe(no_mangle)]
    pwrite,
    true,
    at
);
writing!(
    #[unsafe(no_mangle)]
    pwrite64,
    true,
    at
);
writing!(write_not_waiting, false);
writing!(pwrite_not_waiting, false, at);

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __read_chk(fd: c_int, place: *mut c_void, bytes: usize, room: usize) -> isize {
    if bytes > room {
        // SAFETY: libc's end of a program that would write past an array.
        unsafe { __chk_fail() }
    }
    // SAFETY: the program's promise.
    unsafe { read(fd, place, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __pread_chk(fd: c_int, place: *mut c_void, bytes: usize, at: i64, room: usize) -> isize {
    if bytes > room {
        // SAFETY: as in `__read_chk`.
        unsafe { __chk_fail() }
    }
    // SAFETY: the program's promise.
    unsafe { pread(fd, place, bytes, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __pread64_chk(fd: c_int, place: *mut c_void, bytes: usize, at: i64, room: usize) -> isize {
    // SAFETY: the program's promise.
    unsafe { __pread_chk(fd, place, bytes, at, room) }
}

/// Always the kernel's. With `RWF_APPEND` it finds the end by the size that it knows, and the server is not told that
/// this is an append: of a file whose end is leased that size is the end of the room, so it asks again before.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pwritev2(fd: c_int, parts: *const c_void, count: c_int, at: i64, flags: c_int) -> isize {
    if flags & libc::RWF_APPEND != 0 && process::state().is_some() && !crate::raw::is_stopped() {
        raw::ask_size(fd);
    }
    let arguments = [fd as usize, parts as usize, count as usize, at as usize, 0, flags as usize];
    // SAFETY: the program's promise.
    unsafe { by_kernel(libc::SYS_pwritev2, &arguments, !raw::is_single()) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pwritev64v2(fd: c_int, parts: *const c_void, count: c_int, at: i64, flags: c_int) -> isize {
    // SAFETY: the program's promise.
    unsafe { pwritev2(fd, parts, count, at, flags) }
}

/// What is durable by itself when it is written needs no question. fsync(2), which stores times, too, is the kernel's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fdatasync(fd: c_int) -> c_int {
    let waits = !raw::is_single();
    if waits {
        // SAFETY: a place to cancel, as libc's function is, and nothing is done yet.
        unsafe { pthread_testcancel() }
    }
    let way = durable(fd);
    count_sync(way);
    if matches!(way, Way::Direct) {
        return 0;
    }
    // SAFETY: it takes a descriptor, whatever that is.
    unsafe { by_kernel(libc::SYS_fdatasync, &[fd as usize, 0, 0, 0, 0, 0], waits) as c_int }
}

/// Sets or asks a limit of a process, and looks whether it was this one's.
unsafe fn limit(pid: c_int, which: c_uint, new: *const c_void, old: *mut c_void) -> c_int {
    if which == libc::RLIMIT_AS && !new.is_null() && (pid == 0 || pid == raw::pid()) {
        // SAFETY: the program's promise. The first word of either structure is the limit, and all ones for none.
        if unsafe { new.cast::<u64>().read_unaligned() } != libc::RLIM64_INFINITY {
            process::leave();
        }
    }
    // SAFETY: the program's promise.
    let result = unsafe { syscall(libc::SYS_prlimit64, c_long::from(pid), c_ulong::from(which), new, old) };
    if !new.is_null() && result == 0 {
        look_at_limits();
    }
    result as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit(which: c_uint, new: *const c_void) -> c_int {
    // SAFETY: the program's promise.
    unsafe { limit(0, which, new, core::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit64(which: c_uint, new: *const c_void) -> c_int {
    // SAFETY: the program's promise.
    unsafe { limit(0, which, new, core::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prlimit(pid: c_int, which: c_uint, new: *const c_void, old: *mut c_void) -> c_int {
    // SAFETY: the program's promise.
    unsafe { limit(pid, which, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prlimit64(pid: c_int, which: c_uint, new: *const c_void, old: *mut c_void) -> c_int {
    // SAFETY: the program's promise.
    unsafe { limit(pid, which, new, old) }
}

type Ulimit = unsafe extern "C" fn(c_int, ...) -> c_long;

/// libc's own calls its own `setrlimit`. It is declared with any number of arguments, which come in the same registers.
#[unsafe(no_mangle)]
unsafe extern "C" fn ulimit(what: c_int, limit: c_long) -> c_long {
    let own = crate::symbols::in_libc(c"ulimit");
    if own.is_null() {
        failed(raw::Errno(libc::ENOSYS));
        return -1;
    }
    // SAFETY: libc's function of this name; the program's promise.
    let result = unsafe { core::mem::transmute::<*mut c_void, Ulimit>(own)(what, limit) };
    look_at_limits();
    result
}

/// Keeps the program's memory from being paged out: not the volume, which the program does not know that it has.
#[unsafe(no_mangle)]
unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    process::leave();
    // SAFETY: it takes a number, whatever that is.
    let result = unsafe { syscall(libc::SYS_mlockall, c_long::from(flags)) as c_int };
    // Of a process with several threads it is still there.
    process::unlock();
    result
}

/// A process that is about to give up system calls gets those alone from now on that it asks for.
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(what: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    if matches!(what, libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS) {
        stop();
    }
    // SAFETY: the program's promise. It is declared with any number of arguments, which come in the same registers;
    // as in libc, those that were not given are whatever is there.
    unsafe { syscall(libc::SYS_prctl, c_long::from(what), a, b, c, d) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    write_report();
    raw::exit(status)
}

#[allow(non_snake_case, reason = "it is called so")]
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// Has children of fork(2) known.
pub fn follow_forks() {
    // SAFETY: the functions change little, and stay: a preloaded library is never unloaded.
    unsafe { libc::pthread_atfork(Some(lead), Some(part), Some(follow)) };
}

unsafe extern "C" fn lead() {
    alone::before_fork();
}

unsafe extern "C" fn part() {
    alone::after_fork();
}

unsafe extern "C" fn follow() {
    mounts::child();
    alone::child();
    alone::after_fork();
}
