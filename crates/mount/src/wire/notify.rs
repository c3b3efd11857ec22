//! What the kernel is told unasked, and how a connection is brought to its end.

use super::abi::notify;
use super::reply::Reply;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// What the threads that serve a connection tell of themselves.
pub(crate) struct Threads {
    /// They are to end.
    pub ending: AtomicBool,
    /// One count each: of beginnings and ends of its operations, so it is odd while one is carried out.
    pub turns: Vec<AtomicU64>,
    /// Writes from the kernel's cache that have begun, by all.
    pub write_backs: AtomicU64,
    /// Those that wait for the kernel just now, which waits for others of them.
    pub waiting: AtomicUsize,
}

/// A connection to the kernel, for those who do not keep it alive.
#[derive(Clone)]
pub(crate) struct Connection {
    device: Weak<OwnedFd>,
    threads: Arc<Threads>,
    /// The mounted file system's number.
    mounted: Arc<OnceLock<u64>>,
}

impl Connection {
    pub fn new(device: &Arc<OwnedFd>, threads: Arc<Threads>) -> Connection {
        Connection { device: Arc::downgrade(device), threads, mounted: Arc::default() }
    }

    /// The number of the file system that is mounted by it is known.
    pub fn is_mounted(&self, device: u64) {
        let _ = self.mounted.set(device);
    }

    /// The number of the mounted file system; `None`: it is being mounted.
    pub fn mounted(&self) -> Option<u64> {
        self.mounted.get().copied()
    }

    /// Whether it is served.
    pub fn is_alive(&self) -> bool {
        self.device.strong_count() > 0
    }

    fn tell(&self, code: i32, content: &[u8]) -> rustix::io::Result<()> {
        let device = self.device.upgrade().ok_or(Errno::NODEV)?;
        let mut message = Reply::header(0, code, content.len()).to_vec();
        message.extend(content);
        rustix::io::retry_on_intr(|| rustix::io::write(&*device, &message)).map(drop)
    }

    /// Gives the kernel what an inode's contents are at an offset. Returns when it has it in its pages: other threads
    /// must answer meanwhile. `struct fuse_notify_store_out`, and the content.
    pub fn store(&self, node: u64, offset: u64, content: &[u8]) -> rustix::io::Result<()> {
        let device = self.device.upgrade().ok_or(Errno::NODEV)?;
        let size = u32::try_from(content.len()).map_err(|_| Errno::INVAL)?;
        let mut about = [node.to_ne_bytes(), offset.to_ne_bytes(), [0; 8]].concat();
        about[16..20].copy_from_slice(&size.to_ne_bytes());
        let header = Reply::header(0, notify::STORE, about.len() + content.len());
        let parts = [IoSlice::new(&header), IoSlice::new(&about), IoSlice::new(content)];
        rustix::io::retry_on_intr(|| rustix::io::writev(&*device, &parts)).map(drop)
    }

    /// Has the kernel forget an inode's attributes; its pages stay.
    pub fn forget_attributes(&self, node: u64) -> rustix::io::Result<()> {
        // A negative offset: no pages.
        let content = [node.to_ne_bytes(), (-1_i64).to_ne_bytes(), 0_i64.to_ne_bytes()];
        self.tell(notify::INVAL_INODE, &content.concat())
    }

    /// Has the kernel write what it holds of an inode's contents, and forget them. Returns when it has: other threads
    /// must answer meanwhile.
    pub fn forget_contents(&self, node: u64) -> rustix::io::Result<()> {
        // No length: to the end.
        self.forget_range(node, 0, 0)
    }

    /// As [`Connection::forget_contents`], of the pages of a range of bytes; also the attributes.
    pub fn forget_range(&self, node: u64, offset: i64, bytes: i64) -> rustix::io::Result<()> {
        self.tell(notify::INVAL_INODE, &[node.to_ne_bytes(), offset.to_ne_bytes(), bytes.to_ne_bytes()].concat())
    }

    /// Waits until the kernel has written nothing from its cache for a while, though the threads got round to what it
    /// asked: what it had collected has arrived, whatever others still ask. `busy`: for so long, if others do ask, as a
    /// write may stand behind that. Whether that came to be within the time.
    pub fn settle(&self, busy: Duration, limit: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(2);
        const STEPS: usize = 10;
        let start = Instant::now();
        let (mut quiet, mut turns_before, mut written_before) = (0, Vec::new(), 0);
        let (mut written_at, mut is_busy) = (start, false);
        while quiet < STEPS || is_busy && written_at.elapsed() < busy {
            let Some(device) = self.device.upgrade() else { return true };
            let mut poll = [PollFd::new(&*device, PollFlags::IN)];
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let asked = rustix::event::poll(&mut poll, Some(&none)).is_ok_and(|ready| ready > 0);
            let turns: Vec<u64> = self.threads.turns.iter().map(|turns| turns.load(Ordering::Acquire)).collect();
            let written = self.threads.write_backs.load(Ordering::Acquire);
            let unchanged = |(now, before): (&u64, &u64)| now % 2 == 1 && now == before;
            let stuck = turns.iter().zip(&turns_before).any(unchanged) || asked && turns == turns_before;
            quiet = if stuck || written != written_before { 0 } else { quiet + 1 };
            if written != written_before {
                (written_at, is_busy) = (Instant::now(), false);
            }
            is_busy |= asked;
            (turns_before, written_before) = (turns, written);
            drop(device);
            if start.elapsed() > limit {
                return false;
            }
            std::thread::sleep(STEP);
        }
        true
    }

    /// Waits for what syncfs(2) has had the kernel write back: it returns when those writes are under way, on Linux
    /// before 6.16 and on 6.18.44. What of it may be missing, as far as can be told soon.
    pub fn arrived(&self) -> Option<String> {
        const MISSING: &str = "the mount is so busy that what the kernel was still writing back may be missing";
        let all = self.settle(Duration::from_millis(200), Duration::from_secs(2));
        (!all).then(|| MISSING.to_owned())
    }

    /// Ends it: what the kernel still asks, it is told that nobody serves. `device`: the mounted file system's number;
    /// `inside`: something that is open in it. Whether that could be done.
    pub fn end(&self, device: u64, inside: Option<&File>) -> bool {
        self.threads.ending.store(true, Ordering::Release);
        if !self.is_alive() || controls(device).and_then(|abort| rustix::io::write(abort, b"1")).is_ok() {
            return true;
        }
        // A question for each thread to wake up by, and to end after.
        let Some(inside) = inside else { return !self.is_alive() };
        for _ in &self.threads.turns {
            let _ = rustix::fs::fstatvfs(inside);
        }
        true
    }
}

/// What a connection is aborted by when anything is written to it, in the kernel's file system of controls: where that
/// is mounted, or, as root alone can have it, where nobody sees it.
///
/// # Errors
/// `Errno::NOENT` if there is no such connection; `Errno::PERM` if this process may neither abort it nor mount that
/// file system; what else the kernel says.
pub(crate) fn controls(device: u64) -> rustix::io::Result<OwnedFd> {
    let name = format!("{}/abort", rustix::fs::minor(device));
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(format!("/sys/fs/fuse/connections/{name}"), flags, Mode::empty()) {
        Ok(file) => Ok(file),
        Err(_) => {
            let controls = rustix::mount::fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
            rustix::mount::fsconfig_create(&controls)?;
            let none = MountAttrFlags::empty();
            let mounted = rustix::mount::fsmount(&controls, FsMountFlags::FSMOUNT_CLOEXEC, none)?;
            rustix::fs::openat(&mounted, name, flags, Mode::empty())
        }
    }
}
