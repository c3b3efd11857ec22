//! A history as a report's model: the changes first, then the series, and what changed beside them.

use crate::results::change_points::{ENOUGH, LEVEL};
use crate::results::history::{Change, Direction, FactChange, History, Run, Series};
use crate::specification::metric::Metric;
use crate::specification::study::Show;
use crate::views::figures::scale_of;
use crate::views::model;
use crate::views::model::{Answer, Axis, Explanation, Figure, Joined, Model, Point, Scale, Table};
use pocketstone_core::origin::Origin;
use pocketstone_core::words::counted;
use std::collections::BTreeSet;

/// Figures of a page; the other series are in its tables.
const FIGURES: usize = 40;

/// A change in words: `12.3 ms -> 13.1 ms (+6.5 %, worse)`.
pub fn change(metric: &Metric, change: &Change) -> String {
    let word = change.direction(metric).word();
    let by = match change.fraction() {
        // A change is never shown as none.
        Some(by) if by.abs() < 0.000_5 => format!("by less than 0.1 %, {word}"),
        Some(by) => format!("{:+.1} %, {word}", 100.0 * by),
        None => word.to_owned(),
    };
    let [before, after] = metric.unit.write_both(change.before, change.after);
    format!("{before} -> {after} ({by})")
}

/// A fact's change in a line; of texts of several lines, that they changed.
pub fn fact(fact: &FactChange) -> String {
    let (before, after) = (short(&fact.before), short(&fact.after));
    match (before, after) {
        (Some(before), Some(after)) => format!("{}: {before} -> {after}", fact.name),
        _ => format!("the text of {} differs", fact.name),
    }
}

/// A value that fits a line; `unavailable` for none.
fn short(value: &str) -> Option<&str> {
    match value {
        "" => Some("unavailable"),
        text if text.contains('\n') || text.chars().count() > 80 => None,
        text => Some(text),
    }
}

/// Lines that are shown of a text that changed, and letters of a line.
const LINES: usize = 4;
const LETTERS: usize = 120;

/// What a text has and another one has not: its own lines, the first of them.
fn own_lines(text: &str, other: &str) -> String {
    let others: BTreeSet<&str> = other.lines().collect();
    let own: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty() && !others.contains(line)).collect();
    if text.is_empty() {
        return "unavailable".to_owned();
    }
    let cut = |line: &&str| match line.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => (*line).to_owned(),
    };
    let mut shown: Vec<String> = own.iter().take(LINES).map(cut).collect();
    match own.len() {
        0 => shown.push("no line of its own".to_owned()),
        all if all > LINES => shown.push(format!("and {}", counted(all - LINES, "more line"))),
        _ => {}
    }
    shown.join("\n")
}

/// How the history went, in a sentence or two.
pub fn summary(history: &History) -> String {
    let changed: Vec<&Series> = history.series.iter().filter(|s| !s.changes.is_empty()).collect();
    let worse = |s: &&&Series| s.changes.last().is_some_and(|last| last.direction(s.metric) == Direction::Worse);
    let (runs, all) = (history.runs.len(), history.series.len());
    let of = format!("{} of {} on the board {}", counted(runs, "run"), history.study, history.board);
    if !history.can_tell() {
        return format!("{of}: changes cannot be told from noise in fewer than {ENOUGH} values on this board.");
    }
    let untold = history.without_change().1.len();
    let few = match untold {
        0 => String::new(),
        _ => {
            let (more, has) = (counted(untold, "more series"), if untold == 1 { "has" } else { "have" });
            format!(" {more} {has} too few values to tell a change from noise (fewer than {ENOUGH}).")
        }
    };
    match (changed.len(), all - untold) {
        (0, told) => format!("{of}: none of {told} series changed.{few}"),
        (n, told) => format!(
            "{of}: {n} of {told} series changed, {} of them for the worse at last.{few}",
            changed.iter().filter(worse).count()
        ),
    }
}

/// By what a change is known.
pub fn method(history: &History) -> String {
    match history.exact {
        true => "This board repeats a run to the bit: every other value is a change.".to_owned(),
        false => format!(
            "Changes of the level are found by E-divisive (Matteson and James, 2014) with a permutation test: of \
             series without a change, {:.0} in 100 are shown with one.",
            100.0 * LEVEL
        ),
    }
}

