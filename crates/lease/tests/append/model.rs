//! The protocol of appends as steps. One file whose records are two words long; each step is one access to what others
//! see. A record is a page of the kernel's; four of them are a page of the volume.

#[path = "server.rs"]
mod server;

use crate::pages::{self, FREE, OTHERS, OURS};
use crate::support::{Programs, settled};

/// Records that a page of the volume has room for, and that a lease is for.
pub const ROOM: usize = 4;
const LEASED: u8 = 2;
/// The kernel may take its own appends to lie beyond.
const KERNEL_ROOM: usize = ROOM + 4;
const PAGES: usize = 3;
const PROCS: usize = 4;
/// What lies beyond an end, and what another file holds.
const JUNK: u8 = 0xEE;
const FOREIGN: u8 = 0xDD;

/// Fewer states are none where anything happens.
pub const FEWEST_STATES: usize = 100;

/// What must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invariant {
    /// What was appended is there, once and whole, and nothing else is.
    Content,
    /// What is read has all that was appended before, and nothing that was not.
    Read,
    /// What an fsync(2) was told to keep is there though the server is killed now.
    Durable,
    /// A direct store never goes to a page of another file.
    Reuse,
    /// The server gets done though the clients stand still.
    ServerWaits,
    /// Something can go on until all is done.
    Deadlock,
}

/// What a process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// An append without the kernel, which becomes one by the kernel where that cannot be.
    Append,
    /// A read without the kernel.
    DirectRead,
    /// write(2) with `O_APPEND`.
    KernelAppend,
    /// read(2), which asks for the size first if it reaches beyond the one that the kernel knows.
    KernelRead,
    /// sendfile(2), or a load through a mapping: goes by the size that the kernel knows.
    Splice,
    Stat,
    /// fsync(2) by whoever appended before.
    Sync,
    /// truncate(2) to nothing.
    Truncate,
    /// Another file gets a free page. May happen.
    TakeForOther,
}

/// What is left out or done otherwise than it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Nothing,
    /// The new size is stored whatever the word is by then.
    PublishedBlindly,
    /// The new size can be seen before the bytes are there.
    PublishedEarly,
    /// The lease is not looked at again once the place is known.
    PlaceNotSettled,
    /// Leases of one client cannot be told from each other.
    LeaseNotNumbered,
    /// Two threads store to the same place.
    NotBusy,
    /// The file goes on growing in the page that a store may still run in.
    NotMoved,
    /// The old page is free at once.
    NoQuarantine,
    SlotNotSet,
    /// The kernel is told a size, and the lease goes on.
    ToldWithoutTaking,
    /// A lease is given though the kernel came meanwhile.
    GivenBlindly,
    /// The kernel keeps its size.
    NotRaised,
    /// The kernel keeps the record where it took the end to be.
    MisplacedKept,
    /// A direct reader ends at the size in the table.
    LeaseNotLookedAt,
    SyncWithoutTaking,
    /// The server waits until nobody is busy.
    WaitsForBusy,
}

/// What a process does next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Pc {
    #[default]
    Begin,
    Slot,
    Busy,
    Place,
    Again,
    Word0,
    Word1,
    Publish,
    // A direct read.
    Size,
    Half,
    Look,
    // The server's part of a grant.
    Forget,
    Raise,
    Give,
    Compare,
    // What the kernel does for anybody.
    KernelAppend,
    AppendCame,
    AppendDone,
    KernelRead,
    Told,
    KernelPages,
    ReadCame,
    ReadDone,
    Synced,
    Forgotten,
    // A change under the inode's exclusive lock.
    Lock,
    Move,
    Change,
    End,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Process {
    op: u8,
    pc: Pc,
    /// Where it goes on after the change under the lock.
    then: Pc,
    asked: bool,
    size: u8,
    page: u8,
    seq: u8,
    /// The lease by which it appends.
    number: u8,
    /// Where the kernel took the end to be.
    at: u8,
    count: u8,
    version: u8,
    busy: bool,
    /// What has been read: so many records, and which.
    got: u8,
    read: [u8; ROOM],
    since: u16,
}

