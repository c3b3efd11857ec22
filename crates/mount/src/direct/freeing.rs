//! Has the kernel forget pages, by a call that it makes with the inode's lock held and that another thread answers. It
//! waits for that lock, which whoever writes to the file can hold for as long as the memory that he writes from is not
//! there: so nothing else waits for who makes the call, neither other questions nor the end of the mount.

use super::files::Files;
use pocketstone_lease::message::{self, Answer};
use pocketstone_vfs::Ino;
use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// More questions are answered that the file is in use.
const WAITING_MAX: usize = 64;
/// The extended attribute that is set to have a file's pages forgotten. Setting one of `system.` takes the inode's lock
/// and asks for no permissions, which the kernel would have to ask this server about; nor has it to be opened for that,
/// as for fsync(2).
const FORGET: &str = "system.scmfs.forget";
/// That this is done is said by an error: nothing was set, which would change the file's times.
pub(crate) const FORGOTTEN: Errno = Errno::CANCELED;

/// Whether an extended attribute is set to have pages forgotten.
pub(crate) fn is_forget(name: &[u8]) -> bool {
    name == FORGET.as_bytes()
}

/// A file whose pages the kernel is to forget, and who wants to know when it has.
pub(super) struct Job {
    pub connection: OwnedFd,
    pub ino: Ino,
    /// Open as a path alone.
    pub file: OwnedFd,
}

impl Job {
    /// Does it, and answers.
    pub fn run(self, files: &Files) {
        let Job { connection, ino, file } = self;
        let this = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        files.want(ino, this);
        let done = forget(&file);
        files.want_no_more(ino, this);
        // It keeps the mount in use: who hears of the answer may unmount at once.
        drop(file);
        match done {
            Ok(()) => message::reply(connection.as_fd(), &Answer::default(), &[]),
            Err(error) => refuse(&connection, error),
        }
    }
}

fn forget(file: &OwnedFd) -> Result<()> {
    // An older Linux has to be made to wait for what it writes back.
    if super::stores_directly() {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let answer = rustix::fs::setxattr(path, FORGET, &[], XattrFlags::empty());
        // On a mount that is read-only, or was made so, nothing can be set.
        if answer == Err(FORGOTTEN) {
            return Ok(());
        }
    }
    // Opened anew: fsync(2) tells of an error once for each open file.
    rustix::fs::fsync(&pocketstone_lease::reopen(file.as_fd())?)
}

/// A job takes a few microseconds, unless somebody writes from memory that does not come. Nobody is made to wait for
/// one that has taken so long.
const STUCK: Duration = Duration::from_millis(50);

/// A thread for what nobody else has time to do, which ends after the last job once this is dropped.
pub(super) struct Freeing {
    jobs: SyncSender<Job>,
    /// When it began what it does.
    since: Arc<Mutex<Option<Instant>>>,
}

fn lock(since: &Mutex<Option<Instant>>) -> MutexGuard<'_, Option<Instant>> {
    since.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Freeing {
    pub fn start(files: Arc<Files>) -> std::io::Result<Freeing> {
        let (sender, jobs): (_, Receiver<Job>) = sync_channel(WAITING_MAX);
        let since = Arc::new(Mutex::default());
        let begun = since.clone();
        let serve = move || {
            for job in jobs {
                *lock(&begun) = Some(Instant::now());
                job.run(&files);
                *lock(&begun) = None;
            }
        };
        std::thread::Builder::new().name("forgetting".into()).spawn(serve)?;
        Ok(Freeing { jobs: sender, since })
    }

    pub fn free(&self, job: Job) {
        let since = *lock(&self.since);
        if since.is_some_and(|since| since.elapsed() > STUCK) {
            return refuse(&job.connection, Errno::BUSY);
        }
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = self.jobs.try_send(job) {
            refuse(&job.connection, Errno::BUSY);
        }
    }
}

/// Answers that it cannot be done.
pub(super) fn refuse(connection: &OwnedFd, error: Errno) {
    message::reply(connection.as_fd(), &Answer::refusal(error), &[]);
}
