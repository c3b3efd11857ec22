//! What is too long for a test: `make torture`.

use pocketstone_board::Board;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_study::results::store::log_digest;
use pocketstone_testing::or_skip;
use pocketstone_tests::{HostLoad, cold_virtual_board, measure, plan, virtual_board};

fn log(board: &Board, file_system: FileSystem, pause_ns: u64) -> String {
    let mut plan = plan(file_system, Pattern::Random, 16, 128 << 10, 1);
    let pocketstone_workload::Workload::Read(spec) = &mut plan.workload else { panic!("it reads") };
    spec.inter_arrival_ns = pause_ns;
    plan.trace = true;
    log_digest(&measure(board, &plan))
}

#[test]
#[ignore = "takes minutes: make torture"]
fn a_hundred_runs_agree_on_each_file_system() {
    let board = or_skip!(virtual_board());
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
    let board = or_skip!(virtual_board());
    for (file_system, runs) in [(FileSystem::Jffs2, 5), (FileSystem::Yaffs2, 2)] {
        let expected = log(&board, file_system, 0);
        let cold = or_skip!(cold_virtual_board());
        let _load = HostLoad::on_every_core();
        for run in 0..runs {
            assert_eq!(log(&cold, file_system, 0), expected, "cold boot {run}");
        }
    }
}
