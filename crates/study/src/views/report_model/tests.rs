//! What a report says, on results that are written by hand.

use super::*;
use crate::results::stats::Spread;
use crate::specification::metric::Unit;
use crate::views::check::check_queries;
use crate::views::rows::{TracingCost, rows};
use pocketstone_core::origin::Origin;
use rusqlite::params;

const STUDY: &str = r#"
title = "t"
description = ["Saved: {value:saved}, published: {given:20%}.", "Lacking: {value:nothing}."]
board = "virt-nand"
repetitions = 3
[[experiment]]
name = "e"
[experiment.factors]
file_system = "jffs2"
file_bytes = "1MiB"
requests = [16, 64]
read_ahead_bytes = ["128KiB", 0]
[experiment.compare]
factor = "read_ahead_bytes"
baseline = "128KiB"
candidate = 0
[[read_ahead_model]]
name = "rules"
experiment = "e"
[[figure]]
name = "energy"
title = "Energy saved"
caption = "Up to {value:saved}."
experiment = "e"
metric = "modelled_energy_mj"
show = "improvement"
x = "requests"
[[value]]
name = "saved"
value = "SELECT max(median) FROM improvement WHERE metric = 'total_ns'"
unit = "percent"
[[value]]
name = "nothing"
value = "SELECT median FROM summary WHERE metric = 'none'"
[[claim]]
name = "measured"
text = "m"
value = "SELECT max(median) FROM improvement WHERE metric = 'total_ns'"
at_least = 0.9
found = "saves {} of it"
deviation = "It is {value:measured}."
[[claim]]
name = "modelled"
text = "of the old rules"
value = "SELECT min(saving) FROM (SELECT avg(time_saving) AS saving FROM read_ahead_models GROUP BY rules)"
at_least = 0.9
[[claim]]
name = "both"
text = "model and kernel agree"
value = """SELECT max(m.total_ns / v.value) FROM read_ahead_models m JOIN metric v ON v.cell = m.cell
  WHERE v.name = 'total_ns'"""
at_least = 0.5
"#;

fn point(requests: u64) -> String {
    format!(r#"{{"file_system":"jffs2","read_ahead_bytes":0,"requests":{requests}}}"#)
}

/// Results with two points, of three seeds and of one, a saving, and a model of one cell.
fn results(folder: &std::path::Path) -> (Store, Study) {
    let (store, study) = (Store::create(folder, []).unwrap(), Study::parse("s.toml", STUDY).unwrap());
    let put = |table: &str, requests: u64, metric: &str, n: i64, values: [f64; 3]| {
        let sql = format!("INSERT INTO main.{table} VALUES ('e', ?1, ?2, ?3, ?4, ?4, ?5, ?6, NULL)");
        store.db.execute(&sql, params![point(requests), metric, n, values[0], values[1], values[2]]).unwrap();
    };
    put("statistic", 16, "total_ns", 3, [2e6, 1.9e6, 2.1e6]);
    put("statistic", 64, "total_ns", 1, [8e6, 8e6, 8e6]);
    put("statistic", 16, "tracing_cost", 3, [-0.178, -0.2, 0.05]);
    put("statistic", 64, "tracing_cost", 1, [0.04, 0.04, 0.04]);
    put("comparison", 16, "total_ns", 3, [0.6131, 0.6, 0.7]);
    put("comparison", 16, "modelled_energy_mj", 3, [0.6, 0.6, 0.6]);
    store
        .db
        .execute_batch(
            r#"INSERT INTO cell VALUES (1, 'e', '{"file_system":"jffs2","requests":16}', 0, 1, 0, 'done', '{}', NULL,
                 NULL, 1.0, NULL, NULL, NULL);
               INSERT INTO main.metric VALUES (1, 'total_ns', 4e6);
               INSERT INTO read_ahead_model VALUES ('rules', 1, '6.1', 16, 0, NULL, 4e6, 0.5, 0.5);"#,
        )
        .unwrap();
    (store, study)
}

