//! Binary logs of calls and flash operations: little-endian, fixed records, no header.
//!
//! ```text
//! call log:   0        8          16          24
//!             start_ns latency_ns intended_ns
//! flash log:  0       8    12   16   20   22      24
//!             time_ns page pid  pages task kind(0..=4)
//! ```
//! `task` indexes the table of task names that the flash log starts with: a u16 count, then for each
//! name a u16 length and its bytes. docs/formats.md draws the same.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::{Error, Result};

/// One timed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Start, on the run's clock.
    pub start_ns: u64,
    /// Time until it returned (service time).
    pub latency_ns: u64,
    /// When it was to start. A pause that lasted too long, or a call before it that did, makes it late.
    pub intended_ns: u64,
}

impl Call {
    /// Time from the intended start until it returned.
    pub fn response_ns(&self) -> u64 {
        (self.start_ns + self.latency_ns).saturating_sub(self.intended_ns)
    }

    /// How late it started.
    pub fn late_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.intended_ns)
    }
}

/// Kinds of flash operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum FlashKind {
    /// The chip loaded a page into its register.
    Sense = 0,
    /// A page was programmed.
    Program = 1,
    /// A block was erased; `page` is its first page.
    Erase = 2,
    /// A read request reached the NAND layer; `pages` is how many pages it spans.
    Read = 3,
    /// The register was read on from another column of the page sensed last.
    ColumnChange = 4,
}

impl FlashKind {
    /// Every kind, by its number in the log.
    pub const ALL: [FlashKind; 5] =
        [FlashKind::Sense, FlashKind::Program, FlashKind::Erase, FlashKind::Read, FlashKind::ColumnChange];

    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            FlashKind::Sense => "sense",
            FlashKind::Program => "program",
            FlashKind::Erase => "erase",
            FlashKind::Read => "read",
            FlashKind::ColumnChange => "column_change",
        }
    }
}

/// One flash operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashOp {
    /// When, on the run's clock (the tracer's resolution is 1 us).
    pub time_ns: u64,
    /// What.
    pub kind: FlashKind,
    /// Page number on the chip (the first one, for a read request or an erase).
    pub page: u32,
    /// Pages spanned: 1 for a sense or program, the block's pages for an erase.
    pub pages: u32,
    /// Thread that caused it.
    pub pid: u32,
    /// Index into [`FlashLog::tasks`].
    pub task: u16,
}

/// The flash operations of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlashLog {
    /// Names of the tasks that caused operations.
    pub tasks: Vec<String>,
    /// The operations in order of time.
    pub ops: Vec<FlashOp>,
}

impl FlashLog {
    /// Index of a task's name, added where it is new.
    pub fn task_index(&mut self, name: &str) -> u16 {
        let index = self.tasks.iter().position(|t| t == name).unwrap_or_else(|| {
            self.tasks.push(name.to_owned());
            self.tasks.len() - 1
        });
        index as u16
    }

    /// The name of an operation's task.
    pub fn task(&self, op: &FlashOp) -> &str {
        self.tasks.get(usize::from(op.task)).map_or("?", String::as_str)
    }
}

const CALL: usize = 24;
const FLASH_OP: usize = 24;

/// The bytes of a call log.
pub fn encode_calls(calls: &[Call]) -> Vec<u8> {
    let words = calls.iter().flat_map(|c| [c.start_ns, c.latency_ns, c.intended_ns]);
    words.flat_map(u64::to_le_bytes).collect()
}

/// Reads a call log.
///
/// # Errors
/// `ErrorKind::Board` if the length is not a multiple of the record size.
pub fn decode_calls(bytes: &[u8]) -> Result<Vec<Call>> {
    let records = bytes.chunks_exact(CALL);
    if !records.remainder().is_empty() {
        return Err(Error::board(format!("a call log of {} bytes is truncated", bytes.len())));
    }
    let call = |r: &[u8]| Call { start_ns: u64_at(r, 0), latency_ns: u64_at(r, 8), intended_ns: u64_at(r, 16) };
    Ok(records.map(call).collect())
}

