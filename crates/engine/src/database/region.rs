//! A database in an SCMFS volume that the engine's process opens as a library: SQLite, by the VFS for it.

use crate::open_scmfs;
use pocketstone_core::database::DatabaseEngine;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_scmfs::OpenOptions;
use pocketstone_scmfs::{Meta, Operations, ROOT};
use pocketstone_sqlite::{Attached, Host, attach, register};
use std::path::{Path, PathBuf};

/// The database's file in the volume.
const FILE: &str = "data.sqlite";
/// The volume's name in URIs: a process has one.
const NAME: &str = "region";

/// A volume in a file, open in this process.
pub(super) struct InRegion {
    _volume: Attached,
}

impl InRegion {
    /// Opens the volume in a file, and writes an initial database to it, if there is one.
    ///
    /// # Errors
    /// `ErrorKind::User` for another engine than SQLite; `ErrorKind::Board` if it cannot be opened, or is full.
    pub fn open(engine: DatabaseEngine, region: &Path, image: &[u8]) -> Result<InRegion> {
        if engine != DatabaseEngine::Sqlite {
            return Err(Error::user(format!("{} cannot use a volume in process", engine.name()))
                .hint("set volume_access = \"fuse\""));
        }
        let volume = open_scmfs(region, &OpenOptions::default())?;
        if !image.is_empty() {
            let file = volume.create_file(ROOT, FILE.as_bytes(), &Meta::file(0o644));
            let written = file.and_then(|file| file.write_at(image, 0));
            written.board(|| format!("cannot write a database to {}", region.display()))?;
        }
        register(Host::linked()).map_err(|code| Error::bug(format!("SQLite rejected the VFS (result code {code})")))?;
        let volume = attach(NAME, volume).board(|| format!("cannot use {}", region.display()))?;
        Ok(InRegion { _volume: volume })
    }

    /// What SQLite opens.
    pub fn uri() -> PathBuf {
        PathBuf::from(format!("file:/{FILE}?vfs=scmfs&volume={NAME}"))
    }
}