/// The page of a history.
pub fn model(history: &History) -> Model {
    let changed: Vec<&Series> = history.series.iter().filter(|series| !series.changes.is_empty()).collect();
    let (steady, untold) = history.without_change();
    let figures = changed.iter().chain(&steady).chain(&untold).take(FIGURES).enumerate();
    let tables = [
        changes_table(history, &changed),
        values_table("steady", "Series without a change", "", &steady),
        values_table("values", "Values", TOO_FEW, &untold),
        runs_table(&history.runs),
        facts_table(history),
    ];
    let figures: Vec<Figure> = figures.map(|(number, series)| figure(history, number, series)).collect();
    Model {
        title: format!("History of {}", history.study),
        // The series that changed come first.
        answer: Some(Answer { text: summary(history), figure: figures.first().map(|f| f.id.clone()) }),
        figures,
        tables: tables.into_iter().flatten().collect(),
        explanations: vec![Explanation {
            heading: "How changes are found".to_owned(),
            paragraphs: vec![
                method(history),
                "Runs are numbered from 1 in the order in which they began; each value is a run's median.".to_owned(),
            ],
        }],
        ..Model::default()
    }
}

fn figure(history: &History, number: usize, series: &Series) -> Figure {
    let point =
        |(run, value): (usize, &Option<f64>)| Some(Point { x: run as f64 + 1.0, y: (*value)?, ..Point::default() });
    let measured = model::Series {
        name: series.metric.label.to_owned(),
        points: series.values.iter().enumerate().filter_map(point).collect(),
        ..model::Series::default()
    };
    let mut all = vec![measured];
    all.extend((!series.changes.is_empty()).then(|| levels(series)));
    let origin = series.metric.origin();
    Figure {
        id: format!("series-{}", number + 1),
        title: format!("{}, {}", series.metric.label, series.point),
        caption: origin.caption(&match &series.changes[..] {
            [] if series.can_tell(history.exact) => "No change.".to_owned(),
            [] => TOO_FEW.to_owned(),
            changes => {
                let line = |c: &Change| format!("Run {}: {}.", c.run + 1, change(series.metric, c));
                changes.iter().map(line).collect::<Vec<_>>().join(" ")
            }
        }),
        origin,
        x: Axis { label: "run".into(), scale: Scale::Linear },
        y: Axis { label: series.metric.label_with_unit(), scale: scale_of(series.metric, Show::Value) },
        series: all,
        joined: Joined::Lines,
        ..Figure::default()
    }
}

/// The levels between changes, as a line that steps from one to the next.
fn levels(series: &Series) -> model::Series {
    let there: Vec<usize> = (0..series.values.len()).filter(|&run| series.values[run].is_some()).collect();
    let (mut points, mut from) = (Vec::new(), there.first().copied().unwrap_or(0));
    let mut level = |from: usize, to: usize, y: f64| {
        points.extend([from, to].map(|run| Point { x: run as f64 + 1.0, y, ..Point::default() }));
    };
    for change in &series.changes {
        level(from, change.last, change.before);
        from = change.run;
    }
    if let (Some(last), Some(end)) = (series.changes.last(), there.last()) {
        level(from, *end, last.after);
    }
    model::Series { name: "level".into(), points, curve: true, ..model::Series::default() }
}

fn changes_table(history: &History, changed: &[&Series]) -> Option<Table> {
    let row = |series: &Series, c: &Change| {
        let facts: Vec<String> = history.facts_between(c.last, c.run).map(fact).collect();
        vec![
            series.point.clone(),
            series.metric.label.to_owned(),
            (c.run + 1).to_string(),
            change(series.metric, c),
            if facts.is_empty() { "nothing that is recorded".to_owned() } else { facts.join("; ") },
        ]
    };
    let rows: Vec<_> = changed.iter().flat_map(|series| series.changes.iter().map(|c| row(series, c))).collect();
    let caption = "Each change, the first run that shows it, and which facts were others there.";
    let columns = ["what", "metric", "run", "change", "changed with it"];
    table("changes", "Changes", caption, origin(changed), &columns, rows)
}

