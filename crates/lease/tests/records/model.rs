//! The protocol of records as steps; each is one access to what others see. Of the file's content there is only its
//! size.

use crate::pages::{self, FREE, OTHERS, OURS};
use crate::support::{Programs, settled};

const PROCS: usize = 4;
const RECORDS: usize = 2;
const NONE: u8 = 0xFF;
/// What another file's record says: its head and size.
const OTHERS_RECORD: (u8, u8) = (200, 9);

/// Fewer states are none where anything happens.
pub const FEWEST_STATES: usize = 50;

/// What must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invariant {
    /// The file is as long as an fdatasync(2) was told though all are killed now.
    Durable,
    /// It is no longer than it ever was since it was cut.
    Longer,
    /// Another file's record is that file's alone.
    Reuse,
    /// The server gets done though the clients stand still.
    ServerWaits,
    /// Something can go on until all is done.
    Deadlock,
}

/// What a process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// An append by a lease, which is asked for if there is none.
    Append,
    /// fdatasync(2): by a record, or else by the server.
    Sync,
    /// The server stores the size, and the lease goes on.
    Store,
    /// The server takes the lease, and stores nothing: somebody looked at the file.
    Take,
    /// The file is cut off at nothing.
    Cut,
    /// The file has not grown for a while: the server stores the size, and its record is for others.
    Idle,
    /// Another file gets a free record. May happen.
    OtherTakes,
}

/// What is left out or done otherwise than it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Nothing,
    /// The server looks at the lease before it makes the sequence odd.
    SizeLookedAtFirst,
    /// A record counts whatever its version.
    AnyVersion,
    /// The head is changed while there is a size.
    SizeKept,
    /// Two threads store to a record at once.
    NotBusy,
    /// The next one who has the end gets the record that the last one may store to.
    NotRetired,
    /// A record is no file's any more though the size is not stored.
    GivenBackUnstored,
    /// It is free though somebody may store to it.
    NoQuarantine,
    SlotNotSet,
}

/// What a process does next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Pc {
    #[default]
    Begin,
    // A client that synchronises.
    Slot,
    Shown,
    Look,
    Busy,
    Void,
    Head,
    Size,
    Again,
    // The server, under the inode's lock.
    Lock,
    Word,
    Change,
    End,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Process {
    op: u8,
    pc: Pc,
    seq: u8,
    word: Word,
    record: u8,
    version: u8,
    /// What has to be durable when it returns.
    told: u8,
    /// What the server does for it.
    what: u8,
    asked: bool,
}

const STORE: u8 = 0;
const TAKE: u8 = 1;
const CUT: u8 = 2;
const GRANT: u8 = 3;
const GROW: u8 = 4;
const IDLE: u8 = 5;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Word {
    valid: bool,
    busy: bool,
    size: u8,
}

