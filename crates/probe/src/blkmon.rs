//! blkmon: every request that a block device gets, with its time, place and task.
//!
//! The kernel's own events tell when a request is issued, which a thread of the kernel may do for another one; who
//! asked is the one that queued the I/O that the request begins with.

use crate::tracefs::Instance;
use pocketstone_core::block::BlockOp;
use pocketstone_core::block_log::{BlockLog, BlockRequest};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fs::{major, minor, stat};
use std::collections::HashMap;
use std::path::Path;

const QUEUED: &str = "block/block_bio_queue";
const ISSUED: &str = "block/block_rq_issue";
/// Room for events, of about 100 bytes each.
const BUFFER_KIB: u64 = 16 * 1024;

/// A running monitor of a block device.
pub struct Blkmon {
    instance: Instance,
    device: String,
}

impl Blkmon {
    /// Sets the events of a block device; nothing is recorded before [`Blkmon::start`].
    ///
    /// # Errors
    /// `ErrorKind::Board` if there is no such device, or the kernel has no tracefs or no such events.
    pub fn new(device: &Path) -> Result<Self> {
        let number = stat(device).board(|| format!("cannot stat {}", device.display()))?.st_rdev;
        let instance = Instance::new("block", BUFFER_KIB)?;
        for event in [QUEUED, ISSUED] {
            instance.enable(event).map_err(|e| {
                Error::board("block requests cannot be traced")
                    .because(e)
                    .hint("the kernel requires CONFIG_BLK_DEV_IO_TRACE")
            })?;
        }
        Ok(Blkmon { instance, device: format!("{},{}", major(number), minor(number)) })
    }

    /// Starts recording.
    ///
    /// # Errors
    /// `ErrorKind::Board` if tracefs refuses.
    pub fn start(&self) -> Result<()> {
        self.instance.start()
    }

    /// Stops recording.
    ///
    /// # Errors
    /// `ErrorKind::Board` if tracefs refuses.
    pub fn stop(&self) -> Result<()> {
        self.instance.stop()
    }

    /// Every request from the start to [`Blkmon::stop`].
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel lost events (the log would be wrong), or its text cannot be read or understood.
    pub fn read(self) -> Result<BlockLog> {
        let lost = self.instance.lost()?;
        if lost > 0 {
            return Err(Error::board(format!("the kernel lost {lost} block events, so the counts would be wrong"))
                .hint("trace a shorter run"));
        }
        parse(&self.instance.text()?, &self.device)
    }
}

/// A line of the kernel's text.
struct Line<'a> {
    task: &'a str,
    pid: u32,
    time_ns: u64,
    issued: bool,
    op: Option<BlockOp>,
    flushes: bool,
    sector: u64,
    bytes: u32,
}

/// Reads the kernel's text, whose lines are `task-pid [cpu] flags sec.usec: event: major,minor rwbs ...`.
fn parse(text: &str, device: &str) -> Result<BlockLog> {
    let mut log = BlockLog::default();
    // Who queued what begins at a sector, last.
    let mut asked: HashMap<(BlockOp, u64), (u32, u16)> = HashMap::new();
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        let read = parse_line(line, device);
        let read = read.ok_or_else(|| Error::board(format!("cannot parse a line of the kernel's trace: {line}")))?;
        let Some(read) = read else { continue };
        let Some(op) = read.op else { continue };
        let task = log.task_index(read.task);
        let own = (read.pid, task);
        if !read.issued {
            asked.insert((op, read.sector), own);
            // One with data may need a flush before it or, where writes cannot be forced through a cache, behind it.
            if read.flushes {
                asked.insert((BlockOp::Flush, 0), own);
            }
            continue;
        }
        let (pid, task) = asked.get(&(op, read.sector)).copied().unwrap_or(own);
        let sector = if op == BlockOp::Flush { 0 } else { read.sector };
        log.requests.push(BlockRequest { time_ns: read.time_ns, op, sector, bytes: read.bytes, pid, task });
    }
    Ok(log)
}

