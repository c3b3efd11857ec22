//! The threads of a personality, one step of one of them after the other.

use super::{APPEND_BYTES, FilebenchSpec, Personality, Picks};
use crate::postmark::blocks;
use crate::{Operation, Purpose};
use pocketstone_core::random::Random;
use std::collections::VecDeque;

/// A step of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Delete,
    Create,
    Open,
    Stat,
    /// Of the file that the thread has open, as the next four.
    WriteWhole,
    ReadWhole,
    Append,
    Sync,
    Close,
    Log,
}

use Step::{Append, Close, Create, Delete, Log, Open, ReadWhole, Stat, Sync, WriteWhole};

const READ: [Step; 3] = [Open, ReadWhole, Close];
const VARMAIL: [Step; 13] =
    [Delete, Create, Append, Sync, Close, Open, ReadWhole, Append, Sync, Close, READ[0], READ[1], READ[2]];
const FILESERVER: [Step; 11] =
    [Create, WriteWhole, Close, Open, Append, Close, READ[0], READ[1], READ[2], Delete, Stat];
/// Before the reads.
const WEBPROXY: [Step; 4] = [Delete, Create, Append, Close];

fn steps(personality: Personality) -> Vec<Step> {
    match personality {
        Personality::Varmail => VARMAIL.to_vec(),
        Personality::Fileserver => FILESERVER.to_vec(),
        Personality::Webproxy => [WEBPROXY.to_vec(), READ.repeat(5)].concat(),
        Personality::Webserver => [READ.repeat(10), vec![Log]].concat(),
    }
}

/// What operations did in all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Loops that came to their end.
    pub loops: u64,
    /// Bytes that whole reads found.
    pub read_bytes: u64,
    /// Bytes written and appended.
    pub written_bytes: u64,
    /// Files that are there, without the log.
    pub present: u64,
    /// Their bytes.
    pub present_bytes: u64,
}

/// A thread.
#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    /// Its next step.
    next: usize,
    /// The file that it has open.
    open: Option<usize>,
}

/// The operations of a `filebench` workload. Which thread makes the next step is drawn anew for each: so they spread
/// over the loop, as the threads of the program do, and the stream is the same for the same seed.
pub(super) struct Bench {
    loops: u64,
    request_bytes: u64,
    picks: Picks,
    random: Random,
    steps: Vec<Step>,
    threads: Vec<Thread>,
    turn: Option<usize>,
    /// Of each file by its number in the set: its own size, its number in operations, its size now, who has it open.
    own_bytes: Vec<u64>,
    numbers: Vec<u32>,
    bytes: Vec<u64>,
    opens: Vec<u32>,
    /// Numbers in the set, in order: of those that are there and of those that are not, and the last one picked of
    /// each.
    present: (Vec<usize>, Option<usize>),
    absent: (Vec<usize>, Option<usize>),
    log: u32,
    totals: Totals,
    made: VecDeque<Operation>,
}

impl Bench {
    pub(super) fn new(spec: &FilebenchSpec, seed: u64) -> Bench {
        let made = spec.made(seed);
        let there = made.present.iter().filter(|present| **present).count();
        let mut numbers = vec![0; made.files.len()];
        for (number, file) in made.order().into_iter().enumerate() {
            // The log stands between those that are there and those that are not.
            numbers[file] = (number + usize::from(number >= there && made.log.is_some())) as u32;
        }
        let those = |wanted: bool| (0..made.files.len()).filter(|n| made.present[*n] == wanted).collect();
        Bench {
            loops: spec.loops,
            request_bytes: spec.request_bytes,
            picks: spec.picks,
            random: Random::labelled(seed, "filebench"),
            steps: steps(spec.personality),
            threads: vec![Thread::default(); spec.threads as usize],
            turn: None,
            own_bytes: made.files.iter().map(|file| file.bytes).collect(),
            numbers,
            bytes: made.files.iter().zip(&made.present).map(|(file, there)| file.bytes * u64::from(*there)).collect(),
            opens: vec![0; made.files.len()],
            present: (those(true), None),
            absent: (those(false), None),
            log: there as u32,
            totals: Totals::default(),
            made: VecDeque::new(),
        }
    }

    /// What was done so far, and what there is.
    pub(super) fn totals(&self) -> Totals {
        let present_bytes = self.present.0.iter().map(|file| self.bytes[*file]).sum();
        Totals { present: self.present.0.len() as u64, present_bytes, ..self.totals }
    }

    /// Loops that came to their end.
    #[cfg(test)]
    pub(super) fn loops_done(&self) -> u64 {
        self.totals.loops
    }

