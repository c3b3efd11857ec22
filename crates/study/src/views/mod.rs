//! What people see of results: the report's model, its figures, tables and claims.

pub(crate) mod charts;
pub mod check;
pub mod claims;
pub mod explorer;
mod figures;
pub mod history;
mod layers;
pub mod model;
pub mod report_model;
mod report_tables;
mod rows;
mod throttled;
pub mod traces;
