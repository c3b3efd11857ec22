use super::*;
use pocketstone_study::views::model::Axis as ModelAxis;

fn point(x: f64, y: f64) -> Point {
    Point { x, y, ..Point::default() }
}

fn series(name: &str, source: Source, points: Vec<Point>) -> Series {
    Series { name: name.into(), source, curve: false, points }
}

fn figure(x: Scale, y: Scale, series: Vec<Series>) -> Figure {
    Figure {
        id: "f".into(),
        title: "Improvement".into(),
        caption: "What to see".into(),
        x: ModelAxis { label: "Requests".into(), scale: x },
        y: ModelAxis { label: "Time per request (ms)".into(), scale: y },
        series,
        ..Figure::default()
    }
}

fn one(points: Vec<Point>) -> Figure {
    figure(Scale::Log2, Scale::Linear, vec![series("a", Source::Measured, points)])
}

fn drawn(figure: &Figure) -> Chart {
    draw(figure, &Style { markers: 200, rows: 400, ..Style::default() }, &[])
}

/// Positions of the markers, read back from the picture.
fn places(svg: &str) -> Vec<(f64, f64)> {
    svg.split("translate(")
        .skip(1)
        .map(|rest| rest.split_once(')').unwrap().0.split_once(',').unwrap())
        .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
        .collect()
}

#[test]
fn greater_values_are_drawn_higher_and_further_right() {
    let chart = drawn(&one(vec![point(1.0, 0.0), point(2.0, 5.0), point(4.0, 7.0), point(64.0, 10.0)]));
    let places = places(&chart.svg);
    assert_eq!(places.len(), 4);
    assert!(places.windows(2).all(|p| p[0].0 < p[1].0 && p[0].1 > p[1].1), "{places:?}");
    // 1, 2 and 4 are evenly spaced, and 5 lies half way between 0 and 10, on 250 units of height.
    assert!((places[1].0 * 2.0 - places[0].0 - places[2].0).abs() < 0.2);
    assert!((places[0].1 - places[3].1 - 250.0).abs() < 0.2);
    assert!((places[1].1 * 2.0 - places[0].1 - places[3].1).abs() < 0.2);
}

#[test]
fn what_is_no_number_leaves_a_gap_and_is_said() {
    let values =
        vec![point(1.0, 1.0), point(2.0, f64::NAN), point(4.0, f64::INFINITY), point(0.0, 1.0), point(8.0, 2.0)];
    let mut figure = one(values);
    figure.series[0].points[0].high = Some(f64::NAN);
    let chart = drawn(&figure);
    assert_eq!(places(&chart.svg).len(), 2);
    assert_eq!(chart.undrawn, 3);
    for text in ["NaN", "inf"] {
        assert!(!chart.svg.contains(text), "{text} in {}", chart.svg);
    }
    assert!(!chart.svg.contains("class=\"line\""), "no line goes across the gap");
    assert_eq!(chart.rows.len(), 5, "the table lists all of them");
}

#[test]
fn nothing_to_draw_is_no_picture() {
    assert_eq!(drawn(&one(vec![])).svg, "");
    assert_eq!(drawn(&one(vec![point(f64::NAN, 1.0)])).svg, "");
    assert_eq!(drawn(&figure(Scale::Linear, Scale::Bytes, vec![])).svg, "");
}

#[test]
fn one_point_and_equal_points_are_drawn() {
    for scale in [Scale::Linear, Scale::Percent, Scale::Duration, Scale::Bytes, Scale::Log2] {
        for value in [0.25, 1e-270, 1e280] {
            let points = vec![point(value, value), point(value, value)];
            let chart = drawn(&figure(scale, scale, vec![series("a", Source::Measured, points)]));
            assert_eq!(places(&chart.svg).len(), 2, "{scale:?} {value}");
        }
    }
}

