//! A study, parsed from a TOML file. docs/studies.md describes the format.

mod charts;
mod figures;
mod matrix;
mod modelled;
mod place;
#[cfg(test)]
mod shipped;
#[cfg(test)]
mod tests;
pub(crate) mod texts;
pub(crate) mod unit;

pub use charts::{AxisSpec, ChartKind, ChartSpec, FrequencySpec, Scale};
pub use figures::{FigureSpec, PaperSeries, Show};
pub use matrix::{Compare, Experiment, Traced};
pub use modelled::{BOUND, Calibration, Choice, FlashEnergySpec, OWN, ReadAheadModelSpec, ReplaySpec, ValidationSpec};
pub use unit::Unit;

use crate::specification::metric::{self, Better, Source};
use place::Locator;
use pocketstone_core::words::nearest;
use pocketstone_core::{Error, Result};
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// A study.
#[derive(Debug, Clone)]
pub struct Study {
    /// What errors name as the place of its text: its file, unless it has none.
    pub file: String,
    /// The file's name without `.toml`.
    pub name: String,
    /// The file's text.
    pub text: String,
    /// Title.
    pub title: String,
    /// Paragraphs about it.
    pub description: Vec<String>,
    /// What its report opens with.
    pub answer: Option<AnswerSpec>,
    /// Board that it is meant for.
    pub board: String,
    /// Where its text names the board.
    pub board_place: Range<usize>,
    /// Number of seeds.
    pub repetitions: u32,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Where its text says it.
    pub seed_place: Range<usize>,
    /// The matrices.
    pub experiments: Vec<Experiment>,
    /// Runs that are replayed on models of devices.
    pub replays: Vec<ReplaySpec>,
    /// Experiments whose energy is that of a publication's constants.
    pub flash_energies: Vec<FlashEnergySpec>,
    /// Published tables that the model is held against.
    pub validations: Vec<ValidationSpec>,
    /// Experiments whose reads are worked out under rules of read-ahead.
    pub read_ahead_models: Vec<ReadAheadModelSpec>,
    /// The figures.
    pub figures: Vec<FigureSpec>,
    /// Charts of query results.
    pub charts: Vec<ChartSpec>,
    /// Frequencies over time.
    pub frequencies: Vec<FrequencySpec>,
    /// Tables.
    pub tables: Vec<TableSpec>,
    /// Runs that are shown in full.
    pub details: Vec<DetailSpec>,
    /// Numbers that texts show.
    pub values: Vec<ValueSpec>,
    /// The claims.
    pub claims: Vec<ClaimSpec>,
    /// Texts for the report.
    pub explanations: Vec<ExplanationSpec>,
    /// The metrics by which two runs are compared.
    pub judged: Vec<String>,
}

/// The default metrics for comparing two runs.
pub const JUDGED: [&str; 2] = ["total_ns", "page_senses"];

/// What a report opens with: the finding, and the figure that shows it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerSpec {
    /// The finding in one sentence, with numbers of the run in it. A run that lacks one has no answer.
    pub text: String,
    /// What is added to it, each where the run has all of its numbers.
    #[serde(default)]
    pub more: Vec<String>,
    /// The name of a figure, chart or frequency of the study.
    pub figure: Option<Spanned<String>>,
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
    /// Whether it shows what commands took, so that the report's own table of that would repeat it.
    #[serde(default)]
    pub replaces_results: bool,
}

/// A run shown in full: its flash operations, and the effects of its queries.
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
    pub only: Spanned<String>,
}

