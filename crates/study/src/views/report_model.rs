//! Building the report's model from results.

use crate::results::layers::Layers;
use crate::results::resumed;
use crate::results::store::{Store, senses_by_block};
use crate::specification::cell::in_words;
use crate::specification::factor::{self, Point as Factors, describe};
use crate::specification::points::shown;
use crate::specification::points::varying;
use crate::specification::study::{DetailSpec, Study, TableSpec};
use crate::views::charts;
use crate::views::claims::{judge, with_numbers};
use crate::views::figures::{crowded, figure, phrase, study_table};
use crate::views::layers::{distribution, views};
use crate::views::model::*;
use crate::views::report_tables::{results_tables, volumes_table};
use crate::views::rows::{Found, Row, SpreadColumn, by_point};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Outcome;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, Result};
use pocketstone_replay::device::Device;

/// What every number from a virtual board carries with it.
const VIRTUAL_TIME: &str = "Times are virtual: the board charges a fixed time for every instruction and the chip's \
    data-sheet times for every flash operation. It models no caches, no branch misses and no bus contention, so \
    compare settings with each other rather than with a stopwatch. The same seed gives a bit-identical log.";

/// Builds the report's model from a run's results.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read, or a query of the study fails.
pub fn model(store: &Store, study: &Study) -> Result<Model> {
    let (study, dropped) = with_numbers(store, study)?;
    let study = &study;
    let claims = judge(store, study)?;
    let (mut figures, mut undrawn) = (Vec::new(), Vec::new());
    for spec in &study.figures {
        let figure = figure(store, study, spec)?;
        match crowded(study, spec, &figure) {
            Some(why) => undrawn.push(why),
            None => figures.push(figure),
        }
    }
    let profile = |name: &str| {
        let text = store.fact(&crate::models::replay::fact(name))?;
        Device::parse(name, &text.ok_or_else(|| Error::user(format!("the results have no profile of {name}")))?)
    };
    for spec in &study.charts {
        let chart = charts::chart(store, study, spec)?;
        figures.extend((!chart.series.is_empty()).then_some(chart));
    }
    for spec in &study.frequencies {
        figures.extend(charts::frequency(store, study, spec, &profile)?);
    }
    let mut model = Model {
        title: study.title.clone(),
        description: study.description.clone(),
        answer: study.answer.as_ref().map(|answer| Answer {
            text: answer.text.clone(),
            figure: answer.figure.as_ref().map(|figure| figure.get_ref().clone()),
        }),
        command: store.fact("command")?.unwrap_or_default(),
        facts: store
            .facts()?
            .into_iter()
            .filter(|(name, _)| !["study", "command", "options", "board.profile"].contains(&name.as_str()))
            .filter(|(name, _)| !name.starts_with("device."))
            .collect(),
        claims,
        figures,
        left_out: store.rows("SELECT what, why, cure FROM left_out", [], |r| {
            Ok(LeftOut { what: r.get(0)?, why: r.get(1)?, cure: r.get(2)? })
        })?,
        failures: failures(store)?,
        explorer: None,
        explanations: study
            .explanations
            .iter()
            .map(|e| Explanation { heading: e.heading.clone(), paragraphs: e.paragraphs.clone() })
            .collect(),
        ..Model::default()
    };
    model.left_out.extend(undrawn);
    // Where no cell was measured, no text has its numbers: what failed says why.
    let dropped = if store.done()?.is_empty() { Vec::new() } else { dropped };
    model.left_out.extend(dropped.into_iter().map(|d| LeftOut {
        what: format!("a paragraph of \"{}\"", d.heading),
        why: format!("not all of its numbers are in the results of this run ({})", d.missing.join(", ")),
        cure: String::new(),
    }));
    if store.repeats_to_the_bit()? {
        model.caveats.push(VIRTUAL_TIME.to_owned());
    }
    model.caveats.extend(resumed::caveat(store)?);
    model.caveats.extend(charts::caveat(store, study)?);
    model.caveats.extend(crate::views::throttled::caveat(store)?);
    for detail in &study.details {
        add_detail(store, study, detail, &mut model)?;
    }
    for table in &study.tables {
        model.tables.extend(study_table(store, study, table)?);
    }
    for replay in &study.replays {
        model.tables.extend(charts::replay_table(store, replay)?);
    }
    model.tables.extend(volumes_table(store)?);
    model.tables.extend(engines_table(store)?);
    model.tables.extend(read_ahead_table(store)?);
    let is_shown = |spec: &TableSpec| model.tables.iter().any(|table| table.id == spec.name);
    let commands_shown = study.tables.iter().any(|spec| spec.replaces_results && is_shown(spec));
    for experiment in &study.experiments {
        model.tables.extend(results_tables(store, &experiment.name, commands_shown)?);
    }
    model.tables.extend(tasks_table(store)?);
    model.summary = summary(store, &model)?;
    Ok(model)
}

