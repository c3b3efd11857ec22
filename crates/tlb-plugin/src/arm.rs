//! Instructions of 32-bit ARM that mark a moment, in both encodings (ARM Architecture Reference Manual, ARMv7-A, A8.8).

use pocketstone_tlb::marks::MarkKind;

/// MRRC p15, 1, Rt, Rt2, c14: the virtual counter.
const READ_COUNTER: (u32, u32) = (0x0ff0_0fff, 0x0c50_0f1e);
/// MCR p15, 0, Rt, c13, c0, 2: a register that programs may write, which Linux sets in each switch to another thread
/// (`__switch_to` of arch/arm/kernel/entry-armv.S), and seldom else: when a program starts another one in its place.
const SET_THREAD: (u32, u32) = (0x0fff_0fff, 0x0e0d_0f50);
/// Programs and what the kernel maps for them are below.
const KERNEL_AT: u64 = 0xbf00_0000;

/// Where Linux has its vector of data aborts.
const DATA_ABORT_AT: u64 = 0xffff_0010;

/// What the execution of an instruction at `address` adds to the number of instructions. An access that faults ends in
/// the vector of data aborts; its instruction is executed again afterwards and takes no virtual time before.
pub fn counts(address: u64) -> u64 {
    if address == DATA_ABORT_AT { 0 } else { 1 }
}

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
