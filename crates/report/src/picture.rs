//! The picture of a figure: its frame, its axes, and where things lie in it.

use crate::area::Area;
use crate::axis::{Axis, Tick};
use crate::format::NOTHING;
use crate::names::Names;
use crate::numbers::GROUP;
use crate::palette::COLOURS;
use crate::svg::{Svg, num};
use pocketstone_study::views::model::{Figure, Joined, Point, Scale, Series, Source};

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

/// How a series looks: which colour and marker, and whether dashed and hollow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub number: usize,
    pub paper: bool,
    /// Which part of a bar, where colours tell bars side by side.
    pub shade: usize,
}

impl Look {
    pub(crate) fn class(self) -> String {
        let paper = if self.paper { " paper" } else { "" };
        let shade = if self.shade > 0 { format!(" p{}", self.shade.min(SHADES)) } else { String::new() };
        format!("s{}{paper}{shade}", self.number % COLOURS)
    }

    /// Series with one colour, or one marker, differ in the other.
    pub(crate) fn marker(self) -> &'static str {
        MARKERS[(self.number + self.number / COLOURS) % MARKERS.len()]
    }
}

/// Whether a figure has neither bars nor lines between its points.
pub(crate) fn is_scatter(figure: &Figure) -> bool {
    figure.joined == Joined::Not && figure.names.is_empty() && !figure.stacked
}

/// A series' name with its source, unless the name has it already.
pub(crate) fn full_name(series: &Series) -> String {
    match series.source {
        Source::Paper if !series.name.to_lowercase().contains("paper") => format!("{} (paper)", series.name),
        _ => series.name.clone(),
    }
}

/// What is free above a value.
fn free(axis: &Axis, value: f64) -> f64 {
    axis.place(value).map_or(HEIGHT, |at| (1.0 - at) * HEIGHT)
}

pub(crate) struct Picture<'a> {
    pub figure: &'a Figure,
    pub x: Axis,
    pub y: Axis,
    x_label: Vec<String>,
    y_label: Vec<String>,
    left: f64,
    top: f64,
    names: Names,
}

impl<'a> Picture<'a> {
    /// `tops` are the upper ends of bars, of which there are so many, where numbers stand above them.
    pub(crate) fn new(figure: &'a Figure, x: Axis, y: Axis, tops: &[f64], bars: usize) -> Picture<'a> {
        let longest = y.ticks.iter().map(|t| t.label.chars().count()).max().unwrap_or(0);
        let (x_label, y_label) = (wrap(&figure.x.label), wrap(&figure.y.label));
        let left = (longest as f64 * CHAR + 16.0).clamp(30.0, 160.0);
        let step = (WIDTH - RIGHT - 2.0 * INSET - left) * GROUP / bars.max(1) as f64;
        let above = tops.iter().map(|&end| crate::numbers::number_height(&y.describe(end), step) - free(&y, end));
        let top = y_label.len() as f64 * LINE + 16.0 + above.fold(0.0, f64::max);
        let mut picture = Picture { figure, x, y, x_label, y_label, left, top, names: Names::default() };
        if figure.stacked || !figure.names.is_empty() {
            let room = (picture.across(1.0) - picture.across(0.0)) / picture.x.ticks.len().max(1) as f64;
            let first = picture.across(0.0) + room / 2.0;
            picture.names = crate::names::below(&picture.x.ticks, room, first, figure.names.is_empty());
        }
        picture
    }

    pub(crate) fn across(&self, at: f64) -> f64 {
        self.left + INSET + at * (WIDTH - RIGHT - 2.0 * INSET - self.left)
    }

    pub(crate) fn down(&self, at: f64) -> f64 {
        self.top + (1.0 - at) * HEIGHT
    }

    /// The plotting area.
    pub(crate) fn plot(&self) -> Area {
        Area { left: self.left, top: self.top, right: WIDTH, bottom: self.top + HEIGHT }
    }

    /// Where a point lies in the picture, if it can be drawn.
    pub(crate) fn position(&self, point: &Point) -> Option<(f64, f64)> {
        Some((self.across(self.x.place(point.x)?), self.down(self.y.place(point.y)?)))
    }

    /// The picture's beginning: its frame and axes, with their labels.
    pub(crate) fn frame(&self) -> Svg {
        let bottom = self.top + HEIGHT;
        let height = bottom + 28.0 + self.names.height(LINE) + self.x_label.len() as f64 * LINE + 6.0;
        let view = format!("0 0 {WIDTH} {}", num(height));
        let mut svg = Svg::default();
        svg.open("svg", &[("class", "chart"), ("role", "img"), ("aria-label", &self.aria()), ("viewBox", &view)]);
        self.axes(&mut svg, bottom);
        svg
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
            let y = num(bottom + 44.0 + self.names.height(LINE) + i as f64 * LINE);
            svg.leaf("text", &[("class", "lx"), ("x", &middle), ("y", &y)], line);
        }
    }

    fn x_ticks(&self, svg: &mut Svg, bottom: f64) {
        let text = |svg: &mut Svg, class, tick: &Tick, line: usize, text: &str| {
            // The last one ends where the picture does.
            let furthest = WIDTH - text.chars().count() as f64 * CHAR / 2.0;
            let (x, y) = (num(self.across(tick.at).min(furthest)), num(bottom + 22.0 + line as f64 * LINE));
            svg.leaf("text", &[("class", class), ("x", &x), ("y", &y)], text);
        };
        if self.names.turned > 0 {
            for (tick, line) in self.x.ticks.iter().zip(self.names.lines.iter().flatten()) {
                let (x, y) = (num(self.across(tick.at) + 4.0), num(bottom + 14.0));
                let turned = format!("translate({x},{y})rotate(-{})", self.names.turned);
                svg.leaf("text", &[("class", "ty"), ("transform", &turned), ("dy", ".35em")], line);
            }
            return;
        }
        if !self.names.lines.is_empty() {
            for (tick, lines) in self.x.ticks.iter().zip(&self.names.lines) {
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

    /// How far down an end of an interval lies.
    pub(crate) fn end(&self, value: Option<f64>) -> Option<f64> {
        Some(self.down(self.y.place_of_end(value?)?))
    }

    /// A vertical line from one end of the interval to the other, with a cap at each.
    pub(crate) fn whisker(&self, point: &Point) -> Option<String> {
        let (x, y) = self.position(point)?;
        let (low, high) = (self.end(point.low), self.end(point.high));
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
        if let Some(ends) = interval(&self.figure.y.scale, point.low, point.high) {
            let name = point.spread().map_or(String::new(), |name| format!("{name}: "));
            text += &format!(" ({name}{ends})");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_are_wrapped_and_cut() {
        let lines = wrap(&"improvement of read-ahead off over on ".repeat(10));
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|l| l.chars().count() <= LABEL_CHARS));
        assert_eq!(wrap(&"x".repeat(80))[0].chars().count(), LABEL_CHARS);
        assert!(wrap("").is_empty());
    }
}