fn summary(store: &Store, model: &Model) -> Result<String> {
    let count = |condition: &str| -> Result<i64> {
        let sql = format!("SELECT count(*) FROM cell WHERE {condition}");
        Ok(store.rows(&sql, [], |r| r.get(0))?.first().copied().unwrap_or(0))
    };
    let (done, failed, lost) = (count("status = 'done'")?, count("status = 'failed'")?, count("status = 'lost'")?);
    let verdicts = |v: Verdict| model.claims.iter().filter(|c| c.verdict == v).count();
    let mut text = format!("{} measured", counted(done, "cell"));
    if failed > 0 {
        text += &format!(", {failed} failed");
    }
    if lost > 0 {
        text += &format!(", {lost} lost with the board");
    }
    if let Some(board) = store.fact("board")? {
        text += &format!(" on the board {board}");
    }
    if !model.claims.is_empty() {
        text += &format!("; {} of {} claims hold", verdicts(Verdict::Holds), model.claims.len());
        let unjudged = verdicts(Verdict::CannotTell);
        if unjudged > 0 {
            text += &format!(", {unjudged} cannot be judged");
        }
        let unavailable = verdicts(Verdict::Unavailable);
        if unavailable > 0 {
            text += &format!(", {unavailable} unavailable");
        }
    }
    Ok(text + ".")
}

fn failures(store: &Store) -> Result<Vec<FailedCell>> {
    let sql =
        "SELECT experiment, point, seed, message, hint, console, traced FROM cell WHERE status <> 'done' ORDER BY id";
    store.rows(sql, [], |r| {
        let point: Factors = serde_json::from_str(&r.get::<_, String>(1)?).unwrap_or_default();
        let experiment: String = r.get(0)?;
        let cell = in_words(&experiment, &point, r.get::<_, i64>(2)?, r.get(6)?);
        Ok(FailedCell { cell, message: r.get(3)?, hint: r.get(4)?, console: r.get(5)? })
    })
}

/// A traced cell that a detail shows.
pub(crate) struct DetailCell {
    id: i64,
    point: Factors,
    outcome: Outcome,
}

/// The traced cells of a detail: of each point that its condition selects, the first seed.
pub(crate) fn detail_cells(store: &Store, study: &Study, detail: &DetailSpec) -> Result<Vec<DetailCell>> {
    let sql = format!(
        "SELECT id, point, outcome FROM cell WHERE id IN
         (SELECT min(id) FROM cells WHERE traced AND status = 'done' AND ({}) GROUP BY experiment, {})
         ORDER BY id LIMIT 6",
        detail.only.get_ref(),
        factor::FACTORS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
    );
    let read = |r: &rusqlite::Row<'_>| Ok((r.get(0)?, r.get::<_, String>(1)?, r.get::<_, String>(2)?));
    let found = store.asked(detail.only.get_ref(), &sql, [], read).map_err(|e| {
        let error = Error::user(format!("detail `{}` failed", detail.name)).because(e);
        study.error_at(detail.only.span(), error)
    })?;
    found
        .into_iter()
        .map(|(id, point, outcome)| {
            let damaged = || format!("cell {id} is damaged");
            let point = serde_json::from_str(&point).user(damaged)?;
            Ok(DetailCell { id, point, outcome: serde_json::from_str(&outcome).user(damaged)? })
        })
        .collect()
}

