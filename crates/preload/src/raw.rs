//! System calls as the kernel has them: none of them touches `errno`, allocates, or is a place to cancel a thread.

use core::arch::asm;
use core::ffi::{c_char, c_int, c_long, c_void};
use core::mem::MaybeUninit;
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// libc's `__libc_single_threaded`, where it has one.
static SINGLE: AtomicPtr<c_char> = AtomicPtr::new(null::<c_char>().cast_mut());

/// From now on it is known whether there is one thread.
pub fn look_at_threads_by(single: *mut c_char) {
    SINGLE.store(single, Ordering::Relaxed);
}

/// The process has given up system calls that this library makes.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// From now on everything goes by the kernel, with the one system call that the program asks for.
pub fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
}

/// Whether everything goes by the kernel.
#[inline]
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// Whether there is but one thread, which nobody can cancel.
#[inline]
pub fn is_single() -> bool {
    let single = SINGLE.load(Ordering::Relaxed);
    // SAFETY: libc's variable, a byte, which stays; without it there may be several.
    !single.is_null() && unsafe { single.read_volatile() } != 0
}

/// A number of errno(3).
#[derive(Clone, Copy)]
pub struct Errno(pub c_int);

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// libc's own place of `errno` for this thread.
#[inline]
pub fn errno() -> *mut c_int {
    // SAFETY: it can be asked for at any time.
    unsafe { __errno_location() }
}

/// This thread, as a number that no other one of the process has while it lives; in a child of fork(2) the parent's.
#[inline]
pub fn thread() -> usize {
    errno().addr()
}

/// A system call: what it returns, errors as negative numbers.
///
/// # Safety
/// As for the call itself.
#[inline]
pub unsafe fn call(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the registers are those of the kernel's convention; the rest is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the registers are those of the kernel's convention; the rest is the caller's promise.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    result
}

/// The result of a system call.
pub fn checked(result: isize) -> Result<usize, Errno> {
    // The kernel's convention; every such number is small.
    if (-4095..0).contains(&result) { Err(Errno((-result) as c_int)) } else { Ok(result as usize) }
}

/// Moves the offset of an open file by so much; where it is then.
#[inline]
pub fn advance(fd: c_int, by: i64) -> Result<i64, Errno> {
    // SAFETY: lseek has to do with no memory.
    let result = unsafe { call(libc::SYS_lseek, [fd as usize, by as usize, libc::SEEK_CUR as usize, 0, 0, 0]) };
    checked(result).map(|at| at as i64)
}

/// Sets the offset of an open file.
#[inline]
pub fn seek(fd: c_int, to: i64) -> Result<(), Errno> {
    // SAFETY: lseek has to do with no memory.
    let result = unsafe { call(libc::SYS_lseek, [fd as usize, to as usize, libc::SEEK_SET as usize, 0, 0, 0]) };
    checked(result).map(drop)
}

/// The flags of an open file.
#[inline]
pub fn flags(fd: c_int) -> Result<c_int, Errno> {
    // SAFETY: F_GETFL has to do with no memory.
    let result = unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    checked(result).map(|flags| flags as c_int)
}

/// Which file a descriptor means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub ino: u64,
    pub regular: bool,
}

/// What the kernel has of a descriptor's file.
#[inline]
fn attributes(fd: c_int, how: c_int, what: u32) -> Result<libc::statx, Errno> {
    let mut found = MaybeUninit::<libc::statx>::uninit();
    // A path of none takes 50 ns less, but kernels before 6.11 do not know it, and valgrind complains of it.
    let (path, how) = (c"".as_ptr() as usize, (libc::AT_EMPTY_PATH | how) as usize);
    // SAFETY: the path is a C string, and there is room for what is found.
    checked(unsafe { call(libc::SYS_statx, [fd as usize, path, how, what as usize, found.as_mut_ptr() as usize, 0]) })?;
    // SAFETY: the call succeeded, so the kernel has filled all of it.
    Ok(unsafe { found.assume_init() })
}

