//! What a block device was told to change, with all bytes, and what a device holds: the files of both.
//!
//! ```text
//! changes: 0         8       16    24      28    32
//!          begin_ns  end_ns  from  length  kind  bytes ...        kind as of BlockOp; bytes of writes alone
//! image:   0      8
//!          size   number of a page, its 4096 bytes ...            without pages of zeros
//! ```

use crate::block::BlockOp;
use crate::bytes::{u32_at, u64_at};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Name of the log of changes, beside a reply.
pub const BLOCK_CHANGES_FILE: &str = "block-changes.bin";
/// Name of a device's contents, beside an order or a reply.
pub const BLOCK_IMAGE_FILE: &str = "block-image.bin";

/// A page of an image.
pub const PAGE_BYTES: usize = 4096;

/// A request that changes a device, or makes changes durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockChange {
    /// When the device got it, on the run's clock.
    pub begin_ns: u64,
    /// When it said that it was done; the largest number if it had not.
    pub end_ns: u64,
    /// A write, a flush or a discard.
    pub op: BlockOp,
    /// The first byte's place on the device.
    pub from: u64,
    /// How many bytes it is about.
    pub length: u32,
    /// What is written.
    pub bytes: Vec<u8>,
}

const HEAD: usize = 32;

/// The bytes of a log of changes.
pub fn encode_block_changes(changes: &[BlockChange]) -> Vec<u8> {
    let mut log = Vec::new();
    for BlockChange { begin_ns, end_ns, op, from, length, bytes } in changes {
        for number in [begin_ns, end_ns, from] {
            log.extend(number.to_le_bytes());
        }
        log.extend(length.to_le_bytes());
        log.extend((*op as u32).to_le_bytes());
        log.extend(bytes);
    }
    log
}

/// Reads a log of changes.
///
/// # Errors
/// `ErrorKind::Board` if it is truncated, or contains an unknown kind.
pub fn decode_block_changes(mut log: &[u8]) -> Result<Vec<BlockChange>> {
    let mut changes = Vec::new();
    while !log.is_empty() {
        let damaged = || Error::board("a log of a block device's changes is damaged or truncated");
        let head = log.get(..HEAD).ok_or_else(damaged)?;
        let (length, kind) = (u32_at(head, 24), u32_at(head, 28));
        let op = BlockOp::ALL.into_iter().find(|op| *op as u32 == kind && *op != BlockOp::Read).ok_or_else(damaged)?;
        let end = HEAD + if op == BlockOp::Write { length as usize } else { 0 };
        let bytes = log.get(HEAD..end).ok_or_else(damaged)?.to_vec();
        let [begin_ns, end_ns, from] = [0, 8, 16].map(|at| u64_at(head, at));
        changes.push(BlockChange { begin_ns, end_ns, op, from, length, bytes });
        log = &log[end..];
    }
    Ok(changes)
}

