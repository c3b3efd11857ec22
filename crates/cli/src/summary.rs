//! What a run's end looks like on a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use pocketstone_core::{Error, Result};
use pocketstone_study::Study;
use pocketstone_study::model::{Model, Verdict};
use pocketstone_study::report_model::{improvements, left_out_lines};
use pocketstone_study::store::Store;
use std::path::Path;

/// Columns that a summary may take.
const WIDTH: u16 = 100;

/// A table of so many columns' heads.
pub fn table(head: &[String]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(WIDTH).set_header(head);
    table
}

/// Prints the summary of a run: what it saved, which claims hold, what was left out, where the
/// report is.
///
/// # Errors
/// When the results cannot be read.
pub fn print(store: &Store, study: &Study, model: &Model, report: &Path) -> Result<()> {
    say!("{}\n{}", model.title, model.summary);
    for improvement in improvements(store, study)? {
        say!("\n{}", improvement.title);
        let mut t = table(&improvement.columns);
        improvement.rows.iter().for_each(|row| {
            t.add_row(row);
        });
        t.column_iter_mut().skip(improvement.columns.len().saturating_sub(3)).for_each(|c| {
            c.set_cell_alignment(CellAlignment::Right);
        });
        say!("{t}");
    }
    if !model.claims.is_empty() {
        say!("\nClaims");
        let mut t = table(&["verdict".into(), "claim".into(), "found".into()]);
        for claim in &model.claims {
            t.add_row([claim.verdict.word(), &claim.text, &claim.detail]);
        }
        say!("{t}");
    }
    for caveat in &model.caveats {
        say!("\nnote: {caveat}");
    }
    for line in left_out_lines(&model.left_out) {
        say!("\n{line}");
    }
    for failure in &model.failures {
        say!("\nfailed: {}\n  {}", failure.cell, failure.message);
        if let Some(hint) = &failure.hint {
            say!("  hint: {hint}");
        }
        if let Some(console) = &failure.console {
            let lines: Vec<&str> = console.lines().collect();
            lines[lines.len().saturating_sub(5)..].iter().for_each(|l| say!("  console: {l}"));
        }
    }
    say!("\nresults: {}\nreport:  {}", store.folder().display(), report.display());
    Ok(())
}

/// The outcome of a run as JSON.
///
/// # Errors
/// When the results cannot be read.
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
        "facts": model.facts.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
    });
    serde_json::to_string_pretty(&value).map_err(|e| Error::bug("the outcome is no JSON").because(e))
}