#[test]
fn numbers_in_texts_are_those_of_the_results_and_paragraphs_without_theirs_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, study) = results(folder.path());
    let model = model(&store, &study).unwrap();
    assert_eq!(model.description, ["Saved: 61.3 %, published: 20%."]);
    assert!(model.figures[0].caption.starts_with("Up to 61.3 %."), "{}", model.figures[0].caption);
    let [left] = &model.left_out[..] else { panic!("one paragraph: {:?}", model.left_out) };
    assert!(left.what.contains("The study") && left.why.contains("nothing"), "{left:?}");
}

#[test]
fn numbers_of_models_say_so_wherever_they_stand_in_texts() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    let told = |answer: &str, paragraph: &str, caption: &str| {
        let texts = format!("title = \"t\"\nanswer = {{ text = \"{answer}\", more = [\" And {{value:nothing}}.\"] }}");
        let text = STUDY.replace("title = \"t\"\ndesc", &format!("{texts}\ndesc"));
        let text = text.replace("published: {given:20%}.", paragraph).replace("Up to {value:saved}.", caption);
        let model = model(&store, &Study::parse("s.toml", &text).unwrap()).unwrap();
        (model.answer.unwrap().text, model.description[0].clone(), model.figures[0].caption.clone())
    };
    let (answer, paragraph, caption) =
        told("It saves {value:modelled}.", "a model {value:modelled}, {value:both}.", "{value:modelled} of it.");
    assert_eq!(answer, "It saves 0.5. Modelled, not measured.");
    assert_eq!(paragraph, "Saved: 61.3 %, a model 0.5 (modelled), 1 (modelled in part).");
    assert!(caption.starts_with("0.5 (modelled) of it."), "{caption}");
    let (answer, paragraph, _) = told("{value:modelled}: modelled, not measured.", "{given:20%}.", "None.");
    assert_eq!((&*answer, &*paragraph), ("0.5: modelled, not measured.", "Saved: 61.3 %, 20%."));
}

#[test]
fn a_query_of_several_rows_gives_no_number_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    let several = "SELECT column1 FROM (VALUES (1), (2))";
    let text = STUDY.replace("SELECT max(median) FROM improvement WHERE metric = 'total_ns'", several);
    let model = model(&store, &Study::parse("s.toml", &text).unwrap()).unwrap();
    assert_eq!(model.claims[0].verdict, Verdict::Unavailable);
    assert_eq!(model.claims[0].detail, "its query gives several rows, not one number");
    let left = model.left_out.iter().find(|left| left.why.contains("saved")).unwrap();
    assert!(left.why.contains("(saved, whose query gives several rows)"), "{left:?}");
}

#[test]
fn queries_of_several_columns_and_claims_that_cannot_hold_are_refused_where_they_are() {
    let claim = "at_least = 0.9\nfound";
    for (from, to, words) in [
        (claim, "at_least = 5\nat_most = 2\nfound", "claim `measured` cannot be judged"),
        (claim, "at_least = nan\nfound", "a bound is no number"),
        (claim, "at_most = inf\nfound", "a bound is no number"),
        ("\"SELECT median FROM", "\"SELECT median, n FROM", "value `nothing` gives 2 columns"),
    ] {
        let text = STUDY.replacen(from, to, 1);
        let error = check_queries(&Study::parse("s.toml", &text).unwrap()).unwrap_err().chain();
        assert!(error.contains(words) && error.contains("s.toml:"), "{error}");
    }
    check_queries(&Study::parse("s.toml", &STUDY.replacen(claim, "at_least = 1\nat_most = 1\nfound", 1)).unwrap())
        .unwrap();
}

