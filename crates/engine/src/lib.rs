//! What executes a workload's operations, and times them.
