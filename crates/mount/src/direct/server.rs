//! Answers the processes that reach the content of files without the kernel.

use super::freeing::{Freeing, Job, refuse};
use super::{Shared, random};
use crate::mountable::Mountable;
use pocketstone_lease::Slots;
use pocketstone_lease::message::{self, Answer, Peer, Question};
use pocketstone_vfs::Ino;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Times that nobody asked for are noted this often, so that they are stored as promised.
const PERIOD: Timespec = Timespec { tv_sec: 2, tv_nsec: 500_000_000 };
/// More would keep the thread from answering. Each takes a descriptor.
const PROCESSES_MAX: u64 = 1024;
/// No question is taken for so long when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// A process that attached.
struct Process {
    /// Readable when it has ended.
    end: OwnedFd,
    slots: Option<Arc<Slots>>,
}

/// The thread's own.
pub(super) struct Server<V: Mountable> {
    shared: Arc<Shared<V>>,
    freeing: Freeing,
    processes: HashMap<u64, Process>,
}

impl<V: Mountable> Server<V> {
    pub fn new(shared: Arc<Shared<V>>) -> std::io::Result<Server<V>> {
        let freeing = Freeing::start(shared.files.clone())?;
        Ok(Server { shared, freeing, processes: HashMap::new() })
    }

    pub fn serve(&mut self, listener: &OwnedFd, stop: &OwnedFd) {
        let same = self.shared.clone();
        // Without it nobody is direct.
        let _serving = same.files.table.serve();
        let period = Duration::new(PERIOD.tv_sec.unsigned_abs(), PERIOD.tv_nsec as u32);
        let mut noted = Instant::now();
        loop {
            let ends: Vec<(u64, &OwnedFd)> =
                self.processes.iter().map(|(token, process)| (*token, &process.end)).collect();
            let polled = [stop, listener].into_iter().chain(ends.iter().map(|(_, end)| *end));
            let mut polled: Vec<PollFd<'_>> = polled.map(|file| PollFd::new(file, PollFlags::IN)).collect();
            let _ = rustix::event::poll(&mut polled, (!ends.is_empty()).then_some(&PERIOD));
            let is_ready = |poll: &PollFd<'_>| !poll.revents().is_empty();
            if is_ready(&polled[0]) {
                return;
            }
            let asked = is_ready(&polled[1]);
            let ended: Vec<u64> = polled[2..]
                .iter()
                .zip(&ends)
                .filter(|(poll, _)| is_ready(poll))
                .map(|(_, (token, _))| *token)
                .collect();
            ended.into_iter().for_each(|token| self.end(token));
            // Not with every question: that would take each of them as long as there are files.
            if noted.elapsed() >= period {
                self.shared.note_all_times();
                noted = Instant::now();
            }
            match asked.then(|| message::accept(listener)) {
                Some(Ok(connection)) => self.answer(connection),
                // It would be ready again at once.
                Some(Err(_)) => std::thread::sleep(PAUSE),
                None => {}
            }
        }
    }

    /// A process has ended, perhaps in the middle of a store. What the kernel holds of that file may be older; whoever
    /// is direct next has it forgotten, as ever.
    fn end(&mut self, token: u64) {
        let Some(slots) = self.processes.remove(&token).and_then(|process| process.slots) else { return };
        // It notes the time before it stores.
        self.shared.note_all_times();
        slots.end();
        let none_left = {
            let mut all = self.shared.files.stores.all();
            all.retain(|other| !Arc::ptr_eq(other, &slots));
            all.is_empty()
        };
        if none_left {
            self.shared.files.nobody_stores();
            let kept = std::mem::take(&mut *self.shared.kept());
            // Dropping them may delete files: not with the lock held.
            drop(kept);
        }
    }

