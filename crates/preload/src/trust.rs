//! Whether a list of descriptors can be trusted: only if every close is seen. libc's functions are hooked for that
//! (`watch`), and all other code is looked through for system calls of its own (`code`), again when an object is
//! loaded. Doubt means to ask the kernel with each call.

use crate::code::{self, Doubt, Exempt, Memory};
use crate::process::{State, state};
use crate::{raw, symbols};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

macro_rules! reasons {
    ($($name:ident $text:literal,)*) => {
        /// Why a process is not trusted.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum Reason { $($name,)* }
        const TEXTS: &[&str] = &[$($text,)*];
    };
}

reasons! {
    Unasked "nothing was used long enough to look",
    Off "it is switched off",
    Libc "functions of this libc are not known",
    Loader "this loader is not known",
    Calls "an object makes system calls by itself",
    Unclear "code of an object cannot be followed",
    Nobodys "there is code that belongs to no object",
    Changeable "there is code that can be changed",
    Unknown "the kernel does not say what is mapped",
    NewCode "the program made code",
    OwnTable "a thread or child may have descriptors of its own",
    Threads "it was copied from a process with several threads",
    Taken "the program took a descriptor by pidfd_getfd(2)",
    ByNumber "the program made a system call by syscall(2)",
}

/// So many calls have asked the kernel, or others that took as long have gone by it, before code is looked through,
/// which takes as long as some thousands.
const CALLS: u32 = 2000;
/// Versions of glibc whose every system call that closes something, or uses an offset, has been looked up.
const VERSIONS: &[&CStr] = &[c"2.36"];

/// Code that belongs to no object is looked at again so often.
const TRIES_MOST: u32 = 3;
static TRIES: AtomicU32 = AtomicU32::new(0);

const DOUBTED: u32 = 0;
const TRUSTED: u32 = 1;
const LOOKING: u32 = 2;
const NEVER: u32 = 3;

static STATUS: AtomicU32 = AtomicU32::new(NEVER);
static REASON: AtomicU32 = AtomicU32::new(Reason::Off as u32);
static ASKED: AtomicU32 = AtomicU32::new(0);
static MEMORY: AtomicPtr<Memory> = AtomicPtr::new(core::ptr::null_mut());
static PAGE: AtomicUsize = AtomicUsize::new(0);
static LIBC: AtomicUsize = AtomicUsize::new(0);
static LOADER: AtomicUsize = AtomicUsize::new(0);
/// The name of an object in doubt was kept.
static NAMED: AtomicBool = AtomicBool::new(false);

/// Words of the loader of which one counts the objects that it has loaded, and what they were before the last look.
struct Loads {
    places: [AtomicPtr<u64>; Loads::MOST],
    seen: [AtomicU64; Loads::MOST],
    count: AtomicUsize,
}

static LOADS: Loads = Loads {
    places: [const { AtomicPtr::new(core::ptr::null_mut()) }; Loads::MOST],
    seen: [const { AtomicU64::new(0) }; Loads::MOST],
    count: AtomicUsize::new(0),
};

impl Loads {
    const MOST: usize = 6;

    /// Finds them: the loader says what the count is, and not where. All words that have it are looked at, and a change
    /// of any is taken for an object.
    fn begin(&self, global: *mut c_void) -> bool {
        let (loaded, _) = code::loads();
        let bytes = if global.is_null() { 0 } else { symbols::length(global.cast_const().cast()) };
        let mut count = 0;
        for index in 0..bytes / size_of::<u64>() {
            let place = global.cast::<u64>().wrapping_add(index);
            // SAFETY: the loader's variable, which is as long, aligned, and stays.
            if unsafe { place.read_volatile() } != loaded {
                continue;
            }
            let Some(kept) = self.places.get(count) else { return false };
            kept.store(place, Ordering::Relaxed);
            count += 1;
        }
        self.count.store(count, Ordering::Relaxed);
        count > 0
    }

    fn each(&self) -> impl Iterator<Item = (u64, &AtomicU64)> {
        let count = self.count.load(Ordering::Relaxed).min(Loads::MOST);
        self.places[..count].iter().zip(&self.seen).map(|(place, seen)| {
            // SAFETY: a word of the loader's variable, see `begin`.
            (unsafe { place.load(Ordering::Relaxed).read_volatile() }, seen)
        })
    }

