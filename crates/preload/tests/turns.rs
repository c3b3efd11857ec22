//! Threads at one offset: a direct call has it for itself, and nobody waits for the kernel.

#[path = "../src/turns.rs"]
mod turns;

/// What the module asks of the system, as a test can have it.
mod raw {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! { static WORD: Cell<u64> = const { Cell::new(0) } }

    pub fn thread() -> usize {
        WORD.with(|word| std::ptr::from_ref(word).addr())
    }

    pub fn pause(ns: i64) {
        std::thread::sleep(Duration::from_nanos(ns.unsigned_abs()));
    }
}

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use turns::{Turn, Under};

/// A word that is changed in two steps has lost nothing if nobody came in between.
#[test]
fn a_direct_call_is_alone_and_calls_of_the_kernel_are_not() {
    const ROUNDS: u64 = 20_000;
    let (turn, under) = (Turn::default(), Under::default());
    let (steps, direct, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for way in 0..4 {
            let (turn, under, steps, direct, done) = (&turn, &under, &steps, &direct, &done);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let took = way % 2 == 0
                        && turn
                            .run(under, || {
                                let before = steps.load(Ordering::Relaxed);
                                std::hint::spin_loop();
                                steps.store(before + 1, Ordering::Relaxed);
                            })
                            .is_some();
                    if took {
                        direct.fetch_add(1, Ordering::Relaxed);
                    } else {
                        // As the kernel does it: one step.
                        let counted = turn.enter();
                        steps.fetch_add(1, Ordering::Relaxed);
                        if counted {
                            turn.left();
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!((steps.into_inner(), done.into_inner()), (4 * ROUNDS, 4 * ROUNDS));
    assert!(direct.into_inner() > 0, "no call was direct");
    assert!(turn.run(&under, || ()).is_some(), "all turns are over");
}

/// Somebody who closes a number, or shares the file, waits for a direct call, and for nothing else.
#[test]
fn marks_are_seen_by_the_next_call_and_the_one_under_way_is_waited_for() {
    let (turn, under, marked, ended) =
        (Turn::default(), Under::default(), AtomicBool::new(false), AtomicBool::new(false));
    let (begun, wait) = channel();
    thread::scope(|scope| {
        let (turn, under, marked, ended) = (&turn, &under, &marked, &ended);
        scope.spawn(move || {
            turn.run(under, || {
                begun.send(()).expect("somebody waits");
                while !marked.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(20));
                ended.store(true, Ordering::SeqCst);
            })
        });
        wait.recv().expect("it is under way");
        assert!(turn.run(under, || ()).is_none(), "two direct calls at once");
        marked.store(true, Ordering::SeqCst);
        turn.settle();
        assert!(ended.load(Ordering::SeqCst));
        under.settle();
    });
    assert!(turn.enter());
    let now = Instant::now();
    turn.settle();
    assert!(now.elapsed() < Duration::from_millis(500), "the kernel was waited for");
    assert!(turn.run(&under, || ()).is_none(), "the kernel is at it");
    turn.left();
    assert!(turn.run(&under, || ()).is_some());
}

/// A handler that interrupts a direct call does not wait for its own thread; and one that jumps out of it is waited for
/// a second, once.
#[test]
fn a_handler_does_not_wait_for_itself_nor_anybody_for_ever_for_one_that_jumped_away() {
    let (turn, under) = (Turn::default(), Under::default());
    turn.run(&under, || {
        assert!(!turn.enter(), "it is not counted");
        turn.settle();
        assert!(turn.run(&under, || ()).is_none());
    });
    assert!(turn.run(&under, || ()).is_some(), "as before");
    let (turn, under) = (Box::leak(Box::new(Turn::default())), Box::leak(Box::new(Under::default())));
    let (turn, under): (&Turn, &Under) = (turn, under);
    let (begun, wait) = channel();
    thread::spawn(move || {
        turn.run(under, || {
            begun.send(()).expect("somebody waits");
            loop {
                thread::park();
            }
        })
    });
    wait.recv().expect("it is under way");
    let now = Instant::now();
    assert!(turn.enter());
    assert!(now.elapsed() >= Duration::from_millis(900), "{:?}", now.elapsed());
    turn.left();
    assert!(turn.run(under, || ()).is_some());
    under.settle();
}

/// Calls of the kernel that did not come back, or were not counted, do no harm but to speed.
#[test]
fn what_never_entered_leaves_nothing() {
    let (turn, under) = (Turn::default(), Under::default());
    turn.left();
    assert!(turn.run(&under, || turn.left()).is_some());
    assert!(turn.enter() && turn.enter());
    turn.left();
    assert!(turn.run(&under, || ()).is_none());
    turn.left();
    turn.left();
    assert!(turn.run(&under, || ()).is_some());
}
