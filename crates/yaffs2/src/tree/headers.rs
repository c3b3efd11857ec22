//! Writing objects' headers.

use super::Tree;
use super::header::{HEADER_BYTES, Header};
use super::objects::{DELETED_ID, LOST_ID, ROOT_ID, UNLINKED_ID};
use crate::log::blocks::Flag;
use crate::log::tags::{Content, Extra, Kind};
use pocketstone_vfs::{Error, Ino, Result};

/// Sizes from here on do not fit the extra information of a header.
const EXTRA_LIMIT: u64 = 1 << 31;

impl Tree {
    /// Writes an object's header: with other extended attributes, or one that replaces object `shadows`. One that
    /// `shrinks` says that chunks older than it and behind its size are of no use.
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
        let mut page = vec![0xFF; self.log.chip.data_bytes()];
        header.encode(&mut page, self.log.chip.inband);
        page[HEADER_BYTES..].copy_from_slice(&area);
        let chunk = self.log.append(&page, id, content_of(&header))?;
        if shrinks {
            self.log.blocks.get_mut(self.log.chip.block_of(chunk)).set(Flag::Shrinks, true);
        }
        let old = match self.objects.get_mut(id) {
            Some(object) => std::mem::replace(&mut object.header, chunk),
            None => 0,
        };
        self.details.written(id);
        self.log.discard(old)
    }

    /// The area behind an object's header.
    pub(crate) fn xattr_area(&mut self, ino: Ino) -> Result<Vec<u8>> {
        let has_any = self.load(ino)?.has_xattrs;
        let header = self.objects.get(ino).ok_or(Error::NotFound)?.header;
        let mut page = vec![0xFF; self.log.chip.data_bytes()];
        if has_any && header != 0 {
            self.log.read_chunk(header, &mut page)?;
        }
        Ok(page.split_off(HEADER_BYTES.min(page.len())))
    }

    /// Writes the header that says that an object of a kind is deleted.
    pub(crate) fn put_deletion(&mut self, id: u32, kind: Kind) -> Result<()> {
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
        let mut page = vec![0xFF; self.log.chip.data_bytes()];
        header.encode(&mut page, self.log.chip.inband);
        let chunk = self.log.append(&page, id, content_of(&header))?;
        // Garbage from the start, but what is older must not outlive it.
        self.log.blocks.get_mut(self.log.chip.block_of(chunk)).set(Flag::Shrinks, true);
        self.log.discard(chunk)
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
