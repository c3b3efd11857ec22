//! Figures and tables of a study, from the results.

use crate::results::left_out::LeftOut;
use crate::results::store::Store;
use crate::specification::factor::{self, AnyFactor, Kind, Point as Factors, value_of};
use crate::specification::metric::{self, Better, Metric, Unit};
use crate::specification::points::shown;
use crate::specification::study::{FigureSpec, Show, Study, TableSpec};
use crate::views::model::*;
use crate::views::rows::rows;
use pocketstone_core::origin::Origin;
use pocketstone_core::words::Word;
use pocketstone_core::{Error, Result};
use pocketstone_workload::table::{Name, WORKLOAD};
use std::collections::BTreeMap;

/// The definition of a metric that a study names; its names are checked when it is parsed.
fn definition(name: &str) -> Result<&'static Metric> {
    metric::named(name).ok_or_else(|| Error::bug(format!("unknown metric `{name}`")))
}

pub(crate) fn scale_of(metric: &Metric, show: Show) -> Scale {
    match (show, metric.unit) {
        (Show::Improvement, _) | (_, Unit::Share) => Scale::Percent,
        (_, Unit::Nanoseconds) => Scale::Duration,
        (_, Unit::Bytes) => Scale::Bytes,
        _ => Scale::Linear,
    }
}

/// A factor's value in words; `value` is as [`shown`] has it.
pub(crate) fn phrase(factor: &str, value: &str) -> String {
    match (factor, value) {
        ("read_ahead_bytes", "0 B") => "read-ahead off".to_owned(),
        ("read_ahead_bytes", _) => format!("read-ahead {value}"),
        ("request_bytes", _) => format!("{value} requests"),
        ("bulk_read", "true") => "bulk_read".to_owned(),
        ("bulk_read", _) => "no bulk_read".to_owned(),
        ("compression", _) => format!("compression {value}"),
        _ => value.to_owned(),
    }
}

