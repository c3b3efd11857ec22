//! Answers the processes that reach the content of files without the kernel.

use super::freeing::{Freeing, Job, refuse};
use super::mapped::{Mapper, Wish};
use super::{Shared, random};
use crate::caller;
use crate::convert::now_ns;
use crate::mountable::Mountable;
use crate::wire::Connection;
use pocketstone_lease::Slots;
use pocketstone_lease::message::{self, Answer, Peer, Question, Received};
use pocketstone_vfs::Ino;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Times that nobody asked for are noted this often, so that they are stored as promised.
const PERIOD: Timespec = Timespec { tv_sec: 2, tv_nsec: 500_000_000 };
/// More would keep the thread from answering. Each takes a descriptor.
const PROCESSES_MAX: u64 = 1024;
/// No question is taken for so long when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// Whoever says nothing for so long is listened to no more.
const SILENCE: Duration = Duration::from_millis(250);
const SILENCE_PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// If more say nothing, the one that has done so for longest is listened to no more.
const SILENT_MAX: usize = 64;

/// What one thread at a time has, which answers.
pub(super) struct Server<V: Mountable> {
    shared: Arc<Shared<V>>,
    listener: OwnedFd,
    freeing: Freeing,
    mapper: Mapper,
    /// The processes that attached, by their tokens.
    attached: HashMap<u64, Attached>,
    /// The number of the next mark.
    next_mark: u32,
    /// Connections on which nothing was said yet, and since when.
    silent: VecDeque<(OwnedFd, Instant)>,
    /// When times were noted that nobody asked for.
    noted: Instant,
    /// What the thread that answers is to do itself.
    own: Option<Job>,
}

/// A process that attached.
struct Attached {
    pid: Pid,
    /// Readable when it has ended.
    end: OwnedFd,
    /// The [mark] of what it has mapped of the table: gone when it has run another program, which has nothing mapped.
    mark: u32,
}

impl<V: Mountable> Server<V> {
    pub fn new(shared: Arc<Shared<V>>, listener: OwnedFd) -> std::io::Result<Server<V>> {
        let freeing = Freeing::start(shared.files.clone())?;
        let mapper = Mapper::start(shared.clone())?;
        let (attached, silent, noted) = (HashMap::new(), VecDeque::new(), Instant::now());
        Ok(Server { shared, listener, freeing, mapper, attached, next_mark: 0, silent, noted, own: None })
    }

    /// Answers until something is left for this thread to do, while another one answers; there is none if nobody
    /// `waits` for that. `None`: it is over.
    pub fn serve(&mut self, stop: &OwnedFd, waits: impl Fn() -> bool) -> Option<Job> {
        let times_period = Duration::new(PERIOD.tv_sec.unsigned_abs(), PERIOD.tv_nsec as u32);
        loop {
            let ends: Vec<(u64, &OwnedFd)> =
                self.attached.iter().map(|(token, attached)| (*token, &attached.end)).collect();
            let silent = self.silent.iter().map(|(connection, _)| connection);
            let polled = [stop, &self.listener].into_iter().chain(ends.iter().map(|(_, end)| *end)).chain(silent);
            let mut polled: Vec<PollFd<'_>> = polled.map(|file| PollFd::new(file, PollFlags::IN)).collect();
            let period = if self.silent.is_empty() { PERIOD } else { SILENCE_PERIOD };
            let mapped = self.shared.mappings.as_ref().filter(|mappings| mappings.are_any());
            let idle = ends.is_empty() && self.silent.is_empty() && mapped.is_none();
            let _ = rustix::event::poll(&mut polled, (!idle).then_some(&period));
            let is_ready = |poll: &PollFd<'_>| !poll.revents().is_empty();
            if is_ready(&polled[0]) {
                return None;
            }
            let asked = is_ready(&polled[1]);
            let (of_ends, of_silent) = polled[2..].split_at(ends.len());
            let ready = of_ends.iter().zip(&ends).filter(|(poll, _)| is_ready(poll));
            let ended: Vec<u64> = ready.map(|(_, (token, _))| *token).collect();
            let spoken: Vec<bool> = of_silent.iter().map(is_ready).collect();
            ended.into_iter().for_each(|token| self.end(token));
            self.hear(&spoken);
            // Not with every question: that would take each of them as long as there are files.
            if self.noted.elapsed() >= times_period {
                self.shared.note_all_times();
                self.shared.volume.store_sizes();
                self.shared.settle_records();
                if let Some(mappings) = &self.shared.mappings {
                    mappings.sweep();
                }
                self.noted = Instant::now();
            }
            match asked.then(|| message::accept(&self.listener)) {
                Some(Ok(connection)) => self.listen(connection),
                // It would be ready again at once.
                Some(Err(_)) => std::thread::sleep(PAUSE),
                None => {}
            }
            if let Some(job) = self.own.take() {
                if waits() {
                    return Some(job);
                }
                self.freeing.free(job);
            }
        }
    }

