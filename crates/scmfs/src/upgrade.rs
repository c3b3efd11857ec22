//! Conversion of a volume of format 1 to format 2, in place.
//!
//! Format 1 had its second superblock right after the first, one mapping table, and free entries of zeros. Journal,
//! inode table, mapping table and data area stay where they are. The second mapping table and the far superblock go
//! to where the free map was, which nothing needs in a volume that is in use. Until the first superblock is of
//! format 2, the volume is one of format 1 that was not closed; from then on, one of format 2 that was not closed.

use crate::check::{Image, look, survey};
use crate::format::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::format::layout::{INODE_BYTES, Layout, MAPPING_BYTES};
use crate::format::mapping::Mapping;
use crate::format::old::{self, Old};
use crate::format::superblock::Superblock;
use crate::store;
use crate::{Error, Geometry, OpenOptions, Report, Result, Threshold, Volume};
use pocketstone_media::{Durable, Flushed, Medium, Region};
use pocketstone_vfs::MediumError;
use serde::Serialize;
use std::sync::Arc;

/// The result of a conversion.
#[non_exhaustive]
#[derive(Debug, Clone, Serialize)]
pub struct Upgraded {
    /// What fsck says of the volume as it is now.
    pub report: Report,
    /// The previous maximum size.
    pub old_max_bytes: u64,
    /// The new maximum size, which is smaller if the second mapping table needed the space.
    pub max_bytes: u64,
}

/// Converts a format 1 volume to format 2 in place, recovering it if unclean. File contents are not touched. An
/// interrupted conversion can be repeated.
///
/// # Errors
/// `Medium` if there is no volume of format 1, if it is damaged, or if there is no space for the new tables.
pub fn upgrade(region: Box<dyn Region>) -> Result<Upgraded> {
    let medium = Medium::new(region);
    let old = read_old(&medium)?;
    let new = converted(&old, &medium)?;
    new.check_writable()?;
    let (old_max_bytes, max_bytes) = (get_u64(&old.bytes, 32), new.max_bytes);
    let last = store::find(&medium, &new.layout, &new.uuid).filter(|_| !old.is_clean());
    let mut stores = last.map_or(Vec::new(), |(_, record)| store::replay(&medium, &new.layout, &record));
    let replayed = stores.len();
    // What fsck would say of the volume when it is converted.
    let tables = mapping_tables(&medium, &new.layout, &stores)?;
    stores.extend([(new.layout.mapping_at, tables.clone()), (new.layout.mirror_at, tables.clone())]);
    let looked = survey(Image::planned(medium, new.clone(), stores.clone()), Vec::new(), None);
    if let Some(finding) = looked.report.findings.first() {
        let message = format!("the volume is damaged, and was not converted: {}", finding.what);
        let hint =
            "repair it first, with `scmfs fsck --repair` of the pocketstone that created it; nothing was changed";
        return Err(MediumError::refused(message).hint(hint).into());
    }
    let medium = looked.image.medium;
    stores.truncate(replayed);
    convert(&medium, &old, new, &stores, &tables);
    medium.sync()?;
    // Recovers it, and makes its free map.
    let options = OpenOptions { null_files: 0, ..OpenOptions::default() };
    let medium = Volume::open_medium(medium, &options)?.into_medium()?;
    let report = look(medium, None)?.report;
    Ok(Upgraded { report, old_max_bytes, max_bytes })
}

/// The newest whole copy.
fn read_old(medium: &Medium) -> Result<Old> {
    let (near, far) = (Old::at(medium, 0), old::second(medium));
    match (near, far) {
        (Some(near), Some(far)) => Ok(if far.sequence() > near.sequence() { far } else { near }),
        (Some(one), None) => Ok(one),
        (None, far) => {
            // A volume of format 2 may still have an old second copy, if its conversion was interrupted.
            match (Superblock::find(medium), far) {
                (Ok(_), _) => Err(MediumError::refused("the volume already has the newest format")
                    .hint("there is nothing to convert; `scmfs fsck` checks it")
                    .into()),
                (Err(_), Some(far)) => Ok(far),
                (Err(error), None) => Err(error),
            }
        }
    }
}

