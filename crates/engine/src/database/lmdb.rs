//! LMDB: a B+ tree in a memory map.

use super::key_value::{Make, Next, See, Store, refuse};
use heed::types::Bytes;
use heed::{Env, EnvFlags, EnvOpenOptions, MdbError};
use pocketstone_core::database::{Configuration, DatabaseEngine};
use pocketstone_core::{Error, Result};
use std::io::ErrorKind;
use std::ops::Bound;
use std::path::Path;

/// Address space for the map: the file is as long as what is in it. A 32-bit process has little of it.
#[cfg(target_pointer_width = "64")]
const MAP_BYTES: usize = 64 << 30;
#[cfg(not(target_pointer_width = "64"))]
const MAP_BYTES: usize = 512 << 20;

/// Threads that can read at once, of an environment that says nothing else.
const USUAL_READERS: u32 = 126;

type Table = heed::Database<Bytes, Bytes>;

/// The settings that it has.
pub(super) const SETTINGS: &[&str] = &["synchronous"];

/// An environment; threads have clones of it.
#[derive(Clone)]
pub(super) struct Lmdb {
    env: Env,
    table: Table,
}

/// Its name and version.
pub(super) fn version() -> String {
    let v = heed::lmdb_version();
    format!("LMDB {}.{}.{}", v.major, v.minor, v.patch)
}

impl Lmdb {
    /// Opens the environment in a folder, for so many threads of this process alone.
    ///
    /// # Errors
    /// `ErrorKind::User` for an unsupported setting; `ErrorKind::Board` if it cannot be opened.
    pub(super) fn open(directory: &Path, configuration: &Configuration, threads: u32) -> Result<Lmdb> {
        refuse(DatabaseEngine::Lmdb, configuration, SETTINGS)?;
        let sync = match configuration.synchronous.as_deref() {
            None | Some("full") => EnvFlags::empty(),
            Some("normal") => EnvFlags::NO_META_SYNC,
            Some("off") => EnvFlags::NO_SYNC,
            Some(word) => {
                return Err(Error::user(format!("lmdb does not support synchronous = `{word}`"))
                    .hint("synchronous for lmdb: off (MDB_NOSYNC), normal (MDB_NOMETASYNC), full"));
            }
        };
        let mut options = EnvOpenOptions::new();
        // SAFETY: NO_SYNC and NO_META_SYNC risk the last transactions after a power cut, as asked for.
        unsafe { options.map_size(MAP_BYTES).flags(sync) };
        // A thread that has read keeps its place until it ends; this one may be another one.
        options.max_readers(threads.saturating_add(1).max(USUAL_READERS));
        // SAFETY: nobody else changes the file while it is mapped: its folder is this process's.
        let opened = unsafe { options.open(directory) };
        // A map of a file that is open for writing: JFFS2 refuses it, even if it is only read.
        let no_shared_map = |e: &heed::Error| match e {
            heed::Error::Io(e) => {
                matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
                    || e.raw_os_error() == Some(libc::ENODEV)
            }
            _ => false,
        };
        let failed = |e: heed::Error| {
            let error = Error::board(format!("LMDB cannot open {}", directory.display()));
            match no_shared_map(&e) {
                true => error.hint(
                    "LMDB is unsupported on JFFS2, which has no shared writable mappings; use ubifs, or \
                        another engine",
                ),
                false => error,
            }
            .because(wrap(e))
        };
        let env = opened.map_err(failed)?;
        let mut transaction = env.write_txn().map_err(failed)?;
        let table = env.create_database(&mut transaction, None).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(Lmdb { env, table })
    }
}

/// An error of LMDB with its cure, where one is known.
#[cold]
fn wrap(error: heed::Error) -> Error {
    let hint = match &error {
        heed::Error::Io(e) if e.kind() == ErrorKind::StorageFull => {
            Some("the volume is full: free space on it, or prepare fewer records")
        }
        heed::Error::Mdb(MdbError::BadValSize) => Some("LMDB keys are limited to 1 to 511 bytes: prepare shorter keys"),
        heed::Error::Mdb(MdbError::MapFull) => Some("prepare fewer records: its map is full"),
        _ => None,
    };
    let wrapped = Error::board("LMDB failed").because(error);
    match hint {
        Some(hint) => wrapped.hint(hint),
        None => wrapped,
    }
}

impl Store for Lmdb {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Result<()> {
        let transaction = self.env.read_txn().map_err(wrap)?;
        if let Some(record) = self.table.get(&transaction, key).map_err(wrap)? {
            see(key, record)?;
        }
        Ok(())
    }

    fn scan(&mut self, from: Bound<&[u8]>, see: See<'_>) -> Result<()> {
        let transaction = self.env.read_txn().map_err(wrap)?;
        for row in self.table.range(&transaction, &(from, Bound::Unbounded)).map_err(wrap)? {
            let (key, record) = row.map_err(wrap)?;
            if !see(key, record)? {
                break;
            }
        }
        Ok(())
    }

    fn change(&mut self, key: &[u8], record: &mut Vec<u8>, make: Make<'_>) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(wrap)?;
        if make(self.table.get(&transaction, key).map_err(wrap)?, record)? {
            self.table.put(&mut transaction, key, record).map_err(wrap)?;
            transaction.commit().map_err(wrap)?;
        }
        Ok(())
    }

    fn load(&mut self, next: Next<'_>) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(wrap)?;
        let (mut key, mut record) = (Vec::new(), Vec::new());
        while next(&mut key, &mut record)? {
            let new = heed::PutFlags::NO_OVERWRITE;
            self.table.put_with_flags(&mut transaction, new, &key, &record).map_err(wrap)?;
        }
        transaction.commit().map_err(wrap)?;
        self.env.force_sync().map_err(wrap)
    }
}
