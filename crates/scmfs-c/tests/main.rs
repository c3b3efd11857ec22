//! The interface as its users see it: C, C++ and Python, and Rust where it takes wrong arguments.

mod arguments;
mod calls;
mod header;
mod killed;
mod programs;
mod support;
