//! What ran when: a row of spans, or a value over time, for each layer of a run.
//!
//! A picture stays small however many spans there are. Colour is drawn in pixels, the darker the more of a pixel's
//! time is covered. What stands under the pointer is said by areas of some pixels' width.

use crate::axis::Axis;
use crate::format::{self, count, grouped};
use crate::palette::COLOURS;
use crate::shades::{SHADES, shares, stretches};
use crate::svg::{Svg, num};
use crate::zoom;
use pocketstone_study::views::model::{Lane, LaneContent, Scale, Span, Timeline};
use serde::Serialize;

/// Width of the picture, in its own units; a unit is about a pixel on a wide screen.
const WIDTH: f64 = 1100.0;
/// Room for the names of the rows.
const LEFT: f64 = 168.0;
/// Room right of the rows.
const RIGHT: f64 = 20.0;
/// Heights of a row of spans, of a row of values, and between two rows.
const SPANS: f64 = 22.0;
const STEPS: f64 = 40.0;
const GAP: f64 = 12.0;
/// Above the first row.
const TOP: f64 = 6.0;
/// Width of a letter of a tick's label.
const LETTER: f64 = 7.0;
/// Letters of a row's name that have room.
const NAME: usize = 23;
/// Rows that are drawn.
const LANES: usize = 24;
/// Least width of an area that says something, so that a pointer can meet it.
const LEAST_AREA: f64 = 4.0;

/// What the page shows of a time line.
#[derive(Debug, Serialize)]
pub(crate) struct Drawing {
    /// The picture; empty where there is nothing to draw.
    pub svg: String,
    /// Name and class of each kind.
    pub legend: Vec<(String, String)>,
    /// How to read the picture.
    pub reading: String,
    /// What a script needs to draw a part of it; empty where there is nothing to draw.
    pub zoom: String,
    /// Rows of the table: the row's name and what it holds.
    pub rows: Vec<[String; 4]>,
}

/// The horizontal axis: where a time lies.
struct Times<'a> {
    line: &'a Timeline,
    axis: Axis,
}

impl Times<'_> {
    /// Time since the left end; what lies outside is moved to the nearer end.
    fn since(&self, time_ns: u64) -> f64 {
        time_ns.clamp(self.line.start_ns, self.line.end_ns).saturating_sub(self.line.start_ns) as f64
    }

    fn across(&self, time_ns: u64) -> f64 {
        LEFT + self.axis.place(self.since(time_ns)).unwrap_or(0.0) * (WIDTH - LEFT - RIGHT)
    }

    fn text(&self, time_ns: u64) -> String {
        duration(self.since(time_ns))
    }
}

fn duration(ns: f64) -> String {
    format::value(Scale::Duration, ns)
}

/// Draws a time line with at most about `areas` titles, and at most about `spans` spans to zoom in on.
pub(crate) fn draw(line: &Timeline, areas: usize, spans: usize) -> Drawing {
    let length = line.end_ns.saturating_sub(line.start_ns) as f64;
    let lanes = &line.lanes[..line.lanes.len().min(LANES)];
    let axis = Axis::new(Scale::Duration, [0.0, length], true, 8).filter(|_| length > 0.0 && !lanes.is_empty());
    let legend = |(n, kind): (usize, &String)| (kind.clone(), class(n));
    let mut drawing = Drawing {
        svg: String::new(),
        legend: line.kinds.iter().enumerate().map(legend).collect(),
        reading: String::new(),
        zoom: String::new(),
        rows: line.lanes.iter().map(|lane| summary(line, lane)).collect(),
    };
    let Some(axis) = axis else { return drawing };
    let times = Times { line, axis };
    // An area is at least 8 wide, and wider where there would be too many. Wide spans have their own.
    let each = (areas / lanes.len()).max(1) as f64;
    let area = ((WIDTH - LEFT - RIGHT) * 2.0 / each).max(8.0);
    let pixel = times.axis_end() / (WIDTH - LEFT - RIGHT);
    drawing.reading =
        format!("A pixel is {} of the whole run: the darker it is, the more of that time is covered.", duration(pixel));
    if line.lanes.len() > LANES {
        drawing.reading += &format!(" {} more rows are only in the table.", line.lanes.len() - LANES);
    }
    drawing.svg = picture(&times, lanes, area);
    drawing.zoom = zoom::data(line, &tops(lanes), LEFT, WIDTH - LEFT - RIGHT, spans);
    drawing
}

/// Where each row begins.
fn tops(lanes: &[Lane]) -> Vec<f64> {
    let mut top = TOP;
    let next = |lane: &Lane| {
        let own = top;
        top += height(lane) + GAP;
        own
    };
    lanes.iter().map(next).collect()
}

