//! `pocketstone history`.

use crate::arguments::HistoryArguments;
use crate::screen::{Entry, Tone, beside, lines};
use pocketstone_cli::print_json;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_study::results::history::{
    Change, Direction, FactChange, History, Run, Selection, Series, history as history_of,
};
use pocketstone_study::views::history as words;
use serde_json::{Value, json};

/// Shows how a study's values developed over its runs.
///
/// # Errors
/// `ErrorKind::User` if the folders make no history, or the page cannot be written.
pub fn history(arguments: &HistoryArguments) -> Result<u8> {
    let selection = Selection {
        study: arguments.study.clone(),
        board: arguments.board.clone(),
        metrics: arguments.metrics.clone(),
    };
    let history = history_of(&arguments.folders, &selection)?;
    if let Some(file) = &arguments.output {
        let page = pocketstone_report::html(&words::model(&history))?;
        std::fs::write(file, page).user(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        print_json(&as_json(&history))?;
        return Ok(0);
    }
    print(&history);
    if let Some(file) = &arguments.output {
        say!("\nhistory: {}", file.display());
    }
    Ok(0)
}

fn print(history: &History) {
    say!("{}\n{}", lines(&words::summary(history), 0), lines(&words::method(history), 0));
    let changed: Vec<Entry<'_>> = history.series.iter().flat_map(|series| entries(history, series)).collect();
    if !changed.is_empty() {
        say!("\n{}", beside(&changed));
    }
    let (steady, untold) = history.without_change();
    values("Without a change", &steady);
    values("Values", &untold);
    say!("\nRuns");
    for (number, run) in history.runs.iter().enumerate() {
        say!("{}", lines(&format!("  {:>3}  {}  {}", number + 1, run.started, run.folder.display()), 7));
        let facts = history.facts.iter().filter(|fact| fact.run == number).map(words::fact);
        facts.for_each(|fact| say!("{}", lines(&format!("       {fact}"), 9)));
    }
}

fn values(head: &str, all: &[&Series]) {
    if !all.is_empty() {
        say!("\n{head}");
    }
    for series in all {
        let last = series.values.iter().flatten().next_back().map_or(String::new(), |v| series.metric.unit.write(*v));
        say!("{}", lines(&format!("  {} {}  {}  {last}", series.point, series.metric.name, curve(&series.values)), 4));
    }
}

/// The changes of a series: the word is what the last one means.
fn entries<'a>(history: &History, series: &Series) -> Option<Entry<'a>> {
    let direction = series.changes.last()?.direction(series.metric);
    let tone = match direction {
        Direction::Better => Tone::Good,
        Direction::Worse => Tone::Bad,
        Direction::Neither => Tone::Plain,
    };
    let line = |change: &Change| {
        let facts: Vec<&str> = history.facts_between(change.last, change.run).map(|f| f.name.as_str()).collect();
        let with = if facts.is_empty() { String::new() } else { format!("; changed with it: {}", facts.join(", ")) };
        format!("run {}: {}{with}", change.run + 1, words::change(series.metric, change))
    };
    let head = format!("{} {}  {}", series.point, series.metric.name, curve(&series.values));
    let paragraphs = [head].into_iter().chain(series.changes.iter().map(line)).collect();
    Some(Entry { word: direction.word(), tone, paragraphs })
}

/// A series as a row of bars between its least and its greatest value; a run without one is blank.
fn curve(values: &[Option<f64>]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let ends = values.iter().flatten().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
    let bar = |value: &Option<f64>| {
        let Some(value) = value else { return ' ' };
        let share = if ends.1 > ends.0 { (value - ends.0) / (ends.1 - ends.0) } else { 0.0 };
        BARS[((share * 8.0) as usize).min(7)]
    };
    values.iter().map(bar).collect()
}

/// The history for programs. Runs are counted from 1; a change is a fraction of the level before.
fn as_json(history: &History) -> Value {
    let change = |series: &Series, change: &Change| {
        json!({
            "run": change.run + 1, "before": change.before, "after": change.after, "change": change.fraction(),
            "direction": change.direction(series.metric).word(),
        })
    };
    let series = |series: &Series| {
        let changes: Vec<Value> = series.changes.iter().map(|c| change(series, c)).collect();
        json!({
            "point": series.point, "metric": series.metric.name, "values": series.values, "changes": changes,
            "can_tell": series.can_tell(history.exact),
        })
    };
    let fact = |fact: &FactChange| {
        let FactChange { run, name, before, after } = fact;
        json!({ "run": run + 1, "fact": name, "before": before, "after": after })
    };
    let run = |run: &Run| json!({ "folder": run.folder, "started_utc": run.started });
    json!({
        "format": 1, "study": history.study, "board": history.board, "exact": history.exact,
        "can_tell": history.can_tell(),
        "runs": history.runs.iter().map(run).collect::<Vec<_>>(),
        "series": history.series.iter().map(series).collect::<Vec<_>>(),
        "facts": history.facts.iter().map(fact).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_a_bar_for_each_value_and_none_for_none() {
        assert_eq!(curve(&[Some(1.0), Some(1.5), None, Some(2.0)]), "▁▅ █");
        assert_eq!(curve(&[Some(3.0), Some(3.0)]), "▁▁");
    }
}
