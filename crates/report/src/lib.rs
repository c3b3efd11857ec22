//! One HTML file from a run's results.