#[test]
fn intervals_are_whiskers_that_reach_to_their_ends() {
    let mut figure = one(vec![point(1.0, 5.0), point(2.0, 10.0)]);
    (figure.series[0].points[0].low, figure.series[0].points[0].high) = (Some(0.0), Some(10.0));
    figure.series[0].points[0].n = Some(8);
    let chart = drawn(&figure);
    let whisker = chart.svg.split_once("class=\"whisker\" d=\"").unwrap().1.split_once('"').unwrap().0;
    // Down at 0, up at 10, which is where the second point lies: the picture is 250 units high.
    let (x, low, high) = (places(&chart.svg)[0].0, places(&chart.svg)[1].1 + 250.0, places(&chart.svg)[1].1);
    assert!(whisker.starts_with(&format!("M{} {}V{}M", num(x), num(low), num(high))), "{whisker}");
    assert!(chart.svg.contains("a: 5 at 1 (92.9% interval: 0 to 10)"));
    assert_eq!(chart.whiskers.as_deref(), Some("92.9% interval"));
    // Three values have no interval, and ends that nobody said more of are two values.
    figure.series[0].points[0].n = Some(3);
    let chart = drawn(&figure);
    assert!(chart.svg.contains("a: 5 at 1 (range of 3: 0 to 10)"), "{}", chart.svg);
    assert_eq!(chart.whiskers.as_deref(), Some("range of 3"));
    figure.series[0].points[0].n = None;
    let chart = drawn(&figure);
    assert!(chart.svg.contains("a: 5 at 1 (0 to 10)"));
    assert_eq!(chart.whiskers.as_deref(), Some("from the low to the high value"));
    // Of several kinds each is said beside its numbers.
    let mut other = Point { x: 2.0, y: 5.0, low: Some(4.0), high: Some(6.0), n: Some(5) };
    figure.series[0].points[0].n = Some(3);
    figure.series[0].points.push(other);
    let chart = drawn(&figure);
    assert_eq!(chart.whiskers.as_deref(), Some("93.7% interval or range of 3"));
    assert_eq!(chart.rows[0][1], "5 (range of 3: 0 to 10)");
    other.n = Some(1);
    assert_eq!(other.spread(), None);
}

#[test]
fn twelve_lines_have_colours_of_their_own_and_others_have_other_markers() {
    let all: Vec<_> = (0..12).map(|i| series(&format!("n{i}"), Source::Measured, vec![point(1.0, 1.0)])).collect();
    let looks = looks_of_lines(&all, &Palette::default());
    let distinct = |f: fn(&Look) -> String| looks.iter().map(f).collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(distinct(|l| l.class()), 12);
    assert_eq!(distinct(|l| l.marker().to_string()), 8);
    let look = |number: usize| Look { number, paper: false, shade: 0 };
    assert_eq!(look(12).class(), look(0).class());
    assert_ne!(look(12).marker(), look(0).marker());
}

#[test]
fn a_papers_line_is_hollow_and_takes_the_colour_of_its_counterpart() {
    let p = || vec![point(1.0, 1.0), point(2.0, 1.0)];
    let figure = figure(
        Scale::Linear,
        Scale::Linear,
        vec![
            series("Paper: ext4 / off", Source::Paper, p()),
            series("btrfs", Source::Measured, p()),
            series("ext4, off", Source::Measured, p()),
            series("SD card", Source::Paper, p()),
        ],
    );
    let classes: Vec<_> = looks(&figure, &Palette::default()).iter().map(|l| l.class()).collect();
    assert_eq!(classes, ["s1 paper", "s0", "s1", "s2 paper"]);
    let chart = drawn(&figure);
    assert!(chart.svg.find("s1 paper").unwrap() < chart.svg.find("\"s0\"").unwrap(), "papers lie below");
    assert_eq!(chart.columns[1..], ["Paper: ext4 / off", "btrfs", "ext4, off", "SD card (paper)"]);
    assert_eq!(chart.legend.iter().map(|k| k.paper).collect::<Vec<_>>(), [false, false, false, true]);
}

#[test]
fn names_are_text_wherever_they_go() {
    let evil = "</title><script>alert(1)</script>\"'";
    let mut figure = figure(Scale::Linear, Scale::Linear, vec![series(evil, Source::Paper, vec![point(1.0, 2.0)])]);
    (figure.title, figure.x.label, figure.y.label) = (evil.into(), evil.into(), evil.into());
    let chart = drawn(&figure);
    assert!(!chart.svg.contains("<script"));
    assert_eq!(chart.svg.matches('"').count() % 2, 0);
}

#[test]
fn the_table_has_a_row_for_each_x() {
    let mut a = series("a", Source::Measured, vec![point(1.0, 0.25), point(2.0, 0.5)]);
    (a.points[0].low, a.points[0].high) = (Some(0.2), Some(0.3));
    let b = series("b", Source::Paper, vec![point(2.0, 0.75), point(2.0, 0.8)]);
    let chart = drawn(&figure(Scale::Log2, Scale::Percent, vec![a, b]));
    assert_eq!(chart.columns, ["Requests", "a", "b (paper)"]);
    assert_eq!(chart.rows, [["1", "25.0% (20.0% to 30.0%)", ""], ["2", "50.0%", "75.0%"], ["2", "", "80.0%"]]);
}

