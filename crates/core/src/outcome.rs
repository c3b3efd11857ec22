//! Results from a board: facts, counts, and what was unavailable and why.

pub use crate::failure::Failure;
pub use crate::unavailable::{Quantity, Unavailable};

use crate::counted::Counted;
use crate::database::{Condition, DatabaseEngine, Usage};
use crate::translation::TranslationCounts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the outcome's JSON form.
pub const OUTCOME_FORMAT: u32 = 2;

/// A runner's answer to one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Response {
    /// The board is up, or a preparation step is done.
    Ready {
        /// Facts about the machine.
        facts: Facts,
    },
    /// A cell was measured.
    Measured {
        /// The result.
        outcome: Box<Outcome>,
    },
    /// Available database engines with their versions, and why the others are unavailable.
    Engines {
        /// Version by engine.
        offered: BTreeMap<DatabaseEngine, String>,
        /// Why the others cannot be had.
        missing: BTreeMap<DatabaseEngine, Failure>,
    },
    /// What can be measured, and what not and why, by name.
    Abilities {
        /// Each quantity, with the reason if it cannot be measured.
        found: BTreeMap<String, Option<Failure>>,
    },
    /// The raw contents of the chip are beside the reply.
    ChipRead,
    /// The chip was mounted, or refused; what was read from it is beside the reply.
    Recovered {
        /// How it was found.
        found: crate::chip::Found,
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

/// Facts about the machine, such as `kernel.release`; keys are dotted, sorted names.
pub type Facts = BTreeMap<String, String>;

/// Result of one cell. Calls and flash operations are in separate binary logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`OUTCOME_FORMAT`].
    pub format: u32,
    /// Facts about the machine.
    pub facts: Facts,
    /// Read-ahead in force during the run.
    pub read_ahead: ReadAheadInForce,
    /// Time of the first call's start, on the clock of all times here (CLOCK_MONOTONIC).
    pub start_ns: u64,
    /// Time of the last call's end.
    pub end_ns: u64,
    /// Number of calls in the call log.
    pub calls: u64,
    /// The flash chip, if the machine has raw NAND.
    pub chip: Option<Geometry>,
    /// Flash operations, if the cell was traced and they could be counted.
    pub flash: Option<FlashCounts>,
    /// Requests to the board's block device, if the cell was traced and is on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockCounts>,
    /// What the device's translation layer did meanwhile, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation: Option<Translated>,
    /// Result of the prefetch call, if the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetched: Option<Prefetched>,
    /// Bytes that fitted the volume, if the workload fills it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled_bytes: Option<u64>,
    /// Space that the files take after the last call, on a volume that was made for the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
    /// Output of the database process, for a database workload.
    #[serde(default)]
    pub database: Option<crate::database::DatabaseOutcome>,
    /// What became of the user's command, for a workload that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandOutcome>,
    /// Readings of the machine's power meters, if energy was requested and meters exist.
    #[serde(default)]
    pub energy: Vec<EnergyReading>,
    /// What other programs did meanwhile, on a machine that has others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Others>,
    /// Events that the processor or the kernel counted during the run, if they were requested and can be counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counted: BTreeMap<Counted, u64>,
    /// Cuts of the power, if the plan has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<crate::chip::Cut>,
    /// What became of the volume, if its chip has faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worn: Option<crate::faults::Worn>,
    /// Requested but unavailable quantities.
    pub unavailable: Vec<Unavailable>,
}

/// What other programs did on a machine while a cell was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Others {
    /// Time of the machine's processors that the cell's own program did not use.
    pub busy_ns: u64,
    /// How long the cell's work took.
    pub over_ns: u64,
    /// What the first of them may be wrong by: the kernel counts in ticks.
    pub within_ns: u64,
}

impl Others {
    /// How many times as long as the clock's error a cell must be for "nothing was seen" to mean that there was little:
    /// less than a tenth of a processor.
    const TELLING: u64 = 10;

    /// The part of one processor that other programs used for certain; more than 1 where they used several. `None`: the
    /// cell was too short for the clock, and nothing is certain.
    pub fn load(&self) -> Option<f64> {
        let busy_ns = self.busy_ns.saturating_sub(self.within_ns);
        let known = busy_ns > 0 || self.over_ns >= Self::TELLING.saturating_mul(self.within_ns);
        (known && self.over_ns > 0).then(|| busy_ns as f64 / self.over_ns as f64)
    }
}

