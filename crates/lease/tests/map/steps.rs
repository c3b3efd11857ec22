//! What each operation does, step by step.

use super::{Fault, Invariant, Model, NONE, Op, PAGES, Pc, State};

impl Model {
    pub(super) fn map(&self, s: &mut State, p: usize) -> bool {
        let late = self.fault == Fault::MarkedAfterLook;
        match s.processes[p].pc {
            // By name or number: it has to be there.
            Pc::Begin if s.freed || !s.linked => s.end(p),
            Pc::Begin => {
                if s.sweeping != 0 && self.fault != Fault::SweepWithoutLock {
                    return false;
                }
                s.kept |= self.fault != Fault::InodeNotKept;
                if !late {
                    s.marks |= 1 << p;
                    // On its way to the process: no less than a mapping.
                    s.processes[p].page = PAGES as u8;
                }
                s.processes[p].pc = Pc::Lock;
            }
            Pc::Lock => {
                if s.lock != 0 {
                    return false;
                }
                if s.freed {
                    s.end(p);
                    self.let_go(s, p);
                    return true;
                }
                s.lock = p as u8 + 1;
                s.processes[p].pc = Pc::Locked;
            }
            Pc::Locked => {
                if s.piece == NONE {
                    let Some(page) = s.take(1) else {
                        s.lock = 0;
                        s.end(p);
                        self.let_go(s, p);
                        return true;
                    };
                    s.words[page] = s.emptied;
                    s.piece = page as u8;
                }
                s.known |= !late;
                s.processes[p].pc = Pc::Copied;
            }
            Pc::Copied => {
                s.lock = 0;
                s.processes[p].pc = Pc::Unlocked;
            }
            Pc::Unlocked => {
                s.processes[p].page = s.piece;
                s.processes[p].pc = Pc::Looked;
            }
            _ => {
                if late {
                    s.marks |= 1 << p;
                    s.known = true;
                }
                s.processes[p].mapped = s.processes[p].page;
                s.end(p);
            }
        }
        true
    }

    /// By the mapping, whatever has become of it.
    pub(super) fn access(&self, s: &mut State, p: usize, op: Op) -> Result<bool, Invariant> {
        let me = s.processes[p];
        let Some(owner) = s.owner.get(usize::from(me.mapped)) else {
            s.fails(p);
            return Ok(true);
        };
        if *owner != 1 {
            return Err(Invariant::Reuse);
        }
        if op == Op::Store {
            s.words[usize::from(me.mapped)] = Model::token(p, &me);
            s.returns(p);
        } else {
            if !Model::is_fresh(s, s.words[usize::from(me.mapped)], me.since) {
                return Err(Invariant::Coherence);
            }
            s.end(p);
        }
        Ok(true)
    }

    pub(super) fn restart(&self, s: &mut State, p: usize) -> bool {
        if s.processes[p].pc == Pc::Begin {
            // All that was under way is broken off. The journal makes changes whole; here they wait for that.
            if s.lock != 0 || s.sweeping != 0 || s.processes.iter().any(|process| process.page == PAGES as u8) {
                return false;
            }
            s.serves = false;
            s.processes[p].pc = Pc::Lock;
            return true;
        }
        if s.marks != 0 && self.fault != Fault::RestartIgnoresMarks {
            return false;
        }
        (s.serves, s.known, s.kept) = (true, false, false);
        s.free_if_unused();
        s.end(p);
        true
    }

