//! The report's model as plain data, built from a run's results.

mod explorer;
mod layers;

pub use explorer::{BoundRow, Explorer, ExplorerGovernor, ExplorerRun, GridRow};
pub use layers::{
    Chain, ChainBlock, ChainCall, ChainFlash, ChainMiss, ChainQuery, ChainSum, Distribution, Lane, LaneContent,
    Quantiles, Span, Timeline,
};

use pocketstone_core::origin::Origin;
use serde::Serialize;

use crate::results::stats::Spread;

pub use crate::results::left_out::LeftOut;
pub use crate::specification::study::Scale;

/// Everything a report of one run shows.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Model {
    /// The study's title.
    pub title: String,
    /// What the study is about, a paragraph each.
    pub description: Vec<String>,
    /// One sentence that says how the run went.
    pub summary: String,
    /// What the run found, where its study says it.
    pub answer: Option<Answer>,
    /// The exact command that made the run, shell-quoted.
    pub command: String,
    /// Versions and facts: name and value, in the order to show them.
    pub facts: Vec<(String, String)>,
    /// Caveats that belong to every number here.
    pub caveats: Vec<String>,
    /// Verdicts.
    pub claims: Vec<ClaimResult>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Distributions of latencies.
    pub distributions: Vec<Distribution>,
    /// Timelines.
    pub timelines: Vec<Timeline>,
    /// Queries with what they caused below.
    pub chains: Vec<Chain>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Flash operations by block of the chip.
    pub heat_maps: Vec<HeatMap>,
    /// What a reader may try out; `None` where there is nothing to replay.
    pub explorer: Option<Explorer>,
    /// Explanations: heading and paragraphs.
    pub explanations: Vec<Explanation>,
    /// Skipped items, with reason and fix.
    pub left_out: Vec<LeftOut>,
    /// Cells that failed.
    pub failures: Vec<FailedCell>,
}

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// In one sentence.
    pub text: String,
    /// The identifier of the figure that shows it.
    pub figure: Option<String>,
}

/// Verdict of one claim.
#[derive(Debug, Clone, Serialize)]
pub struct ClaimResult {
    /// Short name.
    pub name: String,
    /// The claim in words.
    pub text: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What was found and what is claimed, in words.
    pub detail: String,
    /// What the paper reports, where it does.
    pub paper: Option<String>,
    /// Why it does not hold, where it does not and its study knows: one sentence that says it, then more.
    pub deviation: Option<String>,
    /// Whether the value was measured or modelled.
    pub origin: Origin,
    /// The query that the value came from.
    pub query: String,
    /// A failed claim of this kind makes the command's exit code 3.
    pub required: bool,
}

impl ClaimResult {
    /// What was found, what is claimed, and what the paper says of it, in one line.
    pub fn said(&self) -> String {
        match &self.paper {
            Some(paper) if self.verdict != Verdict::Unavailable => format!("{}; the paper: {paper}", self.detail),
            _ => self.detail.clone(),
        }
    }

    /// The reason in one line, and what more there is to say of it.
    pub fn reason(&self) -> Option<(&str, &str)> {
        let text = self.deviation.as_deref()?.trim();
        let starts = |rest: &str| rest.trim_start().starts_with(|c: char| c.is_uppercase());
        let ends = text.match_indices(". ").map(|(at, _)| at + 1).find(|&at| starts(&text[at..]));
        let (line, more) = text.split_at(ends.unwrap_or(text.len()));
        Some((line, more.trim_start()))
    }
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The results bear it out.
    Holds,
    /// They do not, and the study knows why.
    Explained,
    /// They do not, and nobody knows why.
    Unexplained,
    /// They do not, on a machine that was too busy to tell.
    CannotTell,
    /// The results it needs are not there.
    Unavailable,
}

impl Verdict {
    /// The word shown.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Explained => "does not hold, explained",
            Verdict::Unexplained => "does not hold, unexplained",
            Verdict::CannotTell => "cannot tell",
            Verdict::Unavailable => "unavailable",
        }
    }

    /// Whether the results say that the claim does not hold.
    pub fn fails(self) -> bool {
        matches!(self, Verdict::Explained | Verdict::Unexplained)
    }
}

