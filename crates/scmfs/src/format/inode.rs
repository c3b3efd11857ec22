//! An inode: two versions of 128 bytes. The one with the higher sequence number counts; the next one
//! goes over the other. So any change of one inode is atomic: a torn version has a wrong checksum, and
//! the one before it still counts.
//!
//! ```text
//!   0  u32 sequence number; its lowest bit says in which half it lies
//!   4  u32 crc32c of the inode number, the sequence number and the bytes 8 to 127
//!   8  u16 mode: type and permissions as in st_mode; 0: the inode is free
//!  10  u16 flags: bit 0: the content lies in huge pages (mapping table), else in one run;
//!      bit 1: space beyond the end was asked for, and is not collected;
//!      bit 2: append-only; bit 3: immutable
//!  12  u32 hard links               16  u32 owner      20  u32 group
//!  24  u64 size, bytes
//!  32  i64 mtime  40  i64 ctime  48  i64 atime  56  i64 btime, ns since 1970
//!  64  u32 first small page of the run       68  u32 its pages
//!  72  u32 first small page of the extended attributes   76  u32 pages   80  u32 bytes in use
//!  84  u32 generation: counts the uses of this inode
//!  88  u32 device number            92  u32 parent, of directories
//!  96  u32 huge pages              100  u32 crc32c of the target, of symbolic links
//! 104  u32 first small page of the list of extents     108  u32 its pages    112  u32 extents in it
//! 116  zeros
//! ```

use super::bytes::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use super::extents::{self, EXTENTS_MAX, Extent};
use super::layout::{Layout, VERSION_BYTES};
use crate::{Attr, Error, FileType, Ino, Meta, Result, TimeNs, defects};
use pocketstone_media::Medium;

/// Most hard links of an inode, as in ext4.
pub(crate) const LINKS_MAX: u32 = 65_000;
/// Longest target of a symbolic link, as Linux has it.
pub(crate) const TARGET_MAX: usize = 4095;

/// One version of an inode, without its sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Record {
    pub mode: u16,
    pub huge: bool,
    pub reserved: bool,
    pub append_only: bool,
    pub immutable: bool,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub mtime_ns: TimeNs,
    pub ctime_ns: TimeNs,
    pub atime_ns: TimeNs,
    pub btime_ns: TimeNs,
    pub run_start: u32,
    pub run_pages: u32,
    pub xattr_start: u32,
    pub xattr_pages: u32,
    pub xattr_bytes: u32,
    pub generation: u32,
    pub rdev: u32,
    pub parent: Ino,
    pub segments: u32,
    pub target_crc: u32,
    /// The list of extents in small pages beside the run or the huge pages.
    pub list_start: u32,
    pub list_pages: u32,
    pub list_extents: u32,
    /// Small pages in those extents. Not stored: the list says it.
    pub list_total: u32,
}

impl Record {
    pub fn new(meta: &Meta, generation: u32, now: TimeNs) -> Record {
        let links = if meta.kind == FileType::Directory { 2 } else { 1 };
        Record {
            mode: meta.kind.mode_bits() | meta.permissions & 0o7777,
            links,
            uid: meta.uid,
            gid: meta.gid,
            rdev: meta.rdev,
            mtime_ns: now,
            ctime_ns: now,
            atime_ns: now,
            btime_ns: now,
            generation,
            ..Record::default()
        }
    }

    /// What the inode is after its use: only the generation stays.
    pub fn freed(&self) -> Record {
        Record { generation: self.generation, ..Record::default() }
    }

    pub fn is_free(&self) -> bool {
        self.mode == 0
    }

    pub fn kind(&self) -> FileType {
        FileType::of_mode(self.mode.into()).unwrap_or(FileType::Regular)
    }

    pub fn is_directory(&self) -> bool {
        self.kind() == FileType::Directory
    }

