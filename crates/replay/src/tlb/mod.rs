//! Misses of data TLBs under reads and writes of a file that lies in memory, as SCMFS's do: the patterns of IOZONE's
//! passes, fed to the model of `pocketstone_tlb`.
//!
//! Modelled, never measured.

mod copies;
mod operations;
mod passes;
#[cfg(test)]
mod tests;

pub use copies::{Calls, Copies};
pub use operations::count as count_operations;
pub use passes::{Pass, Row, THRESHOLDS_BYTES, passes};
