//! What a command leaves running: ended, however it was started.

use pocketstone_process::number_namespace;
use procfs::ProcError;
use procfs::process::{ProcState, Process, all_processes};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// How long what is killed may take to end: what waits for a device ends with that, which may write back for long.
const LIMIT: Duration = Duration::from_secs(45);
/// How often it is looked whether what was killed has ended.
const LOOK: Duration = Duration::from_millis(1);

/// Kills this process's children, and theirs, which become this one's as soon as their parents end. The names of those
/// that ran, and of those that did not end in time: this process may not kill them, or they wait for a device.
///
/// Children are reaped by nobody else meanwhile: until then their numbers are theirs.
pub(super) fn end_children() -> (BTreeSet<String>, BTreeSet<String>) {
    let (begin, mut killed, mut names) = (Instant::now(), HashSet::new(), BTreeSet::new());
    while reap_ended(&mut killed) {
        let remaining = remaining();
        let lasting = || remaining.iter().map(|(_, name, _)| name.clone()).collect();
        if begin.elapsed() > LIMIT {
            return (names, lasting());
        }
        let mut any_new = false;
        for (child, name, seems_ended) in &remaining {
            let _ = kill_process(*child, Signal::KILL);
            if killed.insert(*child) && !seems_ended {
                any_new = true;
                names.insert(name.clone());
            }
        }
        // What starts itself anew all the time must not win the time of a nap.
        if !any_new {
            std::thread::sleep(LOOK);
        }
    }
    (names, BTreeSet::new())
}

/// Reaps the children that have ended; whether there are others.
fn reap_ended(killed: &mut HashSet<Pid>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            // Its number may become another's.
            Ok(Some((child, _))) => drop(killed.remove(&child)),
            Ok(None) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// The children that are not reaped, with their names, and whether they seem to have ended: of a process whose first
/// thread has, others may go on.
fn remaining() -> Vec<(Pid, String, bool)> {
    let named = |child: i32| {
        let stat = Process::new(child).and_then(|process| process.stat()).ok()?;
        let seems_ended = matches!(stat.state(), Ok(ProcState::Zombie | ProcState::Dead));
        Some((Pid::from_raw(child)?, stat.comm, seems_ended))
    };
    children().into_iter().filter_map(named).collect()
}

/// In the environment of a command on a machine that outlives it: which runner has started it, by the namespace of its
/// number, that number, and when it began in clock ticks since boot. It is of one length, as a stack begins below it.
pub const RUNNER_VARIABLE: &str = "POCKETSTONE_RUNNER";

/// What [`RUNNER_VARIABLE`] says of a process; `None` where the kernel does not.
fn identity(process: &Process) -> Option<String> {
    let began = process.stat().ok()?.starttime;
    Some(format!("{:010}-{:010}-{began:020}", number_namespace()?, process.pid))
}

/// What [`RUNNER_VARIABLE`] is in commands of this process; `None` where the kernel does not say who it is.
pub fn own_identity() -> Option<String> {
    identity(&Process::myself().ok()?)
}

/// Kills what commands have left whose runners and keepers were killed, and waits until it has ended. What this process
/// may not kill stays.
pub fn end_orphans() {
    let (begin, mut killed) = (Instant::now(), Vec::new());
    loop {
        // What a dying one has just started is found the next time.
        let orphans = all_processes().into_iter().flatten().flatten().filter(is_orphan);
        let found = orphans
            .filter(|process| Pid::from_raw(process.pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()));
        let before = killed.len();
        killed.extend(found);
        let found_any = killed.len() > before;
        killed.retain(Process::is_alive);
        if (!found_any && killed.is_empty()) || begin.elapsed() > LIMIT {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether a command has left a process: its runner, whose number means the same here, has ended.
fn is_orphan(process: &Process) -> bool {
    let Ok(environment) = process.environ() else { return false };
    let Some(runner) = environment.get(OsStr::new(RUNNER_VARIABLE)).and_then(|runner| runner.to_str()) else {
        return false;
    };
    let mut parts = runner.split('-').map(|part| part.parse::<u64>().ok());
    let (Some(Some(namespace)), Some(Some(pid))) = (parts.next(), parts.next()) else { return false };
    let Ok(pid) = i32::try_from(pid) else { return false };
    number_namespace() == Some(namespace)
        && match Process::new(pid) {
            Ok(process) => identity(&process).is_some_and(|now| now != runner),
            Err(error) => matches!(error, ProcError::NotFound(_)),
        }
}

/// The numbers of this process's children.
fn children() -> Vec<i32> {
    // The kernel's own list is quicker to read than a program starts another, but not every kernel has it.
    listed().unwrap_or_else(|| {
        let own = getpid().as_raw_pid();
        let all = all_processes().into_iter().flatten().flatten().filter_map(|process| process.stat().ok());
        all.filter(|stat| stat.ppid == own).map(|stat| stat.pid).collect()
    })
}

/// As the kernel lists them, by thread.
fn listed() -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in Process::myself().ok()?.tasks().ok()? {
        found.extend(thread.ok()?.children().ok()?.into_iter().map(|child| child as i32));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn what_a_command_left_whose_runner_has_ended_is_ended_and_nothing_else_is() {
        let own = own_identity().unwrap();
        // It had this process's number before.
        let (rest, began) = own.rsplit_once('-').unwrap();
        let gone = format!("{rest}-{:020}", began.parse::<u64>().unwrap() - 1);
        let elsewhere = format!("{:010}-{}", 1, gone.split_once('-').unwrap().1);
        let begun = |runner: &str| {
            let mut sleep = Command::new("sleep");
            sleep.arg("1000").env(RUNNER_VARIABLE, runner).spawn().unwrap()
        };
        let mut left = begun(&gone);
        let mut others = [own.as_str(), &elsewhere, "", "1-x", &gone.replace('-', "")].map(begun);
        end_orphans();
        assert_eq!(left.try_wait().unwrap().and_then(|status| status.signal()), Some(9));
        for other in &mut others {
            assert!(other.try_wait().unwrap().is_none());
            other.kill().unwrap();
            other.wait().unwrap();
        }
        assert_eq!(own.len(), gone.len());
    }
}
