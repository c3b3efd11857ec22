//! Opening chips: MTD devices and image files.

use crate::arguments::{ChipArguments, LayoutArguments};
use pocketstone_cli::note;
use pocketstone_core::error::Context;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::{Access, ImageLayout, ImageNand, MtdNand, Nand, yaffs1};
use pocketstone_vfs::{MediumError, MediumErrorKind};
use pocketstone_yaffs2::{ByteOrder, Missing, OpenOptions, Volume, byte_order};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Without anything said, pages have so many bytes.
const PAGE_BYTES: u32 = 2048;
/// The largest pages, of chips that have spare areas to match.
const LARGEST_PAGE_BYTES: u64 = 1 << 16;
const PAGES_PER_BLOCK: u32 = 64;

/// A chip, what is known of how its tags are stored, and the lock on a device.
pub struct Opened {
    pub nand: Box<dyn Nand>,
    pub options: OpenOptions,
    /// Keeps others from working on the device; an image file has its own.
    pub lock: Option<File>,
}

/// Whether a path is that of a character device, which then is to be MTD's. A file need not exist.
pub fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|facts| facts.file_type().is_char_device())
}

/// What is wrong with sizes that were given for a device.
pub fn fixed_sizes(path: &Path) -> Error {
    Error::user(format!("{} has fixed sizes", path.display())).hint("omit them: they are the device's own")
}

