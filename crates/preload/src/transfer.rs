//! Reading and writing: directly where that is possible, which each call finds out for itself.

use crate::descriptors::{Descriptor, Known};
use crate::events::Proof;
use crate::mounts;
use crate::process::{State, state};
use crate::raw::{self, Errno, is_stopped};
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

impl Call {
    /// What it costs that the kernel does it, for want of trust: in questions to the kernel, each of which takes a
    /// microsecond.
    fn lost(&self) -> u32 {
        match self.direction {
            // The copy, at least; and the server's time when the kernel does not have the pages.
            Direction::Read => 1 + (self.bytes / 4096).min(64) as u32,
            Direction::Write => 50,
        }
    }
}

/// A call that can be direct: the descriptor means this file, and may be used so.
struct Ready {
    state: &'static State,
    descriptor: &'static Descriptor,
    session: &'static Session,
    known: Known,
    /// By `O_APPEND`: at the end of the file, wherever that is.
    at_end: bool,
    /// As F_GETFL has them, but for those that do not matter to the call.
    flags: c_int,
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
    let ready = place.insert(Ready { state, descriptor, session, known, at_end: false, flags: 0 });
    // It need not be asked what can only be the kernel's. Of a write it has to be known whether the offset matters.
    if call.at.is_none() && call.direction == Direction::Read && !ready.may_be_alone() {
        return Err(Reason::Shared);
    }
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
    if let Some(reason) = refused {
        descriptor.went_not(REST_WRITES);
        return Err(reason);
    }
    ready.flags = flags;
    if call.at.is_some() || ready.is_alone() || ready.at_end && !ready.is_read_too() {
        return Ok(ready);
    }
    if ready.may_be_alone() {
        trust::missed(state, call.lost());
    }
    if ready.at_end {
        // The kernel leaves the offset where it takes the end to be.
        raw::ask_size(call.fd);
    }
    Err(Reason::Shared)
}

impl Ready {
    /// Whether it is proven that the descriptor means the file.
    #[inline]
    fn is_proven(&self) -> bool {
        trust::holds(self.state) && self.known.proof.holds(&self.state.watch, &self.descriptor.number)
    }

    /// Whether nobody but this process has anything to do with the offset of the open file, by this number: it was
    /// opened by this process, as all of whose calls are seen that could give it to another one.
    ///
    /// A direct call at the offset is two steps or more, which are one for the kernel: it reads or stores, and moves
    /// the offset, with the open file's lock held. In between, whoever else has the open file finds an offset that
    /// belongs to a call which has not happened, or only half: he would write behind the end of the file, or over what
    /// another one has just written, and a process that is killed there would leave it so. The kernel has no way to
    /// compare an offset and move it. So the offset must be nobody else's. It is somebody's
    ///
    /// - who has started this process, or was started by it: fork(2), vfork(2) and posix_spawn(3) with or without
    ///   execve(2) leave both with one open file. What was open when this program began is never taken for its own
    ///   (`prog > file` is, but nothing says so), nor what was open before a child was made, in either of them;
    /// - who got it by a message (SCM_RIGHTS): neither what was open before one was sent is taken for this process's
    ///   own, nor what came by one, for nobody has seen that opened here;
    /// - of this process by another number (dup(2), F_DUPFD): with one thread that number is used by it, too; with
    ///   several, calls by neither number are direct;
    /// - of this process in another thread, which waits, as this one does for it (`turns`);
    /// - not by opening /proc/PID/fd/N: that is another open file, with an offset of its own.
    ///
    /// What is left is a handler of a signal that comes between two steps. It finds the offset where it is when the
    /// call is over: it was moved before, by exactly what will be done ([`Ready::at_offset`]).
    #[inline]
    fn is_alone(&self) -> bool {
        self.is_proven() && self.known.proof.is_own(&self.state.watch) && self.is_in_turn()
    }

    /// Whether that can turn out when it is asked.
    #[inline]
    fn may_be_alone(&self) -> bool {
        trust::is_possible() && self.descriptor.number.is_own(&self.state.watch) && self.is_in_turn()
    }

    /// Whether those threads that use the offset take turns.
    #[inline]
    fn is_in_turn(&self) -> bool {
        raw::is_single() || !self.descriptor.number.is_copied()
    }

    /// A call at the offset, when it is this thread's turn, and the offset is still nobody else's then.
    #[inline]
    fn in_turn(&self, direction: Direction, call: impl FnOnce() -> Progress) -> Progress {
        if raw::is_single() {
            return call();
        }
        let shared = Progress::Untouched(Way::Kernel(Reason::Shared));
        let turn = &self.descriptor.number.turn;
        // What writes is to be told if O_APPEND has been set meanwhile.
        let is_as_before =
            || direction == Direction::Read || self.known.proof.flags(&self.state.watch) == Some(self.flags);
        let call = || if self.is_alone() && is_as_before() { Some(call()) } else { None };
        let progress = turn.run(&self.state.watch.moving, call);
        progress.flatten().unwrap_or(shared)
    }

