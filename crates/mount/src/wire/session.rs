//! The connection to the kernel: agreeing on rules, and the threads that answer.

use super::abi::{self, DEV_IOC_MAGIC, IN_HEADER_BYTES, WRITE_IN_BYTES, init};
use super::dispatch::{Outcome, carry_out};
use super::filesystem::Filesystem;
use super::notify::{Connection, Threads};
use super::readers::{Patience, Readers};
use super::reply::{Reply, Taken};
use super::request::{Init, Operation, Request, parse};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Updater, opcode};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most that the kernel reads or writes by one request.
pub(crate) const LARGEST_REQUEST: u32 = 1 << 20;

/// What moves no more bytes than this is answered soon.
const SOON: usize = 64 << 10;

/// How much the kernel has under way that nobody waits for, such as read-ahead.
const MAX_BACKGROUND: u16 = 64;

/// How the kernel is to read ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Several reads of one file at once, for which nobody waits (FUSE_ASYNC_READ). With them read-ahead returns at
    /// once, and what was not asked for is read while the reader goes on; without them a read(2) that triggers
    /// read-ahead waits for all of it, as over MTD.
    pub asynchronous: bool,
    /// Largest window in bytes.
    pub most_bytes: u32,
}

/// An open /dev/fuse on which the rules are agreed on.
pub(crate) struct Session {
    device: Arc<OwnedFd>,
    /// FUSE_SETXATTR_EXT is among them.
    long_xattrs: bool,
}

/// The threads that serve a session.
pub(crate) struct Serving {
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// Memory that a request is read into.
struct Incoming {
    memory: Vec<u8>,
    begin: usize,
}

impl Incoming {
    /// What is written begins at a page.
    fn new() -> Incoming {
        const PAGE: usize = 4096;
        const BEFORE: usize = IN_HEADER_BYTES + WRITE_IN_BYTES;
        let size = (BEFORE + LARGEST_REQUEST as usize).max(abi::LEAST_READ_BUFFER);
        let memory = vec![0; size + PAGE];
        let begin = memory.as_ptr().wrapping_add(BEFORE).align_offset(PAGE);
        Incoming { memory, begin: if begin < PAGE { begin } else { 0 } }
    }

    /// The message in the first bytes.
    fn message(&self, bytes: usize) -> &[u8] {
        &self.memory[self.begin..self.begin + bytes]
    }

    /// Bytes of the next message; `None` when the connection has ended.
    fn receive(&mut self, device: &OwnedFd) -> io::Result<Option<usize>> {
        loop {
            if let Some(received) = self.try_receive(device) {
                return received;
            }
        }
    }

