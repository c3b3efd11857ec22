//! A study: what a TOML file says. docs/studies.md describes the form.

mod charts;
mod figures;
mod matrix;
mod modelled;
mod place;
#[cfg(test)]
mod tests;

pub use charts::{AxisSpec, ChartKind, ChartSpec, FrequencySpec};
pub use figures::{FigureSpec, PaperSeries, Show};
pub use matrix::{BOARD_KINDS, Compare, Experiment, Traced};
pub use modelled::{BOUND, Calibration, Choice, FlashEnergySpec, ReadAheadModelSpec, ReplaySpec, ValidationSpec};

use place::Locator;
use pocketstone_core::{Error, Result};
use serde::Deserialize;
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
    /// Published tables that the model is held against.
    pub validations: Vec<ValidationSpec>,
    /// Experiments whose reads are worked out under rules of read-ahead.
    pub read_ahead_models: Vec<ReadAheadModelSpec>,
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
    /// Why it may not hold here although the paper reports it, where that is known.
    pub deviation: Option<String>,
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
    claim: Vec<ClaimSpec>,
    #[serde(default)]
    explanation: Vec<ExplanationSpec>,
}

fn one() -> u32 {
    1
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
            experiments.push(matrix::experiment(&at, e)?);
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
        modelled::validations(&at, &raw.validation)?;
        modelled::flash(&at, &raw.flash_energy, &experiments)?;
        let read_ahead_models = modelled::read_ahead(&at, raw.read_ahead_model, &experiments)?;
        charts::frequencies(&at, &raw.frequency, &replays)?;
        figures::check(&at, &raw.figure, &experiments)?;
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
            validations: raw.validation,
            read_ahead_models,
            figures: raw.figure,
            charts: raw.chart,
            frequencies: raw.frequency,
            tables: raw.table,
            details: raw.detail,
            claims: raw.claim,
            explanations: raw.explanation,
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
        format!("{}.toml:{line}", self.name)
    }

    /// An error with the place that it is about, shown as the errors of [`Study::parse`] are.
    pub fn error_at(&self, span: Range<usize>, error: Error) -> Error {
        Locator { file: &format!("{}.toml", self.name), text: &self.text }.error(span, error)
    }
}
