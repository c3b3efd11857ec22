//! Programs' work on many files, one open at a time: PostMark's transactions, an application's start.

use crate::files::{c_name, whole};
use crate::{Directory, Engine, Mapped, Mapping, Purpose};
use pocketstone_core::error::Context;
use pocketstone_core::plan::Data;
use pocketstone_core::{Error, Result};
use pocketstone_workload::{Content, Operation};
use std::collections::BTreeMap;
use std::ffi::CString;

/// A folder of files with at most one of them open, and some mapped.
pub struct Session<D: Directory> {
    directory: D,
    names: Vec<CString>,
    open: Option<D::File>,
    mapped: BTreeMap<u32, Mapping>,
    buffer: Vec<u8>,
    written: u64,
}

impl<D: Directory> Session<D> {
    /// Gets ready for operations on files of these names, by their numbers, that move at most so many bytes each.
    ///
    /// # Errors
    /// When a name is none.
    pub fn new(
        directory: D,
        names: impl IntoIterator<Item = String>,
        most_bytes: u64,
        data: Data,
        seed: u64,
    ) -> Result<Self> {
        let names = names.into_iter().map(|name| c_name(&name)).collect::<Result<_>>()?;
        // Touched now, so that the first request does not pay for the buffer's page faults.
        let mut buffer = vec![0xa5; most_bytes as usize];
        Content::new(data, seed ^ 2).fill(&mut buffer);
        Ok(Session { directory, names, open: None, mapped: BTreeMap::new(), buffer, written: 0 })
    }

    fn name(&self, file: u32) -> Result<&CString> {
        self.names.get(file as usize).ok_or_else(|| Error::bug(format!("the file {file} has no name")))
    }

    fn open(&self) -> Result<&D::File> {
        self.open.as_ref().ok_or_else(|| Error::bug("no file is open"))
    }
}

impl<D: Directory + Mapped> Engine for Session<D> {
    fn execute(&mut self, operation: &Operation) -> Result<u64> {
        match *operation {
            Operation::Open { file, append } => {
                let purpose = if append { Purpose::Append } else { Purpose::Read };
                self.open = Some(self.directory.open(self.name(file)?, purpose)?);
            }
            Operation::Create { file } => self.open = Some(self.directory.create(self.name(file)?)?),
            Operation::Close { .. } => {
                self.open()?;
                self.open = None;
            }
            Operation::Read { offset, bytes, .. } => {
                let file = self.open.as_ref().ok_or_else(|| Error::bug("no file is open"))?;
                let got = self.directory.read(file, &mut self.buffer[..bytes as usize], offset)?;
                whole(got, bytes as usize, "a read")?;
                return Ok(bytes);
            }
            Operation::Append { bytes, .. } => {
                // No two writes write the same: each starts with its number.
                self.written += 1;
                let stamp = self.written.to_le_bytes();
                let length = stamp.len().min(bytes as usize);
                self.buffer[..length].copy_from_slice(&stamp[..length]);
                let taken = self.directory.append(self.open()?, &self.buffer[..bytes as usize])?;
                whole(taken, bytes as usize, "an append")?;
                return Ok(bytes);
            }
            Operation::Delete { file } => self.directory.delete(self.name(file)?)?,
            Operation::Evict { file } => self.directory.evict(self.name(file)?)?,
            Operation::Map { file } => {
                let mapping = self.directory.map(self.name(file)?)?;
                self.mapped.insert(file, mapping);
            }
            Operation::Touch { file, offset } => {
                let mapping = self.mapped.get(&file).ok_or_else(|| Error::bug(format!("{file} is not mapped")))?;
                mapping.touch(offset, 1).board(|| format!("cannot touch the file {file}"))?;
                return Ok(1);
            }
            other => return Err(Error::bug(format!("{other:?} is nothing that works on many files"))),
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PosixDirectory, populate, run};
    use pocketstone_core::plan::{AppStartSpec, PostmarkSpec, Workload};
    use pocketstone_workload::{file_name, operations, population_files};
    use std::path::Path;

    fn bytes_of(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().len()
    }

    #[test]
    fn the_transactions_leave_the_files_that_their_operations_say() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PosixDirectory::open(folder.path()).unwrap();
        let (least_file_bytes, file_bytes, request_bytes) = (500, 10_000, 512);
        let data = Data::Random;
        let spec = PostmarkSpec { files: 30, least_file_bytes, file_bytes, transactions: 100, request_bytes, data };
        populate(&directory, &spec.population(3)).unwrap();
        let operations: Vec<Operation> = operations(&Workload::Postmark(spec.clone()), 3).collect();
        let names = (0..130).map(file_name);
        let mut session = Session::new(directory, names, request_bytes, data, 3).unwrap();
        let recording = run(&mut session, &operations).unwrap();
        assert_eq!(recording.calls.len(), operations.iter().filter(|o| o.is_logged()).count());
        let there = population_files(&spec.population(3));
        let mut sizes: BTreeMap<u32, u64> = (0u32..).zip(there.iter().map(|f| f.bytes)).collect();
        for operation in operations {
            match operation {
                Operation::Create { file } => assert!(sizes.insert(file, 0).is_none()),
                Operation::Append { file, bytes } => *sizes.get_mut(&file).unwrap() += bytes,
                Operation::Delete { file } => assert!(sizes.remove(&file).is_some()),
                _ => {}
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), sizes.len());
        sizes.iter().for_each(|(file, bytes)| assert_eq!(bytes_of(&folder.path().join(file_name(*file))), *bytes));
    }

    #[test]
    fn an_application_starts_and_what_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let directory = || PosixDirectory::open(folder.path()).unwrap();
        let spec = AppStartSpec { files: 40, libraries: 2, request_bytes: 65_536, data: Data::Compressible };
        populate(&directory(), &spec.population(1)).unwrap();
        assert_eq!(bytes_of(&folder.path().join("lib/library-01")), 1 << 20);
        let operations: Vec<Operation> = operations(&Workload::AppStart(spec.clone()), 1).collect();
        let files = population_files(&spec.population(1));
        let names = || files.iter().map(|f| f.name.clone());
        let mut session = Session::new(directory(), names(), 65_536, spec.data, 1).unwrap();
        assert_eq!(run(&mut session, &operations).unwrap().calls.len(), operations.len());
        std::fs::remove_file(folder.path().join("part-0001/file-00000033")).unwrap();
        let mut session = Session::new(directory(), names(), 65_536, spec.data, 1).unwrap();
        let error = run(&mut session, &operations).unwrap_err();
        assert!(error.chain().contains("Open { file: 33, append: false }"), "{}", error.chain());
    }
}
