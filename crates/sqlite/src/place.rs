//! Files of a volume by their paths.

use pocketstone_scmfs::{Error, File, FileType, Ino, Meta, Operations, ROOT, Result, Volume};

const PERMISSIONS: u16 = 0o644;

/// A file's path in a volume.
#[derive(Clone)]
pub(crate) struct Place {
    path: String,
}

impl Place {
    pub fn new(path: &str) -> Place {
        Place { path: path.to_owned() }
    }

    /// The same with a suffix, as SQLite names journals.
    pub fn with(&self, suffix: &str) -> Place {
        Place { path: format!("{}{suffix}", self.path) }
    }

    /// The same without a suffix, if it has it.
    pub fn without(&self, suffix: &str) -> Option<Place> {
        Some(Place::new(self.path.strip_suffix(suffix)?))
    }

    pub fn is_journal(&self) -> bool {
        self.path.ends_with("-journal")
    }

    fn parts(&self, volume: &Volume) -> Result<(Ino, &[u8])> {
        let (directory, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        Ok((if directory.is_empty() { ROOT } else { volume.resolve(directory)? }, name.as_bytes()))
    }

    /// The inode of a file.
    pub fn find(&self, volume: &Volume) -> Result<Ino> {
        let (parent, name) = self.parts(volume)?;
        let found = volume.lookup(parent, name)?;
        match found.kind {
            FileType::Regular => Ok(found.ino),
            FileType::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    pub fn open(&self, volume: &Volume) -> Result<File> {
        volume.open(self.find(volume)?)
    }

    /// Makes a file, or opens it if there is one.
    pub fn create(&self, volume: &Volume) -> Result<File> {
        let (parent, name) = self.parts(volume)?;
        match volume.create_file(parent, name, &Meta::file(PERMISSIONS)) {
            Err(Error::Exists) => self.open(volume),
            made => made,
        }
    }

    pub fn remove(&self, volume: &Volume) -> Result<()> {
        let (parent, name) = self.parts(volume)?;
        volume.unlink(parent, name)
    }
}
