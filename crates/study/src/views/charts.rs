//! Charts of queries, frequencies over time, and the tables of replays.

use crate::models::replay::{fact, profile_digest, recorded};
use crate::results::store::Store;
use crate::specification::factor::{Point as Factors, describe};
use crate::specification::points::varying;
use crate::specification::setting::{Lever, Setting};
use crate::specification::study::{ChartKind, ChartSpec, FrequencySpec, ReplaySpec, Study};
use crate::views::model::*;
use pocketstone_core::origin::Origin;
use pocketstone_core::units::format_ns;
use pocketstone_core::{Error, Result};
use pocketstone_replay::device::Device;
use pocketstone_replay::governor::Spec;
use pocketstone_replay::simulate::simulate;
use rusqlite::types::Value;
use std::collections::BTreeMap;

/// Which models the run's modelled numbers come from; none where it has none.
pub(crate) fn caveat(store: &Store, study: &Study) -> Result<Option<String>> {
    let mut profiles = BTreeMap::new();
    let of_flash = study.flash_energies.iter().map(|f| f.device.get_ref());
    for name in study.replays.iter().flat_map(|r| r.devices.iter().map(|d| d.get_ref())).chain(of_flash) {
        if let Some(text) = store.fact(&fact(name))? {
            profiles.insert(name, digest_of(&text)[..12].to_owned());
        }
    }
    let list: Vec<String> = profiles.iter().map(|(name, digest)| format!("{name} (profile {digest})")).collect();
    let mut parts = Vec::new();
    if !study.replays.is_empty() {
        parts.push("times, frequencies and energies of replays");
    }
    if !study.read_ahead_models.is_empty() {
        parts.push("reads under other read-ahead rules, from the measured requests and time per page");
    }
    if !study.flash_energies.is_empty() {
        parts.push("energies, from measured times and published powers");
    }
    parts.retain(|_| !list.is_empty() || !study.read_ahead_models.is_empty());
    if parts.is_empty() {
        return Ok(None);
    }
    let mut text = format!("Values marked as modelled were computed, not measured: {}.", parts.join("; "));
    if !list.is_empty() {
        text += &format!(
            " The devices' models are {}; no device was measured. Their profiles, with the source of each number, are \
                in the results (`device.NAME` in the table `run`); devices offered only by \"Try it\" use the \
                profiles in `devices/`.",
            list.join(", ")
        );
    }
    Ok(Some(text))
}

fn digest_of(text: &str) -> String {
    use sha2::{Digest, Sha256};
    format!("{:x}", Sha256::digest(text))
}

/// A chart of the study.
///
/// # Errors
/// `ErrorKind::User` if its query is invalid, lacks a column, or returns text for a number; the message includes the
/// line.
pub(crate) fn chart(store: &Store, study: &Study, spec: &ChartSpec) -> Result<Figure> {
    let sql = spec.query.get_ref();
    let (mut rows, origin) = store.with_origin(|store| read(store, sql)).map_err(|e| {
        let place = study.place(&spec.query);
        Error::user(format!("{place}: the query of chart `{}` fails: {sql}", spec.name)).because(e)
    })?;
    let bars = matches!(spec.kind, ChartKind::Bars | ChartKind::StackedBars);
    if matches!(spec.kind, ChartKind::Lines | ChartKind::Steps) {
        sort_along(&mut rows);
    }
    let mut names: Vec<String> = Vec::new();
    let mut series: Vec<Series> = Vec::new();
    let mut beside = Vec::new();
    for row in rows {
        let x = match (bars, row.x) {
            (true, x) => {
                let name = text(&x);
                let at = names.iter().position(|n| *n == name).unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                });
                Some(at as f64)
            }
            (false, x) => number(&x),
        };
        // NULL is no point: what is unavailable is not 0. Of a stack it is a part without which there is no total.
        let unavailable = (spec.kind == ChartKind::StackedBars).then_some(f64::NAN);
        let (Some(x), Some(y)) = (x, row.y.or(unavailable)) else { continue };
        let at = series.iter().position(|s| s.name == row.series).unwrap_or_else(|| {
            let curve = spec.curves.contains(&row.series);
            series.push(Series { name: row.series.clone(), curve, ..Series::default() });
            series.len() - 1
        });
        if row.x_low.is_some() || row.x_high.is_some() || !row.label.is_empty() {
            let (point, label) = (series[at].points.len(), row.label);
            beside.push(Beside { series: at, point, x_low: row.x_low, x_high: row.x_high, label });
        }
        // A spread without a width is that of one value, which has none.
        let [low, high] = if row.low == row.high { [None; 2] } else { [row.low, row.high] };
        series[at].points.push(Point { x, y, low, high, n: row.n });
    }
    let joined = match spec.kind {
        ChartKind::Scatter => Joined::Not,
        ChartKind::Steps => Joined::Steps,
        _ => Joined::Lines,
    };
    let axis = |a: &crate::specification::study::AxisSpec| Axis { label: a.label.clone(), scale: a.scale };
    Ok(Figure {
        id: spec.name.clone(),
        title: spec.title.clone(),
        caption: origin.caption(&spec.caption),
        origin,
        x: axis(&spec.x),
        y: axis(&spec.y),
        names,
        series,
        stacked: spec.kind == ChartKind::StackedBars,
        joined,
        beside,
        ..Figure::default()
    })
}

