//! PostMark: its transactions alone, on files that are there, or a whole run as the program makes it.

pub mod program;

use self::program::ProgramSpec;
use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload, usual_names};
use crate::factor::{AnyFactor, Bytes, Count, Factor, Flag, Impossible, OrDefault, Point, TenthsOrNone, blame, wrong};
use crate::factors::{self, DATA, FILES, REQUEST_BYTES};
use crate::metrics::{Ran, Values, per_s, rate_in_bytes, total_ns};
use crate::population::{Caches, Population, Sizes, directory_name};
use crate::{Data, Operation, Purpose};
use pocketstone_core::metric::{Better, Metric, Source, Unit, metric};
use pocketstone_core::random::Random;
use pocketstone_core::{Error, Result, words};
use serde::{Deserialize, Serialize};

/// The `postmark` workload: the transactions of PostMark (Katcher, "PostMark: a new file system benchmark", TR3022,
/// Network Appliance, 1997) as version 1.5 makes them. Each is two operations: one file is read whole or appended to,
/// then one is created or deleted. Every file that is read is read from the medium: the page cache has nothing of it.
/// With a `program` it is a whole run of PostMark 1.51 instead, with that program's own choices, on caches as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostmarkSpec {
    /// Files before the first transaction.
    pub files: u64,
    /// Smallest size of a file in bytes.
    pub least_file_bytes: u64,
    /// Largest size of a file in bytes.
    pub file_bytes: u64,
    /// Number of transactions.
    pub transactions: u64,
    /// Bytes that one read() or write() moves.
    pub request_bytes: u64,
    /// The files' contents.
    pub data: Data,
    /// What a whole run needs to know; `None`: the transactions alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramSpec>,
}

words! {
    /// What of PostMark is run.
    Phases {
        /// The transactions, on files that are there.
        Transactions = "transactions",
        /// All that the program does: the pool, the transactions, the deletion of what is left.
        All = "all",
    }
}

const FILE_BYTES: Factor<Bytes> = factors::FILE_BYTES.about("size of the largest file");
const REQUESTS: Factor<Count> = factors::REQUESTS.about("number of transactions");
const PHASES: Factor<Phases> = Factor::new(
    "phases",
    "of PostMark, the transactions alone, or all with the program's own random choices: pool, transactions, deletion",
)
.default("transactions")
.quiet();
const WRITE_BYTES: Factor<OrDefault<Bytes>> =
    Factor::new("write_bytes", "bytes of a block that PostMark writes; default: request_bytes")
        .default("default")
        .quiet();
const BIAS_READ: Factor<TenthsOrNone> = Factor::new(
    "bias_read",
    "of ten transactions, how many read instead of appending; none: no transaction does either",
)
.default("5")
.quiet();
const BIAS_CREATE: Factor<TenthsOrNone> = Factor::new(
    "bias_create",
    "of ten transactions, how many create instead of deleting; none: no transaction does either",
)
.default("5")
.quiet();
const SUBDIRECTORIES: Factor<Count> =
    Factor::new("subdirectories", "folders that PostMark spreads its files over; 1: they lie in one")
        .default("1")
        .quiet();
const BUFFERED: Factor<Flag> =
    Factor::new("buffered", "PostMark's blocks pass through the C library's buffers of 4 KiB").default("true").quiet();

/// Those that only a whole run has.
const OF_PROGRAM: [AnyFactor; 5] =
    [WRITE_BYTES.any(), BIAS_READ.any(), BIAS_CREATE.any(), SUBDIRECTORIES.any(), BUFFERED.any()];

const LEAST_FILE_BYTES: Factor<Bytes> = Factor::new("least_file_bytes", "size of the smallest file").default("500");

const READ_25: Metric = rate_in_bytes("read_25_bytes_per_s", "throughput of read() until 25% of a file is read");
const READ_50: Metric = rate_in_bytes("read_50_bytes_per_s", "throughput of read() until 50% of a file is read");
const READ_100: Metric = rate_in_bytes("read_100_bytes_per_s", "throughput of read() until a file is read");
const TRANSACTIONS: Metric =
    metric("transactions_per_s", Unit::PerSecond, Better::More, Source::Calls, "transactions per second");
const RUN_READ: Metric = rate_in_bytes("run_read_bytes_per_s", "bytes read over the whole run's time");
const RUN_WRITTEN: Metric = rate_in_bytes("run_written_bytes_per_s", "bytes written over the whole run's time");

