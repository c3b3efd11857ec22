//! A volume's files by their paths.

use crate::{FileSystem, Ino, Operations, ROOT, Result, Volume};

impl Volume {
    /// The volume's files by their paths. [`FileSystem::into_volume`] gives the volume back.
    pub fn into_file_system(self) -> FileSystem<Volume> {
        FileSystem::new(self)
    }

    /// Follows a path such as `/a/b` from the root; symbolic links are not followed.
    ///
    /// # Errors
    /// As [`Operations::lookup`].
    pub fn resolve(&self, path: &str) -> Result<Ino> {
        path.split('/')
            .filter(|part| !part.is_empty())
            .try_fold(ROOT, |at, part| Ok(self.lookup(at, part.as_bytes())?.ino))
    }
}