/// Checks the queries and conditions of a study's charts and replays, without any results.
///
/// # Errors
/// `ErrorKind::User` for the first invalid query, at its line.
pub(crate) fn check(store: &Store, study: &Study) -> Result<()> {
    study.charts.iter().try_for_each(|spec| chart(store, study, spec).map(|_| ()))?;
    study.frequencies.iter().try_for_each(|spec| select(store, study, spec).map(|_| ()))?;
    study.replays.iter().try_for_each(|spec| crate::models::replay::cells(store, study, spec).map(|_| ()))
}

/// A row of a chart's query.
struct ChartRow {
    series: String,
    x: Value,
    y: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    x_low: Option<f64>,
    x_high: Option<f64>,
    n: Option<u32>,
    label: String,
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "unavailable".into(),
        Value::Integer(n) => n.to_string(),
        Value::Real(x) => x.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Real(x) => Some(*x),
        _ => None,
    }
}

/// Sorts the rows of each series by x, whose points are joined in this order; the series stay in theirs.
fn sort_along(rows: &mut [ChartRow]) {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows.iter() {
        let next = places.len();
        places.entry(row.series.clone()).or_insert(next);
    }
    rows.sort_by(|a, b| {
        let [x, y] = [a, b].map(|row| number(&row.x).unwrap_or(f64::NAN));
        places[&a.series].cmp(&places[&b.series]).then(x.total_cmp(&y))
    });
}

fn read(store: &Store, sql: &str) -> Result<Vec<ChartRow>> {
    let columns = store.columns(sql)?;
    let at = |name: &str| columns.iter().position(|c| c == name);
    let must = |name: &str| {
        let there = columns.join(", ");
        at(name).ok_or_else(|| {
            Error::user(format!("it has no column `{name}`"))
                .hint(format!("name it with AS: series, x and y are required; its columns are {there}"))
        })
    };
    let (series, x, y) = (must("series")?, must("x")?, must("y")?);
    let [low, high, x_low, x_high, n, label] = ["low", "high", "x_low", "x_high", "n", "label"].map(at);
    store.asked(sql, sql, [], |r| {
        let value = |n: usize| r.get::<_, Value>(n);
        let optional = |n: Option<usize>| Ok::<_, rusqlite::Error>(n.map(value).transpose()?.as_ref().and_then(number));
        let label = label.map(value).transpose()?.filter(|v| *v != Value::Null);
        Ok(ChartRow {
            series: text(&value(series)?),
            x: value(x)?,
            y: number(&value(y)?),
            low: optional(low)?,
            high: optional(high)?,
            x_low: optional(x_low)?,
            x_high: optional(x_high)?,
            n: optional(n)?.filter(|n| *n >= 1.0).map(|n| n as u32),
            label: label.as_ref().map(text).unwrap_or_default(),
        })
    })
}

/// A replay that a [[frequency]] shows.
struct Shown {
    cell: i64,
    device: String,
    governor: String,
    setting: Setting,
    cycles_scale: f64,
    seed: u64,
}