/// What is said of series that few runs measured.
const TOO_FEW: &str = "Too few runs to tell a change from noise.";

fn values_table(id: &str, title: &str, caption: &str, of: &[&Series]) -> Option<Table> {
    let row = |series: &&Series| {
        let ends = [series.values.iter().flatten().next(), series.values.iter().flatten().next_back()];
        let ends = ends.map(|end| end.map_or("unavailable".into(), |v| series.metric.unit.write(*v)));
        let [first, last] = ends;
        vec![series.point.clone(), series.metric.label.to_owned(), first, last]
    };
    let rows = of.iter().map(row).collect();
    table(id, title, caption, origin(of), &["what", "metric", "first run", "last run"], rows)
}

fn runs_table(runs: &[Run]) -> Option<Table> {
    let row = |(number, run): (usize, &Run)| {
        vec![(number + 1).to_string(), run.started.clone(), run.folder.display().to_string(), run.revision().to_owned()]
    };
    let rows = runs.iter().enumerate().map(row).collect();
    table("runs", "Runs", "", Origin::Measured, &["run", "began (UTC)", "folder", "revision of pocketstone"], rows)
}

fn facts_table(history: &History) -> Option<Table> {
    let row = |f: &FactChange| {
        let [before, after] = match (short(&f.before), short(&f.after)) {
            (Some(before), Some(after)) => [before, after].map(str::to_owned),
            _ => [own_lines(&f.before, &f.after), own_lines(&f.after, &f.before)],
        };
        vec![(f.run + 1).to_string(), f.name.clone(), before, after]
    };
    let rows = history.facts.iter().map(row).collect();
    let caption = "Facts that were others than in the run before; of longer texts, the lines that are.";
    table("facts", "What else changed", caption, Origin::Measured, &["run", "fact", "before", "from this run on"], rows)
}

/// Where the values of these series come from.
fn origin(series: &[&Series]) -> Origin {
    Origin::of_all(series.iter().map(|series| series.metric.origin()))
}