    /// Whether nothing was loaded since the last look.
    #[inline]
    fn are_same(&self) -> bool {
        self.each().all(|(now, seen)| now == seen.load(Ordering::Relaxed))
    }
}

/// Whether all is known of this libc that closes something or uses an offset. `replaced`: its own reads and writes are
/// this library's.
pub fn is_known(replaced: bool) -> bool {
    let version = symbols::in_libc(c"gnu_get_libc_version");
    let known = replaced && !version.is_null() && {
        // SAFETY: that function of libc.
        let version: extern "C" fn() -> *const c_char = unsafe { core::mem::transmute(version) };
        // SAFETY: it returns a C string, which stays.
        VERSIONS.contains(&unsafe { CStr::from_ptr(version()) })
    };
    if !known {
        REASON.store(Reason::Libc as u32, Ordering::Relaxed);
    }
    known
}

/// From now on a look at the code can lead to trust: what is to be seen is seen. There is one thread, and the program
/// does not run yet. `page`: code of this library's own.
pub fn begin(page: usize) {
    // SAFETY: the name is a C string.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_rtld_global".as_ptr()) };
    if !LOADS.begin(global) {
        REASON.store(Reason::Loader as u32, Ordering::Relaxed);
        return;
    }
    PAGE.store(page, Ordering::Relaxed);
    LIBC.store(symbols::in_libc(c"gnu_get_libc_version").addr(), Ordering::Relaxed);
    LOADER.store(global.addr(), Ordering::Relaxed);
    REASON.store(Reason::Unasked as u32, Ordering::Relaxed);
    STATUS.store(DOUBTED, Ordering::Release);
    // What a shell redirects.
    let first = state().into_iter().flat_map(|state| state.descriptors.iter().take(3));
    for (fd, descriptor) in (0..).zip(first) {
        if raw::flags(fd).is_ok() {
            descriptor.number.inherited();
        }
    }
}

/// From now on each call asks the kernel; direct calls at offsets that had begun before are over.
#[cold]
pub fn distrust(reason: Reason) {
    if STATUS.swap(NEVER, Ordering::SeqCst) != NEVER {
        REASON.store(reason as u32, Ordering::Relaxed);
    }
    if let Some(state) = state() {
        state.settle();
    }
}

/// Memory is about to be mapped, or its protection changed: nobody looks through what the program makes itself.
pub fn maps(prot: c_int) {
    if prot & libc::PROT_EXEC != 0 {
        distrust(Reason::NewCode);
    }
}

/// Called in a child of fork(2): nobody is looking any more. `alone`: there was one thread. If there were others, one
/// of them may have held the loader's lock, which to look would wait for.
pub fn forked(alone: bool) {
    if !alone {
        distrust(Reason::Threads);
    }
    let _ = STATUS.compare_exchange(LOOKING, DOUBTED, Ordering::SeqCst, Ordering::Relaxed);
}

/// Whether what is known of descriptors can be trusted now.
#[inline]
pub fn holds(state: &State) -> bool {
    STATUS.load(Ordering::SeqCst) == TRUSTED && !state.watch.is_borrowed() && LOADS.are_same()
}

/// Whether what is known of descriptors can come to be trusted.
#[inline]
pub fn is_possible() -> bool {
    STATUS.load(Ordering::Relaxed) != NEVER
}

/// The kernel was asked once more.
#[inline]
pub fn asked(state: &State) {
    state.watch.asked.fetch_add(1, Ordering::Relaxed);
    missed(state, 1);
}

/// For want of trust something took as long as so many questions.
#[inline]
pub fn missed(state: &State, questions: u32) {
    let status = STATUS.load(Ordering::Relaxed);
    // One thread looks at a time.
    if status == NEVER || status == LOOKING || status == TRUSTED && LOADS.are_same() {
        return;
    }
    let asked = ASKED.load(Ordering::Relaxed).saturating_add(questions);
    ASKED.store(asked, Ordering::Relaxed);
    if asked >= CALLS {
        ASKED.store(0, Ordering::Relaxed);
        look(state, status);
    }
}

