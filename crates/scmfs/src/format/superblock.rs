//! The superblock: two copies, each with a sequence number and a checksum; the newest valid one counts.
//!
//! ```text
//!   0  magic "SCMFS\0\x1a\n"           104  state: 1 closed cleanly, 2 in use
//!   8  u32 version                    108  u32 times opened
//!  12  u32 small page, bytes          112  u64 sequence number
//!  16  u32 huge page, bytes           120  uuid, 16 bytes
//!  20  u32 inodes                     136  u32 crc of the free map
//!  24  u64 volume, bytes              140  u32 incompatible features
//!  32  u64 largest size, bytes        144  label, 32 bytes, filled with zeros
//!  40  u64 journal at, 48 its bytes   176  i64 created, ns since 1970
//!  56  u64 inode table at             184  u32 features that may be ignored
//!  64  u64 mapping table at           188  u32 features that allow reading only
//!  72  u64 free map at                208  zeros
//!  80  u64 data at                    200  u64 content checksums at, 0: none
//!  88  u32 huge pages of the small-page zone at creation
//!  96  u64 threshold in bytes, all ones: never
//! 192  u64 second mapping table at    252  u32 crc32c of the 252 bytes before
//! ```
//!
//! The copy with an even sequence number lies at 0, the one with an odd number in the last small page before the
//! data area.

use super::bytes::{get_u32, get_u64, put_u32, put_u64};
use super::layout::{Layout, MAGIC, MOST_SEQUENCE, SUPERBLOCK_BYTES};
use super::old::{self, OLD_VERSION};
use crate::{Error, Geometry, Result, Threshold};
use pocketstone_media::{Dirty, Durable, Medium};
use pocketstone_vfs::MediumError;
use std::iter::successors;

/// The format's version: a higher one is refused.
pub const FORMAT_VERSION: u32 = 2;
/// Incompatible feature: contents have checksums.
pub(crate) const CHECKSUMS: u32 = 1;
/// Incompatible feature: records may say that files are longer than their inodes do. Only while the volume is in use.
pub(crate) const SIZE_RECORDS: u32 = 2;

/// What a superblock says.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    pub geometry: Geometry,
    pub inodes: u32,
    pub bytes: u64,
    pub max_bytes: u64,
    /// Size at creation: the layout follows from it.
    pub layout: Layout,
    pub small_segments: u32,
    pub threshold: Threshold,
    pub clean: bool,
    /// Records of sizes count.
    pub size_records: bool,
    pub opened: u32,
    pub sequence: u64,
    pub uuid: [u8; 16],
    pub free_map_crc: u32,
    pub label: String,
    pub created_ns: i64,
    /// Features that this program does not know, and may ignore.
    pub compatible: u32,
    /// Features that this program does not know, and that allow it to read.
    pub read_only: u32,
}

