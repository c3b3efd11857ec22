//! What the whole-system tests share.

pub mod command;
pub mod handles;
pub mod jffs2;
pub mod kubernetes;
pub mod mounted;
pub mod network;
pub mod phone;
pub mod poor_board;
pub mod results;
pub mod small_study;
pub mod suites;
pub mod yaffs2;

use pocketstone_board::{Architecture, Board, BoardContext, Cache, Profile, ProfileKind};
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::{FileSystem, Volume};
use pocketstone_testing::{Need, Skip, installed, program};
use pocketstone_workload::plan::*;
use pocketstone_workload::{ReadSpec, Workload};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The project's folder.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A board's context with the user's cache.
pub fn context() -> BoardContext {
    let cache = Cache::of_user().expect("a cache");
    BoardContext {
        cache,
        devices: project().join("devices"),
        progress: Arc::new(|_| {}),
        cancelled: Arc::default(),
        wakes: None,
    }
}

/// Whether this machine has what runs virtual boards. Nothing else is a reason to do without one: a board that
/// cannot be opened where QEMU is installed is a failure.
///
/// # Errors
///
/// A counted [`Skip`] where there is no QEMU.
#[track_caller]
pub fn qemu() -> Result<(), Skip> {
    match installed("qemu-system-arm") {
        Some(_) => Ok(()),
        None => Err(Need::Qemu.lacks("no virtual boards: there is no qemu-system-arm")),
    }
}

/// A shipped virtual board, changed by `change`; a cold one keeps no states.
fn opened(name: &str, change: impl FnOnce(&mut pocketstone_board::VirtualProfile), cold: bool) -> Board {
    let mut profile = Profile::load(&project().join("devices"), name).expect("the shipped profile");
    let ProfileKind::Virtual(machine) = &mut profile.kind else { panic!("{name} is virtual") };
    change(machine);
    pocketstone_board::open(&profile, cold, &context()).unwrap_or_else(|error| panic!("{}", error.chain()))
}

/// The shipped virtual board, changed by `change`.
///
/// # Errors
///
/// A counted [`Skip`] where there is no QEMU.
#[track_caller]
pub fn virtual_board_with(change: impl FnOnce(&mut pocketstone_board::VirtualProfile)) -> Result<Board, Skip> {
    qemu().map(|()| opened("virt-nand", change, false))
}

/// The shipped virtual board.
///
/// # Errors
///
/// A counted [`Skip`] where there is no QEMU.
#[track_caller]
pub fn virtual_board() -> Result<Board, Skip> {
    virtual_board_with(|_| {})
}

/// The shipped virtual board, which makes every state anew for each cell.
///
/// # Errors
///
/// A counted [`Skip`] where there is no QEMU.
#[track_caller]
pub fn cold_virtual_board() -> Result<Board, Skip> {
    qemu().map(|()| opened("virt-nand", |_| {}, true))
}

/// A shipped virtual board with managed flash, by its name.
///
/// # Errors
///
/// A counted [`Skip`] where there is no QEMU, or nothing compiles for a 64-bit board.
#[track_caller]
pub fn managed_flash_board(name: &str, cold: bool) -> Result<Board, Skip> {
    qemu()?;
    if name.ends_with("arm64") {
        arm64_compiler()?;
    }
    Ok(opened(name, |_| {}, cold))
}

/// Whether a runner can be compiled for 64-bit boards, which not every machine that has one for 32-bit ones can do.
///
/// # Errors
///
/// A counted [`Skip`] that names what is missing.
#[track_caller]
pub fn arm64_compiler() -> Result<(), Skip> {
    program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu and libc6-dev-arm64-cross")?;
    let compiler = pocketstone_board::runner_compiler(Architecture::Aarch64.debian(), &context());
    compiler.map(drop).map_err(|error| Need::Programs.lacks(error.chain()))
}

/// A plan: 4 KiB reads of a 5 MiB file on JFFS2 without compression.
pub fn plan(file_system: FileSystem, pattern: Pattern, requests: u64, read_ahead_bytes: u64, seed: u64) -> Plan {
    let options = match file_system {
        FileSystem::Jffs2 => vec!["compr=none".to_owned()],
        _ => Vec::new(),
    };
    let volume = Volume { options, ..Volume::usual(file_system) };
    let read_ahead = Some(ReadAhead { by: ReadAheadBy::Mount, bytes: read_ahead_bytes });
    Plan { read_ahead, ..Plan::new(seed, volume, Workload::Read(ReadSpec::new(pattern, requests))) }
}

/// Measures a plan; a failure shows the board's console.
pub fn measure(board: &Board, plan: &Plan) -> pocketstone_board::Measured {
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
