//! Threads at one offset: a direct call has it for itself, and nobody waits for the kernel.

#[path = "../src/turns.rs"]
mod turns;

/// What the module asks of the system, as a test can have it.
mod raw {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static WORD: Cell<u64> = const { Cell::new(0) };
        /// Whoever waits in this thread does so for a part of the time.
        pub static SHORTER: Cell<u64> = const { Cell::new(1) };
    }

    pub fn thread() -> usize {
        WORD.with(|word| std::ptr::from_ref(word).addr())
    }

    pub fn pause(ns: i64) {
        std::thread::sleep(Duration::from_nanos(ns.unsigned_abs() / SHORTER.get()));
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
    let (turn, under) = (&Turn::default(), &Under::default());
    let (steps, direct, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for way in 0..4 {
            let (steps, direct, done) = (&steps, &direct, &done);
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
                        let counted = turn.enter(under);
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
    assert!(turn.run(under, || ()).is_some(), "all turns are over");
}

/// Somebody who closes a number, or shares the file, waits for a direct call, and for nothing else.
#[test]
fn marks_are_seen_by_the_next_call_and_the_one_under_way_is_waited_for() {
    let (turn, under) = (&Turn::default(), &Under::default());
    let (marked, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let (begun, wait) = channel();
    thread::scope(|scope| {
        let (marked, ended) = (&marked, &ended);
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
        turn.settle(under);
        assert!(ended.load(Ordering::SeqCst));
        under.settle(|| std::iter::once(turn));
    });
    assert!(turn.enter(under));
    let now = Instant::now();
    turn.settle(under);
    assert!(now.elapsed() < Duration::from_millis(500), "the kernel was waited for");
    assert!(turn.run(under, || ()).is_none(), "the kernel is at it");
    turn.left();
    assert!(turn.run(under, || ()).is_some());
}

/// Whoever makes one direct call after the other keeps nobody waiting for more than one of them, or two.
#[test]
fn others_get_their_turn_between_direct_calls() {
    const ROUNDS: usize = 50;
    let (turn, under) = (&Turn::default(), &Under::default());
    let (calls, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut waited = Vec::new();
    thread::scope(|scope| {
        let (calls, over) = (&calls, &over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                let took = turn.run(under, || while begin.elapsed() < Duration::from_micros(500) {});
                calls.fetch_add(u64::from(took.is_some()), Ordering::Relaxed);
            }
        });
        for round in 0..ROUNDS {
            let before = calls.load(Ordering::Relaxed);
            while calls.load(Ordering::Relaxed) == before {}
            let before = calls.load(Ordering::Relaxed);
            match round % 2 {
                0 => turn.settle(under),
                _ => {
                    assert!(turn.enter(under));
                    turn.left();
                }
            }
            waited.push(calls.load(Ordering::Relaxed) - before);
        }
        over.store(true, Ordering::Relaxed);
    });
    // The thread that waits may itself be kept from its processor, when the other one is free to go on.
    let long = waited.iter().filter(|calls| **calls > 2).count();
    assert!(long <= ROUNDS / 5, "direct calls meanwhile: {waited:?}");
}

/// Who forks waits for as long as a direct call takes; but not for its own, which its handler has interrupted.
#[test]
fn all_direct_calls_are_waited_for_but_ones_own() {
    let (turns, under, ended) = (&[Turn::default(), Turn::default()], &Under::default(), &AtomicBool::new(false));
    let (begun, wait) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            turns[0].run(under, || {
                begun.send(()).expect("somebody waits");
                thread::sleep(Duration::from_millis(800));
                ended.store(true, Ordering::SeqCst);
            })
        });
        wait.recv().expect("it is under way");
        turns[1].run(under, || {
            under.settle(|| turns.iter());
            assert!(ended.load(Ordering::SeqCst), "the other one is under way");
            let now = Instant::now();
            under.settle(|| turns.iter());
            assert!(now.elapsed() < Duration::from_millis(500), "it waited for itself");
        });
    });
}

/// A handler that interrupts a direct call does not wait for its own thread; and one that jumps out of it is waited for
/// once.
#[test]
fn a_handler_does_not_wait_for_itself_nor_anybody_for_ever_for_one_that_jumped_away() {
    let (turn, under) = (&Turn::default(), &Under::default());
    turn.run(under, || {
        assert!(!turn.enter(under), "it is not counted");
        turn.settle(under);
        assert!(turn.run(under, || ()).is_none());
    });
    assert!(turn.run(under, || ()).is_some(), "as before");
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
    raw::SHORTER.set(100);
    let now = Instant::now();
    assert!(turn.enter(under));
    let waited = now.elapsed();
    assert!(waited >= Duration::from_millis(100), "{waited:?}");
    turn.left();
    assert!(turn.run(under, || ()).is_some());
    let now = Instant::now();
    under.settle(|| std::iter::once(turn));
    assert!(now.elapsed() < waited / 2, "it is waited for again: {:?}", now.elapsed());
}

/// Calls of the kernel that did not come back, or were not counted, do no harm but to speed.
#[test]
fn what_never_entered_leaves_nothing() {
    let (turn, under) = (&Turn::default(), &Under::default());
    turn.left();
    assert!(turn.run(under, || turn.left()).is_some());
    assert!(turn.enter(under) && turn.enter(under));
    turn.left();
    assert!(turn.run(under, || ()).is_none());
    turn.left();
    turn.left();
    assert!(turn.run(under, || ()).is_some());
}
