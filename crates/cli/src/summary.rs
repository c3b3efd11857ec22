//! What a run's end looks like on a terminal.

use crate::screen::{beside, lines, table};
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
        let claims: Vec<(&str, Vec<String>)> = model.claims.iter().map(claim).collect();
        say!("{}", beside(&claims));
    }
    for caveat in &model.caveats {
        say!("\n{}", lines(&format!("note: {caveat}"), 2));
    }
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
    say!("\nresults: {}\nreport:  {}", store.folder().display(), report.display());
    Ok(())
}

/// Prints those tables of a report that have one of these names.
pub fn tables(model: &Model, names: &[&str]) {
    for shown in model.tables.iter().filter(|shown| names.contains(&shown.id.as_str())) {
        say!("{}\n{}\n", shown.title, table(&shown.columns, &shown.rows, 3, false));
    }
}

/// A claim's verdict, and what is said beside it: the claim, what was found and, where it does not hold, why.
fn claim(claim: &ClaimResult) -> (&'static str, Vec<String>) {
    let why = claim.deviation.as_ref().map(|why| format!("why not: {why}"));
    (claim.verdict.word(), [Some(claim.text.clone()), Some(claim.detail.clone()), why].into_iter().flatten().collect())
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
    fn a_claim_that_does_not_hold_has_its_reason_under_it() {
        let of = |verdict, deviation: Option<&str>| ClaimResult {
            name: "c".into(),
            text: "off saves half".into(),
            verdict,
            detail: "3.0 % is not at least 50.0 %".into(),
            paper: None,
            deviation: deviation.map(str::to_owned),
            origin: Default::default(),
            query: "SELECT 1".into(),
            required: false,
        };
        let (word, said) = claim(&of(Verdict::Fails, Some("a rule has changed")));
        assert_eq!(word, "does not hold");
        assert_eq!(said, ["off saves half", "3.0 % is not at least 50.0 %", "why not: a rule has changed"]);
        assert_eq!(claim(&of(Verdict::Holds, None)).1.len(), 2);
    }
}
