//! A board's description of itself, for planning and for its runner.

use crate::outcome::Failure;
use crate::{Error, Result};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The capabilities of a board, and what may be done to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// Whether its state is discarded after each cell: settings need not be restored, all caches may be dropped, and
    /// its media may be erased. Otherwise settings are guarded, and only the measured files are evicted from caches.
    pub disposable: bool,
    /// Whether a repetition with the same seed gives the same log, to the bit.
    pub deterministic: bool,
    /// How many cells can be measured at once without disturbing each other.
    pub parallel: usize,
    /// Counting flash operations.
    pub flash_counters: Ability,
    /// Kernel tracing.
    pub tracing: Ability,
    /// Power meters of its own.
    pub power_meters: Ability,
    /// Counters of the processor (a PMU).
    pub processor_counters: Ability,
    /// Cuts of its power, with a fresh machine that finds what the flash of the other one held.
    pub power_cuts: Ability,
    /// Faults of its raw NAND, which must be simulated for that.
    pub chip_faults: Ability,
    /// Every data access that it makes, for a model of its TLB.
    pub accesses: Ability,
}

impl Capabilities {
    /// Of a board that goes on, of which nothing is known yet.
    pub fn unknown() -> Self {
        Capabilities {
            disposable: false,
            deterministic: false,
            parallel: 1,
            flash_counters: Ability::Unknown,
            tracing: Ability::Unknown,
            power_meters: Ability::Unknown,
            processor_counters: Ability::Unknown,
            power_cuts: Ability::Unknown,
            chip_faults: Ability::Unknown,
            accesses: Ability::Unknown,
        }
    }

    /// Everything that it may be able to measure, by name.
    pub fn abilities(&self) -> [(&'static str, &Ability); 7] {
        [
            ("flash operations", &self.flash_counters),
            ("kernel tracing", &self.tracing),
            ("power meters", &self.power_meters),
            ("processor counters", &self.processor_counters),
            ("cuts of the power", &self.power_cuts),
            ("faults of the chip", &self.chip_faults),
            ("accesses for a modelled TLB", &self.accesses),
        ]
    }
}

/// Whether a board can do something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ability {
    /// It can.
    Yes,
    /// Only the attempt tells.
    Unknown,
    /// It cannot, for this reason.
    No(Failure),
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ability::Yes => f.write_str("available"),
            Ability::Unknown => f.write_str("known when it is tried"),
            Ability::No(failure) => {
                write!(f, "unavailable: {}", failure.message)?;
                failure.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; fix: {hint}"))
            }
        }
    }
}

impl Ability {
    /// Why a board lacks an ability, and a fix.
    pub fn no(error: &Error) -> Ability {
        Ability::No(Failure::from(error))
    }

    /// What an attempt found.
    pub fn found<T>(attempt: &Result<T>) -> Ability {
        attempt.as_ref().map_or_else(Ability::no, |_| Ability::Yes)
    }

    /// Returns an error if the board lacks the ability.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint, if the ability is missing.
    pub fn refuse(&self) -> Result<()> {
        match self {
            Ability::Yes | Ability::Unknown => Ok(()),
            Ability::No(failure) => Err(failure.clone().into()),
        }
    }
}

/// The word by which a runner that serves is told to keep what it mounts to itself.
pub const OWN_MOUNTS: &str = "own-mounts";
/// The folder in a runner's own on which volumes are mounted that outlive an order, on a board that others use, too.
pub const MOUNT_FOLDER: &str = "mount";

/// Locations on a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// Number of the MTD device that volumes on raw NAND take whole.
    pub mtd: u32,
    /// Name of that device, on a board where other devices are others' and its number may change; its runner looks the
    /// number up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtd_name: Option<String>,
    /// The block device that volumes on managed flash take whole.
    pub block: PathBuf,
    /// The mount point of volumes that outlive an order.
    pub mount_point: PathBuf,
    /// The folder in which whoever serves such a volume leaves who it is, and how the volume was closed.
    pub notes: PathBuf,
}

impl Default for Places {
    fn default() -> Places {
        Places { mtd: 0, mtd_name: None, block: "/dev/nbd0".into(), mount_point: "/mnt".into(), notes: "/run".into() }
    }
}

/// A board, as its runner must know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardDescription {
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its locations.
    pub places: Places,
    /// What is set while a cell is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
}

/// A setting of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a setting has either `file` and `value`, or `set` and `undo`, which are commands, and perhaps `read`"
)]
pub enum Setting {
    /// A file with a value; the value before it is put back.
    File {
        /// Its path.
        file: PathBuf,
        /// What it is to hold.
        value: String,
    },
    /// A command with its arguments.
    Command {
        /// What sets it.
        #[serde(deserialize_with = "command")]
        set: Vec<String>,
        /// What undoes that.
        #[serde(deserialize_with = "command")]
        undo: Vec<String>,
        /// What says before how it is: its output is what [`WAS`] stands for in a word of `undo`.
        #[serde(default, deserialize_with = "some_command", skip_serializing_if = "Option::is_none")]
        read: Option<Vec<String>>,
    },
}

/// What stands, in the words that undo a setting, for what was there before.
pub const WAS: &str = "{}";

/// A command: one that is empty could not be undone, or undo anything.
fn command<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    match words.first().is_some_and(|program| !program.is_empty()) {
        true => Ok(words),
        false => Err(D::Error::custom("a command is empty")),
    }
}

fn some_command<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Vec<String>>, D::Error> {
    command(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_says_why_it_cannot_and_what_would_cure_it() {
        let error = || Error::board("no meter").hint("buy one");
        let refused = Ability::found::<()>(&Err(error())).refuse().unwrap_err();
        assert_eq!((refused.message(), refused.cure()), ("no meter", Some("buy one")));
        assert_eq!(Ability::found::<()>(&Err(error())).to_string(), "unavailable: no meter; fix: buy one");
        Ability::found(&Ok(1)).refuse().unwrap();
        Ability::Unknown.refuse().unwrap();
    }
}
