//! Orders and replies: what a board's runner finds in its folder, and what it leaves there.

use crate::{Cache, Measured, squashfs};
use pocketstone_core::database::DATABASE_FOLDER;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Facts, OUTCOME_FORMAT, Response};
use pocketstone_core::volume::{FileSystem, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_tlb::join::{Clock, Joined, join};
use pocketstone_tlb::{MARKS_FILE, marks};
use pocketstone_workload::plan::{ARCHIVE_FILE, Order, Request, Step, TRACE_FILE};
use pocketstone_workload::population::{FILES_FOLDER, FILLER_FILE, TARGET_FILE};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of an order's file.
const ORDER: &str = "order.json";
/// Name of the reply's file.
const REPLY: &str = "reply.json";

/// The cache's folder for prepared workloads, a file DIGEST.trace for each, and for commands' files, DIGEST.tar.
pub const TRACES: &str = "workloads";

/// The file of a prepared workload, by its digest, in a folder of such.
pub fn trace_file(folder: &Path, digest: &str) -> PathBuf {
    folder.join(format!("{digest}.trace"))
}

/// The archive of a command's files, by its digest, in such a folder.
pub fn archive_file(folder: &Path, digest: &str) -> PathBuf {
    folder.join(format!("{digest}.tar"))
}

/// Puts an order into a folder, and what it needs beside it: a prepared workload, a volume's image. An earlier reply is
/// removed.
pub(crate) fn put(request: &Request, folder: &Path, cache: &Cache) -> Result<()> {
    let text = serde_json::to_vec(request).map_err(|e| Error::bug("an order is not valid JSON").because(e))?;
    let path = folder.join(ORDER);
    std::fs::write(&path, text).board(|| format!("cannot write {}", path.display()))?;
    let _ = std::fs::remove_file(folder.join(REPLY));
    squashfs::put_image(&request.order, folder)?;
    let kept = cache.folder(TRACES)?;
    put_kept(request.order.trace().map(|digest| trace_file(&kept, digest)), &folder.join(TRACE_FILE))?;
    put_kept(request.order.archive().map(|digest| archive_file(&kept, digest)), &folder.join(ARCHIVE_FILE))
}

/// Puts what an order needs beside it: a prepared workload, a command's files.
fn put_kept(kept: Option<PathBuf>, beside: &Path) -> Result<()> {
    let Some(kept) = kept else { return Ok(()) };
    let _ = std::fs::remove_file(beside);
    std::fs::copy(&kept, beside).map(drop).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::board(format!("{} is missing", kept.display()))
            .because(error)
            .hint("rerun the study: workloads are prepared when its cells are created"),
        _ => Error::board(format!("cannot copy {} to {}", kept.display(), beside.display())).because(error),
    })
}

/// What a cell leaves in a directory that may be anyone's: our own files only.
pub(crate) const OURS: [&str; 4] = [TARGET_FILE, FILLER_FILE, FILES_FOLDER, DATABASE_FOLDER];

/// The order by which a board introduces itself: any that succeeds makes its runner say what the machine is. `empty` is
/// a directory that may be made there.
pub(crate) fn introduction(empty: PathBuf) -> Order {
    let volume = Volume { directory: Some(empty), ..Volume::usual(FileSystem::Directory) };
    Order::Prepare { step: Step::Format { volume } }
}

/// What the machine is, from the reply to [`introduction`].
pub(crate) fn introduced(reply: Response) -> Result<Facts> {
    match reply {
        Response::Ready { facts } => Ok(facts),
        other => Err(Error::bug(format!("the runner's first reply is {other:?}"))),
    }
}

/// Reads a runner's reply and its logs from a folder.
pub(crate) fn read_response(folder: &Path) -> Result<Response> {
    let path = folder.join(REPLY);
    let text = std::fs::read(&path).map_err(|e| Error::board("the board sent no reply").because(e))?;
    match serde_json::from_slice(&text) {
        Ok(Response::Failed { failure }) => Err(failure.into()),
        Ok(reply) => Ok(reply),
        Err(error) => Err(Error::board("the board's reply is damaged").because(error)),
    }
}

/// Reads what a runner measured, with its logs, from a folder.
pub(crate) fn read_measured(folder: &Path, reply: Response) -> Result<Measured> {
    let Response::Measured { outcome } = reply else {
        return Err(Error::bug("the board's reply is not a measurement"));
    };
    let bytes = |name: &str| std::fs::read(folder.join(name));
    if outcome.format != OUTCOME_FORMAT {
        return Err(Error::board(format!("the board's outcome has format {}, not {OUTCOME_FORMAT}", outcome.format))
            .hint("rebuild the command: its sources, from which the board's runner is built, have changed"));
    }
    let calls = bytes("calls.bin").map_err(|e| Error::board("the board produced no call log").because(e))?;
    let calls = pocketstone_core::log::decode_calls(&calls)?;
    if calls.len() as u64 != outcome.calls {
        return Err(Error::board(format!("the call log has {} calls, not {}", calls.len(), outcome.calls)));
    }
    let flash = match bytes("flash.bin") {
        Ok(bytes) if outcome.flash.is_some() => Some(pocketstone_core::log::decode_flash(&bytes)?),
        _ => None,
    };
    let block = match bytes("block.bin") {
        Ok(bytes) if outcome.block.is_some() => Some(pocketstone_core::block_log::decode_block(&bytes)?),
        _ => None,
    };
    let events = match bytes("events.bin") {
        Ok(bytes) => Some(pocketstone_core::events_log::decode_events(&bytes)?),
        Err(_) => None,
    };
    Ok(Measured { outcome: *outcome, calls, flash, block, events, tlb: None })
}

/// Reads what the model of a data TLB counted during a cell, from the cell's folder.
pub(crate) fn read_watched(folder: &Path, measured: &Measured, clock: Clock) -> Result<Joined> {
    let log = std::fs::read(folder.join(MARKS_FILE)).map_err(|e| {
        Error::board("QEMU wrote no log of TLB misses")
            .because(e)
            .hint("it needs plugins, as Debian's QEMU 7.2 has them")
    })?;
    let calls: Vec<(u64, u64)> = measured.calls.iter().map(|c| (c.start_ns, c.start_ns + c.latency_ns)).collect();
    join(&marks::decode(&log)?, &calls, clock)
}
