//! Models over recorded runs: what a run would have taken, in time and in energy, on a device and under a CPU
//! frequency governor that are not here.
//!
//! ```text
//! recorded run, phone's ftrace, synthetic --> Activity --(levers)--> simulate(device, governor) --> Replayed
//!                     cycles, waits, delays                      latencies, frequencies, residency, energy
//! ```
//! Beside it, [`read_ahead`]: which pages a run's reads would have read under other rules and settings of read-ahead.
//!
//! A replay is modelled, never measured: whoever shows its numbers says so and names the device's profile.
//! It uses no clock, no randomness and no thread: the same input gives the same bits everywhere.

pub mod activity;
pub mod advise;
pub mod bound;
pub mod browser;
pub mod device;
pub mod fit;
pub mod governor;
pub mod levers;
pub mod outcome;
pub mod read_ahead;
pub mod recorded;
pub mod simulate;
pub mod tlb;
pub mod validate;