/// Has the kernel ask the server how long a descriptor's file is.
pub fn ask_size(fd: c_int) {
    let _ = attributes(fd, libc::AT_STATX_FORCE_SYNC, libc::STATX_SIZE);
}

/// Which file a descriptor means, by what the kernel knows: no server of a file system is asked.
#[inline]
pub fn identity(fd: c_int) -> Result<Identity, Errno> {
    let found = attributes(fd, libc::AT_STATX_DONT_SYNC, libc::STATX_TYPE | libc::STATX_INO)?;
    let regular = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    Ok(Identity { device: libc::makedev(found.stx_dev_major, found.stx_dev_minor), ino: found.stx_ino, regular })
}

/// Whether a descriptor's file lies on a file system in user space.
pub fn on_fuse(fd: c_int) -> bool {
    const FUSE: i64 = 0x6573_5546;
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: there is room for what is found.
    let result = unsafe { call(libc::SYS_fstatfs, [fd as usize, found.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // SAFETY: it is numbers alone, and zeroed where the kernel has not filled it.
    result == 0 && unsafe { found.assume_init() }.f_type == FUSE
}

/// pread(2).
///
/// # Safety
/// The kernel checks the address, but what lies there changes.
pub unsafe fn pread(fd: c_int, into: *mut u8, bytes: usize, at: i64) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    checked(unsafe { call(libc::SYS_pread64, [fd as usize, into as usize, bytes, at as usize, 0, 0]) })
}

/// pwrite(2). The kernel checks the address.
pub fn pwrite(fd: c_int, from: *const u8, bytes: usize, at: i64) -> Result<usize, Errno> {
    // SAFETY: the kernel alone reads there.
    checked(unsafe { call(libc::SYS_pwrite64, [fd as usize, from as usize, bytes, at as usize, 0, 0]) })
}

/// write(2).
pub fn write(fd: c_int, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the bytes are there.
    checked(unsafe { call(libc::SYS_write, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) })
}

/// Opens a file to append to it.
pub fn append(path: &core::ffi::CStr) -> Result<c_int, Errno> {
    let how = (libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC) as usize;
    let at = libc::AT_FDCWD as usize;
    // SAFETY: the path is a C string.
    let result = unsafe { call(libc::SYS_openat, [at, path.as_ptr() as usize, how, 0o666, 0, 0]) };
    checked(result).map(|fd| fd as c_int)
}

/// Opens a file to read it.
pub fn open_to_read(path: &core::ffi::CStr) -> Result<c_int, Errno> {
    let how = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: the path is a C string.
    let result = unsafe { call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, how, 0, 0, 0]) };
    checked(result).map(|fd| fd as c_int)
}

