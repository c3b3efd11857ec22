//! The binary log of requests to a block device: little-endian, fixed records, no header but a table of tasks as that
//! of the flash log.
//!
//! ```text
//! 0       8      16    20  24   26       28
//! time_ns sector bytes pid task op(0..=3)
//! ```

use crate::block::BlockOp;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::log::{put_tasks, take_tasks};
use crate::outcome::BlockTotals;
use crate::{Error, Result};

/// Bytes of a sector, by which the kernel counts on every block device.
pub const SECTOR_BYTES: u64 = 512;

const REQUEST: usize = 28;

/// One request to a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRequest {
    /// When the device got it, on the run's clock (the tracer's resolution is 1 us).
    pub time_ns: u64,
    /// What.
    pub op: BlockOp,
    /// Its first sector; 0 for a flush.
    pub sector: u64,
    /// Bytes it is about; 0 for a flush.
    pub bytes: u32,
    /// Thread that asked for it.
    pub pid: u32,
    /// Index into [`BlockLog::tasks`].
    pub task: u16,
}

/// The requests of a run to a block device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockLog {
    /// Names of the tasks that asked for requests.
    pub tasks: Vec<String>,
    /// The requests in order of time.
    pub requests: Vec<BlockRequest>,
}

impl BlockLog {
    /// Index of a task's name, added where it is new.
    pub fn task_index(&mut self, name: &str) -> u16 {
        let index = self.tasks.iter().position(|task| task == name).unwrap_or_else(|| {
            self.tasks.push(name.to_owned());
            self.tasks.len() - 1
        });
        index as u16
    }

    /// The name of a request's task.
    pub fn task(&self, request: &BlockRequest) -> &str {
        self.tasks.get(usize::from(request.task)).map_or("?", String::as_str)
    }

    /// Totals of the requests for which `select` holds.
    pub fn totals(&self, select: impl Fn(&BlockRequest) -> bool) -> BlockTotals {
        let mut totals = BlockTotals::default();
        for request in self.requests.iter().filter(|request| select(request)) {
            let bytes = u64::from(request.bytes);
            match request.op {
                BlockOp::Read => (totals.reads, totals.read_bytes) = (totals.reads + 1, totals.read_bytes + bytes),
                BlockOp::Write => {
                    (totals.writes, totals.written_bytes) = (totals.writes + 1, totals.written_bytes + bytes);
                }
                BlockOp::Flush => totals.flushes += 1,
                BlockOp::Discard => totals.discards += 1,
            }
        }
        totals
    }
}

/// The bytes of a log.
pub fn encode_block(log: &BlockLog) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + log.requests.len() * REQUEST);
    put_tasks(&mut bytes, &log.tasks);
    for request in &log.requests {
        bytes.extend(request.time_ns.to_le_bytes());
        bytes.extend(request.sector.to_le_bytes());
        bytes.extend(request.bytes.to_le_bytes());
        bytes.extend(request.pid.to_le_bytes());
        bytes.extend(request.task.to_le_bytes());
        bytes.extend((request.op as u16).to_le_bytes());
    }
    bytes
}

/// Reads a log.
///
/// # Errors
/// `ErrorKind::Board` if it is truncated, or contains an unknown operation or task.
pub fn decode_block(bytes: &[u8]) -> Result<BlockLog> {
    let cut = || Error::board(format!("a block log of {} bytes is damaged or truncated", bytes.len()));
    let (tasks, records) = take_tasks(bytes).ok_or_else(cut)?;
    let records = records.chunks_exact(REQUEST);
    if !records.remainder().is_empty() {
        return Err(cut());
    }
    let mut log = BlockLog { tasks, requests: Vec::with_capacity(records.len()) };
    for r in records {
        let op = *BlockOp::ALL.get(usize::from(u16_at(r, 26))).ok_or_else(cut)?;
        let task = u16_at(r, 24);
        if usize::from(task) >= log.tasks.len() {
            return Err(cut());
        }
        let (time_ns, sector, bytes, pid) = (u64_at(r, 0), u64_at(r, 8), u32_at(r, 16), u32_at(r, 20));
        log.requests.push(BlockRequest { time_ns, op, sector, bytes, pid, task });
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_come_back(
            all in prop::collection::vec(
                (any::<u64>(), 0usize..4, any::<u64>(), any::<u32>(), any::<u32>(), "[a-z]{1,15}"),
                0..50,
            )
        ) {
            let mut log = BlockLog::default();
            for (time_ns, op, sector, bytes, pid, task) in all {
                let task = log.task_index(&task);
                log.requests.push(BlockRequest { time_ns, op: BlockOp::ALL[op], sector, bytes, pid, task });
            }
            prop_assert_eq!(decode_block(&encode_block(&log)).unwrap(), log);
        }

        #[test]
        fn damaged_logs_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_block(&bytes);
        }
    }

    #[test]
    fn totals_are_of_what_is_selected() {
        let mut log = BlockLog::default();
        let task = log.task_index("sqlite");
        for (op, bytes, pid) in [
            (BlockOp::Read, 4096, 1),
            (BlockOp::Read, 8192, 1),
            (BlockOp::Write, 512, 1),
            (BlockOp::Flush, 0, 1),
            (BlockOp::Write, 1024, 2),
            (BlockOp::Discard, 4096, 2),
        ] {
            log.requests.push(BlockRequest { time_ns: 0, op, sector: 0, bytes, pid, task });
        }
        let mine = BlockTotals { reads: 2, read_bytes: 12_288, writes: 1, written_bytes: 512, flushes: 1, discards: 0 };
        let others = BlockTotals { writes: 1, written_bytes: 1024, discards: 1, ..BlockTotals::default() };
        assert_eq!((log.totals(|r| r.pid == 1), log.totals(|r| r.pid == 2)), (mine, others));
    }
}