/// All there is at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    words: [Word; 2],
    seq: u8,
    locked: bool,
    slots: u8,
    /// What the table shows: version, record, and whether that size is stored.
    shown: (u8, u8, bool),
    shown_size: u8,
    /// The inode in memory, and the record that it has.
    size: u8,
    record: u8,
    retired: bool,
    /// The inode on the medium: version and size.
    stored: (u8, u8),
    /// Records on the medium: head, of which 0 is none, and size; and whose they are.
    records: [(u8, u8); RECORDS],
    owners: [u8; RECORDS],
    /// What was told to be durable, and the most that the file was since it was cut.
    promised: u8,
    most: u8,
    cuts: u8,
    processes: [Process; PROCS],
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
        let programs = Programs::new(programs, PROCS, usize::from(u8::MAX));
        Model { programs, fault: Fault::Nothing, mortal: 0, threads: false, clients_stand_still: false }
    }

    pub fn start(&self) -> State {
        State {
            words: [Word::default(); 2],
            seq: 0,
            locked: false,
            slots: 0,
            shown: (1, NONE, true),
            shown_size: 0,
            size: 0,
            record: NONE,
            retired: false,
            stored: (1, 0),
            records: [(0, 0); RECORDS],
            owners: [FREE; RECORDS],
            promised: 0,
            most: 0,
            cuts: 0,
            processes: [Process::default(); PROCS],
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
        self.op(state, p).is_none_or(|op| op == Op::OtherTakes)
    }

    /// Whether what the server is at gets done though no client goes on.
    pub fn goes_on_without_clients(&self, state: &State) -> Result<bool, Invariant> {
        let of_client = |now: &State, p: usize| now.processes[p].pc < Pc::Lock && self.is_client(now, p);
        let now = settled(state, self.processes(), |now, p| !of_client(now, p), |now, p| self.step(now, p))?;
        Ok((0..self.processes()).all(|p| self.is_done(&now, p) || of_client(&now, p)))
    }

    fn is_client(&self, state: &State, p: usize) -> bool {
        matches!(self.op(state, p), Some(Op::Append | Op::Sync))
    }

    fn word(&self, p: usize) -> usize {
        if self.threads { 0 } else { p.min(1) }
    }

    /// What must hold in each state.
    pub fn check(&self, state: &State) -> Result<(), Invariant> {
        let others = state.owners.iter().zip(&state.records).filter(|(owner, _)| **owner == OTHERS);
        if others.map(|(_, record)| *record).any(|record| record != OTHERS_RECORD) {
            return Err(Invariant::Reuse);
        }
        // What recovery makes of it.
        let (version, size) = state.stored;
        let counts = |(head, _): &&(u8, u8)| *head == version || self.fault == Fault::AnyVersion && *head != 0;
        let recorded = state.records.iter().filter(counts).map(|(_, size)| *size).max().unwrap_or(0);
        let kept = size.max(recorded);
        if kept < state.promised {
            return Err(Invariant::Durable);
        }
        if kept > state.most { Err(Invariant::Longer) } else { Ok(()) }
    }

    /// The state after a process has died in the middle of a record, if it may.
    pub fn die(&self, state: &State, p: usize) -> Option<State> {
        let inside = (Pc::Slot..=Pc::Again).contains(&state.processes[p].pc);
        if self.mortal >> p & 1 == 0 || !inside {
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
        let went = match state.processes[p].pc {
            Pc::Begin => self.first(&mut next, p, op),
            pc if pc < Pc::Lock => self.sync(&mut next, p),
            _ => self.change(&mut next, p, op),
        };
        Ok(went.then_some(next))
    }

    fn first(&self, s: &mut State, p: usize, op: Op) -> bool {
        let word = self.word(p);
        match op {
            Op::Append if s.words[word].busy => return false,
            Op::Append if s.words[word].valid => {
                s.words[word].size += 1;
                s.most = s.most.max(s.words[word].size);
                s.end(p);
            }
            // Asked for once, so that it comes to an end; then the kernel does it.
            Op::Append => s.asks(p, if s.processes[p].asked { GROW } else { GRANT }),
            Op::Sync => {
                // Looking again and again, until it is even.
                if s.seq % 2 == 1 {
                    return false;
                }
                let now = s.words[word];
                s.processes[p].seq = s.seq;
                s.processes[p].word = now;
                s.processes[p].told = if now.valid { now.size } else { s.size };
                let is_other = now.valid && now.size != s.shown_size;
                if !s.shown.2 || !now.valid || now.busy && self.fault != Fault::NotBusy {
                    s.asks(p, STORE);
                } else if is_other {
                    s.processes[p].pc = Pc::Slot;
                } else if s.stored.1 >= now.size {
                    s.synced(p);
                } else {
                    s.asks(p, STORE);
                }
            }
            Op::Store => s.asks(p, STORE),
            Op::Take => s.asks(p, TAKE),
            Op::Cut => s.asks(p, CUT),
            Op::Idle => s.asks(p, IDLE),
            Op::OtherTakes => {
                let Some(record) = pages::free(&s.owners) else { return false };
                (s.owners[record], s.records[record]) = (OTHERS, OTHERS_RECORD);
                s.end(p);
            }
        }
        true
    }

    /// A client that records a size.
    fn sync(&self, s: &mut State, p: usize) -> bool {
        let (me, word) = (s.processes[p], self.word(p));
        let record = usize::from(me.record);
        s.processes[p].pc = match me.pc {
            Pc::Slot => {
                if self.fault != Fault::SlotNotSet {
                    s.slots |= 1 << p;
                }
                Pc::Shown
            }
            Pc::Shown => {
                (s.processes[p].version, s.processes[p].record) = (s.shown.0, s.shown.1);
                Pc::Look
            }
            Pc::Look => {
                if s.seq != me.seq || me.record == NONE {
                    s.clear_slot(p);
                    s.asks(p, STORE);
                    return true;
                }
                Pc::Busy
            }
            Pc::Busy => {
                if s.words[word] != me.word && self.fault != Fault::NotBusy {
                    s.clear_slot(p);
                    s.asks(p, STORE);
                    return true;
                }
                s.words[word].busy = self.fault != Fault::NotBusy;
                Pc::Void
            }
            Pc::Void => {
                if s.records[record].0 != me.version && self.fault != Fault::SizeKept {
                    s.records[record].1 = 0;
                }
                Pc::Head
            }
            Pc::Head => {
                s.records[record].0 = me.version;
                Pc::Size
            }
            Pc::Size => {
                s.records[record].1 = me.word.size;
                Pc::Again
            }
            _ => {
                let is_mine = s.words[word] == Word { busy: true, ..me.word } || self.fault == Fault::NotBusy;
                if is_mine && self.fault != Fault::NotBusy {
                    s.words[word].busy = false;
                }
                s.clear_slot(p);
                if is_mine {
                    s.synced(p);
                } else {
                    s.asks(p, STORE);
                }
                return true;
            }
        };
        true
    }

    /// A change under the inode's exclusive lock.
    fn change(&self, s: &mut State, p: usize, op: Op) -> bool {
        let me = s.processes[p];
        let early = self.fault == Fault::SizeLookedAtFirst;
        s.processes[p].pc = match me.pc {
            Pc::Lock => {
                if s.locked {
                    return false;
                }
                s.locked = true;
                if early {
                    self.take_over(s, p)
                } else {
                    s.seq += 1
                }
                Pc::Word
            }
            Pc::Word => {
                if early {
                    s.seq += 1
                } else {
                    self.take_over(s, p)
                }
                Pc::Change
            }
            Pc::Change => {
                match me.what {
                    STORE => s.stored = (s.stored.0 + 1, s.size),
                    IDLE => {
                        s.retired = s.record != NONE;
                        s.stored = (s.stored.0 + 1, s.size);
                    }
                    GROW => {
                        s.size += 1;
                        s.most = s.most.max(s.size);
                        s.stored = (s.stored.0 + 1, s.size);
                    }
                    CUT => {
                        (s.size, s.most, s.promised) = (0, 0, 0);
                        s.stored = (s.stored.0 + 1, 0);
                        s.cuts += 1;
                    }
                    _ => {}
                }
                Pc::End
            }
            _ => {
                let is_leased = me.what == GRANT || s.words.iter().any(|word| word.valid);
                let settled = s.size == s.stored.1;
                if s.retired && (settled || self.fault == Fault::GivenBackUnstored) {
                    // No file's any more, once nobody stores there.
                    let slots = if self.fault == Fault::NoQuarantine { 0 } else { s.slots };
                    s.owners[usize::from(s.record)] = pages::given_up(slots);
                    (s.record, s.retired) = (NONE, false);
                }
                if s.record == NONE && is_leased {
                    if let Some(record) = pages::free(&s.owners) {
                        (s.owners[record], s.record) = (OURS, record as u8);
                    }
                }
                s.shown = (s.stored.0, if s.retired { NONE } else { s.record }, settled);
                s.shown_size = s.size;
                if me.what == GRANT {
                    s.words[self.word(p)] = Word { valid: true, busy: false, size: s.size };
                }
                s.locked = false;
                s.seq += 1;
                match op {
                    // With the lease.
                    Op::Append if me.what == GRANT => {
                        s.processes[p] = Process { op: me.op, asked: true, ..Process::default() };
                    }
                    Op::Sync => s.synced(p),
                    _ => s.end(p),
                }
                return true;
            }
        };
        true
    }

    /// The server takes over what was appended; the lease goes on only if nothing but that is stored.
    fn take_over(&self, s: &mut State, p: usize) {
        let take = !matches!(s.processes[p].what, STORE | IDLE);
        for word in &mut s.words {
            if word.valid {
                s.size = word.size;
                s.retired |= take && word.busy && s.record != NONE && self.fault != Fault::NotRetired;
            }
            if take {
                *word = Word::default();
            }
        }
    }
}

impl State {
    /// Has the server do something.
    fn asks(&mut self, p: usize, what: u8) {
        (self.processes[p].pc, self.processes[p].what) = (Pc::Lock, what);
    }

    fn end(&mut self, p: usize) {
        self.processes[p] = Process { op: self.processes[p].op + 1, ..Process::default() };
    }

    /// fdatasync(2) returns. What was cut off meanwhile is promised by nobody.
    fn synced(&mut self, p: usize) {
        let told = self.processes[p].told;
        if self.cuts == 0 {
            self.promised = self.promised.max(told);
        }
        self.end(p);
    }

    fn clear_slot(&mut self, p: usize) {
        self.slots &= !(1 << p);
        pages::clear_slot(&mut self.owners, p);
    }
}
