//! The mounts that this process is direct on.

use crate::raw;
use crate::ways::Reason;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use pocketstone_lease::{Access, Refusal, Session};
use std::os::fd::BorrowedFd;

/// So many mounts are asked in the life of a process.
const MOST: usize = 8;
/// A mount that did not answer is asked so often.
const TRIES: u32 = 3;
const FREE: u32 = 0;
const ATTACHED: u32 = 1;
const REFUSED: u32 = 2;
const LEFT: u32 = 3;

/// What the environment does not rule out: as of [`ACCESS`].
static WANTED: AtomicU32 = AtomicU32::new(0);
const ACCESS: [Access; 4] = [Access::Read, Access::Write, Access::Append, Access::Map];
/// The process that this memory belongs to: not a child of vfork(2), which has it for a moment, and whose death would
/// be taken for the end of all that was attached.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// How long a file that the kernel keeps coming back to is left to it, in ms; `u32::MAX`: as the mount has it.
static REST_MS: AtomicU32 = AtomicU32::new(u32::MAX);

/// From now on this process attaches, to do as much as that.
pub fn begin(wanted: Access, rest_ms: Option<u32>) {
    REST_MS.store(rest_ms.unwrap_or(u32::MAX), Ordering::Relaxed);
    WANTED.store(wanted as u32, Ordering::Relaxed);
    OWNER.store(raw::pid(), Ordering::Relaxed);
}

/// Called in a child of fork(2).
pub extern "C" fn child() {
    OWNER.store(raw::pid(), Ordering::Relaxed);
}

/// The process that the memory belongs to.
#[inline]
pub fn owner() -> c_int {
    OWNER.load(Ordering::Relaxed)
}

/// Whether this is the process that the memory belongs to.
pub fn is_owner() -> bool {
    OWNER.load(Ordering::Relaxed) == raw::pid()
}

/// A mount, or a place for one: zeros. Where a child finds zeros it has no part in its parent's session, whose memory
/// it does not have either; what little else a session has is left.
struct Mount {
    status: AtomicU32,
    /// Refused so often.
    tries: AtomicU32,
    device: AtomicU64,
    session: UnsafeCell<MaybeUninit<Session>>,
    refusal: AtomicU32,
}

/// All of them.
pub struct Mounts {
    /// One thread at a time attaches.
    attaching: AtomicU32,
    mounts: [Mount; MOST],
}

// SAFETY: a session is written by the one thread that attaches, before `status` says so, and stays.
unsafe impl Sync for Mounts {}

impl Mounts {
    /// The session of an attached mount.
    #[inline]
    pub fn session(&self, place: u32) -> Option<&Session> {
        let mount = self.mounts.get(place as usize)?;
        // SAFETY: the status says that the session was written, and nothing changes it any more.
        (mount.status.load(Ordering::Acquire) == ATTACHED).then(|| unsafe { (*mount.session.get()).assume_init_ref() })
    }

