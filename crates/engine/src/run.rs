//! The measured loop.

use crate::Engine;
use crate::clock::{now_ns, sleep_until};
use pocketstone_core::log::Call;
use pocketstone_core::{Error, Result};
use pocketstone_workload::Operation;

/// What a run leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// One entry per operation that is logged, in order.
    pub calls: Vec<Call>,
    /// Time of the run's start (CLOCK_MONOTONIC).
    pub start_ns: u64,
    /// Time of its end.
    pub end_ns: u64,
}

/// Executes all operations and times every one that is logged ([`Operation::is_logged`]).
///
/// The operations are expected in memory and the calls are stored without allocating, so that
/// beyond the engine's work a call costs two readings of the clock.
///
/// # Errors
/// The first failed operation, with its number.
pub fn run(engine: &mut impl Engine, operations: &[Operation]) -> Result<Recording> {
    let mut calls = Vec::with_capacity(operations.len());
    let start_ns = now_ns();
    let mut last_ns = start_ns;
    let mut intended_ns = start_ns;
    for operation in operations {
        if let Operation::Pause { ns } = operation {
            intended_ns = last_ns + ns;
            sleep_until(intended_ns);
            continue;
        }
        let start = if operation.is_logged() { now_ns() } else { last_ns };
        let result = engine.execute(operation);
        last_ns = now_ns();
        if let Err(error) = result {
            return Err(Error::board(format!("operation {} ({operation:?}) failed", calls.len())).because(error));
        }
        if !operation.is_logged() {
            // It is the measurement's own: the next operation was meant to start behind it.
            intended_ns = last_ns;
            continue;
        }
        calls.push(Call { start_ns: start, latency_ns: last_ns - start, intended_ns });
        intended_ns = last_ns;
    }
    Ok(Recording { calls, start_ns, end_ns: last_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn pauses_part_the_calls_and_are_not_in_their_latency() {
        let read = Operation::Read { file: 0, offset: 0, bytes: 5 };
        let mut engine = Counting(0);
        let recording = run(&mut engine, &[read, Operation::Pause { ns: 20_000_000 }, read]).unwrap();
        let [first, second] = recording.calls[..] else { panic!("two calls") };
        assert_eq!(engine.0, 10);
        assert!(second.start_ns - (first.start_ns + first.latency_ns) >= 20_000_000);
        assert!(second.latency_ns < 20_000_000);
        assert_eq!(recording.end_ns, second.start_ns + second.latency_ns);
    }

    #[test]
    fn what_belongs_to_the_measurement_is_done_and_is_no_call() {
        let read = Operation::Read { file: 0, offset: 0, bytes: 5 };
        let recording = run(&mut Counting(0), &[read, Operation::Evict { file: 0 }, read]).unwrap();
        let [first, second] = recording.calls[..] else { panic!("two calls") };
        assert!(second.start_ns - (first.start_ns + first.latency_ns) >= 20_000_000);
        assert!(second.latency_ns < 20_000_000 && second.start_ns - second.intended_ns < 20_000_000);
    }

    #[test]
    fn a_failed_operation_ends_the_run_and_is_named() {
        let bad = Operation::Read { file: 0, offset: 13, bytes: 1 };
        let error = run(&mut Counting(0), &[Operation::Read { file: 0, offset: 0, bytes: 1 }, bad]).unwrap_err();
        assert!(error.chain().starts_with("operation 1 (Read { file: 0, offset: 13"), "{}", error.chain());
        assert!(error.chain().ends_with("bad sector"));
    }
}
