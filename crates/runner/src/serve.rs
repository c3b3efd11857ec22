//! Orders from a lab on another machine, over standard input and output.
//!
//! Standard input is the lease: its end, or a lab that says nothing for a while, ends the order, and with it whatever
//! it has set.

mod lab;

use crate::volume::empty_folder;
use crate::volume::guarded::release;
use lab::{Event, Lab};
use pocketstone_core::board::MOUNT_FOLDER;
use pocketstone_core::error::Context;
use pocketstone_core::frame::{BEAT, Frame, Inbox, pieces};
use pocketstone_core::{Error, Result};
use pocketstone_engine::command::end_orphans;
use pocketstone_probe::alone::{Alone, FAR_LAB, MACHINE};
use pocketstone_probe::lab_copy::{NOTED, Said};
use pocketstone_probe::settings::{forget_restored, journals, restore_copy, restore_left};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The word for a runner whose settings a lab has a copy of.
pub const COPIED: &str = "copied";
/// How often a lock that another runner has is tried again.
const AGAIN: Duration = Duration::from_millis(200);
/// What the lab is told while another run measures.
const WAITS: &str = "another run on that machine is to end its cell";
/// Bytes of a runner's last words that are told at most.
const TOLD_BYTES: usize = 64 << 10;

/// Carries out a lab's orders in a folder, one after the other, until the lab is gone. If another lab far away is
/// connected to the board, `patience` is how long its end is waited for. With `own_mounts`, nobody else sees what is
/// mounted.
///
/// # Errors
/// `ErrorKind::Board` if the folder cannot be used, another lab is at work, or what comes from the lab is damaged.
pub fn serve(folder: &Path, patience: Duration, own_mounts: bool) -> Result<()> {
    // A lab on this machine may have started it: it would be killed with the lab, before it has put things in order.
    let kept = || "cannot outlive the lab".to_owned();
    rustix::process::set_parent_process_death_signal(None).board(kept)?;
    let waited = beating(|| alone(patience), || Frame::Beat.send(&mut std::io::stdout()));
    let served = waited.and_then(|alone| alone).and_then(|_lock| {
        // If all of a runner's processes were killed at once, nobody was left to end what its command had started.
        beating(end_orphans, || Frame::Beat.send(&mut std::io::stdout()))?;
        // What a runner that was killed has set is put back before anything else.
        let left = journals()?;
        beating(|| restore_left(&left), || Frame::Beat.send(&mut std::io::stdout()))??;
        // That of a run on this machine looks alike, and is ended by the next lab if it is left.
        if let Some(_nobody_measures) = Alone::now(MACHINE)? {
            pocketstone_probe::traced::end_left();
        }
        pocketstone_probe::remove_left_instances();
        remove_others(folder)?;
        if !own_mounts {
            return Lab::greet().and_then(|mut lab| orders(&mut lab, folder));
        }
        // What is mounted is gone with this process then, however it ends, and nobody else sees it meanwhile.
        unshare_mounts()?;
        let mount_point = folder.join(MOUNT_FOLDER);
        release(&mount_point, folder)?;
        let served = Lab::greet().and_then(|mut lab| orders(&mut lab, folder));
        served.and(release(&mount_point, folder))
    });
    if let Err(error) = &served {
        let hint = error.cure().map(|cure| format!("; {cure}")).unwrap_or_default();
        let _ = Frame::Failed(format!("{}{hint}", error.chain())).send(&mut std::io::stdout());
    }
    served
}

/// Does what may take longer than a lab waits in silence: `beat` says meanwhile that this side is there.
fn beating<T: Send>(act: impl FnOnce() -> T + Send, mut beat: impl FnMut() -> Result<()>) -> Result<T> {
    let (tell, ended) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || tell.send(act()));
        loop {
            match ended.recv_timeout(BEAT) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => beat()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::bug("a thread ended without a word")),
            }
        }
    })
}

