//! What is done to a chip of raw NAND, and what a volume has after the power was cut: the logs of both.
//!
//! ```text
//! changes:   0        8    12     16     18     20
//!            time_ns  page column length kind   bytes ...        kind 0: program; 1: erase, of the block `page`
//! survivors: 0           4            8      16
//!            name length what became of it   length  name, content or reason ...
//! ```

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::failure::Failure;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Name of a chip's raw contents, beside an order or a reply.
pub const CHIP_FILE: &str = "chip.bin";
/// Name of the log of changes.
pub const CHANGES_FILE: &str = "changes.bin";
/// Name of what a volume has after the power was cut.
pub const SURVIVORS_FILE: &str = "survivors.bin";

/// A change of a chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Bytes were programmed: what is 0 in them becomes 0.
    Program {
        /// The page.
        page: u32,
        /// The first byte's place in it; the spare area follows the data.
        column: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A block was erased.
    Erase {
        /// Its number.
        block: u32,
    },
}

/// A change with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// When it began, on the run's clock (the tracer's resolution is 1 us).
    pub time_ns: u64,
    /// What it was.
    pub change: Change,
}

const HEAD: usize = 20;

/// The bytes of a log of changes.
pub fn encode_changes(changes: &[Changed]) -> Vec<u8> {
    let mut log = Vec::new();
    for Changed { time_ns, change } in changes {
        let (page, column, kind, bytes): (u32, u32, u16, &[u8]) = match change {
            Change::Program { page, column, bytes } => (*page, *column, 0, bytes),
            Change::Erase { block } => (*block, 0, 1, &[]),
        };
        log.extend(time_ns.to_le_bytes());
        log.extend(page.to_le_bytes());
        log.extend(column.to_le_bytes());
        log.extend((bytes.len() as u16).to_le_bytes());
        log.extend(kind.to_le_bytes());
        log.extend(bytes);
    }
    log
}

/// Reads a log of changes.
///
/// # Errors
/// `ErrorKind::Board` if it is truncated, or contains an unknown kind.
pub fn decode_changes(mut log: &[u8]) -> Result<Vec<Changed>> {
    let mut changes = Vec::new();
    while !log.is_empty() {
        let damaged = || Error::board("a log of a chip's changes is damaged or truncated");
        let head = log.get(..HEAD).ok_or_else(damaged)?;
        let end = HEAD + usize::from(u16_at(head, 16));
        let bytes = log.get(HEAD..end).ok_or_else(damaged)?;
        let (page, column) = (u32_at(head, 8), u32_at(head, 12));
        let change = match u16_at(head, 18) {
            0 => Change::Program { page, column, bytes: bytes.to_vec() },
            1 if bytes.is_empty() => Change::Erase { block: page },
            _ => return Err(damaged()),
        };
        changes.push(Changed { time_ns: u64_at(head, 0), change });
        log = &log[end..];
    }
    Ok(changes)
}

/// How a volume was found on a chip that had lost its power.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// How long mounting it took; with UBI, attaching that, too.
    pub mount_ns: u64,
    /// Why it could not be mounted.
    pub refused: Option<Failure>,
    /// Why a new file could not be written to it and made durable, after everything on it had been read.
    pub unwritable: Option<Failure>,
    /// The state of the database on it as its engine finds it on the board, or why there is none; of engines whose
    /// files other machines cannot read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<std::result::Result<String, String>>,
}

/// A cut of the power during a run, and what was found afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Which change of the chip was interrupted, of those that the run made, from 1 on; 0: none, the power was cut at
    /// the run's end.
    pub change: u64,
    /// When it began, on the run's clock.
    pub time_ns: u64,
    /// `program`, `erase`, or `none`.
    pub kind: String,
    /// What the interruption left of it: `nothing`, `part`, `data`, `spare` or `whole`.
    pub left: String,
    /// Calls or operations that had returned.
    pub returned: u64,
    /// Those of them whose effect had been promised to be durable.
    pub promised: u64,
    /// How the volume was found.
    pub found: Found,
    /// What was found on it.
    pub verdict: Verdict,
}

impl Cut {
    /// Whether something that had been promised was not there.
    pub fn broke_a_promise(&self) -> bool {
        self.verdict.lost_promises > 0 || self.verdict.damaged > 0
    }
}

