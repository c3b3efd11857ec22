//! Operations on a folder of files, whatever kind of folder it is.

use crate::Engine;
use pocketstone_core::error::Context;
use pocketstone_core::plan::{FileOperation, FilesSpec, Population, Sync};
use pocketstone_core::random::Random;
use pocketstone_core::{Error, Result};
use pocketstone_workload::{Content, Operation, file_name, population_files};
use std::ffi::{CStr, CString};

/// Bytes moved at a time when files are made, or read to warm caches.
const PART_BYTES: usize = 1 << 20;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reading alone.
    Read,
    /// Reading, and writing at offsets.
    Write,
    /// Reading, and writing at its end.
    Append,
}

/// A folder of files. One call of a method is one call of the file system, as far as it has such a call.
pub trait Directory {
    /// An open file.
    type File;

    /// Creates an empty file, which must not exist, for reading and appending.
    ///
    /// # Errors
    /// When the file system refuses.
    fn create(&self, name: &CStr) -> Result<Self::File>;

    /// Opens a file.
    ///
    /// # Errors
    /// When the file system refuses.
    fn open(&self, name: &CStr, purpose: Purpose) -> Result<Self::File>;

    /// Reads at an offset; the number of bytes got.
    ///
    /// # Errors
    /// When the file system refuses.
    fn read(&self, file: &Self::File, into: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes at an offset; the number of bytes taken.
    ///
    /// # Errors
    /// When the file system refuses.
    fn write(&self, file: &Self::File, from: &[u8], offset: u64) -> Result<usize>;

    /// Writes at the end; the number of bytes taken.
    ///
    /// # Errors
    /// When the file system refuses.
    fn append(&self, file: &Self::File, from: &[u8]) -> Result<usize>;

    /// Deletes a file.
    ///
    /// # Errors
    /// When the file system refuses.
    fn delete(&self, name: &CStr) -> Result<()>;

    /// Asks for a file's attributes by its name; its size.
    ///
    /// # Errors
    /// When the file system refuses.
    fn look_up(&self, name: &CStr) -> Result<u64>;

    /// Makes a file durable, as fsync() does.
    ///
    /// # Errors
    /// When the file system refuses.
    fn sync(&self, file: &Self::File) -> Result<()>;

    /// Makes a folder, unless it is there.
    ///
    /// # Errors
    /// When the file system refuses.
    fn make_folder(&self, name: &CStr) -> Result<()>;

    /// Makes a file's content leave the page cache, where there is one between.
    ///
    /// # Errors
    /// When the file system refuses.
    fn evict(&self, name: &CStr) -> Result<()>;
}

pub(crate) fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|e| Error::bug("a NUL in a file's name").because(e))
}

fn name(file: u64) -> Result<CString> {
    c_name(&file_name(file as u32))
}

/// Makes the files that a workload starts with.
///
/// # Errors
/// When the folder refuses.
pub fn populate<D: Directory>(directory: &D, population: &Population) -> Result<()> {
    let files = population_files(population);
    let most = files.iter().map(|f| f.bytes).max().unwrap_or(0);
    let mut buffer = vec![0; PART_BYTES.min(most as usize)];
    // One stream for each file: the number of files does not change what the first of them hold.
    let mut seeds = Random::labelled(population.seed, "population");
    let mut folder = "";
    for (number, new) in files.iter().enumerate() {
        let failed = || format!("cannot make the file {} of {}", number + 1, files.len());
        if let Some((its, _)) = new.name.rsplit_once('/').filter(|(its, _)| *its != folder) {
            directory.make_folder(&c_name(its)?).board(failed)?;
            folder = its;
        }
        let file = directory.create(&c_name(&new.name)?).board(failed)?;
        let mut content = Content::new(population.data, seeds.next_u64());
        let mut left = new.bytes;
        while left > 0 {
            let part = &mut buffer[..left.min(PART_BYTES as u64) as usize];
            content.fill(part);
            let taken = directory.append(&file, part).board(failed)?;
            whole(taken, part.len(), "an append").board(failed)?;
            left -= part.len() as u64;
        }
    }
    Ok(())
}

pub(crate) fn whole(moved: usize, wanted: usize, what: &str) -> Result<()> {
    match moved == wanted {
        true => Ok(()),
        false => Err(Error::board(format!("{what} of {wanted} bytes moved {moved}"))),
    }
}

/// A folder of files with caches warm, ready for the operations of a `files` workload.
pub struct Files<D: Directory> {
    directory: D,
    names: Vec<CString>,
    open: Vec<D::File>,
    buffer: Vec<u8>,
    written: u64,
    sync: bool,
}

