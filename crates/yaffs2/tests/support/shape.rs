//! Chips and options that tests run with.

use pocketstone_fstest::{Decoder, Has};
use pocketstone_media::nand::{Geometry, Nand, SimulatedNand, SimulatedOptions};
use pocketstone_yaffs2::{OpenOptions, Volume};

/// The time that it always is: a day of 2023.
pub const NOW_S: i64 = 1_700_000_000;

#[derive(Debug, Clone)]
pub struct Shape {
    pub geometry: Geometry,
    pub chip: SimulatedOptions,
    pub options: OpenOptions,
}

impl Shape {
    /// A chip with so many blocks of so many pages; pages of 512 + 16 bytes have their tags in them.
    pub fn new(blocks: u32, pages_per_block: u32, page_bytes: u32) -> Shape {
        let inband_tags = page_bytes == 528;
        let spare_bytes = if inband_tags { 0 } else { 28 };
        let options = OpenOptions::default()
            .inband_tags(inband_tags)
            .fixed_clock_ns(NOW_S * 1_000_000_000)
            .empty_lost_and_found(false);
        let geometry = Geometry { page_bytes, spare_bytes, pages_per_block, blocks };
        Shape { geometry, chip: SimulatedOptions::default(), options }
    }

    pub fn with(mut self, change: impl FnOnce(&mut Shape)) -> Shape {
        change(&mut self);
        self
    }

    /// Every kind of chip and mount that these tests know.
    pub fn all() -> Vec<Shape> {
        vec![
            Shape::new(64, 16, 2048),
            Shape::new(64, 32, 1024),
            Shape::new(64, 8, 528),
            Shape::new(24, 8, 528).with(|shape| shape.options.cache_chunks = 0),
            Shape::new(24, 16, 1024).with(|shape| {
                (shape.options.tags_ecc, shape.options.summary) = (false, false);
                shape.geometry.spare_bytes = 16;
            }),
            Shape::new(30, 8, 1024).with(|shape| shape.options.cache_chunks = 2),
            Shape::new(64, 8, 2048).with(|shape| {
                (shape.options.checkpoint_write, shape.options.lazy_loading) = (false, false);
                shape.options.refresh_period = 3;
            }),
            Shape::new(64, 16, 1024).with(|shape| {
                shape.chip.factory_bad = vec![0, 7, 63];
                shape.chip.weak_page_one_in = 200;
            }),
            Shape::new(16, 8, 528),
            Shape::new(20, 8, 1024),
            Shape::new(200, 8, 1024).with(|shape| {
                shape.chip.program_failure_one_in = 2000;
                shape.chip.erase_failure_one_in = 300;
                shape.chip.weak_page_one_in = 1000;
            }),
        ]
    }

    pub fn make(&self, seed: u64) -> SimulatedNand {
        SimulatedNand::new(self.geometry, self.chip.clone().seed(seed))
    }

    /// Bytes of data in a chunk.
    pub fn chunk_bytes(&self) -> u64 {
        u64::from(self.geometry.page_bytes) - if self.options.inband_tags { 16 } else { 0 }
    }

    /// What YAFFS2 has and has not.
    pub fn has(&self) -> Has {
        Has {
            all_of_linux: false,
            page_bytes: self.chunk_bytes(),
            target_max: 159,
            // They share what the header leaves of its page.
            xattr_bytes: Some(self.chunk_bytes() - 512),
            guards_user_xattrs: false,
            now_s: Some(NOW_S),
        }
    }

    /// Operations at the edges of chunks.
    pub fn decoder(&self) -> Decoder {
        let chunk = self.chunk_bytes();
        let edges = [1, 2, 3, 5, 9, 17].map(|chunks| chunks * chunk);
        let few = [1, 8, 100, chunk - 1, chunk, chunk, chunk + 1];
        let lengths = [&few[..], &[2 * chunk, 3 * chunk, 5 * chunk + 7, 12 * chunk]].concat();
        let decoder = Decoder::new(self.has(), chunk, &edges, &lengths, 18 * chunk);
        Decoder { xattr_bytes: vec![0, 5, 40, 200, chunk], ..decoder }
    }

    pub fn mount(&self, chip: &SimulatedNand) -> pocketstone_vfs::Result<Volume> {
        self.mount_with(Box::new(chip.clone()), &self.options)
    }

    pub fn mount_with(&self, chip: Box<dyn Nand>, options: &OpenOptions) -> pocketstone_vfs::Result<Volume> {
        Volume::open(chip, options)
    }

    /// As [`Shape::mount`], by a scan whether there is a checkpoint or not.
    pub fn mount_by_scan(&self, chip: &SimulatedNand) -> pocketstone_vfs::Result<Volume> {
        self.mount_with(Box::new(chip.clone()), &self.options.clone().checkpoint_read(false))
    }

    /// Programs and erases that a chip has seen.
    pub fn changes(chip: &SimulatedNand) -> u64 {
        let counters = chip.counters();
        counters.programs + counters.erases
    }

    /// Chip and options, for messages.
    pub fn describe(&self) -> String {
        format!("{} with {:?}", self.make(0).describe(), self.options)
    }
}
