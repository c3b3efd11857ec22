//! What a run's end looks like on a terminal.

use crate::screen::{Entry, Tone, beside, lines, table};
use pocketstone_core::{Error, Result};
use pocketstone_study::Study;
use pocketstone_study::results::store::{Store, Summarized};
use pocketstone_study::specification::metric::{self, Metric};
use pocketstone_study::views::model::{ClaimResult, Model, Verdict};
use pocketstone_study::views::report_model::{improvements, left_out_lines};
use std::path::Path;

/// Prints the summary of a run: what it saved, which claims hold, what was left out, where the
/// report is.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read.
pub fn print(store: &Store, study: &Study, model: &Model, report: &Path) -> Result<()> {
    say!("{}\n{}", lines(&model.title, 0), lines(&model.summary, 0));
    for improvement in improvements(store, study)? {
        say!("\n{}", lines(&improvement.title, 0));
        say!("{}", table(&improvement.columns, &improvement.rows, 3, true));
    }
    if !model.claims.is_empty() {
        say!("\nClaims");
        let claims: Vec<Entry<'_>> = model.claims.iter().map(claim).collect();
        say!("{}", beside(&claims));
    }
    for caveat in &model.caveats {
        say!("\n{}", lines(&format!("note: {caveat}"), 2));
    }
    left_out_and_failed(model);
    say!("\nresults: {}\nreport:  {}", store.folder().display(), report.display());
    Ok(())
}

/// Prints what a run could not have, and its failed cells.
pub fn left_out_and_failed(model: &Model) {
    for line in left_out_lines(&model.left_out) {
        say!("\n{}", lines(&line, 2));
    }
    for failure in &model.failures {
        say!("\n{}\n{}", lines(&format!("failed: {}", failure.cell), 2), lines(&format!("  {}", failure.message), 2));
        if let Some(hint) = &failure.hint {
            say!("{}", lines(&format!("  hint: {hint}"), 4));
        }
        if let Some(console) = &failure.console {
            let lines: Vec<&str> = console.lines().collect();
            lines[lines.len().saturating_sub(5)..].iter().for_each(|l| say!("  console: {l}"));
        }
    }
}

/// A run's exit status: failures of earlier parts of a resumed run are failures too.
pub fn status(model: &Model) -> u8 {
    let missed = model.claims.iter().any(|c| c.required && c.verdict.fails());
    match (model.failures.len(), missed) {
        (1.., _) => 4,
        (0, true) => 3,
        (0, false) => 0,
    }
}

/// Prints those tables of a report that have one of these names.
pub fn tables(model: &Model, names: &[&str]) {
    for shown in model.tables.iter().filter(|shown| names.contains(&shown.id.as_str())) {
        say!("{}\n{}\n", shown.title, table(&shown.columns, &shown.rows, numbers(&shown.rows), false));
    }
}

/// How many of a table's last columns have numbers. Words, such as a program's output, begin at the left.
fn numbers(rows: &[Vec<String>]) -> usize {
    let is_number =
        |cell: &String| cell.is_empty() || cell.trim_start_matches(['+', '-']).starts_with(char::is_numeric);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns).rev().take_while(|&at| rows.iter().filter_map(|row| row.get(at)).all(is_number)).count()
}

/// A claim's verdict, and what is said beside it: the claim, what was found and, where it does not hold, why.
fn claim(claim: &ClaimResult) -> Entry<'_> {
    let why = claim.reason().map(|(why, _)| format!("why not: {why}"));
    let tone = match claim.verdict {
        Verdict::Holds => Tone::Good,
        Verdict::Explained => Tone::Known,
        Verdict::Unexplained => Tone::Bad,
        Verdict::CannotTell | Verdict::Unavailable => Tone::Plain,
    };
    let paragraphs = [Some(claim.text.clone()), Some(claim.said()), why].into_iter().flatten().collect();
    Entry { word: claim.verdict.word(), tone, paragraphs }
}

/// The outcome of a run as JSON.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read.
pub fn json(store: &Store, model: &Model, report: &Path) -> Result<String> {
    let value = serde_json::json!({
        "format": 1,
        "folder": store.folder(),
        "report": report,
        "summary": model.summary,
        "claims": model.claims.iter().map(|c| serde_json::json!({
            "name": c.name, "text": c.text, "verdict": c.verdict, "holds": c.verdict == Verdict::Holds,
            "detail": c.detail, "paper": c.paper, "deviation": c.deviation, "required": c.required,
        })).collect::<Vec<_>>(),
        "left_out": model.left_out,
        "failures": model.failures,
        "statistics": measured(store.statistics()?),
        "comparisons": measured(store.comparisons()?),
        "facts": model.facts.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
    });
    serde_json::to_string_pretty(&value).map_err(|e| Error::bug("the outcome is not valid JSON").because(e))
}

/// Rows of statistics, each with its point's factors.
fn measured(rows: Vec<Summarized>) -> Vec<serde_json::Value> {
    let row = |r: Summarized| {
        serde_json::json!({
            "experiment": r.experiment, "point": r.point, "metric": r.metric, "n": r.statistic.n,
            "median": r.statistic.median, "mean": r.statistic.mean, "low": r.statistic.spread.low(),
            "high": r.statistic.spread.high(), "coverage": r.statistic.spread.coverage(),
            "origin": metric::named(&r.metric).map(Metric::origin),
        })
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_does_not_hold_has_its_reason_under_it_in_one_line() {
        let of = |verdict, deviation: Option<&str>| ClaimResult {
            name: "c".into(),
            text: "off saves half".into(),
            verdict,
            detail: "saves 3.0 %; claimed: at least 50 %".into(),
            paper: Some("over 50%".into()),
            deviation: deviation.map(str::to_owned),
            origin: Default::default(),
            query: "SELECT 1".into(),
            required: false,
        };
        let explained = of(Verdict::Explained, Some("A rule of Linux 3.13, on 0. 5 cores. See \"Why\"."));
        let shown = claim(&explained);
        assert_eq!((shown.word, shown.tone), ("does not hold, explained", Tone::Known));
        let said = "saves 3.0 %; claimed: at least 50 %; the paper: over 50%";
        assert_eq!(shown.paragraphs, ["off saves half", said, "why not: A rule of Linux 3.13, on 0. 5 cores."]);
        let unexplained = of(Verdict::Unexplained, None);
        let shown = claim(&unexplained);
        assert_eq!((shown.word, shown.tone), ("does not hold, unexplained", Tone::Bad));
        assert_eq!((shown.paragraphs.len(), claim(&of(Verdict::Holds, None)).paragraphs.len()), (2, 2));
    }
}
