//! What a command leaves running: ended, however it was started.

use procfs::process::{ProcState, Process, all_processes};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
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

/// Kills the processes of commands whose keepers were killed as well, and waits until they have ended: those that work
/// in `folder` or below it, have no terminal, and are nobody's. What cannot be killed is left to who needs the folder.
pub fn end_orphans(folder: &Path) {
    // As the kernel names it.
    let Ok(folder) = folder.canonicalize() else { return };
    let is_orphan = |process: &Process| {
        process.pid != getpid().as_raw_pid()
            && process.cwd().is_ok_and(|at| at.starts_with(&folder))
            && is_nobodys(process)
    };
    let begin = Instant::now();
    loop {
        // What a dying one has just started is found the next time.
        let orphans = all_processes().into_iter().flatten().flatten().filter(is_orphan);
        let killed = orphans.filter_map(|process| kill_process(Pid::from_raw(process.pid)?, Signal::KILL).ok()).count();
        if killed == 0 || begin.elapsed() > LIMIT {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether a process has no terminal, and its parent has ended, or the first process of its session has: commands lead
/// a session each.
fn is_nobodys(process: &Process) -> bool {
    let Ok(stat) = process.stat() else { return false };
    stat.tty_nr == 0 && (stat.ppid == 1 || Process::new(stat.session).is_err())
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
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    /// A shell in a folder, as the first process of a session, with what it says first.
    fn begun(folder: &Path, line: &str) -> (Child, String) {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(folder).stdout(Stdio::piped());
        // SAFETY: between fork and exec it makes one system call, allocates nothing and takes no lock.
        unsafe { shell.pre_exec(|| rustix::process::setsid().map(drop).map_err(std::io::Error::from)) };
        let mut shell = shell.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut said).unwrap();
        (shell, said.trim().to_owned())
    }

    fn runs(pid: &str) -> bool {
        let stat = pid.parse().ok().and_then(|pid| Process::new(pid).ok()?.stat().ok());
        stat.is_some_and(|stat| stat.state != 'Z')
    }

    #[test]
    fn what_a_killed_command_left_in_the_folder_is_ended_and_nothing_else_is() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let below = folder.path().join("cell");
        std::fs::create_dir(&below).unwrap();
        let line = "sleep 1000 >&2 & echo $!; wait";
        let (mut killed, left) = begun(&below, line);
        let (mut far, far_left) = begun(elsewhere.path(), line);
        let (mut alive, alive_child) = begun(&below, line);
        for shell in [&mut killed, &mut far] {
            shell.kill().unwrap();
            shell.wait().unwrap();
        }
        end_orphans(folder.path());
        let ran = [&left, &far_left, &alive_child].map(|pid| runs(pid));
        alive.kill().unwrap();
        alive.wait().unwrap();
        // Its child's session has lost its leader now.
        end_orphans(&below);
        end_orphans(elsewhere.path());
        assert_eq!((ran, [&far_left, &alive_child].map(|pid| runs(pid))), ([false, true, true], [false, false]));
    }
}