impl Outcome {
    /// Whether the machine could give a quantity: it is not among what it could not.
    pub fn has(&self, quantity: &Quantity) -> bool {
        self.unavailable.iter().all(|missing| missing.what != *quantity)
    }
}

/// The process under test, whatever program it is.
#[derive(Debug, Clone, Copy)]
pub struct ProcessUnderTest<'a> {
    /// Its number.
    pub pid: u32,
    /// The threads whose doing is the workload's, as far as they were followed.
    pub threads: &'a [u32],
    /// What it used.
    pub usage: &'a Usage,
    /// Whether one thread did all of the work, one thing after the other.
    pub alone: bool,
}

impl Outcome {
    /// The process under test; `None` where the lab itself did the work.
    pub fn process(&self) -> Option<ProcessUnderTest<'_>> {
        let database = self.database.as_ref().map(|database| ProcessUnderTest {
            pid: database.pid,
            threads: &database.threads,
            usage: &database.usage,
            alone: database.digest.is_some(),
        });
        database.or(self.command.as_ref().map(|command| ProcessUnderTest {
            pid: command.pid,
            threads: &command.threads,
            usage: &command.usage,
            alone: false,
        }))
    }

    /// Notes the threads whose doing is the workload's.
    pub fn set_threads(&mut self, threads: Vec<u32>) {
        let database = self.database.as_mut().map(|database| &mut database.threads);
        if let Some(of) = database.or(self.command.as_mut().map(|command| &mut command.threads)) {
            *of = threads;
        }
    }
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandOutcome {
    /// Its process.
    pub pid: u32,
    /// The threads of it and of the processes that it started, as far as they were followed.
    pub threads: Vec<u32>,
    /// What it used, with those of its children that it waited for. Read and write calls are not counted.
    pub usage: Usage,
    /// The end of what it wrote to standard output and standard error.
    pub output: String,
    /// Bytes that it wrote there in all.
    pub output_bytes: u64,
    /// The conditions that were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Space that files take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// What the file system has less of free space than before the first file was made, in bytes.
    pub used_bytes: u64,
    /// Sizes of the files in bytes.
    pub stored_bytes: u64,
    /// Files whose content is in several pieces; `None` where the file system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragmented_files: Option<u64>,
}

impl Space {
    /// The part of the space that no file's bytes are in; `None` where nothing is used.
    pub fn wasted_share(&self) -> Option<f64> {
        (self.used_bytes > 0).then(|| 1.0 - self.stored_bytes as f64 / self.used_bytes as f64)
    }
}

/// Result of a prefetch call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefetched {
    /// How long the call took.
    pub latency_ns: u64,
    /// File pages in the page cache right after it; `None` if unknown.
    pub resident_pages: Option<u64>,
}

/// The scope of a power meter, widest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The whole machine.
    Machine,
    /// A processor's package: cores, caches, memory controller.
    Package,
    /// The cores, or one of them.
    Core,
    /// The memory.
    Memory,
    /// One supply rail, of which only its name is known.
    Rail,
}

/// Energy of a run by one of the machine's own meters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnergyReading {
    /// Name, such as `rapl:package-0`. What stands before the colon is the source.
    pub meter: String,
    /// Its scope.
    pub scope: Scope,
    /// Energy of the run in uJ.
    pub energy_uj: u64,
    /// Time between its first and last reading in ns.
    pub duration_ns: u64,
    /// Mean idle power of the machine just before the run in mW; `None` if it could not be measured.
    pub idle_mw: Option<f64>,
    /// How often it was read.
    pub samples: u64,
    /// How good the number is: resolution, integrated power or a counter.
    pub note: String,
}

impl EnergyReading {
    /// Where it comes from: `rapl`, `hwmon`, `iio`, `odpm` or `battery`.
    pub fn source(&self) -> &str {
        self.meter.split(':').next().unwrap_or_default()
    }

    /// Energy above idle over that time, in uJ.
    pub fn active_uj(&self) -> Option<f64> {
        // mW times ns is pJ.
        Some(self.energy_uj as f64 - self.idle_mw? * self.duration_ns as f64 / 1e6)
    }
}

/// The readings that together are a run's energy: those of the widest scope, of one source. Meters of one source
/// and scope measure disjoint parts (two packages), two sources may measure the same. Of several rails nobody
/// knows which feeds which, except for those of ODPM: they are side by side. Else the answer is empty.
pub fn widest(readings: &[EnergyReading]) -> Vec<&EnergyReading> {
    let Some(first) = readings.iter().min_by_key(|r| r.scope) else { return Vec::new() };
    let same = |r: &&EnergyReading| r.scope == first.scope && r.source() == first.source();
    let all: Vec<&EnergyReading> = readings.iter().filter(same).collect();
    let nested = first.scope == Scope::Rail && first.source() != "odpm" && all.len() > 1;
    if nested { Vec::new() } else { all }
}

