//! IOZONE's passes over a file under several thresholds, side by side.

use super::{Calls, Copies};
use pocketstone_tlb::{Counts, Processor};
use serde::Serialize;

/// Thresholds that the SCMFS thesis compares, in bytes; `None`: small pages alone.
pub const THRESHOLDS_BYTES: [Option<u64>; 4] = [None, Some(128 << 10), Some(512 << 10), Some(2 << 20)];

/// The order and the kind of calls of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// A new file is written from its beginning to its end.
    Write,
    /// It is read in the same order.
    Read,
    /// It is overwritten in random order.
    RandomWrite,
    /// It is read in random order.
    RandomRead,
}

impl Pass {
    /// All of them.
    pub const ALL: [Pass; 4] = [Pass::Write, Pass::Read, Pass::RandomWrite, Pass::RandomRead];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Write => "write",
            Pass::Read => "read",
            Pass::RandomWrite => "random write",
            Pass::RandomRead => "random read",
        }
    }
}

/// One pass with one length of records under one threshold.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The pass.
    pub pass: Pass,
    /// Length of a record.
    pub record_bytes: u64,
    /// The threshold; `None`: small pages alone.
    pub threshold_bytes: Option<u64>,
    /// What the processor's TLB makes of it.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Every pass over a file of `file_bytes` with every length of records under every threshold of
/// [`THRESHOLDS_BYTES`], in that order of nesting.
pub fn passes(processor: &Processor, file_bytes: u64, records_bytes: &[u64]) -> Vec<Row> {
    let mut rows = Vec::new();
    for pass in Pass::ALL {
        for record_bytes in records_bytes {
            for threshold_bytes in THRESHOLDS_BYTES {
                let calls = match pass {
                    Pass::Write => Calls::WriteNew,
                    Pass::RandomWrite => Calls::Overwrite,
                    Pass::Read | Pass::RandomRead => Calls::Read,
                };
                let copies = Copies { file_bytes, record_bytes: *record_bytes, threshold_bytes, calls };
                let counts = match pass {
                    Pass::Write | Pass::Read => copies.count(processor, copies.in_order()),
                    Pass::RandomWrite | Pass::RandomRead => copies.count(processor, copies.permuted()),
                };
                rows.push(Row { pass, record_bytes: *record_bytes, threshold_bytes, counts });
            }
        }
    }
    rows
}
