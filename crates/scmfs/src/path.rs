//! A volume's files by their paths.

use crate::{FileSystem, Ino, Operations, ROOT, Result, Volume};

impl Volume {
    /// The volume's files by their paths. [`FileSystem::into_volume`] gives the volume back.
    ///
    /// Files of a `FileSystem` borrow it. One that holds its volume by an `Arc` can be kept beside it, and moved to a
    /// thread; `FileSystem::new(&*volume)` offers the other operations by path:
    ///
    /// ```
    /// use pocketstone_scmfs::vfs::path::{File, FileSystem, OpenOptions};
    /// use pocketstone_scmfs::{CreateOptions, Volume};
    /// use std::io::Write;
    /// use std::sync::Arc;
    ///
    /// struct Log {
    ///     volume: Arc<Volume>,
    ///     file: File<Arc<Volume>>,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (memory, _) = pocketstone_media::Pcm::new(16 << 20, &Default::default());
    /// # Volume::create(Box::new(memory.region()?), &CreateOptions::default())?;
    /// let volume = Arc::new(Volume::open(Box::new(memory.region()?), &Default::default())?);
    /// let file = OpenOptions::new().append(true).create(true).open_in(volume.clone(), "/log")?;
    /// let mut log = Log { volume: volume.clone(), file };
    /// let log = std::thread::spawn(move || writeln!(log.file, "of a thread").map(|()| log)).join().unwrap()?;
    /// assert_eq!(FileSystem::new(&*log.volume).read("/log")?, b"of a thread\n");
    /// drop(log);
    /// Arc::into_inner(volume).expect("nobody else has it").close()?;
    /// # Ok(())
    /// # }
    /// ```
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
