//! The protocol as steps. One inode of one page; each step is one access to what others see.

mod client;
mod kernel;
mod server;

use crate::pages;
use crate::support::{Programs, settled};

/// The words of a page: two, so that a half-made copy or store can be seen.
pub const WORDS: usize = 2;
const PAGES: usize = 3;
const PROCS: usize = 5;
/// Each process does up to two things; one more for what was there at first.
const TOKENS: usize = 1 + 2 * PROCS;
/// No page.
const NONE: u8 = 0xFF;
/// The bytes of another file.
const FOREIGN: u8 = 0xEE;
/// The inode's lock is held exclusively.
const EXCLUSIVE: u8 = 0xFF;

/// Fewer states are none where anything happens.
pub const FEWEST_STATES: usize = 100;

/// What must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invariant {
    /// What is read is not older than what had been written before, nor anything else.
    Coherence,
    /// A direct store never goes to a page of another file, nor to one that may be given to it.
    Reuse,
    /// The kernel's page is not older than what has been written.
    KernelPage,
    /// A process that dies takes nothing with it, and leaves nothing but words of what it was storing.
    Death,
    /// The server gets done though the clients stand still.
    ServerWaits,
    /// Something can go on until all is done.
    Deadlock,
}

/// What a process does. Masks say which words are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    DirectRead,
    DirectWrite(u8),
    /// read(2), or a load through a mapping.
    KernelRead,
    /// write(2).
    KernelWrite(u8),
    /// A store through a mapping.
    MappedStore(u8),
    /// The kernel writes a dirty page back by itself. May happen.
    WriteBack,
    /// The kernel drops a clean page by itself. May happen.
    Evict,
    Move,
    /// truncate(2) to nothing.
    Truncate,
    /// truncate(2) to a page, which has to be zeros then.
    Extend,
    /// Another file gets a free page.
    TakeForOther,
    /// The fsync(2) that is made for those who want to be direct, and what the server does while it answers that. One
    /// at a time.
    Lease,
}

impl Op {
    /// The words whose content it settles.
    fn mask(self) -> u8 {
        match self {
            Op::DirectWrite(mask) | Op::KernelWrite(mask) | Op::MappedStore(mask) => mask,
            Op::Truncate | Op::Extend => 3,
            _ => 0,
        }
    }

    fn is_direct(&self) -> bool {
        matches!(self, Op::DirectRead | Op::DirectWrite(_))
    }

    fn is_optional(self) -> bool {
        matches!(self, Op::WriteBack | Op::Evict | Op::Lease)
    }
}

/// What is left out or done otherwise than it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Nothing,
    SlotNotSet,
    /// The server looks at the slots before the sequence is odd.
    SnapshotEarly,
    NoQuarantine,
    ServerWaitsForSlots,
    SlotsOutliveProcesses,
    WriterLooksNotForChange,
    WriterLooksNotForKernel,
    WriterLooksForKernelLast,
    /// No fault: looking for the kernel last does no harm if its counter is compared, too.
    WriterComparesCounter,
    ReaderLooksNotForChange,
    ReaderIgnoresKernel,
    /// No fault: what the kernel changes during a read may be missed by it.
    ReaderLooksNotForKernelAgain,
    KernelNotedAfterCopy,
    LeaseDoesNotCompare,
    LeaseDoesNotAwaitWriteBack,
    LeaseWithoutInodeLock,
}

/// What a process does next: of a direct process, then of the kernel for anybody, then of the server. The order counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Pc {
    #[default]
    Begin,
    Slot,
    Seq,
    State,
    Size,
    Piece,
    Word0,
    Word1,
    FirstLook,
    SecondLook,
    ClearSlot,
    Asked,
    KernelPage,
    ReadCame,
    ReadWord0,
    ReadWord1,
    ReadCameLate,
    ReadDone,
    WriteCame,
    WriteLock,
    WriteWord0,
    WriteWord1,
    WriteEnd,
    WriteDone,
    Lock,
    Snapshot,
    Change0,
    Change1,
    Change2,
    Change3,
    End,
    Forget,
    Flush,
    Note,
    Swap,
    Dead,
}

