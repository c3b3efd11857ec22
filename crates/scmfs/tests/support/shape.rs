//! Volumes of the sizes that the tests use.

use super::region::Shared;
use pocketstone_fstest::{Decoder, Has, Model};
use pocketstone_scmfs::{CreateOptions, Geometry, OpenOptions, Operations, Report, Threshold, Volume, check};

#[derive(Debug, Clone)]
pub struct Shape {
    pub region_bytes: u64,
    pub create: CreateOptions,
    pub open: OpenOptions,
    /// Sizes and offsets that generated operations use stay below this.
    pub reach_bytes: u64,
    /// Whether a volume of this shape can be full.
    pub tight: bool,
}

impl Shape {
    /// Pages so small that every boundary is crossed within a few KiB.
    pub fn tiny(region_bytes: u64) -> Shape {
        let create = CreateOptions::default()
            .max_bytes(region_bytes)
            .inodes(16)
            .threshold(Threshold::Bytes(1024))
            .geometry(Geometry::new(256, 2048))
            .uuid(*b"pocketstone-test")
            .label("test");
        let open = OpenOptions::default().null_files(0).fixed_clock_ns(1);
        Shape { region_bytes, create, open, reach_bytes: 6 * 2048, tight: true }
    }

    /// Tiny pages, but room for everything that generated operations can make.
    pub fn roomy() -> Shape {
        let mut shape = Shape::tiny(4 << 20);
        shape.create.inodes = Some(256);
        shape.tight = false;
        shape
    }

    /// The page sizes and the threshold that volumes have by default.
    pub fn normal() -> Shape {
        let create = CreateOptions::default().zeroed(true).uuid(*b"pocketstone-test");
        let open = OpenOptions::default().fixed_clock_ns(1);
        Shape { region_bytes: 192 << 20, create, open, reach_bytes: 5 << 20, tight: false }
    }

    pub fn with_null_files(mut self, null_files: u32) -> Shape {
        self.open.null_files = null_files;
        self
    }

    /// Contents with checksums: every read of a page that has a wrong one fails.
    pub fn with_checksums(mut self) -> Shape {
        self.create.checksums = true;
        self
    }

    pub fn page_bytes(&self) -> u64 {
        u64::from(self.create.geometry.page_bytes)
    }

    pub fn huge_bytes(&self) -> u64 {
        u64::from(self.create.geometry.huge_bytes)
    }

    pub fn threshold_bytes(&self) -> u64 {
        match self.create.threshold {
            Threshold::Bytes(bytes) => bytes,
            Threshold::Never => self.huge_bytes(),
        }
    }

    pub fn has(&self) -> Has {
        Has { page_bytes: self.page_bytes(), ..Has::all() }
    }

    /// Operations at the edges of pages, huge pages and the threshold.
    pub fn decoder(&self) -> Decoder {
        let (page, huge, threshold) = (self.page_bytes(), self.huge_bytes(), self.threshold_bytes());
        let edges = [page, 2 * page, 5 * page, threshold, huge, 2 * huge, self.reach_bytes];
        let mut lengths = vec![1, 8, 63, 64, 100, page - 1, page, page + 1, 3 * page, threshold, threshold + 1];
        // Writes of whole huge pages, as long as that stays cheap.
        lengths.extend([huge, huge + page].into_iter().filter(|length| *length <= 64 << 10));
        Decoder::new(self.has(), page, &edges, &lengths, self.reach_bytes)
    }

    pub fn make(&self) -> Shared {
        let shared = Shared::new(self.region_bytes);
        Volume::create(shared.region(), &self.create).expect("a volume is created");
        shared
    }

    pub fn open(&self, shared: &Shared) -> Volume {
        Volume::open(shared.region(), &self.open).expect("a volume opens")
    }

    /// A new volume, open, and the model of it.
    pub fn start(&self) -> (Shared, Volume, Model) {
        let shared = self.make();
        let volume = self.open(&shared);
        let root = volume.attributes(pocketstone_scmfs::ROOT).expect("the root has attributes");
        let model = Model::new(self.has(), root.permissions, root.uid, root.gid);
        (shared, volume, model)
    }
}

/// fsck, which must be able to read the volume and find nothing.
pub fn expect_sound(shared: &Shared) -> Report {
    let report = check(shared.region()).expect("fsck reads the volume");
    assert!(report.findings.is_empty(), "fsck found {:#?}", report.findings);
    report
}
