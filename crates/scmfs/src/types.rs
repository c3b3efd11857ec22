//! The plain data that a volume takes and gives.

use pocketstone_media::Persistence;
use pocketstone_vfs::setters;
pub use pocketstone_vfs::{
    ACL_ACCESS, ACL_DEFAULT, Allocate, Attr, Entry, FileType, Ino, Meta, NAME_MAX, Protection, ROOT, Rename, SetAttr,
    SetXattr, Statfs, TimeNs,
};
use serde::{Deserialize, Serialize};

/// Bytes of a file that follow each other in the volume, too.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FileExtent {
    /// Where in the file.
    pub offset: u64,
    /// Where in the volume.
    pub at: u64,
    /// How many.
    pub bytes: u64,
}

/// When a file moves from small pages to huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threshold {
    /// When it would grow beyond so many bytes.
    Bytes(u64),
    /// Never.
    Never,
}

/// The sizes a volume is laid out in.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// A small page in bytes: a power of two, at least 256.
    pub page_bytes: u32,
    /// A huge page in bytes: a power of two, at least 8 small pages.
    pub huge_bytes: u32,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry::new(4096, 2 << 20)
    }
}

impl Geometry {
    /// Small pages and huge pages of these sizes.
    pub const fn new(page_bytes: u32, huge_bytes: u32) -> Geometry {
        Geometry { page_bytes, huge_bytes }
    }
}

/// What to make of a region.
///
/// ```
/// use pocketstone_media::{Pcm, PcmOptions};
/// use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
///
/// # fn main() -> pocketstone_scmfs::Result<()> {
/// let (memory, _) = Pcm::new(16 << 20, &PcmOptions::default().read_ns(0).write_ns(0));
/// let options = CreateOptions::default().checksums(true).label("mail");
/// Volume::create(Box::new(memory.region()?), &options)?;
/// assert!(Volume::open(Box::new(memory.region()?), &OpenOptions::default())?.usage().checksums);
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateOptions {
    /// Size of the volume in bytes; `None`: the whole region.
    pub bytes: Option<u64>,
    /// How far `resize` may ever grow it; `None`: 16 times its size, as far as page numbers go.
    pub max_bytes: Option<u64>,
    /// Number of inodes; `None`: one for each 16 KiB.
    pub inodes: Option<u32>,
    /// Size of the small-page zone in bytes; `None`: an eighth of the data area. It grows by
    /// whole huge pages when it is full.
    pub small_bytes: Option<u64>,
    /// When files move to huge pages.
    pub threshold: Threshold,
    /// Page sizes.
    pub geometry: Geometry,
    /// A name for the volume, at most 32 bytes.
    pub label: String,
    /// Identifies the volume; `None`: random.
    pub uuid: Option<[u8; 16]>,
    /// The region holds zeros already: do not write them again.
    pub zeroed: bool,
    /// Keep a checksum of every small page of files' contents.
    pub checksums: bool,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions {
            bytes: None,
            max_bytes: None,
            inodes: None,
            small_bytes: None,
            threshold: Threshold::Bytes(128 << 10),
            geometry: Geometry::default(),
            label: String::new(),
            uuid: None,
            zeroed: false,
            checksums: false,
        }
    }
}

impl CreateOptions {
    setters! {
        bytes: impl Into<Option<u64>>,
        max_bytes: impl Into<Option<u64>>,
        inodes: impl Into<Option<u32>>,
        small_bytes: impl Into<Option<u64>>,
        threshold: Threshold,
        geometry: Geometry,
        label: impl Into<String>,
        uuid: impl Into<Option<[u8; 16]>>,
        zeroed: bool,
        checksums: bool,
    }
}

/// How to open a volume.
///
/// ```
/// use pocketstone_scmfs::{CreateOptions, Error, Meta, OpenOptions, Operations, ROOT, Volume};
///
/// # fn main() -> pocketstone_scmfs::Result<()> {
/// # let (memory, _) = pocketstone_media::Pcm::new(16 << 20, &Default::default());
/// # Volume::create(Box::new(memory.region()?), &CreateOptions::default())?;
/// let options = OpenOptions::default().read_only(true);
/// let volume = Volume::open(Box::new(memory.region()?), &options)?;
/// assert!(matches!(volume.create_file(ROOT, b"file", &Meta::file(0o644)), Err(Error::ReadOnly)));
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Change nothing. A volume that was not closed cleanly is refused.
    pub read_only: bool,
    /// Null files to keep ready.
    pub null_files: u32,
    /// Collect garbage when less than this part of the data area is free, in percent.
    pub low_water_percent: u8,
    /// Run the collector in a thread of its own.
    pub background: bool,
    /// Times come from here instead of the system's clock: they start at this value and grow by 1 ns.
    pub fixed_clock_ns: Option<TimeNs>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { read_only: false, null_files: 64, low_water_percent: 5, background: false, fixed_clock_ns: None }
    }
}