/// Heat maps and a time line of the detail's cells.
fn add_detail(store: &Store, study: &Study, detail: &DetailSpec, model: &mut Model) -> Result<()> {
    let cells = detail_cells(store, study, detail)?;
    let points: Vec<&Factors> = cells.iter().map(|c| &c.point).collect();
    let names = varying(&points);
    let mut series = Vec::new();
    for cell in &cells {
        if cell.outcome.database.is_some() {
            let name = if names.is_empty() { String::new() } else { format!(" ({})", describe(&cell.point, &names)) };
            let layers = Layers::of(store, cell.id)?;
            let id = format!("{}-{}", detail.name, cell.id);
            let title = format!("{}{name}", detail.title);
            let (timeline, chain) = views(&layers, &id, &title, &detail.caption);
            // Latencies are those of the cell itself, not of its traced twin.
            let plain = store.plain_twin(cell.id)?.map(|id| store.calls(id)).transpose()?;
            let calls = plain.as_ref().unwrap_or(&layers.calls);
            model.distributions.push(distribution(calls, &id, &title, &detail.caption));
            model.timelines.push(timeline);
            model.chains.extend(chain);
            if cell.outcome.flash.is_none() {
                continue;
            }
        }
        let name = match names.is_empty() {
            true => "flash page senses".to_owned(),
            false => describe(&cell.point, &names)
                .replace("read_ahead_bytes=0 B", "read-ahead off")
                .replace("read_ahead_bytes=", "read-ahead "),
        };
        if let Some(chip) = cell.outcome.chip {
            model.heat_maps.push(HeatMap {
                id: format!("{}-{}", detail.name, cell.id),
                title: format!("{}: {name}", detail.title),
                caption: detail.caption.clone(),
                unit: "page sense".into(),
                blocks: senses_by_block(store, cell.id, chip.block_pages(), chip.blocks())?,
            });
        }
        series.push(Series { name, points: over_time(store, cell)?, ..Series::default() });
    }
    if !series.is_empty() {
        model.figures.push(Figure {
            id: format!("{}-time", detail.name),
            title: format!("{}: page senses over time", detail.title),
            caption: detail.caption.clone(),
            x: Axis { label: "time since the first request".into(), scale: Scale::Duration },
            y: Axis { label: "flash page senses of all tasks so far".into(), scale: Scale::Linear },
            series,
            ..Figure::default()
        });
    }
    Ok(())
}

/// Page senses so far, at 60 times spread over the run.
fn over_time(store: &Store, cell: &DetailCell) -> Result<Vec<Point>> {
    const STEPS: usize = 60;
    let sql = "SELECT time_ns FROM flash_op WHERE cell = ?1 AND kind = 'sense' ORDER BY time_ns";
    let times: Vec<i64> = store.rows(sql, [cell.id], |r| r.get(0))?;
    let (start, end) = (cell.outcome.start_ns as f64, cell.outcome.end_ns as f64);
    let at = |n: usize| start + (end - start) * n as f64 / STEPS as f64;
    Ok((0..=STEPS)
        .map(|n| Point {
            x: at(n) - start,
            y: times.partition_point(|t| (*t as f64) <= at(n)) as f64,
            ..Point::default()
        })
        .collect())
}

/// Read-ahead in force, by file system.
fn read_ahead_table(store: &Store) -> Result<Option<Table>> {
    let sql = "SELECT DISTINCT point ->> '$.file_system', outcome ->> '$.read_ahead.bdi',
               outcome ->> '$.read_ahead.default_bytes', outcome ->> '$.read_ahead.bytes',
               outcome ->> '$.read_ahead.advice'
               FROM cell WHERE status = 'done' AND json_extract(plan, '$.workload.kind') = 'read' ORDER BY 1, 4";
    let text = |v: Option<i64>| v.map_or("unavailable".into(), |b| pocketstone_core::units::format_bytes(b as u64));
    let row = |r: &rusqlite::Row<'_>| {
        let bdi: Option<String> = r.get(1)?;
        Ok(vec![r.get(0)?, bdi.unwrap_or("unavailable".into()), text(r.get(2)?), text(r.get(3)?), r.get(4)?])
    };
    let (rows, origin) = store.with_origin(|store| store.rows(sql, [], row))?;
    Ok((!rows.is_empty()).then(|| Table {
        origin,
        id: "read-ahead-in-force".into(),
        title: "Read-ahead in force".into(),
        caption: origin.caption(
            "The kernel's setting when the file was opened. The rule since Linux 3.13: a read at the file's \
                start, or right after the previous one, opens or grows a window up to this size; any other read \
                fetches only what was requested unless the pages before it are cached.",
        ),
        columns: ["file system", "backing device", "kernel's default", "in force", "advice by file"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }))
}

