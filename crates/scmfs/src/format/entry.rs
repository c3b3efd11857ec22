//! An entry of a directory: slots of 64 bytes.
//!
//! ```text
//! entry: 1 to 5 slots, never across the end of a huge page of the directory
//!   0  u32 inode; 0, with all other bytes of the slot: the slot is free
//!   4  u32 crc32c of the directory's inode number, the slot's number, and all bytes of header and
//!      name but these four
//!   8  u32 crc32c of the name          12  u8 bytes of the name
//!  13  u8 type: the upper four bits of st_mode       14  u8 slots       15  0
//!  16  the name
//! ```

use super::bytes::{get_u32, put_u32};
use super::layout::SLOT_BYTES;
use crate::{Entry, Error, FileType, Ino, NAME_MAX, Result};

/// Bytes before the name.
pub(crate) const HEADER_BYTES: usize = 16;
/// Most slots of an entry.
pub(crate) const MAX_SLOTS: usize = 5;
/// Bytes of the longest entry.
pub(crate) const ENTRY_MAX: usize = MAX_SLOTS * SLOT_BYTES as usize;

/// What one slot holds.
pub(crate) enum Slot {
    Free,
    Entry(Entry, u32),
}

/// Slots that an entry with this name takes.
pub(crate) fn slots_of(name: &[u8]) -> u32 {
    (HEADER_BYTES + name.len()).div_ceil(SLOT_BYTES as usize) as u32
}

/// Refuses what cannot be a name.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(Error::Invalid);
    }
    if name == b"." || name == b".." {
        return Err(Error::Exists);
    }
    Ok(())
}

/// An entry's bytes.
pub(crate) fn encode(directory: Ino, slot: u32, name: &[u8], ino: Ino, kind: FileType) -> Vec<u8> {
    let slots = slots_of(name);
    let mut b = vec![0; slots as usize * SLOT_BYTES as usize];
    put_u32(&mut b, 0, ino);
    put_u32(&mut b, 8, crc32c::crc32c(name));
    b[12] = name.len() as u8;
    b[13] = (kind.mode_bits() >> 12) as u8;
    b[14] = slots as u8;
    b[HEADER_BYTES..HEADER_BYTES + name.len()].copy_from_slice(name);
    let crc = entry_crc(directory, slot, &b);
    put_u32(&mut b, 4, crc);
    b
}

pub(crate) fn entry_crc(directory: Ino, slot: u32, b: &[u8]) -> u32 {
    let mut head = [0; 8];
    head[..4].copy_from_slice(&slot.to_le_bytes());
    head[4..].copy_from_slice(&b[..4]);
    let crc = crc32c::crc32c_append(directory, &head);
    crc32c::crc32c_append(crc, &b[8..HEADER_BYTES + b[12] as usize])
}

/// Reads what starts at a slot. `b` holds its bytes and those after it, as far as there are any.
pub(crate) fn decode(directory: Ino, slot: u32, b: &[u8]) -> Option<Slot> {
    let ino = get_u32(b, 0);
    if ino == 0 {
        return b[..SLOT_BYTES as usize].iter().all(|byte| *byte == 0).then_some(Slot::Free);
    }
    let (length, slots) = (b[12] as usize, u32::from(b[14]));
    let kind = FileType::of_mode(u32::from(b[13]) << 12)?;
    let whole = b.len() >= HEADER_BYTES + length
        && slots as usize == (HEADER_BYTES + length).div_ceil(SLOT_BYTES as usize)
        && b[15] == 0
        && length > 0
        && get_u32(b, 4) == entry_crc(directory, slot, b);
    let name = &b[HEADER_BYTES..(HEADER_BYTES + length).min(b.len())];
    (whole && get_u32(b, 8) == crc32c::crc32c(name)).then(|| {
        let cookie = u64::from(slot) + 1;
        Slot::Entry(Entry::new(name.to_vec(), ino, kind, cookie), slots)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_encoding_and_only_in_its_place() {
        let name = [b'x'; 200];
        let b = encode(7, 3, &name, 42, FileType::Symlink);
        assert_eq!(b.len(), 256);
        let Some(Slot::Entry(entry, 4)) = decode(7, 3, &b) else { panic!("not decoded") };
        assert_eq!((entry.ino, entry.kind, &entry.name[..]), (42, FileType::Symlink, &name[..]));
        assert!(decode(8, 3, &b).is_none() && decode(7, 4, &b).is_none());
        for i in 0..216 {
            let mut c = b.clone();
            c[i] ^= 4;
            assert!(decode(7, 3, &c).is_none(), "byte {i}");
        }
    }
}
