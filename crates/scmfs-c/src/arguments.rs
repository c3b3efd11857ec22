//! What C hands over, as references. Each function here checks what can be checked; the header tells callers the rest.

use crate::error::{Failure, Result};
use std::ffi::{CStr, c_char, c_void};

/// The object behind a pointer.
///
/// # Safety
/// The pointer is NULL, or the object lives as long as `'a` and is changed by nobody meanwhile.
#[inline]
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, null: &'static str) -> Result<&'a T> {
    if !pointer.is_aligned() {
        return Err(Failure::Argument("a pointer is not aligned"));
    }
    // SAFETY: the caller's promise; it is aligned.
    unsafe { pointer.as_ref() }.ok_or(Failure::Argument(null))
}

/// Where a result goes.
///
/// # Safety
/// The pointer is NULL, or it can be written to as long as `'a`, and is used by nobody else meanwhile.
pub(crate) unsafe fn place<'a, T>(pointer: *mut T, null: &'static str) -> Result<&'a mut T> {
    if !pointer.is_aligned() {
        return Err(Failure::Argument("a pointer is not aligned"));
    }
    // SAFETY: the caller's promise; it is aligned.
    unsafe { pointer.as_mut() }.ok_or(Failure::Argument(null))
}

/// Takes the handle out of a variable and leaves NULL there, so that closing it once more does nothing.
///
/// # Safety
/// As [`place`]; the variable holds NULL, or a handle that a function of this library has made, that is not closed, and
/// that is in use by no call.
pub(crate) unsafe fn taken<T>(variable: *mut *mut T) -> Result<Option<Box<T>>> {
    if variable.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let handle = std::mem::replace(unsafe { place(variable, "") }?, std::ptr::null_mut());
    // SAFETY: handles come from `Box::into_raw`, and this one from nowhere else: the variable no longer has it.
    Ok((!handle.is_null()).then(|| unsafe { Box::from_raw(handle) }))
}

/// A path, or another name: the bytes before the zero.
///
/// # Safety
/// The pointer is NULL, or leads to bytes that end with a zero and stay as they are as long as `'a`.
pub(crate) unsafe fn name<'a>(text: *const c_char, null: &'static str) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(Failure::Argument(null));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// An array, which may be NULL if it is empty.
///
/// # Safety
/// As [`reference`], for each of the elements.
#[inline]
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize) -> Result<&'a [T]> {
    check::<T>(first, count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller's promise; it is aligned, not NULL and not larger than an object can be.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Bytes to be written to a file.
///
/// # Safety
/// As [`array`].
#[inline]
pub(crate) unsafe fn data<'a>(data: *const c_void, length: usize) -> Result<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe { array(data.cast(), length) }
}

/// Room for bytes that are read.
///
/// # Safety
/// As [`place`], for each of the bytes. They may never have been written to: C's memory holds some bytes all the same,
/// and they are only overwritten here.
#[inline]
pub(crate) unsafe fn room<'a>(first: *mut c_void, length: usize) -> Result<&'a mut [u8]> {
    check::<u8>(first.cast(), length)?;
    if length == 0 {
        return Ok(&mut []);
    }
    // SAFETY: the caller's promise; it is not NULL and not larger than an object can be.
    Ok(unsafe { std::slice::from_raw_parts_mut(first.cast(), length) })
}

#[inline]
fn check<T>(first: *const T, count: usize) -> Result<()> {
    let fits = count.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok());
    match () {
        () if !fits => Err(Failure::Argument("a length is greater than any object's")),
        () if count > 0 && first.is_null() => Err(Failure::Argument("data is NULL, and its length is not 0")),
        () if !first.is_aligned() => Err(Failure::Argument("a pointer is not aligned")),
        () => Ok(()),
    }
}

/// Refuses flags that a function does not know.
pub(crate) fn flags(given: u32, known: u32) -> Result<()> {
    match given & !known {
        0 => Ok(()),
        _ => Err(Failure::Argument("flags has a flag that this function does not take")),
    }
}

/// Permission bits.
pub(crate) fn permissions(mode: u32) -> Result<u16> {
    let bits = u16::try_from(mode).ok().filter(|bits| *bits <= 0o7777);
    bits.ok_or(Failure::Argument("mode has more than the bits 07777"))
}