impl Defined for PostmarkSpec {
    const NAME: &'static str = "postmark";
    const ABOUT: &'static str = "PostMark's transactions";
    const SMALL: &'static str = "phases = ['transactions', 'all']\nfiles = 4\nrequests = 8\nfile_bytes = '16KiB'";
    const METRICS: &'static [Metric] = &[READ_25, READ_50, READ_100, TRANSACTIONS, RUN_READ, RUN_WRITTEN];
    const FACTORS: &'static [AnyFactor] = &[
        DATA.any(),
        FILES.any(),
        FILE_BYTES.any(),
        LEAST_FILE_BYTES.any(),
        REQUEST_BYTES.any(),
        REQUESTS.any(),
        PHASES.any(),
        WRITE_BYTES.any(),
        BIAS_READ.any(),
        BIAS_CREATE.any(),
        SUBDIRECTORIES.any(),
        BUFFERED.any(),
    ];

    fn of_point(point: &Point, _prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let program = match point.of(&PHASES)? {
            Phases::All => Some(ProgramSpec {
                write_bytes: match point.of(&WRITE_BYTES)? {
                    Some(bytes) => bytes,
                    None => point.of(&REQUEST_BYTES)?,
                },
                bias_read: point.of(&BIAS_READ)?,
                bias_create: point.of(&BIAS_CREATE)?,
                subdirectories: point.of(&SUBDIRECTORIES)?,
                buffered: point.of(&BUFFERED)?,
            }),
            Phases::Transactions => {
                let said = |factor: &&AnyFactor| {
                    point.get(factor.name).is_some_and(|v| Some(v) != factor.default_value().as_ref())
                };
                if let Some(factor) = OF_PROGRAM.iter().find(said) {
                    let error = Error::user(format!("`{}` is for whole runs of PostMark only", factor.name));
                    return Err(blame(factor.name)(error.hint("set phases = \"all\", or omit it")));
                }
                None
            }
        };
        let spec = PostmarkSpec {
            files: point.of(&FILES)?,
            least_file_bytes: point.of(&LEAST_FILE_BYTES)?,
            file_bytes: point.of(&FILE_BYTES)?,
            transactions: point.of(&REQUESTS)?,
            request_bytes: point.of(&REQUEST_BYTES)?,
            data: point.of(&DATA)?,
            program,
        };
        spec.judge().map(|()| spec)
    }
}

impl FileWorkload for PostmarkSpec {
    fn judge(&self) -> Result<(), Impossible> {
        let PostmarkSpec { files, least_file_bytes, file_bytes, transactions, request_bytes, .. } = *self;
        if file_bytes == 0 {
            return Err(wrong(FILE_BYTES.name(), "the largest file has no bytes".into(), "at least least_file_bytes"));
        }
        if !(1..=file_bytes).contains(&least_file_bytes) {
            let why = format!("no file has from {least_file_bytes} to {file_bytes} bytes");
            return Err(wrong(LEAST_FILE_BYTES.name(), why, "from 1 to file_bytes"));
        }
        if request_bytes == 0 {
            return Err(wrong(REQUEST_BYTES.name(), "reading 0 bytes does nothing".into(), "1 or more"));
        }
        if files == 0 || files.saturating_add(transactions) > u64::from(u32::MAX) {
            let why = format!("{files} files and {transactions} transactions are not supported");
            return Err(wrong(FILES.name(), why, "1 or more, and with requests below 4,294,967,296"));
        }
        self.program.as_ref().map_or(Ok(()), |program| program.judge(self))
    }

    fn population(&self, seed: u64) -> Population {
        let (sizes, caches) = (Sizes::Uniform { least_bytes: self.least_file_bytes }, Caches::Cold);
        // A whole run makes its files itself.
        let files = if self.program.is_some() { 0 } else { self.files };
        Population { files, file_bytes: self.file_bytes, data: self.data, seed, sizes, caches }
    }

    fn new_files(&self) -> u64 {
        self.transactions
    }

    /// Folders are there before the clock starts.
    fn setup(&self) -> Box<dyn Iterator<Item = Operation>> {
        let folders = self.program.as_ref().map_or(1, |program| program.subdirectories);
        let made = if folders > 1 { 0..folders as u32 } else { 0..0 };
        Box::new(made.map(|directory| Operation::MakeDirectory { directory }))
    }

    fn operations(&self, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        match &self.program {
            Some(program) => Box::new(program::operations(self, program, seed)),
            None => Box::new(postmark_operations(self, seed)),
        }
    }

