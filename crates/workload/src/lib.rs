//! Workloads as pure streams of operations.
