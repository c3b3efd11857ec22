//! A process that reaches the files of a mount directly.

use crate::average::Average;
use crate::direct::{Direct, Outcome, Pieces, Why};
use crate::inherited::Inherited;
use crate::memory::{Memory, Pairs, Ready};
use crate::message::{self, Lease, Name, Question};
use crate::recent::Recent;
use crate::slots::Slots;
use crate::table::{Entry, File, TABLE_BYTES};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a process wants to do directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Read and store.
    Write,
    /// Read, store and append.
    Append,
    /// Map, too: all that there is.
    Map,
}

/// Why a process cannot be direct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is no mount of SCMFS, or one that allows nobody.
    Unknown,
    /// The library and the server have different versions.
    Version,
    /// The process runs as another user than the server and root, or may not do what it wants here.
    Denied,
    /// The server does not answer, or the kernel gives no memory.
    Failed(Errno),
}

impl Refusal {
    fn of(error: Errno) -> Refusal {
        match error {
            Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS => Refusal::Unknown,
            Errno::INVAL | Errno::PROTO => Refusal::Version,
            Errno::ACCESS | Errno::PERM => Refusal::Denied,
            error => Refusal::Failed(error),
        }
    }

    /// In words, for a report.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Unknown => "not a mount of scmfs that allows it",
            Refusal::Version => "another version of the server",
            Refusal::Denied => "not permitted",
            Refusal::Failed(_) => "no answer or no memory",
        }
    }
}

/// A range of a file that lies still as long as the region is open by this file, or mapped by it, here or in children.
pub struct Lying {
    /// The region.
    pub region: OwnedFd,
    /// Where it lies there.
    pub pieces: Pieces,
}

/// A window in which the kernel may come back so often before a file is left to it.
const WINDOW_MS: u64 = 100;
const COMINGS: u64 = 3;
/// How long it is left to the kernel then.
const REST: Duration = Duration::from_secs(1);
/// How often others may come to the end of a file in the window when each lease was worth it. What it costs them is
/// bounded all the same.
const COMINGS_WORTH: u64 = 16;
/// For so many files at a time these are counted.
const COUNTED: usize = 1024;
/// So many appends are worth a lease: by the kernel each takes about a tenth of what it takes to ask for one; or so
/// many bytes, however few appends they are.
const APPENDS_WORTH: u64 = 16;
const BYTES_WORTH: u64 = 1 << 20;
/// How long a server is not asked that did not answer, and how often that doubles: up to a minute.
const STALL_MS: u64 = 1000;
const STALLS_MOST: u64 = 6;
/// Nothing larger is appended at once without the kernel, which costs little beside the copying.
pub const LEASE_BYTES_MOST: u64 = 8 << 20;

/// A process's part in a mount. It keeps no descriptor open, and a child of the process has no part in it.
pub struct Session {
    name: Name,
    token: u64,
    device: u64,
    table: Memory,
    slots: Option<Slots>,
    region: Memory,
    /// Of a region that is memory: of another one the kernel protects pages anew whenever it has written them back.
    ready: Option<Ready>,
    flushed: bool,
    settles: bool,
    /// Where records of sizes lie in the region.
    records: Option<u64>,
    appends: bool,
    maps: bool,
    rest: Duration,
    recent: Recent,
    /// Bytes that files grow by.
    growth: Average,
    /// By entry: whose they are, and since when and how often the kernel, or others who append, came back: ms << 8, and
    /// a count.
    comings: Pairs<COUNTED>,
    /// The same of those who came to the end after a lease that was worth it.
    worth: Pairs<COUNTED>,
    /// By entry: whose it is, and the bytes that were appended by leases since it was asked for one anew.
    appended: Pairs<COUNTED>,
    /// Until when the server, which did not answer, is not asked to free a file: ms << 8, and how often that was so in
    /// a row.
    stalled: AtomicU64,
}

