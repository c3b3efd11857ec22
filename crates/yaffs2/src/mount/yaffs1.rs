//! What YAFFS1 has instead of an order in time: a chunk that is replaced is marked, after the new one was written.

use crate::log::Log;
use crate::log::chip::Chunk;
use pocketstone_vfs::Result;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// Chunks that were replaced, and not marked because the power failed in between: of two with one name that one is new
/// whose serial number follows the other's.
pub fn stale_chunks(log: &mut Log) -> Result<HashSet<Chunk>> {
    let mut newest: HashMap<(u32, u32), (Chunk, u8)> = HashMap::new();
    let mut stale = HashSet::new();
    for block in log.blocks.all() {
        for page in 0..log.chip.pages_per_block() {
            let chunk = log.chip.chunk(block, page);
            let Some(tags) = log.chip.read_yaffs1(chunk)? else { continue };
            match newest.entry((tags.object, tags.chunk)) {
                Entry::Vacant(place) => {
                    place.insert((chunk, tags.serial));
                }
                Entry::Occupied(mut place) => {
                    let (other, serial) = *place.get();
                    if (serial + 1) & 3 == tags.serial {
                        place.insert((chunk, tags.serial));
                        stale.insert(other);
                    } else {
                        stale.insert(chunk);
                    }
                }
            }
        }
    }
    Ok(stale)
}
