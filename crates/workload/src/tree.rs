//! Trees of folders that files lie in.

use pocketstone_core::words;

/// Folders of [`Tree::Folders`] and [`Tree::Nested`] that files lie in.
pub const LEAVES: u64 = 50;

words! {
    /// A tree of folders.
    Tree {
        /// None: all files lie in one folder.
        Root = "root",
        /// 50 folders beside each other.
        Folders = "folders",
        /// Two folders with five each, which have five each: 50 leaves.
        Nested = "nested",
    }
}

impl Tree {
    /// The folder of a file by its number, in turns over all of them; `None`: it lies in no folder of the tree.
    pub fn folder(self, file: u64) -> Option<String> {
        let leaf = file % LEAVES;
        match self {
            Tree::Root => None,
            Tree::Folders => Some(format!("folder-{leaf:02}")),
            Tree::Nested => Some(format!("folder-{}/folder-{}/folder-{}", leaf / 25, leaf / 5 % 5, leaf % 5)),
        }
    }

    /// All folders that files lie in.
    pub fn folders(self) -> impl Iterator<Item = String> {
        (0..LEAVES).filter_map(move |leaf| self.folder(leaf))
    }

    /// A file's path by its number and its name.
    pub fn path(self, file: u64, name: &str) -> String {
        self.folder(file).map_or_else(|| name.to_owned(), |folder| format!("{folder}/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn trees_have_fifty_leaves_and_files_take_turns() {
        assert_eq!(Tree::Root.path(7, "f"), "f");
        assert_eq!(Tree::Folders.path(57, "f"), "folder-07/f");
        // Leaf 38 is the fourth of the third five of the second 25.
        assert_eq!(Tree::Nested.path(38, "f"), "folder-1/folder-2/folder-3/f");
        assert_eq!(Tree::Root.folders().count(), 0);
        for tree in [Tree::Folders, Tree::Nested] {
            assert_eq!(tree.folders().collect::<BTreeSet<_>>().len(), 50);
        }
        let above = |parts: usize| -> usize {
            let start = |leaf: String| leaf.split('/').take(parts).collect::<Vec<_>>().join("/");
            Tree::Nested.folders().map(start).collect::<BTreeSet<_>>().len()
        };
        assert_eq!((above(1), above(2), above(3)), (2, 10, 50));
    }
}
