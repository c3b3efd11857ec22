//! What people see of results: the report's model, its figures, tables and claims.

pub(crate) mod charts;
pub mod check;
pub mod claims;
pub mod explorer;
mod figures;
pub mod history;
mod layers;
pub mod model;
mod report_files;
pub mod report_model;
mod rows;
mod throttled;
pub mod traces;