    /// The sessions of all attached mounts.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        (0..MOST as u32).filter_map(|place| self.session(place))
    }

    /// Nobody finds a session any more.
    pub fn forget(&self) {
        let attached = self.mounts.iter().filter(|mount| mount.status.load(Ordering::Relaxed) == ATTACHED);
        attached.for_each(|mount| mount.status.store(LEFT, Ordering::Release));
    }

    /// The mount of a regular file, attached to if it was not. A file system in user space that is not known yet is
    /// asked; others are not.
    pub fn find(&self, fd: c_int, device: u64) -> Result<(u32, &Session), Reason> {
        // Whoever needs not ask waits for nobody who does, nor does a signal handler that has interrupted him.
        if let Some(place) = self.attached(device) {
            return self.session(place).map(|session| (place, session)).ok_or(Reason::NotAttached);
        }
        // A handler's stack of its own may be too small to attach on.
        if raw::on_alternate_stack() {
            return Err(Reason::Attaching);
        }
        if self.attaching.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(Reason::Attaching);
        }
        let found = self.find_alone(fd, device);
        self.attaching.store(0, Ordering::Release);
        let place = found?;
        self.session(place).map(|session| (place, session)).ok_or(Reason::NotAttached)
    }

    fn attached(&self, device: u64) -> Option<u32> {
        let is_attached = |mount: &Mount| {
            mount.status.load(Ordering::Acquire) == ATTACHED && mount.device.load(Ordering::Relaxed) == device
        };
        self.mounts.iter().position(is_attached).map(|place| place as u32)
    }

    fn find_alone(&self, fd: c_int, device: u64) -> Result<u32, Reason> {
        for (place, mount) in self.mounts.iter().enumerate() {
            let status = mount.status.load(Ordering::Relaxed);
            if status != FREE && mount.device.load(Ordering::Relaxed) != device {
                continue;
            }
            let tries = mount.tries.load(Ordering::Relaxed);
            match status {
                ATTACHED => return Ok(place as u32),
                REFUSED if tries >= TRIES => return Err(Reason::NotAttached),
                FREE if !raw::on_fuse(fd) => return Err(Reason::NotOnMount),
                _ => {}
            }
            if !is_owner() {
                return Err(Reason::OtherProcess);
            }
            mount.device.store(device, Ordering::Relaxed);
            match attach(fd, device) {
                Ok(session) => {
                    // SAFETY: this thread alone attaches, and nobody looks before the status says that it is there.
                    unsafe { (*mount.session.get()).write(session) };
                    mount.status.store(ATTACHED, Ordering::Release);
                    return Ok(place as u32);
                }
                Err(refusal) => {
                    let answered = !matches!(refusal, Refusal::Failed(_));
                    mount.tries.store(if answered { TRIES } else { tries + 1 }, Ordering::Relaxed);
                    mount.refusal.store(code(refusal), Ordering::Relaxed);
                    mount.status.store(REFUSED, Ordering::Release);
                    return Err(Reason::NotAttached);
                }
            }
        }
        Err(Reason::TooManyMounts)
    }

    /// The server of a mount has ended: another mount may have its number, and is asked anew.
    pub fn ended(&self, place: u32) {
        if let Some(mount) = self.mounts.get(place as usize) {
            mount.device.store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// Whether a mount was asked.
    pub fn has_met(&self) -> bool {
        self.mounts.iter().any(|mount| mount.status.load(Ordering::Acquire) != FREE)
    }

    /// What was refused, in words.
    pub fn refusals(&self) -> impl Iterator<Item = &'static str> {
        let refused = self.mounts.iter().filter(|mount| mount.status.load(Ordering::Acquire) == REFUSED);
        refused.map(|mount| match mount.refusal.load(Ordering::Relaxed) {
            0 => Refusal::Unknown.name(),
            1 => Refusal::Version.name(),
            2 => Refusal::Denied.name(),
            _ => "no answer or no memory",
        })
    }
}

fn code(refusal: Refusal) -> u32 {
    match refusal {
        Refusal::Unknown => 0,
        Refusal::Version => 1,
        Refusal::Denied => 2,
        Refusal::Failed(_) => 3,
    }
}

fn attach(fd: c_int, device: u64) -> Result<Session, Refusal> {
    // SAFETY: the descriptor was open a moment ago; if the program closes it meanwhile these calls fail, or ask another
    // file, which the device number tells.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    // Who may not store is let in to read.
    let wanted = ACCESS[(WANTED.load(Ordering::Relaxed) as usize).min(ACCESS.len() - 1)];
    let session = Session::attach(fd, wanted)?;
    if session.device() != device {
        return Err(Refusal::Unknown);
    }
    match REST_MS.load(Ordering::Relaxed) {
        u32::MAX => Ok(session),
        ms => Ok(session.resting(Duration::from_millis(ms.into()))),
    }
}