#[test]
fn a_claim_that_does_not_hold_says_why_and_a_modelled_one_that_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (store, study) = results(folder.path());
    let claims = judge(&store, &study).unwrap();
    assert_eq!(claims[0].deviation.as_deref(), Some("It is 0.613."));
    assert_eq!(claims[0].detail, "saves 0.613 of it; claimed: at least 0.9");
    // No paper and no reason: that is said, too.
    assert_eq!((claims[0].verdict, claims[1].verdict), (Verdict::Explained, Verdict::Unexplained));
    assert_eq!(claims[1].deviation, None);
    assert!(claims[1].detail.starts_with("the number is 0.5; claimed: at least 0.9 ("), "{}", claims[1].detail);
    assert!(claims[1].detail.ends_with("(modelled, not measured)"), "{}", claims[1].detail);
    assert!(claims[2].detail.ends_with("(modelled, alongside measured values)"), "{}", claims[2].detail);
    assert_eq!((claims[2].verdict, &claims[2].deviation), (Verdict::Holds, &None));
}

#[test]
fn on_a_busy_machine_a_claim_that_needs_a_quiet_one_cannot_be_judged() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    let study = |at_least: &str| {
        let quiet = "[[claim]]\nname = \"measured\"\nquiet = \"e\"";
        let text = STUDY.replace("[[claim]]\nname = \"measured\"", quiet);
        Study::parse("s.toml", &text.replacen("at_least = 0.9", at_least, 1)).unwrap()
    };
    let load = |load: f64| {
        let sql = "INSERT INTO main.metric VALUES (1, 'others_load', ?1) ON CONFLICT DO UPDATE SET value = ?1";
        store.db.execute(sql, [load]).unwrap();
    };
    let judged = |at_least: &str| {
        let claim = judge(&store, &study(at_least)).unwrap().remove(0);
        (claim.verdict, claim.deviation.is_some(), claim.detail)
    };
    let (verdict, _, detail) = judged("at_least = 0.9");
    assert!(verdict == Verdict::Explained && detail.ends_with("how quiet the machine was is not known"), "{detail}");
    load(0.1);
    let (verdict, why, detail) = judged("at_least = 0.9");
    assert!(verdict == Verdict::Explained && why, "a quiet machine excuses nothing");
    assert!(detail.ends_with("quiet: other programs used at most 10 % of a processor"), "{detail}");
    // Another cell was too short to tell.
    let cell = |id: u64| {
        let sql = "INSERT INTO cell VALUES (?1, 'e', '{\"requests\":64}', 0, 1, 0, 'done', '{}', NULL, NULL, 1.0, \
                   NULL, NULL, NULL)";
        store.db.execute(sql, [id]).unwrap();
    };
    cell(2);
    let detail = judged("at_least = 0.9").2;
    assert!(!detail.contains("was quiet:") && detail.contains("is known of 1 of 2 cells"), "{detail}");
    store.db.execute("DELETE FROM cell WHERE id = 2", []).unwrap();
    load(1.4);
    let (verdict, why, detail) = judged("at_least = 0.9");
    assert!(verdict == Verdict::CannotTell && !why, "{verdict:?}");
    assert!(detail.contains("in 1 of 1 cells") && detail.ends_with("up to 140 % of a processor"), "{detail}");
    // What holds in spite of it holds.
    assert_eq!(judged("at_least = 0.5").0, Verdict::Holds);
    let error = Study::parse("s.toml", &study("at_least = 0.9").text.replace("quiet = \"e\"", "quiet = \"f\""));
    let error = error.unwrap_err().chain();
    assert!(error.contains("no experiment is named `f`") && error.contains("s.toml:"), "{error}");
}

#[test]
fn three_seeds_have_a_range_and_one_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    let table = results_tables(&store, "e", false).unwrap().remove(0);
    let at = table.columns.iter().position(|c| c == "range of 3").unwrap();
    assert_eq!(table.rows.iter().map(|r| r[at].as_str()).collect::<Vec<_>>(), ["1.90 ms to 2.10 ms", "none"]);
}

