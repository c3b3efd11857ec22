//! The format of a checkpoint's file. `docs/scmfs-checkpoint.md` draws it.
//!
//! ```text
//!      0  header:
//!           0  magic "SCMFSCP\n"              48  u64 the region's length in bytes
//!           8  u32 version, 1                 56  u64 pages that are stored
//!          12  u32 bytes of a page, 4096      64  u64 entries of the table
//!          16  the volume's uuid, 16 bytes    72  i64 when it was taken, ns since 1970
//!          32  u64 generation                 80  u32 crc32c of the table
//!          40  u64 the generation that this   84  u32 how many its series keeps; 0: not said
//!              one changes; 0: none           88  zeros
//!                                           4092  u32 crc32c of the 4092 bytes before
//!   4096  the pages that are stored, in order
//!      …  table; of each page that differs from that generation, in order:
//!           0  u64 number of the page, and all ones in its highest bit: only zeros, not stored
//!           8  u32 crc32c of the page         12  zeros
//! ```

use crate::format::bytes::{get_u32, get_u64, put_u32, put_u64};
use pocketstone_media::TRACKED_BYTES;

/// Bytes of a page, and of the header.
pub(super) const PAGE: usize = TRACKED_BYTES as usize;
/// Bytes of an entry of the table.
pub(super) const ENTRY: usize = 16;
const MAGIC: [u8; 8] = *b"SCMFSCP\n";
const VERSION: u32 = 1;
const ZEROS: u64 = 1 << 63;
/// No region is longer: what says so is damaged.
const MOST_BYTES: u64 = 1 << 52;

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub uuid: [u8; 16],
    pub generation: u64,
    /// 0: it has all that is not zeros.
    pub parent: u64,
    pub region_bytes: u64,
    pub stored: u64,
    pub entries: u64,
    pub taken_ns: i64,
    pub table_crc: u32,
    /// How many generations the series that this one is of keeps; 0: that was not written down.
    pub keep: u32,
}

impl Header {
    pub fn encode(&self) -> [u8; PAGE] {
        let mut b = [0; PAGE];
        b[..8].copy_from_slice(&MAGIC);
        put_u32(&mut b, 8, VERSION);
        put_u32(&mut b, 12, PAGE as u32);
        b[16..32].copy_from_slice(&self.uuid);
        let words = [self.generation, self.parent, self.region_bytes, self.stored, self.entries, self.taken_ns as u64];
        for (i, word) in words.into_iter().enumerate() {
            put_u64(&mut b, 32 + 8 * i, word);
        }
        put_u32(&mut b, 80, self.table_crc);
        put_u32(&mut b, 84, self.keep);
        let crc = crc32c::crc32c(&b[..PAGE - 4]);
        put_u32(&mut b, PAGE - 4, crc);
        b
    }

    /// Reads a header of a file of that length.
    ///
    /// # Errors
    /// A `String` that says what is wrong with it: another magic number, checksum, version or length, or numbers that
    /// cannot be.
    pub fn decode(b: &[u8; PAGE], file_bytes: u64) -> Result<Header, String> {
        if b[..8] != MAGIC {
            return Err("no checkpoint of SCMFS".into());
        }
        if crc32c::crc32c(&b[..PAGE - 4]) != get_u32(b, PAGE - 4) {
            return Err("a header with a wrong checksum".into());
        }
        let (version, page) = (get_u32(b, 8), get_u32(b, 12));
        if (version, page) != (VERSION, PAGE as u32) {
            return Err(format!("format {version} with pages of {page} bytes, which this program does not know"));
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&b[16..32]);
        let word = |i: usize| get_u64(b, 32 + 8 * i);
        let header = Header {
            uuid,
            generation: word(0),
            parent: word(1),
            region_bytes: word(2),
            stored: word(3),
            entries: word(4),
            taken_ns: word(5) as i64,
            table_crc: get_u32(b, 80),
            keep: get_u32(b, 84),
        };
        let length = (header.stored.checked_mul(PAGE as u64))
            .and_then(|pages| pages.checked_add(header.entries.checked_mul(ENTRY as u64)?)?.checked_add(PAGE as u64));
        if length != Some(file_bytes) {
            return Err(match length {
                Some(length) => format!("{file_bytes} bytes instead of {length}"),
                None => "an impossible number of pages".into(),
            });
        }
        let known = header.generation > 0 && header.parent < header.generation;
        if !known || header.stored > header.entries || header.region_bytes > MOST_BYTES {
            return Err("an impossible header".into());
        }
        Ok(header)
    }

    /// Where the table begins.
    pub fn table_at(&self) -> u64 {
        (1 + self.stored) * PAGE as u64
    }
}

/// A page of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub page: u64,
    pub crc: u32,
    /// Where the page lies in the file; `None`: it is only zeros.
    pub at: Option<u64>,
}

impl Entry {
    pub fn encode(page: u64, crc: u32, zeros: bool) -> [u8; ENTRY] {
        let mut b = [0; ENTRY];
        put_u64(&mut b, 0, if zeros { page | ZEROS } else { page });
        put_u32(&mut b, 8, crc);
        b
    }
}

/// Reads a table.
///
/// # Errors
/// A `String` that says what is wrong with it: another checksum or number of pages, or a page where it cannot be.
pub(super) fn decode_table(header: &Header, table: &[u8]) -> Result<Vec<Entry>, String> {
    if crc32c::crc32c(table) != header.table_crc {
        return Err("a table with a wrong checksum".into());
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(table.len() / ENTRY);
    let mut next_at = PAGE as u64;
    for b in table.chunks_exact(ENTRY) {
        let (word, crc) = (get_u64(b, 0), get_u32(b, 8));
        let (page, zeros) = (word & !ZEROS, word & ZEROS != 0);
        let inside = page < header.region_bytes.div_ceil(PAGE as u64);
        if !inside || entries.last().is_some_and(|last| last.page >= page) {
            return Err(format!("page {page} where it cannot be"));
        }
        entries.push(Entry { page, crc, at: (!zeros).then_some(next_at) });
        next_at += if zeros { 0 } else { PAGE as u64 };
    }
    if next_at != header.table_at() { Err("another number of pages than it says".into()) } else { Ok(entries) }
}

const PREFIX: &str = "checkpoint-";
/// The end of the name of a file that is not complete.
pub(super) const UNFINISHED: &str = ".part";

/// The name of a generation's file.
pub(super) fn name(generation: u64) -> String {
    format!("{PREFIX}{generation:020}")
}

/// The generation of a file, by its name.
pub(super) fn generation(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}
