//! What a script needs to draw a part of a time line: its spans and values as numbers, and nothing else.

use pocketstone_study::views::model::{LaneContent, Span, Timeline};
use serde_json::{Value, json};

/// The numbers of a time line whose picture begins at `left` and is `width` wide, with at most about `most` spans;
/// `tops` are where its rows are. Spans, four numbers each: since the start of the one before, length, how much of it
/// is not covered, kind. Values, two each: time and value.
pub(crate) fn data(line: &Timeline, tops: &[f64], left: f64, width: f64, most: usize) -> String {
    let length = line.end_ns.saturating_sub(line.start_ns);
    let mut within = (length / 200_000).max(1);
    let lanes = || line.lanes.iter().zip(tops);
    let spans = |within: u64| -> Vec<Vec<Stretch>> {
        let of = |content: &LaneContent| match content {
            LaneContent::Spans(spans) => stretches(line, spans, within),
            LaneContent::Steps { .. } => Vec::new(),
        };
        lanes().map(|(lane, _)| of(&lane.content)).collect()
    };
    let mut found = spans(0);
    while found.iter().map(Vec::len).sum::<usize>() > most && within < length {
        found = spans(within);
        within *= 2;
    }
    let rows: Vec<Value> = lanes()
        .zip(found)
        .map(|((lane, top), stretches)| match &lane.content {
            LaneContent::Spans(_) => json!({ "top": top, "spans": numbers(&stretches) }),
            LaneContent::Steps { unit: _, steps } => {
                let since = |t: u64| t.clamp(line.start_ns, line.end_ns) - line.start_ns;
                let value = |(time, value): &(u64, Option<f64>)| json!([since(*time), value]);
                json!({ "top": top, "steps": steps.iter().take(most).map(value).collect::<Vec<_>>() })
            }
        })
        .collect();
    json!({ "length": length, "left": left, "width": width, "rows": rows }).to_string()
}

/// Spans of one kind, drawn as one.
struct Stretch {
    start: u64,
    length: u64,
    idle: u64,
    kind: usize,
}

/// The spans of a row by their start; those of a kind that are less than `within` apart are one.
fn stretches(line: &Timeline, spans: &[Span], within: u64) -> Vec<Stretch> {
    let mut sorted: Vec<&Span> =
        spans.iter().filter(|s| s.end_ns >= line.start_ns && s.start_ns <= line.end_ns).collect();
    sorted.sort_by_key(|s| (s.start_ns, s.end_ns));
    let mut found: Vec<Stretch> = Vec::new();
    let mut last: Vec<Option<usize>> = vec![None; sorted.iter().map(|s| s.kind + 1).max().unwrap_or(0)];
    for span in sorted {
        let start = span.start_ns.max(line.start_ns) - line.start_ns;
        let end = span.end_ns.min(line.end_ns) - line.start_ns;
        match last[span.kind].and_then(|n| found.get_mut(n)) {
            Some(s) if within > 0 && start < s.start + s.length + within => {
                s.idle += start.saturating_sub(s.start + s.length);
                s.length = s.length.max(end.saturating_sub(s.start));
            }
            _ => {
                last[span.kind] = Some(found.len());
                found.push(Stretch { start, length: end.saturating_sub(start), idle: 0, kind: span.kind });
            }
        }
    }
    found
}

fn numbers(stretches: &[Stretch]) -> Vec<u64> {
    let mut before = 0;
    let mut four = |s: &Stretch| {
        let since = s.start - before;
        before = s.start;
        [since, s.length, s.idle, s.kind as u64]
    };
    stretches.iter().flat_map(&mut four).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_study::views::model::Lane;

    fn line(spans: Vec<Span>) -> Timeline {
        let lanes = vec![Lane { name: "</script>".into(), content: LaneContent::Spans(spans) }];
        Timeline { start_ns: 1000, end_ns: 1_001_000, lanes, ..Timeline::default() }
    }

    fn spans(n: u64) -> Vec<Span> {
        let span = |i| Span { start_ns: 1000 + i * 100, end_ns: 1010 + i * 100, kind: 0, label: "</script>".into() };
        (0..n).map(span).collect()
    }

    #[test]
    fn every_span_is_there_while_there_are_few() {
        let text = data(&line(spans(3)), &[6.0], 168.0, 912.0, 100);
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["rows"][0]["spans"], json!([0, 10, 0, 0, 100, 10, 0, 0, 100, 10, 0, 0]));
        assert!((json["length"] == 1_000_000, json["rows"][0]["top"] == 6.0) == (true, true) && !text.contains('<'));
    }

    #[test]
    fn of_too_many_the_nearest_are_one_and_what_they_cover_stays() {
        let text = data(&line(spans(10_000)), &[6.0], 168.0, 912.0, 100);
        let json: Value = serde_json::from_str(&text).unwrap();
        let numbers: Vec<u64> = serde_json::from_value(json["rows"][0]["spans"].clone()).unwrap();
        assert!(!numbers.is_empty() && numbers.len() <= 400, "{}", numbers.len());
        let covered: u64 = numbers.chunks(4).map(|s| s[1] - s[2]).sum();
        assert_eq!(covered, 10_000 * 10);
    }
}