/// The word by which a client and the server settle what is appended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Word {
    valid: bool,
    busy: bool,
    size: u8,
    /// Which of the leases that were given.
    number: u8,
}

/// All there is at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    words: [Word; 2],
    /// The table.
    seq: u8,
    shown: u8,
    leased: bool,
    leases: u8,
    /// Where the leased space ends.
    limit: u8,
    /// The kernel came, and may hold records.
    came: bool,
    count: u8,
    slots: u8,
    /// The inode; stored on the medium at once.
    size: u8,
    page: u8,
    locked: bool,
    owner: [u8; PAGES],
    cells: [[[u8; 2]; ROOM]; PAGES],
    /// The kernel's: its size, and its records.
    kernel_size: u8,
    version: u8,
    valid: u8,
    cached: [u8; KERNEL_ROOM],
    inode_locked: bool,
    processes: [Process; PROCS],
    /// Appends that have returned and were not cut off, and those that were made durable.
    returned: u16,
    synced: u16,
    cut: u16,
}

/// Who does what, and what is wrong.
pub struct Model {
    pub programs: Programs<Op>,
    pub fault: Fault,
    /// Processes that may die.
    pub mortal: u8,
    /// The first two processes are threads of one.
    pub threads: bool,
    pub clients_stand_still: bool,
}

impl Model {
    pub fn new(programs: &[&[Op]]) -> Model {
        let programs = Programs::new(programs, PROCS, 2);
        Model { programs, fault: Fault::Nothing, mortal: 0, threads: false, clients_stand_still: false }
    }

    pub fn start(&self) -> State {
        State {
            words: [Word::default(); 2],
            seq: 0,
            shown: 0,
            leased: false,
            leases: 0,
            limit: 0,
            came: false,
            count: 0,
            slots: 0,
            size: 0,
            page: 0,
            locked: false,
            owner: [OURS, FREE, FREE],
            cells: [[[JUNK; 2]; ROOM]; PAGES],
            kernel_size: 0,
            version: 0,
            valid: 0,
            cached: [JUNK; KERNEL_ROOM],
            inode_locked: false,
            processes: [Process::default(); PROCS],
            returned: 0,
            synced: 0,
            cut: 0,
        }
    }

    pub fn processes(&self) -> usize {
        self.programs.count()
    }

    pub fn op(&self, state: &State, p: usize) -> Option<Op> {
        let process = &state.processes[p];
        if process.pc == Pc::Dead { None } else { self.programs.op(p, process.op) }
    }

    pub fn describe(&self, state: &State, p: usize) -> String {
        format!("{p} {:?} {:?}", self.op(state, p), state.processes[p].pc)
    }

    pub fn is_done(&self, state: &State, p: usize) -> bool {
        self.op(state, p).is_none_or(|op| op == Op::TakeForOther && state.processes[p].pc == Pc::Begin)
    }

    /// Whether a step is the program's own, and not one that the server or the kernel makes for it.
    fn is_clients(&self, state: &State, p: usize) -> bool {
        matches!(self.op(state, p), Some(Op::Append | Op::DirectRead)) && state.processes[p].pc < Pc::Forget
    }

    /// Whether what the server and the kernel are at gets done though no client goes on.
    pub fn goes_on_without_clients(&self, state: &State) -> Result<bool, Invariant> {
        let goes = |now: &State, p| !self.is_clients(now, p);
        let now = settled(state, self.processes(), goes, |now, p| self.step(now, p))?;
        Ok((0..self.processes()).all(|p| self.is_done(&now, p) || self.is_clients(&now, p)))
    }

    fn word(&self, p: usize) -> usize {
        if self.threads { 0 } else { p }
    }

    /// Each append has a record of its own.
    fn token(p: usize, process: &Process) -> u8 {
        (p * 2) as u8 + process.op
    }

