//! Databases: what executes a prepared workload.

mod task;

pub use task::{Task, TaskResult, Work};
