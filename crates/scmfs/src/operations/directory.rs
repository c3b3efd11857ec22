//! Directories: their entries on the medium, and the index in memory that finds them.

use super::write;
use crate::format::bytes::get_u32;
use crate::format::entry::{ENTRY_MAX, HEADER_BYTES, Slot, decode, encode, entry_crc, slots_of};
use crate::format::layout::{INODE_BYTES, SLOT_BYTES};
use crate::inodes::{Index, State};
use crate::parts::Parts;
use crate::store::Transaction;
use crate::{Entry, Error, FileType, Ino, Result};
use pocketstone_media::LINE_BYTES;

/// A directory doubles up to this size, and grows by it from then on.
const GROWTH_BYTES: u64 = 256 << 10;

/// An entry as it lies on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub slot: u32,
    pub slots: u32,
    pub ino: Ino,
    pub kind: FileType,
    /// The name's, in the index.
    hash: u32,
}

fn slots_per_huge(parts: &Parts) -> u32 {
    (parts.store.layout.huge / SLOT_BYTES) as u32
}

pub(crate) fn slot_at(state: &State, slot: u32) -> Result<u64> {
    let offset = u64::from(slot) * SLOT_BYTES;
    state.body.locate(offset).0.ok_or_else(|| Error::damaged(0, "a directory with a hole"))
}

/// The bytes from a slot on, at most those of an entry.
fn slot_bytes<'a>(parts: &Parts, state: &State, slot: u32, buffer: &'a mut [u8; ENTRY_MAX]) -> Result<(u64, &'a [u8])> {
    let at = slot_at(state, slot)?;
    let (offset, unit) = (u64::from(slot) * SLOT_BYTES, parts.store.layout.huge);
    let bytes = (state.record.size - offset).min(unit - offset % unit).min(ENTRY_MAX as u64) as usize;
    read_slots(parts, state, offset, &mut buffer[..bytes]);
    Ok((at, &buffer[..bytes]))
}

/// Reads slots, which need not follow each other in the volume.
fn read_slots(parts: &Parts, state: &State, offset: u64, into: &mut [u8]) {
    state.body.spans(offset, offset + into.len() as u64, |at, part| match at {
        Some(at) => parts.store.medium.read(at, &mut into[part]),
        None => into[part].fill(0),
    });
}

/// Calls `each` for the entries from a slot on, until it returns false.
pub(crate) fn entries(
    parts: &Parts,
    directory: Ino,
    state: &State,
    from: u32,
    each: &mut dyn FnMut(&Entry) -> bool,
) -> Result<()> {
    let end = (state.record.size / SLOT_BYTES) as u32;
    let mut slot = from;
    while slot < end {
        let mut buffer = [0; ENTRY_MAX];
        let (at, bytes) = slot_bytes(parts, state, slot, &mut buffer)?;
        match decode(directory, slot, bytes) {
            Some(Slot::Free) => slot += 1,
            Some(Slot::Entry(entry, slots)) => {
                if !each(&entry) {
                    return Ok(());
                }
                slot += slots;
            }
            None => return Err(broken_entry(directory, at)),
        }
    }
    Ok(())
}

/// The slots of the entry that starts at a slot, if one does.
pub(crate) fn entry_at(parts: &Parts, directory: Ino, state: &State, slot: u32) -> Result<Option<u32>> {
    let mut buffer = [0; ENTRY_MAX];
    let (_, bytes) = slot_bytes(parts, state, slot, &mut buffer)?;
    match decode(directory, slot, bytes) {
        Some(Slot::Entry(_, slots)) => Ok(Some(slots)),
        _ => Ok(None),
    }
}

/// Makes a directory's index, if it has none yet.
pub(crate) fn index<'a>(parts: &Parts, directory: Ino, state: &'a mut State) -> Result<&'a mut Index> {
    if state.index.is_none() {
        let mut index = Index::new();
        entries(parts, directory, state, 0, &mut |entry| {
            let slot = (entry.cookie - 1) as u32;
            index.found(&entry.name, slot, slots_of(&entry.name), entry.ino, slots_per_huge(parts));
            true
        })?;
        state.index = Some(Box::new(index));
    }
    state.index.as_deref_mut().ok_or(Error::NotDirectory)
}

