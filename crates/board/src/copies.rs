//! The lab's copies of the journals of settings of a board far away: what is to be put back there even if the board has
//! lost its own.
//!
//! `settings/DIGEST/` in the cache has a copy of each journal that is not known to be carried out, as the board has it,
//! and says in `board` how that board is reached, and its serial number. Where nothing is left to be put back there is
//! no folder.

use crate::Cache;
use crate::cache::digest;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_probe::settings::JOURNAL_ENDING;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The cache's folder for copies.
const FOLDER: &str = "settings";
/// The file that says which board it is.
const BOARD: &str = "board";

/// The copies of one board's journals.
#[derive(Debug, Clone)]
pub struct Copies {
    folder: PathBuf,
    /// What the board is known by: how it is reached, and its serial number if it has one.
    board: String,
}

impl Copies {
    /// Those of the board that is reached in this way, and that has this serial number, or none if it is empty. Another
    /// board at the same address has copies of its own.
    ///
    /// # Errors
    /// `ErrorKind::User` if the cache cannot be used.
    pub fn of(cache: &Cache, way: &str, serial: &str) -> Result<Copies> {
        let known_by = [way, serial].into_iter().filter(|part| !part.is_empty());
        let board: String = known_by.map(|part| format!("{part}\n")).collect();
        Ok(Copies { folder: cache.folder(FOLDER)?.join(digest(&[board.as_bytes()])), board })
    }

    /// Adds a line to a journal's copy. It is on the disk when this returns.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it is no journal's name, or the copy cannot be written.
    pub fn note(&self, journal: &str, line: &str) -> Result<()> {
        let path = self.path(journal)?;
        let failed = || format!("cannot note a setting in {}", path.display());
        let new = !path.exists();
        if new {
            fs::create_dir_all(&self.folder).board(failed)?;
            fs::write(self.folder.join(BOARD), &self.board).board(failed)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&path).board(failed)?;
        file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_all()).board(failed)?;
        if new {
            let folders = [&self.folder, self.folder.parent().unwrap_or(&self.folder)];
            folders.iter().try_for_each(|folder| File::open(folder)?.sync_all()).board(failed)?;
        }
        Ok(())
    }

    /// Removes the copy of a journal that is carried out.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it is no journal's name, or the copy cannot be removed.
    pub fn put_back(&self, journal: &str) -> Result<()> {
        let path = self.path(journal)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::board(format!("cannot remove {}", path.display())).because(error));
            }
            _ => {}
        }
        if self.left()?.is_empty() {
            let _ = fs::remove_file(self.folder.join(BOARD)).and_then(|()| fs::remove_dir(&self.folder));
        }
        Ok(())
    }

    /// The journals that are not known to be carried out, with their lines, the oldest first.
    ///
    /// # Errors
    /// `ErrorKind::Board` if they cannot be read.
    pub fn left(&self) -> Result<Vec<(String, String)>> {
        let failed = || format!("cannot read {}", self.folder.display());
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.folder).board(failed)? {
            let path = entry.board(failed)?.path();
            if path.extension().is_some_and(|ending| ending == JOURNAL_ENDING) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                left.push((name, fs::read_to_string(&path).board(failed)?));
            }
        }
        left.sort();
        Ok(left)
    }

    /// The file of a journal's copy.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it is no journal's name: it comes from the board.
    pub fn path(&self, journal: &str) -> Result<PathBuf> {
        let name = Path::new(journal);
        let plain = name.file_name().is_some_and(|file| file == journal);
        match plain && name.extension().is_some_and(|ending| ending == JOURNAL_ENDING) {
            true => Ok(self.folder.join(journal)),
            false => Err(Error::board(format!("the board has a journal {journal:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_there_until_its_journal_is_carried_out() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::at(home.path()).unwrap();
        let (copies, other) =
            (Copies::of(&cache, "ssh one true", "").unwrap(), Copies::of(&cache, "ssh two true", "").unwrap());
        let same_address = Copies::of(&cache, "ssh one true", "100000003d1d1c36").unwrap();
        assert_eq!(copies.left().unwrap(), []);
        copies.note("lab-2.journal", "c").unwrap();
        copies.note("lab-1.journal", "a").unwrap();
        copies.note("lab-1.journal", "b").unwrap();
        let left = [("lab-1.journal".to_owned(), "a\nb\n".to_owned()), ("lab-2.journal".into(), "c\n".into())];
        assert_eq!(Copies::of(&cache, "ssh one true", "").unwrap().left().unwrap(), left);
        assert_eq!((other.left().unwrap(), same_address.left().unwrap()), (Vec::new(), Vec::new()));
        let board = copies.path("lab-1.journal").unwrap().with_file_name(BOARD);
        assert_eq!(fs::read_to_string(board).unwrap(), "ssh one true\n");
        copies.put_back("lab-1.journal").unwrap();
        assert_eq!(copies.left().unwrap(), left[1..]);
        copies.put_back("lab-2.journal").unwrap();
        copies.put_back("lab-2.journal").unwrap();
        assert_eq!(fs::read_dir(home.path().join(FOLDER)).unwrap().count(), 0);
        for name in ["", "..", "a/b.journal", "../x.journal", BOARD, ".journal"] {
            assert!(copies.note(name, "x").is_err() && copies.put_back(name).is_err(), "{name:?}");
        }
    }
}