/// A factor's values in an experiment that are words, in the order in which the study has them.
fn words_of(study: &Study, experiment: &str, factor: &str) -> Vec<String> {
    let found = study.experiments.iter().find(|e| e.name == experiment).and_then(|e| e.factors.get(factor));
    found.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// A figure of the study, from the results.
pub(crate) fn figure(store: &Store, study: &Study, spec: &FigureSpec) -> Result<Figure> {
    let placed = |e: Error| {
        let error = Error::user(format!("figure `{}` failed", spec.name)).because(e);
        study.error_at(spec.only.as_ref().map_or_else(|| spec.metric.span(), |only| only.span()), error)
    };
    let of_spec = [&spec.metric].into_iter().chain(&spec.stack);
    let metrics: Vec<&Metric> = of_spec.map(|m| definition(m.get_ref())).collect::<Result<_>>()?;
    let (names, mut series) = match spec.show {
        Show::Runs => (Vec::new(), runs(store, spec, &metrics).map_err(placed)?),
        _ => of_factor(store, study, spec, &metrics).map_err(placed)?,
    };
    series.extend(spec.paper.iter().map(|p| Series {
        name: p.name.clone(),
        source: Source::Paper,
        points: p.points.iter().map(|[x, y]| Point { x: *x, y: *y, ..Point::default() }).collect(),
        curve: false,
    }));
    let x = match spec.show {
        Show::Runs => Axis { label: "run".into(), scale: Scale::Linear },
        _ => {
            let factor = factor::named(spec.x.get_ref())?;
            let scale = match factor.kind {
                Kind::Nanoseconds => Scale::Duration,
                Kind::Bytes => Scale::Bytes,
                Kind::Count => Scale::Log2,
                _ => Scale::Linear,
            };
            // What stands below bars says what they are; a long description would not fit.
            let label =
                if names.is_empty() { about(study, spec, factor).to_owned() } else { factor.name.replace('_', " ") };
            Axis { label, scale }
        }
    };
    let metric = label(study, spec, metrics[0]);
    let y_label = match (spec.show, spec.stack.is_empty()) {
        (Show::Improvement, _) => format!("{} {metric}", gained(metrics[0].better)),
        (_, true) => metric + metrics[0].unit.suffix(),
        (_, false) if metrics[0].unit == Unit::Nanoseconds => "time".to_owned(),
        (_, false) => "sum of the parts".to_owned() + metrics[0].unit.suffix(),
    };
    let origin = Origin::of_all(metrics.iter().map(|metric| metric.origin()));
    let caption = match spec.stack.is_empty() || spec.show == Show::Runs {
        true => spec.caption.clone(),
        false => format!("{} A bar shows one repetition, the one with the median total.", spec.caption.trim_end()),
    };
    Ok(Figure {
        id: spec.name.clone(),
        title: spec.title.clone(),
        caption: origin.caption(&caption),
        origin,
        x,
        y: Axis { label: y_label, scale: scale_of(metrics[0], spec.show) },
        names,
        series,
        stacked: !spec.stack.is_empty(),
        ..Figure::default()
    })
}

/// Why a figure of single runs is left out: several points stand at one place, and their sum is no run.
pub(crate) fn crowded(study: &Study, spec: &FigureSpec, figure: &Figure) -> Option<LeftOut> {
    if spec.stack.is_empty() && spec.show != Show::Runs {
        return None;
    }
    let measured = figure.series.iter().filter(|series| series.source == Source::Measured);
    let x = measured.flat_map(|series| series.points.windows(2)).find(|pair| pair[0].x == pair[1].x)?[0].x;
    let x = figure.names.get(x as usize).cloned().unwrap_or_else(|| x.to_string());
    let place = study.place(spec.only.as_ref().unwrap_or(&spec.metric));
    let error = Error::user(format!("{place}: it selects several points at {} = {x}", spec.x.get_ref()));
    Some(LeftOut::new(format!("figure `{}`", spec.name), &error.hint("narrow `only` until it selects one")))
}

/// What a factor is in a figure: in the words of the workload, where there is one alone.
fn about(study: &Study, spec: &FigureSpec, factor: &'static AnyFactor) -> &'static str {
    let own = match &words_of(study, spec.experiment.get_ref(), WORKLOAD.name())[..] {
        [workload] => Name::of_word(workload).and_then(|name| name.factors().find(|own| own.name == factor.name)),
        _ => None,
    };
    own.unwrap_or(factor).about
}

/// What an improvement of a metric is, before its name.
fn gained(better: Better) -> &'static str {
    match better {
        Better::More => "gained in",
        Better::Less | Better::Neither => "saved of",
    }
}

/// A metric's name in a figure, without its unit: what it is a latency of depends on the workload.
fn label(study: &Study, spec: &FigureSpec, metric: &Metric) -> String {
    let experiment = study.experiments.iter().find(|e| e.name == *spec.experiment.get_ref());
    let workload = experiment.and_then(|e| e.factors.get("workload")).and_then(|w| w.first()).and_then(|w| w.as_str());
    let calls = workload.or(WORKLOAD.any().default).and_then(Name::of_word).map_or("a request", Name::request);
    metric.label.replace("in read()", &format!("in {calls}")).replace("read()", calls)
}

/// Names of the horizontal axis and the series, where it is a factor.
fn of_factor(
    store: &Store,
    study: &Study,
    spec: &FigureSpec,
    metrics: &[&Metric],
) -> Result<(Vec<String>, Vec<Series>)> {
    let table = if spec.show == Show::Improvement { "comparison" } else { "statistic" };
    let experiment = spec.experiment.get_ref();
    let x_factor = factor::named(spec.x.get_ref())?;
    let mut found = Vec::new();
    for metric in metrics {
        found.push(rows(
            store,
            table,
            experiment,
            metric.name,
            spec.only.as_ref().map(|only| only.get_ref().as_str()),
        )?);
    }
    // Words stand in the order in which the study has them.
    let there = |name: &str| found.iter().flatten().any(|r| value_of(&r.point, x_factor).is_some_and(|v| v == name));
    let names: Vec<String> = match x_factor.kind {
        Kind::Word(_) | Kind::Text | Kind::Delay | Kind::Volume | Kind::TenthsOrNone => {
            words_of(study, experiment, x_factor.name).into_iter().filter(|name| there(name)).collect()
        }
        _ => Vec::new(),
    };
    let bars = !names.is_empty();
    // By metric, and by the values of the factors that part the lines, each with its place among the words.
    type Name = (usize, Vec<(usize, String)>);
    let mut lines: BTreeMap<Name, Vec<Point>> = BTreeMap::new();
    for (number, row) in found.into_iter().enumerate().flat_map(|(n, rows)| rows.into_iter().map(move |r| (n, r))) {
        let Some(value) = value_of(&row.point, x_factor) else { continue };
        let named = names.iter().position(|name| value == *name).map(|n| n as f64);
        let Some(x) = named.or_else(|| value.as_u64().map(|n| n as f64)) else { continue };
        let place = |factor: &str, value: &str| {
            let words = if bars { words_of(study, experiment, factor) } else { Vec::new() };
            words.iter().position(|word| word == value).unwrap_or(0)
        };
        let named = |f: &str| (place(f, &shown(&row.point, f)), shown(&row.point, f));
        let name: Vec<(usize, String)> = spec.series.iter().map(|f| named(f.get_ref())).collect();
        let point = match spec.stack.is_empty() {
            true => {
                let end = |value: f64| (row.n > 1).then_some(value);
                let (low, high) = (end(row.spread.low()), end(row.spread.high()));
                Point { x, y: row.median, low, high, n: u32::try_from(row.n).ok() }
            }
            false => {
                let Some(parts) = median_run(store, experiment, &row.point, metrics)? else { continue };
                Point { x, y: parts[number], ..Point::default() }
            }
        };
        lines.entry((number, name)).or_default().push(point);
    }
    let series = lines.into_iter().map(|((number, name), mut points)| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let words: Vec<String> =
            name.iter().zip(&spec.series).map(|((_, value), factor)| phrase(factor.get_ref(), value)).collect();
        let name = if words.is_empty() { label(study, spec, metrics[number]) } else { words.join(", ") };
        Series { name, points, ..Series::default() }
    });
    Ok((names, series.collect()))
}

