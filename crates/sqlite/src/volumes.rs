//! The volumes in use, by their names.

use crate::locks::Locks;
use crate::place::Place;
use crate::shm::Shm;
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{Error, Ino, OpenOptions, Operations, Result, Volume};
use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Null files to keep: databases make files seldom.
const NULL_FILES: u32 = 4;

/// A volume in use. It is closed with its last file.
pub(crate) struct Opened {
    pub volume: Volume,
    /// A small page in bytes.
    pub page: u64,
    read_only: bool,
    databases: Mutex<HashMap<Ino, Weak<Database>>>,
}

/// What the connections to a database share.
#[derive(Default)]
pub(crate) struct Database {
    pub locks: Locks,
    pub shm: Shm,
}

/// A use of a volume. With the last one it is closed, before anybody can open it again.
pub(crate) struct Use(Option<Arc<Opened>>);

impl Deref for Use {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let _closing = held(&VOLUMES);
        self.0 = None;
    }
}

/// Weak, so that a volume is closed with its last file.
static VOLUMES: Mutex<Vec<(String, Weak<Opened>)>> = Mutex::new(Vec::new());

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change leaves it whole.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Opened {
    fn new(volume: Volume, read_only: bool) -> Result<Opened> {
        let page = volume.statfs()?.block_bytes.into();
        Ok(Opened { volume, page, read_only, databases: Mutex::default() })
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// What the connections to a file share.
    pub fn database(&self, ino: Ino) -> Arc<Database> {
        let mut databases = held(&self.databases);
        if let Some(shared) = databases.get(&ino).and_then(Weak::upgrade) {
            return shared;
        }
        databases.retain(|_, shared| shared.strong_count() > 0);
        let shared = Arc::<Database>::default();
        databases.insert(ino, Arc::downgrade(&shared));
        shared
    }
}

/// A volume that databases can name. Dropped, it is closed with the last of their files.
pub struct Attached(#[expect(dead_code, reason = "kept open")] Use);

/// Gives an open volume a name: databases in it are `file:/app.db?vfs=scmfs&volume=NAME`.
///
/// # Errors
/// `Exists` if a volume has the name.
pub fn attach(name: &str, volume: Volume) -> Result<Attached> {
    let mut volumes = held(&VOLUMES);
    volumes.retain(|(_, opened)| opened.strong_count() > 0);
    if volumes.iter().any(|(other, _)| other == name) {
        return Err(Error::Exists);
    }
    let opened = Arc::new(Opened::new(volume, false)?);
    volumes.push((name.to_owned(), Arc::downgrade(&opened)));
    Ok(Attached(Use(Some(opened))))
}

/// The name by which a volume is known: of an attached one its own, of a file its whole path.
///
/// # Errors
/// `NotFound` if there is no such file.
pub(crate) fn name_of(volume: &str) -> Result<String> {
    if held(&VOLUMES).iter().any(|(name, opened)| name == volume && opened.strong_count() > 0) {
        return Ok(volume.to_owned());
    }
    let whole = std::fs::canonicalize(volume).map_err(|_| Error::NotFound)?;
    whole.into_os_string().into_string().map_err(|_| Error::Invalid)
}

/// The volume of a name, opened if it is not.
///
/// # Errors
/// `Medium` if it cannot be mapped, or is no volume; `Damaged`.
pub(crate) fn open(name: &str) -> Result<Use> {
    let mut volumes = held(&VOLUMES);
    if let Some(opened) = volumes.iter().filter(|(known, _)| known == name).find_map(|(_, opened)| opened.upgrade()) {
        return Ok(Use(Some(opened)));
    }
    volumes.retain(|(_, opened)| opened.strong_count() > 0);
    let writable = std::fs::OpenOptions::new().write(true).open(name).is_ok();
    let region = Mapped::open(Path::new(name), &MapOptions::default().writable(writable))?;
    let options = OpenOptions::default().read_only(!writable).null_files(NULL_FILES);
    let opened = Arc::new(Opened::new(Volume::open(Box::new(region), &options)?, !writable)?);
    volumes.push((name.to_owned(), Arc::downgrade(&opened)));
    Ok(Use(Some(opened)))
}

/// The volume and the place in it that a whole name means, if a volume is in the file that the name goes through: in
/// use, or opened for the moment. SQLite asks so for the journals of other databases than those that it has open.
///
/// # Errors
/// `Medium` and `Damaged`, as [`open`].
pub(crate) fn find(whole: &str) -> Result<Option<(Use, Place)>> {
    if let Some(found) = find_open(whole) {
        return Ok(Some(found));
    }
    let above = || Path::new(whole).ancestors().skip(1);
    // Mostly the first one is a directory.
    let Some(file) = above().find(|path| path.exists()).filter(|path| path.is_file()) else { return Ok(None) };
    let (Some(name), Ok(rest)) = (file.to_str(), Path::new(whole).strip_prefix(file)) else { return Ok(None) };
    Ok(Some((open(name)?, Place::new(&format!("/{}", rest.display())))))
}

fn find_open(whole: &str) -> Option<(Use, Place)> {
    let volumes = held(&VOLUMES);
    let (opened, path) = volumes
        .iter()
        .filter_map(|(name, opened)| Some((opened, whole.strip_prefix(name.as_str())?)))
        .filter(|(_, path)| path.starts_with('/'))
        .min_by_key(|(_, path)| path.len())?;
    Some((Use(Some(opened.upgrade()?)), Place::new(path)))
}
