//! Memory that outlives the volume on it, so that a test can look at what a volume left.

use pocketstone_media::{Heap, Persistence, Region, Tracker};
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

    /// Changes bytes behind a volume's back, as damage does.
    pub fn overwrite(&self, at: u64, bytes: &[u8]) {
        // SAFETY: no test holds a view of a file, or runs another thread, while it damages what that is on.
        unsafe { self.0.write(at, bytes) };
    }

    pub fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.0.bytes() as usize];
        self.0.read(0, &mut image);
        image
    }
}

// SAFETY: the region inside stays until the last owner is dropped, and nobody has two volumes on it at a time.
unsafe impl Region for Shared {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn base(&self) -> *const u8 {
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

    fn tracker(&self) -> Option<&Arc<Tracker>> {
        self.0.tracker()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.0.read(at, into);
    }

    unsafe fn write(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.write(at, from) };
    }

    unsafe fn store_u64(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.store_u64(at, value) };
    }

    unsafe fn stream(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.stream(at, from) };
    }

    unsafe fn zero(&self, at: u64, bytes: u64) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.zero(at, bytes) };
    }

    fn flush(&self, at: u64, bytes: u64) {
        self.0.flush(at, bytes);
    }

    fn fence(&self) {
        self.0.fence();
    }
}
