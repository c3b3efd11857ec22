//! The keeper of a command: the process between a command and the runner.
//!
//! What the command starts and does not wait for becomes the keeper's child, in whatever session it is. So all of it
//! can be found when the command has ended, or when the runner has.

use super::gate::{ready, start, usage};
use super::left::end_children;
use crate::now_ns;
use pocketstone_core::database::Usage;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, ErrorKind, Result};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The runner's word for the keeper of a command.
pub const KEEPER: &str = "keeper";

/// What a keeper is told: to let the command go.
pub(super) const LET_GO: u8 = b'g';
/// To say how it ended, and to end what it left running.
pub(super) const TAKE: u8 = b't';

/// What a keeper says, one line of JSON for each.
#[derive(Serialize, Deserialize)]
pub(super) enum Told {
    /// A process waits in front of the command.
    InPlace { pid: u32 },
    /// The command has ended; when it began and when it had ended, in ns of CLOCK_MONOTONIC.
    Ended { start_ns: u64, end_ns: u64 },
    /// What became of it: its status, what it used, the names of those that it left running, and of those among them
    /// that could not be ended.
    Taken { status: i32, usage: Usage, left: BTreeSet<String>, lasting: BTreeSet<String> },
}

/// The keeper: stands by a command line, as the runner at the other end of standard input tells it. If that ends, it
/// kills whatever still runs.
///
/// # Errors
/// `ErrorKind::Board` if the command cannot be started or waited for; `ErrorKind::Interrupted` if the runner is gone.
pub fn keep(line: &str) -> Result<()> {
    let mut runner = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().board(|| "no runner".into())?);
    // It needs Linux 3.4: before, what a command leaves is the first process's.
    let _ = set_child_subreaper(Some(getpid()));
    let reaping = Arc::default();
    let told = listen(runner.try_clone().board(|| "cannot share a socket".into())?, &reaping);
    let kept = stand_by(line, &mut runner, &told, &reaping);
    if kept.is_err() {
        let _reaping = lock(&reaping);
        end_children();
    }
    kept
}

fn stand_by(line: &str, runner: &mut UnixStream, told: &Receiver<u8>, reaping: &Mutex<()>) -> Result<()> {
    let (command, mut gate) = start(line)?;
    let before = ready(&gate).ok_or_else(|| Error::board("the process in front of the command has ended"))?;
    say(runner, &Told::InPlace { pid: command.id() })?;
    await_word(told, LET_GO)?;
    let start_ns = now_ns();
    gate.write_all(b"\n").board(|| "the process in front of the command has ended".into())?;
    let end_ns = await_end(&command, reaping)?;
    say(runner, &Told::Ended { start_ns, end_ns })?;
    await_word(told, TAKE)?;
    let _reaping = lock(reaping);
    let (status, used) = take(&command)?;
    let (left, lasting) = end_children();
    say(runner, &Told::Taken { status, usage: less(&used, &before), left, lasting })
}

/// What the runner says. When it has ended, so do the command and what it started, and then this process.
fn listen(mut runner: UnixStream, reaping: &Arc<Mutex<()>>) -> Receiver<u8> {
    let (tell, told): (Sender<u8>, _) = channel();
    let reaping = Arc::clone(reaping);
    std::thread::spawn(move || {
        let mut word = [0];
        while runner.read_exact(&mut word).is_ok() {
            // Nobody may want to know it any more.
            let _ = tell.send(word[0]);
        }
        let _reaping = lock(&reaping);
        end_children();
        std::process::exit(0)
    });
    told
}

/// Who reaps children has this: nobody else does then, and their numbers are theirs.
fn lock(reaping: &Mutex<()>) -> MutexGuard<'_, ()> {
    reaping.lock().unwrap_or_else(PoisonError::into_inner)
}

fn await_word(told: &Receiver<u8>, expected: u8) -> Result<()> {
    match told.recv() {
        Ok(word) if word == expected => Ok(()),
        Ok(word) => Err(Error::bug(format!("a keeper is told {word}, not {expected}"))),
        Err(_) => Err(Error::new(ErrorKind::Interrupted, "nobody lets the command go")),
    }
}

fn say(runner: &mut UnixStream, what: &Told) -> Result<()> {
    let line = serde_json::to_string(what).map_err(|e| Error::bug("no JSON").because(e))? + "\n";
    runner.write_all(line.as_bytes()).board(|| "the runner of a command is gone".into())
}

/// Waits until the command has ended, in ns of CLOCK_MONOTONIC; its status remains to be taken. What it did not wait
/// for is reaped meanwhile: there may be much of it.
fn await_end(command: &Child, reaping: &Mutex<()>) -> Result<u64> {
    let command = Pid::from_child(command);
    loop {
        let ended = an_ended_child();
        let end_ns = now_ns();
        // Whoever has the lock while there is no child is about to end this process.
        let _reaping = lock(reaping);
        match ended.board(|| "the command cannot be waited for".into())? {
            Some(child) if child == command => return Ok(end_ns),
            Some(child) => drop(waitpid(Some(child), WaitOptions::NOHANG)),
            None => {}
        }
    }
}

/// Waits until a child has ended; it remains to be reaped. `None` where waiting was interrupted.
fn an_ended_child() -> std::io::Result<Option<Pid>> {
    let mut about = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the place is written to, and there for the call.
    let failed = unsafe { libc::waitid(libc::P_ALL, 0, about.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) } != 0;
    if failed {
        let error = std::io::Error::last_os_error();
        return if error.kind() == std::io::ErrorKind::Interrupted { Ok(None) } else { Err(error) };
    }
    // SAFETY: all of its bytes may be 0, and the kernel has filled in what it says of a child.
    let child = unsafe { about.assume_init().si_pid() };
    Ok(Pid::from_raw(child))
}

/// The command's status and what it used, once.
fn take(command: &Child) -> Result<(i32, Usage)> {
    let pid = Pid::from_child(command).as_raw_pid();
    let (mut status, mut used) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both are places that are written to, and there for the call.
    let ended = unsafe { libc::wait4(pid, &mut status, 0, used.as_mut_ptr()) };
    if ended != pid {
        return Err(Error::board("the command's exit status is lost").because(std::io::Error::last_os_error()));
    }
    // SAFETY: all of its bytes may be 0, and the kernel has filled it in.
    let used = unsafe { used.assume_init() };
    Ok((status, usage(&used)))
}

/// What a process has used since it had used something.
fn less(now: &Usage, before: &Usage) -> Usage {
    let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
    Usage {
        on_core_ns: less(now.on_core_ns, before.on_core_ns),
        kernel_ns: less(now.kernel_ns, before.kernel_ns),
        voluntary_switches: less(now.voluntary_switches, before.voluntary_switches),
        involuntary_switches: less(now.involuntary_switches, before.involuntary_switches),
        read_calls: None,
        write_calls: None,
        device_read_bytes: less(now.device_read_bytes, before.device_read_bytes),
        device_write_bytes: less(now.device_write_bytes, before.device_write_bytes),
        major_faults: less(now.major_faults, before.major_faults),
    }
}