/// Opens an MTD device; nobody else who asks may work on it meanwhile.
pub fn device(path: &Path, access: Access) -> Result<(MtdNand, File)> {
    let nand = MtdNand::open(path, access)?;
    let file = File::open(path).board(|| format!("cannot open {}", path.display()))?;
    let how = match access {
        Access::Read => FlockOperation::NonBlockingLockShared,
        Access::Write => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(&file, how) {
        Err(Errno::WOULDBLOCK) => Err(Error::user(format!("{} is in use", path.display()))
            .hint("unmount it (yaffs2 umount DIR), or stop the command that uses it")),
        _ => Ok((nand, file)),
    }
}

/// The sizes of a page and its spare area. No image of pages of other sizes could be told from anything else.
pub fn page_and_spare(page: u64, spare: Option<u64>) -> Result<(u32, u32)> {
    if !page.is_power_of_two() || !(512..=LARGEST_PAGE_BYTES).contains(&page) {
        return Err(Error::user(format!("a page cannot have {}", counted(page, "byte")))
            .hint("pages have a power of two of bytes: 512, 1K, 2K, and so on up to 64K"));
    }
    let spare = spare.unwrap_or(page / 32);
    if spare > LARGEST_PAGE_BYTES {
        return Err(
            Error::user(format!("a spare area of {spare} bytes is too large")).hint("spare areas have at most 64 KiB")
        );
    }
    Ok((page as u32, spare as u32))
}

/// A layout that was given, in part or whole.
pub fn layout(given: &LayoutArguments) -> Result<ImageLayout> {
    let (page, spare) = page_and_spare(given.page.unwrap_or(PAGE_BYTES.into()), given.spare)?;
    // YAFFS1's tags, which alone are on such pages, are spread over all of the spare area.
    let yaffs1 = page == yaffs1::PAGE_BYTES;
    let offset = given.spare_offset.unwrap_or(if spare == 0 || yaffs1 { 0 } else { 2 });
    let usual = if yaffs1 { yaffs1::PAGES_PER_BLOCK } else { PAGES_PER_BLOCK };
    let layout = ImageLayout::with_spare(page, spare, offset, given.pages_per_block.unwrap_or(usual));
    Ok(match yaffs1 {
        true => ImageLayout { spare_free_bytes: spare.saturating_sub(offset), ..layout },
        false => layout,
    })
}

/// An image; whether its tags are in the pages, and whether they have error correction, where it tells.
fn image(chip: &ChipArguments, access: Access) -> Result<(ImageNand, Option<(bool, bool)>)> {
    let (path, given) = (&chip.path, &chip.layout);
    if given.page.is_some() {
        return Ok((of_given_layout(chip, access)?, None));
    }
    if let Some(option) = given.spare.and(Some("spare")).or(given.spare_offset.and(Some("spare-offset"))) {
        return Err(Error::user(format!("`{option}` is given without `page`")).hint("give the size of a page, too"));
    }
    if access == Access::Write && (chip.inband_tags || chip.no_tags_ecc || given.pages_per_block.is_some()) {
        not_otherwise(chip, None)?;
    }
    let nand = ImageNand::open(path, access, None).map_err(with_options)?;
    let seen = nand.inband_tags().zip(nand.tags_ecc());
    let nand = match given.pages_per_block {
        Some(pages_per_block) => {
            let layout = ImageLayout { pages_per_block, ..nand.layout() };
            // It is locked until here.
            drop(nand);
            ImageNand::open(path, access, Some(&layout))?
        }
        None if nand.is_block_certain() == Some(false) => of_blocks_by_checkpoint(path, nand, access, seen)?,
        None => nand,
    };
    Ok((nand, seen))
}

/// An image of the layout that was given: to be written only if it is certainly no other.
fn of_given_layout(chip: &ChipArguments, access: Access) -> Result<ImageNand> {
    let layout = layout(&chip.layout)?;
    match not_otherwise(chip, Some(&layout)) {
        Err(other) if access == Access::Read => note("warning", other.message()),
        outcome => outcome?,
    }
    Ok(ImageNand::open(&chip.path, access, Some(&layout))?)
}

/// An image that does not tell how many pages a block has: as its checkpoint says, and without one as it was opened,
/// but not to be written.
fn of_blocks_by_checkpoint(
    path: &Path,
    nand: ImageNand,
    access: Access,
    seen: Option<(bool, bool)>,
) -> Result<ImageNand> {
    let layout = nand.layout();
    // Readers share its lock; a writer has it alone.
    let nand = (access == Access::Read).then_some(nand);
    let is_built = nand.as_ref().is_some_and(ImageNand::is_built);
    let found = if is_built { None } else { by_checkpoint(path, &layout, seen)? };
    match (found, nand) {
        (Some(layout), _) => Ok(ImageNand::open(path, access, Some(&layout))?),
        (None, Some(nand)) => Ok(nand),
        (None, None) => Err(Error::user(format!("{}: the number of pages per block is unknown", path.display()))
            .hint("pass --pages-per-block (often 64) or mount with pages-per-block=64, or open it read-only")),
    }
}

/// Refuses to write to an image that is certainly laid out in another way than was given: what is written by a wrong
/// layout destroys what is there.
fn not_otherwise(chip: &ChipArguments, given: Option<&ImageLayout>) -> Result<()> {
    // One that tells nothing is laid out as one likes. Only tags with error correction are no accident.
    let Ok(mut nand) = ImageNand::open(&chip.path, Access::Read, None) else { return Ok(()) };
    let options = OpenOptions::default().inband_tags(nand.inband_tags() == Some(true)).read_only(true);
    // That a big-endian one cannot be written is told by who opens it.
    let little = byte_order(&mut nand, &options).is_ok_and(|order| order == ByteOrder::Little);
    if nand.tags_ecc() != Some(true) || !little {
        return Ok(());
    }
    let (found, inband) = (nand.layout(), nand.inband_tags() == Some(true));
    let place = |layout: &ImageLayout| (layout.page_bytes, layout.stride(), layout.spare_offset);
    let blocks = match nand.is_block_certain() {
        Some(true) => Some(found.pages_per_block),
        _ => {
            let seen = nand.inband_tags().zip(nand.tags_ecc());
            by_checkpoint(&chip.path, &found, seen)?.map(|layout| layout.pages_per_block)
        }
    };
    let same_pages = given.is_none_or(|given| place(given) == place(&found)) && chip.inband_tags == inband;
    // Of pages that are others it says nothing how many there are in a block.
    let asked = given.map_or(chip.layout.pages_per_block, |given| Some(given.pages_per_block));
    let same_blocks = blocks.zip(asked).is_none_or(|(found, asked)| found == asked);
    let same_tags = inband || !chip.no_tags_ecc;
    if same_pages && same_blocks && same_tags {
        return Ok(());
    }
    let pages = format!("pages of {} bytes with {} of spare area", found.page_bytes, found.spare_total_bytes);
    let of_blocks = blocks.map_or_else(String::new, |blocks| format!(", {blocks} in a block"));
    let tags = if inband { ", and tags in the pages" } else { ", and tags with error correction" };
    Err(Error::user(format!("{} has {pages}{of_blocks}{tags}: another layout was given", chip.path.display()))
        .hint("omit the layout to have it detected; to look at it by this one, pass --read-only or mount with ro"))
}

/// How many pages a block has, by the checkpoint that a volume of few files was closed with.
fn by_checkpoint(path: &Path, layout: &ImageLayout, seen: Option<(bool, bool)>) -> Result<Option<ImageLayout>> {
    let (inband_tags, tags_ecc) = seen.unwrap_or((false, true));
    let options = OpenOptions::default().inband_tags(inband_tags).tags_ecc(tags_ecc).read_only(true);
    for pages_per_block in [64, 32, 128, 256, 512, 16] {
        let layout = ImageLayout { pages_per_block, ..*layout };
        let nand = ImageNand::open(path, Access::Read, Some(&layout))?;
        // A chip of such blocks may be none that YAFFS2 can be on.
        if pocketstone_yaffs2::has_checkpoint(Box::new(nand), &options).is_ok_and(|has| has) {
            return Ok(Some(layout));
        }
    }
    Ok(None)
}

/// What is to be given when a layout cannot be told, by the names that it has here.
fn with_options(error: MediumError) -> MediumError {
    match error.kind() {
        MediumErrorKind::UnknownLayout => error.hint(
            "if it is a YAFFS2 image, specify its layout: pass --page 2048 --spare 64 --spare-offset 2 \
             --pages-per-block 64, or mount with page=2048,spare=64,spare-offset=2,pages-per-block=64; if tags are in \
             the pages, --inband-tags or inband-tags, too",
        ),
        _ => error,
    }
}

/// All of a volume is read once, so that nothing of it need be read again.
const SCANNED_HEADERS: u32 = 100_000;

/// Opens a chip, and says how its tags are stored.
pub fn open(chip: &ChipArguments, access: Access) -> Result<Opened> {
    let read_only = access == Access::Read;
    let mut options =
        OpenOptions::default().read_only(read_only).inband_tags(chip.inband_tags).tags_ecc(!chip.no_tags_ecc);
    if is_device(&chip.path) {
        if chip.layout.is_given() {
            return Err(fixed_sizes(&chip.path));
        }
        let (mut nand, lock) = device(&chip.path, access)?;
        // For writing it is this machine's; the mount looks whether it can be.
        if read_only {
            options.byte_order = byte_order(&mut nand, &options).map_err(Error::from)?;
        }
        return Ok(Opened { nand: Box::new(nand), options, lock: Some(lock) });
    }
    let (mut nand, seen) = image(chip, access)?;
    if let Some((inband_tags, tags_ecc)) = seen {
        options.inband_tags |= inband_tags;
        options.tags_ecc &= tags_ecc;
    }
    options.byte_order = byte_order(&mut nand, &options).map_err(Error::from)?;
    if nand.cut_bytes() != 0 {
        let (path, bytes, page) = (chip.path.display(), nand.cut_bytes(), nand.layout().stride());
        let cause = "it was cut off, or its layout is another";
        note("warning", &format!("{path}: the last {bytes} bytes are left out, as pages have {page}: {cause}"));
    } else if let Some(pages) = nand.cut_block() {
        let (path, all) = (chip.path.display(), nand.layout().pages_per_block);
        note("warning", &format!("{path}: its last block has {pages} of {all} pages: it was cut off"));
    }
    Ok(Opened { nand: Box::new(nand), options, lock: None })
}

/// A volume that is not mounted, to be looked at. Nothing is deleted from its lost+found.
pub fn volume(given: &ChipArguments) -> Result<Volume> {
    let Opened { nand, options, .. } = open(given, Access::Read)?;
    let options = options.empty_lost_and_found(false).scanned_headers(SCANNED_HEADERS).cache_chunks(0);
    let volume = Volume::open(nand, &options).map_err(Error::from);
    let volume = volume.user(|| format!("cannot read {}", given.path.display()))?;
    let usage = volume.usage();
    if usage.used_chunks == 0 && usage.erased_blocks + usage.bad_blocks < usage.blocks {
        note("warning", "no written page can be decoded: check the layout; yaffs2 fsck gives details");
    }
    let missing = volume.missing();
    if missing.any() {
        let Missing { files, links, lost, .. } = missing;
        let what = [
            (files, "files without some of their pages, which read as zeros"),
            (links, "hard links without their file"),
            (lost, "objects in lost+found that have lost their names or directories"),
        ];
        let told: Vec<String> =
            what.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{what}: {count}")).collect();
        let path = given.path.display();
        note("warning", &format!("{path}: was it cut off, or is it damaged? {}", told.join("; ")));
    }
    Ok(volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_takes_no_sizes() {
        let path = Path::new("/dev/null");
        let of = |layout| ChipArguments { path: path.to_owned(), layout, ..ChipArguments::default() };
        for layout in [
            LayoutArguments { page: Some(2048), ..LayoutArguments::default() },
            LayoutArguments { spare: Some(64), ..LayoutArguments::default() },
            LayoutArguments { spare_offset: Some(2), ..LayoutArguments::default() },
            LayoutArguments { pages_per_block: Some(64), ..LayoutArguments::default() },
        ] {
            let refused = open(&of(layout), Access::Read).err().unwrap();
            assert_eq!(refused.message(), "/dev/null has fixed sizes");
        }
        let other = open(&of(LayoutArguments::default()), Access::Read).err().unwrap();
        assert!(!other.message().contains("fixed sizes"), "{}", other.message());
    }

    #[test]
    fn pages_have_a_power_of_two_of_bytes() {
        assert_eq!(page_and_spare(2048, None).unwrap(), (2048, 64));
        assert_eq!(page_and_spare(512, Some(0)).unwrap(), (512, 0));
        assert_eq!(page_and_spare(1, None).unwrap_err().message(), "a page cannot have 1 byte");
        for (page, spare) in [(0, None), (256, None), (3000, None), (1 << 17, None), (2048, Some(1 << 17))] {
            assert!(page_and_spare(page, spare).unwrap_err().cure().is_some(), "{page} {spare:?}");
        }
    }
}
