//! The process that serves a mount, as another process finds it.

use crate::holders;
use pocketstone_process::{Process, number_namespace};
use std::path::Path;
use std::time::Duration;

/// An extended attribute of a mount's root directory, stored nowhere: the process that serves it.
pub(crate) const SERVER: &str = "user.pocketstone.server";

/// What [`SERVER`] says in this process.
pub(crate) fn this() -> Vec<u8> {
    format!("{} {}", std::process::id(), number_namespace().unwrap_or_default()).into_bytes()
}

/// The process that serves a mount, also when its number has come to mean another one.
pub struct Server {
    process: Process,
    device: u64,
}

impl Server {
    /// The one that serves what is mounted at a directory. `None` if it does not say, or cannot be seen from here.
    pub fn of(directory: &Path) -> Option<Server> {
        let mut value = [0; 128];
        let bytes = rustix::fs::getxattr(directory, SERVER, &mut value[..]).ok()?;
        let (number, theirs) = std::str::from_utf8(value.get(..bytes)?).ok()?.split_once(' ')?;
        // A number of another namespace may be anybody's here.
        if number_namespace()?.to_string() != theirs {
            return None;
        }
        let process = Process::numbered(number.parse().ok()?).ok()?;
        Some(Server { process, device: rustix::fs::stat(directory).ok()?.st_dev })
    }

    /// The other mount namespaces in which the file system is still mounted, in words.
    pub fn elsewhere(&self) -> Vec<String> {
        holders::elsewhere(self.device).iter().map(ToString::to_string).collect()
    }

    /// Waits until it has ended, and so closed its volume; whether it has within this time.
    pub fn ended(&self, timeout: Duration) -> bool {
        self.process.has_ended_within(timeout)
    }

    /// Asks it to end; nothing happens if it has.
    pub fn end(&self) {
        self.process.terminate();
    }
}
