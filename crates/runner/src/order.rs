//! One order: read it, carry it out, leave the reply in a folder.

use crate::context::Context;
use crate::volume;
use crate::{measure, probes};
use pocketstone_core::board::BoardDescription;
use pocketstone_core::database::DatabaseSpec;
use pocketstone_core::error::Context as _;
use pocketstone_core::outcome::{Failure, Response};
use pocketstone_core::volume::Volume;
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::{ARCHIVE_FILE, Order, Request, Step, TRACE_FILE};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// Carries out the order in the file `order`; the reply and its logs go to `folder`. A lab far away has a copy of what
/// is set, by the socket `lab`.
///
/// A failed order is a reply too; an error means that not even that could be left.
///
/// # Errors
/// `ErrorKind::User` if the order cannot be read or is not one; `ErrorKind::Board` if the reply cannot be written.
pub fn carry_out(order: &Path, folder: &Path, lab: Option<&OwnedFd>) -> Result<()> {
    let text = fs::read(order).user(|| format!("cannot read {}", order.display()))?;
    let beside = order.parent().unwrap_or(Path::new("."));
    let request: Request = serde_json::from_slice(&text).user(|| format!("{} is not an order", order.display()))?;
    match &request.order {
        Order::Prepare { step } => volume::preloaded::load_for(step.volume()),
        Order::Measure { plan } => volume::preloaded::load_for(&plan.volume),
        _ => {}
    }
    let reply =
        execute(request, beside, folder, lab).unwrap_or_else(|e| Response::Failed { failure: Failure::from(&e) });
    let text = serde_json::to_vec(&reply).map_err(|e| Error::bug("a reply is not valid JSON").because(e))?;
    let path = folder.join("reply.json");
    fs::write(&path, text).board(|| format!("cannot write {}", path.display()))
}

fn execute(request: Request, beside: &Path, folder: &Path, lab: Option<&OwnedFd>) -> Result<Response> {
    let Request { board, order } = request;
    let board = volume::guarded::resolve(board, &order)?;
    let (trace, archive) = (&beside.join(TRACE_FILE), &beside.join(ARCHIVE_FILE));
    match order {
        Order::Prepare { step } => {
            match &step {
                Step::Load { volume, database } => load(volume, database, &board, trace, folder)?,
                Step::Unpack { volume, files } => {
                    unpack(volume, &board, files.as_ref().map(|_| archive.as_path()), folder)?;
                }
                _ => volume::prepare(&step, &board, beside, folder)?,
            }
            Ok(Response::Ready { facts: pocketstone_probe::facts::gather() })
        }
        Order::Measure { plan } => {
            let outcome = measure::measure(&Context { board: &board, plan: &plan, trace, archive, folder, lab })?;
            Ok(Response::Measured { outcome: Box::new(outcome) })
        }
        Order::ReadChip => {
            volume::recovered::read_chip(&board, folder)?;
            Ok(Response::ChipRead)
        }
        Order::ReadBlock => {
            volume::recovered::read_block(folder)?;
            Ok(Response::ChipRead)
        }
        Order::Recover { volume, engine } => {
            let found = volume::recovered::recover(&volume, engine, &board, beside, folder)?;
            Ok(Response::Recovered { found })
        }
        Order::Engines => Ok(measure::engines()),
        Order::Abilities => Ok(Response::Abilities { found: probes::abilities() }),
        Order::Exec { argv } => {
            let [program, arguments @ ..] = &argv[..] else {
                return Err(Error::user("no command given"));
            };
            let output = fs::File::create(folder.join("output")).board(|| "cannot create the output file".into())?;
            let errors = output.try_clone().board(|| "cannot share the output file".into())?;
            let status = Command::new(program)
                .args(arguments)
                .stdout(output)
                .stderr(errors)
                .status()
                .user(|| format!("cannot run `{program}`"))?;
            let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            Ok(Response::Executed { status })
        }
        Order::Shell => {
            // cttyhack gives the shell a controlling terminal, without which Ctrl-C does nothing.
            let status = Command::new("/bin/busybox")
                .args(["setsid", "/bin/busybox", "cttyhack", "/bin/busybox", "sh"])
                .status()
                .board(|| "cannot start the shell".into())?;
            Ok(Response::Executed { status: status.code().unwrap_or(1) })
        }
    }
}

/// Loads a database on a volume that is kept, and waits until the board is quiet.
fn load(volume: &Volume, spec: &DatabaseSpec, board: &BoardDescription, trace: &Path, folder: &Path) -> Result<()> {
    let opened = volume::open(volume, board, folder, true)?;
    measure::load(&opened.home, spec, trace, folder)?;
    volume::settle(volume, board)
}

/// Puts a command's files on a volume that is kept, and waits until the board is quiet.
fn unpack(volume: &Volume, board: &BoardDescription, archive: Option<&Path>, folder: &Path) -> Result<()> {
    let opened = volume::open(volume, board, folder, false)?;
    measure::unpack(&opened.home, archive)?;
    volume::settle(volume, board)
}
