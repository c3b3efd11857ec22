//! Memory that outlives the volume on it, so that a test can look at what a volume left.

use pocketstone_media::{Heap, Persistence, Region};
use std::sync::Arc;

/// A region in memory that several owners can hold; at most one of them has it open at a time.
#[derive(Clone)]
pub struct Shared(Arc<dyn Region>);

impl Shared {
    pub fn new(bytes: u64) -> Shared {
        Shared(Arc::new(Heap::new(bytes as usize)))
    }

    pub fn from_image(image: &[u8]) -> Shared {
        Shared(Arc::new(Heap::from_image(image)))
    }

    /// Of another kind of memory.
    pub fn of(region: impl Region + 'static) -> Shared {
        Shared(Arc::new(region))
    }

    /// For `Volume::open` and the like, which take their region over.
    pub fn region(&self) -> Box<dyn Region> {
        Box::new(self.clone())
    }

    pub fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.0.bytes() as usize];
        self.0.read(0, &mut image);
        image
    }
}

impl Region for Shared {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn base(&self) -> *mut u8 {
        self.0.base()
    }

    fn plain_reads(&self) -> bool {
        self.0.plain_reads()
    }

    fn map_bytes(&self) -> u64 {
        self.0.map_bytes()
    }

    // As the medium that the file system is for: what is fenced stays.
    fn persistence(&self) -> Persistence {
        Persistence::PowerSafe
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.0.read(at, into);
    }

    fn write(&self, at: u64, from: &[u8]) {
        self.0.write(at, from);
    }

    fn store_u64(&self, at: u64, value: u64) {
        self.0.store_u64(at, value);
    }

    fn stream(&self, at: u64, from: &[u8]) {
        self.0.stream(at, from);
    }

    fn zero(&self, at: u64, bytes: u64) {
        self.0.zero(at, bytes);
    }

    fn flush(&self, at: u64, bytes: u64) {
        self.0.flush(at, bytes);
    }

    fn fence(&self) {
        self.0.fence();
    }
}
