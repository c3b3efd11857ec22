//! What chattr(1) sets and lsattr(1) shows, as the kernel passes it on: ioctl_iflags(2), and FS_IOC_FSGETXATTR of
//! ioctl_xfs_fsgetxattr(2). Of all the flags there are two.

use crate::mountable::Mountable;
use pocketstone_vfs::{Error, Ino, Protection, Result};

// linux/fs.h. They say `long`, and mean a word of 32 bits.
const FS_IOC_GETFLAGS: u32 = request(2, size_of::<usize>(), b'f', 1);
const FS_IOC_SETFLAGS: u32 = request(1, size_of::<usize>(), b'f', 2);
const FS_IOC_FSGETXATTR: u32 = request(2, FSXATTR_BYTES, b'X', 31);
const FS_IOC_FSSETXATTR: u32 = request(1, FSXATTR_BYTES, b'X', 32);
/// Of struct fsxattr: flags, size of an extent, extents, project, size of an extent of copies, and filling.
const FSXATTR_BYTES: usize = 28;
const EXTENTS: std::ops::Range<usize> = 8..12;

/// `_IOR` (2), `_IOW` (1) and `_IO` (0) of asm-generic/ioctl.h.
pub(crate) const fn request(direction: u32, bytes: usize, kind: u8, number: u32) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (kind as u32) << 8 | number
}

/// The bits of one of the two kinds of flags.
struct Bits {
    append_only: u32,
    immutable: u32,
}

/// FS_APPEND_FL and FS_IMMUTABLE_FL.
const FLAGS: Bits = Bits { append_only: 0x20, immutable: 0x10 };
/// FS_XFLAG_APPEND and FS_XFLAG_IMMUTABLE.
const XFLAGS: Bits = Bits { append_only: 0x10, immutable: 0x08 };

impl Bits {
    fn of(&self, protection: Protection) -> u32 {
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        bit(protection.append_only, self.append_only) | bit(protection.immutable, self.immutable)
    }

    fn read(&self, bits: u32) -> Result<Protection> {
        if bits & !(self.append_only | self.immutable) != 0 {
            return Err(Error::NotSupported);
        }
        Ok(Protection { append_only: bits & self.append_only != 0, immutable: bits & self.immutable != 0 })
    }
}

/// Answers an ioctl(2) by a user: what it returns beside 0. `None`: there is no such one.
pub(crate) fn ioctl<V: Mountable>(volume: &V, uid: u32, ino: Ino, number: u32, from: &[u8]) -> Option<Result<Vec<u8>>> {
    // A file system without them does not know these calls.
    if matches!(volume.protection(ino), Err(Error::NotSupported)) {
        return None;
    }
    let first = || from.first_chunk().map(|word| u32::from_ne_bytes(*word)).ok_or(Error::Invalid);
    Some(match number {
        FS_IOC_GETFLAGS => volume.protection(ino).map(|protection| FLAGS.of(protection).to_ne_bytes().to_vec()),
        FS_IOC_FSGETXATTR => volume.protection(ino).map(|protection| {
            let mut answer = XFLAGS.of(protection).to_ne_bytes().to_vec();
            answer.resize(FSXATTR_BYTES, 0);
            answer
        }),
        FS_IOC_SETFLAGS => first().and_then(|bits| set(volume, uid, ino, FLAGS.read(bits)?)),
        FS_IOC_FSSETXATTR => first().and_then(|bits| {
            let mut rest = from[4..].iter().enumerate().filter(|(i, _)| !EXTENTS.contains(&(i + 4)));
            if rest.any(|(_, byte)| *byte != 0) {
                return Err(Error::NotSupported);
            }
            set(volume, uid, ino, XFLAGS.read(bits)?)
        }),
        _ => return None,
    })
}

/// The kernel asks for CAP_LINUX_IMMUTABLE, which is root's; this does for who comes here otherwise.
fn set<V: Mountable>(volume: &V, uid: u32, ino: Ino, wanted: Protection) -> Result<Vec<u8>> {
    if uid != 0 && volume.protection(ino)? != wanted {
        return Err(Error::NotPermitted);
    }
    volume.protect(ino, wanted).map(|()| Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn numbers_are_those_of_the_header() {
        // Printed by a C program that includes linux/fs.h.
        assert_eq!([FS_IOC_GETFLAGS, FS_IOC_SETFLAGS], [0x8008_6601, 0x4008_6602]);
        assert_eq!([FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR], [0x801c_581f, 0x401c_5820]);
    }

    #[test]
    fn there_are_two_flags() {
        // a, i and ai of chattr(1).
        for (flags, xflags, append_only, immutable) in
            [(0, 0, false, false), (0x20, 0x10, true, false), (0x10, 8, false, true), (0x30, 0x18, true, true)]
        {
            let protection = Protection { append_only, immutable };
            assert_eq!((FLAGS.of(protection), XFLAGS.of(protection)), (flags, xflags));
            assert_eq!((FLAGS.read(flags).unwrap(), XFLAGS.read(xflags).unwrap()), (protection, protection));
        }
        // d, nodump.
        assert!(matches!(FLAGS.read(0x60), Err(Error::NotSupported)));
        assert!(matches!(XFLAGS.read(0x80), Err(Error::NotSupported)));
    }
}
