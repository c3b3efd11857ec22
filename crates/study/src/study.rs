//! A study: what a TOML file says. docs/studies.md describes the form.

mod charts;
mod modelled;

pub use charts::{AxisSpec, ChartKind, ChartSpec, FrequencySpec};
pub use modelled::{BOUND, Calibration, Choice, FlashEnergySpec, ReplaySpec};

use crate::factor::{self, FACTORS, Factor, Point};
use pocketstone_core::{Error, Result};
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// A study.
#[derive(Debug, Clone)]
pub struct Study {
    /// The file's name without `.toml`.
    pub name: String,
    /// The file's text.
    pub text: String,
    /// Title.
    pub title: String,
    /// Paragraphs about it.
    pub description: Vec<String>,
    /// Board that it is meant for.
    pub board: String,
    /// Number of seeds.
    pub repetitions: u32,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// The matrices.
    pub experiments: Vec<Experiment>,
    /// Runs that are replayed on models of devices.
    pub replays: Vec<ReplaySpec>,
    /// Experiments whose energy is that of a publication's constants.
    pub flash_energies: Vec<FlashEnergySpec>,
    /// What is drawn.
    pub figures: Vec<FigureSpec>,
    /// Charts of what queries give.
    pub charts: Vec<ChartSpec>,
    /// Frequencies over time.
    pub frequencies: Vec<FrequencySpec>,
    /// Tables.
    pub tables: Vec<TableSpec>,
    /// Runs that are shown in full.
    pub details: Vec<DetailSpec>,
    /// What must hold.
    pub claims: Vec<ClaimSpec>,
    /// Texts for the report.
    pub explanations: Vec<ExplanationSpec>,
}

/// Kinds of board that an experiment may have other factors for.
pub const BOARD_KINDS: [&str; 2] = ["virtual", "host"];

/// A matrix of factors.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its name, unique in the study.
    pub name: String,
    /// Values by factor.
    pub factors: BTreeMap<&'static str, Vec<Json>>,
    /// Values that replace them on boards of a kind (`host`, `virtual`).
    pub on: BTreeMap<String, BTreeMap<&'static str, Vec<Json>>>,
    /// Number of seeds, where it differs from the study's.
    pub repetitions: Option<u32>,
    /// Which repetitions have a traced twin.
    pub traced: Traced,
    /// Two values of a factor to hold against each other.
    pub compare: Option<Compare>,
}

/// Which repetitions of a cell are measured a second time, traced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traced {
    /// Each.
    #[default]
    Each,
    /// The first one.
    First,
    /// None.
    None,
}

/// Two values of a factor to hold against each other: improvement = 1 - candidate / baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Compare {
    /// The factor.
    pub factor: &'static str,
    /// The value that is there today.
    pub baseline: Json,
    /// The value that may be better.
    pub candidate: Json,
}

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

/// A table that an SQL query gives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Its name, unique in the study.
    pub name: String,
    /// Title.
    pub title: String,
    /// What it says.
    pub caption: String,
    /// SQL; its columns' names are the heads.
    pub query: Spanned<String>,
}

/// A run that is shown in full: its flash operations, and what its queries caused.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetailSpec {
    /// Its name, unique in the study.
    pub name: String,
    /// Title.
    pub title: String,
    /// What to see.
    pub caption: String,
    /// An SQL condition that selects cells; the first seed of each point is shown.
    pub only: String,
}

/// A claim: a number that an SQL query finds in the results, and its bounds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// Its name, unique in the study.
    pub name: String,
    /// The claim in words.
    pub text: String,
    /// SQL that gives one number.
    pub value: Spanned<String>,
    /// Smallest number for which it holds.
    pub at_least: Option<f64>,
    /// Largest number for which it holds.
    pub at_most: Option<f64>,
    /// How the number is written.
    #[serde(default)]
    pub unit: Unit,
    /// What the paper reports.
    pub paper: Option<String>,
    /// Whether the command fails (exit code 3) when it does not hold.
    #[serde(default)]
    pub required: bool,
}

/// How a claim's number is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// As it is.
    #[default]
    Number,
    /// A fraction, as per cent.
    Percent,
    /// Nanoseconds.
    Nanoseconds,
}

/// A text for the report.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplanationSpec {
    /// Heading.
    pub heading: String,
    /// Paragraphs.
    pub paragraphs: Vec<String>,
}

