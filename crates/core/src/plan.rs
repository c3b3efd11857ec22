//! What a board is asked to do. A plan is pure data: the same plan on the same image does the same
//! work, and its JSON text is what travels to the board and into the results.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Version of the plan's JSON form; a runner refuses any other.
pub const PLAN_FORMAT: u32 = 1;

/// Name of the file that a `read` workload reads, within its volume.
pub const TARGET_FILE: &str = "target";

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
    /// Run a command and hand back its output and exit status.
    Exec {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// Run an interactive shell on the console until it exits.
    Shell,
}

/// A step of preparation. Boards that can, keep the state after each step and start from it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// The measured part of one cell, and the state it starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Plan {
    /// The steps that bring a freshly booted board to the state this plan starts from.
    pub fn steps(&self) -> Vec<Step> {
        let Workload::Read(read) = &self.workload;
        let file = FileSpec { bytes: read.file_bytes, data: read.data, seed: self.seed };
        vec![Step::Format { volume: self.volume.clone() }, Step::Fill { volume: self.volume.clone(), file }]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystem {
    /// Any directory, on whatever file system it is.
    Directory,
    /// JFFS2 on the first MTD device.
    Jffs2,
    /// UBIFS on a UBI volume on the first MTD device.
    Ubifs,
}

impl FileSystem {
    /// Every file system, in the order they are shown.
    pub const ALL: [FileSystem; 3] = [FileSystem::Directory, FileSystem::Jffs2, FileSystem::Ubifs];

    /// The name used in studies, results and messages.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Directory => "directory",
            FileSystem::Jffs2 => "jffs2",
            FileSystem::Ubifs => "ubifs",
        }
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// read() calls on one file.
    Read(ReadSpec),
}

/// The `read` workload: one read() per request on a file opened with O_RDONLY, page cache cold.
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
}

/// Order of a read workload's offsets.
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
            }),
            read_ahead: Some(ReadAhead { by: ReadAheadBy::Mount, bytes: 0 }),
            trace: false,
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
        let Workload::Read(read) = &mut b.workload;
        read.requests = 1024;
        read.pattern = Pattern::Sequential;
        assert_eq!(a.steps(), b.steps());
        b.seed = 8;
        assert_ne!(a.steps(), b.steps());
    }
}
