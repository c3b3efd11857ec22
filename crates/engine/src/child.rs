//! Processes that must not outlive the one that starts them.

use crate::clock::now_ns;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, set_parent_process_death_signal, waitid};
use std::io::Error;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

/// Has the kernel kill what `command` starts as soon as the thread that starts it ends: at the latest with this
/// process, however that ends. What is started after that ends before it has begun.
pub fn end_with_this_process(command: &mut Command) {
    let parent = getpid();
    let die_with_parent = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended between fork and here, and the kernel says so once.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error())),
        }
    };
    // SAFETY: between fork and exec it makes system calls that are async-signal-safe, allocates nothing and takes no
    // lock.
    unsafe { command.pre_exec(die_with_parent) };
}

/// Has `then` called in a thread of its own when a child has ended, with the time in ns of CLOCK_MONOTONIC. The child
/// remains to be waited for.
pub fn at_end(child: &Child, then: impl FnOnce(u64) + Send + 'static) {
    // Not by a descriptor of the process: kernels of many boards are older than these.
    let child = Pid::from_child(child);
    std::thread::spawn(move || {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(child), how) {}
        then(now_ns());
    });
}

/// Lines and bytes of a program's output that a message shows at most.
const SHOWN_LINES: usize = 8;
const SHOWN_BYTES: usize = 2000;

/// The last lines of what a program wrote, for a message; `None` if it wrote nothing.
pub(crate) fn last_words(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&output[output.len().saturating_sub(SHOWN_BYTES)..]);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    (!lines.is_empty()).then(|| lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" / "))
}

/// How a program ended, in words.
pub(crate) fn how_it_ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, code) => format!("exited with status {}", code.unwrap_or(-1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_lives_while_its_parent_does() {
        let mut command = Command::new("true");
        end_with_this_process(&mut command);
        assert!(command.status().unwrap().success());
    }

    #[test]
    fn the_end_of_a_child_is_told_and_the_child_is_there_yet() {
        let mut child = Command::new("sleep").arg("0.2").spawn().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let begin = now_ns();
        at_end(&child, move |end_ns| tell.send(end_ns).unwrap());
        assert!(told.recv().unwrap() - begin >= 100_000_000);
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_child_whose_parent_has_ended_does_not_begin() {
        // Made here and started by a process that comes from this one: as if this one had not been its parent.
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("begun");
        let mut grandchild = Command::new("touch");
        grandchild.arg(&mark);
        end_with_this_process(&mut grandchild);
        let mut child = Command::new("true");
        // SAFETY: the C library keeps its heap usable in the child; nothing else is shared with other threads here.
        unsafe { child.pre_exec(move || grandchild.status().map(drop)) };
        let refused = child.status().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::SRCH.raw_os_error()));
        assert!(!mark.exists());
    }
}
