//! Filebench's servers: varmail, fileserver, webproxy, webserver.

mod bench;

use self::bench::Bench;
use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Count, Factor, Impossible, Point, blame, wrong};
use crate::factors::{DATA, FILE_BYTES, FILES, REQUEST_BYTES, REQUESTS, THREADS};
use crate::fileset::{Distribution, FileSet, Made};
use crate::metrics::{MOVED, Ran, Values, per_s};
use crate::population::{Caches, Population, Sizes};
use crate::{Data, Operation, Purpose};
use pocketstone_core::metric::Metric;
use pocketstone_core::{Error, Result, words};
use serde::{Deserialize, Serialize};

pub use self::bench::Totals;

/// Most threads.
pub const MOST_THREADS: u32 = 100;

/// Bytes that an append has at most, less one.
const APPEND_BYTES: u64 = 16 << 10;

/// The `filebench` workload: a personality of Filebench 1.4.9.1, with threads that share one set of files. As there, a
/// file has its size drawn once, an append is of 0 to 16,383 bytes, a whole read goes by calls of `request_bytes`, and
/// a file that another thread has open is not deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilebenchSpec {
    /// Whose loop is run.
    pub personality: Personality,
    /// Numbers of files; some of them are not there.
    pub files: u64,
    /// Mean size of a file in bytes.
    pub file_bytes: u64,
    /// Distribution of sizes.
    pub distribution: Distribution,
    /// Mean number of files in a folder.
    pub directory_width: u64,
    /// Threads.
    pub threads: u32,
    /// How files are picked.
    pub picks: Picks,
    /// Loops of all threads together.
    pub loops: u64,
    /// Bytes of a call, at most.
    pub request_bytes: u64,
    /// What is written.
    pub data: Data,
}

words! {
    /// A personality.
    Personality {
        /// Mails are delivered, read, answered and deleted, each write with fsync.
        Varmail = "varmail",
        /// Files are written, appended to, read, deleted, asked for.
        Fileserver = "fileserver",
        /// Pages are deleted and fetched, and read.
        Webproxy = "webproxy",
        /// Pages are read, and a log grows.
        Webserver = "webserver",
    }
}

words! {
    /// How files are picked.
    Picks {
        /// At random; for a deletion, of those that nobody has open.
        Uniform = "uniform",
        /// As Filebench does: the next one behind the last that was picked, by whichever thread.
        Rotating = "rotating",
    }
}

const PERSONALITY: Factor<Personality> =
    Factor::new("personality", "the server of Filebench that is imitated").default("varmail");
const DISTRIBUTION: Factor<Distribution> =
    Factor::new("distribution", "distribution of Filebench's file sizes about their mean").default("gamma");
const DIRECTORY_WIDTH: Factor<Count> =
    Factor::new("directory_width", "mean number of files in a folder of Filebench; 1,000,000: one folder has all")
        .default("1000000")
        .checked(|width| match width {
            0 | 1 => Err(Error::user(format!("folders of {width} files are not supported"))
                .hint("directory_width must be 2 or more")),
            _ => Ok(()),
        });
const PICKS: Factor<Picks> =
    Factor::new("picks", "how Filebench's files are picked: at random, or one after the other as it does")
        .default("uniform");

impl Defined for FilebenchSpec {
    const NAME: &'static str = "filebench";
    const ABOUT: &'static str = "Filebench's varmail, fileserver, webproxy and webserver";
    const SMALL: &'static str =
        "personality = ['varmail', 'webserver']\nfiles = 10\nfile_bytes = '16KiB'\nrequests = 5";
    const MAY_BE_COLD: bool = false;
    const METRICS: &'static [Metric] = &[MOVED];
    const FACTORS: &'static [AnyFactor] = &[
        DATA.any(),
        FILES.any(),
        FILE_BYTES.any(),
        REQUEST_BYTES.any(),
        REQUESTS.any(),
        THREADS.any(),
        PERSONALITY.any(),
        DISTRIBUTION.any(),
        DIRECTORY_WIDTH.any(),
        PICKS.any(),
    ];

    fn of_point(point: &Point, _prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let spec = FilebenchSpec {
            personality: point.of(&PERSONALITY)?,
            files: point.of(&FILES)?,
            file_bytes: point.of(&FILE_BYTES)?,
            distribution: point.of(&DISTRIBUTION)?,
            directory_width: point.of(&DIRECTORY_WIDTH)?,
            threads: u32::try_from(point.of(&THREADS)?).unwrap_or(u32::MAX),
            picks: point.of(&PICKS)?,
            loops: point.of(&REQUESTS)?,
            request_bytes: point.of(&REQUEST_BYTES)?,
            data: point.of(&DATA)?,
        };
        spec.judge().map(|()| spec)
    }
}

