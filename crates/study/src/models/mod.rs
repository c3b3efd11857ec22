//! Models of measured runs: replays on devices, modelled energy, read-ahead, and advice.

pub mod advise;
pub mod read_ahead;
pub mod refresh;
pub mod replay;