impl<D: Directory> Files<D> {
    /// Takes a folder that [`populate`] has filled. Opens what is to be read or written, reads all of it,
    /// and looks every name up: nothing that is measured is the first of its kind.
    ///
    /// # Errors
    /// When the folder refuses, or holds other files.
    pub fn new(directory: D, spec: &FilesSpec, seed: u64) -> Result<Self> {
        let created = if spec.operation == FileOperation::Create { spec.requests } else { 0 };
        let names: Vec<CString> = (0..spec.files + created).map(name).collect::<Result<_>>()?;
        let existing = &names[..spec.files as usize];
        for name in existing {
            let bytes = directory.look_up(name).board(|| format!("cannot find {}", name.to_string_lossy()))?;
            if bytes != spec.file_bytes {
                let (name, wanted) = (name.to_string_lossy(), spec.file_bytes);
                return Err(Error::board(format!("{name} has {bytes} bytes, not {wanted}")));
            }
        }
        let mut open = Vec::new();
        if spec.on_open_files() {
            let purpose = match spec.operation {
                FileOperation::Append => Purpose::Append,
                FileOperation::Write => Purpose::Write,
                _ => Purpose::Read,
            };
            for name in existing {
                open.push(directory.open(name, purpose).board(|| format!("cannot open {}", name.to_string_lossy()))?);
            }
        }
        let mut part = vec![0; PART_BYTES.min(spec.file_bytes as usize)];
        for file in &open {
            for offset in (0..spec.file_bytes).step_by(PART_BYTES) {
                let bytes = (spec.file_bytes - offset).min(PART_BYTES as u64) as usize;
                let got = directory.read(file, &mut part[..bytes], offset)?;
                whole(got, bytes, "a read")?;
            }
        }
        // Touched now, so that the first request does not pay for the buffer's page faults.
        let mut buffer = vec![0xa5; spec.request_bytes as usize];
        Content::new(spec.data, seed ^ 2).fill(&mut buffer);
        Ok(Files { directory, names, open, buffer, written: 0, sync: spec.sync == Sync::Each })
    }

    /// The next bytes to write. No two writes write the same: each starts with its number.
    fn stamp(&mut self, bytes: u64) {
        self.written += 1;
        let stamp = self.written.to_le_bytes();
        let length = stamp.len().min(bytes as usize);
        self.buffer[..length].copy_from_slice(&stamp[..length]);
    }

    fn finish(&self, file: &D::File) -> Result<()> {
        if self.sync { self.directory.sync(file) } else { Ok(()) }
    }
}