/// read(2).
pub fn read(fd: c_int, into: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the bytes are there.
    checked(unsafe { call(libc::SYS_read, [fd as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) })
}

/// Copies from an address of this process, which may be none any more. Whether all of it was copied.
pub fn copy(from: usize, into: &mut [u8]) -> bool {
    let own = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let others = libc::iovec { iov_base: from as *mut c_void, iov_len: into.len() };
    let arguments = [pid() as usize, (&raw const own) as usize, 1, (&raw const others) as usize, 1, 0];
    // SAFETY: the bytes are there; what is copied from is for the kernel to find.
    checked(unsafe { call(libc::SYS_process_vm_readv, arguments) }).is_ok_and(|bytes| bytes == into.len())
}

/// Closes a descriptor of this library's own.
pub fn close(fd: c_int) {
    // SAFETY: nobody else knows the descriptor.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// The number of this process.
pub fn pid() -> c_int {
    // SAFETY: no arguments, no memory.
    unsafe { call(libc::SYS_getpid, [0; 6]) as c_int }
}

/// Whether this thread runs on the stack that it has for signal handlers.
pub fn on_alternate_stack() -> bool {
    let mut stack = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: there is room for what is found.
    let result = unsafe { call(libc::SYS_sigaltstack, [0, (&raw mut stack) as usize, 0, 0, 0, 0]) };
    result == 0 && stack.ss_flags & libc::SS_ONSTACK != 0
}

/// Whether files of this process may not grow without bound.
pub fn sizes_limited() -> bool {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let place = (&raw mut limit) as usize;
    // SAFETY: there is room for what is found.
    let result = unsafe { call(libc::SYS_prlimit64, [0, libc::RLIMIT_FSIZE as usize, 0, place, 0, 0]) };
    result != 0 || limit.rlim_cur != libc::RLIM64_INFINITY
}

/// The name of this thread: 16 bytes, with a zero at the end.
pub fn name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the kernel writes 16 bytes.
    unsafe { call(libc::SYS_prctl, [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    name
}

/// Zeroed memory; `None`: there is none.
pub fn inherited(bytes: usize) -> Option<usize> {
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: a new mapping at a place that the kernel chooses.
    checked(unsafe { call(libc::SYS_mmap, [0, bytes, prot, flags, usize::MAX, 0]) }).ok()
}

/// Changes what may be done with pages. Whether it was possible.
///
/// # Safety
/// Nobody uses them in a way that is taken away.
pub unsafe fn protect(from: usize, bytes: usize, prot: c_int) -> bool {
    // SAFETY: the caller's promise.
    unsafe { call(libc::SYS_mprotect, [from, bytes, prot as usize, 0, 0, 0]) == 0 }
}

/// Zeroed memory that a child finds zeroed again; `None`: there is none.
pub fn memory(bytes: usize) -> Option<*mut c_void> {
    let place = inherited(bytes)?;
    // SAFETY: the mapping is new, and nobody else's.
    let wiped = unsafe { call(libc::SYS_madvise, [place, bytes, libc::MADV_WIPEONFORK as usize, 0, 0, 0]) } == 0;
    if !wiped {
        // SAFETY: as above.
        unsafe { call(libc::SYS_munmap, [place, bytes, 0, 0, 0, 0]) };
    }
    wiped.then_some(place as *mut c_void)
}

/// mmap(2), by its six arguments.
///
/// # Safety
/// As for the call.
pub unsafe fn map(arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    checked(unsafe { call(libc::SYS_mmap, arguments) })
}

/// munmap(2).
///
/// # Safety
/// As for the call.
pub unsafe fn unmap(at: usize, bytes: usize) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    checked(unsafe { call(libc::SYS_munmap, [at, bytes, 0, 0, 0, 0]) })
}

/// Bytes of a set of signals, as the kernel has them.
const SIGNALS_BYTES: usize = 8;

/// Keeps all signals off this thread; those that were kept off before.
pub fn block_signals() -> u64 {
    let (all, mut before) = (u64::MAX, 0_u64);
    let (all, place) = ((&raw const all) as usize, (&raw mut before) as usize);
    // SAFETY: both sets are there, and as long as they are said to be.
    unsafe { call(libc::SYS_rt_sigprocmask, [libc::SIG_BLOCK as usize, all, place, SIGNALS_BYTES, 0, 0]) };
    before
}

/// Keeps these signals off this thread, and no others.
pub fn set_signals(signals: u64) {
    let place = (&raw const signals) as usize;
    // SAFETY: the set is there, and as long as it is said to be.
    unsafe { call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, place, 0, SIGNALS_BYTES, 0, 0]) };
}

/// Whether all of a range of pages is mapped by something.
pub fn is_mapped(start: usize, bytes: usize) -> bool {
    // SAFETY: it looks, and changes nothing.
    unsafe { call(libc::SYS_msync, [start, bytes, libc::MS_ASYNC as usize, 0, 0, 0]) == 0 }
}

/// Lets others run for so many nanoseconds, less than a second; not where the program has given up such calls.
pub fn pause(ns: i64) {
    if is_stopped() {
        return (0..ns / 32).for_each(|_| core::hint::spin_loop());
    }
    let time = libc::timespec { tv_sec: 0, tv_nsec: ns };
    // SAFETY: the time is read, and nothing is written.
    unsafe { call(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

/// Ends the process.
pub fn exit(status: c_int) -> ! {
    loop {
        // SAFETY: nothing runs after it.
        unsafe { call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}
