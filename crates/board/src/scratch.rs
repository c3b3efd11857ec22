//! Temporary folders, of cells above all: each has its process and the machine's boot in its name, so that what a
//! killed one has left can be told, also where machines share a folder.

use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_probe::left::{namespace, runs};
use pocketstone_probe::own_folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// What the processes of another boot, machine or PID namespace left is not known to be left: it is, after so long.
const LEFT: Duration = Duration::from_secs(7 * 24 * 3600);

/// So many digits tell one boot from another.
const BOOT_DIGITS: usize = 8;

/// What the folder of a user's temporary folders begins with.
const NAME: &str = "pocketstone-cells";

/// A temporary folder of this process, where the user has such: in `$TMPDIR`.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be created.
pub fn temporary_folder() -> Result<TempDir> {
    folder(&parent()?)
}

/// Where all of the user's are.
fn parent() -> Result<PathBuf> {
    own_folder(&std::env::temp_dir(), NAME)
}

/// A new one in `parent`.
pub(crate) fn folder(parent: &Path) -> Result<TempDir> {
    let prefix = format!("cell-{}-{}-", std::process::id(), own_place());
    let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
    made.board(|| format!("cannot create a temporary folder in {}", parent.display()))
}

/// Where this process's number says which it is: in its PID namespace, whose number is the same on many machines, since
/// the machine's boot. Empty if the kernel does not say which boot that is.
fn own_place() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.get(..BOOT_DIGITS).map_or_else(String::new, |boot| format!("{}-{boot}", namespace()))
}

/// Whether nobody has a folder any more that has this name and is so old; `runs`: whether a process at this place does.
fn is_left(name: &str, own_place: &str, age: Duration, runs: impl Fn(&str) -> bool) -> bool {
    let Some((pid, place)) = name.strip_prefix("cell-").and_then(|words| words.split_once('-')) else { return false };
    match place.rsplit_once('-') {
        Some((place, _)) if place == own_place && !own_place.is_empty() => !runs(pid),
        _ => age > LEFT,
    }
}

/// Removes the user's temporary folders whose process was killed before it could.
pub(crate) fn remove_left_temporary() {
    // Who makes one says why there is none.
    let _ = parent().map(|parent| remove_left(&parent));
}

/// Removes the folders in `parent` whose process was killed before it could.
pub(crate) fn remove_left(parent: &Path) {
    let own_place = own_place();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|found| found.modified());
        let age = changed.ok().and_then(|changed| changed.elapsed().ok()).unwrap_or_default();
        if is_left(&entry.file_name().to_string_lossy(), &own_place, age, runs) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_has_any_more_is_left() {
        let hour = Duration::from_secs(3600);
        let runs = |pid: &str| pid == "12";
        for (name, age, expected) in [
            ("cell-12-4026-0a1b2c3d-AbCdEf", hour, false),
            ("cell-12-4026-0a1b2c3d-AbCdEf", LEFT + hour, false),
            ("cell-13-4026-0a1b2c3d-AbCdEf", hour, true),
            // Of another namespace, and of another machine or boot.
            ("cell-13-4027-0a1b2c3d-AbCdEf", hour, false),
            ("cell-12-4027-0a1b2c3d-AbCdEf", LEFT + hour, true),
            ("cell-13-4026-5e6f7a8b-AbCdEf", hour, false),
            ("cell-12-4026-5e6f7a8b-AbCdEf", LEFT + hour, true),
            // As earlier versions and strange kernels make them.
            ("cell-13-4026-AbCdEf", hour, false),
            ("cell-13-4026-AbCdEf", LEFT + hour, true),
            ("cell-13--AbCdEf", hour, false),
            ("cell-13-AbCdEf", LEFT + hour, true),
            ("another", LEFT + hour, false),
        ] {
            assert_eq!(is_left(name, "4026-0a1b2c3d", age, runs), expected, "{name} after {age:?}");
        }
        assert!(!is_left("cell-13--AbCdEf", "", hour, runs), "a kernel that does not say");
    }

    #[test]
    fn what_a_killed_process_has_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let own = folder(parent.path()).unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let left = parent.path().join(format!("cell-{}-{}-AbCdEf", gone.id(), own_place()));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("order.json"), "").unwrap();
        remove_left(parent.path());
        assert!(own.path().exists() && !left.exists());
    }
}
