//! A figure as a line or bar chart: inline SVG, its legend, and the same numbers as a table.

use crate::axis::{Axis, drawable, is_below};
use crate::joined;
use crate::numbers::{FOOTROOM, HEADROOM};
use crate::palette::{Palette, subject};
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
    /// Whether its vertical axis is logarithmic.
    pub logarithmic: bool,
    /// The same on the other kind of axis, linear or logarithmic; empty where only one shows anything.
    pub other: String,
    /// The values as CSV, for other programs.
    pub csv: String,
    /// Values that it leaves out.
    pub csv_more: usize,
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

/// How figures of one page are drawn.
#[derive(Debug, Default)]
pub(crate) struct Style {
    /// Points of each series that are marked.
    pub markers: usize,
    /// Rows of a table.
    pub rows: usize,
    /// The colours of the page.
    pub palette: Palette,
    /// Whether figures are drawn on both kinds of vertical axes, where both show something.
    pub both: bool,
}

/// Values that differ by this factor are spread evenly by a logarithmic axis alone: on a linear one of 250 units the
/// least of them is 5 units high.
const WIDE: f64 = 50.0;
/// Below this factor a logarithmic axis shows nothing more.
const NARROW: f64 = 8.0;

/// The heights of what a figure shows that have a place on an axis, ends of intervals included.
pub(crate) fn heights(figure: &Figure) -> Vec<f64> {
    let points = figure.series.iter().flat_map(|s| &s.points);
    let placed = points.filter(|p| drawable(figure.x.scale, p.x) && drawable(figure.y.scale, p.y));
    placed.flat_map(|p| [Some(p.y), p.low, p.high]).flatten().collect()
}

/// The same kind of values on the other kind of axis.
fn other_scale(scale: Scale) -> Option<Scale> {
    match scale {
        Scale::Linear | Scale::Bytes => Some(Scale::Log2),
        Scale::Duration => Some(Scale::LogDuration),
        Scale::Log2 => Some(Scale::Linear),
        Scale::LogDuration => Some(Scale::Duration),
        Scale::Percent | Scale::Percentile => None,
    }
}

fn is_logarithmic(scale: Scale) -> bool {
    matches!(scale, Scale::Log2 | Scale::LogDuration)
}

/// Draws a figure. `also` are values that its vertical axis has to reach, so that figures side by side have one scale.
pub(crate) fn draw(figure: &Figure, style: &Style, also: &[f64]) -> Chart {
    let values = figure.series.iter().flat_map(|s| &s.points).map(|p| p.y).filter(|y| y.is_finite());
    let (least, most) = values.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), y| (a.min(y), b.max(y)));
    // Figures side by side that have one range have one scale.
    let together = also.iter().fold((least, most), |(a, b), &y| (a.min(y), b.max(y)));
    let wide = most / least >= WIDE || together.0 > 0.0 && together.1 / together.0 >= WIDE;
    // An interval that reaches 0 has no end on a logarithmic axis.
    let open = with_ends(figure).filter_map(|p| p.low).any(|low| is_below(Scale::Log2, low));
    let both = !figure.stacked && least > 0.0 && !open && (wide || most / least >= NARROW);
    let other = other_scale(figure.y.scale).filter(|_| both);
    let Some(other) = other else { return draw_on(figure, style, also) };
    let mut on_other = figure.clone();
    on_other.y.scale = other;
    // Numbers that lie far apart are shown by logarithms; a study that asks for those has its reasons.
    let wanted = is_logarithmic(figure.y.scale) || wide;
    let first = if is_logarithmic(figure.y.scale) == wanted { figure } else { &on_other };
    let mut chart = draw_on(first, style, also);
    chart.csv = csv(figure, style.rows);
    if style.both {
        let second = if std::ptr::eq(first, figure) { &on_other } else { figure };
        chart.other = draw_on(second, style, also).svg;
    }
    chart
}

