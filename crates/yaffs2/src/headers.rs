//! Writing objects' headers.

use crate::blocks::Flag;
use crate::header::{HEADER_BYTES, Header};
use crate::log::Space;
use crate::objects::{DELETED_ID, LOST_ID, Object, ROOT_ID, UNLINKED_ID};
use crate::tags::{Content, Extra, Kind};
use crate::volume::Volume;
use pocketstone_core::inode::{Error, Result};

/// Sizes from here on do not fit the extra information of a header.
const EXTRA_LIMIT: u64 = 1 << 31;

impl Volume {
    /// Writes an object's header as it is in memory.
    pub(crate) fn write_header(&mut self, id: u32) -> Result<()> {
        self.write_header_with(id, None, 0)
    }

    /// Writes an object's header: with other extended attributes, or one that replaces object `shadows`.
    pub(crate) fn write_header_with(&mut self, id: u32, xattrs: Option<Vec<u8>>, shadows: u32) -> Result<()> {
        if matches!(id, UNLINKED_ID | DELETED_ID) {
            return Ok(());
        }
        // A header must not be newer than what it says of the file's size.
        self.flush(id)?;
        self.collect(false)?;
        self.put_header(id, xattrs, shadows, false)
    }

    /// Writes a header that says: chunks older than this one and behind its size are of no use.
    pub(crate) fn write_shrink_header(&mut self, id: u32) -> Result<()> {
        self.flush(id)?;
        self.collect(false)?;
        self.put_header(id, None, 0, true)
    }

    pub(crate) fn put_header(&mut self, id: u32, xattrs: Option<Vec<u8>>, shadows: u32, shrinks: bool) -> Result<()> {
        let area = match xattrs {
            Some(area) => area,
            None => self.xattr_area(id)?,
        };
        let detail = self.load(id)?.clone();
        let object = self.objects.get(id).ok_or(Error::NotFound)?;
        let unlinked = object.parent == UNLINKED_ID;
        let header = Header {
            kind: object.kind,
            parent: object.parent,
            name: match id {
                ROOT_ID | LOST_ID => Vec::new(),
                _ if unlinked => b"unlinked".to_vec(),
                _ => detail.name,
            },
            mode: detail.mode,
            uid: detail.uid,
            gid: detail.gid,
            atime_s: detail.atime_s,
            mtime_s: detail.mtime_s,
            ctime_s: detail.ctime_s,
            size: if object.kind == Kind::File && !unlinked { object.value } else { 0 },
            equivalent: if object.kind == Kind::HardLink { object.value as u32 } else { 0 },
            target: detail.target,
            rdev: detail.rdev,
            shadows,
            shrinks,
        };
        let mut page = vec![0xFF; self.chip.data_bytes()];
        header.encode(&mut page, self.chip.inband);
        page[HEADER_BYTES..].copy_from_slice(&area);
        let chunk = self.append(&page, id, content_of(&header), Space::Reserve)?;
        if shrinks {
            self.blocks.get_mut(self.chip.block_of(chunk)).set(Flag::Shrinks, true);
        }
        let old = match self.objects.get_mut(id) {
            Some(object) => std::mem::replace(&mut object.header, chunk),
            None => 0,
        };
        self.details.written(id);
        self.discard(old)
    }

    /// Deletes an object: a last header says so, and then its chunks are of no use.
    pub(crate) fn delete_object(&mut self, id: u32) -> Result<()> {
        self.collect(false)?;
        let object = self.objects.get(id).ok_or(Error::NotFound)?;
        let kind = object.kind;
        let header = Header {
            kind,
            parent: DELETED_ID,
            name: b"deleted".to_vec(),
            mode: 0,
            uid: 0,
            gid: 0,
            atime_s: 0,
            mtime_s: 0,
            ctime_s: 0,
            size: 0,
            equivalent: 0,
            target: Vec::new(),
            rdev: 0,
            shadows: 0,
            shrinks: true,
        };
        let mut page = vec![0xFF; self.chip.data_bytes()];
        header.encode(&mut page, self.chip.inband);
        let chunk = self.append(&page, id, content_of(&header), Space::Reserve)?;
        // Garbage from the start, but what is older must not outlive it.
        self.blocks.get_mut(self.chip.block_of(chunk)).set(Flag::Shrinks, true);
        self.discard(chunk)?;
        self.cache.forget(id, 0);
        self.details.remove(id);
        self.unfilled.remove(&id);
        let Some(object) = self.objects.remove(id) else { return Ok(()) };
        if kind == Kind::HardLink {
            self.forget_link(object.value as u32, id);
        }
        for (_, chunk) in object.map.chunks(self.width) {
            self.discard(chunk)?;
        }
        self.discard(object.header)
    }

    /// A header on the chip says already that an object is deleted. It is garbage, and its block keeps what is older
    /// from coming back.
    pub(crate) fn forget_deleted(&mut self, id: u32) {
        let width = self.width;
        let is_bare = |object: &Object| object.parent == DELETED_ID && object.map.chunks(width).next().is_none();
        if self.objects.get(id).is_some_and(is_bare) {
            if let Some(object) = self.objects.remove(id) {
                self.blocks.clear(object.header);
            }
        }
    }

    pub(crate) fn forget_link(&mut self, target: u32, link: u32) {
        if let Some(links) = self.links.get_mut(&target) {
            links.retain(|&other| other != link);
            if links.is_empty() {
                self.links.remove(&target);
            }
        }
    }
}

/// A header as its tags say it.
pub fn content_of(header: &Header) -> Content {
    let value = match header.kind {
        Kind::File if header.size >= EXTRA_LIMIT => return Content::Header,
        Kind::File => header.size as u32,
        Kind::HardLink => header.equivalent,
        _ => 0,
    };
    Content::Extra(Extra {
        kind: header.kind,
        parent: header.parent,
        shrinks: header.shrinks,
        shadows: header.shadows != 0,
        value,
    })
}
