//! What processes have mapped of files.

use super::Shared;
use super::freeing::refuse;
use crate::mountable::{Mountable, errno};
use pocketstone_lease::message::{self, Answer};
use pocketstone_media::marked;
use pocketstone_scmfs::Running;
use pocketstone_vfs::Ino;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The file system whose files need no writing back.
const TMPFS: u64 = 0x0102_1994;

/// More questions are answered that the server is busy.
const WAITING_MAX: usize = 64;

/// Files that are mapped, perhaps.
pub(super) struct Mappings<Open> {
    /// The region, to look for marks on it by.
    region: Arc<OwnedFd>,
    /// In memory, so that it is known that they are mapped, and in use.
    files: Mutex<HashMap<Ino, Open>>,
    /// Held while a region is sent, until this process has it open no more: whoever got it may be done with it before.
    sending: Arc<Mutex<()>>,
}

impl<Open> Mappings<Open> {
    /// Of a region. `None`: fences, or nothing at all, would not make durable what is stored there; or the kernel
    /// refuses.
    pub fn of(region: &pocketstone_media::Shared<'_>) -> Option<Mappings<Open>> {
        // SAFETY: by it nothing is stored here; whoever it is sent to stores where the volume lets others store.
        let file = unsafe { region.file() };
        let in_memory = || rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as u64 == TMPFS);
        if !region.flushed && !in_memory() {
            return None;
        }
        let own = pocketstone_lease::reopen(file).ok()?;
        // Refused where such locks do not exist.
        marked::is_marked(own.as_fd(), None).ok()?;
        Some(Mappings { region: Arc::new(own), files: Mutex::default(), sending: Arc::default() })
    }

    fn files(&self) -> MutexGuard<'_, HashMap<Ino, Open>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any file may be mapped.
    pub fn are_any(&self) -> bool {
        !self.files().is_empty()
    }

    /// Whether a file may be mapped.
    pub fn holds(&self, ino: Ino) -> bool {
        self.files().contains_key(&ino)
    }

    /// A file that is about to be mapped by what is returned, until nobody has that open or mapped any more.
    fn begin(&self, ino: Ino, open: Open, write: bool) -> rustix::io::Result<OwnedFd> {
        let how = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let path = format!("/proc/self/fd/{}", self.region.as_raw_fd());
        let region = rustix::fs::open(path, how | OFlags::CLOEXEC, Mode::empty())?;
        // With the lock: nobody finds that the mark is missing, and then forgets the file.
        let mut files = self.files();
        marked::mark(region.as_fd(), ino)?;
        let before = files.insert(ino, open);
        drop(files);
        // Dropping one may store: not with the lock held.
        drop(before);
        Ok(region)
    }

    /// Sends a region to who is to map it.
    fn send(&self, connection: &OwnedFd, region: OwnedFd) {
        let sending = self.sending.lock();
        message::reply(connection.as_fd(), &Answer::default(), &[region.as_fd()]);
        drop(region);
        drop(sending);
    }

    /// Says as long as it is so that a file is mapped.
    fn running(&self, ino: Ino) -> Running {
        let (region, sending) = (self.region.clone(), self.sending.clone());
        // What cannot be told is mapped.
        let is_marked = move || marked::is_marked(region.as_fd(), Some(ino)).unwrap_or(true);
        Box::new(move || {
            is_marked() && {
                drop(sending.lock());
                is_marked()
            }
        })
    }

    /// Lets go of the files that nobody has mapped any more.
    pub fn sweep(&self) {
        let mut files = self.files();
        let is_over = |ino: &Ino| matches!(marked::is_marked(self.region.as_fd(), Some(*ino)), Ok(false));
        let over: Vec<Ino> = files.keys().copied().filter(is_over).collect();
        let gone: Vec<Open> = over.iter().filter_map(|ino| files.remove(ino)).collect();
        drop(files);
        // Dropping them may delete files: not with the lock held.
        drop(gone);
    }

    /// Lets go of all of them: the volume is about to be closed, and to be opened by nobody while they are mapped.
    pub fn forget(&self) {
        let all = std::mem::take(&mut *self.files());
        drop(all);
    }
}

/// What a process wants to map.
pub(super) struct Wish {
    pub connection: OwnedFd,
    pub ino: Ino,
    /// To store there, too.
    pub write: bool,
    pub offset: u64,
    pub bytes: u64,
}

/// A thread that has ranges of files lie still: that may take space, and zeros in it, while others are answered. It
/// waits for the volume alone. Dropping it ends it, after what it is at.
pub(super) struct Mapper {
    /// None: there is nothing to map.
    wishes: Option<SyncSender<Wish>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Mapper {
    pub fn start<V: Mountable>(shared: Arc<Shared<V>>) -> std::io::Result<Mapper> {
        let ends = Arc::<AtomicBool>::default();
        if shared.mappings.is_none() {
            return Ok(Mapper { wishes: None, ends, thread: None });
        }
        let (sender, wishes) = sync_channel::<Wish>(WAITING_MAX);
        let ended = ends.clone();
        let serve = move || {
            for wish in wishes {
                match shared.lie_still(&wish) {
                    _ if ended.load(Ordering::Relaxed) => return,
                    Ok(region) => {
                        if let Some(mappings) = &shared.mappings {
                            mappings.send(&wish.connection, region);
                        }
                    }
                    Err(error) => refuse(&wish.connection, error),
                }
            }
        };
        let thread = std::thread::Builder::new().name("mapping".into()).spawn(serve)?;
        Ok(Mapper { wishes: Some(sender), ends, thread: Some(thread) })
    }

    pub fn map(&self, wish: Wish) {
        let Some(wishes) = &self.wishes else { return refuse(&wish.connection, Errno::OPNOTSUPP) };
        if let Err(TrySendError::Full(wish) | TrySendError::Disconnected(wish)) = wishes.try_send(wish) {
            refuse(&wish.connection, Errno::BUSY);
        }
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.wishes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<V: Mountable> Shared<V> {
    fn lie_still(&self, wish: &Wish) -> rustix::io::Result<OwnedFd> {
        let Wish { ino, write, offset, bytes, .. } = *wish;
        let mappings = self.mappings.as_ref().ok_or(Errno::OPNOTSUPP)?;
        let open = self.open(ino).map_err(|error| errno(&error))?;
        let region = mappings.begin(ino, open.clone(), write)?;
        let hold = || Some(mappings.running(ino));
        let lies = self.volume.lie_still(&open, offset, bytes, &hold).map_err(|error| errno(&error))?;
        if lies { Ok(region) } else { Err(Errno::OPNOTSUPP) }
    }
}
