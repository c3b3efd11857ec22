//! Pages in headless Chromium at the widths of windows and of a phone: nothing is cut, and no text lies over another.

use crate::chromium::{WIDTHS, browser, layout_faults};
use crate::sample;
use pocketstone_study::views::model::{Axis, Figure, Joined, Model, Point, Scale, Series, Source, Table};
use pocketstone_testing::or_skip;

fn point(x: f64, y: f64) -> Point {
    Point { x, y, ..Point::default() }
}

fn series(name: &str, points: Vec<Point>) -> Series {
    Series { name: name.into(), source: Source::Measured, points, curve: false }
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), scale }
}

/// Governors close together, as they are at saturation, and the bound through their midst.
fn governors() -> Figure {
    let places = [
        ("conservative", 486.0, 4.0e6),
        ("conservative-legacy", 487.5, 3.95e6),
        ("database", 345.0, 0.85e6),
        ("fixed:50", 342.5, 1.02e6),
        ("interactive", 491.0, 3.99e6),
        ("ondemand", 489.0, 4.06e6),
        ("ondemand-legacy", 485.0, 3.87e6),
        ("performance", 406.0, 0.5e6),
        ("powersave", 511.0, 4.4e6),
        ("schedutil", 506.0, 4.31e6),
    ];
    let mut all: Vec<Series> = places.iter().map(|&(name, x, y)| series(name, vec![point(x, y)])).collect();
    let bound = [(342.0, 4.5e6), (342.4, 1.05e6), (345.0, 0.84e6), (406.0, 0.5e6), (520.0, 0.48e6)];
    all.push(Series { curve: true, ..series("bound", bound.map(|(x, y)| point(x, y)).to_vec()) });
    Figure {
        id: "governors".into(),
        title: "Latency against energy".into(),
        x: axis("energy of the run, mJ (modelled)", Scale::Linear),
        y: axis("mean latency of an operation (modelled)", Scale::Duration),
        series: all,
        joined: Joined::Not,
        ..Figure::default()
    }
}

/// Bars at twelve places, and bars of which the highest reach to the top of a logarithmic axis.
fn bars() -> Vec<Figure> {
    let delays = ["none", "1ms", "2ms", "4ms", "8ms", "16ms", "32ms", "64ms", "6ms", "3ms", "5ms", "lognormal:6ms"];
    let named = |id: &str, names: &[&str], series: Vec<Series>| Figure {
        id: id.into(),
        title: format!("Bars: {id}"),
        x: axis("delay", Scale::Linear),
        y: axis("mean latency of an operation", Scale::Duration),
        names: names.iter().map(|n| (*n).to_owned()).collect(),
        series,
        ..Figure::default()
    };
    let twelve = (0..12).map(|n| point(f64::from(n), 4e5 + 1e5 * f64::from(n))).collect();
    let engines = ["sqlite", "bdb", "h2", "lmdb", "redb"].iter().enumerate();
    let engines = engines.map(|(n, name)| {
        let y = |place: f64| (0.02e6 + place * 0.9e6) * (1.0 + n as f64 * 0.35);
        series(
            name,
            vec![point(0.0, y(0.0)), Point { low: Some(1e6), high: Some(9.9e6), n: Some(5), ..point(1.0, 2.19e6) }],
        )
    });
    vec![
        named("twelve", &delays, vec![series("pocketdata-c", twelve)]),
        named("engines", &["pocketdata-a", "pocketdata-c"], engines.collect()),
    ]
}

/// Times of runs that are far apart, with ticks up to the right end.
fn lines() -> Figure {
    Figure {
        id: "steps".into(),
        title: "Frequency over time".into(),
        x: axis("time since the run's start", Scale::Duration),
        y: axis("frequency, MHz", Scale::Linear),
        series: vec![series("interactive", (0..6).map(|n| point(f64::from(n) * 1e8, 300.0 * f64::from(n))).collect())],
        joined: Joined::Steps,
        ..Figure::default()
    }
}

fn crowded() -> Model {
    let row =
        |n: usize| vec![format!("conservative-legacy, {n}"), "12.3 ms".to_owned(), "a name of some length".to_owned()];
    Model {
        title: "A page whose figures are crowded".into(),
        summary: "What there is to see in one sentence.".into(),
        figures: [vec![governors(), lines()], bars()].concat(),
        tables: vec![Table {
            id: "names".into(),
            title: "Names".into(),
            columns: ["governor", "latency", "name"].map(str::to_owned).into(),
            rows: (0..3).map(row).collect(),
            caption: String::new(),
            origin: Default::default(),
        }],
        ..Model::default()
    }
}

/// What is wrong with a page of this model, at each width.
fn faults(model: &Model) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    std::fs::write(&page, pocketstone_report::html(model).unwrap()).unwrap();
    let at = |width: u32| {
        let found = layout_faults(folder.path(), &page, width, "true").into_iter();
        found.map(move |fault| format!("{width}: {fault}"))
    };
    WIDTHS.into_iter().flat_map(at).collect()
}

#[test]
fn the_check_finds_what_is_wrong() {
    or_skip!(browser());
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("bad.html");
    let bad = "<!DOCTYPE html><body style='margin:0'><div style='width:1200px'>wide</div>\
        <svg class=chart aria-label=P width=300 height=100 viewBox='0 0 300 100' style='overflow:visible'>\
        <text x=10 y=50>one name</text><text x=40 y=52>another</text><text x=270 y=90>outside of it</text>\
        <text class=pl x=100 y=20>struck</text><path class=line d='M90 16H200' stroke=red />\
        <text x=10 y=80 font-size=4>tiny</text></svg>\
        <table><tbody><tr><th style='width:20px;line-height:16px'>a name</th></tr></tbody></table></body>";
    std::fs::write(&page, bad).unwrap();
    let found = layout_faults(folder.path(), &page, 390, "true").join("\n");
    for fault in [
        "the page is 1200 wide",
        "\"another\" lies over text \"one name\"",
        "\"outside of it\" is",
        "a line goes through text.pl \"struck\"",
        "\"tiny\" is 4.0 px high",
        "th \"a name\" wraps",
    ] {
        assert!(found.contains(fault), "{fault} is not in:\n{found}");
    }
}

#[test]
fn a_report_has_room_at_every_width() {
    or_skip!(browser());
    assert_eq!(faults(&sample::model()), [""; 0]);
}

#[test]
fn crowded_figures_have_room_at_every_width_and_every_point_has_its_name() {
    or_skip!(browser());
    let model = crowded();
    let html = pocketstone_report::html(&model).unwrap();
    for series in model.figures[0].series.iter().filter(|s| !s.curve) {
        assert!(html.contains(&format!(">{}</text>", series.name)), "{} has no name in the picture", series.name);
    }
    assert!(html.contains(">none</text>") && html.contains(">lognormal:6ms</text>"));
    assert_eq!(faults(&model), [""; 0]);
}
