//! One file of one page of one word, and three pages.

mod steps;

use crate::support::{Programs, settled};

const PAGES: usize = 3;
const PROCS: usize = 5;
/// Fewer states are none where anything happens.
pub const FEWEST_STATES: usize = 20;
const NONE: u8 = 7;
/// What others have stored.
const FOREIGN: u8 = 255;

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Maps the file's page.
    Map,
    /// Stores by the mapping, if there is one.
    Store,
    /// Loads by the mapping.
    Load,
    Unmap,
    /// The next process has what this one has mapped.
    Fork,
    /// Waits for that.
    Inherited,
    DirectRead,
    DirectWrite,
    KernelRead,
    KernelWrite,
    Move,
    Truncate,
    Punch,
    Unlink,
    /// The server looks whether the file is still mapped.
    Sweep,
    /// The same, from time to time.
    Sweeps,
    /// The inode leaves memory, if it is not kept there.
    Evict,
    /// The server dies, and another one starts, if it may.
    Restart,
    /// Another file gets a page, if there is one.
    TakeForOther,
    /// The same, and it is waited for.
    MustTake,
}

impl Op {
    fn is_optional(self) -> bool {
        matches!(self, Op::TakeForOther | Op::Inherited | Op::Restart | Op::Sweeps)
    }

    fn is_client(self) -> bool {
        use Op::*;
        matches!(self, Map | Store | Load | Unmap | Fork | Inherited | DirectRead | DirectWrite)
    }

    fn writes(self) -> bool {
        matches!(self, Op::Store | Op::DirectWrite | Op::KernelWrite | Op::Truncate | Op::Punch)
    }
}

/// A rule that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    MovesMarked,
    CutsMarked,
    InodeNotKept,
    MarkedAfterLook,
    MarkOfProcess,
    MarksOutliveProcesses,
    KernelKeepsPages,
    RestartIgnoresMarks,
    SweepWithoutLock,
    ServerWaits,
}

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// What has been stored is what is read, by every way.
    Coherence,
    /// Nobody stores to, or reads, a page of another file.
    Reuse,
    /// The server goes on though clients stand still.
    ServerWaits,
    /// Somebody can always go on.
    Deadlock,
}

/// How far an operation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
enum Pc {
    #[default]
    Begin,
    /// Waits for the inode's lock.
    Lock,
    /// Has it.
    Locked,
    /// The content is on its way.
    Copied,
    /// Tells, or is told.
    Unlocked,
    Looked,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Process {
    op: u8,
    pc: Pc,
    /// The page that it has mapped.
    mapped: u8,
    /// A page that it is about.
    page: u8,
    value: u8,
    /// Writes that had returned when a read began.
    since: u32,
}

/// All that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// Of pages: 0 free, 1 the file's, 2 others'.
    owner: [u8; PAGES],
    words: [u8; PAGES],
    piece: u8,
    /// The write that what has no page is of.
    emptied: u8,
    linked: bool,
    freed: bool,
    /// The inode is kept in memory because it is mapped.
    kept: bool,
    /// In memory it is known to be mapped, perhaps.
    known: bool,
    /// Whose the inode's lock is, and 1.
    lock: u8,
    /// Whose the lock of what is kept is, and 1.
    sweeping: u8,
    /// Marks, by who asked for them: there until that one and its child have let go.
    marks: u8,
    cached: u8,
    processes: [Process; PROCS],
    returned: u32,
    ended: u32,
    before: [u32; 16],
    /// The server runs.
    serves: bool,
}

/// Programs, and how they are run.
#[derive(Debug, Clone)]
pub struct Model {
    pub programs: Programs<Op>,
    pub fault: Fault,
    /// Processes that may die, as bits.
    pub mortal: u8,
    pub clients_stand_still: bool,
    /// The file is a hole at first.
    pub hole: bool,
    /// No page is free at first.
    pub full: bool,
}

