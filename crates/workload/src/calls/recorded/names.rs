//! Names for files of any folders in the one folder of a workload.

use super::{PathId, Recorded};
use std::collections::{BTreeSet, HashMap};

/// Longest name of a replayed file, so that a number still fits behind it.
const MOST_NAME_BYTES: usize = 200;

/// Names in the one folder that all files are in.
pub(super) struct Names {
    /// The folder that all kept files have in common.
    pub(super) common: String,
    given: HashMap<PathId, String>,
    used: BTreeSet<String>,
    /// The number to try next behind a name that more than one path has.
    next: HashMap<String, u32>,
}

impl Names {
    pub(super) fn new(recorded: &Recorded, kept: &[bool]) -> Names {
        let files = (0..kept.len()).filter(|path| kept[*path] && !recorded.folders.contains(path));
        let mut folders = files.map(|path| recorded.text(path).rsplit_once('/').map_or("", |(folder, _)| folder));
        let first = folders.next().unwrap_or_default();
        let below = |folder: &str, above: &str| {
            folder.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let common = folders.fold(first, |common, folder| {
            let mut common = common;
            while !common.is_empty() && !below(folder, common) {
                common = common.rsplit_once('/').map_or("", |(above, _)| above);
            }
            common
        });
        Names { common: common.to_owned(), given: HashMap::new(), used: BTreeSet::new(), next: HashMap::new() }
    }

    /// A path below the common folder, with `%` for slashes; a number makes it one that no other has.
    pub(super) fn of(&mut self, recorded: &Recorded, path: PathId) -> String {
        if let Some(name) = self.given.get(&path) {
            return name.clone();
        }
        let text = recorded.text(path);
        let rest = text.strip_prefix(self.common.as_str()).unwrap_or(text).trim_start_matches('/');
        let plain = |c: char| if c == '/' || c.is_control() { '%' } else { c };
        let mut name: String = rest.chars().map(plain).collect();
        while name.len() > MOST_NAME_BYTES {
            name.pop();
        }
        let bare = if ["", ".", ".."].contains(&name.as_str()) { "file".to_owned() } else { name };
        let number = self.next.entry(bare.clone()).or_insert(2);
        let mut name = bare.clone();
        while !self.used.insert(name.clone()) {
            name = format!("{bare}%{number}");
            *number += 1;
        }
        self.given.insert(path, name.clone());
        name
    }
}