/// The parts of one repetition, so that they add up to a time that a run took: of those that have all parts, the one
/// whose sum is the median, or of two in the middle the smaller.
fn median_run(store: &Store, experiment: &str, point: &Factors, metrics: &[&Metric]) -> Result<Option<Vec<f64>>> {
    let point = serde_json::to_string(point).map_err(|e| Error::bug("a point is not valid JSON").because(e))?;
    let sql = "SELECT c.seed, m.name, m.value FROM metric m JOIN cell c ON c.id = m.cell
               WHERE c.experiment = ?1 AND c.point = ?2";
    let mut by_seed: BTreeMap<i64, BTreeMap<String, f64>> = BTreeMap::new();
    for (seed, name, value) in store.rows(sql, [experiment, &point], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))? {
        by_seed.entry(seed).or_default().insert(name, value);
    }
    let parts = |of: BTreeMap<String, f64>| metrics.iter().map(|m| of.get(m.name).copied()).collect::<Option<Vec<_>>>();
    let mut runs: Vec<Vec<f64>> = by_seed.into_values().filter_map(parts).collect();
    runs.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum::<f64>()));
    let middle = runs.len().saturating_sub(1) / 2;
    Ok(runs.into_iter().nth(middle))
}

/// The series of each repetition's own metrics: the first is number 1.
fn runs(store: &Store, spec: &FigureSpec, metrics: &[&Metric]) -> Result<Vec<Series>> {
    let only = spec.only.as_ref().map_or("1", |only| only.get_ref().as_str());
    let sql = format!(
        "SELECT c.repetition + 1, m.value FROM cells c JOIN metric m ON m.cell = c.id
         WHERE c.experiment = ?1 AND m.name = ?2 AND ({only}) ORDER BY 1"
    );
    let mut series = Vec::new();
    for metric in metrics {
        let points = store.asked(only, &sql, [spec.experiment.get_ref(), metric.name], |r| {
            Ok(Point { x: r.get::<_, i64>(0)? as f64, y: r.get(1)?, ..Point::default() })
        })?;
        if !points.is_empty() {
            series.push(Series { name: metric.label_with_unit(), points, ..Series::default() });
        }
    }
    Ok(series)
}

