//! How long a file is that somebody makes longer by storing to its region, without the file system: a line of the
//! region says it, which is durable before the file system knows.
//!
//! ```text
//!  0  u64 the file: inode number, and its generation << 32
//!  8  u32 sequence number of the inode's version that the record goes on from
//! 12  u32 crc32c of the 12 bytes before
//! 16  u64 bits 0 to 47: the size in bytes; 48 to 63: upper half of the crc32c of the 12 bytes and the size
//! 24  zeros, to 64
//! ```
//!
//! With the next version of the inode, which has a size of its own, the record is void. The head changes only while the
//! size is 0, so that no size is ever taken for another file's; and the size is one word, which no crash tears.

use crate::LINE_BYTES;

/// Bytes of a record.
pub const SIZE_RECORD_BYTES: u64 = LINE_BYTES;
/// No record says more.
pub const SIZE_MOST: u64 = (1 << 48) - 1;
const SIZE_BITS: u32 = 48;
const WORDS: usize = 3;
/// Bytes of a record that mean something; zeros follow.
pub const USED_BYTES: usize = WORDS * 8;

/// Which version of which inode a record goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Inode number, and its generation << 32.
    pub key: u64,
    /// The version's sequence number.
    pub sequence: u32,
}

impl Version {
    fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    fn head(self) -> [u64; 2] {
        let check = crc32c::crc32c(&self.bytes());
        [self.key, u64::from(self.sequence) | u64::from(check) << 32]
    }

    fn tail(self, size: u64) -> u64 {
        let check = crc32c::crc32c_append(crc32c::crc32c(&self.bytes()), &size.to_le_bytes()) >> 16;
        size | u64::from(check) << SIZE_BITS
    }
}

/// The place of a record.
pub trait Line {
    /// Loads one of its words.
    fn load(&self, word: usize) -> u64;
    /// Stores one of its words at once.
    fn store(&self, word: usize, value: u64);
    /// Waits until all that was stored there is durable.
    fn persist(&self);
}

/// Says durably how long a file is: at most [`SIZE_MOST`], and not less than before with the same version, which has to
/// be durable. Nobody else stores to the record meanwhile.
#[inline]
pub fn note(line: &impl Line, version: Version, size: u64) {
    let head = version.head();
    if head != [line.load(0), line.load(1)] {
        line.store(2, 0);
        line.persist();
        line.store(0, head[0]);
        line.store(1, head[1]);
        line.persist();
    }
    line.store(2, version.tail(size));
    line.persist();
}

/// What a record says: the first bytes of its line. `None`: nothing.
pub fn read(line: &[u8; USED_BYTES]) -> Option<(Version, u64)> {
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| line[at * 8 + byte]));
    let version = Version { key: word(0), sequence: word(1) as u32 };
    let size = word(2) & SIZE_MOST;
    let is_valid = word(2) != 0 && version.head()[1] == word(1) && version.tail(size) == word(2);
    is_valid.then_some((version, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// A line of a medium that loses what is not durable, a word at a time. It notes all that may be left after a
    /// crash.
    struct Lossy {
        stored: RefCell<[u64; WORDS]>,
        durable: RefCell<[u64; WORDS]>,
        said: Cell<(Version, u64)>,
        about: Cell<(Version, u64)>,
        states: Cell<u64>,
    }

    impl Lossy {
        /// Whatever is left is what was said last, or what is being said.
        fn judge(&self) {
            for kept in 0..1 << WORDS {
                let (stored, durable) = (self.stored.borrow(), self.durable.borrow());
                let mut bytes = [0; USED_BYTES];
                for word in 0..WORDS {
                    let value = if kept >> word & 1 == 1 { stored[word] } else { durable[word] };
                    bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
                }
                let (found, said, about) = (read(&bytes), self.said.get(), self.about.get());
                let is_void = said.0 != about.0;
                let right = found == Some(said) || found == Some(about) || is_void && found.is_none();
                assert!(right, "{found:?} after {said:?}, while {about:?} is being said");
                self.states.set(self.states.get() + 1);
            }
        }
    }

    impl Line for Lossy {
        fn load(&self, word: usize) -> u64 {
            self.stored.borrow()[word]
        }

        fn store(&self, word: usize, value: u64) {
            self.stored.borrow_mut()[word] = value;
            self.judge();
        }

        fn persist(&self) {
            *self.durable.borrow_mut() = *self.stored.borrow();
            self.judge();
        }
    }

    #[test]
    fn a_crash_leaves_what_was_said_or_is_being_said() {
        let first = (Version { key: 7 | 3 << 32, sequence: 8 }, 100);
        let line = Lossy {
            stored: RefCell::default(),
            durable: RefCell::default(),
            said: Cell::new(first),
            about: Cell::new(first),
            states: Cell::new(0),
        };
        let of = |ino: u64, sequence: u32, size: u64| (Version { key: ino | 3 << 32, sequence }, size);
        let more = [of(7, 8, 101), of(7, 8, 5000), of(7, 9, 5001), of(9, 9, 4), of(9, 10, 3), of(7, 8, SIZE_MOST)];
        // Before the first one there is nothing.
        line.said.set(of(1, 1, 1));
        for next in std::iter::once(first).chain(more) {
            line.about.set(next);
            note(&line, next.0, next.1);
            line.said.set(next);
            line.judge();
        }
        assert!(line.states.get() > 100);
    }

    #[test]
    fn other_bytes_say_nothing() {
        assert_eq!(read(&[0; 24]), None);
        let version = Version { key: 12 | 1 << 32, sequence: 4 };
        let [key, head] = version.head();
        let mut bytes = [0; 24];
        for (word, value) in [key, head, version.tail(77)].into_iter().enumerate() {
            bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
        }
        assert_eq!(read(&bytes), Some((version, 77)));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
