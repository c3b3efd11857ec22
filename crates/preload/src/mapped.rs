//! Files that are mapped by what lies in the region, and the functions that programs map by. What is mapped is known by
//! its addresses, in memory that children of fork(2) have, too, as they have the mappings. A mapping is the kernel's
//! own, of the region's file: so loads and stores need nothing of this library, nor do mprotect(2), or the end of the
//! process, however it comes.
//!
//! A mapping must never reach beyond the file: mremap(2) would let it grow into what follows in the region, and
//! remap_file_pages(2) would show anything of it. Nor may it take space from the region, as madvise(2) can.

use crate::mounts;
use crate::process::{is_stopped, state};
use crate::raw::{self, Errno, Identity};
use crate::report::count_mapping;
use crate::symbols::in_libc;
use crate::transfer::{failed, undisturbed};
use crate::ways::{Reason, Way};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use pocketstone_lease::{File, Lying, Session};
use pocketstone_media::persist;
use std::os::fd::AsRawFd;

/// So many mappings are known at a time; more are the kernel's.
const MOST: usize = 1024;
const PAGE: usize = 4096;
const FREE: usize = 0;
/// Being filled, or emptied. No mapping begins there.
const CLAIMED: usize = 1;

/// A part of the address space that is mapped by what lies in the region. Zeros: none.
struct Mapping {
    /// [`FREE`], [`CLAIMED`], or the first address.
    start: AtomicUsize,
    end: AtomicUsize,
    /// Bit 0: it can be stored to; bit 1: stores have to be written back. Above them the mount's place.
    how: AtomicU32,
    file: UnsafeCell<MaybeUninit<File>>,
    /// Whose: in a child the mount's place means nothing.
    pid: AtomicI32,
}

// SAFETY: `file` is written by who claimed the place, before `start` says that it is taken.
unsafe impl Sync for Mapping {}

/// What a mapping is of.
#[derive(Clone, Copy)]
struct Known {
    mount: u32,
    file: File,
    writable: bool,
    flushed: bool,
    pid: c_int,
}

static MAPPINGS: [Mapping; MOST] = [const {
    Mapping {
        start: AtomicUsize::new(FREE),
        end: AtomicUsize::new(0),
        how: AtomicU32::new(0),
        file: UnsafeCell::new(MaybeUninit::uninit()),
        pid: AtomicI32::new(0),
    }
}; MOST];
/// Places below are or were taken: most processes have none.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

impl Mapping {
    fn fill(&self, (start, end): (usize, usize), known: Known) {
        self.end.store(end, Ordering::Relaxed);
        let how = u32::from(known.writable) | u32::from(known.flushed) << 1 | known.mount << 2;
        self.how.store(how, Ordering::Relaxed);
        self.pid.store(known.pid, Ordering::Relaxed);
        // SAFETY: the place is claimed by this thread; nobody else looks.
        unsafe { self.file.get().write(MaybeUninit::new(known.file)) };
        self.start.store(start, Ordering::Release);
    }

    /// What is mapped here of a range of addresses, and of what.
    fn within(&self, start: usize, end: usize) -> Option<(usize, usize, Known)> {
        let first = self.start.load(Ordering::Acquire);
        if first <= CLAIMED {
            return None;
        }
        let (from, to) = (first.max(start), self.end.load(Ordering::Relaxed).min(end));
        // SAFETY: `start` says that the file was written.
        let file = unsafe { (*self.file.get()).assume_init() };
        let how = self.how.load(Ordering::Relaxed);
        let (writable, flushed, mount) = (how & 1 != 0, how & 2 != 0, how >> 2);
        let known = Known { mount, file, writable, flushed, pid: self.pid.load(Ordering::Relaxed) };
        (from < to).then_some((from, to, known))
    }
}

/// Takes a place for a mapping that is about to be made.
fn claim() -> Option<&'static Mapping> {
    let found = MAPPINGS.iter().enumerate().find(|(_, mapping)| {
        mapping.start.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    });
    let (number, mapping) = found?;
    TAKEN.fetch_max(number + 1, Ordering::Relaxed);
    Some(mapping)
}

fn give_back(mapping: &Mapping) {
    mapping.start.store(FREE, Ordering::Release);
}

