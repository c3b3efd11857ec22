//! A figure as a line or bar chart: inline SVG, its legend, and the same numbers as a table.

use crate::axis::{Axis, Tick, drawable};
use crate::format::NOTHING;
use crate::joined::{self, is_scatter};
use crate::stacked::Layout;
use crate::svg::{Svg, num};
use pocketstone_study::model::{Figure, Joined, Point, Scale, Series, Source};
use serde::Serialize;

/// Width of the picture, in its own units; the page scales it.
const WIDTH: f64 = 560.0;
/// Height of the plotting area.
const HEIGHT: f64 = 250.0;
/// Room right of the plotting area.
const RIGHT: f64 = 16.0;
/// Between the frame and the outermost points, so that no marker sits on the frame.
const INSET: f64 = 14.0;
/// One line of text, at the size used on phones.
const LINE: f64 = 20.0;
/// Characters of an axis label that fit in one line, at the size used on phones.
const LABEL_CHARS: usize = 52;
/// Width of a digit, at the size used on phones.
const CHAR: f64 = 11.2;

/// A marker for each of eight series, about nine units wide: circle, square, triangle, diamond,
/// triangle downwards, plus, hexagon, cross.
const MARKERS: [&str; 8] = [
    "M-4.4 0a4.4 4.4 0 1 0 8.8 0a4.4 4.4 0 1 0-8.8 0z",
    "M-4-4h8v8h-8z",
    "M0-5.2L5 3.8H-5z",
    "M0-5.8L5.8 0L0 5.8L-5.8 0z",
    "M0 5.2L5-3.8H-5z",
    "M-1.8-5.2h3.6v3.4h3.4v3.6h-3.4v3.4h-3.6v-3.4h-3.4v-3.6h3.4z",
    "M0-5.2L4.5-2.6V2.6L0 5.2L-4.5 2.6V-2.6z",
    "M2.4-5L5-2.4L2.6 0L5 2.4L2.4 5L0 2.6L-2.4 5L-5 2.4L-2.6 0L-5-2.4L-2.4-5L0-2.6z",
];

/// Shades of one colour beside the full one.
const SHADES: usize = 3;

/// What the page shows of a figure.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    /// The picture; empty where there is nothing to draw.
    pub svg: String,
    /// Name, sample of line and marker, and whether a publication reports it.
    pub legend: Vec<Key>,
    /// Whether any point has an interval.
    pub intervals: bool,
    /// Values that have no place in the picture.
    pub undrawn: usize,
    /// One bar of so many is drawn.
    pub every: usize,
    /// Heads of the table: the x axis, then the series.
    pub columns: Vec<String>,
    /// Rows of the table, by ascending x.
    pub rows: Vec<Vec<String>>,
    /// Rows that the table leaves out.
    pub more: usize,
}

/// An entry of the legend.
#[derive(Debug, Serialize)]
pub(crate) struct Key {
    name: String,
    svg: String,
    /// Whether to say that a publication reports it; its name may say so itself.
    paper: bool,
}

/// How a series looks: which colour and marker, and whether dashed and hollow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    number: usize,
    paper: bool,
    /// Which part of a bar, where colours tell bars side by side.
    shade: usize,
}

impl Look {
    pub(crate) fn class(self) -> String {
        let paper = if self.paper { " paper" } else { "" };
        let shade = if self.shade > 0 { format!(" p{}", self.shade.min(SHADES)) } else { String::new() };
        format!("s{}{paper}{shade}", self.number % MARKERS.len())
    }

    /// The ninth series has the first one's colour, but another marker.
    fn marker(self) -> &'static str {
        MARKERS[(self.number + self.number / MARKERS.len()) % MARKERS.len()]
    }
}

