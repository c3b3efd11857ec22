//! Boards: machines that carry out plans. This machine, and virtual ones in QEMU.

mod cache;
mod compiled;
mod host;
mod profile;
mod squashfs;
mod virtual_board;

pub use cache::Cache;
pub use compiled::{Compiled, compiler_for};
pub use host::HostBoard;
pub use profile::{HostProfile, NandProfile, Profile, ProfileKind, VirtualProfile, list};
pub use virtual_board::{Console, VirtualBoard};

use pocketstone_core::database::DatabaseEngine;
use pocketstone_core::error::Context;
use pocketstone_core::events::EventLog;
use pocketstone_core::log::{Call, FlashLog};
use pocketstone_core::outcome::{Facts, OUTCOME_FORMAT, Outcome, Reply};
use pocketstone_core::plan::{FileSystem, Order, Plan, Step, TRACE_FILE};
use pocketstone_core::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The cache's folder for prepared workloads: a file DIGEST.trace for each.
pub const TRACES: &str = "workloads";

/// The file of a prepared workload, by its digest, in a folder of such.
pub fn trace_file(folder: &Path, digest: &str) -> PathBuf {
    folder.join(format!("{digest}.trace"))
}

/// A machine that carries out plans.
pub trait Board: Send + Sync {
    /// Name of its profile.
    fn name(&self) -> &str;

    /// What the machine is.
    fn facts(&self) -> Facts;

    /// Whether a volume with this file system can be had.
    ///
    /// # Errors
    /// Why not, with the cure as its hint.
    fn offers(&self, file_system: FileSystem) -> Result<()>;

    /// Whether flash operations can be traced.
    ///
    /// # Errors
    /// Why not, with the cure as its hint.
    fn traces(&self) -> Result<()>;

    /// The version of a database engine there.
    ///
    /// # Errors
    /// Why there is none, with the cure as its hint.
    fn engine(&self, engine: DatabaseEngine) -> Result<String>;

    /// How many cells can be measured at once without disturbing each other.
    fn parallel(&self) -> usize;

    /// Whether a repetition with the same seed gives the same log, to the bit.
    fn deterministic(&self) -> bool;

    /// Takes the board through the steps and keeps the state, where it can be kept.
    ///
    /// # Errors
    /// When a step fails.
    fn prepare(&self, steps: &[Step]) -> Result<(), Failed>;

    /// Measures one cell from the state its plan starts from.
    ///
    /// # Errors
    /// When the board or the plan fails; the board remains usable.
    fn measure(&self, plan: &Plan) -> Result<Measured, Failed>;
}

/// Result of one cell with its logs.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Facts and counts.
    pub outcome: Outcome,
    /// Every call.
    pub calls: Vec<Call>,
    /// Every flash operation, where the cell was traced.
    pub flash: Option<FlashLog>,
    /// What the kernel did, where the cell was traced and has a database.
    pub events: Option<EventLog>,
}

/// Why an order failed, with what the board's console said last.
#[derive(Debug)]
pub struct Failed {
    /// The error.
    pub error: Error,
    /// Last lines of the console, where the board has one.
    pub console: Option<String>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed { error, console: None }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        let error = failed.error;
        match failed.console.filter(|c| !c.is_empty() && error.kind() != ErrorKind::Interrupted) {
            Some(console) => {
                let message = format!("{}\nthe console's last lines were:\n{console}", error.chain());
                let whole = Error::new(error.kind(), message);
                match error.cure() {
                    Some(cure) => whole.hint(cure),
                    None => whole,
                }
            }
            None => error,
        }
    }
}

/// What a board needs of its user: where to keep things, whom to tell, when to stop.
#[derive(Clone)]
pub struct Surroundings {
    /// Where built and downloaded things are kept.
    pub cache: Cache,
    /// Told in a few words what is being done when it takes long.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
    /// Set when the user wants to stop.
    pub cancelled: Arc<AtomicBool>,
}