/// A process: what it is at, and what it remembers of that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Process {
    op: u8,
    pc: Pc,
    tries: u8,
    seq: u8,
    piece: u8,
    words: [u8; WORDS],
    /// A write by the kernel holds the page's lock.
    mark: bool,
    /// Slots that were set when the server had begun; the client that an fsync(2) is made for.
    snapshot: u8,
    /// The kernel's counter, as noted.
    count: u8,
    /// Writes that had returned when the read began.
    since: u16,
}

/// All there is at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    seq: u8,
    size: bool,
    piece: u8,
    count: u8,
    kernel_pages: bool,
    /// The write that made the file empty.
    emptied: u8,
    slots: u8,
    lock: u8,
    owner: [u8; PAGES],
    words: [[u8; WORDS]; PAGES],
    /// The kernel's page.
    valid: bool,
    locked: bool,
    dirty: bool,
    writing: bool,
    cached: [u8; WORDS],
    /// Clients that wait for a lease, that got it, that did not.
    want: u8,
    got: u8,
    refused: u8,
    /// The kernel's inode lock is held: by write(2), truncate(2), or the fsync(2) of a lease. Nothing that the server
    /// has to answer waits for it.
    inode_locked: bool,
    processes: [Process; PROCS],
    /// Writes that have returned, and those that have ended in any way.
    returned: u16,
    ended: u16,
    /// For each write those that had ended when it began.
    before: [u16; TOKENS],
}

/// Who does what, and what is wrong.
pub struct Model {
    pub programs: Programs<Op>,
    /// Processes that may die.
    pub mortal: u8,
    pub fault: Fault,
    /// The kernel holds the file's page at first.
    pub cached: bool,
    /// Looks and requests before a call goes by the kernel.
    pub attempts: u8,
    /// A store through a mapping never falls into the time after a write(2) has changed the page and before the server
    /// hears of that.
    pub mapped_stores_wait: bool,
    /// Asks of each state whether the rest goes on without the clients.
    pub clients_stand_still: bool,
    /// For each word the writes that settle it.
    pub settles: [u16; WORDS],
}

impl Model {
    pub fn new(programs: &[&[Op]]) -> Model {
        let programs = Programs::new(&[programs, &[&[Op::Lease]]].concat(), PROCS, 2);
        let mut settles = [1; WORDS];
        for p in 0..programs.count() {
            for (index, op) in programs.of(p).iter().enumerate() {
                let process = Process { op: index as u8, ..Process::default() };
                for (word, settled) in settles.iter_mut().enumerate() {
                    *settled |= u16::from(op.mask() >> word & 1) << Model::token(p, &process);
                }
            }
        }
        Model {
            programs,
            mortal: 0,
            fault: Fault::Nothing,
            cached: false,
            attempts: 2,
            mapped_stores_wait: false,
            clients_stand_still: false,
            settles,
        }
    }

    pub fn start(&self) -> State {
        let mut words = [[FOREIGN; WORDS]; PAGES];
        words[0] = [0; WORDS];
        State {
            seq: 0,
            size: true,
            piece: 0,
            count: 0,
            kernel_pages: self.cached,
            emptied: 0,
            slots: 0,
            lock: 0,
            owner: [pages::OURS, pages::OTHERS, pages::FREE],
            words,
            valid: self.cached,
            locked: false,
            dirty: false,
            writing: false,
            cached: [0; WORDS],
            want: 0,
            got: 0,
            refused: 0,
            inode_locked: false,
            processes: [Process::default(); PROCS],
            returned: 0,
            ended: 1,
            before: [0; TOKENS],
        }
    }

    /// How many processes there are.
    pub fn processes(&self) -> usize {
        self.programs.count()
    }