/// Draws a figure: at most `markers` points of each series are marked, at most `rows` are listed.
pub(crate) fn draw(figure: &Figure, markers: usize, rows: usize) -> Chart {
    let looks = looks(figure);
    let points = || figure.series.iter().flat_map(|s| &s.points);
    let layout = if figure.stacked { Layout::new(figure, markers * 2) } else { None };
    let placed = |p: &&Point| match figure.stacked {
        true => crate::stacked::placed(figure, p),
        false => drawable(figure.x.scale, p.x) && drawable(figure.y.scale, p.y),
    };
    let bars = !figure.names.is_empty() || figure.stacked;
    let x = match (&layout, bars) {
        (Some(layout), _) => Some(Axis::of_names(&layout.names)),
        (None, true) => points().any(|p| placed(&p)).then(|| Axis::of_names(&figure.names)),
        (None, false) => {
            let ends = figure.beside.iter().flat_map(|b| [b.x_low, b.x_high]).flatten();
            let places = points().filter(placed).map(|p| p.x).chain(ends);
            Axis::new(figure.x.scale, places, false, x_ticks(figure.x.scale))
        }
    };
    let heights: Vec<f64> = match &layout {
        Some(layout) => layout.heights(figure),
        None => points().filter(placed).flat_map(|p| [Some(p.y), p.low, p.high]).flatten().collect(),
    };
    // Above a bar stands its number, unless bars are too many.
    let numbers = bars && layout.as_ref().is_none_or(Layout::has_numbers);
    let heights = heights.into_iter().map(|h| if numbers { h * crate::bars::HEADROOM } else { h });
    let y = Axis::new(figure.y.scale, heights, !is_scatter(figure), 5);
    let svg = match (x, y) {
        (Some(x), Some(y)) => Picture::new(figure, x, y).draw(&looks, markers, layout.as_ref()),
        _ => String::new(),
    };
    let sample = |(series, look): (&Series, &Look)| key(series, *look, bars, figure.joined);
    let legend = figure.series.iter().zip(&looks).map(sample).collect();
    let (columns, table) = if is_scatter(figure) { joined::table(figure) } else { table(figure) };
    let whiskers = || figure.stacks.iter().flat_map(|s| &s.totals);
    Chart {
        svg,
        legend,
        intervals: match figure.stacked {
            true => whiskers().any(interval_known),
            false => points().any(interval_known) || figure.beside.iter().any(|b| b.x_low.or(b.x_high).is_some()),
        },
        undrawn: points().filter(|p| !placed(p)).count(),
        every: layout.map_or(1, |l| l.every),
        columns,
        more: table.len().saturating_sub(rows),
        rows: table.into_iter().take(rows).collect(),
    }
}

fn interval_known(point: &Point) -> bool {
    point.low.is_some() || point.high.is_some()
}

/// How each series looks: with several stacks, a stack has its colour and its parts have shades of it.
fn looks(figure: &Figure) -> Vec<Look> {
    if !figure.stacked || figure.stacks.len() < 2 {
        return looks_of_lines(&figure.series);
    }
    let look = |series| {
        let (number, shade) = Layout::part(&figure.stacks, series).unwrap_or_default();
        Look { number, paper: false, shade }
    };
    (0..figure.series.len()).map(look).collect()
}

fn x_ticks(scale: Scale) -> usize {
    match scale {
        Scale::Log2 => 9,
        Scale::LogDuration => 7,
        _ => 6,
    }
}

/// A paper's series takes the colour and marker of the measured one of the same name, so that the
/// two are compared at a glance; all others get their own.
fn looks_of_lines(series: &[Series]) -> Vec<Look> {
    let plain = |name: &str| {
        let lower = name.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
        words.filter(|w| !["paper", "measured", "the", "reported"].contains(w)).collect::<Vec<_>>().join(" ")
    };
    let mut taken: Vec<(String, usize)> = Vec::new();
    let mut next = 0;
    let mut fresh = || {
        next += 1;
        next - 1
    };
    for s in series.iter().filter(|s| s.source == Source::Measured) {
        taken.push((plain(&s.name), fresh()));
    }
    let mut measured = 0;
    let mut partners = taken.clone();
    series
        .iter()
        .map(|s| match s.source {
            Source::Measured => {
                measured += 1;
                Look { number: taken[measured - 1].1, paper: false, shade: 0 }
            }
            Source::Paper => {
                let partner = partners.iter().position(|(name, _)| !name.is_empty() && *name == plain(&s.name));
                Look { number: partner.map_or_else(&mut fresh, |i| partners.remove(i).1), paper: true, shade: 0 }
            }
        })
        .collect()
}

/// A series' name with its source, unless the name has it already.
pub(crate) fn full_name(series: &Series) -> String {
    match series.source {
        Source::Paper if !series.name.to_lowercase().contains("paper") => format!("{} (paper)", series.name),
        _ => series.name.clone(),
    }
}