fn table(
    id: &str,
    title: &str,
    caption: &str,
    origin: Origin,
    columns: &[&str],
    rows: Vec<Vec<String>>,
) -> Option<Table> {
    (!rows.is_empty()).then(|| Table {
        id: id.into(),
        title: title.into(),
        caption: origin.caption(caption),
        origin,
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specification::metric;

    #[test]
    fn a_change_is_in_words_with_its_unit_and_meaning() {
        let of = |name: &str, before, after| {
            change(metric::named(name).unwrap(), &Change { last: 0, run: 1, before, after })
        };
        assert_eq!(of("total_ns", 2e6, 2.02e6), "2 ms -> 2.02 ms (+1.0 %, worse)");
        assert_eq!(of("page_senses", 300.0, 150.0), "300 -> 150 (-50.0 %, better)");
        assert_eq!(of("page_senses", 0.0, 1.0), "0 -> 1 (worse)");
        assert_eq!(of("total_ns", 1e9, 1e9 + 1.0), "1 s -> 1.000000001 s (by less than 0.1 %, worse)");
        let grown = of("used_bytes", 104_857_600.0, 104_857_601.0);
        assert_eq!(grown, "100 MiB -> 104857601 B (by less than 0.1 %, worse)");
    }

    #[test]
    fn of_a_text_that_changed_the_page_shows_the_lines_that_did() {
        let run = |folder: &str| {
            let mut run = Run::default();
            run.folder = folder.into();
            run
        };
        let text = |seed: u32| format!("title = \"x\"\nseed = {seed}\n[[experiment]]\n");
        let change =
            |name: &str, before: String, after: String| FactChange { run: 1, name: name.into(), before, after };
        let series = Series {
            point: "e".into(),
            metric: metric::named("total_ns").unwrap(),
            values: vec![Some(1.0), Some(1.0)],
            changes: Vec::new(),
        };
        let history = History {
            study: "s".into(),
            board: "host".into(),
            runs: vec![run("a"), run("b")],
            series: vec![series],
            facts: vec![
                change("study", text(1), text(2)),
                change("kernel", "6.1".into(), "6.2".into()),
                change("study", text(2), text(2) + "repetitions = 3\n"),
            ],
            ..History::default()
        };
        let model = model(&history);
        let facts = &model.tables.iter().find(|t| t.id == "facts").unwrap().rows;
        assert_eq!(facts[0], ["2", "study", "seed = 1", "seed = 2"]);
        assert_eq!(facts[1], ["2", "kernel", "6.1", "6.2"]);
        assert_eq!(facts[2][2..], ["no line of its own", "repetitions = 3"]);
        let answer = model.answer.unwrap();
        assert!(answer.text.starts_with("2 runs of s on the board host"), "{}", answer.text);
        assert_eq!(answer.figure.as_deref(), Some("series-1"));
        assert_eq!(model.figures[0].caption, "Too few runs to tell a change from noise.");
    }

    #[test]
    fn a_series_that_few_runs_measured_is_shown_as_values_and_counted() {
        let series = |point: &str, values: Vec<Option<f64>>| Series {
            point: point.into(),
            metric: metric::named("p99_ns").unwrap(),
            values,
            changes: Vec::new(),
        };
        let half = (0..12).map(|run| (run % 2 == 0).then_some(1e3)).collect();
        let history = History {
            study: "s".into(),
            board: "host".into(),
            runs: vec![Run::default(); 12],
            series: vec![series("half", half), series("all", vec![Some(1.0); 12])],
            ..History::default()
        };
        assert_eq!(
            summary(&history),
            "12 runs of s on the board host: none of 1 series changed. 1 more series has too few values to tell a \
             change from noise (fewer than 10)."
        );
        let model = model(&history);
        let whats = |id: &str| {
            let table = model.tables.iter().find(|table| table.id == id).unwrap();
            table.rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>()
        };
        assert_eq!((whats("steady"), whats("values")), (vec!["all"], vec!["half"]));
        let captions: Vec<&str> = model.figures.iter().map(|figure| figure.caption.as_str()).collect();
        assert_eq!(captions, ["No change.", TOO_FEW]);
    }

    #[test]
    fn what_a_model_gave_is_not_shown_as_measured() {
        let series = |name: &str| Series {
            point: "e".into(),
            metric: metric::named(name).unwrap(),
            values: vec![Some(1.0), Some(1.0)],
            changes: Vec::new(),
        };
        let shown = |names: &[&str]| {
            let series = names.iter().map(|name| series(name)).collect();
            let model = model(&History { series, ..History::default() });
            (model.figures[0].origin, model.tables.iter().find(|t| t.id == "values").unwrap().origin)
        };
        assert_eq!(shown(&["total_ns"]), (Origin::Measured, Origin::Measured));
        assert_eq!(shown(&["modelled_energy_mj"]), (Origin::Modelled, Origin::Modelled));
        assert_eq!(shown(&["modelled_energy_mj", "total_ns"]), (Origin::Modelled, Origin::Both));
    }

    #[test]
    fn a_text_with_many_lines_of_its_own_is_cut() {
        let text: String = (0..9).map(|n| format!("line {n}\n")).collect();
        assert_eq!(own_lines(&text, "line 0\n"), "line 1\nline 2\nline 3\nline 4\nand 4 more lines");
        assert_eq!(own_lines("", "x"), "unavailable");
        assert_eq!(own_lines(&"ä".repeat(300), "").chars().count(), LETTERS + 1);
    }

    #[test]
    fn levels_step_at_changes_and_reach_to_both_ends() {
        let series = Series {
            point: "e".into(),
            metric: metric::named("total_ns").unwrap(),
            values: vec![None, Some(1.0), Some(1.0), Some(2.0)],
            changes: vec![Change { last: 2, run: 3, before: 1.0, after: 2.0 }],
        };
        let places: Vec<(f64, f64)> = levels(&series).points.iter().map(|p| (p.x, p.y)).collect();
        assert_eq!(places, [(2.0, 1.0), (3.0, 1.0), (4.0, 2.0), (4.0, 2.0)]);
    }
}
