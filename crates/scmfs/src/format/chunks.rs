//! Where the inode table goes on: what the mapping table says of it.

use super::layout::Layout;
use super::mapping::Mapping;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Finds out where the inode table goes on. Before a journal is replayed an entry may be torn: then what cannot be
/// read is left out, and this is called once more after it.
pub(crate) fn find(layout: &Layout, segments: u32, strict: bool, load: impl Fn(u32) -> Result<Mapping>) -> Result<()> {
    let mut found = BTreeMap::new();
    for segment in 0..segments {
        match load(segment) {
            Ok(Mapping::Inodes { index }) => drop(found.insert(index, segment)),
            Err(error) if strict => return Err(error),
            _ => {}
        }
    }
    let missing = (0u32..).zip(found.keys()).find(|(expected, index)| expected != *index);
    let most = (u32::MAX - 2 - layout.inodes) / layout.inodes_per_chunk();
    if strict && (missing.is_some() || found.len() > most as usize) {
        let first = found.values().next().copied().unwrap_or(0);
        return Err(Error::damaged(layout.mapping_entry_at(first), "an inode table of which a part is missing"));
    }
    let complete = missing.map_or(found.len(), |(index, _)| index as usize).min(most as usize);
    layout.chunks.set(found.into_values().take(complete).collect());
    Ok(())
}
