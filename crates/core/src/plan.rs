//! What a board is asked to do. A plan is pure data: the same plan on the same image does the same
//! work, and its JSON text is what travels to the board and into the results.

use crate::database::DatabaseSpec;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

mod workloads;

pub use workloads::{Access, AppStartSpec, LIBRARY_BYTES, PostmarkSpec, Prefetch, SMALL_FILE_BYTES, Sizes};

/// Version of the plan's JSON form; a runner refuses any other.
pub const PLAN_FORMAT: u32 = 2;

/// Name of the file that a `read` workload reads, within its volume.
pub const TARGET_FILE: &str = "target";

/// Name of the folder that a `files` workload works in, within its volume.
pub const FILES_FOLDER: &str = "pocketstone-files";

/// Name of a prepared workload's file, beside the order that needs it.
pub const TRACE_FILE: &str = "workload.trace";

/// Name of a read-only volume's image, beside the order that needs it.
pub const IMAGE_FILE: &str = "volume.squashfs";

/// Files that a workload can have open at once: below the 1024 that a process has by default.
const MOST_OPEN_FILES: u64 = 512;

/// One message to a board's runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Bring the board one step nearer to the state that measurements start from.
    Prepare {
        /// The step.
        step: Step,
    },
    /// Measure one cell.
    Measure {
        /// The cell's plan.
        plan: Box<Plan>,
    },
    /// Say which database engines there are.
    Engines,
    /// Run a command and hand back its output and exit status.
    Exec {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// Run an interactive shell on the console until it exits.
    Shell,
}

impl Order {
    /// Digest of the prepared workload that whoever carries it out must have beside it, as [`TRACE_FILE`].
    pub fn trace(&self) -> Option<&str> {
        match self {
            Order::Prepare { step: Step::Load { database, .. } } => Some(&database.trace),
            Order::Measure { plan } => match &plan.workload {
                Workload::Database(database) => Some(&database.trace),
                _ => None,
            },
            _ => None,
        }
    }

    /// Names of the files that whoever carries it out must have beside it.
    pub fn files(&self) -> Vec<&'static str> {
        let trace = self.trace().map(|_| TRACE_FILE);
        trace.into_iter().chain(self.image().map(|_| IMAGE_FILE)).collect()
    }

    /// The volume whose image whoever carries it out must have beside it, as [`IMAGE_FILE`].
    pub fn image(&self) -> Option<&Volume> {
        match self {
            Order::Prepare { step: Step::Fill { volume, .. } | Step::Populate { volume, .. } } => {
                volume.file_system.read_only().then_some(volume)
            }
            _ => None,
        }
    }
}

/// A step of preparation. Boards that can, keep the state after each step and start from it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Erase the medium, make an empty file system on it and mount it.
    Format {
        /// What to make.
        volume: Volume,
    },
    /// Write a file, remount, and wait until background work has ended.
    Fill {
        /// Where.
        volume: Volume,
        /// The file.
        file: FileSpec,
    },
    /// Write the files that a `files` workload starts with, and wait until background work has ended.
    Populate {
        /// Where.
        volume: Volume,
        /// The files.
        population: Population,
    },
    /// Load a database with what its workload starts from, in a process of its own, and wait until
    /// background work has ended.
    Load {
        /// Where.
        volume: Volume,
        /// The database, and the workload whose initial state it gets.
        database: Box<DatabaseSpec>,
    },
}

/// The measured part of one cell, and the state it starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_FORMAT`].
    pub format: u32,
    /// Seed of everything random in this cell.
    pub seed: u64,
    /// The file system under test.
    pub volume: Volume,
    /// What is done on it.
    pub workload: Workload,
    /// Read-ahead to set; `None` leaves what the machine has.
    pub read_ahead: Option<ReadAhead>,
    /// Trace every flash operation. Tracing costs time: latencies come from a run without it.
    pub trace: bool,
    /// Measure the energy of the run, and rest for a while before it to know what the machine uses at rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub energy: bool,
}