impl<D: Directory> Engine for Files<D> {
    fn execute(&mut self, operation: &Operation) -> Result<u64> {
        match *operation {
            Operation::Read { file, offset, bytes } => {
                let got = self.directory.read(&self.open[file as usize], &mut self.buffer[..bytes as usize], offset)?;
                whole(got, bytes as usize, "a read")?;
                Ok(bytes)
            }
            Operation::Write { file, offset, bytes } => {
                self.stamp(bytes);
                let file = &self.open[file as usize];
                let taken = self.directory.write(file, &self.buffer[..bytes as usize], offset)?;
                whole(taken, bytes as usize, "a write")?;
                self.finish(file).map(|()| bytes)
            }
            Operation::Append { file, bytes } => {
                self.stamp(bytes);
                let file = &self.open[file as usize];
                let taken = self.directory.append(file, &self.buffer[..bytes as usize])?;
                whole(taken, bytes as usize, "an append")?;
                self.finish(file).map(|()| bytes)
            }
            Operation::Create { file } => {
                let file = self.directory.create(&self.names[file as usize])?;
                self.finish(&file).map(|()| 0)
            }
            Operation::Delete { file } => self.directory.delete(&self.names[file as usize]).map(|()| 0),
            Operation::LookUp { file } => {
                let bytes = self.directory.look_up(&self.names[file as usize])?;
                std::hint::black_box(bytes);
                Ok(0)
            }
            other => Err(Error::bug(format!("{other:?} is nothing that a `files` workload executes"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PosixDirectory, ScmfsDirectory, run};
    use pocketstone_core::plan::{Data, Pattern, Workload};
    use pocketstone_media::Heap;
    use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
    use pocketstone_workload::operations;
    use std::path::Path;
    use std::sync::Arc;

    fn spec(operation: FileOperation, request_bytes: u64) -> FilesSpec {
        FilesSpec {
            operation,
            pattern: Pattern::Random,
            requests: 40,
            request_bytes,
            files: 50,
            file_bytes: 20_000,
            inter_arrival_ns: 0,
            data: Data::Random,
            sync: Sync::Each,
        }
    }

    /// FNV-1a.
    fn digest(bytes: &[u8], start: u64) -> u64 {
        bytes.iter().fold(start, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
    }

    /// What the calls of a workload moved, and what the folder's files then hold.
    fn outcome<D: Directory>(directory: D, spec: &FilesSpec) -> (u64, u64) {
        populate(&directory, &spec.population(3)).unwrap();
        let mut files = Files::new(directory, spec, 3).unwrap();
        let mut moved = 1;
        for operation in operations(&Workload::Files(spec.clone()), 3) {
            moved = digest(&files.execute(&operation).unwrap().to_le_bytes(), moved);
            moved = digest(&files.buffer, moved);
        }
        let mut held = 1;
        for number in 0..spec.files + spec.requests {
            let name = name(number).unwrap();
            let Ok(bytes) = files.directory.look_up(&name) else { continue };
            let file = files.directory.open(&name, Purpose::Read).unwrap();
            let mut content = vec![0; bytes as usize];
            assert_eq!(files.directory.read(&file, &mut content, 0).unwrap() as u64, bytes);
            held = digest(&content, digest(name.to_bytes(), held));
        }
        (moved, held)
    }

    fn volume() -> (tempfile::TempDir, Arc<Volume>) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("region");
        let options = pocketstone_media::MapOptions::default();
        let region = pocketstone_media::Mapped::create(&path, 64 << 20, &options).unwrap();
        Volume::create(Box::new(region), &CreateOptions::default()).unwrap();
        let region = pocketstone_media::Mapped::open(&path, &options).unwrap();
        (home, Arc::new(Volume::open(Box::new(region), &OpenOptions::default()).unwrap()))
    }

    fn on_posix(folder: &Path, spec: &FilesSpec) -> (u64, u64) {
        outcome(PosixDirectory::open(folder).unwrap(), spec)
    }

    #[test]
    fn every_operation_does_the_same_on_every_kind_of_folder() {
        use FileOperation::{Append, Create, Delete, LookUp, Read, Write};
        let mut all = Vec::new();
        for (operation, bytes) in [(Read, 4096), (Write, 700), (Append, 5), (Create, 1), (Delete, 1), (LookUp, 1)] {
            let spec = spec(operation, bytes);
            let folder = tempfile::tempdir().unwrap();
            let (_home, volume) = volume();
            let (posix, scmfs) = (on_posix(folder.path(), &spec), outcome(ScmfsDirectory::new(volume), &spec));
            assert_eq!(posix, scmfs, "{operation:?}");
            all.push(posix.1);
        }
        // A write, an append, a creation and a deletion each leave something else behind.
        let unchanged = all[0];
        assert_eq!(all.iter().filter(|held| **held == unchanged).count(), 2, "{all:?}");
    }

    #[test]
    fn a_volume_in_plain_memory_does_too() {
        let image = {
            let (home, volume) = volume();
            Arc::into_inner(volume).unwrap().close().unwrap();
            std::fs::read(home.path().join("region")).unwrap()
        };
        let volume = Volume::open(Box::new(Heap::from_image(&image)), &OpenOptions::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let spec = FilesSpec { files: 3, file_bytes: 3 << 20, ..spec(FileOperation::Write, 1 << 20) };
        let scmfs = outcome(ScmfsDirectory::new(Arc::new(volume)), &spec);
        assert_eq!(on_posix(folder.path(), &spec), scmfs);
    }

    #[test]
    fn calls_are_recorded_and_a_folder_with_other_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(FileOperation::LookUp, 1);
        let directory = || PosixDirectory::open(folder.path()).unwrap();
        populate(&directory(), &spec.population(1)).unwrap();
        let operations: Vec<Operation> = operations(&Workload::Files(spec.clone()), 1).collect();
        let recording = run(&mut Files::new(directory(), &spec, 1).unwrap(), &operations).unwrap();
        assert_eq!(recording.calls.len(), 40);
        let larger = FilesSpec { file_bytes: 20_001, ..spec.clone() };
        let error = Files::new(directory(), &larger, 1).map(|_| ()).unwrap_err();
        assert!(error.chain().contains("has 20000 bytes, not 20001"), "{}", error.chain());
        let more = FilesSpec { files: 51, ..spec };
        assert!(Files::new(directory(), &more, 1).map(|_| ()).unwrap_err().chain().contains("cannot find"));
    }
}
