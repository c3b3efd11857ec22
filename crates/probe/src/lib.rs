//! What is measured beside the workload: flash operations, the kernel's events, what a process used,
//! read-ahead and the other conditions in force, facts of the machine.

pub mod alone;
pub mod analysis;
pub mod bench_meter;
pub mod blkmon;
pub mod chip_changes;
pub mod command;
pub mod conditions;
pub mod counters;
pub mod facts;
pub mod flashmon;
pub mod ftrace;
pub mod lab_copy;
pub mod left;
pub mod mark;
pub mod meters;
mod own_folder;
pub mod perfetto;
pub mod quiet;
pub mod read_ahead;
pub mod recorder;
pub mod serial;
pub mod settings;
pub mod traced;
mod tracefs;
pub mod usage;

pub use alone::Alone;
pub use chip_changes::ChipChanges;
pub use flashmon::Flashmon;
pub use lab_copy::LabCopy;
pub use own_folder::own_folder;
pub use recorder::Recorder;
pub use settings::Settings;
pub use traced::Traced;
pub use tracefs::{ensure_tracefs, remove_left_instances};
