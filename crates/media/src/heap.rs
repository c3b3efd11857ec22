//! A region in process memory, for tests and for volumes that need not outlive the process.

use crate::{Persistence, Region};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Anonymous memory, aligned to 4 KiB. Flushes do nothing, since nothing survives.
pub struct Heap {
    base: *mut u8,
    layout: Layout,
}

// SAFETY: the memory is owned; who stores to it promises that no other thread uses the same bytes.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    /// A zeroed region of `bytes`.
    pub fn new(bytes: usize) -> Heap {
        let layout = Layout::from_size_align(bytes.max(1), 4096).expect("a region fits the address space");
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Heap { base, layout }
    }

    /// A region initialized with a copy of `image`.
    pub fn from_image(image: &[u8]) -> Heap {
        let heap = Heap::new(image.len());
        // SAFETY: nobody else knows of it yet.
        unsafe { heap.write(0, image) };
        heap
    }

    fn place(&self, at: u64, bytes: u64) -> *mut u8 {
        let end = at.checked_add(bytes).expect("offset overflows");
        assert!(end <= self.bytes(), "{at}+{bytes} is outside the region");
        // SAFETY: just checked to be inside the allocation.
        unsafe { self.base.add(at as usize) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.base, self.layout) }
    }
}

// SAFETY: the allocation is this value's own and stays until it is dropped; only the unsafe methods store to it.
unsafe impl Region for Heap {
    fn bytes(&self) -> u64 {
        self.layout.size() as u64
    }

    fn base(&self) -> *const u8 {
        self.base
    }

    fn map_bytes(&self) -> u64 {
        1
    }

    fn persistence(&self) -> Persistence {
        Persistence::Volatile
    }

    fn describe(&self) -> String {
        "memory of this process".into()
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        let from = self.place(at, into.len() as u64);
        // SAFETY: `place` checked the range; whoever stores to it has promised that nobody reads it meanwhile; `into`
        // is memory of its own.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    unsafe fn write(&self, at: u64, from: &[u8]) {
        let to = self.place(at, from.len() as u64);
        // SAFETY: `place` checked the range, and the caller promises that there is no reference to it: so `from` is not
        // in it.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    unsafe fn store_u64(&self, at: u64, value: u64) {
        assert!(at % 8 == 0, "{at} is not aligned to a word");
        let to = self.place(at, 8).cast::<u64>();
        // SAFETY: `place` checked the range, the base is aligned to 4 KiB and `at` to 8.
        unsafe { to.write_volatile(value.to_le()) }
    }

    unsafe fn stream(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.write(at, from) };
    }

    unsafe fn zero(&self, at: u64, bytes: u64) {
        let to = self.place(at, bytes);
        // SAFETY: `place` checked the range; the caller promises that it is used by nobody.
        unsafe { std::ptr::write_bytes(to, 0, bytes as usize) }
    }

    fn flush(&self, _at: u64, _bytes: u64) {}

    fn fence(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}