    fn request_bytes(&self) -> u64 {
        match &self.program {
            Some(ProgramSpec { buffered: true, .. }) => program::BUFFER_BYTES,
            Some(program) => program.write_bytes.max(self.request_bytes),
            None => self.request_bytes,
        }
    }

    /// Mean throughput of read() over all files that were read, when a share of each has been read: bytes over time in
    /// the calls up to the first one that reaches it, as the read-ahead paper's table 1 has it; and transactions over
    /// the time in all calls. Of a whole run, transactions over the time in theirs, and bytes over the time in all, as
    /// the program reports them.
    fn metrics(&self, ran: &Ran<'_>) -> Values {
        let files = self.requests_by_file(ran);
        let until = |share: f64| {
            let rates: Vec<f64> = files.iter().filter_map(|requests| throughput(requests, share)).collect();
            (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
        };
        let all_ns = total_ns(ran.calls);
        let mut values = vec![(READ_25.name, until(0.25)), (READ_50.name, until(0.5)), (READ_100.name, until(1.0))];
        match &self.program {
            None => values.push((TRANSACTIONS.name, per_s(self.transactions, all_ns))),
            Some(program) => {
                let of_run = program::totals(self, program, ran.seed);
                let first = of_run.pool_operations as usize;
                let theirs = ran.calls.get(first..first + of_run.transaction_operations as usize);
                values.extend([
                    (TRANSACTIONS.name, theirs.and_then(|theirs| per_s(of_run.transactions, total_ns(theirs)))),
                    (RUN_READ.name, per_s(of_run.read_bytes, all_ns)),
                    (RUN_WRITTEN.name, per_s(of_run.written_bytes, all_ns)),
                ]);
            }
        }
        values
    }

    /// PostMark counts its files from 1.
    fn names(&self, seed: u64) -> Vec<String> {
        let Some(program) = &self.program else { return usual_names(self, seed) };
        let folders = program::subdirectories(self, program, seed);
        let named = |(number, folder): (u64, Option<u64>)| match folder {
            Some(folder) => format!("{}/{number}", directory_name(folder as u32)),
            None => number.to_string(),
        };
        (1..).zip(folders).map(named).collect()
    }
}

impl PostmarkSpec {
    /// Bytes and time in nanoseconds of each request, by the file that is read.
    fn requests_by_file(&self, ran: &Ran<'_>) -> Vec<Vec<(u64, u64)>> {
        let mut files: Vec<Vec<(u64, u64)>> = Vec::new();
        for (operation, call) in self.operations(ran.seed).filter(Operation::is_logged).zip(ran.calls) {
            match operation {
                Operation::Open { purpose: Purpose::Read, .. } => files.push(Vec::new()),
                Operation::Read { bytes, .. } => {
                    if let Some(requests) = files.last_mut() {
                        requests.push((bytes, call.latency_ns));
                    }
                }
                _ => {}
            }
        }
        files
    }
}

/// Bytes per second of a file's requests (bytes, ns) up to the one that reaches a share of all bytes.
fn throughput(requests: &[(u64, u64)], share: f64) -> Option<f64> {
    let wanted = share * requests.iter().map(|(bytes, _)| *bytes as f64).sum::<f64>();
    let (mut read, mut ns) = (0, 0);
    for (bytes, latency_ns) in requests {
        (read, ns) = (read + bytes, ns + latency_ns);
        if read as f64 >= wanted {
            break;
        }
    }
    per_s(read, ns as f64)
}

/// Operations of a `postmark` workload.
///
/// A transaction reads a file whole or appends to it, then creates a file or deletes one; either is as likely as the
/// other, and files are chosen uniformly. A new file's size is uniform between the bounds. An append is of 1 byte to
/// as many as are missing from the largest size, uniformly. Everything moves in blocks of `request_bytes`, the last one
/// is what is left. Where no file is left, none is read or appended to, and one is created.
///
/// Before a file is read, its pages leave the page cache.
pub fn postmark_operations(spec: &PostmarkSpec, seed: u64) -> impl Iterator<Item = Operation> + use<> {
    let mut pool = Pool::new(spec, seed);
    (0..spec.transactions).flat_map(move |_| pool.transaction())
}

struct Pool {
    spec: PostmarkSpec,
    random: Random,
    /// Number and size in bytes of each file that there is.
    files: Vec<(u32, u64)>,
    next: u32,
}

impl Pool {
    fn new(spec: &PostmarkSpec, seed: u64) -> Pool {
        let there = spec.population(seed).list();
        let files: Vec<(u32, u64)> = (0u32..).zip(there.iter().map(|f| f.bytes)).collect();
        Pool {
            spec: spec.clone(),
            random: Random::labelled(seed, "postmark transactions"),
            next: files.len() as u32,
            files,
        }
    }

