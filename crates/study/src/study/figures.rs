//! The figures of a study: a metric over a factor.

use super::Experiment;
use super::place::Locator;
use crate::factor;
use pocketstone_core::{Error, Result};
use serde::Deserialize;
use toml::Spanned;

/// A chart.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// Its name, unique in the study.
    pub name: String,
    /// Title.
    pub title: String,
    /// What to see in it.
    pub caption: String,
    /// Experiment it shows.
    pub experiment: Spanned<String>,
    /// Metric it shows.
    pub metric: Spanned<String>,
    /// Further metrics, stacked on it: the figure has bars.
    #[serde(default)]
    pub stack: Vec<Spanned<String>>,
    /// `improvement` of the candidate over the baseline, or the metric's own `value`.
    pub show: Show,
    /// Factor on the horizontal axis.
    pub x: Spanned<String>,
    /// Factors that part the lines.
    #[serde(default)]
    pub series: Vec<Spanned<String>>,
    /// An SQL condition on the rows shown.
    pub only: Option<String>,
    /// What a publication reports.
    #[serde(default)]
    pub paper: Vec<PaperSeries>,
}

/// What a chart shows of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Show {
    /// The metric.
    Value,
    /// How much the candidate saves over the baseline, as a fraction of it.
    Improvement,
    /// The metric of each repetition, one beside the other; `x` is `repetition`.
    Runs,
}

/// A line from a publication.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperSeries {
    /// Its name in the legend.
    pub name: String,
    /// x and y of its points.
    pub points: Vec<[f64; 2]>,
}

/// Whether what figures name exists, and goes together.
pub(super) fn check(at: &Locator<'_>, figures: &[FigureSpec], experiments: &[Experiment]) -> Result<()> {
    for figure in figures {
        for named in figure.stack.iter().chain([&figure.metric]) {
            let metric = named.get_ref();
            let known = [&crate::metrics::METRICS[..], &crate::replay::flash::METRICS].concat();
            if !known.contains(&metric.as_str()) {
                let error = Error::user(format!("there is no metric `{metric}`"));
                let hint = format!("metrics: {}", known.join(", "));
                return Err(at.error(named.span(), error.hint(hint)));
            }
        }
        if let (false, Some(series)) = (figure.stack.is_empty(), figure.series.first()) {
            let error = Error::user("a stack of metrics has no further series");
            return Err(
                at.error(series.span(), error.hint("select one value of each with `only`, or draw a figure for each"))
            );
        }
        if let Some(other) = figure.stack.iter().find(|m| !m.get_ref().ends_with("_ns")) {
            let error = Error::user(format!("`{}` is no time, and a stack is made of times", other.get_ref()));
            return Err(at.error(other.span(), error));
        }
        let runs = figure.show == Show::Runs;
        if runs && ["tracing_cost", "net_process_ns"].contains(&figure.metric.get_ref().as_str()) {
            let error = Error::user(format!("no single run has a `{}`", figure.metric.get_ref()));
            return Err(at.error(figure.metric.span(), error.hint("set show = \"value\"")));
        }
        if runs != (figure.x.get_ref() == "repetition") {
            let error = Error::user("show = \"runs\" and x = \"repetition\" go together");
            return Err(at.error(figure.x.span(), error));
        }
        let span = figure.experiment.span();
        let name = figure.experiment.get_ref();
        let missing = || at.error(span.clone(), Error::user(format!("there is no experiment `{name}`")));
        let experiment = experiments.iter().find(|e| e.name == *name).ok_or_else(missing)?;
        if figure.show == Show::Improvement && experiment.compare.is_none() {
            return Err(at.error(
                span,
                Error::user(format!("experiment `{name}` has no [experiment.compare] to show an improvement of")),
            ));
        }
        for factor in figure.series.iter().chain((!runs).then_some(&figure.x)) {
            factor::named(factor.get_ref()).map_err(|e| at.error(factor.span(), e))?;
        }
    }
    Ok(())
}