    /// What must hold in each state.
    pub fn check(&self, state: &State) -> Result<(), Invariant> {
        for (owner, cells) in state.owner.iter().zip(&state.cells) {
            if *owner == OTHERS && *cells != [[FOREIGN; 2]; ROOM] {
                return Err(Invariant::Reuse);
            }
        }
        if state.locked {
            return Ok(());
        }
        let page = &state.cells[usize::from(state.page)];
        // A server that is killed leaves the size that it stored.
        let kept = whole(&page[..usize::from(state.size)]).ok_or(Invariant::Content)?;
        if state.synced & !kept != 0 {
            return Err(Invariant::Durable);
        }
        let size = state.words.iter().filter(|word| word.valid).map(|word| word.size).max().unwrap_or(state.size);
        let now = whole(&page[..usize::from(size)]).ok_or(Invariant::Content)?;
        if state.returned & !now != 0 { Err(Invariant::Content) } else { Ok(()) }
    }

    /// The state after a process has died in the middle of an append, if it may.
    pub fn die(&self, state: &State, p: usize) -> Option<State> {
        let inside = (Pc::Slot..=Pc::Publish).contains(&state.processes[p].pc);
        if self.mortal >> p & 1 == 0 || self.op(state, p) != Some(Op::Append) || !inside {
            return None;
        }
        let mut next = *state;
        next.clear_slot(p);
        next.processes[p] = Process { pc: Pc::Dead, ..Process::default() };
        Some(next)
    }

    /// The state after a process's next step; `None`: it waits, or is done.
    pub fn step(&self, state: &State, p: usize) -> Result<Option<State>, Invariant> {
        let Some(op) = self.op(state, p) else { return Ok(None) };
        let mut next = *state;
        let pc = state.processes[p].pc;
        if pc == Pc::Begin {
            next.processes[p].since = next.returned;
        }
        let went = match pc {
            Pc::Begin => self.first(&mut next, p, op),
            pc if pc <= Pc::Publish => self.append(&mut next, p)?,
            pc if pc <= Pc::Look => self.direct_read(&mut next, p)?,
            pc if pc <= Pc::Compare => self.grant(&mut next, p),
            pc if pc <= Pc::Forgotten => self.kernel(&mut next, p)?,
            _ => self.change(&mut next, p, op),
        };
        Ok(went.then_some(next))
    }

    fn first(&self, s: &mut State, p: usize, op: Op) -> bool {
        let pc = match op {
            Op::Append => Pc::Slot,
            Op::DirectRead => {
                if s.seq % 2 == 1 {
                    return false;
                }
                s.processes[p].seq = s.seq;
                if s.came { Pc::KernelRead } else { Pc::Size }
            }
            Op::KernelAppend => Pc::KernelAppend,
            Op::KernelRead | Op::Stat => Pc::KernelRead,
            Op::Splice => Pc::KernelPages,
            Op::Sync => Pc::Synced,
            Op::Truncate => {
                if s.inode_locked {
                    return false;
                }
                s.inode_locked = true;
                s.processes[p].then = Pc::Forgotten;
                Pc::Lock
            }
            Op::TakeForOther => {
                let Some(page) = pages::free(&s.owner) else { return false };
                (s.owner[page], s.cells[page]) = (OTHERS, [[FOREIGN; 2]; ROOM]);
                s.end(p);
                return true;
            }
        };
        s.processes[p].pc = pc;
        true
    }

