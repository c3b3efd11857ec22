//! Everything that a file system shows, as plain data.

use crate::content::Content;
use pocketstone_vfs::FileType;
use std::collections::BTreeMap;

/// Last read, last change of the content, last change of the attributes; seconds.
pub type Times = [i64; 3];

/// What stands behind a path: everything that must not change unless an operation changes it.
#[allow(missing_docs, reason = "the manual pages say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The first of the object's names: the same for all links to it.
    pub first: String,
    pub kind: FileType,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    /// Where times are compared.
    pub times: Option<Times>,
    pub content: Content,
    pub symlink: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// By path.
pub type Tree = BTreeMap<String, Leaf>;

/// Where two trees differ, for a failure's message; empty when they do not.
pub fn differences(got: &Tree, want: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, leaf) in want {
        match got.get(path) {
            None => lines.push(format!("{path} is missing: {leaf:?}")),
            Some(other) if other != leaf => {
                let at = other.content.differences(&leaf.content);
                let bytes = at.first().map_or(String::new(), |first| format!(" ({} bytes from {first} on)", at.len()));
                lines.push(format!("{path} is {other:?}, should be {leaf:?}{bytes}"));
            }
            Some(_) => {}
        }
    }
    lines.extend(got.keys().filter(|path| !want.contains_key(*path)).map(|path| format!("{path} should not exist")));
    lines
}