    /// As [`Incoming::receive`]; `None` if there is no message just now.
    fn try_receive(&mut self, device: &OwnedFd) -> Option<io::Result<Option<usize>>> {
        match rustix::io::read(device, &mut self.memory[self.begin..]) {
            Ok(bytes) => Some(Ok(Some(bytes))),
            // A signal, or a request that was taken back before it came here.
            Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => None,
            // A connection that ends while something is on its way through it may say that it was aborted, where it
            // says otherwise that the device is gone.
            Err(Errno::NODEV | Errno::CONNABORTED) => Some(Ok(None)),
            Err(error) => Some(Err(error.into())),
        }
    }
}

/// Sends an answer. That nobody waits for it any more, or that the connection has ended, is found out by the next read.
fn send(device: &OwnedFd, parts: &[IoSlice<'_>]) {
    let _ = rustix::io::retry_on_intr(|| match parts {
        [whole] => rustix::io::write(device, whole),
        parts => rustix::io::writev(device, parts),
    });
}

fn refuse(device: &OwnedFd, unique: u64, error: Errno) {
    send(device, &[IoSlice::new(&Reply::header(unique, -error.raw_os_error(), 0))]);
}

/// What of the kernel's offer is taken.
fn take(offer: &Init, wanted: u64, reading: Reading) -> Taken {
    let mut wanted = wanted | init::BIG_WRITES | init::MAX_PAGES | init::SETXATTR_EXT | init::INIT_EXT;
    if reading.asynchronous {
        wanted |= init::ASYNC_READ;
    }
    let page = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
    Taken {
        minor: offer.minor.min(abi::MINOR),
        max_readahead: offer.max_readahead.min(reading.most_bytes),
        flags: offer.flags & wanted,
        max_background: MAX_BACKGROUND,
        max_write: LARGEST_REQUEST,
        max_pages: u16::try_from(LARGEST_REQUEST.div_ceil(page)).unwrap_or(u16::MAX),
    }
}

impl Session {
    /// Agrees with the kernel on the rules of a mount.
    pub fn begin<F: Filesystem>(filesystem: &F, device: OwnedFd, reading: Reading) -> io::Result<Session> {
        let mut incoming = Incoming::new();
        let mut reply = Reply::new();
        let strange = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        loop {
            let bytes = incoming.receive(&device)?.ok_or(Errno::NOTCONN)?;
            let (request, operation) =
                parse(incoming.message(bytes), false).map_err(|_| strange("the kernel's handshake"))?;
            let Operation::Init(offer) = operation else {
                refuse(&device, request.unique, Errno::IO);
                return Err(strange("the kernel sent a request before the handshake"));
            };
            if offer.major < abi::MAJOR || offer.major == abi::MAJOR && offer.minor < abi::OLDEST_MINOR {
                refuse(&device, request.unique, Errno::PROTO);
                let (major, minor) = (offer.major, offer.minor);
                let what = format!("the kernel's FUSE version {major}.{minor} is too old");
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
            let taken = take(&offer, filesystem.wants(), reading);
            reply.clear();
            reply.init(&taken);
            send(&device, &[IoSlice::new(reply.message(request.unique))]);
            // To a newer major version this one was the answer; the kernel asks again by it.
            if offer.major == abi::MAJOR {
                filesystem.agreed(taken.flags);
                let long_xattrs = taken.flags & init::SETXATTR_EXT != 0;
                return Ok(Session { device: Arc::new(device), long_xattrs });
            }
        }
    }

    /// Starts threads that serve, and look for the next request for up to `busy_poll`, times [`Filesystem::patience`],
    /// after one that came as soon. `ready` gets the connection before the first of them does.
    pub fn serve<F: Filesystem>(
        self,
        filesystem: F,
        threads: usize,
        busy_poll: Duration,
        ready: impl FnOnce(Connection),
    ) -> io::Result<(Serving, Connection)> {
        let turns = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(Threads {
            ending: AtomicBool::new(false),
            turns,
            write_backs: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
        });
        let connection = Connection::new(&self.device, shared.clone());
        ready(connection.clone());
        let filesystem = Arc::new(filesystem);
        let mut serving = Serving { threads: Vec::new() };
        let mut waiting = None;
        if filesystem.waits_for_itself() {
            let (sender, thread) = answer_waiting(filesystem.clone(), self.long_xattrs)?;
            serving.threads.push(thread);
            waiting = Some(sender);
        }
        let readers = Arc::new(Readers::default());
        // On the only processor whoever looks for a message keeps the one away who would send it.
        let several = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        for number in 0..threads {
            let own = if number == 0 { None } else { clone(&self.device, OFlags::empty()).map(Arc::new) };
            let looking = if several && !busy_poll.is_zero() {
                clone(&self.device, OFlags::NONBLOCK).map(Arc::new)
            } else {
                None
            };
            let thread = Thread {
                filesystem: filesystem.clone(),
                device: own.unwrap_or_else(|| self.device.clone()),
                looking,
                busy_poll,
                _connection: self.device.clone(),
                waiting: waiting.clone(),
                long_xattrs: self.long_xattrs,
                shared: shared.clone(),
                readers: readers.clone(),
                number,
            };
            let started = std::thread::Builder::new().name(format!("fuse-{number}")).spawn(move || thread.serve());
            match started {
                Ok(handle) => serving.threads.push(handle),
                // One is enough.
                Err(_) if number > 0 && waiting.is_none() => break,
                Err(error) => return Err(error),
            }
        }
        Ok((serving, connection))
    }
}

/// A descriptor with a queue of its own for what was taken from the connection; `None` where the kernel has no such.
fn clone(device: &OwnedFd, how: OFlags) -> Option<OwnedFd> {
    let own = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC | how, Mode::empty()).ok()?;
    let mut number = u32::try_from(device.as_fd().as_raw_fd()).ok()?;
    // SAFETY: FUSE_DEV_IOC_CLONE of /dev/fuse is _IOR(229, 0, uint32_t); it reads a number of that size, which lives
    // until the call returns, and writes nothing.
    let cloned = unsafe {
        rustix::ioctl::ioctl(&own, Updater::<{ opcode::read::<u32>(DEV_IOC_MAGIC, 0) }, u32>::new(&mut number))
    };
    cloned.ok().map(|()| own)
}

/// A question, and where it came from: there its answer goes.
struct Asked {
    message: Vec<u8>,
    device: Arc<OwnedFd>,
}

/// Starts the thread that answers what waits for the kernel. The kernel waits for other answers meanwhile, which no
/// thread that takes questions would be left to give if all of them waited.
fn answer_waiting<F: Filesystem>(
    filesystem: Arc<F>,
    long_xattrs: bool,
) -> io::Result<(Sender<Asked>, JoinHandle<io::Result<()>>)> {
    let (sender, asked) = channel::<Asked>();
    let answer = move || {
        let mut reply = Reply::new();
        for Asked { message, device } in asked {
            // It was understood before.
            if let Ok((request, operation)) = parse(&message, long_xattrs) {
                respond(&*filesystem, &device, &request, &operation, &mut reply);
            }
        }
        Ok(())
    };
    Ok((sender, std::thread::Builder::new().name("fuse-waiting".into()).spawn(answer)?))
}

/// Carries an operation out, and answers.
fn respond<F: Filesystem>(fs: &F, device: &OwnedFd, request: &Request, operation: &Operation<'_>, reply: &mut Reply) {
    match carry_out(fs, request, operation, reply) {
        Outcome::Made => send(device, &[IoSlice::new(reply.message(request.unique))]),
        Outcome::There(content) => {
            let header = Reply::header(request.unique, 0, content.len());
            send(device, &[IoSlice::new(&header), IoSlice::new(content)]);
        }
        Outcome::Refused(error) => refuse(device, request.unique, error),
        Outcome::Silent => {}
    }
}

/// Whether no other thread has to receive while one does this.
fn is_answered_soon(operation: &Operation<'_>) -> bool {
    use Operation::*;
    match operation {
        Lookup { .. } | Forget { .. } | BatchForget(_) | Getattr | Statx | Readlink | Symlink { .. } => true,
        Mknod { .. } | Mkdir { .. } | Unlink { .. } | Rmdir { .. } | Rename { .. } | Link { .. } => true,
        Open { .. } | Create { .. } | Statfs | Flush { .. } => true,
        Read(part) => part.size as usize <= SOON,
        // What is to be durable takes as long as the medium does.
        Write(write) => write.data.len() <= SOON && !is_durable(write.flags),
        _ => false,
    }
}

/// Whether open(2) was asked for writes that are durable. O_SYNC has the bit of O_DSYNC.
fn is_durable(flags: u32) -> bool {
    OFlags::from_bits_retain(flags).contains(OFlags::DSYNC)
}

/// Nobody waits to be called once this is dropped.
struct Ending(Arc<Readers>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct Thread<F> {
    filesystem: Arc<F>,
    /// Where it sleeps until there is a question.
    device: Arc<OwnedFd>,
    /// Where it looks for one without sleeping.
    looking: Option<Arc<OwnedFd>>,
    busy_poll: Duration,
    /// As long as a thread serves, the connection is alive.
    _connection: Arc<OwnedFd>,
    waiting: Option<Sender<Asked>>,
    long_xattrs: bool,
    shared: Arc<Threads>,
    readers: Arc<Readers>,
    number: usize,
}

impl<F: Filesystem> Thread<F> {
    fn serve(self) -> io::Result<()> {
        // However this ends: nothing comes any more for the others either, or nobody is left to call them.
        let _ending = Ending(self.readers.clone());
        let turns = &self.shared.turns[self.number];
        let (mut incoming, mut reply, mut patience) = (Incoming::new(), Reply::new(), Patience::default());
        while let Some((bytes, device)) = self.receive(&mut incoming, &mut patience)? {
            turns.fetch_add(1, Ordering::AcqRel);
            let goes_on = self.answer(device, incoming.message(bytes), &mut reply, patience.is_behind());
            turns.fetch_add(1, Ordering::AcqRel);
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// The next message, by its bytes, and where it came from; `None` when the connection has ended. A thread that may
    /// look for it counts as one that receives until [`Readers::got`] is told.
    fn receive(&self, incoming: &mut Incoming, patience: &mut Patience) -> io::Result<Option<(usize, &Arc<OwnedFd>)>> {
        let Some(looking) = &self.looking else {
            return Ok(incoming.receive(&self.device)?.map(|bytes| (bytes, &self.device)));
        };
        let most = self.busy_poll.saturating_mul(self.filesystem.patience());
        self.readers.begin();
        let begin = Instant::now();
        if patience.looks() {
            match patience.look(most, || incoming.try_receive(looking)) {
                Some(received) => return received.map(|bytes| Some((bytes?, looking))),
                None => drop(self.readers.step_back()),
            }
        }
        let received = incoming.receive(&self.device)?;
        patience.slept(begin.elapsed(), most);
        Ok(received.map(|bytes| (bytes, &self.device)))
    }

    /// Answers one message; whether another may follow. `behind`: there are more than this thread can answer.
    fn answer(&self, device: &Arc<OwnedFd>, message: &[u8], reply: &mut Reply, behind: bool) -> bool {
        let fs = &*self.filesystem;
        let parsed = parse(message, self.long_xattrs);
        let waits = parsed.as_ref().is_ok_and(|(request, operation)| fs.waits(request, operation));
        if self.looking.is_some() {
            let soon = parsed.as_ref().is_ok_and(|(_, operation)| is_answered_soon(operation)) && !waits;
            self.readers.got(behind || !soon);
        }
        let (request, operation) = match parsed {
            Ok(parsed) => parsed,
            Err(malformed) => {
                if let Some(unique) = malformed.0 {
                    refuse(device, unique, Errno::IO);
                }
                return true;
            }
        };
        if matches!(&operation, Operation::Write(write) if write.how & abi::write::CACHE != 0) {
            self.shared.write_backs.fetch_add(1, Ordering::AcqRel);
        }
        match self.waiting.as_ref().filter(|_| waits) {
            None => respond(fs, device, &request, &operation, reply),
            Some(waiting) => {
                // Handing it over takes longer than most of these: while another thread is left, this one may wait.
                let busy = &self.shared.waiting;
                if busy.fetch_add(1, Ordering::AcqRel) + 1 < self.shared.turns.len() {
                    respond(fs, device, &request, &operation, reply);
                } else {
                    // It takes all that it is sent while there is a sender.
                    let _ = waiting.send(Asked { message: message.to_vec(), device: device.clone() });
                }
                busy.fetch_sub(1, Ordering::AcqRel);
            }
        }
        operation != Operation::Destroy && !self.shared.ending.load(Ordering::Acquire)
    }
}

impl Serving {
    /// Whether all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until all threads have ended; the first error. `None`: one of them panicked.
    pub fn join(self) -> Option<io::Result<()>> {
        let mut outcome = Some(Ok(()));
        for thread in self.threads {
            match (thread.join(), &outcome) {
                (Err(_), _) => outcome = None,
                (Ok(Err(error)), Some(Ok(()))) => outcome = Some(Err(error)),
                _ => {}
            }
        }
        outcome
    }
}