    pub fn attr(&self, ino: Ino, layout: &Layout) -> Attr {
        let pages = [self.run_pages, self.xattr_pages, self.list_pages, self.list_total].map(u64::from);
        let pages: u64 = pages.iter().sum();
        Attr::new(ino, self.kind())
            .generation(self.generation)
            .permissions(self.mode & 0o7777)
            .links(self.links)
            .uid(self.uid)
            .gid(self.gid)
            .rdev(self.rdev)
            .size(self.size)
            .allocated(pages * layout.page + u64::from(self.segments) * layout.huge)
            .atime_ns(self.atime_ns)
            .mtime_ns(self.mtime_ns)
            .ctime_ns(self.ctime_ns)
            .btime_ns(self.btime_ns)
    }

    pub fn encode(&self, ino: Ino, sequence: u32) -> [u8; VERSION_BYTES] {
        let mut b = [0; VERSION_BYTES];
        put_u32(&mut b, 0, sequence);
        put_u16(&mut b, 8, self.mode);
        let bit = |flag: bool, bit: u32| u16::from(flag) << bit;
        let flags = bit(self.huge, 0) | bit(self.reserved, 1) | bit(self.append_only, 2) | bit(self.immutable, 3);
        put_u16(&mut b, 10, flags);
        put_u32(&mut b, 12, self.links);
        put_u32(&mut b, 16, self.uid);
        put_u32(&mut b, 20, self.gid);
        put_u64(&mut b, 24, self.size);
        put_u64(&mut b, 32, self.mtime_ns as u64);
        put_u64(&mut b, 40, self.ctime_ns as u64);
        put_u64(&mut b, 48, self.atime_ns as u64);
        put_u64(&mut b, 56, self.btime_ns as u64);
        put_u32(&mut b, 64, self.run_start);
        put_u32(&mut b, 68, self.run_pages);
        put_u32(&mut b, 72, self.xattr_start);
        put_u32(&mut b, 76, self.xattr_pages);
        put_u32(&mut b, 80, self.xattr_bytes);
        put_u32(&mut b, 84, self.generation);
        put_u32(&mut b, 88, self.rdev);
        put_u32(&mut b, 92, self.parent);
        put_u32(&mut b, 96, self.segments);
        put_u32(&mut b, 100, self.target_crc);
        put_u32(&mut b, 104, self.list_start);
        put_u32(&mut b, 108, self.list_pages);
        put_u32(&mut b, 112, self.list_extents);
        let crc = version_crc(ino, &b);
        put_u32(&mut b, 4, crc);
        b
    }

    fn decode(b: &[u8]) -> Record {
        Record {
            mode: get_u16(b, 8),
            huge: get_u16(b, 10) & 1 != 0,
            reserved: get_u16(b, 10) & 2 != 0,
            append_only: get_u16(b, 10) & 4 != 0,
            immutable: get_u16(b, 10) & 8 != 0,
            links: get_u32(b, 12),
            uid: get_u32(b, 16),
            gid: get_u32(b, 20),
            size: get_u64(b, 24),
            mtime_ns: get_u64(b, 32) as i64,
            ctime_ns: get_u64(b, 40) as i64,
            atime_ns: get_u64(b, 48) as i64,
            btime_ns: get_u64(b, 56) as i64,
            run_start: get_u32(b, 64),
            run_pages: get_u32(b, 68),
            xattr_start: get_u32(b, 72),
            xattr_pages: get_u32(b, 76),
            xattr_bytes: get_u32(b, 80),
            generation: get_u32(b, 84),
            rdev: get_u32(b, 88),
            parent: get_u32(b, 92),
            segments: get_u32(b, 96),
            target_crc: get_u32(b, 100),
            list_start: get_u32(b, 104),
            list_pages: get_u32(b, 108),
            list_extents: get_u32(b, 112),
            list_total: 0,
        }
    }