/// Finds a name. The index must be there.
pub(crate) fn find(parts: &Parts, directory: Ino, state: &State, name: &[u8]) -> Result<Option<Found>> {
    let Some(index) = &state.index else { return Ok(None) };
    let hash = index.hash(name);
    for (slot, ino) in index.candidates(hash) {
        let at = slot_at(state, slot)?;
        let inode_at = parts.store.layout.version_at(ino, 0);
        for line in 0..INODE_BYTES / LINE_BYTES {
            parts.store.medium.prefetch(inode_at + line * LINE_BYTES);
        }
        // Another name with this hash may be shorter, and end where the directory does.
        let mut buffer = [0; ENTRY_MAX];
        let bytes = slots_of(name) as usize * SLOT_BYTES as usize;
        let (offset, unit) = (u64::from(slot) * SLOT_BYTES, parts.store.layout.huge);
        let room = (state.record.size - offset).min(unit - offset % unit) as usize;
        read_slots(parts, state, offset, &mut buffer[..bytes.min(room)]);
        let b = &buffer[..bytes];
        if b[12] as usize != name.len() || b[HEADER_BYTES..HEADER_BYTES + name.len()] != *name {
            continue;
        }
        let kind = FileType::of_mode(u32::from(b[13]) << 12);
        let sound = get_u32(b, 4) == entry_crc(directory, slot, b) && get_u32(b, 0) == ino;
        return match kind.filter(|_| sound) {
            Some(kind) => Ok(Some(Found { slot, slots: u32::from(b[14]), ino, kind, hash })),
            None => Err(broken_entry(directory, at)),
        };
    }
    Ok(None)
}

/// Takes slots for a name; the directory grows if it has to.
pub(crate) fn take_slots(parts: &Parts, directory: Ino, state: &mut State, name: &[u8]) -> Result<u32> {
    let (slots, unit) = (slots_of(name), slots_per_huge(parts));
    loop {
        let limit = (state.record.size / SLOT_BYTES) as u32;
        if let Some(slot) = index(parts, directory, state)?.take(slots, limit, unit) {
            return Ok(slot);
        }
        let size = state.record.size;
        let grown =
            (size + size.clamp(parts.store.layout.page, GROWTH_BYTES)).next_multiple_of(parts.store.layout.page);
        if grown / SLOT_BYTES >= u64::from(u32::MAX) {
            return Err(Error::NoSpace);
        }
        // Little by little, where there is no room for more.
        let least = size + parts.store.layout.page;
        let low = parts.space.is_low(&parts.space.alloc());
        let grown = if low { least } else { grown };
        match write::grow_directory(parts, directory, state, grown) {
            Err(Error::NoSpace) if grown > least => write::grow_directory(parts, directory, state, least)?,
            done => done?,
        }
    }
}

/// Adds the storing of an entry to a transaction.
pub(crate) fn stage_entry(
    tx: &mut Transaction,
    (directory, state): (Ino, &State),
    slot: u32,
    name: &[u8],
    (ino, kind): (Ino, FileType),
) -> Result<()> {
    let entry = encode(directory, slot, name, ino, kind);
    stage_slots(state, slot, entry.len(), |at, part| tx.bytes(at, &entry[part]))
}

/// Adds the removal of an entry to a transaction.
pub(crate) fn stage_removal(tx: &mut Transaction, state: &State, found: &Found) -> Result<()> {
    let bytes = found.slots as usize * SLOT_BYTES as usize;
    stage_slots(state, found.slot, bytes, |at, part| tx.zero(at, part.len() as u32))
}

/// Calls `stage` for the pieces of slots: where in the volume, and which part of them.
fn stage_slots(
    state: &State,
    slot: u32,
    bytes: usize,
    mut stage: impl FnMut(u64, std::ops::Range<usize>),
) -> Result<()> {
    let (offset, mut whole) = (u64::from(slot) * SLOT_BYTES, true);
    state.body.spans(offset, offset + bytes as u64, |at, part| match at {
        Some(at) => stage(at, part),
        None => whole = false,
    });
    if whole { Ok(()) } else { Err(Error::damaged(0, "a directory with a hole")) }
}

/// Gives slots back that were taken and not used.
pub(crate) fn return_slots(state: &mut State, slot: u32, slots: u32) {
    if let Some(index) = &mut state.index {
        index.add_free(slot, slots);
    }
}

/// Notes in the index what a transaction added.
pub(crate) fn entry_added(state: &mut State, name: &[u8], slot: u32, ino: Ino) {
    if let Some(index) = &mut state.index {
        index.add(name, slot, ino);
    }
}

/// Notes in the index that an entry leads to another inode.
pub(crate) fn entry_changed(state: &mut State, name: &[u8], slot: u32, ino: Ino) {
    if let Some(index) = &mut state.index {
        index.change(name, slot, ino);
    }
}

/// Notes in the index what a transaction removed.
pub(crate) fn entry_removed(state: &mut State, found: &Found) {
    if let Some(index) = &mut state.index {
        index.forget(found.hash, found.slot, found.slots);
    }
}

fn broken_entry(directory: Ino, at: u64) -> Error {
    Error::damaged(at, format!("an entry of directory {directory} with a wrong checksum"))
}