    /// As a coin falls.
    fn either(&mut self) -> bool {
        self.random.below(2) == 0
    }

    fn transaction(&mut self) -> Vec<Operation> {
        let mut made = Vec::new();
        let reads = self.either();
        if let Some(chosen) = self.choose() {
            if reads { self.read(chosen, &mut made) } else { self.append(chosen, &mut made) }
        }
        let creates = self.either();
        match self.choose() {
            Some(chosen) if !creates => {
                let (file, _) = self.files.swap_remove(chosen);
                made.push(Operation::Delete { file });
            }
            _ => self.create(&mut made),
        }
        made
    }

    fn choose(&mut self) -> Option<usize> {
        (!self.files.is_empty()).then(|| self.random.below(self.files.len() as u64) as usize)
    }

    fn read(&mut self, chosen: usize, made: &mut Vec<Operation>) {
        let (file, size) = self.files[chosen];
        made.extend([Operation::Evict { file }, Operation::Open { file, purpose: Purpose::Read }]);
        made.extend(blocks(size, self.spec.request_bytes).map(|(offset, bytes)| Operation::Read {
            file,
            offset,
            bytes,
        }));
        made.push(Operation::Close { file });
    }

    fn append(&mut self, chosen: usize, made: &mut Vec<Operation>) {
        let (file, size) = self.files[chosen];
        let room = self.spec.file_bytes.saturating_sub(size);
        let added = if room == 0 { 0 } else { 1 + self.random.below(room) };
        self.files[chosen].1 += added;
        made.push(Operation::Open { file, purpose: Purpose::Append });
        self.write(file, added, made);
    }

    fn create(&mut self, made: &mut Vec<Operation>) {
        let (file, least) = (self.next, self.spec.least_file_bytes);
        let size = least + self.random.below(self.spec.file_bytes - least + 1);
        self.next += 1;
        self.files.push((file, size));
        made.push(Operation::Create { file });
        self.write(file, size, made);
    }

