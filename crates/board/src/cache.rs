//! The cache of downloaded and built artifacts.

use pocketstone_core::Result;
use pocketstone_core::bytes::hexadecimal;
use pocketstone_core::error::Context;
use pocketstone_probe::own_folder;
use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of reproducible artifacts, keyed by their inputs.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The user's cache: `$POCKETSTONE_CACHE`, else `pocketstone` in `$XDG_CACHE_HOME` or `~/.cache`; for who has no
    /// home, such as a service, the user's own folder in /var/tmp.
    ///
    /// # Errors
    /// `ErrorKind::User` if it cannot be created; `ErrorKind::Board` if one in /var/tmp is somebody else's.
    pub fn of_user() -> Result<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self::at(&Self::root_of_user(variable, Path::new("/var/tmp"))?)
    }

    fn root_of_user(variable: impl Fn(&str) -> Option<PathBuf>, shared: &Path) -> Result<PathBuf> {
        let root = variable("POCKETSTONE_CACHE")
            .or_else(|| variable("XDG_CACHE_HOME").map(|c| c.join("pocketstone")))
            .or_else(|| variable("HOME").map(|h| h.join(".cache/pocketstone")));
        // What is in a cache is executed: where everybody can make folders it has to be the user's own.
        root.map_or_else(|| own_folder(shared, "pocketstone-cache"), Ok)
    }

    /// A cache in a folder of one's choice.
    ///
    /// # Errors
    /// `ErrorKind::User` if it cannot be created.
    pub fn at(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).user(|| format!("cannot create the cache {}", root.display()))?;
        let root = fs::canonicalize(root).user(|| format!("cannot resolve {}", root.display()))?;
        Ok(Cache { root })
    }

    /// The folder that all is in.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A folder in the cache, created where it is missing.
    ///
    /// # Errors
    /// `ErrorKind::User` if it cannot be created.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).user(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Waits for the exclusive right to make the thing called `name`; it ends with the returned file.
    ///
    /// # Errors
    /// `ErrorKind::User` if the lock file cannot be created.
    pub fn lock(&self, name: &str) -> Result<fs::File> {
        let (path, file) = self.lock_file(name)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive).user(|| format!("cannot lock {}", path.display()))?;
        Ok(file)
    }

    /// As [`Cache::lock`], without waiting; `None`: another process has it.
    ///
    /// # Errors
    /// As [`Cache::lock`].
    pub fn try_lock(&self, name: &str) -> Result<Option<fs::File>> {
        let (path, file) = self.lock_file(name)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error).user(|| format!("cannot lock {}", path.display())),
        }
    }

    fn lock_file(&self, name: &str) -> Result<(PathBuf, fs::File)> {
        let path = self.folder("locks")?.join(name);
        let file = fs::File::create(&path).user(|| format!("cannot create {}", path.display()))?;
        Ok((path, file))
    }

    /// Removes the least recently used files of a folder until the rest take at most `limit_bytes`.
    pub fn prune(&self, name: &str, limit_bytes: u64) {
        let Ok(entries) = fs::read_dir(self.root.join(name)) else { return };
        let mut files: Vec<_> = entries
            .flatten()
            .filter_map(|e| Some((e.metadata().ok()?, e.path())))
            .filter_map(|(m, path)| Some((m.modified().ok()?, m.len(), path)))
            .collect();
        files.sort();
        let mut total: u64 = files.iter().map(|f| f.1).sum();
        for (_, bytes, path) in files {
            if total <= limit_bytes {
                break;
            }
            // A file in use stays readable for whoever has it open.
            let _ = fs::remove_file(path);
            total -= bytes;
        }
    }
}

/// The files below `folder`, and whatever else is no folder, by their names from `root` on.
pub(crate) fn files_below(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot list {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).board(failed)? {
        let entry = entry.board(failed)?;
        let path = entry.path();
        match entry.file_type().board(failed)?.is_dir() {
            true => found.extend(files_below(root, &path)?),
            false => found.push(path.strip_prefix(root).unwrap_or(&path).to_owned()),
        }
    }
    Ok(found)
}

/// The first 16 hexadecimal digits of the SHA-256 of all parts, each with its length before it.
pub fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hexadecimal(&hash.finalize()[..8])
}

/// The SHA-256 of a file, in hexadecimal digits.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be read.
pub fn digest_of_file(path: &Path) -> Result<String> {
    let failed = || format!("cannot read {}", path.display());
    let mut hash = Sha256::new();
    std::io::copy(&mut fs::File::open(path).board(failed)?, &mut hash).board(failed)?;
    Ok(hexadecimal(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pruning_takes_the_oldest_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let things = cache.folder("things").unwrap();
        for (n, name) in ["old", "middle", "new"].iter().enumerate() {
            let file = fs::File::create(things.join(name)).unwrap();
            file.set_len(100).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 + n as u64);
            file.set_modified(time).unwrap();
        }
        cache.prune("things", 250);
        assert!(!things.join("old").exists() && things.join("middle").exists() && things.join("new").exists());
    }

    #[test]
    fn who_has_no_home_has_a_cache_of_their_own() {
        let shared = tempfile::tempdir().unwrap();
        let root = |set: &[(&str, &str)]| {
            let variable = |name: &str| set.iter().find(|(of, _)| *of == name).map(|(_, value)| PathBuf::from(value));
            Cache::root_of_user(variable, shared.path()).unwrap()
        };
        let (home, xdg, own) = (("HOME", "/h"), ("XDG_CACHE_HOME", "/x"), ("POCKETSTONE_CACHE", "/c"));
        assert_eq!(root(&[home, xdg, own]), Path::new("/c"));
        assert_eq!(root(&[home, xdg]), Path::new("/x/pocketstone"));
        assert_eq!(root(&[home]), Path::new("/h/.cache/pocketstone"));
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(root(&[]), shared.path().join(format!("pocketstone-cache-{user}")));
        assert!(root(&[]).is_dir());
    }

    #[test]
    fn where_a_part_ends_matters() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_eq!(digest(&[]), "e3b0c44298fc1c14", "SHA-256 of nothing, as published in FIPS 180-4's examples");
    }
}