type Factors = BTreeMap<Spanned<String>, Spanned<toml::Value>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStudy {
    title: String,
    #[serde(default)]
    description: Vec<String>,
    board: String,
    #[serde(default = "one")]
    repetitions: u32,
    #[serde(default)]
    seed: u64,
    experiment: Vec<RawExperiment>,
    #[serde(default)]
    replay: Vec<modelled::RawReplay>,
    #[serde(default)]
    flash_energy: Vec<FlashEnergySpec>,
    #[serde(default)]
    figure: Vec<FigureSpec>,
    #[serde(default)]
    chart: Vec<ChartSpec>,
    #[serde(default)]
    frequency: Vec<FrequencySpec>,
    #[serde(default)]
    table: Vec<TableSpec>,
    #[serde(default)]
    detail: Vec<DetailSpec>,
    #[serde(default)]
    claim: Vec<ClaimSpec>,
    #[serde(default)]
    explanation: Vec<ExplanationSpec>,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExperiment {
    name: Spanned<String>,
    factors: Factors,
    #[serde(default)]
    on: BTreeMap<Spanned<String>, Factors>,
    repetitions: Option<u32>,
    #[serde(default)]
    traced: Traced,
    compare: Option<RawCompare>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCompare {
    factor: Spanned<String>,
    baseline: Spanned<toml::Value>,
    candidate: Spanned<toml::Value>,
}

impl Study {
    /// Reads a study's text; `file` is named in errors.
    ///
    /// # Errors
    /// When it is not understood; the line is named.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let at = Locator { file, text };
        let raw: RawStudy = toml::from_str(text).map_err(|e| {
            at.error(e.span().unwrap_or(0..0), Error::user(format!("this is no study: {}", e.message())))
        })?;
        let mut experiments: Vec<Experiment> = Vec::new();
        for e in raw.experiment {
            let name = e.name.get_ref().clone();
            if experiments.iter().any(|x| x.name == name) {
                return Err(at.error(e.name.span(), Error::user(format!("there are two experiments `{name}`"))));
            }
            experiments.push(experiment(&at, e)?);
        }
        let names = raw.figure.iter().map(|f| &f.name).chain(raw.detail.iter().map(|d| &d.name));
        let names = names.chain(raw.table.iter().map(|t| &t.name)).chain(raw.chart.iter().map(|c| &c.name));
        let names = names.chain(raw.frequency.iter().map(|f| &f.name));
        let mut names: Vec<&String> = names.chain(raw.claim.iter().map(|c| &c.name)).collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::user(format!(
                "{file}: two figures, charts, frequencies, tables, details or claims are called `{}`",
                twice[0]
            )));
        }
        let replays = modelled::replays(&at, raw.replay, &experiments)?;
        modelled::flash(&at, &raw.flash_energy, &experiments)?;
        charts::frequencies(&at, &raw.frequency, &replays)?;
        for figure in &raw.figure {
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
                return Err(at.error(
                    series.span(),
                    error.hint("select one value of each with `only`, or draw a figure for each"),
                ));
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
        for claim in &raw.claim {
            if claim.at_least.is_none() && claim.at_most.is_none() {
                let error = Error::user(format!("claim `{}` has neither at_least nor at_most", claim.name));
                return Err(at.error(claim.value.span(), error));
            }
        }
        if raw.repetitions == 0 {
            return Err(Error::user(format!("{file}: repetitions must be 1 or more")));
        }
        let name = std::path::Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Study {
            name,
            text: text.to_owned(),
            title: raw.title,
            description: raw.description,
            board: raw.board,
            repetitions: raw.repetitions,
            seed: raw.seed,
            experiments,
            replays,
            flash_energies: raw.flash_energy,
            figures: raw.figure,
            charts: raw.chart,
            frequencies: raw.frequency,
            tables: raw.table,
            details: raw.detail,
            claims: raw.claim,
            explanations: raw.explanation,
        })
    }

    /// Where a query stands in the file: `FILE:LINE`.
    pub fn place(&self, query: &Spanned<String>) -> String {
        let line = self.text[..query.span().start.min(self.text.len())].lines().count().max(1);
        format!("{}.toml:{line}", self.name)
    }

    /// An error with the place that it is about, shown as the errors of [`Study::parse`] are.
    pub fn error_at(&self, span: Range<usize>, error: Error) -> Error {
        Locator { file: &format!("{}.toml", self.name), text: &self.text }.error(span, error)
    }
}

