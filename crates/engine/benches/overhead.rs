//! What the measured loop adds to a bare read().
//!
//! Prints the median over interleaved pairs; the bar is 200 ns per call.

use pocketstone_core::plan::{Access, Data, Pattern, Prefetch, ReadSpec};
use pocketstone_engine::{PosixFile, run};
use pocketstone_workload::{Operation, read_operations};
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::path::Path;
use std::time::Instant;

const PAIRS: usize = 41;

/// The same reads, without the lab: nanoseconds per call.
fn bare(path: &Path, operations: &[Operation]) -> f64 {
    let file = rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).expect("the file opens");
    let mut buffer = vec![0xa5u8; 4096];
    let mut position = 0;
    let begin = Instant::now();
    for operation in operations {
        let Operation::Read { offset, bytes, .. } = *operation else { continue };
        if offset != position {
            rustix::fs::seek(&file, SeekFrom::Start(offset)).expect("the file seeks");
        }
        let got = rustix::io::read(&file, &mut buffer[..bytes as usize]).expect("the file reads");
        position = offset + got as u64;
    }
    begin.elapsed().as_nanos() as f64 / operations.len() as f64
}

fn with_lab(path: &Path, spec: &ReadSpec, operations: &[Operation]) -> f64 {
    let (mut engine, _) = PosixFile::open(path, spec, None).expect("the file opens");
    let begin = Instant::now();
    let recording = run(&mut engine, operations).expect("the run");
    let elapsed = begin.elapsed().as_nanos() as f64;
    assert_eq!(recording.calls.len(), operations.len());
    elapsed / operations.len() as f64
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("target");
    std::fs::write(&path, vec![7; 5 << 20]).expect("the file");
    for pattern in [Pattern::Sequential, Pattern::Random] {
        let spec = ReadSpec {
            pattern,
            requests: 50_000,
            request_bytes: 4096,
            file_bytes: 5 << 20,
            inter_arrival_ns: 0,
            data: Data::Random,
            access: Access::Read,
            prefetch: Prefetch::None,
        };
        let operations: Vec<Operation> = read_operations(&spec, 1).collect();
        let mut pairs: Vec<(f64, f64)> =
            (0..PAIRS).map(|_| (bare(&path, &operations), with_lab(&path, &spec, &operations))).collect();
        pairs.sort_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        let [low, median, high] = [PAIRS / 20, PAIRS / 2, PAIRS - 1 - PAIRS / 20].map(|n| pairs[n].1 - pairs[n].0);
        let word = if median <= 200.0 { "met" } else { "NOT met" };
        print(&format!(
            "read() of 4 KiB, {pattern:?}, page cache hot: the lab adds {median:.0} ns per call ({low:.0} to \
                {high:.0}); \
             bar 200 ns: {word}\n"
        ));
    }
}

fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}
