//! What comes back from a board: facts, counts, and what could not be had and why.

use crate::database::DatabaseEngine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the outcome's JSON form.
pub const OUTCOME_FORMAT: u32 = 2;

/// Something a machine could not give. Absent is never 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// What is missing, such as `flash operations`.
    pub what: String,
    /// Why.
    pub why: String,
    /// What would give it; empty where nothing would.
    pub cure: String,
}

/// A failure, in a form that travels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The message and its causes.
    pub message: String,
    /// The cure, where one is known.
    pub hint: Option<String>,
}

impl From<&crate::Error> for Failure {
    fn from(error: &crate::Error) -> Self {
        Failure { message: error.chain(), hint: error.cure().map(str::to_owned) }
    }
}

impl From<Failure> for crate::Error {
    fn from(failure: Failure) -> Self {
        let error = crate::Error::board(failure.message);
        match failure.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// A runner's answer to one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The board is up, or a preparation step is done.
    Ready {
        /// What the machine is.
        facts: Facts,
    },
    /// A cell was measured.
    Measured {
        /// The result.
        outcome: Box<Outcome>,
    },
    /// The database engines that can be had, with their versions, and why the others cannot.
    Engines {
        /// Version by engine.
        offered: BTreeMap<DatabaseEngine, String>,
        /// Why the others cannot be had.
        missing: BTreeMap<DatabaseEngine, Failure>,
    },
    /// A command ended.
    Executed {
        /// Its exit status; 128 + signal number where a signal ended it.
        status: i32,
    },
    /// The order could not be carried out.
    Failed {
        /// Why.
        failure: Failure,
    },
}

/// Facts about the machine that ran, such as `kernel.release`; keys are dotted, sorted names.
pub type Facts = BTreeMap<String, String>;

/// Result of one cell. The calls and flash operations themselves are in the binary logs beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`OUTCOME_FORMAT`].
    pub format: u32,
    /// What the machine is.
    pub facts: Facts,
    /// Read-ahead in force during the run.
    pub read_ahead: ReadAheadInForce,
    /// Time of the first call's start, on the clock of all times here (CLOCK_MONOTONIC).
    pub start_ns: u64,
    /// Time of the last call's end.
    pub end_ns: u64,
    /// Number of calls in the call log.
    pub calls: u64,
    /// The flash chip, where the machine has raw NAND.
    pub chip: Option<Geometry>,
    /// Flash operations, where the cell was traced and they could be counted.
    pub flash: Option<FlashCounts>,
    /// What a database's process said, where the workload is one on a database.
    #[serde(default)]
    pub database: Option<crate::database::DatabaseOutcome>,
    /// What was asked for and could not be had.
    pub unavailable: Vec<Unavailable>,
}

/// Geometry of a raw NAND chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Bytes of a page, without its out-of-band area.
    pub page_bytes: u32,
    /// Bytes of an erase block.
    pub block_bytes: u32,
    /// Bytes of the chip.
    pub bytes: u64,
}

impl Geometry {
    /// Pages of a block.
    pub fn block_pages(&self) -> u32 {
        self.block_bytes / self.page_bytes
    }

    /// Blocks of the chip.
    pub fn blocks(&self) -> u64 {
        self.bytes / u64::from(self.block_bytes)
    }
}

/// Read-ahead as the kernel had it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAheadInForce {
    /// Name of the backing device, where the file system has one of its own.
    pub bdi: Option<String>,
    /// Its value before the run touched it.
    pub default_bytes: Option<u64>,
    /// Its value when the file was opened.
    pub bytes: Option<u64>,
    /// The advice given for the file: `normal`, `random`, or `none` where none was given.
    pub advice: String,
    /// File pages in the page cache just before the first call; `None` where it could not be asked.
    pub resident_pages_before: Option<u64>,
}

/// Flash operations within the measured window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlashCounts {
    /// By the workload's own task.
    pub workload: FlashTotals,
    /// By every other task: background work of the file system.
    pub background: FlashTotals,
}

/// Numbers of flash operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlashTotals {
    /// Times the chip loaded a page (or a part of it) into its register.
    pub page_senses: u64,
    /// Times the register was read on from another column. Real chips do that in well under a
    /// microsecond; the kernel's nandsim loads and moves the page again, at the cost of a sense.
    pub column_changes: u64,
    /// Senses that the same requests would need with a one-page buffer, as with hardware ECC.
    pub page_reads: Option<u64>,
    /// Page programs.
    pub programs: u64,
    /// Block erases.
    pub erases: u64,
}
