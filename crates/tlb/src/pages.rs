//! Sizes of pages of a 32-bit ARM kernel without LPAE, from its own page table: the short format of the ARM
//! Architecture Reference Manual (ARMv7-A), B3.5.1.
//!
//! ```text
//! first-level entry   bits 1..0: 0 nothing, 1 a table of 4 KiB pages, 2 or 3 a section
//! (one for each MiB)  bit 18 of a section: 0 it is 1 MiB, 1 it is a part of 16 MiB
//! ```
//! Linux maps no 64 KiB pages in this format, and no section for programs: below the kernel, pages are 4 KiB.

use crate::SMALL_PAGE_BITS;
use pocketstone_core::{Error, Result};

/// Bits of an address that a level of these tables decodes below it.
pub const SHORT_TABLE_BITS: [u32; 2] = [20, 12];
/// Bytes of the first-level table.
pub const TABLE_BYTES: usize = 16 << 10;
/// Where the kernel may have its table, from the start of memory: 16 KiB below its text, whose offset is a matter of
/// the platforms that it is built for (TEXT_OFFSET of arch/arm/Makefile).
const TABLE_AT: [usize; 3] = [0x4000, 0x20_4000, 0x30_4000];
/// Bytes from the start of memory among which the table is.
pub const SEARCHED_BYTES: usize = TABLE_AT[2] + TABLE_BYTES;
/// Entry of the kernel's first address, for the usual split of 3 GiB for programs.
const FIRST_OF_KERNEL: usize = 0xc00;

const SECTION: u32 = 2;
const LARGE: u32 = 1 << 18;

/// Sizes of pages, by address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSizes {
    /// For each MiB of addresses, the bits of an address within a page.
    bits: Box<[u8]>,
}

impl PageSizes {
    /// Pages of 4 KiB everywhere.
    pub fn small() -> Self {
        PageSizes { bits: vec![SMALL_PAGE_BITS as u8; 4096].into() }
    }

    /// Those of a first-level table of [`TABLE_BYTES`].
    ///
    /// # Errors
    /// `ErrorKind::Board` if it has another length.
    pub fn of_table(table: &[u8]) -> Result<Self> {
        if table.len() != TABLE_BYTES {
            return Err(Error::board(format!("a page table of {} bytes is none of 32-bit ARM", table.len())));
        }
        let bits = |entry: u32| match (entry & SECTION != 0, entry & LARGE != 0) {
            (false, _) => SMALL_PAGE_BITS as u8,
            (true, false) => 20,
            (true, true) => 24,
        };
        Ok(PageSizes { bits: entries(table).map(bits).collect() })
    }

    /// Size of the page of an address, as bits of an address within a page.
    pub fn page_bits(&self, address: u64) -> u32 {
        self.bits.get((address >> 20) as usize).map_or(SMALL_PAGE_BITS, |bits| u32::from(*bits))
    }
}

/// The kernel's first-level table among the first [`SEARCHED_BYTES`] of a machine's memory, which begins at
/// `memory_at`: it maps no program, and the kernel's first address to the start of memory.
///
/// # Errors
/// `ErrorKind::Board` if it is not there.
pub fn kernel_table(memory: &[u8], memory_at: u32) -> Result<&[u8]> {
    let is_it = |table: &&[u8]| {
        let mut below = entries(table).take(FIRST_OF_KERNEL - 0x20);
        let first = entries(table).nth(FIRST_OF_KERNEL).unwrap_or(0);
        below.all(|entry| entry == 0) && first & SECTION != 0 && first & 0xfff0_0000 == memory_at
    };
    let mut tables = TABLE_AT.iter().filter_map(|at| memory.get(*at..*at + TABLE_BYTES));
    tables.find(is_it).ok_or_else(|| {
        Error::board("the kernel's page table is not where 32-bit ARM kernels without LPAE have it")
            .hint("TLB misses are counted with Debian's linux-image-armmp")
    })
}

fn entries(table: &[u8]) -> impl Iterator<Item = u32> + '_ {
    table.chunks_exact(4).map(|e| u32::from_le_bytes([e[0], e[1], e[2], e[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debian's 6.1 has it on a virtual board of 640 MiB.
    fn memory() -> Vec<u8> {
        let mut memory = vec![0xe7; SEARCHED_BYTES];
        let table = &mut memory[0x20_4000..][..TABLE_BYTES];
        table.fill(0);
        let mut set = |mib: usize, entry: u32| table[4 * mib..][..4].copy_from_slice(&entry.to_le_bytes());
        (0..624).for_each(|n| set(0xc00 + n, 0x4001_141e + ((n as u32) << 20)));
        set(0xbf0, 0x41d9_9811);
        set(0xe88, 0x4191_6811);
        set(0xff8, 0x4871_941e | LARGE);
        memory
    }

    #[test]
    fn a_kernel_has_sections_for_its_memory_and_small_pages_elsewhere() {
        let memory = memory();
        let sizes = PageSizes::of_table(kernel_table(&memory, 0x4000_0000).unwrap()).unwrap();
        for (address, bits) in [
            (0x0001_0000, 12),
            (0xbf00_1234, 12),
            (0xc000_0000, 20),
            (0xe6ff_ffff, 20),
            (0xe700_0000, 12),
            (0xe880_0000, 12),
            (0xff80_0000, 24),
            (1 << 40, 12),
        ] {
            assert_eq!(sizes.page_bits(address), bits, "{address:#x}");
        }
        assert_eq!(PageSizes::small().page_bits(0xc000_0000), 12);
    }

    #[test]
    fn a_table_that_is_none_is_refused() {
        let mut memory = memory();
        assert!(kernel_table(&memory, 0x8000_0000).is_err(), "memory begins elsewhere");
        memory[0x20_4000 + 4] = 1;
        assert!(kernel_table(&memory, 0x4000_0000).unwrap_err().cure().is_some(), "it maps a program");
        assert!(PageSizes::of_table(&memory[..100]).is_err());
    }
}
