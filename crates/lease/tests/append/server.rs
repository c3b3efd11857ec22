//! The server and the kernel: leases, requests, and changes under the inode's lock.

use super::{Fault, Invariant, JUNK, KERNEL_ROOM, LEASED, Model, Op, Pc, ROOM, State, Word};
use crate::pages::{self, OURS};

impl Model {
    /// A lease for a client, while the kernel's inode lock is held by an fsync(2) that is made for it.
    pub(super) fn grant(&self, s: &mut State, p: usize) -> bool {
        let me = s.processes[p];
        s.processes[p].pc = match me.pc {
            Pc::Forget => {
                if s.inode_locked {
                    return false;
                }
                s.inode_locked = true;
                s.processes[p].at = s.size + LEASED;
                s.processes[p].count = s.count;
                Pc::Raise
            }
            Pc::Raise => {
                // By which answers that are on their way do not count any more.
                s.valid = 0;
                s.version += 1;
                if self.fault != Fault::NotRaised {
                    s.kernel_size = s.kernel_size.max(me.at);
                }
                s.processes[p].then = Pc::Give;
                Pc::Lock
            }
            // After the change under the lock, which gave it.
            Pc::Give => Pc::Compare,
            _ => {
                if s.count == me.count || self.fault == Fault::GivenBlindly {
                    s.came = false;
                    s.inode_locked = false;
                    Pc::Slot
                } else if s.words[self.word(p)].valid {
                    // Taken back like any other.
                    s.processes[p].then = Pc::Compare;
                    Pc::Lock
                } else {
                    s.inode_locked = false;
                    Pc::Slot
                }
            }
        };
        true
    }

    /// What the kernel does for a program, and what it asks of the server.
    pub(super) fn kernel(&self, s: &mut State, p: usize) -> Result<bool, Invariant> {
        let me = s.processes[p];
        let op = self.op(s, p);
        s.processes[p].pc = match me.pc {
            Pc::KernelAppend => {
                if s.inode_locked || usize::from(s.kernel_size) == KERNEL_ROOM {
                    return Ok(false);
                }
                s.inode_locked = true;
                s.processes[p].at = s.kernel_size;
                // A whole page, which others see at once.
                s.valid |= 1 << s.kernel_size;
                s.cached[usize::from(s.kernel_size)] = Model::token(p, &me);
                Pc::AppendCame
            }
            Pc::AppendCame => {
                (s.came, s.count) = (true, s.count + 1);
                s.processes[p].then = Pc::AppendDone;
                Pc::Lock
            }
            Pc::AppendDone => {
                // Before it is answered: what the kernel has at another place than where it went is forgotten.
                if me.at != me.size && self.fault != Fault::MisplacedKept {
                    s.valid &= !(1 << me.at | 1 << me.size);
                }
                s.kernel_size = s.kernel_size.max(me.at + 1);
                s.version += 1;
                s.inode_locked = false;
                s.returns(p);
                return Ok(true);
            }
            // The size is asked for where it may not be known.
            Pc::KernelRead if op == Some(Op::Stat) || usize::from(s.kernel_size) < KERNEL_ROOM => {
                if s.locked {
                    return Ok(false);
                }
                s.processes[p].version = s.version;
                s.count += 1;
                if s.leased && self.fault != Fault::ToldWithoutTaking {
                    s.processes[p].then = Pc::Told;
                    Pc::Lock
                } else {
                    s.processes[p].size = s.size;
                    Pc::Told
                }
            }
            Pc::Told => {
                let size = s.processes[p].size;
                if s.version == me.version && s.kernel_size != size {
                    (s.kernel_size, s.valid) = (size, 0);
                    s.version += 1;
                }
                if op == Some(Op::Stat) {
                    // What was appended before is counted.
                    let before = (me.since & !s.cut).count_ones();
                    if u32::from(size) < before && s.cut == 0 {
                        return Err(Invariant::Read);
                    }
                    s.end(p);
                    return Ok(true);
                }
                Pc::KernelPages
            }
            Pc::KernelRead | Pc::KernelPages => {
                let size = usize::from(s.kernel_size);
                if (0..size).all(|record| s.valid >> record & 1 == 1) {
                    s.processes[p].got = size.min(ROOM) as u8;
                    s.processes[p].read.copy_from_slice(&s.cached[..ROOM]);
                    if size > ROOM {
                        return Err(Invariant::Read);
                    }
                    return self.read_returns(s, p);
                }
                s.processes[p].version = s.version;
                Pc::ReadCame
            }
            Pc::ReadCame if s.locked => return Ok(false),
            Pc::ReadCame => {
                (s.came, s.count) = (true, s.count + 1);
                s.processes[p].then = Pc::ReadDone;
                if s.leased { Pc::Lock } else { self.read(s, p) }
            }
            Pc::ReadDone => {
                // A short answer is the end of the file, unless the kernel has heard of another one since.
                if s.version == me.version {
                    if s.kernel_size != me.got {
                        s.kernel_size = me.got;
                        s.version += 1;
                    }
                    for record in (0..usize::from(me.got)).filter(|record| s.valid >> record & 1 == 0) {
                        s.cached[record] = me.read[record];
                    }
                    s.valid |= (1 << me.got) - 1;
                }
                return self.read_returns(s, p);
            }
            Pc::Synced if s.locked => return Ok(false),
            Pc::Synced => {
                // The size is taken over, and the lease stays.
                let appended = s.words.iter().find(|word| word.valid).map(|word| word.size);
                if self.fault != Fault::SyncWithoutTaking {
                    s.size = appended.unwrap_or(s.size);
                    s.shown = s.size;
                    s.seq += 2;
                }
                s.synced |= me.since & !s.cut;
                s.end(p);
                return Ok(true);
            }
            // The end of truncate(2).
            _ => {
                (s.kernel_size, s.valid, s.inode_locked) = (s.size, 0, false);
                s.version += 1;
                s.end(p);
                return Ok(true);
            }
        };
        Ok(true)
    }

