//! The figures of a study: a metric over a factor.

use super::Experiment;
use super::place::Locator;
use crate::specification::factor;
use crate::specification::metric::{self, Better, Source};
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
    pub only: Option<Spanned<String>>,
    /// A published line.
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
    let unit = |name: &Spanned<String>| metric::named(name.get_ref()).map(|metric| metric.unit);
    for figure in figures {
        for named in figure.stack.iter().chain([&figure.metric]) {
            let name = named.get_ref();
            if metric::named(name).is_none() {
                return Err(at.error(named.span(), metric::unknown(name)));
            }
        }
        if let (false, Some(series)) = (figure.stack.is_empty(), figure.series.first()) {
            let error = Error::user("a stack of metrics cannot have a series");
            return Err(
                at.error(series.span(), error.hint("select one value of each with `only`, or draw a figure for each"))
            );
        }
        if let Some(other) = figure.stack.iter().find(|m| unit(m) != unit(&figure.metric)) {
            let names = [other, &figure.metric].map(|m| m.get_ref());
            let error =
                Error::user(format!("`{}` has another unit than `{}`, and a stack has one", names[0], names[1]));
            return Err(at.error(other.span(), error));
        }
        let runs = figure.show == Show::Runs;
        let of_runs = |name: &&Spanned<String>| metric::named(name.get_ref()).is_some_and(|m| m.source == Source::Runs);
        let shown = || [&figure.metric].into_iter().chain(&figure.stack);
        if let Some(none) = shown().find(of_runs).filter(|_| runs || !figure.stack.is_empty()) {
            let error = Error::user(format!("single runs have no `{}`", none.get_ref()));
            let hint = "show its value without a stack: stacked bars show single runs, too";
            return Err(at.error(none.span(), error.hint(hint)));
        }
        if runs != (figure.x.get_ref() == "repetition") {
            let error = Error::user("show = \"runs\" and x = \"repetition\" go together");
            return Err(at.error(figure.x.span(), error));
        }
        let span = figure.experiment.span();
        let name = figure.experiment.get_ref();
        let missing = || at.error(span.clone(), Error::user(format!("unknown experiment `{name}`")));
        let experiment = experiments.iter().find(|e| e.name == *name).ok_or_else(missing)?;
        if figure.show == Show::Improvement && experiment.compare.is_none() {
            return Err(at.error(
                span,
                Error::user(format!(
                    "experiment `{name}` has no [experiment.compare], which show = \"improvement\" requires"
                )),
            ));
        }
        let better = metric::named(figure.metric.get_ref()).map(|m| m.better);
        if figure.show == Show::Improvement && better == Some(Better::Neither) {
            let error = Error::user(format!("`{}` has no better direction", figure.metric.get_ref()));
            return Err(at.error(figure.metric.span(), error.hint("set show = \"value\"")));
        }
        for factor in figure.series.iter().chain((!runs).then_some(&figure.x)) {
            factor::named(factor.get_ref()).map_err(|e| at.error(factor.span(), e))?;
        }
    }
    Ok(())
}
