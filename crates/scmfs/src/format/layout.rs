//! Where everything lies in a volume. `docs/scmfs-format.md` draws it.
//!
//! ```text
//! 0          superblock A        one page
//! page       records of sizes    one page, of files that grow without the volume; its first 256 bytes are zeros
//! 2 pages    journal             a ring of records
//!            inode table         256 bytes an inode: two versions of 128
//!            mapping table       16 bytes a huge page, up to the largest size
//!            content checksums   4 bytes a small page, if the volume has them
//!            free map            written when the volume is closed
//!            mapping table       the second copy
//!            superblock B        one page, the last before the data area
//! data_at    data area           huge pages; some serve as small-page zone, some go on with the inode table
//! ```

use crate::{CreateOptions, Error, Geometry, Ino, Result};
use pocketstone_vfs::MediumError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes of an inode: two versions.
pub(crate) const INODE_BYTES: u64 = 256;
/// Bytes of one version of an inode.
pub(crate) const VERSION_BYTES: usize = 128;
/// Bytes of an entry of the mapping table.
pub(crate) const MAPPING_BYTES: u64 = 16;
/// Bytes of a small page's content checksum.
pub(crate) const CHECK_BYTES: u64 = 4;
/// Bytes of a slot in a directory, and of a line of the journal.
pub(crate) const SLOT_BYTES: u64 = 64;
/// Largest sequence number of a superblock or a record that counts.
pub(crate) const MOST_SEQUENCE: u64 = 1 << 63;
/// The first bytes of a volume.
pub(crate) const MAGIC: [u8; 8] = *b"SCMFS\0\x1a\n";
/// Bytes of a superblock that count.
pub(crate) const SUPERBLOCK_BYTES: usize = 256;
/// The journal that lets 1 MiB be written atomically: a record may take a third of it.
const FULL_JOURNAL_BYTES: u64 = 4 << 20;

/// Where the inode table goes on: huge pages of the data area, in the order of the inodes they hold. All copies
/// of a layout share one.
#[derive(Debug, Default)]
pub(crate) struct InodeChunks {
    count: AtomicU32,
    segments: RwLock<Vec<u32>>,
}

impl InodeChunks {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// The huge page of a chunk, if there is such a chunk.
    pub fn get(&self, chunk: u32) -> Option<u32> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).get(chunk as usize).copied()
    }

    /// Says where all of them are.
    pub fn set(&self, all: Vec<u32>) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        *segments = all;
        self.count.store(segments.len() as u32, Ordering::Release);
    }

    /// Takes the last one away.
    pub fn pop(&self) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.pop();
        self.count.store(segments.len() as u32, Ordering::Release);
    }

    /// Adds the next chunk.
    pub fn push(&self, segment: u32) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.push(segment);
        self.count.store(segments.len() as u32, Ordering::Release);
    }
}

/// Offsets and sizes of a volume's parts, all in bytes from its start.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub page: u64,
    pub huge: u64,
    pub journal_at: u64,
    pub journal_bytes: u64,
    pub inodes_at: u64,
    /// Inodes of the table before the data area: they are numbered from 1 to this.
    pub inodes: u32,
    /// The inodes after those.
    pub chunks: Arc<InodeChunks>,
    pub mapping_at: u64,
    /// Entries of the mapping table: huge pages at the largest size.
    pub max_segments: u32,
    /// Checksums of the small pages' contents; `None` if the volume has none.
    pub checks_at: Option<u64>,
    pub free_map_at: u64,
    /// The second copy of the mapping table.
    pub mirror_at: u64,
    pub data_at: u64,
    pub max_bytes: u64,
}

