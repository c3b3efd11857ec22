//! A million small files on one volume: mappings, memory beside the region, and the time that opening takes,
//! after a clean close and after a loss. `SCMFS_BENCH_FILES` is another number of files, `SCMFS_BENCH_DIR`
//! another place than `/dev/shm`.

#[path = "../tests/support/many.rs"]
mod many;

use many::Many;
use std::io::Write;
use std::path::PathBuf;

fn main() {
    let mut out = std::io::stdout().lock();
    let files = std::env::var("SCMFS_BENCH_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let directory = std::env::var_os("SCMFS_BENCH_DIR").map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let many = Many::measure(&directory, files, 1000);
    for (what, figure) in [
        ("files", many.files.to_string()),
        ("vm.max_map_count", limit.trim().to_string()),
        ("mappings of the region", many.mappings.to_string()),
        ("memory beside the region", format!("{} bytes, {:.1} a file", many.memory, many.memory_per_file())),
        ("created in", format!("{:.2} s", many.create.as_secs_f64())),
        ("looked up and read in", format!("{:.2} s", many.read.as_secs_f64())),
        ("opened after a clean close in", format!("{:.1} ms", many.open_clean.as_secs_f64() * 1e3)),
        ("recovered after a loss in", format!("{:.1} ms", many.recover.as_secs_f64() * 1e3)),
    ] {
        writeln!(out, "{what:<32} {figure}").expect("output");
    }
}