impl Plan {
    /// The steps that bring a freshly booted board to the state this plan starts from. A file system in
    /// memory has none: it lives as long as the process that measures on it, which prepares it.
    pub fn steps(&self) -> Vec<Step> {
        if self.volume.file_system.in_memory() {
            return Vec::new();
        }
        let volume = self.volume.clone();
        let filled = match &self.workload {
            Workload::Read(read) => {
                let file = FileSpec { bytes: read.file_bytes, data: read.data, seed: self.seed };
                Step::Fill { volume: volume.clone(), file }
            }
            Workload::Files(files) => {
                Step::Populate { volume: volume.clone(), population: files.population(self.seed) }
            }
            Workload::Postmark(postmark) => {
                Step::Populate { volume: volume.clone(), population: postmark.population(self.seed) }
            }
            Workload::AppStart(start) => {
                Step::Populate { volume: volume.clone(), population: start.population(self.seed) }
            }
            Workload::Database(database) => {
                Step::Load { volume: volume.clone(), database: Box::new(database.loading()) }
            }
        };
        vec![Step::Format { volume }, filled]
    }
}

/// A file system under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Which file system.
    pub file_system: FileSystem,
    /// Mount options, as `mount -o` takes them.
    #[serde(default)]
    pub options: Vec<String>,
    /// The directory to work in, for [`FileSystem::Directory`].
    #[serde(default)]
    pub directory: Option<PathBuf>,
}

/// File systems that a volume can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystem {
    /// Any directory, on whatever file system it is.
    Directory,
    /// JFFS2 on the first MTD device.
    Jffs2,
    /// UBIFS on a UBI volume on the first MTD device.
    Ubifs,
    /// YAFFS2 on the first MTD device, by this project's library and FUSE.
    Yaffs2,
    /// A FUSE mount with the file of a `read` workload, which reads as zeros: what FUSE alone takes.
    NullFuse,
    /// SquashFS on mtdblock on the first MTD device, read-only.
    SquashfsMtdblock,
    /// SquashFS on ubiblock on a UBI volume on the first MTD device, read-only.
    SquashfsUbiblock,
    /// SCMFS, called in the process that measures, on a file in a tmpfs made for the cell.
    Scmfs,
    /// The same on simulated phase change memory: each line read or written takes its time, and its wear is
    /// counted.
    ScmfsPcm,
    /// SCMFS on a file in a tmpfs, mounted by FUSE.
    ScmfsFuse,
    /// A tmpfs made for the cell.
    Tmpfs,
    /// ext4 on a loop device on a file in a tmpfs made for the cell.
    Ext4,
}

impl FileSystem {
    /// Every file system, in the order they are shown.
    pub const ALL: [FileSystem; 12] = [
        FileSystem::Directory,
        FileSystem::Jffs2,
        FileSystem::Ubifs,
        FileSystem::Yaffs2,
        FileSystem::NullFuse,
        FileSystem::SquashfsMtdblock,
        FileSystem::SquashfsUbiblock,
        FileSystem::Scmfs,
        FileSystem::ScmfsPcm,
        FileSystem::ScmfsFuse,
        FileSystem::Tmpfs,
        FileSystem::Ext4,
    ];

    /// The name used in studies, results and messages.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Directory => "directory",
            FileSystem::Jffs2 => "jffs2",
            FileSystem::Ubifs => "ubifs",
            FileSystem::Yaffs2 => "yaffs2",
            FileSystem::NullFuse => "null-fuse",
            FileSystem::SquashfsMtdblock => "squashfs-mtdblock",
            FileSystem::SquashfsUbiblock => "squashfs-ubiblock",
            FileSystem::Scmfs => "scmfs",
            FileSystem::ScmfsPcm => "scmfs-pcm",
            FileSystem::ScmfsFuse => "scmfs-fuse",
            FileSystem::Tmpfs => "tmpfs",
            FileSystem::Ext4 => "ext4",
        }
    }

    /// Whether it is made in the machine's memory for one cell, and gone with the process that measures it.
    pub fn in_memory(self) -> bool {
        match self {
            FileSystem::Directory => false,
            FileSystem::Jffs2 | FileSystem::Ubifs | FileSystem::Yaffs2 | FileSystem::NullFuse => false,
            FileSystem::SquashfsMtdblock | FileSystem::SquashfsUbiblock => false,
            FileSystem::Scmfs | FileSystem::ScmfsPcm | FileSystem::ScmfsFuse | FileSystem::Tmpfs | FileSystem::Ext4 => {
                true
            }
        }
    }

    /// Whether it is in the state of a board of ours, which is thrown away after each cell.
    pub fn of_board(self) -> bool {
        !self.in_memory() && self != FileSystem::Directory
    }

    /// Whether nothing can be written to it: its files come in an image.
    pub fn read_only(self) -> bool {
        matches!(self, FileSystem::SquashfsMtdblock | FileSystem::SquashfsUbiblock)
    }
}

