//! IOZONE's six passes over one file.

use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Factor, Flag, Impossible, Point, wrong};
use crate::factors::{DATA, FILE_BYTES, REQUEST_BYTES};
use crate::metrics::{Ran, Values, per_s, rate_in_bytes, total_ns};
use crate::population::{Caches, Population, Sizes};
use crate::{Data, Operation, Purpose};
use pocketstone_core::metric::Metric;
use pocketstone_core::random::Twister;
use pocketstone_core::words::Word;
use pocketstone_core::{Result, words};
use serde::{Deserialize, Serialize};
use std::iter;
use std::ops::Range;

/// Smallest and largest record in bytes.
pub const RECORD_BYTES: (u64, u64) = (4 << 10, 16 << 20);

/// Most records of a file.
const MOST_RECORDS: u64 = 1 << 24;

/// The one file.
const FILE: u32 = 0;

/// The `iozone` workload: the passes of `iozone -i 0 -i 1 -i 2` (version 3.489) over one file, by one process, with one
/// length of record. A file has as many whole records as fit `file_bytes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IozoneSpec {
    /// What is measured.
    pub pass: Passes,
    /// Size of the file in bytes (`-s`).
    pub file_bytes: u64,
    /// Bytes of a record, which one call moves (`-r`).
    pub record_bytes: u64,
    /// Whether an fsync at the end of a pass is part of its time (`-e`).
    pub timed_fsync: bool,
    /// Whether the close at the end of a pass is part of its time (`-c`).
    pub timed_close: bool,
    /// What is written.
    pub data: Data,
}

words! {
    /// A pass, in IOZONE's order.
    Pass {
        /// Writes a new file from its start to its end: space is allocated.
        Write = "write",
        /// Overwrites it in the same way.
        Rewrite = "rewrite",
        /// Reads it from its start to its end.
        Read = "read",
        /// Reads it once more.
        Reread = "reread",
        /// Reads each record once, in random order.
        RandomRead = "random-read",
        /// Overwrites each record once, in the same order.
        RandomWrite = "random-write",
    }
}

words! {
    /// What of IOZONE is measured.
    Passes {
        /// All six passes.
        All = "all",
        /// [`Pass::Write`].
        Write = "write",
        /// [`Pass::Rewrite`].
        Rewrite = "rewrite",
        /// [`Pass::Read`].
        Read = "read",
        /// [`Pass::Reread`].
        Reread = "reread",
        /// [`Pass::RandomRead`].
        RandomRead = "random-read",
        /// [`Pass::RandomWrite`].
        RandomWrite = "random-write",
    }
}

impl Passes {
    /// The one pass that is measured; `None`: all are.
    fn one(self) -> Option<Pass> {
        Pass::of_word(self.word())
    }
}

impl Pass {
    fn writes(self) -> bool {
        matches!(self, Pass::Write | Pass::Rewrite | Pass::RandomWrite)
    }

    fn is_random(self) -> bool {
        matches!(self, Pass::RandomRead | Pass::RandomWrite)
    }

    /// Bytes of each pass over its time, as IOZONE reports them, but in bytes for KiB.
    const RATES: [Metric; 6] = [
        rate_in_bytes("iozone_write_bytes_per_s", "throughput of IOZONE's write of a new file"),
        rate_in_bytes("iozone_rewrite_bytes_per_s", "throughput of IOZONE's rewrite"),
        rate_in_bytes("iozone_read_bytes_per_s", "throughput of IOZONE's read"),
        rate_in_bytes("iozone_reread_bytes_per_s", "throughput of IOZONE's reread"),
        rate_in_bytes("iozone_random_read_bytes_per_s", "throughput of IOZONE's random read"),
        rate_in_bytes("iozone_random_write_bytes_per_s", "throughput of IOZONE's random write"),
    ];
}

const PASS: Factor<Passes> =
    Factor::new("pass", "the pass of IOZONE that is measured, after those before it; all: each of the six is")
        .default("all");
const TIMED_FSYNC: Factor<Flag> =
    Factor::new("timed_fsync", "an fsync at the end of a pass of IOZONE is part of its time").default("false");
const TIMED_CLOSE: Factor<Flag> =
    Factor::new("timed_close", "the close at the end of a pass of IOZONE is part of its time").default("false");

impl Defined for IozoneSpec {
    const NAME: &'static str = "iozone";
    const ABOUT: &'static str = "IOZONE's passes over one file";
    const SMALL: &'static str = "file_bytes = '64KiB'\nrequest_bytes = '16KiB'";
    const MAY_BE_COLD: bool = false;
    const METRICS: &'static [Metric] = &Pass::RATES;
    const FACTORS: &'static [AnyFactor] =
        &[DATA.any(), FILE_BYTES.any(), REQUEST_BYTES.any(), PASS.any(), TIMED_FSYNC.any(), TIMED_CLOSE.any()];

    fn of_point(point: &Point, _prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let spec = IozoneSpec {
            pass: point.of(&PASS)?,
            file_bytes: point.of(&FILE_BYTES)?,
            record_bytes: point.of(&REQUEST_BYTES)?,
            timed_fsync: point.of(&TIMED_FSYNC)?,
            timed_close: point.of(&TIMED_CLOSE)?,
            data: point.of(&DATA)?,
        };
        spec.judge().map(|()| spec)
    }
}

