//! A simulated chip of raw NAND, as a profile describes it.

use serde::{Deserialize, Serialize};

/// A chip simulated by the kernel's nandsim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandProfile {
    /// The four ID bytes, from which the kernel derives the geometry.
    pub id: [u8; 4],
    /// Whether operations take time.
    pub delays: bool,
    /// Time from the read command until the page is in the chip's register.
    pub access_delay_us: u32,
    /// Time to move one byte out of the register (nandsim calls it an input cycle).
    pub input_cycle_ns: u32,
    /// Time to move one byte into the register.
    pub output_cycle_ns: u32,
    /// Time to program a page.
    pub program_delay_us: u32,
    /// Time to erase a block.
    pub erase_delay_ms: u32,
}

impl NandProfile {
    /// Bytes of the chip, by the second of its ID bytes (Linux: `drivers/mtd/nand/raw/nand_ids.c`); `None` for one that
    /// is not in that table.
    pub fn bytes(&self) -> Option<u64> {
        let mib = match self.id[1] {
            0x33 | 0x73 | 0x43 | 0x53 => 16,
            0x35 | 0x75 | 0x45 | 0x55 => 32,
            0x36 | 0x76 | 0x46 | 0x56 | 0xa2 | 0xa0 | 0xf2 | 0xd0 | 0xf0 | 0xb2 | 0xb0 | 0xc2 | 0xc0 => 64,
            0x78 | 0x39 | 0x79 | 0x72 | 0x49 | 0x74 | 0x59 | 0xa1 | 0xf1 | 0xd1 | 0xb1 | 0xc1 => 128,
            0x71 | 0xaa | 0xda | 0xba | 0xca => 256,
            0xac | 0xdc | 0xbc | 0xcc => 512,
            0xa3 | 0xd3 | 0xb3 | 0xc3 => 1024,
            0xa5 | 0xd5 | 0xb5 | 0xc5 => 2048,
            0xa7 | 0xd7 | 0xb7 | 0xc7 => 4096,
            0xae | 0xde | 0xbe | 0xce => 8192,
            _ => return None,
        };
        Some(mib << 20)
    }

    /// Parameters of the nandsim module (`programm_delay` is spelt so there).
    pub fn module_parameters(&self) -> String {
        let [a, b, c, d] = self.id;
        format!(
            "first_id_byte={a:#04x} second_id_byte={b:#04x} third_id_byte={c:#04x} fourth_id_byte={d:#04x} \
             do_delays={} access_delay={} programm_delay={} erase_delay={} input_cycle={} output_cycle={}",
            u8::from(self.delays),
            self.access_delay_us,
            self.program_delay_us,
            self.erase_delay_ms,
            self.input_cycle_ns,
            self.output_cycle_ns
        )
    }
}