impl Layout {
    /// The layout of a volume of `bytes` that may grow to `max_bytes`; `checked`: with checksums of contents.
    pub fn new(bytes: u64, max_bytes: u64, inodes: u32, geometry: Geometry, checked: bool) -> Layout {
        let (page, huge) = (u64::from(geometry.page_bytes), u64::from(geometry.huge_bytes));
        let max_segments = u32::try_from(max_bytes / huge).unwrap_or(u32::MAX - 2);
        let pages = u64::from(max_segments) * (huge / page);
        let journal_at = 2 * page;
        let journal_bytes = (bytes / 16).clamp(8192, FULL_JOURNAL_BYTES).next_multiple_of(page);
        let inodes_at = journal_at + journal_bytes;
        let mapping_at = (inodes_at + u64::from(inodes) * INODE_BYTES).next_multiple_of(page);
        let mapping_bytes = (u64::from(max_segments) * MAPPING_BYTES).next_multiple_of(page);
        let mapping_end = mapping_at + mapping_bytes;
        let checks_bytes = if checked { (pages * CHECK_BYTES).next_multiple_of(page) } else { 0 };
        let free_map_at = mapping_end + checks_bytes;
        let inode_words = (u64::from(inodes) + 1).div_ceil(64);
        let free_map_bytes = (pages.div_ceil(64) + inode_words) * 8;
        let mirror_at = (free_map_at + free_map_bytes).next_multiple_of(page);
        Layout {
            page,
            huge,
            journal_at,
            journal_bytes,
            inodes_at,
            inodes,
            chunks: Arc::default(),
            mapping_at,
            max_segments,
            checks_at: checked.then_some(mapping_end),
            free_map_at,
            mirror_at,
            data_at: (mirror_at + mapping_bytes + page).next_multiple_of(huge),
            max_bytes,
        }
    }

    /// The layout that `options` ask for on a region of `region_bytes`, and the volume's size.
    pub fn plan(region_bytes: u64, options: &CreateOptions) -> Result<(Layout, u64)> {
        let g = options.geometry;
        let good = g.page_bytes.is_power_of_two()
            && g.huge_bytes.is_power_of_two()
            && g.page_bytes >= 256
            && g.huge_bytes >= 8 * g.page_bytes;
        if !good {
            return Err(refuse(format!("pages of {} and {} bytes", g.page_bytes, g.huge_bytes)));
        }
        let bytes = options.bytes.unwrap_or(region_bytes);
        if bytes > region_bytes {
            return Err(refuse(format!("a volume of {bytes} bytes on a region of {region_bytes} bytes")));
        }
        // Small pages have numbers of 32 bits.
        let limit = u64::from(u32::MAX) * u64::from(g.page_bytes);
        let max_bytes = options.max_bytes.unwrap_or(bytes.saturating_mul(16).min(limit).max(bytes));
        if max_bytes < bytes {
            let message = format!("a volume of {bytes} bytes cannot have a maximum size of {max_bytes} bytes");
            return Err(MediumError::refused(message).hint("`max_bytes` must be at least `bytes`").into());
        }
        if max_bytes > limit {
            return Err(MediumError::refused(format!("a maximum size of {max_bytes} bytes is too large"))
                .hint(format!("with pages of {} bytes the limit is {limit} bytes", g.page_bytes))
                .into());
        }
        let inodes = options.inodes.unwrap_or((bytes / 16384).clamp(16, u64::from(u32::MAX / 2)) as u32);
        if !(2..=u32::MAX / 2).contains(&inodes) {
            return Err(refuse(format!("{inodes} inodes")));
        }
        let layout = Layout::new(bytes, max_bytes, inodes, g, options.checksums);
        if layout.segments(bytes) < 2 {
            let least = layout.data_at + 2 * layout.huge;
            return Err(MediumError::refused(format!("a volume of {bytes} bytes is too small"))
                .hint(format!("with {inodes} inodes it requires {least} bytes: use more `bytes`, or fewer `inodes`"))
                .into());
        }
        Ok((layout, bytes))
    }

    /// Huge pages in the data area of a volume of `bytes`.
    pub fn segments(&self, bytes: u64) -> u32 {
        let fit = bytes.saturating_sub(self.data_at) / self.huge;
        u32::try_from(fit).unwrap_or(u32::MAX).min(self.max_segments)
    }

    pub fn pages_per_segment(&self) -> u32 {
        (self.huge / self.page) as u32
    }

    /// Offset of a huge page.
    pub fn segment_at(&self, segment: u32) -> u64 {
        self.data_at + u64::from(segment) * self.huge
    }

    /// Offset of a small page; they are numbered through the data area.
    pub fn page_at(&self, page: u32) -> u64 {
        self.data_at + u64::from(page) * self.page
    }