/// A chart: lines, or bars where the horizontal axis has names or the series are stacked.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figure {
    /// Identifier, unique in the report, fit for an HTML id.
    pub id: String,
    /// Title.
    pub title: String,
    /// What to see in it.
    pub caption: String,
    /// The origin of its numbers.
    pub origin: Origin,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What stands at 0, 1, 2 and so on of the horizontal axis, where that has names instead of numbers:
    /// the figure has bars then.
    pub names: Vec<String>,
    /// The lines, or the bars of one colour.
    pub series: Vec<Series>,
    /// Whether series are parts that lie one upon the other in a bar, the first one at the bottom. Each
    /// different x has its place then, evenly spaced, whether it has a name or not. An interval of a part
    /// is that of the part alone: it is in the table and the tooltip, and no whisker is drawn for it.
    pub stacked: bool,
    /// The bars that stand side by side at each place, where `stacked` and there are several; empty
    /// otherwise. Series that no stack has are not drawn.
    pub stacks: Vec<Stack>,
    /// How points are joined, where there are neither bars nor stacks.
    pub joined: Joined,
    /// What some points have beside their place.
    pub beside: Vec<Beside>,
}

/// How the points of a series are joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Joined {
    /// By straight lines, in the order of x.
    #[default]
    Lines,
    /// By steps: each value holds until the next one.
    Steps,
    /// Not at all: a scatter plot.
    Not,
}

/// What a point has beside its place: the interval of its x, and a label.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Beside {
    /// Index of its series.
    pub series: usize,
    /// Its index there.
    pub point: usize,
    /// Lower end of the interval of x.
    pub x_low: Option<f64>,
    /// Upper end of the interval of x.
    pub x_high: Option<f64>,
    /// What is written beside it; may be empty.
    pub label: String,
}

/// One of several bars at the same place, made of parts.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stack {
    /// What its parts have in common, such as the engine's name.
    pub name: String,
    /// Its parts from the bottom up: indices of [`Figure::series`].
    pub series: Vec<usize>,
    /// The total at each x with its interval, for the whisker; may be empty. A point's `y` is not drawn,
    /// for the parts make the bar's height.
    pub totals: Vec<Point>,
}

/// An axis.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Axis {
    /// Its label, unit included.
    pub label: String,
    /// How values are spaced and written.
    pub scale: Scale,
}

/// A line of a chart.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The source of its values.
    pub source: Source,
    /// Whether it is a curve without markers, whatever the others are: a bound.
    pub curve: bool,
    /// Its points, by ascending x.
    pub points: Vec<Point>,
}

/// The source of values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// This run.
    #[default]
    Measured,
    /// A publication.
    Paper,
}

/// A point, with what stands beside its value: an interval, a range, or two ends of which only their author knows what
/// they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// How many values `y` is the median of, and the ends the spread, where that is known.
    pub n: Option<u32>,
}

impl Point {
    /// What the two ends are, in words; `None` where there are none, or it is not known.
    pub fn spread(&self) -> Option<String> {
        Spread::known(self.n? as usize, self.low?, self.high?).name()
    }
}

/// A table of text.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// Identifier, unique in the report.
    pub id: String,
    /// Title.
    pub title: String,
    /// What it says.
    pub caption: String,
    /// The origin of its numbers.
    pub origin: Origin,
    /// Column heads.
    pub columns: Vec<String>,
    /// Rows of cells.
    pub rows: Vec<Vec<String>>,
}

/// Flash operations by block of the chip.
#[derive(Debug, Clone, Serialize)]
pub struct HeatMap {
    /// Identifier, unique in the report.
    pub id: String,
    /// Title.
    pub title: String,
    /// What to see.
    pub caption: String,
    /// What is counted, one of them, such as `page sense`.
    pub unit: String,
    /// Count of each block of the chip, from block 0 on.
    pub blocks: Vec<u64>,
}

/// A heading with paragraphs.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// Heading.
    pub heading: String,
    /// Paragraphs.
    pub paragraphs: Vec<String>,
}

/// A cell that failed.
#[derive(Debug, Clone, Serialize)]
pub struct FailedCell {
    /// Which one, in words.
    pub cell: String,
    /// The error and its causes.
    pub message: String,
    /// The fix, if known.
    pub hint: Option<String>,
    /// The last lines of the board's console.
    pub console: Option<String>,
}
