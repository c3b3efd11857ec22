//! Files that are mapped by what lies in the region, and the functions that programs map by. What is mapped is known by
//! its addresses ([`Mappings`]). A mapping is the kernel's own, of the region's file: so loads and stores need nothing
//! of this library, nor do mprotect(2), or the end of the process, however it comes.
//!
//! A mapping must never reach beyond the file: mremap(2) would let it grow into what follows in the region, and
//! remap_file_pages(2) would show anything of it. Nor may it take space from the region, as madvise(2) can. So what is
//! mapped stays known until the kernel has taken it away, and no longer.

use crate::alone;
use crate::mappings::{Mappings, Part, WORDS};
use crate::mounts;
use crate::process::state;
use crate::raw::{self, Errno, Identity, is_stopped};
use crate::report::count_mapping;
use crate::symbols::in_libc;
use crate::transfer::{failed, undisturbed};
use crate::ways::{Reason, Way};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use pocketstone_lease::{File, Inherited, Lying, Session};
use pocketstone_media::persist;
use std::os::fd::AsRawFd;

const PAGE: usize = 4096;

/// What a mapping is of.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    /// Whose: in a child the mount's place means nothing.
    pid: c_int,
    mount: u32,
    file: Inherited,
    writable: bool,
    flushed: bool,
}

impl Known {
    /// The words of the table: whose, bit 0: it can be stored to, bit 1: stores have to be written back, above them the
    /// mount's place; then the file.
    fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let how = u64::from(self.writable) | u64::from(self.flushed) << 1 | u64::from(self.mount) << 2;
        words[..2].copy_from_slice(&[u64::from(self.pid.unsigned_abs()), how]);
        words[2..].copy_from_slice(&self.file.words());
        words
    }

    fn of_words(words: &[u64; WORDS]) -> Known {
        let [pid, how, file @ ..] = words;
        let (writable, flushed, mount) = (how & 1 != 0, how & 2 != 0, (how >> 2) as u32);
        Known { pid: *pid as c_int, mount, file: Inherited::of_words(file), writable, flushed }
    }
}

static MAPPINGS: Mappings = Mappings::new();

/// All that is mapped of a range of addresses: the parts, and of what.
fn mapped(start: usize, bytes: usize) -> impl Iterator<Item = (usize, usize, Known)> {
    let parts = MAPPINGS.within(start, start.saturating_add(bytes));
    parts.map(|part| (part.start, part.end, Known::of_words(&part.what)))
}

/// Whether any of a range of addresses is mapped. Whoever has just got the range by a system call gets no answer about
/// what was there before.
fn is_known(start: usize, bytes: usize) -> bool {
    let is_any = || MAPPINGS.is_any(start, start.saturating_add(bytes));
    is_any() && {
        alone::settle();
        is_any()
    }
}