fn unshare_mounts() -> Result<()> {
    let failed = || "cannot keep mounts apart".to_owned();
    let cure = "raw flash requires root: set `become` in the board's profile";
    // SAFETY: neither the table of descriptors nor anything else that other code relies on is unshared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.board(failed).map_err(|e| e.hint(cure))?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC).board(failed)
}

/// Keeps a second lab away that is not on this machine, whatever folder it has. With one here, cells take turns.
fn alone(patience: Duration) -> Result<Alone> {
    let begin = Instant::now();
    loop {
        match Alone::now(FAR_LAB)? {
            Some(alone) => return Ok(alone),
            None if begin.elapsed() < patience => std::thread::sleep(AGAIN),
            None => {
                return Err(Error::board("another lab is at work on this board").hint("wait until it has ended"));
            }
        }
    }
}

fn orders(lab: &mut Lab, folder: &Path) -> Result<()> {
    let (cell, mut turn) = (folder.join("cell"), None);
    loop {
        empty_folder(&cell)?;
        let Some(given) = order(lab, &cell, &mut turn)? else { break };
        let Some(replied) = carry_out(lab, &cell)? else { break };
        match replied {
            Ok(()) => reply(lab, &cell, &given)?,
            Err(why) => lab.tell(&Frame::Failed(why))?,
        }
    }
    fs::remove_dir_all(&cell).board(|| format!("cannot remove {}", cell.display()))
}

