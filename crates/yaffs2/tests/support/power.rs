//! Losses of power.