    fn answer(&mut self, connection: OwnedFd) {
        // Who may not ask is not listened to.
        let Some(peer) = message::peer(connection.as_fd()).filter(may_attach) else {
            return refuse(&connection, Errno::ACCESS);
        };
        let Some((question, file)) = message::receive(connection.as_fd()) else {
            return refuse(&connection, Errno::PROTO);
        };
        let answered = match question {
            Question::Attach { write } => self.attach(connection.as_fd(), write, peer.pid),
            Question::File { token, ino } => {
                self.file(token, ino).map(|answer| message::reply(connection.as_fd(), &answer, &[]))
            }
            Question::Free { token, index } => match self.to_free(token, index, file) {
                Ok((ino, file)) => return self.freeing.free(Job { connection, ino, file }),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = answered {
            refuse(&connection, error);
        }
    }

    fn attach(&mut self, connection: BorrowedFd<'_>, write: bool, pid: Pid) -> rustix::io::Result<()> {
        let shared = self.shared.volume.shared().ok_or(Errno::OPNOTSUPP)?;
        let descriptors = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if self.processes.len() as u64 >= PROCESSES_MAX.min(descriptors / 2) {
            return Err(Errno::AGAIN);
        }
        // Its number means it as long as it waits for the answer.
        let end = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        let table = self.shared.files.table.share()?;
        let write = write && self.shared.stores;
        let made = if write { Some(Slots::new()?) } else { None };
        // Who may store shares the lock that keeps a second server away; who reads cannot store.
        let own = if write { None } else { Some(pocketstone_lease::reopen(shared.file)?) };
        let region = own.as_ref().map_or(shared.file, AsFd::as_fd);
        let (token, region_bytes) = (random(), shared.bytes);
        let answer = Answer { write, flushed: shared.flushed, token, region_bytes, ..Answer::default() };
        let (slots, file) = made.map_or((None, None), |(slots, file)| (Some(Arc::new(slots)), Some(file)));
        let files: Vec<BorrowedFd<'_>> =
            [table.as_fd(), region].into_iter().chain(file.as_ref().map(AsFd::as_fd)).collect();
        // Known before it can store.
        self.shared.files.stores.all().extend(slots.clone());
        self.processes.insert(token, Process { end, slots });
        message::reply(connection, &answer, &files);
        Ok(())
    }

    fn process(&self, token: u64) -> rustix::io::Result<&Process> {
        self.processes.get(&token).ok_or(Errno::ACCESS)
    }

    /// The entry of a file that the kernel knows, because it is open.
    fn file(&self, token: u64, ino: u64) -> rustix::io::Result<Answer> {
        let stores = self.process(token)?.slots.is_some();
        let ino = Ino::try_from(ino).map_err(|_| Errno::NOENT)?;
        let shared = &self.shared;
        if !shared.known.knows(ino) {
            return Err(Errno::NOENT);
        }
        let open = shared.open(ino).map_err(|_| Errno::NOENT)?;
        let watched = shared.volume.watch(&open, &|generation| shared.files.show(ino, generation));
        watched.map_err(|_| Errno::OPNOTSUPP)?;
        let (index, key) = shared.files.entry(ino).ok_or(Errno::NOSPC)?;
        if stores && shared.files.store_to(ino) {
            shared.kept().insert(ino, open);
            if !shared.known.knows(ino) {
                // It was forgotten just now, which nobody will say again.
                let kept = shared.kept().remove(&ino);
                drop(kept);
                return Err(Errno::NOENT);
            }
            // From now on the kernel asks every time.
            let connection = shared.connection.get().ok_or(Errno::NOTCONN)?;
            let _ = connection.forget_attributes(ino.into());
        }
        Ok(Answer { index: index.into(), key, ..Answer::default() })
    }

    /// A file whose pages the kernel is to forget, opened anew: fsync(2) tells of an error once for each open file.
    fn to_free(&self, token: u64, index: u32, file: Option<OwnedFd>) -> rustix::io::Result<(Ino, OwnedFd)> {
        self.process(token)?;
        let ino = self.shared.files.ino(index).ok_or(Errno::NOENT)?;
        let file = file.ok_or(Errno::BADF)?;
        let (what, how) = (StatxFlags::TYPE | StatxFlags::INO, AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC);
        // What is no regular file could keep this thread waiting; the file of another mount is no harm.
        let found = rustix::fs::statx(&file, "", how, what)?;
        let kind = FileType::from_raw_mode(found.stx_mode.into());
        if kind != FileType::RegularFile || found.stx_ino != u64::from(ino) {
            return Err(Errno::BADF);
        }
        Ok((ino, pocketstone_lease::reopen(file.as_fd())?))
    }
}

/// Whether a process may be direct: of this process's user or root, and where it sees the files that this one sees.
/// Who is confined to a part of them has no business with the whole volume.
fn may_attach(peer: &Peer) -> bool {
    let pid = peer.pid.as_raw_nonzero();
    let sees = |of: &str| {
        let root = std::fs::metadata(format!("/proc/{of}/root/.")).ok()?;
        Some((std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok()?, root.dev(), root.ino()))
    };
    let user = peer.uid == 0 || peer.uid == rustix::process::geteuid().as_raw();
    user && sees("self").is_some_and(|own| sees(&pid.to_string()) == Some(own))
}