impl FileWorkload for FilebenchSpec {
    fn judge(&self) -> Result<(), Impossible> {
        let FilebenchSpec { files, file_bytes, threads, loops, request_bytes, .. } = *self;
        if !(1..=MOST_THREADS).contains(&threads) {
            let why = format!("{threads} threads are not supported");
            return Err(wrong(THREADS.name(), why, &format!("from 1 to {MOST_THREADS}")));
        }
        if request_bytes == 0 {
            return Err(wrong(REQUEST_BYTES.name(), "moving 0 bytes does nothing".into(), "1 or more"));
        }
        if !(1..=1_000_000).contains(&files) {
            let why = format!("a set of {files} files is not supported");
            return Err(wrong(FILES.name(), why, "from 1 to 1000000; Filebench's own are 1000 or 10000"));
        }
        if !(1..=MOST_MEAN_BYTES).contains(&file_bytes) {
            let why = format!("files of {file_bytes} bytes on average are not supported");
            return Err(wrong(FILE_BYTES.name(), why, &format!("from 1 to {MOST_MEAN_BYTES} (1 MiB)")));
        }
        if loops > 10_000_000 {
            return Err(wrong(REQUESTS.name(), format!("{loops} loops are too many"), "at most 10000000"));
        }
        DIRECTORY_WIDTH.any().check(&self.directory_width.into()).map_err(blame(DIRECTORY_WIDTH.name()))
    }

    fn population(&self, seed: u64) -> Population {
        let (sizes, caches) = (Sizes::Set(self.set()), Caches::Warm);
        Population { files: self.files, file_bytes: self.file_bytes, data: self.data, seed, sizes, caches }
    }

    /// Each thread has the log open all the time.
    fn setup(&self) -> Box<dyn Iterator<Item = Operation>> {
        // All files are there, and it is behind them.
        let log = Operation::Open { file: self.files as u32, purpose: Purpose::Append };
        Box::new(self.set().log.then_some(log).into_iter())
    }

    fn operations(&self, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        Box::new(Bench::new(self, seed))
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn threads(&self) -> u32 {
        self.threads
    }

    /// Bytes that the threads read and write over the run's time, as Filebench reports them.
    fn metrics(&self, ran: &Ran<'_>) -> Values {
        let start_ns = ran.calls.iter().map(|call| call.start_ns).min();
        let end_ns = ran.calls.iter().map(|call| call.start_ns + call.latency_ns).max();
        let Totals { read_bytes, written_bytes, .. } = self.totals(ran.seed);
        let run_ns = start_ns.zip(end_ns).map(|(start, end)| (end - start) as f64);
        vec![(MOVED.name, run_ns.and_then(|ns| per_s(read_bytes + written_bytes, ns)))]
    }

    fn names(&self, seed: u64) -> Vec<String> {
        let made = self.made(seed);
        let there = made.there();
        let absent = made.order().into_iter().skip(there.len() - usize::from(made.log.is_some()));
        let absent: Vec<String> = absent.map(|n| made.files[n].name.clone()).collect();
        there.into_iter().map(|file| file.name).chain(absent).collect()
    }
}

/// Largest mean size, the end of log-normal sizes.
const MOST_MEAN_BYTES: u64 = 1 << 20;

impl FilebenchSpec {
    fn set(&self) -> FileSet {
        let webserver = self.personality == Personality::Webserver;
        FileSet {
            distribution: self.distribution,
            width: self.directory_width,
            present_per_cent: if webserver { 100 } else { 80 },
            log: webserver,
        }
    }

    fn made(&self, seed: u64) -> Made {
        self.set().made(self.files, self.file_bytes, seed)
    }

    /// What the operations of a seed do in all.
    pub fn totals(&self, seed: u64) -> Totals {
        let mut bench = Bench::new(self, seed);
        bench.by_ref().for_each(drop);
        bench.totals()
    }
}

#[cfg(test)]
mod tests;