/// As many bytes as the kernel maps for so many: whole pages.
fn whole(bytes: usize) -> usize {
    bytes.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// A range of addresses is not what it was any more. The caller is alone.
fn forget(start: usize, bytes: usize) {
    MAPPINGS.remove(start, start.saturating_add(bytes));
}

/// A call has failed that was to put something in the place of a range: some kernels have taken away by then what was
/// there. The caller is alone.
fn look_at(start: usize, bytes: usize) {
    if is_stopped() {
        return;
    }
    for (from, to, _) in mapped(start, bytes) {
        if !raw::is_mapped(from, to - from) {
            MAPPINGS.remove(from, to);
        }
    }
}

/// What is mapped in a range was stored to, perhaps: the files' times change.
fn note(start: usize, bytes: usize) {
    let mut before = None;
    for (.., known) in mapped(start, bytes) {
        if !known.writable || before == Some(known) {
            continue;
        }
        before = Some(known);
        if known.pid == mounts::owner() {
            if let Some(session) = state().and_then(|state| state.mounts.session(known.mount)) {
                session.note_stored(known.file.file());
            }
        } else if !is_stopped() {
            // A child has no part in the session, and mounts of its own.
            undisturbed(|| known.file.note_stored());
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
        return Err(Reason::Stopped);
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
    let file = session.file(ino, wanted.fd).ok_or(Reason::NotAllowed)?;
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
    let (start, bytes) = (wanted.place as usize, whole(wanted.bytes));
    let replaces = wanted.flags & libc::MAP_FIXED != 0;
    if replaces {
        note(start, bytes);
    }
    let _alone = alone::begin();
    // For it, and for what is left of one in whose middle it is put.
    if !MAPPINGS.has_room(2) {
        return None;
    }
    // SAFETY: the caller's promise.
    let placed = unsafe { place(wanted, &lying) };
    match placed {
        Ok(at) => {
            let file = session.inherited(file);
            let known = Known { pid: mounts::owner(), mount, file, writable, flushed: session.is_flushed() };
            MAPPINGS.add(&Part { start: at, end: at + bytes, what: known.words() });
            count_mapping(Way::Direct, wanted.bytes);
        }
        Err(_) if replaces => look_at(start, bytes),
        Err(_) => {}
    }
    Some(placed)
}

/// Maps the pieces one behind the other. The caller is alone.
unsafe fn place(wanted: Wanted, lying: &Lying) -> Result<usize, Errno> {
    let region = lying.region.as_raw_fd();
    // What was there before is gone from then on, whatever follows.
    let placed = |at: usize| {
        if wanted.flags & libc::MAP_FIXED != 0 {
            forget(at, whole(wanted.bytes));
        }
        at
    };
    let mut pieces = lying.pieces.iter();
    if let (Some((at, _)), None) = (pieces.next(), pieces.next()) {
        // SAFETY: the caller's promise.
        return unsafe { map(Wanted { fd: region, offset: at as i64, ..wanted }) }.map(placed);
    }
    // First the place for all of them, in one piece.
    let placing = wanted.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | placing;
    // SAFETY: the caller's promise.
    let base = unsafe { map(Wanted { prot: libc::PROT_NONE, flags, fd: -1, offset: 0, ..wanted }) }.map(placed)?;
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
    let (start, whole) = (place as usize, whole(bytes));
    let replaces = flags & libc::MAP_FIXED != 0 && is_known(start, whole);
    let result = if replaces {
        note(start, whole);
        let _alone = alone::begin();
        // SAFETY: the program's promise.
        let result = unsafe { by_libc(wanted) };
        match &result {
            Ok(at) => forget(*at, whole),
            Err(_) => look_at(start, whole),
        }
        result
    } else {
        // SAFETY: the program's promise.
        unsafe { by_libc(wanted) }
    };
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
    let (start, whole) = (place as usize, whole(bytes));
    if !is_known(start, whole) {
        // SAFETY: the program's promise.
        return status(unsafe { raw::unmap(start, bytes) });
    }
    note(start, whole);
    let _alone = alone::begin();
    // SAFETY: the program's promise.
    let result = unsafe { raw::unmap(start, bytes) };
    if result.is_ok() {
        forget(start, whole);
    }
    status(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn msync(place: *mut c_void, bytes: usize, flags: c_int) -> c_int {
    // SAFETY: the program's promise. The kernel says what is wrong with it.
    let result = unsafe { raw::call(libc::SYS_msync, [place as usize, bytes, flags as usize, 0, 0, 0]) };
    let result = raw::checked(result);
    if result.is_ok() && is_known(place as usize, bytes) {
        let mut fences = false;
        for (from, to, known) in mapped(place as usize, bytes) {
            if known.flushed && known.writable && flags & libc::MS_SYNC != 0 {
                // SAFETY: it is mapped; that the program lets itself read it is its own promise.
                unsafe { persist::write_back(from as *const u8, to - from) };
                fences = true;
            }
        }
        if fences {
            persist::fence();
        }
        note(place as usize, bytes);
    }
    status(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(place: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    // It would make a hole in the region, which has space for all of its bytes.
    if advice == libc::MADV_REMOVE && is_known(place as usize, bytes) {
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
    let arguments = [start, bytes, new_bytes, flags as usize, new_place as usize, 0];
    // SAFETY: the program's promise.
    let call = || raw::checked(unsafe { raw::call(libc::SYS_mremap, arguments) });
    let moves = is_known(start, old.max(1));
    let replaces = flags & libc::MREMAP_FIXED != 0 && is_known(new_place as usize, new);
    if !moves && !replaces {
        return pointer(call());
    }
    // It would grow into what lies behind it in the region; of no bytes the kernel makes a second mapping.
    if moves && (new > old || old == 0) {
        return pointer(Err(Errno(libc::ENOMEM)));
    }
    if moves {
        note(start + new, old - new);
    }
    if replaces {
        note(new_place as usize, new);
    }
    let _alone = alone::begin();
    // For the parts at their new place, and for what is left of one that is replaced in its middle.
    if moves && !MAPPINGS.has_room(mapped(start, new).count() + 1) {
        return pointer(Err(Errno(libc::ENOMEM)));
    }
    let result = call();
    match result {
        Ok(at) if replaces => forget(at, new),
        Ok(_) => {}
        Err(_) => {
            look_at(new_place as usize, if replaces { new } else { 0 });
            // It may have become shorter before it was to move.
            look_at(start, if moves { new } else { 0 });
            look_at(start + new, if moves { old - new } else { 0 });
        }
    }
    match result {
        Ok(at) if moves && at == start => forget(start + new, old - new),
        Ok(at) if moves => {
            for part in MAPPINGS.within(start, start + new) {
                MAPPINGS.add(&Part { start: part.start - start + at, end: part.end - start + at, what: part.what });
            }
            // Of shared memory all may stay where it was, too.
            if flags & libc::MREMAP_DONTUNMAP == 0 {
                forget(start, old);
            }
        }
        _ => {}
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
    if is_known(place as usize, bytes) {
        return failed(Errno(libc::EINVAL)) as c_int;
    }
    let arguments = [place as usize, bytes, prot as usize, page, flags as usize, 0];
    // SAFETY: the program's promise.
    status(raw::checked(unsafe { raw::call(libc::SYS_remap_file_pages, arguments) }))
}
