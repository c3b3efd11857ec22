//! Orders to boards. A plan is pure data: the same plan on the same image does the same work, and its JSON text is sent
//! to the board and stored in the results.

use crate::population::Population;
use crate::table::Workload;
use pocketstone_core::block_record::BLOCK_IMAGE_FILE;
use pocketstone_core::board::BoardDescription;
use pocketstone_core::chip::CHIP_FILE;
use pocketstone_core::database::{DatabaseEngine, DatabaseSpec};
use pocketstone_core::faults::Faults;
use pocketstone_core::volume::{Medium, Volume};
use serde::{Deserialize, Serialize};

/// Version of the plan's JSON form; a runner refuses any other. 3: volumes have a medium and an access.
pub const PLAN_FORMAT: u32 = 3;

/// Name of a prepared workload's file, beside the order that needs it.
pub const TRACE_FILE: &str = "workload.trace";

/// Name of the archive of a command's files, beside the order that needs it.
pub const ARCHIVE_FILE: &str = "files.tar";

/// Name of a read-only volume's image, beside the order that needs it.
pub const IMAGE_FILE: &str = "volume.squashfs";

/// The contents of `order.json`: an order, and the board's description of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The board.
    pub board: BoardDescription,
    /// What to do.
    pub order: Order,
}

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
    /// Hand back the raw contents of the board's chip.
    ReadChip,
    /// Hand back the contents of the board's block device.
    ReadBlock,
    /// Give the board's chip, which is erased, or its block device, which is all zeros, the raw contents beside the
    /// order, mount what is on it, and hand back what can be read there.
    Recover {
        /// What is on it.
        volume: Volume,
        /// Whose database is to be opened there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        engine: Option<DatabaseEngine>,
    },
    /// Say which database engines there are.
    Engines,
    /// Say what can be measured on this machine, and what not and why.
    Abilities,
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
            Order::Measure { plan } => plan.workload.trace(),
            _ => None,
        }
    }

    /// Digest of the archive that whoever carries it out must have beside it, as [`ARCHIVE_FILE`].
    pub fn archive(&self) -> Option<&str> {
        match self {
            Order::Prepare { step: Step::Unpack { files, .. } } => files.as_deref(),
            // A volume that lives as long as the cell is filled in it.
            Order::Measure { plan } if plan.volume.volatile() => plan.workload.command()?.files.as_deref(),
            _ => None,
        }
    }

    /// Names of the files that whoever carries it out must have beside it.
    pub fn files(&self) -> Vec<&'static str> {
        let trace = self.trace().map(|_| TRACE_FILE);
        let archive = self.archive().map(|_| ARCHIVE_FILE);
        let chip = match self {
            Order::Recover { volume, .. } if volume.medium == Medium::Block => Some(BLOCK_IMAGE_FILE),
            Order::Recover { .. } => Some(CHIP_FILE),
            _ => None,
        };
        trace.into_iter().chain(archive).chain(self.image().map(|_| IMAGE_FILE)).chain(chip).collect()
    }

    /// The volume whose image whoever carries it out must have beside it, as [`IMAGE_FILE`], and its files.
    pub fn image(&self) -> Option<(&Volume, &Population)> {
        match self {
            Order::Prepare { step: Step::Populate { volume, population } } => {
                volume.read_only().then_some((volume, population))
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
    /// Write the files that a workload starts with, and wait until background work has ended.
    Populate {
        /// Where.
        volume: Volume,
        /// The files.
        population: Population,
    },
    /// Put the files of a command into its folder, and wait until background work has ended.
    Unpack {
        /// Where.
        volume: Volume,
        /// Digest of their archive; `None`: the folder is empty.
        files: Option<String>,
    },
    /// Load a database with what its workload starts from, in a process of its own, and wait until
    /// background work has ended.
    Load {
        /// Where.
        volume: Volume,
        /// The database, and the workload whose initial state it gets.
        database: Box<DatabaseSpec>,
    },
    /// Put the chip's contents onto one with faults, and mount the volume on that.
    Wear {
        /// What is on it.
        volume: Volume,
        /// Which faults.
        faults: Faults,
        /// What chooses where they are.
        seed: u64,
    },
}

impl Step {
    /// What it is on.
    pub fn volume(&self) -> &Volume {
        match self {
            Step::Format { volume }
            | Step::Populate { volume, .. }
            | Step::Unpack { volume, .. }
            | Step::Load { volume, .. }
            | Step::Wear { volume, .. } => volume,
        }
    }
}

/// The measured part of one cell, and the state it starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_FORMAT`].
    pub format: u32,
    /// Seed of everything random in this cell.
    pub seed: u64,
    /// The volume under test.
    pub volume: Volume,
    /// What is done on it.
    pub workload: Workload,
    /// Read-ahead to set; `None` leaves the machine's own.
    pub read_ahead: Option<ReadAhead>,
    /// The I/O scheduler to set; `None` leaves the kernel's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_scheduler: Option<IoScheduler>,
    /// Trace every flash operation. Tracing costs time: latencies come from a run without it.
    pub trace: bool,
    /// Measure the energy of the run, after a rest to measure idle power.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub energy: bool,
    /// Count what the processor and the kernel count of the run: misses of the data TLB, page faults.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counters: bool,
    /// The processor whose data TLB is modelled: a profile of kind `tlb`. The machine does not know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb: Option<String>,
    /// In a traced twin: so many times the power is cut at a flash operation of the run, chosen by the seed, and what a
    /// fresh board then finds on the chip is held against what the workload was promised.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub power_cuts: u32,
    /// Faults of the chip, which it has from when the volume is filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Plan {
    /// The same plan on whichever machine: each has its files where it likes.
    pub fn anywhere(&self) -> Plan {
        Plan { volume: Volume { directory: None, ..self.volume.clone() }, ..self.clone() }
    }

    /// A workload on a volume: nothing is set, and nothing but its operations is looked at.
    pub fn new(seed: u64, volume: Volume, workload: Workload) -> Plan {
        Plan {
            format: PLAN_FORMAT,
            seed,
            volume,
            workload,
            read_ahead: None,
            io_scheduler: None,
            trace: false,
            energy: false,
            counters: false,
            tlb: None,
            power_cuts: 0,
            faults: None,
        }
    }

    /// The steps that bring a freshly booted board to the state this plan starts from. A volatile volume has
    /// none: it lives as long as the process that measures on it, which prepares it.
    pub fn steps(&self) -> Vec<Step> {
        if self.volume.volatile() {
            return Vec::new();
        }
        let volume = self.volume.clone();
        let filled = match &self.workload {
            Workload::Command(spec) => Some(Step::Unpack { volume: volume.clone(), files: spec.files.clone() }),
            Workload::Database(spec) => Some(Step::Load { volume: volume.clone(), database: Box::new(spec.loading()) }),
            others => others
                .on_files()
                .map(|files| Step::Populate { volume: volume.clone(), population: files.population(self.seed) }),
        };
        let worn = self.faults.map(|faults| Step::Wear { volume: volume.clone(), faults, seed: self.seed });
        [Step::Format { volume }].into_iter().chain(filled).chain(worn).collect()
    }
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

pocketstone_core::words! {
    /// What orders and merges the requests to a block device.
    IoScheduler {
        /// Nothing: they go to the device as they come.
        None = "none",
        /// Reads before writes, and none waits too long.
        MqDeadline = "mq-deadline",
        /// As few at once as keep latencies at their targets.
        Kyber = "kyber",
        /// Shares of the device's time, a process at a time.
        Bfq = "bfq",
    }
}

pocketstone_core::words! {
    /// Where read-ahead is set.
    ReadAheadBy {
        /// For the whole mount, through its backing device (`read_ahead_kb` of the bdi).
        Mount = "mount",
        /// For one open file, through `posix_fadvise`: `RANDOM` is off, `NORMAL` is the mount's window.
        /// Raw NAND mounts, which have no window by default, get one of 128 KiB for it.
        File = "file",
    }
}

#[cfg(test)]
mod tests;
