//! Every way by which a descriptor's number comes to mean another file, or its open file to have other flags or another
//! offset, as far as libc has functions for it: they are hooked, and leave their marks in words that are compared with
//! each call.

use crate::descriptors::Descriptor;
use crate::events::{Before, Events, Number, Watch};
use crate::hooks::{self, Function, Wanted};
use crate::mounts;
use crate::process::{State, state};
use crate::raw;
use crate::trust::{Reason, distrust, forked, maps};
use core::arch::global_asm;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Children that this process's memory was copied for, counted in the child: what was begun before it is not ended.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The state, unless a child is here that has descriptors of its own.
fn own_state() -> Option<&'static State> {
    state().filter(|state| !state.watch.is_borrowed() || mounts::is_owner())
}

fn number(state: &State, number: usize) -> Option<&Descriptor> {
    // As the kernel takes it: the other half of the register says nothing.
    state.descriptors.get(number as u32 as usize)
}

/// Makes a call that closes a number, or puts another file in its place: that of `from`, if there is one.
unsafe fn closing(fd: usize, from: Option<usize>, call: impl FnOnce() -> isize) -> isize {
    let forks = FORKS.load(Ordering::Relaxed);
    let Some(state) = own_state() else { return call() };
    let watch = &state.watch;
    let from = from.and_then(|from| number(state, from)).map(|found| &found.number);
    let before = from.and_then(|from| from.before_copying(watch));
    // Also if nothing is known of the copy: there are higher numbers than those.
    let copy = from.map(|from| begin_copy(watch, from));
    let Some(closed) = number(state, fd).map(|found| &found.number) else { return call() };
    let begun = closed.closes.begin();
    closed.turn.settle(&watch.moving);
    let result = call();
    if forks != FORKS.load(Ordering::Relaxed) {
        return result;
    }
    closed.closed(watch.closes.fetch_add(1, Ordering::SeqCst) + 1);
    if let Some(n) = copy {
        closed.copied(n);
    }
    let quiet = closed.closes.end(begun);
    if let (Some(from), Some((closes, before)), Some(quiet)) = (from, before, quiet) {
        // All the time it was what it is.
        if result as c_int == fd as c_int && from.closes.are_still(closes) && watch.ranges.are_still(before.ranges) {
            closed.taken(quiet, before);
        }
    }
    result
}

/// From now on this number's offset may have another number, too. Which copy of all it is.
fn begin_copy(watch: &Watch, from: &Number) -> u64 {
    let n = watch.copies.fetch_add(1, Ordering::SeqCst) + 1;
    from.copied(n);
    from.turn.settle(&watch.moving);
    n
}

/// Makes a call that is one of these events, which no direct call at an offset may have a part of.
unsafe fn during(events: Option<&Events>, call: impl FnOnce() -> isize) -> isize {
    // SAFETY: the program's promise.
    unsafe { marked(events, || own_state().into_iter().for_each(State::settle), call) }
}

/// Makes a call that is one of these events, after what has to be waited for once it is marked.
unsafe fn marked(events: Option<&Events>, wait: impl FnOnce(), call: impl FnOnce() -> isize) -> isize {
    let forks = FORKS.load(Ordering::Relaxed);
    let begun = events.map(Events::begin);
    wait();
    let result = call();
    if forks == FORKS.load(Ordering::Relaxed) {
        events.zip(begun).map(|(events, begun)| events.end(begun));
    }
    result
}

/// What counts before a number is opened.
fn before_opening(state: &State) -> Option<Before> {
    let watch = &state.watch;
    let (closes, copies) = (watch.closes.load(Ordering::SeqCst), watch.copies.load(Ordering::SeqCst));
    Some(Before { closes, shared: watch.shared.quiet()?, ranges: watch.ranges.quiet()?, copies })
}

