//! A direct process, and what it leaves to the kernel.

use super::{Fault, Invariant, Model, NONE, Op, Pc, Process, State, WORDS};
use crate::pages::{FREE, OTHERS};

impl Model {
    /// Without the kernel.
    pub(super) fn direct(&self, s: &mut State, p: usize, op: Op) -> Result<bool, Invariant> {
        let write = op != Op::DirectRead;
        let me = s.processes[p];
        let mut pc = me.pc;
        match me.pc {
            Pc::Begin | Pc::Slot if write => {
                if self.fault != Fault::SlotNotSet {
                    s.slots |= 1 << p;
                }
                pc = Pc::Seq;
            }
            Pc::Begin | Pc::Slot | Pc::Seq => {
                // Looking again and again, until it is even.
                if s.seq % 2 == 1 {
                    return Ok(false);
                }
                s.processes[p].seq = s.seq;
                pc = Pc::State;
            }
            Pc::State if s.kernel_pages && (write || self.fault != Fault::ReaderIgnoresKernel) => {
                pc = s.ask(p);
            }
            Pc::State => {
                if self.fault == Fault::WriterComparesCounter {
                    s.processes[p].count = s.count;
                }
                pc = Pc::Size;
            }
            Pc::Size if s.size => pc = Pc::Piece,
            Pc::Size if write => return Ok(self.by_kernel(s, p)),
            Pc::Size => {
                s.processes[p].words = [s.emptied; WORDS];
                pc = Pc::FirstLook;
            }
            Pc::Piece if s.piece == NONE => return Ok(self.again(s, p)),
            Pc::Piece => {
                s.processes[p].piece = s.piece;
                pc = if op == Op::DirectWrite(2) { Pc::Word1 } else { Pc::Word0 };
            }
            Pc::Word0 | Pc::Word1 => {
                let (word, page) = (usize::from(me.pc == Pc::Word1), usize::from(me.piece));
                if write {
                    if s.owner[page] == OTHERS || s.owner[page] == FREE {
                        return Err(Invariant::Reuse);
                    }
                    s.words[page][word] = Model::token(p, &me);
                } else {
                    s.processes[p].words[word] = s.words[page][word];
                }
                pc = if word == 0 && op != Op::DirectWrite(1) { Pc::Word1 } else { Pc::FirstLook };
            }
            Pc::FirstLook | Pc::SecondLook => {
                let first = me.pc == Pc::FirstLook;
                // The kernel before the change: what the kernel wrote back before it went is a change.
                let kernel_last = matches!(self.fault, Fault::WriterLooksForKernelLast | Fault::WriterComparesCounter);
                let for_change = first == (kernel_last && write);
                let blind = match (write, for_change) {
                    (true, true) => self.fault == Fault::WriterLooksNotForChange,
                    (true, false) => self.fault == Fault::WriterLooksNotForKernel,
                    (false, true) => self.fault == Fault::ReaderLooksNotForChange,
                    (false, false) => {
                        matches!(self.fault, Fault::ReaderLooksNotForKernelAgain | Fault::ReaderIgnoresKernel)
                    }
                };
                let changed = if for_change { s.seq != me.seq } else { !write && s.kernel_pages };
                let compares = self.fault == Fault::WriterComparesCounter && write;
                let came_and_went = compares && !for_change && !s.kernel_pages && s.count != me.count;
                if !blind && (changed || came_and_went) {
                    return Ok(self.again(s, p));
                }
                if !blind && !for_change && s.kernel_pages {
                    pc = s.ask(p);
                } else if first {
                    pc = Pc::SecondLook;
                } else if write {
                    pc = Pc::ClearSlot;
                } else {
                    return self.read_returns(s, p);
                }
            }
            Pc::ClearSlot => {
                s.clear_slot(p);
                s.returns(p);
                return Ok(true);
            }
            Pc::Asked if s.got >> p & 1 == 1 => {
                s.got &= !(1 << p);
                s.processes[p].tries += 1;
                if me.tries + 1 == self.attempts {
                    return Ok(self.by_kernel(s, p));
                }
                // All begins anew: what has been stored is stored again.
                pc = Pc::Slot;
            }
            Pc::Asked if s.refused >> p & 1 == 1 => {
                s.refused &= !(1 << p);
                s.processes[p].tries += 1;
                if me.tries + 1 == self.attempts {
                    return Ok(self.by_kernel(s, p));
                }
                s.want |= 1 << p;
            }
            _ => return Ok(false),
        }
        s.processes[p].pc = pc;
        Ok(true)
    }

    /// All that was looked at may have been of two states.
    pub(super) fn again(&self, s: &mut State, p: usize) -> bool {
        s.processes[p].tries += 1;
        if s.processes[p].tries == self.attempts {
            return self.by_kernel(s, p);
        }
        s.clear_slot(p);
        s.processes[p].pc = Pc::Slot;
        true
    }

    pub(super) fn by_kernel(&self, s: &mut State, p: usize) -> bool {
        s.clear_slot(p);
        let me = s.processes[p];
        s.processes[p] = Process { op: me.op, since: me.since, pc: Pc::KernelPage, ..Process::default() };
        true
    }

    pub(super) fn read_returns(&self, s: &mut State, p: usize) -> Result<bool, Invariant> {
        if !self.is_fresh(s, s.processes[p].words, s.processes[p].since) {
            return Err(Invariant::Coherence);
        }
        s.end(p);
        Ok(true)
    }
}

impl State {
    /// A direct process wants the kernel's pages to go. It holds no slot meanwhile.
    fn ask(&mut self, p: usize) -> Pc {
        self.clear_slot(p);
        self.want |= 1 << p;
        // What it knows is of before.
        let me = self.processes[p];
        self.processes[p] = Process { op: me.op, since: me.since, tries: me.tries, ..Process::default() };
        Pc::Asked
    }
}
