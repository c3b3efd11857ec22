//! Database engines, which execute prepared workloads. [`load`] and [`Session`] open engines that are libraries; a
//! [`Process`] runs any engine in a separate process, which executes [`serve`].

mod atomic;
#[cfg(all(feature = "bdb", not(target_feature = "crt-static")))]
mod bdb;
mod calls;
mod hints;
pub mod java;
mod key_value;
mod lmdb;
mod null;
mod pragma;
mod process;
mod record;
mod redb;
mod region;
mod run;
mod serve;
mod session;
mod sqlite;
mod sqlite_api;
mod survived;
mod task;
#[cfg(test)]
mod tests;

pub use hints::Informs;
pub use process::Process;
pub use run::Measured;
pub use serve::{serve, serve_informing};
pub use session::{Session, failing, load, reference, sync_folder};
pub use survived::{Inspected, inspect, inspect_rows, states};
pub use task::{Task, TaskResult, Work};

use pocketstone_core::database::{Configuration, DatabaseEngine};
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{ResultDigest, Step, Trace};
use std::ffi::CStr;
use std::path::Path;
use std::process::Command;

/// Executes the steps of a workload. Preparation is over when one exists; `execute` is what gets timed.
trait Database {
    /// Executes a step, number `number` of those that it was opened for, and gives everything that it
    /// returns to the digest.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the engine fails; `ErrorKind::User` if the step does not suit its statement. The run ends
    /// then.
    fn execute(&mut self, number: usize, step: &Step, digest: &mut ResultDigest) -> Result<()>;
}

/// Most characters of a statement in a message.
const SHOWN_CHARACTERS: usize = 200;

/// A statement for a message, cut where it is long.
fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// An engine's name and version, such as `SQLite 3.50.2`.
///
/// # Errors
/// `ErrorKind::Board` if the engine is not available on this machine, with the fix as its hint.
pub fn available(engine: DatabaseEngine) -> Result<String> {
    match engine {
        DatabaseEngine::Sqlite => {
            // SAFETY: a text that is never freed.
            let version = unsafe { CStr::from_ptr((sqlite_api::BUNDLED.libversion)()) };
            Ok(format!("SQLite {}", version.to_string_lossy()))
        }
        DatabaseEngine::Bdb => bdb_version(),
        DatabaseEngine::H2 => java::available(),
        DatabaseEngine::Lmdb => Ok(lmdb::version()),
        DatabaseEngine::Redb => Ok(redb::VERSION.to_owned()),
        DatabaseEngine::Null => Ok("no database".to_owned()),
    }
}

/// Refuses a configuration that an engine does not have. What SQLite and Berkeley DB take is known only once they run.
///
/// # Errors
/// `ErrorKind::User` for the first setting that it does not have, which it names.
pub fn accepts(engine: DatabaseEngine, configuration: &Configuration) -> Result<()> {
    match engine {
        DatabaseEngine::Lmdb => key_value::refuse(engine, configuration, lmdb::SETTINGS),
        DatabaseEngine::Redb => key_value::refuse(engine, configuration, redb::SETTINGS),
        DatabaseEngine::H2 => key_value::refuse(engine, configuration, java::SETTINGS),
        DatabaseEngine::Sqlite | DatabaseEngine::Bdb | DatabaseEngine::Null => Ok(()),
    }
}

/// Refuses a workload that an engine cannot run: SQL on one without it, a SQLite database file on another one.
///
/// # Errors
/// `ErrorKind::User`, which says what of the workload it is.
pub fn runs(engine: DatabaseEngine, trace: &Trace) -> Result<()> {
    match engine {
        DatabaseEngine::Lmdb | DatabaseEngine::Redb => key_value::check(engine, trace, trace.measured()),
        DatabaseEngine::Bdb | DatabaseEngine::H2 if !trace.image.is_empty() => {
            Err(Error::user(format!("{} cannot start from a SQLite database file", engine.name()))
                .hint("use engine = \"sqlite\" for this workload"))
        }
        _ => Ok(()),
    }
}

/// The command that starts an engine's process for the task in a file; `runner` is the program
/// `pocketstone-runner`, which serves the engines that are libraries.
///
/// # Errors
/// `ErrorKind::Board` if the machine lacks something that the engine requires.
pub fn command(engine: DatabaseEngine, runner: &Path, task_file: &Path) -> Result<Command> {
    match engine {
        DatabaseEngine::H2 => java::command(task_file),
        _ => {
            let mut command = Command::new(runner);
            command.arg("database").arg(task_file);
            Ok(command)
        }
    }
}

#[cfg(all(feature = "bdb", not(target_feature = "crt-static")))]
use bdb::{api as bdb_api, version as bdb_version};

#[cfg(not(all(feature = "bdb", not(target_feature = "crt-static"))))]
fn bdb_api() -> Result<&'static sqlite_api::SqliteApi> {
    Err(Error::board("this program is statically linked and cannot load Berkeley DB").hint("use engine = \"sqlite\""))
}

#[cfg(not(all(feature = "bdb", not(target_feature = "crt-static"))))]
fn bdb_version() -> Result<String> {
    bdb_api().map(|_| String::new())
}