/// Frequency over time of one recorded run; none where no replay fulfils the condition. `device` gives the
/// profile that the replays were made with, by its name.
///
/// # Errors
/// `ErrorKind::User` for an invalid condition, or if a replay cannot be repeated.
pub(crate) fn frequency(
    store: &Store,
    study: &Study,
    spec: &FrequencySpec,
    device: &dyn Fn(&str) -> Result<Device>,
) -> Result<Option<Figure>> {
    let shown = select(store, study, spec)?;
    let Some(first) = shown.first() else { return Ok(None) };
    let profile = device(&first.device)?;
    let scaled = first.setting.scaled(&profile)?;
    let cell = store.cells()?.into_iter().find(|c| c.id == first.cell);
    let cell = cell.ok_or_else(|| Error::user(format!("no cell {}", first.cell)))?;
    let activity = recorded::activity(store, &cell, &profile)?.0;
    let from = spec.from_ms * 1e6;
    let mut series = Vec::new();
    for s in &shown {
        let governor: Spec = s.governor.parse()?;
        let replayed = simulate(&activity, &scaled, &governor, &s.setting.levers(s.seed, s.cycles_scale)?)?;
        let to = spec.to_ms.map_or(f64::INFINITY, |ms| ms * 1e6).min(replayed.run_ns as f64);
        // The first core's clock; where each core has its own, it is the one of the recorded thread.
        let mut points: Vec<Point> = Vec::new();
        for change in replayed.frequencies.iter().filter(|f| f.domain == 0 && (f.time_ns as f64) < to) {
            let point =
                Point { x: (change.time_ns as f64).max(from), y: f64::from(change.khz) / 1000.0, ..Point::default() };
            // What held before the window holds at its start.
            match points.last_mut().filter(|p| p.x == point.x) {
                Some(last) => *last = point,
                None => points.push(point),
            }
        }
        if let Some(last) = points.last().copied().filter(|p| p.x < to) {
            points.push(Point { x: to, ..last });
        }
        series.push(Series { name: s.governor.clone(), points, ..Series::default() });
    }
    let names: Vec<&str> = cell.point.keys().map(String::as_str).collect();
    let of = ["workload", "engine", "delay"].into_iter().filter(|n| names.contains(n)).collect::<Vec<_>>();
    let digest = profile_digest(&profile);
    Ok(Some(Figure {
        id: spec.name.clone(),
        title: spec.title.clone(),
        caption: Origin::Modelled.caption(&format!(
            "{} Recorded: {} seed={}. Replayed: {}device={}, profile {}.",
            spec.caption.trim_end(),
            describe(&cell.point, &of),
            cell.seed,
            first.setting.changes().map(|change| change + " ").collect::<String>(),
            profile.name,
            &digest[..12]
        )),
        x: Axis { label: "time since the run's start".into(), scale: Scale::Duration },
        y: Axis { label: "frequency (MHz)".into(), scale: Scale::Linear },
        origin: Origin::Modelled,
        series,
        joined: Joined::Steps,
        ..Figure::default()
    }))
}

fn select(store: &Store, study: &Study, spec: &FrequencySpec) -> Result<Vec<Shown>> {
    let only = spec.only.as_ref().map_or("1", |o| o.get_ref().as_str());
    let levers = Lever::ALL.map(|lever| format!("CAST({} AS TEXT)", lever.name())).join(", ");
    let sql = format!(
        "SELECT cell, device, governor, cycles_scale, seed, {levers} FROM replays
         WHERE replay = ?1 AND governor != 'bound' AND cell IS NOT NULL AND ({only}) ORDER BY cell, id"
    );
    let rows = store.asked(only, &sql, [spec.replay.get_ref()], |r| {
        let setting = (0..Lever::ALL.len()).map(|n| r.get(5 + n)).collect::<rusqlite::Result<_>>()?;
        Ok(Shown {
            cell: r.get(0)?,
            device: r.get(1)?,
            governor: r.get(2)?,
            setting: Setting(setting),
            cycles_scale: r.get(3)?,
            seed: r.get::<_, i64>(4)? as u64,
        })
    });
    let mut rows = rows.map_err(|e| {
        let place = spec.only.as_ref().map_or(&spec.replay, |o| o);
        study.error_at(place.span(), Error::user(format!("[[frequency]] `{}` failed", spec.name)).because(e))
    })?;
    if let Some((cell, device, setting)) = rows.first().map(|f| (f.cell, f.device.clone(), f.setting.clone())) {
        rows.retain(|r| r.cell == cell && r.device == device && r.setting == setting);
    }
    // In the study's order of governors, whatever was computed first.
    let replay = study.replays.iter().find(|r| r.name == *spec.replay.get_ref());
    let order = |g: &str| replay.and_then(|r| r.governors.iter().position(|x| x.get_ref().to_string() == g));
    rows.sort_by_key(|r| order(&r.governor));
    Ok(rows)
}

