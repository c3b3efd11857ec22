//! PostMark as the program runs it: the pool, the transactions and the deletion of what is left, each operation that of
//! PostMark 1.51 for the same seed and settings.

use super::{PostmarkSpec, blocks};
use crate::factor::{Impossible, wrong};
use crate::{Operation, Purpose};
use pocketstone_core::random::Twister;
use serde::{Deserialize, Serialize};

/// Bytes of the C library's buffer of a file: a file system's block, which is 4 KiB on those of Linux.
pub const BUFFER_BYTES: u64 = 4096;

/// Most bytes of a file: PostMark counts twice as many in an `int`.
pub const MOST_FILE_BYTES: u64 = (1 << 30) - 1;

/// Most files at the start: PostMark has room for twice as many.
pub const MOST_FILES: u64 = 1 << 24;

/// What the program PostMark can be told beyond the files and transactions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSpec {
    /// Bytes of a block that is written (`set write`).
    pub write_bytes: u64,
    /// Of ten transactions, so many read instead of appending (`set bias read`); `None`: none does either.
    pub bias_read: Option<u64>,
    /// Of ten transactions, so many create instead of deleting (`set bias create`); `None`: none does either.
    pub bias_create: Option<u64>,
    /// Folders that files are spread over (`set subdirectories`); with 1 they lie in one folder, without a folder more.
    pub subdirectories: u64,
    /// Whether blocks pass through the C library's buffers (`set buffering`): the file system sees [`BUFFER_BYTES`].
    pub buffered: bool,
}

impl ProgramSpec {
    pub(super) fn judge(&self, of: &PostmarkSpec) -> Result<(), Impossible> {
        if of.file_bytes > MOST_FILE_BYTES {
            let why = format!("PostMark has no files of {} bytes", of.file_bytes);
            return Err(wrong("file_bytes", why, &format!("at most {MOST_FILE_BYTES} with phases = \"all\"")));
        }
        if of.files > MOST_FILES {
            let why = format!("{} files at the start are not supported", of.files);
            return Err(wrong("files", why, &format!("at most {MOST_FILES} with phases = \"all\"")));
        }
        if self.write_bytes == 0 {
            return Err(wrong("write_bytes", "writing 0 bytes does nothing".into(), "1 or more"));
        }
        for (name, block) in [("request_bytes", of.request_bytes), ("write_bytes", self.write_bytes)] {
            if self.buffered && block > BUFFER_BYTES {
                let why = format!("blocks of {block} bytes do not pass through a buffer of {BUFFER_BYTES}");
                return Err(wrong(name, why, &format!("at most {BUFFER_BYTES}; or set buffered = false")));
            }
        }
        for (name, bias) in [("bias_read", self.bias_read), ("bias_create", self.bias_create)] {
            if bias.is_some_and(|tenths| tenths > 10) {
                return Err(wrong(name, format!("`{name}` cannot be more than 10 of 10"), "from 0 to 10, or \"none\""));
            }
        }
        match (1..=1 << 16).contains(&self.subdirectories) {
            true => Ok(()),
            false => {
                let why = format!("{} subdirectories are not supported", self.subdirectories);
                Err(wrong("subdirectories", why, "from 1 to 65536"))
            }
        }
    }
}

/// What a whole run of PostMark does, as its report counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files created, those of the pool among them.
    pub created: u64,
    /// Files read.
    pub read: u64,
    /// Files appended to.
    pub appended: u64,
    /// Files deleted, those that were left at the end among them.
    pub deleted: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written, those of the pool among them.
    pub written_bytes: u64,
    /// Bytes written to the pool.
    pub pool_bytes: u64,
    /// Transactions: fewer than wanted where no file was left.
    pub transactions: u64,
    /// Files left for the end.
    pub left: u64,
    /// Operations that make the pool.
    pub pool_operations: u64,
    /// Operations of the transactions, which follow.
    pub transaction_operations: u64,
}

/// A file of the table.
#[derive(Debug, Clone, Copy)]
struct Held {
    file: u32,
    bytes: u64,
}

/// The operations of a whole run. Only the last 32 bits of the seed count.
pub fn operations(spec: &PostmarkSpec, program: &ProgramSpec, seed: u64) -> impl Iterator<Item = Operation> + use<> {
    let mut run = Run::new(spec, program, seed);
    std::iter::from_fn(move || run.step()).flatten()
}

/// What a whole run does.
pub fn totals(spec: &PostmarkSpec, program: &ProgramSpec, seed: u64) -> Totals {
    let mut run = Run::new(spec, program, seed);
    while run.step().is_some() {}
    run.totals
}

/// The subdirectory of each file that a whole run creates, in the order of their numbers; `None`: there are none.
pub(super) fn subdirectories(spec: &PostmarkSpec, program: &ProgramSpec, seed: u64) -> Vec<Option<u64>> {
    let mut run = Run::new(spec, program, seed);
    while run.step().is_some() {}
    run.places
}

struct Run {
    spec: PostmarkSpec,
    program: ProgramSpec,
    random: Twister,
    /// Twice as many places as there are files at the start.
    table: Vec<Option<Held>>,
    /// Where a file is created if that place is free.
    next: usize,
    held: u64,
    /// The subdirectory of each file there ever was.
    places: Vec<Option<u64>>,
    /// Where the deletion at the end has come to.
    emptied: usize,
    totals: Totals,
}