/// Milliseconds of CLOCK_MONOTONIC_COARSE, which is a few behind and costs next to nothing.
pub fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    (now.tv_sec as u64).wrapping_mul(1000).wrapping_add(now.tv_nsec as u64 / 1_000_000)
}

/// A program's open file, to ask about it.
fn named<'a>(through: RawFd) -> Option<BorrowedFd<'a>> {
    // SAFETY: it is no descriptor of this crate's, which closes none of the program's, and is asked once. If the
    // program closes it meanwhile, the number may be another file's: that one has another inode number and another
    // entry, or its file system does not know what it is asked.
    (through >= 0).then(|| unsafe { BorrowedFd::borrow_raw(through) })
}

impl Session {
    /// Becomes direct on the mount that an open file lies on.
    ///
    /// # Errors
    /// [`Refusal::Failed`] with `Errno::NOMEM` if the process's address space is limited; [`Refusal::Unknown`] if the
    /// file lies on no mount that allows this; [`Refusal::Version`] if that is one of another version; otherwise as
    /// [`Session::attach_to`].
    pub fn attach(file: BorrowedFd<'_>, access: Access) -> Result<Session, Refusal> {
        // A region of any size would eat the limit.
        if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some() {
            return Err(Refusal::Failed(Errno::NOMEM));
        }
        let device = rustix::fs::fstat(file).map_err(Refusal::of)?.st_dev;
        Session::attach_to(Name::ask(file).map_err(Refusal::of)?, device, access)
    }

