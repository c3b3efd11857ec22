//! What a block device holds whose power was cut: everything that a flush had made durable, and of what was written
//! since the seed's choice. A controller with a cache writes in any order, and tears requests between sectors.

use super::Record;
use pocketstone_core::block::BlockOp;
use pocketstone_core::block_record::{
    BLOCK_CHANGES_FILE, BLOCK_IMAGE_FILE, BlockChange, BlockImage, PAGE_BYTES, decode_block_changes,
};
use pocketstone_core::random::Random;
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::Order;

/// A run's changes of a block device, and what it held before and after them.
#[derive(Debug, Clone)]
pub struct BlockRecorded {
    /// The contents before.
    pub before: BlockImage,
    /// All writes, flushes and discards, in the order in which the device got them.
    pub changes: Vec<BlockChange>,
    /// The contents after, as they were read.
    pub after: BlockImage,
    /// What the device writes as a whole.
    pub sector_bytes: usize,
}

impl BlockRecorded {
    /// The device after the first changes, had it no cache.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the device ends before one of them.
    pub fn image_after(&self, changes: usize) -> Result<BlockImage> {
        let mut image = self.before.clone();
        self.changes[..changes].iter().try_for_each(|change| image.apply(change)).map(|()| image)
    }

    /// Those of the first `count` changes of which nothing is certain at a time: no flush that was done began after
    /// they were done. Ascending.
    fn at_risk(&self, count: usize, time_ns: u64) -> Vec<usize> {
        let changes = &self.changes[..count];
        let flushes = changes.iter().filter(|change| change.op == BlockOp::Flush && change.end_ns <= time_ns);
        let durable_ns = flushes.map(|flush| flush.begin_ns).max().unwrap_or(0);
        let at_risk = |at: &usize| changes[*at].op != BlockOp::Flush && changes[*at].end_ns > durable_ns;
        (0..count).filter(at_risk).collect()
    }

    /// The device with all of the first `count` changes, and of those `at_risk` what the seed leaves; and what that is.
    fn left(&self, count: usize, at_risk: &[usize], seed: u64) -> Result<(BlockImage, &'static str)> {
        let mut random = Random::labelled(seed, "a device's cache");
        let way = random.below(4);
        let (mut kept, mut lost) = (0, 0);
        let mut image = self.before.clone();
        for (at, change) in self.changes[..count].iter().enumerate() {
            if at_risk.binary_search(&at).is_err() {
                image.apply(change)?;
                continue;
            }
            let whole = match way {
                0 => false,
                1 => true,
                _ => random.below(2) == 1,
            };
            if way < 3 || change.op == BlockOp::Discard {
                (kept, lost) = (kept + u64::from(whole), lost + u64::from(!whole));
                if whole {
                    image.apply(change)?;
                }
                continue;
            }
            for (sector, bytes) in change.bytes.chunks(self.sector_bytes).enumerate() {
                let stays = random.below(2) == 1;
                (kept, lost) = (kept + u64::from(stays), lost + u64::from(!stays));
                if stays {
                    image.write(change.from + (sector * self.sector_bytes) as u64, bytes)?;
                }
            }
        }
        Ok((
            image,
            if lost == 0 {
                "whole"
            } else if kept == 0 {
                "nothing"
            } else {
                "part"
            },
        ))
    }
}