/// Removes the runners of earlier versions: while others are kept away, nobody uses them.
fn remove_others(folder: &Path) -> Result<()> {
    let failed = || format!("cannot list {}", folder.display());
    let own = std::env::current_exe().board(|| "cannot find the path of this program".into())?;
    for entry in fs::read_dir(folder).board(failed)? {
        let path = entry.board(failed)?.path();
        // One that is being copied has the copying shell's number behind a point; such a shell may have died.
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let copied =
            |shell: &str| shell.parse::<u32>().is_ok_and(|shell| Path::new(&format!("/proc/{shell}")).exists());
        let in_use =
            name.split_once('.').is_some_and(|(_, shell)| copied(shell)) || path.file_name() == own.file_name();
        if name.starts_with("runner-") && !in_use {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// Takes the files of an order; their names, or `None` if the lab is gone. Before the first one, the lab may have
/// copies of journals that this board has lost. `turn` is what keeps others from measuring, while the lab wants that.
fn order(lab: &mut Lab, cell: &Path, turn: &mut Option<Alone>) -> Result<Option<BTreeSet<String>>> {
    let (mut given, mut inbox, mut put_back) = (BTreeSet::new(), Inbox::new(cell), None);
    loop {
        let frame = match lab.wait() {
            Event::Said(frame) => frame?,
            Event::Gone => return Ok(None),
            Event::Ended => return Err(Error::bug("an order ended that nobody gave")),
            Event::Alone(_) => return Err(Error::bug("the machine was taken for nobody")),
            // The last words of a child that was killed.
            Event::Told(_) => continue,
        };
        if let Frame::File(name, _) = &frame {
            given.insert(name.clone());
        }
        match inbox.take(frame)? {
            // Files that come slowly, or are written slowly, are no silence.
            None => lab.beat()?,
            Some(Frame::Go) => return Ok(Some(given)),
            Some(Frame::Take) => {
                if turn.is_none() {
                    let Some(alone) = take(lab)? else { return Ok(None) };
                    *turn = Some(alone);
                }
                lab.tell(&Frame::Taken)?;
            }
            Some(Frame::Release) => *turn = None,
            Some(Frame::Left(journal, lines)) => {
                let folder = journals()?;
                beating(|| restore_copy(&folder, &journal, &lines), || lab.beat())??;
                lab.tell(&Frame::PutBack(journal.clone()))?;
                put_back = Some(journal);
            }
            // Or the answer to a child that was killed.
            Some(Frame::Noted) => {
                if let Some(journal) = put_back.take() {
                    forget_restored(&journals()?.join(journal));
                }
            }
            Some(other) => return Err(Error::board(format!("the lab says what only a runner may: {other:?}"))),
        }
    }
}

/// Keeps others on the machine from measuring, once they have ended their cell. `None` if the lab is gone: who is
/// interrupted while it waits is not in the way of the next one.
fn take(lab: &mut Lab) -> Result<Option<Alone>> {
    if let Some(alone) = Alone::now(MACHINE)? {
        return Ok(Some(alone));
    }
    lab.tell(&Frame::Waits(WAITS.into()))?;
    lab.await_alone(MACHINE);
    loop {
        match lab.next() {
            None => lab.beat()?,
            Some(Event::Alone(alone)) => return alone.map(Some),
            Some(Event::Gone) => return Ok(None),
            // The last words of a child that was killed.
            Some(Event::Told(_)) => {}
            Some(Event::Ended) => return Err(Error::bug("an order ended that nobody gave")),
            Some(Event::Said(frame)) => {
                return Err(Error::board(format!("the lab says what it must not before its turn: {:?}", frame?)));
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
    let (mut own, theirs) = UnixStream::pair().board(|| "cannot make a socket".into())?;
    let mut command = Command::new(program);
    command.arg("order").args([&cell.join("order.json"), cell]).arg(COPIED).stdin(OwnedFd::from(theirs));
    command.stdout(log.try_clone().board(|| "cannot share a file".into())?).stderr(log);
    pocketstone_engine::end_with_this_process(&mut command);
    let mut child = Ending(command.spawn().board(|| "cannot start the runner for an order".into())?);
    // It has the other end of the socket.
    drop(command);
    lab.hear(own.try_clone().board(|| "cannot share a socket".into())?);
    lab.await_end(&child.0);
    loop {
        match lab.next() {
            None => lab.beat()?,
            Some(Event::Gone) => return Ok(None),
            Some(Event::Alone(_)) => return Err(Error::bug("the machine was taken for nobody")),
            Some(Event::Ended) => {
                let status = child.0.wait().board(|| "cannot wait for an order".into())?;
                let words = fs::read(&errors).unwrap_or_default();
                let words = String::from_utf8_lossy(&words[words.len().saturating_sub(TOLD_BYTES)..]).into_owned();
                return Ok(Some(match status.success() {
                    true => Ok(()),
                    false => Err(format!("the runner ended with {status}: {}", words.trim())),
                }));
            }
            Some(Event::Told(said)) => lab.tell(&match said {
                Said::Setting { journal, line } => Frame::Setting(journal, line),
                Said::PutBack { journal } => Frame::PutBack(journal),
            })?,
            // That nobody hears it is noticed by who waits for its end.
            Some(Event::Said(Ok(Frame::Noted))) => drop(own.write_all(&[NOTED])),
            Some(Event::Said(frame)) => {
                return Err(Error::board(format!("the lab says what it must not during an order: {:?}", frame?)));
            }
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
        if entry.file_type().board(failed)?.is_file() && !given.contains(&*entry.file_name().to_string_lossy()) {
            files.push(entry.path());
        }
    }
    files.sort();
    for path in files {
        for piece in pieces(&path)? {
            lab.tell(&piece?)?;
        }
    }
    lab.tell(&Frame::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_removed_is_said_and_not_that_it_is_there() {
        let file = std::env::temp_dir().join(format!("pocketstone-serve-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let error = empty_folder(&file).unwrap_err();
        assert!(error.message().contains("cannot remove") && error.cure().is_some(), "{}", error.chain());
        fs::remove_file(&file).unwrap();
        empty_folder(&file).unwrap();
        empty_folder(&file).unwrap();
        fs::remove_dir(&file).unwrap();
    }

    #[test]
    fn what_takes_long_is_done_while_the_lab_hears_of_this_side() {
        let (beats, heard) = channel();
        let done = beating(move || heard.recv().is_ok(), || beats.send(()).board(|| "nobody hears it".into()));
        assert!(done.unwrap());
        assert_eq!(beating(|| 3, || Err(Error::bug("there is no need"))).unwrap(), 3);
    }
}
