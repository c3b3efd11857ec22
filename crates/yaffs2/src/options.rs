//! How to open a volume.

use pocketstone_vfs::{TimeNs, setters};

/// How to open a volume. The defaults are those that Linux devices have.
///
/// ```
/// use pocketstone_yaffs2::{Error, Meta, OpenOptions, Operations, ROOT, Volume};
///
/// # fn main() -> pocketstone_yaffs2::Result<()> {
/// # use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
/// # let geometry = Geometry { page_bytes: 2048, spare_bytes: 64, pages_per_block: 64, blocks: 64 };
/// # let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
/// let options = OpenOptions::default().read_only(true);
/// let volume = Volume::open(Box::new(chip), &options)?;
/// assert!(matches!(volume.create_file(ROOT, b"file", &Meta::file(0o644)), Err(Error::ReadOnly)));
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Change nothing on the chip.
    pub read_only: bool,
    /// Tags are at the end of every page, not in its spare area.
    pub inband_tags: bool,
    /// Tags have error correction of their own. Never with in-band tags.
    pub tags_ecc: bool,
    /// The order of the bytes in words. Volumes that are not little-endian can only be read.
    pub byte_order: ByteOrder,
    /// Use a checkpoint if there is one, instead of scanning.
    pub checkpoint_read: bool,
    /// Leave a checkpoint when unmounting.
    pub checkpoint_write: bool,
    /// Write block summaries.
    pub summary: bool,
    /// Chunks in the cache for parts of chunks; 0: none. More than 64 count as 64: a mount after a loss of power looks
    /// for no more that were in it.
    pub cache_chunks: u32,
    /// Read headers when they are asked for. If not, the mount reads all of them.
    pub lazy_loading: bool,
    /// Of how many objects that a scan has read the headers of what they say stays in memory; 0: of none, as on a
    /// device. For who reads all of a volume once.
    pub scanned_headers: u32,
    /// Delete what a scan put into lost+found.
    pub empty_lost_and_found: bool,
    /// Erased blocks that ordinary writes leave alone.
    pub reserved_blocks: u32,
    /// After so many collections the oldest block is renewed; 0: never.
    pub refresh_period: u32,
    /// The time is always this one, in nanoseconds since 1970.
    pub fixed_clock_ns: Option<TimeNs>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            read_only: false,
            inband_tags: false,
            tags_ecc: true,
            byte_order: ByteOrder::Little,
            checkpoint_read: true,
            checkpoint_write: true,
            summary: true,
            cache_chunks: 10,
            lazy_loading: true,
            scanned_headers: 0,
            empty_lost_and_found: true,
            reserved_blocks: 5,
            refresh_period: 500,
            fixed_clock_ns: None,
        }
    }
}

impl OpenOptions {
    setters! {
        read_only: bool,
        inband_tags: bool,
        tags_ecc: bool,
        byte_order: ByteOrder,
        checkpoint_read: bool,
        checkpoint_write: bool,
        summary: bool,
        cache_chunks: u32,
        lazy_loading: bool,
        scanned_headers: u32,
        empty_lost_and_found: bool,
        reserved_blocks: u32,
        refresh_period: u32,
        fixed_clock_ns: impl Into<Option<TimeNs>>,
    }
}

/// The order of the bytes in a volume's words. Names, link targets and contents have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// Little-endian.
    #[default]
    Little,
    /// Big-endian. Such volumes are read by scanning: their checkpoints are ignored.
    Big,
    /// Big-endian headers with little-endian tags: images that a builder converted for a machine of the other order.
    BigHeaders,
}
