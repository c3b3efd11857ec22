//! An object's header: 512 bytes at the start of a page.
//!
//! ```text
//! off  size            off  size
//!   0     4  type      300   160  a symbolic link's target, NUL ended
//!   4     4  parent    460     4  device number
//!   8     2  0xFFFF    464     8  time of change       \  low word, high word; high word
//!  10   256  name      472     8  time of last read     > 0xFFFFFFFF: the 32 bits at
//! 268     4  mode      480     8  time of last write   /  288, 280, 284
//! 272     4  uid       488     4  in-band: shadowed object
//! 276     4  gid       492     4  in-band: shrinks
//! 280     4  atime     496     4  size, high word; 0xFFFFFFFF: the low word is all
//! 284     4  mtime     500     4  reserved
//! 288     4  ctime     504     4  object that this header replaces, 0: none
//! 292     4  size      508     4  1: shrinks
//! 296     4  target of a hard link
//! ```
//!
//! What is not set is 0xFF. All words are little-endian.

use crate::bytes::u32_at;
use crate::log::tags::Kind;
pub use crate::log::turned::HEADER_BYTES;

/// Longest name that is stored whole.
pub const NAME_BYTES: usize = 255;
/// Longest target of a symbolic link.
pub const TARGET_BYTES: usize = 159;

const NAME: usize = 10;
const TARGET: usize = 300;
const UNSET: u32 = u32::MAX;

/// An object's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub parent: u32,
    pub name: Vec<u8>,
    /// Type and permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Seconds since 1970.
    pub atime_s: i64,
    pub mtime_s: i64,
    pub ctime_s: i64,
    pub size: u64,
    /// The object that a hard link names.
    pub equivalent: u32,
    pub target: Vec<u8>,
    pub rdev: u32,
    /// The object that this header replaces; 0: none.
    pub shadows: u32,
    pub shrinks: bool,
}

impl Header {
    /// Writes the header over the first 512 bytes of a page, which may hold extended attributes behind it.
    pub fn encode(&self, page: &mut [u8], inband: bool) {
        page[..HEADER_BYTES].fill(0xFF);
        let mut put = |at: usize, word: u32| page[at..at + 4].copy_from_slice(&word.to_le_bytes());
        put(0, self.kind as u32);
        put(4, self.parent);
        put(268, self.mode);
        put(272, self.uid);
        put(276, self.gid);
        for (short, long, time) in [(280, 472, self.atime_s), (284, 480, self.mtime_s), (288, 464, self.ctime_s)] {
            put(short, time as u32);
            put(long, time as u32);
            put(long + 4, (time >> 32) as u32);
        }
        if self.kind == Kind::File {
            put(292, self.size as u32);
            if self.size > u64::from(u32::MAX >> 1) {
                put(496, (self.size >> 32) as u32);
            }
        }
        if self.kind == Kind::HardLink {
            put(296, self.equivalent);
        }
        put(460, self.rdev);
        if inband {
            put(488, self.shadows);
            put(492, u32::from(self.shrinks));
        }
        put(504, self.shadows);
        put(508, u32::from(self.shrinks));
        let text = |page: &mut [u8], at: usize, bytes: usize, text: &[u8]| {
            let kept = text.len().min(bytes - 1);
            page[at..at + bytes].fill(0);
            page[at..at + kept].copy_from_slice(&text[..kept]);
        };
        text(page, NAME, NAME_BYTES + 1, &self.name);
        if self.kind == Kind::Symlink {
            text(page, TARGET, TARGET_BYTES + 1, &self.target);
        }
    }

