//! redb: a copy-on-write B-tree in a file, written in Rust.

use super::key_value::{Make, Next, See, Store, refuse};
use pocketstone_core::database::{Configuration, DatabaseEngine};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use redb::{Builder, DatabaseError, Durability, ReadableTable, StorageError, TableDefinition};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Its name and version; the root's Cargo.toml keeps it at this one.
pub(super) const VERSION: &str = "redb 2.6";

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("rows");

/// The settings that it has.
pub(super) const SETTINGS: &[&str] = &["synchronous", "cache_bytes"];

/// A database; threads have clones of it.
#[derive(Clone)]
pub(super) struct Redb {
    database: Arc<redb::Database>,
    durability: Durability,
}

impl Redb {
    /// Opens the database in a folder, made if it is not there.
    ///
    /// # Errors
    /// `ErrorKind::User` for an unsupported setting; `ErrorKind::Board` if it cannot be opened.
    pub(super) fn open(path: &Path, configuration: &Configuration) -> Result<Redb> {
        refuse(DatabaseEngine::Redb, configuration, SETTINGS)?;
        let durability = match configuration.synchronous.as_deref() {
            None | Some("full") => Durability::Immediate,
            Some("normal") => Durability::Eventual,
            Some("off") => Durability::None,
            Some(word) => {
                return Err(Error::user(format!("redb does not support synchronous = `{word}`"))
                    .hint("synchronous for redb: off (Durability::None), normal (Eventual), full (Immediate)"));
            }
        };
        let mut builder = Builder::new();
        if let Some(bytes) = configuration.cache_bytes {
            let bytes =
                usize::try_from(bytes).user(|| format!("a cache of {bytes} bytes is too large on this machine"))?;
            builder.set_cache_size(bytes);
        }
        let database = builder.create(path).map_err(|e| {
            let error = Error::board(format!("redb cannot open {}", path.display()));
            match e {
                DatabaseError::DatabaseAlreadyOpen => error.hint("another process holds the database: stop it"),
                _ => error,
            }
            .because(wrap(e))
        })?;
        // The table is there from the first write on; a read of a missing one would be an error.
        let transaction = database.begin_write().map_err(wrap)?;
        transaction.open_table(TABLE).map_err(wrap)?;
        transaction.commit().map_err(wrap)?;
        Ok(Redb { database: Arc::new(database), durability })
    }

    /// Checks all of a database that no other thread has.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it is damaged.
    pub(super) fn check(&mut self) -> Result<()> {
        let database = Arc::get_mut(&mut self.database).ok_or_else(|| Error::bug("another thread has the database"))?;
        match database.check_integrity() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::board("redb's check had to repair the database")),
            Err(error) => Err(wrap(error)),
        }
    }
}

/// An error of redb with its cure, where one is known.
#[cold]
fn wrap(error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    let full = matches!(&error, redb::Error::Io(e) if e.kind() == std::io::ErrorKind::StorageFull);
    let wrapped = Error::board("redb failed").because(error);
    match full {
        true => wrapped.hint("the volume is full: free space on it, or prepare fewer records"),
        false => wrapped,
    }
}

impl Store for Redb {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Result<()> {
        let transaction = self.database.begin_read().map_err(wrap)?;
        let table = transaction.open_table(TABLE).map_err(wrap)?;
        if let Some(record) = table.get(key).map_err(wrap)? {
            see(key, record.value())?;
        }
        Ok(())
    }

    fn scan(&mut self, from: Bound<&[u8]>, see: See<'_>) -> Result<()> {
        let transaction = self.database.begin_read().map_err(wrap)?;
        let table = transaction.open_table(TABLE).map_err(wrap)?;
        for row in table.range::<&[u8]>((from, Bound::Unbounded)).map_err(wrap)? {
            let (key, record) = row.map_err(wrap)?;
            if !see(key.value(), record.value())? {
                break;
            }
        }
        Ok(())
    }

    fn change(&mut self, key: &[u8], record: &mut Vec<u8>, make: Make<'_>) -> Result<()> {
        let mut transaction = self.database.begin_write().map_err(wrap)?;
        transaction.set_durability(self.durability);
        let mut table = transaction.open_table(TABLE).map_err(wrap)?;
        let old = table.get(key).map_err(wrap)?;
        let write = make(old.as_ref().map(|r| r.value()), record)?;
        drop(old);
        if write {
            table.insert(key, &record[..]).map_err(wrap)?;
        }
        drop(table);
        match write {
            true => transaction.commit().map_err(wrap),
            false => transaction.abort().map_err(|e: StorageError| wrap(e)),
        }
    }

    fn load(&mut self, next: Next<'_>) -> Result<()> {
        let transaction = self.database.begin_write().map_err(wrap)?;
        let mut table = transaction.open_table(TABLE).map_err(wrap)?;
        let (mut key, mut record) = (Vec::new(), Vec::new());
        while next(&mut key, &mut record)? {
            if table.insert(&key[..], &record[..]).map_err(wrap)?.is_some() {
                return Err(Error::user("the workload loads two rows with one key").hint("prepare it again"));
            }
        }
        drop(table);
        transaction.commit().map_err(wrap)
    }
}