/// Looks through the code.
#[cold]
#[inline(never)]
fn look(state: &State, status: u32) {
    if state.watch.is_borrowed()
        || STATUS.compare_exchange(status, LOOKING, Ordering::SeqCst, Ordering::Relaxed).is_err()
    {
        return;
    }
    let (next, reason) = match look_alone(state) {
        Ok(()) => (TRUSTED, Reason::Unasked),
        Err(None) => (DOUBTED, Reason::Unasked),
        // It may be an object that another thread is about to load.
        Err(Some(Doubt::Nobodys)) if TRIES.fetch_add(1, Ordering::Relaxed) < TRIES_MOST => (DOUBTED, Reason::Nobodys),
        Err(Some(Doubt::Calls)) => (NEVER, Reason::Calls),
        Err(Some(Doubt::Unclear)) => (NEVER, Reason::Unclear),
        Err(Some(Doubt::Nobodys)) => (NEVER, Reason::Nobodys),
        Err(Some(Doubt::Changeable)) => (NEVER, Reason::Changeable),
        Err(Some(Doubt::Unknown)) => (NEVER, Reason::Unknown),
    };
    // Who distrusts meanwhile is right.
    if STATUS.compare_exchange(LOOKING, next, Ordering::SeqCst, Ordering::Relaxed).is_ok() && next == NEVER {
        NAMED.store(matches!(reason, Reason::Calls | Reason::Unclear), Ordering::Relaxed);
        REASON.store(reason as u32, Ordering::Relaxed);
    }
}

/// `None`: something was loaded or unloaded meanwhile.
fn look_alone(state: &State) -> Result<(), Option<Doubt>> {
    // What is mapped to be read could be run.
    const ASK: usize = u32::MAX as usize;
    // SAFETY: it asks, and has to do with no memory.
    let personality = unsafe { raw::call(libc::SYS_personality, [ASK, 0, 0, 0, 0, 0]) };
    if personality < 0 || personality as c_int & libc::READ_IMPLIES_EXEC != 0 {
        return Err(Some(Doubt::Changeable));
    }
    let mut memory = MEMORY.load(Ordering::Relaxed);
    if memory.is_null() {
        memory = raw::memory(size_of::<Memory>()).ok_or(Some(Doubt::Unknown))?.cast();
        MEMORY.store(memory, Ordering::Relaxed);
    }
    // SAFETY: zeros are a valid value, and one thread at a time is here.
    let memory = unsafe { &mut *memory };
    let mut before = [0; Loads::MOST];
    LOADS.each().zip(&mut before).for_each(|((now, _), before)| *before = now);
    let loads = code::loads();
    if memory.unloaded(loads) {
        // What has gone may have closed anything.
        let begun = state.watch.ranges.begin();
        state.watch.ranges.end(begun);
    }
    let exempt = Exempt {
        objects: [LIBC.load(Ordering::Relaxed), LOADER.load(Ordering::Relaxed), begin as fn(usize) as usize],
        page: PAGE.load(Ordering::Relaxed),
    };
    let is_complete = code::look(memory, &exempt).map_err(Some)?;
    // An object that is loaded by now, or gone by now, is not known to have been looked at.
    if !is_complete || code::loads() != loads || LOADS.each().zip(before).any(|((now, _), before)| now != before) {
        return Err(None);
    }
    LOADS.each().zip(before).for_each(|((_, seen), before)| seen.store(before, Ordering::Relaxed));
    Ok(())
}

/// What the report says: whether the process is trusted; why not; and which object is the reason.
pub fn verdict() -> (bool, &'static str, Option<&'static [u8]>) {
    let status = STATUS.load(Ordering::Acquire);
    let reason = TEXTS.get(REASON.load(Ordering::Relaxed) as usize).copied().unwrap_or_default();
    let memory = MEMORY.load(Ordering::Relaxed);
    let is_named = status == NEVER && NAMED.load(Ordering::Relaxed) && !memory.is_null();
    // SAFETY: zeros are a valid value, the memory stays, and nobody looks again who never trusts.
    let name = is_named.then(|| unsafe { &(*memory).name });
    let name = name.map(|name| &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())]);
    (status == TRUSTED, reason, name.filter(|name| !name.is_empty()))
}
