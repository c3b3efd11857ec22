//! Extended attributes: all of an inode's in one run of small pages, written anew with each change.
//!
//! ```text
//!  0  u32 crc32c of the inode number and the bytes from 4 on     4  u32 attributes
//!  8  for each: u16 bytes of the name, u16 0, u32 bytes of the value, the name, the value
//! ```

use crate::bytes::{get_u16, get_u32, put_u32};
use crate::namespace::live;
use crate::node::{State, lock};
use crate::volume::{Inner, Volume};
use crate::{Error, Ino, Result, SetXattr, defects, persist};
use pocketstone_media::Durable;
use std::collections::BTreeMap;

/// Longest name, as Linux has it.
const XATTR_NAME_MAX: usize = 255;
/// Most bytes that an inode's attributes take together.
const XATTR_BYTES_MAX: usize = 64 << 10;

type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

impl Volume {
    /// An extended attribute's value.
    ///
    /// # Errors
    /// `NoAttribute`, `NotFound`; `Damaged`.
    pub fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let node = self.inner.node(ino)?;
        let state = node.read();
        self.inner.xattrs(ino, &state)?.remove(name).ok_or(Error::NoAttribute)
    }

    /// The names of an inode's extended attributes.
    ///
    /// # Errors
    /// `NotFound`; `Damaged`.
    pub fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let node = self.inner.node(ino)?;
        let state = node.read();
        Ok(self.inner.xattrs(ino, &state)?.into_keys().collect())
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `Exists` or `NoAttribute` if `how` says so; `Range` for too long a name or value; `NoSpace`.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        if name.is_empty() || name.len() > XATTR_NAME_MAX {
            return Err(Error::Range);
        }
        self.inner.change_xattrs(ino, |attributes| match (how, attributes.contains_key(name)) {
            (SetXattr::Create, true) => Err(Error::Exists),
            (SetXattr::Replace, false) => Err(Error::NoAttribute),
            _ => {
                attributes.insert(name.to_vec(), value.to_vec());
                Ok(())
            }
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `NotFound`.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.inner.change_xattrs(ino, |attributes| attributes.remove(name).map(drop).ok_or(Error::NoAttribute))
    }
}

impl Inner {
    /// An inode's extended attributes.
    pub fn xattrs(&self, ino: Ino, state: &State) -> Result<Attributes> {
        live(&state.record)?;
        let bytes = state.record.xattr_bytes as usize;
        if bytes == 0 {
            return Ok(Attributes::new());
        }
        let at = self.layout.page_at(state.record.xattr_start);
        let mut b = vec![0; bytes];
        self.medium.read(at, &mut b);
        decode(ino, &b).ok_or_else(|| Error::damaged(at, format!("damaged extended attributes of inode {ino}")))
    }

    fn change_xattrs(&self, ino: Ino, change: impl FnOnce(&mut Attributes) -> Result<()>) -> Result<()> {
        let node = self.node(ino)?;
        let mut state = self.exclusive(&node)?;
        let mut attributes = self.xattrs(ino, &state)?;
        change(&mut attributes)?;
        let b = encode(ino, &attributes);
        if b.len() > XATTR_BYTES_MAX {
            return Err(Error::Range);
        }
        let (old_start, old_pages) = (state.record.xattr_start, state.record.xattr_pages);
        let mut durable = Durable::nothing();
        (state.record.xattr_start, state.record.xattr_pages, state.record.xattr_bytes) = if attributes.is_empty() {
            (0, 0, 0)
        } else {
            let pages = self.layout.pages(b.len() as u64) as u32;
            let (start, pages) = self.take_run(pages, pages)?;
            let flushed = self.medium.stream(self.layout.page_at(start), &b, Durable::nothing());
            durable = persist::fence(&self.medium, flushed, defects::XATTR_FENCE);
            (start, pages, b.len() as u32)
        };
        state.record.ctime_ns = self.now();
        self.store_version(ino, &mut state, durable).done();
        self.free_xattr_pages(old_start, old_pages);
        Ok(())
    }

    /// Frees the pages of attributes that nothing refers to any more.
    pub fn free_xattr_pages(&self, start: u32, pages: u32) {
        if pages > 0 {
            lock(&self.alloc).free_page_run(start, pages);
        }
    }
}

fn encode(ino: Ino, attributes: &Attributes) -> Vec<u8> {
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
