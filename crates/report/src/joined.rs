//! Series whose points are not joined by straight lines: scatter plots and steps.

use crate::area::Area;
use crate::format;
use crate::picture::{Look, Picture, full_name, interval, is_scatter};
use crate::svg::{Svg, num};
use pocketstone_study::views::model::{Beside, Figure, Point, Series};

/// What a point has beside its place.
pub(crate) fn beside<'a>(figure: &'a Figure, series: &Series, point: &Point) -> Option<&'a Beside> {
    let number = figure.series.iter().position(|s| std::ptr::eq(s, series))?;
    let at = series.points.iter().position(|p| std::ptr::eq(p, point))?;
    figure.beside.iter().find(|b| b.series == number && b.point == at)
}

/// The path of steps: each value holds until the next point.
pub(crate) fn steps(places: &[Option<(f64, f64)>]) -> String {
    let (mut path, mut pen) = (String::new(), false);
    for place in places {
        match (place, pen) {
            (None, _) => pen = false,
            (Some((x, y)), true) => path += &format!("H{}V{}", num(*x), num(*y)),
            (Some((x, y)), false) => {
                path += &format!("M{} {}", num(*x), num(*y));
                pen = true;
            }
        }
    }
    path
}

impl Picture<'_> {
    /// A horizontal line from one end of the interval of x to the other, with a cap at each.
    pub(crate) fn whisker_across(&self, beside: &Beside, (x, y): (f64, f64)) -> Option<String> {
        let end = |value: Option<f64>| value.and_then(|v| self.x.place(v)).map(|at| self.across(at));
        let (low, high) = (end(beside.x_low), end(beside.x_high));
        low.or(high)?;
        let cap = |end: Option<f64>| match end {
            Some(end) => format!("M{} {}v7", num(end), num(y - 3.5)),
            None => String::new(),
        };
        let line = format!("M{} {}H{}", num(low.unwrap_or(x)), num(y), num(high.unwrap_or(x)));
        Some(line + &cap(low) + &cap(high))
    }

    /// Labels of a scatter plot's points, each where it hides neither another label nor a point nor a line: beside its
    /// point if there is room, else further away with a line to it. Points without a label of their own that are the
    /// only ones of their series have its name.
    pub(crate) fn labels(&self, svg: &mut Svg, looks: &[Look]) {
        if !is_scatter(self.figure) {
            return;
        }
        let (curves, series): (Vec<_>, Vec<_>) = self.figure.series.iter().zip(looks).partition(|(s, _)| s.curve);
        let mut taken = Taken { areas: Vec::new(), points: 0, spots: Vec::new() };
        for (series, _) in &series {
            let places = series.points.iter().filter_map(|point| self.position(point));
            taken.areas.extend(places.map(|(x, y)| Area::around(x, y, MARKER)));
        }
        taken.points = taken.areas.len();
        for (curve, _) in curves {
            let places: Vec<(f64, f64)> = curve.points.iter().filter_map(|point| self.position(point)).collect();
            places.windows(2).for_each(|ends| taken.line(ends[0], ends[1]));
        }
        let alone = series.len() <= NAMED && series.iter().all(|(s, _)| s.points.len() == 1);
        for (series, look) in series {
            for point in &series.points {
                let Some(place) = self.position(point) else { continue };
                let own = beside(self.figure, series, point).map(|b| b.label.as_str()).filter(|l| !l.is_empty());
                let Some(text) = own.or_else(|| alone.then_some(series.name.as_str())) else { continue };
                svg.open("g", &[("class", &look.class())]);
                self.label(svg, text, place, &mut taken);
                svg.close("g");
            }
        }
    }

    fn label(&self, svg: &mut Svg, text: &str, (x, y): (f64, f64), taken: &mut Taken) {
        let width = text.chars().count() as f64 * LETTER;
        let frame = self.plot();
        let around = |distance: f64| {
            TURNS.map(|turn| {
                let (dy, dx) = (f64::from(turn) * std::f64::consts::PI / 16.0).sin_cos();
                (x + dx * distance, y + dy * distance, dx)
            })
        };
        let places = DISTANCES.into_iter().flat_map(|distance| around(distance).map(|place| (distance, place)));
        let area = |px: f64, py: f64, dx: f64| {
            // Text begins at the place or ends there.
            let left = if dx > 0.0 { px } else { px - width };
            Area { left, top: py - HIGH / 2.0, right: left + width, bottom: py + HIGH / 2.0 }
        };
        let fits = |strict: bool, distance: f64, (px, py, dx): (f64, f64, f64)| {
            let area = area(px, py, dx);
            let leader = distance > DISTANCES[0];
            frame.holds(&area) && taken.is_free(&area) && (!leader || taken.is_clear((x, y), (px, py), strict))
        };
        // Among points close together a line may cross another one's mark. Where all is full the name is in the
        // tooltip and the table.
        let find = |strict| places.clone().find(|(distance, place)| fits(strict, *distance, *place));
        let Some((distance, (px, py, dx))) = find(true).or_else(|| find(false)) else { return };
        taken.areas.push(area(px, py, dx));
        if distance > DISTANCES[0] {
            taken.line((x, y), (px, py));
            let line = format!("M{} {}L{} {}", num(x), num(y), num(px), num(py));
            svg.empty("path", &[("class", "leader"), ("d", &line)]);
        }
        let anchor = if dx > 0.0 { "start" } else { "end" };
        let (px, py) = (num(px), num(py));
        let place = [("class", "pl"), ("x", px.as_str()), ("y", py.as_str()), ("dy", ".35em"), ("text-anchor", anchor)];
        svg.leaf("text", &place, text);
    }
}

