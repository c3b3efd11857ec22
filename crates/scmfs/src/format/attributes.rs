//! Extended attributes: all of an inode's in one run of small pages, written anew with each change.
//!
//! ```text
//!  0  u32 crc32c of the inode number and the bytes from 4 on     4  u32 attributes
//!  8  for each: u16 bytes of the name, u16 0, u32 bytes of the value, the name, the value
//! ```

use super::bytes::{get_u16, get_u32, put_u32};
use crate::Ino;
use std::collections::BTreeMap;

/// Names and values.
pub(crate) type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// Attributes as they lie in the volume.
pub(crate) fn encode(ino: Ino, attributes: &Attributes) -> Vec<u8> {
    let mut b = vec![0; 8];
    put_u32(&mut b, 4, attributes.len() as u32);
    for (name, value) in attributes {
        b.extend_from_slice(&(name.len() as u32).to_le_bytes());
        b.extend_from_slice(&(value.len() as u32).to_le_bytes());
        b.extend_from_slice(name);
        b.extend_from_slice(value);
    }
    let crc = crc32c::crc32c_append(ino, &b[4..]);
    put_u32(&mut b, 0, crc);
    b
}

/// Reads attributes back; `None` if anything is wrong with them.
pub(crate) fn decode(ino: Ino, b: &[u8]) -> Option<Attributes> {
    if b.len() < 8 || get_u32(b, 0) != crc32c::crc32c_append(ino, &b[4..]) {
        return None;
    }
    let (mut rest, mut attributes) = (&b[8..], Attributes::new());
    for _ in 0..get_u32(b, 4) {
        if rest.len() < 8 {
            return None;
        }
        let (name, value) = (usize::from(get_u16(rest, 0)), get_u32(rest, 4) as usize);
        rest = &rest[8..];
        if rest.len() < name.checked_add(value)? {
            return None;
        }
        attributes.insert(rest[..name].to_vec(), rest[name..name + value].to_vec());
        rest = &rest[name + value..];
    }
    Some(attributes)
}
