//! The `files` workload: one kind of operation on a folder of files.

use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Factor, Impossible, Point, wrong};
use crate::factors::{DATA, FILE_BYTES, FILES, INTER_ARRIVAL_NS, PATTERN, REQUEST_BYTES, REQUESTS, THREADS};
use crate::population::{Caches, Population, Sizes};
use crate::{Data, Operation, Purpose};
use pocketstone_core::pattern::Pattern;
use pocketstone_core::random::Random;
use pocketstone_core::{Result, words};
use serde::{Deserialize, Serialize};

/// Files that a workload can have open at once: below the 1024 that a process has by default.
const MOST_OPEN_FILES: u64 = 512;

/// The `files` workload: one operation per request on the files of one folder, caches warm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSpec {
    /// The operation of a request.
    pub operation: FileOperation,
    /// Order of offsets, or of files where there are no offsets.
    pub pattern: Pattern,
    /// Number of requests.
    pub requests: u64,
    /// Bytes that a read, write or append moves.
    pub request_bytes: u64,
    /// Number of files that there are before the first request.
    pub files: u64,
    /// Size of each of them.
    pub file_bytes: u64,
    /// Pause between the end of one request and the start of the next.
    pub inter_arrival_ns: u64,
    /// What the files hold, and what is written to them.
    pub data: Data,
    /// When what was written is made durable.
    pub sync: Sync,
    /// Threads that share the requests: thread `t` of `n` has the requests `t`, `t + n`, ...
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
}

fn one() -> u32 {
    1
}

fn is_one(threads: &u32) -> bool {
    *threads == 1
}

words! {
    /// The operation of a request of a `files` workload.
    FileOperation {
        /// Reads from an open file.
        Read = "read",
        /// Overwrites a part of an open file.
        Write = "write",
        /// Writes at the end of an open file.
        Append = "append",
        /// Creates an empty file, open and close.
        Create = "create",
        /// Deletes a file by name.
        Delete = "delete",
        /// Asks for a file's attributes by name.
        LookUp = "look-up",
        /// Opens a file, reads all of it, closes it.
        ReadFile = "read-file",
        /// Opens a file, writes all of it anew, closes it.
        WriteFile = "write-file",
        /// Gives a file another name.
        Rename = "rename",
        /// Cuts an open file to nothing.
        Truncate = "truncate",
        /// Makes a directory.
        MakeDirectory = "make-directory",
        /// Reads all names of the folder.
        List = "list",
    }
}

words! {
    /// When a `files` workload calls fsync.
    Sync {
        /// Never.
        None = "none",
        /// As the last part of each request that changes a file.
        Each = "each",
    }
}

const OPERATION: Factor<FileOperation> = Factor::new("operation", "the operation of a request").default("read");
const SYNC: Factor<Sync> =
    Factor::new("sync", "fsync never, or at the end of each request that changes a file").default("none");

impl Defined for FilesSpec {
    const NAME: &'static str = "files";
    const ABOUT: &'static str = "operations on files with warm caches";
    const SMALL: &'static str =
        "operation = ['read', 'append', 'create', 'rename']\nfiles = 8\nrequests = 8\nfile_bytes = '16KiB'";
    // It is for what is not of the medium.
    const MAY_BE_COLD: bool = false;
    const FACTORS: &'static [AnyFactor] = &[
        DATA.any(),
        OPERATION.any(),
        SYNC.any(),
        FILES.any(),
        FILE_BYTES.any(),
        PATTERN.any(),
        REQUEST_BYTES.any(),
        REQUESTS.any(),
        INTER_ARRIVAL_NS.any(),
        THREADS.any(),
    ];

    fn of_point(point: &Point, _prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let spec = FilesSpec {
            operation: point.of(&OPERATION)?,
            pattern: point.of(&PATTERN)?,
            requests: point.of(&REQUESTS)?,
            request_bytes: point.of(&REQUEST_BYTES)?,
            files: point.of(&FILES)?,
            file_bytes: point.of(&FILE_BYTES)?,
            inter_arrival_ns: point.of(&INTER_ARRIVAL_NS)?,
            data: point.of(&DATA)?,
            sync: point.of(&SYNC)?,
            threads: u32::try_from(point.of(&THREADS)?).unwrap_or(u32::MAX),
        };
        spec.judge().map(|()| spec)
    }

    /// Only what changes a file can be made durable.
    fn exists(point: &Point) -> bool {
        let sync = point.of(&SYNC).unwrap_or(Sync::None);
        sync == Sync::None || point.of(&OPERATION).is_ok_and(FileOperation::changes_a_file)
    }

    const DECIDING: &'static [&'static str] = &[OPERATION.name(), SYNC.name()];
}

