//! Has the kernel forget pages, by fsync(2), which another thread answers. It waits for the inode's lock, which whoever
//! writes to the file can hold for as long as the memory that he writes from is not there: so nothing else waits for
//! this thread, neither other questions nor the end of the mount.

use super::files::{Files, Wanted};
use super::lease::Appends;
use pocketstone_lease::Slots;
use pocketstone_lease::message::{self, Answer};
use pocketstone_vfs::Ino;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// More questions are answered that the file is in use.
const WAITING_MAX: usize = 64;

/// A file whose pages the kernel is to forget, and who wants to know when it has.
pub(super) struct Job {
    pub connection: OwnedFd,
    pub ino: Ino,
    pub file: OwnedFd,
    /// The process that is to have the end of the file then, and what it appends.
    pub lease: Option<(Arc<Slots>, Appends)>,
}

/// The thread, which ends after the last job once this is dropped.
pub(super) struct Freeing(SyncSender<Job>);

impl Freeing {
    pub fn start(files: Arc<Files>) -> std::io::Result<Freeing> {
        let (sender, jobs) = sync_channel(WAITING_MAX);
        std::thread::Builder::new().name("forgetting".into()).spawn(move || serve(&files, &jobs))?;
        Ok(Freeing(sender))
    }

    pub fn free(&self, job: Job) {
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = self.0.try_send(job) {
            refuse(&job.connection, Errno::BUSY);
        }
    }
}

fn serve(files: &Files, jobs: &Receiver<Job>) {
    let this = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    for Job { connection, ino, file, lease } in jobs {
        files.want(ino, Some(Wanted { thread: this, lease }));
        let done = rustix::fs::fsync(&file);
        files.want(ino, None);
        match done {
            Ok(()) => message::reply(connection.as_fd(), &Answer::default(), &[]),
            Err(error) => refuse(&connection, error),
        }
    }
}

/// Answers that it cannot be done.
pub(super) fn refuse(connection: &OwnedFd, error: Errno) {
    message::reply(connection.as_fd(), &Answer::refusal(error), &[]);
}