fn key(series: &Series, look: Look, bar: bool, joined: Joined) -> Key {
    let mut svg = Svg::default();
    let class = format!("key {}", look.class());
    svg.open("svg", &[("class", &class), ("viewBox", "-17 -8 34 16"), ("aria-hidden", "true")]);
    if bar {
        svg.empty("path", &[("class", "bar"), ("d", "M-8-7h16v14h-16z")]);
    } else {
        if joined != Joined::Not || series.curve {
            svg.empty("path", &[("class", "line"), ("d", "M-17 0h34")]);
        }
        if joined != Joined::Steps && !series.curve {
            svg.empty("path", &[("class", "dot"), ("d", look.marker())]);
        }
    }
    svg.close("svg");
    Key { name: series.name.clone(), svg: svg.finish(), paper: full_name(series) != series.name }
}

pub(crate) struct Picture<'a> {
    pub figure: &'a Figure,
    pub x: Axis,
    pub y: Axis,
    x_label: Vec<String>,
    y_label: Vec<String>,
    left: f64,
    top: f64,
    /// Lines of the names below the picture, one entry for each tick; empty where ticks have numbers.
    names: Vec<Vec<String>>,
}

impl<'a> Picture<'a> {
    fn new(figure: &'a Figure, x: Axis, y: Axis) -> Picture<'a> {
        let longest = y.ticks.iter().map(|t| t.label.chars().count()).max().unwrap_or(0);
        let (x_label, y_label) = (wrap(&figure.x.label), wrap(&figure.y.label));
        let top = y_label.len() as f64 * LINE + 16.0;
        let left = (longest as f64 * CHAR + 16.0).clamp(30.0, 160.0);
        let mut picture = Picture { figure, x, y, x_label, y_label, left, top, names: Vec::new() };
        if figure.stacked || !figure.names.is_empty() {
            let room = (picture.across(1.0) - picture.across(0.0)) / picture.x.ticks.len().max(1) as f64;
            picture.names = crate::names::below(&picture.x.ticks, room, figure.names.is_empty());
        }
        picture
    }

    pub(crate) fn across(&self, at: f64) -> f64 {
        self.left + INSET + at * (WIDTH - RIGHT - 2.0 * INSET - self.left)
    }

    pub(crate) fn down(&self, at: f64) -> f64 {
        self.top + (1.0 - at) * HEIGHT
    }

    /// Where a point lies in the picture, if it can be drawn.
    fn position(&self, point: &Point) -> Option<(f64, f64)> {
        Some((self.across(self.x.place(point.x)?), self.down(self.y.place(point.y)?)))
    }

    fn draw(&self, looks: &[Look], markers: usize, layout: Option<&Layout<'_>>) -> String {
        let bottom = self.top + HEIGHT;
        let height = bottom + 28.0 + self.names_height() + self.x_label.len() as f64 * LINE + 6.0;
        let view = format!("0 0 {WIDTH} {}", num(height));
        let mut svg = Svg::default();
        svg.open("svg", &[("class", "chart"), ("role", "img"), ("aria-label", &self.aria()), ("viewBox", &view)]);
        self.axes(&mut svg, bottom);
        if let Some(layout) = layout {
            self.stacked_bars(&mut svg, looks, layout);
            svg.close("svg");
            return svg.finish();
        }
        if !self.figure.names.is_empty() {
            self.bars(&mut svg, looks);
            svg.close("svg");
            return svg.finish();
        }
        // A paper's lines lie below the measured ones; their markers are larger and show around them.
        for paper in [true, false] {
            for (series, look) in self.figure.series.iter().zip(looks).filter(|(_, look)| look.paper == paper) {
                self.series(&mut svg, series, *look, markers);
            }
        }
        svg.close("svg");
        svg.finish()
    }

    fn axes(&self, svg: &mut Svg, bottom: f64) {
        let right = WIDTH - RIGHT;
        let mut grid = String::new();
        for tick in &self.y.ticks {
            grid += &format!("M{} {}H{}", num(self.left), num(self.down(tick.at)), num(right));
        }
        svg.empty("path", &[("class", "grid"), ("d", &grid)]);
        let mut marks = format!("M{} {}H{}", num(self.left), num(bottom), num(right));
        for tick in &self.x.ticks {
            marks += &format!("M{} {}v5", num(self.across(tick.at)), num(bottom));
        }
        svg.empty("path", &[("class", "axis"), ("d", &marks)]);
        if let Some(zero) = self.y.zero_inside() {
            let line = format!("M{} {}H{}", num(self.left), num(self.down(zero)), num(right));
            svg.empty("path", &[("class", "zero"), ("d", &line)]);
        }
        for tick in &self.y.ticks {
            let (x, y) = (num(self.left - 8.0), num(self.down(tick.at)));
            svg.leaf("text", &[("class", "ty"), ("x", &x), ("y", &y), ("dy", ".35em")], &tick.label);
        }
        self.x_ticks(svg, bottom);
        for (i, line) in self.y_label.iter().enumerate() {
            svg.leaf("text", &[("class", "ly"), ("x", "0"), ("y", &num(15.0 + i as f64 * LINE))], line);
        }
        let middle = num((self.left + right) / 2.0);
        for (i, line) in self.x_label.iter().enumerate() {
            let y = num(bottom + 44.0 + self.names_height() + i as f64 * LINE);
            svg.leaf("text", &[("class", "lx"), ("x", &middle), ("y", &y)], line);
        }
    }

    /// What the names take beyond one line.
    fn names_height(&self) -> f64 {
        let lines = self.names.iter().map(Vec::len).max().unwrap_or(1);
        lines.saturating_sub(1) as f64 * LINE
    }

    fn x_ticks(&self, svg: &mut Svg, bottom: f64) {
        let text = |svg: &mut Svg, class, tick: &Tick, line: usize, text: &str| {
            let (x, y) = (num(self.across(tick.at)), num(bottom + 22.0 + line as f64 * LINE));
            svg.leaf("text", &[("class", class), ("x", &x), ("y", &y)], text);
        };
        if !self.names.is_empty() {
            for (tick, lines) in self.x.ticks.iter().zip(&self.names) {
                for (n, line) in lines.iter().enumerate() {
                    text(svg, "tx", tick, n, line);
                }
            }
            return;
        }
        let wide: usize = self.x.ticks.iter().map(|t| t.label.chars().count() + 1).sum();
        let crowded = wide as f64 * CHAR > WIDTH - RIGHT - self.left;
        for (i, tick) in self.x.ticks.iter().enumerate() {
            // Every second label goes where text is large in comparison, which is on phones.
            let class = if crowded && i % 2 == 1 { "tx odd" } else { "tx" };
            text(svg, class, tick, 0, &tick.label);
        }
    }

    fn series(&self, svg: &mut Svg, series: &Series, look: Look, markers: usize) {
        svg.open("g", &[("class", &look.class())]);
        // Even a line without markers has no more points than anybody can see.
        let points: Vec<&Point> =
            series.points.iter().step_by(series.points.len().div_ceil(markers.max(1) * 5).max(1)).collect();
        let every = points.len().div_ceil(markers.max(1)).max(1);
        let beside = |p: &&Point| Some((joined::beside(self.figure, series, p)?, self.position(p)?));
        let mut whiskers: String = points.iter().step_by(every).filter_map(|p| self.whisker(p)).collect();
        if !self.figure.beside.is_empty() {
            let across = points.iter().step_by(every).filter_map(beside);
            whiskers.extend(across.filter_map(|(b, place)| self.whisker_across(b, place)));
        }
        if !whiskers.is_empty() {
            svg.empty("path", &[("class", "whisker"), ("d", &whiskers)]);
        }
        let (mut line, mut pen) = (String::new(), 'M');
        for point in &points {
            // A value that cannot be drawn leaves a gap.
            let Some((x, y)) = self.position(point) else {
                pen = 'M';
                continue;
            };
            line += &format!("{pen}{} {}", num(x), num(y));
            pen = 'L';
        }
        if self.figure.joined == Joined::Steps {
            line = joined::steps(&points.iter().map(|p| self.position(p)).collect::<Vec<_>>());
        }
        if line.contains(['L', 'H']) && (series.curve || !is_scatter(self.figure)) {
            svg.empty("path", &[("class", "line"), ("d", &line)]);
        }
        if self.figure.joined == Joined::Steps || series.curve {
            // Markers would hide the steps, or what lies on the curve.
            svg.close("g");
            return;
        }
        if !self.figure.beside.is_empty() {
            points.iter().filter_map(beside).for_each(|(b, place)| self.label(svg, b, place));
        }
        for point in points.into_iter().step_by(every) {
            let Some((x, y)) = self.position(point) else { continue };
            let place = format!("translate({},{})", num(x), num(y));
            svg.open("g", &[("class", "pt"), ("transform", &place)]);
            svg.leaf("title", &[], &self.describe(series, point));
            svg.empty("path", &[("class", "dot"), ("d", look.marker())]);
            svg.close("g");
        }
        svg.close("g");
    }

    /// A vertical line from one end of the interval to the other, with a cap at each.
    fn whisker(&self, point: &Point) -> Option<String> {
        let (x, y) = self.position(point)?;
        let end = |value: Option<f64>| value.and_then(|v| self.y.place(v)).map(|at| self.down(at));
        let (low, high) = (end(point.low), end(point.high));
        low.or(high)?;
        let cap = |end: Option<f64>| match end {
            Some(end) => format!("M{} {}h7", num(x - 3.5), num(end)),
            None => String::new(),
        };
        let line = format!("M{} {}V{}", num(x), num(low.unwrap_or(y)), num(high.unwrap_or(y)));
        Some(line + &cap(low) + &cap(high))
    }

    pub(crate) fn describe(&self, series: &Series, point: &Point) -> String {
        let mut text = format!("{}: {} at {}", series.name, self.y.describe(point.y), x_text(self.figure, point.x));
        if let Some(interval) = interval(&self.figure.y.scale, point.low, point.high) {
            text += &format!(" (90% interval {interval})");
        }
        text
    }

    fn aria(&self) -> String {
        let figure = self.figure;
        let names = figure.series.iter().map(full_name);
        let (kind, parts) = match (figure.stacked, figure.names.is_empty()) {
            (true, _) => ("Stacked bar", "Parts"),
            (false, true) if is_scatter(figure) => ("Scatter", "Series"),
            (false, true) => ("Line", "Lines"),
            (false, false) => ("Bar", "Bars"),
        };
        format!(
            "{}. {kind} chart of {} by {}. {parts}: {}. The numbers are in the table below.",
            figure.title,
            figure.y.label,
            figure.x.label,
            names.collect::<Vec<_>>().join("; ")
        )
    }
}

/// A value of the horizontal axis, or its name.
pub(crate) fn x_text(figure: &Figure, x: f64) -> String {
    figure.names.get(x as usize).cloned().unwrap_or_else(|| crate::format::value(figure.x.scale, x))
}

pub(crate) fn interval(scale: &Scale, low: Option<f64>, high: Option<f64>) -> Option<String> {
    low.or(high)?;
    let end = |value: Option<f64>| value.map_or(NOTHING.into(), |v| crate::format::value(*scale, v));
    Some(format!("{} to {}", end(low), end(high)))
}

/// Breaks a label into lines that fit, at spaces where it has any.
fn wrap(label: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in label.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LABEL_CHARS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    // More than three lines leave no room for the picture; the whole label is in the table's head.
    lines.truncate(3);
    for line in &mut lines {
        if line.chars().count() > LABEL_CHARS {
            *line = line.chars().take(LABEL_CHARS - 1).chain(['…']).collect();
        }
    }
    lines
}

/// The figure as a table: a row for each x, a column for each series.
fn table(figure: &Figure) -> (Vec<String>, Vec<Vec<String>>) {
    let mut columns = vec![figure.x.label.clone()];
    columns.extend(figure.series.iter().map(full_name));
    let mut cells: Vec<(f64, usize, String)> = Vec::new();
    for (number, series) in figure.series.iter().enumerate() {
        for point in &series.points {
            let mut text = crate::format::value(figure.y.scale, point.y);
            if let Some(interval) = interval(&figure.y.scale, point.low, point.high) {
                text += &format!(" ({interval})");
            }
            cells.push((point.x, number, text));
        }
    }
    cells.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for (x, number, text) in cells {
        // Several points of one series at the same x go to rows of their own.
        let open = rows.iter_mut().rev().take_while(|r| r.0.total_cmp(&x).is_eq()).find(|r| r.1[number + 1].is_empty());
        match open {
            Some(row) => row.1[number + 1] = text,
            None => {
                let mut row = vec![String::new(); columns.len()];
                row[0] = x_text(figure, x);
                row[number + 1] = text;
                rows.push((x, row));
            }
        }
    }
    (columns, rows.into_iter().map(|r| r.1).collect())
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
