//! Reading and writing files.

use crate::chip::Chunk;
use crate::log::Space;
use crate::tags::{Content, Kind};
use crate::volume::Volume;
use pocketstone_core::inode::{Error, Ino, Result};

/// The largest number of a chunk in a file.
const LAST_CHUNK: u64 = (1 << 28) - 1;
/// Gaps shorter than so many chunks are filled with zeros instead of left as holes.
const FILLED_GAP: u64 = 4;

impl Volume {
    pub(crate) fn file_size(&self, ino: Ino) -> Result<u64> {
        match self.objects.get(ino) {
            Some(object) if object.kind == Kind::File => Ok(object.value),
            Some(object) if object.kind == Kind::Directory => Err(Error::IsDirectory),
            Some(_) => Err(Error::Invalid),
            None => Err(Error::NotFound),
        }
    }

    pub(crate) fn chunk_of(&self, ino: Ino, chunk: u32) -> Chunk {
        self.objects.get(ino).map_or(0, |object| object.map.get(self.width, chunk - 1))
    }

    /// Valid bytes of the `chunk`-th chunk, from 1, of a file of `size` bytes.
    pub(crate) fn valid_bytes(&self, size: u64, chunk: u32) -> usize {
        let all = self.chip.data_bytes() as u64;
        size.saturating_sub(u64::from(chunk - 1) * all).min(all) as usize
    }

