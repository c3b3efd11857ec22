//! Files of a volume by their paths.

use pocketstone_scmfs::{Error, File, FileType, Ino, Meta, Operations, ROOT, Result, Volume};

const PERMISSIONS: u16 = 0o644;
/// How SQLite names a database's rollback journal.
pub(crate) const JOURNAL: &str = "-journal";
/// What the name of its WAL ends with.
pub(crate) const WAL: &str = "-wal";

/// A file's path in a volume.
#[derive(Clone)]
pub(crate) struct Place {
    path: String,
}

impl Place {
    pub fn new(path: &str) -> Place {
        Place { path: path.to_owned() }
    }

    /// Where the rollback journal of a database is.
    pub fn journal(&self) -> Place {
        Place { path: format!("{}{JOURNAL}", self.path) }
    }

    /// The database whose rollback journal it is, if it is one.
    pub fn database(&self) -> Option<Place> {
        Some(Place::new(self.path.strip_suffix(JOURNAL)?))
    }

    /// The database whose WAL it is, if it is one.
    pub fn database_of_wal(&self) -> Option<Place> {
        Some(Place::new(self.path.strip_suffix(WAL)?))
    }

    pub fn is_journal(&self) -> bool {
        self.path.ends_with(JOURNAL)
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
