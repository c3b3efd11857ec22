//! The measured loop.

mod shares;

use self::shares::{InOrder, Shares};
use crate::Engine;
use crate::clock::{now_ns, sleep_until};
use pocketstone_core::log::Call;
use pocketstone_core::{Error, Result};
use pocketstone_workload::Operation;
use std::sync::Barrier;

/// The recording of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// One entry per operation that is logged, in order.
    pub calls: Vec<Call>,
    /// Time of the run's start (CLOCK_MONOTONIC).
    pub start_ns: u64,
    /// Time of its end.
    pub end_ns: u64,
    /// The threads that did it, as the kernel numbers them.
    pub threads: Vec<u32>,
}

/// Executes all operations and times every one that is logged ([`Operation::is_logged`]). Of several engines each has
/// a thread: engine `t` of `n` has the logged operations `t`, `t + n`, ..., each with what stands before it, or what it
/// has by [`Operation::Turn`].
///
/// The operations are expected in memory and the calls are stored without allocating, so that
/// beyond the engine's work a call costs two readings of the clock.
///
/// # Errors
/// `ErrorKind::Board` if an operation fails, of the first thread that has one, with its number; `ErrorKind::Bug` if
/// there is no engine, or none for an [`Operation::Turn`], or a thread panics.
pub fn run<E: Engine + Send>(engines: &mut [E], operations: &[Operation]) -> Result<Recording> {
    match engines {
        [] => Err(Error::bug("no thread executes the operations")),
        [engine] => of_one(engine, operations, &AtOnce).map_err(|(number, error)| failed(number, operations, error)),
        engines => of_many(engines, operations),
    }
}

fn failed(number: usize, operations: &[Operation], error: Error) -> Error {
    let operation = operations.iter().filter(|operation| operation.is_logged()).nth(number);
    let what = operation.map_or_else(String::new, |operation| format!(" ({operation:?})"));
    Error::board(format!("operation {number}{what} failed")).because(error)
}

/// When a thread may begin its operations.
trait Order {
    /// Waits until the operation of this number may begin; false if it never may.
    fn may_begin(&self, number: usize) -> bool;

    /// The operation of this number is done, or has failed.
    fn ended(&self, number: usize, failed: bool);
}

/// Whenever its turn comes.
struct AtOnce;

impl Order for AtOnce {
    #[inline]
    fn may_begin(&self, _number: usize) -> bool {
        true
    }

    #[inline]
    fn ended(&self, _number: usize, _failed: bool) {}
}

/// An error has the number of logged operations before it.
fn of_one(engine: &mut impl Engine, operations: &[Operation], order: &impl Order) -> Result<Recording, (usize, Error)> {
    let mut calls = Vec::with_capacity(operations.len());
    let start_ns = now_ns();
    let mut last_ns = start_ns;
    let mut intended_ns = start_ns;
    for (number, operation) in operations.iter().enumerate() {
        if let Operation::Pause { ns } = operation {
            intended_ns = intended_ns.saturating_add(*ns);
            sleep_until(intended_ns);
            continue;
        }
        if !order.may_begin(number) {
            break;
        }
        let start = if operation.is_logged() { now_ns() } else { last_ns };
        let result = engine.execute(operation);
        last_ns = now_ns();
        order.ended(number, result.is_err());
        if let Err(error) = result {
            return Err((calls.len(), error));
        }
        if !operation.is_logged() {
            // It is the measurement's own: the next operation was meant to start behind it.
            intended_ns = last_ns;
            continue;
        }
        calls.push(Call { start_ns: start, latency_ns: last_ns - start, intended_ns });
        intended_ns = last_ns;
    }
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    Ok(Recording { calls, start_ns, end_ns: last_ns, threads: vec![thread] })
}

