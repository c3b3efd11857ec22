//! Settings of this machine that are put back however a cell ends.

use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_probe::Settings;
use pocketstone_probe::settings::{JOURNAL_ENDING, restore_left};
use std::path::PathBuf;

/// Where the journals of changed settings are. They need not outlive a reboot: no setting does.
fn journals() -> PathBuf {
    std::env::temp_dir().join("pocketstone-settings")
}

/// Settings with a watchdog; what an earlier process and its watchdog left is put back first.
///
/// # Errors
/// When the watchdog cannot be started.
pub fn guarded_settings() -> Result<Settings> {
    let folder = journals();
    std::fs::create_dir_all(&folder).board(|| format!("cannot create {}", folder.display()))?;
    restore_left(&folder)?;
    let program = std::env::current_exe().board(|| "this program does not know where it is".into())?;
    Settings::guarded(&program, &folder.join(format!("{}.{JOURNAL_ENDING}", std::process::id())))
}