impl Times<'_> {
    /// The value at the axis' right end.
    fn axis_end(&self) -> f64 {
        self.axis.ticks.last().map_or(1.0, |t| t.value)
    }
}

fn class(kind: usize) -> String {
    format!("s{}", kind % COLOURS)
}

fn height(lane: &Lane) -> f64 {
    match lane.content {
        LaneContent::Spans(_) => SPANS,
        LaneContent::Steps { .. } => STEPS,
    }
}

fn picture(times: &Times<'_>, lanes: &[Lane], area: f64) -> String {
    let bottom = TOP + lanes.iter().map(|l| height(l) + GAP).sum::<f64>();
    let view = format!("0 0 {WIDTH} {}", num(bottom + 50.0));
    let names: Vec<&str> = lanes.iter().map(|l| l.name.as_str()).collect();
    let label = format!(
        "{}. Timeline of {}. Rows: {}. The numbers are in the table below.",
        times.line.title,
        times.text(times.line.end_ns),
        names.join("; ")
    );
    let mut svg = Svg::default();
    svg.open("svg", &[("class", "time"), ("role", "img"), ("aria-label", &label), ("viewBox", &view)]);
    let across = |at: f64| LEFT + at * (WIDTH - LEFT - RIGHT);
    let grid: String =
        times.axis.ticks.iter().map(|t| format!("M{} {}V{}", num(across(t.at)), num(TOP - 4.0), num(bottom))).collect();
    svg.open("g", &[("class", "ticks")]);
    svg.empty("path", &[("class", "grid"), ("d", &grid)]);
    for tick in &times.axis.ticks {
        // The last one ends where the picture does.
        let furthest = WIDTH - tick.label.chars().count() as f64 * LETTER / 2.0;
        let (x, y) = (num(across(tick.at).min(furthest)), num(bottom + 20.0));
        svg.leaf("text", &[("class", "tx"), ("x", &x), ("y", &y)], &tick.label);
    }
    svg.close("g");
    for (lane, top) in lanes.iter().zip(tops(lanes)) {
        let middle = num(top + height(lane) / 2.0);
        let mut name: String = lane.name.chars().take(NAME).collect();
        if name.len() < lane.name.len() {
            name = name.chars().take(NAME - 1).chain(['…']).collect();
        }
        svg.leaf("text", &[("class", "ty"), ("x", &num(LEFT - 12.0)), ("y", &middle), ("dy", ".35em")], &name);
        if let LaneContent::Spans(_) = lane.content {
            let empty = format!("M{LEFT} {}H{}", num(top + SPANS / 2.0), num(WIDTH - RIGHT));
            svg.empty("path", &[("class", "lane"), ("d", &empty)]);
        }
        svg.open("g", &[("class", "row")]);
        match &lane.content {
            LaneContent::Spans(spans) => draw_spans(&mut svg, times, spans, top, area),
            LaneContent::Steps { unit, steps } => draw_steps(&mut svg, times, unit, steps, top, area),
        }
        svg.close("g");
    }
    svg.empty("path", &[("class", "axis"), ("d", &format!("M{LEFT} {}H{}", num(bottom), num(WIDTH - RIGHT)))]);
    let middle = num((LEFT + WIDTH - RIGHT) / 2.0);
    svg.leaf(
        "text",
        &[("class", "lx"), ("x", &middle), ("y", &num(bottom + 42.0))],
        "Time since the start of this picture",
    );
    svg.close("svg");
    svg.finish()
}

/// The spans that reach into the picture, by their start.
fn visible<'a>(line: &Timeline, spans: &'a [Span]) -> Vec<&'a Span> {
    let mut spans: Vec<&Span> =
        spans.iter().filter(|s| s.end_ns >= line.start_ns && s.start_ns <= line.end_ns).collect();
    spans.sort_by_key(|s| (s.start_ns, s.end_ns));
    spans
}

