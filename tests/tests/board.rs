//! The virtual board, for real.

use pocketstone_core::plan::{FileSystem, Pattern};
use pocketstone_tests::{measure, plan, virtual_board};

#[test]
fn a_first_cell() {
    let Some(board) = virtual_board() else { return };
    for fs in [FileSystem::Ubifs] {
        for requests in [16, 64, 1024] {
            for ra in [128 << 10, 0] {
                let t = std::time::Instant::now();
                let mut p = plan(fs, Pattern::Sequential, requests, ra, 1);
                let a = measure(&board, &p);
                let total: u64 = a.calls.iter().map(|c| c.latency_ns).sum();
                p.trace = true;
                let b = measure(&board, &p);
                let traced: u64 = b.calls.iter().map(|c| c.latency_ns).sum();
                eprintln!(
                    "{fs:?} {requests} {ra} total {total} traced {traced} {:?} {:?} host {:?}",
                    b.outcome.flash,
                    a.outcome.read_ahead,
                    t.elapsed()
                );
            }
        }
    }
}
