//! Instructions of 32-bit ARM that mark a moment, in both encodings (ARM Architecture Reference Manual, ARMv7-A, A8.8).

use pocketstone_tlb::marks::MarkKind;

/// MRRC p15, 1, Rt, Rt2, c14: the virtual counter.
const READ_COUNTER: (u32, u32) = (0x0ff0_0fff, 0x0c50_0f1e);
/// MCR p15, 0, Rt, c13, c0, 3: the register of the thread, which Linux sets at the end of each switch to another one.
const SET_THREAD: (u32, u32) = (0x0fff_0fff, 0x0e0d_0f70);
/// Programs and what the kernel maps for them are below.
const KERNEL_AT: u64 = 0xbf00_0000;

/// The moment that an instruction marks, if it does: `bytes` are its four bytes at `address`.
pub fn marks(bytes: [u8; 4], address: u64) -> Option<MarkKind> {
    let word = u32::from_le_bytes(bytes);
    // Thumb has the same bits, as two halves in the other order.
    let is = |(mask, value): (u32, u32)| word & mask == value || word.rotate_left(16) & mask == value;
    match address < KERNEL_AT {
        true => is(READ_COUNTER).then_some(MarkKind::Clock),
        false => is(SET_THREAD).then_some(MarkKind::Switch),
    }
}
