//! Changes to one file that a process sends to the server of a mount, which makes all of them or none: the extended
//! attribute [`NAME`] of that file. Reading it, also of a directory, says what the server takes ([`Offer`]), setting it
//! makes the changes ([`Change`]); it is stored nowhere.
//!
//! setxattr(2), because the kernel asks for the right to write for it, and because it takes a path: a descriptor of
//! one's own would drop fcntl(2) locks of the process when it is closed.
//!
//! ```text
//! offer                                  change
//!   0  u32 magic   4  u32 version          0  u32 magic   4  u32 what: 1 writes, 2 space
//!   8  u64 inode number                    8  u64 inode number
//!  16  u64 most bytes of a record         16  u64 the file's size after it; of space: 0
//!  24  u64 bytes of a small page          24  u32 number of writes or ranges   28  u32 1: durable when it returns
//!                                         32  of each: u64 offset, u64 bytes
//!                                             then of each write: the bytes
//! ```

/// The attribute's name.
pub const NAME: &str = "user.scmfs.batch";
/// The longest value that setxattr(2) takes (`XATTR_SIZE_MAX`).
pub const BYTES_MAX: usize = 65536;
/// `SCMB`.
const MAGIC: u32 = 0x424D_4353;
/// Since 2 space is asked for by ranges.
const VERSION: u32 = 2;
const WRITES: u32 = 1;
const SPACE: u32 = 2;
const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 16;

/// What a server takes for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The file.
    pub ino: u64,
    /// Most bytes that change at once, with 32 for each piece of a write.
    pub record_bytes: u64,
    /// The volume's small page in bytes, where the least piece of a write ends.
    pub page_bytes: u64,
}

/// What is to be done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'a> {
    /// The file.
    pub ino: u64,
    /// What is done.
    pub what: What<'a>,
}

/// See [`Change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What<'a> {
    /// Writes, and the size after them, all at once.
    Writes {
        /// Offsets in bytes, and what is written there.
        writes: Vec<(u64, &'a [u8])>,
        /// The file's size after it, in bytes.
        size: u64,
        /// It is durable when the server has answered.
        durable: bool,
    },
    /// Space for ranges of the file; its size stays.
    Space {
        /// Offsets and lengths, in bytes.
        ranges: Vec<(u64, u64)>,
    },
}

fn get32(from: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(from.get(at..at + 4)?.try_into().ok()?))
}

fn get64(from: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(from.get(at..at + 8)?.try_into().ok()?))
}

impl Offer {
    /// The attribute's value.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = [MAGIC.to_ne_bytes(), VERSION.to_ne_bytes()].concat();
        [self.ino, self.record_bytes, self.page_bytes].iter().for_each(|word| value.extend(word.to_ne_bytes()));
        value
    }

    /// What a value offers; `None`: another version does.
    pub fn decode(value: &[u8]) -> Option<Offer> {
        let known = get32(value, 0)? == MAGIC && get32(value, 4)? == VERSION;
        known.then_some(())?;
        Some(Offer { ino: get64(value, 8)?, record_bytes: get64(value, 16)?, page_bytes: get64(value, 24)? })
    }
}

impl<'a> Change<'a> {
    /// How long a value of writes is that have so many bytes together.
    pub fn bytes_of(writes: usize, bytes: usize) -> usize {
        HEADER_BYTES + writes * ENTRY_BYTES + bytes
    }

    /// The attribute's value, in `into`.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let (what, size, durable) = match &self.what {
            What::Writes { size, durable, .. } => (WRITES, *size, *durable),
            What::Space { .. } => (SPACE, 0, false),
        };
        let number = match &self.what {
            What::Writes { writes, .. } => writes.len(),
            What::Space { ranges } => ranges.len(),
        };
        into.clear();
        into.extend([MAGIC.to_ne_bytes(), what.to_ne_bytes()].concat());
        into.extend([self.ino.to_ne_bytes(), size.to_ne_bytes()].concat());
        into.extend([(number as u32).to_ne_bytes(), u32::from(durable).to_ne_bytes()].concat());
        let mut entry = |offset: u64, bytes: u64| into.extend([offset.to_ne_bytes(), bytes.to_ne_bytes()].concat());
        match &self.what {
            What::Space { ranges } => ranges.iter().for_each(|(offset, bytes)| entry(*offset, *bytes)),
            What::Writes { writes, .. } => {
                writes.iter().for_each(|(offset, data)| entry(*offset, data.len() as u64));
                writes.iter().for_each(|(_, data)| into.extend(*data));
            }
        }
    }

    /// What a value asks for; `None`: nothing that is understood.
    pub fn decode(value: &'a [u8]) -> Option<Change<'a>> {
        (get32(value, 0)? == MAGIC).then_some(())?;
        let (what, ino, size) = (get32(value, 4)?, get64(value, 8)?, get64(value, 16)?);
        let (number, durable) = (get32(value, 24)? as usize, get32(value, 28)? == 1);
        let entries = value.get(HEADER_BYTES..HEADER_BYTES.checked_add(number.checked_mul(ENTRY_BYTES)?)?)?;
        let mut rest = &value[HEADER_BYTES + entries.len()..];
        let ranges = entries.chunks_exact(ENTRY_BYTES).map(|entry| Some((get64(entry, 0)?, get64(entry, 8)?)));
        let what = match what {
            WRITES => {
                let mut writes = Vec::with_capacity(number);
                for range in ranges {
                    let (offset, bytes) = range?;
                    let (data, others) = rest.split_at_checked(usize::try_from(bytes).ok()?)?;
                    writes.push((offset, data));
                    rest = others;
                }
                What::Writes { writes, size, durable }
            }
            SPACE => What::Space { ranges: ranges.collect::<Option<_>>()? },
            _ => return None,
        };
        rest.is_empty().then_some(())?;
        Some(Change { ino, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> Change<'static> {
        let what = What::Writes { writes: vec![(4096, b"page"), (0, b""), (9, b"xyz")], size: 8192, durable: true };
        Change { ino: 7, what }
    }

    #[test]
    fn what_is_sent_arrives() {
        let mut value = Vec::new();
        let space = |ranges| Change { ino: u64::MAX, what: What::Space { ranges } };
        for sent in [change(), space(vec![(1 << 40, 3 << 40), (0, 1)]), space(vec![])] {
            sent.encode(&mut value);
            assert_eq!(Change::decode(&value), Some(sent));
        }
        change().encode(&mut value);
        assert_eq!(value.len(), Change::bytes_of(3, 7));
        let offer = Offer { ino: 1, record_bytes: 2, page_bytes: 3 };
        assert_eq!(Offer::decode(&offer.encode()), Some(offer));
    }

    #[test]
    fn what_is_cut_or_changed_is_refused_or_something_whole() {
        let mut value = Vec::new();
        change().encode(&mut value);
        for end in 0..value.len() {
            assert_eq!(Change::decode(&value[..end]), None, "cut at {end}");
        }
        assert_eq!(Change::decode(&[value.clone(), vec![0]].concat()), None);
        for at in 0..value.len() {
            for byte in [0, 0x7F, 0xFF] {
                let mut changed = value.clone();
                changed[at] = byte;
                if let Some(Change { what: What::Writes { writes, .. }, .. }) = Change::decode(&changed) {
                    let bytes = writes.iter().map(|(_, data)| data.len()).sum();
                    assert_eq!(changed.len(), Change::bytes_of(writes.len(), bytes));
                }
            }
        }
        assert_eq!(Offer::decode(&[0; 32]), None);
        assert_eq!(Offer::decode(&[]), None);
    }
}