/// The results of a replay as a table.
pub(crate) fn replay_table(store: &Store, replay: &ReplaySpec) -> Result<Option<Table>> {
    type Write = fn(f64) -> String;
    // With the head of its column, and how its values are written there.
    const METRICS: [(&str, &str, Write); 8] = [
        ("mean_latency_ns", "mean latency", format_ns),
        ("p99_latency_ns", "99th percentile", format_ns),
        ("run_ns", "run", format_ns),
        ("busy_ns", "on core", format_ns),
        ("energy_mj", "energy (mJ)", |mj| format!("{mj:.1}")),
        ("mean_khz", "mean MHz", |khz| format!("{:.0}", khz / 1000.0)),
        ("transitions", "changes", |count| format!("{count:.0}")),
        ("regret", "over the bound", |share| format!("{:+.1} %", 100.0 * share)),
    ];
    let own: Vec<&str> = ["device", "governor"].into_iter().chain(Lever::ALL.map(Lever::name)).collect();
    let columns = own.iter().map(|c| format!("CAST({c} AS TEXT)")).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT point, metric, n, median, {columns} FROM replay_statistic WHERE name = ?1");
    let row = |r: &rusqlite::Row<'_>| {
        let own = (0..own.len()).map(|n| r.get(4 + n)).collect::<rusqlite::Result<Vec<String>>>()?;
        Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?, r.get::<_, i64>(2)?, r.get::<_, f64>(3)?, own))
    };
    let (rows, origin) = store.with_origin(|store| store.rows(&sql, [&replay.name], row))?;
    // Phones' logs of one workload differ only in what is no factor: the whole point tells them apart.
    type Key = ((String, String), Vec<String>);
    let mut table: BTreeMap<Key, (Factors, i64, BTreeMap<String, f64>)> = BTreeMap::new();
    for (text, metric, n, median, own) in rows {
        let point: Factors =
            serde_json::from_str(&text).map_err(|e| Error::user("a point is not valid JSON").because(e))?;
        let key = ((crate::views::rows::sort_key(&point), text), own);
        table.entry(key).or_insert_with(|| (point, n, BTreeMap::new())).2.insert(metric, median);
    }
    if table.is_empty() {
        return Ok(None);
    }
    let points: Vec<&Factors> = table.values().map(|v| &v.0).collect();
    let mut names = varying(&points);
    if points.iter().any(|point| point.contains_key("log")) {
        names.push("log");
    }
    let changing = |n: usize| n < 2 || table.keys().any(|k| k.1[n] != table.keys().next().map_or("", |f| &f.1[n]));
    let changing: Vec<usize> = (0..own.len()).filter(|n| changing(*n)).collect();
    let head = |n: &usize| if *n < 2 { own[*n].to_owned() } else { format!("replayed {}", own[*n].replace('_', " ")) };
    let mut columns: Vec<String> = names.iter().map(|n| n.replace('_', " ")).collect();
    columns.extend(changing.iter().map(head));
    columns.push("trials".into());
    columns.extend(METRICS.map(|(_, head, _)| head.to_owned()));
    let rows = table.iter().map(|((_, own), (point, n, metrics))| {
        let mut cells: Vec<String> = names.iter().map(|f| crate::specification::points::shown(point, f)).collect();
        cells.extend(changing.iter().map(|n| own[*n].clone()));
        cells.push(n.to_string());
        let missing = || "unavailable".to_owned();
        cells.extend(METRICS.map(|(m, _, write)| metrics.get(m).map_or_else(missing, |v| write(*v))));
        cells
    });
    Ok(Some(Table {
        origin,
        id: format!("replay-{}", replay.name),
        title: format!("Replays: {}", replay.name),
        caption: origin.caption(
            "Medians over the trials. \"Over the bound\" is the extra energy a governor uses compared with the least \
                at its own mean latency; the bound's row has the least at any latency.",
        ),
        columns,
        rows: rows.collect(),
    }))
}
