//! What the whole-system tests share.

pub mod command;
pub mod jffs2;
pub mod mounted;
pub mod suites;

use pocketstone_board::{Board, Cache, Profile, ProfileKind, Surroundings, VirtualBoard};
use pocketstone_core::plan::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The project's folder.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Surroundings with the user's cache.
pub fn surroundings() -> Surroundings {
    let cache = Cache::of_user().expect("a cache");
    Surroundings { cache, progress: Arc::new(|_| {}), cancelled: Arc::default() }
}

/// The shipped virtual board, changed by `change`, or `None` (and a line that says so) where this
/// machine cannot run it.
pub fn virtual_board_with(change: impl FnOnce(&mut pocketstone_board::VirtualProfile)) -> Option<VirtualBoard> {
    let profile = Profile::load(&project().join("devices"), "virt-nand").expect("the shipped profile");
    let ProfileKind::Virtual(mut machine) = profile.kind else { panic!("virt-nand is virtual") };
    change(&mut machine);
    match VirtualBoard::open("virt-nand", &machine, &surroundings()) {
        Ok(board) => Some(board),
        Err(error) if error.cure().is_some_and(|c| c.contains("qemu-system-arm")) => {
            use std::io::Write;
            // Straight to the stream: the test runner keeps what passing tests print to itself.
            let cure = error.cure().unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "skipped: {}; cure: {cure}", error.chain());
            None
        }
        Err(error) => panic!("{}", error.chain()),
    }
}

/// The shipped virtual board.
pub fn virtual_board() -> Option<VirtualBoard> {
    virtual_board_with(|_| {})
}

/// A plan: 4 KiB reads of a 5 MiB file on JFFS2 without compression.
pub fn plan(file_system: FileSystem, pattern: Pattern, requests: u64, read_ahead_bytes: u64, seed: u64) -> Plan {
    let options = match file_system {
        FileSystem::Jffs2 => vec!["compr=none".to_owned()],
        _ => Vec::new(),
    };
    Plan {
        format: PLAN_FORMAT,
        seed,
        volume: Volume { file_system, options, directory: None },
        workload: Workload::Read(ReadSpec {
            pattern,
            requests,
            request_bytes: 4096,
            file_bytes: 5 << 20,
            inter_arrival_ns: 0,
            data: Data::Random,
            access: Access::Read,
            prefetch: Prefetch::None,
        }),
        read_ahead: Some(ReadAhead { by: ReadAheadBy::Mount, bytes: read_ahead_bytes }),
        trace: false,
        energy: false,
    }
}

/// Measures a plan; a failure shows the board's console.
pub fn measure(board: &dyn Board, plan: &Plan) -> pocketstone_board::Measured {
    board
        .measure(plan)
        .unwrap_or_else(|failed| panic!("{}\nconsole:\n{}", failed.error.chain(), failed.console.unwrap_or_default()))
}

/// A busy thread for every core, until this is dropped.
pub struct HostLoad {
    stop: Arc<std::sync::atomic::AtomicBool>,
    threads: Vec<std::thread::JoinHandle<u64>>,
}

impl HostLoad {
    /// Loads every core.
    pub fn on_every_core() -> Self {
        use std::sync::atomic::{AtomicBool, Ordering};
        let stop = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let busy = |stop: Arc<AtomicBool>| {
            move || {
                let mut n = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    n = std::hint::black_box(n.wrapping_add(1));
                }
                n
            }
        };
        let threads = (0..cores).map(|_| std::thread::spawn(busy(Arc::clone(&stop)))).collect();
        HostLoad { stop, threads }
    }
}

impl Drop for HostLoad {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