/// A file to prepare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Size in bytes.
    pub bytes: u64,
    /// What it holds.
    pub data: Data,
    /// Seed of the content and of where it comes to lie.
    pub seed: u64,
}

/// Files to prepare, in a folder of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// How many; an application's libraries are not counted.
    pub files: u64,
    /// Size of each in bytes, or the largest one.
    pub file_bytes: u64,
    /// What they hold.
    pub data: Data,
    /// Seed of their sizes and content.
    pub seed: u64,
    /// Whether and how their sizes differ.
    #[serde(default, skip_serializing_if = "Sizes::is_same")]
    pub sizes: Sizes,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Random bytes: no compressor gains anything.
    Random,
    /// Text-like bytes that compress to about half.
    Compressible,
}

/// A workload; the operations it stands for are made by the workload crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// read() calls on one file.
    Read(ReadSpec),
    /// One kind of operation on a folder of files.
    Files(FilesSpec),
    /// PostMark's transactions.
    Postmark(PostmarkSpec),
    /// What starting an application reads.
    AppStart(AppStartSpec),
    /// A prepared workload on a database.
    Database(Box<DatabaseSpec>),
}

/// The `read` workload: one read() per request on a file opened with O_RDONLY, or its pages touched in a mapping; page
/// cache cold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadSpec {
    /// Order of the offsets.
    pub pattern: Pattern,
    /// Number of read() calls.
    pub requests: u64,
    /// Bytes asked for by each.
    pub request_bytes: u64,
    /// Size of the file.
    pub file_bytes: u64,
    /// Pause between the end of one request and the start of the next.
    pub inter_arrival_ns: u64,
    /// What the file holds.
    pub data: Data,
    /// How requests get at the file.
    #[serde(default, skip_serializing_if = "Access::is_default")]
    pub access: Access,
    /// What is called before the first request.
    #[serde(default, skip_serializing_if = "Prefetch::is_none")]
    pub prefetch: Prefetch,
}

impl ReadSpec {
    /// First byte and length of the smallest range that has all requests.
    pub fn range(&self) -> (u64, u64) {
        let slots = (self.file_bytes / self.request_bytes.max(1)).max(1);
        match self.pattern {
            Pattern::Sequential => (0, self.requests.min(slots) * self.request_bytes),
            Pattern::Random => (0, slots * self.request_bytes),
        }
    }
}

/// The `files` workload: one operation per request on the files of one folder, caches warm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSpec {
    /// What a request does.
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
}

/// What a request of a `files` workload does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOperation {
    /// Reads from an open file.
    Read,
    /// Overwrites a part of an open file.
    Write,
    /// Writes at the end of an open file.
    Append,
    /// Creates an empty file, open and close.
    Create,
    /// Deletes a file by name.
    Delete,
    /// Asks for a file's attributes by name.
    LookUp,
}

/// When a `files` workload calls fsync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// Never.
    None,
    /// As the last part of each request that changes a file.
    Each,
}

impl FilesSpec {
    /// The files that there are before the first request.
    pub fn population(&self, seed: u64) -> Population {
        Population { files: self.files, file_bytes: self.file_bytes, data: self.data, seed, sizes: Sizes::Same }
    }

    /// Whether files are open while requests are made.
    pub fn on_open_files(&self) -> bool {
        matches!(self.operation, FileOperation::Read | FileOperation::Write | FileOperation::Append)
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// When requests do not fit the files.
    pub fn check(&self) -> Result<()> {
        let FilesSpec { operation, requests, request_bytes, files, file_bytes, .. } = *self;
        let fits = (1..=file_bytes).contains(&request_bytes);
        if matches!(operation, FileOperation::Read | FileOperation::Write) && !fits {
            return Err(Error::user(format!(
                "requests of {request_bytes} bytes do not fit files of {file_bytes} bytes"
            ))
            .hint("request_bytes must be from 1 to file_bytes"));
        }
        if operation == FileOperation::Append && request_bytes == 0 {
            return Err(Error::user("appending 0 bytes does nothing").hint("request_bytes must be 1 or more"));
        }
        if self.on_open_files() && files > MOST_OPEN_FILES {
            return Err(Error::user(format!("{files} files are more than can be open at once"))
                .hint(format!("files must be at most {MOST_OPEN_FILES} where they are read or written")));
        }
        if operation == FileOperation::Delete && requests > files {
            return Err(Error::user(format!("{requests} of {files} files cannot be deleted"))
                .hint("files must be at least requests"));
        }
        if files.saturating_add(requests) > u64::from(u32::MAX) {
            return Err(Error::user(format!("{files} files and {requests} requests are too many")));
        }
        Ok(())
    }
}

/// Order of a workload's offsets or files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// From the start of the file on, wrapping at its end.
    Sequential,
    /// Uniform over the request-aligned offsets of the file, with replacement.
    Random,
}