    /// What the server reads for the kernel, under the inode's shared lock.
    fn read(&self, s: &mut State, p: usize) -> Pc {
        (s.processes[p].got, s.processes[p].page) = (s.size, s.page);
        s.copy(p, 0..ROOM);
        Pc::ReadDone
    }

    /// A change under the inode's exclusive lock, which begins with taking over what was appended.
    pub(super) fn change(&self, s: &mut State, p: usize, op: Op) -> bool {
        let me = s.processes[p];
        s.processes[p].pc = match me.pc {
            Pc::Lock => {
                let waits = self.fault == Fault::WaitsForBusy && s.words.iter().any(|word| word.valid && word.busy);
                if s.locked || waits {
                    return false;
                }
                s.locked = true;
                s.seq += 1;
                s.processes[p].busy = false;
                for word in &mut s.words {
                    if word.valid {
                        s.size = word.size;
                        s.processes[p].busy = word.busy;
                    }
                    *word = Word::default();
                }
                Pc::Move
            }
            Pc::Move => {
                // Somebody may store beyond the end for who knows how long: that page is given up.
                if me.busy && self.fault != Fault::NotMoved {
                    let Some(new) = pages::free(&s.owner) else { return false };
                    let (old, size) = (usize::from(s.page), usize::from(s.size));
                    s.cells[new] = [[JUNK; 2]; ROOM];
                    let kept: Vec<[u8; 2]> = s.cells[old][..size].to_vec();
                    s.cells[new][..size].copy_from_slice(&kept);
                    s.owner[new] = OURS;
                    s.owner[old] = pages::given_up(if self.fault == Fault::NoQuarantine { 0 } else { s.slots });
                    s.page = new as u8;
                }
                Pc::Change
            }
            Pc::Change => {
                s.processes[p].size = s.size;
                match me.then {
                    Pc::AppendDone => {
                        let (page, place) = (usize::from(s.page), usize::from(s.size));
                        s.cells[page][place] = [Model::token(p, &me); 2];
                        s.size += 1;
                    }
                    Pc::Forgotten if op == Op::Truncate => {
                        let page = usize::from(s.page);
                        let gone = s.cells[page][..usize::from(s.size)].iter().fold(0, |all, [t, _]| all | 1 << t);
                        s.cut |= gone;
                        s.returned &= !gone;
                        s.synced &= !gone;
                        s.size = 0;
                    }
                    _ => {}
                }
                Pc::End
            }
            _ => {
                s.locked = false;
                s.seq += 1;
                s.shown = s.size;
                s.leased = me.then == Pc::Give;
                if s.leased {
                    // As far as the kernel has been told; others may have appended since.
                    s.limit = me.at;
                    s.leases += u8::from(self.fault != Fault::LeaseNotNumbered);
                    s.words[self.word(p)] = Word { valid: true, busy: false, size: s.size, number: s.leases };
                }
                match me.then {
                    Pc::ReadDone => self.read(s, p),
                    then => then,
                }
            }
        };
        true
    }
}
