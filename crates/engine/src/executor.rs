//! The one executor of file operations: on every way to a volume, for every workload on files.

mod archive;
mod buffer;

use self::buffer::Buffer;
use crate::populate::c_name;
use crate::tree::whole;
use crate::{Engine, Touch, Tree};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Prefetched;
use pocketstone_core::{Error, Result};
use pocketstone_workload::{Caches, Content, FileWorkload, Operation, Purpose, directory_name};
use std::ffi::CString;
use std::sync::Arc;

/// Bytes moved at a time when files are read to warm caches.
const PART_BYTES: usize = 1 << 20;

/// The smallest call that is tried when a volume is nearly full.
const LEAST_PART_BYTES: u64 = 4096;

/// What a thread of a workload holds: files that are open and mapped, a buffer.
pub struct Executor<'t, T: Tree + 't> {
    tree: &'t T,
    names: Arc<[CString]>,
    slots: Vec<Slot<'t, T>>,
    buffer: Buffer,
    written: u64,
    sync: bool,
    prefetched: Option<Prefetched>,
    filled_bytes: Option<u64>,
}

/// A file of the workload, by its number.
struct Slot<'t, T: Tree + 't> {
    open: Option<T::File<'t>>,
    map: Option<T::Map<'t>>,
}

impl<'t, T: Tree> Executor<'t, T> {
    /// As many executors as the workload has threads, ready to begin: what it sets up is done, and where its caches
    /// are warm, what is open has been read and every name looked up, so that nothing that is measured is the first
    /// of its kind.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the volume refuses, or contains other files than the workload's.
    pub fn all(tree: &'t T, workload: &dyn FileWorkload, seed: u64) -> Result<Vec<Self>> {
        let names: Arc<[CString]> = workload.names(seed).iter().map(|name| c_name(name)).collect::<Result<_>>()?;
        let population = workload.population(seed);
        if population.caches != Caches::Cold {
            for (file, name) in population.list().iter().zip(names.iter()) {
                let bytes = tree.stat(name).board(|| format!("cannot find {}", file.name))?;
                if bytes != file.bytes {
                    return Err(Error::board(format!("{} has {bytes} bytes, not {}", file.name, file.bytes)));
                }
            }
        }
        (0..workload.threads()).map(|_| Self::new(tree, names.clone(), workload, seed)).collect()
    }

    fn new(tree: &'t T, names: Arc<[CString]>, workload: &dyn FileWorkload, seed: u64) -> Result<Self> {
        let population = workload.population(seed);
        let slots = names.iter().map(|_| Slot { open: None, map: None }).collect();
        // Touched now, so that the first request does not pay for the buffer's page faults.
        let mut buffer = Buffer::new(workload.request_bytes() as usize);
        Content::new(population.data, seed ^ 2).fill(&mut buffer);
        let sync = workload.sync_each();
        let (prefetched, filled_bytes) = (None, None);
        let mut made = Executor { tree, names, slots, buffer, written: 0, sync, prefetched, filled_bytes };
        for operation in workload.setup() {
            made.execute(&operation).board(|| format!("{operation:?} failed"))?;
        }
        if population.caches == Caches::Warm && !tree.direct() && made.slots.iter().any(|slot| slot.open.is_some()) {
            let mut part = vec![0; PART_BYTES];
            for (file, new) in made.slots.iter().zip(population.list()) {
                let Some(file) = &file.open else { continue };
                for offset in (0..new.bytes).step_by(PART_BYTES) {
                    let bytes = (new.bytes - offset).min(PART_BYTES as u64) as usize;
                    whole(tree.read(file, &mut part[..bytes], offset)?, bytes, "a read")?;
                }
            }
        }
        Ok(made)
    }

    /// What the call before the first request did, where there was one.
    pub fn prefetched(&self) -> Option<Prefetched> {
        self.prefetched
    }

    /// Bytes that fitted the volume, where it was filled.
    pub fn filled_bytes(&self) -> Option<u64> {
        self.filled_bytes
    }

