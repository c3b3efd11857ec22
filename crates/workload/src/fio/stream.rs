//! The requests of a job, one after the other.

use super::job::Job;
use crate::Operation;
use pocketstone_core::random::Random;

/// Places in the files of a job, which take turns.
enum Places {
    /// In order; of each file the writes and the reads each from its start.
    InOrder { turn: u64, next: Vec<[u64; 2]> },
    /// Of each file each once in random order, then all again.
    Shuffled { blocks: Vec<Vec<u32>>, next: u64 },
    /// Any.
    Any { next: u64 },
}

/// What a job does, in order; `numbers` are its files' in the workload, `label` tells the random numbers of two jobs
/// apart. fio opens the files for each pass, and where `invalidate` is on it asks then for an empty page cache;
/// `again`: jobs before this one had them, too, so that nobody has emptied it for the first pass.
pub(super) fn operations(
    job: &Job,
    numbers: Vec<u32>,
    seed: u64,
    label: &str,
    again: bool,
) -> impl Iterator<Item = Operation> + use<> {
    let mut random = Random::labelled(job.seed.unwrap_or(seed), label);
    let job = job.clone();
    let mut places = Places::new(&job);
    let mut writes = 0;
    let pass = job.pass_requests();
    (0..job.requests * job.loops).flat_map(move |n| {
        let begins = n % pass == 0;
        if begins {
            places = Places::new(&job);
        }
        let reads = match (job.mode.reads(), job.mode.writes()) {
            (true, true) => random.below(100) < job.read_percent,
            (reads, _) => reads,
        };
        let (file, offset) = places.draw(&job, &mut random, reads);
        let (file, bytes) = (numbers[file as usize], job.block_bytes);
        let pause = n > 0 && job.think_ns > 0 && n % job.think_requests == 0;
        // fio makes durable before a request what so many writes have left, reads among them or not, in all passes
        // together; after the last request it does not.
        let due = |every: u64| every > 0 && writes > 0 && writes % every == 0;
        let all = |wanted: bool| if wanted { numbers.clone() } else { Vec::new() };
        let opened = all(begins && job.invalidate && (n > 0 || again));
        let opened = opened.into_iter().map(|file| Operation::Invalidate { file });
        let before = [
            due(job.fsync).then_some(Operation::Sync { file }),
            due(job.fdatasync).then_some(Operation::SyncData { file }),
        ];
        writes += u64::from(!reads);
        let request = match reads {
            true => Operation::Read { file, offset, bytes },
            false => Operation::Write { file, offset, bytes },
        };
        let ends = (n + 1) % pass == 0 || n + 1 == job.requests * job.loops;
        let ends = all(ends && job.end_fsync && job.mode.writes()).into_iter().map(|file| Operation::Sync { file });
        let pause = pause.then_some(Operation::Pause { ns: job.think_ns });
        pause.into_iter().chain(opened).chain(before.into_iter().flatten()).chain([request]).chain(ends)
    })
}

impl Places {
    fn new(job: &Job) -> Places {
        match (job.mode.random(), job.repeats) {
            (false, _) => Places::InOrder { turn: 0, next: vec![[0; 2]; job.files.len()] },
            (true, false) => Places::Shuffled { blocks: vec![Vec::new(); job.files.len()], next: 0 },
            (true, true) => Places::Any { next: 0 },
        }
    }

    /// The next request's file, as its number among the job's, and its offset.
    fn draw(&mut self, job: &Job, random: &mut Random, reads: bool) -> (u64, u64) {
        let files = job.files.len() as u64;
        let in_file = job.file_bytes / job.block_bytes;
        let turn = match self {
            Places::InOrder { turn: next, .. } | Places::Shuffled { next, .. } | Places::Any { next } => next,
        };
        let (file, round) = (*turn % files, *turn / files % in_file);
        *turn += 1;
        let block = match self {
            Places::InOrder { next, .. } => {
                let next = &mut next[file as usize][usize::from(reads)];
                *next += 1;
                (*next - 1) % in_file
            }
            Places::Any { .. } => random.below(in_file),
            Places::Shuffled { blocks, .. } => {
                let blocks = &mut blocks[file as usize];
                if round == 0 {
                    *blocks = (0..in_file as u32).collect();
                    // Fisher and Yates, as Durstenfeld wrote it down.
                    for last in (1..blocks.len()).rev() {
                        blocks.swap(last, random.below(last as u64 + 1) as usize);
                    }
                }
                u64::from(blocks[round as usize])
            }
        };
        (file, block * job.block_bytes)
    }
}