/// All that is mapped of a range of addresses: the parts, and of what. None of them is being changed by anybody else:
/// that would be unmapping what others use.
fn mapped(start: usize, bytes: usize) -> impl Iterator<Item = (&'static Mapping, (usize, usize, Known))> {
    let end = start.saturating_add(bytes);
    let taken = &MAPPINGS[..TAKEN.load(Ordering::Relaxed).min(MOST)];
    taken.iter().filter_map(move |mapping| Some((mapping, mapping.within(start, end)?)))
}

/// As many bytes as the kernel maps for so many: whole pages.
fn whole(bytes: usize) -> usize {
    bytes.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// A range of addresses is not what it was any more.
fn forget(start: usize, bytes: usize) {
    for (mapping, (from, to, known)) in mapped(start, bytes) {
        note(known);
        let (first, end) = (mapping.start.load(Ordering::Relaxed), mapping.end.load(Ordering::Relaxed));
        match (first == from, end == to) {
            (true, true) => give_back(mapping),
            (true, false) => mapping.start.store(to, Ordering::Release),
            (false, true) => mapping.end.store(from, Ordering::Release),
            // If there is no place for the second part, all of it stays known: it is flushed in vain.
            (false, false) => {
                if let Some(second) = claim() {
                    second.fill((to, end), known);
                    mapping.end.store(from, Ordering::Release);
                }
            }
        }
    }
}

/// What was mapped was stored to, perhaps: the file's time changes.
fn note(known: Known) {
    // A child has no part in the session, and mounts of its own.
    if known.writable && known.pid == mounts::owner() {
        if let Some(session) = state().and_then(|state| state.mounts.session(known.mount)) {
            session.note_stored(known.file);
        }
    }
}

/// A mapping as it is asked for.
#[derive(Clone, Copy)]
struct Wanted {
    place: *mut c_void,
    bytes: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
}

unsafe fn map(wanted: Wanted) -> Result<usize, Errno> {
    let Wanted { place, bytes, prot, flags, fd, offset } = wanted;
    // SAFETY: the caller's promise.
    unsafe { raw::map([place as usize, bytes, prot as usize, flags as usize, fd as usize, offset as usize]) }
}

/// The mount of a file. Another thread may be asking just then, as no read or write would wait for: what is not mapped
/// directly is not mapped at all.
fn find(mounts: &'static mounts::Mounts, fd: c_int, device: u64) -> Result<(u32, &'static Session), Reason> {
    const ATTEMPTS: usize = 3000;
    for attempt in 0..ATTEMPTS {
        match mounts.find(fd, device) {
            Err(Reason::Attaching) => raw::pause(if attempt < 100 { 0 } else { 1_000_000 }),
            found => return found,
        }
    }
    // A signal handler, perhaps, that has interrupted the one who asks.
    Err(Reason::Attaching)
}

/// libc's own function, or null.
static LIBC: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Finds libc's own function: whoever watches what programs map has changed that, and must not be gone round.
pub fn begin() {
    LIBC.store(in_libc(c"mmap"), Ordering::Relaxed);
}

/// As without this function. An error that is none has set `errno`.
unsafe fn by_libc(wanted: Wanted) -> Result<usize, Option<Errno>> {
    type Map = unsafe extern "C-unwind" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;
    let own = LIBC.load(Ordering::Relaxed);
    if own.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { map(wanted) }.map_err(Some);
    }
    let Wanted { place, bytes, prot, flags, fd, offset } = wanted;
    // SAFETY: it is mmap of libc, which stays.
    let own: Map = unsafe { core::mem::transmute(own) };
    // SAFETY: the caller's promise.
    let at = unsafe { own(place, bytes, prot, flags, fd, offset) };
    if at == libc::MAP_FAILED { Err(None) } else { Ok(at as usize) }
}

