//! The server's changes, and leases.

use super::{EXCLUSIVE, Fault, Model, NONE, Op, Pc, State};
use crate::pages;

impl Model {
    /// The server changes the file; or has the kernel forget its page, while it answers an fsync(2).
    pub(super) fn change(&self, s: &mut State, p: usize, op: Op) -> bool {
        let token = Model::token(p, &s.processes[p]);
        let me = s.processes[p];
        let page = usize::from(me.piece);
        let pc = match (me.pc, op) {
            (Pc::Begin | Pc::Lock, _) => {
                if s.lock != 0 || self.fault == Fault::ServerWaitsForSlots && s.slots != 0 {
                    return false;
                }
                // The kernel waits for its inode lock before it asks the server to change the size.
                if op != Op::Move && s.inode_locked {
                    return false;
                }
                let possible = match op {
                    Op::Move => s.size && pages::free(&s.owner).is_some(),
                    Op::Truncate => s.size,
                    _ => !s.size && pages::free(&s.owner).is_some(),
                };
                if !possible {
                    s.fails(p);
                    return true;
                }
                s.lock = EXCLUSIVE;
                s.inode_locked |= op != Op::Move;
                s.seq += 1;
                if op != Op::Truncate {
                    s.processes[p].piece = s.take_page();
                }
                if op == Op::Extend || me.pc == Pc::Lock { Pc::Change0 } else { Pc::Snapshot }
            }
            (Pc::Snapshot, _) => {
                s.processes[p].snapshot = s.slots;
                Pc::Change0
            }
            (Pc::Change0, Op::Truncate) => {
                s.size = false;
                s.emptied = token;
                Pc::Change1
            }
            (Pc::Change1, Op::Truncate) => {
                self.give_up(s, me.snapshot);
                s.piece = NONE;
                Pc::End
            }
            (Pc::Change0, _) => {
                s.words[page][0] = if op == Op::Move { s.words[usize::from(s.piece)][0] } else { token };
                Pc::Change1
            }
            (Pc::Change1, _) => {
                s.words[page][1] = if op == Op::Move { s.words[usize::from(s.piece)][1] } else { token };
                Pc::Change2
            }
            (Pc::Change2, _) => {
                if op == Op::Move {
                    self.give_up(s, me.snapshot);
                }
                s.piece = me.piece;
                if op == Op::Move { Pc::End } else { Pc::Change3 }
            }
            (Pc::Change3, _) => {
                s.size = true;
                Pc::End
            }
            (Pc::End, _) => {
                s.unlock();
                if op != Op::Truncate {
                    s.inode_locked &= op == Op::Move;
                    s.returns(p);
                    return true;
                }
                Pc::Forget
            }
            (Pc::Forget, Op::Truncate) => {
                if s.locked || s.writing {
                    return false;
                }
                (s.valid, s.dirty, s.inode_locked) = (false, false, false);
                s.returns(p);
                return true;
            }
            // What fsync(2) does before it asks the server: all that is dirty is written back, once.
            (Pc::Flush, _) => {
                if s.writing {
                    return false;
                }
                if s.valid && s.dirty {
                    s.take_dirty(p, false);
                    return true;
                }
                Pc::Note
            }
            // The server has the request.
            (Pc::Note, _) => {
                s.processes[p].count = s.count;
                Pc::Forget
            }
            (Pc::Forget, _) => {
                if s.locked || s.writing && self.fault != Fault::LeaseDoesNotAwaitWriteBack {
                    return false;
                }
                if s.valid && s.dirty {
                    s.take_dirty(p, true);
                    return true;
                }
                s.valid = false;
                Pc::Swap
            }
            _ => {
                let same = s.count == me.count || self.fault == Fault::LeaseDoesNotCompare;
                if same {
                    s.kernel_pages = false;
                }
                // A client that has died waits no more.
                let client = me.snapshot & s.want;
                s.want &= !client;
                s.inode_locked &= self.fault == Fault::LeaseWithoutInodeLock;
                if same {
                    s.got |= client
                } else {
                    s.refused |= client
                }
                s.end(p);
                s.processes[p].op = 0;
                return true;
            }
        };
        s.processes[p].pc = pc;
        true
    }

    /// The file loses its page, which others may get once those who may still store to it have stopped.
    pub(super) fn give_up(&self, s: &mut State, snapshot: u8) {
        let slots = if self.fault == Fault::NoQuarantine { 0 } else { snapshot };
        s.owner[usize::from(s.piece)] = pages::given_up(slots);
    }
}