fn of_many<E: Engine + Send>(engines: &mut [E], operations: &[Operation]) -> Result<Recording> {
    let number = engines.len();
    let shares = Shares::of(operations, number)?;
    let together = Barrier::new(number);
    let recordings = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(number);
        for (engine, share) in engines.iter_mut().zip(&shares.of_threads) {
            let (together, shares) = (&together, &shares);
            threads.push(scope.spawn(move || {
                together.wait();
                match shares.in_turns {
                    true => of_one(engine, &share.operations, &InOrder { share, shares }),
                    false => of_one(engine, &share.operations, &AtOnce),
                }
            }));
        }
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.collect::<std::thread::Result<Vec<_>>>().map_err(|_| Error::bug("a thread of the workload panicked"))
    })?;
    let of_all = |(thread, recording): (usize, Result<Recording, (usize, Error)>)| {
        recording.map_err(|(at, error)| failed(shares.number(thread, at), operations, error))
    };
    let recordings: Vec<Recording> = recordings.into_iter().enumerate().map(of_all).collect::<Result<_>>()?;
    let mut calls: Vec<_> = recordings.iter().map(|recording| recording.calls.iter()).collect();
    let calls = shares.owners.iter().filter_map(|owner| calls[*owner as usize].next().copied()).collect();
    let start_ns = recordings.iter().map(|r| r.start_ns).min().unwrap_or(0);
    let end_ns = recordings.iter().map(|r| r.end_ns).max().unwrap_or(0);
    let threads = recordings.iter().flat_map(|r| r.threads.iter().copied()).collect();
    Ok(Recording { calls, start_ns, end_ns, threads })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    struct Counting(u64);

    impl Engine for Counting {
        fn execute(&mut self, operation: &Operation) -> Result<u64> {
            match operation {
                Operation::Read { offset: 13, .. } => Err(Error::board("bad sector")),
                Operation::Read { bytes, .. } => {
                    self.0 += bytes;
                    Ok(*bytes)
                }
                Operation::Evict { .. } => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    Ok(0)
                }
                _ => Err(Error::bug("nothing else is executed")),
            }
        }
    }

    /// How often a run may be disturbed by what else this machine does.
    const TRIES: usize = 20;

    #[test]
    fn pauses_part_the_calls_and_are_not_in_their_latency() {
        let read = Operation::Read { file: 0, offset: 0, bytes: 5 };
        let is_quick = || {
            let mut engine = Counting(0);
            let recording =
                run(std::slice::from_mut(&mut engine), &[read, Operation::Pause { ns: 20_000_000 }, read]).unwrap();
            let [first, second] = recording.calls[..] else { panic!("two calls") };
            assert_eq!(engine.0, 10);
            assert!(second.start_ns - (first.start_ns + first.latency_ns) >= 20_000_000);
            assert_eq!(recording.end_ns, second.start_ns + second.latency_ns);
            second.latency_ns < 20_000_000
        };
        // A call that lost its processor may take as long as the pause; not again and again.
        assert!((0..TRIES).any(|_| is_quick()));
    }

    #[test]
    fn pauses_in_a_row_add_up() {
        let read = Operation::Read { file: 0, offset: 0, bytes: 5 };
        let pause = Operation::Pause { ns: 1_000_000 };
        let calls = run(&mut [Counting(0)], &[pause, pause, read, pause, pause, pause, read]).unwrap();
        let [first, second] = calls.calls[..] else { panic!("two calls") };
        assert_eq!(first.intended_ns, calls.start_ns + 2_000_000);
        assert_eq!(second.intended_ns, first.start_ns + first.latency_ns + 3_000_000);
        assert!(first.start_ns >= first.intended_ns && second.start_ns >= second.intended_ns);
    }

    #[test]
    fn what_belongs_to_the_measurement_is_done_and_is_no_call() {
        let read = Operation::Read { file: 0, offset: 0, bytes: 5 };
        let is_quick = || {
            let recording = run(&mut [Counting(0)], &[read, Operation::Evict { file: 0 }, read]).unwrap();
            let [first, second] = recording.calls[..] else { panic!("two calls") };
            assert!(second.start_ns - (first.start_ns + first.latency_ns) >= 20_000_000);
            second.latency_ns < 20_000_000 && second.start_ns - second.intended_ns < 20_000_000
        };
        assert!((0..TRIES).any(|_| is_quick()));
    }

    /// Notes what is executed; a file's creation takes long.
    struct Noting<'a>(u32, &'a Mutex<Vec<(u32, Operation)>>);

    impl Engine for Noting<'_> {
        fn execute(&mut self, operation: &Operation) -> Result<u64> {
            if matches!(operation, Operation::CreateFile { .. }) {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            self.1.lock().unwrap().push((self.0, *operation));
            match operation {
                Operation::ReadFile { file: 13 } => Err(Error::board("bad sector")),
                _ => Ok(0),
            }
        }
    }

    #[test]
    fn turns_choose_threads_and_a_name_is_there_before_it_is_used() {
        use Operation::{CreateFile, Delete, ReadFile, Turn};
        let turn = |thread| Turn { thread };
        let operations = [
            turn(0),
            CreateFile { file: 7 },
            turn(1),
            ReadFile { file: 7 },
            ReadFile { file: 8 },
            turn(2),
            ReadFile { file: 7 },
            turn(1),
            ReadFile { file: 9 },
            turn(0),
            Delete { file: 7 },
        ];
        let noted = Mutex::new(Vec::new());
        let mut engines = [0, 1, 2].map(|thread| Noting(thread, &noted));
        let recording = run(&mut engines, &operations).unwrap();
        assert_eq!(recording.calls.len(), 6);
        let of_thread = |thread| -> Vec<Operation> {
            let those = noted.lock().unwrap();
            those.iter().filter(|(of, _)| *of == thread).map(|(_, operation)| *operation).collect()
        };
        assert_eq!(of_thread(1), [7, 8, 9].map(|file| ReadFile { file }));
        assert_eq!(of_thread(2), [ReadFile { file: 7 }]);
        let on_seven: Vec<Operation> =
            noted.lock().unwrap().iter().map(|(_, o)| *o).filter(|o| o.file() == Some(7)).collect();
        let read = ReadFile { file: 7 };
        assert_eq!(on_seven, [CreateFile { file: 7 }, read, read, Delete { file: 7 }]);
        // Waiting is no part of a call: only the creation is slow.
        assert!(recording.calls[0].latency_ns >= 20_000_000);
        assert!(recording.calls[1].start_ns >= recording.calls[0].start_ns + 20_000_000);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_failed() {
        use Operation::{Delete, ReadFile, Turn};
        let operations =
            [Turn { thread: 0 }, ReadFile { file: 13 }, Turn { thread: 1 }, ReadFile { file: 1 }, Delete { file: 13 }];
        let noted = Mutex::new(Vec::new());
        let mut engines = [0, 1].map(|thread| Noting(thread, &noted));
        let error = run(&mut engines, &operations).unwrap_err();
        assert!(error.chain().starts_with("operation 0 (ReadFile { file: 13 })"), "{}", error.chain());
        assert!(!noted.lock().unwrap().iter().any(|(_, operation)| *operation == Delete { file: 13 }));
        let wrong = run(&mut engines, &[Turn { thread: 2 }, ReadFile { file: 1 }]).unwrap_err();
        assert!(wrong.chain().contains("there is no thread 2"));
    }

    #[test]
    fn a_failed_operation_ends_the_run_and_is_named() {
        let bad = Operation::Read { file: 0, offset: 13, bytes: 1 };
        let error = run(&mut [Counting(0)], &[Operation::Read { file: 0, offset: 0, bytes: 1 }, bad]).unwrap_err();
        assert!(error.chain().starts_with("operation 1 (Read { file: 0, offset: 13"), "{}", error.chain());
        assert!(error.chain().ends_with("bad sector"));
    }
}
