//! Orders and replies: what a board's runner finds in its folder, and what it leaves there.

use crate::{Cache, Measured, squashfs};
use pocketstone_core::board::Capabilities;
use pocketstone_core::database::DATABASE_FOLDER;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Facts, OUTCOME_FORMAT, Response};
use pocketstone_core::volume::{FileSystem, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_tlb::join::{Clock, Joined, join};
use pocketstone_tlb::{MARKS_FILE, marks};
use pocketstone_workload::FileWorkload;
use pocketstone_workload::plan::{ARCHIVE_FILE, Order, Plan, Request, Step, TRACE_FILE};
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
pub(crate) fn put(mut request: Request, folder: &Path, cache: &Cache) -> Result<()> {
    let capabilities = &mut request.board.capabilities;
    *capabilities = of_the_machine(capabilities);
    let text = serde_json::to_vec(&request).map_err(|e| Error::bug("an order is not valid JSON").because(e))?;
    let path = folder.join(ORDER);
    std::fs::write(&path, text).board(|| format!("cannot write {}", path.display()))?;
    let _ = std::fs::remove_file(folder.join(REPLY));
    squashfs::put_image(&request.order, folder)?;
    let kept = cache.folder(TRACES)?;
    put_kept(request.order.trace().map(|digest| trace_file(&kept, digest)), &folder.join(TRACE_FILE))?;
    put_kept(request.order.archive().map(|digest| archive_file(&kept, digest)), &folder.join(ARCHIVE_FILE))
}

/// Removes what a cell has left in a directory.
pub(crate) fn remove_ours(plan: &Plan, directory: &Path) {
    for name in our_files(plan) {
        let _ = std::fs::remove_file(directory.join(name));
    }
    for name in OUR_FOLDERS {
        let _ = std::fs::remove_dir_all(directory.join(name));
    }
}

/// What a runner is told of what its machine can do: not how many such machines the lab's own has room for, nor reasons
/// with the name of a profile. A virtual board reads its order in its own time, which must depend on neither.
fn of_the_machine(of_the_board: &Capabilities) -> Capabilities {
    Capabilities {
        disposable: of_the_board.disposable,
        deterministic: of_the_board.deterministic,
        power_meters: of_the_board.power_meters.clone(),
        ..Capabilities::unknown()
    }
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

/// Folders that a cell leaves in a directory that may be anyone's: nobody else has any of these names.
pub(crate) const OUR_FOLDERS: [&str; 2] = [FILES_FOLDER, DATABASE_FOLDER];

/// Files that a cell leaves beside those folders. Others have such names, too, so they are only what the plan has
/// written itself, and never folders: `target` is where Cargo and Maven build.
pub(crate) fn our_files(plan: &Plan) -> &'static [&'static str] {
    let in_the_root = |workload: &dyn FileWorkload| workload.population(plan.seed).folder().is_none();
    if plan.workload.on_files().is_some_and(in_the_root) { &[TARGET_FILE, FILLER_FILE] } else { &[] }
}

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
    Ok(Measured { calls, flash, block, events, ..Measured::of(*outcome) })
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

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::board::Ability;
    use pocketstone_core::pattern::Pattern;
    use pocketstone_workload::{CommandSpec, ReadSpec, Workload};
    use std::fs;

    #[test]
    fn what_others_have_in_a_directory_stays() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let names = || {
            let mut names: Vec<_> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let plan = |workload| Plan::new(1, Volume::usual(FileSystem::Directory), workload);
        let read = plan(Workload::Read(ReadSpec::new(Pattern::Random, 1)));
        let command = plan(Workload::Command(CommandSpec {
            line: "true".into(),
            files: None,
            cold: false,
            conditions: Default::default(),
        }));
        for name in ["target/debug", "pocketstone-files", "pocketstone-database"] {
            fs::create_dir_all(at.join(name)).unwrap();
        }
        fs::write(at.join("filler"), "mine").unwrap();
        remove_ours(&command, at);
        assert_eq!(names(), ["filler", "target"]);
        remove_ours(&read, at);
        assert_eq!(names(), ["target"]);
        assert!(at.join("target/debug").is_dir());
        fs::remove_dir_all(at.join("target")).unwrap();
        fs::write(at.join("target"), "ours").unwrap();
        remove_ours(&read, at);
        assert!(names().is_empty());
    }

    #[test]
    fn an_order_is_the_same_whatever_the_labs_machine_is_and_the_board_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let order = |parallel, name: &str| {
            let no = |what: &str| Ability::no(&Error::board(format!("the board {name} has no {what}")));
            let mut capabilities = crate::transport::of_a_real_machine();
            (capabilities.parallel, capabilities.power_cuts, capabilities.chip_faults) =
                (parallel, no("cuts"), no("chip"));
            (capabilities.accesses, capabilities.flash_counters) = (no("accesses"), no("flash"));
            let board = pocketstone_core::board::BoardDescription {
                capabilities,
                places: Default::default(),
                settings: Vec::new(),
            };
            put(Request { board, order: Order::Abilities }, folder.path(), &cache).unwrap();
            fs::read(folder.path().join(ORDER)).unwrap()
        };
        assert_eq!(order(2, "virt-nand"), order(16, "one-of-my-own"));
    }
}