/// Geometry of a raw NAND chip. One without pages or blocks cannot be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Sizes")]
pub struct Geometry {
    /// Bytes of a page, without its out-of-band area.
    pub page_bytes: u32,
    /// Bytes of an erase block.
    pub block_bytes: u32,
    /// Bytes of the chip.
    pub bytes: u64,
}

/// A geometry as it is stored.
#[derive(Deserialize)]
struct Sizes {
    page_bytes: u32,
    block_bytes: u32,
    bytes: u64,
}

impl TryFrom<Sizes> for Geometry {
    type Error = String;

    fn try_from(sizes: Sizes) -> std::result::Result<Geometry, String> {
        let Sizes { page_bytes, block_bytes, bytes } = sizes;
        if page_bytes == 0 || block_bytes < page_bytes {
            return Err(format!("impossible chip with pages of {page_bytes} bytes and blocks of {block_bytes}"));
        }
        Ok(Geometry { page_bytes, block_bytes, bytes })
    }
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

/// The kernel's read-ahead settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAheadInForce {
    /// Name of the backing device, if the file system has its own.
    pub bdi: Option<String>,
    /// Its value before the run touched it.
    pub default_bytes: Option<u64>,
    /// Its value when the file was opened.
    pub bytes: Option<u64>,
    /// The advice given for the file: `normal`, `random`, or `none`.
    pub advice: String,
    /// File pages in the page cache just before the first call; `None` if unknown.
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

/// Requests to a block device within the measured window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockCounts {
    /// Of the workload's own threads.
    pub workload: BlockTotals,
    /// Of all others: write-back and the file system's own threads.
    pub background: BlockTotals,
}

/// What a device's translation layer did within the measured window, for whomever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Translated {
    /// Bytes of a page of its chip.
    pub page_bytes: u64,
    /// What it did.
    pub counts: TranslationCounts,
}

/// Numbers of requests to a block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockTotals {
    /// Reads.
    pub reads: u64,
    /// Bytes they read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes they wrote.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(meter: &str, scope: Scope, energy_uj: u64) -> EnergyReading {
        let (duration_ns, idle_mw) = (2_000_000_000, Some(100.0));
        EnergyReading { meter: meter.into(), scope, energy_uj, duration_ns, idle_mw, samples: 2, note: String::new() }
    }

    #[test]
    fn a_chip_without_pages_is_not_read_back() {
        let read = |page, block| {
            serde_json::from_str::<Geometry>(&format!(r#"{{"page_bytes":{page},"block_bytes":{block},"bytes":4096}}"#))
        };
        assert_eq!(read(512, 4096).unwrap().block_pages(), 8);
        assert!(read(0, 4096).unwrap_err().to_string().contains("pages of 0 bytes"));
        assert!(read(512, 256).is_err());
    }

    #[test]
    fn two_packages_are_added_and_what_they_contain_is_not() {
        let packages = [reading("rapl:package-0", Scope::Package, 5), reading("rapl:package-1", Scope::Package, 7)];
        let mut all = vec![reading("rapl:core-0", Scope::Core, 3), reading("hwmon:cpu", Scope::Package, 11)];
        all.splice(0..0, packages.clone());
        assert_eq!(widest(&all), [&packages[0], &packages[1]]);
        all.push(reading("battery:BAT0", Scope::Machine, 30));
        assert_eq!(widest(&all).iter().map(|r| r.meter.as_str()).collect::<Vec<_>>(), ["battery:BAT0"]);
        assert!(widest(&[]).is_empty());
        let rails = ["odpm:a", "odpm:b"].map(|name| reading(name, Scope::Rail, 1));
        assert_eq!(widest(&rails).len(), 2);
        let rails = ["hwmon:a", "hwmon:b"].map(|name| reading(name, Scope::Rail, 1));
        assert!(widest(&rails).is_empty() && widest(&rails[..1]).len() == 1);
    }

    #[test]
    fn rest_is_taken_off() {
        // 100 mW in 2 s is 200 mJ.
        assert_eq!(reading("iio:x", Scope::Rail, 250_000).active_uj(), Some(50_000.0));
        let without = EnergyReading { idle_mw: None, ..reading("iio:x", Scope::Rail, 250_000) };
        assert_eq!(without.active_uj(), None);
    }
}
