//! How a 64-bit ARM processor that has nothing to do passes time: not by halting, and not by the kernel's own polling.
//!
//! What QEMU does with a halted processor is done by another thread, at a moment that the host decides. 32-bit
//! kernels poll instead (`nohlt`). 64-bit ones do that with the instruction YIELD, after each of which QEMU leaves
//! the code that it has translated: the boot of a board had not come to its end after a minute, which takes seconds
//! with what is here. So such a kernel is to halt, by WFI, and the machine has an exception level above it (EL3, by
//! `secure=on`) that traps this instruction, and polls until there is an interrupt. The program there is the one
//! below, and all there is; the kernel knows nothing of it. It is not EL2: a machine with that, restored from a saved
//! state by QEMU 7.2, loses the timer's interrupt that was due at the stop (loading CNTVOFF_EL2 raises it before the
//! interrupt controller is loaded).
//!
//! Arm Architecture Reference Manual, DDI 0487: SCR_EL3.TWI, ISR_EL1, and the vector table.

/// Where it is in QEMU's `virt`: in the second bank of flash memory, which is there and empty (hw/arm/virt.c).
pub const AT: u64 = 0x0400_0000;

/// Bytes from the vector table's start to what handles an exception of the level below, in 64-bit state.
const HANDLER_AT: usize = 0x400;

/// Where the processor begins: it sets this level up, and starts QEMU's own loader of kernels one level below, which is
/// where memory begins.
const START: [u32; 13] = [
    0x1000_0000, // adr  x0, .
    0xd51e_c000, // msr  vbar_el3, x0         the vector table begins here
    0xd51e_115f, // msr  cptr_el3, xzr        floating point is not trapped
    0xd282_8620, // mov  x0, #0x1431          WFI is (TWI); below is non-secure (NS), in 64-bit state (RW)
    0xd51e_1100, // msr  scr_el3, x0
    0xd281_0000, // mov  x0, #0x0800
    0xf2a6_1a00, // movk x0, #0x30d0, lsl 16  what is always 1
    0xd518_1000, // msr  sctlr_el1, x0
    0xd280_78a0, // mov  x0, #0x3c5           EL1, interrupts masked
    0xd51e_4000, // msr  spsr_el3, x0
    0xd2a8_0000, // mov  x0, #0x40000000
    0xd51e_4020, // msr  elr_el3, x0
    0xd69f_03e0, // eret
];

/// The beginning of the handler: whatever is not WFI (exception class 1) stops here for good.
const TRAPPED: [u32; 6] = [
    0xd51e_d040, // msr  tpidr_el3, x0
    0xd53e_5200, // mrs  x0, esr_el3
    0xd35a_fc00, // lsr  x0, x0, #26
    0xf100_041f, // cmp  x0, #1
    0x5400_0001, // b.ne .
    0xd538_c100, // mrs  x0, isr_el1          which interrupts are pending
];

/// NOP. QEMU translates it into nothing, and it takes its time of the board's clock.
const NOP: u32 = 0xd503_201f;

/// How many of them are between two looks for interrupts: the less the host has to do for a second of waiting.
const NOPS: usize = 32;

/// The end: look again while there is no interrupt, or go on behind the WFI.
const GO_ON: [u32; 6] = [
    0xb4ff_fbe0, // cbz  x0, .-132            to the look
    0xd53e_4020, // mrs  x0, elr_el3
    0x9100_1000, // add  x0, x0, #4
    0xd51e_4020, // msr  elr_el3, x0
    0xd53e_d040, // mrs  x0, tpidr_el3
    0xd69f_03e0, // eret
];

/// The program, as it is in memory.
pub fn program() -> Vec<u8> {
    let mut code = bytes(&START);
    code.resize(HANDLER_AT, 0);
    code.extend([&TRAPPED[..], &[NOP; NOPS], &GO_ON].into_iter().flat_map(bytes));
    code
}

fn bytes(code: &[u32]) -> Vec<u8> {
    code.iter().flat_map(|instruction| instruction.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_testing::{or_skip, program as installed};
    use std::fs;
    use std::process::Command;

    /// The program once more, for an assembler.
    const SOURCE: &str = "
        adr x0, .
        msr vbar_el3, x0
        msr cptr_el3, xzr
        mov x0, #0x1431
        msr scr_el3, x0
        mov x0, #0x0800
        movk x0, #0x30d0, lsl #16
        msr sctlr_el1, x0
        mov x0, #0x3c5
        msr spsr_el3, x0
        mov x0, #0x40000000
        msr elr_el3, x0
        eret
        .org 0x400
        msr tpidr_el3, x0
        mrs x0, esr_el3
        lsr x0, x0, #26
        cmp x0, #1
        b.ne .
    poll:
        mrs x0, isr_el1
        .rept 32
        nop
        .endr
        cbz x0, poll
        mrs x0, elr_el3
        add x0, x0, #4
        msr elr_el3, x0
        mrs x0, tpidr_el3
        eret
    ";

    #[test]
    fn an_assembler_makes_the_same_of_it() {
        let assembler = or_skip!(installed("aarch64-linux-gnu-as", "binutils-aarch64-linux-gnu"));
        let copy = or_skip!(installed("aarch64-linux-gnu-objcopy", "binutils-aarch64-linux-gnu"));
        let folder = tempfile::tempdir().unwrap();
        let [source, object, raw] = ["idle.s", "idle.o", "idle.bin"].map(|name| folder.path().join(name));
        fs::write(&source, SOURCE).unwrap();
        assert!(Command::new(assembler).arg("-o").args([&object, &source]).status().unwrap().success());
        let copied = Command::new(copy).args(["-O", "binary", "-j", ".text"]).args([&object, &raw]).status().unwrap();
        assert!(copied.success());
        assert_eq!(program(), fs::read(raw).unwrap());
    }
}
