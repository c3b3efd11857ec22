//! The process that serves a mount, as another process finds it.

use crate::holders;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// An extended attribute of a mount's root directory, stored nowhere: the process that serves it.
pub(crate) const SERVER: &str = "user.pocketstone.server";

/// The namespace that process numbers are of.
fn namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned())
}

/// What [`SERVER`] says in this process.
pub(crate) fn this() -> Vec<u8> {
    format!("{} {}", std::process::id(), namespace().unwrap_or_default()).into_bytes()
}

/// The process that serves a mount, also when its number has come to mean another one.
pub struct Server {
    process: OwnedFd,
    device: u64,
}

impl Server {
    /// The one that serves what is mounted at a directory. `None` if it does not say, or cannot be seen from here.
    pub fn of(directory: &Path) -> Option<Server> {
        let mut value = [0; 128];
        let bytes = rustix::fs::getxattr(directory, SERVER, &mut value[..]).ok()?;
        let (number, theirs) = std::str::from_utf8(value.get(..bytes)?).ok()?.split_once(' ')?;
        // A number of another namespace may be anybody's here.
        if namespace().as_deref() != Some(theirs) {
            return None;
        }
        let pid = Pid::from_raw(number.parse().ok()?)?;
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Server { process, device: rustix::fs::stat(directory).ok()?.st_dev })
    }

    /// The other mount namespaces in which the file system is still mounted, in words.
    pub fn elsewhere(&self) -> Vec<String> {
        holders::elsewhere(self.device).iter().map(ToString::to_string).collect()
    }

    /// Waits until it has ended, and so closed its volume; whether it has within this time.
    pub fn ended(&self, timeout: Duration) -> bool {
        let start = Instant::now();
        loop {
            let left = Timespec::try_from(timeout.saturating_sub(start.elapsed())).ok();
            match poll(&mut [PollFd::new(&self.process, PollFlags::IN)], left.as_ref()) {
                Err(Errno::INTR) => {}
                events => return events.is_ok_and(|events| events > 0),
            }
        }
    }

    /// Asks it to end; nothing happens if it has.
    pub fn end(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process, Signal::TERM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn an_end_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let server = Server { process, device: 0 };
        assert!(!server.ended(Duration::ZERO) && !server.ended(Duration::from_millis(5)));
        drop(child.stdin.take());
        assert!(server.ended(Duration::from_secs(60)));
        // Also when nobody is left to be asked.
        child.wait().unwrap();
        assert!(server.ended(Duration::ZERO));
    }
}
