//! Temporary folders, of cells above all: each has its process in its name, so that what a killed one has left can be
//! told.

use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_probe::left::{namespace, runs};
use pocketstone_probe::own_folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// What the processes of another PID namespace left is not known to be left: it is, after so long.
const LEFT: Duration = Duration::from_secs(7 * 24 * 3600);

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
    let prefix = format!("cell-{}-{}-", std::process::id(), namespace());
    let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
    made.board(|| format!("cannot create a temporary folder in {}", parent.display()))
}

/// Whether nobody has a folder any more that has this name and is so old; `runs`: whether a process of this namespace
/// does.
fn is_left(name: &str, own: u64, age: Duration, runs: impl Fn(&str) -> bool) -> bool {
    let Some(words) = name.strip_prefix("cell-").map(|words| words.split('-').collect::<Vec<_>>()) else {
        return false;
    };
    match words[..] {
        [pid, namespace, _] if namespace.parse() == Ok(own) => !runs(pid),
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
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|found| found.modified());
        let age = changed.ok().and_then(|changed| changed.elapsed().ok()).unwrap_or_default();
        if is_left(&entry.file_name().to_string_lossy(), namespace(), age, runs) {
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
            ("cell-12-4026-AbCdEf", hour, false),
            ("cell-13-4026-AbCdEf", hour, true),
            ("cell-13-4027-AbCdEf", hour, false),
            ("cell-12-4027-AbCdEf", LEFT + hour, true),
            ("cell-13-AbCdEf", hour, false),
            ("cell-13-AbCdEf", LEFT + hour, true),
            ("another", LEFT + hour, false),
        ] {
            assert_eq!(is_left(name, 4026, age, runs), expected, "{name} after {age:?}");
        }
    }

    #[test]
    fn what_a_killed_process_has_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let own = folder(parent.path()).unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let left = parent.path().join(format!("cell-{}-{}-AbCdEf", gone.id(), namespace()));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("order.json"), "").unwrap();
        remove_left(parent.path());
        assert!(own.path().exists() && !left.exists());
    }
}
