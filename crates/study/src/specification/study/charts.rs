//! Charts that are not of one metric by one factor: from any query, and of frequencies over time.

use super::Locator;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// A chart of a query's result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChartSpec {
    /// Its name, unique in the study.
    pub name: String,
    /// Title.
    pub title: String,
    /// What to see in it.
    pub caption: String,
    /// How it is drawn.
    pub kind: ChartKind,
    /// Horizontal axis.
    pub x: AxisSpec,
    /// Vertical axis.
    pub y: AxisSpec,
    /// Series of a scatter plot that are curves: a bound.
    #[serde(default)]
    pub curves: Vec<String>,
    /// SQL with columns `series`, `x` and `y`; `low`, `high`, `x_low`, `x_high` and `label` may be there too.
    pub query: Spanned<String>,
}

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    /// Points alone.
    Scatter,
    /// Points with lines between them.
    Lines,
    /// Values that hold until the next one.
    Steps,
    /// Bars side by side; `x` is their name.
    Bars,
    /// Bars whose series lie one upon the other; `x` is their name.
    StackedBars,
}

/// An axis of a chart.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisSpec {
    /// Label, unit included.
    pub label: String,
    /// How values are spaced and written.
    #[serde(default)]
    pub scale: Scale,
}

/// How an axis places and writes its values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Linear, plain numbers.
    #[default]
    Linear,
    /// Powers of two evenly spaced, plain numbers.
    Log2,
    /// Linear, values are fractions shown as per cent.
    Percent,
    /// Linear, values are nanoseconds shown with the unit that fits.
    Duration,
    /// Powers of ten evenly spaced, values are nanoseconds shown with the unit that fits.
    LogDuration,
    /// Linear, values are bytes shown with the unit that fits.
    Bytes,
    /// Values are percentiles from 0 to 100; 0, 90, 99, 99.9 and so on are evenly spaced, and 100, the
    /// maximum, stands at the end.
    Percentile,
}

/// Frequency over time of one recorded run under the governors of a replay.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencySpec {
    /// Its name, unique in the study.
    pub name: String,
    /// Title.
    pub title: String,
    /// What to see in it.
    pub caption: String,
    /// The replay.
    pub replay: Spanned<String>,
    /// An SQL condition on the view `replays`; of the first cell, device and setting that fulfil it, all
    /// governors are shown that do, too.
    pub only: Option<Spanned<String>>,
    /// Start of the window.
    #[serde(default)]
    pub from_ms: f64,
    /// Its end; the run's without it.
    pub to_ms: Option<f64>,
}

/// Checks the windows, and that the replays are there.
pub(super) fn frequencies(at: &Locator<'_>, specs: &[FrequencySpec], replays: &[super::ReplaySpec]) -> Result<()> {
    for spec in specs {
        let name = spec.replay.get_ref();
        if !replays.iter().any(|r| r.name == *name) {
            let names: Vec<&str> = replays.iter().map(|r| r.name.as_str()).collect();
            let error = Error::user(format!("unknown replay `{name}`"));
            return Err(at.error(spec.replay.span(), error.hint(format!("replays: {}", names.join(", ")))));
        }
        let end = spec.to_ms.unwrap_or(f64::INFINITY);
        if !(spec.from_ms >= 0.0 && spec.from_ms < end) {
            let error = Error::user(format!("the window of [[frequency]] `{}` ends before it starts", spec.name));
            return Err(at.error(spec.replay.span(), error.hint("from_ms must be at least 0 and less than to_ms")));
        }
    }
    Ok(())
}