/// A read-ahead setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadAhead {
    /// Where it is set.
    pub by: ReadAheadBy,
    /// Largest window in bytes; 0 switches read-ahead off. By file, only on and off exist.
    pub bytes: u64,
}

/// Where read-ahead is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadBy {
    /// For the whole mount, through its backing device (`read_ahead_kb` of the bdi).
    Mount,
    /// For one open file, through `posix_fadvise`: `RANDOM` is off, `NORMAL` is the mount's window.
    /// Raw NAND mounts, which have no window by default, get one of 128 KiB for it.
    File,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            format: PLAN_FORMAT,
            seed: 7,
            volume: Volume { file_system: FileSystem::Jffs2, options: vec!["compr=none".into()], directory: None },
            workload: Workload::Read(ReadSpec {
                pattern: Pattern::Random,
                requests: 16,
                request_bytes: 4096,
                file_bytes: 5 << 20,
                inter_arrival_ns: 0,
                data: Data::Random,
                access: Access::Read,
                prefetch: Prefetch::None,
            }),
            read_ahead: Some(ReadAhead { by: ReadAheadBy::Mount, bytes: 0 }),
            trace: false,
            energy: false,
        }
    }

    #[test]
    fn a_plan_survives_its_json_and_unknown_fields_are_refused() {
        let order = Order::Measure { plan: Box::new(plan()) };
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
        let changed = text.replace("\"seed\"", "\"sead\"");
        assert!(serde_json::from_str::<Order>(&changed).unwrap_err().to_string().contains("sead"));
    }

    #[test]
    fn what_is_measured_does_not_change_what_is_prepared() {
        let (a, mut b) = (plan(), plan());
        b.trace = true;
        b.read_ahead = None;
        let Workload::Read(read) = &mut b.workload else { panic!("it reads") };
        read.requests = 1024;
        read.pattern = Pattern::Sequential;
        (read.access, read.prefetch) = (Access::Mmap, Prefetch::Madvise);
        assert_eq!(a.steps(), b.steps());
        b.seed = 8;
        assert_ne!(a.steps(), b.steps());
    }

    fn files(operation: FileOperation) -> FilesSpec {
        FilesSpec {
            operation,
            pattern: Pattern::Sequential,
            requests: 8,
            request_bytes: 4096,
            files: 8,
            file_bytes: 4096,
            inter_arrival_ns: 0,
            data: Data::Random,
            sync: Sync::None,
        }
    }

    #[test]
    fn file_requests_fit_their_files() {
        let wrong = |spec: FilesSpec| spec.check().unwrap_err().cure().unwrap().to_owned();
        for operation in [FileOperation::Read, FileOperation::Append, FileOperation::Delete, FileOperation::LookUp] {
            files(operation).check().unwrap();
        }
        assert!(wrong(FilesSpec { request_bytes: 4097, ..files(FileOperation::Write) }).contains("file_bytes"));
        assert!(wrong(FilesSpec { request_bytes: 0, ..files(FileOperation::Append) }).contains("1 or more"));
        assert!(wrong(FilesSpec { requests: 9, ..files(FileOperation::Delete) }).contains("at least requests"));
        assert!(wrong(FilesSpec { files: 513, ..files(FileOperation::Read) }).contains("512"));
        FilesSpec { files: 513, ..files(FileOperation::Create) }.check().unwrap();
    }

    #[test]
    fn a_file_system_in_memory_is_prepared_by_who_measures_it() {
        let mut plan = plan();
        plan.workload = Workload::Files(files(FileOperation::Read));
        assert!(matches!(plan.steps()[..], [Step::Format { .. }, Step::Populate { .. }]));
        for file_system in FileSystem::ALL.into_iter().filter(|f| f.in_memory()) {
            plan.volume.file_system = file_system;
            assert!(plan.steps().is_empty());
            let word = serde_json::to_value(file_system).unwrap();
            assert_eq!(word, file_system.name());
        }
    }
}
