//! `mkfs`.

use crate::arguments::MkfsArguments;
use crate::chip;
use crate::unfinished::{Unfinished, parent};
use pocketstone_cli::mounts::not_a_directory;
use pocketstone_core::error::Context;
use pocketstone_core::units::format_bytes_rounded;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::{Access, Geometry, ImageLayout, ImageNand, Nand};
use pocketstone_vfs::{ROOT, SetAttr};
use pocketstone_yaffs2::{OpenOptions, Operations, Volume};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Fewer blocks leave no room beside those that are kept free.
const FEWEST_BLOCKS: u32 = 8;
/// More have no numbers in YAFFS2's tags; one block of them stays unused.
const MOST_PAGES: u64 = 1 << 28;

pub fn mkfs(arguments: &MkfsArguments) -> Result<u8> {
    if chip::is_device(&arguments.path) { device(arguments) } else { image(arguments) }
}

fn device(arguments: &MkfsArguments) -> Result<u8> {
    let name = arguments.path.display();
    if arguments.size.is_some() || arguments.layout.is_given() {
        return Err(chip::fixed_sizes(&arguments.path));
    }
    let (mut nand, _lock) = chip::device(&arguments.path, Access::Write)?;
    let geometry = nand.geometry();
    if !arguments.force {
        if let Some(block) = first_written(&mut nand)? {
            return Err(Error::user(format!("{name} is not empty: block {block} contains data"))
                .hint("--force destroys its contents"));
        }
    }
    Volume::create(&mut nand).map_err(Error::from).board(|| format!("cannot erase {name}"))?;
    let mut bad = 0;
    for block in 0..geometry.blocks {
        bad += u32::from(nand.is_bad(block)?);
    }
    say!("{name}: an empty volume of {}{}", format_bytes_rounded(geometry.bytes()), bad_words(bad));
    Ok(0)
}

fn bad_words(bad: u32) -> String {
    if bad == 0 { String::new() } else { format!(", {} of it bad", counted(bad, "block")) }
}

/// The first good block that is not erased; its first page tells.
fn first_written(nand: &mut dyn Nand) -> Result<Option<u32>> {
    let Geometry { page_bytes, spare_bytes, pages_per_block, blocks } = nand.geometry();
    let (mut data, mut spare) = (vec![0; page_bytes as usize], vec![0; spare_bytes as usize]);
    for block in 0..blocks {
        if nand.is_bad(block)? {
            continue;
        }
        nand.read(block * pages_per_block, &mut data, &mut spare)?;
        if data.iter().chain(&spare).any(|&byte| byte != 0xFF) {
            return Ok(Some(block));
        }
    }
    Ok(None)
}

fn image(arguments: &MkfsArguments) -> Result<u8> {
    let path = &arguments.path;
    let name = path.display();
    not_a_directory(path, "yaffs2 mkfs FILE --size SIZE")?;
    let bytes = arguments
        .size
        .ok_or_else(|| Error::user(format!("{name} has no size yet")).hint("specify one: --size 256M"))?;
    let mut layout = chip::layout(&arguments.layout)?;
    if arguments.inband_tags && arguments.layout.spare.is_none() {
        layout = ImageLayout { spare_total_bytes: 0, spare_offset: 0, spare_free_bytes: 0, ..layout };
    }
    let block_bytes = u64::from(layout.page_bytes) * u64::from(layout.pages_per_block);
    if block_bytes == 0 || bytes % block_bytes != 0 {
        return Err(Error::user(format!(
            "{} is not a multiple of the block size {block_bytes}",
            counted(bytes, "byte")
        ))
        .hint("specify a multiple of --page x --pages-per-block"));
    }
    let too_large = || {
        let most = MOST_PAGES.saturating_mul(layout.page_bytes.into()) - block_bytes;
        Error::user(format!("{} are too many pages", format_bytes_rounded(bytes)))
            .hint(format!("specify a --size of at most {}, or larger pages", format_bytes_rounded(most)))
    };
    let blocks = u32::try_from(bytes / block_bytes).map_err(|_| too_large())?;
    if (u64::from(blocks) + 1) * u64::from(layout.pages_per_block) > MOST_PAGES {
        return Err(too_large());
    }
    if blocks < FEWEST_BLOCKS {
        return Err(Error::user(format!("{name} would have {}", counted(blocks, "block"))).hint(format!(
            "YAFFS2 requires at least {FEWEST_BLOCKS} blocks: {}",
            format_bytes_rounded(block_bytes * 8)
        )));
    }
    let old = path.metadata().ok();
    if old.is_some() && !arguments.force {
        return Err(Error::user(format!("{name} exists")).hint("--force destroys its contents"));
    }
    let pages = u64::from(blocks) * u64::from(layout.pages_per_block);
    enough_room(path, pages * layout.stride(), old.as_ref().map_or(0, |old| old.blocks() * 512))?;
    if old.is_some() {
        // Whoever is using it keeps it: a lock says so.
        drop(ImageNand::open(path, Access::Write, Some(&ImageLayout { pages_per_block: 1, ..one_byte() }))?);
        std::fs::remove_file(path).user(|| format!("cannot remove {name}"))?;
    }
    let unfinished = Unfinished::beside(path)?;
    fill(&unfinished.path(), &layout, blocks, arguments.inband_tags)
        .user(|| format!("cannot create a volume in {name}"))?;
    unfinished.finish(false)?;
    say!("{name}: an empty volume of {}", format_bytes_rounded(bytes));
    Ok(0)
}

