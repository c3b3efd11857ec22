//! Managed flash: a block device behind a controller of its own, and how long its commands take.

pub use crate::block_op::BlockOp;
use crate::translation::Translation;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A block device of a virtual board, as its profile describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockDevice {
    /// Its size in MiB.
    pub mib: u64,
    /// How many commands it works on at once; their data still go over its one bus.
    pub commands: usize,
    /// How many requests the kernel may hand to it. Others wait where the I/O scheduler orders and merges them.
    pub queue_depth: u32,
    /// Largest request in KiB.
    pub request_kib: u32,
    /// What it addresses, and writes as a whole: a cut of the power never leaves a part of a sector.
    #[serde(default = "usual_sector_bytes", skip_serializing_if = "is_usual_sector")]
    pub sector_bytes: u32,
    /// Times of reading.
    pub read: Times,
    /// Times of writing.
    pub write: Times,
    /// Times of emptying its cache.
    pub flush: Times,
    /// Times of discarding.
    pub discard: Times,
    /// The layer between it and its chip, whose operations come on top of those times. `None`: the times are of the
    /// whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation: Option<Translation>,
}

/// How long a command takes that is alone: a part for the command, and one for its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// The part that is there for any number of bytes, in microseconds.
    pub command_us: u64,
    /// Millions of bytes a second; `None`: bytes take no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub megabytes_per_s: Option<u64>,
}

impl Times {
    /// The part for the command.
    pub fn command_ns(&self) -> u64 {
        self.command_us * 1000
    }

    /// The part for so many bytes.
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        self.megabytes_per_s.map_or(0, |rate| bytes * 1000 / rate)
    }
}

/// Sizes of requests that times are checked for, in bytes.
pub const SIZES: [u64; 9] = [4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576];

/// The file in the root of a virtual board that describes its block device, as JSON.
pub const BLOCK_FILE: &str = "block.json";

/// Sizes of sectors: of eMMC and SD, and of UFS and of eMMC with large sectors (`DATA_SECTOR_SIZE` 1).
pub const SECTOR_SIZES: [u32; 2] = [512, 4096];

fn usual_sector_bytes() -> u32 {
    SECTOR_SIZES[0]
}

fn is_usual_sector(bytes: &u32) -> bool {
    *bytes == usual_sector_bytes()
}

/// The fewest requests that the kernel can be told to hand to a device at once (BLKDEV_MIN_RQ).
pub const LEAST_QUEUE_DEPTH: u32 = 4;
/// The most that it hands to a network block device.
pub const MOST_QUEUE_DEPTH: u32 = 128;

impl BlockDevice {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.mib << 20
    }

    /// The times of a command.
    pub fn times(&self, op: BlockOp) -> Times {
        match op {
            BlockOp::Read => self.read,
            BlockOp::Write => self.write,
            BlockOp::Flush => self.flush,
            BlockOp::Discard => self.discard,
        }
    }

    /// How long a command takes that is alone; with a translation layer, as [`Translation::least_ns`] has it.
    pub fn alone_ns(&self, op: BlockOp, bytes: u64) -> u64 {
        let times = self.times(op);
        let chip_ns = self.translation.map_or(0, |translation| translation.least_ns(op, bytes));
        times.command_ns() + times.transfer_ns(bytes) + chip_ns
    }

    /// Checks that there can be such a device.
    ///
    /// # Errors
    /// `ErrorKind::User` if a number is out of range; the hint says the range.
    pub fn check(&self) -> Result<()> {
        let between = |what: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(Error::user(format!("[block] {what} = {value} is not supported"))
                .hint(format!("set it between {least} and {most}"))),
        };
        between("mib", self.mib, 16, 2048)?;
        between("commands", self.commands as u64, 1, 64)?;
        let (least, most) = (u64::from(LEAST_QUEUE_DEPTH), u64::from(MOST_QUEUE_DEPTH));
        between("queue_depth", self.queue_depth.into(), least, most)?;
        between("request_kib", self.request_kib.into(), 4, 1024)?;
        if !SECTOR_SIZES.contains(&self.sector_bytes) {
            let [small, large] = SECTOR_SIZES;
            return Err(Error::user(format!("[block] sector_bytes = {} is not supported", self.sector_bytes))
                .hint(format!("set it to {small} or {large}")));
        }
        for op in BlockOp::ALL {
            let (times, name) = (self.times(op), op.name());
            between(&format!("{name}.command_us"), times.command_us, 1, 10_000_000)?;
            if let Some(rate) = times.megabytes_per_s {
                between(&format!("{name}.megabytes_per_s"), rate, 1, 100_000)?;
            }
        }
        self.translation.map_or(Ok(()), |translation| translation.check(self.bytes()))
    }
}

/// What a device has taken on: when each of its commands will be done.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// When each of the places for a command is free.
    free_ns: Vec<u64>,
    /// When the bus is.
    bus_free_ns: u64,
    /// When the chip below a translation layer is.
    chip_free_ns: u64,
}

impl Schedule {
    /// Of an idle device.
    pub fn new(device: &BlockDevice) -> Schedule {
        Schedule { free_ns: vec![0; device.commands], bus_free_ns: 0, chip_free_ns: 0 }
    }

