//! Reading and writing: directly where that is possible, which each call finds out for itself.

use crate::descriptors::{Descriptor, Known};
use crate::events::Proof;
use crate::mounts;
use crate::process::{State, is_stopped, state};
use crate::raw::{self, Errno};
use crate::report::count;
use crate::trust;
use crate::ways::{Direction, Reason, Way};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use pocketstone_lease::{Outcome, Session, Why};

/// The kernel moves no more in one call.
const BYTES_MOST: usize = 0x7FFF_F000;
/// The address space of a program, which the kernel would check: what is not in it is the kernel's, to refuse.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: core::ops::Range<usize> = 0x1_0000..0x7FFF_FFFF_F000;
#[cfg(target_arch = "aarch64")]
const ADDRESSES: core::ops::Range<usize> = 0x1_0000..0xFFFF_FFFF_F000;
/// After calls that the mount left to the kernel so many are not tried, at most: of reads, which cost as little by the
/// kernel's pages as a try, and of writes, which cost ten times as much.
const REST_READS: u32 = 63;
const REST_WRITES: u32 = 15;

/// Files may not grow without bound, which the kernel checks at each write.
static LIMITED: AtomicBool = AtomicBool::new(false);

/// Looks at the limit of sizes again. A child of vfork(2) has limits of its own, and its parent's memory: once such a
/// child has set one, both go by the kernel.
pub fn look_at_limits() {
    LIMITED.store(!mounts::is_owner() || raw::sizes_limited(), Ordering::Relaxed);
}

/// Sets `errno` and returns what a call returns that fails.
pub fn failed(Errno(number): Errno) -> isize {
    // SAFETY: libc's own place for this thread.
    unsafe { *raw::errno() = number };
    -1
}

/// Runs what may change `errno`, and puts it back.
pub fn undisturbed<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: libc's own place for this thread.
    let before = unsafe { *raw::errno() };
    let result = run();
    // SAFETY: as above.
    unsafe { *raw::errno() = before };
    result
}

/// One call, as far as it does not matter which way it goes.
#[derive(Clone, Copy)]
pub struct Call {
    pub direction: Direction,
    pub fd: c_int,
    pub place: *mut c_void,
    pub bytes: usize,
    /// Where; or at the open file's offset, which moves.
    pub at: Option<i64>,
}

/// A call that can be direct: the descriptor means this file, and may be used so.
struct Ready {
    state: &'static State,
    descriptor: &'static Descriptor,
    session: &'static Session,
    known: Known,
    /// By `O_APPEND`: at the end of the file, wherever that is.
    at_end: bool,
}

/// A look at a number that has had some calls.
#[cold]
#[inline(never)]
fn look(state: &State, fd: c_int, descriptor: &Descriptor, early: bool) -> Result<Known, Reason> {
    let found = undisturbed(|| {
        let identity = raw::identity(fd).map_err(|_| Reason::NotRegular)?;
        if !identity.regular {
            return Err(Reason::NotRegular);
        }
        let (mount, session) = state.mounts.find(fd, identity.device)?;
        if !mounts::is_owner() {
            return Err(Reason::OtherProcess);
        }
        let file = session.file(identity.ino, fd).ok_or(Reason::NotAllowed)?;
        Ok(Known { mount, ino: identity.ino, file, proof: Proof::NONE })
    });
    match found {
        Ok(known) => descriptor.remember(known),
        // It is over in a moment.
        Err(Reason::Attaching) => {}
        Err(_) => descriptor.put_off(early),
    }
    if found.is_ok() {
        state.pace.looked(descriptor.take_direct());
    }
    found
}

/// Whether a call can be direct. What is known of it is made in its place: to move it takes as long as a third of a
/// store of a page.
#[inline]
fn ready<'a>(call: &Call, place: &'a mut Option<Ready>) -> Result<&'a Ready, Reason> {
    let state = state().ok_or(Reason::Off)?;
    if is_stopped() {
        return Err(Reason::Stopped);
    }
    let number = usize::try_from(call.fd).map_err(|_| Reason::Number)?;
    let descriptor = state.descriptors.get(number).ok_or(Reason::Number)?;
    let known = match descriptor.known() {
        Some(known) => known,
        None if descriptor.is_due(call.bytes) => look(state, call.fd, descriptor, false)?,
        None if state.pace.is_busy() && descriptor.is_open_to_looks() => look(state, call.fd, descriptor, true)?,
        None => return Err(Reason::FewCalls),
    };
    if descriptor.rests() {
        return Err(Reason::Rest);
    }
    if call.bytes == 0 || call.bytes > BYTES_MOST {
        return Err(Reason::Length);
    }
    let end = (call.place as usize).checked_add(call.bytes).ok_or(Reason::Address)?;
    if !ADDRESSES.contains(&(call.place as usize)) || end > ADDRESSES.end {
        return Err(Reason::Address);
    }
    if call.at.is_some_and(|at| at < 0 || at.checked_add(call.bytes as i64).is_none()) {
        return Err(Reason::Offset);
    }
    let session = state.mounts.session(known.mount).ok_or(Reason::NotAttached)?;
    if call.direction == Direction::Write {
        if !session.may_write() {
            return Err(Reason::ReadsOnly);
        }
        if LIMITED.load(Ordering::Relaxed) {
            return Err(Reason::Limit);
        }
    }
    let ready = place.insert(Ready { state, descriptor, session, known, at_end: false });
    let flags = match ready.flags(call) {
        // Another file has the number: it will be used as those before it.
        Err(Reason::Changed) if state.pace.is_busy() => ready.anew(call)?,
        flags => flags?,
    };
    let refused = match (call.direction, flags & libc::O_ACCMODE) {
        _ if flags & libc::O_PATH != 0 => Some(Reason::Access),
        (Direction::Read, libc::O_WRONLY) | (Direction::Write, libc::O_RDONLY) => Some(Reason::Access),
        (Direction::Read, _) => None,
        (Direction::Write, _) if flags & (libc::O_DSYNC | libc::O_SYNC) != 0 => Some(Reason::Sync),
        (Direction::Write, _) if flags & libc::O_APPEND != 0 => {
            ready.at_end = call.at.is_none() && session.may_append();
            if ready.at_end { None } else { Some(Reason::Append) }
        }
        (Direction::Write, _) => None,
    };
    match refused {
        Some(reason) => {
            descriptor.went_not(REST_WRITES);
            Err(reason)
        }
        None => Ok(ready),
    }
}

