//! What a command leaves running: ended, however it was started.

use procfs::process::{ProcState, Process, all_processes};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};
use std::collections::{BTreeSet, HashSet};
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
