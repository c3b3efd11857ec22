//! A profile's form, as `toml` reads it; every value knows its place.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A number and where it is from.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scalar<T> {
    pub value: Spanned<T>,
    pub source: Option<Spanned<String>>,
}

/// A column of a table and where it is from.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column<T> {
    pub values: Spanned<Vec<Spanned<T>>>,
    pub source: Option<Spanned<String>>,
}

/// An entry that knows where it stands.
pub(super) type At<T> = Spanned<T>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    pub kind: Spanned<String>,
    #[serde(default)]
    pub description: String,
    /// Texts of sources that are named more than once, by a short name.
    #[serde(default)]
    pub sources: BTreeMap<String, Spanned<String>>,
    pub cluster: Vec<At<Cluster>>,
    pub awake_mw: At<Scalar<f64>>,
    pub asleep_mw: At<Scalar<f64>>,
    pub memory_mw: At<Scalar<f64>>,
    pub memory_share: At<Scalar<f64>>,
    pub cycles_per_recorded_ns: At<Scalar<f64>>,
    pub storage: Storage,
    pub hz: Option<At<Scalar<i64>>>,
    #[serde(default)]
    pub governor: BTreeMap<String, BTreeMap<String, At<Scalar<String>>>>,
    #[serde(default)]
    pub flash_energy: Vec<At<FlashEnergy>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cluster {
    pub name: Spanned<String>,
    pub cores: At<Scalar<i64>>,
    pub clock_per_core: At<Scalar<bool>>,
    pub shared_mw: At<Scalar<f64>>,
    pub transition_latency_ns: At<Scalar<i64>>,
    pub transition_stall_ns: At<Scalar<i64>>,
    pub points: At<Points>,
    pub idle: At<Idle>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Points {
    pub khz: Option<At<Column<i64>>>,
    pub power_mw: Option<At<Column<f64>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Idle {
    pub name: Option<Spanned<Vec<Spanned<String>>>>,
    pub power_mw: Option<At<Column<f64>>>,
    pub exit_ns: Option<At<Column<i64>>>,
    pub least_ns: Option<At<Column<i64>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Storage {
    pub read_mw: At<Scalar<f64>>,
    pub write_mw: At<Scalar<f64>>,
    pub sync_mw: At<Scalar<f64>>,
    pub times: Option<Times>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Times {
    pub read_ns: At<Scalar<i64>>,
    pub write_ns: At<Scalar<i64>>,
    pub sync_ns: At<Scalar<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlashEnergy {
    pub file_system: Spanned<String>,
    pub workload: Spanned<String>,
    pub pattern: Option<Spanned<String>>,
    pub read_ahead: bool,
    pub cpu_mw: At<Scalar<f64>>,
    pub memory_mw: At<Scalar<f64>>,
}