fn draw_spans(svg: &mut Svg, times: &Times<'_>, spans: &[Span], top: f64, area: f64) {
    let spans = visible(times.line, spans);
    let kinds = times.line.kinds.len().max(spans.iter().map(|s| s.kind + 1).max().unwrap_or(0));
    for kind in 0..kinds {
        let own = || spans.iter().filter(|s| s.kind == kind);
        let lasting = own().filter(|s| s.end_ns > s.start_ns);
        let placed = lasting.map(|s| (times.across(s.start_ns) - LEFT, times.across(s.end_ns) - LEFT));
        let mut paths = vec![String::new(); SHADES + 1];
        let middle = num(top + SPANS / 2.0);
        for (shade, first, pixels) in stretches(&shares(placed, (WIDTH - LEFT - RIGHT) as usize)) {
            paths[shade] += &format!("M{} {middle}h{pixels}", num(LEFT + first as f64));
        }
        // What takes no time covers nothing: it is a mark, and marks closer than a pixel are one.
        let mut marks: Vec<(f64, f64)> = Vec::new();
        for at in own().filter(|s| s.end_ns == s.start_ns).map(|s| times.across(s.start_ns)) {
            match marks.last_mut() {
                Some(mark) if at < mark.1 + 1.0 => mark.1 = mark.1.max(at + 1.0),
                _ => marks.push((at, at + 1.0)),
            }
        }
        paths[SHADES].extend(marks.iter().map(|(from, to)| format!("M{} {middle}h{}", num(*from), num(to - from))));
        if paths.iter().all(String::is_empty) {
            continue;
        }
        svg.open("g", &[("class", &class(kind))]);
        for (shade, path) in paths.iter().enumerate().rev().filter(|(_, path)| !path.is_empty()) {
            let class = if shade == SHADES { "span".to_owned() } else { format!("span f{shade}") };
            svg.empty("path", &[("class", &class), ("d", path)]);
        }
        svg.close("g");
    }
    svg.open("g", &[("class", "areas")]);
    let mut rest: &[&Span] = &spans;
    while let Some((first, others)) = rest.split_first() {
        let (from, to) = (times.across(first.start_ns), times.across(first.end_ns));
        // Narrow spans that begin within the area belong to it.
        let mut with = 0;
        if to - from < area {
            let narrow = |s: &&Span| times.across(s.end_ns) - times.across(s.start_ns) < area;
            with = others.iter().take_while(|s| narrow(s) && times.across(s.start_ns) < from + area).count();
        }
        let group = &rest[..=with];
        let end = group.iter().map(|s| times.across(s.end_ns)).fold(from, f64::max).max(from + LEAST_AREA);
        let place = format!("M{} {}h{}", num(from), num(top + SPANS / 2.0), num(end - from));
        svg.open("path", &[("d", &place)]);
        svg.leaf("title", &[], &describe(times, group));
        svg.close("path");
        rest = &rest[group.len()..];
    }
    svg.close("g");
}