#[test]
fn a_cost_of_tracing_that_is_not_above_zero_is_noise() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    let costs = |store: &Store| {
        let table = results_tables(store, "e", false).unwrap().remove(0);
        let costs: Vec<String> = table.rows.iter().map(|r| r.last().unwrap().clone()).collect();
        (costs, table.caption)
    };
    let (found, caption) = costs(&store);
    assert_eq!(found, ["within noise (-17.80 %)", "+4.00 %, one pair"]);
    assert!(caption.contains("within noise if its interval, or the range"), "{caption}");
    let row = |n: i64, median: f64, low, high| Row {
        point: Factors::default(),
        n,
        unit: Unit::Nanoseconds,
        median,
        spread: Spread::known(n as usize, low, high),
    };
    let tracing = TracingCost { decimals: 1, exact: false };
    // One pair, beside untraced runs that differ by a tenth among themselves.
    let untraced = row(3, 100.0, 95.0, 105.0);
    assert_eq!(tracing.text(&row(1, 0.08, 0.08, 0.08), Some(&untraced)), "within noise (+8.0 %)");
    assert_eq!(tracing.text(&row(1, 0.12, 0.12, 0.12), Some(&untraced)), "+12.0 %, one pair");
    assert_eq!(tracing.text(&row(3, 0.08, 0.05, 0.09), Some(&untraced)), "+8.0 %");
    // Where times repeat to the bit nothing is noise.
    store.set_facts([("board.repeats_to_the_bit", "yes")]).unwrap();
    assert_eq!(costs(&store).0, ["-17.80 %", "+4.00 %"]);
}

#[test]
fn a_condition_is_asked_once_of_each_point() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    // Points of one low end: whatever compares each with all others takes a minute.
    let sql = "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 2099)
               INSERT INTO main.statistic SELECT 'e', json_object('requests', i), 'used_bytes', 3, 8, 8, 7, 9, NULL
               FROM n";
    store.db.execute(sql, []).unwrap();
    let began = std::time::Instant::now();
    let of = |only| rows(&store, "statistic", "e", "used_bytes", Some(only)).unwrap().len();
    assert_eq!(of("requests > 0 AND origin = 'measured' AND low = 7"), 2000);
    assert_eq!(of("requests < 110"), 10);
    assert_eq!(of("summary.requests = 110"), 1);
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

#[test]
fn a_share_of_an_energy_has_no_unit_of_energy() {
    let folder = tempfile::tempdir().unwrap();
    let (store, study) = results(folder.path());
    let figure = figure(&store, &study, &study.figures[0]).unwrap();
    assert_eq!((figure.y.label.as_str(), figure.y.scale), ("saved of modelled energy above idle", Scale::Percent));
    assert_eq!(figure.x.label, "number of requests");
    assert!(figure.caption.ends_with("Modelled, not measured."), "{}", figure.caption);
}

#[test]
fn a_figure_that_adds_up_several_points_is_left_out_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    let text = STUDY.replace(
        "[[value]]\nname = \"saved\"",
        "[[figure]]\nname = \"sum\"\ntitle = \"t\"\ncaption = \"c\"\nexperiment = \"e\"\nmetric = \"total_ns\"\n\
         show = \"runs\"\nx = \"repetition\"\n[[value]]\nname = \"saved\"",
    );
    let study = Study::parse("s.toml", &text).unwrap();
    let sql = r#"INSERT INTO cell SELECT column1, 'e', column2, 0, 1, 0, 'done', '{}', NULL, 'd', 1.0, NULL, NULL, NULL
                   FROM (VALUES (91, '{"requests":1}'), (92, '{"requests":2}'));
                 INSERT INTO main.metric VALUES (91, 'total_ns', 1), (92, 'total_ns', 2);"#;
    store.db.execute_batch(sql).unwrap();
    let model = model(&store, &study).unwrap();
    assert_eq!(model.figures.iter().map(|figure| figure.id.as_str()).collect::<Vec<_>>(), ["energy"]);
    let left = model.left_out.iter().find(|left| left.what == "figure `sum`").unwrap();
    assert!(left.why.ends_with("several points at repetition = 1"), "{left:?}");
}

