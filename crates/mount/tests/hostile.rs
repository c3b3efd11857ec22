//! A hostile client at random, by fixed seeds: nothing but itself is harmed, and nothing of it is left.

#[path = "client/mod.rs"]
mod client;

use pocketstone_mount::stores_directly;
use pocketstone_random::Random;
use pocketstone_testing::{Need, amount, or_skip, say, seed};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many clients there are at the same time, each with a server of its own.
const AT_ONCE: usize = 4;

/// Open descriptors and threads of this process.
fn held() -> [usize; 2] {
    ["/proc/self/fd", "/proc/self/task"].map(|list| std::fs::read_dir(list).expect("a list").count())
}

/// The only test of this program: it counts what the process has open.
#[test]
fn whatever_a_client_does_the_server_serves_on_and_nothing_is_left() {
    or_skip!(if stores_directly() {
        Ok(())
    } else {
        Err(Need::Kernel.lacks("direct stores: FUSE is ready for them from Linux 6.16 on"))
    });
    let (runs, start) = (amount(200, 5000), Instant::now());
    client::run(&[1]);
    // Its threads have ended.
    std::thread::sleep(Duration::from_millis(300));
    let before = held();
    let mut random = Random::new(seed(7));
    let mut bytes = |run| {
        let mut data = vec![0; 1 + client::ACTION_BYTES * random.below(40) as usize];
        random.fill(&mut data);
        if run % 2 == 0 {
            // Attached, with a file and a slot: what random bytes seldom come to.
            data.splice(..1, [1, 0, 0, 1, 0, 2, 0, 4, 0, 12, 0, 0, 0]);
        }
        data
    };
    let (inputs, next): (Vec<_>, _) = ((0..runs).map(&mut bytes).collect(), AtomicUsize::new(0));
    let each = || {
        let take = || next.fetch_add(1, Ordering::Relaxed);
        while let Some((run, data)) = Some(take()).and_then(|run| Some((run, inputs.get(run)?))) {
            if let Err(panic) = std::panic::catch_unwind(|| client::run(data)) {
                say(&format!("run {run}, of these bytes: {data:?}"));
                std::panic::resume_unwind(panic);
            }
        }
    };
    // A mount that ends waits a second for a store under way: several wait at the same time.
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(each))));
    // Threads that are about to end are counted, too.
    let limit = Instant::now() + Duration::from_secs(10);
    while held() != before && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(held(), before, "descriptors and threads, after {runs} runs in {:?}", start.elapsed());
}