impl Surroundings {
    /// An error once the user wants to stop.
    ///
    /// # Errors
    /// Then.
    pub fn check(&self) -> Result<()> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => {
                Err(Error::new(ErrorKind::Interrupted, "interrupted").hint("go on with: pocketstone run --resume DIR"))
            }
            false => Ok(()),
        }
    }
}

/// Opens the board of a profile.
///
/// # Errors
/// When the machine lacks what the board needs; the hint says how to get it.
pub fn open(profile: &Profile, surroundings: &Surroundings) -> Result<Box<dyn Board>> {
    match &profile.kind {
        ProfileKind::Host(host) => Ok(Box::new(HostBoard::open(&profile.name, host, surroundings)?)),
        ProfileKind::Virtual(machine) => Ok(Box::new(VirtualBoard::open(&profile.name, machine, surroundings)?)),
    }
}

/// Puts what an order needs beside it: a prepared workload, a volume's image.
fn put_files(order: &Order, folder: &Path, cache: &Cache) -> Result<()> {
    squashfs::put_image(order, folder)?;
    put_trace(order, folder, cache)
}

/// Puts the prepared workload that an order needs beside it.
fn put_trace(order: &Order, folder: &Path, cache: &Cache) -> Result<()> {
    let Some(digest) = order.trace() else { return Ok(()) };
    let kept = trace_file(&cache.folder(TRACES)?, digest);
    let beside = folder.join(TRACE_FILE);
    let _ = std::fs::remove_file(&beside);
    std::fs::copy(&kept, &beside)
        .map(|_| ())
        .board(|| format!("the prepared workload {} is not there", kept.display()))
        .map_err(|e| e.hint("run the study again: workloads are prepared when its cells are made"))
}

/// Reads a runner's reply and its logs from a folder.
fn read_reply(folder: &Path) -> Result<Reply> {
    let path = folder.join("reply.json");
    let text = std::fs::read(&path).map_err(|e| Error::board("the board left no reply").because(e))?;
    match serde_json::from_slice(&text) {
        Ok(Reply::Failed { failure }) => Err(failure.into()),
        Ok(reply) => Ok(reply),
        Err(error) => Err(Error::board("the board's reply is damaged").because(error)),
    }
}

/// An engine's version from a runner's reply to [`Order::Engines`].
fn engine_in(reply: &Reply, engine: DatabaseEngine) -> Result<String> {
    let Reply::Engines { offered, missing } = reply else {
        return Err(Error::bug("the board's reply does not name engines"));
    };
    match (offered.get(&engine), missing.get(&engine)) {
        (Some(version), _) => Ok(version.clone()),
        (None, Some(failure)) => Err(failure.clone().into()),
        (None, None) => Err(Error::board(format!("the board does not know the engine {}", engine.name()))),
    }
}

fn read_measured(folder: &Path) -> Result<Measured> {
    let Reply::Measured { outcome } = read_reply(folder)? else {
        return Err(Error::bug("the board's reply is not a measurement"));
    };
    let bytes = |name: &str| std::fs::read(folder.join(name));
    if outcome.format != OUTCOME_FORMAT {
        return Err(Error::board(format!("the board's outcome has format {}, not {OUTCOME_FORMAT}", outcome.format))
            .hint("build the command again: its sources, which the board's runner is made of, have changed"));
    }
    let calls = bytes("calls.bin").map_err(|e| Error::board("the board left no call log").because(e))?;
    let calls = pocketstone_core::log::decode_calls(&calls)?;
    if calls.len() as u64 != outcome.calls {
        return Err(Error::board(format!("the call log has {} calls, not {}", calls.len(), outcome.calls)));
    }
    let flash = match bytes("flash.bin") {
        Ok(bytes) if outcome.flash.is_some() => Some(pocketstone_core::log::decode_flash(&bytes)?),
        _ => None,
    };
    let events = match bytes("events.bin") {
        Ok(bytes) => Some(pocketstone_core::events_log::decode_events(&bytes)?),
        Err(_) => None,
    };
    Ok(Measured { outcome: *outcome, calls, flash, events })
}