#[test]
fn long_lines_are_thinned() {
    let chart = draw(
        &one((1..=100_000).map(|i| point(f64::from(i), 1.0)).collect()),
        &Style { markers: 100, rows: 10, ..Style::default() },
        &[],
    );
    assert!(places(&chart.svg).len() <= 100);
    assert!(chart.svg.len() < 100_000, "{}", chart.svg.len());
    assert_eq!((chart.rows.len(), chart.more), (10, 99_990));
}

#[test]
fn each_series_is_in_the_csv_and_what_is_not_is_counted() {
    let line = |name: &str| series(name, Source::Measured, (1..=15).map(|x| point(f64::from(x), 1.0)).collect());
    let figure = figure(Scale::Linear, Scale::Linear, vec![line("a"), line("b"), line("c")]);
    let chart = draw(&figure, &Style { markers: 100, rows: 10, ..Style::default() }, &[]);
    let lines = |name: &str| chart.csv.lines().filter(|l| l.starts_with(&format!("\"{name}\","))).count();
    assert_eq!((["a", "b", "c"].map(lines), chart.csv_more), ([10; 3], 15));
    assert_eq!(drawn(&figure).csv_more, 0);
}

#[test]
fn the_head_of_the_csv_has_the_units_of_its_numbers() {
    let head = |x, y| {
        let mut figure = figure(x, y, vec![series("a", Source::Measured, vec![point(4096.0, 2e6)])]);
        figure.y.label = "median latency".into();
        drawn(&figure).csv.lines().next().unwrap().to_owned()
    };
    let with_units = "series,\"Requests (bytes)\",\"median latency (ns)\",low,high,n";
    assert_eq!([head(Scale::Bytes, Scale::Duration), head(Scale::Bytes, Scale::LogDuration)], [with_units; 2]);
    assert_eq!(head(Scale::Log2, Scale::Linear), "series,\"Requests\",\"median latency\",low,high,n");
}

#[test]
fn the_smallest_bar_of_a_logarithmic_axis_has_a_height_and_stands_on_its_own_tick() {
    let bars = vec![series("a", Source::Measured, vec![point(0.0, 1e4), point(1.0, 7e6)])];
    let mut figure = figure(Scale::Linear, Scale::LogDuration, bars);
    figure.names = vec!["read".into(), "write".into()];
    let svg = drawn(&figure).svg;
    // Where 10 us are written is where the bar of 10 us ends: above 1 us, where it starts.
    let tick = svg.split_once(">10 µs</text>").unwrap().0.rsplit_once(" y=\"").unwrap().1.split('"').next().unwrap();
    let bar = svg.split_once("class=\"bar\" d=\"M").unwrap().1.split('"').next().unwrap();
    let (base, end) = bar.split_once(' ').unwrap().1.split_once('h').unwrap().0.split_once('V').unwrap();
    let number = |text: &str| text.parse::<f64>().unwrap();
    assert!((number(tick) - number(end)).abs() < 0.1 && number(base) - number(end) > 40.0, "{tick} {bar}");
    assert!(svg.contains(">1 µs</text>"), "{svg}");
}

#[test]
fn names_give_bars_from_zero_with_their_numbers_and_a_table_of_names() {
    let bars = |name: &str, ys: [f64; 2]| {
        series(name, Source::Measured, (0..).zip(ys).map(|(x, y)| point(f64::from(x), y)).collect())
    };
    let mut figure = figure(Scale::Linear, Scale::Duration, vec![bars("a", [1e3, 2e3]), bars("b", [4e3, 3e3])]);
    figure.names = vec!["read".into(), "write".into()];
    let chart = drawn(&figure);
    assert_eq!(chart.svg.matches("class=\"bar\"").count(), 4);
    assert!(chart.svg.contains("Bar chart") && chart.svg.contains(">write<"), "{}", chart.svg);
    assert_eq!(chart.svg.matches("class=\"tb over\"").count(), 4, "there is room to write them as they are read");
    assert_eq!(chart.rows.iter().map(|r| r[0].as_str()).collect::<Vec<_>>(), ["read", "write"]);
    assert!(chart.legend.iter().all(|key| key.svg.contains("bar") && !key.svg.contains("line")));
    figure.series.clear();
    assert!(drawn(&figure).svg.is_empty());
}