    /// What a process does now.
    pub fn op(&self, state: &State, p: usize) -> Option<Op> {
        let process = &state.processes[p];
        if process.pc == Pc::Dead { None } else { self.programs.op(p, process.op) }
    }

    /// What a process will do next, in words.
    pub fn describe(&self, state: &State, p: usize) -> String {
        format!("{p} {:?} {:?}", self.op(state, p), state.processes[p].pc)
    }

    /// Whether a process has to do nothing more.
    pub fn is_done(&self, state: &State, p: usize) -> bool {
        self.op(state, p).is_none_or(|op| op.is_optional() && state.processes[p].pc == Pc::Begin)
    }

    /// Whether the server and the kernel get done though the clients stand still: no step of theirs waits for a slot,
    /// or for anything else of a client. Only who wants pages does.
    pub fn goes_on_without_clients(&self, state: &State) -> Result<bool, Invariant> {
        let requests = |now: &State, p: usize| (Pc::ReadCame..=Pc::WriteDone).contains(&now.processes[p].pc);
        let goes = |now: &State, p| !self.is_client(p) || requests(now, p);
        let now = settled(state, self.processes(), goes, |now, p| self.step(now, p))?;
        let done = |p| self.is_client(p) || self.is_done(&now, p) || self.op(&now, p) == Some(Op::TakeForOther);
        Ok((0..self.processes()).all(done))
    }

    fn is_client(&self, p: usize) -> bool {
        self.programs.of(p).iter().any(Op::is_direct)
    }

    /// The write by which a word may come from: each operation has its own, and 0 is what was there at first.
    fn token(p: usize, process: &Process) -> u8 {
        (1 + p * 2) as u8 + process.op
    }

    /// Whether words may be what is there, if the writes of `since` have returned: none of them came after it.
    fn is_fresh(&self, state: &State, words: [u8; WORDS], since: u16) -> bool {
        for (word, token) in words.into_iter().enumerate() {
            if token == FOREIGN || self.settles[word] >> token & 1 == 0 {
                return false;
            }
            let mut newer = since & self.settles[word];
            while newer != 0 {
                if state.before[newer.trailing_zeros() as usize] >> token & 1 == 1 {
                    return false;
                }
                newer &= newer - 1;
            }
        }
        true
    }

    /// What must hold in each state.
    pub fn check(&self, state: &State) -> Result<(), Invariant> {
        let stored = |page: usize| state.owner[page] == pages::OTHERS && state.words[page] != [FOREIGN; WORDS];
        if (0..PAGES).any(stored) {
            return Err(Invariant::Reuse);
        }
        if state.valid && !self.is_fresh(state, state.cached, state.returned) {
            return Err(Invariant::KernelPage);
        }
        // What the kernel has not written back yet is not in the region.
        if state.seq % 2 == 0 && !state.dirty && !state.writing {
            let words = if state.size { state.words[usize::from(state.piece)] } else { [state.emptied; WORDS] };
            if !self.is_fresh(state, words, state.returned) {
                let died = state.processes.iter().any(|process| process.pc == Pc::Dead);
                return Err(if died { Invariant::Death } else { Invariant::Coherence });
            }
        }
        Ok(())
    }

    /// The state after a process has died, if it may.
    pub fn die(&self, state: &State, p: usize) -> Option<State> {
        let process = &state.processes[p];
        let direct =
            matches!(self.op(state, p), Some(Op::DirectWrite(_))) && (Pc::Slot..=Pc::Asked).contains(&process.pc);
        if self.mortal >> p & 1 == 0 || !direct {
            return None;
        }
        let mut next = *state;
        if self.fault != Fault::SlotsOutliveProcesses {
            next.clear_slot(p);
        }
        next.ended |= 1 << Model::token(p, process);
        for bits in [&mut next.want, &mut next.got, &mut next.refused] {
            *bits &= !(1 << p);
        }
        next.processes[p] = Process { pc: Pc::Dead, ..Process::default() };
        Some(next)
    }

