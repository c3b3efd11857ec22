//! What is too long for a test: `make torture`.

use pocketstone_board::Board;
use pocketstone_core::plan::{FileSystem, Pattern};
use pocketstone_study::store::log_digest;
use pocketstone_tests::{HostLoad, measure, plan, virtual_board};

fn log(board: &dyn Board, file_system: FileSystem, pause_ns: u64) -> String {
    let mut plan = plan(file_system, Pattern::Random, 16, 128 << 10, 1);
    let pocketstone_core::plan::Workload::Read(spec) = &mut plan.workload else { panic!("it reads") };
    spec.inter_arrival_ns = pause_ns;
    plan.trace = true;
    log_digest(&measure(board, &plan))
}

#[test]
#[ignore = "takes minutes: make torture"]
fn a_hundred_runs_agree_on_each_file_system() {
    let Some(board) = virtual_board() else { return };
    for (file_system, pause_ns) in [(FileSystem::Jffs2, 0), (FileSystem::Ubifs, 0), (FileSystem::Jffs2, 3_000_000)] {
        let expected = log(&board, file_system, pause_ns);
        for run in 0..50 {
            assert_eq!(log(&board, file_system, pause_ns), expected, "run {run}, idle host");
        }
        let _load = HostLoad::on_every_core();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for run in 0..25 {
                        let got = log(&board, file_system, pause_ns);
                        assert_eq!(got, expected, "run {run}, loaded host, two machines at once");
                    }
                });
            }
        });
    }
}

#[test]
#[ignore = "takes minutes: make torture"]
fn cold_boots_agree_on_a_loaded_host() {
    let Some(board) = virtual_board() else { return };
    let expected = log(&board, FileSystem::Jffs2, 0);
    let board = board.cold();
    let _load = HostLoad::on_every_core();
    for run in 0..5 {
        assert_eq!(log(&board, FileSystem::Jffs2, 0), expected, "cold boot {run}");
    }
}
