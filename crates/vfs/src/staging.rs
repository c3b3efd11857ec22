//! Changes that are kept back from a file until they are made, all at once.

use std::collections::BTreeMap;

/// The file that changes are kept back from.
pub trait Original {
    /// Why it cannot be read.
    type Error;

    /// Its size in bytes.
    ///
    /// # Errors
    /// Its own `Self::Error`, if it cannot be read.
    fn size(&self) -> Result<u64, Self::Error>;

    /// Reads what lies before its end; the number of bytes.
    ///
    /// # Errors
    /// Its own `Self::Error`, if it cannot be read.
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Self::Error>;
}

/// Changes to a file that the file does not have yet.
#[derive(Default)]
pub struct Staging {
    /// By their offsets, all of the same length, at multiples of it.
    blocks: BTreeMap<u64, Vec<u8>>,
    block: u64,
    /// The size after it; `None`: nothing is staged.
    size: Option<u64>,
    /// What the file holds from here on is not seen any more: it was cut off in the meantime.
    seen: u64,
    /// Memory of blocks that are not needed any more.
    spare: Vec<Vec<u8>>,
}

/// The length of a block that nobody chose: of a write that is not one page of a database.
const BLOCK: u64 = 4096;
/// Most transactions change fewer blocks.
const SPARE: usize = 16;
/// What a database's page can be long, in bytes: SQLite's range.
const PAGES: std::ops::RangeInclusive<u64> = 512..=65536;

impl Staging {
    /// Whether nothing is kept back.
    pub fn is_empty(&self) -> bool {
        self.size.is_none()
    }

    /// The size after the changes, in bytes; `None`: there are none.
    pub fn staged_size(&self) -> Option<u64> {
        self.size
    }

    /// Forgets what is kept back.
    pub fn clear(&mut self) {
        if self.size.take().is_some() {
            let used = std::mem::take(&mut self.blocks).into_values();
            self.spare.extend(used.take(SPARE.saturating_sub(self.spare.len())));
        }
    }

    /// The file's size with the changes.
    ///
    /// # Errors
    /// The `O::Error` of [`Original::size`].
    pub fn size<O: Original + ?Sized>(&self, file: &O) -> Result<u64, O::Error> {
        self.size.map_or_else(|| file.size(), Ok)
    }

    fn begin<O: Original + ?Sized>(&mut self, file: &O) -> Result<u64, O::Error> {
        if let Some(size) = self.size {
            return Ok(size);
        }
        let size = file.size()?;
        (self.seen, self.size) = (size, Some(size));
        Ok(size)
    }

    /// Stages a write.
    ///
    /// # Errors
    /// The `O::Error` of a file that cannot be read.
    pub fn write<O: Original + ?Sized>(&mut self, file: &O, from: &[u8], offset: u64) -> Result<(), O::Error> {
        let (size, bytes) = (self.begin(file)?, from.len() as u64);
        if self.blocks.is_empty() {
            let page = bytes.is_power_of_two() && PAGES.contains(&bytes) && offset % bytes == 0;
            self.block = if page { bytes } else { BLOCK };
        }
        let block = self.block;
        if bytes == block && offset % block == 0 {
            let spare = &mut self.spare;
            let kept = self.blocks.entry(offset).or_insert_with(|| spare.pop().unwrap_or_default());
            kept.clear();
            kept.extend_from_slice(from);
        } else {
            let mut at = offset;
            while at < offset + bytes {
                let first = at / block * block;
                let end = (first + block).min(offset + bytes);
                let part = &from[(at - offset) as usize..(end - offset) as usize];
                if !self.blocks.contains_key(&first) {
                    let mut content = vec![0; block as usize];
                    self.read(file, &mut content, first)?;
                    self.blocks.insert(first, content);
                }
                let content = self.blocks.entry(first).or_default();
                content[(at - first) as usize..][..part.len()].copy_from_slice(part);
                at = end;
            }
        }
        self.size = Some(size.max(offset + bytes));
        Ok(())
    }

    /// Stages a change of the size.
    ///
    /// # Errors
    /// The `O::Error` of a file that cannot be read.
    pub fn truncate<O: Original + ?Sized>(&mut self, file: &O, size: u64) -> Result<(), O::Error> {
        let before = self.begin(file)?;
        if self.block == 0 {
            self.block = BLOCK;
        }
        let first = size / self.block * self.block;
        if first < size && size < before && !self.blocks.contains_key(&first) {
            // What is cut off of it must not come back when the file grows again.
            let mut content = vec![0; self.block as usize];
            self.read(file, &mut content, first)?;
            self.blocks.insert(first, content);
        }
        self.blocks.split_off(&size.next_multiple_of(self.block));
        if let Some(content) = self.blocks.get_mut(&first) {
            content[(size - first) as usize..].fill(0);
        }
        self.seen = self.seen.min(size);
        self.size = Some(size);
        Ok(())
    }

    /// Reads with the changes; what lies beyond the end is zeros. Returns the bytes before the end.
    ///
    /// # Errors
    /// The `O::Error` of [`Original::read_at`].
    pub fn read<O: Original + ?Sized>(&self, file: &O, into: &mut [u8], offset: u64) -> Result<usize, O::Error> {
        let Some(size) = self.size else {
            let read = file.read_at(into, offset)?;
            into[read..].fill(0);
            return Ok(read);
        };
        let (end, block) = (offset + into.len() as u64, self.block.max(1));
        // The most frequent case: one whole page.
        let whole = self.blocks.get(&offset).filter(|content| content.len() == into.len());
        if let Some(content) = whole {
            into.copy_from_slice(content);
        } else {
            let old = self.seen.saturating_sub(offset).min(into.len() as u64) as usize;
            let read = file.read_at(&mut into[..old], offset)?;
            into[read..].fill(0);
            for (first, content) in self.blocks.range(offset / block * block..end) {
                let from = offset.max(*first);
                let to = end.min(first + content.len() as u64);
                let part = &content[(from - first) as usize..(to - first) as usize];
                into[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
            }
        }
        Ok(size.saturating_sub(offset).min(into.len() as u64) as usize)
    }

    /// What has to be written, and the size after it. Parts that were cut off and are inside again are zeros.
    pub fn changes(&mut self) -> (Vec<(u64, &[u8])>, u64) {
        let size = self.size.unwrap_or_default();
        if self.seen < size && self.block > 0 {
            // A block that is partly seen was read before it was changed; one that is not changed stays.
            for at in (self.seen.next_multiple_of(self.block)..size).step_by(self.block as usize) {
                self.blocks.entry(at).or_insert_with(|| vec![0; self.block as usize]);
            }
        }
        let within = |at: u64, content: &Vec<u8>| (size - at).min(content.len() as u64) as usize;
        let blocks = self.blocks.range(..size);
        (blocks.map(|(at, content)| (*at, &content[..within(*at, content)])).collect(), size)
    }

    /// About what a record of the volume's journal takes of it, never less: `page` is the volume's small page, where
    /// the least piece of a write ends.
    pub fn record_bytes(&self, page: u64) -> u64 {
        let each = self.block + 32 * (self.block / page.max(1) + 2);
        (self.blocks.len() as u64).saturating_add(self.zero_blocks()).saturating_mul(each).saturating_add(256)
    }

    /// At most so many blocks are added by [`Staging::changes`].
    fn zero_blocks(&self) -> u64 {
        let Some(size) = self.size.filter(|_| self.block > 0) else { return 0 };
        let beyond = self.blocks.range(self.seen..).count() as u64;
        (size.saturating_sub(self.seen).div_ceil(self.block)).saturating_sub(beyond)
    }
}