    /// Reads bytes of a file; how many there were. Holes are zeros.
    ///
    /// # Errors
    /// When it is no file, or a page cannot be read.
    pub fn read(&mut self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize> {
        let size = self.file_size(ino)?;
        let bytes = size.saturating_sub(offset).min(into.len() as u64) as usize;
        let all = self.chip.data_bytes();
        let mut done = 0;
        while done < bytes {
            let at = offset + done as u64;
            let (chunk, start) = ((at / all as u64) as u32 + 1, (at % all as u64) as usize);
            let part = (all - start).min(bytes - done);
            let piece = &mut into[done..done + part];
            if let Some(entry) = self.cache.find(ino, chunk) {
                piece.copy_from_slice(&entry.data[start..start + part]);
            } else {
                let place = self.chunk_of(ino, chunk);
                if place == 0 {
                    piece.fill(0);
                } else if part == all {
                    self.read_chunk(place, piece)?;
                } else {
                    self.with_chunk(ino, chunk, size, |data| piece.copy_from_slice(&data[start..start + part]))?;
                }
            }
            done += part;
        }
        Ok(bytes)
    }

    /// Hands out a chunk's bytes, by the cache where there is one.
    fn with_chunk(&mut self, ino: Ino, chunk: u32, size: u64, take: impl FnOnce(&[u8])) -> Result<()> {
        if self.cache.is_on() {
            self.bring(ino, chunk, size)?;
            if let Some(entry) = self.cache.find(ino, chunk) {
                take(&entry.data);
            }
            return Ok(());
        }
        let mut data = vec![0; self.chip.data_bytes()];
        self.load_chunk(ino, chunk, size, &mut data)?;
        take(&data);
        Ok(())
    }

    /// A chunk as a reader sees it: zeros where there is nothing, and behind the file's end.
    pub(crate) fn load_chunk(&mut self, ino: Ino, chunk: u32, size: u64, data: &mut [u8]) -> Result<()> {
        match self.chunk_of(ino, chunk) {
            0 => data.fill(0),
            place => self.read_chunk(place, data)?,
        }
        data[self.valid_bytes(size, chunk)..].fill(0);
        Ok(())
    }

    /// Brings a chunk into the cache.
    fn bring(&mut self, ino: Ino, chunk: u32, size: u64) -> Result<()> {
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
        let mut data = vec![0; self.chip.data_bytes()];
        self.load_chunk(ino, chunk, size, &mut data)?;
        self.cache.insert(ino, chunk, old).data.copy_from_slice(&data);
        Ok(())
    }

    /// Writes bytes to a file, which grows as needed; how many. Less than all when space ran out on the way.
    ///
    /// # Errors
    /// When it is no file, there is no space, or the chip refuses.
    pub fn write(&mut self, ino: Ino, offset: u64, from: &[u8]) -> Result<usize> {
        self.writable()?;
        let size = self.file_size(ino)?;
        if from.is_empty() {
            return Ok(0);
        }
        let all = self.chip.data_bytes();
        if offset.saturating_add(from.len() as u64) > LAST_CHUNK * all as u64 {
            return Err(Error::TooLarge);
        }
        if offset > size {
            self.grow(ino, offset, false)?;
        }
        let mut done = 0;
        while done < from.len() {
            let at = offset + done as u64;
            let (chunk, start) = ((at / all as u64) as u32 + 1, (at % all as u64) as usize);
            let part = (all - start).min(from.len() - done);
            match self.write_part(ino, chunk, start, &from[done..done + part]) {
                Ok(()) => done += part,
                Err(Error::NoSpace) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        self.details.changed(ino, self.now_s());
        for id in self.details.overdue() {
            self.write_header(id)?;
        }
        Ok(done)
    }

    fn write_part(&mut self, ino: Ino, chunk: u32, start: usize, from: &[u8]) -> Result<()> {
        let all = self.chip.data_bytes();
        let size = self.file_size(ino)?;
        let end = u64::from(chunk - 1) * all as u64 + (start + from.len()) as u64;
        self.check_space(0)?;
        if from.len() == all {
            // Until it is written, what was there before counts, in the cache too.
            self.collect(false)?;
            self.write_chunk_of(ino, chunk, from, size.max(end), Space::Ordinary)?;
            self.cache.forget_one(ino, chunk);
            self.grow_to(ino, end);
            return Ok(());
        }
        if self.cache.is_on() {
            self.bring(ino, chunk, size)?;
            if let Some(entry) = self.cache.find(ino, chunk) {
                entry.data[start..start + from.len()].copy_from_slice(from);
                entry.dirty = true;
            }
            self.grow_to(ino, end);
            return Ok(());
        }
        self.collect(false)?;
        let mut data = vec![0; all];
        self.load_chunk(ino, chunk, size, &mut data)?;
        data[start..start + from.len()].copy_from_slice(from);
        self.write_chunk_of(ino, chunk, &data, size.max(end), Space::Ordinary)?;
        self.grow_to(ino, end);
        Ok(())
    }

    fn set_size(&mut self, ino: Ino, size: u64) {
        if let Some(object) = self.objects.get_mut(ino) {
            object.value = size;
        }
    }

    fn grow_to(&mut self, ino: Ino, size: u64) {
        if let Some(object) = self.objects.get_mut(ino) {
            object.value = object.value.max(size);
        }
    }

    /// Writes the `chunk`-th chunk of a file to the chip; its size says how many bytes of it are valid. Nothing is
    /// collected meanwhile: a chunk between the cache and the chip would be missed by the header of a file that moves.
    fn write_chunk(&mut self, ino: Ino, chunk: u32, data: &[u8], space: Space) -> Result<()> {
        let size = self.file_size(ino)?;
        self.write_chunk_of(ino, chunk, data, size, space)
    }

    /// The same for a file that will have `size` bytes.
    pub(crate) fn write_chunk_of(&mut self, ino: Ino, chunk: u32, data: &[u8], size: u64, space: Space) -> Result<()> {
        let bytes = self.valid_bytes(size, chunk) as u32;
        if bytes == 0 {
            return Ok(());
        }
        let place = self.append(data, ino, Content::Data { chunk, bytes }, space)?;
        let width = self.width;
        let old = match self.objects.get_mut(ino) {
            Some(object) => {
                let old = object.map.get(width, chunk - 1);
                object.map.set(width, chunk - 1, place);
                old
            }
            None => place,
        };
        self.discard(old)
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

    /// Cuts a file, or lengthens it with zeros.
    pub(crate) fn resize(&mut self, ino: Ino, size: u64) -> Result<()> {
        let old = self.file_size(ino)?;
        let all = self.chip.data_bytes() as u64;
        if size > LAST_CHUNK * all {
            return Err(Error::TooLarge);
        }
        if size > old {
            self.grow(ino, size, true)?;
        }
        self.details.changed(ino, self.now_s());
        if size < old { self.cut(ino, size) } else { self.write_header(ino) }
    }

    /// What is on the chip stays whole until the header with the new size is there: what follows may erase blocks.
    fn cut(&mut self, ino: Ino, size: u64) -> Result<()> {
        let all = self.chip.data_bytes() as u64;
        let kept = size.div_ceil(all) as u32;
        self.flush(ino)?;
        self.collect(false)?;
        let old = self.file_size(ino)?;
        self.set_size(ino, size);
        if let Err(error) = self.put_header(ino, None, 0, false) {
            self.set_size(ino, old);
            return Err(error);
        }
        self.cache.forget(ino, if size % all == 0 { kept + 1 } else { kept });
        let width = self.width;
        let object = self.objects.get(ino).ok_or(Error::NotFound)?;
        let gone: Vec<(u32, Chunk)> = object.map.chunks(width).filter(|&(slot, _)| slot >= kept).collect();
        for (slot, place) in gone.into_iter().rev() {
            if let Some(object) = self.objects.get_mut(ino) {
                object.map.set(width, slot, 0);
            }
            self.discard(place)?;
        }
        if let Some(object) = self.objects.get_mut(ino) {
            object.map.shrink(width, kept);
        }
        self.trim(ino)
    }

    /// Sees to it that nothing but zeros lies behind the end in the last chunk.
    fn trim(&mut self, ino: Ino) -> Result<()> {
        let size = self.file_size(ino)?;
        let all = self.chip.data_bytes() as u64;
        if size % all == 0 {
            return Ok(());
        }
        let last = (size / all) as u32 + 1;
        self.flush(ino)?;
        let place = self.chunk_of(ino, last);
        if place == 0 {
            return Ok(());
        }
        if let crate::tags::Found::Tags { tags, .. } = self.chip.read_tags(place)? {
            let bytes = (size % all) as u32;
            if matches!(tags.content, Content::Data { bytes: valid, .. } if valid <= bytes) {
                return Ok(());
            }
        }
        self.collect(false)?;
        let mut data = vec![0; all as usize];
        self.load_chunk(ino, last, size, &mut data)?;
        self.write_chunk(ino, last, &data, Space::Reserve)
    }

    /// Lengthens a file with zeros, up to `size`.
    fn grow(&mut self, ino: Ino, size: u64, whole: bool) -> Result<()> {
        let old = self.file_size(ino)?;
        let all = self.chip.data_bytes() as u64;
        self.check_space(1)?;
        self.trim(ino)?;
        if size - old < FILLED_GAP * all && self.check_space(FILLED_GAP as u32 + 1).is_ok() {
            let zeros = vec![0; all as usize];
            let mut at = old;
            while at < size {
                let (chunk, start) = ((at / all) as u32 + 1, (at % all) as usize);
                let part = (all - start as u64).min(size - at) as usize;
                self.write_part(ino, chunk, start, &zeros[..part])?;
                at += part as u64;
            }
            return Ok(());
        }
        // Where the hole starts: chunks from before an earlier cut must not come back in it.
        self.write_shrink_header(ino)?;
        if whole {
            self.set_size(ino, size);
        }
        Ok(())
    }
}