    /// Ends what was attached by a program that a process has replaced by another one since.
    fn end_replaced(&mut self, pid: Pid) {
        let table = &self.shared.files.table;
        let replaced = |attached: &Attached| attached.pid == pid && !table.is_shared(attached.mark).unwrap_or(true);
        let tokens: Vec<u64> = self.attached.iter().filter(|(_, a)| replaced(a)).map(|(token, _)| *token).collect();
        tokens.into_iter().for_each(|token| self.end(token));
    }

    /// A process has ended, perhaps in the middle of a store, or runs another program. What the kernel holds of that
    /// file may be older; whoever is direct next has it forgotten, as ever.
    fn end(&mut self, token: u64) {
        self.attached.remove(&token);
        let Some(slots) = self.shared.attached().remove(&token).flatten() else { return };
        // It notes the time before it stores.
        self.shared.note_all_times();
        slots.end();
        self.shared.take_all_back(Some(&slots));
        // The marks stay until they are noted elsewhere: a checkpoint meanwhile finds them here or there.
        slots.marks(false, &mut |at, bytes| self.shared.volume.note_stored(at, bytes));
        let none_left = {
            let mut all = self.shared.files.stores.all();
            all.retain(|other| !Arc::ptr_eq(other, &slots));
            all.is_empty()
        };
        if none_left {
            let changed = self.shared.files.nobody_stores();
            // From now on the kernel may keep attributes, and who has just looked at some may have missed a time.
            changed.into_iter().for_each(|ino| self.shared.forget_attributes(ino));
            let kept = std::mem::take(&mut *self.shared.kept());
            // Dropping them may delete files: not with the lock held.
            drop(kept);
        }
    }

    /// Listens to a connection, which may have said something already.
    fn listen(&mut self, connection: OwnedFd) {
        let Some(connection) = self.answer(connection) else { return };
        if self.silent.len() >= SILENT_MAX {
            self.silent.pop_front();
        }
        self.silent.push_back((connection, Instant::now()));
    }

    /// Answers those of the silent that have said something, and listens no more to those that take too long.
    fn hear(&mut self, spoken: &[bool]) {
        for ((connection, since), spoken) in std::mem::take(&mut self.silent).into_iter().zip(spoken) {
            let left = if *spoken { self.answer(connection) } else { Some(connection) };
            let left = left.filter(|_| since.elapsed() < SILENCE);
            self.silent.extend(left.map(|connection| (connection, since)));
        }
    }

    /// Answers what was said on a connection, which is given back if that is nothing yet.
    fn answer(&mut self, connection: OwnedFd) -> Option<OwnedFd> {
        // Who may not ask is not listened to.
        let Some(peer) = message::peer(connection.as_fd()).filter(may_attach) else {
            // With something unread its end would be an error, and the refusal lost.
            let _ = message::receive(connection.as_fd());
            refuse(&connection, Errno::ACCESS);
            return None;
        };
        let question = match message::receive(connection.as_fd()) {
            Received::Question(question) => question,
            Received::Nothing => return Some(connection),
            Received::Nonsense => {
                refuse(&connection, Errno::PROTO);
                return None;
            }
        };
        let answered = match question {
            Question::Attach { write } => self.attach(connection.as_fd(), write, peer.pid),
            Question::File { token, ino } => {
                self.shared.file(token, ino).map(|answer| message::reply(connection.as_fd(), &answer, &[]))
            }
            Question::Free { token, index, descriptor } => match self.to_free(token, index, peer.pid, descriptor) {
                Ok((ino, file)) => {
                    self.free(Job { connection, ino, file });
                    return None;
                }
                Err(error) => Err(error),
            },
            Question::Map { token, index, write, offset, bytes } => match self.to_map(token, index, write) {
                Ok(ino) => {
                    self.mapper.map(Wish { connection, ino, write, offset, bytes });
                    return None;
                }
                Err(error) => Err(error),
            },
            Question::Stored { index, key } => {
                self.stored(index, key).map(|()| message::reply(connection.as_fd(), &Answer::default(), &[]))
            }
        };
        if let Err(error) = answered {
            refuse(&connection, error);
        }
        None
    }

    fn free(&mut self, job: Job) {
        // Of several at once the last one is this thread's.
        if let Some(before) = self.own.replace(job) {
            self.freeing.free(before);
        }
    }

