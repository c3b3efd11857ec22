//! The root directory of an SCMFS volume, called in this process: no kernel is between.

use crate::{Directory, Purpose};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_scmfs::{File, Meta, ROOT, Volume};
use std::ffi::CStr;
use std::sync::Arc;

/// The root directory of an open volume.
pub struct ScmfsDirectory(Arc<Volume>);

impl ScmfsDirectory {
    /// Takes an open volume.
    pub fn new(volume: Arc<Volume>) -> Self {
        ScmfsDirectory(volume)
    }
}

impl Directory for ScmfsDirectory {
    type File = File;

    fn create(&self, name: &CStr) -> Result<File> {
        let created = self.0.create_file(ROOT, name.to_bytes(), &Meta::file(0o644));
        created.board(|| "the volume creates no file".into())
    }

    fn open(&self, name: &CStr, _purpose: Purpose) -> Result<File> {
        let found = self.0.lookup(ROOT, name.to_bytes()).and_then(|attributes| self.0.open_file(attributes.ino));
        found.board(|| "the volume opens no file".into())
    }

    #[inline]
    fn read(&self, file: &File, into: &mut [u8], offset: u64) -> Result<usize> {
        file.read_at(into, offset).board(|| "the volume cannot read".into())
    }

    #[inline]
    fn write(&self, file: &File, from: &[u8], offset: u64) -> Result<usize> {
        file.write_at(from, offset).board(|| "the volume cannot write".into())
    }

    #[inline]
    fn append(&self, file: &File, from: &[u8]) -> Result<usize> {
        file.append(from).map(|_| from.len()).board(|| "the volume cannot append".into())
    }

    fn delete(&self, name: &CStr) -> Result<()> {
        self.0.unlink(ROOT, name.to_bytes()).board(|| "the volume cannot delete".into())
    }

    fn look_up(&self, name: &CStr) -> Result<u64> {
        let found = self.0.lookup(ROOT, name.to_bytes()).board(|| "the volume cannot find the name".into())?;
        Ok(found.size)
    }

    fn sync(&self, file: &File) -> Result<()> {
        file.sync().board(|| "the volume cannot sync".into())
    }

    fn make_folder(&self, _name: &CStr) -> Result<()> {
        Err(Error::user("only the root directory of a volume is used").hint("set workload = \"files\""))
    }

    fn evict(&self, _name: &CStr) -> Result<()> {
        // Nothing is cached: the volume is in memory itself.
        Ok(())
    }
}