/// The engines that ran, and the conditions that were asked for.
fn engines_table(store: &Store) -> Result<Option<Table>> {
    let sql = "SELECT DISTINCT coalesce(point ->> '$.engine', 'a command'), outcome ->> '$.database.engine',
               (SELECT group_concat(c.value ->> '$.name' || ' ' || (c.value ->> '$.asked') || ': ' ||
                   iif(c.value ->> '$.why' = '', 'in force', 'not in force, ' || (c.value ->> '$.why')), '; ')
                FROM json_each(coalesce(outcome -> '$.database.conditions', outcome -> '$.command.conditions')) c)
               FROM cell WHERE status = 'done' AND (outcome ->> '$.database.engine' IS NOT NULL
                   OR outcome -> '$.command.conditions' IS NOT NULL) ORDER BY 1, 3";
    let row = |r: &rusqlite::Row<'_>| {
        let conditions: Option<String> = r.get(2)?;
        Ok(vec![
            r.get(0)?,
            r.get::<_, Option<String>>(1)?.unwrap_or_default(),
            conditions.unwrap_or_else(|| "the machine's defaults".into()),
        ])
    };
    let (rows, origin) = store.with_origin(|store| store.rows(sql, [], row))?;
    Ok((!rows.is_empty()).then(|| Table {
        origin,
        id: "engines".into(),
        title: "Engines and conditions".into(),
        caption: origin.caption("What executed the operations, and the requested conditions."),
        columns: ["engine", "version", "conditions"].map(str::to_owned).to_vec(),
        rows,
    }))
}

/// Flash operations by the task that caused them.
fn tasks_table(store: &Store) -> Result<Option<Table>> {
    let sql = "SELECT c.point ->> '$.file_system', f.task, sum(f.kind = 'sense'), sum(f.kind = 'program'),
               sum(f.kind = 'erase') FROM flash_op f JOIN cell c ON c.id = f.cell GROUP BY 1, 2 ORDER BY 1, 3 DESC";
    let row = |r: &rusqlite::Row<'_>| {
        let count = |n: usize| -> rusqlite::Result<String> { Ok(r.get::<_, i64>(n)?.to_string()) };
        Ok(vec![r.get(0)?, r.get(1)?, count(2)?, count(3)?, count(4)?])
    };
    let (rows, origin) = store.with_origin(|store| store.rows(sql, [], row))?;
    Ok((!rows.is_empty()).then(|| Table {
        origin,
        id: "tasks".into(),
        title: "Flash operations by task".into(),
        caption: origin.caption(
            "All traced runs together. Metrics count only operations of the workload's own task; page senses over \
                    time and by block are those of all tasks.",
        ),
        columns: ["file system", "task", "page senses", "programs", "erases"].map(str::to_owned).to_vec(),
        rows,
    }))
}

/// Improvements of each experiment's candidate over its baseline, for a terminal.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read.
pub fn improvements(store: &Store, study: &Study) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for experiment in &study.experiments {
        let Some(compare) = &experiment.compare else { continue };
        let (table, origin) = by_point(store, "comparison", &experiment.name, &["total_ns", "page_senses"])?;
        if table.is_empty() {
            continue;
        }
        let points: Vec<&Factors> = table.iter().map(|(p, _)| p).collect();
        let names = varying(&points);
        let spread = SpreadColumn::of(table.iter().map(|(_, found)| found.get("total_ns")));
        let cells = |(point, metrics): &Found| {
            let mut cells: Vec<String> = names.iter().map(|n| shown(point, n)).collect();
            let missing = || "unavailable".to_owned();
            let time = metrics.get("total_ns");
            cells.push(time.map_or_else(missing, Row::text));
            cells.push(time.map_or_else(missing, |r| spread.cell(r)));
            cells.push(metrics.get("page_senses").map_or_else(missing, Row::text));
            cells
        };
        let mut columns: Vec<String> = names.iter().map(|n| n.replace('_', " ")).collect();
        columns.extend(["time saved", &spread.head(), "senses saved"].map(str::to_owned));
        let value = |v: &factor::Value| {
            phrase(compare.factor, &factor::named(compare.factor).map_or(v.to_string(), |f| factor::show(f, v)))
        };
        tables.push(Table {
            origin,
            id: experiment.name.clone(),
            title: format!("{}: {} against {}", experiment.name, value(&compare.candidate), value(&compare.baseline)),
            caption: origin.caption(""),
            columns,
            rows: table.iter().map(cells).collect(),
        });
    }
    Ok(tables)
}

/// What was left out, one thing per line: what, why, and the fix.
pub fn left_out_lines(left_out: &[LeftOut]) -> Vec<String> {
    let line = |l: &LeftOut| match l.cure.is_empty() {
        true => format!("left out: {}: {}", l.what, l.why),
        false => format!("left out: {}: {}\n  fix: {}", l.what, l.why, l.cure),
    };
    left_out.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