    fn attach(&mut self, connection: BorrowedFd<'_>, write: bool, pid: Pid) -> rustix::io::Result<()> {
        self.end_replaced(pid);
        let shared = self.shared.volume.shared().ok_or(Errno::OPNOTSUPP)?;
        let descriptors = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if self.attached.len() as u64 >= PROCESSES_MAX.min(descriptors / 2) {
            return Err(Errno::AGAIN);
        }
        // Its number means it as long as it waits for the answer.
        let end = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        let mark = self.next_mark;
        self.next_mark = mark.wrapping_add(1);
        let table = self.shared.files.table.share(mark)?;
        let write = write && self.shared.stores;
        let made = if write { Some(Slots::new(shared.bytes)?) } else { None };
        // Who may store shares the lock that keeps a second server away; who reads cannot store.
        // SAFETY: by it nothing is stored here; whoever it is sent to stores where the volume lets others store.
        let shared_file = unsafe { shared.file() };
        let own = if write { None } else { Some(pocketstone_lease::reopen(shared_file)?) };
        let region = own.as_ref().map_or(shared_file, AsFd::as_fd);
        let (token, region_bytes) = (random(), shared.bytes);
        let append = write && self.shared.appends;
        let map = self.shared.mappings.is_some();
        let (settles, flushed) = (self.shared.settles, shared.flushed);
        let records_at = if append && settles { self.shared.volume.size_records().0 } else { 0 };
        let answer =
            Answer { write, append, map, settles, flushed, token, region_bytes, records_at, ..Answer::default() };
        let (slots, file) = made.map_or((None, None), |(slots, file)| (Some(Arc::new(slots)), Some(file)));
        let files: Vec<BorrowedFd<'_>> =
            [table.as_fd(), region].into_iter().chain(file.as_ref().map(AsFd::as_fd)).collect();
        // Known before it can store.
        self.shared.files.stores.all().extend(slots.clone());
        self.shared.attached().insert(token, slots);
        self.attached.insert(token, Attached { pid, end, mark });
        message::reply(connection, &answer, &files);
        Ok(())
    }

    /// A file that a process wants to map; `write`: to store there, too.
    fn to_map(&self, token: u64, index: u32, write: bool) -> rustix::io::Result<Ino> {
        let may_store = self.shared.slots(token)?.is_some();
        if self.shared.mappings.is_none() || write && !may_store {
            return Err(Errno::ACCESS);
        }
        self.shared.files.ino(index).ok_or(Errno::NOENT)
    }

    /// A file was stored to by a process that has it mapped, and no page to say so in: a child of who mapped it. Who
    /// may ask anything here could have stored to all of the region.
    fn stored(&self, index: u32, key: u64) -> rustix::io::Result<()> {
        let shared = &self.shared;
        let mappings = shared.mappings.as_ref().filter(|_| shared.stores).ok_or(Errno::ACCESS)?;
        let ino = shared.files.ino(index).ok_or(Errno::NOENT)?;
        // A file that nobody has mapped may be gone from the table in this moment.
        if !mappings.holds(ino) || shared.files.entry(ino) != Some((index, key)) {
            return Err(Errno::NOENT);
        }
        let open = shared.open(ino).map_err(|_| Errno::NOENT)?;
        shared.volume.note_written(&open, Some(now_ns())).map_err(|_| Errno::IO)?;
        shared.forget_attributes(ino);
        Ok(())
    }

    /// A file of this mount whose pages the kernel is to forget. Nothing but this mount is asked anything: a file of
    /// another one may be served by who asks.
    fn to_free(&self, token: u64, index: u32, pid: Pid, descriptor: RawFd) -> rustix::io::Result<(Ino, OwnedFd)> {
        self.shared.slots(token)?;
        let ino = self.shared.files.ino(index).ok_or(Errno::NOENT)?;
        let device = self.shared.connection.get().and_then(Connection::mounted).ok_or(Errno::NOTCONN)?;
        let path = format!("/proc/{}/fd/{descriptor}", pid.as_raw_nonzero());
        // Which opens nothing, and whose end nobody is told of.
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let (what, how) = (StatxFlags::TYPE | StatxFlags::INO, AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC);
        let found = rustix::fs::statx(&file, "", how, what)?;
        let regular = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        let here = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor) == device;
        if !regular || !here || found.stx_ino != u64::from(ino) {
            return Err(Errno::BADF);
        }
        Ok((ino, file))
    }
}

/// Whether a process may be direct: of this process's user or root, and where it sees the files that this one sees.
/// Who is confined to a part of them has no business with the whole volume.
fn may_attach(peer: &Peer) -> bool {
    let its = peer.pid.as_raw_nonzero().to_string();
    caller::is_trusted(peer.uid)
        && same(&its, |of| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok())
        && same(&its, root)
}

fn same<T: PartialEq>(other: &str, see: impl Fn(&str) -> Option<T>) -> bool {
    see("self").is_some_and(|own| see(other) == Some(own))
}

/// The root directory of a process, without asking whoever serves it: that may be the process itself.
fn root(of: &str) -> Option<(u32, u32, u64)> {
    let how = AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(rustix::fs::CWD, format!("/proc/{of}/root"), how, StatxFlags::INO).ok()?;
    Some((found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
}
