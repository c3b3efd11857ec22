//! Orders from a lab on another machine, over standard input and output.
//!
//! Standard input is the lease: its end, or silence of the lab while an order is carried out, ends the order, and with
//! it whatever it has set.

use pocketstone_core::error::Context;
use pocketstone_core::frame::{BEAT, Frame, Frames, SILENCE};
use pocketstone_core::{Error, Result};
use pocketstone_probe::own_folder;
use pocketstone_probe::settings::restore_left;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Stdout, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a lab may be silent between its orders: a lab that comes back later connects anew.
const IDLE: Duration = Duration::from_secs(600);

/// Carries out a lab's orders in a folder, one after the other, until the lab is gone.
///
/// # Errors
/// `ErrorKind::Board` if the folder cannot be used, or what comes from the lab is damaged.
pub fn serve(folder: &Path) -> Result<()> {
    let mut lab = Lab { frames: Frames::default(), to: stdout(), heard: Instant::now() };
    let served = alone(folder).and_then(|_lock| orders(&mut lab, folder));
    if let Err(error) = &served {
        let hint = error.cure().map(|cure| format!("; {cure}")).unwrap_or_default();
        let _ = Frame::Failed(format!("{}{hint}", error.chain())).send(&mut lab.to);
    }
    served
}

/// The lock that keeps a second lab away, as long as the file is open.
fn alone(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let lock = File::create(&path).board(|| format!("cannot use the folder {}", folder.display()))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .board(|| "another lab is at work on this board".into())
        .map_err(|e| e.hint("wait until it has ended"))?;
    Ok(lock)
}

struct Lab {
    frames: Frames,
    to: Stdout,
    heard: Instant,
}

impl Lab {
    /// Waits for bytes of the lab, or for something else to happen; whether the lab is still there.
    fn wait(&mut self, other: Option<&rustix::fd::OwnedFd>, limit: Duration) -> Result<bool> {
        let from = stdin();
        let mut polled = vec![PollFd::new(&from, PollFlags::IN)];
        polled.extend(other.map(|other| PollFd::new(other, PollFlags::IN)));
        let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
        match poll(&mut polled, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => return Ok(true),
            ready => drop(ready.board(|| "cannot wait for the lab".into())?),
        }
        if polled[0].revents().is_empty() {
            return Ok(true);
        }
        self.heard = Instant::now();
        self.frames.hear(&mut from.lock())
    }
}

fn orders(lab: &mut Lab, folder: &Path) -> Result<()> {
    // What a runner that was killed has set is put back before anything else.
    restore_left(&own_folder(&std::env::temp_dir(), "pocketstone-settings")?)?;
    remove_others(folder)?;
    Frame::Hello(concat!("pocketstone-runner ", env!("CARGO_PKG_VERSION")).into()).send(&mut lab.to)?;
    let cell = folder.join("cell");
    loop {
        empty(&cell)?;
        let Some(given) = order(lab, &cell)? else { break };
        let Some(replied) = carry_out(lab, &cell)? else { break };
        match replied {
            Ok(()) => reply(lab, &cell, &given)?,
            Err(why) => Frame::Failed(why).send(&mut lab.to)?,
        }
    }
    fs::remove_dir_all(&cell).board(|| format!("cannot remove {}", cell.display()))
}

/// Removes the runners of earlier versions: under the lock, nobody uses them.
fn remove_others(folder: &Path) -> Result<()> {
    let failed = || format!("cannot list {}", folder.display());
    let own = std::env::current_exe().board(|| "cannot find the path of this program".into())?;
    for entry in fs::read_dir(folder).board(failed)? {
        let path = entry.board(failed)?.path();
        // One that is being copied has the copying shell's number behind a point.
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("runner-") && !name.contains('.') && path.file_name() != own.file_name() {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

fn empty(folder: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder).board(|| format!("cannot make {}", folder.display()))
}

/// Takes the files of an order; their names, or `None` if the lab is gone.
fn order(lab: &mut Lab, cell: &Path) -> Result<Option<BTreeSet<String>>> {
    let mut given = BTreeSet::new();
    loop {
        match lab.frames.take()? {
            Some(Frame::File(name, bytes)) => {
                let path = cell.join(&name);
                fs::write(&path, bytes).board(|| format!("cannot write {}", path.display()))?;
                given.insert(name);
            }
            Some(Frame::Go) => return Ok(Some(given)),
            Some(Frame::Beat) => {}
            Some(other) => return Err(Error::board(format!("the lab says what only a runner may: {other:?}"))),
            None if lab.heard.elapsed() >= IDLE => return Ok(None),
            None => {
                if !lab.wait(None, IDLE)? {
                    return Ok(None);
                }
            }
        }
    }
}

/// Has a child carry out the order in `cell`. `None` if the lab is gone, and with it the child; otherwise why there is
/// no reply.
fn carry_out(lab: &mut Lab, cell: &Path) -> Result<Option<Result<(), String>>> {
    let errors = cell.join("errors");
    let log = File::create(&errors).board(|| format!("cannot create {}", errors.display()))?;
    let program = std::env::current_exe().board(|| "cannot find the path of this program".into())?;
    let mut command = Command::new(program);
    command.arg("order").args([&cell.join("order.json"), cell]).stdin(Stdio::null());
    command.stdout(log.try_clone().board(|| "cannot share a file".into())?).stderr(log);
    pocketstone_engine::end_with_this_process(&mut command);
    let mut child = Ending(command.spawn().board(|| "cannot start the runner for an order".into())?);
    let end = pidfd_open(Pid::from_child(&child.0), PidfdFlags::empty()).board(|| "cannot wait for an order".into())?;
    let mut said = Instant::now();
    lab.heard = said;
    loop {
        if let Some(status) = child.0.try_wait().board(|| "cannot wait for an order".into())? {
            let why = || fs::read_to_string(&errors).unwrap_or_default();
            return Ok(Some(match status.success() {
                true => Ok(()),
                false => Err(format!("the runner ended with {status}: {}", why().trim())),
            }));
        }
        if !lab.wait(Some(&end), BEAT)? {
            return Ok(None);
        }
        while let Some(frame) = lab.frames.take()? {
            if frame != Frame::Beat {
                return Err(Error::board(format!("the lab says what it must not during an order: {frame:?}")));
            }
        }
        if lab.heard.elapsed() >= SILENCE {
            return Ok(None);
        }
        if said.elapsed() >= BEAT {
            Frame::Beat.send(&mut lab.to)?;
            said = Instant::now();
        }
    }
}

/// A child that is killed when nobody waits for it any more.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends what an order has left: all files but those that came with it.
fn reply(lab: &mut Lab, cell: &Path, given: &BTreeSet<String>) -> Result<()> {
    let failed = || format!("cannot read {}", cell.display());
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(cell).board(failed)? {
        let entry = entry.board(failed)?;
        if entry.file_type().board(failed)?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !given.contains(&name) {
            let bytes = fs::read(&path).board(|| format!("cannot read {}", path.display()))?;
            Frame::File(name, bytes).send(&mut lab.to)?;
        }
    }
    Frame::Done.send(&mut lab.to)
}
