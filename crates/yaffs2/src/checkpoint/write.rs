//! Writing a checkpoint.

use super::shifted_width;
use super::stream::Writer;
use super::{
    DEVICE_BYTES, LEAF_CHUNKS, LEAST_BLOCKS, MAGIC, NO_LEAF, OBJECT_BYTES, VALIDITY_BYTES, VERSION, leaf_bytes,
};
use crate::log::CHECKPOINT_SEQUENCE;
use crate::log::blocks::{Flag, State};
use crate::log::chip::Block;
use crate::log::tags::{Content, Kind, Tags};
use crate::tree::Tree;
use crate::tree::objects::{UNLINKED_ID, is_fixed};
use pocketstone_media::nand::Fault;
use pocketstone_vfs::Result;

/// Leaves a checkpoint on the chip, if the chip is large enough and has erased blocks for it. Without one the
/// next mount scans: whatever keeps one from being written is no error.
pub fn write(tree: &mut Tree) -> Result<()> {
    // One that is there is true: nothing was written since.
    if tree.log.chip.blocks() < LEAST_BLOCKS || !tree.log.checkpoint.is_empty() {
        return Ok(());
    }
    // Whoever counts blocks from another number would take it for true, and all places for others.
    let Some(shift) = tree.log.shift else { return Ok(()) };
    let pages = checkpoint_pages(tree, shift);
    let per_block = tree.log.chip.pages_per_block() as usize;
    let needed = pages.len().div_ceil(per_block);
    let empty = |block: &Block| tree.log.blocks.get(*block).state == State::Empty;
    let blocks: Vec<Block> = tree.log.blocks.all().filter(empty).take(needed).collect();
    if blocks.len() < needed {
        return Ok(());
    }
    let mut number = 0;
    for (&block, pages) in blocks.iter().zip(pages.chunks(per_block)) {
        if !tree.log.blocks.get(block).has(Flag::Trusted) && tree.log.chip.erase(block).is_err() {
            return erase_part(tree, &blocks);
        }
        for (page, data) in pages.iter().enumerate() {
            number += 1;
            let content = Content::Data { chunk: number, bytes: tree.log.chip.data_bytes() as u32 };
            let tags = Tags { sequence: CHECKPOINT_SEQUENCE, object: block + shift + 1, content };
            match tree.log.chip.write(tree.log.chip.chunk(block, page as u32), data, &tags) {
                Ok(()) => {}
                Err(Fault::Failed) => return erase_part(tree, &blocks),
                Err(Fault::Medium(error)) => return Err(error.into()),
            }
        }
    }
    tree.log.checkpoint = blocks;
    Ok(())
}

/// Half a checkpoint is none.
fn erase_part(tree: &mut Tree, blocks: &[Block]) -> Result<()> {
    for &block in blocks {
        if let Err(Fault::Failed) = tree.log.chip.erase(block) {
            tree.log.chip.mark_bad(block)?;
        }
    }
    Ok(())
}

fn checkpoint_pages(tree: &Tree, shift: Block) -> Vec<Vec<u8>> {
    let mut out = Writer::new(tree.log.chip.data_bytes());
    out.words(&[VALIDITY_BYTES, MAGIC, VERSION, 1]);
    let (block, page) = match tree.log.head.block {
        0 => (u32::MAX, 0),
        block => (block + shift, tree.log.head.page),
    };
    let free = tree.log.blocks.free().max(0) as u32;
    out.words(&[DEVICE_BYTES, tree.log.blocks.erased, block, page, free, 0, 0, 0, tree.log.head.sequence]);
    for block in tree.log.blocks.all() {
        let info = tree.log.blocks.get(block);
        let state = match info.state {
            State::Collecting => State::Full,
            state => state,
        };
        let bit = |flag: Flag, at: u32| u32::from(info.has(flag)) << at;
        let bits = u32::from(info.used) << 10
            | (state as u32) << 20
            | bit(Flag::Retiring, 24)
            | u32::from(info.has(Flag::Trusted) || !tree.log.blocks.doubtful) << 25
            | bit(Flag::Prioritised, 26)
            | info.strikes() << 27
            | bit(Flag::Summary, 30)
            | bit(Flag::Shrinks, 31);
        out.words(&[bits, info.sequence]);
    }
    for block in tree.log.blocks.all() {
        out.put(tree.log.blocks.bitmap(block));
    }
    for id in tree.objects.ids() {
        put_object(tree, &mut out, id, shift);
    }
    out.words(&[OBJECT_BYTES, NO_LEAF, NO_LEAF, NO_LEAF, NO_LEAF, NO_LEAF, NO_LEAF, NO_LEAF]);
    out.words(&[VALIDITY_BYTES, MAGIC, VERSION, 0]);
    let last = out.sums.last();
    out.words(&[last]);
    out.pages
}

fn put_object(tree: &Tree, out: &mut Writer, id: u32, shift: Block) {
    let Some(object) = tree.objects.get(id) else { return };
    let fixed = is_fixed(id);
    let bits = object.kind as u32
        | u32::from(object.parent == UNLINKED_ID) << 5
        | u32::from(fixed) << 6
        | u32::from(!fixed) << 7
        | u32::from(!fixed) << 8;
    let chunks = object.map.chunks(tree.width).count() as u32;
    let shift_chunks = tree.log.chip.chunk(shift, 0);
    let header = if object.header == 0 { 0 } else { object.header + shift_chunks };
    let value = if object.kind == Kind::Directory { 0 } else { object.value };
    out.words(&[OBJECT_BYTES, id, object.parent, header, bits, chunks, value as u32, (value >> 32) as u32]);
    if object.kind != Kind::File {
        return;
    }
    let width = shifted_width(&tree.log, shift);
    let bytes = leaf_bytes(width, size_of::<usize>());
    // Chunks count from 1: the first number of the first leaf is of no use.
    let mut leaf: Option<(u32, Vec<u32>)> = None;
    for (slot, place) in object.map.chunks(tree.width) {
        let chunk = slot + 1;
        let base = chunk - chunk % LEAF_CHUNKS;
        if leaf.as_ref().is_none_or(|(other, _)| *other != base) {
            put_leaf(out, leaf.replace((base, vec![0; bytes / 4])));
        }
        if let Some((_, words)) = &mut leaf {
            width.set(words, chunk - base, place + shift_chunks);
        }
    }
    put_leaf(out, leaf);
    out.words(&[NO_LEAF]);
}

fn put_leaf(out: &mut Writer, leaf: Option<(u32, Vec<u32>)>) {
    if let Some((base, words)) = leaf {
        out.words(&[base]);
        out.words(&words);
    }
}
