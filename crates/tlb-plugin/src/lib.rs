//! A QEMU plugin that lets every data access of a virtual machine, of its kernel and its programs, go through the model
//! of a data TLB, and notes what was counted whenever a program reads the clock and whenever the kernel switches to
//! another thread.
//!
//! It changes nothing of what the machine does: its virtual time is the number of its instructions, which are the same.
//! It reads `tlb.toml` (the processor) and `tlb-table.bin` (the kernel's page table) from QEMU's folder when the first
//! instruction is translated, and writes `tlb.bin` there; `pocketstone_tlb::marks` says how.
//!
//! What it cannot see: an access across a page's end counts for its first page; translations that the kernel
//! invalidates stay until they give way, but a page that comes to another frame is another page.

mod arm;
mod qemu;
mod watch;

use pocketstone_tlb::ERROR_FILE;
use pocketstone_tlb::marks::MarkKind;
use qemu::{Block, Instruction};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;
use watch::Watch;

/// Version of QEMU's interface that this is written for: QEMU looks for it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

thread_local! {
    /// The watch of the thread that translates and executes; QEMU with `-icount` has one for all processors.
    static WATCH: Cell<*mut State> = const { Cell::new(ptr::null_mut()) };
}

/// All that callbacks share. QEMU has its address, so it is never freed.
struct State {
    /// Instructions executed so far: QEMU adds to it.
    instructions: u64,
    watch: Watch,
}

/// QEMU calls this when it loads the plugin; 0 means that it may go on.
///
/// # Safety
/// QEMU keeps its interface's promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    _about: *const c_void,
    _argc: c_int,
    _argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's, with the identity that it gave.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    0
}

/// A block was translated: asks for its accesses and its marks.
unsafe extern "C" fn translated(id: u64, block: *mut Block) {
    let mut state = WATCH.get();
    if state.is_null() {
        // QEMU catches no panic: a log that is missing says that it did not work, and why is beside it.
        let Some(begun) = begin(id) else { return };
        state = begun;
    }
    // SAFETY: the block is valid for this call, and its instructions with it; what is registered with them lives for
    // ever.
    unsafe {
        for index in 0..qemu::qemu_plugin_tb_n_insns(block) {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            let count = (&raw mut (*state).instructions).cast();
            let by = arm::counts(qemu::qemu_plugin_insn_vaddr(instruction));
            qemu::qemu_plugin_register_vcpu_insn_exec_inline(instruction, qemu::ADD, count, by);
            let (registers, which) = (qemu::NO_REGISTERS, qemu::LOADS_AND_STORES);
            qemu::qemu_plugin_register_vcpu_mem_cb(instruction, accessed, registers, which, state.cast());
            let call = match marked(instruction) {
                Some(MarkKind::Clock) => clock,
                Some(MarkKind::Switch) => switch,
                _ => continue,
            };
            qemu::qemu_plugin_register_vcpu_insn_exec_cb(instruction, call, registers, state.cast());
        }
    }
}

fn begin(id: u64) -> Option<*mut State> {
    match Watch::begin() {
        Ok(watch) => {
            let state = Box::into_raw(Box::new(State { instructions: 0, watch }));
            WATCH.set(state);
            // SAFETY: QEMU's; the state lives for ever.
            unsafe { qemu::qemu_plugin_register_atexit_cb(id, ended, state.cast()) };
            Some(state)
        }
        Err(error) => {
            // Where not even that can be written, the missing log says that it did not work.
            let _ = std::fs::write(ERROR_FILE, format!("the TLB plugin cannot count: {}\n", error.chain()));
            std::process::exit(1)
        }
    }
}

/// # Safety
/// The instruction is valid.
unsafe fn marked(instruction: *const Instruction) -> Option<MarkKind> {
    // SAFETY: the caller's promise; its data has as many bytes as its size says.
    unsafe {
        if qemu::qemu_plugin_insn_size(instruction) != 4 {
            return None;
        }
        let bytes = qemu::qemu_plugin_insn_data(instruction).cast::<[u8; 4]>().read_unaligned();
        arm::marks(bytes, qemu::qemu_plugin_insn_vaddr(instruction))
    }
}

unsafe extern "C" fn accessed(_processor: c_uint, what: u32, address: u64, state: *mut c_void) {
    // SAFETY: the state that was registered, which only this thread uses while the machine runs; QEMU answers about
    // the access within this call.
    unsafe {
        let watch = &mut (*state.cast::<State>()).watch;
        watch.access(address, qemu::qemu_plugin_mem_is_store(what), || {
            match qemu::qemu_plugin_get_hwaddr(what, address) {
                physical if physical.is_null() => 0,
                physical => qemu::qemu_plugin_hwaddr_phys_addr(physical),
            }
        });
    }
}

unsafe extern "C" fn clock(_processor: c_uint, state: *mut c_void) {
    // SAFETY: handed on.
    unsafe { mark(state, MarkKind::Clock) }
}

unsafe extern "C" fn switch(_processor: c_uint, state: *mut c_void) {
    // SAFETY: handed on.
    unsafe { mark(state, MarkKind::Switch) }
}

/// # Safety
/// `state` is the one that was registered, and nobody else uses it now.
unsafe fn mark(state: *mut c_void, kind: MarkKind) {
    let state = state.cast::<State>();
    // SAFETY: the caller's promise. QEMU adds to the number from generated code.
    unsafe {
        let instructions = (&raw const (*state).instructions).read_volatile();
        (*state).watch.mark(instructions, kind);
    }
}

/// QEMU ends, its processors stopped before.
unsafe extern "C" fn ended(_id: u64, state: *mut c_void) {
    let state = state.cast::<State>();
    // SAFETY: the state that was registered; the machine does not run any more.
    unsafe {
        let instructions = (&raw const (*state).instructions).read_volatile();
        (*state).watch.end(instructions);
    }
}
