//! Programs of others on mounted volumes. Each has a fresh volume, which is checked afterwards.
//!
//! Needs root, FUSE and the programs; what cannot be had is left out, and named.

mod acknowledged;
mod acknowledged_runs;
mod carry;
mod endings;
mod events;
mod kills;
mod make;
mod posix;
mod programs;
mod scrub;
mod ways;