#[test]
fn values_of_a_table_have_the_unit_and_the_origin_of_their_metric() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    let sql = "INSERT INTO main.statistic VALUES ('e', '{}', ?1, 1, ?2, ?2, ?2, ?2, NULL)";
    for (metric, value) in [("used_bytes", 8192.0), ("modelled_energy_mj", 1.5), ("write_amplification", 1.25)] {
        store.db.execute(sql, params![metric, value]).unwrap();
    }
    let of = |table, metrics: &[&'static str]| {
        let (points, origin) = by_point(&store, table, "e", metrics).unwrap();
        let texts = points.iter().flat_map(|(_, found)| found.values().map(Row::text)).collect::<Vec<_>>();
        (texts.join(", "), origin)
    };
    assert_eq!(of("statistic", &["total_ns"]), ("2 ms, 8 ms".into(), Origin::Measured));
    assert_eq!(of("statistic", &["used_bytes", "write_amplification"]), ("8 KiB, 1.250".into(), Origin::Measured));
    assert_eq!(of("statistic", &["modelled_energy_mj"]), ("1.50 mJ".into(), Origin::Modelled));
    assert_eq!(of("statistic", &["used_bytes", "modelled_energy_mj"]).1, Origin::Both);
    // An improvement is a share, whatever it is of.
    assert_eq!(of("comparison", &["total_ns"]), ("61.3 %".into(), Origin::Measured));
    assert_eq!(of("comparison", &["modelled_energy_mj"]), ("60.0 %".into(), Origin::Modelled));
}

#[test]
fn lines_are_joined_along_their_axis_and_a_stack_keeps_what_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    let chart = |kind: &str| {
        let text = format!(
            "{STUDY}[[chart]]\nname='c'\ntitle='t'\ncaption='c'\nkind='{kind}'\nx={{label='x'}}\ny={{label='y'}}\n\
             query=\"SELECT column1 AS series, column2 AS x, column3 AS y, column4 AS label FROM (VALUES \
             ('b', 3, 30, 'last'), ('b', 1, 10, 'first'), ('a', 2, 5, ''), ('b', 2, NULL, ''))\""
        );
        let study = Study::parse("s.toml", &text).unwrap();
        charts::chart(&store, &study, &study.charts[0]).unwrap()
    };
    for kind in ["lines", "steps"] {
        let figure = chart(kind);
        assert_eq!(figure.series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(figure.series[0].points.iter().map(|p| (p.x, p.y)).collect::<Vec<_>>(), [(1.0, 10.0), (3.0, 30.0)]);
        let labels: Vec<(usize, &str)> = figure.beside.iter().map(|b| (b.point, b.label.as_str())).collect();
        assert_eq!(labels, [(0, "first"), (1, "last")]);
    }
    assert_eq!(chart("scatter").series[0].points[0].x, 3.0);
    let parts = chart("stacked-bars").series[0].points.iter().map(|p| p.y.is_nan()).collect::<Vec<_>>();
    assert_eq!(parts, [false, false, true]);
}

#[test]
fn what_counts_operations_of_all_tasks_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = results(folder.path());
    let sql = "INSERT INTO flash_op (cell, number, time_ns, kind, page, pages, pid, task)
               VALUES (1, 0, 5, 'sense', 7, 1, 3, 'workload'), (1, 1, 6, 'sense', 8, 1, 4, 'ubifs_bgt')";
    store.db.execute(sql, []).unwrap();
    let table = tasks_table(&store).unwrap().unwrap();
    assert_eq!(table.rows.len(), 2);
    assert!(table.caption.contains("over time and by block are those of all tasks"), "{}", table.caption);
}