/// Refuses an image for which there is no room, before all of that is filled. `freed`: bytes of what it replaces.
fn enough_room(path: &Path, bytes: u64, freed: u64) -> Result<()> {
    let folder = parent(path);
    let space = rustix::fs::statvfs(folder).user(|| format!("cannot examine {}", folder.display()))?;
    let free = space.f_bfree.saturating_mul(space.f_frsize).saturating_add(freed);
    // Where nothing is counted there may be any room.
    if space.f_blocks == 0 || free >= bytes {
        return Ok(());
    }
    let (needed, free) = (format_bytes_rounded(bytes), format_bytes_rounded(free));
    Err(Error::user(format!("{} needs {needed}, and {} has {free} free", path.display(), folder.display()))
        .hint("specify a smaller --size, or a file elsewhere"))
}

/// A layout that any file has.
fn one_byte() -> ImageLayout {
    ImageLayout { page_bytes: 1, spare_total_bytes: 0, spare_offset: 0, spare_free_bytes: 0, pages_per_block: 1 }
}

/// Makes the image, and writes the root directory's header until the first block is full. An image of erased bytes
/// alone could not be told from anything else; this one says what its pages are, and how many a block has.
fn fill(path: &Path, layout: &ImageLayout, blocks: u32, inband_tags: bool) -> Result<()> {
    let nand = ImageNand::create(path, layout, blocks)?;
    let options = OpenOptions::default().inband_tags(inband_tags);
    let volume = Volume::open(Box::new(nand), &options)?;
    let user = rustix::process::geteuid();
    // A user could not do anything in a directory of root's.
    let owner = SetAttr::default()
        .permissions(Some(0o755))
        .uid(Some(user.as_raw()))
        .gid(Some(rustix::process::getegid().as_raw()));
    // Pages of a block beside those of its summary.
    for _ in 0..volume.statfs()?.blocks / u64::from(blocks) {
        volume.set_attributes(ROOT, &owner)?;
    }
    Ok(volume.close()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{ChipArguments, LayoutArguments};

    fn arguments(path: &Path, size: u64, page: u64) -> MkfsArguments {
        let layout = LayoutArguments { page: Some(page), ..LayoutArguments::default() };
        MkfsArguments { path: path.to_owned(), size: Some(size), layout, inband_tags: false, force: false }
    }

    #[test]
    fn an_image_is_written_to_with_the_tags_that_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        mkfs(&arguments(&path, 16 << 20, 2048)).unwrap();
        let chip = ChipArguments { path, ..ChipArguments::default() };
        assert!(chip::open(&chip, Access::Write).unwrap().options.tags_ecc);
        for layout in [LayoutArguments::default(), LayoutArguments { page: Some(2048), ..LayoutArguments::default() }] {
            let without = ChipArguments { no_tags_ecc: true, layout, ..chip.clone() };
            let refused = chip::open(&without, Access::Write).err().unwrap();
            assert!(refused.message().contains("tags with error correction: another layout"), "{}", refused.message());
            assert!(refused.cure().unwrap().contains("omit"));
            // To look at it does no harm.
            assert!(!chip::open(&without, Access::Read).unwrap().options.tags_ecc);
        }
    }

    #[test]
    fn an_image_without_room_is_refused_before_it_is_begun() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let refused = mkfs(&arguments(&path, 1 << 40, 2048)).unwrap_err();
        assert_eq!(refused.message(), "1 TiB are too many pages");
        let refused = enough_room(&path, 1 << 60, 0).unwrap_err();
        assert!(refused.message().contains("image needs 1048576 TiB"), "{}", refused.message());
        assert!(enough_room(&path, 1, 0).is_ok() && enough_room(&path, 1 << 60, 1 << 60).is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn nothing_else_is_left_beside_a_new_image() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        mkfs(&arguments(&path, 1 << 20, 2048)).unwrap();
        assert!(mkfs(&arguments(&path, 1 << 20, 2048)).unwrap_err().message().ends_with("exists"));
        mkfs(&MkfsArguments { force: true, ..arguments(&path, 1 << 20, 2048) }).unwrap();
        // 512 pages with 64 bytes of spare area.
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 512 * 2112);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