/// What labels must not hide.
struct Taken {
    /// Points, and behind them labels.
    areas: Vec<Area>,
    /// How many of them are points.
    points: usize,
    /// Places on lines, close to each other.
    spots: Vec<Area>,
}

impl Taken {
    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.spots.extend(along(from, to).map(|(x, y)| Area::around(x, y, SPOT)));
    }

    fn is_free(&self, area: &Area) -> bool {
        !self.areas.iter().chain(&self.spots).any(|other| other.meets(area))
    }

    /// Whether a line from a point to its label crosses no label, and if `strict` no other point.
    fn is_clear(&self, from: (f64, f64), to: (f64, f64), strict: bool) -> bool {
        let own = Area::around(from.0, from.1, MARKER);
        let (points, labels) = self.areas.split_at(self.points);
        let meets = |areas: &[Area], spot: &Area| areas.iter().any(|other| other.meets(spot));
        along(from, to)
            .map(|(x, y)| Area::around(x, y, 0.5))
            .all(|spot| !meets(labels, &spot) && (!strict || spot.meets(&own) || !meets(points, &spot)))
    }
}

/// Places on a line, a few units from each other.
fn along((x, y): (f64, f64), (to_x, to_y): (f64, f64)) -> impl Iterator<Item = (f64, f64)> {
    let steps = ((to_x - x).hypot(to_y - y) / SPOT).ceil().clamp(1.0, 1000.0);
    (0..=steps as usize).map(move |n| {
        let part = n as f64 / steps;
        (x + (to_x - x) * part, y + (to_y - y) * part)
    })
}

/// Series of one point each that are labelled with their names.
const NAMED: usize = 16;
/// Half of the size of a marker.
const MARKER: f64 = 5.0;
/// Half of the room around a line.
const SPOT: f64 = 2.5;
/// Width of a letter and height of a line of a label, at the size used on phones.
const LETTER: f64 = 9.4;
const HIGH: f64 = 17.0;
/// How far from their points labels are tried, and in which directions.
const DISTANCES: [f64; 11] = [9.0, 16.0, 24.0, 36.0, 50.0, 66.0, 84.0, 104.0, 126.0, 150.0, 176.0];
/// In sixteenths of a half turn: beside the point first, then on the slant, then wherever but right above and below.
const TURNS: [u32; 30] =
    [0, 16, 28, 4, 20, 12, 1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 29, 30, 31];

/// A scatter plot as a table: a row for each point.
pub(crate) fn table(figure: &Figure) -> (Vec<String>, Vec<Vec<String>>) {
    let labels = figure.beside.iter().any(|b| !b.label.is_empty());
    let mut columns = vec!["series".to_owned()];
    columns.extend(labels.then(|| "point".to_owned()));
    columns.extend([figure.x.label.clone(), figure.y.label.clone()]);
    let mut rows = Vec::new();
    for series in &figure.series {
        for point in &series.points {
            let beside = beside(figure, series, point);
            let mut row = vec![full_name(series)];
            row.extend(labels.then(|| beside.map(|b| b.label.clone()).unwrap_or_default()));
            let with = |text: String, interval: Option<String>| match interval {
                Some(interval) => format!("{text} ({interval})"),
                None => text,
            };
            let across = beside.and_then(|b| interval(&figure.x.scale, b.x_low, b.x_high));
            row.push(with(format::value(figure.x.scale, point.x), across));
            let down = interval(&figure.y.scale, point.low, point.high);
            row.push(with(format::value(figure.y.scale, point.y), down));
            rows.push(row);
        }
    }
    (columns, rows)
}