    /// Becomes direct by a server's name, on a device.
    ///
    /// # Errors
    /// [`Refusal::Denied`] if the server refuses this process; [`Refusal::Version`] if it says what is not understood;
    /// [`Refusal::Unknown`] if its volume is in no memory to share; [`Refusal::Failed`] if it does not answer, takes
    /// nobody more, or memory is short.
    pub fn attach_to(name: Name, device: u64, access: Access) -> Result<Session, Refusal> {
        let attach = Question::Attach { write: access != Access::Read };
        let (answer, [table, region, slots]) = message::ask(&name, attach).map_err(Refusal::of)?;
        let (Some(table), Some(region)) = (table, region) else { return Err(Refusal::Version) };
        let bytes = usize::try_from(answer.region_bytes).map_err(|_| Refusal::Failed(Errno::NOMEM))?;
        let slots = match slots.filter(|_| answer.write) {
            Some(file) => Some(Slots::map(file.as_fd(), answer.region_bytes).map_err(Refusal::of)?),
            None => None,
        };
        let map = |file: BorrowedFd<'_>, bytes, write| match Memory::map(file, bytes, write) {
            Ok(memory) if memory.bytes() == bytes => Ok(memory),
            Ok(_) => Err(Refusal::Version),
            Err(error) => Err(Refusal::Failed(error)),
        };
        Ok(Session {
            name,
            token: answer.token,
            device,
            table: map(table.as_fd(), TABLE_BYTES, false)?,
            region: map(region.as_fd(), bytes, slots.is_some())?,
            ready: if answer.settles { Some(Ready::new(bytes).map_err(Refusal::Failed)?) } else { None },
            slots,
            flushed: answer.flushed,
            settles: answer.settles,
            records: Some(answer.records_at).filter(|at| *at > 0),
            appends: answer.append && matches!(access, Access::Append | Access::Map),
            maps: answer.map && access == Access::Map,
            rest: REST,
            recent: Recent::new().map_err(Refusal::Failed)?,
            growth: Average::default(),
            comings: Pairs::new().map_err(Refusal::Failed)?,
            worth: Pairs::new().map_err(Refusal::Failed)?,
            appended: Pairs::new().map_err(Refusal::Failed)?,
            stalled: AtomicU64::new(0),
        })
    }

    /// Leaves a file that the kernel keeps coming back to with the kernel so long, and not for a second.
    pub fn resting(self, rest: Duration) -> Session {
        Session { rest, ..self }
    }

    /// Takes away what this process has mapped of the volume, which counts as its memory.
    ///
    /// # Safety
    /// The session is not used any more, and never dropped.
    pub unsafe fn give_back(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.region.give_back() };
    }

    /// Lets the kernel take from memory what this process has mapped of the volume, and was told to keep there.
    pub fn unlock(&self) {
        self.region.unlock();
    }

    /// The device number of the mount.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Whether stores are direct, too.
    pub fn may_write(&self) -> bool {
        self.slots.is_some()
    }

    /// Whether appends are direct, too.
    pub fn may_append(&self) -> bool {
        self.appends && self.may_write()
    }

    /// Whether files can be mapped.
    pub fn may_map(&self) -> bool {
        self.maps
    }

    /// Whether what is stored has to be written back from the processor's caches.
    pub fn is_flushed(&self) -> bool {
        self.flushed
    }

    /// Makes all that was written to a file durable, as fdatasync(2) does, if that needs nobody else. Whether it is.
    pub fn make_durable(&self, file: File) -> bool {
        self.settles && self.direct(file).is_some_and(|direct| direct.make_durable(self.records))
    }

    /// Has a range of a file lie still, to be mapped. `write`: to store there, too.
    ///
    /// # Errors
    /// `Why::ReadOnly` if the session may not map, or not store; `Why::Growth` for a range that the file does not have;
    /// `Why::Hole` if there is no space for it, or it lies in too many pieces; `Why::Ended` without a whole answer;
    /// `Why::Gone`, `Why::Busy`, `Why::Changing`; `Why::Refused` for all else that the server or the kernel says.
    pub fn map(&self, file: File, write: bool, offset: u64, bytes: u64) -> Result<Lying, Why> {
        if !self.maps || write && !self.may_write() {
            return Err(Why::ReadOnly);
        }
        let direct = self.direct(file).ok_or(Why::Gone)?;
        let (token, index) = (self.token, file.index);
        let question = Question::Map { token, index, write, offset, bytes };
        let region = match message::ask(&self.name, question) {
            Ok((_, [Some(region), ..])) => region,
            Ok(_) | Err(Errno::PROTO) => return Err(Why::Ended),
            Err(Errno::NOSPC) => return Err(Why::Hole),
            Err(Errno::INVAL) => return Err(Why::Growth),
            Err(Errno::NOENT) => return Err(Why::Gone),
            Err(Errno::BUSY) => return Err(Why::Busy),
            Err(_) => return Err(Why::Refused),
        };
        // It stays where it is as long as the region is open or mapped by that file.
        let pieces = direct.lying(offset, bytes)?;
        Ok(Lying { region, pieces })
    }

    /// Whether a file may be stored to: nothing protects it.
    pub fn may_store(&self, file: File) -> bool {
        self.may_write() && self.direct(file).is_some_and(|direct| direct.entry.is_writable())
    }

    /// A mapping of a file was stored to, perhaps.
    pub fn note_stored(&self, file: File) {
        if let (Some(direct), Some(slots)) = (self.direct(file), &self.slots) {
            if direct.entry.key() == file.key {
                slots.note(file.index);
            }
        }
    }

    /// A file as children know it that have it mapped.
    pub fn inherited(&self, file: File) -> Inherited {
        Inherited { name: self.name, file }
    }

    /// A file that is open in this process as `through`, by its inode number; `None`: it is the kernel's alone. One
    /// question to the server, if it was not used lately.
    pub fn file(&self, ino: u64, through: RawFd) -> Option<File> {
        let is_same = |file: &File| Entry::of(&self.table, file.index).is_some_and(|entry| entry.key() == file.key);
        if let Some(file) = self.recent.of(ino).filter(is_same) {
            return Some(file);
        }
        let question = Question::File { token: self.token, ino };
        let answer = match message::ask_by(named(through)?, question) {
            // A volume that is served without a mount.
            Err(Errno::NOTTY) => message::ask(&self.name, question).ok()?.0,
            answer => answer.ok()?,
        };
        let file = File { key: answer.key, index: u32::try_from(answer.index).ok()? };
        self.recent.remember(ino, file);
        Some(file)
    }

    /// So much more was appended to a file, by its lease.
    #[inline]
    fn note_appended(&self, file: File, bytes: u64) {
        self.growth.add(bytes);
        let (whose, appended) = self.appended.of(file.index.into());
        if whose.load(Ordering::Relaxed) == file.key {
            appended.store(appended.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
        }
    }

    /// Whether it is worth asking the server for the end of a file, for such appends. It is more often, although others
    /// come, if the last lease was worth it.
    fn may_ask_for_end(&self, file: File, bytes: u64) -> bool {
        let (whose, appended) = self.appended.of(file.index.into());
        let known = whose.swap(file.key, Ordering::Relaxed) == file.key;
        let before = appended.swap(0, Ordering::Relaxed);
        let was_worth_it = known && before >= bytes.saturating_mul(APPENDS_WORTH).min(BYTES_WORTH);
        if was_worth_it { self.may_come(&self.worth, file, COMINGS_WORTH) } else { self.may_ask(file) }
    }

    /// Whether it is worth asking the server to keep the kernel, or others who append, off a file.
    fn may_ask(&self, file: File) -> bool {
        self.may_come(&self.comings, file, COMINGS)
    }

    /// Counts that others came, and says whether that was not too often: `most` times in [`WINDOW_MS`].
    fn may_come(&self, comings: &Pairs<COUNTED>, file: File, most: u64) -> bool {
        let now = now_ms();
        if now < self.stalled.load(Ordering::Relaxed) >> 8 {
            return false;
        }
        let (whose, comings) = comings.of(file.index.into());
        // What came back to the file that had the entry before says nothing of this one.
        let known = whose.swap(file.key, Ordering::Relaxed) == file.key;
        let word = if known { comings.load(Ordering::Relaxed) } else { 0 };
        let (since, count) = (word >> 8, word & 0xFF);
        let age = now.wrapping_sub(since);
        let next = if count >= most {
            if u128::from(age) < self.rest.as_millis() {
                return false;
            }
            now << 8 | 1
        } else if age > WINDOW_MS {
            now << 8 | 1
        } else {
            // When it rests, it does so from now on.
            (if count + 1 == most { now } else { since }) << 8 | (count + 1)
        };
        comings.store(next, Ordering::Relaxed);
        true
    }

    /// Has the kernel forget what it holds of a file, unless it keeps coming back. Whether it may have.
    fn free(&self, file: File, through: RawFd) -> bool {
        if !self.may_ask(file) {
            return false;
        }
        // If the program closes it meanwhile, the number may be another file's: the server does not take that for this.
        let question = Question::Free { token: self.token, index: file.index, descriptor: through };
        let answer = message::ask(&self.name, question);
        let before = self.stalled.load(Ordering::Relaxed);
        match answer {
            // Somebody keeps the kernel from forgetting what it holds of another file, perhaps for ever.
            Err(Errno::AGAIN) => {
                let times = (before & 0xFF).min(STALLS_MOST);
                let until = now_ms() + (STALL_MS << times);
                self.stalled.store(until << 8 | (times + 1), Ordering::Relaxed);
            }
            Ok(_) if before != 0 => self.stalled.store(0, Ordering::Relaxed),
            _ => {}
        }
        answer.is_ok()
    }

    /// How long a file is, by this process's own appends and those by the kernel.
    ///
    /// # Errors
    /// As of [`Direct::known_size`]; [`Why::Gone`] if there is no such file.
    pub fn size(&self, file: File) -> Result<u64, Why> {
        self.direct(file).ok_or(Why::Gone)?.known_size()
    }

    fn direct(&self, file: File) -> Option<Direct<'_>> {
        let entry = Entry::of(&self.table, file.index)?;
        let own = self.slots.as_ref().map(|slots| (slots, file.index));
        Some(Direct { entry, key: file.key, region: &self.region, flushed: self.flushed, own })
    }

    /// Reads at an offset, as pread(2) does. `through`: a descriptor that the file is open by.
    ///
    /// # Safety
    /// `into` is writable for `bytes` bytes.
    pub unsafe fn read(&self, file: File, through: RawFd, into: *mut u8, bytes: usize, offset: u64) -> Outcome {
        let Some(direct) = self.direct(file) else { return Outcome::Kernel(Why::Gone) };
        // SAFETY: the caller's promise.
        unsafe { direct.read(into, bytes, offset, || self.free(file, through)) }
    }

    /// Writes at an offset, as pwrite(2) does, where the file has these bytes already or ends. `through`: a descriptor
    /// that the file is open by.
    ///
    /// # Safety
    /// `from` is readable for `bytes` bytes.
    pub unsafe fn write(&self, file: File, through: RawFd, from: *const u8, bytes: usize, offset: u64) -> Outcome {
        let Some(slots) = &self.slots else { return Outcome::Kernel(Why::ReadOnly) };
        let Some(direct) = self.direct(file) else { return Outcome::Kernel(Why::Gone) };
        if self.appends && direct.own_size() == offset {
            // SAFETY: the caller's promise.
            match unsafe { self.append(file, through, from, bytes, Some(offset)) } {
                Ok(_) => return Outcome::Done(bytes),
                // Others may have appended since: then it is an overwrite.
                Err(Why::Growth) if direct.own_size() != offset => {}
                Err(why) => return Outcome::Kernel(why),
            }
        }
        // SAFETY: the caller's promise.
        unsafe { direct.write((slots, file.index), from, bytes, offset, || self.free(file, through)) }
    }

    /// Appends, as write(2) does at the end of a file, or with `O_APPEND`; the offset at which it did. `at`: only if
    /// the file ends there. `through`: a descriptor that the file is open by.
    ///
    /// # Errors
    /// A [`Why`], and it is the kernel's to do, all of it: `Why::Growth` if the session may not append, the file does
    /// not end at `at`, or it is too much at once; `Why::Leased` if the end cannot be leased; `Why::Busy` if all slots
    /// are taken; `Why::Gone`, `Why::Changing`, `Why::Refused`, `Why::Hole`, `Why::Checkpoint`, `Why::Ended`.
    ///
    /// # Safety
    /// `from` is readable for `bytes` bytes.
    pub unsafe fn append(
        &self,
        file: File,
        through: RawFd,
        from: *const u8,
        bytes: usize,
        at: Option<u64>,
    ) -> Result<u64, Why> {
        let Some(slots) = self.slots.as_ref().filter(|_| self.appends) else { return Err(Why::Growth) };
        let Some(direct) = self.direct(file) else { return Err(Why::Gone) };
        let own = (slots, file.index);
        // SAFETY: the caller's promise.
        match unsafe { direct.append(own, from, bytes, at) } {
            Err(Why::Growth) => {}
            done => return done.inspect(|_| self.note_appended(file, bytes as u64)),
        }
        let bytes_wanted = bytes as u64;
        if bytes_wanted > LEASE_BYTES_MOST || at.is_some_and(|at| at != direct.own_size()) {
            return Err(Why::Growth);
        }
        let average = self.growth.mean();
        // One that is used up is no sign of others.
        let expected = if slots.lease(file.index).is_some() {
            average / 2
        } else if self.may_ask_for_end(file, bytes_wanted) {
            self.growth.begin();
            // So that most files need no second one: it costs more than space that is not used.
            average * 2
        } else {
            return Err(Why::Leased);
        };
        let expected = expected.clamp(bytes_wanted, LEASE_BYTES_MOST);
        let lease = Lease { token: self.token, index: file.index, bytes: bytes_wanted, expected };
        if named(through).is_none_or(|file| lease.ask(file).is_err()) {
            return Err(Why::Leased);
        }
        direct.expect_appends(own, self.ready.as_ref());
        // SAFETY: the caller's promise.
        unsafe { direct.append(own, from, bytes, at) }.inspect(|_| self.note_appended(file, bytes_wanted))
    }
}