    /// Writes until a file has so many bytes more, or nothing fits any more; the bytes written.
    fn fill(&mut self, file: u32, bytes: u64) -> Result<u64> {
        let open = Self::open_file(&self.slots, file)?;
        let mut filled = 0;
        while filled < bytes {
            let mut part = (bytes - filled).min(self.buffer.len() as u64);
            stamp(&mut self.buffer, &mut self.written, part);
            let taken = loop {
                match self.tree.append_what_fits(open, &self.buffer[..part as usize])? as u64 {
                    // What does not fit as a whole may fit in part.
                    0 if part > LEAST_PART_BYTES => part = (part / 2).max(LEAST_PART_BYTES),
                    taken => break taken,
                }
            };
            if taken == 0 {
                break;
            }
            filled += taken;
        }
        Ok(filled)
    }

    /// Says of all files that are open that they are read at random, or in no special order.
    ///
    /// # Errors
    /// `ErrorKind::User` if the files are in process, where the kernel is not involved; `ErrorKind::Board` if the
    /// kernel refuses.
    pub fn advise(&self, random: bool) -> Result<()> {
        let open = self.slots.iter().filter_map(|slot| Some((slot.open.as_ref()?, slot.map.as_ref())));
        open.into_iter().try_for_each(|(file, map)| self.tree.advise(file, map, random))
    }

    #[inline]
    fn name(&self, file: u32) -> Result<&CString> {
        self.names.get(file as usize).ok_or_else(|| Error::bug(format!("the file {file} has no name")))
    }

    fn slot(&mut self, file: u32) -> Result<&mut Slot<'t, T>> {
        self.slots.get_mut(file as usize).ok_or_else(|| Error::bug(format!("there is no file {file}")))
    }

    #[inline]
    fn open_file<'s>(slots: &'s [Slot<'t, T>], file: u32) -> Result<&'s T::File<'t>> {
        let slot = slots.get(file as usize).and_then(|slot| slot.open.as_ref());
        slot.ok_or_else(|| Error::bug(format!("the file {file} is not open")))
    }

    fn sync(&self, file: &T::File<'_>) -> Result<()> {
        if self.sync { self.tree.sync(file) } else { Ok(()) }
    }

    fn write_all(&mut self, file: &T::File<'_>, bytes: u64) -> Result<()> {
        let mut offset = 0;
        while offset < bytes {
            let part = (bytes - offset).min(self.buffer.len() as u64);
            stamp(&mut self.buffer, &mut self.written, part);
            whole(self.tree.write(file, &self.buffer[..part as usize], offset)?, part as usize, "a write")?;
            offset += part;
        }
        Ok(())
    }
}

/// Reads a file from its start to its end, by calls that ask for as much as fits the buffer, until one finds nothing.
fn read_all<T: Tree>(tree: &T, file: &T::File<'_>, buffer: &mut [u8]) -> Result<u64> {
    let mut offset = 0;
    loop {
        match tree.read(file, buffer, offset)? {
            0 => return Ok(offset),
            got => offset += got as u64,
        }
    }
}

/// Makes the next bytes to write. No two writes write the same: each starts with its number.
#[inline]
fn stamp(buffer: &mut [u8], written: &mut u64, bytes: u64) {
    *written += 1;
    let stamp = written.to_le_bytes();
    let length = stamp.len().min(bytes as usize);
    buffer[..length].copy_from_slice(&stamp[..length]);
}