    /// Whether it is open to be read, too: then the offset matters even if writes go to the end.
    #[inline]
    fn is_read_too(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_WRONLY
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

    /// The call at the offset of the open file, which is nobody else's ([`Ready::is_alone`], [`Ready::in_turn`]).
    ///
    /// A range is claimed by moving the offset over it before anything is done, so that a signal handler that comes in
    /// between goes on behind it, as after the call. It is never more than what is there to be read; a write that does
    /// not go directly is done by the kernel, at the same place. Only what has failed, or has shrunk since, is given
    /// back, and only if the offset is still where it was left.
    ///
    /// # Safety
    /// As of the call.
    #[inline]
    unsafe fn at_offset(&self, call: &Call) -> Progress {
        let bytes = match self.claimable(call) {
            Ok(0) => {
                // SAFETY: the caller's promise.
                return match unsafe { self.end_of_file(call) } {
                    Ok(()) => Progress::Returns(0),
                    Err(way) => Progress::Untouched(way),
                };
            }
            Ok(bytes) => bytes,
            Err(way) => return Progress::Untouched(way),
        };
        let Ok(end) = raw::advance(call.fd, bytes as i64) else {
            return Progress::Untouched(Way::Kernel(Reason::Offset));
        };
        self.descriptor.number.left_at(end);
        // Also if a handler has moved it since it was looked at: what was claimed is this call's.
        let (call, at) = (&Call { bytes, ..*call }, end - bytes as i64);
        // SAFETY: the caller's promise.
        let (way, result) = match unsafe { self.run(call, at) } {
            Outcome::Done(moved) => (Way::Direct, Ok(moved)),
            Outcome::Kernel(why) => {
                let result = match call.direction {
                    // SAFETY: the caller's promise.
                    Direction::Read => unsafe { raw::pread(call.fd, call.place.cast(), bytes, at) },
                    Direction::Write => raw::pwrite(call.fd, call.place.cast(), bytes, at),
                };
                (Way::Mount(why), result)
            }
        };
        let moved = *result.as_ref().unwrap_or(&0);
        if moved < bytes {
            self.descriptor.number.moved();
            settle(call.fd, end, at + moved as i64);
        }
        count(call.direction, way, moved);
        Progress::Returns(result.map_or_else(failed, |bytes| bytes as isize))
    }

    /// As much as the offset can be moved by: what is written, or what is there to be read.
    #[inline]
    fn claimable(&self, call: &Call) -> Result<usize, Way> {
        if call.direction == Direction::Write {
            return Ok(call.bytes);
        }
        // Whatever it is that others append is not known here.
        let size = self.session.size(self.known.file).map_err(|why| {
            self.note(call, Outcome::Kernel(why));
            Way::Mount(why)
        })?;
        let at = match self.descriptor.number.offset() {
            Some(at) => at,
            None => raw::advance(call.fd, 0).map_err(|_| Way::Kernel(Reason::Offset))?.unsigned_abs(),
        };
        let left = size.saturating_sub(at);
        Ok(call.bytes.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }

    /// Reads where there was nothing to read: whether there still is nothing. The offset stays.
    ///
    /// # Safety
    /// As of the call.
    #[cold]
    unsafe fn end_of_file(&self, call: &Call) -> Result<(), Way> {
        let at = raw::advance(call.fd, 0).map_err(|_| Way::Kernel(Reason::Offset))?;
        // SAFETY: the caller's promise.
        match unsafe { self.run(call, at) } {
            Outcome::Done(0) => {
                count(call.direction, Way::Direct, 0);
                Ok(())
            }
            // Others have written since: what they wrote is read with the offset's move, by the kernel.
            Outcome::Done(_) => Err(Way::Kernel(Reason::Offset)),
            Outcome::Kernel(why) => Err(Way::Mount(why)),
        }
    }

    /// The call at the end of the file; whether it was done.
    ///
    /// # Safety
    /// As of the call.
    #[inline]
    unsafe fn at_end(&self, call: &Call) -> Progress {
        self.descriptor.number.moved();
        let before = if self.is_read_too() { raw::advance(call.fd, 0).ok() } else { None };
        // SAFETY: the caller's promise.
        match unsafe { self.append(call) } {
            Ok(at) => {
                let end = at as i64 + call.bytes as i64;
                match before {
                    // A handler may have appended, too.
                    Some(before) => settle(call.fd, before, end),
                    None if raw::is_single() => drop(raw::seek(call.fd, end)),
                    // As write(2) leaves it. It means nothing to writes: of several at once any may come last. If
                    // another file has the number by now, its offset must not be moved; nor does it get one meanwhile.
                    None => {
                        let seek = || self.is_still(call.fd).then(|| raw::seek(call.fd, end));
                        let _ = self.descriptor.number.turn.run(&self.state.watch.moving, seek);
                    }
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
        }
    }

    /// Appends; where.
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
        let mut ready = Ready { state, descriptor, session, known, at_end: false, flags: 0 };
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

/// Puts an offset from where a call of this thread has left it to where it belongs, unless a signal handler has moved
/// it since: what that has done came after the call.
#[cold]
fn settle(fd: c_int, left: i64, to: i64) {
    let signals = raw::block_signals();
    if raw::advance(fd, 0).is_ok_and(|at| at == left) {
        let _ = raw::seek(fd, to);
    }
    raw::set_signals(signals);
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
        let at_end = || unsafe { ready.at_end(call) };
        return if ready.is_read_too() { ready.in_turn(call.direction, at_end) } else { at_end() };
    }
    let Some(at) = call.at else {
        // SAFETY: the caller's promise.
        return ready.in_turn(call.direction, || unsafe { ready.at_offset(call) });
    };
    // SAFETY: the caller's promise.
    match unsafe { ready.run(call, at) } {
        Outcome::Done(bytes) => {
            count(call.direction, Way::Direct, bytes);
            Progress::Returns(bytes as isize)
        }
        Outcome::Kernel(why) => Progress::Untouched(Way::Mount(why)),
    }
}