    /// What cannot be, if anything: values that no sound inode has, checksum or not.
    pub fn nonsense(&self, layout: &Layout, segments: u32) -> Option<String> {
        if self.is_free() {
            return None;
        }
        if FileType::of_mode(self.mode.into()).is_none() {
            return Some(format!("mode {:o}", self.mode));
        }
        let pages = segments * layout.pages_per_segment();
        let outside = |start: u32, count: u32| start.checked_add(count).is_none_or(|end| end > pages);
        let runs = [
            (self.run_start, self.run_pages),
            (self.xattr_start, self.xattr_pages),
            (self.list_start, self.list_pages),
        ];
        if runs.iter().any(|(start, count)| outside(*start, *count)) {
            return Some("pages outside the volume".into());
        }
        let list_bytes = extents::list_bytes((self.list_extents as usize).min(EXTENTS_MAX + 1)) as u64;
        let list_fits = match self.list_extents {
            0 => self.list_pages == 0,
            extents => extents as usize <= EXTENTS_MAX && list_bytes <= u64::from(self.list_pages) * layout.page,
        };
        if !list_fits {
            return Some("an extent list that does not fit its pages".into());
        }
        if self.huge && self.run_pages != 0 || !self.huge && self.segments != 0 {
            return Some("small and huge pages at once".into());
        }
        let in_run = !self.huge && self.list_extents == 0;
        // A directory has no holes, but damage may have made some: then it is at most as large as the volume.
        let may_have_holes = matches!(self.kind(), FileType::Regular | FileType::Directory);
        if in_run && self.size > u64::from(self.run_pages) * layout.page && !may_have_holes {
            return Some("less space than its size".into());
        }
        if self.size > layout.max_file() || self.is_directory() && self.size > u64::from(segments) * layout.huge {
            return Some(format!("a size of {} bytes", self.size));
        }
        if self.kind() == FileType::Symlink && (!in_run || self.size > TARGET_MAX as u64) {
            return Some("a target longer than the limit".into());
        }
        if u64::from(self.xattr_bytes) > u64::from(self.xattr_pages) * layout.page {
            return Some("attributes larger than their pages".into());
        }
        None
    }
}

/// Bytes of a version that mean something; those after them are zeros.
const USED_BYTES: usize = 116;

/// One half of an inode, as found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half<R = Record> {
    /// Never written.
    Virgin,
    /// Valid.
    Valid(u32, R),
    /// The checksum is wrong.
    Torn,
}