impl OpenOptions {
    setters! {
        read_only: bool,
        null_files: u32,
        low_water_percent: u8,
        background: bool,
        fixed_clock_ns: impl Into<Option<TimeNs>>,
    }
}

/// Where the space is. All in bytes unless it says otherwise.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The volume.
    pub volume_bytes: u64,
    /// How far it may grow.
    pub max_bytes: u64,
    /// Superblocks, journal, tables.
    pub metadata_bytes: u64,
    /// Huge pages that serve as small-page zone.
    pub small_zone_bytes: u64,
    /// Of it, free.
    pub small_free_bytes: u64,
    /// In how many pieces that is.
    pub small_free_runs: u64,
    /// The longest of these.
    pub small_longest_run_bytes: u64,
    /// Files that have a list of extents, because they found nothing in one piece or have holes.
    pub listed_files: u32,
    /// Huge pages that belong to files.
    pub huge_used_bytes: u64,
    /// Free huge pages.
    pub huge_free_bytes: u64,
    /// Held by null files; counts as used in the zones above, and as free in `statfs`.
    pub null_bytes: u64,
    /// Number of null files.
    pub null_files: u32,
    /// Inodes in use.
    pub inodes_used: u32,
    /// Inodes in all.
    pub inodes: u32,
    /// Fragmented files that have a window of their own now.
    pub windows: u32,
    /// Bytes that the last collections gave back since the volume was opened.
    pub collected_bytes: u64,
    /// Collections since the volume was opened.
    pub collections: u64,
    /// When files move to huge pages.
    pub threshold: Threshold,
    /// Whether contents have checksums.
    pub checksums: bool,
    /// What flushed bytes survive on this medium.
    pub persistence: Persistence,
}

/// What the content of an inode is, for who watches it.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The size in bytes.
    pub size: u64,
    /// What lies there is what reading gives.
    pub readable: bool,
    /// Storing there, and saying when ([`Watch::written`]), is all that writing does.
    pub writable: bool,
    /// The size is stored: no other one comes back after a crash.
    pub settled: bool,
    /// The sequence number of the version that is stored: a record of the size goes on from it.
    pub sequence: u32,
    /// Where it lies, in the order of the file: offset in the file, offset in the region, bytes. What is missing is a
    /// hole.
    pub pieces: &'a [(u64, u64, u64)],
}

/// What a process that a file's end is leased to has appended.
pub struct Appended {
    /// The file's size with it.
    pub size: u64,
    /// The process may be storing beyond that, as long as one of these runs.
    pub running: Option<Running>,
}

/// That somebody stored to a file without the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// When, in ns since 1970.
    pub at_ns: TimeNs,
    /// What the clock says now that this is of.
    pub now_ns: TimeNs,
}

/// Watches an inode, to show it to processes that reach its content without the volume.
pub trait Watch: Send + Sync {
    /// The inode is about to be changed, by one thread, until [`Watch::end`].
    fn begin(&self);

    /// Whether the file's end is leased to a process that appends without the volume.
    fn is_leased(&self) -> bool {
        false
    }

    /// What it has appended, after [`Watch::begin`]; `None`: it is leased to none. `take`: the lease ends with that.
    fn appended(&self, _take: bool) -> Option<Appended> {
        None
    }

    /// Whether somebody has stored to it since [`Watch::written`] was asked last.
    fn is_written(&self) -> bool {
        false
    }

    /// When somebody stored to it last, after [`Watch::begin`]; `None`: nobody has since this was asked last.
    fn written(&self) -> Option<Written> {
        None
    }

    /// It has been changed, or not.
    fn end(&self, now: &Shown<'_>);
}

/// Says whether any of certain stores still runs.
pub type Running = Box<dyn Fn() -> bool + Send + Sync>;

/// The stores of processes that reach the content of files without the volume.
pub trait OutsideStores: Send + Sync {
    /// Those that run now; `None`: none do. What a file loses is given to nobody else as long as one of them runs.
    fn running(&self) -> Option<Running>;

    /// From now on who wants to store is told to do it by way of the volume. Does not wait for those that store now.
    fn pause(&self);

    /// Lets them store again.
    fn resume(&self);

    /// Calls `note` for what was stored to since this was asked last: offset in the region, bytes. What is stored to
    /// by who stores now is told the next time, too.
    fn stored(&self, note: &mut dyn FnMut(u64, u64));

    /// Files whose ends are leased, and those that have grown by a lease since this was asked last: their sizes are
    /// not stored.
    fn take_grown(&self) -> Vec<Ino> {
        Vec::new()
    }
}
