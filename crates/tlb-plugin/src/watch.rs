//! What is known and counted while a machine runs.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_tlb::marks::{MAGIC, Mark, MarkKind};
use pocketstone_tlb::pages::PageSizes;
use pocketstone_tlb::{Access, Processor, SMALL_PAGE_BITS, Tlb};
use pocketstone_tlb::{MARKS_FILE, PROCESSOR_FILE, TABLE_FILE};
use std::fs::{self, File};
use std::io::{BufWriter, Write};

/// A machine that is watched.
pub struct Watch {
    tlb: Tlb,
    sizes: PageSizes,
    marks: BufWriter<File>,
    failed: bool,
}

impl Watch {
    /// Reads what to watch with from QEMU's folder, and creates the log there.
    pub fn begin() -> Result<Self> {
        let text = fs::read_to_string(PROCESSOR_FILE).board(|| format!("cannot read {PROCESSOR_FILE}"))?;
        let processor = Processor::parse("tlb", &text)?;
        let sizes = match fs::read(TABLE_FILE) {
            Ok(table) => PageSizes::of_table(&table)?,
            // A machine without an operating system.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => PageSizes::small(),
            Err(e) => return Err(Error::board(format!("cannot read {TABLE_FILE}")).because(e)),
        };
        let mut marks = BufWriter::new(File::create(MARKS_FILE).board(|| format!("cannot create {MARKS_FILE}"))?);
        marks.write_all(&MAGIC).board(|| format!("cannot write {MARKS_FILE}"))?;
        Ok(Watch { tlb: Tlb::new(&processor), sizes, marks, failed: false })
    }

    /// One access. `physical` is asked for the physical address, where programs may each have their own.
    pub fn access(&mut self, address: u64, store: bool, physical: impl FnOnce() -> u64) {
        let page_bits = self.sizes.page_bits(address);
        // Sections are the kernel's, the same for all programs.
        let space = if page_bits > SMALL_PAGE_BITS { 0 } else { physical() >> page_bits };
        self.tlb.access(Access { address, space, page_bits, store });
    }

    /// Notes what was counted until now.
    pub fn mark(&mut self, instructions: u64, kind: MarkKind) {
        let mark = Mark { instructions, kind, counts: self.tlb.counts() };
        self.failed |= self.marks.write_all(&mark.encode()).is_err();
    }

    /// Completes the log. Without its end, whoever reads it knows that it is not whole.
    pub fn end(&mut self, instructions: u64) {
        if !self.failed {
            self.mark(instructions, MarkKind::End);
            let _ = self.marks.flush();
        }
    }
}
