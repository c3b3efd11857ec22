//! What a loss of power left of files' contents: what it took, and what it kept from being taken away.

use super::{Files, Space};
use crate::log::tags::{Content, Found};
use pocketstone_vfs::{Error, Ino, Result};

/// Chunks that a writer may have had in its cache.
pub const MOST_LOST: usize = 64;

impl Files {
    /// The power failed between the header that cut a file to `size` bytes and what follows it: the file's last chunk
    /// without what is behind. That must not come back once the file is longer.
    pub(crate) fn trim_chunk(&mut self, ino: Ino, chunk: u32, size: u64) -> Result<()> {
        if self.tree.chunk_of(ino, chunk) == 0 {
            return Ok(());
        }
        self.write_again(ino, chunk, size)
    }

    /// A file grew after its last header, and a loss of power took chunks that were in the cache while later ones are
    /// there. What it held there before an earlier cut must not come back once a longer header is written: zeros take
    /// the place. (A hole that a writer left has a header that says where it begins.)
    pub(crate) fn fill_lost_chunks(&mut self, ino: Ino) -> Result<()> {
        let Some(&size) = self.unfilled.get(&ino) else { return Ok(()) };
        let all = self.tree.log.chip.data_bytes() as u64;
        let Ok(now) = self.tree.file_size(ino) else { return Ok(()) };
        let mut lost = Vec::new();
        for chunk in (size / all) as u32 + 1..=now.div_ceil(all) as u32 {
            if self.is_short(ino, chunk, now)? {
                lost.push(chunk);
            }
            // No writer has more chunks in memory: these are holes of an image that nobody wrote like that.
            if lost.len() > MOST_LOST {
                lost.clear();
                break;
            }
        }
        for chunk in lost {
            match self.collect(false) {
                Err(Error::NoSpace) => return Ok(()),
                collected => collected?,
            }
            // Collecting moves headers, and those must not be newer than this either: then it is done.
            if self.unfilled.contains_key(&ino) {
                self.write_again(ino, chunk, now)?;
            }
        }
        self.unfilled.remove(&ino);
        Ok(())
    }

    /// Writes a chunk as a reader of a file of `size` bytes sees it.
    fn write_again(&mut self, ino: Ino, chunk: u32, size: u64) -> Result<()> {
        let mut data = vec![0; self.tree.log.chip.data_bytes()];
        match self.load_chunk(ino, chunk, size, &mut data) {
            Err(Error::Damaged(_)) => return Ok(()),
            loaded => loaded?,
        }
        match self.write_chunk_of(ino, chunk, &data, size, Space::Reserve) {
            Err(Error::NoSpace) => Ok(()),
            written => written,
        }
    }

    /// Whether a chunk is not there, or has fewer valid bytes than a file of `size` bytes shows of it.
    fn is_short(&mut self, ino: Ino, chunk: u32, size: u64) -> Result<bool> {
        let place = self.tree.chunk_of(ino, chunk);
        if place == 0 {
            return Ok(true);
        }
        let valid = self.tree.valid_bytes(size, chunk);
        Ok(match self.tree.log.chip.read_tags(place)? {
            Found::Tags { tags, .. } => {
                matches!(tags.content, Content::Data { bytes, .. } if (bytes as usize) < valid)
            }
            _ => false,
        })
    }
}