    pub(super) fn sweep(&self, s: &mut State, p: usize, op: Op) -> bool {
        let locks = self.fault != Fault::SweepWithoutLock;
        match s.processes[p].pc {
            Pc::Begin => {
                if s.sweeping != 0 || op == Op::Sweeps && !(s.kept && s.marks == 0) {
                    return false;
                }
                if locks {
                    s.sweeping = p as u8 + 1;
                }
                s.processes[p].value = u8::from(s.marks == 0);
                s.processes[p].pc = Pc::Locked;
            }
            Pc::Locked => {
                s.sweeping = 0;
                if s.processes[p].value == 0 {
                    s.end(p);
                } else {
                    s.kept = false;
                    s.processes[p].pc = Pc::Lock;
                }
            }
            // The last use of the inode ends, under its lock, unless it is in use again.
            _ => {
                if s.lock != 0 {
                    return false;
                }
                s.free_if_unused();
                s.end(p);
                // It looks again from time to time.
                s.processes[p].op -= u8::from(op == Op::Sweeps);
            }
        }
        true
    }

    /// What needs the inode's lock.
    pub(super) fn locked(&self, s: &mut State, p: usize, op: Op) -> Result<bool, Invariant> {
        let me = s.processes[p];
        let token = Model::token(p, &me);
        match me.pc {
            Pc::Begin if op == Op::KernelRead && s.cached != NONE => {
                if !Model::is_fresh(s, s.cached, me.since) {
                    return Err(Invariant::Coherence);
                }
                s.end(p);
            }
            Pc::Begin | Pc::Lock => {
                if s.lock != 0 {
                    return Ok(false);
                }
                if s.freed {
                    s.fails(p);
                    return Ok(true);
                }
                if self.fault == Fault::ServerWaits && op == Op::Truncate && Model::is_mapped(s) {
                    return Ok(false);
                }
                s.lock = p as u8 + 1;
                s.processes[p].pc = Pc::Locked;
            }
            Pc::Locked => return self.change(s, p, op, token),
            // What moves is copied, then the file has it there.
            _ => {
                let (old, new) = (usize::from(s.piece), usize::from(me.page));
                s.owner[old] = 0;
                s.piece = new as u8;
                s.processes[p].page = NONE;
                s.lock = 0;
                s.end(p);
            }
        }
        Ok(true)
    }

    fn change(&self, s: &mut State, p: usize, op: Op, token: u8) -> Result<bool, Invariant> {
        let still = Model::is_mapped(s);
        let page = usize::from(s.piece);
        let me = s.processes[p];
        match op {
            Op::DirectRead | Op::KernelRead => {
                let value = s.words.get(page).copied().unwrap_or(s.emptied);
                if !Model::is_fresh(s, value, me.since) {
                    return Err(Invariant::Coherence);
                }
                if op == Op::KernelRead && self.fault == Fault::KernelKeepsPages {
                    s.cached = value;
                }
                s.lock = 0;
                s.end(p);
            }
            Op::DirectWrite | Op::KernelWrite => {
                let place = if s.piece == NONE { s.take(1) } else { Some(page) };
                s.lock = 0;
                match place {
                    Some(page) => {
                        (s.words[page], s.piece) = (token, page as u8);
                        s.returns(p);
                    }
                    None => s.fails(p),
                }
            }
            Op::Move => {
                let stays = still && self.fault != Fault::MovesMarked || s.piece == NONE;
                match if stays { None } else { s.take(1) } {
                    Some(new) => {
                        s.words[new] = s.words[page];
                        s.processes[p].page = new as u8;
                        s.processes[p].pc = Pc::Copied;
                    }
                    None => {
                        s.lock = 0;
                        s.end(p);
                    }
                }
            }
            Op::Truncate | Op::Punch => {
                s.lock = 0;
                let cuts = !still || self.fault == Fault::CutsMarked;
                if s.piece == NONE {
                    s.emptied = token;
                    s.returns(p);
                } else if cuts {
                    (s.owner[page], s.piece, s.emptied) = (0, NONE, token);
                    s.returns(p);
                } else if op == Op::Punch {
                    s.words[page] = token;
                    s.returns(p);
                } else {
                    s.fails(p);
                }
            }
            _ => {
                s.lock = 0;
                s.linked = false;
                s.free_if_unused();
                s.end(p);
            }
        }
        Ok(true)
    }
}