#[test]
fn a_number_stands_where_its_bar_ends_and_not_where_the_line_over_its_interval_does() {
    let of = |high: f64, names: usize| {
        let ends = Point { x: 0.0, y: 130e3, low: Some(100e3), high: Some(high), n: None };
        let mut figure = figure(Scale::Linear, Scale::Duration, vec![series("a", Source::Measured, vec![ends])]);
        figure.names = (0..names).map(|n| n.to_string()).collect();
        drawn(&figure).svg
    };
    let number = |svg: &str, before: &str| -> f64 {
        svg.split_once(before).unwrap().1.split([' ', 'h', '"']).next().unwrap().parse().unwrap()
    };
    let wide = of(1.2e6, 2);
    let end = number(wide.split_once("class=\"bar\"").unwrap().1, "V");
    let text = wide.split_once("class=\"tb over\"").unwrap().1;
    assert!(text.split_once('<').unwrap().0.ends_with(">130 µs"), "{text}");
    assert!((number(text, " y=\"") - (end - 7.0)).abs() < 0.1, "{text}");
    // An upright number would hide the line: it stands above that.
    let narrow = of(1.2e6, 12);
    let line = number(narrow.split_once("whisker on-bar").unwrap().1, "V");
    assert!(narrow.contains(&format!(",{})rotate(-90)", crate::svg::num(line - 5.0))), "{narrow}");
}

#[test]
fn a_number_above_the_highest_bar_stays_below_the_axis_label() {
    // The tops of plotting areas: where the highest line of the grid is.
    let top = |svg: &str| -> f64 {
        let grid = svg.split_once("class=\"grid\" d=\"").unwrap().1.split('"').next().unwrap();
        let lines = grid.split('M').skip(1).map(|line| line.split([' ', 'H']).nth(1).unwrap().parse::<f64>().unwrap());
        lines.fold(f64::INFINITY, f64::min)
    };
    let bars = |count: usize, high: f64| {
        let one = |n: usize| series(&format!("s{n}"), Source::Measured, vec![point(0.0, high), point(1.0, 1.2e4)]);
        let mut figure = figure(Scale::Linear, Scale::LogDuration, (0..count).map(one).collect());
        figure.names = vec!["read".into(), "write".into()];
        drawn(&figure).svg
    };
    // On an axis from 10 us to 10 ms, 7.6 ms are 0.04 of 250 units from its end. Its number is 7 letters of 10.6 units
    // high, and 8 more above the bar.
    let (low, high) = (bars(5, 2e4), bars(5, 7.6e6));
    assert!(high.contains(">7.60 ms</text>") && high.contains(">10 ms</text>") && !high.contains(">100 ms</text>"));
    let end = top(&high) + (1.0 - 7.6e6f64.log10() + 4.0 + 2.0) * 250.0 / 3.0;
    let label_ends = 15.0 + 5.0;
    assert!(end - 7.0 * 10.6 - 8.0 > label_ends, "{end}");
    assert!(top(&high) > top(&low));
}

#[test]
fn a_scatter_plot_has_points_with_whiskers_both_ways_and_labels_but_no_lines() {
    use pocketstone_study::views::model::{Beside, Joined};
    let at = |x: f64, y: f64| Point { x, y, low: Some(y - 1.0), high: Some(y + 1.0), n: None };
    let beside = Beside { series: 0, point: 1, x_low: Some(15.0), x_high: Some(25.0), label: "here <".into() };
    let figure = Figure {
        joined: Joined::Not,
        beside: vec![beside],
        ..figure(
            Scale::Linear,
            Scale::Linear,
            vec![series("a", Source::Measured, vec![at(10.0, 50.0), at(20.0, 60.0)])],
        )
    };
    let chart = drawn(&figure);
    assert!(places(&chart.svg).len() == 2 && !chart.svg.contains("class=\"line\"") && chart.whiskers.is_some());
    let whiskers = chart.svg.split_once("class=\"whisker\" d=\"").unwrap().1.split_once('"').unwrap().0;
    assert_eq!((whiskers.matches('V').count(), whiskers.matches('H').count()), (2, 1), "{whiskers}");
    assert!(chart.svg.contains("here &lt;</text>"));
    assert_eq!(chart.columns, ["series", "point", "Requests", "Time per request (ms)"]);
    assert_eq!(chart.rows[1], ["a", "here <", "20 (15 to 25)", "60 (59 to 61)"]);
}

