//! What the integration tests share beyond what the tests of all file systems do: chips, losses of power, damage.
//!
//! Fuzz targets take a part of it.
#![allow(dead_code, missing_docs)]

pub mod durable;
pub mod foreign;
pub mod fuzz;
pub mod power;
pub mod recorder;
pub mod rows;
pub mod run;
pub mod shape;
pub mod subject;
pub mod writer;

#[allow(unused_imports, reason = "fuzz targets share this, and use none of them")]
pub use pocketstone_testing::{amount, say, seed};