/// The same volume's superblock in format 2, in use. Its sequence number is such that the far copy is next.
fn converted(old: &Old, medium: &Medium) -> Result<Superblock> {
    let b = &old.bytes;
    let geometry = Geometry::new(get_u32(b, 12), get_u32(b, 16));
    let (page, huge) = (u64::from(geometry.page_bytes), u64::from(geometry.huge_bytes));
    let (inodes, bytes, old_max) = (get_u32(b, 20), get_u64(b, 24), get_u64(b, 32));
    let sane = geometry.page_bytes.is_power_of_two()
        && geometry.huge_bytes.is_power_of_two()
        && page >= 256
        && huge >= 8 * page
        && bytes <= old_max
        && old_max / page <= u64::from(u32::MAX)
        && (2..=u32::MAX / 2).contains(&inodes);
    let data_at = get_u64(b, 80);
    if !sane || data_at % huge != 0 || data_at >= bytes {
        return Err(Error::damaged(0, "a superblock of format 1 with impossible sizes"));
    }
    let journal_bytes = get_u64(b, 48);
    let layout_for = |max| Layout::new(journal_bytes.saturating_mul(16), max, inodes, geometry, false);
    let fits = |max: u64| layout_for(max).data_at <= data_at;
    // As far as before if it can be; otherwise as far as it can be, in whole huge pages.
    let (mut low, mut high) = (bytes.div_ceil(huge), old_max / huge + 1);
    let max_bytes = if fits(old_max) {
        old_max
    } else if !fits(low * huge) || low * huge > old_max {
        let message = "there is no space for the second mapping table of format 2".to_string();
        let hint = "create a new volume (scmfs mkfs), mount both, the old one with the pocketstone that created it, \
            and copy the files; nothing was changed";
        return Err(MediumError::refused(message).hint(hint).into());
    } else {
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            (low, high) = if fits(middle * huge) { (middle, high) } else { (low, middle) };
        }
        low * huge
    };
    let mut layout = layout_for(max_bytes);
    layout.data_at = data_at;
    let stored = [get_u64(b, 40), journal_bytes, get_u64(b, 56), get_u64(b, 64)];
    if stored != [layout.journal_at, layout.journal_bytes, layout.inodes_at, layout.mapping_at]
        || layout.inodes_at + u64::from(inodes) * INODE_BYTES > layout.mapping_at
        || layout.segments(bytes) < 2
    {
        return Err(Error::damaged(0, "a superblock of format 1 with impossible offsets"));
    }
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&b[120..136]);
    let label = b[144..176].split(|byte| *byte == 0).next().unwrap_or_default();
    let superblock = Superblock {
        geometry,
        inodes,
        bytes,
        max_bytes,
        layout: Layout { chunks: Arc::default(), ..layout },
        small_segments: get_u32(b, 88),
        threshold: match get_u64(b, 96) {
            u64::MAX => Threshold::Never,
            bytes => Threshold::Bytes(bytes),
        },
        clean: false,
        size_records: false,
        opened: get_u32(b, 108),
        sequence: (old.sequence() + 2) & !1,
        uuid,
        free_map_crc: 0,
        label: String::from_utf8_lossy(label).into_owned(),
        created_ns: get_u64(b, 176) as i64,
        compatible: get_u32(b, 184),
        read_only: get_u32(b, 188),
    };
    if bytes > medium.bytes() {
        return Err(superblock.is_cut(medium));
    }
    Ok(superblock)
}

/// Stores "in use" in both copies, in format 1: the free map counts no more.
fn mark_in_use(old: &Old, medium: &Medium) {
    let mut bytes = old.bytes;
    for _ in 0..2 {
        let sequence = get_u64(&bytes, 112) + 1;
        put_u64(&mut bytes, 112, sequence);
        put_u32(&mut bytes, 104, 2);
        let crc = crc32c::crc32c(&bytes[..252]);
        put_u32(&mut bytes, 252, crc);
        // SAFETY: nobody else has the volume.
        let dirty = unsafe { medium.write((sequence & 1) * old.page(), &bytes, Durable::repeatable()) };
        medium.fence(medium.flush(dirty)).done();
    }
}

/// A mapping table of format 2: free entries have checksums. In the old one they are zeros, unless a conversion was
/// interrupted. `stores` come after what is there.
fn mapping_tables(medium: &Medium, layout: &Layout, stores: &[(u64, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut table = vec![0; (u64::from(layout.max_segments) * MAPPING_BYTES) as usize];
    medium.read(layout.mapping_at, &mut table);
    for (at, bytes) in stores {
        let place = at.checked_sub(layout.mapping_at).filter(|place| place + bytes.len() as u64 <= table.len() as u64);
        if let Some(place) = place {
            table[place as usize..place as usize + bytes.len()].copy_from_slice(bytes);
        }
    }
    for (segment, entry) in (0..).zip(table.chunks_exact_mut(MAPPING_BYTES as usize)) {
        if entry.iter().all(|byte| *byte == 0) {
            entry.copy_from_slice(&Mapping::Free.encode(segment));
        }
        Mapping::decode(segment, entry, layout.mapping_entry_at(segment))?;
    }
    Ok(table)
}

fn convert(medium: &Medium, old: &Old, mut new: Superblock, stores: &[(u64, Vec<u8>)], tables: &[u8]) {
    let layout = new.layout.clone();
    let fence = |flushed| medium.fence(flushed).done();
    mark_in_use(old, medium);
    let mut flushed = Flushed::nothing();
    for (at, bytes) in stores {
        // SAFETY: nobody else has the volume.
        flushed.join(medium.flush(unsafe { medium.write(*at, bytes, Durable::repeatable()) }));
    }
    // What was applied is not needed again, and would be of the old format.
    let applied = medium.fence(flushed);
    // SAFETY: nobody else has the volume.
    let emptied = unsafe { medium.zero(layout.journal_at, layout.journal_bytes, applied) };
    // SAFETY: nobody else has the volume.
    fence(emptied.and(unsafe { medium.stream(layout.mirror_at, tables, Durable::repeatable()) }));
    // The far copy first: the near one makes it a volume of format 2.
    for _ in 0..2 {
        let dirty = new.write(medium, Durable::repeatable());
        fence(medium.flush(dirty));
    }
    // SAFETY: nobody else has the volume.
    fence(unsafe { medium.zero(layout.page, layout.page, Durable::repeatable()) });
    Mapping::heal(medium, &layout);
}