/// A number from the results that texts show: `{value:NAME}` stands for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueSpec {
    /// Its name, unique in the study.
    pub name: String,
    /// SQL that gives one number.
    pub value: Spanned<String>,
    /// How the number is written.
    #[serde(default)]
    pub unit: Unit,
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
    /// What the number says, in words; `{}` stands for it.
    pub found: Option<Spanned<String>>,
    /// The published value.
    pub paper: Option<String>,
    /// Why it may not hold, if known: one sentence that says it, then more. Shown if it does not.
    pub deviation: Option<String>,
    /// Whether the command fails (exit code 3) when it does not hold.
    #[serde(default)]
    pub required: bool,
    /// The experiment whose cells need a quiet machine for this claim to be judged.
    pub quiet: Option<Spanned<String>>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStudy {
    title: Spanned<String>,
    #[serde(default)]
    description: Vec<String>,
    answer: Option<AnswerSpec>,
    board: Spanned<String>,
    repetitions: Option<Spanned<u32>>,
    seed: Option<Spanned<u64>>,
    experiment: Vec<matrix::RawExperiment>,
    #[serde(default)]
    replay: Vec<modelled::RawReplay>,
    #[serde(default)]
    flash_energy: Vec<FlashEnergySpec>,
    #[serde(default)]
    validation: Vec<ValidationSpec>,
    #[serde(default)]
    read_ahead_model: Vec<modelled::RawReadAheadModel>,
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
    value: Vec<ValueSpec>,
    #[serde(default)]
    claim: Vec<ClaimSpec>,
    #[serde(default)]
    explanation: Vec<ExplanationSpec>,
    judged_metrics: Option<Vec<Spanned<String>>>,
}

/// Checks the metrics that a study judges: each must be there, and one direction of it be better.
fn judged(at: &Locator<'_>, named: Option<Vec<Spanned<String>>>) -> Result<Vec<String>> {
    let Some(named) = named else { return Ok(JUDGED.map(str::to_owned).to_vec()) };
    let check = |name: Spanned<String>| match metric::named(name.get_ref()).map(|metric| (metric.better, metric.source))
    {
        None => Err(at.error(name.span(), metric::unknown(name.get_ref()))),
        Some((Better::Neither, _)) => {
            Err(at.error(name.span(), Error::user(format!("`{}` is neither better nor worse", name.get_ref()))))
        }
        Some((_, Source::Runs)) => {
            Err(at.error(name.span(), Error::user(format!("single runs have no `{}`", name.get_ref()))))
        }
        Some(_) => Ok(name.into_inner()),
    };
    named.into_iter().map(check).collect()
}

/// What helps with an unknown key, whose error quotes it and then those that there are.
fn meant_key(message: &str) -> Option<String> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let key = quoted.next()?;
    nearest(key, quoted).map(|name| format!("did you mean `{name}`?"))
}