impl Record for BlockRecorded {
    type Contents = BlockImage;
    const FILES: [&'static str; 2] = [BLOCK_IMAGE_FILE, BLOCK_CHANGES_FILE];

    fn read() -> Order {
        Order::ReadBlock
    }

    fn encode(contents: &BlockImage) -> Vec<u8> {
        contents.encode()
    }

    fn decode(file: &[u8]) -> Result<BlockImage> {
        BlockImage::decode(file)
    }

    fn of(before: BlockImage, log: &[u8], after: BlockImage, sector_bytes: usize) -> Result<BlockRecorded> {
        Ok(BlockRecorded { before, changes: decode_block_changes(log)?, after, sector_bytes })
    }

    fn check(&self) -> Result<()> {
        let replayed = self.image_after(self.changes.len())?;
        if replayed == self.after {
            return Ok(());
        }
        let page_bytes = PAGE_BYTES as u64;
        let bytes = |image: &BlockImage, page: u64| image.read(page * page_bytes..(page + 1) * page_bytes);
        let pages = replayed.pages().chain(self.after.pages()).map(|(page, _)| page);
        let page = pages.filter(|page| bytes(&replayed, *page) != bytes(&self.after, *page)).min();
        let what = page.map_or("their sizes differ".to_owned(), |page| format!("page {page} differs"));
        Err(Error::board(format!("the recorded changes do not lead to what the block device holds: {what}"))
            .hint("its server missed a request: the cuts would not be of this run"))
    }

    fn times_ns(&self) -> Vec<u64> {
        self.changes.iter().map(|change| change.begin_ns).collect()
    }

    fn cut(
        &self,
        at: usize,
        time_ns: u64,
        interrupted: bool,
        seed: u64,
    ) -> Result<(BlockImage, &'static str, &'static str)> {
        let count = at + usize::from(interrupted);
        let (image, left) = self.left(count, &self.at_risk(count, time_ns), seed)?;
        Ok((image, if interrupted { self.changes[at].op.name() } else { "none" }, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(times: (u64, u64), op: BlockOp, from: u64, byte: u8) -> BlockChange {
        let bytes = if op == BlockOp::Write { vec![byte; 1024] } else { Vec::new() };
        BlockChange { begin_ns: times.0, end_ns: times.1, op, from, length: 1024, bytes }
    }

    /// Two writes, a flush that begins when the first one is done, a write over the first one's place, and a flush.
    fn recorded() -> BlockRecorded {
        let before = BlockImage::new(8192);
        let changes = vec![
            change((10, 20), BlockOp::Write, 0, 1),
            change((15, 40), BlockOp::Write, 4096, 2),
            change((30, 50), BlockOp::Flush, 0, 0),
            change((60, 70), BlockOp::Write, 0, 3),
            change((80, 90), BlockOp::Flush, 0, 0),
        ];
        let mut after = before.clone();
        changes.iter().try_for_each(|change| after.apply(change)).unwrap();
        BlockRecorded { before, changes, after, sector_bytes: 512 }
    }

    #[test]
    fn what_was_done_before_a_flush_began_that_is_done_is_durable() {
        let recorded = recorded();
        // Before the flush is done nothing is; then the write that was done before it began, but not the other one.
        assert_eq!(recorded.at_risk(3, 49), [0, 1]);
        assert_eq!(recorded.at_risk(3, 50), [1]);
        assert_eq!(recorded.at_risk(4, 60), [1, 3]);
        assert_eq!(recorded.at_risk(5, 89), [1, 3]);
        assert_eq!(recorded.at_risk(5, 90), [] as [usize; 0]);
    }

    #[test]
    fn of_what_is_at_risk_some_sectors_stay_and_what_is_durable_does() {
        let recorded = recorded();
        let mut found = std::collections::BTreeSet::new();
        for seed in 0..2000 {
            let (image, kind, left) = recorded.cut(3, 60, true, seed).unwrap();
            assert_eq!(kind, "write");
            let sectors = [0, 512, 4096, 4608].map(|at| image.read(at..at + 512));
            assert!(sectors.iter().all(|sector| sector.iter().all(|byte| *byte == sector[0])), "sectors are whole");
            let bytes = sectors.map(|sector| sector[0]);
            // The place of the durable write has its bytes or those of the later one; the other one's is empty or has
            // them.
            assert!(bytes[..2].iter().all(|b| [1, 3].contains(b)) && bytes[2..].iter().all(|b| [0, 2].contains(b)));
            let expected = match bytes {
                [1, 1, 0, 0] => "nothing",
                [3, 3, 2, 2] => "whole",
                _ => "part",
            };
            assert_eq!(left, expected, "{bytes:?}");
            found.insert(bytes);
            assert_eq!(recorded.cut(3, 60, true, seed).unwrap().0, image, "the same seed leaves the same");
        }
        assert_eq!(found.len(), 16, "all that four sectors can be");
        // At the end, after the last flush, nothing is at risk.
        let (image, kind, left) = recorded.cut(5, 100, false, 7).unwrap();
        assert_eq!((image, kind, left), (recorded.after.clone(), "none", "whole"));
    }

    /// A file system on a device of large sectors relies on finding its blocks as they were written, or not at all.
    #[test]
    fn a_sector_of_4_kib_is_never_torn() {
        let before = BlockImage::new(16384);
        let write = BlockChange {
            begin_ns: 10,
            end_ns: 20,
            op: BlockOp::Write,
            from: 4096,
            length: 8192,
            bytes: vec![1; 8192],
        };
        let mut after = before.clone();
        after.apply(&write).unwrap();
        let found = |sector_bytes| {
            let recorded = BlockRecorded {
                before: before.clone(),
                changes: vec![write.clone()],
                after: after.clone(),
                sector_bytes,
            };
            let blocks = |seed| {
                let (image, _, _) = recorded.cut(0, 10, true, seed).unwrap();
                [4096, 8192].map(|at| image.read(at..at + 4096).iter().filter(|byte| **byte == 1).count())
            };
            (0..500).map(blocks).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(found(4096), [[0, 0], [0, 4096], [4096, 0], [4096, 4096]].into());
        assert!(found(512).iter().flatten().any(|bytes| bytes % 4096 != 0));
    }

    #[test]
    fn a_record_that_misses_a_write_is_refused_with_the_page() {
        let mut recorded = recorded();
        recorded.check().unwrap();
        recorded.changes.remove(1);
        assert!(recorded.check().unwrap_err().chain().contains("page 1 differs"));
    }
}
