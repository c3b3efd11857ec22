//! As much of YAFFS2's tags as it takes to recognise them: their sizes, their limits and their error correction.

/// Bytes of packed tags without error correction, as in-band tags are.
pub const PLAIN_BYTES: usize = 16;
/// Bytes of packed tags with it.
pub const ECC_BYTES: usize = 28;
/// Sequence number of a checkpoint's blocks; all of those share it.
pub const CHECKPOINT_SEQUENCE: u32 = 0x21;
/// The lowest sequence number of a block, and the one that image builders give to all.
pub const FIRST_SEQUENCE: u32 = 0x1000;
/// The highest one.
pub const LAST_SEQUENCE: u32 = 0xEFFF_FEFF;
/// The largest number that an object can have, and one more.
pub const LARGEST_OBJECT: u32 = 0x4_0000;
/// Set in a chunk's number: it is an object's header, and the tags say more of it.
pub const EXTRA: u32 = 0x8000_0000;

/// The error correction of YAFFS2's tags: parities of bits and of byte numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagsParity {
    /// Six parities over the bits of all bytes, for the masks F0, 0F, CC, 33, AA, 55 from the highest bit down.
    pub column: u8,
    /// XOR of the numbers of all bytes of odd parity.
    pub line: u32,
    /// XOR of their complements.
    pub inverted: u32,
}

impl TagsParity {
    /// That of tags as they are stored.
    pub fn of(tags: &[u8]) -> TagsParity {
        let all = tags.iter().fold(0, |all, byte| all ^ byte);
        let masks = [0xf0u8, 0x0f, 0xcc, 0x33, 0xaa, 0x55];
        let column = masks.iter().fold(0, |column, mask| column << 1 | ((all & mask).count_ones() & 1) as u8);
        let odd = (0u32..).zip(tags).filter(|(_, byte)| byte.count_ones() % 2 == 1);
        let (line, inverted) = odd.fold((0, 0), |(line, inverted), (i, _)| (line ^ i, inverted ^ !i));
        TagsParity { column, line, inverted }
    }
}

/// Which end of a word comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    fn word(self, raw: &[u8], at: usize) -> u32 {
        let word = raw[at..at + 4].try_into().expect("four bytes");
        match self {
            Order::Little => u32::from_le_bytes(word),
            Order::Big => u32::from_be_bytes(word),
        }
    }
}

/// The block sequence number of tags that can be ones; `chunk_bytes` is how much data goes with them.
pub(super) fn sequence(raw: &[u8], order: Order, chunk_bytes: u32) -> Option<u32> {
    let [seq, obj, chunk, bytes] = [0, 4, 8, 12].map(|at| order.word(raw, at));
    if seq == CHECKPOINT_SEQUENCE {
        return (chunk >= 1 && bytes == chunk_bytes).then_some(seq);
    }
    let known = |id: u32| (1..LARGEST_OBJECT).contains(&id);
    let sane = if chunk & EXTRA != 0 {
        // The root directory is in none.
        let parent = chunk & 0x0fff_ffff;
        known(obj & 0x0fff_ffff) && (1..=5).contains(&(obj >> 28)) && (known(parent) || parent == 0)
    } else {
        known(obj) && chunk < 1 << 28 && (bytes <= chunk_bytes || (chunk == 0 && bytes == 0xffff))
    };
    (sane && (FIRST_SEQUENCE..=LAST_SEQUENCE).contains(&seq)).then_some(seq)
}

/// Whether tags are those of the root directory: object 1, with or without its kind above it.
pub(super) fn is_root(raw: &[u8], order: Order) -> bool {
    order.word(raw, 4) & 0x0fff_ffff == 1
}

/// Whether the error correction behind the tags is theirs.
pub(super) fn parity_holds(raw: &[u8], order: Order) -> bool {
    let parity = TagsParity::of(&raw[..PLAIN_BYTES]);
    raw[16] & 0x3f == parity.column && order.word(raw, 20) == parity.line && order.word(raw, 24) == parity.inverted
}
