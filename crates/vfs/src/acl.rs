//! Access control lists (POSIX.1e, acl(5)).
//!
//! A list is stored as the value of one of two extended attributes, in the format of Linux's `posix_acl_xattr.h`:
//!
//! ```text
//!  0  u32 version: 2      4  for each entry: u16 tag, u16 permissions, u32 user or group (else ffff_ffff)
//! ```
//!
//! Three of the entries duplicate permission bits of the mode: those of the owner, the mask and others. The mode is
//! authoritative for them; the stored list holds the rest.

use crate::{Error, Result};

/// The attribute with an object's access ACL.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute with a directory's default ACL, inherited by new objects.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
const NOBODY: u32 = u32::MAX;

/// The subject of an entry, in the order of entries in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Owner = 0x01,
    User = 0x02,
    Group = 0x04,
    OtherGroup = 0x08,
    Mask = 0x10,
    Others = 0x20,
}

impl Tag {
    fn of(number: u16) -> Option<Tag> {
        [Tag::Owner, Tag::User, Tag::Group, Tag::OtherGroup, Tag::Mask, Tag::Others]
            .into_iter()
            .find(|tag| *tag as u16 == number)
    }

    fn is_named(self) -> bool {
        matches!(self, Tag::User | Tag::OtherGroup)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AclEntry {
    tag: Tag,
    permissions: u16,
    id: u32,
}

/// A well-formed access control list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<AclEntry>,
}

impl Acl {
    /// Decodes an attribute's value. A value without entries means that there is no list: `None`.
    ///
    /// # Errors
    /// `NotSupported` for another version, `Invalid` for an invalid list.
    pub fn decode(value: &[u8]) -> Result<Option<Acl>> {
        let header = value.first_chunk::<HEADER_BYTES>().ok_or(Error::Invalid)?;
        if u32::from_le_bytes(*header) != VERSION {
            return Err(Error::NotSupported);
        }
        let chunks = value[HEADER_BYTES..].chunks_exact(ENTRY_BYTES);
        if !chunks.remainder().is_empty() {
            return Err(Error::Invalid);
        }
        let entry = |b: &[u8]| {
            let tag = Tag::of(u16::from_le_bytes([b[0], b[1]]))?;
            let permissions = u16::from_le_bytes([b[2], b[3]]);
            let id = u32::from_le_bytes([b[4], b[5], b[6], b[7]]);
            let valid = permissions <= 7 && !(tag.is_named() && id == NOBODY);
            valid.then_some(AclEntry { tag, permissions, id: if tag.is_named() { id } else { NOBODY } })
        };
        let entries: Vec<AclEntry> = chunks.map(entry).collect::<Option<_>>().ok_or(Error::Invalid)?;
        if entries.is_empty() {
            return Ok(None);
        }
        let acl = Acl { entries };
        if acl.is_well_formed() { Ok(Some(acl)) } else { Err(Error::Invalid) }
    }

    /// One owner, one group, one for others, in order; and a mask if anybody else is named.
    fn is_well_formed(&self) -> bool {
        let count = |tag| self.entries.iter().filter(|entry| entry.tag == tag).count();
        let masks = count(Tag::Mask);
        self.entries.is_sorted_by_key(|entry| entry.tag)
            && [Tag::Owner, Tag::Group, Tag::Others].into_iter().all(|tag| count(tag) == 1)
            && (masks == 1 || masks == 0 && self.entries.iter().all(|entry| !entry.tag.is_named()))
    }

