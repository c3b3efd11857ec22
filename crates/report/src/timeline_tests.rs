use super::*;

fn span(start_ns: u64, end_ns: u64, kind: usize, label: &str) -> Span {
    Span { start_ns, end_ns, kind, label: label.into() }
}

fn line(lanes: Vec<(&str, LaneContent)>) -> Timeline {
    Timeline {
        id: "t".into(),
        title: "One run".into(),
        start_ns: 1_000_000,
        end_ns: 2_000_000,
        kinds: vec!["read".into(), "write".into()],
        lanes: lanes.into_iter().map(|(name, content)| Lane { name: name.into(), content }).collect(),
        ..Timeline::default()
    }
}

/// Start and width of each stroke of a path's `d`.
fn strokes(svg: &str, before: &str) -> Vec<(f64, f64)> {
    let path = svg.split_once(before).unwrap().1.split_once('"').unwrap().0;
    let stroke = |s: &str| {
        let (x, rest) = s.split_once(' ').unwrap();
        (x.parse().unwrap(), rest.split_once('h').unwrap().1.parse().unwrap())
    };
    path.split('M').skip(1).map(stroke).collect()
}

#[test]
fn spans_lie_where_their_times_are() {
    // From 1 ms to 2 ms, so that the axis is from 0 to 1 ms on 1100 - 168 - 20 = 912 units.
    let spans = vec![span(1_500_000, 1_750_000, 0, "orders.db, 4 KiB"), span(1_000_000, 1_250_000, 1, "")];
    let drawing = draw(&line(vec![("I/O", LaneContent::Spans(spans))]), 1000, 8000);
    assert_eq!(strokes(&drawing.svg, "class=\"s0\"><path class=\"span\" d=\""), [(168.0 + 456.0, 228.0)]);
    assert_eq!(strokes(&drawing.svg, "class=\"s1\"><path class=\"span\" d=\""), [(168.0, 228.0)]);
    assert!(drawing.svg.contains("<title>read: orders.db, 4 KiB, 250 µs from 500 µs</title>"), "{}", drawing.svg);
    assert!(drawing.svg.contains("<title>write, 250 µs from 0 ns</title>"), "{}", drawing.svg);
    assert_eq!(drawing.rows, [["I/O", "1 read, 1 write", "500 µs", "50.0%"]]);
    assert_eq!(drawing.legend.len(), 2);
}

#[test]
fn kinds_have_colours_of_their_own_and_the_last_tick_fits_in() {
    let kinds: Vec<String> = (0..9).map(|n| format!("kind {n}")).collect();
    let spans = (0..9).map(|n| span(1_000_000, 301_000_000, n, "")).collect();
    let run = Timeline { end_ns: 301_000_000, kinds, ..line(vec![("I/O", LaneContent::Spans(spans))]) };
    let drawing = draw(&run, 1000, 8000);
    let classes: std::collections::BTreeSet<&String> = drawing.legend.iter().map(|(_, class)| class).collect();
    assert_eq!(classes.len(), 9, "{:?}", drawing.legend);
    assert!(drawing.svg.contains("<g class=\"s8\"><path class=\"span\""), "{}", drawing.svg);
    // Six letters of at least 6.5 units around it, on a picture of 1100.
    let label = drawing.svg.split_once(">300 ms</text>").unwrap().0.rsplit_once(" x=\"").unwrap().1;
    let x: f64 = label.split('"').next().unwrap().parse().unwrap();
    assert!(x + 3.0 * 6.5 <= 1100.0 && x > 1070.0, "{x}");
}

#[test]
fn spans_closer_than_a_pixel_are_shaded_by_their_share_and_said_together() {
    // A pixel is 1 ms / 912 = 1.096 us: ten spans of 100 ns, each 1 us after the other.
    let spans = (0..10).map(|i| span(1_100_000 + i * 1000, 1_100_100 + i * 1000, 0, "x")).collect();
    let drawing = draw(&line(vec![("I/O", LaneContent::Spans(spans))]), 1000, 8000);
    // 0.09 pixels each, 0.91 apart, from 91.2 on: pixel 93 has two of them, 8 others have one. None is in full colour.
    let pixels =
        |shade| strokes(&drawing.svg, &format!("class=\"span f{shade}\" d=\"")).iter().map(|s| s.1).sum::<f64>();
    assert_eq!([pixels(1), pixels(2)], [8.0, 1.0]);
    assert!(!drawing.svg.contains("class=\"span\""), "{}", drawing.svg);
    assert!(drawing.svg.contains("<title>9 read; 900 ns in total, from 100 µs to 108 µs</title>"), "{}", drawing.svg);
    assert!(drawing.reading.contains("A pixel is 1.10 µs"), "{}", drawing.reading);
}

