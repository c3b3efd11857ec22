//! The first process of a virtual board.

use crate::say::print;
use crate::{block, hosted, modules, stop::StopRegister};
use pocketstone_core::block::BLOCK_FILE;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Failure, Response};
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::Request;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const ORDER: &str = "/run/order.json";
const FOLDER: &str = "/run/reply";

/// Brings the board up, then takes orders; never returns.
pub fn main() -> ! {
    if let Err(error) = bring_up_and_serve() {
        print(&format!("pocketstone: {}\n", error.chain()));
        if let Some(hint) = error.cure() {
            print(&format!("pocketstone: hint: {hint}\n"));
        }
    }
    // Powering off tells the host at once that nothing more will come.
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    std::process::exit(1)
}

fn bring_up_and_serve() -> Result<()> {
    for (kind, target) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run"), ("tmpfs", "/tmp")]
    {
        fs::create_dir_all(target).board(|| format!("cannot create {target}"))?;
        mount(kind, target, kind, MountFlags::empty(), None).board(|| format!("cannot mount {kind} on {target}"))?;
    }
    console()?;
    // A kernel without tracefs still measures; flashmon will say what is missing.
    let _ = mount("tracefs", "/sys/kernel/tracing", "tracefs", MountFlags::empty(), None);
    let _ = Command::new("/bin/busybox").args(["--install", "-s", "/bin"]).status();
    let modules = modules::load_all().and_then(|()| serve_block_device());
    let stop = StopRegister::map()?;
    let mut reply = match modules {
        Ok(()) => Response::Ready { facts: pocketstone_probe::facts::gather() },
        Err(error) => Response::Failed { failure: Failure::from(&error) },
    };
    loop {
        let text = serde_json::to_vec(&reply).map_err(|e| Error::bug("a reply is not valid JSON").because(e))?;
        hosted::write("reply.json", &text)?;
        stop.stop();
        reply = match serve() {
            Ok(reply) => reply,
            Err(error) => Response::Failed { failure: Failure::from(&error) },
        };
    }
}

/// Makes the console the standard streams; the kernel opened none where the initramfs has no /dev.
fn console() -> Result<()> {
    let console = rustix::fs::open("/dev/console", OFlags::RDWR, Mode::empty()).board(|| "no /dev/console".into())?;
    rustix::stdio::dup2_stdin(&console).board(|| "no standard input".into())?;
    rustix::stdio::dup2_stdout(&console).board(|| "no standard output".into())?;
    rustix::stdio::dup2_stderr(&console).board(|| "no standard error".into())
}

/// Brings the block device up that the initramfs describes, if it does.
fn serve_block_device() -> Result<()> {
    let description = Path::new("/").join(BLOCK_FILE);
    if description.exists() { block::start(&description) } else { Ok(()) }
}

/// Takes the host's order, has a child process carry it out, and hands its files to the host.
fn serve() -> Result<Response> {
    let order = hosted::read("order.json")?;
    let needed = serde_json::from_slice::<Request>(&order).map_or_else(|_| Vec::new(), |r| r.order.files());
    fs::write(ORDER, order).board(|| format!("cannot write {ORDER}"))?;
    for name in needed {
        let beside = Path::new(ORDER).with_file_name(name);
        fs::write(&beside, hosted::read(name)?).board(|| format!("cannot write {}", beside.display()))?;
    }
    let _ = fs::remove_dir_all(FOLDER);
    fs::create_dir(FOLDER).board(|| format!("cannot create {FOLDER}"))?;
    let status = Command::new("/bin/pocketstone-runner")
        .args(["order", ORDER, FOLDER])
        .env("PATH", "/bin:/sbin")
        .stdin(Stdio::inherit())
        .status()
        .board(|| "cannot start the runner".into())?;
    let reply = fs::read(Path::new(FOLDER).join("reply.json"))
        .board(|| format!("the runner produced no reply ({status}); see the console's last lines"))?;
    for entry in fs::read_dir(FOLDER).board(|| format!("cannot list {FOLDER}"))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Folders are mount points of what ended with the runner.
        if name != "reply.json" && entry.path().is_file() {
            let bytes = fs::read(entry.path()).board(|| format!("cannot read {name}"))?;
            hosted::write(&name, &bytes)?;
        }
    }
    serde_json::from_slice(&reply).map_err(|e| Error::bug("the runner's reply is not valid JSON").because(e))
}
