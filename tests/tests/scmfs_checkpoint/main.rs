//! Checkpoints of mounted volumes, by the commands.

mod asked;
mod losses;
mod unit;
mod writers;