    /// A header from the first 512 bytes of its page; `None` if they are none.
    pub fn decode(page: &[u8], inband: bool) -> Option<Header> {
        let get = |at: usize| u32_at(page, at);
        let kind = Kind::of(get(0))?;
        // A writer of 32-bit times leaves the long ones unset; a negative long one repeats the short one.
        let time = |short: usize, long: usize| match get(long + 4) {
            UNSET if get(long) != get(short) => i64::from(get(short)),
            high => (u64::from(high) << 32 | u64::from(get(long))) as i64,
        };
        let text = |at: usize, bytes: usize| {
            let field = &page[at..at + bytes];
            field.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
        };
        let size = match get(496) {
            UNSET => u64::from(get(292)),
            high => u64::from(high) << 32 | u64::from(get(292)),
        };
        let shadows = get(if inband { 488 } else { 504 });
        Some(Header {
            kind,
            parent: get(4),
            name: text(NAME, NAME_BYTES + 1),
            mode: get(268),
            uid: get(272),
            gid: get(276),
            atime_s: time(280, 472),
            mtime_s: time(284, 480),
            ctime_s: time(288, 464),
            size: if kind == Kind::File { size } else { 0 },
            equivalent: if kind == Kind::HardLink { get(296) } else { 0 },
            target: if kind == Kind::Symlink { text(TARGET, TARGET_BYTES + 1) } else { Vec::new() },
            rdev: get(460),
            shadows: if shadows == UNSET { 0 } else { shadows },
            // Other writers leave the in-band field unset.
            shrinks: if inband { get(492) == 1 } else { get(508) != 0 },
        })
    }

    /// Whether the first words of a page are a header of the other byte order: images of big-endian machines.
    pub fn is_big_endian(page: &[u8]) -> bool {
        let kind = u32_at(page, 0).swap_bytes();
        let parent = u32_at(page, 4).swap_bytes();
        u32_at(page, 0) > 5 && (1..=5).contains(&kind) && parent < crate::LARGEST_OBJECT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: Kind::File,
            parent: 1,
            name: b"name".to_vec(),
            mode: 0o100_644,
            uid: 1000,
            gid: 100,
            atime_s: 1_700_000_000,
            mtime_s: -1,
            ctime_s: 1 << 33,
            size: 5 << 30,
            equivalent: 0,
            target: Vec::new(),
            rdev: 0,
            shadows: 258,
            shrinks: true,
        }
    }

    #[test]
    fn a_header_survives_its_page() {
        for inband in [false, true] {
            for kind in [Kind::File, Kind::Symlink, Kind::HardLink, Kind::Directory, Kind::Special] {
                let mut header = Header { kind, size: 0, ..header() };
                match kind {
                    Kind::File => header.size = 5 << 30,
                    Kind::Symlink => header.target = vec![b't'; TARGET_BYTES],
                    Kind::HardLink => header.equivalent = 300,
                    _ => {}
                }
                let mut page = vec![0xFF; 2048];
                header.encode(&mut page, inband);
                assert_eq!(Header::decode(&page, inband), Some(header));
                assert!(!Header::is_big_endian(&page));
                assert!(page[HEADER_BYTES..].iter().all(|&byte| byte == 0xFF));
            }
        }
    }

    #[test]
    fn fields_lie_where_the_format_has_them() {
        let mut page = vec![0; 512];
        header().encode(&mut page, false);
        let words = [(0, 1), (4, 1), (268, 0o100_644), (272, 1000), (276, 100), (504, 258), (508, 1)];
        for (at, expected) in words {
            assert_eq!(u32_at(&page, at), expected, "at {at}");
        }
        assert_eq!(page[8..14], [0xFF, 0xFF, b'n', b'a', b'm', b'e']);
        assert_eq!((u32_at(&page, 292), u32_at(&page, 496)), (1 << 30, 1));
        // Change, read, write: in this order, 64 bits each.
        assert_eq!((u32_at(&page, 464), u32_at(&page, 468)), (0, 2));
        assert_eq!((u32_at(&page, 472), u32_at(&page, 476)), (1_700_000_000, 0));
        assert_eq!((u32_at(&page, 480), u32_at(&page, 484)), (u32::MAX, u32::MAX));
    }

    #[test]
    fn a_header_with_32_bit_times_and_sizes_is_understood() {
        let mut page = vec![0; 512];
        header().encode(&mut page, false);
        page[464..488].fill(0xFF);
        page[496..500].fill(0xFF);
        let old = Header::decode(&page, false).unwrap();
        assert_eq!((old.atime_s, old.size), (1_700_000_000, 1 << 30));
    }

    #[test]
    fn a_header_of_a_big_endian_machine_is_known() {
        let mut page = vec![0xFF; 512];
        page[..8].copy_from_slice(&[0, 0, 0, 3, 0, 0, 0, 1]);
        assert!(Header::is_big_endian(&page));
        assert_eq!(Header::decode(&page, false), None);
    }
}