/// Makes a call that opens a file.
unsafe fn opening(call: impl FnOnce() -> isize) -> isize {
    let forks = FORKS.load(Ordering::Relaxed);
    let before = own_state().and_then(before_opening);
    let fd = call();
    if forks != FORKS.load(Ordering::Relaxed) {
        return fd;
    }
    let opened = usize::try_from(fd).ok().and_then(|fd| own_state()?.descriptors.get(fd));
    if let (Some(before), Some(opened)) = (before, opened) {
        opened.number.opened(before);
    }
    fd
}

/// Makes a call that gives a file another number, too.
unsafe fn copying(from: usize, call: impl FnOnce() -> isize) -> isize {
    let forks = FORKS.load(Ordering::Relaxed);
    let before = own_state().and_then(|state| {
        let from = &number(state, from)?.number;
        let before = from.before_copying(&state.watch);
        Some((&state.watch, from, before, begin_copy(&state.watch, from)))
    });
    let fd = call();
    if forks != FORKS.load(Ordering::Relaxed) {
        return fd;
    }
    let opened = usize::try_from(fd).ok().and_then(|fd| own_state()?.descriptors.get(fd));
    let Some((watch, from, before, n)) = before else { return fd };
    if let (Some((closes, before)), Some(opened)) = (before, opened) {
        opened.number.copied(n);
        // All the time it was what it is.
        if from.closes.are_still(closes) && watch.ranges.are_still(before.ranges) {
            opened.number.opened(before);
        }
    }
    fd
}

macro_rules! hooks {
    ($($hook:ident $name:literal $(@ $version:literal)?, $by:path;)*) => {
        #[derive(Clone, Copy)]
        enum Hook { $($hook),* }

        const COUNT: usize = [$(Hook::$hook),*].len();

        fn wanted() -> [Wanted; COUNT] {
            [$(Wanted {
                name: $name,
                version: None::<&CStr>$(.or(Some($version)))?,
                by: $by as *const c_void,
            }),*]
        }
    };
}

hooks! {
    Close c"close", close;
    CloseNoCancel c"__close_nocancel", close_not_waiting;
    MqClose c"mq_close", mq_close;
    Dup c"dup", dup;
    Dup2 c"dup2", dup2;
    Dup3 c"dup3", dup3;
    CloseRange c"close_range", close_range;
    Fcntl c"fcntl64", fcntl;
    Open c"open64", open;
    OpenAt c"openat64", open_at;
    Fork c"_Fork", fork;
    Vfork c"vfork", scmfs_preload_vfork;
    Spawn c"posix_spawn" @ c"GLIBC_2.15", spawn;
    SpawnPath c"posix_spawnp" @ c"GLIBC_2.15", spawn_path;
    SpawnOld c"posix_spawn" @ c"GLIBC_2.2.5", spawn_old;
    SpawnPathOld c"posix_spawnp" @ c"GLIBC_2.2.5", spawn_path_old;
    SendMessage c"sendmsg", send_message;
    SendMessages c"sendmmsg", send_messages;
    Clone c"clone", clone;
    Unshare c"unshare", unshare;
    TakeDescriptor c"pidfd_getfd", take_descriptor;
    Map c"mmap", map;
    Protect c"mprotect", protect;
    ProtectKey c"pkey_mprotect", protect_key;
    Attach c"shmat", attach;
    Personality c"personality", personality;
    Syscall c"syscall", any;
    Seek c"lseek64", seek;
    ReadParts c"readv", read_parts;
    WriteParts c"writev", write_parts;
    ReadPartsAt c"preadv64v2", read_parts_at;
    WritePartsAt c"pwritev64v2", write_parts_at;
    SendFile c"sendfile64", send_file;
    Splice c"splice", splice;
    CopyRange c"copy_file_range", copy_range;
}

static ORIGINALS: [AtomicPtr<c_void>; COUNT] = [const { AtomicPtr::new(core::ptr::null_mut()) }; COUNT];

/// Hooks all of them, or none. There is one thread. Where the page lies through which they go.
pub fn begin() -> Option<usize> {
    hooks::install(&wanted(), |index, original| ORIGINALS[index].store(original, Ordering::Relaxed))
}

