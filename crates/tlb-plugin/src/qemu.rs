//! QEMU's interface for plugins, version 1 (include/qemu/qemu-plugin.h of QEMU 7.2), as far as it is used here. QEMU
//! itself has these functions: they are found when it loads the plugin.

use std::ffi::{c_int, c_uint, c_void};

/// A block of instructions that is translated.
#[repr(C)]
pub struct Block {
    _opaque: [u8; 0],
}

/// One of its instructions.
#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}

/// The physical side of an access.
#[repr(C)]
pub struct Physical {
    _opaque: [u8; 0],
}

/// The callback reads and writes no registers (`QEMU_PLUGIN_CB_NO_REGS`).
pub const NO_REGISTERS: c_int = 0;
/// Loads and stores (`QEMU_PLUGIN_MEM_RW`).
pub const LOADS_AND_STORES: c_int = 3;
/// Add a constant (`QEMU_PLUGIN_INLINE_ADD_U64`).
pub const ADD: c_int = 0;

/// Called for each access: processor, what it is, virtual address, what was handed over.
pub type OnAccess = unsafe extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Called before an instruction: processor, what was handed over.
pub type OnInstruction = unsafe extern "C" fn(c_uint, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, call: unsafe extern "C" fn(u64, *mut Block));
    pub fn qemu_plugin_register_atexit_cb(id: u64, call: unsafe extern "C" fn(u64, *mut c_void), with: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const u8;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_register_vcpu_insn_exec_inline(
        instruction: *mut Instruction,
        operation: c_int,
        on: *mut c_void,
        by: u64,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        call: OnInstruction,
        registers: c_int,
        with: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        call: OnAccess,
        registers: c_int,
        which: c_int,
        with: *mut c_void,
    );
    pub fn qemu_plugin_mem_is_store(what: u32) -> bool;
    pub fn qemu_plugin_get_hwaddr(what: u32, address: u64) -> *mut Physical;
    pub fn qemu_plugin_hwaddr_phys_addr(physical: *const Physical) -> u64;
}