    /// The state after a process's next step; `None`: it waits, or is done.
    pub fn step(&self, state: &State, p: usize) -> Result<Option<State>, Invariant> {
        let Some(op) = self.op(state, p) else { return Ok(None) };
        let mut next = *state;
        let pc = state.processes[p].pc;
        if pc == Pc::Begin {
            next.begin(p, op);
        }
        let went = match pc {
            Pc::Begin if !op.is_direct() => self.first(&mut next, p, op)?,
            pc if pc <= Pc::Asked => self.direct(&mut next, p, op)?,
            Pc::KernelPage => self.page(&mut next, p, op)?,
            pc if pc <= Pc::ReadDone => self.read_request(&mut next, p, op)?,
            pc if pc <= Pc::WriteDone => next.write_request(p, op),
            _ => self.change(&mut next, p, op),
        };
        Ok(went.then_some(next))
    }

    /// The first step of what is not direct.
    fn first(&self, s: &mut State, p: usize, op: Op) -> Result<bool, Invariant> {
        match op {
            Op::WriteBack => {
                if !s.valid || !s.dirty || s.locked {
                    return Ok(false);
                }
                s.take_dirty(p, false);
            }
            Op::Evict => {
                // A page that is being written from is not dropped by the way.
                if !s.valid || s.dirty || s.locked || s.writing || s.is_being_written() {
                    return Ok(false);
                }
                s.valid = false;
                s.end(p);
            }
            Op::TakeForOther => {
                let Some(page) = pages::free(&s.owner) else { return Ok(false) };
                s.owner[page] = pages::OTHERS;
                s.words[page] = [FOREIGN; WORDS];
                s.end(p);
            }
            Op::Lease => {
                let locks = self.fault != Fault::LeaseWithoutInodeLock;
                if s.want == 0 || locks && s.inode_locked {
                    return Ok(false);
                }
                s.inode_locked |= locks;
                s.processes[p].snapshot = s.want & s.want.wrapping_neg();
                s.processes[p].pc = Pc::Flush;
            }
            Op::Move | Op::Truncate if self.fault == Fault::SnapshotEarly => {
                s.processes[p].snapshot = s.slots;
                s.processes[p].pc = Pc::Lock;
            }
            Op::Move | Op::Truncate | Op::Extend => return Ok(self.change(s, p, op)),
            _ => return self.page(s, p, op),
        }
        Ok(true)
    }
}

impl State {
    fn begin(&mut self, p: usize, op: Op) {
        self.processes[p].since = if matches!(op, Op::DirectRead | Op::KernelRead) { self.returned } else { 0 };
        if op.mask() != 0 {
            self.before[usize::from(Model::token(p, &self.processes[p]))] = self.ended;
        }
    }

    /// The operation is over; what the process remembers of it does not matter any more.
    fn end(&mut self, p: usize) {
        self.processes[p] = Process { op: self.processes[p].op + 1, ..Process::default() };
    }

    fn returns(&mut self, p: usize) {
        self.returned |= 1 << Model::token(p, &self.processes[p]);
        self.fails(p);
    }

    fn fails(&mut self, p: usize) {
        self.ended |= 1 << Model::token(p, &self.processes[p]);
        self.end(p);
    }

    fn clear_slot(&mut self, p: usize) {
        self.slots &= !(1 << p);
        pages::clear_slot(&mut self.owner, p);
        // A lease notes in the same place whose it is.
        let notes = self.processes.iter_mut().filter(|process| process.pc < Pc::Forget && process.pc >= Pc::Lock);
        notes.for_each(|process| process.snapshot &= !(1 << p));
    }

    fn take_page(&mut self) -> u8 {
        let page = pages::free(&self.owner).unwrap_or(PAGES);
        self.owner[page] = pages::OURS;
        page as u8
    }

    fn kernel_comes(&mut self) {
        self.kernel_pages = true;
        self.count += 1;
    }

    fn unlock(&mut self) {
        self.seq += 1;
        self.lock = 0;
    }
}
