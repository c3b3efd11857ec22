//! What the WebAssembly module offers: JSON in its memory, the answer in its memory.

use super::Held;
use std::cell::RefCell;

thread_local! {
    /// What the page gave. A module has one thread.
    static HELD: RefCell<Held> = RefCell::default();
}

/// Room for `len` bytes, which whoever asked writes a request to.
#[unsafe(no_mangle)]
pub extern "C" fn take(len: usize) -> *mut u8 {
    Box::into_raw(vec![0u8; len].into_boxed_slice()).cast()
}

/// Gives room back.
///
/// # Safety
/// `at` and `len` are of one [`take`], or of one [`answer`] with its four bytes, and are given back once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn give_back(at: *mut u8, len: usize) {
    // SAFETY: by this function's contract the bytes are a boxed slice of this length that nobody has freed.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, len)) });
}

/// Answers the request in the `len` bytes at `at`, which stay the caller's. The result is the answer's length in
/// four bytes, the lowest first, and then the answer; it is given back with its length and 4.
///
/// # Safety
/// `at` and `len` are of one [`take`] that was not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn answer(at: *const u8, len: usize) -> *mut u8 {
    // SAFETY: by this function's contract these bytes are allocated, and were set when they were.
    let request = unsafe { std::slice::from_raw_parts(at, len) };
    let text = HELD.with_borrow_mut(|held| held.answer(&String::from_utf8_lossy(request)));
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    Box::into_raw(bytes.into_boxed_slice()).cast()
}