impl FileWorkload for IozoneSpec {
    fn judge(&self) -> Result<(), Impossible> {
        let IozoneSpec { file_bytes, record_bytes, .. } = *self;
        let (least, most) = RECORD_BYTES;
        if !(least..=most).contains(&record_bytes) {
            let why = format!("IOZONE has no records of {record_bytes} bytes here");
            return Err(wrong(REQUEST_BYTES.name(), why, &format!("from {least} (4 KiB) to {most} (16 MiB)")));
        }
        if record_bytes > file_bytes {
            let why = format!("a record of {record_bytes} bytes does not fit {file_bytes} bytes");
            return Err(wrong(FILE_BYTES.name(), why, "at least request_bytes"));
        }
        if self.records() > MOST_RECORDS {
            let why = format!("{} records are too many", self.records());
            return Err(wrong(FILE_BYTES.name(), why, &format!("at most {MOST_RECORDS} times request_bytes")));
        }
        Ok(())
    }

    /// None: the first pass writes a new file. Nothing of it leaves the caches.
    fn population(&self, seed: u64) -> Population {
        let (files, file_bytes) = (0, 0);
        Population { files, file_bytes, data: self.data, seed, sizes: Sizes::Same, caches: Caches::Warm }
    }

    fn new_files(&self) -> u64 {
        1
    }

    /// What is before the time of the one pass.
    fn setup(&self) -> Box<dyn Iterator<Item = Operation>> {
        let Some(measured) = self.pass.one() else { return Box::new(iter::empty()) };
        let before = Pass::ALL.into_iter().take_while(move |pass| *pass != measured);
        let spec = self.clone();
        Box::new(before.flat_map(move |pass| spec.whole(pass)).chain(self.opening(measured)))
    }

    fn operations(&self, _seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        match self.pass.one() {
            Some(measured) => Box::new(self.timed(measured)),
            None => {
                let spec = self.clone();
                Box::new(Pass::ALL.into_iter().flat_map(move |pass| spec.whole(pass)))
            }
        }
    }

    fn request_bytes(&self) -> u64 {
        self.record_bytes
    }

    fn metrics(&self, ran: &Ran<'_>) -> Values {
        let rate = |(pass, timed): (Pass, Range<usize>)| {
            let ns = ran.calls.get(timed).map(total_ns);
            (Pass::RATES[pass as usize].name, ns.and_then(|ns| per_s(self.pass_bytes(), ns)))
        };
        self.timed_operations().into_iter().map(rate).collect()
    }
}

impl IozoneSpec {
    /// Whole records of the file.
    pub fn records(&self) -> u64 {
        self.file_bytes / self.record_bytes.max(1)
    }

    /// Bytes that a pass moves.
    fn pass_bytes(&self) -> u64 {
        self.records() * self.record_bytes
    }

    /// The passes that are measured, each with the numbers of those operations that are in its time.
    fn timed_operations(&self) -> Vec<(Pass, Range<usize>)> {
        if let Some(pass) = self.pass.one() {
            return vec![(pass, 0..self.timed_len())];
        }
        let mut next = 0;
        let of_pass = |pass| {
            let start = next + self.opening(pass).len();
            next = start + self.timed_len() + self.closing().len();
            (pass, start..start + self.timed_len())
        };
        Pass::ALL.into_iter().map(of_pass).collect()
    }

    /// The offsets of a pass, in the order of its calls. The random one is the same in every run, whatever the seed, as
    /// IOZONE's is, which seeds its generator with a constant. That generator is not known here: it is MT19937 of the
    /// key 0, which Python's `random.Random(0).shuffle(records)` is, too.
    fn offsets(&self, pass: Pass) -> Box<dyn Iterator<Item = u64>> {
        let record_bytes = self.record_bytes;
        if !pass.is_random() {
            return Box::new((0..self.records()).map(move |record| record * record_bytes));
        }
        let mut records: Vec<u32> = (0..self.records() as u32).collect();
        Twister::of_key(&[0]).shuffle(&mut records);
        Box::new(records.into_iter().map(move |record| u64::from(record) * record_bytes))
    }

    /// What comes before the clock.
    fn opening(&self, pass: Pass) -> Vec<Operation> {
        let purpose = if pass.writes() { Purpose::Write } else { Purpose::Read };
        let open = Operation::Open { file: FILE, purpose };
        match pass {
            Pass::Write => vec![Operation::CreateFile { file: FILE }, open, Operation::Sync { file: FILE }],
            _ => vec![open],
        }
    }

    /// What is in the time.
    fn timed(&self, pass: Pass) -> impl Iterator<Item = Operation> + use<> {
        let bytes = self.record_bytes;
        let call = move |offset| match pass.writes() {
            true => Operation::Write { file: FILE, offset, bytes },
            false => Operation::Read { file: FILE, offset, bytes },
        };
        let fsync = self.timed_fsync.then_some(Operation::Sync { file: FILE });
        let close = self.timed_close.then_some(Operation::Close { file: FILE });
        self.offsets(pass).map(call).chain(fsync).chain(close)
    }

    /// How many operations that is.
    fn timed_len(&self) -> usize {
        self.records() as usize + usize::from(self.timed_fsync) + usize::from(self.timed_close)
    }

    /// What comes after the clock has stopped.
    fn closing(&self) -> Vec<Operation> {
        match (self.timed_close, self.timed_fsync) {
            (true, _) => Vec::new(),
            (false, true) => vec![Operation::Close { file: FILE }],
            (false, false) => vec![Operation::Sync { file: FILE }, Operation::Close { file: FILE }],
        }
    }

    fn whole(&self, pass: Pass) -> impl Iterator<Item = Operation> + use<> {
        self.opening(pass).into_iter().chain(self.timed(pass)).chain(self.closing())
    }
}

#[cfg(test)]
mod tests;
