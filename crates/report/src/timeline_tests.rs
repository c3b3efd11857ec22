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
    let drawing = draw(&line(vec![("I/O", LaneContent::Spans(spans))]), 1000);
    assert_eq!(strokes(&drawing.svg, "class=\"s0\"><path class=\"span\" d=\""), [(168.0 + 456.0, 228.0)]);
    assert_eq!(strokes(&drawing.svg, "class=\"s1\"><path class=\"span\" d=\""), [(168.0, 228.0)]);
    assert!(drawing.svg.contains("<title>read: orders.db, 4 KiB, 250 us from 500 us</title>"), "{}", drawing.svg);
    assert!(drawing.svg.contains("<title>write, 250 us from 0 ns</title>"), "{}", drawing.svg);
    assert_eq!(drawing.rows, [["I/O", "1 read, 1 write", "500 us", "50.0%"]]);
    assert_eq!(drawing.legend.len(), 2);
}

#[test]
fn spans_closer_than_a_pixel_are_one_and_said_together() {
    // A pixel is 1 ms / 912 = 1.096 us: ten spans of 100 ns, each 1 us after the other.
    let spans = (0..10).map(|i| span(1_100_000 + i * 1000, 1_100_100 + i * 1000, 0, "x")).collect();
    let drawing = draw(&line(vec![("I/O", LaneContent::Spans(spans))]), 1000);
    let runs = strokes(&drawing.svg, "class=\"span\" d=\"");
    assert_eq!(runs.len(), 1);
    // Nine times 1 us, and the last one is a unit wide.
    assert!((runs[0].1 - (9.0 * 0.912 + 1.0)).abs() < 0.1, "{runs:?}");
    assert!(drawing.svg.contains("<title>9 read; 900 ns in all, from 100 us to 108 us</title>"), "{}", drawing.svg);
    assert!(drawing.reading.contains("1.10 us apart"), "{}", drawing.reading);
}

#[test]
fn a_hundred_thousand_spans_stay_small_and_none_is_lost_from_the_table() {
    let many =
        |n: u64| (0..n).map(|i| span(1_000_000 + i * 10, 1_000_004 + i * 10, i as usize % 2, "a label")).collect();
    let sparse = |n: u64| (0..n).map(|i| span(1_000_000 + i * 2400, 1_001_400 + i * 2400, 0, "a label")).collect();
    let lanes = (0..6).map(|i| ("lane", LaneContent::Spans(if i % 2 == 0 { many(100_000) } else { sparse(400) })));
    let drawing = draw(&line(lanes.collect()), 1200);
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
    let drawing = draw(&line(vec![("CPU 0", content)]), 1000);
    let path = drawing.svg.split_once("class=\"steps\" d=\"").unwrap().1.split_once('"').unwrap().0;
    // A fifth of the full height of 40 at 300 of 1500 MHz, from a quarter of the width on.
    assert_eq!(path, "M396 46V38H624V46zM624 46V6H852V46z");
    assert!(drawing.svg.contains("<title>300 MHz</title>") && drawing.svg.contains(">1500 MHz<"));
    assert_eq!(drawing.rows[0][1], "2 values, 300 to 1500 MHz");
    let unknown = LaneContent::Steps { unit: "MHz".into(), steps: vec![(1_000_000, None)] };
    assert_eq!(draw(&line(vec![("CPU 0", unknown)]), 1000).rows[0][1], "unavailable");
}

#[test]
fn odd_time_lines_are_drawn_or_left_out_without_fail() {
    assert_eq!(draw(&line(vec![]), 100).svg, "");
    let backwards = Timeline { start_ns: 5, end_ns: 1, ..line(vec![("a", LaneContent::Spans(vec![]))]) };
    assert_eq!(draw(&backwards, 100).svg, "");
    let spans = vec![span(0, u64::MAX, 99, "<script>"), span(1_200_000, 1_200_000, 0, ""), span(0, 10, 0, "before")];
    let drawing = draw(&line(vec![("</title><b>", LaneContent::Spans(spans))]), 100);
    assert!(!drawing.svg.contains("<script>") && !drawing.svg.contains("<b>") && !drawing.svg.contains("before"));
    assert!(drawing.svg.contains("<title>read, at 200 us</title>"), "{}", drawing.svg);
    let rows = (0..40).map(|_| ("a", LaneContent::Spans(vec![])));
    assert!(draw(&line(rows.collect()), 100).reading.contains("16 more rows"));
}