impl Run {
    fn new(spec: &PostmarkSpec, program: &ProgramSpec, seed: u64) -> Run {
        let mut random = Twister::new(seed as u32);
        // Before all else PostMark makes the text that it writes, twice as long as the largest file.
        for _ in 0..2 * spec.file_bytes {
            random.next_u32();
        }
        Run {
            table: vec![None; 2 * spec.files as usize],
            spec: spec.clone(),
            program: program.clone(),
            random,
            next: 0,
            held: 0,
            places: Vec::new(),
            emptied: 0,
            totals: Totals::default(),
        }
    }

    /// The operations of the next file of the pool, transaction, or deletion at the end. There may be none of them.
    fn step(&mut self) -> Option<Vec<Operation>> {
        let mut made = Vec::new();
        if self.totals.created < self.spec.files {
            self.create(&mut made);
            self.totals.pool_bytes = self.totals.written_bytes;
            self.totals.pool_operations += made.len() as u64;
        } else if self.totals.transactions < self.spec.transactions && self.held > 0 {
            self.transaction(&mut made);
            self.totals.transactions += 1;
            self.totals.transaction_operations += made.len() as u64;
            self.totals.left = self.held;
        } else {
            self.emptied += self.table[self.emptied..].iter().position(Option::is_some)?;
            self.delete(self.emptied, &mut made);
        }
        Some(made)
    }

    fn transaction(&mut self, made: &mut Vec<Operation>) {
        if let Some(tenths) = self.program.bias_read {
            let reads = self.random.below(10) < tenths;
            let place = self.choose();
            if reads { self.read(place, made) } else { self.append(place, made) }
        }
        if let Some(tenths) = self.program.bias_create {
            if self.random.below(10) < tenths {
                self.create(made);
            } else {
                let place = self.choose();
                self.delete(place, made);
            }
        }
    }

    /// Draws places until one has a file. There is one.
    fn choose(&mut self) -> usize {
        loop {
            let place = self.random.below(self.table.len() as u64) as usize;
            if self.table[place].is_some() {
                return place;
            }
        }
    }

    fn read(&mut self, place: usize, made: &mut Vec<Operation>) {
        let Some(Held { file, bytes }) = self.table[place] else { return };
        self.totals.read += 1;
        self.totals.read_bytes += bytes;
        made.push(Operation::Open { file, purpose: Purpose::Read });
        made.extend(self.buffer_of(file));
        let calls = self.calls(bytes, self.spec.request_bytes);
        made.extend(calls.map(|(offset, bytes)| Operation::Read { file, offset, bytes }));
        made.push(Operation::Close { file });
    }

    fn append(&mut self, place: usize, made: &mut Vec<Operation>) {
        let Some(held) = &mut self.table[place] else { return };
        if held.bytes >= self.spec.file_bytes {
            return;
        }
        let added = 1 + self.random.below(self.spec.file_bytes - held.bytes);
        held.bytes += added;
        let file = held.file;
        self.totals.appended += 1;
        made.push(Operation::Open { file, purpose: Purpose::Append });
        // So that ftell() is right.
        made.extend(self.program.buffered.then_some(Operation::SeekEnd { file }));
        self.write(file, added, made);
    }

    fn create(&mut self, made: &mut Vec<Operation>) {
        // The place behind the last one made, or else the first hole from the start; where there is none, nothing.
        let free = Some(self.next).filter(|next| self.table.get(*next).is_some_and(Option::is_none));
        let Some(place) = free.or_else(|| self.table.iter().position(Option::is_none)) else { return };
        let folders = self.program.subdirectories;
        let folder = (folders > 1).then(|| self.random.below(folders));
        let bytes = self.spec.least_file_bytes + self.random.below(self.spec.file_bytes - self.spec.least_file_bytes);
        let file = self.places.len() as u32;
        self.places.push(folder);
        self.table[place] = Some(Held { file, bytes });
        (self.next, self.held) = (place + 1, self.held + 1);
        self.totals.created += 1;
        made.push(Operation::Create { file });
        self.write(file, bytes, made);
    }

    fn delete(&mut self, place: usize, made: &mut Vec<Operation>) {
        let Some(Held { file, .. }) = self.table[place].take() else { return };
        self.held -= 1;
        self.totals.deleted += 1;
        made.push(Operation::Delete { file });
    }

    fn write(&mut self, file: u32, bytes: u64, made: &mut Vec<Operation>) {
        self.totals.written_bytes += bytes;
        made.extend(self.buffer_of(file));
        let calls = self.calls(bytes, self.program.write_bytes);
        made.extend(calls.map(|(_, bytes)| Operation::Append { file, bytes }));
        made.push(Operation::Close { file });
    }

    /// What the C library asks before it makes a file's buffer, for the size of its blocks.
    fn buffer_of(&self, file: u32) -> Option<Operation> {
        self.program.buffered.then_some(Operation::Attributes { file })
    }

    /// Offset and length of each call that the file system sees. Without buffers, PostMark makes one for what is left
    /// after the last whole block even where that is nothing.
    fn calls(&self, bytes: u64, block: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let block = if self.program.buffered { BUFFER_BYTES } else { block };
        let empty = (!self.program.buffered && bytes % block == 0).then_some((bytes, 0));
        blocks(bytes, block).chain(empty)
    }
}

#[cfg(test)]
mod tests;