impl FileOperation {
    /// Whether files are open while requests are made, and what for.
    fn on_open_files(self) -> Option<Purpose> {
        match self {
            FileOperation::Read => Some(Purpose::Read),
            FileOperation::Write | FileOperation::Truncate => Some(Purpose::Write),
            FileOperation::Append => Some(Purpose::Append),
            FileOperation::Create | FileOperation::Delete | FileOperation::LookUp | FileOperation::ReadFile => None,
            FileOperation::WriteFile | FileOperation::Rename => None,
            FileOperation::MakeDirectory | FileOperation::List => None,
        }
    }

    /// Whether it leaves a file that fsync() has something to do for.
    fn changes_a_file(self) -> bool {
        match self {
            FileOperation::Write | FileOperation::Append | FileOperation::Create => true,
            FileOperation::WriteFile | FileOperation::Truncate => true,
            FileOperation::Read | FileOperation::Delete | FileOperation::LookUp | FileOperation::ReadFile => false,
            FileOperation::Rename | FileOperation::MakeDirectory | FileOperation::List => false,
        }
    }

    /// Whether each file's turn comes once at most.
    fn once(self) -> bool {
        matches!(self, FileOperation::Delete | FileOperation::Rename | FileOperation::Truncate)
    }

    /// Whether each request makes a file that was not there.
    fn makes_new_names(self) -> bool {
        matches!(self, FileOperation::Create | FileOperation::Rename)
    }
}

impl FileWorkload for FilesSpec {
    fn judge(&self) -> Result<(), Impossible> {
        let FilesSpec { operation, requests, request_bytes, files, file_bytes, threads, .. } = *self;
        let fits = (1..=file_bytes).contains(&request_bytes);
        if matches!(operation, FileOperation::Read | FileOperation::Write) && !fits {
            let why = format!("requests of {request_bytes} bytes do not fit files of {file_bytes} bytes");
            return Err(wrong(REQUEST_BYTES.name(), why, "from 1 to file_bytes"));
        }
        if request_bytes == 0 {
            return Err(wrong(REQUEST_BYTES.name(), "appending 0 bytes does nothing".into(), "1 or more"));
        }
        let open = files.saturating_mul(u64::from(threads));
        if operation.on_open_files().is_some() && open > MOST_OPEN_FILES {
            let why = format!("{open} files are more than can be open at once");
            let must = format!("at most {MOST_OPEN_FILES}, times threads, where they are read or written");
            return Err(wrong(FILES.name(), why, &must));
        }
        if operation.once() && requests > files {
            let name = operation.name();
            let why = format!("`{name}` uses each file once: {files} files are too few for {requests} requests");
            return Err(wrong(FILES.name(), why, "at least requests"));
        }
        if files.saturating_add(requests) > u64::from(u32::MAX) {
            let why = format!("{files} files and {requests} requests are too many");
            return Err(wrong(FILES.name(), why, "below 4,294,967,296, with requests"));
        }
        match (1..=64).contains(&threads) {
            true => Ok(()),
            false => Err(wrong(THREADS.name(), format!("{threads} threads are not supported"), "from 1 to 64")),
        }
    }

    fn population(&self, seed: u64) -> Population {
        let (sizes, caches) = (Sizes::Same, Caches::Warm);
        Population { files: self.files, file_bytes: self.file_bytes, data: self.data, seed, sizes, caches }
    }

    fn new_files(&self) -> u64 {
        if self.operation.makes_new_names() { self.requests } else { 0 }
    }

    fn setup(&self) -> Box<dyn Iterator<Item = Operation>> {
        let files = self.files;
        let open = move |purpose| (0..files).map(move |n| Operation::Open { file: n as u32, purpose });
        Box::new(self.operation.on_open_files().into_iter().flat_map(open))
    }