impl Model {
    pub fn new(programs: &[&[Op]]) -> Model {
        let programs = Programs::new(programs, PROCS, 3);
        Model { programs, fault: Fault::None, mortal: 0, clients_stand_still: false, hole: false, full: false }
    }

    pub fn start(&self) -> State {
        let idle = Process { op: 0, pc: Pc::Begin, mapped: NONE, page: NONE, value: 0, since: 0 };
        let free = if self.full { 2 } else { 0 };
        State {
            owner: if self.hole { [0, 2, free] } else { [1, 2, free] },
            words: [if self.hole { FOREIGN } else { 0 }, FOREIGN, FOREIGN],
            piece: if self.hole { NONE } else { 0 },
            emptied: 0,
            linked: true,
            freed: false,
            kept: false,
            known: false,
            lock: 0,
            sweeping: 0,
            marks: 0,
            cached: NONE,
            processes: [idle; PROCS],
            returned: 0,
            ended: 1,
            before: [0; 16],
            serves: true,
        }
    }

    pub fn processes(&self) -> usize {
        self.programs.count()
    }

    fn op(&self, s: &State, p: usize) -> Option<Op> {
        let process = &s.processes[p];
        if process.pc == Pc::Dead { None } else { self.programs.op(p, process.op) }
    }

    pub fn describe(&self, s: &State, p: usize) -> String {
        format!("{p} {:?} {:?}", self.op(s, p), s.processes[p].pc)
    }

    pub fn is_done(&self, s: &State, p: usize) -> bool {
        // Who waits for a server that is gone, and that mappings keep from coming back, waits for the mount.
        !s.serves || self.op(s, p).is_none_or(|op| op.is_optional() && s.processes[p].pc == Pc::Begin)
            // Who still has something mapped keeps what others may wait for.
            || self.op(s, p) == Some(Op::MustTake) && s.processes.iter().any(|process| process.mapped != NONE)
    }

    fn is_client(&self, p: usize) -> bool {
        self.programs.of(p).iter().any(|op| op.is_client())
    }

    /// Whether the server gets done though clients stand still.
    pub fn goes_on_without_clients(&self, s: &State) -> Result<bool, Invariant> {
        // What a client has asked for is the server's to do.
        let asked = |now: &State, p| {
            self.op(now, p) == Some(Op::Map) && (Pc::Lock..Pc::Unlocked).contains(&now.processes[p].pc)
        };
        let goes = |now: &State, p| !self.is_client(p) || asked(now, p);
        let now = settled(s, self.processes(), goes, |now, p| self.step(now, p))?;
        Ok((0..self.processes()).all(|p| self.is_client(p) || self.is_done(&now, p)))
    }

    fn token(p: usize, process: &Process) -> u8 {
        (1 + p * 3) as u8 + process.op
    }

    fn is_fresh(s: &State, value: u8, since: u32) -> bool {
        let newer = |token: u8| since >> token & 1 == 1 && s.before[usize::from(token)] >> value & 1 == 1;
        value != FOREIGN && !(0..16).any(newer)
    }

    /// What must hold in each state.
    pub fn check(&self, s: &State) -> Result<(), Invariant> {
        if (0..PAGES).any(|page| s.owner[page] == 2 && s.words[page] != FOREIGN) {
            return Err(Invariant::Reuse);
        }
        let content = if s.piece == NONE { s.emptied } else { s.words[usize::from(s.piece)] };
        if s.lock == 0 && !s.freed && !Model::is_fresh(s, content, s.returned) {
            return Err(Invariant::Coherence);
        }
        Ok(())
    }

    /// The state after a client's death.
    pub fn die(&self, s: &State, p: usize) -> Option<State> {
        let process = &s.processes[p];
        let waits = self.op(s, p) == Some(Op::Map) && process.pc != Pc::Begin && process.pc < Pc::Unlocked;
        // The server finishes what was asked for.
        if self.mortal >> p & 1 == 0 || process.pc == Pc::Dead || waits || process.op == 0 && process.pc == Pc::Begin {
            return None;
        }
        let mut next = *s;
        if self.op(s, p).is_some() {
            next.ended |= 1 << Model::token(p, process);
        }
        next.processes[p] = Process { pc: Pc::Dead, mapped: NONE, op: process.op, page: NONE, value: 0, since: 0 };
        self.let_go(&mut next, p);
        Some(next)
    }

