//! A region that tells an observer of every load and store: the exact stream of addresses that operations touch.

use crate::{Persistence, Region, Result, Shared};

/// A load or store of the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// Offset in the region.
    pub at: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Address of the memory that they are copied to or from; `None` where there is none, as when zeros are stored.
    pub buffer: Option<u64>,
    /// Whether it stores.
    pub store: bool,
}

/// Who is told, by the thread that touches, right before it does.
pub type Observer = Box<dyn Fn(Touch) + Send + Sync>;

/// A region and its observer. It has no windows: loads through them would not be seen.
pub struct Watched<R> {
    region: R,
    observer: Observer,
}

impl<R: Region> Watched<R> {
    /// The region, watched.
    pub fn new(region: R, observer: Observer) -> Self {
        Watched { region, observer }
    }

    fn store(&self, at: u64, from: &[u8]) {
        let buffer = Some(from.as_ptr() as u64);
        (self.observer)(Touch { at, bytes: from.len() as u64, buffer, store: true });
    }
}

// SAFETY: everything is the inner region's.
unsafe impl<R: Region> Region for Watched<R> {
    fn bytes(&self) -> u64 {
        self.region.bytes()
    }

    fn base(&self) -> *const u8 {
        self.region.base()
    }

    fn plain_reads(&self) -> bool {
        false
    }

    fn map_bytes(&self) -> u64 {
        self.region.map_bytes()
    }

    fn persistence(&self) -> Persistence {
        self.region.persistence()
    }

    fn shared(&self) -> Option<Shared<'_>> {
        self.region.shared()
    }

    fn name(&self) -> String {
        self.region.name()
    }

    fn describe(&self) -> String {
        format!("{}, watched", self.region.describe())
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        let buffer = Some(into.as_ptr() as u64);
        (self.observer)(Touch { at, bytes: into.len() as u64, buffer, store: false });
        self.region.read(at, into);
    }

    unsafe fn write(&self, at: u64, from: &[u8]) {
        self.store(at, from);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.write(at, from) }
    }

    unsafe fn store_u64(&self, at: u64, value: u64) {
        (self.observer)(Touch { at, bytes: 8, buffer: None, store: true });
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.store_u64(at, value) }
    }

    unsafe fn store_u32s(&self, at: u64, values: &[u32]) {
        (self.observer)(Touch { at, bytes: 4 * values.len() as u64, buffer: None, store: true });
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.store_u32s(at, values) }
    }

    unsafe fn stream(&self, at: u64, from: &[u8]) {
        self.store(at, from);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.stream(at, from) }
    }

    unsafe fn stream_fresh(&self, at: u64, from: &[u8]) {
        self.store(at, from);
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.stream_fresh(at, from) }
    }

    unsafe fn zero(&self, at: u64, bytes: u64) {
        (self.observer)(Touch { at, bytes, buffer: None, store: true });
        // SAFETY: the caller's promise, handed on.
        unsafe { self.region.zero(at, bytes) }
    }

    fn flush(&self, at: u64, bytes: u64) {
        self.region.flush(at, bytes);
    }

    fn fence(&self) {
        self.region.fence();
    }

    fn sync(&self) -> Result<()> {
        self.region.sync()
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        self.region.grow(bytes)
    }

    fn touch(&self, at: u64, bytes: u64) {
        self.region.touch(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heap;
    use std::sync::{Arc, Mutex};

    #[test]
    fn every_way_to_load_and_store_is_told_and_done() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let keeper = told.clone();
        let region = Watched::new(Heap::new(4096), Box::new(move |touch| keeper.lock().unwrap().push(touch)));
        let (from, mut into) = ([7; 16], [0; 16]);
        // SAFETY: one thread, and no reference into the region.
        unsafe {
            region.write(0, &from);
            region.stream(16, &from);
            region.stream_fresh(32, &from);
            region.store_u64(48, 1);
            region.store_u32s(56, &[2]);
            region.zero(8, 4);
        }
        region.read(0, &mut into);
        assert_eq!(into, [7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 7, 7, 7, 7]);
        let (out, back) = (Some(from.as_ptr() as u64), Some(into.as_ptr() as u64));
        let store = |at, bytes, buffer| Touch { at, bytes, buffer, store: true };
        let expected = [
            store(0, 16, out),
            store(16, 16, out),
            store(32, 16, out),
            store(48, 8, None),
            store(56, 4, None),
            store(8, 4, None),
            Touch { at: 0, bytes: 16, buffer: back, store: false },
        ];
        assert_eq!(*told.lock().unwrap(), expected);
        assert!(!region.plain_reads() && region.window(&[]).is_none());
    }
}