    fn operations(&self, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        Box::new(file_operations(self, seed))
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn pauses_ns(&self) -> u64 {
        self.requests.saturating_mul(self.inter_arrival_ns)
    }

    fn writes(&self) -> bool {
        match self.operation {
            FileOperation::Read | FileOperation::LookUp | FileOperation::ReadFile | FileOperation::List => false,
            FileOperation::Write | FileOperation::Append | FileOperation::Create | FileOperation::Delete => true,
            FileOperation::WriteFile | FileOperation::Rename | FileOperation::Truncate => true,
            FileOperation::MakeDirectory => true,
        }
    }

    fn sync_each(&self) -> bool {
        self.sync == Sync::Each
    }

    fn threads(&self) -> u32 {
        self.threads
    }
}

/// Operations of a `files` workload, with a pause between two of them.
///
/// Reads and writes go to aligned offsets of the files that exist: sequential ones through one file after
/// the other, then from the first again; random ones uniformly over all of them, with replacement. Appends
/// and look-ups choose files in the same ways. What is created gets the names behind those that exist, what
/// is deleted is deleted once: random means in random order there.
pub fn file_operations(spec: &FilesSpec, seed: u64) -> impl Iterator<Item = Operation> + use<> {
    let spec = spec.clone();
    let mut random = Random::labelled(seed, "file requests");
    let slots_per_file = match spec.operation {
        FileOperation::Read | FileOperation::Write => (spec.file_bytes / spec.request_bytes.max(1)).max(1),
        _ => 1,
    };
    let slots = spec.files.max(1) * slots_per_file;
    let mut order = Order::new(&spec, &mut random);
    (0..spec.requests).flat_map(move |n| {
        let slot = match (&mut order, spec.pattern) {
            (Order::Once(files), _) => u64::from(files[n as usize]),
            (Order::Any, Pattern::Sequential) => n % slots,
            (Order::Any, Pattern::Random) => random.below(slots),
        };
        let (file, offset) = ((slot / slots_per_file) as u32, slot % slots_per_file * spec.request_bytes);
        let bytes = spec.request_bytes;
        let operation = match spec.operation {
            FileOperation::Read => Operation::Read { file, offset, bytes },
            FileOperation::Write => Operation::Write { file, offset, bytes },
            FileOperation::Append => Operation::Append { file, bytes },
            FileOperation::Create => Operation::CreateFile { file },
            FileOperation::Delete => Operation::Delete { file },
            FileOperation::LookUp => Operation::LookUp { file },
            FileOperation::ReadFile => Operation::ReadFile { file },
            FileOperation::WriteFile => Operation::WriteFile { file, bytes: spec.file_bytes },
            FileOperation::Rename => Operation::Rename { file, to: (spec.files + n) as u32 },
            FileOperation::Truncate => Operation::Truncate { file, bytes: 0 },
            FileOperation::MakeDirectory => Operation::MakeDirectory { directory: n as u32 },
            FileOperation::List => Operation::List,
        };
        let pause = (n > 0 && spec.inter_arrival_ns > 0).then_some(Operation::Pause { ns: spec.inter_arrival_ns });
        pause.into_iter().chain([operation])
    })
}

/// How often a file's turn comes.
enum Order {
    /// As often as it is chosen.
    Any,
    /// Once, in this order.
    Once(Vec<u32>),
}

impl Order {
    fn new(spec: &FilesSpec, random: &mut Random) -> Order {
        let first = match spec.operation {
            FileOperation::Create => spec.files,
            operation if operation.once() => 0,
            _ => return Order::Any,
        };
        // What is there is drawn from all files that are.
        let last = if spec.operation.once() { spec.files } else { first + spec.requests };
        let mut files: Vec<u32> = (first..last).map(|file| file as u32).collect();
        if spec.pattern == Pattern::Random {
            // Fisher and Yates, as Durstenfeld wrote it down.
            for last in (1..files.len()).rev() {
                files.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
        Order::Once(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Those whose streams must never change.
    const FIRST: [FileOperation; 6] = [
        FileOperation::Read,
        FileOperation::Write,
        FileOperation::Append,
        FileOperation::Create,
        FileOperation::Delete,
        FileOperation::LookUp,
    ];

    fn spec(operation: FileOperation, pattern: Pattern) -> FilesSpec {
        FilesSpec {
            operation,
            pattern,
            requests: 6,
            request_bytes: 4096,
            files: 6,
            file_bytes: 10_000,
            inter_arrival_ns: 0,
            data: Data::Random,
            sync: Sync::None,
            threads: 1,
        }
    }

    /// FNV-1a over the operations as text: any change of the stream shows.
    fn digest(spec: &FilesSpec, seed: u64) -> u64 {
        let text: String = file_operations(spec, seed).map(|o| crate::testing::text(&o)).collect();
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    }

    #[test]
    fn a_short_sequence_of_each_kind() {
        let list = |operation| file_operations(&spec(operation, Pattern::Sequential), 1).collect::<Vec<_>>();
        let at = |n: u32| (n / 2, u64::from(n % 2) * 4096, 4096);
        let six = |make: &dyn Fn(u32) -> Operation| (0..6).map(make).collect::<Vec<_>>();
        let read = |n| {
            let (file, offset, bytes) = at(n);
            Operation::Read { file, offset, bytes }
        };
        let write = |n| {
            let (file, offset, bytes) = at(n);
            Operation::Write { file, offset, bytes }
        };
        assert_eq!(list(FileOperation::Read), six(&read));
        assert_eq!(list(FileOperation::Write), six(&write));
        assert_eq!(list(FileOperation::Append), six(&|file| Operation::Append { file, bytes: 4096 }));
        assert_eq!(list(FileOperation::Create), six(&|n| Operation::CreateFile { file: 6 + n }));
        assert_eq!(list(FileOperation::Delete), six(&|file| Operation::Delete { file }));
        assert_eq!(list(FileOperation::LookUp), six(&|file| Operation::LookUp { file }));
    }

    #[test]
    fn random_requests_are_seeded_and_inside_their_files() {
        for operation in FIRST {
            let spec = FilesSpec { requests: 2000, files: 2000, ..spec(operation, Pattern::Random) };
            let got: Vec<Operation> = file_operations(&spec, 1).collect();
            assert_eq!(got, file_operations(&spec, 1).collect::<Vec<_>>());
            assert_ne!(got, file_operations(&spec, 2).collect::<Vec<_>>());
            let mut files = BTreeSet::new();
            for operation in got {
                match operation {
                    Operation::Read { file, offset, bytes } | Operation::Write { file, offset, bytes } => {
                        assert!(offset % bytes == 0 && offset + bytes <= 10_000);
                        files.insert(file)
                    }
                    Operation::Append { file, .. }
                    | Operation::CreateFile { file }
                    | Operation::Delete { file }
                    | Operation::LookUp { file } => files.insert(file),
                    other => panic!("{other:?} is none of them"),
                };
            }
            // n draws with replacement leave n (1 - 1/e) = 1264 distinct on average, with a standard
            // deviation of 22 at most; once each means all of them.
            match operation {
                FileOperation::Create => assert_eq!(files, (2000..4000).collect()),
                FileOperation::Delete => assert_eq!(files, (0..2000).collect()),
                _ => assert!((1180..=1350).contains(&files.len()), "{operation:?}: {}", files.len()),
            }
        }
    }

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let got = FIRST.map(|operation| digest(&FilesSpec { requests: 5, ..spec(operation, Pattern::Random) }, 7));
        let expected = [
            16440555848046695104,
            13217934157425807223,
            3261637414603363291,
            1363418113751787941,
            5948508902779577888,
            14027159434541411733,
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn pauses_stand_between_requests_only() {
        let spec = FilesSpec { requests: 2, inter_arrival_ns: 5, ..spec(FileOperation::LookUp, Pattern::Sequential) };
        let got: Vec<Operation> = file_operations(&spec, 1).collect();
        assert_eq!(got, [Operation::LookUp { file: 0 }, Operation::Pause { ns: 5 }, Operation::LookUp { file: 1 }]);
    }

    #[test]
    fn requests_fit_their_files() {
        let spec = |operation| FilesSpec { requests: 8, files: 8, ..spec(operation, Pattern::Sequential) };
        let wrong = |spec: FilesSpec| spec.check().unwrap_err().cure().unwrap().to_owned();
        FileOperation::ALL.into_iter().for_each(|operation| spec(operation).check().unwrap());
        assert!(wrong(FilesSpec { request_bytes: 10_001, ..spec(FileOperation::Write) }).contains("file_bytes"));
        assert!(wrong(FilesSpec { request_bytes: 0, ..spec(FileOperation::Append) }).contains("1 or more"));
        for once in [FileOperation::Delete, FileOperation::Rename, FileOperation::Truncate] {
            assert!(wrong(FilesSpec { requests: 9, ..spec(once) }).contains("at least requests"));
        }
        assert!(wrong(FilesSpec { files: 513, ..spec(FileOperation::Read) }).contains("512"));
        assert!(wrong(FilesSpec { files: 300, threads: 2, ..spec(FileOperation::Read) }).contains("512"));
        assert!(wrong(FilesSpec { threads: 65, ..spec(FileOperation::LookUp) }).contains("64"));
        FilesSpec { files: 513, ..spec(FileOperation::Create) }.check().unwrap();
    }

    #[test]
    fn what_is_renamed_gets_a_new_name_and_what_is_cut_has_its_turn_once() {
        let list = |operation| -> Vec<Operation> { file_operations(&spec(operation, Pattern::Random), 1).collect() };
        let mut renamed = BTreeSet::new();
        for (n, operation) in list(FileOperation::Rename).into_iter().enumerate() {
            let Operation::Rename { file, to } = operation else { panic!("{operation:?}") };
            assert_eq!(to as usize, 6 + n);
            renamed.insert(file);
        }
        assert_eq!(renamed, (0..6).collect());
        let cut = list(FileOperation::Truncate).into_iter().map(|operation| match operation {
            Operation::Truncate { file, bytes: 0 } => file,
            other => panic!("{other:?}"),
        });
        assert_eq!(cut.collect::<BTreeSet<_>>(), (0..6).collect());
        assert!(list(FileOperation::List).iter().all(|o| *o == Operation::List));
    }
}