fn experiment(at: &Locator<'_>, raw: RawExperiment) -> Result<Experiment> {
    let name = raw.name.get_ref().clone();
    let factors = factors(at, &raw.factors)?;
    let workloads = match factors.get("workload") {
        Some(values) => values.iter().filter_map(Json::as_str).collect(),
        None => vec!["read"],
    };
    for factor in FACTORS.iter() {
        let applies = workloads.iter().any(|w| factor.applies(w));
        if let (false, Some((name, _))) = (applies, raw.factors.iter().find(|(n, _)| n.get_ref() == factor.name)) {
            let error = Error::user(format!(
                "no workload of experiment `{}` has a factor `{}`",
                raw.name.get_ref(),
                factor.name
            ))
            .hint(format!("leave `{}` out, or add a workload that has it", factor.name));
            return Err(at.error(name.span(), error));
        }
        if applies && factor.default.is_none() && !factors.contains_key(factor.name) {
            let missing = Error::user(format!("experiment `{name}` says nothing about `{}`", factor.name))
                .hint(format!("add `{} = ...` ({}) to its [experiment.factors]", factor.name, factor.about));
            return Err(at.error(raw.name.span(), missing));
        }
    }
    let mut on = BTreeMap::new();
    for (kind, raw) in &raw.on {
        if !BOARD_KINDS.contains(&kind.get_ref().as_str()) {
            let error = Error::user(format!("there is no kind of board `{}`", kind.get_ref()));
            return Err(at.error(kind.span(), error.hint(format!("kinds: {}", BOARD_KINDS.join(", ")))));
        }
        on.insert(kind.get_ref().clone(), self::factors(at, raw)?);
    }
    let compare = match &raw.compare {
        None => None,
        Some(c) => {
            let factor = factor::named(c.factor.get_ref()).map_err(|e| at.error(c.factor.span(), e))?;
            let read = |v: &Spanned<toml::Value>| factor.read(v.get_ref()).map_err(|e| at.error(v.span(), e));
            let (baseline, candidate) = (read(&c.baseline)?, read(&c.candidate)?);
            for (value, span) in [(&baseline, c.baseline.span()), (&candidate, c.candidate.span())] {
                if !factors.get(factor.name).is_some_and(|values| values.contains(value)) {
                    let error = Error::user(format!("`{}` never has the value {value} here", factor.name));
                    return Err(at.error(span, error));
                }
            }
            Some(Compare { factor: factor.name, baseline, candidate })
        }
    };
    Ok(Experiment { name, factors, on, repetitions: raw.repetitions, traced: raw.traced, compare })
}

fn factors(at: &Locator<'_>, raw: &Factors) -> Result<BTreeMap<&'static str, Vec<Json>>> {
    let mut factors = BTreeMap::new();
    for (name, value) in raw {
        let factor = factor::named(name.get_ref()).map_err(|e| at.error(name.span(), e))?;
        let values = match value.get_ref() {
            toml::Value::Array(values) => values.iter().map(|v| factor.read(v)).collect(),
            single => factor.read(single).map(|v| vec![v]),
        };
        let values: Vec<Json> = values.map_err(|e| at.error(value.span(), e))?;
        if values.is_empty() {
            return Err(at.error(value.span(), Error::user(format!("`{}` has no values", factor.name))));
        }
        factors.insert(factor.name, values);
    }
    Ok(factors)
}

/// Names the place of an error in a file.
struct Locator<'a> {
    file: &'a str,
    text: &'a str,
}

impl Locator<'_> {
    fn error(&self, span: Range<usize>, error: Error) -> Error {
        let start = span.start.min(self.text.len());
        let line_start = self.text[..start].rfind('\n').map_or(0, |n| n + 1);
        let line = self.text[..start].matches('\n').count() + 1;
        let shown = self.text[line_start..].lines().next().unwrap_or_default();
        let column = self.text[line_start..start].chars().count();
        let width = self.text[start..span.end.min(self.text.len())].lines().next().unwrap_or_default().chars().count();
        let gutter = line.to_string();
        let pad = " ".repeat(gutter.len());
        let place = format!(
            "{}:{line}:{}\n{pad} |\n{gutter} | {shown}\n{pad} | {}{}",
            self.file,
            column + 1,
            " ".repeat(column),
            "^".repeat(width.max(1))
        );
        let hint = error.cure().map(str::to_owned);
        let placed = Error::user(format!("{}\n{place}", error.chain()));
        match hint {
            Some(hint) => placed.hint(hint),
            None => placed,
        }
    }
}

