//! Functions of libc that go on by a function of this library, which sees the call and makes it by what was there
//! before: a jump is written over the beginning of each, and the instructions that it takes the place of are copied. So
//! calls of libc itself are seen too, and of those who ask for a function by dlsym(3).
//!
//! ```text
//! function:  [endbr64]  jmp slot   ...rest
//! slot:      jmp *address of the function here
//! slot + 16: the instructions, and jmp *rest
//! ```

use crate::code::Functions;
use crate::instructions::{Kind, decode};
use crate::raw;
use crate::symbols::Libc;
use core::ffi::{CStr, c_void};

/// What any of them is called as: it takes as many of these as it wants.
pub type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize, usize) -> isize;

const PAGE: usize = 4096;
const SLOT_BYTES: usize = 64;
const COPY_AT: usize = 16;
/// `jmp` to what lies within 2 GiB.
const NEAR_BYTES: usize = 5;
/// `jmp *0(%rip)`, and the address.
const FAR_BYTES: usize = 14;
const ENDBR64: [u8; 4] = [0xF3, 0x0F, 0x1E, 0xFA];
/// No beginning has more: a jump's bytes, and the longest instruction.
const BEGINNING_MOST: usize = NEAR_BYTES + 15;

/// A function to see: its name, its version if it has several, and what is called instead.
pub struct Wanted {
    pub name: &'static CStr,
    pub version: Option<&'static CStr>,
    pub by: *const c_void,
}

/// One that can be hooked.
#[derive(Clone, Copy)]
struct Beginning {
    /// Where the jump goes.
    at: usize,
    /// Bytes of whole instructions there.
    bytes: usize,
}

/// Looks whether the beginning of a function can be moved.
fn beginning(code: &[u8]) -> Option<Beginning> {
    let kept = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let mut bytes = 0;
    while bytes < NEAR_BYTES {
        let instruction = decode(code.get(kept + bytes..)?)?;
        if instruction.kind != Kind::Other {
            return None;
        }
        bytes += instruction.length;
    }
    // Nobody jumps into it, either.
    let mut at = 0;
    while at < code.len() {
        let instruction = decode(&code[at..])?;
        at += instruction.length;
        if let Kind::Branch(by) = instruction.kind {
            if (kept + 1..kept + bytes).contains(&at.wrapping_add_signed(by as isize)) {
                return None;
            }
        }
    }
    Some(Beginning { at: code.as_ptr().addr() + kept, bytes })
}

/// `jmp *0(%rip)`, and the address.
fn far(to: usize) -> [u8; FAR_BYTES] {
    let mut jump = [0xFF, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    jump[6..].copy_from_slice(&to.to_le_bytes());
    jump
}

/// The distance between two places, if it fits where instructions have it.
fn distance(to: usize, from: usize) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_sub(from) as isize).ok().map(i32::to_le_bytes)
}

/// Copies the instructions of a beginning to another place; all of them mean there what they meant.
fn moved(beginning: &Beginning, to: usize) -> Option<[u8; BEGINNING_MOST]> {
    let mut copy = [0; BEGINNING_MOST];
    // SAFETY: that many bytes are there, as code.
    copy.get_mut(..beginning.bytes)?
        .copy_from_slice(unsafe { core::slice::from_raw_parts(beginning.at as *const u8, beginning.bytes) });
    let mut at = 0;
    while at < beginning.bytes {
        let instruction = decode(&copy[at..])?;
        let end = at + instruction.length;
        if let Some(relative_at) = instruction.relative_at {
            let place = copy.get_mut(at + relative_at..at + relative_at + 4)?;
            let by = i32::from_le_bytes(place.try_into().ok()?);
            let target = (beginning.at + end).wrapping_add_signed(by as isize);
            place.copy_from_slice(&distance(target, to + end)?);
        }
        at = end;
    }
    Some(copy)
}

/// Hooks all of them, or none. There is one thread. Where the page lies through which they go.
///
/// `originals`: gets what makes each call as it was before.
pub fn install<const N: usize>(wanted: &[Wanted; N], mut originals: impl FnMut(usize, *mut c_void)) -> Option<usize> {
    const { assert!(N * SLOT_BYTES <= PAGE) };
    let libc = Libc::find();
    let functions = Functions::around(libc.get(wanted.first()?.name, None).addr())?;
    let mut beginnings = [Beginning { at: 0, bytes: 0 }; N];
    for (place, wanted) in beginnings.iter_mut().zip(wanted) {
        let found = libc.get(wanted.name, wanted.version);
        *place = beginning(functions.code(found.addr())?)?;
    }
    let page = raw::inherited(PAGE)?;
    let write = |at: usize, bytes: &[u8]| {
        // SAFETY: memory of this library's own, or of libc's code, that can be written: see below.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) }
    };
    let mut jumps = [[0; NEAR_BYTES]; N];
    for (index, (beginning, wanted)) in beginnings.iter().zip(wanted).enumerate() {
        let slot = page + index * SLOT_BYTES;
        write(slot, &far(wanted.by.addr()));
        write(slot + COPY_AT, &moved(beginning, slot + COPY_AT)?[..beginning.bytes]);
        write(slot + COPY_AT + beginning.bytes, &far(beginning.at + beginning.bytes));
        jumps[index][0] = 0xE9;
        jumps[index][1..].copy_from_slice(&distance(slot, beginning.at + NEAR_BYTES)?);
        originals(index, (slot + COPY_AT) as *mut c_void);
    }
    let first = beginnings.iter().map(|beginning| beginning.at).min()? / PAGE * PAGE;
    let last = beginnings.iter().map(|beginning| beginning.at + NEAR_BYTES).max()?.next_multiple_of(PAGE);
    let (run, all) = (libc::PROT_READ | libc::PROT_EXEC, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
    // SAFETY: the pages stay readable and executable all the time: code of libc on them may run, be it of a signal
    // handler. A system that refuses code which can be written keeps it as it is.
    if unsafe { !raw::protect(page, PAGE, run) || !raw::protect(first, last - first, all) } {
        return None;
    }
    // There is one thread, which is in none of them.
    beginnings.iter().zip(&jumps).for_each(|(beginning, jump)| write(beginning.at, jump));
    // SAFETY: as above.
    unsafe { raw::protect(first, last - first, run) };
    Some(page)
}