/// The bytes of a flash log.
pub fn encode_flash(log: &FlashLog) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + log.ops.len() * FLASH_OP);
    put_tasks(&mut bytes, &log.tasks);
    for op in &log.ops {
        bytes.extend(op.time_ns.to_le_bytes());
        bytes.extend(op.page.to_le_bytes());
        bytes.extend(op.pid.to_le_bytes());
        bytes.extend(op.pages.to_le_bytes());
        bytes.extend(op.task.to_le_bytes());
        bytes.extend((op.kind as u16).to_le_bytes());
    }
    bytes
}

/// Reads a flash log.
///
/// # Errors
/// `ErrorKind::Board` if it is truncated, or contains an unknown kind or task.
pub fn decode_flash(bytes: &[u8]) -> Result<FlashLog> {
    let cut = || Error::board(format!("a flash log of {} bytes is damaged or truncated", bytes.len()));
    let (tasks, records) = take_tasks(bytes).ok_or_else(cut)?;
    let records = records.chunks_exact(FLASH_OP);
    if !records.remainder().is_empty() {
        return Err(cut());
    }
    let mut log = FlashLog { tasks, ops: Vec::with_capacity(records.len()) };
    for r in records {
        let kind = *FlashKind::ALL.get(usize::from(u16_at(r, 22))).ok_or_else(cut)?;
        let task = u16_at(r, 20);
        if usize::from(task) >= log.tasks.len() {
            return Err(cut());
        }
        let op =
            FlashOp { time_ns: u64_at(r, 0), page: u32_at(r, 8), pid: u32_at(r, 12), pages: u32_at(r, 16), task, kind };
        log.ops.push(op);
    }
    Ok(log)
}

/// The table of tasks that a log begins with.
pub(crate) fn put_tasks(bytes: &mut Vec<u8>, tasks: &[String]) {
    bytes.extend((tasks.len() as u16).to_le_bytes());
    for task in tasks {
        bytes.extend((task.len() as u16).to_le_bytes());
        bytes.extend(task.as_bytes());
    }
}

/// The table of tasks that a log begins with, and what is behind it; `None`: it is damaged or truncated.
pub(crate) fn take_tasks(bytes: &[u8]) -> Option<(Vec<String>, &[u8])> {
    let take = |bytes: &mut &[u8], n: usize| -> Option<Vec<u8>> {
        let (part, rest) = bytes.split_at_checked(n)?;
        *bytes = rest;
        Some(part.to_vec())
    };
    let mut rest = bytes;
    let count = u16_at(&take(&mut rest, 2)?, 0);
    let mut tasks = Vec::new();
    for _ in 0..count {
        let length = u16_at(&take(&mut rest, 2)?, 0);
        tasks.push(String::from_utf8(take(&mut rest, usize::from(length))?).ok()?);
    }
    Some((tasks, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn calls_come_back(calls in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..50)) {
            let call = |(start_ns, latency_ns, intended_ns)| Call { start_ns, latency_ns, intended_ns };
            let calls: Vec<Call> = calls.into_iter().map(call).collect();
            prop_assert_eq!(decode_calls(&encode_calls(&calls)).unwrap(), calls);
        }

        #[test]
        fn flash_operations_come_back(
            ops in prop::collection::vec(
                (any::<u64>(), 0usize..5, any::<u32>(), any::<u32>(), any::<u32>(), "[a-z]{1,15}"),
                0..50,
            )
        ) {
            let mut log = FlashLog::default();
            for (time_ns, kind, page, pages, pid, task) in ops {
                let task = log.task_index(&task);
                log.ops.push(FlashOp { time_ns, kind: FlashKind::ALL[kind], page, pages, pid, task });
            }
            prop_assert_eq!(decode_flash(&encode_flash(&log)).unwrap(), log);
        }

        #[test]
        fn damaged_logs_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_flash(&bytes);
            let _ = decode_calls(&bytes);
        }
    }
}
