//! Programs of others that are started by `scmfs run`: they do what they do without it, some of it without the kernel.
//!
//! Needs FUSE, root and the programs; what cannot be had is left out, and named.

mod append;
mod durable;
mod endings;
mod limits;
mod mapped;
mod mixed;
mod offsets;
mod pair;
mod programs;
mod puppet;
mod report;
mod trust;
