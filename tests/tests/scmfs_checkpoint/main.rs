//! Checkpoints of mounted volumes, by the commands.

mod losses;
mod unit;
mod writers;