impl Hook {
    /// The call as it was.
    unsafe fn call(self, arguments: &[usize]) -> isize {
        let mut all = [0; 7];
        all[..arguments.len()].copy_from_slice(arguments);
        let [a, b, c, d, e, f, g] = all;
        // SAFETY: whoever is here has come by a hook, so that there is an original, which takes its arguments in the
        // same places and leaves alone what it does not take.
        unsafe {
            let original: Function = core::mem::transmute(ORIGINALS[self as usize].load(Ordering::Relaxed));
            original(a, b, c, d, e, f, g)
        }
    }
}

macro_rules! seen {
    ($(#[$comment:meta])* $name:ident($($argument:ident),*) as $hook:ident $(, $before:expr)?) => {
        $(#[$comment])*
        unsafe extern "C-unwind" fn $name($($argument: usize),*) -> isize {
            $($before;)?
            // SAFETY: the program's promise.
            unsafe { Hook::$hook.call(&[$($argument),*]) }
        }
    };
    ($name:ident($($argument:ident),*) as $hook:ident within $around:expr) => {
        unsafe extern "C-unwind" fn $name($($argument: usize),*) -> isize {
            // SAFETY: the program's promise.
            unsafe { $around(|| Hook::$hook.call(&[$($argument),*])) }
        }
    };
}

seen!(close(fd) as Close within |call| closing(fd, None, call));
seen!(close_not_waiting(fd) as CloseNoCancel within |call| closing(fd, None, call));
seen!(mq_close(fd) as MqClose within |call| closing(fd, None, call));
seen!(dup(old) as Dup within |call| copying(old, call));
seen!(dup2(old, new) as Dup2 within |call| closing(new, Some(old), call));
seen!(dup3(old, new, flags) as Dup3 within |call| closing(new, Some(old), call));
seen!(open(path, how, mode) as Open within |call| opening(call));
seen!(open_at(folder, path, how, mode) as OpenAt within |call| opening(call));
seen!(send_message(fd, message, flags) as SendMessage within |call| during(shared(), call));
seen!(send_messages(fd, messages, count, flags) as SendMessages within |call| during(shared(), call));
seen!(spawn(pid, path, files, how, values, environment) as Spawn within |call| lending(call));
seen!(spawn_path(pid, path, files, how, values, environment) as SpawnPath within |call| lending(call));
seen!(spawn_old(pid, path, files, how, values, environment) as SpawnOld within |call| lending(call));
seen!(spawn_path_old(pid, path, files, how, values, environment) as SpawnPathOld within |call| lending(call));

fn shared() -> Option<&'static Events> {
    state().map(|state| &state.watch.shared)
}

/// Makes a call that lends this process's memory to a child until it returns.
unsafe fn lending(call: impl FnOnce() -> isize) -> isize {
    begin_lending();
    let result = call();
    end_lending();
    result
}

extern "C" fn begin_lending() {
    if let Some(state) = state() {
        state.watch.borrowers.fetch_add(1, Ordering::SeqCst);
        state.watch.shared.begin();
        state.settle();
    }
}

fn end_lending() {
    if let Some(state) = state() {
        state.watch.shared.end(0);
        state.watch.borrowers.fetch_sub(1, Ordering::SeqCst);
    }
}

unsafe extern "C-unwind" fn close_range(first: usize, last: usize, flags: usize) -> isize {
    const UNSHARE: usize = 1 << 1;
    if flags & UNSHARE != 0 && mounts::is_owner() {
        distrust(Reason::OwnTable);
    }
    let ranges = own_state().map(|state| &state.watch.ranges);
    // SAFETY: the program's promise.
    unsafe { during(ranges, || Hook::CloseRange.call(&[first, last, flags])) }
}

unsafe extern "C-unwind" fn fcntl(fd: usize, what: usize, value: usize) -> isize {
    if matches!(what as c_int, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        // SAFETY: the program's promise.
        return unsafe { copying(fd, || Hook::Fcntl.call(&[fd, what, value])) };
    }
    // SAFETY: the program's promise.
    let call = || unsafe { Hook::Fcntl.call(&[fd, what, value]) };
    if what as c_int != libc::F_SETFL {
        return call();
    }
    // A child that has the memory has the open files, too.
    let flags = state().map(|state| &state.watch.flags);
    // With several threads, calls by a number that has copies are not direct.
    let own = || own_state().and_then(|state| Some((state, number(state, fd)?)));
    let wait = || own().into_iter().for_each(|(state, found)| found.number.turn.settle(&state.watch.moving));
    // SAFETY: the program's promise.
    unsafe { marked(flags, wait, call) }
}

unsafe extern "C-unwind" fn fork() -> isize {
    let alone = raw::is_single();
    let before = || {
        // SAFETY: the program's promise.
        let result = unsafe { Hook::Fork.call(&[]) };
        if result == 0 {
            // The state is zeros by now.
            FORKS.fetch_add(1, Ordering::Relaxed);
            mounts::child();
            crate::alone::child();
            forked(alone);
        }
        result
    };
    // SAFETY: the program's promise.
    unsafe { during(shared(), before) }
}

// vfork(2) returns twice, and what the child does on the stack must not be what the parent finds: as in libc the place
// to return to is kept in a register, which the kernel leaves alone.
global_asm!(
    ".hidden scmfs_preload_vfork",
    ".globl scmfs_preload_vfork",
    ".type scmfs_preload_vfork, @function",
    "scmfs_preload_vfork:",
    "endbr64",
    "sub rsp, 8",
    "call {begin}",
    "add rsp, 8",
    "pop rdi",
    "mov eax, {number}",
    "syscall",
    "push rdi",
    "test rax, rax",
    "jz 2f",
    "sub rsp, 8",
    "mov rdi, rax",
    "call {end}",
    "add rsp, 8",
    "2: ret",
    ".size scmfs_preload_vfork, . - scmfs_preload_vfork",
    begin = sym begin_lending,
    end = sym end_vfork,
    number = const libc::SYS_vfork,
);

unsafe extern "C" {
    fn scmfs_preload_vfork() -> c_int;
}

/// In the parent: what vfork(2) returns.
extern "C" fn end_vfork(result: isize) -> isize {
    end_lending();
    if result < 0 {
        // SAFETY: libc's own place for this thread.
        unsafe { *raw::errno() = (-result) as c_int };
        return -1;
    }
    result
}

/// Other children that have this memory, or threads that have descriptors of their own, are nothing to reckon with.
fn made(flags: usize) {
    if flags & libc::CLONE_THREAD as usize != 0 {
        // libc does not count it among its threads: nothing says any more that there is but one.
        raw::look_at_threads_by(core::ptr::null_mut());
    }
    // Those without storage of their own could not be told apart from each other, either.
    let usual = (libc::CLONE_THREAD | libc::CLONE_FILES | libc::CLONE_SETTLS) as usize;
    if flags & usual != usual {
        distrust(Reason::OwnTable);
    }
}

seen!(clone(run, stack, flags, with, parent, storage, child) as Clone, made(flags));
seen!(
    unshare(flags) as Unshare,
    if flags as c_int & libc::CLONE_FILES != 0 {
        distrust(Reason::OwnTable)
    }
);
seen!(
    /// Of this process, too.
    take_descriptor(process, fd, flags) as TakeDescriptor,
    distrust(Reason::Taken)
);
seen!(map(at, bytes, prot, flags, fd, offset) as Map, maps(prot as c_int));
seen!(protect(at, bytes, prot) as Protect, maps(prot as c_int));
seen!(protect_key(at, bytes, prot, key) as ProtectKey, maps(prot as c_int));
seen!(
    attach(id, at, flags) as Attach,
    if flags as c_int & libc::SHM_EXEC != 0 {
        distrust(Reason::NewCode)
    }
);
seen!(
    /// READ_IMPLIES_EXEC makes code of whatever is mapped; all ones asks.
    personality(what) as Personality,
    if what as u32 != u32::MAX && what as c_int & libc::READ_IMPLIES_EXEC != 0 { distrust(Reason::NewCode) }
);
seen!(seek(fd, by, from) as Seek within |call| moving([fd], call));
seen!(read_parts(fd, parts, count) as ReadParts within |call| moving([fd], call));
seen!(write_parts(fd, parts, count) as WriteParts within |call| moving([fd], call));
seen!(read_parts_at(fd, parts, count, at, flags) as ReadPartsAt within |call| moving([fd], call));
seen!(write_parts_at(fd, parts, count, at, flags) as WritePartsAt within |call| moving([fd], call));
seen!(send_file(out, from, at, bytes) as SendFile within |call| moving([out, from], call));
seen!(splice(from, from_at, to, to_at, bytes, flags) as Splice within |call| moving([from, to], call));
seen!(copy_range(from, from_at, to, to_at, bytes, flags) as CopyRange within |call| moving([from, to], call));

/// Makes a call that uses the offsets of these numbers, or may.
///
/// A thread that is cancelled in the call, or jumps out of it by a signal, is counted for ever: calls at that number's
/// offset are the kernel's from then on. Nothing here wants to be dropped.
unsafe fn moving<const N: usize>(numbers: [usize; N], call: impl FnOnce() -> isize) -> isize {
    // With one thread nobody else is at an offset; and where it is not known how a number was opened, or others have
    // the open file, too, no call at it is direct.
    let counted = numbers.map(|fd| {
        let state = own_state()?;
        let number = &number(state, fd)?.number;
        number.moved();
        if raw::is_single() {
            return None;
        }
        (number.is_own(&state.watch) && number.turn.enter(&state.watch.moving)).then_some(number)
    });
    let forks = FORKS.load(Ordering::Relaxed);
    let result = call();
    if forks == FORKS.load(Ordering::Relaxed) {
        counted.into_iter().flatten().for_each(|number| number.turn.left());
    }
    result
}

unsafe extern "C-unwind" fn any(number: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    by_number(number);
    // SAFETY: the program's promise.
    let call = || unsafe { Hook::Syscall.call(&[number, a, b, c, d, e, f]) };
    // SAFETY: the program's promise.
    unsafe {
        match number as i64 {
            libc::SYS_read | libc::SYS_write | libc::SYS_preadv2 | libc::SYS_pwritev2 => moving([a], call),
            libc::SYS_copy_file_range => moving([a, c], call),
            _ => call(),
        }
    }
}

/// System calls by number that have nothing to do with what descriptors mean. Any other is doubt.
fn by_number(number: usize) {
    const HARMLESS: &[i64] = &[
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_pread64,
        libc::SYS_pwrite64,
        libc::SYS_preadv2,
        libc::SYS_pwritev2,
        libc::SYS_prlimit64,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_tgkill,
        libc::SYS_futex,
        libc::SYS_futex_waitv,
        libc::SYS_membarrier,
        libc::SYS_getrandom,
        libc::SYS_getcpu,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_getattr,
        libc::SYS_ioprio_set,
        libc::SYS_ioprio_get,
        libc::SYS_set_mempolicy,
        libc::SYS_get_mempolicy,
        libc::SYS_mbind,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_statx,
        libc::SYS_getdents64,
        libc::SYS_readahead,
        libc::SYS_sync_file_range,
        libc::SYS_fallocate,
        libc::SYS_fdatasync,
        libc::SYS_fsync,
        libc::SYS_copy_file_range,
        libc::SYS_renameat2,
        libc::SYS_memfd_create,
        libc::SYS_pidfd_open,
        libc::SYS_io_setup,
        libc::SYS_io_destroy,
        libc::SYS_io_submit,
        libc::SYS_io_cancel,
        libc::SYS_io_getevents,
    ];
    // Of this process's own, which replaced functions make.
    if number as i64 == libc::SYS_prctl || HARMLESS.contains(&(number as i64)) {
        return;
    }
    distrust(Reason::ByNumber);
}
