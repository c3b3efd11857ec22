//! Chunks of files, in memory and on the chip.

use super::{Files, Space};
use crate::log::tags::Content;
use pocketstone_vfs::{Ino, Result};

impl Files {
    /// Hands out a chunk's bytes, by the cache where there is one.
    pub(crate) fn with_chunk(&mut self, ino: Ino, chunk: u32, size: u64, take: impl FnOnce(&[u8])) -> Result<()> {
        if self.cache.is_on() {
            self.bring(ino, chunk, size)?;
            if let Some(entry) = self.cache.find(ino, chunk) {
                take(&entry.data);
            }
            return Ok(());
        }
        let mut data = vec![0; self.tree.log.chip.data_bytes()];
        self.load_chunk(ino, chunk, size, &mut data)?;
        take(&data);
        Ok(())
    }

    /// A chunk as a reader sees it: zeros where there is nothing, and behind the file's end.
    pub(crate) fn load_chunk(&mut self, ino: Ino, chunk: u32, size: u64, data: &mut [u8]) -> Result<()> {
        match self.tree.chunk_of(ino, chunk) {
            0 => data.fill(0),
            place => self.tree.log.read_chunk(place, data)?,
        }
        data[self.tree.valid_bytes(size, chunk)..].fill(0);
        Ok(())
    }

    /// Brings a chunk into the cache.
    pub(crate) fn bring(&mut self, ino: Ino, chunk: u32, size: u64) -> Result<()> {
        if self.cache.has(ino, chunk) {
            return Ok(());
        }
        if self.cache.must_write_first() {
            self.collect(false)?;
        }
        let mut old = self.cache.make_room();
        if let Some(entry) = old.take_if(|entry| entry.dirty) {
            let data = entry.data.clone();
            if let Err(error) = self.write_chunk(entry.object, entry.chunk, &data, Space::Reserve) {
                self.cache.put_back(entry);
                return Err(error);
            }
            old = Some(entry);
        }
        let mut data = vec![0; self.tree.log.chip.data_bytes()];
        self.load_chunk(ino, chunk, size, &mut data)?;
        self.cache.insert(ino, chunk, old).data.copy_from_slice(&data);
        Ok(())
    }

    /// Writes the `chunk`-th chunk of a file to the chip; its size says how many bytes of it are valid. Nothing is
    /// collected meanwhile: a chunk between the cache and the chip would be missed by the header of a file that moves.
    pub(crate) fn write_chunk(&mut self, ino: Ino, chunk: u32, data: &[u8], space: Space) -> Result<()> {
        let size = self.tree.file_size(ino)?;
        self.write_chunk_of(ino, chunk, data, size, space)
    }

    /// The same for a file that will have `size` bytes.
    pub(crate) fn write_chunk_of(&mut self, ino: Ino, chunk: u32, data: &[u8], size: u64, space: Space) -> Result<()> {
        let bytes = self.tree.valid_bytes(size, chunk) as u32;
        if bytes == 0 {
            return Ok(());
        }
        if space == Space::Ordinary {
            self.check_space(0)?;
        }
        let place = self.tree.log.append(data, ino, Content::Data { chunk, bytes })?;
        let old = self.tree.set_chunk(ino, chunk, place);
        self.tree.log.discard(old)
    }

    /// Writes to the chip what of a file a header must not be newer than: what is in the cache, and what a loss of
    /// power has taken.
    pub(crate) fn flush(&mut self, ino: Ino) -> Result<()> {
        self.fill_lost_chunks(ino)?;
        while self.cache.is_dirty(ino) {
            self.collect(false)?;
            let Some(mut entry) = self.cache.take_dirty(ino) else { break };
            let data = entry.data.clone();
            if let Err(error) = self.write_chunk(ino, entry.chunk, &data, Space::Reserve) {
                self.cache.put_back(entry);
                return Err(error);
            }
            entry.dirty = false;
            self.cache.put_back(entry);
        }
        Ok(())
    }
}