impl<T: Tree> Engine for Executor<'_, T> {
    fn execute(&mut self, operation: &Operation) -> Result<u64> {
        match *operation {
            Operation::Read { file, offset, bytes } => {
                let slot = self.slots.get(file as usize);
                if let Some(map) = slot.and_then(|slot| slot.map.as_ref()) {
                    return map.touch(offset, bytes).map(|()| bytes);
                }
                let open = Self::open_file(&self.slots, file)?;
                let got = self.tree.read(open, &mut self.buffer[..bytes as usize], offset)?;
                whole(got, bytes as usize, "a read")?;
                return Ok(bytes);
            }
            Operation::Write { file, offset, bytes } => {
                stamp(&mut self.buffer, &mut self.written, bytes);
                let open = Self::open_file(&self.slots, file)?;
                whole(self.tree.write(open, &self.buffer[..bytes as usize], offset)?, bytes as usize, "a write")?;
                return self.sync(open).map(|()| bytes);
            }
            Operation::Append { file, bytes } => {
                stamp(&mut self.buffer, &mut self.written, bytes);
                let open = Self::open_file(&self.slots, file)?;
                whole(self.tree.append(open, &self.buffer[..bytes as usize])?, bytes as usize, "an append")?;
                return self.sync(open).map(|()| bytes);
            }
            Operation::Touch { file, offset } => {
                let map = self.slots.get(file as usize).and_then(|slot| slot.map.as_ref());
                let map = map.ok_or_else(|| Error::bug(format!("the file {file} is not mapped")))?;
                map.touch(offset, 1).board(|| format!("cannot touch the file {file}"))?;
                return Ok(1);
            }
            Operation::Open { file, purpose } => {
                let open = self.tree.open(self.name(file)?, purpose)?;
                self.slot(file)?.open = Some(open);
            }
            Operation::CreateFile { file } => {
                let created = self.tree.create(self.name(file)?)?;
                self.sync(&created)?;
            }
            Operation::Create { file } => {
                let open = self.tree.create(self.name(file)?)?;
                self.slot(file)?.open = Some(open);
            }
            Operation::Attributes { file } => {
                std::hint::black_box(self.tree.attributes(Self::open_file(&self.slots, file)?)?);
            }
            Operation::SeekEnd { file } => {
                std::hint::black_box(self.tree.seek_end(Self::open_file(&self.slots, file)?)?);
            }
            Operation::Close { file } => {
                let closed = self.slot(file)?.open.take();
                closed.ok_or_else(|| Error::bug(format!("the file {file} is not open")))?;
            }
            Operation::Map { file } => {
                let map = self.tree.map(self.name(file)?)?;
                self.slot(file)?.map = Some(map);
            }
            Operation::Sync { file } => self.tree.sync(Self::open_file(&self.slots, file)?)?,
            Operation::Fill { file, bytes } => {
                let filled = self.fill(file, bytes)?;
                self.filled_bytes = Some(self.filled_bytes.unwrap_or(0) + filled);
                return Ok(filled);
            }
            Operation::SyncData { file } => self.tree.sync_data(Self::open_file(&self.slots, file)?)?,
            Operation::SetOwner { file } => self.tree.set_owner(Self::open_file(&self.slots, file)?)?,
            Operation::SyncFolder => self.tree.sync_folder()?,
            Operation::Truncate { file, bytes } => {
                let open = Self::open_file(&self.slots, file)?;
                self.tree.truncate(open, bytes)?;
                self.sync(open)?;
            }
            Operation::Allocate { file, bytes } => {
                self.tree.allocate(Self::open_file(&self.slots, file)?, bytes)?;
            }
            Operation::ReadOpen { file } => {
                let open = Self::open_file(&self.slots, file)?;
                return read_all(self.tree, open, &mut self.buffer);
            }
            Operation::ReadFile { file } => {
                let open = self.tree.open(self.name(file)?, Purpose::Read)?;
                return read_all(self.tree, &open, &mut self.buffer);
            }
            Operation::WriteFile { file, bytes } => {
                let open = self.tree.open_anew(self.name(file)?)?;
                self.write_all(&open, bytes)?;
                self.sync(&open)?;
                return Ok(bytes);
            }
            Operation::Archive { first, files, into } => {
                let names = self.names.clone();
                let (packed, into) = (names.get(first as usize..(first + files) as usize), self.name(into)?.clone());
                let packed = packed.ok_or_else(|| Error::bug("a file of an archive has no name"))?;
                return archive::archive(self.tree, packed, &into, &mut self.buffer);
            }
            Operation::Delete { file } => self.tree.unlink(self.name(file)?)?,
            Operation::Rename { file, to } => self.tree.rename(self.name(file)?, self.name(to)?)?,
            Operation::LookUp { file } => {
                std::hint::black_box(self.tree.stat(self.name(file)?)?);
            }
            Operation::MakeDirectory { directory } => {
                self.tree.mkdir(&c_name(&directory_name(directory))?)?;
            }
            Operation::List => {
                std::hint::black_box(self.tree.list()?);
            }
            Operation::Evict { file } => self.tree.evict(self.name(file)?)?,
            Operation::Invalidate { file } => self.tree.invalidate(Self::open_file(&self.slots, file)?)?,
            Operation::Prefetch { by, offset, bytes } => {
                let file = Self::open_file(&self.slots, 0)?;
                let (resident_pages, latency_ns) = self.tree.prefetch(file, by, offset, bytes)?;
                self.prefetched = Some(Prefetched { latency_ns, resident_pages });
                return Ok(bytes);
            }
            Operation::Pause { .. } | Operation::Turn { .. } => {
                return Err(Error::bug(format!("{operation:?} cannot be executed")));
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