/// The parts of the decision that need no mapping: the session, the file, and whether it may be stored to.
fn ready(wanted: &Wanted) -> Result<(u32, &'static Session, File, bool), Reason> {
    let state = state().ok_or(Reason::Off)?;
    if is_stopped() {
        return Err(Reason::Sandbox);
    }
    // SAFETY: it has to do with no memory.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let odd = page != PAGE as i64 || wanted.offset.checked_add_unsigned(wanted.bytes as u64).is_none();
    if odd || wanted.prot & libc::PROT_EXEC != 0 || wanted.bytes == 0 || wanted.offset < 0 {
        return Err(Reason::Access);
    }
    let Identity { device, ino, regular } = raw::identity(wanted.fd).map_err(|_| Reason::NotRegular)?;
    if !regular {
        return Err(Reason::NotRegular);
    }
    let (mount, session) = find(&state.mounts, wanted.fd, device)?;
    if !mounts::is_owner() {
        return Err(Reason::OtherProcess);
    }
    if !session.may_map() {
        return Err(Reason::MapsOff);
    }
    let flags = raw::flags(wanted.fd).map_err(|_| Reason::Changed)?;
    let write = match flags & libc::O_ACCMODE {
        _ if flags & libc::O_PATH != 0 => return Err(Reason::Access),
        libc::O_RDWR => session.may_write(),
        libc::O_RDONLY => false,
        _ => return Err(Reason::Access),
    };
    let file = session.file(ino).ok_or(Reason::NotAllowed)?;
    let write = write && session.may_store(file);
    if wanted.prot & libc::PROT_WRITE != 0 && !write {
        return Err(Reason::Access);
    }
    Ok((mount, session, file, write))
}

/// Maps what lies in the region. `None`: it is the kernel's to do.
///
/// # Safety
/// As of mmap(2).
unsafe fn direct(wanted: Wanted) -> Option<Result<usize, Errno>> {
    let found = ready(&wanted).map_err(Way::Kernel).and_then(|(mount, session, file, write)| {
        let lying = session.map(file, write, wanted.offset as u64, wanted.bytes as u64).map_err(Way::Mount)?;
        // The region's pages are mapped as they are.
        let whole = lying.pieces.iter().all(|(at, _)| at % PAGE as u64 == 0);
        let parts = lying.pieces.iter().count();
        let ends = lying.pieces.iter().take(parts - 1).all(|(_, bytes)| bytes % PAGE as u64 == 0);
        if whole && ends { Ok((mount, session, file, write, lying)) } else { Err(Way::Kernel(Reason::Access)) }
    });
    let (mount, session, file, writable, lying) = match found {
        Ok(found) => found,
        Err(way) => {
            count_mapping(way, wanted.bytes);
            return None;
        }
    };
    let mapping = claim()?;
    // SAFETY: the caller's promise.
    let placed = unsafe { place(wanted, &lying) };
    match placed {
        Ok(at) => {
            let whole = whole(wanted.bytes);
            if wanted.flags & libc::MAP_FIXED != 0 {
                forget(at, whole);
            }
            let known = Known { mount, file, writable, flushed: session.is_flushed(), pid: mounts::owner() };
            mapping.fill((at, at + whole), known);
            count_mapping(Way::Direct, wanted.bytes);
        }
        Err(_) => give_back(mapping),
    }
    Some(placed)
}

/// Maps the pieces one behind the other.
unsafe fn place(wanted: Wanted, lying: &Lying) -> Result<usize, Errno> {
    let region = lying.region.as_raw_fd();
    let mut pieces = lying.pieces.iter();
    if let (Some((at, _)), None) = (pieces.next(), pieces.next()) {
        // SAFETY: the caller's promise.
        return unsafe { map(Wanted { fd: region, offset: at as i64, ..wanted }) };
    }
    // First the place for all of them, in one piece.
    let placing = wanted.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | placing;
    // SAFETY: the caller's promise.
    let base = unsafe { map(Wanted { prot: libc::PROT_NONE, flags, fd: -1, offset: 0, ..wanted }) }?;
    let mut done = 0;
    for (at, bytes) in lying.pieces.iter() {
        let flags = wanted.flags & !libc::MAP_FIXED_NOREPLACE | libc::MAP_FIXED;
        let place = (base + done) as *mut c_void;
        let piece = Wanted { place, bytes: bytes as usize, flags, fd: region, offset: at as i64, ..wanted };
        // SAFETY: the place was just made for it.
        if let Err(error) = unsafe { map(piece) } {
            // SAFETY: as above.
            let _ = unsafe { raw::unmap(base, wanted.bytes) };
            return Err(error);
        }
        done += bytes as usize;
    }
    Ok(base)
}

fn pointer(result: Result<usize, Errno>) -> *mut c_void {
    result.map_or_else(|error| failed(error) as *mut c_void, |at| at as *mut c_void)
}

