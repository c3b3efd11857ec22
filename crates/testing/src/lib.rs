//! What the tests of all crates share. Nothing but tests and benchmarks depends on this crate.

pub mod bench;
pub mod clock;
mod needs;
pub mod protobuf;
mod runs;
pub mod wait;

pub use needs::{ALL, Need, Skip, fuse, installed, program, required, root};
pub use runs::{amount, corpus, library, replay, say, seed};