/// What an area says: of one span all, of several how many of each kind and how long in all.
fn describe(times: &Times<'_>, spans: &[&Span]) -> String {
    let kind = |n: usize| times.line.kinds.get(n).map_or("other", String::as_str);
    let took = |s: &Span| s.end_ns.saturating_sub(s.start_ns) as f64;
    if let [span] = spans {
        let label: String = span.label.chars().take(160).collect();
        let what = if label.is_empty() { kind(span.kind).to_owned() } else { format!("{}: {label}", kind(span.kind)) };
        return match took(span) {
            0.0 => format!("{what}, at {}", times.text(span.start_ns)),
            ns => format!("{what}, {} from {}", duration(ns), times.text(span.start_ns)),
        };
    }
    let mut kinds: Vec<usize> = spans.iter().map(|s| s.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let number = |k: &usize| format!("{} {}", count(spans.iter().filter(|s| s.kind == *k).count() as u64), kind(*k));
    let what = kinds.iter().map(number).collect::<Vec<_>>().join(", ");
    let sum: f64 = spans.iter().map(|s| took(s)).sum();
    let last = spans.iter().map(|s| s.end_ns).max().unwrap_or(0);
    let when = format!("from {} to {}", times.text(spans[0].start_ns), times.text(last));
    if sum > 0.0 { format!("{what}; {} in total, {when}", duration(sum)) } else { format!("{what}, {when}") }
}

fn draw_steps(svg: &mut Svg, times: &Times<'_>, unit: &str, steps: &[(u64, Option<f64>)], top: f64, area: f64) {
    let known = || steps.iter().filter_map(|s| s.1).filter(|v| v.is_finite());
    let high = known().fold(0.0, f64::max);
    let low = known().fold(0.0, f64::min);
    if known().next().is_none() {
        return;
    }
    let range = if high > low { high - low } else { 1.0 };
    let down = |value: f64| top + STEPS - (value - low) / range * STEPS;
    // Each value until the next one, the last to the right end.
    let ends = steps.iter().skip(1).map(|s| s.0).chain([times.line.end_ns]);
    let holds: Vec<(f64, f64, f64)> = steps
        .iter()
        .zip(ends)
        .filter_map(|(&(from, value), to)| Some((from, to.max(from), value.filter(|v| v.is_finite())?)))
        .filter(|(from, to, _)| *to >= times.line.start_ns && *from <= times.line.end_ns)
        .map(|(from, to, value)| (times.across(from), times.across(to), value))
        .collect();
    // Within one pixel only the lowest and the highest value can be seen.
    let mut pixels: Vec<(f64, f64, f64, f64)> = Vec::new();
    for &(from, to, value) in &holds {
        match pixels.last_mut() {
            Some(p) if to - p.0 < 1.0 || (to - from < 1.0 && from - p.0 < 1.0) => {
                *p = (p.0, p.1.max(to), p.2.min(value), p.3.max(value));
            }
            _ => pixels.push((from, to, value, value)),
        }
    }
    let mut path = String::new();
    for (from, to, low, high) in &pixels {
        path +=
            &format!("M{} {}V{}H{}V{}z", num(*from), num(top + STEPS), num(down(*high)), num(*to), num(top + STEPS));
        if low < high {
            path += &format!("M{} {}V{}", num(*from), num(down(*low)), num(down(*high)));
        }
    }
    svg.open("g", &[("class", "s0")]);
    svg.empty("path", &[("class", "steps"), ("d", &path)]);
    svg.close("g");
    svg.open("g", &[("class", "areas high")]);
    let mut rest: &[(f64, f64, f64)] = &holds;
    while let Some((first, others)) = rest.split_first() {
        let narrow = |h: &&(f64, f64, f64)| h.1 - h.0 < area && h.0 < first.0 + area;
        let with = if first.1 - first.0 < area { others.iter().take_while(narrow).count() } else { 0 };
        let group = &rest[..=with];
        let end = group.iter().map(|h| h.1).fold(first.0 + LEAST_AREA, f64::max);
        let values = || group.iter().map(|h| h.2);
        let text = |value: f64| format!("{} {unit}", format::value(Scale::Linear, value));
        let title = match (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max)) {
            (low, high) if low == high => text(high),
            (low, high) => format!("{} values, {} to {}", group.len(), text(low), text(high)),
        };
        let place = format!("M{} {}h{}", num(first.0), num(top + STEPS / 2.0), num(end - first.0));
        svg.open("path", &[("d", &place)]);
        svg.leaf("title", &[], &title);
        svg.close("path");
        rest = &rest[group.len()..];
    }
    svg.close("g");
    let scale = format!("{} {unit}", format::value(Scale::Linear, high));
    let (x, y) = (num(LEFT - 12.0), num(top + 2.0));
    svg.leaf("text", &[("class", "ty small"), ("x", &x), ("y", &y), ("dy", ".35em")], &scale);
}

/// A row of the table: name, what is in it, the time it takes, its part of the picture's time.
fn summary(line: &Timeline, lane: &Lane) -> [String; 4] {
    let nothing = || format::NOTHING.to_owned();
    match &lane.content {
        LaneContent::Spans(spans) => {
            let spans = visible(line, spans);
            let length = line.end_ns.saturating_sub(line.start_ns);
            let mut kinds: Vec<usize> = spans.iter().map(|s| s.kind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let number = |k: &usize| {
                let kind = line.kinds.get(*k).map_or("other", String::as_str);
                format!("{} {kind}", count(spans.iter().filter(|s| s.kind == *k).count() as u64))
            };
            let what = match kinds.is_empty() {
                true => "none".to_owned(),
                false => kinds.iter().map(number).collect::<Vec<_>>().join(", "),
            };
            // Spans may overlap; what they cover together is what counts.
            let mut covered = 0;
            let mut reached = line.start_ns;
            for span in &spans {
                let (from, to) = (span.start_ns.max(reached), span.end_ns.min(line.end_ns));
                covered += to.saturating_sub(from);
                reached = reached.max(to);
            }
            if spans.iter().all(|s| s.start_ns == s.end_ns) {
                return [lane.name.clone(), what, nothing(), nothing()];
            }
            let part = if length > 0 { covered as f64 / length as f64 } else { f64::NAN };
            [lane.name.clone(), what, duration(covered as f64), format::value(Scale::Percent, part)]
        }
        LaneContent::Steps { unit, steps } => {
            let known = || steps.iter().filter_map(|s| s.1).filter(|v| v.is_finite());
            let text = |value: f64| format::value(Scale::Linear, value);
            let what = match known().count() as u64 {
                0 => "unavailable".to_owned(),
                n => {
                    let (low, high) = (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max));
                    format!("{}, {} to {} {unit}", grouped(n, "value"), text(low), text(high))
                }
            };
            [lane.name.clone(), what, nothing(), nothing()]
        }
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