fn status(result: Result<usize, Errno>) -> c_int {
    result.map_or_else(|error| failed(error) as c_int, |value| value as c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn mmap(
    place: *mut c_void,
    bytes: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    let wanted = Wanted { place, bytes, prot, flags, fd, offset };
    let shared = fd >= 0 && flags & libc::MAP_ANONYMOUS == 0 && flags & libc::MAP_TYPE == libc::MAP_SHARED;
    if shared {
        // SAFETY: the program's promise.
        if let Some(result) = undisturbed(|| unsafe { direct(wanted) }) {
            return pointer(result);
        }
    }
    // SAFETY: the program's promise.
    let result = unsafe { by_libc(wanted) };
    if let (Ok(at), true) = (&result, flags & libc::MAP_FIXED != 0) {
        forget(*at, whole(bytes));
    }
    match result {
        Ok(at) => at as *mut c_void,
        // libc has set `errno`.
        Err(None) => libc::MAP_FAILED,
        Err(Some(error)) => pointer(Err(error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn mmap64(
    place: *mut c_void,
    bytes: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the program's promise.
    unsafe { mmap(place, bytes, prot, flags, fd, offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(place: *mut c_void, bytes: usize) -> c_int {
    // Before another thread can have the place.
    if place as usize % PAGE == 0 {
        forget(place as usize, whole(bytes));
    }
    // SAFETY: the program's promise.
    status(unsafe { raw::unmap(place as usize, bytes) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn msync(place: *mut c_void, bytes: usize, flags: c_int) -> c_int {
    // SAFETY: the program's promise. The kernel says what is wrong with it.
    let result = unsafe { raw::call(libc::SYS_msync, [place as usize, bytes, flags as usize, 0, 0, 0]) };
    let result = raw::checked(result);
    if result.is_ok() {
        let mut fences = false;
        for (_, (from, to, known)) in mapped(place as usize, bytes) {
            note(known);
            if known.flushed && known.writable && flags & libc::MS_SYNC != 0 {
                // SAFETY: it is mapped; that the program lets itself read it is its own promise.
                unsafe { persist::write_back(from as *const u8, to - from) };
                fences = true;
            }
        }
        if fences {
            persist::fence();
        }
    }
    status(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(place: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    // It would make a hole in the region, which has space for all of its bytes.
    if advice == libc::MADV_REMOVE && mapped(place as usize, bytes).next().is_some() {
        return failed(Errno(libc::EOPNOTSUPP)) as c_int;
    }
    // SAFETY: the program's promise.
    let result = unsafe { raw::call(libc::SYS_madvise, [place as usize, bytes, advice as usize, 0, 0, 0]) };
    status(raw::checked(result))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    place: *mut c_void,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    new_place: *mut c_void,
) -> *mut c_void {
    let (start, old, new) = (place as usize, whole(bytes), whole(new_bytes));
    let found = mapped(start, old.max(1)).next();
    if let Some((_, (_, _, known))) = found {
        // It would grow into what lies behind it in the region; of no bytes the kernel makes a second mapping.
        if new > old || old == 0 {
            return pointer(Err(Errno(libc::ENOMEM)));
        }
        if flags & libc::MREMAP_FIXED != 0 {
            forget(new_place as usize, new);
        }
        let arguments = [start, bytes, new_bytes, flags as usize, new_place as usize, 0];
        // SAFETY: the program's promise.
        let result = raw::checked(unsafe { raw::call(libc::SYS_mremap, arguments) });
        if let Ok(at) = result {
            if at == start {
                forget(start + new, old - new);
            } else {
                // Of shared memory all may stay where it was, too.
                if flags & libc::MREMAP_DONTUNMAP == 0 {
                    forget(start, old);
                }
                if let Some(mapping) = claim() {
                    mapping.fill((at, at + new), known);
                }
            }
        }
        return pointer(result);
    }
    let arguments = [start, bytes, new_bytes, flags as usize, new_place as usize, 0];
    // SAFETY: the program's promise.
    let result = raw::checked(unsafe { raw::call(libc::SYS_mremap, arguments) });
    if result.is_ok() && flags & libc::MREMAP_FIXED != 0 {
        forget(new_place as usize, new);
    }
    pointer(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn remap_file_pages(
    place: *mut c_void,
    bytes: usize,
    prot: c_int,
    page: usize,
    flags: c_int,
) -> c_int {
    if mapped(place as usize, bytes).next().is_some() {
        return failed(Errno(libc::EINVAL)) as c_int;
    }
    let arguments = [place as usize, bytes, prot as usize, page, flags as usize, 0];
    // SAFETY: the program's promise.
    status(raw::checked(unsafe { raw::call(libc::SYS_remap_file_pages, arguments) }))
}