    /// A client that appends.
    fn append(&self, s: &mut State, p: usize) -> Result<bool, Invariant> {
        let (me, word) = (s.processes[p], self.word(p));
        let by_kernel = |s: &mut State| {
            s.clear_slot(p);
            s.processes[p].pc = Pc::KernelAppend;
            Ok(true)
        };
        let place = usize::from(me.size);
        let token = Model::token(p, &me);
        s.processes[p].pc = match me.pc {
            Pc::Slot => {
                if self.fault != Fault::SlotNotSet {
                    s.slots |= 1 << p;
                }
                Pc::Busy
            }
            Pc::Busy if !s.words[word].valid => {
                s.clear_slot(p);
                // Asked for once.
                if me.asked {
                    return by_kernel(s);
                }
                s.processes[p].asked = true;
                Pc::Forget
            }
            Pc::Busy => {
                let now = s.words[word];
                if now.busy && self.fault != Fault::NotBusy || now.size >= s.limit {
                    return by_kernel(s);
                }
                s.words[word].busy = true;
                (s.processes[p].size, s.processes[p].number) = (now.size, now.number);
                Pc::Place
            }
            Pc::Place => {
                // Looking again and again, until it is even.
                if s.seq % 2 == 1 {
                    return Ok(false);
                }
                s.processes[p].page = s.page;
                Pc::Again
            }
            Pc::Again => {
                let own = s.words[word] == Word { valid: true, busy: true, size: me.size, number: me.number };
                // The place may be one that the server gave to what came after.
                if !own && !matches!(self.fault, Fault::PlaceNotSettled | Fault::NotBusy) {
                    return by_kernel(s);
                }
                if self.fault == Fault::PublishedEarly {
                    s.words[word].size += 1;
                }
                Pc::Word0
            }
            Pc::Word0 | Pc::Word1 => {
                let page = usize::from(me.page);
                if s.owner[page] == OTHERS || s.owner[page] == FREE {
                    return Err(Invariant::Reuse);
                }
                let first = me.pc == Pc::Word0;
                s.cells[page][place][usize::from(!first)] = token;
                if first { Pc::Word1 } else { Pc::Publish }
            }
            _ => {
                let new = Word { valid: true, busy: false, size: me.size + 1, number: me.number };
                let early = self.fault == Fault::PublishedEarly;
                let expected = Word { busy: true, size: me.size + u8::from(early), ..new };
                let same = s.words[word] == expected || self.fault == Fault::NotBusy && s.words[word].valid;
                if !same && self.fault != Fault::PublishedBlindly {
                    return by_kernel(s);
                }
                s.words[word] = new;
                s.clear_slot(p);
                s.returns(p);
                return Ok(true);
            }
        };
        Ok(true)
    }

    /// A client that reads.
    fn direct_read(&self, s: &mut State, p: usize) -> Result<bool, Invariant> {
        let me = s.processes[p];
        let own = s.words[self.word(p).min(1)];
        s.processes[p].pc = match me.pc {
            Pc::Size => {
                let others = s.leased && !own.valid;
                if others && self.fault != Fault::LeaseNotLookedAt {
                    Pc::KernelRead
                } else {
                    s.processes[p].got = if own.valid { own.size } else { s.shown };
                    s.processes[p].page = s.page;
                    Pc::Half
                }
            }
            Pc::Half => {
                s.copy(p, 0..ROOM);
                Pc::Look
            }
            _ if s.seq != me.seq => Pc::KernelRead,
            _ => return self.read_returns(s, p),
        };
        Ok(true)
    }

    fn read_returns(&self, s: &mut State, p: usize) -> Result<bool, Invariant> {
        let me = s.processes[p];
        let mut there = 0;
        for token in &me.read[..usize::from(me.got)] {
            if *token >= 16 {
                return Err(Invariant::Read);
            }
            there |= 1 << token;
        }
        // What was cut off meanwhile may be missing.
        if me.since & !there & !s.cut != 0 {
            return Err(Invariant::Read);
        }
        s.end(p);
        Ok(true)
    }
}

/// The appends that records are of; `None`: one is torn, twice there, or none.
fn whole(records: &[[u8; 2]]) -> Option<u16> {
    records.iter().try_fold(0, |all: u16, [first, second]| {
        let new = *first < 16 && first == second && all >> first & 1 == 0;
        new.then(|| all | 1 << first)
    })
}

impl State {
    /// The operation is over; what the process remembers of it does not matter any more.
    fn end(&mut self, p: usize) {
        self.processes[p] = Process { op: self.processes[p].op + 1, ..Process::default() };
    }

    fn returns(&mut self, p: usize) {
        self.returned |= 1 << Model::token(p, &self.processes[p]);
        self.end(p);
    }

    /// What a process reads of the volume's records: as they are, or junk if one is torn.
    fn copy(&mut self, p: usize, records: std::ops::Range<usize>) {
        let page = usize::from(self.processes[p].page);
        for record in records {
            let [first, second] = self.cells[page][record];
            self.processes[p].read[record] = if first == second { first } else { JUNK };
        }
    }

    fn clear_slot(&mut self, p: usize) {
        self.slots &= !(1 << p);
        pages::clear_slot(&mut self.owner, p);
    }
}