/// `None`: the line is not understood; `Some(None)`: it is of another device.
fn parse_line<'a>(line: &'a str, device: &str) -> Option<Option<Line<'a>>> {
    // The task's name may hold anything, spaces, dashes and brackets included.
    let (left, rest) = line.rmatch_indices(" [").find_map(|(at, _)| {
        let (cpu, rest) = line[at + 2..].split_once("] ")?;
        cpu.bytes().all(|b| b.is_ascii_digit()).then_some((&line[..at], rest))
    })?;
    let (task, pid) = left.trim().rsplit_once('-')?;
    let mut words = rest.split_whitespace();
    let (seconds, micros) = words.nth(1)?.strip_suffix(':')?.split_once('.')?;
    let time_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1_000;
    let issued = match words.next()? {
        "block_bio_queue:" => false,
        "block_rq_issue:" => true,
        _ => return None,
    };
    if words.next()? != device {
        return Some(None);
    }
    let kinds = words.next()?;
    if issued {
        // Its bytes, and a command in brackets.
        words.nth(1)?;
    }
    let sector = words.next()?.parse().ok()?;
    let sectors: u32 = (words.next()? == "+").then(|| words.next()?.parse().ok())??;
    let (op, flushes) = (op(kinds, sectors), kinds.contains('F'));
    let bytes = sectors.checked_mul(512)?;
    Some(Some(Line { task: task.trim(), pid: pid.parse().ok()?, time_ns, issued, op, flushes, sector, bytes }))
}

/// What letters of the kernel mean (blk_fill_rwbs of kernel/trace/blktrace.c). Those for data stand behind an F for a
/// flush in front of it. `None`: no command that a device of this kind gets.
fn op(kinds: &str, sectors: u32) -> Option<BlockOp> {
    if sectors == 0 {
        return kinds.contains('F').then_some(BlockOp::Flush);
    }
    match kinds.trim_start_matches('F').chars().next()? {
        'R' => Some(BlockOp::Read),
        'W' => Some(BlockOp::Write),
        'D' => Some(BlockOp::Discard),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lines as a 6.1 kernel prints them.
    const TRACE: &str = "# tracer: nop
#
           sqlite-71      [000] .....    12.000001: block_bio_queue: 43,0 R 2048 + 8 [sqlite]
     kworker/0:1H-40      [000] .....    12.000009: block_rq_issue: 43,0 R 8192 () 2048 + 16 [kworker/0:1H]
   a [1] b-c d-77      [000] .....    12.000011: block_bio_queue: 43,0 FWS 0 + 0 [a]
     kworker/0:1H-40      [000] .....    12.000012: block_rq_issue: 43,0 FF 0 () 0 + 0 [kworker/0:1H]
     kworker/0:1H-40      [000] .....    12.000013: block_rq_issue: 8,0 R 4096 () 2048 + 8 [kworker/0:1H]
  jbd2/nbd0-8-51      [000] .....    12.000018: block_bio_queue: 43,0 FWFSM 4096 + 8 [jbd2/nbd0-8]
     kworker/0:1H-40      [000] .....    12.000019: block_rq_issue: 43,0 FF 0 () 0 + 0 [kworker/0:1H]
     kworker/0:1H-40      [000] .....    12.000020: block_rq_issue: 43,0 WSM 4096 () 4096 + 8 [kworker/0:1H]
           sqlite-71      [000] .....    12.000021: block_rq_issue: 43,0 DS 1048576 () 8192 + 2048 [sqlite]
";

    #[test]
    fn requests_are_those_of_the_device_and_of_who_asked() {
        let log = parse(TRACE, "43,0").unwrap();
        let short: Vec<_> = log.requests.iter().map(|r| (r.op, r.sector, r.bytes, r.pid, log.task(r))).collect();
        assert_eq!(
            short,
            [
                (BlockOp::Read, 2048, 8192, 71, "sqlite"),
                (BlockOp::Flush, 0, 0, 77, "a [1] b-c d"),
                (BlockOp::Flush, 0, 0, 51, "jbd2/nbd0-8"),
                (BlockOp::Write, 4096, 4096, 51, "jbd2/nbd0-8"),
                (BlockOp::Discard, 8192, 1_048_576, 71, "sqlite"),
            ]
        );
        assert_eq!(log.requests[0].time_ns, 12_000_009_000);
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error_not_a_gap() {
        assert!(parse("CPU:0 [LOST 5 EVENTS]\n", "43,0").unwrap_err().to_string().contains("LOST 5"));
    }
}