/// What a volume holds, beside what it should.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Calls or operations whose promised effect is not there.
    pub lost_promises: u64,
    /// Those that had returned without a promise, and whose effect is not there.
    pub lost_unpromised: u64,
    /// Files that hold a part of what was being written, or was not promised, between old bytes.
    pub mixed: u64,
    /// Files that are missing, cannot be read, or hold bytes that were never written there, though they were promised;
    /// databases that cannot be opened, fail the integrity check, or hold a state that they never had.
    pub damaged: u64,
    /// The first thing that was lost or damaged, in words.
    pub first: Option<String>,
}

/// A file of such a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Its path from the volume's root.
    pub name: String,
    /// What it holds, or why that cannot be read.
    pub content: std::result::Result<Vec<u8>, String>,
}

/// The bytes of a list of files.
pub fn encode_survivors(survivors: &[Survivor]) -> Vec<u8> {
    let mut log = Vec::new();
    for Survivor { name, content } in survivors {
        let (kind, bytes): (u32, &[u8]) = match content {
            Ok(content) => (0, content),
            Err(why) => (1, why.as_bytes()),
        };
        log.extend((name.len() as u32).to_le_bytes());
        log.extend(kind.to_le_bytes());
        log.extend((bytes.len() as u64).to_le_bytes());
        log.extend(name.as_bytes());
        log.extend(bytes);
    }
    log
}

/// Reads a list of files.
///
/// # Errors
/// `ErrorKind::Board` if it is damaged or truncated.
pub fn decode_survivors(mut log: &[u8]) -> Result<Vec<Survivor>> {
    let damaged = || Error::board("a list of files on a recovered volume is damaged or truncated");
    let mut survivors = Vec::new();
    while !log.is_empty() {
        let head = log.get(..16).ok_or_else(damaged)?;
        let name_end = 16 + u32_at(head, 0) as usize;
        let length = usize::try_from(u64_at(head, 8)).map_err(|_| damaged())?;
        let end = name_end.checked_add(length).ok_or_else(damaged)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| damaged());
        let name = text(log.get(16..name_end).ok_or_else(damaged)?)?;
        let bytes = log.get(name_end..end).ok_or_else(damaged)?;
        let content = match u32_at(head, 4) {
            0 => Ok(bytes.to_vec()),
            1 => Err(text(bytes)?),
            _ => return Err(damaged()),
        };
        survivors.push(Survivor { name, content });
        log = &log[end..];
    }
    Ok(survivors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change() -> impl Strategy<Value = Change> {
        let bytes = prop::collection::vec(any::<u8>(), 0..40);
        prop_oneof![
            (any::<u32>(), any::<u32>(), bytes).prop_map(|(page, column, bytes)| Change::Program {
                page,
                column,
                bytes
            }),
            any::<u32>().prop_map(|block| Change::Erase { block }),
        ]
    }

    proptest! {
        #[test]
        fn changes_come_back(changes in prop::collection::vec((any::<u64>(), change()), 0..20)) {
            let changes: Vec<_> = changes.into_iter().map(|(time_ns, change)| Changed { time_ns, change }).collect();
            prop_assert_eq!(decode_changes(&encode_changes(&changes)).unwrap(), changes);
        }

        #[test]
        fn survivors_come_back(
            files in prop::collection::vec(("[a-z/]{0,9}", prop::collection::vec(any::<u8>(), 0..40), "[a-z ]{0,9}",
                                            any::<bool>()), 0..9)
        ) {
            let survivor = |(name, bytes, why, there): (String, Vec<u8>, String, bool)| Survivor {
                name,
                content: if there { Ok(bytes) } else { Err(why) },
            };
            let survivors: Vec<_> = files.into_iter().map(survivor).collect();
            prop_assert_eq!(decode_survivors(&encode_survivors(&survivors)).unwrap(), survivors);
        }

        #[test]
        fn damaged_logs_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode_changes(&bytes);
            let _ = decode_survivors(&bytes);
        }
    }

    #[test]
    fn a_truncated_log_is_refused() {
        let change = Change::Program { page: 7, column: 2048, bytes: vec![1, 2, 3] };
        let log = encode_changes(&[Changed { time_ns: 5, change }]);
        assert_eq!(log.len(), 23);
        assert!(decode_changes(&log[..22]).is_err() && decode_changes(&log[..4]).is_err());
    }
}
