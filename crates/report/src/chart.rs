//! A figure as a line or bar chart: inline SVG, its legend, and the same numbers as a table.

use crate::axis::{Axis, drawable};
use crate::joined;
use crate::picture::{Look, Picture, full_name, interval, is_scatter, x_text};
use crate::stacked::Layout;
use crate::svg::{Svg, num};
use pocketstone_study::views::model::{Figure, Joined, Point, Scale, Series, Source};
use serde::Serialize;
use std::collections::BTreeSet;

/// What the page shows of a figure.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    /// The picture; empty where there is nothing to draw.
    pub svg: String,
    /// Name, sample of line and marker, and whether a publication reports it.
    pub legend: Vec<Key>,
    /// What the whiskers are, where there are any.
    pub whiskers: Option<String>,
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
    Chart {
        svg,
        legend,
        whiskers: whiskers(figure),
        undrawn: points().filter(|p| !placed(p)).count(),
        every: layout.map_or(1, |l| l.every),
        columns,
        more: table.len().saturating_sub(rows),
        rows: table.into_iter().take(rows).collect(),
    }
}

/// What the spreads of a figure are, each in words once.
fn spreads(figure: &Figure) -> BTreeSet<String> {
    let totals = figure.stacks.iter().flat_map(|s| &s.totals);
    let points = figure.series.iter().flat_map(|s| &s.points).filter(|_| !figure.stacked);
    points.chain(totals).filter_map(Point::spread).collect()
}

/// What the whiskers of a figure are; `None` where it has none.
fn whiskers(figure: &Figure) -> Option<String> {
    let totals = figure.stacks.iter().flat_map(|s| &s.totals);
    let points = figure.series.iter().flat_map(|s| &s.points).filter(|_| !figure.stacked);
    let has = |point: &Point| point.low.or(point.high).is_some();
    let across = figure.beside.iter().any(|b| b.x_low.or(b.x_high).is_some());
    if !points.chain(totals).any(has) && !across {
        return None;
    }
    let names: Vec<String> = spreads(figure).into_iter().collect();
    Some(if names.is_empty() { "from the low to the high value".to_owned() } else { names.join(" or ") })
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

impl Picture<'_> {
    fn draw(&self, looks: &[Look], markers: usize, layout: Option<&Layout<'_>>) -> String {
        let mut svg = self.frame();
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
}

/// The figure as a table: a row for each x, a column for each series.
fn table(figure: &Figure) -> (Vec<String>, Vec<Vec<String>>) {
    let mut columns = vec![figure.x.label.clone()];
    columns.extend(figure.series.iter().map(full_name));
    // Where all are of one kind, the caption says which.
    let several = spreads(figure).len() > 1;
    let mut cells: Vec<(f64, usize, String)> = Vec::new();
    for (number, series) in figure.series.iter().enumerate() {
        for point in &series.points {
            let mut text = crate::format::value(figure.y.scale, point.y);
            if let Some(ends) = interval(&figure.y.scale, point.low, point.high) {
                let name = point.spread().filter(|_| several).map_or(String::new(), |name| format!("{name}: "));
                text += &format!(" ({name}{ends})");
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