/// Whether sequence number `a` is newer than `b`; they wrap.
pub(crate) fn newer(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

fn version_crc(ino: Ino, b: &[u8]) -> u32 {
    // In one piece: what a call takes is most of what four bytes take.
    let mut summed = [0; VERSION_BYTES - 4];
    summed[..4].copy_from_slice(&b[..4]);
    summed[4..].copy_from_slice(&b[8..VERSION_BYTES]);
    crc32c::crc32c_append(ino, &summed)
}

/// What one half of an inode is; its record is left as bytes.
fn tell_half(ino: Ino, half: u32, b: &[u8]) -> Half<&[u8]> {
    let sequence = get_u32(b, 0);
    let right = get_u32(b, 4) == version_crc(ino, b) || defects::on(defects::VERSION_CRC) && sequence != 0;
    if sequence & 1 == half && right && b[USED_BYTES..VERSION_BYTES] == [0; VERSION_BYTES - USED_BYTES] {
        return Half::Valid(sequence, b);
    }
    if b[..VERSION_BYTES] == [0; VERSION_BYTES] { Half::Virgin } else { Half::Torn }
}

/// Reads one half of an inode.
pub(crate) fn decode_half(ino: Ino, half: u32, b: &[u8]) -> Half {
    match tell_half(ino, half, b) {
        Half::Valid(sequence, b) => Half::Valid(sequence, Record::decode(b)),
        Half::Virgin => Half::Virgin,
        Half::Torn => Half::Torn,
    }
}

/// The bytes of both halves of an inode.
fn read(medium: &Medium, layout: &Layout, ino: Ino) -> [u8; 2 * VERSION_BYTES] {
    let mut b = [0; 2 * VERSION_BYTES];
    medium.read(layout.version_at(ino, 0), &mut b);
    b
}

/// Both halves of an inode.
pub(crate) fn halves(medium: &Medium, layout: &Layout, ino: Ino) -> [Half; 2] {
    let b = read(medium, layout, ino);
    [decode_half(ino, 0, &b[..VERSION_BYTES]), decode_half(ino, 1, &b[VERSION_BYTES..])]
}

/// The newest of two halves: its sequence number and, unless both are virgin, its record. `None` if that cannot be
/// told: a half is torn.
fn newest_of<R>(halves: [Half<R>; 2]) -> Option<(u32, Option<R>)> {
    match halves {
        [Half::Torn, _] | [_, Half::Torn] => None,
        [Half::Virgin, Half::Virgin] => Some((0, None)),
        // Only before the second version was ever written.
        [Half::Virgin, Half::Valid(1, r)] => Some((1, Some(r))),
        [Half::Virgin, _] | [_, Half::Virgin] => None,
        [Half::Valid(a, x), Half::Valid(b, y)] => Some(if newer(a, b) { (a, Some(x)) } else { (b, Some(y)) }),
    }
}

/// The newest of two halves: its sequence number and record. A virgin inode has version 0, free.
/// `None` if that cannot be told: a half is torn.
pub(crate) fn newest(halves: [Half; 2]) -> Option<(u32, Record)> {
    newest_of(halves).map(|(sequence, record)| (sequence, record.unwrap_or_default()))
}

/// The half that counts after a crash, which may have torn the other one: its sequence number and record. `None`: none
/// is valid.
pub(crate) fn current(halves: [Half; 2]) -> Option<(u32, Record)> {
    match halves {
        [Half::Valid(a, x), Half::Valid(b, y)] => Some(if newer(a, b) { (a, x) } else { (b, y) }),
        [Half::Valid(sequence, record), _] | [_, Half::Valid(sequence, record)] => Some((sequence, record)),
        _ => None,
    }
}

/// The newest version of an inode, as [`newest`] of its halves; the other one is not decoded.
pub(crate) fn read_newest(medium: &Medium, layout: &Layout, ino: Ino) -> Option<(u32, Record)> {
    let b = read(medium, layout, ino);
    let halves = [tell_half(ino, 0, &b[..VERSION_BYTES]), tell_half(ino, 1, &b[VERSION_BYTES..])];
    newest_of(halves).map(|(sequence, b)| (sequence, b.map(Record::decode).unwrap_or_default()))
}

/// Loads an inode of an open volume, where torn halves were mended: one that is torn now is damage.
pub(crate) fn load(medium: &Medium, layout: &Layout, ino: Ino, segments: u32) -> Result<(u32, Record)> {
    let at = layout.version_at(ino, 0);
    let (sequence, record) = read_newest(medium, layout, ino)
        .ok_or_else(|| Error::damaged(at, format!("inode {ino} with a wrong checksum")))?;
    match record.nonsense(layout, segments) {
        Some(what) => Err(Error::damaged(at, format!("inode {ino} with {what}"))),
        None => Ok((sequence, record)),
    }
}

/// Reads an inode's list; `read` reads the volume. It is damaged, too, if it leads out of the data area or into
/// the file's run.
pub(crate) fn load_list(
    layout: &Layout,
    ino: Ino,
    record: &Record,
    segments: u32,
    read: impl Fn(u64, &mut [u8]),
) -> Result<Vec<Extent>> {
    if record.list_extents == 0 {
        return Ok(Vec::new());
    }
    let at = layout.page_at(record.list_start);
    let mut b = vec![0; extents::list_bytes(record.list_extents as usize)];
    read(at, &mut b);
    let pages = segments * layout.pages_per_segment();
    let inside = |extent: &Extent| {
        extent.start.checked_add(extent.pages).is_some_and(|end| end <= pages) && extent.index >= record.run_pages
    };
    extents::decode(ino, &b)
        .filter(|list| list.len() == record.list_extents as usize && list.iter().all(inside))
        .ok_or_else(|| Error::damaged(at, format!("a damaged extent list of inode {ino}")))
}

/// All runs of small pages that an inode has: first and number.
pub(crate) fn small_runs<'a>(record: &Record, list: &'a [Extent]) -> impl Iterator<Item = (u32, u32)> + use<'a> {
    let runs = [
        (record.run_start, record.run_pages),
        (record.xattr_start, record.xattr_pages),
        (record.list_start, record.list_pages),
    ];
    runs.into_iter().chain(list.iter().map(|extent| (extent.start, extent.pages)))
}