/// What a device holds. Two are equal if all their bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockImage {
    bytes: u64,
    /// Pages that are not all zeros.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl BlockImage {
    /// A device of zeros.
    pub fn new(bytes: u64) -> BlockImage {
        BlockImage { bytes, pages: BTreeMap::new() }
    }

    /// The device's size in bytes.
    pub fn size(&self) -> u64 {
        self.bytes
    }

    /// Pages that are not all zeros, by number, ascending.
    pub fn pages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.iter().map(|(page, bytes)| (*page, bytes.as_slice()))
    }

    /// Some bytes.
    pub fn read(&self, range: Range<u64>) -> Vec<u8> {
        let page = PAGE_BYTES as u64;
        range.map(|at| self.pages.get(&(at / page)).map_or(0, |bytes| bytes[(at % page) as usize])).collect()
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the device ends before.
    pub fn write(&mut self, from: u64, bytes: &[u8]) -> Result<()> {
        let end = from.checked_add(bytes.len() as u64).filter(|end| *end <= self.bytes);
        let end = end.ok_or_else(|| {
            Error::board(format!("a write of {} bytes at {from} ends behind the device", bytes.len()))
        })?;
        let page_bytes = PAGE_BYTES as u64;
        for number in from / page_bytes..end.div_ceil(page_bytes) {
            let start = number * page_bytes;
            let (first, last) = (from.max(start), end.min(start + page_bytes));
            let page = self.pages.entry(number).or_insert_with(|| vec![0; PAGE_BYTES]);
            page[(first - start) as usize..(last - start) as usize]
                .copy_from_slice(&bytes[(first - from) as usize..(last - from) as usize]);
            if page.iter().all(|byte| *byte == 0) {
                self.pages.remove(&number);
            }
        }
        Ok(())
    }

    /// Does what a request asks for.
    ///
    /// # Errors
    /// As [`BlockImage::write`].
    pub fn apply(&mut self, change: &BlockChange) -> Result<()> {
        match change.op {
            BlockOp::Write => self.write(change.from, &change.bytes),
            BlockOp::Discard => self.write(change.from, &vec![0; change.length as usize]),
            BlockOp::Flush | BlockOp::Read => Ok(()),
        }
    }

    /// The bytes of a file with the contents.
    pub fn encode(&self) -> Vec<u8> {
        let mut file = self.bytes.to_le_bytes().to_vec();
        for (number, bytes) in &self.pages {
            file.extend(number.to_le_bytes());
            file.extend(bytes);
        }
        file
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it is damaged or truncated.
    pub fn decode(file: &[u8]) -> Result<BlockImage> {
        let damaged = || Error::board("the contents of a block device are damaged or truncated");
        let (size, pages) = file.split_at_checked(8).ok_or_else(damaged)?;
        let mut image = BlockImage::new(u64_at(size, 0));
        let records = pages.chunks_exact(8 + PAGE_BYTES);
        if !records.remainder().is_empty() {
            return Err(damaged());
        }
        for record in records {
            let from = u64_at(record, 0).checked_mul(PAGE_BYTES as u64).ok_or_else(damaged)?;
            image.write(from, &record[8..])?;
        }
        Ok(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(from: u64, bytes: &[u8]) -> BlockChange {
        let length = bytes.len() as u32;
        BlockChange { begin_ns: 1, end_ns: 2, op: BlockOp::Write, from, length, bytes: bytes.to_vec() }
    }

    proptest! {
        /// An image does what a device of plain bytes does.
        #[test]
        fn images_hold_what_was_written_last(
            changes in prop::collection::vec((0u64..15_000, 0usize..5_000, any::<u8>(), any::<bool>()), 0..12)
        ) {
            let (mut image, mut plain) = (BlockImage::new(20_480), vec![0; 20_480]);
            for (from, length, byte, discard) in changes {
                let range = from as usize..from as usize + length;
                let change = match discard {
                    true => BlockChange { op: BlockOp::Discard, bytes: Vec::new(), ..write(from, &vec![0; length]) },
                    false => write(from, &vec![byte; length]),
                };
                plain[range].fill(if discard { 0 } else { byte });
                image.apply(&change).unwrap();
                let log = encode_block_changes(std::slice::from_ref(&change));
                prop_assert_eq!(&decode_block_changes(&log).unwrap(), &[change]);
            }
            prop_assert_eq!(&image.read(0..20_480), &plain);
            prop_assert_eq!(BlockImage::decode(&image.encode()).unwrap(), image);
        }

        #[test]
        fn damaged_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode_block_changes(&bytes);
            let _ = BlockImage::decode(&bytes);
        }
    }

    #[test]
    fn pages_of_zeros_are_not_kept_and_nothing_is_behind_the_end() {
        let mut image = BlockImage::new(8192);
        image.write(4000, &[7; 200]).unwrap();
        assert_eq!(image.pages().map(|(page, _)| page).collect::<Vec<_>>(), [0, 1]);
        image.write(4000, &[0; 200]).unwrap();
        assert_eq!(image, BlockImage::new(8192));
        assert!(image.write(8000, &[1; 193]).is_err() && image.write(u64::MAX, &[1]).is_err());
        assert_eq!(encode_block_changes(&[write(0, &[1, 2, 3])]).len(), 35);
        assert!(decode_block_changes(&encode_block_changes(&[write(0, &[1, 2, 3])])[..34]).is_err());
    }
}