    /// Encodes it as an attribute's value.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            value.extend_from_slice(&(entry.tag as u16).to_le_bytes());
            value.extend_from_slice(&entry.permissions.to_le_bytes());
            value.extend_from_slice(&entry.id.to_le_bytes());
        }
        value
    }

    /// Whether it is equivalent to the permission bits.
    pub fn is_minimal(&self) -> bool {
        self.entries.iter().all(|entry| matches!(entry.tag, Tag::Owner | Tag::Group | Tag::Others))
    }

    /// The entry whose permissions stand in the mode for the group: the mask, if there is one.
    fn group_class(&self) -> Tag {
        if self.entries.iter().any(|entry| entry.tag == Tag::Mask) { Tag::Mask } else { Tag::Group }
    }

    /// How far an entry's permissions are shifted in the mode, if they stand there.
    fn shift(group_class: Tag, tag: Tag) -> Option<u16> {
        match tag {
            Tag::Owner => Some(6),
            Tag::Others => Some(0),
            tag if tag == group_class => Some(3),
            _ => None,
        }
    }

    /// The equivalent permission bits, `0o777`.
    pub fn permissions(&self) -> u16 {
        let group_class = self.group_class();
        let bits = |entry: &AclEntry| Self::shift(group_class, entry.tag).map_or(0, |shift| entry.permissions << shift);
        self.entries.iter().map(bits).fold(0, |all, bits| all | bits)
    }

    /// Updates it from permission bits, as chmod(2) does.
    pub fn set_permissions(&mut self, permissions: u16) {
        let group_class = self.group_class();
        for entry in &mut self.entries {
            if let Some(shift) = Self::shift(group_class, entry.tag) {
                entry.permissions = permissions >> shift & 7;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `getfacl -n` prints it: `u::rw-,u:7:r--,g::r--,m::r--,o::---` in numbers.
    fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(permissions.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    const NONE: u32 = 0xffff_ffff;
    const EXTENDED: [(u16, u16, u32); 5] = [(1, 6, NONE), (2, 7, 7), (4, 4, NONE), (16, 5, NONE), (32, 0, NONE)];

    #[test]
    fn what_setfacl_sends_is_read_and_written() {
        // getfattr -e hex on tmpfs after: chmod 640; setfacl -m u:7:rwx,m::rx
        let bytes = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x07\0\x07\0\0\0\x04\0\x04\0\xff\xff\xff\xff\
            \x10\0\x05\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
        assert_eq!(value(&EXTENDED), bytes);
        let acl = Acl::decode(bytes).unwrap().unwrap();
        assert_eq!(acl.encode(), bytes);
        assert!(!acl.is_minimal());
        // The mask counts for the group.
        assert_eq!(acl.permissions(), 0o650);
    }

    #[test]
    fn three_entries_are_the_mode() {
        let acl = Acl::decode(&value(&[(1, 7, NONE), (4, 5, 99), (32, 4, 0)])).unwrap().unwrap();
        assert!(acl.is_minimal());
        assert_eq!(acl.permissions(), 0o754);
        // Who such an entry is for is said by its tag: the number means nothing, and is not kept.
        assert_eq!(acl.encode(), value(&[(1, 7, NONE), (4, 5, NONE), (32, 4, NONE)]));
    }

    #[test]
    fn a_mode_changes_owner_mask_and_others_alone() {
        let mut acl = Acl::decode(&value(&EXTENDED)).unwrap().unwrap();
        acl.set_permissions(0o4731);
        let changed = [(1, 7, NONE), (2, 7, 7), (4, 4, NONE), (16, 3, NONE), (32, 1, NONE)];
        assert_eq!(acl.encode(), value(&changed));
        assert_eq!(acl.permissions(), 0o731);
        let mut minimal = Acl::decode(&value(&[(1, 7, NONE), (4, 7, NONE), (32, 7, NONE)])).unwrap().unwrap();
        minimal.set_permissions(0o640);
        assert_eq!(minimal.encode(), value(&[(1, 6, NONE), (4, 4, NONE), (32, 0, NONE)]));
    }

    #[test]
    fn what_is_no_list_is_refused_as_linux_refuses_it() {
        let (owner, group, mask, others) = ((1, 6, NONE), (4, 4, NONE), (16, 4, NONE), (32, 4, NONE));
        let invalid: [&[(u16, u16, u32)]; 9] = [
            &[owner, group],
            &[group, owner, others],
            &[owner, owner, group, others],
            // Somebody named, and no mask.
            &[owner, (2, 4, 7), group, others],
            &[owner, group, (8, 4, 7), others],
            &[owner, group, mask, mask, others],
            &[owner, group, (64, 4, NONE), others],
            &[(1, 8, NONE), group, others],
            &[owner, (2, 4, NONE), group, mask, others],
        ];
        for entries in invalid {
            assert!(matches!(Acl::decode(&value(entries)), Err(Error::Invalid)), "{entries:?}");
        }
        for cut in [0, 3, 5, 11] {
            assert!(matches!(Acl::decode(&value(&EXTENDED)[..cut]), Err(Error::Invalid)), "{cut} bytes");
        }
        assert!(matches!(Acl::decode(b"\x01\0\0\0"), Err(Error::NotSupported)));
        assert_eq!(Acl::decode(b"\x02\0\0\0").unwrap(), None);
    }
}
