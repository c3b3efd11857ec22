//! Marks for a meter beside the machine: a file, such as a GPIO's `value` or an LED's `brightness`, that is 1 while
//! a cell runs. Its line goes to the meter's trigger.

use pocketstone_core::Result;
use pocketstone_core::error::Context;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the environment's variable with the file.
pub const VARIABLE: &str = "POCKETSTONE_MARK";

/// A mark that is lowered at the latest when this is dropped.
#[derive(Debug)]
pub struct Mark(Option<(File, PathBuf)>);

impl Mark {
    /// The mark that the environment names; where it names none, marks are not made.
    ///
    /// # Errors
    /// As [`Mark::at`].
    pub fn from_environment() -> Result<Mark> {
        match std::env::var_os(VARIABLE) {
            Some(file) => Mark::at(Path::new(&file)),
            None => Ok(Mark(None)),
        }
    }

    /// A mark in a file, which must exist, lowered.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the file cannot be opened or written.
    pub fn at(path: &Path) -> Result<Mark> {
        let file = OpenOptions::new().write(true).open(path);
        let file = file.board(|| format!("cannot open {}, which {VARIABLE} names", path.display()));
        let file = file.map_err(|e| e.hint("use a writable GPIO `value` or LED `brightness`"))?;
        let mut mark = Mark(Some((file, path.to_owned())));
        mark.lower()?;
        Ok(mark)
    }

    /// The run begins.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the file cannot be written.
    pub fn raise(&mut self) -> Result<()> {
        self.write("1\n")
    }

    /// The run has ended.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the file cannot be written.
    pub fn lower(&mut self) -> Result<()> {
        self.write("0\n")
    }

    fn write(&mut self, value: &str) -> Result<()> {
        let Some((file, path)) = &mut self.0 else { return Ok(()) };
        file.write_all(value.as_bytes()).board(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = self.lower();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_up_for_as_long_as_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        assert!(Mark::at(&path).unwrap_err().cure().unwrap().contains("GPIO"));
        std::fs::write(&path, "").unwrap();
        // Plain files keep every write, as the meter sees every edge.
        let mut mark = Mark::at(&path).unwrap();
        mark.raise().unwrap();
        mark.lower().unwrap();
        mark.raise().unwrap();
        drop(mark);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "0\n1\n0\n1\n0\n");
    }
}
