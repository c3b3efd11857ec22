//! What an operation on files takes by way of the lab, on volumes in this process: SCMFS on a region in /dev/shm, and
//! YAFFS2 on a simulated chip that takes no time. Nanoseconds of processor time per operation: the least of some
//! rounds, each on a new volume. An argument leaves only the operations that have it in their names.
//!
//! To see what a change costs, keep the program of before and run both in turns.

use pocketstone_core::pattern::Pattern;
use pocketstone_engine::{Executor, ScmfsTree, Tree, Yaffs2Tree, populate, run};
use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs as scmfs;
use pocketstone_testing::bench::cpu;
use pocketstone_workload::{Data, FileOperation, FileWorkload, FilesSpec, Operation, Sync};
use pocketstone_yaffs2 as yaffs2;
use std::io::Write;

const ROUNDS: usize = 9;

fn spec(operation: FileOperation) -> FilesSpec {
    let (requests, files) = match operation {
        FileOperation::Read | FileOperation::Write | FileOperation::LookUp => (20_000, 64),
        // A file's turn comes once.
        FileOperation::Delete | FileOperation::Rename | FileOperation::Truncate => (500, 500),
        _ => (2_000, 64),
    };
    FilesSpec {
        operation,
        pattern: Pattern::Random,
        requests,
        request_bytes: 1024,
        files,
        file_bytes: 16 << 10,
        inter_arrival_ns: 0,
        data: Data::Random,
        sync: Sync::None,
        threads: 1,
    }
}

fn new_scmfs() -> ScmfsTree {
    let home = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let (path, options) = (home.path().join("region"), MapOptions::default());
    let region = Mapped::create(&path, 128 << 20, &options).expect("a region");
    scmfs::Volume::create(Box::new(region), &scmfs::CreateOptions::default()).expect("a volume");
    // The mapping keeps the file that has no name any more.
    let region = Mapped::open(&path, &options).expect("the region");
    ScmfsTree::new(scmfs::Volume::open(Box::new(region), &scmfs::OpenOptions::default()).expect("it opens"))
}

fn new_yaffs2() -> Yaffs2Tree {
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 64, pages_per_block: 64, blocks: 1024 };
    let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    let volume = yaffs2::Volume::open(Box::new(chip), &yaffs2::OpenOptions::default()).expect("it opens");
    Yaffs2Tree::new(volume)
}

/// Nanoseconds per operation.
fn measure<T: Tree>(tree: &T, spec: &FilesSpec) -> f64 {
    populate(tree, &spec.population(1)).expect("the files");
    let operations: Vec<Operation> = spec.operations(1).collect();
    let mut executors = Executor::all(tree, spec, 1).expect("it is set up");
    let start = cpu();
    run(&mut executors, &operations).expect("it runs");
    (cpu() - start).as_nanos() as f64 / operations.len() as f64
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    for operation in FileOperation::ALL.into_iter().filter(|operation| operation.name().contains(&wanted)) {
        let spec = spec(operation);
        let least = |ns: &mut dyn Iterator<Item = f64>| ns.fold(f64::INFINITY, f64::min);
        let scmfs = least(&mut (0..ROUNDS).map(|_| measure(&new_scmfs(), &spec)));
        let yaffs2 = least(&mut (0..ROUNDS).map(|_| measure(&new_yaffs2(), &spec)));
        let _ = writeln!(out, "{:14} scmfs {scmfs:8.1} ns   yaffs2 {yaffs2:8.1} ns", operation.name());
    }
}