#[test]
fn a_column_says_what_its_ends_are_once_or_in_each_cell() {
    let row = |n: usize| Row {
        point: Factors::default(),
        n: n as i64,
        unit: Unit::Count,
        median: 2.0,
        spread: Spread::known(n, 1.0, 3.0),
    };
    let column = |numbers: &[usize]| {
        let rows: Vec<Row> = numbers.iter().map(|n| row(*n)).collect();
        let column = SpreadColumn::of(rows.iter().map(Some).chain([None]));
        let cells: Vec<String> = rows.iter().map(|row| column.cell(row)).collect();
        (column.head(), cells.join(", "))
    };
    assert_eq!(column(&[3, 3]), ("range of 3".into(), "1 to 3, 1 to 3".into()));
    assert_eq!(column(&[5, 1]), ("93.7% interval".into(), "1 to 3, none".into()));
    assert_eq!(column(&[3, 8]), ("spread".into(), "1 to 3 (range of 3), 1 to 3 (92.9% interval)".into()));
    assert_eq!(column(&[1]), ("spread".into(), "none".into()));
}

#[test]
fn each_kind_of_workload_of_an_experiment_has_its_own_table_of_results() {
    let folder = tempfile::tempdir().unwrap();
    let (store, study) = results(folder.path());
    let put = |workload: &str, metric: &str, value: f64| {
        let point = format!(r#"{{"file_system":"tmpfs","workload":"{workload}"}}"#);
        let sql = "INSERT INTO main.statistic VALUES ('e', ?1, ?2, 1, ?3, ?3, ?3, ?3, NULL)";
        store.db.execute(sql, params![point, metric, value]).unwrap();
    };
    let tables = || {
        let tables = model(&store, &study).unwrap().tables;
        tables.into_iter().filter(|table| table.title.starts_with("Results")).collect::<Vec<_>>()
    };
    let of = |table: &Table| (table.id.clone(), table.title.clone(), table.rows.len());
    // A point that says nothing of its workload reads.
    let alone = tables().iter().map(of).collect::<Vec<_>>();
    assert_eq!(alone, [("results-e".to_owned(), "Results: e".to_owned(), 2)]);
    for (workload, metric) in [("files", "median_ns"), ("command", "total_ns"), ("ycsb-a", "run_ns")] {
        put(workload, metric, 2e6);
        put(workload, "mean_ns", 1e6);
    }
    let mixed = tables();
    let expected = [("reads", 2), ("files", 1), ("commands", 1), ("databases", 1)]
        .map(|(word, rows)| (format!("{word}-results-e"), format!("Results: e ({word})"), rows));
    assert_eq!(mixed.iter().map(of).collect::<Vec<_>>(), expected);
    let has = |table: &Table, column: &str| table.columns.iter().any(|own| own == column);
    assert!(has(&mixed[0], "page senses") && has(&mixed[1], "median latency") && has(&mixed[3], "run"));
    // A command is one call: its time stands there once.
    assert_eq!(mixed[2].rows[0].iter().filter(|cell| *cell == "2 ms").count(), 1);
    // A study's own table takes that one's place where it says so, and has something to show.
    let with = |own: &str, query: &str| {
        let own = format!("[[table]]\nname='own'\ntitle='T'\ncaption='C'\nquery=\"{query}\"\n{own}");
        let study = Study::parse("s.toml", &format!("{STUDY}{own}")).unwrap();
        let tables = model(&store, &study).unwrap().tables;
        tables.iter().filter(|table| table.title.starts_with("Results")).count()
    };
    let taken = "SELECT median FROM summary WHERE metric = 'total_ns'";
    assert_eq!((with("", taken), with("replaces_results=true", taken)), (4, 3));
    assert_eq!(with("replaces_results=true", &format!("{taken} AND n > 9")), 4);
}
