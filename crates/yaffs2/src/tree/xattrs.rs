//! Extended attributes: in the page of an object's header, behind it.
//!
//! ```text
//! from byte 512 on, one record after the other:
//!   s32 length of the record with these 4 bytes, name, NUL, value
//! a length of 0 or less, or one that leads out of the page, ends them; 0xFFFFFFFF is the usual end
//! ```

use super::header::HEADER_BYTES;
use crate::bytes::u32_at;
use pocketstone_vfs::{Error, Result};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::turned::turn_header;
    use crate::options::ByteOrder;

    #[test]
    fn lengths_of_attributes_are_turned_one_after_the_other() {
        let mut page = vec![0xFF; 1024];
        // By hand: 4 bytes of length, the name, NUL, the value.
        page[512..524].copy_from_slice(b"\0\0\0\x0cuser.a\0b");
        page[524..538].copy_from_slice(b"\0\0\0\x0euser.cc\0dd");
        turn_header(ByteOrder::Big, &mut page);
        assert_eq!(records(&page[512..]), [(&b"user.a"[..], &b"b"[..]), (b"user.cc", b"dd")]);
    }
}