#[test]
fn a_row_that_is_a_tenth_covered_is_not_solid() {
    // 400 queries of 100 us, one every 1 ms, on a picture of 912 pixels: what a database run below saturation is.
    let spans = (0..400).map(|i| span(1_000_000 + i * 1_000_000, 1_100_000 + i * 1_000_000, 0, "")).collect();
    let content = LaneContent::Spans(spans);
    let run = Timeline { end_ns: 401_000_000, ..line(vec![("on core", content)]) };
    let drawing = draw(&run, 1000, 1000);
    // What is drawn, by its shade: as much ink as is covered, a tenth, and not the half that a pixel each would be.
    let ink = |shade: usize| {
        let class =
            if shade == SHADES { "class=\"span\" d=\"".into() } else { format!("class=\"span f{shade}\" d=\"") };
        let there = drawing.svg.contains(&class);
        if there { strokes(&drawing.svg, &class).iter().map(|s| s.1).sum::<f64>() } else { 0.0 }
    };
    let covered: f64 = (1..=SHADES).map(|shade| ink(shade) * shade as f64 / SHADES as f64).sum();
    assert!((60.0..150.0).contains(&covered), "{covered} of 912 pixels, {}", drawing.svg);
    assert_eq!(drawing.rows[0][3], "10.0%");
    // And a reader can look closer: every span is there.
    let zoom: serde_json::Value = serde_json::from_str(&drawing.zoom).unwrap();
    assert_eq!(zoom["rows"][0]["spans"].as_array().map(Vec::len), Some(4 * 400));
}

#[test]
fn a_hundred_thousand_spans_stay_small_and_none_is_lost_from_the_table() {
    let many =
        |n: u64| (0..n).map(|i| span(1_000_000 + i * 10, 1_000_004 + i * 10, i as usize % 2, "a label")).collect();
    let sparse = |n: u64| (0..n).map(|i| span(1_000_000 + i * 2400, 1_001_400 + i * 2400, 0, "a label")).collect();
    let lanes = (0..6).map(|i| ("lane", LaneContent::Spans(if i % 2 == 0 { many(100_000) } else { sparse(400) })));
    let drawing = draw(&line(lanes.collect()), 1200, 8000);
    assert!(drawing.svg.len() < 200_000, "{}", drawing.svg.len());
    assert!(drawing.svg.matches("<title>").count() < 2400, "{}", drawing.svg.matches("<title>").count());
    assert_eq!(drawing.rows[0][1], "50\u{202f}000 read, 50\u{202f}000 write");
    // 4 ns of every 10 ns.
    assert_eq!(drawing.rows[0][3], "40.0%");
}

#[test]
fn values_are_steps_that_hold_until_the_next_and_the_unknown_is_a_gap() {
    let steps = vec![(1_000_000, None), (1_250_000, Some(300.0)), (1_500_000, Some(1500.0)), (1_750_000, None)];
    let content = LaneContent::Steps { unit: "MHz".into(), steps };
    let drawing = draw(&line(vec![("CPU 0", content)]), 1000, 8000);
    let path = drawing.svg.split_once("class=\"steps\" d=\"").unwrap().1.split_once('"').unwrap().0;
    // A fifth of the full height of 40 at 300 of 1500 MHz, from a quarter of the width on.
    assert_eq!(path, "M396 46V38H624V46zM624 46V6H852V46z");
    assert!(drawing.svg.contains("<title>300 MHz</title>") && drawing.svg.contains(">1500 MHz<"));
    assert_eq!(drawing.rows[0][1], "2 values, 300 to 1500 MHz");
    let unknown = LaneContent::Steps { unit: "MHz".into(), steps: vec![(1_000_000, None)] };
    assert_eq!(draw(&line(vec![("CPU 0", unknown)]), 1000, 8000).rows[0][1], "unavailable");
}

#[test]
fn odd_time_lines_are_drawn_or_left_out_without_fail() {
    assert_eq!(draw(&line(vec![]), 100, 8000).svg, "");
    let backwards = Timeline { start_ns: 5, end_ns: 1, ..line(vec![("a", LaneContent::Spans(vec![]))]) };
    assert_eq!(draw(&backwards, 100, 8000).svg, "");
    let spans = vec![span(0, u64::MAX, 99, "<script>"), span(1_200_000, 1_200_000, 0, ""), span(0, 10, 0, "before")];
    let drawing = draw(&line(vec![("</title><b>", LaneContent::Spans(spans))]), 100, 8000);
    assert!(!drawing.svg.contains("<script>") && !drawing.svg.contains("<b>") && !drawing.svg.contains("before"));
    assert!(drawing.svg.contains("<title>read, at 200 µs</title>"), "{}", drawing.svg);
    let rows = (0..40).map(|_| ("a", LaneContent::Spans(vec![])));
    assert!(draw(&line(rows.collect()), 100, 8000).reading.contains("16 more rows"));
}
