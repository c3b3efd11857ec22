//! Processes that must not outlive the one that starts them.

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::io::Error;
use std::os::unix::process::CommandExt;
use std::process::Command;

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
