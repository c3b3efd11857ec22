//! Data TLBs of a virtual board: a plugin of QEMU lets every data access go through the model of one.
//!
//! ```text
//! state --> QEMU with the plugin, stopped --> dump of memory --> the kernel's page table, the processor
//!                                                                        |  files of the cell's folder
//!                                                cont --> the plugin reads them, counts, marks
//!                                                           |
//!                                         stop --> quit --> tlb.bin
//! ```

use super::Qemu;
use super::machine::Machine;
use crate::compiled::{Compiled, compiler_for};
use crate::profile::Architecture;
use crate::{BoardContext, Failed};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_tlb::join::Clock;
use pocketstone_tlb::pages::{SEARCHED_BYTES, SHORT_TABLE_BITS, kernel_table};
use pocketstone_tlb::{PROCESSOR_FILE, Processor, TABLE_FILE};
use pocketstone_workload::plan::Step;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the memory of QEMU's `virt` begins (hw/arm/virt.c).
const MEMORY_AT: u32 = 0x4000_0000;
/// A tick of its counter, which has 62.5 MHz (target/arm/cpu.c).
const TICK_NS: u64 = 16;
/// The dump of memory, in the cell's folder.
const DUMP_FILE: &str = "memory.bin";

/// The plugin, from the cache or compiled now.
///
/// # Errors
/// `ErrorKind::Board` if its sources are missing or cannot be compiled.
pub fn plugin(context: &BoardContext) -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cure = "install Rust for this machine: https://rustup.rs";
    let toolchain = compiler_for(&target)
        .ok_or_else(|| Error::board(format!("this machine has no Rust compiler for {target}")).hint(cure))?;
    let plugin = Compiled {
        what: "the TLB plugin for QEMU",
        folder: "plugins",
        rooms: &["vfs", "random", "core", "tlb", "tlb-plugin"],
        toolchain: &toolchain,
        target: &target,
        profile: "board",
        arguments: &["build", "-p", "pocketstone-tlb-plugin"],
        file: "libpocketstone_tlb_plugin.so",
        cure,
    };
    plugin.make(context, |_| {})
}

impl Qemu {
    /// Refuses page tables that the model does not walk.
    pub(super) fn sees_accesses(&self) -> Result<()> {
        let machine = &self.profile.machine;
        let why = match machine.architecture {
            Architecture::Aarch64 => Some("is a 64-bit one"),
            Architecture::Armv7 if machine.model.contains("highmem=on") => Some("has memory above 4 GiB"),
            Architecture::Armv7 => None,
        };
        why.map_or(Ok(()), |why| {
            let error = Error::board(format!("the board {} {why}", self.name));
            Err(error.hint("TLB misses are counted on 32-bit boards without LPAE, such as virt-nand"))
        })
    }

    /// Carries out an order in `folder` with the plugin, for the processor with the page tables of the board's kernel.
    pub(super) fn carry_out_with_plugin(
        &self,
        after: &[Step],
        folder: &Path,
        processor: &mut Processor,
    ) -> Result<Clock, Failed> {
        processor.table_bits = SHORT_TABLE_BITS.to_vec();
        let mut machine = self.machine_after(after, folder, Some(&plugin(&self.context)?))?;
        leave_for_plugin(&mut machine, folder, processor)?;
        // The model takes most of the time then.
        machine.run(self.cell_limit() * 20)?;
        machine.quit()?;
        Ok(Clock { instruction_ns: 1 << self.profile.machine.icount_shift, tick_ns: TICK_NS })
    }
}

/// Leaves the processor and the kernel's page table where the plugin looks for them.
fn leave_for_plugin(machine: &mut Machine, folder: &Path, processor: &Processor) -> Result<(), Failed> {
    machine.dump_memory(MEMORY_AT, SEARCHED_BYTES, DUMP_FILE)?;
    let dump = folder.join(DUMP_FILE);
    let memory = fs::read(&dump).board(|| "QEMU dumped no memory".into())?;
    let _ = fs::remove_file(dump);
    for (name, content) in
        [(TABLE_FILE, kernel_table(&memory, MEMORY_AT)?), (PROCESSOR_FILE, processor.to_text()?.as_bytes())]
    {
        fs::write(folder.join(name), content).board(|| format!("cannot write {name}"))?;
    }
    Ok(())
}
