//! What was counted at moments of a virtual machine's run: the file that the QEMU plugin writes. Little-endian.
//!
//! ```text
//!  0  "PKSTTLB1"
//!  8  records: 0  u64 instructions executed so far
//!              8  u64 kind: 0 end, 1 clock, 2 switch
//!             16  u64 accesses, first-level misses, walks, walk loads so far
//! ```

use crate::Counts;
use pocketstone_core::{Error, Result};

/// What the file begins with.
pub const MAGIC: [u8; 8] = *b"PKSTTLB1";
/// Bytes of a record.
pub const RECORD_BYTES: usize = 48;

/// Kinds of moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// The machine's end, once and last.
    End = 0,
    /// A program reads the clock.
    Clock = 1,
    /// The kernel switches to another thread.
    Switch = 2,
}

/// What was counted until a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Instructions that the machine has executed since its counting began, which is its virtual time.
    pub instructions: u64,
    /// What the moment is.
    pub kind: MarkKind,
    /// The counts until then.
    pub counts: Counts,
}

impl Mark {
    /// The record of a mark.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let Counts { accesses, first_level_misses, walks, walk_loads } = self.counts;
        let words = [self.instructions, self.kind as u64, accesses, first_level_misses, walks, walk_loads];
        let mut record = [0; RECORD_BYTES];
        record.chunks_exact_mut(8).zip(words).for_each(|(at, word)| at.copy_from_slice(&word.to_le_bytes()));
        record
    }
}

/// Reads a file of marks.
///
/// # Errors
/// `ErrorKind::Board` if it is not whole: the machine did not end in order.
pub fn decode(file: &[u8]) -> Result<Vec<Mark>> {
    let damaged = |what: &str| Error::board(format!("the log of TLB misses {what}"));
    let records = file.strip_prefix(&MAGIC).ok_or_else(|| damaged("does not begin as one"))?;
    if records.len() % RECORD_BYTES != 0 {
        return Err(damaged("ends within a record"));
    }
    let mark = |record: &[u8]| {
        let mut words = record.chunks_exact(8).map(|w| w.try_into().map_or(0, u64::from_le_bytes));
        let mut next = || words.next().unwrap_or_default();
        let (instructions, kind) = (next(), next());
        let kind = match kind {
            0 => MarkKind::End,
            1 => MarkKind::Clock,
            2 => MarkKind::Switch,
            other => return Err(damaged(&format!("has a record of kind {other}"))),
        };
        let (accesses, first_level_misses, walks, walk_loads) = (next(), next(), next(), next());
        Ok(Mark { instructions, kind, counts: Counts { accesses, first_level_misses, walks, walk_loads } })
    };
    let marks: Vec<Mark> = records.chunks_exact(RECORD_BYTES).map(mark).collect::<Result<_>>()?;
    match marks.last() {
        Some(Mark { kind: MarkKind::End, .. }) => Ok(marks),
        _ => Err(damaged("has no end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_was_written_and_damage_is_named() {
        let counts = Counts { accesses: 1, first_level_misses: 2, walks: 3, walk_loads: 4 };
        let marks = [MarkKind::Clock, MarkKind::Switch, MarkKind::End];
        let marks: Vec<Mark> = marks.map(|kind| Mark { instructions: 7, kind, counts }).to_vec();
        let mut file = MAGIC.to_vec();
        marks.iter().for_each(|m| file.extend(m.encode()));
        assert_eq!(decode(&file).unwrap(), marks);
        assert!(decode(&file[..100]).unwrap_err().chain().contains("within a record"));
        assert!(decode(&file[..8 + 96]).unwrap_err().chain().contains("no end"));
        assert!(decode(b"PKST").is_err());
        file[8 + 8] = 9;
        assert!(decode(&file).unwrap_err().chain().contains("kind 9"));
    }
}
