//! One order: read it, carry it out, leave the reply in a folder.

use crate::in_memory::InMemory;
use crate::{cell, database, files, squashfs, volume};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Failure, Reply};
use pocketstone_core::plan::{IMAGE_FILE, Order, Step, TRACE_FILE};
use pocketstone_core::{Error, Result};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// Carries out the order in the file `order`; the reply and its logs go to `folder`.
///
/// A failed order is a reply too; an error means that not even that could be left.
///
/// # Errors
/// When the order cannot be read or the reply cannot be written.
pub fn carry_out(order: &Path, folder: &Path) -> Result<()> {
    // A lab that is killed takes its cell along, and a watchdog puts back what the cell had set.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .board(|| "cannot ask for this process's end with its parent".into())?;
    let text = fs::read(order).user(|| format!("cannot read {}", order.display()))?;
    let trace = order.with_file_name(TRACE_FILE);
    let order: Order = serde_json::from_slice(&text).user(|| format!("{} is not an order", order.display()))?;
    let reply = execute(order, &trace, folder).unwrap_or_else(|e| Reply::Failed { failure: Failure::from(&e) });
    let text = serde_json::to_vec(&reply).map_err(|e| Error::bug("a reply is no JSON").because(e))?;
    let path = folder.join("reply.json");
    fs::write(&path, text).board(|| format!("cannot write {}", path.display()))
}

fn execute(order: Order, trace: &Path, folder: &Path) -> Result<Reply> {
    match order {
        Order::Prepare { step } => {
            match step {
                // A file system in memory is gone with this process: making it shows that it can be had.
                Step::Format { volume } if volume.file_system.in_memory() => {
                    InMemory::make(&volume, folder)?;
                }
                Step::Format { volume } => volume::format(&volume)?,
                Step::Fill { volume, .. } | Step::Populate { volume, .. } if volume.file_system.read_only() => {
                    squashfs::install(&volume, &trace.with_file_name(IMAGE_FILE), &volume::folder(&volume)?)?;
                }
                Step::Fill { volume, file } => volume::fill(&volume, &file)?,
                Step::Populate { volume, population } => files::prepare(&volume, &population)?,
                Step::Load { volume, database } => database::prepare(&volume, &database, trace, folder)?,
            }
            Ok(Reply::Ready { facts: pocketstone_probe::facts::gather() })
        }
        Order::Measure { plan } => {
            let outcome = Box::new(cell::measure(&plan, trace, folder)?);
            Ok(Reply::Measured { outcome })
        }
        Order::Engines => Ok(database::engines()),
        Order::Exec { argv } => {
            let [program, arguments @ ..] = &argv[..] else {
                return Err(Error::user("there is no command to run"));
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
            Ok(Reply::Executed { status })
        }
        Order::Shell => {
            // cttyhack gives the shell a controlling terminal, without which Ctrl-C does nothing.
            let status = Command::new("/bin/busybox")
                .args(["setsid", "/bin/busybox", "cttyhack", "/bin/busybox", "sh"])
                .status()
                .board(|| "cannot start the shell".into())?;
            Ok(Reply::Executed { status: status.code().unwrap_or(1) })
        }
    }
}
