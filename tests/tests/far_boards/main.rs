//! Boards at the other end of something: one program, for most of its time is waiting, which two tests can do at once.

mod adb;
mod cable;
mod shared;
mod ssh;