impl Experiment {
    /// The points of the matrix on boards of `kind`, in the order of [`FACTORS`]. A point has the factors
    /// that its workload has.
    pub fn points(&self, kind: &str) -> Vec<Point> {
        let replaced = self.on.get(kind);
        let values = |f: &Factor| -> Vec<Json> {
            let own = replaced.and_then(|r| r.get(f.name)).or_else(|| self.factors.get(f.name));
            own.cloned().unwrap_or_else(|| f.default_value().into_iter().collect())
        };
        let mut points = vec![Point::new()];
        for factor in &FACTORS {
            let values = values(factor);
            let with = |point: &Point, value: &Json| {
                let mut point = point.clone();
                point.insert(factor.name.to_owned(), value.clone());
                point
            };
            if !values.is_empty() {
                points = points.iter().flat_map(|p| values.iter().map(|v| with(p, v)).collect::<Vec<_>>()).collect();
            }
        }
        let mut found: Vec<Point> = Vec::new();
        for mut point in points {
            let workload = point["workload"].as_str().unwrap_or_default().to_owned();
            point.retain(|name, _| factor::named(name).is_ok_and(|f| f.applies(&workload)));
            if exists(&point) && !found.contains(&point) {
                found.push(point);
            }
        }
        found
    }
}

/// Whether a combination exists: only UBIFS has bulk_read, and only what changes a file can be synced.
fn exists(point: &Point) -> bool {
    let is = |name: &str, value: &str| point.get(name).is_some_and(|v| v == value);
    let bulk_read = point["bulk_read"] == Json::Bool(false) || is("file_system", "ubifs");
    let changes = !["read", "delete", "look-up"].iter().any(|operation| is("operation", operation));
    bulk_read && (changes || is("sync", "none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
title = "t"
board = "virt-nand"
[[experiment]]
name = "e"
[experiment.factors]
file_system = ["jffs2", "ubifs"]
bulk_read = [false, true]
file_bytes = "5MiB"
requests = [16, 64]
read_ahead_bytes = ["128KiB", 0]
[experiment.compare]
factor = "read_ahead_bytes"
baseline = "128KiB"
candidate = 0
[experiment.on.host]
file_system = "directory"
"#;

    #[test]
    fn a_matrix_has_every_combination_that_exists() {
        let study = Study::parse("s.toml", SMALL).unwrap();
        let points = study.experiments[0].points("virtual");
        // JFFS2 has no bulk_read: 2 requests x 2 settings x (1 + 2).
        assert_eq!(points.len(), 12);
        assert_eq!(points[0]["request_bytes"], 4096);
        // What is compared lies side by side.
        assert_eq!((&points[0]["read_ahead_bytes"], &points[1]["read_ahead_bytes"]), (&131_072.into(), &0.into()));
        assert_eq!(points[0]["requests"], points[1]["requests"]);
        let host = study.experiments[0].points("host");
        assert!(host.len() == 4 && host.iter().all(|p| p["file_system"] == "directory"));
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        for (from, to, place, word) in [
            ("requests = [16", "requets = [16", "s.toml:10:1", "requets"),
            ("[16, 64]", "[16, \"x\"]", "s.toml:10:12", "number"),
            ("baseline = \"128KiB\"", "baseline = \"64KiB\"", "s.toml:14:12", "65536"),
            ("file_bytes = \"5MiB\"\n", "", "s.toml:5:8", "file_bytes"),
        ] {
            let error = Study::parse("s.toml", &SMALL.replace(from, to)).unwrap_err();
            let text = error.chain();
            assert!(text.contains(place) && text.contains(word), "{text}");
        }
        let error = Study::parse("s.toml", "title = 5").unwrap_err();
        assert!(error.chain().contains("s.toml:1:9"), "{}", error.chain());
    }
}