impl Superblock {
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut b = [0; SUPERBLOCK_BYTES];
        let l = &self.layout;
        b[..8].copy_from_slice(&MAGIC);
        put_u32(&mut b, 8, FORMAT_VERSION);
        put_u32(&mut b, 12, self.geometry.page_bytes);
        put_u32(&mut b, 16, self.geometry.huge_bytes);
        put_u32(&mut b, 20, self.inodes);
        let words = [self.bytes, self.max_bytes, l.journal_at, l.journal_bytes, l.inodes_at, l.mapping_at];
        for (i, word) in words.into_iter().enumerate() {
            put_u64(&mut b, 24 + 8 * i, word);
        }
        put_u64(&mut b, 72, l.free_map_at);
        put_u64(&mut b, 80, l.data_at);
        let checksums = if l.checks_at.is_some() { CHECKSUMS } else { 0 };
        put_u32(&mut b, 140, checksums | if self.size_records { SIZE_RECORDS } else { 0 });
        put_u64(&mut b, 192, l.mirror_at);
        put_u64(&mut b, 200, l.checks_at.unwrap_or(0));
        put_u32(&mut b, 88, self.small_segments);
        let threshold = match self.threshold {
            Threshold::Bytes(bytes) => bytes,
            Threshold::Never => u64::MAX,
        };
        put_u64(&mut b, 96, threshold);
        put_u32(&mut b, 104, if self.clean { 1 } else { 2 });
        put_u32(&mut b, 108, self.opened);
        put_u64(&mut b, 112, self.sequence);
        b[120..136].copy_from_slice(&self.uuid);
        put_u32(&mut b, 136, self.free_map_crc);
        let label = self.label.as_bytes();
        b[144..144 + label.len()].copy_from_slice(label);
        put_u64(&mut b, 176, self.created_ns as u64);
        put_u32(&mut b, 184, self.compatible);
        put_u32(&mut b, 188, self.read_only);
        let crc = crc32c::crc32c(&b[..252]);
        put_u32(&mut b, 252, crc);
        b
    }

    /// Reads one copy; `at` is where it came from, for messages.
    pub fn decode(b: &[u8; SUPERBLOCK_BYTES], at: u64) -> Result<Superblock> {
        if b[..8] != MAGIC {
            return Err(Error::damaged(at, "no SCMFS superblock"));
        }
        if crc32c::crc32c(&b[..252]) != get_u32(b, 252) {
            return Err(Error::damaged(at, "a superblock with a wrong checksum"));
        }
        let (version, features) = (get_u32(b, 8), get_u32(b, 140));
        if version == OLD_VERSION && features == 0 {
            return Err(is_old());
        }
        if version != FORMAT_VERSION || features & !(CHECKSUMS | SIZE_RECORDS) != 0 {
            return Err(MediumError::refused(format!(
                "this SCMFS volume has format {version} (features {:#x}); this program supports format {}",
                features, FORMAT_VERSION
            ))
            .hint("use a newer pocketstone; nothing was changed")
            .into());
        }
        let geometry = Geometry::new(get_u32(b, 12), get_u32(b, 16));
        let (inodes, bytes, max_bytes) = (get_u32(b, 20), get_u64(b, 24), get_u64(b, 32));
        let wrong = |what: &str| Err(Error::damaged(at, format!("a superblock with impossible {what}")));
        let sane = geometry.page_bytes.is_power_of_two()
            && geometry.huge_bytes.is_power_of_two()
            && geometry.page_bytes >= 256
            && u64::from(geometry.huge_bytes) >= 8 * u64::from(geometry.page_bytes)
            && bytes <= max_bytes
            && max_bytes / u64::from(geometry.page_bytes) <= u64::from(u32::MAX);
        if !sane || !(2..=u32::MAX / 2).contains(&inodes) {
            return wrong("sizes");
        }
        // The journal's size depends on the size at creation; everything else follows from it.
        let (journal_at, journal_bytes) = (get_u64(b, 40), get_u64(b, 48));
        let checked = features & CHECKSUMS != 0;
        let mut layout = Layout::new(journal_bytes.saturating_mul(16), max_bytes, inodes, geometry, checked);
        let stored = [journal_at, journal_bytes, get_u64(b, 56), get_u64(b, 64), get_u64(b, 72), get_u64(b, 192)];
        let l = &layout;
        let computed = [l.journal_at, l.journal_bytes, l.inodes_at, l.mapping_at, l.free_map_at, l.mirror_at];
        let data_at = get_u64(b, 80);
        // A volume of an earlier format keeps its data area when it is converted: that may leave a gap.
        let has_room = data_at >= l.data_at && data_at % l.huge == 0 && data_at < max_bytes;
        if stored != computed || get_u64(b, 200) != l.checks_at.unwrap_or(0) || !has_room {
            return wrong("offsets");
        }
        layout.data_at = data_at;
        let small_segments = get_u32(b, 88);
        if layout.segments(bytes) < 2 || small_segments > layout.segments(bytes) {
            return wrong("zones");
        }
        let threshold = match get_u64(b, 96) {
            u64::MAX => Threshold::Never,
            bytes => Threshold::Bytes(bytes),
        };
        let clean = match get_u32(b, 104) {
            1 => true,
            2 => false,
            _ => return wrong("state"),
        };
        // A number that counts by one does not come this far; the next one must exist, too.
        if get_u64(b, 112) > MOST_SEQUENCE {
            return wrong("sequence number");
        }
        if at != place(&layout, get_u64(b, 112)) {
            return wrong("place");
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&b[120..136]);
        let label = b[144..176].split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Superblock {
            geometry,
            inodes,
            bytes,
            max_bytes,
            layout,
            small_segments,
            threshold,
            clean,
            size_records: features & SIZE_RECORDS != 0,
            opened: get_u32(b, 108),
            sequence: get_u64(b, 112),
            uuid,
            free_map_crc: get_u32(b, 136),
            label: String::from_utf8_lossy(label).into_owned(),
            created_ns: get_u64(b, 176) as i64,
            compatible: get_u32(b, 184),
            read_only: get_u32(b, 188),
        })
    }

    /// The newest valid copy, and the faults of the copies that are not valid.
    ///
    /// # Errors
    /// `Medium` if there is none, or one of another format, or the region is truncated.
    pub fn read(medium: &Medium) -> Result<(Superblock, Vec<Error>)> {
        let (found, faults) = Superblock::find(medium)?;
        if found.bytes > medium.bytes() { Err(found.is_cut(medium)) } else { Ok((found, faults)) }
    }

    /// What to say of a region that is shorter than its volume.
    pub fn is_cut(&self, medium: &Medium) -> Error {
        let message = format!(
            "{} is truncated: the volume has {} bytes, but only {} are present",
            medium.region().describe(),
            self.bytes,
            medium.bytes()
        );
        let hint = format!(
            "the missing data can be restored only from a copy; `scmfs fsck --repair` restores the region's length \
                (as does truncate -s {}) and lists what each file lost",
            self.bytes
        );
        MediumError::refused(message).hint(hint).into()
    }

    /// As [`Superblock::read`], of a region that may be shorter than its volume.
    pub fn find(medium: &Medium) -> Result<(Superblock, Vec<Error>)> {
        let least = SUPERBLOCK_BYTES as u64;
        if medium.bytes() < least {
            return Err(foreign(medium, format!("it has only {} bytes", medium.bytes())));
        }
        let copy = |at: u64| {
            if at + least > medium.bytes() {
                return Err(Error::damaged(at, "no second superblock: the region ends before it"));
            }
            let mut b = [0; SUPERBLOCK_BYTES];
            medium.read(at, &mut b);
            Superblock::decode(&b, at)
        };
        let mut first = [0; 8];
        medium.read(0, &mut first);
        let mut faults = Vec::new();
        let mut best = None;
        match copy(0) {
            Ok(near) => {
                let far = copy(near.layout.far_at());
                best = Some(near);
                match far {
                    Ok(far) if best.as_ref().is_some_and(|near| far.sequence > near.sequence) => best = Some(far),
                    Ok(_) => {}
                    Err(error) => faults.push(error),
                }
            }
            Err(error) => {
                // It names no sizes then: the second one may be anywhere, and says whether it is in its place.
                let is_old = matches!(error, Error::Medium(_));
                faults.push(error);
                if !is_old {
                    best = search(medium).find_map(|at| copy(at).ok());
                }
            }
        }
        // A copy of a newer format counts, whatever the other one says.
        if let Some(newer) = faults.iter().position(|error| matches!(error, Error::Medium(_))) {
            return Err(faults.swap_remove(newer));
        }
        match best {
            Some(found) => Ok((found, faults)),
            // The old format had its second superblock elsewhere.
            None if old::is_there(medium) => Err(is_old()),
            None => Err(match faults.into_iter().next() {
                Some(Error::Damaged(_)) if first != MAGIC => {
                    let shown: String = first.iter().map(|byte| format!("{byte:02x}")).collect();
                    foreign(medium, format!("it starts with {shown}"))
                }
                Some(error) => error,
                None => foreign(medium, "nothing was found".into()),
            }),
        }
    }

    /// Refuses to change a volume with features that this program would break.
    pub fn check_writable(&self) -> Result<()> {
        if self.read_only == 0 {
            return Ok(());
        }
        Err(MediumError::refused(format!(
            "the volume has features ({:#x}) that this program supports read-only",
            self.read_only
        ))
        .hint("mount it read-only, or use a newer pocketstone")
        .into())
    }

    /// Stores this as the newest copy, over the older one.
    pub fn write(&mut self, medium: &Medium, after: Durable) -> Dirty {
        self.sequence += 1;
        let at = place(&self.layout, self.sequence);
        // SAFETY: a volume that is in use has one superblock in memory, which is borrowed exclusively; who reads the
        // copies on the medium has borrowed it, too. Any other volume has one user.
        unsafe { medium.write(at, &self.encode(), after) }
    }
}