    /// Small pages that hold `bytes`.
    pub fn pages(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.page)
    }

    /// Inodes in a huge page that goes on with the inode table.
    pub fn inodes_per_chunk(&self) -> u32 {
        (self.huge / INODE_BYTES) as u32
    }

    /// The highest inode number that has a place: they are numbered from 1 to this.
    #[inline]
    pub fn last_inode(&self) -> Ino {
        self.inodes + self.chunks.count() * self.inodes_per_chunk()
    }

    /// Offset of an inode, which must have a place.
    #[inline]
    fn inode_at(&self, ino: Ino) -> u64 {
        if ino <= self.inodes {
            return self.inodes_at + u64::from(ino - 1) * INODE_BYTES;
        }
        self.inode_in_chunk_at(ino)
    }

    fn inode_in_chunk_at(&self, ino: Ino) -> u64 {
        let (beyond, per_chunk) = (ino - 1 - self.inodes, self.inodes_per_chunk());
        // A chunk that was just given back: page 1 begins with zeros, as a free inode does.
        let Some(segment) = self.chunks.get(beyond / per_chunk) else { return self.page };
        self.segment_at(segment) + u64::from(beyond % per_chunk) * INODE_BYTES
    }

    /// Offset of an inode's version: odd sequence numbers lie in the second half.
    #[inline]
    pub fn version_at(&self, ino: Ino, sequence: u32) -> u64 {
        self.inode_at(ino) + u64::from(sequence & 1) * VERSION_BYTES as u64
    }

    /// The inode that has a version at an offset, if that is in the inode table or a chunk of it.
    pub fn inode_of(&self, at: u64) -> Option<Ino> {
        let table = self.inodes_at..self.inodes_at + u64::from(self.inodes) * INODE_BYTES;
        if table.contains(&at) {
            return Some(((at - table.start) / INODE_BYTES) as u32 + 1);
        }
        let segment = u32::try_from(at.checked_sub(self.data_at)? / self.huge).ok()?;
        let chunk = (0..self.chunks.count()).find(|chunk| self.chunks.get(*chunk) == Some(segment))?;
        let within = ((at - self.data_at) % self.huge / INODE_BYTES) as u32;
        Some(self.inodes + 1 + chunk * self.inodes_per_chunk() + within)
    }

    /// Offset of a huge page's entry in the first mapping table.
    pub fn mapping_entry_at(&self, segment: u32) -> u64 {
        self.mapping_at + u64::from(segment) * MAPPING_BYTES
    }

    /// Offset of the same entry in the second mapping table, for an offset in the first.
    pub fn mirrored(&self, at: u64) -> u64 {
        at - self.mapping_at + self.mirror_at
    }

    /// Offset of the second superblock.
    pub fn far_at(&self) -> u64 {
        self.data_at - self.page
    }

    /// Huge pages that one transaction can map or unmap.
    pub fn segments_per_transaction(&self) -> usize {
        ((self.max_record() - 512) / 32) as usize
    }

    /// What one change of a file may cover: what one transaction can map, less the huge pages that a file gets ahead
    /// and those that its ends only touch.
    pub fn step_bytes(&self) -> u64 {
        (self.segments_per_transaction() as u64 - 12) * self.huge
    }

    /// Most bytes that an atomic write takes.
    pub fn max_atomic(&self) -> u64 {
        // Beside the record's header and the version, an item and two filled words for each huge page.
        let room = self.max_record().saturating_sub(64 + 144 + 2 * 32);
        (1 << 20).min(room * self.huge / (self.huge + 32))
    }

    /// The end of a range, if a file can be so long.
    pub fn end_of(&self, offset: u64, bytes: u64) -> Result<u64> {
        offset.checked_add(bytes).filter(|end| *end <= self.max_file()).ok_or(Error::TooLarge)
    }

    /// Longest record of the journal: the last one is never overwritten by the next.
    pub fn max_record(&self) -> u64 {
        (self.journal_bytes / 3) & !63
    }

    /// Largest size of a file.
    pub fn max_file(&self) -> u64 {
        (u64::from(u32::MAX) * self.huge).min(i64::MAX as u64 / 2)
    }
}

fn refuse(what: String) -> Error {
    MediumError::refused(format!("cannot create a volume with {what}")).into()
}
