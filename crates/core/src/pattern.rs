//! The order in which a workload goes through what it has.

crate::words! {
    /// Order of a workload's offsets or files.
    Pattern {
        /// From the start of the file on, wrapping at its end.
        Sequential = "sequential",
        /// Uniform over the request-aligned offsets of the file, with replacement.
        Random = "random",
    }
}