    /// A process has nothing mapped any more: a mark of its own goes, unless its child has.
    fn let_go(&self, s: &mut State, p: usize) {
        if self.fault == Fault::MarksOutliveProcesses {
            return;
        }
        // A child comes behind its parent, and has the same mark.
        for parent in [Some(p), p.checked_sub(1)].into_iter().flatten() {
            let child = parent + 1;
            let by_child = self.programs.of(child).first() == Some(&Op::Inherited);
            let is_held = s.processes[parent].mapped != NONE || s.processes[parent].page != NONE;
            let is_inherited = by_child && s.processes[child].mapped != NONE && self.fault != Fault::MarkOfProcess;
            if !is_held && !is_inherited {
                s.marks &= !(1 << parent);
            }
        }
    }

    /// Whether the file lies still, for who has its lock.
    fn is_mapped(s: &State) -> bool {
        s.known && s.marks != 0
    }

    /// The state after a process's next step; `None`: it waits, or is done.
    pub fn step(&self, state: &State, p: usize) -> Result<Option<State>, Invariant> {
        let Some(op) = self.op(state, p) else { return Ok(None) };
        let mut next = *state;
        let s = &mut next;
        if s.processes[p].pc == Pc::Begin {
            s.processes[p].since = s.returned;
            if op.writes() {
                s.before[usize::from(Model::token(p, &s.processes[p]))] = s.ended;
            }
        }
        let without_server = matches!(op, Op::Store | Op::Load | Op::Unmap | Op::Fork | Op::Inherited | Op::Restart);
        if !s.serves && !without_server {
            return Ok(None);
        }
        let went = match op {
            Op::Map => self.map(s, p),
            Op::Store | Op::Load => self.access(s, p, op)?,
            Op::Unmap => {
                s.processes[p].mapped = NONE;
                s.end(p);
                self.let_go(s, p);
                true
            }
            Op::Fork => {
                s.processes[p + 1].mapped = s.processes[p].mapped;
                s.end(p);
                true
            }
            Op::Inherited => {
                let forked = s.processes[p].mapped != NONE;
                if forked {
                    s.end(p);
                }
                forked
            }
            Op::TakeForOther | Op::MustTake => s.take(2).is_some_and(|page| {
                s.words[page] = FOREIGN;
                s.end(p);
                true
            }),
            Op::Evict => {
                s.known &= s.kept;
                s.end(p);
                true
            }
            Op::Restart => self.restart(s, p),
            Op::Sweep | Op::Sweeps => self.sweep(s, p, op),
            _ => self.locked(s, p, op)?,
        };
        Ok(went.then_some(next))
    }
}

impl State {
    /// A page that is free, for this owner.
    fn take(&mut self, owner: u8) -> Option<usize> {
        let page = self.owner.iter().position(|owner| *owner == 0)?;
        self.owner[page] = owner;
        Some(page)
    }

    /// An inode without a name lives as long as it is in use.
    fn free_if_unused(&mut self) {
        if self.linked || self.kept || self.freed {
            return;
        }
        self.freed = true;
        if let Some(owner) = self.owner.get_mut(usize::from(self.piece)) {
            *owner = 0;
        }
    }

    fn end(&mut self, p: usize) {
        let Process { op, mapped, .. } = self.processes[p];
        self.processes[p] = Process { op: op + 1, pc: Pc::Begin, mapped, page: NONE, value: 0, since: 0 };
    }

    fn returns(&mut self, p: usize) {
        self.returned |= 1 << Model::token(p, &self.processes[p]);
        self.fails(p);
    }

    fn fails(&mut self, p: usize) {
        self.ended |= 1 << Model::token(p, &self.processes[p]);
        self.end(p);
    }
}
