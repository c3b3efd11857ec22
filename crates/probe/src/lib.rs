//! What is measured beside the workload: flash operations, read-ahead in force, facts of the machine.

pub mod command;
pub mod facts;
pub mod flashmon;
pub mod quiet;
pub mod read_ahead;
mod tracefs;

pub use flashmon::Flashmon;
pub use read_ahead::BdiSetting;