impl Ready {
    /// Whether it is proven that the descriptor means the file.
    #[inline]
    fn is_proven(&self) -> bool {
        trust::holds(self.state) && self.known.proof.holds(&self.state.watch, &self.descriptor.number)
    }

    /// How the file is open, if the descriptor means it.
    #[inline]
    fn flags(&mut self, call: &Call) -> Result<c_int, Reason> {
        let (proof, watch) = (&self.known.proof, &self.state.watch);
        if self.is_proven() {
            // What F_SETFL sets does not matter to reads.
            if call.direction == Direction::Read {
                return Ok(proof.lasting());
            }
            if let Some(flags) = proof.flags(watch) {
                return Ok(flags);
            }
            if !proof.is_own(watch) {
                return raw::flags(call.fd).map_err(|_| Reason::Changed);
            }
        }
        self.ask(call.fd)
    }

    /// Asks the kernel whether the descriptor means the file, and how it is open; remembers the answer, if it is one
    /// that lasts.
    #[inline(never)]
    fn ask(&mut self, fd: c_int) -> Result<c_int, Reason> {
        trust::asked(self.state);
        let proof = trust::holds(self.state).then(|| Proof::begin(&self.state.watch, &self.descriptor.number));
        if !self.is_same(fd) {
            self.descriptor.forget();
            return Err(Reason::Changed);
        }
        // The same file may be open in another way by now.
        let flags = raw::flags(fd).map_err(|_| Reason::Changed)?;
        if let Some(proof) = proof.flatten() {
            self.known.proof = proof.with(flags);
            self.descriptor.prove(self.known);
        }
        Ok(flags)
    }

    /// The descriptor means another file: looks at that one. How it is open.
    #[cold]
    fn anew(&mut self, call: &Call) -> Result<c_int, Reason> {
        let known = look(self.state, call.fd, self.descriptor, true)?;
        // What was looked at of the mount counts for that one.
        if known.mount != self.known.mount {
            return Err(Reason::Changed);
        }
        self.known = known;
        self.flags(call)
    }

    /// Whether the descriptor still means the file.
    #[inline]
    fn is_still(&self, fd: c_int) -> bool {
        self.is_proven() || self.is_same(fd)
    }

    /// Whether a descriptor means the file, as the kernel has it.
    #[inline]
    fn is_same(&self, fd: c_int) -> bool {
        let same = |now: raw::Identity| now.ino == self.known.ino && now.device == self.session.device();
        raw::identity(fd).is_ok_and(same)
    }

    /// The call at a place.
    ///
    /// # Safety
    /// As of the call.
    #[inline]
    unsafe fn run(&self, call: &Call, at: i64) -> Outcome {
        let (file, place, at) = (self.known.file, call.place.cast::<u8>(), at as u64);
        // SAFETY: the caller's promise.
        let outcome = unsafe {
            match call.direction {
                Direction::Read => self.session.read(file, call.fd, place, call.bytes, at),
                Direction::Write => self.session.write(file, call.fd, place, call.bytes, at),
            }
        };
        self.note(call, outcome);
        outcome
    }

    /// The call at the end of the file; where that was.
    ///
    /// # Safety
    /// As of the call.
    #[inline]
    unsafe fn append(&self, call: &Call) -> Result<u64, Why> {
        let place = call.place.cast::<u8>();
        // SAFETY: the caller's promise.
        let appended = unsafe { self.session.append(self.known.file, call.fd, place, call.bytes, None) };
        self.note(call, appended.map_or_else(Outcome::Kernel, |_| Outcome::Done(call.bytes)));
        appended
    }

