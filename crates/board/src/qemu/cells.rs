//! The folders of cells: each has its process in its name, so that what a killed one has left can be told.

use crate::BoardContext;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_probe::left::{namespace, runs};
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

/// What the processes of another PID namespace left is not known to be left: it is, after so long.
const LEFT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A new one.
pub(super) fn folder(context: &BoardContext) -> Result<TempDir> {
    let parent = context.cache.folder("cells")?;
    let prefix = format!("cell-{}-{}-", std::process::id(), namespace());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).board(|| "cannot create a cell's folder".into())
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

/// Removes the folders of cells whose process was killed before it could.
pub(super) fn remove_left(context: &BoardContext) {
    let Ok(entries) = context.cache.folder("cells").and_then(|f| fs::read_dir(f).board(String::new)) else {
        return;
    };
    for entry in entries.flatten() {
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
}
