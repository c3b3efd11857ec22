//! `mkfs`.

use crate::arguments::MkfsArguments;
use crate::chip;
use pocketstone_cli::mounts::not_a_directory;
use pocketstone_cli::show_bytes;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::{Geometry, ImageLayout, ImageNand, Nand};
use pocketstone_vfs::{ROOT, SetAttr};
use pocketstone_yaffs2::{OpenOptions, Operations, Volume};
use std::path::Path;

/// Fewer blocks leave no room beside those that are kept free.
const FEWEST_BLOCKS: u32 = 8;

pub fn mkfs(arguments: &MkfsArguments) -> Result<u8> {
    if chip::is_device(&arguments.path) { device(arguments) } else { image(arguments) }
}

fn device(arguments: &MkfsArguments) -> Result<u8> {
    let name = arguments.path.display();
    if arguments.size.is_some() || arguments.layout.page.is_some() || arguments.layout.pages_per_block.is_some() {
        return Err(Error::user(format!("{name} has fixed sizes")).hint("omit them: the whole device is used"));
    }
    let (mut nand, _lock) = chip::device(&arguments.path, false)?;
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
    say!("{name}: an empty volume of {}{}", show_bytes(geometry.bytes()), bad_words(bad));
    Ok(0)
}

fn bad_words(bad: u32) -> String {
    if bad == 0 { String::new() } else { format!(", {bad} blocks of it bad") }
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
        return Err(Error::user(format!("{bytes} bytes are not a multiple of the block size {block_bytes}"))
            .hint("specify a multiple of --page x --pages-per-block"));
    }
    let too_large = || Error::user(format!("{bytes} bytes are too many blocks")).hint("specify a smaller --size");
    let blocks = u32::try_from(bytes / block_bytes).map_err(|_| too_large())?;
    if blocks < FEWEST_BLOCKS {
        return Err(Error::user(format!("{bytes} bytes are {blocks} blocks"))
            .hint(format!("YAFFS2 requires at least {FEWEST_BLOCKS} blocks: {}", show_bytes(block_bytes * 8))));
    }
    if path.exists() {
        if !arguments.force {
            return Err(Error::user(format!("{name} exists")).hint("--force destroys its contents"));
        }
        // Whoever is using it keeps it: a lock says so.
        drop(ImageNand::open(path, false, Some(&ImageLayout { pages_per_block: 1, ..one_byte() }))?);
        std::fs::remove_file(path).user(|| format!("cannot remove {name}"))?;
    }
    let made = fill(path, &layout, blocks, arguments.inband_tags);
    if made.is_err() {
        // Half an image is of no use. That it failed is said already.
        let _ = std::fs::remove_file(path);
    }
    made.user(|| format!("cannot create a volume in {name}"))?;
    say!("{name}: an empty volume of {}", show_bytes(bytes));
    Ok(0)
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
    let owner = SetAttr {
        permissions: Some(0o755),
        uid: Some(user.as_raw()),
        gid: Some(rustix::process::getegid().as_raw()),
        ..SetAttr::default()
    };
    // Pages of a block beside those of its summary.
    for _ in 0..volume.statfs()?.blocks / u64::from(blocks) {
        volume.set_attributes(ROOT, &owner)?;
    }
    Ok(volume.close()?)
}
