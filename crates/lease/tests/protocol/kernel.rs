//! The kernel: its page, what programs do with that, and the requests that it sends.

use super::{EXCLUSIVE, Fault, Invariant, Model, NONE, Op, Pc, Process, State, WORDS};
use crate::pages;

impl Model {
    /// A program's access to the kernel's page.
    pub(super) fn page(&self, s: &mut State, p: usize, op: Op) -> Result<bool, Invariant> {
        let token = Model::token(p, &s.processes[p]);
        match op {
            Op::DirectRead | Op::KernelRead if s.valid => {
                s.processes[p].words = s.cached;
                return self.read_returns(s, p);
            }
            _ if s.locked => return Ok(false),
            Op::MappedStore(_) if s.valid && s.writing => return Ok(false),
            Op::MappedStore(_) if self.mapped_stores_wait && s.is_being_sent() => return Ok(false),
            Op::MappedStore(mask) if s.valid => {
                s.cache(mask, token);
                s.dirty = true;
                s.returns(p);
            }
            Op::DirectRead | Op::KernelRead | Op::MappedStore(_) => {
                s.locked = true;
                let late = self.fault == Fault::KernelNotedAfterCopy;
                s.processes[p].pc = if late { Pc::ReadWord0 } else { Pc::ReadCame };
            }
            _ if s.inode_locked => return Ok(false),
            _ => {
                s.inode_locked = true;
                s.processes[p].words = [token; WORDS];
                // Linux lets go of a page that is valid by now before the server has the bytes.
                if s.valid || op.mask() == 3 {
                    s.cache(op.mask(), token);
                    s.valid = true;
                } else {
                    s.locked = true;
                    s.processes[p].mark = true;
                }
                s.processes[p].pc = Pc::WriteCame;
            }
        }
        Ok(true)
    }

    /// The kernel reads a page from the server.
    pub(super) fn read_request(&self, s: &mut State, p: usize, op: Op) -> Result<bool, Invariant> {
        let late = self.fault == Fault::KernelNotedAfterCopy;
        let pc = match s.processes[p].pc {
            Pc::ReadCame => {
                s.kernel_comes();
                Pc::ReadWord0
            }
            Pc::ReadWord0 if s.lock == EXCLUSIVE => return Ok(false),
            Pc::ReadWord0 => {
                s.lock += 1;
                let empty = [s.emptied; WORDS];
                s.processes[p].piece = s.piece;
                s.processes[p].words = if s.piece == NONE { empty } else { s.words[usize::from(s.piece)] };
                Pc::ReadWord1
            }
            Pc::ReadWord1 => {
                s.lock -= 1;
                if s.piece != NONE {
                    s.processes[p].words[1] = s.words[usize::from(s.piece)][1];
                }
                if late { Pc::ReadCameLate } else { Pc::ReadDone }
            }
            Pc::ReadCameLate => {
                s.kernel_comes();
                Pc::ReadDone
            }
            _ => {
                s.locked = false;
                match op {
                    // Nothing to store to.
                    Op::MappedStore(_) if s.processes[p].piece == NONE => {
                        s.fails(p);
                        return Ok(true);
                    }
                    _ if s.processes[p].piece == NONE => return self.read_returns(s, p),
                    _ => (s.valid, s.cached) = (true, s.processes[p].words),
                }
                Pc::KernelPage
            }
        };
        s.processes[p].pc = pc;
        Ok(true)
    }
}

impl State {
    /// Whether a program's bytes are between the kernel and the server.
    pub(super) fn is_being_written(&self) -> bool {
        self.processes.iter().any(|process| (Pc::WriteCame..=Pc::WriteDone).contains(&process.pc))
    }

    /// Whether a write(2) has changed the page, and the server has not heard of it.
    fn is_being_sent(&self) -> bool {
        let sends = |process: &Process| process.pc == Pc::WriteCame;
        self.inode_locked && !self.writing && self.processes.iter().any(sends)
    }

    pub(super) fn cache(&mut self, mask: u8, token: u8) {
        for (word, value) in self.cached.iter_mut().enumerate() {
            if mask >> word & 1 == 1 {
                *value = token;
            }
        }
    }

    /// The kernel begins to write its page back. It may hold the page's lock meanwhile, to forget the page then.
    pub(super) fn take_dirty(&mut self, p: usize, holds: bool) {
        (self.dirty, self.writing) = (false, true);
        self.locked |= holds;
        let process = &mut self.processes[p];
        (process.words, process.mark, process.pc) = (self.cached, holds, Pc::WriteCame);
    }

    /// The kernel brings a program's bytes, or a dirty page.
    pub(super) fn write_request(&mut self, p: usize, op: Op) -> bool {
        let me = self.processes[p];
        let of_page = matches!(op, Op::WriteBack | Op::Lease);
        let mask = if of_page { 3 } else { op.mask() };
        let pc = match me.pc {
            // The kernel sends no bytes of a page while older ones of it are on their way.
            Pc::WriteCame if !of_page && self.writing => return false,
            Pc::WriteCame => {
                self.kernel_comes();
                // A program's bytes come out of the page, if others may store there.
                if self.valid && !of_page {
                    self.processes[p].words = self.cached;
                }
                Pc::WriteLock
            }
            Pc::WriteLock => {
                if self.lock != 0 {
                    return false;
                }
                self.lock = EXCLUSIVE;
                self.seq += 1;
                if self.piece == NONE && !of_page && pages::free(&self.owner).is_some() {
                    self.piece = self.take_page();
                    self.size = true;
                }
                match mask {
                    _ if self.piece == NONE => Pc::WriteEnd,
                    2 => Pc::WriteWord1,
                    _ => Pc::WriteWord0,
                }
            }
            Pc::WriteWord0 | Pc::WriteWord1 => {
                let word = usize::from(me.pc == Pc::WriteWord1);
                self.words[usize::from(self.piece)][word] = me.words[word];
                if word == 0 && mask == 3 { Pc::WriteWord1 } else { Pc::WriteEnd }
            }
            Pc::WriteEnd => {
                self.processes[p].piece = self.piece;
                self.unlock();
                Pc::WriteDone
            }
            _ => return self.write_answered(p, op),
        };
        self.processes[p].pc = pc;
        true
    }

    pub(super) fn write_answered(&mut self, p: usize, op: Op) -> bool {
        let me = self.processes[p];
        match op {
            Op::WriteBack => {
                self.writing = false;
                self.end(p);
            }
            Op::Lease => {
                self.writing = false;
                if me.mark {
                    (self.valid, self.locked) = (false, false);
                }
                // What the lease remembers of the write does not matter any more.
                let pc = if me.mark { Pc::Swap } else { Pc::Note };
                self.processes[p] =
                    Process { op: me.op, snapshot: me.snapshot, count: me.count, pc, ..Process::default() };
            }
            _ => {
                self.inode_locked = false;
                if me.mark {
                    self.locked = false;
                }
                // No space: nothing has been written.
                if me.piece == NONE {
                    self.valid = false;
                    self.fails(p);
                } else {
                    self.returns(p);
                }
            }
        }
        true
    }
}