    fn write(&self, file: u32, bytes: u64, made: &mut Vec<Operation>) {
        made.extend(blocks(bytes, self.spec.request_bytes).map(|(_, bytes)| Operation::Append { file, bytes }));
        made.push(Operation::Close { file });
    }
}

/// Offset and length of each block of so many bytes.
pub(crate) fn blocks(bytes: u64, block: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..bytes.div_ceil(block)).map(move |n| (n * block, block.min(bytes - n * block)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::took;
    use std::collections::BTreeMap;

    fn spec(files: u64, transactions: u64) -> PostmarkSpec {
        let (least_file_bytes, file_bytes, request_bytes) = (500, 10_000, 512);
        let (data, program) = (Data::Random, None);
        PostmarkSpec { files, least_file_bytes, file_bytes, transactions, request_bytes, data, program }
    }

    /// Plays operations on a table of sizes, and counts files read, appended to, created and deleted.
    fn play(spec: &PostmarkSpec, seed: u64) -> ([u64; 4], BTreeMap<u32, u64>) {
        let there = spec.population(seed).list();
        let mut sizes: BTreeMap<u32, u64> = (0u32..).zip(there.iter().map(|f| f.bytes)).collect();
        let mut counts = [0; 4];
        let (mut open, mut read, mut written, mut created) = (None, 0, 0, false);
        for operation in postmark_operations(spec, seed) {
            match operation {
                Operation::Evict { file } => assert!(open.is_none() && sizes.contains_key(&file)),
                Operation::Open { file, .. } => {
                    assert!(open.is_none() && sizes.contains_key(&file));
                    (open, read, written, created) = (Some(file), 0, 0, false);
                }
                Operation::Create { file } => {
                    assert!(open.is_none() && sizes.insert(file, 0).is_none());
                    (open, read, written, created) = (Some(file), 0, 0, true);
                    counts[2] += 1;
                }
                Operation::Read { file, offset, bytes } => {
                    assert!(open == Some(file) && offset == read && bytes <= spec.request_bytes);
                    read += bytes;
                }
                Operation::Append { file, bytes } => {
                    assert!(open == Some(file) && (1..=spec.request_bytes).contains(&bytes));
                    written += bytes;
                    *sizes.get_mut(&file).unwrap() += bytes;
                }
                Operation::Close { file } => {
                    assert_eq!(open.take(), Some(file));
                    if read > 0 {
                        assert_eq!(read, sizes[&file], "a file is read whole");
                        counts[0] += 1;
                    } else if !created {
                        counts[1] += 1;
                        assert!(written <= spec.file_bytes);
                    }
                    assert!((spec.least_file_bytes..=spec.file_bytes).contains(&sizes[&file]));
                }
                Operation::Delete { file } => {
                    assert!(open.is_none() && sizes.remove(&file).is_some());
                    counts[3] += 1;
                }
                other => panic!("{other:?} is none of PostMark's"),
            }
        }
        (counts, sizes)
    }

    #[test]
    fn transactions_are_half_reads_half_appends_half_creations_half_deletions() {
        let ([reads, appends, creations, deletions], sizes) = play(&spec(1000, 4000), 1);
        assert_eq!((reads + appends, creations + deletions), (4000, 4000));
        // 4,000 coins: 2,000 on average, standard deviation 31.6; five of them.
        assert!(reads.abs_diff(2000) <= 158 && creations.abs_diff(2000) <= 158, "{reads} {creations}");
        assert_eq!(sizes.len() as u64, 1000 + creations - deletions);
    }

    #[test]
    fn a_pool_that_runs_dry_is_filled_again() {
        // One file: sooner or later it is deleted, and then there is none to read.
        for seed in 0..20 {
            let ([reads, appends, creations, deletions], sizes) = play(&spec(1, 50), seed);
            assert!(reads + appends <= 50 && creations + deletions == 50);
            assert_eq!(sizes.len() as u64, 1 + creations - deletions);
        }
    }

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let text: String = postmark_operations(&spec(5, 6), 7).map(|o| crate::testing::text(&o)).collect();
        let digest =
            text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        assert_eq!(digest, 3254155796631991186);
        assert_ne!(play(&spec(5, 60), 1), play(&spec(5, 60), 2));
    }

    #[test]
    fn sizes_must_fit_each_other() {
        let good = spec(5, 5);
        good.check().unwrap();
        let cure = |spec: PostmarkSpec| spec.check().unwrap_err().cure().unwrap().to_owned();
        assert!(cure(PostmarkSpec { least_file_bytes: 10_001, ..good.clone() }).contains("least_file_bytes"));
        assert!(cure(PostmarkSpec { least_file_bytes: 0, ..good.clone() }).contains("from 1"));
        assert!(cure(PostmarkSpec { request_bytes: 0, ..good.clone() }).contains("request_bytes"));
        assert!(cure(PostmarkSpec { files: u64::MAX, ..good }).contains("files"));
    }

    #[test]
    fn blocks_are_whole_but_the_last() {
        assert_eq!(blocks(1100, 512).collect::<Vec<_>>(), [(0, 512), (512, 512), (1024, 76)]);
        assert_eq!(blocks(1024, 512).collect::<Vec<_>>(), [(0, 512), (512, 512)]);
        assert_eq!(blocks(0, 512).count(), 0);
    }

    #[test]
    fn throughput_counts_up_to_the_request_that_reaches_the_share() {
        // Four blocks of 1000 bytes and one of 500: a quarter is 1125 bytes, a half 2250. 2000 bytes in 4 us are
        // 5e8 per second, 3000 in 6 us, all 4500 in 12 us 3.75e8.
        let requests = [(1000, 3000), (1000, 1000), (1000, 2000), (1000, 2000), (500, 4000)];
        assert_eq!([0.25, 0.5, 1.0].map(|share| throughput(&requests, share)), [5e8, 5e8, 3.75e8].map(Some));
        assert_eq!(throughput(&[], 0.5), None);
    }

    #[test]
    fn every_file_read_counts_as_much_as_any_other() {
        let spec = PostmarkSpec { least_file_bytes: 1000, file_bytes: 2000, request_bytes: 1000, ..spec(9, 40) };
        // A byte takes a nanosecond in read(), any other call a microsecond: each file has 1e9 bytes per second.
        let operations = spec.operations(1).filter(Operation::is_logged);
        let calls = took(operations.map(|o| if let Operation::Read { bytes, .. } = o { bytes } else { 1000 }));
        let found = spec.metrics(&Ran { seed: 1, calls: &calls, filled_bytes: None });
        assert!(found[..3].iter().all(|(_, value)| *value == Some(1e9)), "{found:?}");
        let total: u64 = calls.iter().map(|c| c.latency_ns).sum();
        assert_eq!(found[3], ("transactions_per_s", Some(40e9 / total as f64)));
    }
}
