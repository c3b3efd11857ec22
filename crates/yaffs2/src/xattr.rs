//! Extended attributes: in the page of an object's header, behind it.
//!
//! ```text
//! from byte 512 on, one record after the other:
//!   s32 length of the record with these 4 bytes, name, NUL, value
//! a length of 0 or less, or one that leads out of the page, ends them; 0xFFFFFFFF is the usual end
//! ```

use crate::header::HEADER_BYTES;
use crate::volume::Volume;
use pocketstone_core::bytes::u32_at;
use pocketstone_core::inode::{Error, Ino, Result, SetXattr};

/// The records of an area: name and value.
pub(crate) fn records(mut area: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut found = Vec::new();
    while area.len() > 4 {
        let bytes = u32_at(area, 0) as i32;
        if bytes <= 4 || bytes as usize > area.len() {
            break;
        }
        let record = &area[4..bytes as usize];
        let Some(end) = record.iter().position(|&byte| byte == 0) else { break };
        found.push((&record[..end], &record[end + 1..]));
        area = &area[bytes as usize..];
    }
    found
}

/// Whether a header's page holds any.
pub fn any(page: &[u8]) -> bool {
    !records(&page[HEADER_BYTES.min(page.len())..]).is_empty()
}

/// An area that holds these records, if they fit.
pub(crate) fn area_of<'a>(records: impl Iterator<Item = (&'a [u8], &'a [u8])>, bytes: usize) -> Result<Vec<u8>> {
    let mut area = Vec::with_capacity(bytes);
    for (name, value) in records {
        let length = (4 + name.len() + 1 + value.len()) as u32;
        area.extend_from_slice(&length.to_le_bytes());
        area.extend_from_slice(name);
        area.push(0);
        area.extend_from_slice(value);
    }
    if area.len() > bytes {
        return Err(Error::NoSpace);
    }
    area.resize(bytes, 0xFF);
    Ok(area)
}

impl Volume {
    /// The area behind an object's header.
    pub(crate) fn xattr_area(&mut self, ino: Ino) -> Result<Vec<u8>> {
        let has_any = self.load(ino)?.has_xattrs;
        let header = self.objects.get(ino).ok_or(Error::NotFound)?.header;
        let mut page = vec![0xFF; self.chip.data_bytes()];
        if has_any && header != 0 {
            self.read_chunk(header, &mut page)?;
        }
        Ok(page.split_off(HEADER_BYTES.min(page.len())))
    }

    /// An attribute's value.
    ///
    /// # Errors
    /// [`Error::NoAttribute`] when there is none of this name.
    pub fn get_xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let area = self.xattr_area(ino)?;
        let found = records(&area).into_iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| value.to_vec()).ok_or(Error::NoAttribute)
    }

    /// Names of an object's attributes.
    ///
    /// # Errors
    /// When its header cannot be read.
    pub fn list_xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let area = self.xattr_area(ino)?;
        Ok(records(&area).into_iter().map(|(name, _)| name.to_vec()).collect())
    }

    /// Sets an attribute. All of an object's attributes share the page of its header.
    ///
    /// # Errors
    /// When they do not fit ([`Error::NoSpace`]), or `how` does not allow it.
    pub fn set_xattr(&mut self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.writable()?;
        if name.is_empty() || name.len() > 255 || name.contains(&0) {
            return Err(Error::Range);
        }
        let area = self.xattr_area(ino)?;
        let old = records(&area);
        let exists = old.iter().any(|(other, _)| *other == name);
        match how {
            SetXattr::Create if exists => return Err(Error::Exists),
            SetXattr::Replace if !exists => return Err(Error::NoAttribute),
            _ => {}
        }
        let others = old.into_iter().filter(|(other, _)| *other != name);
        let area = area_of(others.chain(std::iter::once((name, value))), area.len())?;
        self.store_xattrs(ino, area)
    }

    /// Takes an attribute away.
    ///
    /// # Errors
    /// [`Error::NoAttribute`] when there is none of this name.
    pub fn remove_xattr(&mut self, ino: Ino, name: &[u8]) -> Result<()> {
        self.writable()?;
        let area = self.xattr_area(ino)?;
        let old = records(&area);
        if !old.iter().any(|(other, _)| *other == name) {
            return Err(Error::NoAttribute);
        }
        let area = area_of(old.into_iter().filter(|(other, _)| *other != name), area.len())?;
        self.store_xattrs(ino, area)
    }

    fn store_xattrs(&mut self, ino: Ino, area: Vec<u8>) -> Result<()> {
        let now = self.now_s();
        let any = !records(&area).is_empty();
        let detail = self.load(ino)?;
        detail.ctime_s = now;
        self.write_header_with(ino, Some(area), 0)?;
        self.load(ino)?.has_xattrs = any;
        Ok(())
    }
}
