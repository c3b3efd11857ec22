//! Where everything lies in a volume. `docs/scmfs-format.md` draws it.
//!
//! ```text
//! 0          superblock A        one page
//! page       superblock B        one page
//! 2 pages    journal             a ring of records
//!            inode table         256 bytes an inode: two versions of 128
//!            mapping table       16 bytes a huge page, up to the largest size
//!            free map            written when the volume is closed
//! data_at    data area           huge pages; some of them serve as small-page zone
//! ```

use crate::{CreateOptions, Error, Geometry, Result};
use pocketstone_core::Error as CoreError;

/// Bytes of an inode: two versions.
pub(crate) const INODE_BYTES: u64 = 256;
/// Bytes of one version of an inode.
pub(crate) const VERSION_BYTES: usize = 128;
/// Bytes of an entry of the mapping table.
pub(crate) const MAPPING_BYTES: u64 = 16;
/// Bytes of a slot in a directory, and of a line of the journal.
pub(crate) const SLOT_BYTES: u64 = 64;
/// Largest sequence number of a superblock or a record that counts.
pub(crate) const MOST_SEQUENCE: u64 = 1 << 63;
/// The journal that lets 1 MiB be written atomically: a record may take a third of it.
const FULL_JOURNAL_BYTES: u64 = 4 << 20;

/// Offsets and sizes of a volume's parts, all in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub page: u64,
    pub huge: u64,
    pub journal_at: u64,
    pub journal_bytes: u64,
    pub inodes_at: u64,
    /// Inodes are numbered from 1 to this.
    pub inodes: u32,
    pub mapping_at: u64,
    /// Entries of the mapping table: huge pages at the largest size.
    pub max_segments: u32,
    pub free_map_at: u64,
    pub free_map_bytes: u64,
    pub data_at: u64,
    pub max_bytes: u64,
}

impl Layout {
    /// The layout of a volume of `bytes` that may grow to `max_bytes`.
    pub fn new(bytes: u64, max_bytes: u64, inodes: u32, geometry: Geometry) -> Layout {
        let (page, huge) = (u64::from(geometry.page_bytes), u64::from(geometry.huge_bytes));
        let max_segments = u32::try_from(max_bytes / huge).unwrap_or(u32::MAX - 2);
        let journal_at = 2 * page;
        let journal_bytes = (bytes / 16).clamp(8192, FULL_JOURNAL_BYTES).next_multiple_of(page);
        let inodes_at = journal_at + journal_bytes;
        let mapping_at = (inodes_at + u64::from(inodes) * INODE_BYTES).next_multiple_of(page);
        let free_map_at = (mapping_at + u64::from(max_segments) * MAPPING_BYTES).next_multiple_of(page);
        let page_words = (u64::from(max_segments) * (huge / page)).div_ceil(64);
        let inode_words = (u64::from(inodes) + 1).div_ceil(64);
        let free_map_bytes = (page_words + inode_words) * 8;
        let data_at = (free_map_at + free_map_bytes).next_multiple_of(huge);
        Layout {
            page,
            huge,
            journal_at,
            journal_bytes,
            inodes_at,
            inodes,
            mapping_at,
            max_segments,
            free_map_at,
            free_map_bytes,
            data_at,
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
            return Err(refuse(format!("a volume of {bytes} bytes on a region of {region_bytes}")));
        }
        // Small pages have numbers of 32 bits.
        let limit = u64::from(u32::MAX) * u64::from(g.page_bytes);
        let max_bytes = options.max_bytes.unwrap_or(bytes.saturating_mul(16).min(limit)).max(bytes);
        if max_bytes > limit {
            return Err(CoreError::user(format!("a volume that can have {max_bytes} bytes is too large"))
                .hint(format!("with pages of {} bytes it can have {limit}", g.page_bytes))
                .into());
        }
        let inodes = options.inodes.unwrap_or((bytes / 16384).clamp(16, u64::from(u32::MAX / 2)) as u32);
        if !(2..=u32::MAX / 2).contains(&inodes) {
            return Err(refuse(format!("{inodes} inodes")));
        }
        let layout = Layout::new(bytes, max_bytes, inodes, g);
        if layout.segments(bytes) < 2 {
            let least = layout.data_at + 2 * layout.huge;
            return Err(CoreError::user(format!("a volume of {bytes} bytes is too small"))
                .hint(format!("with {inodes} inodes it needs {least} bytes; see --size and --inodes"))
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

    /// Offset of an inode's version: odd sequence numbers lie in the second half.
    pub fn version_at(&self, ino: u32, sequence: u32) -> u64 {
        self.inodes_at + u64::from(ino - 1) * INODE_BYTES + u64::from(sequence & 1) * VERSION_BYTES as u64
    }

    pub fn mapping_entry_at(&self, segment: u32) -> u64 {
        self.mapping_at + u64::from(segment) * MAPPING_BYTES
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
    CoreError::user(format!("cannot make a volume with {what}")).into()
}