    /// Remembers how a call went.
    fn note(&self, call: &Call, outcome: Outcome) {
        match outcome {
            Outcome::Done(_) => self.descriptor.went(),
            Outcome::Kernel(Why::Gone) => self.descriptor.forget(),
            Outcome::Kernel(Why::Ended) => {
                self.state.mounts.ended(self.known.mount);
                self.descriptor.forget();
            }
            Outcome::Kernel(_) if call.direction == Direction::Read => self.descriptor.went_not(REST_READS),
            Outcome::Kernel(_) => self.descriptor.went_not(REST_WRITES),
        }
    }
}

/// Does what fdatasync(2) does for a descriptor, if it needs nobody else: which way it goes.
pub fn durable(fd: c_int) -> Way {
    let found = || {
        let state = state().ok_or(Reason::Off)?;
        if is_stopped() {
            return Err(Reason::Stopped);
        }
        let number = usize::try_from(fd).map_err(|_| Reason::Number)?;
        let descriptor = state.descriptors.get(number).ok_or(Reason::Number)?;
        let known = descriptor.known().ok_or(Reason::FewCalls)?;
        let session = state.mounts.session(known.mount).ok_or(Reason::NotAttached)?;
        // As one that reads: what F_SETFL sets does not matter.
        let call = Call { direction: Direction::Read, fd, place: core::ptr::null_mut(), bytes: 0, at: None };
        let mut ready = Ready { state, descriptor, session, known, at_end: false };
        if ready.flags(&call)? & libc::O_PATH != 0 {
            return Err(Reason::Access);
        }
        Ok(session.make_durable(known.file))
    };
    match found() {
        Ok(true) => Way::Direct,
        Ok(false) => Way::Kernel(Reason::Sync),
        Err(reason) => Way::Kernel(reason),
    }
}

/// How far a call has come.
pub enum Progress {
    /// What it returns.
    Returns(isize),
    /// All of it is to be done by the kernel.
    Untouched(Way),
}

/// Tries a call. `cancel` is run before anything is done that could not be taken back.
///
/// # Safety
/// The memory is the program's own for `bytes` bytes, as for the call.
#[inline]
pub unsafe fn direct(call: &Call, cancel: impl FnOnce()) -> Progress {
    let mut place = None;
    let ready = match ready(call, &mut place) {
        Ok(ready) => ready,
        Err(reason) => return Progress::Untouched(Way::Kernel(reason)),
    };
    cancel();
    if ready.at_end {
        // SAFETY: the caller's promise.
        return match unsafe { ready.append(call) } {
            Ok(at) => {
                // As write(2) leaves it. If another file has the number by now, its offset must not be moved.
                if raw::is_single() || ready.is_still(call.fd) {
                    let _ = raw::seek(call.fd, at as i64 + call.bytes as i64);
                }
                count(call.direction, Way::Direct, call.bytes);
                Progress::Returns(call.bytes as isize)
            }
            Err(why) => {
                // The kernel may take the file to be as long as its room, and would write there: whoever reads
                // meanwhile would find zeros before it.
                raw::ask_size(call.fd);
                Progress::Untouched(Way::Mount(why))
            }
        };
    }
    if let Some(at) = call.at {
        // SAFETY: the caller's promise.
        return match unsafe { ready.run(call, at) } {
            Outcome::Done(bytes) => {
                count(call.direction, Way::Direct, bytes);
                Progress::Returns(bytes as isize)
            }
            Outcome::Kernel(why) => Progress::Untouched(Way::Mount(why)),
        };
    }
    // The range is claimed before anything is moved: no two that share the offset get the same one.
    let Ok(end) = raw::advance(call.fd, call.bytes as i64) else {
        return Progress::Untouched(Way::Kernel(Reason::Offset));
    };
    let at = end - call.bytes as i64;
    // Another thread may have put another file in its place since it was looked at: that one's offset was moved then.
    if !raw::is_single() && !ready.is_still(call.fd) {
        let _ = raw::advance(call.fd, -(call.bytes as i64));
        return Progress::Untouched(Way::Kernel(Reason::Changed));
    }
    // SAFETY: the caller's promise.
    let (way, result) = match unsafe { ready.run(call, at) } {
        Outcome::Done(bytes) => (Way::Direct, Ok(bytes)),
        // It may have asked the server meanwhile.
        Outcome::Kernel(why) if !raw::is_single() && !ready.is_still(call.fd) => {
            return Progress::Untouched(Way::Mount(why));
        }
        Outcome::Kernel(why) => {
            let result = match call.direction {
                // SAFETY: the caller's promise.
                Direction::Read => unsafe { raw::pread(call.fd, call.place.cast(), call.bytes, at) },
                Direction::Write => raw::pwrite(call.fd, call.place.cast(), call.bytes, at),
            };
            (Way::Mount(why), result)
        }
    };
    let moved = *result.as_ref().unwrap_or(&0);
    if moved < call.bytes && (raw::is_single() || ready.is_still(call.fd)) {
        // It cannot fail: the offset was there before.
        let _ = raw::advance(call.fd, -((call.bytes - moved) as i64));
    }
    count(call.direction, way, moved);
    Progress::Returns(result.map_or_else(failed, |bytes| bytes as isize))
}