impl Study {
    /// Reads a study's text; `file` is named in errors.
    ///
    /// # Errors
    /// `ErrorKind::User` for an invalid study; the message includes the line.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let name = std::path::Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        Study::parse_as(&name, file, text)
    }

    /// Reads the text of a study of this name that is in no file of its own; `file` is what errors name in its place.
    ///
    /// # Errors
    /// As [`Study::parse`].
    pub fn parse_as(name: &str, file: &str, text: &str) -> Result<Self> {
        let at = Locator { file, text };
        let raw: RawStudy = toml::from_str(text).map_err(|e| {
            let error = Error::user(format!("not a valid study: {}", e.message()));
            at.error(e.span().unwrap_or(0..0), meant_key(e.message()).into_iter().fold(error, Error::hint))
        })?;
        // A command line may have anything in it.
        let as_they_are = raw.experiment.iter().flat_map(|e| e.value_spans()).chain([raw.title.span()]).collect();
        let mut experiments: Vec<Experiment> = Vec::new();
        for e in raw.experiment {
            let name = e.name.get_ref().clone();
            if experiments.iter().any(|x| x.name == name) {
                return Err(at.error(e.name.span(), Error::user(format!("duplicate experiment `{name}`"))));
            }
            experiments.push(matrix::experiment(&at, e)?);
        }
        let names = raw.figure.iter().map(|f| &f.name).chain(raw.detail.iter().map(|d| &d.name));
        let names = names.chain(raw.table.iter().map(|t| &t.name)).chain(raw.chart.iter().map(|c| &c.name));
        let names = names.chain(raw.frequency.iter().map(|f| &f.name));
        let names = names.chain(raw.value.iter().map(|v| &v.name));
        let mut names: Vec<&String> = names.chain(raw.claim.iter().map(|c| &c.name)).collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::user(format!(
                "{file}: two figures, charts, frequencies, tables, details, values or claims are named `{}`",
                twice[0]
            )));
        }
        if let Some(figure) = raw.answer.as_ref().and_then(|answer| answer.figure.as_ref()) {
            let figures = raw.figure.iter().map(|f| &f.name).chain(raw.chart.iter().map(|c| &c.name));
            let figures: Vec<&str> = figures.chain(raw.frequency.iter().map(|f| &f.name)).map(String::as_str).collect();
            if !figures.contains(&figure.get_ref().as_str()) {
                let error = Error::user(format!("no figure is named `{}`", figure.get_ref()));
                return Err(at.error(figure.span(), error.hint(format!("available: {}", figures.join(", ")))));
            }
        }
        let replays = modelled::replays(&at, raw.replay, &experiments)?;
        modelled::validations(&at, &raw.validation, &experiments)?;
        modelled::flash(&at, &raw.flash_energy, &experiments)?;
        let read_ahead_models = modelled::read_ahead(&at, raw.read_ahead_model, &experiments)?;
        charts::frequencies(&at, &raw.frequency, &replays)?;
        figures::check(&at, &raw.figure, &experiments)?;
        for claim in &raw.claim {
            if let Some(quiet) = claim.quiet.as_ref().filter(|q| experiments.iter().all(|e| e.name != *q.get_ref())) {
                let names: Vec<&str> = experiments.iter().map(|e| e.name.as_str()).collect();
                let error = Error::user(format!("no experiment is named `{}`", quiet.get_ref()));
                return Err(at.error(quiet.span(), error.hint(format!("available: {}", names.join(", ")))));
            }
            if claim.at_least.is_none() && claim.at_most.is_none() {
                let error = Error::user(format!("claim `{}` has neither at_least nor at_most", claim.name));
                return Err(at.error(claim.value.span(), error));
            }
            if let Some(found) = claim.found.as_ref().filter(|f| f.get_ref().matches(unit::PLACE).count() != 1) {
                let error = Error::user(format!("`found` of claim `{}` has to have {{}} once", claim.name));
                return Err(at.error(found.span(), error.hint("{} stands for the number: found = \"saves {}\"")));
            }
        }
        let repetitions = raw.repetitions.as_ref().map_or(Ok(1), |r| matrix::repetitions(&at, r))?;
        let values = raw.value.iter().map(|v| v.name.as_str());
        texts::check(&at, as_they_are, values.chain(raw.claim.iter().map(|c| c.name.as_str())))?;
        let judged = judged(&at, raw.judged_metrics)?;
        Ok(Study {
            file: file.to_owned(),
            name: name.to_owned(),
            text: text.to_owned(),
            title: raw.title.into_inner(),
            description: raw.description,
            answer: raw.answer,
            board_place: raw.board.span(),
            board: raw.board.into_inner(),
            repetitions,
            seed_place: raw.seed.as_ref().map_or(0..0, Spanned::span),
            seed: raw.seed.map_or(0, Spanned::into_inner),
            experiments,
            replays,
            flash_energies: raw.flash_energy,
            validations: raw.validation,
            read_ahead_models,
            figures: raw.figure,
            charts: raw.chart,
            frequencies: raw.frequency,
            tables: raw.table,
            details: raw.detail,
            values: raw.value,
            claims: raw.claim,
            explanations: raw.explanation,
            judged,
        })
    }

    /// Whether results have more than was measured: replays, modelled energies, validations, other read-ahead.
    pub fn has_models(&self) -> bool {
        let replays = !self.replays.is_empty() || !self.validations.is_empty();
        replays || !self.flash_energies.is_empty() || !self.read_ahead_models.is_empty()
    }

    /// Where a query stands in the file: `FILE:LINE`.
    pub fn place(&self, query: &Spanned<String>) -> String {
        let line = self.text[..query.span().start.min(self.text.len())].lines().count().max(1);
        format!("{}:{line}", self.file)
    }

    /// An error with the place that it is about, shown as the errors of [`Study::parse`] are.
    pub fn error_at(&self, span: Range<usize>, error: Error) -> Error {
        Locator { file: &self.file, text: &self.text }.error(span, error)
    }
}