/// A table of the study; none where its query gives no row.
pub(crate) fn study_table(store: &Store, study: &Study, spec: &TableSpec) -> Result<Option<Table>> {
    let query = spec.query.get_ref();
    let ((columns, rows), origin) = store.with_origin(|store| store.table(query)).map_err(|e| {
        let place = study.place(&spec.query);
        Error::user(format!("{place}: the query of table `{}` fails: {query}", spec.name)).because(e)
    })?;
    let caption = origin.caption(&spec.caption);
    Ok((!rows.is_empty()).then(|| Table {
        id: spec.name.clone(),
        title: spec.title.clone(),
        caption,
        columns,
        rows,
        origin,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_of_a_metric_has_its_unit() {
        let of = |name: &str, show| scale_of(metric::named(name).unwrap(), show);
        assert_eq!([of("used_bytes", Show::Value), of("total_ns", Show::Runs)], [Scale::Bytes, Scale::Duration]);
        assert_eq!([of("used_bytes", Show::Improvement), of("wasted_share", Show::Value)], [Scale::Percent; 2]);
        assert_eq!(of("page_senses", Show::Value), Scale::Linear);
    }

    #[test]
    fn a_figure_of_single_runs_has_one_point_at_each_place() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path(), []).unwrap();
        let sql = r#"INSERT INTO cell SELECT column1, 'e', column2, 0, 1, 0, 'done', '{}', NULL, 'd', 1.0, NULL, NULL,
              NULL FROM (VALUES (1, '{"requests":8,"threads":1}'), (2, '{"requests":16,"threads":1}'),
                                (3, '{"requests":8,"threads":2}'));
            INSERT INTO main.metric SELECT cell.id, column1, 10 * cell.id
              FROM cell, (VALUES ('on_core_ns'), ('off_core_ns'));
            INSERT INTO main.statistic SELECT 'e', point, name, 1, value, value, value, value, NULL
              FROM main.metric JOIN cell ON cell.id = cell;"#;
        store.db.execute_batch(sql).unwrap();
        let of = |keys: &str| {
            let text = format!(
                "title='t'\nboard='host'\n[[experiment]]\nname='e'\n[experiment.factors]\nworkload='files'\n\
                 file_system='tmpfs'\nfile_bytes='1MiB'\nrequests=[8, 16]\nthreads=[1, 2]\n[[figure]]\nname='f'\n\
                 title='t'\ncaption='c'\nexperiment='e'\nmetric='on_core_ns'\n{keys}\n"
            );
            let study = Study::parse("s.toml", &text).unwrap();
            let drawn = figure(&store, &study, &study.figures[0]).unwrap();
            crowded(&study, &study.figures[0], &drawn).map(|left| (left.why, left.cure))
        };
        for (keys, place, one) in [
            ("stack=['off_core_ns']\nshow='value'\nx='threads'", "threads = 1", "requests = 8"),
            ("show='runs'\nx='repetition'", "repetition = 1", "requests = 8 AND threads = 1"),
        ] {
            let (why, cure) = of(keys).unwrap();
            assert_eq!(why, format!("s.toml:16: it selects several points at {place}"));
            assert!(cure.contains("narrow `only`"), "{cure}");
            assert_eq!(of(&format!("{keys}\nonly='{one}'")), None);
        }
        assert_eq!(of("show='value'\nx='threads'"), None, "lines may have several points at one place");
    }

    #[test]
    fn a_point_stands_at_the_default_of_a_factor_that_it_omits() {
        let text = "title='t'\nboard='host'\n[[experiment]]\nname='e'\n[experiment.factors]\nworkload='files'\n\
                    file_system='tmpfs'\nfile_bytes='1MiB'\nrequests=8\nthreads=[1, 2, 4]\n[[figure]]\nname='f'\n\
                    title='t'\ncaption='c'\nexperiment='e'\nmetric='total_ns'\nshow='value'\nx='threads'\n";
        let study = Study::parse("s.toml", text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path(), []).unwrap();
        for (threads, median) in [("", 10.0), (r#","threads":2"#, 20.0), (r#","threads":4"#, 40.0)] {
            let point = format!(r#"{{"workload":"files"{threads}}}"#);
            let sql = "INSERT INTO main.statistic VALUES ('e', ?1, 'total_ns', 1, ?2, ?2, ?2, ?2, NULL)";
            store.db.execute(sql, (point, median)).unwrap();
        }
        let figure = figure(&store, &study, &study.figures[0]).unwrap();
        let points: Vec<(f64, f64)> = figure.series[0].points.iter().map(|p| (p.x, p.y)).collect();
        assert_eq!(points, [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0)]);
    }
}