    /// A file that is there, or that is not; `None` if there is none.
    fn pick(&mut self, present: bool) -> Option<usize> {
        let (files, last) = if present { &mut self.present } else { &mut self.absent };
        if files.is_empty() {
            return None;
        }
        let at = match self.picks {
            Picks::Uniform => self.random.below(files.len() as u64) as usize,
            Picks::Rotating => last.map_or(0, |last| files.partition_point(|file| *file <= last)) % files.len(),
        };
        *last = Some(files[at]);
        *last
    }

    /// A file to delete. As Filebench, what rotates does nothing where somebody has the file open.
    fn pick_closed(&mut self) -> Option<usize> {
        let tries = if self.picks == Picks::Uniform { 100 } else { 1 };
        (0..tries).find_map(|_| self.pick(true).filter(|file| self.opens[*file] == 0))
    }

    /// Moves a file from those that are there to the others, or back.
    fn set_present(&mut self, file: usize, present: bool) {
        let (to, from) = match present {
            true => (&mut self.present.0, &mut self.absent.0),
            false => (&mut self.absent.0, &mut self.present.0),
        };
        from.remove(from.partition_point(|other| *other < file));
        to.insert(to.partition_point(|other| *other < file), file);
        self.bytes[file] = 0;
    }

    /// One step of one thread.
    fn step(&mut self) {
        let thread = self.random.below(self.threads.len() as u64) as usize;
        let Thread { next, open } = self.threads[thread];
        let before = self.made.len();
        match (self.steps[next], open) {
            (Delete, _) => {
                if let Some(file) = self.pick_closed() {
                    self.set_present(file, false);
                    self.made.push_back(Operation::Delete { file: self.numbers[file] });
                }
            }
            (Create, _) => {
                if let Some(file) = self.pick(false) {
                    self.set_present(file, true);
                    self.begin(thread, file);
                    self.made.push_back(Operation::Create { file: self.numbers[file] });
                }
            }
            (Open, _) => {
                if let Some(file) = self.pick(true) {
                    self.begin(thread, file);
                    let appends = self.steps[next..].iter().take_while(|step| **step != Close).any(|s| *s == Append);
                    let purpose = if appends { Purpose::Append } else { Purpose::Read };
                    self.made.push_back(Operation::Open { file: self.numbers[file], purpose });
                }
            }
            (Stat, _) => {
                let found = self.pick(true).map(|file| Operation::LookUp { file: self.numbers[file] });
                self.made.extend(found);
            }
            (Log, _) => self.append(None),
            (step, Some(file)) => self.step_on(step, thread, file),
            // Nothing could be opened.
            (_, None) => {}
        }
        if self.made.len() > before && self.threads.len() > 1 && self.turn != Some(thread) {
            self.turn = Some(thread);
            self.made.insert(before, Operation::Turn { thread: thread as u32 });
        }
        self.threads[thread].next = (next + 1) % self.steps.len();
        self.totals.loops += u64::from(next + 1 == self.steps.len());
    }

    fn begin(&mut self, thread: usize, file: usize) {
        self.opens[file] += 1;
        self.threads[thread].open = Some(file);
    }

    /// A step on the file that is open.
    fn step_on(&mut self, step: Step, thread: usize, file: usize) {
        let number = self.numbers[file];
        match step {
            WriteWhole => {
                let size = self.own_bytes[file];
                self.write(number, size);
                self.bytes[file] += size;
            }
            ReadWhole => {
                self.totals.read_bytes += self.bytes[file];
                self.made.push_back(Operation::ReadOpen { file: number });
            }
            Append => self.append(Some(file)),
            Sync => self.made.push_back(Operation::Sync { file: number }),
            Close => {
                self.opens[file] -= 1;
                self.threads[thread].open = None;
                self.made.push_back(Operation::Close { file: number });
            }
            Delete | Create | Open | Stat | Log => {}
        }
    }

    /// Appends to a file, or to the log.
    fn append(&mut self, file: Option<usize>) {
        let bytes = self.random.below(APPEND_BYTES);
        self.write(file.map_or(self.log, |file| self.numbers[file]), bytes);
        if let Some(file) = file {
            self.bytes[file] += bytes;
        }
    }

    /// Appends so many bytes, by one call where they fit it.
    fn write(&mut self, file: u32, bytes: u64) {
        self.made.extend(blocks(bytes, self.request_bytes).map(|(_, bytes)| Operation::Append { file, bytes }));
        self.totals.written_bytes += bytes;
    }
}

impl Iterator for Bench {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        while self.made.is_empty() {
            if self.totals.loops == self.loops {
                return None;
            }
            self.step();
        }
        self.made.pop_front()
    }
}
