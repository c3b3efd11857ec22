//! Programs of others on mounted volumes. Each has a fresh volume, which is checked afterwards.
//!
//! Needs root, FUSE and the programs; what cannot be had is left out, and named.

mod kills;
mod posix;
mod programs;
mod ways;
