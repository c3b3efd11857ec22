//! What the measured loop adds to a bare read(), the C library's as programs call it, into a buffer like the lab's:
//! both matter more than what is measured here.
//!
//! Prints the median over interleaved pairs, in ns and in readings of the clock, as long as those take here. A call
//! is timed by two; the bar is what four take.

use pocketstone_core::pattern::Pattern;
use pocketstone_engine::{Executor, KernelTree, run};
use pocketstone_testing::clock;
use pocketstone_workload::population::TARGET_FILE;
use pocketstone_workload::{Operation, ReadSpec, read_operations};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

const PAIRS: usize = 41;
/// Readings of the clock.
const BAR: f64 = 4.0;

/// A buffer that starts with a page, as the lab's does.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// The same reads, without the lab: nanoseconds per call.
fn bare(path: &Path, operations: &[Operation]) -> f64 {
    let file = std::fs::File::open(path).expect("the file opens");
    let mut buffer = Box::new(Page([0xa5; 4096]));
    let begin = Instant::now();
    for operation in operations {
        let Operation::Read { offset, bytes, .. } = *operation else { continue };
        let got = file.read_at(&mut buffer.0[..bytes as usize], offset).expect("the file reads");
        assert_eq!(got as u64, bytes);
    }
    begin.elapsed().as_nanos() as f64 / operations.len() as f64
}

fn with_lab(folder: &Path, spec: &ReadSpec, operations: &[Operation]) -> f64 {
    let tree = KernelTree::open(folder).expect("the folder opens");
    let mut executors = Executor::all(&tree, spec, 1).expect("the file opens");
    let begin = Instant::now();
    let recording = run(&mut executors, operations).expect("the run");
    let elapsed = begin.elapsed().as_nanos() as f64;
    assert_eq!(recording.calls.len(), operations.len());
    elapsed / operations.len() as f64
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(TARGET_FILE);
    std::fs::write(&path, vec![7; 5 << 20]).expect("the file");
    for pattern in [Pattern::Sequential, Pattern::Random] {
        let spec = ReadSpec::new(pattern, 50_000);
        let operations: Vec<Operation> = read_operations(&spec, 1).collect();
        let mut pairs: Vec<(f64, f64)> =
            (0..PAIRS).map(|_| (bare(&path, &operations), with_lab(folder.path(), &spec, &operations))).collect();
        pairs.sort_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        let [low, median, high] = [PAIRS / 20, PAIRS / 2, PAIRS - 1 - PAIRS / 20].map(|n| pairs[n].1 - pairs[n].0);
        let reading_ns = clock::reading_ns();
        let word = if median <= BAR * reading_ns { "met" } else { "NOT met" };
        print(&format!(
            "read() of 4 KiB, {pattern:?}, page cache hot: the lab adds {median:.0} ns per call ({low:.0} to \
             {high:.0}), {:.1} readings of the clock; bar {BAR:.0}: {word}\n",
            median / reading_ns
        ));
    }
}

fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}
