//! Finding a volume's state: by its checkpoint, or by looking at the tags of every page.

mod order;
mod scan;
mod tidy;
mod yaffs1;

use crate::checkpoint;
use crate::files::Files;
use crate::log::blocks::State;
use crate::log::chip::{Block, Chip};
use crate::log::{First, Log};
use crate::options::{ByteOrder, OpenOptions};
use crate::tree::objects::Objects;
pub use order::byte_order;
use pocketstone_media::nand::Nand;
use pocketstone_vfs::{Error, MediumError, Result};
use scan::Growing;
use serde::Serialize;

/// How the state of a volume was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MountedBy {
    /// From a checkpoint.
    Checkpoint,
    /// By reading the tags of all pages, or the summaries of blocks.
    Scan,
}

/// Opens the volume on a chip. An erased chip is an empty volume.
pub fn mount(nand: Box<dyn Nand>, options: &OpenOptions) -> Result<(Files, MountedBy)> {
    if options.byte_order != ByteOrder::Little && !options.read_only {
        let error = MediumError::refused(format!("{} was written for a big-endian machine", nand.describe()))
            .hint("such volumes can be read only: extract them, or mount them read-only");
        return Err(error.into());
    }
    let chip = Chip::new(nand, options)?;
    if chip.yaffs1 && !options.read_only {
        let error = MediumError::refused(format!("{} has pages of 512 bytes, as YAFFS1 has them", chip.describe()))
            .hint("volumes of YAFFS1 can be read only: extract them, or mount them read-only");
        return Err(error.into());
    }
    let mut files = Files::new(Log::new(chip, options.summary, options.read_only), options);
    let mounted_by = find_state(&mut files)?;
    if !options.lazy_loading {
        for id in files.tree.objects.ids() {
            match files.tree.load(id) {
                // Whoever asks for it is told.
                Err(Error::Damaged(_)) => {}
                loaded => drop(loaded?),
            }
        }
    }
    Ok((files, mounted_by))
}

/// Finds the state of the volume.
fn find_state(files: &mut Files) -> Result<MountedBy> {
    let mut firsts = Vec::with_capacity(files.tree.log.chip.blocks() as usize);
    for block in files.tree.log.blocks.all() {
        firsts.push(files.tree.log.first(block)?);
    }
    let mut blocks: Vec<(u32, Block)> = Vec::new();
    for (block, first) in (1..).zip(&firsts) {
        if let First::Checkpoint { page, .. } = first {
            blocks.push((*page, block));
        }
    }
    blocks.sort_unstable();
    let blocks: Vec<Block> = blocks.into_iter().map(|(_, block)| block).collect();
    let (mut found, mut unfinished) = (None, Growing::default());
    let readable = files.tree.log.chip.order == ByteOrder::Little;
    if files.options.checkpoint_read && readable && !blocks.is_empty() {
        found = checkpoint::read(&mut files.tree.log, &blocks, &firsts)?;
    }
    let mounted_by = if found.is_some() { MountedBy::Checkpoint } else { MountedBy::Scan };
    match found {
        Some(state) => {
            let tree = &mut files.tree;
            (tree.log.blocks, tree.log.head, tree.objects) = (state.blocks, state.head, state.objects);
            tree.log.shift = Some(state.shift);
            tree.note_links(state.links);
        }
        None => {
            files.tree.objects = Objects::fixed();
            unfinished = scan::scan(&mut files.tree, &firsts)?;
        }
    }
    for &block in &blocks {
        let info = files.tree.log.blocks.get_mut(block);
        if info.state == State::Empty {
            info.state = State::Checkpoint;
            files.tree.log.blocks.erased -= 1;
        }
    }
    files.tree.log.checkpoint = blocks;
    tidy::tidy(files, mounted_by, &unfinished)?;
    Ok(mounted_by)
}