#[test]
fn a_curve_in_a_scatter_plot_is_a_line_without_markers() {
    let points = |ys: [f64; 2]| vec![point(10.0, ys[0]), point(20.0, ys[1])];
    let bound = Series { curve: true, ..series("bound", Source::Measured, points([5.0, 4.0])) };
    let all = vec![series("a", Source::Measured, points([50.0, 60.0])), bound];
    let figure =
        Figure { joined: pocketstone_study::views::model::Joined::Not, ..figure(Scale::Linear, Scale::Linear, all) };
    let chart = drawn(&figure);
    assert_eq!((places(&chart.svg).len(), chart.svg.matches("class=\"line\"").count()), (2, 1));
    // In the legend, too.
    let shapes = |n: usize| ["line", "dot"].map(|c| chart.legend[n].svg.contains(&format!("class=\"{c}\"")));
    assert_eq!((shapes(0), shapes(1)), ([false, true], [true, false]));
}

#[test]
fn a_step_holds_its_value_until_the_next_point() {
    let figure = Figure {
        joined: pocketstone_study::views::model::Joined::Steps,
        ..one(vec![point(1.0, 0.0), point(2.0, 10.0)])
    };
    let chart = drawn(&figure);
    let line = chart.svg.split_once("class=\"line\" d=\"").unwrap().1.split_once('"').unwrap().0;
    // Across at the first height, then up at the second place.
    let (start, rest) = line.split_once('H').unwrap();
    assert!(start.starts_with('M') && rest.contains('V') && !line.contains('L'), "{line}");
    assert!(places(&chart.svg).is_empty());
}

#[test]
fn an_interval_that_reaches_zero_is_whole_unless_a_study_asks_for_a_logarithmic_axis() {
    let at = |x: f64, y: f64, low: f64, high: f64| Point { x, y, low: Some(low), high: Some(high), n: Some(5) };
    let points = vec![at(0.0, 1.0, 0.0, 3.0), at(1.0, 100.0, 90.0, 110.0)];
    let with_names = |scale, names: &[&str]| {
        let mut figure = figure(Scale::Linear, scale, vec![series("a", Source::Measured, points.clone())]);
        figure.names = names.iter().map(|&name| name.into()).collect();
        let style = Style { markers: 200, rows: 400, both: true, ..Style::default() };
        draw(&figure, &style, &[])
    };
    // Each whisker as where it starts and where it ends.
    let ends = |svg: &str| -> Vec<[f64; 2]> {
        let paths = svg.split("class=\"whisker").skip(1).map(|rest| rest.split_once("d=\"").unwrap().1);
        let lines = paths.flat_map(|rest| rest.split('"').next().unwrap().split('M').filter(|line| line.contains('V')));
        lines
            .map(|line| line.split([' ', 'V']).skip(1).map(|n| n.parse().unwrap()).collect::<Vec<_>>())
            .map(|ends| [ends[0], ends[1]])
            .collect()
    };
    for names in [&[][..], &["off", "on"]] {
        let linear = with_names(Scale::Linear, names);
        assert!(!linear.logarithmic && linear.other.is_empty() && linear.undrawn == 0);
        assert_eq!(ends(&linear.svg).len(), 2);
        // On the axis that the study asks for, the whisker goes down to the foot, where the axis is.
        let asked = with_names(Scale::Log2, names);
        assert!(asked.logarithmic && asked.undrawn == 1);
        let foot = asked.svg.split_once("class=\"axis\" d=\"M").unwrap().1.split([' ', 'H']).nth(1).unwrap();
        let whiskers = ends(&asked.svg);
        assert_eq!((whiskers.len(), whiskers[0][0]), (2, foot.parse().unwrap()), "{}", asked.svg);
    }
}

#[test]
fn figures_of_one_range_have_one_kind_of_axis() {
    let figure = figure(
        Scale::Linear,
        Scale::Linear,
        vec![series("a", Source::Measured, vec![point(1.0, 10.0), point(2.0, 30.0)])],
    );
    let with = |also: &[f64]| draw(&figure, &Style { markers: 200, rows: 400, ..Style::default() }, also).logarithmic;
    assert!(!with(&[]));
    assert!(!with(&[9.0, 90.0]));
    assert!(with(&[1.0, 60.0]));
    // Another one reaches zero, which no logarithm does.
    assert!(!with(&[0.0, 60.0]));
}