    /// Takes a command on at `now_ns` for which the chip below a translation layer is at work for `chip_ns`, and says
    /// when it is done.
    ///
    /// Commands begin in the order they come, as many at once as the device has places; the chip works for one of them
    /// after the other, and so do their bytes go over the bus. A flush begins when all before it are done, and others
    /// begin when it is.
    pub fn take(&mut self, device: &BlockDevice, op: BlockOp, bytes: u64, chip_ns: u64, now_ns: u64) -> u64 {
        let times = device.times(op);
        let place = self.free_ns.iter().enumerate().min_by_key(|(_, free)| **free).map_or(0, |(place, _)| place);
        let begin_ns = match op {
            BlockOp::Flush => self.free_ns.iter().copied().max().unwrap_or(0),
            _ => self.free_ns[place],
        };
        let mut ready_ns = begin_ns.max(now_ns) + times.command_ns();
        if chip_ns > 0 {
            ready_ns = ready_ns.max(self.chip_free_ns) + chip_ns;
            self.chip_free_ns = ready_ns;
        }
        let done_ns = match times.transfer_ns(bytes) {
            0 => ready_ns,
            transfer_ns => {
                self.bus_free_ns = ready_ns.max(self.bus_free_ns) + transfer_ns;
                self.bus_free_ns
            }
        };
        match op {
            BlockOp::Flush => self.free_ns.fill(done_ns),
            _ => self.free_ns[place] = done_ns,
        }
        done_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(commands: usize) -> BlockDevice {
        let times = |command_us, rate| Times { command_us, megabytes_per_s: rate };
        BlockDevice {
            mib: 64,
            commands,
            queue_depth: 8,
            request_kib: 512,
            sector_bytes: 512,
            read: times(100, Some(100)),
            write: times(200, Some(50)),
            flush: times(1000, None),
            discard: times(300, None),
            translation: None,
        }
    }

    #[test]
    fn a_command_alone_takes_its_part_and_that_of_its_bytes() {
        let device = device(1);
        // 100 MB/s are 10 ns a byte, 50 MB/s are 20.
        assert_eq!(device.alone_ns(BlockOp::Read, 4096), 100_000 + 40_960);
        assert_eq!(device.alone_ns(BlockOp::Write, 1 << 20), 200_000 + 20_971_520);
        assert_eq!(device.alone_ns(BlockOp::Flush, 0), 1_000_000);
        let mut schedule = Schedule::new(&device);
        assert_eq!(schedule.take(&device, BlockOp::Read, 4096, 0, 7), 140_967);
        // It waits for the one before it.
        assert_eq!(schedule.take(&device, BlockOp::Read, 4096, 0, 8), 140_967 + 140_960);
        // One that comes later does not.
        assert_eq!(schedule.take(&device, BlockOp::Discard, 4096, 0, 1_000_000), 1_300_000);
    }

    #[test]
    fn commands_overlap_but_their_bytes_do_not() {
        let device = device(2);
        let mut schedule = Schedule::new(&device);
        let done: Vec<u64> = (0..4).map(|_| schedule.take(&device, BlockOp::Read, 4096, 0, 0)).collect();
        // Two begin at 0 and are ready at 100 us; their 40.96 us on the bus follow each other. Each of the next two
        // begins when one of those is done, and is ready 100 us later.
        assert_eq!(done, [140_960, 181_920, 281_920, 322_880]);
        // A flush waits for all, and all others for it.
        assert_eq!(schedule.take(&device, BlockOp::Flush, 0, 0, 0), 1_322_880);
        assert_eq!(schedule.take(&device, BlockOp::Discard, 4096, 0, 0), 1_622_880);
        assert_eq!(schedule.take(&device, BlockOp::Discard, 4096, 0, 0), 1_622_880);
    }

    #[test]
    fn a_chip_below_a_translation_layer_works_for_one_command_at_a_time() {
        let translation =
            Translation { page_kib: 4, block_pages: 64, spare_percent: 10, read_us: 50, program_us: 400, erase_us: 1 };
        let device = BlockDevice { translation: Some(translation), ..device(2) };
        device.check().unwrap();
        // 100 us, one page of 50 us, and 4096 bytes at 10 ns.
        assert_eq!(device.alone_ns(BlockOp::Read, 4096), 190_960);
        assert_eq!(device.alone_ns(BlockOp::Write, 4097), 200_000 + 800_000 + 81_940);
        assert_eq!(device.alone_ns(BlockOp::Discard, 4096), 300_000);
        let mut schedule = Schedule::new(&device);
        let done: Vec<u64> = (0..2).map(|_| schedule.take(&device, BlockOp::Read, 4096, 50_000, 0)).collect();
        // Both begin at 0 and could have the chip at 100 us: the second one has it 50 us later, and the bus after that.
        assert_eq!(done, [190_960, 240_960]);
        // One that needs no chip does not wait for it.
        assert_eq!(schedule.take(&device, BlockOp::Read, 4096, 1_000_000, 300_000), 1_440_960);
        assert_eq!(schedule.take(&device, BlockOp::Discard, 4096, 0, 300_000), 600_000);
        let few = Translation { spare_percent: 1, block_pages: 4096, ..translation };
        assert!(BlockDevice { translation: Some(few), ..device }.check().is_err());
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        device(1).check().unwrap();
        let cure = |device: BlockDevice| device.check().unwrap_err().cure().unwrap().to_owned();
        assert!(cure(BlockDevice { queue_depth: 2, ..device(1) }).contains("between 4 and 128"));
        assert!(cure(BlockDevice { commands: 0, ..device(1) }).contains("between 1 and 64"));
        BlockDevice { sector_bytes: 4096, ..device(1) }.check().unwrap();
        assert!(cure(BlockDevice { sector_bytes: 1024, ..device(1) }).contains("512 or 4096"));
        let still = Times { command_us: 1, megabytes_per_s: Some(0) };
        assert!(cure(BlockDevice { discard: still, ..device(1) }).contains("between 1 and 100000"));
    }
}
