//! SQLite's own record of its file calls: what the kernel would tell of them, at a fraction of its cost and
//! with every file's name.
//!
//! The SQLite that is compiled in makes its system calls through a table that can be changed: open, close,
//! read, write, truncate and unlink go through [`hooks`], one record for each call that the kernel gets. It
//! has no entry for fsync: the virtual file system `pocketstone` sees to that, which is SQLite's own with
//! another `xSync`. The end of an atomic write (`super::atomic`), which syncs, is recorded as a sync. Locks (fcntl) and
//! `stat` are not recorded.

mod hooks;
mod log;

use log::Log;
use pocketstone_core::events::{EventLog, SystemCall};
use pocketstone_core::{Error, Result};
use std::ffi::c_int;
use std::sync::OnceLock;

/// What the process has; a hook without it is never called.
static INSTALLED: OnceLock<Installed> = OnceLock::new();

struct Installed {
    log: Log,
    original: hooks::Original,
}

/// The record of this process: there is one, and it stays until the process ends.
pub(super) struct Recording(&'static Installed);

/// Notes that a file was made durable by a call that is not fsync, if calls are recorded.
pub(super) fn synced(fd: c_int, start_ns: u64, result: i64) {
    if let Some(installed) = INSTALLED.get().filter(|installed| installed.log.begin().is_some()) {
        hooks::note(SystemCall::Sync, Some(start_ns), installed.log.of(fd), None, 0, result);
    }
}

impl Recording {
    /// Lets every file that SQLite opens from now on be known, with room for `calls` records. More cost a
    /// little more time each.
    ///
    /// # Errors
    /// `ErrorKind::Bug` if it is already installed, or SQLite refuses.
    pub(super) fn install(calls: usize) -> Result<Recording> {
        let original = hooks::Original::find()?;
        let mut first = false;
        let installed = INSTALLED.get_or_init(|| {
            first = true;
            Installed { log: Log::new(calls), original }
        });
        if !first {
            return Err(Error::bug("the log of SQLite's calls was installed twice"));
        }
        hooks::install()?;
        Ok(Recording(installed))
    }

    /// Records calls from here on.
    pub(super) fn start(&self) {
        self.0.log.switch(true);
    }

    /// Records no further call.
    pub(super) fn stop(&self) {
        self.0.log.switch(false);
    }

    /// What was recorded: each call's start and end, exact to the clock.
    pub(super) fn events(&self) -> EventLog {
        self.0.log.events()
    }
}