fn draw_on(figure: &Figure, style: &Style, also: &[f64]) -> Chart {
    let (markers, rows) = (style.markers, style.rows);
    let looks = looks(figure, &style.palette);
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
            let places: Vec<f64> = points().filter(placed).map(|p| p.x).chain(ends).collect();
            Axis::new(figure.x.scale, places.iter().copied(), false, x_ticks(figure.x.scale, &places))
        }
    };
    let heights: Vec<f64> = match &layout {
        Some(layout) => layout.heights(figure),
        None => points().filter(placed).flat_map(|p| [Some(p.y), p.low, p.high]).flatten().collect(),
    };
    // Above a bar stands its number, unless bars are too many.
    let numbers = bars && layout.as_ref().is_none_or(Layout::has_numbers);
    let tops = if numbers { heights.clone() } else { Vec::new() };
    let of_a_place = layout.as_ref().map_or(figure.series.len(), |l| l.stacks.len());
    let count = x.as_ref().map_or(0, |x| x.ticks.len()) * of_a_place;
    let mut heights: Vec<f64> = heights.into_iter().chain(also.iter().copied()).collect();
    heights.retain(|&height| drawable(figure.y.scale, height));
    let most = heights.iter().copied().reduce(f64::max).filter(|_| numbers);
    let least = heights.iter().copied().reduce(f64::min).filter(|_| bars && is_logarithmic(figure.y.scale));
    heights.extend(most.map(|most| most * HEADROOM));
    heights.extend(least.map(|least| least / FOOTROOM));
    let y = Axis::new(figure.y.scale, heights, !is_scatter(figure), 5);
    let svg = match (x, y) {
        (Some(x), Some(y)) => Picture::new(figure, x, y, &tops, count).draw(&looks, markers, layout.as_ref()),
        _ => String::new(),
    };
    let sample = |(series, look): (&Series, &Look)| key(series, *look, bars, figure.joined);
    let legend = figure.series.iter().zip(&looks).map(sample).collect();
    let (columns, table) = if is_scatter(figure) { joined::table(figure) } else { table(figure) };
    Chart {
        svg,
        logarithmic: is_logarithmic(figure.y.scale),
        other: String::new(),
        csv: csv(figure, rows),
        csv_more: points().count() - figure.series.iter().map(|s| s.points.len().min(rows)).sum::<usize>(),
        legend,
        whiskers: whiskers(figure),
        undrawn: points().filter(|p| !placed(p)).count() + ends_below(figure),
        every: layout.map_or(1, |l| l.every),
        columns,
        more: table.len().saturating_sub(rows),
        rows: table.into_iter().take(rows).collect(),
    }
}

/// The points whose intervals a figure shows: of stacked bars those of the totals.
fn with_ends(figure: &Figure) -> impl Iterator<Item = &Point> {
    let totals = figure.stacks.iter().flat_map(|s| &s.totals);
    figure.series.iter().flat_map(|s| &s.points).filter(|_| !figure.stacked).chain(totals)
}

/// Ends of drawn intervals that lie below the vertical axis.
fn ends_below(figure: &Figure) -> usize {
    let drawn = with_ends(figure).filter(|p| drawable(figure.y.scale, p.y) && drawable(figure.x.scale, p.x));
    drawn.flat_map(|p| [p.low, p.high]).flatten().filter(|&end| is_below(figure.y.scale, end)).count()
}

/// What the spreads of a figure are, each in words once.
fn spreads(figure: &Figure) -> BTreeSet<String> {
    with_ends(figure).filter_map(Point::spread).collect()
}

/// What the whiskers of a figure are; `None` where it has none.
fn whiskers(figure: &Figure) -> Option<String> {
    let has = |point: &Point| point.low.or(point.high).is_some();
    let across = figure.beside.iter().any(|b| b.x_low.or(b.x_high).is_some());
    if !with_ends(figure).any(has) && !across {
        return None;
    }
    let names: Vec<String> = spreads(figure).into_iter().collect();
    Some(if names.is_empty() { "from the low to the high value".to_owned() } else { names.join(" or ") })
}