/// Where the copy with a sequence number lies.
fn place(layout: &Layout, sequence: u64) -> u64 {
    if sequence & 1 == 0 { 0 } else { layout.far_at() }
}

/// Where a region has the first bytes of a superblock, after its start. All pages begin at multiples of 256 bytes, and
/// what was never stored has none: a foreign file may be much larger than what is in it.
fn search(medium: &Medium) -> impl Iterator<Item = u64> + '_ {
    let step = SUPERBLOCK_BYTES as u64;
    let stored = successors(medium.stored(0), |stored| medium.stored(stored.end));
    let lines = stored.flat_map(move |stored| stored.start.max(step).div_ceil(step)..stored.end / step);
    lines.map(move |line| line * step).filter(|at| {
        let mut b = [0; MAGIC.len()];
        medium.read(*at, &mut b);
        b == MAGIC
    })
}

fn is_old() -> Error {
    let message = format!("this SCMFS volume has format {OLD_VERSION}; this program uses {FORMAT_VERSION}");
    let hint = "convert it with `scmfs fsck --upgrade REGION`; nothing was changed";
    MediumError::refused(message).hint(hint).into()
}

fn foreign(medium: &Medium, why: String) -> Error {
    MediumError::refused(format!("{} is not an SCMFS volume: {why}", medium.region().name()))
        .hint("create one with `scmfs mkfs REGION`")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreateOptions, Volume};
    use pocketstone_media::{MapOptions, Mapped, Pcm, PcmOptions, Region};
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_sequence_number_that_cannot_go_on_is_damage() {
        let (memory, _) = Pcm::new(16 << 20, &PcmOptions::default().read_ns(0).write_ns(0));
        Volume::create(Box::new(memory.region().unwrap()), &CreateOptions::default()).unwrap();
        let mut bytes = [0; SUPERBLOCK_BYTES];
        memory.region().unwrap().read(0, &mut bytes);
        let mut superblock = Superblock::decode(&bytes, 0).unwrap();
        for (sequence, sound) in [(MOST_SEQUENCE, true), (MOST_SEQUENCE + 1, false), (u64::MAX, false)] {
            superblock.sequence = sequence;
            assert_eq!(Superblock::decode(&superblock.encode(), 0).is_ok(), sound, "{sequence}");
        }
    }

    /// A hundred gigabytes take minutes to look through.
    #[test]
    fn a_second_superblock_is_found_in_a_large_file_and_what_was_never_stored_is_not_searched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("region");
        // A region to be written gets all of its space at once, which not every disk has.
        let options = MapOptions::default().writable(false);
        let opened = || Medium::new(Box::new(Mapped::open(&path, &options).unwrap()));
        let region = Mapped::create(&path, 16 << 20, &MapOptions::default()).unwrap();
        Volume::create(Box::new(region), &CreateOptions::default()).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(100 << 30).unwrap();
        file.write_all_at(&[0; SUPERBLOCK_BYTES], 0).unwrap();
        let begin = pocketstone_testing::bench::cpu();
        let (found, faults) = Superblock::find(&opened()).unwrap();
        assert_eq!((found.sequence & 1, faults.len()), (1, 1));
        file.write_all_at(&[0; SUPERBLOCK_BYTES], found.layout.far_at()).unwrap();
        let error = Superblock::find(&opened()).unwrap_err().to_string();
        assert!(error.contains("not an SCMFS volume"), "{error}");
        // Of this thread's processor: a busy machine may take longer.
        let took = pocketstone_testing::bench::cpu() - begin;
        assert!(took < std::time::Duration::from_secs(2), "{took:?}");
    }
}
