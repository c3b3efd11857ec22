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

/// The number of the process that [`SERVER`] says, if it is of this namespace: others may be anybody's here.
fn number_in(said: &str, namespace: u64) -> Option<u32> {
    let (number, theirs) = said.split_once(' ')?;
    // An older server says it as the kernel does: pid:[4026531836].
    let theirs = theirs.strip_prefix("pid:[").map_or(Some(theirs), |theirs| theirs.strip_suffix(']'))?;
    number.parse().ok().filter(|_| theirs == namespace.to_string())
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
        let number = number_in(std::str::from_utf8(value.get(..bytes)?).ok()?, number_namespace()?)?;
        let process = Process::numbered(number).ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_of_themselves_is_understood() {
        let own = this();
        let own = number_in(std::str::from_utf8(&own).unwrap(), number_namespace().unwrap());
        assert_eq!(own, Some(std::process::id()));
        for said in ["7 4026531836", "7 pid:[4026531836]"] {
            assert_eq!(number_in(said, 4_026_531_836), Some(7), "{said}");
        }
        for other in ["7 4026531837", "7 pid:[4026531837]", "7 pid:[4026531836", "7", "x 4026531836", ""] {
            assert_eq!(number_in(other, 4_026_531_836), None, "{other}");
        }
    }
}
