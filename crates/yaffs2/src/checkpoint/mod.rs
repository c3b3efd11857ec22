//! Checkpoints: the state of a volume at its unmounting, so that the next mount need not look at every page.
//!
//! ```text
//! pages of blocks with sequence number 0x21; tags: chunk = page from 1, bytes = D, object = block to look next
//! page:    version 8 | index from 0 | sum | xor of all payload before | payload
//! payload: validity   {16, 0x5941FF53, 8, 1}
//!          device     {36, erased blocks, block, page, free chunks, 0, 0, 0, sequence}
//!          blocks     8 bytes each: bits {softdeleted:10 used:10 state:4 retiring:1 skip:1 prioritised:1 strikes:3
//!                     summary:1 shrinks:1}, sequence
//!          bitmaps    ceil(N / 8) bytes each
//!          objects    {32, id, parent, header chunk, bits, chunks, size or target: 64 bits}; bits: type:3 deleted
//!                     softdeleted unlinked fake rename-allowed unlink-allowed; after each file its leaves: first
//!                     chunk, 16 packed chunk numbers; 0xFFFFFFFF ends them
//!          end        {32, 28 bytes of 0xFF}
//!          validity   {16, 0x5941FF53, 8, 0}, sum << 8 | xor
//! ```

mod read;
mod stream;
mod write;

pub use read::{Saved, read};
pub use write::write;

use crate::log::Log;
use crate::log::chip::Block;
use crate::tree::Tree;
use crate::tree::map::Width;

/// Chips with fewer blocks have none.
const LEAST_BLOCKS: u32 = 60;
const MAGIC: u32 = 0x5941_FF53;
const VERSION: u32 = 8;
const VALIDITY_BYTES: u32 = 16;
const DEVICE_BYTES: u32 = 36;
const OBJECT_BYTES: u32 = 32;
const NO_LEAF: u32 = u32::MAX;
/// Chunk numbers in a leaf.
const LEAF_CHUNKS: u32 = 16;

/// Bytes of a leaf, written by a machine with pointers of so many bytes.
fn leaf_bytes(width: Width, pointer_bytes: usize) -> usize {
    (2 * width.bits() as usize).max(8 * pointer_bytes)
}

/// What the numbers of chunks are like where blocks have numbers that are larger by `shift`.
fn shifted_width(log: &Log, shift: Block) -> Width {
    let pages = log.chip.pages_per_block();
    Width::of((log.chip.blocks() + shift + 1) * pages - 1, pages, log.shape.entries)
}

/// Blocks that a checkpoint of the present state takes, about.
pub fn blocks(tree: &Tree) -> u32 {
    if tree.log.chip.blocks() < LEAST_BLOCKS {
        return 0;
    }
    let leaf = 4 + leaf_bytes(tree.width, size_of::<usize>()) as u64;
    let objects = u64::from(tree.objects.count());
    let blocks = u64::from(tree.log.chip.blocks());
    let bitmap = u64::from(tree.log.chip.pages_per_block().div_ceil(8));
    let leaves = tree.log.blocks.used() / u64::from(LEAF_CHUNKS) + objects;
    let bytes = 128 + blocks * (8 + bitmap) + objects * (u64::from(OBJECT_BYTES) + 4) + leaves * leaf;
    let payload = tree.log.chip.data_bytes() as u64 - stream::PAGE_HEADER as u64;
    (bytes.div_ceil(payload).div_ceil(tree.log.chip.pages_per_block().into()) + 1) as u32
}
