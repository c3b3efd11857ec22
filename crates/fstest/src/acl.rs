//! Lists of access rights of one form, laid out by hand as acl(5) and Linux's posix_acl_xattr.h have them.

/// Whose names they have.
pub const ACCESS: &str = "system.posix_acl_access";
/// What new objects in a directory get.
pub const DEFAULT: &str = "system.posix_acl_default";

/// What stands in the mode: where in a value, and how far it is shifted in the mode.
const IN_MODE: [(usize, u16); 3] = [(6, 6), (30, 3), (38, 0)];

/// `u::(owner),u:7:(named),g::r--,m::(group),o::(others)`, with owner, group and others out of a mode.
pub fn value(mode: u16, named: u16) -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 0, u32::MAX), (0x02, named, 7), (0x04, 4, u32::MAX), (0x10, 0, u32::MAX), (0x20, 0, u32::MAX)];
    let mut value = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    set_permissions(&mut value, mode);
    value
}

/// The mode that such a value stands for.
pub fn mode(value: &[u8]) -> u16 {
    IN_MODE.iter().fold(0, |mode, (at, shift)| mode | u16::from(value[*at]) << shift)
}

/// chmod(2) of what has such a list.
pub fn set_permissions(value: &mut [u8], permissions: u16) {
    for (at, shift) in IN_MODE {
        value[at] = (permissions >> shift & 7) as u8;
    }
}