/// How each series looks: with several stacks, a stack has its colour and its parts have shades of it.
fn looks(figure: &Figure, palette: &Palette) -> Vec<Look> {
    if !figure.stacked || figure.stacks.len() < 2 {
        return looks_of_lines(&figure.series, palette);
    }
    let numbers = palette.numbers(&figure.stacks.iter().map(|stack| subject(&stack.name)).collect::<Vec<_>>());
    let look = |series| {
        let (stack, shade) = Layout::part(&figure.stacks, series).unwrap_or_default();
        Look { number: numbers[stack], paper: false, shade }
    };
    (0..figure.series.len()).map(look).collect()
}

fn x_ticks(scale: Scale, places: &[f64]) -> usize {
    let ends = places.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &x| (a.min(x), b.max(x)));
    match scale {
        // Between the numbers of two runs there is none.
        Scale::Linear if places.iter().all(|x| x.fract() == 0.0) => ((ends.1 - ends.0) as usize).clamp(1, 6),
        Scale::Log2 => 9,
        Scale::LogDuration => 7,
        _ => 6,
    }
}

/// A paper's series takes the colour and marker of the measured one of the same name, so that the
/// two are compared at a glance; all others get their own.
fn looks_of_lines(series: &[Series], palette: &Palette) -> Vec<Look> {
    let is_paper = |s: &Series| s.source == Source::Paper;
    // The measured ones first: each is a subject of its own, and the partner of one series of a paper.
    let mut own: Vec<usize> = (0..series.len()).filter(|&i| !is_paper(&series[i])).collect();
    let mut partner: Vec<Option<usize>> = vec![None; series.len()];
    let mut free = own.clone();
    for i in (0..series.len()).filter(|&i| is_paper(&series[i])) {
        let name = subject(&series[i].name);
        match free.iter().position(|&m| !name.is_empty() && subject(&series[m].name) == name) {
            Some(at) => partner[i] = Some(free.remove(at)),
            None => own.push(i),
        }
    }
    let numbers = palette.numbers(&own.iter().map(|&i| subject(&series[i].name)).collect::<Vec<_>>());
    let number = |i: usize| own.iter().position(|&o| o == i).map_or(0, |at| numbers[at]);
    let look = |i: usize| Look { number: number(partner[i].unwrap_or(i)), paper: is_paper(&series[i]), shade: 0 };
    (0..series.len()).map(look).collect()
}

/// The values of a figure as they are, a line for each point; what is unavailable is empty. Of each series there are at
/// most so many, so that none is missing.
fn csv<'a>(figure: &'a Figure, rows: usize) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let number = |value: Option<f64>| value.filter(|v| !v.is_nan()).map_or(String::new(), |v| v.to_string());
    let [x, y] = [&figure.x, &figure.y].map(|axis| quoted(&format!("{}{}", axis.label, unit(axis.scale))));
    let mut text = format!("series,{x},{y},low,high,n\n");
    let shown = |series: &'a Series| series.points.iter().take(rows).map(move |point| (series, point));
    for (series, point) in figure.series.iter().flat_map(shown) {
        let x = figure.names.get(point.x as usize).map_or_else(|| point.x.to_string(), |name| quoted(name));
        let ends = [number(Some(point.y)), number(point.low), number(point.high)].join(",");
        let n = point.n.map_or(String::new(), |n| n.to_string());
        text += &format!("{},{x},{ends},{n}\n", quoted(&full_name(series)));
    }
    text
}

/// The unit of bare numbers, which pictures write beside each instead.
fn unit(scale: Scale) -> &'static str {
    match scale {
        Scale::Duration | Scale::LogDuration => " (ns)",
        Scale::Bytes => " (bytes)",
        Scale::Linear | Scale::Log2 | Scale::Percent | Scale::Percentile => "",
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
        self.labels(&mut svg, looks);
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
